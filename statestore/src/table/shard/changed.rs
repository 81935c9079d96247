//! What has changed in a shard since a checkpoint: noted as rows are written, so that it can be told without looking at the others.
//!
//! # Rules kept here
//! 1. A slot whose row is new or has changed is marked, one that is marked need not have changed.
//! 2. Of the rows that an application of changes deletes those are noted that are not there at its end. One that a later
//!    application of the epoch brings back stays noted.

use super::super::gone::Gone;
use super::{DEAD, Shard, Version};
use crate::{Changes, Epoch, Result};
use std::ops::Range;

/// Bytes of deleted rows' identities that are always kept.
const GONE_BYTES_MIN: usize = 1 << 20;

/// The same where rows are spilled: reading all of them is dear, however few are in memory.
const GONE_BYTES_MIN_SPILLED: usize = 8 << 20;

impl Shard {
    /// What was noted since a checkpoint.
    pub(in crate::table) fn gone(&self) -> &Gone {
        &self.gone
    }

    pub(in crate::table) fn gone_mut(&mut self) -> &mut Gone {
        &mut self.gone
    }

    /// Notes rows that went and did not come back.
    ///
    /// # Arguments
    /// - `deleted`: rows of the changes that went, with their slots ([`Shard::apply`]); all of the changes are applied.
    pub(in crate::table) fn note_deleted(
        &mut self,
        epoch: Epoch,
        changes: &Changes,
        deleted: &[(u32, u32)],
    ) -> Result<()> {
        let away = deleted
            .iter()
            .filter(|(_, slot)| self.created[*slot as usize] & DEAD != 0);
        let rows: Vec<u32> = away.map(|(row, _)| *row).collect();
        let bytes_min = match self.is_spilled() {
            true => GONE_BYTES_MIN_SPILLED,
            false => GONE_BYTES_MIN,
        };
        let bytes_max = (self.rows.memory_bytes() / 2).max(bytes_min);
        self.gone.keep(epoch, changes, &self.identity, rows, bytes_max)
    }

    /// The versions in some slots that are seen at an epoch and were not there at an earlier one.
    ///
    /// # Arguments
    /// - `after`: one since which changes are noted ([`Gone::is_kept_from`]).
    /// - `most`: how many versions at most.
    ///
    /// # Returns
    /// They, and the slot to go on from.
    pub(in crate::table) fn changed(
        &self,
        slots: Range<u32>,
        after: Epoch,
        at: Epoch,
        most: usize,
    ) -> (Vec<Version>, u32) {
        let mut found = Vec::new();
        for slot in self.gone.marks().of(slots.clone()) {
            let version = self.version_at(slot, at);
            found.extend(version.filter(|version| self.created_at(slot, *version, at) > after.0));
            if found.len() >= most {
                return (found, slot + 1);
            }
        }
        (found, slots.end)
    }

    /// Takes the marks away of slots that have not changed after an epoch.
    pub(in crate::table) fn unmark(&mut self, slots: Range<u32>, epoch: Epoch) {
        let created = &self.created;
        // What is free is marked when it is written again.
        let is_old = |slot: u32| match created[slot as usize] {
            super::FREE => true,
            created => created & !DEAD <= epoch.0,
        };
        self.gone.marks_mut().unmark(slots, is_old);
    }

    /// The epoch that the version of a slot's row was created in that is seen at `at`.
    pub(super) fn created_at(&self, slot: u32, version: Version, at: Epoch) -> u64 {
        let created = self.created[slot as usize];
        if created <= at.0 {
            return created;
        }
        match version.place.is_past() {
            true => self.past.created(version.place.number()),
            // A multiset's version has its values in the slot.
            false => {
                let seen = self.past.seen_at(self.previous[slot as usize], at.0);
                seen.map_or(created, |version| self.past.created(version))
            }
        }
    }
}
