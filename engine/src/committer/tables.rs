//! Tables that the committer writes: those held here, and those fed by sources.
//!
//! A table without a primary key has a hidden last column, [`ROW_ID`]: a number that makes every row a row of its own
//! for UPDATE, DELETE and the log. Views never see it.

use super::filling::Filling;
use super::keys::{row_keys, unique_keys};
use super::{Alter, Commit, OnConflict, TableWrite, altered_since, changed_since};
use crate::plan::CollectionId;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Int64Type, Schema, SchemaRef};
use arrow::row::{RowConverter, Rows, SortField};
use cenote_statestore::wal::Record;
use cenote_statestore::{Changes, Epoch, Error, Result, Retention, VersionedTable, Weights};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

/// The hidden column that numbers the rows of a table without a primary key.
pub const ROW_ID: &str = "_row_id";

/// Rows that are rewritten at once.
const ROWS_REWRITTEN: usize = 64 * 1024;

/// Kind of the log's records that hold a commit.
const COMMIT_RECORD: u8 = 1;

/// All tables, by collection.
#[derive(Debug, Default)]
pub(crate) struct Tables(BTreeMap<CollectionId, Table>);

/// A table in its new columns, filled.
#[derive(Debug)]
pub(crate) struct Altered {
    id: CollectionId,
    table: Table,
}

#[derive(Debug)]
struct Table {
    table: Arc<VersionedTable>,
    /// Of a table that numbers its rows.
    row_ids: Option<RowIds>,
}

/// The numbers of a table's rows: each is given once. One thread at a time gives them.
#[derive(Clone, Debug, Default)]
pub(super) struct RowIds(Arc<AtomicI64>);

impl RowIds {
    /// Goes on behind numbers that rows have.
    pub(super) fn pass(&self, given: &[i64]) {
        let next = given.iter().fold(self.0.load(Relaxed), |next, id| next.max(id + 1));
        self.0.store(next, Relaxed);
    }

    /// The next so many.
    fn take(&self, rows: usize) -> std::ops::Range<i64> {
        let from = self.0.fetch_add(rows as i64, Relaxed);
        from..from + rows as i64
    }
}

/// A checked write: rows that go and rows that come, in the table's stored columns.
#[derive(Debug)]
pub(crate) struct CheckedWrite {
    table: CollectionId,
    deletes: RecordBatch,
    inserts: RecordBatch,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Header {
    writes: Vec<HeaderWrite>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ddl: Option<String>,
}

/// Which batches of a record belong to a table: first the keys of deleted rows, then inserted rows.
#[derive(serde::Serialize, serde::Deserialize)]
struct HeaderWrite {
    table: CollectionId,
    deletes: bool,
    inserts: bool,
}

/// Takes a logged catalog change: its epoch and text; adds and removes tables.
type OnDdl<'a> = dyn FnMut(Epoch, &[u8], &mut Tables) -> Result<()> + 'a;

impl Tables {
    pub(crate) fn get(&self, id: CollectionId) -> Option<Arc<VersionedTable>> {
        self.0.get(&id).map(|table| table.table.clone())
    }

    pub(crate) fn add(&mut self, id: CollectionId, table: Arc<VersionedTable>) {
        let numbered = is_row_numbered(&table.schema().columns);
        self.0.insert(
            id,
            Table {
                table,
                row_ids: numbered.then(RowIds::default),
            },
        );
    }

    pub(crate) fn remove(&mut self, id: CollectionId) {
        self.0.remove(&id);
    }

    /// Rewrites a table's newest rows into another one, as they are at an epoch. Nothing is changed.
    ///
    /// # Cost
    /// All rows are read and written once; what comes after waits.
    pub(crate) fn altered(&self, alter: &Alter, epoch: Epoch, retention: &Arc<Retention>) -> Result<Altered> {
        let old = self.0.get(&alter.table).ok_or_else(|| dropped_table(alter.table))?;
        let table = Table {
            table: alter.into.clone(),
            row_ids: old.row_ids.clone(),
        };
        let all = (0..old.table.schema().columns.fields().len()).collect();
        let mut scan = old.table.scan(retention.pin(Epoch(u64::MAX - 1))?, all, 0..1);
        let rows = std::iter::from_fn(|| scan.next_batch(ROWS_REWRITTEN).transpose());
        let rewritten = |rows: Result<RecordBatch>| Ok(Changes::insertions(alter.rewrite.run(&rows?)?));
        let rows = rows.map(rewritten);
        let filling = Filling::new(table.table.clone(), table.row_ids.clone(), epoch);
        filling.fill(old.table.statistics().rows as usize, rows)?;
        Ok(Altered { id: alter.table, table })
    }

    /// Lets a table have its new columns.
    pub(crate) fn put(&mut self, altered: Altered) {
        self.0.insert(altered.id, altered.table);
    }

    /// Refuses writes that were planned for other columns than tables have.
    fn check_planned(&self, commit: &Commit) -> Result<()> {
        for (id, planned) in &commit.planned {
            let table = self.0.get(id).ok_or_else(|| dropped_table(*id))?;
            if !Arc::ptr_eq(&table.table, planned) {
                return Err(altered_since(&planned.schema().name));
            }
        }
        Ok(())
    }

    /// A way to fill a table that is empty.
    pub(crate) fn filling(&self, id: CollectionId, epoch: Epoch) -> Result<Filling> {
        let table = self.0.get(&id).ok_or_else(|| dropped_table(id))?;
        Ok(Filling::new(table.table.clone(), table.row_ids.clone(), epoch))
    }

    /// Adds the commit's new tables and checks its writes against the newest contents. Contents are not changed.
    pub(super) fn check(&mut self, commit: &Commit, retention: &Arc<Retention>) -> Result<Vec<CheckedWrite>> {
        for (id, table) in &commit.create_tables {
            self.add(*id, table.clone());
        }
        self.check_planned(commit)?;
        commit
            .writes
            .iter()
            .map(|write| self.check_write(write, commit.read_at, retention))
            .collect()
    }

    fn check_write(&mut self, write: &TableWrite, read_at: Epoch, retention: &Arc<Retention>) -> Result<CheckedWrite> {
        let table = self.0.get(&write.table).ok_or_else(|| dropped_table(write.table))?;
        let stored = table.table.schema().columns.clone();
        let mut deletes = concat_batches(&stored, &write.deletes)?;
        if write.truncate {
            deletes = table.everything(retention)?;
        } else {
            table.check_unchanged(&deletes, read_at)?;
        }
        let inserts = table.stored_rows(&write.inserts)?;
        let (deletes, inserts) = match table.row_ids {
            Some(_) => (deletes, inserts),
            None => table.check_keys(deletes, inserts, write.on_conflict)?,
        };
        table.check_unique(&deletes, &inserts, write.on_conflict)?;
        Ok(CheckedWrite {
            table: write.table,
            deletes,
            inserts,
        })
    }

    /// Applies checked writes.
    ///
    /// # Returns
    /// Net changes of the columns that views see.
    pub(super) fn apply(&mut self, epoch: Epoch, checked: &[CheckedWrite]) -> Result<Vec<(CollectionId, Changes)>> {
        let mut net = Vec::new();
        for write in checked {
            let table = &self.0[&write.table];
            let changes = write.changes()?;
            if changes.is_empty() {
                continue;
            }
            table.table.apply(0, epoch, &changes)?;
            net.push((write.table, table.without_row_id(changes)?));
        }
        Ok(net)
    }

    /// The log's record of a commit.
    pub(super) fn record(&self, epoch: Epoch, commit: &Commit, checked: &[CheckedWrite]) -> Result<Record> {
        let (mut writes, mut batches) = (Vec::new(), Vec::new());
        for write in checked {
            let identity = self.0[&write.table].table.schema().identity();
            let (deletes, inserts) = (write.deletes.num_rows() > 0, write.inserts.num_rows() > 0);
            if deletes {
                batches.push(write.deletes.project(&identity)?);
            }
            if inserts {
                batches.push(write.inserts.clone());
            }
            writes.push(HeaderWrite {
                table: write.table,
                deletes,
                inserts,
            });
        }
        let ddl = commit.ddl.as_ref().map(|ddl| String::from_utf8_lossy(ddl).into_owned());
        let header = serde_json::to_vec(&Header { writes, ddl }).map_err(|error| Error::bug(error.to_string()))?;
        Ok(Record {
            epoch,
            kind: COMMIT_RECORD,
            header,
            batches,
        })
    }

    /// Applies a record of the log again.
    ///
    /// # Arguments
    /// - `on_ddl`: takes a catalog change; adds and removes tables.
    pub(crate) fn replay(&mut self, record: &Record, on_ddl: &mut OnDdl<'_>) -> Result<()> {
        if let Some(ddl) = Header::of(record)?.ddl {
            on_ddl(record.epoch, ddl.as_bytes(), self)?;
        }
        for write in self.logged_writes(record, &BTreeSet::new())? {
            let changes = write.changes()?;
            self.0[&write.table].table.apply(0, record.epoch, &changes)?;
        }
        Ok(())
    }

    /// The writes of a record, against what is there now.
    ///
    /// # Arguments
    /// - `unless`: a record that writes to one of these tables has none.
    pub(crate) fn logged_writes(
        &mut self,
        record: &Record,
        unless: &BTreeSet<CollectionId>,
    ) -> Result<Vec<CheckedWrite>> {
        let (mut writes, mut batches) = (Vec::new(), record.batches.iter());
        let header = Header::of(record)?;
        if header.writes.iter().any(|write| unless.contains(&write.table)) {
            return Ok(writes);
        }
        for write in &header.writes {
            let keys = write.deletes.then(|| batches.next()).flatten();
            let inserts = write.inserts.then(|| batches.next()).flatten();
            // A write to a table that the same record drops has no table any more.
            let Some(table) = self.0.get(&write.table) else {
                continue;
            };
            let stored = table.table.schema().columns.clone();
            let empty = || RecordBatch::new_empty(stored.clone());
            let deletes = match keys {
                Some(keys) => table.table.newest_rows(keys.columns())?.rows,
                None => empty(),
            };
            let inserts = table.stored_rows(&[inserts.cloned().unwrap_or_else(empty)])?;
            writes.push(CheckedWrite {
                table: write.table,
                deletes,
                inserts,
            });
        }
        Ok(writes)
    }
}

impl Header {
    fn of(record: &Record) -> Result<Header> {
        let header = serde_json::from_slice(&record.header);
        header.map_err(|error| Error::bug(format!("a log record of epoch {} has no header: {error}", record.epoch)))
    }
}

/// The catalog change in a record of the log.
pub(crate) fn ddl_of(record: &Record) -> Result<Option<String>> {
    Ok(Header::of(record)?.ddl)
}

impl CheckedWrite {
    fn changes(&self) -> Result<Changes> {
        let schema = self.deletes.schema();
        let rows = concat_batches(&schema, [&self.deletes, &self.inserts])?;
        if self.deletes.num_rows() == 0 {
            return Ok(Changes::insertions(rows));
        }
        let mut weights = vec![-1; self.deletes.num_rows()];
        weights.resize(rows.num_rows(), 1);
        Changes::new(rows, Weights::Each(weights)).consolidate()
    }
}

impl Table {
    /// Rows in stored columns: row numbers are added where they are missing.
    fn stored_rows(&self, batches: &[RecordBatch]) -> Result<RecordBatch> {
        let stored = self.table.schema().columns.clone();
        let Some(ids) = &self.row_ids else {
            let batches: Vec<RecordBatch> = batches
                .iter()
                .map(|batch| Changes::relabel(batch.clone(), stored.clone()))
                .collect::<Result<_>>()?;
            return Ok(concat_batches(&stored, &batches)?);
        };
        let mut complete = Vec::with_capacity(batches.len());
        for batch in batches {
            let mut columns = batch.columns().to_vec();
            if columns.len() == stored.fields().len() {
                ids.pass(columns[columns.len() - 1].as_primitive::<Int64Type>().values());
            } else {
                columns.push(Arc::new(Int64Array::from_iter_values(ids.take(batch.num_rows()))));
            }
            complete.push(RecordBatch::try_new(stored.clone(), columns)?);
        }
        Ok(concat_batches(&stored, &complete)?)
    }

    fn key_columns(&self, rows: &RecordBatch) -> Vec<ArrayRef> {
        self.table
            .schema()
            .identity()
            .iter()
            .map(|column| rows.column(*column).clone())
            .collect()
    }

    /// Refuses rows that are gone or were changed after `read_at`.
    fn check_unchanged(&self, deletes: &RecordBatch, read_at: Epoch) -> Result<()> {
        if deletes.num_rows() == 0 {
            return Ok(());
        }
        let newest = self.table.newest(&self.key_columns(deletes))?;
        match newest
            .iter()
            .all(|created| created.is_some_and(|created| created <= read_at))
        {
            true => Ok(()),
            false => Err(changed_since(&self.table.schema().name)),
        }
    }

    fn everything(&self, retention: &Arc<Retention>) -> Result<RecordBatch> {
        let all = (0..self.table.schema().columns.fields().len()).collect();
        let mut scan = self.table.scan(retention.pin(Epoch(u64::MAX - 1))?, all, 0..1);
        let mut batches = Vec::new();
        while let Some(batch) = scan.next_batch(64 * 1024)? {
            batches.push(batch);
        }
        Ok(concat_batches(&self.table.schema().columns, &batches)?)
    }

    /// Resolves inserted keys that are there already.
    ///
    /// # Returns
    /// Deletions and insertions that leave every key at most once.
    fn check_keys(
        &self,
        deletes: RecordBatch,
        inserts: RecordBatch,
        on_conflict: OnConflict,
    ) -> Result<(RecordBatch, RecordBatch)> {
        if inserts.num_rows() == 0 {
            return Ok((deletes, inserts));
        }
        let keys = self.key_columns(&inserts);
        let converter = RowConverter::new(keys.iter().map(|key| SortField::new(key.data_type().clone())).collect())?;
        let rows = converter.convert_columns(&keys)?;
        let gone = converter.convert_columns(&self.key_columns(&deletes))?;
        let gone: HashSet<&[u8]> = gone.iter().map(|row| row.data()).collect();
        let there = self.table.newest_rows(&keys)?;
        let stored: HashMap<usize, u32> = there
            .key_of_row
            .iter()
            .enumerate()
            .map(|(position, row)| (*row, position as u32))
            .collect();
        let mut kept: HashMap<&[u8], u32> = HashMap::with_capacity(rows.num_rows());
        let mut replaced: BTreeMap<&[u8], u32> = BTreeMap::new();
        for row in 0..inserts.num_rows() {
            let key = rows.row(row).data();
            let old = stored.get(&row).filter(|_| !gone.contains(key));
            let conflict = old.is_some() || kept.contains_key(key);
            match on_conflict {
                OnConflict::Refuse if conflict => {
                    return Err(row_keys(&self.table)[0].duplicate(&self.table, &inserts, row));
                }
                OnConflict::Retry if conflict => return Err(changed_since(&self.table.schema().name)),
                OnConflict::Ignore if conflict => continue,
                _ => {}
            }
            if let Some(old) = old {
                replaced.insert(key, *old);
            }
            kept.insert(key, row as u32);
        }
        let mut kept: Vec<u32> = kept.into_values().collect();
        kept.sort_unstable();
        let inserts = if kept.len() == inserts.num_rows() {
            inserts
        } else {
            take_record_batch(&inserts, &UInt32Array::from(kept))?
        };
        let old = take_record_batch(
            &there.rows,
            &UInt32Array::from(replaced.into_values().collect::<Vec<_>>()),
        )?;
        Ok((concat_batches(&self.table.schema().columns, [&deletes, &old])?, inserts))
    }

    /// Refuses inserted rows that share the values of a unique key with a row that stays, or with each other.
    fn check_unique(&self, deletes: &RecordBatch, inserts: &RecordBatch, on_conflict: OnConflict) -> Result<()> {
        if inserts.num_rows() == 0 || self.table.unique_keys().is_empty() {
            return Ok(());
        }
        let gone = Encoded::of(&self.key_columns(deletes))?;
        let gone: HashSet<&[u8]> = gone.rows().collect();
        for key in unique_keys(&self.table) {
            let values = key.values(inserts);
            let there = key.newest(&self.table, &values)?;
            let identities = Encoded::of(&self.key_columns(&there.rows))?;
            let stays = identities.rows().map(|identity| !gone.contains(identity));
            let mut conflict = there
                .key_of_row
                .iter()
                .zip(stays)
                .filter(|(_, stays)| *stays)
                .map(|(row, _)| *row)
                .min();
            let encoded = Encoded::of(&values)?;
            let mut seen = HashSet::with_capacity(inserts.num_rows());
            let repeated = encoded
                .rows()
                .enumerate()
                .position(|(row, value)| values.iter().all(|column| column.is_valid(row)) && !seen.insert(value));
            conflict = conflict.into_iter().chain(repeated).min();
            match (conflict, on_conflict) {
                (None, _) => {}
                (Some(row), OnConflict::Refuse) => return Err(key.duplicate(&self.table, inserts, row)),
                (Some(_), _) => return Err(changed_since(&self.table.schema().name)),
            }
        }
        Ok(())
    }

    fn without_row_id(&self, changes: Changes) -> Result<Changes> {
        if self.row_ids.is_none() {
            return Ok(changes);
        }
        let visible: Vec<usize> = (0..changes.schema().fields().len() - 1).collect();
        let rows = changes.rows().project(&visible)?;
        changes.with_rows(rows).consolidate()
    }
}

/// Rows of some columns as comparable bytes.
struct Encoded(Rows);

impl Encoded {
    fn of(columns: &[ArrayRef]) -> Result<Encoded> {
        let fields = columns.iter().map(|column| SortField::new(column.data_type().clone()));
        let converter = RowConverter::new(fields.collect())?;
        Ok(Encoded(converter.convert_columns(columns)?))
    }

    fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|row| row.data())
    }
}

/// Whether a table's stored columns end with row numbers.
pub fn is_row_numbered(columns: &SchemaRef) -> bool {
    columns.fields().last().is_some_and(|field| field.name() == ROW_ID)
}

/// The columns that users and views see of stored columns.
pub fn visible_columns(columns: &SchemaRef) -> SchemaRef {
    if !is_row_numbered(columns) {
        return columns.clone();
    }
    Arc::new(Schema::new(columns.fields()[..columns.fields().len() - 1].to_vec()))
}

fn dropped_table(id: CollectionId) -> Error {
    Error::new(
        cenote_statestore::ErrorKind::Conflict,
        "TABLE-0103",
        format!("cannot write to table {id}: it was dropped meanwhile"),
    )
    .sqlstate("42P01")
}
