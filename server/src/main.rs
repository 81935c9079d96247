//! The binary `cenote`: command line, HTTP, pgwire, configuration, metrics, benchmarks.
//!
//! # Not here
//! What a statement means is decided in `cenote_query`; this crate only carries requests and answers.

mod bench;
mod cli;
mod encode;
mod http;
mod pg;

use std::process::ExitCode;

/// Glibc's allocator made exchanging and encoding large buffers several times dearer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
