//! The engine's handle: starts and stops the threads, takes commits and reads.

use crate::committer::{
    Alter, Commit, Committer, Filling, Held, InFlight, NewView, PeekRequest, Request, RetentionRule, Routes, Sealing,
    SourcePermit, Switch, Tables, ddl_of,
};
use crate::kernel::{LaterRows, StateChanges};
use crate::memory::MemoryGuard;
use crate::plan::CollectionId;
use crate::progress::Progress;
use crate::replay::{self, ReplayFeed, ReplayInput};
use crate::worker::{self, OperatorSizes, WorkerPort};
use arrow::array::{ArrayRef, RecordBatch};
use cenote_statestore::wal::{Log, LogOptions, Record, Replay};
use cenote_statestore::{Epoch, Error, ErrorKind, Pin, Result, Retention, VersionedTable};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait for the committer; writers beyond it block.
const REQUESTS_MAX: usize = 4096;

/// Batches of one source that may wait for the committer.
const SOURCE_BATCHES_MAX: usize = 8;

/// How to start an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Worker threads, at least 1.
    pub workers: usize,
    /// Folder of the write-ahead log; `None`: nothing outlives the process.
    pub log_dir: Option<PathBuf>,
    /// What stays readable.
    pub retention: RetentionRule,
    /// Bytes of memory for the process, beyond which rows are refused.
    pub memory_limit: Option<usize>,
}

/// A read of one state table.
#[derive(Clone, Debug)]
pub struct StateRead {
    /// The view whose operator it is.
    pub view: CollectionId,
    /// What the view was when it was started: another collection, where it took a view's place.
    pub started_as: CollectionId,
    /// The plan's node.
    pub node: usize,
    /// Number of the table among the node's state tables.
    pub table: usize,
    /// Which of its rows.
    pub rows: StateRows,
}

/// Rows of a state table.
#[derive(Clone, Debug)]
pub enum StateRows {
    /// All.
    All,
    /// All, of each some of its columns.
    Columns(Vec<usize>),
    /// Those of keys: values of the table's key columns.
    OfKeys(Vec<ArrayRef>),
    /// All, and from here on it is noted which change.
    Base,
    /// Those that have changed since they were last read so, or as the base.
    Changed,
}

/// What a read of a state table found.
#[derive(Default)]
pub struct StateFound {
    /// The rows, and what went where changes were asked for.
    pub rows: StateChanges,
    /// The rows where they are a base.
    pub base: Vec<LaterRows>,
    /// How many rows the table has.
    pub size: u64,
}

/// An epoch that has its end.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    /// The epoch.
    pub epoch: Epoch,
    /// The number of the log's first record of later epochs; `None`: there is no log.
    pub next_record: Option<u64>,
}

/// A running engine. Dropping it without [`Engine::shutdown`] leaves its threads to the end of the process.
pub struct Engine {
    requests: Sender<Request>,
    progress: Arc<Progress>,
    retention: Arc<Retention>,
    workers: usize,
    first_worker: WorkerPort,
    memory: Arc<MemoryGuard>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// An engine whose log is open but whose threads do not run yet.
pub struct Recovered {
    config: EngineConfig,
    retention: Arc<Retention>,
    tables: Tables,
    log: Option<Log>,
    /// Records that were not read yet.
    replay: Option<Replay>,
    epoch: Epoch,
}

/// A commit as the log has it, to be made again ([`Engine::again`]).
pub struct Logged {
    /// The record.
    pub record: Record,
    /// Nothing of it is applied if it writes to one of these tables.
    pub unless_writes: Arc<BTreeSet<CollectionId>>,
    /// Tables to add before the writes.
    pub create_tables: Vec<(CollectionId, Arc<VersionedTable>)>,
    /// A view to start, reading its inputs as of the epoch before.
    pub create_view: Option<NewView>,
    /// A view that takes another one's place.
    pub switch: Option<Switch>,
    /// A table that gets other columns.
    pub alter: Option<Alter>,
    /// Views, then tables, to drop.
    pub drops: Vec<CollectionId>,
}

impl Logged {
    /// A record with writes alone.
    pub fn new(record: Record, unless_writes: Arc<BTreeSet<CollectionId>>) -> Logged {
        Logged {
            record,
            unless_writes,
            create_tables: Vec::new(),
            create_view: None,
            switch: None,
            alter: None,
            drops: Vec::new(),
        }
    }

    /// The catalog change in it.
    pub fn ddl(&self) -> Result<Option<String>> {
        ddl_of(&self.record)
    }
}

/// Adds and removes tables while the log is read.
pub struct RecoveredTables<'a> {
    tables: &'a mut Tables,
    retention: &'a Arc<Retention>,
}

impl RecoveredTables<'_> {
    /// Adds a table, empty.
    pub fn add(&mut self, id: CollectionId, table: Arc<VersionedTable>) {
        self.tables.add(id, table);
    }

    /// Gives a table other columns, at an epoch.
    ///
    /// # Errors
    /// `Conflict`: there is no such table. One of the rewrite.
    pub fn alter(&mut self, alter: &Alter, epoch: Epoch) -> Result<()> {
        let altered = self.tables.altered(alter, epoch, self.retention)?;
        self.tables.put(altered);
        Ok(())
    }

    /// A way to fill a table that has been added with the rows that it has at the epoch that the engine starts at. It may be filled
    /// while the engine starts, before anybody reads or writes it: views that go on from their state do neither.
    ///
    /// # Errors
    /// `Conflict`: there is no such table.
    pub fn filling(&self, id: CollectionId, epoch: Epoch) -> Result<Filling> {
        self.tables.filling(id, epoch)
    }

    /// Removes a table.
    pub fn remove(&mut self, id: CollectionId) {
        self.tables.remove(id);
    }
}

impl Recovered {
    /// The log's own name, which no other log has; `None`: there is no log.
    pub fn log_id(&self) -> Option<String> {
        self.log.as_ref().map(Log::id)
    }

    /// Opens the log, if there is one. It is read by [`Recovered::read`], or behind a checkpoint by [`Recovered::start_at`].
    ///
    /// # Arguments
    /// - `built_in`: tables that are there from the start.
    ///
    /// # Errors
    /// `Corrupt`: the log is damaged; file and offset are named and nothing was changed on disk.
    pub fn open(
        config: EngineConfig,
        retention: Arc<Retention>,
        built_in: &[(CollectionId, Arc<VersionedTable>)],
    ) -> Result<Recovered> {
        let mut recovered = Recovered {
            tables: Tables::default(),
            log: None,
            replay: None,
            epoch: Epoch::ZERO,
            retention,
            config,
        };
        for (id, table) in built_in {
            recovered.tables.add(*id, table.clone());
        }
        let Some(dir) = recovered.config.log_dir.clone() else {
            return Ok(recovered);
        };
        let (log, replay) = Log::open(&dir, LogOptions::default())?;
        if let Some(cut) = replay.cut() {
            let (file, offset, bytes) = (cut.file.display(), cut.offset, cut.bytes);
            tracing::warn!("log {file}: cut at byte {offset}: the last {bytes} bytes are no whole record");
        }
        recovered.log = Some(log);
        recovered.replay = Some(replay);
        Ok(recovered)
    }

    /// The number of the first record that the log still has; `None`: there is no log.
    pub fn first_record(&self) -> Option<u64> {
        self.log.as_ref().map(Log::first_lsn)
    }

    /// Reads the log from its start.
    ///
    /// # Arguments
    /// - `on_ddl`: called for each logged catalog change, in order, with its epoch and text; it must add the tables
    ///   that the change creates and remove those that it drops.
    ///
    /// # Errors
    /// `Corrupt`: the log cannot be read.
    pub fn read(&mut self, mut on_ddl: impl FnMut(Epoch, &[u8], &mut RecoveredTables<'_>) -> Result<()>) -> Result<()> {
        for record in self.replay.take().into_iter().flatten() {
            let record = record?;
            self.tables.replay(&record, &mut |epoch, ddl, tables| {
                let retention = &self.retention;
                on_ddl(epoch, ddl, &mut RecoveredTables { tables, retention })
            })?;
            self.epoch = record.epoch;
            self.retention.keep_from(record.epoch);
        }
        Ok(())
    }

    /// Says that the tables, which the caller fills, and views, which it attaches, are of an epoch.
    ///
    /// # Arguments
    /// - `next_record`: the first record of the log that may be of a later epoch.
    ///
    /// # Returns
    /// What the log has to be made again on top ([`Engine::again`]): records of later epochs are among them.
    pub fn start_at(&mut self, epoch: Epoch, next_record: u64) -> Option<Replay> {
        self.epoch = epoch;
        self.retention.keep_from(epoch);
        self.replay.take().map(|replay| replay.starting_at(next_record))
    }

    /// The tables.
    pub fn tables(&mut self) -> RecoveredTables<'_> {
        RecoveredTables {
            tables: &mut self.tables,
            retention: &self.retention,
        }
    }

    /// The newest epoch in the log.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Starts the threads.
    pub fn start(self) -> Result<Engine> {
        let (progress, visible_moved) = Progress::new(self.epoch);
        let progress = Arc::new(progress);
        let workers = self.config.workers.max(1);
        let (ports, mut threads) = worker::start(workers, progress.clone())?;
        let (requests, receiver) = crossbeam_channel::bounded(REQUESTS_MAX);
        let first_worker = ports[0].clone();
        let memory = Arc::new(MemoryGuard::new(self.config.memory_limit));
        let committer = Committer {
            requests: receiver,
            visible_moved,
            held: Held::default(),
            tables: self.tables,
            views: BTreeMap::new(),
            routes: Routes::default(),
            workers: ports,
            progress: progress.clone(),
            retention: self.retention.clone(),
            rule: self.config.retention,
            memory: memory.clone(),
            log: self.log,
            epoch: self.epoch,
            open: None,
            in_flight: InFlight::default(),
            times: VecDeque::new(),
            next_worker: 0,
        };
        let thread = std::thread::Builder::new()
            .name("cenote-committer".into())
            .spawn(move || worker::or_abort(|| committer.run()))?;
        threads.push(thread);
        Ok(Engine {
            requests,
            progress,
            retention: self.retention,
            workers,
            first_worker,
            memory,
            threads: Mutex::new(threads),
        })
    }
}

impl Engine {
    /// Number of worker threads.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// How far the dataflows have come.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Which epochs stay readable.
    pub fn retention(&self) -> &Arc<Retention> {
        &self.retention
    }

    /// The newest epoch that can be read.
    pub fn visible(&self) -> Epoch {
        self.progress.visible()
    }

    /// Pins the newest readable epoch.
    pub fn pin_visible(&self) -> Result<Pin> {
        // The epoch may leave retention between the two calls only if many epochs pass; then the next one is there.
        self.retention
            .pin(self.visible())
            .or_else(|_| self.retention.pin(self.visible()))
    }

    /// Commits a change; it is durable when this returns, and visible soon after ([`Engine::wait_visible`]).
    ///
    /// # Errors
    /// `Conflict`: a key is there already, or a row was changed since it was read. Nothing was changed.
    pub async fn commit(&self, commit: Commit) -> Result<Epoch> {
        if commit.adds_rows() {
            self.memory.wait_in_task().await?;
        }
        let (reply, answer) = oneshot::channel();
        self.send_from_task(Request::Commit { commit, reply }).await?;
        answer.await.map_err(|_| stopped())?
    }

    /// Starts a view that is there at the newest epoch: from its state, or from its inputs' contents. It is in no log.
    ///
    /// # Returns
    /// The epoch.
    pub async fn attach(&self, view: NewView) -> Result<Epoch> {
        let (reply, epoch) = oneshot::channel();
        let view = Box::new(view);
        self.send_from_task(Request::Attach { view, reply }).await?;
        epoch.await.map_err(|_| stopped())?
    }

    /// Makes a commit of the log again, as the epoch that it was; nothing else was committed since the start.
    ///
    /// # Returns
    /// What waits until it is made.
    pub async fn again(&self, logged: Logged) -> Result<oneshot::Receiver<Result<()>>> {
        let (reply, done) = oneshot::channel();
        let logged = Box::new(logged);
        self.send_from_task(Request::Again { logged, reply }).await?;
        Ok(done)
    }

    /// Hands a request to the committer; while its queue is full, waits on a thread where waiting is allowed.
    async fn send_from_task(&self, request: Request) -> Result<()> {
        match self.requests.try_send(request) {
            Ok(()) => Ok(()),
            Err(TrySendError::Disconnected(_)) => Err(stopped()),
            Err(TrySendError::Full(request)) => {
                let requests = self.requests.clone();
                let sent = tokio::task::spawn_blocking(move || requests.send(request).is_ok()).await;
                if sent.unwrap_or(false) { Ok(()) } else { Err(stopped()) }
            }
        }
    }

    /// Waits until an epoch can be read.
    pub async fn wait_visible(&self, epoch: Epoch) -> Result<()> {
        let mut visible = self.progress.subscribe();
        visible
            .wait_for(|visible| *visible >= epoch)
            .await
            .map(|_| ())
            .map_err(|_| stopped())
    }

    /// Reads state tables of operators, all at the newest epoch.
    ///
    /// # Returns
    /// The epoch, and the rows of each read in order. Other tables can be read at the same epoch once it is visible.
    pub async fn read_state(&self, reads: Vec<StateRead>) -> Result<(Epoch, Vec<Vec<RecordBatch>>)> {
        let (sealed, found) = self.read_sealed_state(reads).await?;
        let rows = found.into_iter().map(|found| found.rows.there).collect();
        Ok((sealed.epoch, rows))
    }

    /// As [`Engine::read_state`], for a checkpoint: tells where in the log the epoch ends, too.
    pub async fn read_sealed_state(&self, reads: Vec<StateRead>) -> Result<(Sealed, Vec<StateFound>)> {
        let mut channels = Vec::with_capacity(reads.len());
        let peeks = reads
            .into_iter()
            .map(|read| {
                let (answers, received) = mpsc::unbounded_channel();
                channels.push(received);
                PeekRequest { read, answers }
            })
            .collect();
        let (reply, sealed) = oneshot::channel();
        self.send_from_task(Request::Peek { peeks, reply }).await?;
        let sealed = sealed.await.map_err(|_| stopped())?;
        let mut results = Vec::with_capacity(channels.len());
        for mut received in channels {
            let mut found = StateFound::default();
            for _ in 0..self.workers {
                let of_worker = received.recv().await.ok_or_else(stopped)??;
                found.rows.there.extend(of_worker.rows.there);
                found.rows.gone.extend(of_worker.rows.gone);
                found.base.extend(of_worker.base);
                found.size += of_worker.size;
            }
            results.push(found);
        }
        Ok((sealed, results))
    }

    /// Lets the log drop records before one that nobody will start from: a checkpoint holds what they did. It goes on in whole files.
    pub async fn forget_log_before(&self, record: u64) -> Result<()> {
        self.send_from_task(Request::ForgetBefore(record)).await
    }

    /// Rows and bytes of a view's state tables: node, table, rows, bytes, summed over workers.
    pub async fn state_sizes(&self, view: CollectionId) -> Result<OperatorSizes> {
        let (reply, mut received) = mpsc::unbounded_channel();
        self.send_from_task(Request::Sizes { view, reply }).await?;
        let mut sums: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
        for _ in 0..self.workers {
            for (node, table, rows, bytes) in received.recv().await.ok_or_else(stopped)? {
                let sum = sums.entry((node, table)).or_default();
                *sum = (sum.0 + rows, sum.1 + bytes);
            }
        }
        Ok(sums
            .into_iter()
            .map(|((node, table), (rows, bytes))| (node, table, rows, bytes))
            .collect())
    }

    /// A way for a source to commit its batches from its own thread.
    pub fn source_feed(&self, source: CollectionId, sealing: Sealing) -> SourceFeed {
        let (free, places) = crossbeam_channel::bounded(SOURCE_BATCHES_MAX);
        (0..SOURCE_BATCHES_MAX).for_each(|_| free.send(()).expect("as many places as sends"));
        SourceFeed {
            requests: self.requests.clone(),
            source,
            sealing,
            free,
            places,
            failure: Arc::default(),
            memory: self.memory.clone(),
        }
    }

    /// A way to give a new view, by [`NewView::replays`](crate::NewView), what a source passed on before it.
    pub fn replay(&self) -> (ReplayFeed, ReplayInput) {
        replay::channel(self.first_worker.clone())
    }

    /// Ends the committer and the workers. What was committed is durable; nothing is taken any more.
    pub fn shutdown(&self) {
        let _ = self.requests.send(Request::Shutdown);
        self.threads.lock().drain(..).for_each(|thread| {
            let _ = thread.join();
        });
    }
}

/// A source's way into the committer: bounded, and in order.
pub struct SourceFeed {
    requests: Sender<Request>,
    source: CollectionId,
    sealing: Sealing,
    free: Sender<()>,
    places: Receiver<()>,
    failure: Arc<OnceLock<Error>>,
    memory: Arc<MemoryGuard>,
}

impl SourceFeed {
    /// Hands over a commit; blocks while too many of this source wait, or for some time while memory is short.
    ///
    /// # Errors
    /// An earlier commit of this source was refused, the process is over its memory limit, or the engine has stopped.
    pub fn send(&self, commit: Commit) -> Result<()> {
        self.memory.wait()?;
        self.places.recv().map_err(|_| stopped())?;
        if let Some(error) = self.failure.get() {
            return Err(error.clone());
        }
        let permit = SourcePermit {
            free: self.free.clone(),
            failure: self.failure.clone(),
        };
        self.requests
            .send(Request::Source {
                source: self.source,
                commit,
                sealing: self.sealing,
                permit,
            })
            .map_err(|_| stopped())
    }

    /// Waits until everything handed over is committed, or taken by the views where it is sealed later.
    ///
    /// # Returns
    /// The epoch from which on all of it can be read, once that is visible.
    ///
    /// # Errors
    /// A commit was refused, or the engine has stopped.
    pub fn drain(&self) -> Result<Epoch> {
        let (reply, epoch) = oneshot::channel();
        self.requests.send(Request::Flush(reply)).map_err(|_| stopped())?;
        for _ in 0..SOURCE_BATCHES_MAX {
            self.places.recv().map_err(|_| stopped())?;
        }
        (0..SOURCE_BATCHES_MAX).for_each(|_| {
            let _ = self.free.try_send(());
        });
        let epoch = epoch.blocking_recv().map_err(|_| stopped())?;
        self.failure.get().map_or(Ok(epoch), |error| Err(error.clone()))
    }
}

fn stopped() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "ENGINE-0001",
        "cannot reach the engine: it is shutting down",
    )
    .sqlstate("57P01")
}
