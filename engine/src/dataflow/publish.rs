//! The last operator of a view: makes an epoch's changes net and applies them to a table that readers see.

use super::Published;
use crate::kernel::Kernel;
use cenote_statestore::{Changes, Epoch, Result, VersionedTable};
use std::sync::Arc;

/// Changes of the current epoch on their way into a table.
pub(super) struct Publish {
    table: Arc<VersionedTable>,
    worker: usize,
    pending: Vec<Changes>,
    /// Where they are kept for the views that read the table; `None`: none does.
    published: Option<Published>,
}

impl Publish {
    pub(super) fn new(table: Arc<VersionedTable>, worker: usize, published: Option<Published>) -> Publish {
        Publish {
            table,
            worker,
            pending: Vec::new(),
            published,
        }
    }
}

impl Kernel for Publish {
    fn push(&mut self, _input: usize, changes: &Changes, _output: &mut Vec<Changes>) -> Result<()> {
        self.pending.push(changes.clone());
        Ok(())
    }

    fn finish(&mut self, epoch: Epoch, _output: &mut Vec<Changes>) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let columns = self.table.schema().columns.clone();
        let changes = Changes::concat(&columns, &pending)?.consolidate()?;
        let rows = Changes::relabel(changes.rows().clone(), columns)?;
        let changes = changes.with_rows(rows);
        self.table.apply(self.worker, epoch, &changes)?;
        if let Some(published) = &self.published {
            published.borrow_mut().push_back((epoch.0, changes));
        }
        Ok(())
    }

    fn read(&self, _: usize, _: Option<&[arrow::array::ArrayRef]>) -> Result<Vec<arrow::array::RecordBatch>> {
        Ok(Vec::new())
    }

    fn size(&self, _: usize) -> (u64, u64) {
        (0, 0)
    }
}
