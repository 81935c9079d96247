//! Connectors and formats: bytes from outside to Arrow batches, through the ports of the engine.
//!
//! | Module | Owns |
//! |---|---|
//! | [`file`](mod@file) | files, globs and folders: finding, opening, following, resuming; files that sinks write |
//! | [`print`](mod@print), [`blackhole`] | sinks without a system behind them |
//! | `shape` | changes as rows that leave |
//! | [`encode`] | what turns rows into bytes, handed in |
//! | [`decode`] | whole request bodies, all or nothing |
//! | `json`, `csv`, `parquet` | one format each |
//! | `value`, `column`, `rows` | texts to exact values, columns being filled, rows that are whole or not there |
//!
//! # Not here
//! When a source runs, what becomes of its batches and bad rows: the engine.

pub mod blackhole;
mod column;
mod csv;
pub mod decode;
mod elements;
pub mod encode;
mod fault;
pub mod file;
mod guard;
mod json;
mod members;
mod options;
mod parquet;
pub mod print;
mod rows;
mod shape;
#[cfg(test)]
mod sink_contract;
#[cfg(test)]
mod testing;
mod text;
mod value;

use cenote_engine::port::ConnectorRegistry;
use encode::Encodings;
use std::sync::Arc;

/// All connectors of this build.
///
/// # Arguments
/// - `encodings`: what turns the rows of sinks into bytes.
pub fn registry(encodings: &Arc<dyn Encodings>) -> ConnectorRegistry {
    let mut registry = ConnectorRegistry::default();
    registry.register(Arc::new(blackhole::Blackhole));
    registry.register(Arc::new(file::FileConnector::new(encodings.clone())));
    registry.register(Arc::new(print::Print::new(encodings.clone())));
    registry
}
