//! `cenote bench steps`: what a row costs by the number of rows of its epoch, on a view of many groups.

use super::clock::{percentile_us, resident_bytes};
use super::data::{self, BATCH_ROWS, Column, Generator, Shape};
use super::feed::{Batches, CONNECTOR, Measured, Pace, Stretch};
use super::subject::Subject;
use super::{block_on, disagree, rounded};
use arrow::array::RecordBatch;
use cenote_query::Answers;
use cenote_statestore::Result;
use serde_json::{Value, json};

/// CPU of a row by the size of its epoch, on a view of many groups; memory of the groups
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cenote bench steps --groups 1000000 --sizes 1,100,1000,100000 --deletes")]
pub struct Options {
    /// Groups of the view before the first step
    #[arg(long, default_value_t = 1_000_000, env = "CENOTE_BENCH_GROUPS", value_parser = clap::value_parser!(u64).range(1..))]
    groups: u64,
    /// Rows of an epoch; none: only the groups are made
    #[arg(long, value_delimiter = ',', default_value = "1,100,1000,100000", env = "CENOTE_BENCH_SIZES", num_args = 0..)]
    sizes: Vec<u64>,
    /// Rows for each size, in at least 5 and at most 5000 epochs
    #[arg(long, default_value_t = 1_000_000, env = "CENOTE_BENCH_ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// Each row replaces one that is there: a delete and an insert in other groups
    #[arg(long, env = "CENOTE_BENCH_DELETES", value_parser = clap::builder::FalseyValueParser::new())]
    deletes: bool,
    /// Keep only a count for each group, no sum
    #[arg(long, env = "CENOTE_BENCH_COUNT", value_parser = clap::builder::FalseyValueParser::new())]
    count: bool,
    /// Worker threads of the dataflow engine
    #[arg(long, default_value_t = 1, env = "CENOTE_BENCH_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Epochs that stay readable behind the newest
    #[arg(long, default_value_t = 1, env = "CENOTE_BENCH_RETAIN_EPOCHS")]
    retain_epochs: u64,
}

/// Epochs of a size: enough for a figure, and no more than that takes.
const EPOCHS_MIN: u64 = 5;
const EPOCHS_MAX: u64 = 5000;

impl Options {
    fn query(&self) -> &'static str {
        match self.count {
            true => "SELECT k, count(*) AS n FROM s GROUP BY k",
            false => "SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k",
        }
    }

    fn generator(&self) -> Generator {
        let in_steps: Vec<Column> = vec![data::random_key, data::amount];
        let id: Column = |row, shape| (data::scramble(row) % shape.keys) as i64;
        Generator {
            schema: data::schema(if self.deletes { &["id", "k", "v"] } else { &["k", "v"] }),
            columns: if self.deletes {
                [vec![id], in_steps].concat()
            } else {
                in_steps
            },
            shape: Shape { keys: self.groups },
        }
    }

    /// One row for each group.
    fn loading(&self) -> Stretch {
        let each: Vec<Column> = vec![data::key_in_turn, data::amount];
        let id: Column = |row, _| row as i64;
        let generator = Generator {
            columns: if self.deletes { [vec![id], each].concat() } else { each },
            ..self.generator()
        };
        Stretch {
            batches: Box::new(generator.batches(0..self.groups, BATCH_ROWS)),
            pace: Pace::Free,
        }
    }

    /// Epochs of one size; `from` is the number of their first row.
    fn steps(&self, size: u64, from: u64) -> Result<Vec<RecordBatch>> {
        let epochs = (self.rows / size.max(1)).clamp(EPOCHS_MIN, EPOCHS_MAX);
        let generator = self.generator();
        generator.batches(from..from + epochs * size, size as usize).collect()
    }

    /// The epochs of each size.
    fn prepared(&self) -> Result<Vec<Vec<RecordBatch>>> {
        let (mut prepared, mut from) = (Vec::new(), 0);
        for size in self.sizes.iter().filter(|size| **size > 0) {
            prepared.push(self.steps(*size, from)?);
            from += EPOCHS_MAX.max(self.rows / size) * size;
        }
        Ok(prepared)
    }

    fn feed(&self, prepared: &[Vec<RecordBatch>]) -> Batches {
        let steps = prepared
            .iter()
            .map(|batches| Stretch::of(batches.clone(), Pace::EpochEach));
        let mut feed = Batches::default();
        feed.add("s", std::iter::once(self.loading()).chain(steps).collect());
        feed
    }

    /// Statements that make the input and the view.
    fn script(&self) -> String {
        let input = match self.deletes {
            true => {
                format!("CREATE TABLE s (id BIGINT PRIMARY KEY, k BIGINT, v BIGINT) WITH (connector = '{CONNECTOR}')")
            }
            false => format!("CREATE SOURCE s (k BIGINT, v BIGINT) WITH (connector = '{CONNECTOR}')"),
        };
        format!("{input}; CREATE MATERIALIZED VIEW v AS {}", self.query())
    }
}

/// Measures every size.
pub fn run(options: &Options) -> Result<Value> {
    block_on(async {
        let before = resident_bytes()?;
        // Held until the memory has been measured, so that they can be taken off it.
        let prepared = options.prepared()?;
        let prepared_bytes = resident_bytes()?.saturating_sub(before);
        let feed = options.feed(&prepared);
        let mut subject = Subject::open(
            usize::from(options.workers),
            options.retain_epochs,
            Answers::Current,
            feed,
        )
        .await?;
        subject.run(&options.script()).await?;
        subject.release();
        subject.wait().await?;
        let resident = resident_bytes()?;
        drop(prepared);
        let measured = subject.measured("s");
        check(options, &mut subject, &measured).await?;
        subject.close().await?;
        Ok(json!({
            "bench": "steps", "groups": options.groups, "workers": options.workers, "deletes": options.deletes,
            "retain_epochs": options.retain_epochs, "query": options.query(),
            "load": line(&measured[0]), "steps": measured[1..].iter().map(line).collect::<Vec<_>>(),
            "prepared_bytes": prepared_bytes, "resident_bytes": resident,
        }))
    })
}

/// Every row that was handed over is counted once in the view, or replaced one that was.
async fn check(options: &Options, subject: &mut Subject, measured: &[Measured]) -> Result<()> {
    let rows: u64 = measured.iter().map(|measured| measured.rows).sum();
    let wanted = if options.deletes { options.groups } else { rows };
    let found = subject.row("SELECT CAST(sum(n) AS varchar) FROM v").await?;
    match found == [wanted.to_string()] {
        true => Ok(()),
        false => Err(disagree(&found, &[wanted.to_string()])),
    }
}

fn line(measured: &Measured) -> Value {
    let mut epochs = measured.epochs.clone();
    epochs.sort_unstable();
    let mut line = json!({
        "rows": measured.rows, "cpu_us_per_row": rounded(measured.spent.cpu_us_per(measured.rows)),
        "cpu_s": rounded(measured.spent.cpu.as_secs_f64()), "wall_s": rounded(measured.spent.wall.as_secs_f64()),
    });
    if !epochs.is_empty() {
        line["epochs"] = json!(epochs.len());
        line["rows_per_epoch"] = json!(measured.rows / epochs.len() as u64);
        line["epoch_us_p50"] = json!(percentile_us(&epochs, 0.5));
        line["epoch_us_p99"] = json!(percentile_us(&epochs, 0.99));
    }
    line
}
