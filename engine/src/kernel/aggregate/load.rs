//! Groups, and the values that they keep, as their state tables had them.
//!
//! # Rules kept here
//! A group comes once, before its values: it is put behind the others without being looked for.

use super::super::load::{StateColumns, unfit};
use super::AggregateKernel;
use arrow::array::{ArrayRef, RecordBatch};
use cenote_statestore::{Result, hash_rows, with_spare};

impl AggregateKernel {
    /// Makes room for groups to be loaded.
    pub(super) fn reserve_groups(&mut self, groups: usize) {
        self.keys.reserve(groups);
        self.index.reserve(groups);
        let slots = self.keys.slots() as usize + with_spare(groups);
        self.group_rows
            .reserve_exact(slots.saturating_sub(self.group_rows.len()));
        self.accumulators
            .iter_mut()
            .for_each(|accumulator| accumulator.reserve(slots));
    }

    /// Takes rows of the groups' table.
    pub(super) fn load_groups(&mut self, rows: &RecordBatch) -> Result<()> {
        let mut columns = StateColumns::of(rows, &self.tables[0].columns)?;
        let keys = columns.take(self.key_columns.len());
        let groups = match keys.is_empty() {
            // The one group of a global aggregate may be there already.
            true => self.groups_of(&keys, rows.num_rows()),
            false => self.add_groups(&keys, rows.num_rows())?,
        };
        let group_rows = columns.next_longs()?.values();
        for (group, rows) in groups.iter().zip(group_rows) {
            self.group_rows[*group as usize] = *rows;
        }
        let group_rows = &self.group_rows;
        self.accumulators
            .iter_mut()
            .try_for_each(|accumulator| accumulator.load(&groups, &mut columns, group_rows))
    }

    /// Adds groups that are not there, each once.
    fn add_groups(&mut self, keys: &[ArrayRef], count: usize) -> Result<Vec<u32>> {
        let hashes = hash_rows(keys, count);
        let first = self.keys.append(keys, count);
        let (stored, all): (_, Vec<usize>) = (&self.keys, (0..keys.len()).collect());
        let is_same = |a: u32, b: u32| stored.same(&all, a, b);
        if self.index.insert_run(&hashes, first, is_same).is_some() {
            return Err(unfit("a group twice"));
        }
        let groups: Vec<u32> = (first..first + count as u32).collect();
        self.grow(first as usize + count);
        Ok(groups)
    }

    /// Takes rows of a table of values.
    pub(super) fn load_values(&mut self, table: usize, rows: &RecordBatch) -> Result<()> {
        let mut columns = StateColumns::of(rows, &self.tables[table].columns)?;
        let keys = columns.take(self.key_columns.len());
        let known = self.index.len();
        let groups = self.groups_of(&keys, rows.num_rows());
        match self.index.len() == known {
            true => self.value_keeper_mut(table).load_values(&groups, columns),
            false => Err(unfit("values of a group that is not there")),
        }
    }
}
