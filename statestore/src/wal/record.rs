//! A record and the body of its frame: the caller's header, then Arrow IPC streams.
//!
//! Neighbouring batches of one schema share a stream; each stream has its length before it (`u64`, little-endian).
//! Buffers in a stream are padded to 8 bytes: small records are common, and readers copy anyway.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::ipc::MetadataVersion;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::{CompressionContext, DictionaryTracker, IpcDataGenerator, IpcWriteOptions, write_message};
use arrow::record_batch::RecordBatch;

use crate::Epoch;

/// What ends an Arrow IPC stream: a continuation mark and length zero.
const STREAM_END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
const STREAM_LENGTH: usize = 8;

/// One entry of the log, written and read back whole or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// The epoch that the record belongs to. The log does not look at it.
    pub epoch: Epoch,
    /// The caller's tag. The log does not look at it.
    pub kind: u8,
    /// A small header of the caller, such as JSON; at most 4 GiB.
    pub header: Vec<u8>,
    /// Batches, of one schema or several; they come back in this order, with equal schemas and values.
    pub batches: Vec<RecordBatch>,
}

/// Appends the body of `record`.
pub(super) fn encode(record: &Record, buffer: &mut Vec<u8>) -> Result<(), ArrowError> {
    buffer.extend_from_slice(&record.header);
    for batches in record
        .batches
        .chunk_by(|left, right| left.schema_ref() == right.schema_ref())
    {
        let start = buffer.len();
        buffer.extend_from_slice(&[0; STREAM_LENGTH]);
        encode_stream(batches, buffer)?;
        let length = (buffer.len() - start - STREAM_LENGTH) as u64;
        buffer[start..start + STREAM_LENGTH].copy_from_slice(&length.to_le_bytes());
    }
    Ok(())
}

/// Arrow IPC, as its crate writes it, does not give back every slice of run-end encoded columns.
fn holds_runs(data_type: &DataType) -> bool {
    match data_type {
        DataType::RunEndEncoded(_, _) => true,
        DataType::Dictionary(_, values) => holds_runs(values),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => holds_runs(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_runs(field.data_type())),
        DataType::Union(fields, _) => fields.iter().any(|(_, field)| holds_runs(field.data_type())),
        _ => false,
    }
}

/// As `StreamWriter` of Arrow does, which panics on a batch that it cannot write.
fn encode_stream(batches: &[RecordBatch], buffer: &mut Vec<u8>) -> Result<(), ArrowError> {
    let Some(first) = batches.first() else { return Ok(()) };
    if let Some(field) = first
        .schema_ref()
        .fields()
        .iter()
        .find(|field| holds_runs(field.data_type()))
    {
        let (name, data_type) = (field.name(), field.data_type());
        return Err(ArrowError::NotYetImplemented(format!(
            "column `{name}` has type {data_type}"
        )));
    }
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
    let (generator, mut compression) = (IpcDataGenerator::default(), CompressionContext::default());
    let mut dictionaries = DictionaryTracker::new(false);
    let schema = generator.schema_to_bytes_with_dictionary_tracker(first.schema_ref(), &mut dictionaries, &options);
    write_message(&mut *buffer, schema, &options)?;
    for batch in batches {
        let (before, message) = generator.encode(batch, &mut dictionaries, &options, &mut compression)?;
        for dictionary in before {
            write_message(&mut *buffer, dictionary, &options)?;
        }
        write_message(&mut *buffer, message, &options)?;
    }
    buffer.extend_from_slice(&STREAM_END);
    Ok(())
}

/// Reads the batches of a body behind its header.
pub(super) fn decode_batches(mut streams: &[u8]) -> Result<Vec<RecordBatch>, ArrowError> {
    let mut batches = Vec::new();
    while let Some((length, rest)) = streams.split_first_chunk::<STREAM_LENGTH>() {
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let stream = rest
            .get(..length)
            .ok_or_else(|| ArrowError::IpcError("a stream is cut short".into()))?;
        for batch in StreamReader::try_new(stream, None)? {
            batches.push(batch?);
        }
        streams = &rest[length..];
    }
    if streams.is_empty() {
        Ok(batches)
    } else {
        Err(ArrowError::IpcError("bytes follow the last stream".into()))
    }
}
