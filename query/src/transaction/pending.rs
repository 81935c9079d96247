//! The changes of one transaction to one table, and its keys: what they conflict with in the transaction's snapshot.
//!
//! # Rules kept here
//! 1. Conflicts with what the transaction sees are settled at once, by each statement's own rule.
//! 2. What others insert meanwhile is met at the commit, by one rule for the table. Rows that were left out, updated or
//!    told of on the strength of the snapshot make the transaction look again (40001) rather than be dropped.

use super::{ConflictRule, Overlay};
use crate::catalog::Table;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, Rows, SortField};
use cenote_engine::plan::CollectionId;
use cenote_engine::{OnConflict, RowKey, TableWrite, is_row_numbered, row_keys};
use cenote_statestore::{Error, Lookup, Pin, Result, VersionedTable};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Changes to one table.
#[derive(Clone)]
pub(crate) struct Pending {
    versioned: Arc<VersionedTable>,
    keys: Vec<RowKey>,
    deletes: RecordBatch,
    inserts: RecordBatch,
    truncated: bool,
    /// The rule at the commit; `None`: no statement has said one.
    on_conflict: Option<OnConflict>,
}

/// The values of one key of new rows, and which of them are there already.
struct KeyValues {
    encoded: Rows,
    /// Whether a value is NULL, which conflicts with nothing.
    is_null: Vec<bool>,
    there: HashSet<usize>,
}

impl Pending {
    pub(super) fn new(table: &Table) -> Result<Pending> {
        let versioned = table
            .versioned
            .clone()
            .ok_or_else(|| Error::bug("a write to a table that keeps no rows"))?;
        let stored = versioned.schema().columns.clone();
        Ok(Pending {
            keys: row_keys(&versioned),
            versioned,
            deletes: RecordBatch::new_empty(stored.clone()),
            inserts: RecordBatch::new_empty(stored),
            truncated: false,
            on_conflict: None,
        })
    }

    /// The table that it was begun on.
    pub(super) fn versioned(&self) -> &Arc<VersionedTable> {
        &self.versioned
    }

    /// Adds new rows, in the columns that users see.
    ///
    /// # Arguments
    /// - `first`: row number of the first; the others go down from it.
    /// - `repeats`: whether the transaction is one statement that is run again if need be.
    pub(super) fn insert(
        &mut self,
        rows: RecordBatch,
        pin: &Pin,
        first: i64,
        rule: &ConflictRule,
        repeats: bool,
    ) -> Result<RecordBatch> {
        let mut rows = numbered(rows, &self.versioned.schema().columns, first)?;
        if let Some(kept) = self.kept(&rows, pin, rule)? {
            rows = filter_record_batch(&rows, &kept)?;
        }
        self.join_rule(self.rule_at_commit(rule, repeats));
        self.inserts = concat_batches(&rows.schema(), [&self.inserts, &rows])?;
        Ok(rows)
    }

    /// Replaces rows by others, or deletes them (`new` is empty).
    pub(super) fn replace(&mut self, old: RecordBatch, new: RecordBatch, pin: &Pin) -> Result<()> {
        self.delete(old)?;
        if new.num_rows() > 0 {
            self.kept(&new, pin, &ConflictRule::Refuse)?;
            self.inserts = concat_batches(&new.schema(), [&self.inserts, &new])?;
        }
        if self.on_conflict == Some(OnConflict::Ignore) {
            // A row that was changed since must not be dropped silently.
            self.on_conflict = Some(OnConflict::Retry);
        }
        Ok(())
    }

    /// Deletes everything.
    pub(super) fn truncate(&mut self) {
        self.truncated = true;
        self.deletes = self.deletes.slice(0, 0);
        self.inserts = self.inserts.slice(0, 0);
    }

    pub(super) fn overlay(&self) -> Result<Overlay> {
        Ok(Overlay {
            gone: self.identities(&self.deletes)?.into_iter().collect(),
            inserts: self.inserts.clone(),
            truncated: self.truncated,
        })
    }

    fn rule_at_commit(&self, rule: &ConflictRule, repeats: bool) -> OnConflict {
        match rule {
            ConflictRule::Refuse => OnConflict::Refuse,
            ConflictRule::Retry => OnConflict::Retry,
            // A statement in a block cannot be run again: a row that is there by then is left out.
            ConflictRule::Skip { is_told: false, .. } if !repeats && self.is_plain() => OnConflict::Ignore,
            ConflictRule::Skip { .. } => OnConflict::Retry,
        }
    }

    /// Whether leaving out rows whose primary key is there is all that ON CONFLICT can mean, and no rows wait for it.
    fn is_plain(&self) -> bool {
        let others = self.versioned.unique_keys();
        others.is_empty() && (self.on_conflict.is_some() || self.inserts.num_rows() == 0)
    }

    /// Joins a statement's rule for the commit with those of the statements before: the stricter wins.
    fn join_rule(&mut self, rule: OnConflict) {
        self.on_conflict = Some(match self.on_conflict {
            None => rule,
            Some(known) if known == rule => rule,
            Some(OnConflict::Refuse) => OnConflict::Refuse,
            Some(_) if rule == OnConflict::Refuse => OnConflict::Refuse,
            Some(_) => OnConflict::Retry,
        });
    }

    fn identities(&self, rows: &RecordBatch) -> Result<Vec<Box<[u8]>>> {
        identities(rows, &self.versioned.schema().identity())
    }

    /// Deletes rows: the transaction's own vanish, stored ones are noted.
    fn delete(&mut self, old: RecordBatch) -> Result<()> {
        let keys = self.identities(&old)?;
        let own: HashSet<Box<[u8]>> = self.identities(&self.inserts)?.into_iter().collect();
        let gone: HashSet<&Box<[u8]>> = keys.iter().collect();
        let kept: BooleanArray = self
            .identities(&self.inserts)?
            .iter()
            .map(|key| Some(!gone.contains(key)))
            .collect();
        self.inserts = filter_record_batch(&self.inserts, &kept)?;
        let stored: BooleanArray = keys.iter().map(|key| Some(!own.contains(key))).collect();
        let stored = filter_record_batch(&old, &stored)?;
        self.deletes = concat_batches(&stored.schema(), [&self.deletes, &stored])?;
        Ok(())
    }

    /// The rows that the transaction sees which have the values of a key of `rows`.
    pub(super) fn matching(&self, rows: &RecordBatch, key: &RowKey, pin: &Pin) -> Result<Lookup> {
        let values = key.values(rows);
        let mut found = match self.truncated {
            true => Lookup {
                rows: self.inserts.slice(0, 0),
                key_of_row: Vec::new(),
            },
            false => key.lookup(&self.versioned, &values, pin)?,
        };
        if self.deletes.num_rows() > 0 && found.rows.num_rows() > 0 {
            let gone: HashSet<Box<[u8]>> = self.identities(&self.deletes)?.into_iter().collect();
            let stays: Vec<bool> = self
                .identities(&found.rows)?
                .iter()
                .map(|row| !gone.contains(row))
                .collect();
            let mut stay = stays.iter();
            found.key_of_row.retain(|_| stay.next() == Some(&true));
            found.rows = filter_record_batch(&found.rows, &BooleanArray::from(stays))?;
        }
        if self.inserts.num_rows() > 0 {
            self.add_own(&values, key, &mut found)?;
        }
        Ok(found)
    }

    /// Adds the transaction's own rows to those found.
    fn add_own(&self, values: &[ArrayRef], key: &RowKey, found: &mut Lookup) -> Result<()> {
        let converter = converter(values)?;
        let own = converter.convert_columns(&key.values(&self.inserts))?;
        let own: HashMap<&[u8], u32> = own
            .iter()
            .enumerate()
            .map(|(at, row)| (row.data(), at as u32))
            .collect();
        let mut positions = Vec::new();
        for (row, value) in converter.convert_columns(values)?.iter().enumerate() {
            if let Some(position) = own.get(value.data()).filter(|_| !has_null(values, row)) {
                positions.push(*position);
                found.key_of_row.push(row);
            }
        }
        let rows = take_record_batch(&self.inserts, &UInt32Array::from(positions))?;
        found.rows = concat_batches(&rows.schema(), [&found.rows, &rows])?;
        Ok(())
    }

    /// Checks the keys of new rows against what the transaction sees and against each other.
    ///
    /// # Returns
    /// Which rows are kept; `None`: all.
    fn kept(&self, rows: &RecordBatch, pin: &Pin, rule: &ConflictRule) -> Result<Option<BooleanArray>> {
        if self.keys.is_empty() || rows.num_rows() == 0 {
            return Ok(None);
        }
        let values = self.keys.iter().map(|key| self.key_values(rows, key, pin));
        let values: Vec<KeyValues> = values.collect::<Result<_>>()?;
        let mut seen: Vec<HashSet<&[u8]>> = values.iter().map(|_| HashSet::with_capacity(rows.num_rows())).collect();
        let skipping: &[usize] = match rule {
            ConflictRule::Skip { keys, .. } => keys,
            _ => &[],
        };
        let mut kept = vec![true; rows.num_rows()];
        for (row, keep) in kept.iter_mut().enumerate() {
            let conflicts = |key: usize| {
                let values: &KeyValues = &values[key];
                !values.is_null(row)
                    && (values.there.contains(&row) || seen[key].contains(values.encoded.row(row).data()))
            };
            if skipping.iter().any(|key| conflicts(*key)) {
                *keep = false;
                continue;
            }
            if let Some(key) = (0..self.keys.len()).find(|key| conflicts(*key)) {
                return Err(self.keys[key].duplicate(&self.versioned, rows, row));
            }
            for (values, seen) in values.iter().zip(&mut seen) {
                if !values.is_null(row) {
                    seen.insert(values.encoded.row(row).data());
                }
            }
        }
        Ok((!kept.iter().all(|keep| *keep)).then(|| kept.into()))
    }

    fn key_values(&self, rows: &RecordBatch, key: &RowKey, pin: &Pin) -> Result<KeyValues> {
        let values = key.values(rows);
        let may_be_null = values.iter().any(|column| column.null_count() > 0);
        Ok(KeyValues {
            encoded: encoded(&values)?,
            is_null: match may_be_null {
                true => (0..rows.num_rows()).map(|row| has_null(&values, row)).collect(),
                false => Vec::new(),
            },
            there: self.matching(rows, key, pin)?.key_of_row.into_iter().collect(),
        })
    }

    pub(super) fn into_write(self, table: CollectionId) -> Result<TableWrite> {
        let mut inserts = Vec::new();
        if is_row_numbered(&self.inserts.schema()) {
            // Rows that this transaction made get their numbers from the committer.
            let last = self.inserts.num_columns() - 1;
            let numbers = arrow::array::AsArray::as_primitive::<arrow::datatypes::Int64Type>(self.inserts.column(last));
            let own: BooleanArray = numbers.iter().map(|number| number.map(|number| number < 0)).collect();
            let visible: Vec<usize> = (0..last).collect();
            inserts.push(filter_record_batch(&self.inserts, &own)?.project(&visible)?);
            inserts.push(filter_record_batch(&self.inserts, &arrow::compute::not(&own)?)?);
        } else {
            inserts.push(self.inserts);
        }
        inserts.retain(|batch| batch.num_rows() > 0);
        let deletes = if self.deletes.num_rows() > 0 {
            vec![self.deletes]
        } else {
            Vec::new()
        };
        Ok(TableWrite {
            table,
            deletes,
            inserts,
            on_conflict: self.on_conflict.unwrap_or(OnConflict::Refuse),
            truncate: self.truncated,
        })
    }
}

impl KeyValues {
    fn is_null(&self, row: usize) -> bool {
        self.is_null.get(row).is_some_and(|is_null| *is_null)
    }
}

fn has_null(values: &[ArrayRef], row: usize) -> bool {
    values.iter().any(|column| column.is_null(row))
}

fn converter(columns: &[ArrayRef]) -> Result<RowConverter> {
    let fields = columns.iter().map(|column| SortField::new(column.data_type().clone()));
    Ok(RowConverter::new(fields.collect())?)
}

/// Rows of some columns as comparable bytes.
pub(crate) fn encoded(columns: &[ArrayRef]) -> Result<Rows> {
    Ok(converter(columns)?.convert_columns(columns)?)
}

/// Identities of rows as comparable bytes.
pub(super) fn identities(rows: &RecordBatch, identity: &[usize]) -> Result<Vec<Box<[u8]>>> {
    let columns: Vec<ArrayRef> = identity.iter().map(|column| rows.column(*column).clone()).collect();
    let fields = columns
        .iter()
        .map(|column| SortField::new(column.data_type().clone()))
        .collect();
    let rows = RowConverter::new(fields)?.convert_columns(&columns)?;
    Ok(rows.iter().map(|row| row.data().into()).collect())
}

/// Adds row numbers going down from `first` where the stored columns have them.
fn numbered(rows: RecordBatch, stored: &SchemaRef, first: i64) -> Result<RecordBatch> {
    let mut columns = rows.columns().to_vec();
    if is_row_numbered(stored) && columns.len() < stored.fields().len() {
        let numbers = (0..rows.num_rows() as i64).map(|row| first - row);
        columns.push(Arc::new(arrow::array::Int64Array::from_iter_values(numbers)));
    }
    Ok(RecordBatch::try_new(stored.clone(), columns)?)
}
