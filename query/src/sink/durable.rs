//! What a restart tells again: the bound of what sinks may commit outside.

use crate::catalog::{Catalog, Object};
use crate::database::Database;
use crate::source::NEWEST;
use cenote_engine::plan::CollectionId;
use cenote_statestore::Epoch;

impl Database {
    /// The epoch up to which a restart finds the changes of a collection as they were told before.
    ///
    /// Rows of tables are in the log before anybody sees them, and so is all that follows from them. Rows that a source passes on
    /// are kept nowhere: what follows from them is told again up to the newest checkpoint. Without a log no
    /// restart tells anything again, and nothing needs to wait for it.
    pub(crate) fn durable_epoch_for(&self, id: CollectionId) -> Epoch {
        match self.waits_for_checkpoints(&self.catalog(), id) {
            true => *self.running_sinks().published.borrow(),
            false => self.epoch(),
        }
    }

    /// Whether changes of a collection are durable only with a checkpoint.
    pub(super) fn waits_for_checkpoints(&self, catalog: &Catalog, id: CollectionId) -> bool {
        let passes = || match catalog.by_id(id) {
            Some(Object::MaterializedView(view)) => !catalog.failing_with(view).1.is_empty(),
            _ => false,
        };
        self.config().data_dir.is_some() && passes()
    }

    /// Whether a collection's contents are known to be what they were at an epoch, by the history of the tables that it is
    /// made of and of the offsets of its sources.
    pub(super) fn is_unchanged_since(&self, catalog: &Catalog, id: CollectionId, epoch: Epoch) -> bool {
        let table = match catalog.by_id(id) {
            Some(Object::MaterializedView(view)) => {
                let mut reads = view.reads.iter();
                return reads.all(|input| self.is_unchanged_since(catalog, *input, epoch));
            }
            Some(Object::Table(table)) => table.versioned.as_ref().or(table.offsets.as_ref()),
            _ => None,
        };
        table.is_some_and(|table| table.changes(epoch, NEWEST).is_ok_and(|changes| changes.is_empty()))
    }
}
