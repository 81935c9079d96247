//! A sink's progress as rows of its table: the newest transaction that is committed, and one that is prepared and not yet.

use crate::catalog::{SinkObject, progress_schema};
use crate::database::Database;
use crate::source::NEWEST;
use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use cenote_engine::{Commit, OnConflict, TableWrite};
use cenote_statestore::{Epoch, Result};
use std::sync::Arc;

const COMMITTED: &str = "committed";
const PREPARED: &str = "prepared";

/// A transaction as the log has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// It has everything up to there.
    pub(super) epoch: Epoch,
    /// The newest token; `None`: nothing was written yet.
    pub(super) token: Option<String>,
    /// Changes written until then, since the sink was made.
    pub(super) rows: u64,
    /// Bytes written until then.
    pub(super) bytes: u64,
}

impl Record {
    /// A sink that has written nothing.
    pub(super) const NOTHING: Record = Record {
        epoch: Epoch::ZERO,
        token: None,
        rows: 0,
        bytes: 0,
    };
}

/// What the log has of a sink.
#[derive(Clone, Debug, Default)]
pub(super) struct Records {
    /// The newest committed transaction.
    pub(super) committed: Option<Record>,
    /// The one after it, whose receipt is not there.
    pub(super) prepared: Option<Record>,
    /// The row of the table for that state; of a transaction that was given up, if there is none prepared.
    row: Option<Record>,
}

impl Records {
    /// The newest transaction, committed or not.
    pub(super) fn newest(&self) -> Option<&Record> {
        self.prepared.as_ref().or(self.committed.as_ref())
    }

    /// The commit that notes a prepared transaction.
    pub(super) fn prepare(&mut self, sink: &SinkObject, record: Record) -> Result<Commit> {
        let commit = write(sink, Vec::new(), row(sink, PREPARED, &record)?);
        self.row = Some(record.clone());
        self.prepared = Some(record);
        Ok(commit)
    }

    /// The commit that notes a committed transaction, and forgets the prepared one.
    pub(super) fn commit(&mut self, sink: &SinkObject, record: Record) -> Result<Commit> {
        self.prepared = None;
        let done = self.row.take();
        let deletes = done.map(|done| row(sink, PREPARED, &done)).transpose()?;
        let commit = write(sink, deletes.into_iter().collect(), row(sink, COMMITTED, &record)?);
        self.committed = Some(record);
        Ok(commit)
    }
}

impl Database {
    /// What the log has of a sink.
    pub(super) fn stored_progress(&self, sink: &SinkObject) -> Result<Records> {
        let pin = self.engine().retention().pin(NEWEST)?;
        let mut scan = sink.progress.scan(pin, (0..5).collect(), 0..1);
        let mut records = Records::default();
        while let Some(batch) = scan.next_batch(16)? {
            for row in 0..batch.num_rows() {
                let record = Some(record_of(&batch, row));
                match batch.column(0).as_string::<i32>().value(row) {
                    PREPARED => (records.prepared, records.row) = (record.clone(), record),
                    _ => records.committed = record,
                }
            }
        }
        Ok(records)
    }
}

fn write(sink: &SinkObject, deletes: Vec<RecordBatch>, row: RecordBatch) -> Commit {
    let write = TableWrite {
        table: sink.definition.progress,
        deletes,
        inserts: vec![row],
        on_conflict: OnConflict::Replace,
        truncate: false,
    };
    Commit {
        writes: vec![write],
        read_at: NEWEST,
        ..Commit::default()
    }
}

fn row(sink: &SinkObject, state: &str, record: &Record) -> Result<RecordBatch> {
    let number = |number: u64| Arc::new(Int64Array::from_value(number as i64, 1));
    Ok(RecordBatch::try_new(
        progress_schema(&sink.definition.name).columns,
        vec![
            Arc::new(StringArray::from_iter_values([state])),
            number(record.epoch.0),
            Arc::new(StringArray::from_iter([record.token.as_deref()])),
            number(record.rows),
            number(record.bytes),
        ],
    )?)
}

fn record_of(batch: &RecordBatch, row: usize) -> Record {
    let number = |column: usize| batch.column(column).as_primitive::<Int64Type>().value(row) as u64;
    let tokens = batch.column(2).as_string::<i32>();
    Record {
        epoch: Epoch(number(1)),
        token: tokens.is_valid(row).then(|| tokens.value(row).to_string()),
        rows: number(3),
        bytes: number(4),
    }
}
