//! What travels along the edges of a dataflow: a batch of changes, and how it is split among workers.
//!
//! Between threads a packet moves as it is; between processes as an Arrow IPC stream with the weights as a last
//! column, encoded once because timely asks for the length before the bytes.

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::ipc::{reader::StreamReader, writer::StreamWriter};
use cenote_statestore::{Changes, Weights, hash_rows, shard_of};
use std::sync::{Arc, OnceLock};
use timely::Accountable;
use timely::communication::Push;
use timely::dataflow::channels::pushers::exchange::Distributor;
use timely::dataflow::channels::{ContainerBytes, Message};
use timely::progress::Stamp;

/// A batch of changes on its way; empty by default.
#[derive(Default)]
pub(crate) struct Packet {
    changes: Option<Changes>,
    encoded: OnceLock<Vec<u8>>,
}

impl Packet {
    pub(crate) fn new(changes: Changes) -> Packet {
        Packet {
            changes: Some(changes),
            encoded: OnceLock::new(),
        }
    }

    pub(crate) fn into_changes(self) -> Option<Changes> {
        self.changes
    }

    fn encoded(&self) -> &[u8] {
        self.encoded
            .get_or_init(|| self.changes.as_ref().map_or(Vec::new(), encode))
    }
}

impl Clone for Packet {
    fn clone(&self) -> Packet {
        Packet {
            changes: self.changes.clone(),
            encoded: OnceLock::new(),
        }
    }
}

impl Accountable for Packet {
    fn record_count(&self) -> i64 {
        self.changes.as_ref().map_or(0, |changes| changes.len() as i64)
    }
}

impl ContainerBytes for Packet {
    fn from_bytes(bytes: timely::bytes::arc::Bytes) -> Packet {
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("a length of eight bytes")) as usize;
        Packet {
            changes: (length > 0).then(|| decode(&bytes[8..8 + length])),
            encoded: OnceLock::new(),
        }
    }

    fn length_in_bytes(&self) -> usize {
        8 + self.encoded().len().next_multiple_of(8)
    }

    fn into_bytes<W: std::io::Write>(&self, writer: &mut W) {
        let encoded = self.encoded();
        let padding = [0u8; 8];
        let pad = encoded.len().next_multiple_of(8) - encoded.len();
        for part in [&(encoded.len() as u64).to_le_bytes()[..], encoded, &padding[..pad]] {
            writer
                .write_all(part)
                .expect("timely gives room for the length it was told");
        }
    }
}

fn encode(changes: &Changes) -> Vec<u8> {
    let rows = changes.rows();
    let mut fields: Vec<Field> = rows
        .schema()
        .fields()
        .iter()
        .map(|field| field.as_ref().clone())
        .collect();
    fields.push(Field::new("weight", DataType::Int64, false));
    let columns: Vec<ArrayRef> = rows
        .columns()
        .iter()
        .cloned()
        .chain([changes.weight_column()])
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns).expect("columns follow their schema");
    let mut writer = StreamWriter::try_new(Vec::new(), &schema).expect("writing to memory");
    writer.write(&batch).expect("writing to memory");
    writer.into_inner().expect("writing to memory")
}

fn decode(bytes: &[u8]) -> Changes {
    let mut reader = StreamReader::try_new(bytes, None).expect("a peer of the same version wrote it");
    let batch = reader
        .next()
        .expect("one batch")
        .expect("a peer of the same version wrote it");
    let last = batch.num_columns() - 1;
    let weights = batch.column(last).as_primitive::<Int64Type>().values().to_vec();
    let rows = Changes::batch(
        Arc::new(Schema::new(batch.schema().fields()[..last].to_vec())),
        batch.columns()[..last].to_vec(),
        batch.num_rows(),
    )
    .expect("columns follow their schema");
    Changes::new(rows, Weights::Each(weights))
}

/// Sends each row to the worker that owns its key: hash, count, one `take`, one slice per worker.
pub(crate) struct HashDistributor {
    keys: Vec<usize>,
}

impl HashDistributor {
    pub(crate) fn new(keys: Vec<usize>) -> HashDistributor {
        HashDistributor { keys }
    }

    /// Rows sorted by target, and the number of rows of each target.
    fn split(&self, changes: &Changes, targets: usize) -> (Vec<u32>, Vec<usize>) {
        let columns: Vec<ArrayRef> = self
            .keys
            .iter()
            .map(|key| changes.rows().column(*key).clone())
            .collect();
        let targets_of: Vec<u32> = hash_rows(&columns, changes.len())
            .into_iter()
            .map(|hash| shard_of(hash, targets) as u32)
            .collect();
        let mut counts = vec![0usize; targets];
        targets_of.iter().for_each(|target| counts[*target as usize] += 1);
        let mut starts: Vec<usize> = counts
            .iter()
            .scan(0, |sum, count| {
                let start = *sum;
                *sum += count;
                Some(start)
            })
            .collect();
        let mut order = vec![0u32; changes.len()];
        for (row, target) in targets_of.iter().enumerate() {
            order[starts[*target as usize]] = row as u32;
            starts[*target as usize] += 1;
        }
        (order, counts)
    }
}

impl Distributor<Packet> for HashDistributor {
    fn partition<T: Clone, P: Push<Message<T, Packet>>>(
        &mut self,
        packet: &mut Packet,
        stamp: &Stamp<T>,
        pushers: &mut [P],
    ) {
        let Some(changes) = std::mem::take(packet).into_changes() else {
            return;
        };
        let (order, counts) = self.split(&changes, pushers.len());
        if let Some(only) = counts.iter().position(|count| *count == changes.len()) {
            Message::push_at(&mut Packet::new(changes), stamp.clone(), &mut pushers[only]);
            return;
        }
        let sorted = changes.take(&order).expect("rows of the batch");
        let mut start = 0;
        for (count, pusher) in counts.into_iter().zip(pushers) {
            if count > 0 {
                Message::push_at(&mut Packet::new(sorted.slice(start, count)), stamp.clone(), pusher);
                start += count;
            }
        }
    }

    fn flush<T: Clone, P: Push<Message<T, Packet>>>(&mut self, _stamp: &Stamp<T>, _pushers: &mut [P]) {}
}

#[cfg(test)]
mod tests;
