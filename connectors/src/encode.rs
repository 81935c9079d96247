//! What sinks ask of whoever turns rows into bytes. The forms of values are the server's, so that a row leaves through a sink
//! as it leaves through every other door; they are handed in, as connectors are handed to the engine.
//!
//! # Not here
//! The formats themselves (`server::encode`).

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_statestore::Result;

/// A format that sinks write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// One JSON object a line, numbers with all their digits.
    Ndjson,
    /// CSV with a header line.
    Csv,
    /// Parquet.
    Parquet,
}

impl Encoding {
    /// Whether what was written of a file can be added to later, by another encoder.
    pub fn is_text(self) -> bool {
        self != Encoding::Parquet
    }

    /// The ending of files, without the dot.
    pub fn ending(self) -> &'static str {
        match self {
            Encoding::Ndjson => "ndjson",
            Encoding::Csv => "csv",
            Encoding::Parquet => "parquet",
        }
    }
}

/// Appends rows to a buffer, which the caller empties whenever it likes.
pub trait Encoder: Send {
    /// What stands before the first row.
    ///
    /// # Errors
    /// `Unsupported`: a type that the format cannot hold.
    fn start(&mut self, out: &mut Vec<u8>) -> Result<()>;

    /// The rows of one batch.
    ///
    /// # Errors
    /// `Unsupported`: a value that the format cannot hold.
    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()>;

    /// What stands after the last row. Nothing may follow.
    ///
    /// # Errors
    /// `Unsupported`: the format cannot hold so much.
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<()>;
}

/// Makes encoders.
pub trait Encodings: Send + Sync {
    /// An encoder for rows of `schema`.
    ///
    /// # Errors
    /// `Unsupported`: a type that the format cannot hold.
    fn encoder(&self, encoding: Encoding, schema: &SchemaRef) -> Result<Box<dyn Encoder>>;
}
