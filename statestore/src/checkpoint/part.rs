//! One file of rows: Arrow IPC, file format, which pyarrow, polars and DuckDB open as it is.
//!
//! # Layout
//! The table's columns; then `cenote_weight` (how often the row is there) where rows have multiplicities; then, in deltas,
//! `cenote_deleted`. Of a row that is gone only the identity counts, so in deltas all other columns may be NULL.
//!
//! # Rules kept here
//! 1. Length and checksum of the whole file are checked before any of it is decoded.

use std::io::{self, BufWriter, Read, Write};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::writer::FileWriter;
use arrow::ipc::{Block, root_as_footer};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::blobs::{BlobPath, BlobWriter, Blobs};
use super::manifest::{PartEntry, PartKind};
use super::{document, fault};
use crate::{Error, Result};

/// What names of files end in.
pub(super) const ENDING: &str = ".arrow";

/// The column of multiplicities.
pub const WEIGHT: &str = "cenote_weight";

/// The column that says which rows are gone.
pub const DELETED: &str = "cenote_deleted";

/// Rows in one batch of a file at most, so that readers need little memory.
const BATCH_ROWS: usize = 1 << 16;

const WRITE_BYTES: usize = 1 << 20;

/// Bytes behind the footer: its length and the magic.
const TRAILER: usize = 10;

/// Whether no column of a table may have this name.
pub(super) fn is_reserved(name: &str) -> bool {
    name == WEIGHT || name == DELETED
}

/// The columns of a file.
pub(super) fn file_schema(table: &SchemaRef, identity: &[usize], multiset: bool, kind: PartKind) -> SchemaRef {
    let mut fields: Vec<Field> = table.fields().iter().map(|field| field.as_ref().clone()).collect();
    if kind == PartKind::Delta {
        let others = fields
            .iter_mut()
            .enumerate()
            .filter(|(index, _)| !identity.contains(index));
        others.for_each(|(_, field)| field.set_nullable(true));
    }
    if multiset {
        fields.push(Field::new(WEIGHT, DataType::Int64, false));
    }
    if kind == PartKind::Delta {
        fields.push(Field::new(DELETED, DataType::Boolean, false));
    }
    Arc::new(Schema::new(fields))
}

/// A batch of `columns`.
pub(super) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, ArrowError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

/// A part of a file, by what its columns are for.
pub(super) struct Rows {
    /// The table's columns.
    pub(super) columns: Vec<ArrayRef>,
    /// How often each row is there; `None`: once.
    pub(super) weights: Option<Int64Array>,
    /// Which rows are gone; `None`: none.
    pub(super) deleted: Option<BooleanArray>,
    /// Rows in it.
    pub(super) count: usize,
}

impl Rows {
    /// Takes a batch of a file apart.
    pub(super) fn of(batch: &RecordBatch, multiset: bool, kind: PartKind) -> Rows {
        let mut columns = batch.columns().to_vec();
        let deleted = (kind == PartKind::Delta).then(|| columns.pop()).flatten();
        let weights = multiset.then(|| columns.pop()).flatten();
        Rows {
            columns,
            weights: weights.map(|column| column.as_primitive::<Int64Type>().clone()),
            deleted: deleted.map(|column| column.as_boolean().clone()),
            count: batch.num_rows(),
        }
    }

    /// Whether a row is gone.
    pub(super) fn is_gone(&self, row: usize) -> bool {
        self.deleted.as_ref().is_some_and(|deleted| deleted.value(row))
    }
}

/// Counts and hashes what goes by.
struct Checked {
    writer: Box<dyn BlobWriter>,
    hash: Xxh3,
    length: u64,
}

impl Write for Checked {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.writer.write(bytes)?;
        self.hash.update(&bytes[..count]);
        self.length += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// A file of a part that is being written.
pub(super) struct PartFile {
    place: String,
    writer: FileWriter<BufWriter<Checked>>,
    schema: SchemaRef,
    rows: u64,
}

/// What was written.
pub(super) struct Written {
    pub(super) length: u64,
    pub(super) checksum: String,
    pub(super) rows: u64,
}

impl PartFile {
    /// Starts a file.
    pub(super) fn create(blobs: &dyn Blobs, path: &BlobPath, schema: &SchemaRef) -> Result<PartFile> {
        let place = blobs.describe(Some(path));
        let failed = |cause| fault::io("write", &place, cause);
        let writer = blobs.create(path).map_err(failed)?;
        let (hash, length) = (Xxh3::default(), 0);
        let buffered = BufWriter::with_capacity(WRITE_BYTES, Checked { writer, hash, length });
        let writer = FileWriter::try_new(buffered, schema).map_err(|error| write_failure(&place, error))?;
        let (schema, rows) = (schema.clone(), 0);
        Ok(PartFile {
            place,
            writer,
            schema,
            rows,
        })
    }

    /// Appends rows of the file's schema.
    pub(super) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let given = batch(&self.schema, rows.columns().to_vec(), rows.num_rows())
            .map_err(|error| Error::bug(format!("a part of `{}` has other columns: {error}", self.place)))?;
        for start in (0..given.num_rows()).step_by(BATCH_ROWS) {
            let slice = given.slice(start, BATCH_ROWS.min(given.num_rows() - start));
            self.writer
                .write(&slice)
                .map_err(|error| write_failure(&self.place, error))?;
        }
        self.rows += given.num_rows() as u64;
        Ok(())
    }

    /// Makes the file durable.
    pub(super) fn finish(mut self) -> Result<Written> {
        let place = self.place;
        self.writer.finish().map_err(|error| write_failure(&place, error))?;
        let buffered = self.writer.into_inner().map_err(|error| write_failure(&place, error))?;
        let failed = |cause| fault::io("write", &place, cause);
        let checked = buffered.into_inner().map_err(|error| failed(error.into_error()))?;
        checked.writer.finish().map_err(failed)?;
        Ok(Written {
            length: checked.length,
            checksum: document::digits(checked.hash.digest()),
            rows: self.rows,
        })
    }
}

/// Arrow wraps what the system says.
fn write_failure(place: &str, error: ArrowError) -> Error {
    match error {
        ArrowError::IoError(_, cause) => fault::io("write", place, cause),
        error => Error::from(error),
    }
}

/// Reads a whole blob whose length is known.
pub(super) fn load(blobs: &dyn Blobs, path: &BlobPath, length: u64) -> Result<Vec<u8>> {
    let open = open(blobs, path)?;
    if open.length != length {
        let reason = format!("it has {} bytes, not {length}", open.length);
        return Err(fault::damaged(blobs, path, reason));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    let read = open.bytes.take(length.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|cause| fault::io("read", &blobs.describe(Some(path)), cause))?;
    if bytes.len() as u64 != length {
        let reason = format!("{} bytes came of it, not {length}", bytes.len());
        return Err(fault::damaged(blobs, path, reason));
    }
    Ok(bytes)
}

/// Opens a blob that must be there.
pub(super) fn open(blobs: &dyn Blobs, path: &BlobPath) -> Result<super::blobs::OpenBlob> {
    blobs.open(path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => fault::damaged(blobs, path, "it is missing"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput => fault::damaged(blobs, path, cause),
        _ => fault::io("read", &blobs.describe(Some(path)), cause),
    })
}

/// A file of a part that was checked.
#[derive(Debug)]
pub(super) struct CheckedPart {
    buffer: Buffer,
    decoder: FileDecoder,
    blocks: std::vec::IntoIter<Block>,
    path: BlobPath,
    rows_left: u64,
}

impl CheckedPart {
    /// Reads a file, checks its length, its checksum and its columns.
    pub(super) fn open(
        blobs: &dyn Blobs,
        path: &BlobPath,
        entry: &PartEntry,
        schema: &SchemaRef,
    ) -> Result<CheckedPart> {
        let bytes = load(blobs, path, entry.length)?;
        if document::digits(xxh3_64(&bytes)) != entry.checksum {
            return Err(fault::damaged(blobs, path, "it fails its checksum"));
        }
        let unreadable = |error: ArrowError| fault::damaged(blobs, path, format!("it does not decode: {error}"));
        let buffer = Buffer::from_vec(bytes);
        let (decoder, found, blocks) = decoder_of(&buffer).map_err(unreadable)?;
        if found.fields() != schema.fields() {
            return Err(fault::damaged(blobs, path, "its columns are not the table's"));
        }
        Ok(CheckedPart {
            buffer,
            decoder,
            blocks: blocks.into_iter(),
            path: path.clone(),
            rows_left: entry.rows,
        })
    }

    /// The next batch.
    pub(super) fn next(&mut self, blobs: &dyn Blobs) -> Result<Option<RecordBatch>> {
        let Some(block) = self.blocks.next() else {
            return match self.rows_left {
                0 => Ok(None),
                left => Err(fault::damaged(
                    blobs,
                    &self.path,
                    format!("{left} rows are missing in it"),
                )),
            };
        };
        let decoded = block_of(&self.buffer, &block).and_then(|data| self.decoder.read_record_batch(&block, &data));
        let batch = match decoded {
            Ok(Some(batch)) => batch,
            Ok(None) => return self.next(blobs),
            Err(error) => {
                return Err(fault::damaged(
                    blobs,
                    &self.path,
                    format!("it does not decode: {error}"),
                ));
            }
        };
        let rows = batch.num_rows() as u64;
        let left = self.rows_left.checked_sub(rows);
        self.rows_left = left.ok_or_else(|| fault::damaged(blobs, &self.path, "it has more rows than it should"))?;
        Ok(Some(batch))
    }
}

fn decoder_of(buffer: &Buffer) -> Result<(FileDecoder, SchemaRef, Vec<Block>), ArrowError> {
    let broken = |what: &str| ArrowError::IpcError(what.to_string());
    let footer_end = buffer
        .len()
        .checked_sub(TRAILER)
        .ok_or_else(|| broken("it is too short"))?;
    let trailer = buffer[footer_end..].try_into().map_err(|_| broken("it is too short"))?;
    let start = footer_end.checked_sub(read_footer_length(trailer)?);
    let footer = &buffer[start.ok_or_else(|| broken("its footer is too long"))?..footer_end];
    let footer = root_as_footer(footer).map_err(|error| broken(&format!("its footer is broken: {error}")))?;
    let schema: SchemaRef = Arc::new(fb_to_schema(footer.schema().ok_or_else(|| broken("it has no schema"))?));
    let mut decoder = FileDecoder::new(schema.clone(), footer.version());
    for block in footer.dictionaries().iter().flatten() {
        decoder.read_dictionary(block, &block_of(buffer, block)?)?;
    }
    let blocks = footer.recordBatches().map(|blocks| blocks.iter().copied().collect());
    Ok((decoder, schema, blocks.unwrap_or_default()))
}

fn block_of(buffer: &Buffer, block: &Block) -> Result<Buffer, ArrowError> {
    let broken = || ArrowError::IpcError("a batch lies outside the file".into());
    let offset = usize::try_from(block.offset()).map_err(|_| broken())?;
    let body = usize::try_from(block.bodyLength()).map_err(|_| broken())?;
    let head = usize::try_from(block.metaDataLength()).map_err(|_| broken())?;
    let length = body.checked_add(head).ok_or_else(broken)?;
    match offset.checked_add(length) {
        Some(end) if end <= buffer.len() => Ok(buffer.slice_with_length(offset, length)),
        _ => Err(broken()),
    }
}
