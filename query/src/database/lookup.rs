//! Point lookups: rows of tables, views and operator state by key, all keys at one epoch.

use super::read::{SCAN_ROWS, Target};
use super::{Database, LookupRows, Readable};
use crate::pgtext::parse_array;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use cenote_engine::StateRows;
use cenote_statestore::{Error, ErrorKind, Pin, Result, VersionedTable};
use std::sync::Arc;

impl Database {
    /// Looks up keys by the whole key of a collection, or by the named columns.
    ///
    /// # Arguments
    /// - `columns`: names of the columns that `keys` are for; empty: the key columns in order.
    /// - `keys`: one list of texts per key, in the order of `columns`, each in PostgreSQL's input form of its type;
    ///   `None` is NULL.
    ///
    /// # Cost
    /// One hash probe per key where the columns are the key or those of an index; else one scan of the collection.
    ///
    /// # Errors
    /// - `Invalid` 42P01, 42703: no such collection or column. 22P02: a key does not parse as its type.
    pub async fn lookup(&self, name: &str, columns: &[String], keys: &[Vec<Option<String>>]) -> Result<LookupRows> {
        let target = self.target(&self.catalog(), name)?;
        let readable = target.readable().clone();
        let wanted = wanted_columns(&readable, columns)?;
        let arrays = key_arrays(&readable, &wanted, keys)?;
        match target {
            Target::Versioned { table, view, .. } => {
                let pin = self.engine.pin_visible()?;
                // Behind the pin: of an epoch in which the view failed there may be one worker's share.
                view.map_or(Ok(()), |view| self.check_view(&view))?;
                let (rows, key_of_row) = match probe(&table, &readable, &pin, &wanted, &arrays)? {
                    Some(found) => found,
                    None => scan_for(&table, &readable, &pin, &wanted, &arrays)?,
                };
                Ok(LookupRows {
                    epoch: pin.epoch(),
                    readable,
                    rows,
                    key_of_row,
                })
            }
            Target::Errors { tables, .. } => {
                let pin = self.engine.pin_visible()?;
                let all = concat_batches(&readable.columns, &tables.read(&pin).collect::<Result<Vec<_>>>()?)?;
                let (rows, key_of_row) = matching(&all, &wanted, &arrays)?;
                Ok(LookupRows {
                    epoch: pin.epoch(),
                    readable,
                    rows,
                    key_of_row,
                })
            }
            Target::State { table, .. } => {
                let by_key = same_set(&wanted, &readable.key) && !readable.key.is_empty();
                let in_order = wanted == readable.key;
                let probe = match by_key && in_order {
                    true => StateRows::OfKeys(arrays.clone()),
                    false => StateRows::All,
                };
                let (epoch, mut rows) = self.engine.read_state(vec![table.read(probe)]).await?;
                self.engine.wait_visible(epoch).await?;
                let all = concat_batches(&readable.columns, &rows.remove(0))?;
                let (rows, key_of_row) = matching(&all, &wanted, &arrays)?;
                Ok(LookupRows {
                    readable,
                    epoch,
                    rows,
                    key_of_row,
                })
            }
        }
    }
}

/// Finds keys by the primary key or by an index of these columns, in whatever order they are named; `None`: there is
/// none.
fn probe(
    table: &VersionedTable,
    readable: &Readable,
    pin: &Pin,
    wanted: &[usize],
    keys: &[ArrayRef],
) -> Result<Option<(RecordBatch, Vec<usize>)>> {
    let ordered = |columns: &[usize]| -> Vec<ArrayRef> {
        let positions = columns
            .iter()
            .filter_map(|column| wanted.iter().position(|w| w == column));
        positions.map(|position| keys[position].clone()).collect()
    };
    let found = if readable.key_unique && same_set(wanted, &readable.key) {
        Some(table.lookup(&ordered(&readable.key), pin)?)
    } else {
        let mut indexes = table.indexes().into_iter();
        match indexes.find(|(_, columns)| same_set(wanted, columns)) {
            Some((index, columns)) => table.lookup_index(index, &ordered(&columns), pin)?,
            None => None,
        }
    };
    let Some(found) = found else { return Ok(None) };
    let visible: Vec<usize> = (0..readable.columns.fields().len()).collect();
    Ok(Some((found.rows.project(&visible)?, found.key_of_row)))
}

fn wanted_columns(readable: &Readable, columns: &[String]) -> Result<Vec<usize>> {
    if !columns.is_empty() {
        return columns
            .iter()
            .map(|name| position_of(&readable.columns, name))
            .collect();
    }
    if readable.key.is_empty() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "READ-0004",
            format!("cannot look up a key in \"{}\": it has no key", readable.name),
        )
        .sqlstate("42P10")
        .attempt("name a column: ?column=value"));
    }
    Ok(readable.key.clone())
}

/// Keys as columns, parsed as the columns' types.
fn key_arrays(readable: &Readable, wanted: &[usize], keys: &[Vec<Option<String>>]) -> Result<Vec<ArrayRef>> {
    if let Some(key) = keys.iter().find(|key| key.len() != wanted.len()) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "READ-0007",
            format!("cannot look up a key of {} values in \"{}\"", key.len(), readable.name),
        )
        .sqlstate("22023")
        .fact("expected", format!("{} values", wanted.len())));
    }
    let parsed = wanted.iter().enumerate().map(|(index, column)| {
        let texts: Vec<Option<&str>> = keys.iter().map(|key| key[index].as_deref()).collect();
        let field = readable.columns.field(*column);
        parse_array(&texts, field.data_type()).map_err(|error| error.fact("column", field.name()))
    });
    parsed.collect()
}

fn same_set(a: &[usize], b: &[usize]) -> bool {
    a.len() == b.len() && a.iter().all(|column| b.contains(column))
}

/// Finds keys by reading everything.
fn scan_for(
    table: &Arc<VersionedTable>,
    readable: &Readable,
    pin: &Pin,
    wanted: &[usize],
    keys: &[ArrayRef],
) -> Result<(RecordBatch, Vec<usize>)> {
    let all = (0..readable.columns.fields().len()).collect();
    let mut scan = table.scan(pin.clone(), all, 0..table.shards());
    let (mut parts, mut key_of_row) = (Vec::new(), Vec::new());
    while let Some(batch) = scan.next_batch(SCAN_ROWS)? {
        let (rows, keys) = matching(&batch, wanted, keys)?;
        parts.push(rows);
        key_of_row.extend(keys);
    }
    Ok((concat_batches(&readable.columns, &parts)?, key_of_row))
}

/// The rows of a batch that have one of the keys, and which.
fn matching(batch: &RecordBatch, wanted: &[usize], keys: &[ArrayRef]) -> Result<(RecordBatch, Vec<usize>)> {
    let columns = wanted
        .iter()
        .map(|column| crate::json_parts::comparable(batch.column(*column)));
    let columns: Vec<ArrayRef> = columns.collect();
    let keys: Vec<ArrayRef> = keys.iter().map(crate::json_parts::comparable).collect();
    let fields = columns
        .iter()
        .map(|column| arrow::row::SortField::new(column.data_type().clone()))
        .collect();
    let converter = arrow::row::RowConverter::new(fields)?;
    let (rows, keys) = (converter.convert_columns(&columns)?, converter.convert_columns(&keys)?);
    let positions: std::collections::HashMap<&[u8], usize> = keys
        .iter()
        .enumerate()
        .map(|(position, key)| (key.data(), position))
        .collect();
    let (mut found, mut key_of_row) = (Vec::new(), Vec::new());
    for (row, value) in rows.iter().enumerate() {
        if let Some(position) = positions.get(value.data()) {
            found.push(row as u32);
            key_of_row.push(*position);
        }
    }
    let rows = arrow::compute::take_record_batch(batch, &arrow::array::UInt32Array::from(found))?;
    Ok((rows, key_of_row))
}

pub(super) fn position_of(columns: &SchemaRef, name: &str) -> Result<usize> {
    columns.index_of(name).map_err(|_| {
        let names: Vec<&str> = columns.fields().iter().map(|field| field.name().as_str()).collect();
        Error::new(
            ErrorKind::Invalid,
            "SQL-0302",
            format!("column \"{name}\" does not exist"),
        )
        .sqlstate("42703")
        .fact("columns", names.join(", "))
    })
}
