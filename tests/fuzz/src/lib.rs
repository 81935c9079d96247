//! What must hold for readers of bytes that anybody can send, for any bytes: a module each, run by libFuzzer.
//!
//! `pgtext`, `pgtype` and `key_query` are links to the sources of `query` and `server`, so that a target needs neither
//! DataFusion nor a web server.

pub mod json;
pub mod key;
#[allow(dead_code)]
mod key_query;
#[allow(dead_code, unused_imports, missing_docs)]
mod pgtext;
#[allow(dead_code, unused_imports, missing_docs)]
mod pgtype;
pub mod wal;
