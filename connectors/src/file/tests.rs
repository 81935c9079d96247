//! The `file` connector from outside: options, paths, reading once, resuming, damage.

mod following;
mod guarding;
mod reading;
mod threads;
