//! `cenote bench NAME`: the engine measured in this process on ready-made Arrow batches, one JSON line each.
//!
//! # Rules kept here
//! 1. **Same input.** Both sides of a ratio are given the same batches, one after the other, in one process.
//! 2. **Same answer.** What the view holds is compared with what the yardstick gave; a difference is an error, not a
//!    figure.
//! 3. **CPU first.** Every figure has the CPU seconds of the whole process beside the wall time.
//!
//! # Not here
//! Figures that need a client, a server or files (`tests/bench/bench`); what they must reach.

mod aggregate;
mod children;
mod clock;
mod data;
mod feed;
mod growth;
mod join;
mod memory;
mod serve_file;
mod steps;
mod subject;
mod views;
mod yardstick;

use crate::cli::promised;
use cenote_statestore::{Error, Result};
use clap::Subcommand;
use std::future::Future;

/// Measure the engine on generated rows; each name prints one JSON line
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cenote bench aggregate --rows 1000000 --keys 100000
  cenote bench join --publish
  cenote bench steps --groups 1000000 --sizes 1,100,1000,100000")]
pub struct BenchOptions {
    #[command(subcommand)]
    name: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    Aggregate(aggregate::Options),
    Join(join::Options),
    Memory(memory::Options),
    Steps(steps::Options),
    Views(views::Options),
    Growth(growth::Options),
    ServeFile(serve_file::Options),
    /// Nexmark's queries q0 to q22 (not supported yet)
    #[command(
        after_help = "Example:\n  cenote bench q5",
        aliases = ["q0", "q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9", "q10", "q11", "q12", "q13", "q14", "q15", "q16", "q17",
                   "q18", "q19", "q20", "q21", "q22"]
    )]
    Nexmark(promised::Arguments),
}

/// Runs one benchmark and prints its line.
///
/// # Errors
/// The two sides gave different answers, or one of them failed.
pub fn bench(options: BenchOptions) -> Result<()> {
    let line = match options.name {
        Benchmark::Aggregate(options) => aggregate::run(&options)?,
        Benchmark::Join(options) => join::run(&options)?,
        Benchmark::Memory(options) => memory::run(&options)?,
        Benchmark::Steps(options) => steps::run(&options)?,
        Benchmark::Views(options) => views::run(&options)?,
        Benchmark::Growth(options) => growth::run(&options)?,
        Benchmark::ServeFile(options) => return serve_file::run(&options),
        Benchmark::Nexmark(_) => return promised::refuse("bench nexmark"),
    };
    println!("{line}");
    Ok(())
}

/// Runs a future as `cenote run` does: on one thread, beside the threads of the engine.
fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}

/// The error of two sides that do not agree.
fn disagree(ours: &[String], theirs: &[String]) -> Error {
    Error::bug("cannot compare two sides that give different answers")
        .fact("cenote", ours.join(", "))
        .fact("yardstick", theirs.join(", "))
}

/// What a measured database answers: as a server does, or as `cenote run`.
fn answers(as_server: bool) -> cenote_query::Answers {
    match as_server {
        true => cenote_query::Answers::Current,
        false => cenote_query::Answers::Final,
    }
}

/// The middle of some figures; the mean of the two middle ones where their number is even.
fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = figures.collect();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n => (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0,
    }
}

/// Rounded for printing, to four significant digits behind the comma.
fn rounded(figure: f64) -> f64 {
    (figure * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests;
