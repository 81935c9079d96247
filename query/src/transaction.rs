//! An open transaction: its snapshot, and what it has changed so far.
//!
//! # Rules kept here
//! Statements read the snapshot with the transaction's own changes laid over it. Nothing is shared before COMMIT, which
//! is one commit of the engine and is refused if a changed row was changed by somebody else meanwhile.

use crate::catalog::Table;
use crate::provider::outside;
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, SortField};
use cenote_engine::plan::CollectionId;
use cenote_engine::{Commit, OnConflict, TableWrite, is_row_numbered};
use cenote_statestore::{Error, ErrorKind, Pin, Result, VersionedTable};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// A transaction.
pub(crate) struct Transaction {
    pub(crate) pin: Pin,
    pub(crate) failed: bool,
    /// Whether it ends with the message that began it.
    pub(crate) implicit: bool,
    /// Whether it was begun to read only.
    pub(crate) only_reads: bool,
    writes: BTreeMap<CollectionId, Pending>,
    next_row_id: i64,
}

/// Changes to one table.
struct Pending {
    table: Arc<Table>,
    versioned: Arc<VersionedTable>,
    deletes: RecordBatch,
    inserts: RecordBatch,
    truncated: bool,
    on_conflict: OnConflict,
}

/// A transaction's changes to one table, as readers of its statements see them.
#[derive(Debug)]
pub struct Overlay {
    gone: HashSet<Box<[u8]>>,
    inserts: RecordBatch,
    truncated: bool,
}

impl Transaction {
    pub(crate) fn new(pin: Pin, implicit: bool) -> Transaction {
        Transaction {
            pin,
            failed: false,
            implicit,
            only_reads: false,
            writes: BTreeMap::new(),
            next_row_id: -1,
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.writes.is_empty()
    }

    fn pending(&mut self, table: &Arc<Table>) -> Result<&mut Pending> {
        let versioned = table
            .versioned
            .clone()
            .ok_or_else(|| Error::bug("a write to a table that keeps no rows"))?;
        Ok(self.writes.entry(table.definition.id).or_insert_with(|| {
            let stored = versioned.schema().columns.clone();
            Pending {
                table: table.clone(),
                versioned,
                deletes: RecordBatch::new_empty(stored.clone()),
                inserts: RecordBatch::new_empty(stored),
                truncated: false,
                on_conflict: OnConflict::Refuse,
            }
        }))
    }

    /// Adds new rows, in the columns that users see.
    ///
    /// # Returns
    /// The number of rows added.
    ///
    /// # Errors
    /// `Conflict` 23505, unless conflicting rows are to be ignored.
    pub(crate) fn insert(&mut self, table: &Arc<Table>, rows: RecordBatch, on_conflict: OnConflict) -> Result<usize> {
        let first = self.next_row_id;
        self.next_row_id -= rows.num_rows() as i64;
        let pin = self.pin.clone();
        let pending = self.pending(table)?;
        // Conflicts with what this transaction sees are settled below, by each statement's own rule. What others insert
        // meanwhile is met at the commit, by one rule for the table: the stricter if statements differ.
        pending.on_conflict = match pending.inserts.num_rows() {
            0 => on_conflict,
            _ if pending.on_conflict == on_conflict => on_conflict,
            _ => OnConflict::Refuse,
        };
        let rows = numbered(rows, &pending.versioned.schema().columns, first)?;
        let rows = pending.without_conflicts(rows, &pin, on_conflict)?;
        pending.inserts = concat_batches(&rows.schema(), [&pending.inserts, &rows])?;
        Ok(rows.num_rows())
    }

    /// Replaces stored rows by others (UPDATE), or deletes them (`new` is empty).
    pub(crate) fn replace(&mut self, table: &Arc<Table>, old: RecordBatch, new: RecordBatch) -> Result<()> {
        let pin = self.pin.clone();
        let pending = self.pending(table)?;
        pending.delete(old)?;
        if new.num_rows() > 0 {
            // An earlier INSERT's rule for conflicts is not for these rows.
            pending.on_conflict = OnConflict::Refuse;
            let rows = pending.without_conflicts(new, &pin, OnConflict::Refuse)?;
            pending.inserts = concat_batches(&rows.schema(), [&pending.inserts, &rows])?;
        }
        Ok(())
    }

    /// Deletes everything.
    pub(crate) fn truncate(&mut self, table: &Arc<Table>) -> Result<()> {
        let pending = self.pending(table)?;
        pending.truncated = true;
        pending.deletes = pending.deletes.slice(0, 0);
        pending.inserts = pending.inserts.slice(0, 0);
        Ok(())
    }

    /// What a statement sees of this transaction's changes to a table.
    pub(crate) fn overlay(&self, id: CollectionId) -> Result<Option<Arc<Overlay>>> {
        let Some(pending) = self.writes.get(&id) else {
            return Ok(None);
        };
        let gone = pending.identities(&pending.deletes)?.into_iter().collect();
        let overlay = Overlay {
            gone,
            inserts: pending.inserts.clone(),
            truncated: pending.truncated,
        };
        Ok(Some(Arc::new(overlay)))
    }

    /// The engine's commit.
    pub(crate) fn into_commit(self) -> Result<Commit> {
        let read_at = self.pin.epoch();
        let writes = self.writes.into_iter().map(|(id, pending)| pending.into_write(id));
        Ok(Commit {
            writes: writes.collect::<Result<_>>()?,
            read_at,
            ..Commit::default()
        })
    }
}

impl Pending {
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

    /// Checks the keys of new rows against the snapshot and this transaction's own rows.
    fn without_conflicts(&self, rows: RecordBatch, pin: &Pin, on_conflict: OnConflict) -> Result<RecordBatch> {
        if self.table.definition.primary_key.is_empty() || rows.num_rows() == 0 {
            return Ok(rows);
        }
        let keys = self.identities(&rows)?;
        let gone: HashSet<Box<[u8]>> = self.identities(&self.deletes)?.into_iter().collect();
        let mut taken: HashSet<Box<[u8]>> = self.identities(&self.inserts)?.into_iter().collect();
        let there: HashSet<usize> = if self.truncated {
            HashSet::new()
        } else {
            let identity = self.versioned.schema().identity();
            let columns: Vec<ArrayRef> = identity.iter().map(|column| rows.column(*column).clone()).collect();
            self.versioned.lookup(&columns, pin)?.key_of_row.into_iter().collect()
        };
        let mut keep = Vec::with_capacity(keys.len());
        for (row, key) in keys.iter().enumerate() {
            let conflict = taken.contains(key) || (there.contains(&row) && !gone.contains(key));
            if conflict && on_conflict == OnConflict::Refuse {
                return Err(self.duplicate(&rows, row));
            }
            keep.push(!conflict);
            taken.insert(key.clone());
        }
        Ok(filter_record_batch(&rows, &BooleanArray::from(keep))?)
    }

    fn duplicate(&self, rows: &RecordBatch, row: usize) -> Error {
        let schema = self.versioned.schema();
        let names: Vec<&str> = schema
            .key
            .iter()
            .map(|key| schema.columns.field(*key).name().as_str())
            .collect();
        let values: Vec<String> = schema
            .key
            .iter()
            .map(|key| arrow::util::display::array_value_to_string(rows.column(*key), row).unwrap_or_default())
            .collect();
        Error::new(
            ErrorKind::Conflict,
            "TABLE-0101",
            format!(
                "duplicate key value violates unique constraint \"{}_pkey\"",
                schema.name
            ),
        )
        .sqlstate("23505")
        .fact("key", format!("({})=({})", names.join(", "), values.join(", ")))
    }

    fn into_write(self, table: CollectionId) -> Result<TableWrite> {
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
            on_conflict: self.on_conflict,
            truncate: self.truncated,
        })
    }
}

impl Overlay {
    /// Rows of the table as the transaction sees them: the first `width` stored columns.
    pub(crate) fn read(
        &self,
        table: &Arc<VersionedTable>,
        pin: &Pin,
        width: usize,
    ) -> datafusion::error::Result<Vec<RecordBatch>> {
        let visible: Vec<usize> = (0..width).collect();
        let mut batches = vec![self.inserts.project(&visible)?];
        if self.truncated {
            return Ok(batches);
        }
        let schema = table.schema();
        let all = (0..schema.columns.fields().len()).collect();
        let mut scan = table.scan(pin.clone(), all, 0..table.shards());
        while let Some(batch) = scan.next_batch(64 * 1024).map_err(outside)? {
            let keys = identities(&batch, &schema.identity()).map_err(outside)?;
            let kept: BooleanArray = keys.iter().map(|key| Some(!self.gone.contains(key))).collect();
            batches.push(filter_record_batch(&batch, &kept)?.project(&visible)?);
        }
        Ok(batches)
    }
}

/// Identities of rows as comparable bytes.
fn identities(rows: &RecordBatch, identity: &[usize]) -> Result<Vec<Box<[u8]>>> {
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

/// The error for every statement in a failed transaction.
pub(crate) fn failed_transaction() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "SQL-0401",
        "current transaction is aborted, commands ignored until end of transaction block",
    )
    .sqlstate("25P02")
    .attempt("ROLLBACK")
}
