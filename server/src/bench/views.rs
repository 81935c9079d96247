//! `cenote bench views`: what a row costs by the number of views that read it, and what views cost that nothing reaches.

use super::clock::{Stopwatch, resident_bytes};
use super::data::{self, BATCH_ROWS, Generator, Shape};
use super::feed::{Batches, CONNECTOR, Pace, Stretch};
use super::subject::Subject;
use super::{block_on, disagree, rounded};
use arrow::array::RecordBatch;
use cenote_query::Answers;
use cenote_statestore::Result;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// CPU of a row against the number of views on its source; CPU and memory of idle views
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Example:\n  cenote bench views --counts 1,10,100,1000 --idle 10")]
pub struct Options {
    /// Numbers of views; each takes its share of the rows by a condition
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,10,100,1000",
        env = "CENOTE_BENCH_COUNTS"
    )]
    counts: Vec<u64>,
    /// Rows for each number of views
    #[arg(long, default_value_t = 1_000_000, env = "CENOTE_BENCH_ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// Seconds for which the views are idle after their rows
    #[arg(long, default_value_t = 10, env = "CENOTE_BENCH_IDLE")]
    idle: u64,
    /// Worker threads of the dataflow engine
    #[arg(long, default_value_t = 1, env = "CENOTE_BENCH_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
}

/// Groups of all views together, so that only the number of views differs.
const KEYS: u64 = 10_000;

/// Measures every number of views, one after the other.
pub fn run(options: &Options) -> Result<Value> {
    block_on(async {
        // The first pages and threads of the process are no view's.
        let warm_up = Options {
            rows: options.rows.div_ceil(10),
            idle: 0,
            ..options.clone()
        };
        point(&warm_up, 1).await?;
        let mut points = Vec::new();
        for views in options.counts.iter().filter(|views| **views > 0) {
            points.push(point(options, *views).await?);
        }
        Ok(json!({
            "bench": "views", "rows": options.rows, "workers": options.workers, "idle_s": options.idle, "views": points,
        }))
    })
}

/// Rows that are spread over as many shares as there are views.
fn batches(options: &Options, views: u64) -> Result<Vec<RecordBatch>> {
    let keys = Generator {
        schema: data::schema(&["g", "k", "v"]),
        columns: vec![
            |row, shape| (data::scramble(row) % shape.keys) as i64,
            |row, shape| (data::scramble(!row) % (KEYS / shape.keys).max(1)) as i64,
            data::amount,
        ],
        shape: Shape { keys: views },
    };
    keys.batches(0..options.rows, BATCH_ROWS).collect()
}

async fn point(options: &Options, views: u64) -> Result<Value> {
    let before = resident_bytes()?;
    let mut feed = Batches::default();
    feed.add("s", vec![Stretch::of(batches(options, views)?, Pace::Free)]);
    let mut subject = Subject::open(usize::from(options.workers), 1, Answers::Current, feed).await?;
    let creating = Stopwatch::start();
    let mut script = format!("CREATE SOURCE s (g BIGINT, k BIGINT, v BIGINT) WITH (connector = '{CONNECTOR}');");
    for view in 0..views {
        let _ = write!(
            script,
            "CREATE MATERIALIZED VIEW v{view} AS SELECT k, count(*) AS n, sum(v) AS total FROM s WHERE g = {view} GROUP BY k;"
        );
    }
    subject.run(&script).await?;
    let created = creating.spent();
    subject.release();
    subject.wait().await?;
    let measured = subject.measured("s").remove(0);
    check(options, &mut subject, views).await?;
    let resident = resident_bytes()?;
    let idle = Stopwatch::start();
    tokio::time::sleep(Duration::from_secs(options.idle)).await;
    let idle = idle.spent();
    subject.close().await?;
    Ok(json!({
        "views": views, "cpu_us_per_row": rounded(measured.spent.cpu_us_per(options.rows)),
        "cpu_s": rounded(measured.spent.cpu.as_secs_f64()), "wall_s": rounded(measured.spent.wall.as_secs_f64()),
        "create_cpu_ms_per_view": rounded(created.cpu.as_secs_f64() * 1e3 / views as f64),
        "idle_cpu_s": rounded(idle.cpu.as_secs_f64()), "resident_bytes": resident, "resident_before_bytes": before,
    }))
}

/// The last view holds its share of the rows.
async fn check(options: &Options, subject: &mut Subject, views: u64) -> Result<()> {
    let share = (0..options.rows)
        .filter(|row| data::scramble(*row) % views == views - 1)
        .count();
    let found = subject
        .row(&format!(
            "SELECT CAST(coalesce(sum(n), 0) AS varchar) FROM v{}",
            views - 1
        ))
        .await?;
    match found == [share.to_string()] {
        true => Ok(()),
        false => Err(disagree(&found, &[share.to_string()])),
    }
}
