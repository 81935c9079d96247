//! An open transaction: its snapshot, and what it has changed so far.
//!
//! # Rules kept here
//! Statements read the snapshot with the transaction's own changes laid over it. Nothing is shared before COMMIT, which
//! is one commit of the engine and is refused if a changed row was changed by somebody else meanwhile.

mod pending;

pub(crate) use pending::encoded;

use crate::catalog::Table;
use crate::provider::outside;
use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use cenote_engine::plan::CollectionId;
use cenote_engine::{Commit, RowKey};
use cenote_statestore::{Error, ErrorKind, Lookup, Pin, Result, VersionedTable};
pub(crate) use pending::Pending;
use pending::identities;
use std::collections::HashSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

/// What becomes of an inserted row whose key is there already.
#[derive(Debug)]
pub(crate) enum ConflictRule {
    /// It refuses the statement; at the commit, the transaction.
    Refuse,
    /// It is left out if the conflict is in one of these keys.
    Skip {
        /// Positions among the table's keys.
        keys: Vec<usize>,
        /// Whether the client is told which rows were added.
        is_told: bool,
    },
    /// None is there in what the transaction sees; at the commit, the statement is to look again.
    Retry,
}

/// What a transaction has changed, by table. Cheap to clone: rows are shared.
pub(crate) type Writes = BTreeMap<CollectionId, Pending>;

/// A transaction.
pub(crate) struct Transaction {
    pub(crate) pin: Pin,
    pub(crate) failed: bool,
    /// Whether it ends with the message that began it.
    pub(crate) implicit: bool,
    /// Whether it is one statement that is run again when another transaction got to its rows first.
    pub(crate) repeats: bool,
    /// Whether it was begun to read only.
    pub(crate) only_reads: bool,
    writes: Writes,
    next_row_id: i64,
}

/// A transaction's changes to one table, as readers of its statements see them.
#[derive(Debug)]
pub struct Overlay {
    gone: HashSet<Box<[u8]>>,
    inserts: RecordBatch,
    truncated: bool,
}

impl Transaction {
    pub(crate) fn new(pin: Pin, implicit: bool) -> Transaction {
        Transaction {
            pin,
            failed: false,
            implicit,
            repeats: false,
            only_reads: false,
            writes: BTreeMap::new(),
            next_row_id: -1,
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.writes.is_empty()
    }

    pub(crate) fn writes(&self) -> &Writes {
        &self.writes
    }

    /// Goes back to changes that it had before. Row numbers given since are not given again.
    pub(crate) fn back_to(&mut self, writes: Writes) {
        self.writes = writes;
    }

    fn pending(&mut self, table: &Arc<Table>) -> Result<&mut Pending> {
        match self.writes.entry(table.definition.id) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => Ok(new.insert(Pending::new(table)?)),
        }
    }

    /// Adds new rows, in the columns that users see.
    ///
    /// # Returns
    /// The rows added, in stored columns: all, unless rows that conflict are left out.
    ///
    /// # Errors
    /// `Conflict` 23505, unless conflicting rows are left out.
    pub(crate) fn insert(&mut self, table: &Arc<Table>, rows: RecordBatch, rule: &ConflictRule) -> Result<RecordBatch> {
        let first = self.next_row_id;
        self.next_row_id -= rows.num_rows() as i64;
        let (pin, repeats) = (self.pin.clone(), self.repeats);
        self.pending(table)?.insert(rows, &pin, first, rule, repeats)
    }

    /// The rows that this transaction sees which have the values of a key of given ones.
    ///
    /// # Arguments
    /// - `rows`: the columns that users see.
    pub(crate) fn matching(&mut self, table: &Arc<Table>, rows: &RecordBatch, key: &RowKey) -> Result<Lookup> {
        let pin = self.pin.clone();
        self.pending(table)?.matching(rows, key, &pin)
    }

    /// Replaces stored rows by others (UPDATE), or deletes them (`new` is empty).
    pub(crate) fn replace(&mut self, table: &Arc<Table>, old: RecordBatch, new: RecordBatch) -> Result<()> {
        let pin = self.pin.clone();
        self.pending(table)?.replace(old, new, &pin)
    }

    /// Deletes everything.
    pub(crate) fn truncate(&mut self, table: &Arc<Table>) -> Result<()> {
        self.pending(table)?.truncate();
        Ok(())
    }

    /// What a statement sees of this transaction's changes to a table.
    pub(crate) fn overlay(&self, id: CollectionId) -> Result<Option<Arc<Overlay>>> {
        let Some(pending) = self.writes.get(&id) else {
            return Ok(None);
        };
        Ok(Some(Arc::new(pending.overlay()?)))
    }

    /// The engine's commit.
    pub(crate) fn into_commit(self) -> Result<Commit> {
        let read_at = self.pin.epoch();
        let planned = self.writes.iter();
        let planned = planned
            .map(|(id, pending)| (*id, pending.versioned().clone()))
            .collect();
        let writes = self.writes.into_iter().map(|(id, pending)| pending.into_write(id));
        Ok(Commit {
            writes: writes.collect::<Result<_>>()?,
            read_at,
            planned,
            ..Commit::default()
        })
    }
}

impl Overlay {
    /// Rows of the table as the transaction sees them: the first `width` stored columns.
    pub(crate) fn read(
        &self,
        table: &Arc<VersionedTable>,
        pin: &Pin,
        width: usize,
    ) -> datafusion::error::Result<Vec<RecordBatch>> {
        let visible: Vec<usize> = (0..width).collect();
        let mut batches = vec![self.inserts.project(&visible)?];
        if self.truncated {
            return Ok(batches);
        }
        let schema = table.schema();
        let all = (0..schema.columns.fields().len()).collect();
        let mut scan = table.scan(pin.clone(), all, 0..table.shards());
        while let Some(batch) = scan.next_batch(64 * 1024).map_err(outside)? {
            let keys = identities(&batch, &schema.identity()).map_err(outside)?;
            let kept: BooleanArray = keys.iter().map(|key| Some(!self.gone.contains(key))).collect();
            batches.push(filter_record_batch(&batch, &kept)?.project(&visible)?);
        }
        Ok(batches)
    }
}

/// The error for every statement in a failed transaction.
pub(crate) fn failed_transaction() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "SQL-0401",
        "current transaction is aborted, commands ignored until end of transaction block",
    )
    .sqlstate("25P02")
    .attempt("ROLLBACK")
}
