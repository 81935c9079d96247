//! What a commit is made of.

use crate::keep::Kept;
use crate::meters::ViewMeters;
use crate::plan::{CollectionId, ViewPlan};
use crate::replay::ReplayInput;
use crate::restore::ViewState;
use crate::status::ViewStatus;
use arrow::array::RecordBatch;
use cenote_statestore::spill::Spill;
use cenote_statestore::{Epoch, Result, VersionedTable};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What to do with an inserted row whose key is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Refuse the commit, SQLSTATE 23505.
    Refuse,
    /// Refuse the commit, SQLSTATE 40001: whoever sent it had seen no such row, and decides anew.
    Retry,
    /// Keep the row that is there; `Retry` where it is another key than the primary one.
    Ignore,
    /// Put the new row in its place.
    Replace,
}

/// Changes to one table in a commit.
#[derive(Clone, Debug)]
pub struct TableWrite {
    /// The table.
    pub table: CollectionId,
    /// Rows to delete, all stored columns, as they were read.
    pub deletes: Vec<RecordBatch>,
    /// Rows to insert: the table's columns, with or without its hidden row number.
    pub inserts: Vec<RecordBatch>,
    /// What to do where a key is there already.
    pub on_conflict: OnConflict,
    /// Delete everything first, whatever it is then.
    pub truncate: bool,
}

/// One atomic change of the database.
#[derive(Debug, Default)]
pub struct Commit {
    /// Changes to tables, one entry per table.
    pub writes: Vec<TableWrite>,
    /// Changes of sources without a table: passed to the views that read them, kept nowhere.
    pub passing: Vec<(CollectionId, RecordBatch)>,
    /// The epoch that deleted rows were read at; a row changed since then refuses the commit.
    pub read_at: Epoch,
    /// A catalog change to log with it.
    pub ddl: Option<Vec<u8>>,
    /// Tables to add before the writes.
    pub create_tables: Vec<(CollectionId, Arc<VersionedTable>)>,
    /// A view to start, reading its inputs as of the epoch before.
    pub create_view: Option<NewView>,
    /// A view that takes another one's place.
    pub switch: Option<Switch>,
    /// A table that gets other columns; nothing else is in the commit then.
    pub alter: Option<Alter>,
    /// What its writes were planned for; where a table has other columns by now, the commit is refused.
    pub planned: Vec<(CollectionId, Arc<VersionedTable>)>,
    /// Views, then tables, to drop.
    pub drops: Vec<CollectionId>,
}

/// A table gets other columns: all its rows go over into another table, which takes its place.
#[derive(Clone, Debug)]
pub struct Alter {
    /// The table.
    pub table: CollectionId,
    /// What takes its place, empty.
    pub into: Arc<VersionedTable>,
    /// Makes its rows of those of the table.
    pub rewrite: Rewrite,
}

/// Makes stored rows in new columns of stored rows in the old ones.
#[derive(Clone)]
pub struct Rewrite(Arc<RewriteRows>);

type RewriteRows = dyn Fn(&RecordBatch) -> Result<RecordBatch> + Send + Sync;

impl Rewrite {
    /// # Arguments
    /// - `rewrite`: a row for each row, of the same identity.
    pub fn new(rewrite: impl Fn(&RecordBatch) -> Result<RecordBatch> + Send + Sync + 'static) -> Rewrite {
        Rewrite(Arc::new(rewrite))
    }

    pub(super) fn run(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        (self.0)(rows)
    }
}

impl std::fmt::Debug for Rewrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rewrite")
    }
}

/// A view takes another one's place: its number, its table and what reads it. The table gets the difference in the commit's epoch.
#[derive(Clone, Debug)]
pub struct Switch {
    /// The view that goes.
    pub old: CollectionId,
    /// The view that goes on as `old`. It has run beside it, and its table has the same columns and key.
    pub new: CollectionId,
    /// What it runs.
    pub plan: Arc<ViewPlan>,
    /// Where its work is counted.
    pub meters: Arc<ViewMeters>,
}

/// The view that another one is to take the place of.
#[derive(Clone, Debug)]
pub struct Replaces {
    /// Which view.
    pub view: CollectionId,
    /// What of its state is kept.
    pub kept: Kept,
    /// The errors of its rows, if it can have any.
    pub errors: Option<Arc<VersionedTable>>,
}

/// A view to start.
#[derive(Debug)]
pub struct NewView {
    /// Its collection.
    pub id: CollectionId,
    /// Its plan.
    pub plan: ViewPlan,
    /// Where its state is told.
    pub status: Arc<ViewStatus>,
    /// Where its work is counted.
    pub meters: Arc<ViewMeters>,
    /// Where its contents go.
    pub table: Arc<VersionedTable>,
    /// Where the errors of its rows go, if it can have any ([`ViewPlan::errors_table`]); with `None` they fail the view.
    pub errors: Option<Arc<VersionedTable>>,
    /// Whether its changes are followed: by views that read it, or through the history of its table. If not, rows are
    /// applied before the end of an epoch of very many.
    pub is_followed: bool,
    /// What its sources passed on before, for those that keep no rows and run already.
    pub replays: BTreeMap<CollectionId, ReplayInput>,
    /// The state that it goes on from; only for one that is started with the engine ([`crate::Engine::attach`]).
    pub state: Option<ViewState>,
    /// A running view whose state it goes on with.
    pub replaces: Option<Replaces>,
    /// Where its operators' state may go when memory is short; `None`: it stays in memory.
    pub spill: Option<Spill>,
}

/// When the rows of a source's batch are sealed, so that they can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// In an epoch of their own, or with others of their source if views are behind.
    AtOnce,
    /// With the next commit that is not of this kind, or when they are very many: for rows that pass to the views, and whose
    /// way nobody watches. Only without a log.
    WithNext,
}

impl Commit {
    /// Whether it leaves more rows than there were.
    pub(crate) fn adds_rows(&self) -> bool {
        let rows = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        let mut writes = self.writes.iter();
        writes.any(|write| !write.truncate && rows(&write.inserts) > rows(&write.deletes))
    }

    /// Whether it changes nothing: who sends it waits for what was committed or handed over before it.
    pub(super) fn is_barrier(&self) -> bool {
        self.writes.is_empty()
            && self.passing.is_empty()
            && self.ddl.is_none()
            && self.create_tables.is_empty()
            && self.create_view.is_none()
            && self.switch.is_none()
            && self.alter.is_none()
            && self.drops.is_empty()
    }

    /// Takes in a later commit of the same source.
    pub(super) fn absorb(&mut self, later: Commit) {
        for write in later.writes {
            match self.writes.iter_mut().find(|mine| mine.table == write.table) {
                Some(mine) => mine.inserts.extend(write.inserts),
                None => self.writes.push(write),
            }
        }
        self.passing.extend(later.passing);
    }
}
