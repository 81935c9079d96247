//! Operators whose state may leave memory.
//!
//! The operator itself works on what is in memory, as ever. Before it is given changes, the state of their keys is brought back;
//! when memory is short at the end of an epoch, what has changed is written, and a new operator begins with nothing.
//! So what is in memory is a cache of whole keys, and leaving costs no more than coming did.
//!
//! # Rules kept here
//! 1. A key's state is in memory as a whole, in all of the operator's tables, or not at all. What is in memory overrides what is written.
//! 2. Nothing leaves in the middle of an epoch.
//! 3. Until something has left for the first time, nothing is kept or looked for beside the operator.
//!
//! # Not here
//! The store ([`cenote_statestore::spill`]); tables of views, which spill by themselves.

use super::changed::{StateChanges, state_identity};
use super::{Kernel, LaterRows, not_noted};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::compute::{filter_record_batch, take};
use cenote_statestore::spill::{Share, Spill, SpillRows, SpillTable, Spilled, Writes};
use cenote_statestore::{Changes, Epoch, Result, RowStore, TableSchema, hash_rows, other_hashes};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Rows written at once.
const ROWS_PER_WRITE: usize = 16 * 1024;

/// Bytes of memory that a byte of a checkpoint's file becomes, at most nearly.
const MEMORY_PER_FILE: usize = 2;

/// Rows read at once.
const ROWS_PER_READ: usize = 4096;

/// Makes an operator without state.
pub(crate) type MakeKernel = Box<dyn Fn() -> Result<Box<dyn Kernel>>>;

/// An operator of which only some keys are in memory.
pub struct SpillKernel {
    make: MakeKernel,
    kernel: Box<dyn Kernel>,
    tables: Vec<Table>,
    /// For each input, the columns that make the key of its rows' state.
    inputs: Vec<Vec<usize>>,
    /// Whether a key's state is one row at most in each table, so that it is found by the key itself, not by its hash.
    is_by_key: bool,
    /// Hashes of the keys that are in memory, once something has left; where they are found by the key, two hashes of each.
    here: HashSet<u128, BuildHasherDefault<HashIsHash>>,
    share: Share,
    is_spilled: bool,
    /// Errors of rows that were told before state was brought back.
    errors: Vec<Changes>,
}

/// One of the operator's state tables.
struct Table {
    schema: TableSchema,
    identity: Vec<usize>,
    /// What has left.
    cold: Arc<SpillTable>,
    /// Identities of rows that changed since changes were last taken, and of those that went.
    marks: Arc<SpillTable>,
    /// Whether changes are to be told of.
    is_noted: bool,
    /// Rows that have left and are not in memory.
    elsewhere: u64,
}

/// The hash of a hash is the hash.
#[derive(Default)]
struct HashIsHash(u64);

impl Hasher for HashIsHash {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("hashes are numbers")
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

impl Table {
    fn new(schema: TableSchema, spill: &Spill) -> Result<Table> {
        let identity = state_identity(&schema);
        let keys = Arc::new(schema.columns.project(&identity)?);
        let all = (0..identity.len()).collect();
        Ok(Table {
            cold: Arc::new(SpillTable::new(
                spill.backend.clone(),
                schema.columns.clone(),
                identity.clone(),
            )?),
            marks: Arc::new(SpillTable::new(spill.backend.clone(), keys, all)?),
            identity,
            schema,
            is_noted: false,
            elsewhere: 0,
        })
    }

    /// The hashes of the keys of rows: whole ones, or their identities.
    fn hashes(&self, rows: &RecordBatch) -> Vec<u64> {
        // The columns of an identity stand first, and the key's are among them.
        let keys = self.schema.key.iter().map(|column| rows.column(*column).clone());
        hash_rows(&keys.collect::<Vec<_>>(), rows.num_rows())
    }

    fn put(&self, writes: &mut Writes, rows: &RecordBatch) -> Result<()> {
        let hashes = self.hashes(rows);
        let given = SpillRows {
            rows,
            hashes: &hashes,
            stamp: &|_| (0, 1),
        };
        self.cold.put(writes, &given)
    }

    fn mark(&self, writes: &mut Writes, identities: &RecordBatch) -> Result<()> {
        let hashes = self.hashes(identities);
        let given = SpillRows {
            rows: identities,
            hashes: &hashes,
            stamp: &|_| (0, 1),
        };
        self.marks.put(writes, &given)
    }

    /// Writes rows.
    fn write(&self, rows: &RecordBatch) -> Result<()> {
        for from in (0..rows.num_rows()).step_by(ROWS_PER_WRITE) {
            let mut writes = Writes::default();
            self.put(
                &mut writes,
                &rows.slice(from, ROWS_PER_WRITE.min(rows.num_rows() - from)),
            )?;
            self.cold.backend().write(&writes)?;
        }
        Ok(())
    }

    /// Writes what has changed, and marks it where changes are noted.
    fn write_changes(&self, changes: &StateChanges) -> Result<()> {
        for rows in &changes.there {
            self.write(rows)?;
        }
        for gone in &changes.gone {
            let mut writes = Writes::default();
            self.cold.remove(&mut writes, &self.hashes(gone), gone.columns())?;
            self.cold.backend().write(&writes)?;
        }
        self.mark_changes(changes)
    }

    fn mark_changes(&self, changes: &StateChanges) -> Result<()> {
        if !self.is_noted {
            return Ok(());
        }
        let there = changes.there.iter().map(|rows| rows.project(&self.identity));
        let there = there.collect::<std::result::Result<Vec<_>, _>>()?;
        for rows in there.iter().chain(&changes.gone) {
            let mut writes = Writes::default();
            self.mark(&mut writes, rows)?;
            self.marks.backend().write(&writes)?;
        }
        Ok(())
    }

    /// The rows that are marked, as they are written, and the marks of those that are not there.
    fn take_marked(&self) -> Result<StateChanges> {
        let (mut there, mut gone) = (Vec::new(), Vec::new());
        let mut from = Some(0);
        while let Some(at) = from {
            let (marks, next) = self.marks.range(at, None, ROWS_PER_READ)?;
            if !marks.is_empty() {
                there.push(self.cold.find(&marks.hashes, marks.rows.columns())?.rows);
                gone.push(marks.rows);
            }
            from = next;
        }
        self.marks.clear()?;
        StateChanges::settled(&self.schema, there, gone)
    }
}

/// The rows whose key is among some.
fn of_keys(rows: &RecordBatch, key: &[usize], keys: &[ArrayRef]) -> Result<RecordBatch> {
    let count = keys.first().map_or(0, |key| key.len());
    let mut wanted = RowStore::new(Arc::new(rows.schema().project(key)?));
    let first = wanted.append(keys, count);
    let columns: Vec<ArrayRef> = key.iter().map(|column| rows.column(*column).clone()).collect();
    let view = RowStore::view(0..columns.len(), &columns);
    let is_wanted = |row: usize| (0..count as u32).any(|key| wanted.equals(first + key, &view, row));
    let mask: BooleanArray = (0..rows.num_rows()).map(|row| Some(is_wanted(row))).collect();
    Ok(filter_record_batch(rows, &mask)?)
}

impl SpillKernel {
    /// Wraps an operator.
    ///
    /// # Arguments
    /// - `tables`: its state tables, each with a key.
    /// - `inputs`: for each input, the columns of the key of its rows' state, in the order of the tables' keys.
    ///
    /// # Errors
    /// `Unsupported`: a column's type cannot be spilled.
    pub(crate) fn new(
        make: MakeKernel,
        tables: Vec<TableSchema>,
        inputs: Vec<Vec<usize>>,
        spill: &Spill,
    ) -> Result<SpillKernel> {
        Ok(SpillKernel {
            kernel: make()?,
            make,
            is_by_key: tables.iter().all(|table| table.unique),
            tables: tables
                .into_iter()
                .map(|table| Table::new(table, spill))
                .collect::<Result<_>>()?,
            inputs,
            here: HashSet::default(),
            share: spill.budget.share(),
            is_spilled: false,
            errors: Vec::new(),
        })
    }

    /// What keys are known by: two keys of one name are in memory together.
    fn names(&self, keys: &[ArrayRef], hashes: &[u64]) -> Vec<u128> {
        if !self.is_by_key {
            return hashes.iter().map(|hash| *hash as u128).collect();
        }
        let others = other_hashes(keys, hashes.len());
        let both = hashes.iter().zip(others);
        both.map(|(hash, other)| (other as u128) << 64 | *hash as u128)
            .collect()
    }

    /// Brings back the state of keys that is not in memory.
    fn bring_back(&mut self, keys: &[ArrayRef], rows: usize) -> Result<()> {
        if !self.is_spilled {
            return Ok(());
        }
        let hashes = hash_rows(keys, rows);
        let names = self.names(keys, &hashes);
        let missing: Vec<u32> = (0..rows as u32)
            .filter(|row| self.here.insert(names[*row as usize]))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let hashes: Vec<u64> = missing.iter().map(|row| hashes[*row as usize]).collect();
        let missing = UInt32Array::from(missing);
        let keys = keys.iter().map(|key| Ok(take(key, &missing, None)?));
        let keys = keys.collect::<Result<Vec<ArrayRef>>>()?;
        // Operators forget errors that they have when they are given state.
        self.errors.extend(self.kernel.take_errors()?);
        for (number, table) in self.tables.iter_mut().enumerate() {
            let found = match self.is_by_key {
                true => table.cold.find(&hashes, &keys)?,
                false => table.cold.of_hashes(&hashes)?,
            };
            if !found.is_empty() {
                table.elsewhere -= found.len() as u64;
                self.kernel.load(number, &found.rows)?;
            }
        }
        Ok(())
    }

    /// Writes what has changed of a table in memory.
    fn flush(&mut self, number: usize) -> Result<()> {
        let changes = self.kernel.take_changes(number)?;
        self.tables[number].write_changes(&changes)
    }

    /// Written rows that are not in memory.
    fn elsewhere(&self, table: &Table, found: &Spilled) -> Result<RecordBatch> {
        let keys = table.schema.key.iter().map(|column| found.rows.column(*column).clone());
        let names = self.names(&keys.collect::<Vec<_>>(), &found.hashes);
        let mask: BooleanArray = names.iter().map(|name| Some(!self.here.contains(name))).collect();
        Ok(filter_record_batch(&found.rows, &mask)?)
    }

    fn is_too_large(&mut self) -> bool {
        let tables = 0..self.tables.len();
        let bytes: u64 = tables.map(|table| self.kernel.size(table).1).sum();
        let here = self.here.capacity() * 17;
        // What leaves is there twice for a while.
        self.share.use_bytes(bytes as usize * 2 + here)
    }

    /// Writes everything that is not written, and begins with nothing in memory.
    fn spill(&mut self) -> Result<()> {
        for number in 0..self.tables.len() {
            if self.is_spilled {
                self.flush(number)?;
            } else {
                if self.tables[number].is_noted {
                    let changes = self.kernel.take_changes(number)?;
                    self.tables[number].mark_changes(&changes)?;
                }
                for rows in self.kernel.read(number, None)? {
                    self.tables[number].write(&rows)?;
                }
            }
            self.tables[number].elsewhere += self.kernel.size(number).0;
        }
        self.here = HashSet::default();
        self.kernel = (self.make)()?;
        self.begin_spilled();
        self.is_too_large();
        Ok(())
    }

    /// Goes on with nothing in memory.
    fn begin_spilled(&mut self) {
        self.is_spilled = true;
        (0..self.tables.len()).for_each(|number| self.kernel.note_changes(number));
    }

    fn spill_if_too_large(&mut self) -> Result<()> {
        match self.is_too_large() {
            true => self.spill(),
            false => Ok(()),
        }
    }

    fn bring_back_for(&mut self, input: usize, changes: &Changes) -> Result<()> {
        if !self.is_spilled {
            return Ok(());
        }
        let keys = self.inputs[input].iter();
        let keys: Vec<ArrayRef> = keys.map(|key| changes.rows().column(*key).clone()).collect();
        self.bring_back(&keys, changes.len())
    }
}

impl Kernel for SpillKernel {
    fn begin(&mut self, epoch: Epoch) {
        self.kernel.begin(epoch);
    }

    fn push(&mut self, input: usize, changes: &Changes, output: &mut Vec<Changes>) -> Result<()> {
        self.bring_back_for(input, changes)?;
        self.kernel.push(input, changes, output)
    }

    fn push_some(&mut self, input: usize, changes: &Changes, output: &mut Vec<Changes>) -> Result<usize> {
        self.bring_back_for(input, changes)?;
        self.kernel.push_some(input, changes, output)
    }

    fn finish(&mut self, epoch: Epoch, output: &mut Vec<Changes>) -> Result<()> {
        self.kernel.finish(epoch, output)?;
        self.errors.extend(self.kernel.take_errors()?);
        self.spill_if_too_large()
    }

    fn take_errors(&mut self) -> Result<Option<Changes>> {
        self.errors.extend(self.kernel.take_errors()?);
        match self.errors.first().map(Changes::schema) {
            None => Ok(None),
            Some(columns) => Changes::concat(&columns, &std::mem::take(&mut self.errors)).map(Some),
        }
    }

    fn read(&self, table: usize, keys: Option<&[ArrayRef]>) -> Result<Vec<RecordBatch>> {
        let mut parts = self.kernel.read(table, keys)?;
        if !self.is_spilled {
            return Ok(parts);
        }
        let of = &self.tables[table];
        let Some(keys) = keys else {
            let mut from = Some(0);
            while let Some(at) = from {
                let (found, next) = of.cold.range(at, None, ROWS_PER_READ)?;
                parts.push(self.elsewhere(of, &found)?);
                from = next;
            }
            return Ok(parts);
        };
        let hashes = hash_rows(keys, keys.first().map_or(0, |key| key.len()));
        let found = of.cold.of_hashes(&hashes)?;
        parts.push(of_keys(&self.elsewhere(of, &found)?, &of.schema.key, keys)?);
        Ok(parts)
    }

    fn read_later(&mut self, table: usize) -> Result<LaterRows> {
        if !self.is_spilled {
            return self.kernel.read_later(table);
        }
        self.flush(table)?;
        let rows = self.tables[table].cold.snapshot();
        Ok(Box::new(rows.map(|found| Ok(found?.rows))))
    }

    /// Nothing can leave while it is given state: a row of one table may say what those of the next one make of it.
    fn await_state(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes)
            .unwrap_or(usize::MAX)
            .saturating_mul(MEMORY_PER_FILE);
        if !self.share.has_room_for(bytes) {
            self.begin_spilled();
        }
    }

    fn load(&mut self, table: usize, rows: &RecordBatch) -> Result<()> {
        if self.is_spilled {
            self.tables[table].elsewhere += rows.num_rows() as u64;
            return self.tables[table].write(rows);
        }
        self.kernel.load(table, rows)
    }

    fn stand(&mut self, tables: &[Vec<RecordBatch>]) -> Result<Vec<(usize, Changes)>> {
        self.kernel.stand(tables)
    }

    fn note_changes(&mut self, table: usize) {
        if !self.is_spilled {
            self.kernel.note_changes(table);
        }
        self.tables[table].is_noted = true;
        // What is marked too much is told of as it is.
        let _ = self.tables[table].marks.clear();
    }

    fn take_changes(&mut self, table: usize) -> Result<StateChanges> {
        if !self.is_spilled {
            return self.kernel.take_changes(table);
        }
        if !self.tables[table].is_noted {
            return Err(not_noted());
        }
        self.flush(table)?;
        self.tables[table].take_marked()
    }

    fn size(&self, table: usize) -> (u64, u64) {
        let (rows, bytes) = self.kernel.size(table);
        (rows + self.tables[table].elsewhere, bytes)
    }
}
