//! One shard of a versioned table: slots, versions, index, garbage.

use super::secondary::Secondary;
use super::{TableSchema, TableStatistics};
use crate::retention::expired;
use crate::{Changes, Epoch, Error, KeyIndex, Result, RowStore, RowView};
use std::collections::VecDeque;
use std::ops::Range;

const NONE: u32 = u32::MAX;
const LIVE: u64 = u64::MAX;

/// Bytes of dead versions beyond which readers' pins no longer keep them.
const PINNED_GARBAGE_BYTES_MAX: usize = 256 << 20;

/// Slots that [`Shard::run_end`] looks at in one step.
const RUN_STEP: usize = 64;

#[derive(Debug)]
pub(super) struct Shard {
    rows: RowStore,
    created: Vec<u64>,
    ended: Vec<u64>,
    previous: Vec<u32>,
    /// Multiplicities; empty where keys are unique.
    weights: Vec<i64>,
    multiset: bool,
    index: KeyIndex,
    /// Further indexes, over all versions; a position whose index was dropped stays empty.
    secondary: Vec<Option<Secondary>>,
    /// Slots by the epoch they ended in, ascending.
    garbage: VecDeque<(u64, u32)>,
    live_rows: i64,
    /// Epochs below it can no longer be read.
    readable_from: Epoch,
    history: VecDeque<(Epoch, Changes)>,
    history_bytes: usize,
    history_from: Epoch,
}

impl Shard {
    pub(super) fn new(schema: &TableSchema) -> Shard {
        Shard {
            rows: RowStore::new(schema.columns.clone()),
            created: Vec::new(),
            ended: Vec::new(),
            previous: Vec::new(),
            weights: Vec::new(),
            multiset: !schema.unique,
            index: KeyIndex::default(),
            secondary: Vec::new(),
            garbage: VecDeque::new(),
            live_rows: 0,
            readable_from: Epoch::ZERO,
            history: VecDeque::new(),
            history_bytes: 0,
            history_from: Epoch::ZERO,
        }
    }

    /// Adds an index at a position, which has what is written from now on.
    ///
    /// # Returns
    /// The slots whose versions are to be added to it, by [`Shard::fill_secondary`].
    pub(super) fn add_secondary(&mut self, position: usize, columns: Vec<usize>) -> Range<u32> {
        self.secondary.resize_with(position + 1, || None);
        self.secondary[position] = Some(Secondary::new(columns));
        0..self.created.len() as u32
    }

    /// Adds the versions in some slots to an index, if it is there still.
    pub(super) fn fill_secondary(&mut self, position: usize, slots: Range<u32>) {
        let Some(Some(index)) = self.secondary.get_mut(position) else {
            return;
        };
        let slots: Vec<u32> = slots.filter(|slot| self.ended[*slot as usize] != 0).collect();
        index.add_stored(&self.rows, &slots);
    }

    pub(super) fn drop_secondary(&mut self, position: usize) {
        if let Some(index) = self.secondary.get_mut(position) {
            *index = None;
        }
    }

    /// A further index; `None`: it was dropped.
    pub(super) fn secondary(&self, position: usize) -> Option<&Secondary> {
        self.secondary.get(position)?.as_ref()
    }

    /// Whether the version of a slot is the newest of its row, and not deleted.
    pub(super) fn is_live(&self, slot: u32) -> bool {
        self.ended[slot as usize] == LIVE
    }

    pub(super) fn rows(&self) -> &RowStore {
        &self.rows
    }

    pub(super) fn check(&self, epoch: Epoch) -> Result<()> {
        if epoch < self.readable_from {
            Err(expired(epoch, self.readable_from))
        } else {
            Ok(())
        }
    }

    #[inline]
    pub(super) fn visible(&self, slot: u32, epoch: Epoch) -> bool {
        self.created[slot as usize] <= epoch.0 && epoch.0 < self.ended[slot as usize]
    }

    /// Where a run of slots ends whose versions are all seen at `epoch`, each once: exact to [`RUN_STEP`] slots, as
    /// what lies in one step is looked at without a branch.
    pub(super) fn run_end(&self, slots: Range<u32>, epoch: Epoch) -> u32 {
        let mut at = slots.start as usize;
        let end = slots.end as usize;
        while at < end {
            let step = at..(at + RUN_STEP).min(end);
            let lives = self.created[step.clone()].iter().zip(&self.ended[step.clone()]);
            let mut is_run = lives.fold(true, |all, (created, ended)| {
                all & (*created <= epoch.0) & (epoch.0 < *ended)
            });
            if self.multiset {
                is_run &= self.weights[step.clone()]
                    .iter()
                    .fold(true, |all, weight| all & (*weight == 1));
            }
            if !is_run {
                break;
            }
            at = step.end;
        }
        at as u32
    }

    /// How many times the row of a slot counts.
    pub(super) fn weight(&self, slot: u32) -> i64 {
        if self.multiset { self.weights[slot as usize] } else { 1 }
    }

    pub(super) fn find(&self, hash: u64, view: &RowView<'_>, row: usize, epoch: Epoch) -> Option<u32> {
        let mut slot = self.index.find(hash, |slot| self.rows.equals(slot, view, row))?;
        while slot != NONE {
            if self.visible(slot, epoch) {
                return Some(slot);
            }
            slot = self.previous[slot as usize];
        }
        None
    }

    pub(super) fn newest_slot(&self, hash: u64, view: &RowView<'_>, row: usize) -> Option<u32> {
        let slot = self.index.find(hash, |slot| self.rows.equals(slot, view, row))?;
        (self.ended[slot as usize] == LIVE).then_some(slot)
    }

    pub(super) fn newest(&self, hash: u64, view: &RowView<'_>, row: usize) -> Option<Epoch> {
        self.newest_slot(hash, view, row)
            .map(|slot| Epoch(self.created[slot as usize]))
    }

    /// Applies the deletions, or the insertions, among `rows` of the changes.
    #[allow(clippy::too_many_arguments)] // one call site; the parts of one batch, split for the lock
    pub(super) fn apply(
        &mut self,
        schema: &TableSchema,
        epoch: Epoch,
        changes: &Changes,
        view: &RowView<'_>,
        hashes: &[u64],
        rows: Range<usize>,
        deletions: bool,
    ) -> Result<()> {
        let (mut slots, mut sources) = (Vec::new(), Vec::new());
        for row in rows {
            let weight = changes.weights().get(row);
            if weight == 0 || (weight < 0) != deletions {
                continue;
            }
            let head = self.index.find(hashes[row], |slot| self.rows.equals(slot, view, row));
            if self.counted_in_place(epoch, head, weight) {
                continue;
            }
            let left = self.end_version(schema, epoch, head, weight)?;
            if left == 0 {
                continue;
            }
            let slot = self.new_version(epoch, left);
            // The identity is written at once: a later row of this batch must find it.
            self.rows.write_one(slot, view, row);
            match head {
                Some(head) => {
                    self.previous[slot as usize] = head;
                    self.index.replace(head, slot);
                }
                None => self.index.insert(hashes[row], slot),
            }
            slots.push(slot);
            sources.push(row as u32);
        }
        if !slots.is_empty() && schema.unique {
            self.rows.write(&slots, changes.rows().columns(), &sources);
        }
        for index in self.secondary.iter_mut().flatten() {
            index.add(&self.rows, changes.rows(), &slots, &sources);
        }
        Ok(())
    }

    /// Changes the multiplicity of a version that this very epoch created: nobody can have seen it.
    fn counted_in_place(&mut self, epoch: Epoch, head: Option<u32>, weight: i64) -> bool {
        let Some(slot) = head.filter(|_| self.multiset) else {
            return false;
        };
        let index = slot as usize;
        let fresh = self.created[index] == epoch.0 && self.ended[index] == LIVE && self.weights[index] + weight > 0;
        if fresh {
            self.weights[index] += weight;
            self.live_rows += weight;
        }
        fresh
    }

    /// Ends the live version of an identity and says how many times its row counts from now on.
    fn end_version(&mut self, schema: &TableSchema, epoch: Epoch, head: Option<u32>, weight: i64) -> Result<i64> {
        let live = head.filter(|slot| self.ended[*slot as usize] == LIVE);
        let before = live.map_or(0, |slot| self.weight(slot));
        let left = before + weight;
        if left < 0 || (schema.unique && left > 1) {
            return Err(Error::bug(format!(
                "table `{}` would hold a row {left} times at epoch {epoch}",
                schema.name
            )));
        }
        if let Some(slot) = live {
            self.ended[slot as usize] = epoch.0;
            self.garbage.push_back((epoch.0, slot));
        }
        self.live_rows += weight;
        Ok(left)
    }

    fn new_version(&mut self, epoch: Epoch, weight: i64) -> u32 {
        let slot = self.rows.allocate();
        let index = slot as usize;
        if index >= self.created.len() {
            self.created.resize(index + 1, 0);
            self.ended.resize(index + 1, 0);
            self.previous.resize(index + 1, NONE);
            if self.multiset {
                self.weights.resize(index + 1, 0);
            }
        }
        self.created[index] = epoch.0;
        self.ended[index] = LIVE;
        self.previous[index] = NONE;
        if self.multiset {
            self.weights[index] = weight;
        }
        slot
    }

    /// Frees versions that no reader may ask for any more.
    pub(super) fn drop_versions(&mut self, horizon: Epoch, kept_from: Epoch) {
        let row_bytes = (self.rows.memory_bytes() / (self.rows.slots() as usize).max(1)).max(1);
        let too_much = self.garbage.len() * row_bytes > PINNED_GARBAGE_BYTES_MAX;
        let limit = if too_much { kept_from } else { horizon };
        self.readable_from = self.readable_from.max(limit);
        while let Some((ended, slot)) = self.garbage.front().copied()
            && ended <= limit.0
        {
            self.garbage.pop_front();
            self.unlink(slot);
            let indexes = self.secondary.iter_mut().flatten();
            indexes.for_each(|index| index.remove(slot));
            self.ended[slot as usize] = 0;
            self.rows.release(slot);
        }
    }

    /// Frees the changes of `through` and before, and more if all together are larger than `history_bytes_max`.
    pub(super) fn drop_history(&mut self, through: Epoch, history_bytes_max: usize) {
        while let Some((epoch, changes)) = self.history.front()
            && (*epoch <= through || self.history_bytes > history_bytes_max)
        {
            self.history_from = self.history_from.max(*epoch);
            self.history_bytes -= changes.memory_bytes();
            self.history.pop_front();
        }
    }

    fn unlink(&mut self, slot: u32) {
        let previous = self.previous[slot as usize];
        if self.index.find_like(slot, |head| head == slot).is_some() {
            match previous {
                NONE => {
                    self.index.remove(slot);
                }
                older => self.index.replace(slot, older),
            }
            return;
        }
        let versions = &self.previous;
        let mut newer = NONE;
        self.index.find_like(slot, |head| {
            let mut at = head;
            while at != NONE {
                if versions[at as usize] == slot {
                    newer = at;
                    return true;
                }
                at = versions[at as usize];
            }
            false
        });
        if newer != NONE {
            self.previous[newer as usize] = previous;
        }
    }

    pub(super) fn remember(&mut self, epoch: Epoch, changes: Changes) {
        self.history_bytes += changes.memory_bytes();
        self.history.push_back((epoch, changes));
    }

    /// Changes at and before this epoch are no longer kept.
    pub(super) fn history_from(&self) -> Epoch {
        self.history_from
    }

    pub(super) fn history(&self, after: Epoch, through: Epoch, found: &mut Vec<(Epoch, Changes)>) {
        let start = self.history.partition_point(|(epoch, _)| *epoch <= after);
        let wanted = self
            .history
            .iter()
            .skip(start)
            .take_while(|(epoch, _)| *epoch <= through);
        found.extend(wanted.cloned());
    }

    pub(super) fn statistics(&self) -> TableStatistics {
        let versions = self.rows.live() as u64;
        let own = self.created.capacity() * 8
            + self.ended.capacity() * 8
            + self.previous.capacity() * 4
            + self.weights.capacity() * 8
            + self.garbage.capacity() * 16;
        let secondary: usize = self.secondary.iter().flatten().map(Secondary::memory_bytes).sum();
        let bytes = own + self.rows.memory_bytes() + self.index.memory_bytes() + secondary + self.history_bytes;
        TableStatistics {
            rows: self.live_rows.max(0) as u64,
            versions,
            bytes: bytes as u64,
        }
    }
}
