//! The command line: one enum of commands, each in a module of its own.
//!
//! # Rules kept here
//! 1. Data goes to stdout, everything else to stderr.
//! 2. Exit code 0: done, or stopped cleanly; 1: an error, printed on stderr; 2: wrong usage.
//! 3. Every option has an environment variable `CENOTE_...`.

mod allocator;
mod checkpoints;
mod export;
mod interrupt;
mod offline;
mod output;
mod place;
mod progress;
pub(crate) mod promised;
mod run;
mod serve;
mod settings;
mod state;
mod units;

use crate::bench;
pub(crate) use interrupt::{signalled, watch_signals};

use cenote_engine::THREAD_STACK_BYTES;
use cenote_statestore::{Error, ErrorKind, Result};
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// A streaming database whose state is ordinary tables: SQL in, live views out.
#[derive(Debug, Parser)]
#[command(
    name = "cenote",
    bin_name = "cenote",
    version,
    arg_required_else_help = true,
    max_term_width = 110
)]
#[command(after_help = "Examples:
  cenote run -e \"SELECT 1 AS one\"       run a script in this process
  cenote serve --data-dir ./cenote-data  start the server
  cenote state ls                        list what a server's state holds
  cenote verify ckpt                     check the checkpoints in a folder")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunOptions),
    Serve(Box<settings::ServeOptions>),
    State(state::StateOptions),
    /// Interactive SQL shell over pgwire (not supported yet)
    #[command(after_help = "Example:\n  cenote sql -c \"SELECT * FROM by_owner\" postgresql://127.0.0.1:5433")]
    Sql(promised::Arguments),
    Checkpoint(checkpoints::CheckpointOptions),
    Savepoint(checkpoints::SavepointOptions),
    Verify(offline::VerifyOptions),
    /// Recorded input of the flight recorder (not supported yet)
    #[command(after_help = "Example:\n  cenote capture ls")]
    Capture(promised::Arguments),
    /// Run recorded input again (not supported yet)
    #[command(after_help = "Example:\n  cenote replay ./capture")]
    Replay(promised::Arguments),
    /// Explain which changes made a row (not supported yet)
    #[command(after_help = "Example:\n  cenote why by_owner ann")]
    Why(promised::Arguments),
    Bench(bench::BenchOptions),
}

/// Parses the arguments, runs the command and tells the exit code.
pub fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(options) => on_deep_stack(|| run::run(options)),
        Command::Serve(options) => on_deep_stack(|| serve::serve(*options)),
        Command::State(options) => on_deep_stack(|| state::state(options)),
        Command::Sql(_) => promised::refuse("sql"),
        Command::Checkpoint(options) => checkpoints::checkpoint(&options),
        Command::Savepoint(options) => checkpoints::savepoint(&options),
        Command::Verify(options) => offline::verify(&options),
        Command::Capture(_) => promised::refuse("capture"),
        Command::Replay(_) => promised::refuse("replay"),
        Command::Why(_) => promised::refuse("why"),
        Command::Bench(options) => on_deep_stack(|| bench::bench(options)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.code() == output::CLOSED => ExitCode::SUCCESS,
        Err(error) if error.code() == offline::DIFFERENT => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}", error.render());
            ExitCode::FAILURE
        }
    }
}

/// Runs a command on a thread with the stack that deep statements need; the main thread's is what the shell set.
fn on_deep_stack(command: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new()
        .name("cenote".into())
        .stack_size(THREAD_STACK_BYTES)
        .spawn(command)
        .map_err(no_runtime)?;
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A thread or task of the runtime could not be had.
fn no_runtime(error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "CLI-0006",
        format!("cannot start the async runtime: {error}"),
    )
    .source(error)
}

#[cfg(test)]
mod tests;
