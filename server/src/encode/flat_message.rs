//! Messages of Arrow IPC whose columns are flat, written without an intermediate copy.
//!
//! The head of such a message differs from batch to batch only in numbers that stand at fixed places: rows, lengths,
//! counts of NULLs. So the library writes the head of the first, and these numbers are set in copies of it.
//!
//! # Source
//! "Serialization and Interprocess Communication (IPC)", Arrow columnar format 1.5: encapsulated messages and the
//! recursive order of buffers; Message.fbs for the structs `FieldNode` and `Buffer`.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use arrow::ipc::writer::{DictionaryTracker, EncodedData, IpcDataGenerator, IpcWriteOptions, write_message};
use arrow::ipc::{Message, RecordBatch as Head, root_as_message};
use cenote_statestore::{Error, Result};

/// Bytes that buffers and messages are aligned to; the library's default.
const ALIGNMENT: usize = 64;
/// Bytes before the head: a mark and its length.
const PREFIX: usize = 8;
/// Bytes of a `FieldNode` (rows, NULLs), and of a `Buffer` (offset, length).
const PAIR: usize = 16;

/// How messages of one schema are written.
pub(super) struct FlatMessage {
    /// A message without its body.
    head: Vec<u8>,
    /// Where in it numbers are.
    rows: usize,
    body_bytes: usize,
    nodes: usize,
    buffers: usize,
}

impl FlatMessage {
    /// The way to write batches like this one; `None`: it has no rows, or a column that is not flat.
    ///
    /// # Errors
    /// `Bug`: the library's message is not of the form that the format says.
    pub(super) fn like(batch: &RecordBatch) -> Result<Option<FlatMessage>> {
        if batch.num_rows() == 0 || batch.num_columns() == 0 || !batch.columns().iter().all(is_flat) {
            return Ok(None);
        }
        // One row: only its head is wanted.
        let (_, encoded) = IpcDataGenerator::default().encode(
            &batch.slice(0, 1),
            &mut DictionaryTracker::new(false),
            &IpcWriteOptions::default(),
            &mut Default::default(),
        )?;
        let mut head = Vec::new();
        let without_body = EncodedData {
            ipc_message: encoded.ipc_message,
            arrow_data: Vec::new(),
        };
        write_message(&mut head, without_body, &IpcWriteOptions::default())?;
        FlatMessage::of(head).map(Some)
    }

    fn of(head: Vec<u8>) -> Result<FlatMessage> {
        let unknown = || Error::bug("an Arrow message is of another form than expected");
        let (rows, body_bytes, nodes, buffers) = {
            let message = root_as_message(&head[PREFIX..]).map_err(|_| unknown())?;
            let batch = message.header_as_record_batch().ok_or_else(unknown)?;
            let scalar = |table: usize, field: u16| (field > 0).then(|| PREFIX + table + usize::from(field));
            let within = |part: &[u8]| part.as_ptr() as usize - head.as_ptr() as usize;
            (
                scalar(batch._tab.loc(), batch._tab.vtable().get(Head::VT_LENGTH)),
                scalar(message._tab.loc(), message._tab.vtable().get(Message::VT_BODYLENGTH)),
                within(batch.nodes().ok_or_else(unknown)?.bytes()),
                within(batch.buffers().ok_or_else(unknown)?.bytes()),
            )
        };
        Ok(FlatMessage {
            rows: rows.ok_or_else(unknown)?,
            body_bytes: body_bytes.ok_or_else(unknown)?,
            nodes,
            buffers,
            head,
        })
    }

    /// Appends the message of a batch of the same schema, which has rows.
    pub(super) fn write(&self, batch: &RecordBatch, out: &mut Vec<u8>) {
        let start = out.len();
        out.reserve(self.head.len() + room(batch));
        out.extend_from_slice(&self.head);
        let mut body = Body {
            start: out.len(),
            buffers: start + self.buffers,
            out,
        };
        for (column, array) in batch.columns().iter().enumerate() {
            let node = start + self.nodes + column * PAIR;
            body.set(node, array.len());
            body.set(node + 8, array.null_count());
            body.column(array);
        }
        let body_bytes = body.out.len() - body.start;
        body.set(start + self.rows, batch.num_rows());
        body.set(start + self.body_bytes, body_bytes);
    }
}

fn is_flat(array: &ArrayRef) -> bool {
    matches!(array.data_type(), DataType::Utf8 | DataType::Binary) || array.data_type().primitive_width().is_some()
}

/// Bytes that the body of a batch takes at most.
fn room(batch: &RecordBatch) -> usize {
    let rows = batch.num_rows();
    let of_column = |array: &ArrayRef| {
        let values = match array.data_type() {
            DataType::Utf8 => (rows + 1) * 4 + span(array.as_string::<i32>().offsets()).len(),
            DataType::Binary => (rows + 1) * 4 + span(array.as_binary::<i32>().offsets()).len(),
            other => rows * other.primitive_width().unwrap_or(0),
        };
        rows / 8 + values + 3 * ALIGNMENT
    };
    batch.columns().iter().map(of_column).sum()
}

/// Where the values of texts or byte strings lie.
fn span(offsets: &OffsetBuffer<i32>) -> std::ops::Range<usize> {
    let last = offsets[offsets.len() - 1];
    offsets[0] as usize..last as usize
}

/// The body of a message being written.
struct Body<'a> {
    out: &'a mut Vec<u8>,
    /// Where it starts.
    start: usize,
    /// Where the head tells of the next buffer.
    buffers: usize,
}

impl Body<'_> {
    fn set(&mut self, at: usize, number: usize) {
        self.out[at..at + 8].copy_from_slice(&(number as i64).to_le_bytes());
    }

    fn column(&mut self, array: &ArrayRef) {
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => self.buffer(&nulls.inner().sliced()),
            None => self.buffer(&[]),
        }
        match array.data_type() {
            DataType::Utf8 => {
                let texts = array.as_string::<i32>();
                self.variable(texts.offsets(), texts.value_data());
            }
            DataType::Binary => {
                let bytes = array.as_binary::<i32>();
                self.variable(bytes.offsets(), bytes.value_data());
            }
            other => {
                let width = other.primitive_width().unwrap_or(0);
                let data = array.to_data();
                let start = data.offset() * width;
                self.buffer(&data.buffers()[0][start..start + array.len() * width]);
            }
        }
    }

    fn variable(&mut self, offsets: &OffsetBuffer<i32>, values: &[u8]) {
        let span = span(offsets);
        match offsets[0] {
            0 => self.buffer(offsets.inner().inner()),
            first => {
                let moved: Vec<u8> = offsets
                    .iter()
                    .flat_map(|offset| (offset - first).to_le_bytes())
                    .collect();
                self.buffer(&moved);
            }
        }
        self.buffer(&values[span]);
    }

    /// Appends a buffer and tells the head of it.
    fn buffer(&mut self, bytes: &[u8]) {
        let offset = self.out.len() - self.start;
        self.set(self.buffers, offset);
        self.set(self.buffers + 8, bytes.len());
        self.buffers += PAIR;
        self.out.extend_from_slice(bytes);
        let end = (offset + bytes.len()).next_multiple_of(ALIGNMENT);
        self.out.resize(self.start + end, 0);
    }
}
