//! `SHOW HISTORY OF t`: the moments that a table or a view can be read at, and what changed in each.
//!
//! # Not here
//! Reading it then (`past`, `kept`).

use crate::catalog::{CATALOG_SCHEMA, PUBLIC, STATE_SCHEMA};
use crate::checkpoints::CheckpointListing;
use crate::database::Database;
use crate::past::shown_time;
use crate::system::Columns;
use arrow::array::RecordBatch;
use cenote_statestore::{Changes, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A moment that something can be read at.
#[derive(Default)]
struct Entry {
    time: Option<String>,
    inserted: Option<i64>,
    deleted: Option<i64>,
    is_in_memory: bool,
    checkpoint: Option<String>,
    savepoints: Vec<String>,
}

/// Columns of the answer.
pub(crate) fn columns() -> Result<arrow::datatypes::SchemaRef> {
    Ok(table(BTreeMap::new())?.schema())
}

/// The history of what has a name, oldest first.
///
/// # Errors
/// `Invalid` 42P01: there is nothing of that name, now or in a checkpoint.
pub(crate) async fn rows(database: &Arc<Database>, name: &str) -> Result<RecordBatch> {
    let catalog = database.catalog();
    let (schema, bare) = name.rsplit_once('.').unwrap_or((PUBLIC, name));
    let checkpoints = database.checkpoints().await?;
    let mut entries: BTreeMap<u64, Entry> = BTreeMap::new();
    for listed in checkpoints {
        note_checkpoint(&mut entries, listed, schema, bare);
    }
    let object = match schema {
        PUBLIC => catalog.get(bare),
        _ => None,
    };
    if let Some(rows) = object.and_then(|object| object.versioned()) {
        let visible = database.epoch();
        let oldest = database.engine().retention().horizon();
        let times = database.engine().progress().sealed_times();
        for (epoch, changes) in rows.kept_changes(visible) {
            if epoch >= oldest {
                note_changes(entries.entry(epoch.0).or_default(), &changes);
            }
        }
        for (epoch, time) in times {
            if let Some(entry) = entries.get_mut(&epoch.0).filter(|_| epoch >= oldest) {
                entry.is_in_memory = true;
                entry.time = Some(shown_time(time));
            }
        }
    }
    // What memory holds of an epoch is told in full: nothing went, or nothing came.
    for entry in entries.values_mut().filter(|entry| entry.is_in_memory) {
        entry.inserted.get_or_insert(0);
        entry.deleted.get_or_insert(0);
    }
    if entries.is_empty() && object.is_none() && ![STATE_SCHEMA, CATALOG_SCHEMA].contains(&schema) {
        return Err(catalog.missing(bare));
    }
    table(entries)
}

fn note_checkpoint(entries: &mut BTreeMap<u64, Entry>, listed: CheckpointListing, schema: &str, name: &str) {
    let Ok(manifest) = listed.manifest else { return };
    if manifest
        .tables
        .iter()
        .any(|table| table.schema == schema && table.name == name)
    {
        let entry = entries.entry(manifest.epoch).or_default();
        entry.time = Some(shown_time(manifest.time_ms * 1000));
        entry.checkpoint = Some(listed.id);
        entry.savepoints.extend(listed.savepoints);
    }
}

fn note_changes(entry: &mut Entry, changes: &Changes) {
    for row in 0..changes.len() {
        let weight = changes.weights().get(row);
        let side = if weight > 0 {
            &mut entry.inserted
        } else {
            &mut entry.deleted
        };
        *side = Some(side.unwrap_or(0) + weight.abs());
    }
}

fn table(entries: BTreeMap<u64, Entry>) -> Result<RecordBatch> {
    let text = |of: &dyn Fn(&Entry) -> Option<String>| entries.values().map(of).collect();
    Columns::default()
        .number("epoch", entries.keys().map(|epoch| *epoch as i64).collect())
        .text("time", text(&|entry| entry.time.clone()))
        .number_if_any("inserted", entries.values().map(|entry| entry.inserted).collect())
        .number_if_any("deleted", entries.values().map(|entry| entry.deleted).collect())
        .text(
            "in_memory",
            text(&|entry| Some(if entry.is_in_memory { "yes" } else { "no" }.to_string())),
        )
        .text("checkpoint", text(&|entry| entry.checkpoint.clone()))
        .text(
            "savepoint",
            text(&|entry| (!entry.savepoints.is_empty()).then(|| entry.savepoints.join(", "))),
        )
        .batch()
}
