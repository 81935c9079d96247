//! Rows that a shard begins with: whole columns behind each other, and one pass over the index.
//!
//! # Rules kept here
//! Each identity is new and comes once, so nothing is looked for, and nothing was before.

use super::super::past::NONE;
use super::Shard;
use crate::index::with_spare;
use crate::{Changes, Epoch, Error, Result, Weights};

impl Shard {
    /// Makes room for rows to be loaded.
    pub(in crate::table) fn reserve(&mut self, rows: usize) {
        // They may not stay.
        if self.may_spill() {
            return;
        }
        self.rows.reserve(rows);
        self.index.reserve(rows);
        let rows = with_spare(rows);
        self.created.reserve_exact(rows);
        self.previous.reserve_exact(rows);
        if self.multiset {
            self.weights.reserve_exact(rows);
        }
    }

    /// Puts rows into slots of their own, as they stand at the epoch that the shard begins at.
    ///
    /// # Arguments
    /// - `hashes`: of their identities.
    ///
    /// # Errors
    /// `Bug`: an identity is there already, or a row is not there as often as a row can be. The shard is of no use then.
    pub(in crate::table) fn load(&mut self, table: &str, epoch: Epoch, rows: &Changes, hashes: &[u64]) -> Result<()> {
        self.check_room(table, rows.len())?;
        let count = self.counted(table, rows)?;
        if self.is_spilled() || self.is_too_large() {
            self.live_rows += count;
            self.counts.note(epoch, self.live_rows);
            return self.load_spilled(epoch, rows, hashes);
        }
        let first = self.rows.append(rows.rows().columns(), rows.len());
        let (stored, identity) = (&self.rows, &self.identity);
        let is_same = |a: u32, b: u32| stored.same(identity, a, b);
        if self.index.insert_run(hashes, first, is_same).is_some() {
            return Err(Error::bug(format!(
                "table `{table}` was given a row twice to begin with"
            )));
        }
        let slots = first as usize + rows.len();
        self.created.resize(slots, epoch.0);
        self.previous.resize(slots, NONE);
        match rows.weights() {
            _ if !self.multiset => {}
            Weights::All(weight) => self.weights.resize(slots, *weight),
            Weights::Each(each) => self.weights.extend_from_slice(each),
        }
        self.live_rows += count;
        self.counts.note(epoch, self.live_rows);
        self.index_loaded(first, rows);
        Ok(())
    }

    /// How often rows count, all together.
    fn counted(&self, table: &str, rows: &Changes) -> Result<i64> {
        let most = if self.multiset { i64::MAX } else { 1 };
        let fits = |weight: i64| (1..=most).contains(&weight);
        let (fit, count) = match rows.weights() {
            Weights::All(weight) => (rows.is_empty() || fits(*weight), weight * rows.len() as i64),
            Weights::Each(each) => (each.iter().all(|weight| fits(*weight)), each.iter().sum()),
        };
        match fit {
            true => Ok(count),
            false => Err(Error::bug(format!(
                "table `{table}` was given a row to begin with that cannot be there so often"
            ))),
        }
    }

    fn index_loaded(&mut self, first: u32, rows: &Changes) {
        if self.secondary.iter().all(Option::is_none) {
            return;
        }
        let sources: Vec<u32> = (0..rows.len() as u32).collect();
        let slots: Vec<u32> = sources.iter().map(|row| first + row).collect();
        for index in self.secondary.iter_mut().flatten() {
            index.add(&self.rows, &self.past, rows.rows(), &slots, &sources);
        }
    }
}
