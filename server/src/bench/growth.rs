//! `cenote bench growth`: curves of CPU and memory against the number of groups, workers and kept epochs.

use super::children::{bench, figure};
use cenote_statestore::Result;
use serde_json::{Value, json};

/// CPU of a row against groups and workers; memory against groups and kept epochs
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cenote bench growth --full")]
pub struct Options {
    /// Numbers of groups
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10000,100000,1000000,10000000",
        env = "CENOTE_BENCH_GROUPS"
    )]
    groups: Vec<u64>,
    /// Add 20 million groups
    #[arg(long, env = "CENOTE_BENCH_FULL", value_parser = clap::builder::FalseyValueParser::new())]
    full: bool,
    /// Rows measured at each point
    #[arg(long, default_value_t = 5_000_000, env = "CENOTE_BENCH_ROWS", value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// Rows of an epoch
    #[arg(long, default_value_t = 100_000, env = "CENOTE_BENCH_BATCH", value_parser = clap::value_parser!(u64).range(1..))]
    batch: u64,
    /// Numbers of worker threads
    #[arg(long, value_delimiter = ',', default_value = "1,2", env = "CENOTE_BENCH_WORKERS")]
    workers: Vec<u16>,
    /// Numbers of epochs kept readable, on a view of 100,000 groups and epochs of a hundredth of `--rows`
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,10,100",
        env = "CENOTE_BENCH_RETAIN_EPOCHS"
    )]
    retain_epochs: Vec<u64>,
}

/// Groups of the view whose epochs are kept.
const RETAINING_GROUPS: u64 = 100_000;

/// A point of a curve, in a process of its own.
struct Point {
    groups: u64,
    size: u64,
    rows: u64,
    workers: u16,
    retain_epochs: u64,
}

impl Point {
    fn measure(&self) -> Result<Value> {
        let options = [
            ("--groups", self.groups),
            ("--sizes", self.size),
            ("--rows", self.rows),
            ("--workers", u64::from(self.workers)),
            ("--retain-epochs", self.retain_epochs),
        ];
        let mut arguments = vec!["steps".to_string()];
        for (name, value) in options {
            arguments.extend([name.to_string(), value.to_string()]);
        }
        bench(&arguments)
    }
}

/// Measures every point.
pub fn run(options: &Options) -> Result<Value> {
    let mut groups = options.groups.clone();
    groups.extend(options.full.then_some(20_000_000));
    let mut points = Vec::new();
    for workers in &options.workers {
        for groups in &groups {
            points.push(of_groups(options, *groups, *workers)?);
        }
    }
    let mut retained = Vec::new();
    for epochs in &options.retain_epochs {
        retained.push(of_epochs(options, *epochs)?);
    }
    Ok(json!({
        "bench": "growth", "rows": options.rows, "epoch_rows": options.batch, "groups": points, "retained": retained,
    }))
}

fn of_groups(options: &Options, groups: u64, workers: u16) -> Result<Value> {
    let point = Point {
        groups,
        size: options.batch,
        rows: options.rows,
        workers,
        retain_epochs: 1,
    };
    let line = point.measure()?;
    Ok(json!({
        "groups": groups, "workers": workers,
        "cpu_us_per_row": figure(&line, "/steps/0/cpu_us_per_row"), "wall_s": figure(&line, "/steps/0/wall_s"),
        "load_cpu_us_per_row": figure(&line, "/load/cpu_us_per_row"),
        "resident_bytes": figure(&line, "/resident_bytes"), "prepared_bytes": figure(&line, "/prepared_bytes"),
    }))
}

fn of_epochs(options: &Options, epochs: u64) -> Result<Value> {
    let size = (options.rows / 100).max(1);
    let point = Point {
        groups: RETAINING_GROUPS,
        size,
        rows: size * epochs.max(10) * 2,
        workers: 1,
        retain_epochs: epochs,
    };
    let line = point.measure()?;
    Ok(json!({
        "retain_epochs": epochs, "epoch_rows": size,
        "cpu_us_per_row": figure(&line, "/steps/0/cpu_us_per_row"),
        "resident_bytes": figure(&line, "/resident_bytes"), "prepared_bytes": figure(&line, "/prepared_bytes"),
    }))
}
