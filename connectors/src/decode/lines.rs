//! Lines of JSON objects as a file source reads them: what is wrong with a line costs that line alone.

use crate::json::JsonRows;
use crate::rows::Rows;
use crate::text::{Limits, TextRows};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_statestore::Result;

/// A line that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, the first being 1.
    pub line: u64,
    /// Its bytes, the line feed included.
    pub bytes: Vec<u8>,
    /// What is wrong with it, naming the field where there is one.
    pub reason: String,
}

/// How lines are read.
#[derive(Clone, Copy, Debug)]
pub struct LineRules {
    /// Whether a field that is no column is a fault; otherwise it is not looked at.
    pub strict: bool,
    /// Bytes of a line at most, its line feed included.
    pub line_bytes_max: usize,
    /// Rows in a batch at most.
    pub batch_rows: usize,
}

/// Reads NDJSON that arrives in pieces, cut anywhere.
///
/// # Returns
/// The rows, and the lines that are none, each in order: every line that is not blank is in one of the two.
///
/// # Errors
/// `Unsupported`: a column's type is read from no format; the error names it.
pub fn decode_lines(
    schema: &SchemaRef,
    pieces: &[&[u8]],
    rules: LineRules,
) -> Result<(Vec<RecordBatch>, Vec<BadLine>)> {
    let mut rows = Rows::new(schema, None)?;
    let mut format = TextRows::Json(JsonRows::new(rules.strict));
    let limits = Limits {
        rows: rules.batch_rows.max(1),
        bad: usize::MAX,
        record_bytes: rules.line_bytes_max,
    };
    let (mut batches, mut bad, mut pending, mut line) = (Vec::new(), Vec::new(), Vec::new(), 1);
    for (index, piece) in pieces.iter().enumerate() {
        pending.extend_from_slice(piece);
        let last = index + 1 == pieces.len();
        loop {
            let progress = format.read(&mut rows, &pending, last, limits);
            bad.extend(progress.bad.iter().map(|record| BadLine {
                line: line + record.lines_before,
                bytes: pending[record.start..record.end].to_vec(),
                reason: record.fault.reason.clone(),
            }));
            line += progress.lines;
            pending.drain(..progress.bytes);
            if rows.len() >= limits.rows {
                batches.push(rows.finish()?);
            }
            if progress.bytes == 0 || pending.is_empty() {
                break;
            }
        }
    }
    if rows.len() > 0 {
        batches.push(rows.finish()?);
    }
    Ok((batches, bad))
}
