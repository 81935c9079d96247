//! Tables on their way out of a checkpoint, while views take their state back.
//!
//! # Rules kept here
//! Nobody reads a table before it is filled: a view that is made anew of its inputs waits, and so does all that comes behind views.

use super::StartPoint;
use crate::catalog::{CATALOG_SCHEMA, ERRORS, PUBLIC, STATE_SCHEMA, SinkObject, Table};
use cenote_engine::plan::CollectionId;
use cenote_engine::{Filling, RecoveredTables};
use cenote_statestore::checkpoint::{KeyGroups, TableRows};
use cenote_statestore::{Error, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// A table, and what is in it.
struct Unfilled {
    filling: Filling,
    rows: TableRows,
    rows_likely: usize,
    bytes: u64,
}

impl StartPoint {
    /// Begins to fill the tables; it goes on until [`StartPoint::filled`].
    pub(crate) fn fill<'a>(
        &mut self,
        definitions: impl Iterator<Item = &'a Arc<Table>>,
        sinks: impl Iterator<Item = &'a Arc<SinkObject>>,
        tables: &RecoveredTables<'_>,
    ) -> Result<()> {
        let mut unfilled = vec![self.unfilled(ERRORS, CATALOG_SCHEMA, "errors", tables)?];
        for table in definitions {
            if table.versioned.is_some() {
                let (id, name) = (table.definition.id, &table.definition.name);
                unfilled.push(self.unfilled(id, PUBLIC, name, tables)?);
            }
            if let (Some(id), Some(offsets)) = (table.definition.offsets, &table.offsets) {
                unfilled.push(self.unfilled(id, STATE_SCHEMA, &offsets.schema().name, tables)?);
            }
        }
        for sink in sinks {
            let name = &sink.progress.schema().name;
            unfilled.push(self.unfilled(sink.definition.progress, STATE_SCHEMA, name, tables)?);
        }
        let checkpoint = self.checkpoint.clone();
        // The files of views that no worker has come to by then are checked ahead of them.
        let fill = move || fill_all(unfilled).and_then(|()| checkpoint.check_unread());
        self.filling = Some(tokio::task::spawn_blocking(fill));
        Ok(())
    }

    fn unfilled(&self, id: CollectionId, schema: &str, name: &str, tables: &RecoveredTables<'_>) -> Result<Unfilled> {
        let entry = self
            .entry(schema, name)
            .ok_or_else(|| self.lacks(&format!("table \"{name}\"")))?;
        Ok(Unfilled {
            filling: tables.filling(id, self.epoch())?,
            rows: self.checkpoint.read_table(&entry.readable_name(), KeyGroups::ALL)?,
            rows_likely: entry.rows_likely(),
            bytes: entry.bytes,
        })
    }

    /// Waits until the tables are filled.
    pub(crate) async fn filled(&mut self) -> Result<()> {
        match self.filling.take() {
            None => Ok(()),
            Some(filling) => {
                let ended = |error| Error::bug(format!("the tables of a checkpoint were not filled: {error}"));
                filling.await.map_err(ended)?
            }
        }
    }
}

/// Fills tables on as many threads as there are cores, the largest first.
fn fill_all(mut unfilled: Vec<Unfilled>) -> Result<()> {
    unfilled.sort_by_key(|table| table.bytes);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(unfilled.len());
    let left = Mutex::new(unfilled);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| fill_some(&left))).collect();
        threads.into_iter().try_for_each(|thread| {
            let done = thread.join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

fn fill_some(left: &Mutex<Vec<Unfilled>>) -> Result<()> {
    loop {
        let Some(table) = left.lock().pop() else {
            return Ok(());
        };
        table.filling.fill(table.rows_likely, table.rows)?;
    }
}
