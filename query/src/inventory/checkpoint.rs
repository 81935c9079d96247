//! The state that a checkpoint holds.

use super::StateInventory;
use super::part::StatePart;
use crate::attached::AttachedBatches;
use crate::catalog::STATE_SCHEMA;
use cenote_statestore::checkpoint::{Checkpoint, KeyGroups, TableEntry, TableKind};
use std::sync::Arc;

/// Rows given at once where a row is there several times.
const ROWS_PER_BATCH: usize = 8192;

impl StateInventory {
    /// All state in a checkpoint. Files are opened when rows of them are asked for.
    pub fn of_checkpoint(checkpoint: &Checkpoint) -> StateInventory {
        let tables = checkpoint.manifest().tables.iter();
        let state = tables.filter(|table| !matches!(table.kind, TableKind::Table | TableKind::View));
        let parts = state.map(|table| part_of(checkpoint, table));
        StateInventory::of(parts.collect(), true)
    }
}

fn part_of(checkpoint: &Checkpoint, table: &TableEntry) -> StatePart {
    let kept_by = match table.kind {
        TableKind::Source => "source",
        TableKind::Sink => "sink",
        _ => "errors",
    };
    let (checkpoint, name) = (checkpoint.clone(), table.readable_name());
    StatePart {
        view: table.view.clone(),
        operator: table.operator.clone().unwrap_or_else(|| kept_by.to_string()),
        table: match table.schema.as_str() {
            STATE_SCHEMA => table.name.clone(),
            _ => name.clone(),
        },
        columns: table.table_schema(),
        key: if table.multiset {
            Vec::new()
        } else {
            table.key_columns()
        },
        distribution: table.key_columns(),
        read: Arc::new(move |columns| {
            let rows = checkpoint.read_table(&name, KeyGroups::ALL)?.repeated(ROWS_PER_BATCH);
            let columns = columns.to_vec();
            let batches: AttachedBatches = Box::new(rows.map(move |rows| Ok(rows?.project(&columns)?)));
            Ok(batches)
        }),
    }
}
