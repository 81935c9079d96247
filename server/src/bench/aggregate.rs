//! `cenote bench aggregate`: a grouped COUNT and SUM kept as a view, against the same query answered once.

use super::clock::{Spent, Stopwatch};
use super::data::{self, BATCH_ROWS, Generator, Shape};
use super::feed::{Batches, CONNECTOR, Pace, Stretch};
use super::subject::Subject;
use super::yardstick::{self, Input, Rows};
use super::{answers, block_on, disagree, median, rounded};
use arrow::array::RecordBatch;
use cenote_statestore::Result;
use serde_json::{Value, json};

/// A grouped COUNT and SUM over ready-made batches, against DataFusion's batch aggregate
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cenote bench aggregate --rows 10000000 --keys 1000000")]
pub struct Options {
    /// Rows in all
    #[arg(long, default_value_t = 10_000_000, env = "CENOTE_BENCH_ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// Different keys
    #[arg(long, default_value_t = 1_000_000, env = "CENOTE_BENCH_KEYS", value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// As in a server: what has come so far is published all the way, not at the end alone as in `cenote run`
    #[arg(long, env = "CENOTE_BENCH_SERVER", value_parser = clap::builder::FalseyValueParser::new())]
    server: bool,
    /// Rows of each epoch, as in a server [default: batches of 8192 rows, merged into epochs as they queue up]
    #[arg(long, value_name = "ROWS", env = "CENOTE_BENCH_BATCH", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// Worker threads of the dataflow engine
    #[arg(long, default_value_t = 1, env = "CENOTE_BENCH_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Runs of each side, alternating, after a warm-up on a tenth of the rows
    #[arg(long, default_value_t = 3, env = "CENOTE_BENCH_REPS", value_parser = clap::value_parser!(u16).range(1..))]
    reps: u16,
}

const QUERY: &str = "SELECT k, count(*) AS n, sum(v) AS total FROM s GROUP BY k";

/// Sums that differ when a row does.
const CHECK: &str = "SELECT CAST(count(*) AS varchar), CAST(sum(n) AS varchar), CAST(sum(total) AS varchar), \
                     CAST(sum(total * (k % 1009)) AS varchar), CAST(sum(n * (k % 1013)) AS varchar) FROM v";

/// Measures both sides.
pub fn run(options: &Options) -> Result<Value> {
    let generator = Generator {
        schema: data::schema(&["k", "v"]),
        columns: vec![data::random_key, data::amount],
        shape: Shape { keys: options.keys },
    };
    let size = options.batch.map_or(BATCH_ROWS, |rows| rows as usize);
    let batches = generator.batches(0..options.rows, size).collect::<Result<Vec<_>>>()?;
    let pace = if options.batch.is_some() {
        Pace::EpochEach
    } else {
        Pace::Free
    };
    block_on(async {
        let warm = &batches[..batches.len().div_ceil(10)];
        pair(options, &pace, warm).await?;
        let mut runs = Vec::new();
        for _ in 0..options.reps {
            runs.push(pair(options, &pace, &batches).await?);
        }
        Ok(line(options, &runs))
    })
}

/// One run of each side on the same batches.
async fn pair(options: &Options, pace: &Pace, batches: &[RecordBatch]) -> Result<(Spent, Spent)> {
    let mut feed = Batches::default();
    feed.add("s", vec![Stretch::of(batches.to_vec(), pace.clone())]);
    let answers = answers(options.server || options.batch.is_some());
    let mut subject = Subject::open(usize::from(options.workers), 1, answers, feed).await?;
    subject
        .run(&format!(
            "CREATE SOURCE s (k BIGINT, v BIGINT) WITH (connector = '{CONNECTOR}')"
        ))
        .await?;
    subject.release();
    let watch = Stopwatch::start();
    subject.run(&format!("CREATE MATERIALIZED VIEW v AS {QUERY}")).await?;
    subject.wait().await?;
    let ours = watch.spent();
    let found = subject.row(CHECK).await?;
    subject.close().await?;
    let schema = batches[0].schema();
    let theirs = yardstick::answer(
        &[Input {
            name: "s",
            schema,
            batches,
        }],
        QUERY,
        Rows::Kept,
    )
    .await?;
    let wanted = yardstick::row("v", &theirs.batches, CHECK).await?;
    if found != wanted {
        return Err(disagree(&found, &wanted));
    }
    Ok((ours, theirs.spent))
}

fn line(options: &Options, runs: &[(Spent, Spent)]) -> Value {
    json!({
        "bench": "aggregate", "rows": options.rows, "keys": options.keys, "workers": options.workers,
        "epoch_rows": options.batch, "server": options.server || options.batch.is_some(), "query": QUERY,
        "ratio_cpu": rounded(median(runs.iter().map(|(ours, theirs)| theirs.cpu.as_secs_f64() / ours.cpu.as_secs_f64()))),
        "ratio_wall": rounded(median(runs.iter().map(|(ours, theirs)| theirs.wall.as_secs_f64() / ours.wall.as_secs_f64()))),
        "cenote_cpu_us_per_row": rounded(median(runs.iter().map(|(ours, _)| ours.cpu_us_per(options.rows)))),
        "datafusion_cpu_us_per_row": rounded(median(runs.iter().map(|(_, theirs)| theirs.cpu_us_per(options.rows)))),
        "cenote": runs.iter().map(|(ours, _)| ours.json()).collect::<Vec<_>>(),
        "datafusion": runs.iter().map(|(_, theirs)| theirs.json()).collect::<Vec<_>>(),
    })
}
