//! One file of rows: Arrow IPC, file format, which pyarrow, polars and DuckDB open as it is.
//!
//! # Layout
//! The table's columns; then `cenote_weight` (how often the row is there) where rows have multiplicities; then, in deltas,
//! `cenote_deleted`. Of a row that is gone only the identity counts, so in deltas all other columns may be NULL.
//!
//! # Rules kept here
//! 1. Length and checksum of the whole file are checked before any of it is decoded.

use std::io::{self, BufWriter, Write};
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{FileDecoder, read_footer_length};
use arrow::ipc::writer::FileWriter;
use arrow::ipc::{Block, root_as_footer};
use xxhash_rust::xxh3::Xxh3;

use super::blobs::{BlobPath, BlobWriter, Blobs};
use super::held::HeldFiles;
use super::manifest::{PartEntry, PartKind};
use super::whole::{Pieces, WholeFile};
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
const TRAILER: u64 = 10;

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
    pieces: Pieces,
    length: u64,
    decoder: FileDecoder,
    blocks: std::vec::IntoIter<Block>,
    path: BlobPath,
    rows_left: u64,
}

impl CheckedPart {
    /// Checks a file, its length, its checksum and its columns.
    ///
    /// # Arguments
    /// - `held`: files that were checked already.
    pub(super) fn open(
        blobs: &dyn Blobs,
        held: &HeldFiles,
        path: &BlobPath,
        entry: &PartEntry,
        schema: &SchemaRef,
    ) -> Result<CheckedPart> {
        let file = checked(blobs, held, path, entry)?;
        let (length, mut pieces) = (file.length(), Pieces::new(file));
        let unreadable = |error: ArrowError| undecodable(blobs, path, &error);
        let trailer = within(length.checked_sub(TRAILER), length).map_err(unreadable)?;
        let footer_end = trailer.start;
        let trailer = pieces.read(blobs, path, trailer)?;
        let footer_length = trailer_length(&trailer).map_err(unreadable)?;
        let footer = within(footer_end.checked_sub(footer_length), footer_end).map_err(unreadable)?;
        let footer = pieces.read(blobs, path, footer)?;
        let (decoder, found, blocks) = decoder_of(&footer).map_err(unreadable)?;
        if found.fields() != schema.fields() {
            return Err(fault::damaged(blobs, path, "its columns are not the table's"));
        }
        Ok(CheckedPart {
            pieces,
            length,
            decoder,
            blocks: blocks.into_iter(),
            path: path.clone(),
            rows_left: entry.rows,
        })
    }

    /// The next batch.
    pub(super) fn next(&mut self, blobs: &dyn Blobs) -> Result<Option<RecordBatch>> {
        for block in self.blocks.by_ref() {
            let place = place_of(&block, self.length).map_err(|error| undecodable(blobs, &self.path, &error))?;
            let data = self.pieces.read(blobs, &self.path, place)?;
            let decoded = self.decoder.read_record_batch(&block, &data);
            let Some(batch) = decoded.map_err(|error| undecodable(blobs, &self.path, &error))? else {
                continue;
            };
            let left = self.rows_left.checked_sub(batch.num_rows() as u64);
            let too_many = || fault::damaged(blobs, &self.path, "it has more rows than it should");
            self.rows_left = left.ok_or_else(too_many)?;
            return Ok(Some(batch));
        }
        match self.rows_left {
            0 => Ok(None),
            left => {
                let reason = format!("{left} rows are missing in it");
                Err(fault::damaged(blobs, &self.path, reason))
            }
        }
    }
}

/// Checks a file, unless it was checked before.
pub(super) fn check_part(blobs: &dyn Blobs, held: &HeldFiles, entry: &PartEntry) -> Result<()> {
    let path = entry
        .blob()
        .ok_or_else(|| Error::bug(format!("`{}` was not checked", entry.path)))?;
    checked(blobs, held, &path, entry).map(drop)
}

fn checked(blobs: &dyn Blobs, held: &HeldFiles, path: &BlobPath, entry: &PartEntry) -> Result<Arc<WholeFile>> {
    held.get(&entry.path, || WholeFile::check(blobs, path, entry))
}

fn undecodable(blobs: &dyn Blobs, path: &BlobPath, error: &ArrowError) -> Error {
    fault::damaged(blobs, path, format!("it does not decode: {error}"))
}

fn broken(what: impl Into<String>) -> ArrowError {
    ArrowError::IpcError(what.into())
}

/// # Arguments
/// - `start`: `None`: before the file's beginning.
fn within(start: Option<u64>, end: u64) -> Result<Range<u64>, ArrowError> {
    start.map(|start| start..end).ok_or_else(|| broken("it is too short"))
}

/// How long the footer is.
fn trailer_length(trailer: &[u8]) -> Result<u64, ArrowError> {
    let trailer = trailer.try_into().map_err(|_| broken("it is too short"))?;
    Ok(read_footer_length(trailer)? as u64)
}

fn decoder_of(footer: &[u8]) -> Result<(FileDecoder, SchemaRef, Vec<Block>), ArrowError> {
    let footer = root_as_footer(footer).map_err(|error| broken(format!("its footer is broken: {error}")))?;
    let schema: SchemaRef = Arc::new(fb_to_schema(footer.schema().ok_or_else(|| broken("it has no schema"))?));
    let decoder = FileDecoder::new(schema.clone(), footer.version());
    if footer
        .dictionaries()
        .is_some_and(|dictionaries| !dictionaries.is_empty())
    {
        return Err(broken("it has dictionaries"));
    }
    let blocks = footer.recordBatches().map(|blocks| blocks.iter().copied().collect());
    Ok((decoder, schema, blocks.unwrap_or_default()))
}

/// Where a batch lies in a file.
fn place_of(block: &Block, length: u64) -> Result<Range<u64>, ArrowError> {
    let outside = || broken("a batch lies outside the file");
    let start = u64::try_from(block.offset()).map_err(|_| outside())?;
    let body = u64::try_from(block.bodyLength()).map_err(|_| outside())?;
    let head = u64::try_from(block.metaDataLength()).map_err(|_| outside())?;
    let end = body.checked_add(head).and_then(|count| start.checked_add(count));
    let end = end.filter(|end| *end <= length).ok_or_else(outside)?;
    Ok(start..end)
}
