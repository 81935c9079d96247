//! The allocator under a memory limit: it gives back at once what is freed.
//!
//! # Rules kept here
//! Without a limit nothing is changed: memory that is kept for the next allocation, in huge pages, is faster. With one it would
//! count as used, and be several times what is.
//!
//! # Source
//! <https://microsoft.github.io/mimalloc/environment.html>: its settings are read from the environment when a process begins.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Milliseconds until freed memory is given back; what a user sets is left as it is.
const PURGE_DELAY: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "0");

/// Whether memory may be taken in huge pages.
const HUGE_PAGES: (&str, &str) = ("MIMALLOC_ALLOW_THP", "0");

/// Begins the process once more, as itself, with an allocator that gives memory back, unless it has that already. Nothing may be
/// open yet.
pub(super) fn give_memory_back() {
    let missing: Vec<_> = [PURGE_DELAY, HUGE_PAGES]
        .into_iter()
        .filter(|(name, _)| std::env::var_os(name).is_none())
        .collect();
    if missing.is_empty() {
        return;
    }
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // It returns only if it could not, and then the limit is met with less room.
    let _ = command.args(arguments).envs(missing).exec();
}
