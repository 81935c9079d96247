//! The last operator of a view: makes an epoch's changes net and applies them to a table that readers see.
//!
//! # Rules kept here
//! 1. Nothing is applied early where its changes are followed: who follows is told of net changes alone.
//! 2. Where it cannot, insertions of an epoch of very many rows are applied as they come, deletions at the end: a row is
//!    never taken away before it is there. (Rows of a unique key wait for the deletion of the old one.)

use super::Published;
use crate::kernel::{Kernel, StateChanges};
use cenote_statestore::{Changes, Epoch, Error, Result, VersionedTable};
use std::sync::Arc;

/// Insertions that may wait for the end of their epoch.
const ROWS_WAITING_MAX: usize = 64 * 1024;

/// Changes of the current epoch on their way into a table.
pub(crate) struct Publish {
    table: Arc<VersionedTable>,
    worker: usize,
    applies_early: bool,
    /// Whether what it is given is net, and has the deletion of a key before its insertion.
    is_given_net: bool,
    epoch: Epoch,
    pending: Vec<Changes>,
    /// Rows of the pending insertions, where they may be applied early.
    waiting: usize,
    /// Where they are kept for the views that read the table; `None`: none does.
    published: Option<Published>,
}

impl Publish {
    pub(super) fn new(
        table: Arc<VersionedTable>,
        worker: usize,
        is_followed: bool,
        is_given_net: bool,
        published: Option<Published>,
    ) -> Publish {
        Publish {
            applies_early: !is_followed && table.is_multiset(),
            is_given_net,
            table,
            worker,
            epoch: Epoch::ZERO,
            pending: Vec::new(),
            waiting: 0,
            published,
        }
    }

    /// The table.
    pub(crate) fn table(&self) -> &Arc<VersionedTable> {
        &self.table
    }

    /// Goes on with another table of the same columns and key, which is made the same as this one first.
    ///
    /// # Arguments
    /// - `difference`: what the other one lacks, at an epoch that brings nothing else.
    pub(crate) fn go_on_with(&mut self, table: Arc<VersionedTable>, epoch: Epoch, difference: Changes) -> Result<()> {
        self.table = table;
        if difference.is_empty() {
            return Ok(());
        }
        self.table.apply(self.worker, epoch, &difference)?;
        if let Some(published) = &self.published {
            published.borrow_mut().push_back((epoch.0, difference));
        }
        Ok(())
    }

    /// Applies what is pending, or its insertions only.
    fn apply(&mut self, insertions_only: bool) -> Result<()> {
        let (now, later) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|changes: &Changes| !insertions_only || changes.weights().is_insertion());
        (self.pending, self.waiting) = (later, 0);
        let columns = self.table.schema().columns.clone();
        let net = match self.is_given_net {
            true => now,
            false => vec![Changes::concat(&columns, &now)?.consolidate()?],
        };
        for changes in net {
            let rows = Changes::relabel(changes.rows().clone(), columns.clone())?;
            let changes = changes.with_rows(rows);
            self.table.apply(self.worker, self.epoch, &changes)?;
            if let Some(published) = &self.published {
                published.borrow_mut().push_back((self.epoch.0, changes));
            }
        }
        Ok(())
    }
}

impl Kernel for Publish {
    fn begin(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    fn push(&mut self, _input: usize, changes: &Changes, _output: &mut Vec<Changes>) -> Result<()> {
        self.pending.push(changes.clone());
        if self.applies_early && changes.weights().is_insertion() {
            self.waiting += changes.len();
            if self.waiting >= ROWS_WAITING_MAX {
                self.apply(true)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, _epoch: Epoch, _output: &mut Vec<Changes>) -> Result<()> {
        match self.pending.is_empty() {
            true => Ok(()),
            false => self.apply(false),
        }
    }

    fn read(&self, _: usize, _: Option<&[arrow::array::ArrayRef]>) -> Result<Vec<arrow::array::RecordBatch>> {
        Ok(Vec::new())
    }

    fn load(&mut self, _: usize, _: &arrow::array::RecordBatch) -> Result<()> {
        Err(Error::bug("the table of a view was given state"))
    }

    fn stand(&mut self, _: &[Vec<arrow::array::RecordBatch>]) -> Result<Vec<(usize, Changes)>> {
        Err(Error::bug("the table of a view was given state"))
    }

    fn note_changes(&mut self, _: usize) {}

    fn take_changes(&mut self, _: usize) -> Result<StateChanges> {
        Ok(StateChanges::default())
    }

    fn size(&self, _: usize) -> (u64, u64) {
        (0, 0)
    }
}
