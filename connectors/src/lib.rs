//! Connectors and formats: bytes from outside to Arrow batches, through the ports of the engine.
//!
//! | Module | Owns |
//! |---|---|
//! | [`file`](mod@file) | files, globs and folders: finding, opening, following, resuming |
//! | [`decode`] | whole request bodies, all or nothing |
//! | `json`, `csv`, `parquet` | one format each |
//! | `value`, `column`, `rows` | texts to exact values, columns being filled, rows that are whole or not there |
//!
//! # Not here
//! When a source runs, what becomes of its batches and bad rows: the engine.

mod column;
mod csv;
pub mod decode;
mod elements;
mod fault;
pub mod file;
mod guard;
mod json;
mod members;
mod options;
mod parquet;
mod rows;
#[cfg(test)]
mod testing;
mod text;
mod value;

use cenote_engine::port::ConnectorRegistry;
use std::sync::Arc;

/// All connectors of this build.
pub fn registry() -> ConnectorRegistry {
    let mut registry = ConnectorRegistry::default();
    registry.register(Arc::new(file::FileConnector));
    registry
}
