//! The database: catalog, engine and connectors behind one handle that every door shares.

use crate::outcome::BatchStream;
use crate::session::Session;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_engine::port::{ConnectorRegistry, PathPolicy};
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How to open a database.
#[derive(Clone)]
pub struct DatabaseConfig {
    /// Folder of the write-ahead log; `None`: nothing outlives the process.
    pub data_dir: Option<PathBuf>,
    /// Worker threads of the dataflow engine, at least 1.
    pub workers: usize,
    /// Sealed epochs kept readable behind the newest.
    pub retain_epochs: u64,
    /// How long sealed epochs are kept readable, whichever of the two keeps more.
    pub retain_time: Duration,
    /// Connectors of this build.
    pub connectors: ConnectorRegistry,
    /// Folders that file sources may read.
    pub paths: PathPolicy,
    /// Rows of a table fed by a replayable source without a primary key stay in the source and are read again when
    /// asked for, instead of being kept (`cenote run`).
    pub transient_tables: bool,
    /// Memory that one ad-hoc query may use, in bytes.
    pub query_memory_bytes: usize,
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
pub struct Database {}

fn not_yet<T>(what: &str) -> Result<T> {
    Err(Error::new(ErrorKind::Unsupported, "SQL-0001", format!("cannot {what}: not built")))
}

impl Database {
    /// Opens a database: recovers the catalog and the tables, rebuilds the views, starts the sources.
    ///
    /// # Errors
    /// `Corrupt`: the log is damaged in its middle; the error names file and offset and nothing was changed.
    pub fn open(config: DatabaseConfig) -> Result<Arc<Database>> {
        let _ = config;
        not_yet("open a database")
    }

    /// A new session with default settings.
    pub fn session(self: &Arc<Self>) -> Session {
        Session::new(self.clone())
    }

    /// Everything that can be read, sorted by name.
    pub fn readables(&self) -> Vec<Readable> {
        Vec::new()
    }

    /// One readable collection by name (`view`, `schema.view`, `cenote_state.table`).
    ///
    /// # Errors
    /// `Invalid`, SQLSTATE 42P01, with near names.
    pub fn readable(&self, name: &str) -> Result<Readable> {
        let _ = name;
        not_yet("find a table")
    }

    /// Looks up keys by the whole key of a collection, or by the named columns.
    ///
    /// # Arguments
    /// - `columns`: names of the columns that `keys` are for; empty: the key columns in order.
    /// - `keys`: one list of texts per key, in the order of `columns`, each in PostgreSQL's input form of its type;
    ///   `None` is NULL.
    ///
    /// # Errors
    /// - `Invalid` 42P01, 42703: no such collection or column. 22P02: a key does not parse as its type.
    pub async fn lookup(&self, name: &str, columns: &[String], keys: &[Vec<Option<String>>]) -> Result<LookupRows> {
        let _ = (name, columns, keys);
        not_yet("look up keys")
    }

    /// A page of a collection.
    ///
    /// # Returns
    /// At most `limit` rows, their epoch, and the cursor to go on with; `None` at the end.
    ///
    /// # Errors
    /// `Expired`: the cursor's epoch is no longer retained.
    pub async fn scan_page(&self, request: ScanRequest, limit: usize) -> Result<(RecordBatch, Epoch, Option<ScanCursor>)> {
        let _ = (request, limit);
        not_yet("scan")
    }

    /// A whole collection at one epoch, streamed in bounded memory.
    pub async fn scan(&self, request: ScanRequest) -> Result<(SchemaRef, Epoch, BatchStream)> {
        let _ = request;
        not_yet("scan")
    }

    /// Changes of a collection after `from` (exclusive); `None`: from now on.
    ///
    /// # Arguments
    /// - `snapshot`: first the contents as of the start, as insertions at its epoch.
    pub async fn changes(&self, name: &str, from: Option<Epoch>, snapshot: bool) -> Result<ChangeStream> {
        let _ = (name, from, snapshot);
        not_yet("read changes")
    }

    /// Appends rows to a table held here, as one epoch, durable when this returns.
    ///
    /// # Arguments
    /// - `rows`: columns by name; missing ones take their default; types are cast exactly or refused.
    ///
    /// # Returns
    /// The epoch of the rows.
    pub async fn append(&self, table: &str, rows: Vec<RecordBatch>) -> Result<Epoch> {
        let _ = (table, rows);
        not_yet("append rows")
    }

    /// Columns that `append` to this table takes, for decoding a body of JSON or CSV.
    pub fn append_schema(&self, table: &str) -> Result<SchemaRef> {
        let _ = table;
        not_yet("append rows")
    }

    /// Order-independent digest of a collection's contents: hex text, rows, epoch.
    pub async fn digest(&self, name: &str) -> Result<(String, u64, Epoch)> {
        let _ = name;
        not_yet("digest")
    }

    /// The newest sealed epoch.
    pub fn epoch(&self) -> Epoch {
        Epoch::ZERO
    }

    /// Whether the server can serve, and why not.
    pub fn health(&self) -> Health {
        Health::default()
    }

    /// Figures of engine and catalog.
    pub fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }

    /// Waits until every bounded source has been read to its end and its rows are visible.
    ///
    /// # Returns
    /// Immediately with `false` if some source never ends.
    pub async fn wait_for_bounded_sources(&self) -> Result<bool> {
        not_yet("wait for sources")
    }

    /// Stops sources, seals what is open, flushes the log and joins the workers.
    pub async fn shutdown(&self) -> Result<()> {
        Ok(())
    }
}
