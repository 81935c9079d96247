//! `cenote bench memory`: bytes of resident memory for each group, as the slope between two sizes.

use super::children::{bench, figure};
use super::rounded;
use cenote_statestore::Result;
use serde_json::{Value, json};

/// Bytes for each (BIGINT key, COUNT) group, everything included, as the slope between two sizes
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  cenote bench memory --small 1000000 --large 10000000")]
pub struct Options {
    /// Groups of the smaller process
    #[arg(long, default_value_t = 1_000_000, env = "CENOTE_BENCH_SMALL", value_parser = clap::value_parser!(u64).range(1..))]
    small: u64,
    /// Groups of the larger process
    #[arg(long, default_value_t = 10_000_000, env = "CENOTE_BENCH_LARGE", value_parser = clap::value_parser!(u64).range(1..))]
    large: u64,
    /// Worker threads of the dataflow engine
    #[arg(long, default_value_t = 1, env = "CENOTE_BENCH_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
}

/// Measures both sizes, each in a process of its own.
pub fn run(options: &Options) -> Result<Value> {
    let resident = |groups: u64| -> Result<f64> {
        let (groups, workers) = (groups.to_string(), options.workers.to_string());
        let arguments = [
            "steps",
            "--groups",
            &groups,
            "--workers",
            &workers,
            "--count",
            "--sizes",
            "0",
        ];
        let line = bench(&arguments.map(str::to_string))?;
        Ok(figure(&line, "/resident_bytes"))
    };
    let (small, large) = (resident(options.small)?, resident(options.large)?);
    Ok(json!({
        "bench": "memory", "small": options.small, "large": options.large, "workers": options.workers,
        "bytes_per_group": rounded((large - small) / (options.large as f64 - options.small as f64)),
        "small_resident_bytes": small, "large_resident_bytes": large,
    }))
}
