//! Turns batches of a result into bytes: NDJSON, CSV, Arrow IPC, Parquet, an aligned table.
//!
//! An [`Encoder`] (a port of the connectors, whose sinks write with the same ones) appends to a buffer that the caller empties whenever it likes, so that the same code
//! writes to a terminal, a file and a network peer in memory that one batch bounds (the aligned table and
//! the row group of Parquet excepted).
//!
//! # Not here
//! The text and JSON forms of single values belong to `cenote_query::pgtext`.

mod arrow_ipc;
mod changes;
mod csv;
mod exported;
mod flat_message;
mod json;
mod parquet_file;
mod table;

pub use changes::ChangeLines;
pub use exported::Restored;
pub use json::{RowObject, json_writers, write_json_text};

pub use cenote_connectors::encode::Encoder;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_connectors::encode::{Encoding, Encodings};
use cenote_connectors::registry;
use cenote_engine::port::ConnectorRegistry;
use cenote_query::pgtext::{Formatter, TextStyle};
use cenote_statestore::Result;
use std::sync::Arc;

/// Rows that are encoded before the buffer is handed on: bounds memory when a batch is large.
pub const CHUNK_ROWS: usize = 8_192;

/// How JSON writes numbers that a reader with 64-bit floats would round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbers {
    /// As strings: integers beyond 2^53 and every decimal.
    #[default]
    Exact,
    /// As JSON numbers, all digits.
    Raw,
}

/// A format that a result can leave in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One JSON object per line.
    Ndjson,
    /// Aligned columns, as psql prints them.
    Table,
    /// CSV with a header line.
    Csv,
    /// Arrow IPC, stream format.
    Arrow,
    /// Parquet.
    Parquet,
}

impl Format {
    /// The media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Ndjson => "application/x-ndjson",
            Format::Table => "text/plain; charset=utf-8",
            Format::Csv => "text/csv; charset=utf-8; header=present",
            Format::Arrow => "application/vnd.apache.arrow.stream",
            Format::Parquet => "application/vnd.apache.parquet",
        }
    }

    /// A new encoder for rows of `schema`.
    ///
    /// # Errors
    /// `Unsupported`: a column type that the format cannot hold.
    pub fn encoder(self, schema: &SchemaRef, numbers: Numbers) -> Result<Box<dyn Encoder>> {
        Ok(match self {
            Format::Ndjson => Box::new(json::Lines::new(schema, numbers)),
            Format::Table => Box::new(table::Aligned::new(schema)),
            Format::Csv => Box::new(csv::Csv::new(schema)),
            Format::Arrow => Box::new(arrow_ipc::IpcStream::new(schema)?),
            Format::Parquet => Box::new(parquet_file::ParquetFile::new(schema)?),
        })
    }
}

/// The connectors of this build, whose sinks write rows as other doors do.
pub fn connectors() -> ConnectorRegistry {
    let encodings: Arc<dyn Encodings> = Arc::new(SinkEncodings);
    registry(&encodings)
}

/// What sinks write with.
struct SinkEncodings;

impl Encodings for SinkEncodings {
    fn encoder(&self, encoding: Encoding, schema: &SchemaRef) -> Result<Box<dyn Encoder>> {
        let format = match encoding {
            Encoding::Ndjson => Format::Ndjson,
            Encoding::Csv => Format::Csv,
            Encoding::Parquet => Format::Parquet,
        };
        format.encoder(schema, Numbers::Raw)
    }
}

/// A formatter for each column of a batch.
fn formatters(batch: &RecordBatch) -> Result<Vec<Formatter<'_>>> {
    let columns = batch.schema_ref().fields().iter().zip(batch.columns());
    columns
        .map(|(field, column)| Formatter::new(field, column.as_ref(), &TextStyle::default()))
        .collect()
}

/// Slices of a batch of at most [`CHUNK_ROWS`] rows, none of them empty.
pub fn chunks(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    (0..batch.num_rows())
        .step_by(CHUNK_ROWS)
        .map(|start| batch.slice(start, CHUNK_ROWS.min(batch.num_rows() - start)))
}

#[cfg(test)]
mod tests;
