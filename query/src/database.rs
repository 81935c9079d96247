//! The database: catalog, engine and connectors behind one handle that every door shares.

mod append;
mod follow;
mod lookup;
mod metrics;
mod named;
mod open;
mod point;
mod read;
mod state;
mod together;

pub use append::{AppendRows, AppendSchema};
pub(crate) use follow::labelled_columns;
pub use named::{readable_name, schema_and_name};
pub(crate) use open::{HISTORY_BYTES, TableHome, new_table, spilling};
pub use point::PointRow;
pub(crate) use point::Points;
pub(crate) use read::SIZES_ASKED;
pub(crate) use state::{ATTEMPTS, StateTable, was_dropped};
pub use together::{TogetherDigest, TogetherScan};

use crate::attached::Attached;
use crate::catalog::{Catalog, MaterializedView, Object};
use crate::checkpoints::Checkpointer;
use crate::outcome::BatchStream;
use crate::session::Session;
use crate::sink::Sinks;
use crate::source::{Replays, Sources};
use crate::state_backend::{StateBackend, StateBackends};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_engine::Engine;
use cenote_engine::plan::CollectionId;
use cenote_engine::port::{ConnectorRegistry, PathPolicy};
use cenote_statestore::checkpoint::{Blobs, LocalDisk};
use cenote_statestore::{Epoch, Error, ErrorKind, Result, VersionedTable};
use datafusion::execution::SessionState;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How to open a database.
#[derive(Clone)]
pub struct DatabaseConfig {
    /// Folder of the write-ahead log; `None`: nothing outlives the process.
    pub data_dir: Option<PathBuf>,
    /// What keeps checkpoints; `None`: the folder `checkpoints` in that of the data.
    pub checkpoints: Option<Arc<dyn Blobs>>,
    /// How many checkpoints are kept, the newest ones; those that savepoints name are kept besides. At least 1.
    pub checkpoint_retain: usize,
    /// Whether a checkpoint that is damaged is passed over at the start, for an older one and the log.
    pub allow_older_checkpoint: bool,
    /// How long a checkpoint may take before it is given up.
    pub checkpoint_timeout: Duration,
    /// Worker threads of the dataflow engine, at least 1.
    pub workers: usize,
    /// Sealed epochs kept readable behind the newest.
    pub retain_epochs: u64,
    /// How long sealed epochs are kept readable, whichever of the two keeps more.
    pub retain_time: Duration,
    /// Connectors of this build.
    pub connectors: ConnectorRegistry,
    /// Folders that file sources may read, and file sinks write to.
    pub paths: PathPolicy,
    /// Rows of a table fed by a replayable source without a primary key stay in the source and are read again when
    /// asked for, instead of being kept (`cenote run`).
    pub transient_tables: bool,
    /// What a SELECT waits for.
    pub answers: Answers,
    /// Memory that one ad-hoc query may use, in bytes.
    pub query_memory_bytes: usize,
    /// Where the state of tables and views is kept that say nothing else.
    pub state_backend: StateBackend,
    /// Memory for the process, in bytes, beyond which rows are refused; state that may leave memory does so before. `None`: what the
    /// machine has.
    pub memory_limit: Option<usize>,
    /// Memory for state that may leave it, in bytes; `None`: a part of the limit.
    pub state_memory: Option<usize>,
    /// Local disk for the cache of state that is in an object store, in bytes; `None`: as much as is usual.
    pub state_cache: Option<usize>,
    /// Whether a server without a log goes on from the checkpoints of another one.
    pub take_over: bool,
}

/// The part of the memory limit that the past changes of one table or view may take.
const HISTORY_PART: usize = 32;

impl DatabaseConfig {
    /// Bytes of past changes that a table or view keeps for those who follow it.
    ///
    /// # Arguments
    /// - `most`: where memory has no limit.
    pub(crate) fn history_bytes(&self, most: usize) -> usize {
        self.memory_limit.map_or(most, |limit| most.min(limit / HISTORY_PART))
    }

    /// What keeps checkpoints; `None`: there is no data folder either.
    pub(crate) fn checkpoint_blobs(&self) -> Option<Arc<dyn Blobs>> {
        let in_data_dir = || {
            let dir = self.data_dir.as_ref()?.join("checkpoints");
            Some(Arc::new(LocalDisk::new(dir)) as Arc<dyn Blobs>)
        };
        self.checkpoints.clone().or_else(in_data_dir)
    }
}

/// What a SELECT answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// What is there now.
    Current,
    /// What is there when bounded sources are at their end; nobody watches how it comes (`cenote run`).
    Final,
    /// As `Final`, but each change on the way is told (`cenote run --changes`).
    Changes,
}

impl Answers {
    /// Whether a SELECT waits until bounded sources are read to their end.
    pub(crate) fn wait_for_sources(self) -> bool {
        self != Answers::Current
    }
}

/// What a readable collection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadableKind {
    /// A table held here or fed by a connector.
    Table,
    /// A materialized view.
    MaterializedView,
    /// The state of one operator.
    State,
}

/// One entry of the inventory of everything that can be read.
#[derive(Clone, Debug)]
pub struct Readable {
    /// Schema part of the name (`public`, `cenote_state`).
    pub schema_name: String,
    /// Name in its schema.
    pub name: String,
    /// What it is.
    pub kind: ReadableKind,
    /// Columns in order.
    pub columns: SchemaRef,
    /// Indices of the key columns that point lookups use; empty: no key.
    pub key: Vec<usize>,
    /// Whether a key has at most one row.
    pub key_unique: bool,
    /// Rows at `epoch`.
    pub rows: u64,
    /// Bytes of memory it takes.
    pub bytes: u64,
    /// Newest sealed epoch.
    pub epoch: Epoch,
}

/// Rows found by a lookup of several keys, all at one epoch.
#[derive(Clone, Debug)]
pub struct LookupRows {
    /// What was read.
    pub readable: Readable,
    /// The epoch of every row.
    pub epoch: Epoch,
    /// The rows, in any order.
    pub rows: RecordBatch,
    /// For each row of `rows`, the index of the key that it was found by.
    pub key_of_row: Vec<usize>,
}

/// Where a scan stands: opaque to clients, pinned to its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanCursor {
    /// The epoch being read.
    pub epoch: Epoch,
    /// Position inside the collection.
    pub position: u64,
}

/// What to scan.
#[derive(Clone, Debug, Default)]
pub struct ScanRequest {
    /// `view`, `schema.view` or `cenote_state.table`.
    pub name: String,
    /// Column names; `None`: all.
    pub columns: Option<Vec<String>>,
    /// A SQL predicate.
    pub filter: Option<String>,
    /// Read as of this sealed epoch; `None`: the newest.
    pub epoch: Option<Epoch>,
    /// Continue there; its epoch wins over `epoch`.
    pub cursor: Option<ScanCursor>,
}

/// A stream of a collection's changes.
pub struct ChangeStream {
    /// Columns: `epoch` (UInt64), `weight` (Int64), then the collection's own.
    pub schema: SchemaRef,
    /// Batches; each holds whole epochs, ascending. An `Expired` error says from which epoch to resume.
    pub batches: BatchStream,
}

/// A health report for `/readyz`.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Reasons why the server is not ready; empty: ready.
    pub problems: Vec<String>,
}

/// Figures for `/metrics`: name, labels, value.
#[derive(Clone, Debug)]
pub struct Metric {
    /// Prometheus name, `cenote_` first, unit last.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// Labels.
    pub labels: Vec<(&'static str, String)>,
    /// Value.
    pub value: f64,
}

/// The database: catalog, engine, connectors. Shared by all doors.
pub struct Database {
    config: DatabaseConfig,
    engine: Engine,
    catalog: watch::Sender<Arc<Catalog>>,
    /// The turn of statements that keep losing their rows to others.
    losing: tokio::sync::Mutex<()>,
    /// Held while the catalog is being changed, so that changes follow each other.
    changing: Arc<tokio::sync::Mutex<()>>,
    planner: SessionState,
    errors: Arc<VersionedTable>,
    attached: std::sync::OnceLock<Attached>,
    sources: Sources,
    replays: Replays,
    checkpointer: Checkpointer,
    sinks: Sinks,
    backends: StateBackends,
}

impl Database {
    /// A new session with default settings.
    pub fn session(self: &Arc<Self>) -> Session {
        Session::new(self.clone())
    }

    /// The catalog as it is now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    pub(crate) fn set_catalog(&self, catalog: Catalog) {
        self.catalog.send_replace(Arc::new(catalog));
    }

    pub(crate) async fn lock_catalog(&self) -> tokio::sync::OwnedMutexGuard<()> {
        self.changing.clone().lock_owned().await
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn config(&self) -> &DatabaseConfig {
        &self.config
    }

    pub(crate) fn state_backends(&self) -> &StateBackends {
        &self.backends
    }

    pub(crate) fn attached_cell(&self) -> &std::sync::OnceLock<Attached> {
        &self.attached
    }

    pub(crate) fn planner(&self) -> &SessionState {
        &self.planner
    }

    /// The table of rows that could not be read.
    pub(crate) fn errors(&self) -> &Arc<VersionedTable> {
        &self.errors
    }

    pub(crate) fn replays(&self) -> &Replays {
        &self.replays
    }

    pub(crate) fn checkpointer(&self) -> &Checkpointer {
        &self.checkpointer
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    pub(crate) fn running_sinks(&self) -> &Sinks {
        &self.sinks
    }

    /// Refuses to read a view that has failed, or that reads one.
    pub(crate) fn check_view(&self, view: &MaterializedView) -> Result<()> {
        let catalog = self.catalog();
        let Some((failed, cause)) = self.failure_under(&catalog, view, &mut BTreeSet::new()) else {
            return Ok(());
        };
        let (name, kind) = (&view.definition.name, failed.kind());
        let (what, attempt) = match &failed {
            Object::MaterializedView(_) => {
                let again = "and create it again once the cause is gone";
                (
                    "has failed",
                    format!("DROP MATERIALIZED VIEW {} {again}", failed.name()),
                )
            }
            _ => (
                "cannot be opened",
                "start the server again once the cause is gone".to_string(),
            ),
        };
        let what = match failed.id() == view.definition.id {
            true => format!("it {what}"),
            false => format!("{kind} \"{}\", which it reads, {what}", failed.name()),
        };
        let message = format!("cannot read materialized view \"{name}\": {what}");
        let error = Error::new(ErrorKind::Unavailable, "VIEW-0101", message).sqlstate("55000");
        Err(error.fact("cause", cause.message()).attempt(attempt))
    }

    /// What stops `view`, and the cause: a view that has failed, or a source whose rows are kept nowhere and that could
    /// not be opened. Of the views it reads first, which stop it in turn.
    ///
    /// # Arguments
    /// - `seen`: views that were looked at, so that one that many read is looked at once.
    fn failure_under(
        &self,
        catalog: &Catalog,
        view: &MaterializedView,
        seen: &mut BTreeSet<CollectionId>,
    ) -> Option<(Object, Error)> {
        if !seen.insert(view.definition.id) {
            return None;
        }
        let mut failures = view.reads.iter().filter_map(|id| match catalog.by_id(*id)? {
            Object::MaterializedView(input) => self.failure_under(catalog, input, seen),
            source @ Object::Table(table) if table.versioned.is_none() => {
                Some((source.clone(), self.sources.unopened(*id)?))
            }
            _ => None,
        });
        failures.next().or_else(|| {
            let cause = view.status.failure()?;
            let failed = catalog.by_id(view.definition.id)?;
            Some((failed.clone(), cause.clone()))
        })
    }

    /// The newest sealed epoch.
    pub fn epoch(&self) -> Epoch {
        self.engine.visible()
    }

    /// Whether the server can serve, and why not.
    pub fn health(&self) -> Health {
        let mut problems = Vec::new();
        for view in self.catalog().materialized_views() {
            if let Some(cause) = view.status.failure() {
                problems.push(format!(
                    "materialized view {} has failed: {}",
                    view.definition.name,
                    cause.message()
                ));
            }
        }
        problems.extend(self.sources.failures());
        if let Some(error) = self.checkpointer.progress().failure {
            problems.push(format!("the last checkpoint failed: {}", error.message()));
        }
        problems.extend(self.sinks.failures());
        Health { problems }
    }

    /// Waits until every bounded source has been read to its end and its rows are visible.
    ///
    /// # Returns
    /// `false` if some source never ends: what has come of any of them is visible then.
    pub async fn wait_for_bounded_sources(&self) -> Result<bool> {
        let are_at_end = self.sources.wait_for_bounded().await?;
        self.wait_for_newest().await?;
        Ok(are_at_end)
    }

    /// Waits for the turn among statements that keep losing their rows to others.
    pub(crate) async fn take_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.losing.lock().await
    }

    /// Waits until an epoch can be read.
    ///
    /// # Errors
    /// `Unavailable`: the engine has stopped.
    pub async fn wait_visible(&self, epoch: Epoch) -> Result<()> {
        self.engine.wait_visible(epoch).await
    }

    /// Waits until everything that is committed or handed over by a source now is visible.
    ///
    /// # Returns
    /// The epoch that it is visible at.
    ///
    /// # Errors
    /// `Unavailable`: the engine has stopped.
    pub async fn wait_for_newest(&self) -> Result<Epoch> {
        let epoch = self.engine.commit(cenote_engine::Commit::default()).await?;
        self.engine.wait_visible(epoch).await?;
        Ok(epoch)
    }

    /// Stops replays, sources and sinks, then the engine: what is queued is committed, sinks have written it as far as they come
    /// in a few seconds, the log is marked as closed, threads end.
    pub async fn shutdown(&self) -> Result<()> {
        // First, as whoever writes may wait for a view that waits for its replay.
        self.replays.stop_all();
        self.sources.stop_all();
        self.stop_sinks().await;
        self.engine.shutdown();
        open::apart(|| self.backends.close());
        Ok(())
    }
}
