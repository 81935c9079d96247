//! What a source has read and not handed over yet.
//!
//! # Rules kept here
//! 1. Rows, bad rows and offsets leave together: the offsets are those after the rows.
//! 2. A batch is handed over when it is full (rows, bytes or bad rows), and when there is nothing more to read. One of rows
//!    made on other threads is full at [`PART_ROWS`].

use super::settings::Settings;
use crate::fault::excerpt;
use crate::rows::Rows;
use crate::text::Limits;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use cenote_engine::port::{BadRow, Offsets, PartitionOffset, SourceBatch, SourceOutput, SourceRequest};
use cenote_statestore::{Error, ErrorKind, Result};

/// Bytes of input in a batch at most, but for one block more.
const BATCH_BYTES: u64 = 8 << 20;
/// Rows made on other threads that are handed over rather than put together with more: a worker is dealt no more at once,
/// and what is on its way between threads should fit their caches.
const PART_ROWS: usize = 16 * 1024;
/// Bad rows in a batch at most.
const BAD_ROWS: usize = 4096;
/// Bytes kept of the text of a bad row.
const TEXT_BYTES: usize = 1024;

/// A batch being filled.
pub(crate) struct Sink<'a> {
    pub(crate) rows: Rows,
    /// Rows made elsewhere, before those.
    parts: Vec<RecordBatch>,
    bad: Vec<BadRow>,
    offsets: Offsets,
    /// Bytes of the files that it was made from, and of text that they became.
    bytes: u64,
    text_bytes: u64,
    /// The offset noted last, also after it was handed over.
    latest: Option<(String, PartitionOffset)>,
    batch_rows: usize,
    line_bytes_max: usize,
    fail: bool,
    output: &'a mut dyn SourceOutput,
}

/// A row that could not be read, and where it stands.
pub(crate) struct BadLine<'a> {
    pub(crate) partition: &'a str,
    pub(crate) line: u64,
    pub(crate) byte_offset: u64,
    pub(crate) text: &'a [u8],
    pub(crate) reason: String,
    pub(crate) sqlstate: &'static str,
    /// Of the error that it is with `on_error = 'fail'`.
    pub(crate) code: &'static str,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(
        request: &SourceRequest,
        settings: &Settings,
        output: &'a mut dyn SourceOutput,
    ) -> Result<Sink<'a>> {
        Ok(Sink {
            rows: Rows::new(&request.schema, request.projection.as_deref())?,
            parts: Vec::new(),
            bad: Vec::new(),
            offsets: Offsets::new(),
            bytes: 0,
            text_bytes: 0,
            latest: None,
            batch_rows: settings.batch_rows,
            line_bytes_max: settings.line_bytes_max,
            fail: settings.fail,
            output,
        })
    }

    /// When reading must stop to hand over.
    pub(crate) fn limits(&self) -> crate::text::Limits {
        let others = self.bad.len() + self.part_rows();
        let rows = self.batch_rows.saturating_sub(others).max(self.rows.len() + 1);
        Limits {
            rows,
            ..self.limits_of_parts()
        }
    }

    /// What may be added at once.
    pub(crate) fn limits_of_parts(&self) -> Limits {
        Limits {
            rows: self.batch_rows,
            bad: if self.fail { 1 } else { BAD_ROWS },
            record_bytes: self.line_bytes_max,
        }
    }

    fn part_rows(&self) -> usize {
        self.parts.iter().map(RecordBatch::num_rows).sum()
    }

    /// Rows and bad rows.
    fn len(&self) -> usize {
        self.part_rows() + self.rows.len() + self.bad.len()
    }

    /// Adds rows made elsewhere, behind which `bad` bad ones follow; what is there is handed over before if all
    /// together were too many.
    ///
    /// # Errors
    /// Those of the output: the source must stop.
    pub(crate) fn add(&mut self, rows: RecordBatch, bad: usize) -> Result<()> {
        if self.len() + rows.num_rows() + bad > self.batch_rows || self.bad.len() + bad > BAD_ROWS {
            self.flush()?;
        }
        if self.rows.len() > 0 {
            self.parts.push(self.rows.finish()?);
        }
        if rows.num_rows() > 0 {
            self.parts.push(rows);
        }
        Ok(())
    }

    /// Whether to hand over before reading more.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.batch_rows
            || self.text_bytes >= BATCH_BYTES
            || self.bad.len() >= BAD_ROWS
            || self.part_rows() >= PART_ROWS
    }

    /// Notes bytes read: of the file, and of text.
    pub(crate) fn count(&mut self, bytes: u64, text_bytes: u64) {
        self.bytes += bytes;
        self.text_bytes += text_bytes;
    }

    /// Notes how far a partition was read.
    pub(crate) fn reached(&mut self, partition: &str, offset: PartitionOffset) {
        self.latest = Some((partition.to_string(), offset.clone()));
        self.offsets.insert(partition.to_string(), offset);
    }

    /// The offset noted last for a partition since another was.
    pub(crate) fn latest(&self, partition: &str) -> Option<&PartitionOffset> {
        self.latest
            .as_ref()
            .filter(|(name, _)| name == partition)
            .map(|(_, offset)| offset)
    }

    /// Notes a row that could not be read. The partition's offset must stand before it.
    ///
    /// # Errors
    /// `Invalid` (its code) with `on_error = 'fail'`, after what stands before it was handed over.
    pub(crate) fn refuse(&mut self, bad: BadLine<'_>) -> Result<()> {
        if self.fail {
            self.flush()?;
            return Err(bad.error());
        }
        self.bad.push(BadRow {
            partition: bad.partition.to_string(),
            line: bad.line,
            byte_offset: bad.byte_offset,
            text: excerpt(bad.text, TEXT_BYTES),
            reason: bad.reason,
        });
        Ok(())
    }

    /// Hands over what there is, if anything.
    ///
    /// # Errors
    /// Those of the output: the source must stop.
    pub(crate) fn flush(&mut self) -> Result<()> {
        if self.len() == 0 && self.offsets.is_empty() {
            return Ok(());
        }
        let rows = self.finish()?;
        self.push(rows)
    }

    fn finish(&mut self) -> Result<RecordBatch> {
        let mut parts = std::mem::take(&mut self.parts);
        if self.rows.len() > 0 || parts.is_empty() {
            parts.push(self.rows.finish()?);
        }
        match parts.len() {
            1 => Ok(parts.swap_remove(0)),
            _ => Ok(concat_batches(self.rows.schema(), &parts)?),
        }
    }

    /// Hands over rows made elsewhere, with the bad rows and offsets noted.
    ///
    /// # Errors
    /// Those of the output: the source must stop.
    pub(crate) fn push(&mut self, rows: RecordBatch) -> Result<()> {
        self.text_bytes = 0;
        self.output.push(SourceBatch {
            rows,
            bad: std::mem::take(&mut self.bad),
            offsets: std::mem::take(&mut self.offsets),
            bytes: std::mem::take(&mut self.bytes),
        })
    }

    /// Tells how many bytes there are to read in all.
    pub(crate) fn expect_bytes(&mut self, total: u64) {
        self.output.expect_bytes(total);
    }
}

impl BadLine<'_> {
    fn error(&self) -> Error {
        let place = match self.line {
            0 => format!("file `{}`", self.partition),
            line => format!("file `{}` line {line}", self.partition),
        };
        Error::new(
            ErrorKind::Invalid,
            self.code,
            format!("cannot read {place}: {}", self.reason),
        )
        .sqlstate(self.sqlstate)
        .fact("byte offset", self.byte_offset)
        .attempt("correct the file, or set on_error = 'skip' to collect such rows in cenote_catalog.errors")
    }
}
