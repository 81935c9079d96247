//! Sinks that run: one thread each, from the changes of a view to a connector's sink.
//!
//! # Rules kept here
//! 1. **Each change is outside once.** A transaction is prepared, its token is in the log, it is committed, and its receipt is
//!    in the log, in this order (`runner`); what a restart finds in the log says what is left to do.
//! 2. Nothing is committed outside that a restart could not tell again ([`Database::durable_epoch_for`]).
//! 3. Nobody waits for a sink but who asks for it: DROP SINK, a checkpoint, the end of a script. A sink that falls behind
//!    further than the history of its view reaches fails, and says so; it never skips.
//!
//! # Not here
//! What a connector does with rows ([`cenote_engine::port::Sink`]).

mod create;
mod durable;
mod order;
mod progress;
mod runner;
mod start;
mod table;

pub(crate) use create::new_sink;
pub(crate) use table::{columns, table};

use crate::catalog::SinkObject;
use crate::database::Database;
use arrow::array::RecordBatch;
use cenote_engine::plan::CollectionId;
use cenote_engine::port::Cut;
use cenote_statestore::{Epoch, Error, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long a sink that a server's end or DROP SINK stops goes on with what there is to write.
const STOP_TIME: Duration = Duration::from_secs(10);

/// How long it is waited for beyond that, while one call of it lasts.
const CALL_TIME: Duration = Duration::from_secs(5);

/// All sinks that run or have run.
pub(crate) struct Sinks {
    running: Mutex<BTreeMap<CollectionId, Running>>,
    /// The epoch of the newest checkpoint.
    published: watch::Sender<Epoch>,
}

struct Running {
    progress: Arc<SinkProgress>,
    orders: watch::Sender<Orders>,
    thread: Option<SinkThread>,
}

/// The thread of a sink, and a channel that closes when it ends.
struct SinkThread {
    thread: JoinHandle<()>,
    end: Receiver<()>,
}

/// What a sink is asked to do beside following its view.
#[derive(Clone, Copy, Debug)]
struct Orders {
    /// To have prepared everything up to there, and to note that.
    reach: Epoch,
    /// To come to an end.
    end: Option<End>,
}

/// How a sink ends.
#[derive(Clone, Copy, Debug)]
struct End {
    /// The epoch up to which it reads before.
    through: Epoch,
    /// Whether anything may follow after another start.
    cut: Cut,
    /// When it ends wherever it is; `None`: it is waited for.
    until: Option<Instant>,
}

/// How far a sink has come.
#[derive(Debug)]
pub struct SinkProgress {
    /// Its name.
    pub name: String,
    rows: AtomicU64,
    bytes: AtomicU64,
    /// Whether it writes only what a checkpoint covers.
    waits_for_checkpoints: bool,
    /// Everything up to there is outside.
    reached: watch::Sender<Epoch>,
    /// Everything up to there is prepared, and the log says so.
    prepared: watch::Sender<Epoch>,
    failure: OnceLock<Error>,
    ended: watch::Sender<bool>,
}

impl SinkProgress {
    fn new(name: &str, waits_for_checkpoints: bool) -> SinkProgress {
        SinkProgress {
            name: name.to_string(),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            waits_for_checkpoints,
            reached: watch::Sender::new(Epoch::ZERO),
            prepared: watch::Sender::new(Epoch::ZERO),
            failure: OnceLock::new(),
            ended: watch::Sender::new(false),
        }
    }

    /// Rows inserted and deleted that were written since the sink was made.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes written since the sink was made.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The epoch up to which everything is outside.
    pub fn epoch(&self) -> Epoch {
        *self.reached.borrow()
    }

    /// Why it stopped, if it failed.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.get()
    }

    /// Whether it has come to its end, or failed.
    pub fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits until everything up to an epoch is prepared, or never will be.
    async fn wait_prepared(&self, epoch: Epoch) {
        let (mut prepared, mut ended) = (self.prepared.subscribe(), self.ended.subscribe());
        tokio::select! {
            _ = prepared.wait_for(|prepared| *prepared >= epoch) => {}
            _ = ended.wait_for(|ended| *ended) => {}
        }
    }
}

impl Running {
    /// A sink that could not even be started.
    fn failed(name: &str, error: Error) -> Running {
        tracing::error!("sink {name}: {}", error.render());
        let progress = SinkProgress::new(name, false);
        let _ = progress.failure.set(error);
        progress.ended.send_replace(true);
        Running {
            progress: Arc::new(progress),
            orders: watch::Sender::new(Orders::NONE),
            thread: None,
        }
    }

    fn order_end(&self, end: End) {
        self.orders.send_modify(|orders| orders.end = Some(end));
    }
}

impl Orders {
    const NONE: Orders = Orders {
        reach: Epoch::ZERO,
        end: None,
    };
}

impl Default for Sinks {
    fn default() -> Sinks {
        Sinks {
            running: Mutex::default(),
            published: watch::Sender::new(Epoch::ZERO),
        }
    }
}

impl Sinks {
    /// How far the sinks have come, those included that have failed.
    pub(crate) fn progress(&self) -> Vec<Arc<SinkProgress>> {
        let running = self.running.lock();
        running.values().map(|running| running.progress.clone()).collect()
    }

    /// How far one sink has come.
    pub(crate) fn progress_of(&self, id: CollectionId) -> Option<Arc<SinkProgress>> {
        self.running.lock().get(&id).map(|running| running.progress.clone())
    }

    /// Notes a sink that could not be started.
    pub(crate) fn fail(&self, sink: &SinkObject, error: Error) {
        let failed = Running::failed(&sink.definition.name, error);
        self.running.lock().insert(sink.definition.id, failed);
    }

    pub(crate) fn failures(&self) -> Vec<String> {
        let progress = self.progress();
        let failed = progress.iter().filter_map(|sink| Some((sink, sink.failure()?)));
        failed
            .map(|(sink, error)| format!("sink {} has stopped: {}", sink.name, error.message()))
            .collect()
    }

    /// Waits until every sink that works has prepared everything up to an epoch.
    pub(crate) async fn reach(&self, epoch: Epoch) {
        let mut asked = Vec::new();
        for running in self.running.lock().values() {
            running
                .orders
                .send_modify(|orders| orders.reach = orders.reach.max(epoch));
            asked.push(running.progress.clone());
        }
        for progress in asked {
            progress.wait_prepared(epoch).await;
        }
    }

    /// Tells the sinks of a checkpoint.
    pub(crate) fn published(&self, epoch: Epoch) {
        self.published.send_if_modified(|newest| {
            let is_newer = epoch > *newest;
            *newest = epoch.max(*newest);
            is_newer
        });
    }

    /// Lets every sink write up to an epoch and come to its end.
    ///
    /// # Errors
    /// A sink has failed.
    async fn finish(&self, through: Epoch) -> Result<()> {
        let mut asked = Vec::new();
        for running in self.running.lock().values() {
            running.order_end(End {
                through,
                cut: Cut::End,
                until: None,
            });
            asked.push(running.progress.clone());
        }
        for progress in asked {
            let _ = progress.ended.subscribe().wait_for(|ended| *ended).await;
            if let Some(error) = progress.failure() {
                return Err(error.clone());
            }
        }
        Ok(())
    }

    /// Ends a sink that is dropped: what is known up to an epoch is written and committed, if that does not take too long.
    pub(crate) fn drop_sink(&self, id: CollectionId, through: Epoch) {
        let end = End {
            through,
            cut: Cut::End,
            until: Some(Instant::now() + STOP_TIME),
        };
        let running = self.running.lock().remove(&id);
        if let Some(running) = running {
            running.order_end(end);
            running.join();
        }
    }

    /// Ends all sinks at an epoch.
    ///
    /// # Arguments
    /// - `cut`: whether they go on after another start.
    fn stop_all(&self, through: Epoch, cut: Cut) {
        let until = Some(Instant::now() + STOP_TIME);
        let running = std::mem::take(&mut *self.running.lock());
        for running in running.values() {
            running.order_end(End { through, cut, until });
        }
        running.into_values().for_each(Running::join);
    }
}

impl Running {
    /// Waits for the end of the thread; one that hangs in a call is left to the end of the process.
    fn join(self) {
        let Some(SinkThread { thread, end }) = self.thread else {
            return;
        };
        match end.recv_timeout(STOP_TIME + CALL_TIME) {
            Err(RecvTimeoutError::Timeout) => {
                tracing::warn!(
                    "sink {} hangs, and is left: what it has prepared stays so",
                    self.progress.name
                );
            }
            _ => drop(thread.join()),
        }
    }
}

impl Database {
    /// How far the sinks have come.
    pub fn sinks(&self) -> Vec<Arc<SinkProgress>> {
        self.running_sinks().progress()
    }

    /// All sinks as a table: that of `cenote_catalog.sinks`.
    ///
    /// # Errors
    /// None that a caller could mend.
    pub fn sink_listing(&self) -> Result<RecordBatch> {
        table(self, &self.catalog())
    }

    /// Lets the sinks come as far as they do in a few seconds, and stops them.
    pub(crate) async fn stop_sinks(&self) {
        if self.sinks().is_empty() {
            return;
        }
        // What was acknowledged and is not visible yet would be missing to a sink that goes on after a restart.
        let newest = tokio::time::timeout(STOP_TIME, self.wait_for_newest()).await;
        let newest = newest.ok().and_then(Result::ok).unwrap_or_else(|| self.epoch());
        // Without a log no other process goes on with what a sink has begun.
        let cut = match self.config().data_dir {
            Some(_) => Cut::Here,
            None => Cut::End,
        };
        self.running_sinks().stop_all(newest, cut);
    }

    /// Lets every sink write everything that there is now, and come to its end: the end of a script.
    ///
    /// # Errors
    /// A sink has failed, or what it waits for.
    pub async fn finish_sinks(self: &Arc<Self>) -> Result<()> {
        let sinks = self.sinks();
        if sinks.is_empty() {
            return Ok(());
        }
        let newest = self.wait_for_newest().await?;
        if sinks.iter().any(|sink| sink.waits_for_checkpoints) {
            self.checkpoint(None).await?;
        }
        self.running_sinks().finish(newest).await
    }
}
