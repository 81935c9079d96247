//! Sources that run: one thread each, from the connector to the committer.
//!
//! A batch's good rows, its bad rows and its offsets are one commit, so a restart neither loses nor repeats a row.

mod offsets;
mod replay;
mod told;

pub(crate) use replay::Replays;

use crate::catalog::{ERRORS, Table, errors_schema};
use crate::database::{Answers, Database};
use arrow::array::{AsArray, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::Schema;
use cenote_engine::plan::CollectionId;
use cenote_engine::port::{BadRow, Offsets, Source, SourceBatch, SourceOutput, SourceRequest, StopToken};
use cenote_engine::{Commit, OnConflict, Sealing, SourceFeed, TableWrite};
use cenote_statestore::{Epoch, Error, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use tokio::sync::watch;
use told::Told;

/// Reads what is committed, visible or not.
pub(crate) const NEWEST: Epoch = Epoch(u64::MAX - 1);

/// All sources that run or have run.
#[derive(Default)]
pub(crate) struct Sources(Mutex<BTreeMap<CollectionId, Running>>);

struct Running {
    progress: Arc<SourceProgress>,
    stop: StopToken,
    thread: Option<JoinHandle<()>>,
}

/// How far a source has come.
#[derive(Debug)]
pub struct SourceProgress {
    /// Name of its table or source.
    pub name: String,
    /// Whether it ends by itself.
    pub bounded: bool,
    rows: AtomicU64,
    bad_rows: AtomicU64,
    bytes: AtomicU64,
    bytes_expected: AtomicU64,
    failure: OnceLock<Error>,
    finished: watch::Sender<bool>,
    /// From this epoch on all that it has read can be read; known once it is finished.
    end: AtomicU64,
}

impl Running {
    /// A source that could not even be opened.
    fn failed(name: String, error: Error) -> Running {
        tracing::error!("source {name}: {}", error.render());
        let progress = SourceProgress::new(name, true);
        let _ = progress.failure.set(error);
        progress.finished.send_replace(true);
        Running {
            progress: Arc::new(progress),
            stop: StopToken::default(),
            thread: None,
        }
    }
}

impl SourceProgress {
    fn new(name: String, bounded: bool) -> SourceProgress {
        SourceProgress {
            name,
            bounded,
            rows: AtomicU64::new(0),
            bad_rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bytes_expected: AtomicU64::new(0),
            failure: OnceLock::new(),
            finished: watch::Sender::new(false),
            end: AtomicU64::new(0),
        }
    }

    /// Rows read.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Rows that could not be read.
    pub fn bad_rows(&self) -> u64 {
        self.bad_rows.load(Ordering::Relaxed)
    }

    /// Bytes read.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes there are to read, as far as known; else 0.
    pub fn bytes_expected(&self) -> u64 {
        self.bytes_expected.load(Ordering::Relaxed)
    }

    /// Why it stopped, if it failed.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Whether it has been read to its end, or failed, and all that came of it can be read at `epoch`.
    pub fn is_finished_at(&self, epoch: Epoch) -> bool {
        *self.finished.borrow() && self.end.load(Ordering::Acquire) <= epoch.0
    }
}

impl Sources {
    pub(crate) fn progress(&self) -> Vec<Arc<SourceProgress>> {
        self.0.lock().values().map(|running| running.progress.clone()).collect()
    }

    /// Whether it runs or has run.
    pub(crate) fn is_started(&self, id: CollectionId) -> bool {
        self.0.lock().get(&id).is_some_and(|running| running.thread.is_some())
    }

    /// Notes a source that could not even be opened.
    pub(crate) fn fail(&self, table: &Table, error: Error) {
        let failed = Running::failed(table.definition.name.clone(), error);
        self.0.lock().insert(table.definition.id, failed);
    }

    /// Why a source could not be opened, if it could not.
    pub(crate) fn unopened(&self, id: CollectionId) -> Option<Error> {
        let sources = self.0.lock();
        let running = sources.get(&id).filter(|running| running.thread.is_none())?;
        running.progress.failure().cloned()
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        let progress = self.progress();
        let failed = progress
            .iter()
            .filter_map(|source| source.failure().map(|error| (source, error)));
        failed
            .map(|(source, error)| format!("source {} has stopped: {}", source.name, error.message()))
            .collect()
    }

    /// Waits for the end of every bounded source that runs.
    ///
    /// # Returns
    /// `false` if one never ends.
    ///
    /// # Errors
    /// A bounded source failed.
    pub(crate) async fn wait_for_bounded(&self) -> Result<bool> {
        let mut all_end = true;
        for source in self.progress() {
            if !source.bounded {
                all_end = false;
                continue;
            }
            let mut finished = source.finished.subscribe();
            let _ = finished.wait_for(|finished| *finished).await;
            if let Some(error) = source.failure() {
                return Err(error.clone());
            }
        }
        Ok(all_end)
    }

    /// Stops a source and waits for its thread.
    pub(crate) fn stop(&self, id: CollectionId) {
        let running = self.0.lock().remove(&id);
        if let Some(mut running) = running {
            running.stop.stop();
            running.thread.take().map(JoinHandle::join);
        }
    }

    pub(crate) fn stop_all(&self) {
        let ids: Vec<CollectionId> = self.0.lock().keys().copied().collect();
        for running in self.0.lock().values() {
            running.stop.stop();
        }
        ids.into_iter().for_each(|id| self.stop(id));
    }
}

impl Database {
    /// Makes a connector's source of a table's declaration.
    ///
    /// # Errors
    /// `Invalid`: the options or the columns are wrong.
    pub(crate) fn source_of(&self, table: &Table, offsets: Offsets, until: Option<Offsets>) -> Result<Box<dyn Source>> {
        let options = table.definition.connector.clone().unwrap_or_default();
        let name = options.get("connector").cloned().unwrap_or_default();
        self.connector(&table.definition.name, &name)?.source(SourceRequest {
            name: table.definition.name.clone(),
            schema: table.columns.clone(),
            projection: None,
            options,
            offsets,
            until,
            paths: self.config().paths.clone(),
            threads: self.engine().workers(),
        })
    }

    /// Starts the source of a table that keeps its rows; does nothing for tables held here.
    pub(crate) fn start_source_of(self: &Arc<Self>, table: &Arc<Table>) -> Result<()> {
        if table.definition.connector.is_none() {
            return Ok(());
        }
        if table.versioned.is_none() {
            return self.start_passing_source(table);
        }
        // No commit touches them before the source runs, so the newest are those of its last batch.
        let offsets = self.stored_offsets(table, NEWEST)?;
        self.start_source(table, offsets)
    }

    /// Starts a source without a table once a view reads it.
    pub(crate) fn start_passing_source(self: &Arc<Self>, table: &Arc<Table>) -> Result<()> {
        let id = table.definition.id;
        let is_read = self
            .catalog()
            .materialized_views()
            .iter()
            .any(|view| view.reads.contains(&id));
        if !is_read || self.sources().is_started(id) {
            return Ok(());
        }
        // Views over it have been given, or are reading again, what it passed on up to there.
        let offsets = self.stored_offsets(table, NEWEST)?;
        self.start_source(table, offsets)
    }

    /// What takes the rows of a source that is gone out of the table of errors; `None` if there are none.
    pub(crate) fn forget_errors(&self, source: &str) -> Result<Option<Commit>> {
        let deletes = self.errors_of(source)?;
        let write = TableWrite {
            table: ERRORS,
            deletes: deletes.clone(),
            inserts: Vec::new(),
            on_conflict: OnConflict::Replace,
            truncate: false,
        };
        Ok((!deletes.is_empty()).then(|| Commit {
            writes: vec![write],
            read_at: NEWEST,
            ..Commit::default()
        }))
    }

    /// Rows of the table of errors that a source has put there.
    fn errors_of(&self, source: &str) -> Result<Vec<RecordBatch>> {
        let errors = self.errors();
        let all = (0..errors.schema().columns.fields().len()).collect();
        let mut scan = errors.scan(self.engine().retention().pin(NEWEST)?, all, 0..1);
        let mut found = Vec::new();
        while let Some(batch) = scan.next_batch(1024)? {
            let names = batch.column(0).as_string::<i32>();
            let is_its: BooleanArray = names.iter().map(|name| Some(name == Some(source))).collect();
            found.push(filter_record_batch(&batch, &is_its)?);
        }
        found.retain(|rows| rows.num_rows() > 0);
        Ok(found)
    }

    /// Opens a source at its offsets and starts it.
    pub(crate) fn start_source(self: &Arc<Self>, table: &Arc<Table>, offsets: Offsets) -> Result<()> {
        let source = self.source_of(table, offsets, None)?;
        self.run_source(table, source)
    }

    /// Nobody sees the way of rows whose end is waited for.
    fn sealing_of(&self, table: &Table, source: &dyn Source) -> Sealing {
        match table.versioned.is_none() && source.is_bounded() && self.config().answers == Answers::Final {
            true => Sealing::WithNext,
            false => Sealing::AtOnce,
        }
    }

    fn run_source(self: &Arc<Self>, table: &Arc<Table>, source: Box<dyn Source>) -> Result<()> {
        let (id, name) = (table.definition.id, table.definition.name.clone());
        let progress = Arc::new(SourceProgress::new(name.clone(), source.is_bounded()));
        let told = self.errors_of(&name)?.iter().map(RecordBatch::num_rows).sum();
        let mut output = Output {
            table: table.clone(),
            feed: self.engine().source_feed(id, self.sealing_of(table, &*source)),
            progress: progress.clone(),
            told: Told::new(told),
        };
        let stop = StopToken::default();
        let (running_stop, running_progress) = (stop.clone(), progress.clone());
        let thread = std::thread::Builder::new()
            .name(format!("cenote-source-{id}"))
            .spawn(move || {
                let run = || {
                    let ran = source.run(&mut output, &running_stop);
                    // What it has handed over is committed before anybody hears of its end.
                    let drained = output.feed.drain();
                    if let Ok(epoch) = &drained {
                        running_progress.end.store(epoch.0, Ordering::Release);
                    }
                    ran.and(drained.map(drop))
                };
                let panicked = |_| Err(Error::bug("the source panicked: what it says is in the log"));
                let result = std::panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(panicked);
                if let Err(error) = result.filter_stop(&running_stop) {
                    tracing::error!("source {}: {}", running_progress.name, error.render());
                    let _ = running_progress.failure.set(error);
                }
                running_progress.finished.send_replace(true);
            })?;
        self.sources().0.lock().insert(
            id,
            Running {
                progress,
                stop,
                thread: Some(thread),
            },
        );
        Ok(())
    }
}

/// An error that only says that the source was told to stop is none.
trait FilterStop {
    fn filter_stop(self, stop: &StopToken) -> Result<()>;
}

impl FilterStop for Result<()> {
    fn filter_stop(self, stop: &StopToken) -> Result<()> {
        if stop.is_stopped() { Ok(()) } else { self }
    }
}

/// The committer's side of a source.
struct Output {
    table: Arc<Table>,
    feed: SourceFeed,
    progress: Arc<SourceProgress>,
    told: Told,
}

impl SourceOutput for Output {
    fn push(&mut self, mut batch: SourceBatch) -> Result<()> {
        let definition = &self.table.definition;
        let (rows, bad) = (batch.rows.num_rows() as u64, batch.bad.len() as u64);
        let mut commit = Commit::default();
        if rows > 0 {
            match &self.table.versioned {
                Some(_) => commit
                    .writes
                    .push(write(definition.id, batch.rows, OnConflict::Replace)),
                None => commit.passing.push((definition.id, batch.rows)),
            }
        }
        self.told.take(&mut batch.bad);
        if !batch.bad.is_empty() {
            commit.writes.push(write(
                ERRORS,
                error_rows(&definition.name, &batch.bad)?,
                OnConflict::Refuse,
            ));
        }
        if let Some(id) = definition.offsets.filter(|_| !batch.offsets.is_empty()) {
            commit.writes.push(write(
                id,
                offsets::offset_rows(&definition.name, &batch.offsets)?,
                OnConflict::Replace,
            ));
        }
        self.feed.send(commit)?;
        self.progress.rows.fetch_add(rows, Ordering::Relaxed);
        self.progress.bad_rows.fetch_add(bad, Ordering::Relaxed);
        self.progress.bytes.fetch_add(batch.bytes, Ordering::Relaxed);
        Ok(())
    }

    fn expect_bytes(&mut self, total: u64) {
        self.progress.bytes_expected.store(total, Ordering::Relaxed);
    }
}

fn write(table: CollectionId, rows: RecordBatch, on_conflict: OnConflict) -> TableWrite {
    TableWrite {
        table,
        deletes: Vec::new(),
        inserts: vec![rows],
        on_conflict,
        truncate: false,
    }
}

fn error_rows(source: &str, bad: &[BadRow]) -> Result<RecordBatch> {
    let schema = errors_schema().columns;
    let schema = Arc::new(Schema::new(schema.fields()[..6].to_vec()));
    let texts = |of: fn(&BadRow) -> &str| Arc::new(StringArray::from_iter_values(bad.iter().map(of)));
    let numbers = |of: fn(&BadRow) -> u64| Arc::new(Int64Array::from_iter_values(bad.iter().map(|row| of(row) as i64)));
    Ok(RecordBatch::try_new(
        schema,
        vec![
            Arc::new(StringArray::from_iter_values(bad.iter().map(|_| source))),
            texts(|row| &row.partition),
            numbers(|row| row.line),
            numbers(|row| row.byte_offset),
            texts(|row| &row.text),
            texts(|row| &row.reason),
        ],
    )?)
}
