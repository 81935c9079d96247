//! Grouped and global aggregation, and DISTINCT (aggregation without aggregates).
//!
//! A group lives while rows stand behind it. On its first touch in an epoch a group's old result is set
//! aside; at the end of the epoch old and new results that differ leave as a deletion and an insertion.

mod load;

use super::accumulator::Accumulator;
use super::changed::{ChangedSlots, StateChanges};
use super::{Kernel, not_noted};
use crate::parts;
use crate::plan::{Aggregate, Node};
use crate::row_errors::RowErrors;
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::compute::{and, filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use cenote_statestore::{Changes, Epoch, Error, KeyIndex, NO_SLOT, Result, RowStore, TableSchema, hash_rows, room_for};
use std::sync::Arc;

/// State and logic of one aggregation on one worker.
pub struct AggregateKernel {
    key_columns: Vec<usize>,
    schema: SchemaRef,
    tables: Vec<TableSchema>,
    keys: RowStore,
    index: KeyIndex,
    group_rows: Vec<i64>,
    accumulators: Vec<Accumulator>,
    /// A global aggregate's single row is this worker's to give.
    gives_empty_row: bool,
    dirty: Dirty,
    /// Groups whose values are out of a result's range.
    errors: RowErrors,
    /// Groups that have changed, where that is noted.
    changed: Option<ChangedSlots>,
}

/// Results of groups.
struct Results {
    /// Those that there are; in several batches if they are too long for one.
    rows: Vec<RecordBatch>,
    /// Which of the groups have one.
    there: Vec<bool>,
}

/// Groups touched in the current epoch.
#[derive(Default)]
struct Dirty {
    groups: Vec<u32>,
    /// Whether each had a result before the epoch.
    had_result: Vec<bool>,
    /// The results before the epoch, by push: where the groups end that it was the first to touch, and their results.
    before: Vec<(usize, Vec<RecordBatch>)>,
    marked: Vec<bool>,
}

impl AggregateKernel {
    /// An empty aggregation.
    ///
    /// # Arguments
    /// - `gives_empty_row`: whether this worker owns the group of a global aggregate, which has a result even over
    ///   no rows.
    pub fn new(node: &Aggregate, gives_empty_row: bool) -> AggregateKernel {
        let key_fields: Vec<_> = node.schema.fields().iter().take(node.keys.len()).cloned().collect();
        let accumulators = node.calls.iter().map(|call| Accumulator::new(call, &node.input_schema));
        let mut kernel = AggregateKernel {
            key_columns: node.keys.clone(),
            schema: node.schema.clone(),
            tables: Node::Aggregate(node.clone()).state_tables(),
            keys: RowStore::new(Arc::new(Schema::new(key_fields))),
            index: KeyIndex::default(),
            group_rows: Vec::new(),
            accumulators: accumulators.collect(),
            gives_empty_row: gives_empty_row && node.keys.is_empty(),
            dirty: Dirty::default(),
            errors: RowErrors::new(&node.name, &[]),
            changed: None,
        };
        if kernel.gives_empty_row {
            let group = kernel.add_group(hash_rows(&[], 1)[0]);
            kernel.dirty.marked.resize(1, false);
            kernel.dirty.mark(group, false);
        }
        kernel
    }

    fn add_group(&mut self, hash: u64) -> u32 {
        let group = self.keys.allocate();
        self.index.insert(hash, group);
        self.grow(group as usize + 1);
        group
    }

    /// Makes room for what is kept of groups below `groups`.
    fn grow(&mut self, groups: usize) {
        if self.group_rows.len() < groups {
            let slots = room_for(groups);
            self.group_rows.resize(slots, 0);
            self.accumulators
                .iter_mut()
                .for_each(|accumulator| accumulator.grow(slots));
        }
    }

    /// The group of each row; new ones are added.
    fn groups_of(&mut self, columns: &[ArrayRef], rows: usize) -> Vec<u32> {
        let hashes = hash_rows(columns, rows);
        let view = RowStore::view(0..columns.len(), columns);
        let mut groups = Vec::new();
        self.keys.find_all(&self.index, &hashes, &view, &mut groups);
        for (row, group) in groups.iter_mut().enumerate().filter(|(_, group)| **group == NO_SLOT) {
            // An earlier row may have added it.
            let keys = &self.keys;
            let found = self.index.find(hashes[row], |slot| keys.equals(slot, &view, row));
            *group = found.unwrap_or_else(|| {
                let group = self.add_group(hashes[row]);
                self.keys.write_one(group, &view, row);
                group
            });
        }
        groups
    }

    fn has_result(&self, group: u32) -> bool {
        self.gives_empty_row || self.group_rows[group as usize] > 0
    }

    /// Sets aside the results of groups that this epoch has not touched before.
    fn set_aside(&mut self, groups: &[u32]) -> Result<()> {
        self.dirty.marked.resize(self.group_rows.len(), false);
        let (mut touched, mut fresh) = (Vec::new(), Vec::new());
        for group in groups {
            if !std::mem::replace(&mut self.dirty.marked[*group as usize], true) {
                touched.push(*group);
                if self.has_result(*group) {
                    fresh.push(*group);
                }
            }
        }
        let before = self.results(&fresh, -1)?;
        let mut had = before.there.iter();
        for group in touched {
            let had_result = self.has_result(group) && *had.next().expect("one for each group with rows");
            self.dirty.groups.push(group);
            self.dirty.had_result.push(had_result);
        }
        self.dirty.before.push((self.dirty.groups.len(), before.rows));
        Ok(())
    }

    /// The results of groups; one that has none, as its values are out of range, is told of with a weight.
    fn results(&mut self, groups: &[u32], weight: i64) -> Result<Results> {
        if groups.is_empty() {
            let (rows, there) = (Vec::new(), Vec::new());
            return Ok(Results { rows, there });
        }
        let all: Vec<usize> = (0..self.key_columns.len()).collect();
        let fields = self.schema.fields()[..all.len()].to_vec();
        let columns = self.keys.gather(&all, groups);
        let keys = Changes::batch(Arc::new(Schema::new(fields)), columns, groups.len())?;
        let (schema, accumulators, group_rows) = (&self.schema, &self.accumulators, &self.group_rows);
        let computed = |first: usize, keys: &RecordBatch| -> Result<RecordBatch> {
            let groups = &groups[first..first + keys.num_rows()];
            let mut columns = keys.columns().to_vec();
            for accumulator in accumulators {
                columns.push(accumulator.result(groups, group_rows)?);
            }
            Changes::batch(schema.clone(), columns, groups.len())
        };
        let (mut parts, mut there) = (Vec::new(), vec![false; groups.len()]);
        let mut done = |first: usize, rows: RecordBatch| {
            there[first..first + rows.num_rows()].fill(true);
            parts.push(rows);
        };
        self.errors.apart(&keys, &computed, &mut done, &|_| weight)?;
        let rows = parts::rows(schema, parts)?;
        Ok(Results { rows, there })
    }

    fn count_rows(&mut self, groups: &[u32], changes: &Changes) -> Result<()> {
        for (row, group) in groups.iter().enumerate() {
            self.group_rows[*group as usize] += changes.weights().get(row);
        }
        if !changes.weights().is_insertion() && groups.iter().any(|group| self.group_rows[*group as usize] < 0) {
            return Err(Error::bug(
                "an aggregate was told to forget a row that it does not hold",
            ));
        }
        Ok(())
    }

    /// Gives what has changed of some groups' results: first what goes, then what comes.
    ///
    /// # Arguments
    /// - `had`: per group, whether it has a row in `before`.
    fn give_changed(
        &mut self,
        groups: &[u32],
        had: &[bool],
        before: Vec<RecordBatch>,
        output: &mut Vec<Changes>,
    ) -> Result<()> {
        let mut has: Vec<bool> = groups.iter().map(|group| self.has_result(*group)).collect();
        let with_result = groups.iter().zip(&has).filter(|(_, has)| **has);
        let with_result: Vec<u32> = with_result.map(|(group, _)| *group).collect();
        let after = self.results(&with_result, 1)?;
        let mut there = after.there.iter();
        has.iter_mut()
            .filter(|has| **has)
            .for_each(|has| *has = there.next() == Some(&true));
        let keys = self.key_columns.len();
        // Results too long for one batch are compared one by one.
        let pairs = match before.len() < 2 && after.rows.len() < 2 {
            true => vec![(before, after.rows, had, has.as_slice())],
            false => one_by_one(&before, &after.rows, had, &has),
        };
        for (mut before, mut after, had, has) in pairs {
            let one = |rows: &mut Vec<RecordBatch>| rows.pop().unwrap_or(RecordBatch::new_empty(self.schema.clone()));
            let (old, new) = changed(one(&mut before), one(&mut after), had, has, keys)?;
            let both = [Changes::deletions(old), Changes::insertions(new)];
            output.extend(both.into_iter().filter(|changes| !changes.is_empty()));
        }
        Ok(())
    }

    fn forget_empty_groups(&mut self, dirty: &[u32]) -> Result<()> {
        let empty: Vec<u32> = dirty.iter().copied().filter(|group| !self.has_result(*group)).collect();
        if empty.is_empty() {
            return Ok(());
        }
        let all: Vec<usize> = (0..self.key_columns.len()).collect();
        let keys = self.keys.gather(&all, &empty);
        let hashes = hash_rows(&keys, empty.len());
        self.note_gone(&empty, keys)?;
        for (group, hash) in empty.iter().zip(hashes) {
            self.index.remove(hash, *group);
            self.keys.release(*group);
        }
        Ok(())
    }

    /// Notes that groups go, and with them their values.
    fn note_gone(&mut self, groups: &[u32], keys: Vec<ArrayRef>) -> Result<()> {
        if let Some(changed) = &mut self.changed {
            let schema = self.tables[0].columns.project(&self.tables[0].key)?;
            changed.went(Changes::batch(Arc::new(schema), keys, groups.len())?);
            groups.iter().for_each(|group| changed.unmark(*group));
        }
        let all: Vec<usize> = (0..self.key_columns.len()).collect();
        let keys = &self.keys;
        self.accumulators
            .iter_mut()
            .try_for_each(|accumulator| accumulator.note_gone(groups, |groups| keys.gather(&all, groups)))
    }

    /// The identities of values in their table: keys of groups, then the values.
    fn value_identities(&self, table: usize, groups: &[u32], values: Vec<ArrayRef>) -> Result<RecordBatch> {
        let all: Vec<usize> = (0..self.key_columns.len()).collect();
        let columns = [self.keys.gather(&all, groups), values].concat();
        self.value_batch(table, columns, groups.len())
    }

    fn value_batch(&self, table: usize, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let identity: Vec<usize> = (0..columns.len()).collect();
        let schema = self.tables[table].columns.project(&identity)?;
        Changes::batch(Arc::new(schema), columns, rows)
    }

    fn changed_values(&mut self, table: usize) -> Result<StateChanges> {
        let accumulator = self.value_keeper_mut(table);
        let changed = accumulator.take_changed_values()?;
        let mut gone = Vec::new();
        for (columns, rows) in changed.forgotten {
            gone.push(self.value_batch(table, columns, rows)?);
        }
        let (groups, values) = changed.gone;
        gone.push(self.value_identities(table, &groups, values)?);
        let (groups, mut values, counts) = changed.there;
        values.push(Arc::new(Int64Array::from(counts)));
        let all: Vec<usize> = (0..self.key_columns.len()).collect();
        let columns = [self.keys.gather(&all, &groups), values].concat();
        let there = Changes::batch(self.tables[table].columns.clone(), columns, groups.len())?;
        StateChanges::settled(&self.tables[table], vec![there], gone)
    }

    fn live_groups(&self) -> Vec<u32> {
        let mut groups: Vec<u32> = self.index.iter().collect();
        groups.sort_unstable();
        groups
    }

    fn groups_of_keys(&self, keys: &[ArrayRef]) -> Vec<u32> {
        let count = keys.first().map_or(0, |key| key.len());
        let view = RowStore::view(0..keys.len(), keys);
        let hashes = hash_rows(keys, count);
        (0..count)
            .filter_map(|row| self.index.find(hashes[row], |slot| self.keys.equals(slot, &view, row)))
            .collect()
    }

    fn read_groups(&self, groups: &[u32]) -> Result<RecordBatch> {
        let all: Vec<usize> = (0..self.key_columns.len()).collect();
        let mut columns = self.keys.gather(&all, groups);
        columns.push(Arc::new(
            groups
                .iter()
                .map(|group| self.group_rows[*group as usize])
                .collect::<Int64Array>(),
        ));
        for accumulator in &self.accumulators {
            columns.extend(accumulator.state_columns(groups, &self.group_rows)?);
        }
        Changes::batch(self.tables[0].columns.clone(), columns, groups.len())
    }

    fn read_values(&self, table: usize, group: Option<u32>) -> Result<RecordBatch> {
        let accumulator = self.value_keeper(table);
        let (groups, values, counts) = accumulator.kept_values(group)?;
        let all: Vec<usize> = (0..self.key_columns.len()).collect();
        let mut columns = self.keys.gather(&all, &groups);
        columns.extend(values);
        columns.push(Arc::new(Int64Array::from(counts)));
        Changes::batch(self.tables[table].columns.clone(), columns, groups.len())
    }

    fn value_keeper_mut(&mut self, table: usize) -> &mut Accumulator {
        self.accumulators
            .iter_mut()
            .filter(|accumulator| accumulator.keeps_values())
            .nth(table - 1)
            .expect("a declared table")
    }

    fn value_keeper(&self, table: usize) -> &Accumulator {
        self.accumulators
            .iter()
            .filter(|accumulator| accumulator.keeps_values())
            .nth(table - 1)
            .expect("a declared table")
    }
}

impl Dirty {
    fn mark(&mut self, group: u32, had_result: bool) {
        self.marked[group as usize] = true;
        self.groups.push(group);
        self.had_result.push(had_result);
        self.before.push((self.groups.len(), Vec::new()));
    }

    fn clear(&mut self) {
        self.groups
            .iter()
            .for_each(|group| self.marked[*group as usize] = false);
        self.groups.clear();
        self.had_result.clear();
        self.before.clear();
    }
}

impl Kernel for AggregateKernel {
    fn push(&mut self, _input: usize, changes: &Changes, _output: &mut Vec<Changes>) -> Result<()> {
        let keys = self.key_columns.iter();
        let keys: Vec<ArrayRef> = keys.map(|key| changes.rows().column(*key).clone()).collect();
        let groups = self.groups_of(&keys, changes.len());
        self.set_aside(&groups)?;
        let (weights, columns) = (changes.weights(), changes.rows().columns());
        for accumulator in &mut self.accumulators {
            accumulator.update(&groups, weights, columns, &self.group_rows)?;
        }
        self.count_rows(&groups, changes)
    }

    fn take_errors(&mut self) -> Result<Option<Changes>> {
        self.errors.take()
    }

    fn finish(&mut self, _epoch: Epoch, output: &mut Vec<Changes>) -> Result<()> {
        if self.dirty.groups.is_empty() {
            return Ok(());
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        let mut start = 0;
        for (end, before) in std::mem::take(&mut dirty.before) {
            self.give_changed(&dirty.groups[start..end], &dirty.had_result[start..end], before, output)?;
            start = end;
        }
        if let Some(changed) = &mut self.changed {
            dirty.groups.iter().for_each(|group| changed.mark(*group, 0));
        }
        self.forget_empty_groups(&dirty.groups)?;
        self.dirty = dirty;
        self.dirty.clear();
        Ok(())
    }

    fn read(&self, table: usize, keys: Option<&[ArrayRef]>) -> Result<Vec<RecordBatch>> {
        match (table, keys) {
            (0, None) => Ok(vec![self.read_groups(&self.live_groups())?]),
            (0, Some(keys)) => Ok(vec![self.read_groups(&self.groups_of_keys(keys))?]),
            (table, None) => Ok(vec![self.read_values(table, None)?]),
            (table, Some(keys)) => self
                .groups_of_keys(keys)
                .into_iter()
                .map(|group| self.read_values(table, Some(group)))
                .collect(),
        }
    }

    fn reserve(&mut self, table: usize, rows: usize) {
        if table == 0 {
            self.reserve_groups(rows);
        }
    }

    fn load(&mut self, table: usize, rows: &RecordBatch) -> Result<()> {
        // A global aggregate's result over no rows is where it was.
        if self.key_columns.is_empty() {
            self.dirty.clear();
        }
        match table {
            0 => self.load_groups(rows),
            values => self.load_values(values, rows),
        }
    }

    fn stand(&mut self, tables: &[Vec<RecordBatch>]) -> Result<Vec<(usize, Changes)>> {
        for (table, parts) in tables.iter().enumerate() {
            parts.iter().try_for_each(|rows| self.load(table, rows))?;
        }
        self.dirty.clear();
        let groups = self.live_groups();
        self.dirty.marked.resize(self.group_rows.len(), false);
        groups
            .iter()
            .for_each(|group| self.dirty.marked[*group as usize] = true);
        self.dirty.had_result = vec![false; groups.len()];
        self.dirty.before = vec![(groups.len(), Vec::new())];
        self.dirty.groups = groups;
        Ok(Vec::new())
    }

    fn note_changes(&mut self, table: usize) {
        match table {
            0 => self.changed = Some(ChangedSlots::default()),
            values => self.value_keeper_mut(values).note_changed_values(),
        }
    }

    fn take_changes(&mut self, table: usize) -> Result<StateChanges> {
        if table > 0 {
            return self.changed_values(table);
        }
        let (marked, gone) = self.changed.as_mut().ok_or_else(not_noted)?.take();
        let groups: Vec<u32> = marked.into_iter().map(|(group, _)| group).collect();
        let are_there = |rows: &RecordBatch| {
            let hashes = hash_rows(rows.columns(), rows.num_rows());
            let (view, mut found) = (RowStore::view(0..rows.num_columns(), rows.columns()), Vec::new());
            self.keys.find_all(&self.index, &hashes, &view, &mut found);
            found.into_iter().map(|group| group != NO_SLOT).collect()
        };
        StateChanges::settled_by(&self.tables[0], vec![self.read_groups(&groups)?], gone, are_there)
    }

    fn size(&self, table: usize) -> (u64, u64) {
        if table > 0 {
            return self.value_keeper(table).kept_size();
        }
        let accumulators: usize = self.accumulators.iter().map(Accumulator::memory_bytes).sum();
        let changed = self.changed.as_ref().map_or(0, ChangedSlots::memory_bytes);
        let keys = self.keys.memory_bytes() + self.index.memory_bytes();
        let bytes = keys + self.group_rows.capacity() * 8 + accumulators + changed;
        (self.index.len() as u64, bytes as u64)
    }
}

/// Where two columns have the same values, NULL being a value.
fn same_values(old: &ArrayRef, new: &ArrayRef) -> Result<BooleanArray> {
    if !matches!(old.data_type(), DataType::List(_)) {
        return Ok(not_distinct(old, new)?);
    }
    // Arrow's comparisons have none of lists.
    let same = (0..old.len()).map(|row| old.slice(row, 1) == new.slice(row, 1));
    Ok(BooleanArray::from(same.collect::<Vec<_>>()))
}

/// Rows of groups before and after, and whether there are any.
type Pair<'a> = (Vec<RecordBatch>, Vec<RecordBatch>, &'a [bool], &'a [bool]);

/// Takes results apart, group by group.
fn one_by_one<'a>(before: &[RecordBatch], after: &[RecordBatch], had: &'a [bool], has: &'a [bool]) -> Vec<Pair<'a>> {
    let rows = |parts: &[RecordBatch]| -> Vec<RecordBatch> {
        let rows = parts
            .iter()
            .flat_map(|part| (0..part.num_rows()).map(|row| part.slice(row, 1)));
        rows.collect()
    };
    let (mut before, mut after) = (rows(before).into_iter(), rows(after).into_iter());
    let groups = (0..had.len()).map(|group| {
        let old = before.by_ref().take(had[group] as usize).collect();
        let new = after.by_ref().take(has[group] as usize).collect();
        (old, new, &had[group..group + 1], &has[group..group + 1])
    });
    groups.collect()
}

/// Drops results that are the same before and after.
///
/// # Arguments
/// - `had`, `has`: per touched group, whether it has a row in `before` and in `after`; rows stand in that order.
fn changed(
    before: RecordBatch,
    after: RecordBatch,
    had: &[bool],
    has: &[bool],
    keys: usize,
) -> Result<(RecordBatch, RecordBatch)> {
    let (mut b, mut a) = (0u32, 0u32);
    let (mut both_before, mut both_after) = (Vec::new(), Vec::new());
    for (had, has) in had.iter().zip(has) {
        if *had && *has {
            both_before.push(b);
            both_after.push(a);
        }
        b += *had as u32;
        a += *has as u32;
    }
    if both_before.is_empty() {
        return Ok((before, after));
    }
    let of_both = |rows: &RecordBatch, both: &[u32]| -> Result<RecordBatch> {
        match both.len() == rows.num_rows() {
            true => Ok(rows.clone()),
            false => Ok(take_record_batch(rows, &UInt32Array::from(both.to_vec()))?),
        }
    };
    let (old, new) = (of_both(&before, &both_before)?, of_both(&after, &both_after)?);
    let mut same = BooleanArray::from(vec![true; both_before.len()]);
    for column in keys..old.num_columns() {
        same = and(&same, &same_values(old.column(column), new.column(column))?)?;
    }
    if same.true_count() == 0 {
        return Ok((before, after));
    }
    let keep = |rows: usize, both: &[u32]| -> BooleanArray {
        let mut keep = vec![true; rows];
        both.iter()
            .zip(same.iter())
            .for_each(|(row, same)| keep[*row as usize] = same != Some(true));
        BooleanArray::from(keep)
    };
    Ok((
        filter_record_batch(&before, &keep(before.num_rows(), &both_before))?,
        filter_record_batch(&after, &keep(after.num_rows(), &both_after))?,
    ))
}
