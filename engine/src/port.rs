//! Ports: what the engine asks of systems outside it. Connectors implement them and are handed in
//! through a [`ConnectorRegistry`]; the engine names no concrete system. Sources are here, sinks in [`sink`](self::Sink).
//!
//! # Rules kept here
//! 1. A source runs on a thread of its own and pushes batches; [`SourceOutput::push`] blocks while the
//!    bounded queue behind it is full, which is all the back-pressure there is.
//! 2. Every pushed batch carries the offsets *after* it. A batch and its offsets become durable and
//!    visible in one epoch, so restarting a source from stored offsets neither loses nor repeats a row.
//! 3. Rows that do not parse are not errors of the source: they travel as [`BadRow`]s beside the good ones.

mod sink;

pub use sink::{Cut, Sink, SinkContract, SinkRequest};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use cenote_statestore::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Options of a `WITH (...)` clause, names in lower case.
pub type Options = BTreeMap<String, String>;

/// One option that a connector takes: the source of its validation and of the reference page.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The key in `WITH (...)`.
    pub name: &'static str,
    /// What it does, one sentence, with unit and default.
    pub help: &'static str,
    /// Whether it must be given.
    pub required: bool,
    /// Values that are accepted; empty when any text is.
    pub values: &'static [&'static str],
}

/// How far one partition (a file, a topic partition) of a source has been read.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PartitionOffset {
    /// Bytes (or records, as the connector counts) consumed: the next read starts here.
    pub position: u64,
    /// Lines or records consumed, for messages.
    pub records: u64,
    /// The partition is finished and will not be read again.
    pub done: bool,
    /// What the connector needs to know that it meets the same partition again (size, fingerprint ...).
    pub identity: String,
}

/// Offsets of a whole source, by partition name.
pub type Offsets = BTreeMap<String, PartitionOffset>;

/// A row that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRow {
    /// The file or partition it stands in.
    pub partition: String,
    /// 1-based line or record number.
    pub line: u64,
    /// Byte offset of its start.
    pub byte_offset: u64,
    /// Its text, cut to at most 1,024 bytes at a character boundary.
    pub text: String,
    /// Why it could not be read, naming the field.
    pub reason: String,
}

/// What a source hands over at once.
#[derive(Clone, Debug)]
pub struct SourceBatch {
    /// Good rows, in the schema of the request after its projection.
    pub rows: RecordBatch,
    /// Rows that could not be read.
    pub bad: Vec<BadRow>,
    /// Changed offsets only: the partitions that this batch advanced, as they stand after it.
    pub offsets: Offsets,
    /// Bytes of input this batch was made from.
    pub bytes: u64,
}

/// The receiving side of a source.
pub trait SourceOutput {
    /// Hands over a batch; blocks while the queue is full.
    ///
    /// # Errors
    /// An error means that the source must stop and return it unchanged: the table was dropped or the
    /// server is shutting down.
    fn push(&mut self, batch: SourceBatch) -> Result<()>;

    /// Tells how many bytes the source will read in all, as far as known, for progress display.
    fn expect_bytes(&mut self, _total: u64) {}
}

/// Tells a source to stop. Cheap to check; a source that waits must check at least every 200 ms or
/// register a waker.
#[derive(Clone, Default)]
pub struct StopToken(Arc<StopState>);

#[derive(Default)]
struct StopState {
    stopped: AtomicBool,
    wakers: parking_lot::Mutex<Vec<Box<dyn Fn() + Send>>>,
}

impl StopToken {
    /// Whether to stop.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// Asks to stop and calls every registered waker.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Release);
        self.0.wakers.lock().iter().for_each(|waker| waker());
    }

    /// Registers what to call when asked to stop, so that a waiting source needs no polling. Called at
    /// once if the stop came before.
    pub fn on_stop(&self, waker: impl Fn() + Send + 'static) {
        let mut wakers = self.0.wakers.lock();
        if self.is_stopped() {
            waker();
        }
        wakers.push(Box::new(waker));
    }
}

/// What to read.
#[derive(Clone)]
pub struct SourceRequest {
    /// Name of the table or source, for messages.
    pub name: String,
    /// Declared columns in order, in the types the store keeps.
    pub schema: SchemaRef,
    /// Indices of the columns to produce, ascending; `None`: all.
    pub projection: Option<Vec<usize>>,
    /// The `WITH` options, `connector` included.
    pub options: Options,
    /// Where to start; empty: from the beginning.
    pub offsets: Offsets,
    /// Read exactly up to these offsets and end, whatever `follow` says: the replay of what was read before.
    pub until: Option<Offsets>,
    /// Folders that files may be read from.
    pub paths: PathPolicy,
    /// Threads that may decode at once, the source's own included: 1, and it starts none. What it hands over, and in which
    /// order, does not depend on it.
    pub threads: usize,
}

/// Folders that a server may read files from.
#[derive(Clone, Debug)]
pub enum PathPolicy {
    /// Everything the process can read (`cenote run`: the user's own process).
    Any,
    /// Only below these folders, compared after symbolic links are resolved.
    Below(Vec<PathBuf>),
}

/// A source ready to run.
pub trait Source: Send {
    /// Reads until the end (bounded) or until told to stop, pushing batches.
    ///
    /// # Returns
    /// `Ok` when a bounded source is exhausted or the stop token was set.
    ///
    /// # Errors
    /// What makes going on impossible: the source stops, its table stays as it is, and the error is shown
    /// in `cenote_catalog.sources`.
    fn run(self: Box<Self>, output: &mut dyn SourceOutput, stop: &StopToken) -> Result<()>;

    /// Whether it ends by itself.
    fn is_bounded(&self) -> bool;
}

/// A kind of system that data comes from or goes to.
pub trait Connector: Send + Sync {
    /// The value of `connector = '...'`.
    fn name(&self) -> &'static str;

    /// Every option that its sources take, `connector` itself excluded.
    fn options(&self) -> &'static [OptionSpec] {
        &[]
    }

    /// Every option that its sinks take, `connector` itself excluded.
    fn sink_options(&self) -> &'static [OptionSpec] {
        &[]
    }

    /// Checks a request without reading data and makes a source of it.
    ///
    /// # Errors
    /// `Invalid`: an option is missing, misspelt (the nearest name is suggested) or has a bad value, a
    /// path is outside the allowed folders, or a column type cannot be read in this format. `Unsupported`: nothing can be
    /// read through it.
    fn source(&self, request: SourceRequest) -> Result<Box<dyn Source>> {
        Err(one_way(
            &request.name,
            self.name(),
            "read from",
            "CREATE SINK writes to it",
        ))
    }

    /// Checks a request without writing anything and makes a sink of it.
    ///
    /// # Errors
    /// `Invalid`: as of [`Connector::source`]. `Unsupported`: nothing can be written through it.
    fn sink(&self, request: SinkRequest) -> Result<Box<dyn Sink>> {
        Err(one_way(
            &request.name,
            self.name(),
            "written to",
            "CREATE SOURCE reads from it",
        ))
    }
}

/// CONN-0017: a connector that goes the other way only.
fn one_way(object: &str, connector: &str, way: &str, attempt: &str) -> Error {
    let message = format!("cannot create \"{object}\": connector '{connector}' cannot be {way}");
    Error::new(ErrorKind::Unsupported, "CONN-0017", message).attempt(attempt)
}

/// The connectors of this build, by name.
#[derive(Clone, Default)]
pub struct ConnectorRegistry(BTreeMap<&'static str, Arc<dyn Connector>>);

impl ConnectorRegistry {
    /// Adds a connector.
    ///
    /// # Panics
    /// If one of that name is there already (a fault in how the program was put together).
    pub fn register(&mut self, connector: Arc<dyn Connector>) {
        let name = connector.name();
        assert!(
            self.0.insert(name, connector).is_none(),
            "connector {name} registered twice"
        );
    }

    /// The connector of that name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Connector>> {
        self.0.get(name)
    }

    /// All connectors, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Connector>> {
        self.0.values()
    }
}
