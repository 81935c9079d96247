//! Whole request bodies to record batches: every row, or an error that names the first one that is wrong. And lines as
//! a file source reads them: every row, and beside them what is wrong with the others ([`decode_lines`]).
//!
//! # Rules kept here
//! 1. All or nothing: one bad row refuses the body.
//! 2. A field that is no column is an error naming the nearest column; a column without a field is NULL.
//! 3. Values are read by the rules of the file formats.
//!
//! # Not here
//! How large a body may be, and how it is compressed on the wire: the server.

mod arrow_stream;
mod lines;

#[cfg(test)]
mod tests;

use arrow_stream::stream_columns;
pub use lines::{BadLine, LineRules, decode_lines};

use crate::csv::{CsvRows, CsvStyle, HeaderRule};
use crate::fault::{Fault, FaultKind};
use crate::json::{Cursor, JsonRows};
use crate::rows::Rows;
use crate::text::{Limits, TextRows};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Error, ErrorKind, Result};

/// Rows in a batch at most.
const BATCH_ROWS: usize = 65_536;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFormat {
    /// One JSON object a line.
    Ndjson,
    /// A JSON array of objects.
    JsonArray,
    /// CSV whose first record names the columns.
    Csv,
    /// An Arrow IPC stream.
    ArrowStream,
}

/// Reads a whole body as rows of `schema`.
///
/// # Returns
/// Batches of `schema` in the order of the body, each of at most 65,536 rows; none for a body without rows.
///
/// # Errors
/// `Invalid` CONN-0012: a row cannot be read, with line (or element) and field in the message and SQLSTATE 22P02,
/// 22003, 22007, 22021 or 23502. CONN-0013 (42703): a field is no column. Nothing is kept of such a body.
pub fn decode_body(schema: &SchemaRef, format: BodyFormat, body: &[u8]) -> Result<Vec<RecordBatch>> {
    let decoded = decode_with_defaults(schema, &vec![false; schema.fields().len()], format, body)?;
    Ok(decoded.into_iter().map(|decoded| decoded.batch).collect())
}

/// Rows of a body, and which values are still to be filled in.
#[derive(Debug)]
pub struct Decoded {
    /// The rows, NULL where a default belongs.
    pub batch: RecordBatch,
    /// For each column, the rows that do not name it, ascending; empty for a column without a default.
    pub absent: Vec<Vec<u32>>,
}

/// Reads a whole body as rows of `schema`, in which columns that have a default may be left out.
///
/// # Arguments
/// - `has_default`: one for each column. In a row that does not name it, such a column is NULL in the batch, whose schema says that it can be,
///   and the row is in [`Decoded::absent`].
///
/// # Errors
/// As [`decode_body`].
pub fn decode_with_defaults(
    schema: &SchemaRef,
    has_default: &[bool],
    format: BodyFormat,
    body: &[u8],
) -> Result<Vec<Decoded>> {
    let mut rows = Rows::new(schema, None)?.with_defaults(has_default);
    let text = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    match format {
        BodyFormat::Ndjson => lines(&mut rows, TextRows::Json(JsonRows::new(true)), text, 1),
        BodyFormat::JsonArray => array(&mut rows, text),
        BodyFormat::Csv => csv(&mut rows, text),
        BodyFormat::ArrowStream => {
            let named = stream_columns(body).unwrap_or_default();
            let is_named = |name: &str| named.iter().any(|known| known.eq_ignore_ascii_case(name));
            let fields = rows.schema().fields().iter().zip(has_default);
            let is_absent: Vec<bool> = fields.map(|(field, has)| *has && !is_named(field.name())).collect();
            let batches = arrow_stream::decode(rows.schema(), body)?.into_iter().map(|batch| {
                let all = |absent: &bool| (0..batch.num_rows() as u32).filter(|_| *absent).collect();
                let absent = is_absent.iter().map(all).collect();
                Decoded { batch, absent }
            });
            Ok(batches.collect())
        }
    }
}

fn csv(rows: &mut Rows, body: &[u8]) -> Result<Vec<Decoded>> {
    let mut csv = CsvRows::new(CsvStyle::default(), HeaderRule::OnlyColumns, rows.columns.len());
    let header = csv
        .header(rows, body, true)
        .map_err(|fault| refused("line 1", &fault))?;
    let (head, rest) = body.split_at(header.unwrap_or(0));
    let first_line = 1 + head.iter().filter(|byte| **byte == b'\n').count() as u64;
    lines(rows, TextRows::Csv(csv), rest, first_line)
}

fn lines(rows: &mut Rows, mut format: TextRows, body: &[u8], first_line: u64) -> Result<Vec<Decoded>> {
    let mut batches = Vec::new();
    let (mut at, mut line) = (0, first_line);
    while at < body.len() {
        let limits = Limits {
            rows: BATCH_ROWS,
            bad: 1,
            record_bytes: usize::MAX,
        };
        let progress = format.read(rows, &body[at..], true, limits);
        if let Some(bad) = progress.bad.first() {
            return Err(refused(&format!("line {}", line + bad.lines_before), &bad.fault));
        }
        at += progress.bytes;
        line += progress.lines;
        finish(rows, &mut batches, BATCH_ROWS)?;
    }
    finish(rows, &mut batches, 1)?;
    Ok(batches)
}

/// Makes a batch of the rows if there are `least` of them.
fn finish(rows: &mut Rows, batches: &mut Vec<Decoded>, least: usize) -> Result<()> {
    if rows.len() >= least {
        let absent = rows.take_absent();
        batches.push(Decoded {
            batch: rows.finish()?,
            absent,
        });
    }
    Ok(())
}

fn array(rows: &mut Rows, body: &[u8]) -> Result<Vec<Decoded>> {
    if let Err(error) = std::str::from_utf8(body) {
        let reason = format!("invalid UTF-8 at byte {}", error.valid_up_to() + 1);
        return Err(refused(
            "body",
            &Fault {
                kind: FaultKind::Encoding,
                reason,
            },
        ));
    }
    let mut json = JsonRows::new(true);
    let mut batches = Vec::new();
    let mut cursor = Cursor::document(body, 0);
    let problem = |cursor: &Cursor<'_>, problem: &str| refused("body", &cursor.fault(problem));
    cursor.blanks();
    if !cursor.take(b'[') {
        return Err(problem(&cursor, "expected an array of objects"));
    }
    cursor.blanks();
    let mut element = 0;
    let mut open = !cursor.take(b']');
    while open {
        element += 1;
        cursor.blanks();
        json.object(rows, &mut cursor)
            .map_err(|fault| refused(&format!("element {element}"), &fault))?;
        finish(rows, &mut batches, BATCH_ROWS)?;
        cursor.blanks();
        open = cursor.take(b',');
        if !open && !cursor.take(b']') {
            return Err(problem(&cursor, "expected `,` or `]`"));
        }
    }
    cursor.blanks();
    if cursor.at < body.len() {
        return Err(problem(&cursor, "expected nothing after the array"));
    }
    finish(rows, &mut batches, 1)?;
    Ok(batches)
}

/// The error of a row at `place`.
fn refused(place: &str, fault: &Fault) -> Error {
    let unknown = fault.kind == FaultKind::Unknown;
    let code = if unknown { "CONN-0013" } else { "CONN-0012" };
    Error::new(
        ErrorKind::Invalid,
        code,
        format!("cannot read {place} of the request body: {}", fault.reason),
    )
    .sqlstate(fault.kind.sqlstate())
    .attempt("correct the row and send the whole body again: nothing of it was kept")
}
