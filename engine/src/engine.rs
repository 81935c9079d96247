//! The engine's handle: starts and stops the threads, takes commits and reads.

use crate::committer::{
    Commit, Committer, Held, InFlight, PeekRequest, Request, RetentionRule, Routes, Sealing, SourcePermit, Tables,
};
use crate::plan::CollectionId;
use crate::progress::Progress;
use crate::replay::{self, ReplayFeed, ReplayInput};
use crate::worker::{self, OperatorSizes, WorkerPort};
use arrow::array::{ArrayRef, RecordBatch};
use cenote_statestore::wal::{Log, LogOptions};
use cenote_statestore::{Epoch, Error, ErrorKind, Pin, Result, Retention, VersionedTable};
use crossbeam_channel::{Receiver, Sender, TrySendError};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
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
}

/// A read of one state table.
#[derive(Clone, Debug)]
pub struct StateRead {
    /// The view whose operator it is.
    pub view: CollectionId,
    /// The plan's node.
    pub node: usize,
    /// Number of the table among the node's state tables.
    pub table: usize,
    /// Values of the table's key columns; `None`: everything.
    pub keys: Option<Vec<ArrayRef>>,
}

/// A running engine. Dropping it without [`Engine::shutdown`] leaves its threads to the end of the process.
pub struct Engine {
    requests: Sender<Request>,
    progress: Arc<Progress>,
    retention: Arc<Retention>,
    workers: usize,
    first_worker: WorkerPort,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// An engine whose log has been read but whose threads do not run yet.
pub struct Recovered {
    config: EngineConfig,
    retention: Arc<Retention>,
    tables: Tables,
    log: Option<Log>,
    epoch: Epoch,
}

/// Adds and removes tables while the log is read.
pub struct RecoveredTables<'a>(&'a mut Tables);

impl RecoveredTables<'_> {
    /// Adds a table, empty.
    pub fn add(&mut self, id: CollectionId, table: Arc<VersionedTable>) {
        self.0.add(id, table);
    }

    /// Removes a table.
    pub fn remove(&mut self, id: CollectionId) {
        self.0.remove(id);
    }
}

impl Recovered {
    /// The log's own name, which no other log has; `None`: there is no log.
    pub fn log_id(&self) -> Option<String> {
        self.log.as_ref().map(Log::id)
    }

    /// Reads the log, if there is one, from its start.
    ///
    /// # Arguments
    /// - `built_in`: tables that are there from the start.
    /// - `on_ddl`: called for each logged catalog change, in order, with its epoch and text; it must add the tables
    ///   that the change creates and remove those that it drops.
    ///
    /// # Errors
    /// `Corrupt`: the log is damaged; file and offset are named and nothing was changed on disk.
    pub fn open(
        config: EngineConfig,
        retention: Arc<Retention>,
        built_in: &[(CollectionId, Arc<VersionedTable>)],
        mut on_ddl: impl FnMut(Epoch, &[u8], &mut RecoveredTables<'_>) -> Result<()>,
    ) -> Result<Recovered> {
        let mut recovered = Recovered {
            tables: Tables::default(),
            log: None,
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
        for record in replay {
            let record = record?;
            recovered.tables.replay(&record, &mut |epoch, ddl, tables| {
                on_ddl(epoch, ddl, &mut RecoveredTables(tables))
            })?;
            recovered.epoch = record.epoch;
            recovered.retention.keep_from(record.epoch);
        }
        recovered.log = Some(log);
        Ok(recovered)
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
        let (reply, answer) = oneshot::channel();
        self.send_from_task(Request::Commit { commit, reply }).await?;
        answer.await.map_err(|_| stopped())?
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
        let mut channels = Vec::with_capacity(reads.len());
        let peeks = reads
            .into_iter()
            .map(|read| {
                let (answers, received) = mpsc::unbounded_channel();
                channels.push(received);
                PeekRequest { read, answers }
            })
            .collect();
        let (reply, epoch) = oneshot::channel();
        self.send_from_task(Request::Peek { peeks, reply }).await?;
        let epoch = epoch.await.map_err(|_| stopped())?;
        let mut results = Vec::with_capacity(channels.len());
        for mut received in channels {
            let mut rows = Vec::new();
            for _ in 0..self.workers {
                rows.extend(received.recv().await.ok_or_else(stopped)??);
            }
            results.push(rows);
        }
        Ok((epoch, results))
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
}

impl SourceFeed {
    /// Hands over a commit; blocks while too many of this source wait.
    ///
    /// # Errors
    /// An earlier commit of this source was refused, or the engine has stopped.
    pub fn send(&self, commit: Commit) -> Result<()> {
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
