//! What is noted of a shard since a checkpoint: rows that were deleted, which the rows that are there cannot tell, and the slots
//! that were written.

use super::marks::Marks;
use crate::{Changes, Epoch, Result};
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take;
use std::collections::VecDeque;

/// Identities of deleted rows by epoch, ascending; those that came back may be among them.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Deletions after this epoch are here; `None`: none are kept.
    from: Option<Epoch>,
    kept: VecDeque<(Epoch, RecordBatch)>,
    bytes: usize,
    /// Slots that were written after that epoch.
    marks: Marks,
}

impl Gone {
    /// Keeps deletions after an epoch, of which none has come yet.
    pub(super) fn keep_from(&mut self, epoch: Epoch) {
        *self = Gone {
            from: Some(epoch),
            ..Gone::default()
        };
    }

    /// The epoch after which deletions are kept.
    pub(super) fn kept_from(&self) -> Option<Epoch> {
        self.from
    }

    pub(super) fn is_kept(&self) -> bool {
        self.from.is_some()
    }

    /// Whether all deletions after an epoch are here.
    pub(super) fn is_kept_from(&self, epoch: Epoch) -> bool {
        self.from.is_some_and(|from| from <= epoch)
    }

    /// Notes that a slot was written.
    #[inline]
    pub(super) fn mark(&mut self, slot: u32) {
        self.marks.mark(slot);
    }

    pub(super) fn marks(&self) -> &Marks {
        &self.marks
    }

    pub(super) fn marks_mut(&mut self) -> &mut Marks {
        &mut self.marks
    }

    /// Keeps the identities of deleted rows.
    ///
    /// # Arguments
    /// - `rows`: which of the changes they are.
    /// - `bytes_max`: beyond it all are given up: what is as large as that is better read as a whole.
    pub(super) fn keep(
        &mut self,
        epoch: Epoch,
        changes: &Changes,
        identity: &[usize],
        rows: Vec<u32>,
        bytes_max: usize,
    ) -> Result<()> {
        if !self.is_kept() || rows.is_empty() {
            return Ok(());
        }
        let (count, rows) = (rows.len(), UInt32Array::from(rows));
        let columns = identity
            .iter()
            .map(|column| take(changes.rows().column(*column), &rows, None));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
        let schema = changes.schema().project(identity)?;
        let gone = Changes::batch(schema.into(), columns, count)?;
        self.bytes += gone.get_array_memory_size();
        self.kept.push_back((epoch, gone));
        if self.bytes > bytes_max {
            *self = Gone::default();
        }
        Ok(())
    }

    /// The identities of rows that were deleted in `(after, through]`, some of them perhaps several times; `None`: they are not
    /// all kept.
    pub(super) fn between(&self, after: Epoch, through: Epoch) -> Option<Vec<RecordBatch>> {
        let is_whole = self.is_kept_from(after);
        let wanted = self
            .kept
            .iter()
            .filter(|(epoch, _)| after < *epoch && *epoch <= through);
        is_whole.then(|| wanted.map(|(_, gone)| gone.clone()).collect())
    }

    /// Drops those of an epoch and before.
    pub(super) fn drop_through(&mut self, epoch: Epoch) {
        while let Some((_, gone)) = self.kept.pop_front_if(|(of, _)| *of <= epoch) {
            self.bytes -= gone.get_array_memory_size();
        }
        self.from = self.from.map(|from| from.max(epoch));
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes + self.marks.memory_bytes()
    }
}
