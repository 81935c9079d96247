//! How far sources have been read: offsets as rows of their tables.

use crate::catalog::{Table, offsets_schema};
use crate::database::Database;
use arrow::array::{AsArray, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use cenote_engine::port::{Offsets, PartitionOffset};
use cenote_statestore::{Epoch, Result};
use std::sync::Arc;

impl Database {
    /// Offsets that had been committed for a table's source as of an epoch.
    pub(crate) fn stored_offsets(&self, table: &Table, epoch: Epoch) -> Result<Offsets> {
        let Some(stored) = &table.offsets else {
            return Ok(Offsets::new());
        };
        let pin = self.engine().retention().pin(epoch)?;
        let mut scan = stored.scan(pin, (0..5).collect(), 0..1);
        let mut offsets = Offsets::new();
        while let Some(batch) = scan.next_batch(1024)? {
            for row in 0..batch.num_rows() {
                let (partition, offset) = offset_of(&batch, row);
                offsets.insert(partition, offset);
            }
        }
        Ok(offsets)
    }
}

fn offset_of(batch: &RecordBatch, row: usize) -> (String, PartitionOffset) {
    let text = |column: usize| batch.column(column).as_string::<i32>().value(row).to_string();
    let number = |column: usize| batch.column(column).as_primitive::<Int64Type>().value(row) as u64;
    let done = batch.column(3).as_boolean().value(row);
    (
        text(0),
        PartitionOffset {
            position: number(1),
            records: number(2),
            done,
            identity: text(4),
        },
    )
}

/// Offsets as rows.
pub(super) fn offset_rows(source: &str, offsets: &Offsets) -> Result<RecordBatch> {
    let numbers = |of: fn(&PartitionOffset) -> u64| {
        Arc::new(Int64Array::from_iter_values(offsets.values().map(|o| of(o) as i64)))
    };
    Ok(RecordBatch::try_new(
        offsets_schema(source).columns,
        vec![
            Arc::new(StringArray::from_iter_values(offsets.keys())),
            numbers(|offset| offset.position),
            numbers(|offset| offset.records),
            Arc::new(
                offsets
                    .values()
                    .map(|offset| Some(offset.done))
                    .collect::<BooleanArray>(),
            ),
            Arc::new(StringArray::from_iter_values(
                offsets.values().map(|offset| &offset.identity),
            )),
        ],
    )?)
}
