//! A connector whose rows are batches in memory: how the engine is given what it would read elsewhere.
//!
//! # Rules kept here
//! 1. A stream is a list of stretches. A stretch begins when the one before is visible in every view, and is measured
//!    from its first batch until its last row is visible.
//! 2. Paced streams keep their pace however the threads are scheduled, so that two runs give the engine the same epochs.

use super::clock::{Spent, Stopwatch};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_engine::port::{
    Connector, Offsets, OptionSpec, Source, SourceBatch, SourceOutput, SourceRequest, StopToken,
};
use cenote_query::Database;
use cenote_statestore::{Error, Result};
use futures::executor::block_on;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The connector's name in SQL.
pub const CONNECTOR: &str = "batches";

/// How often a source that waits for its turn looks whether it shall stop.
const STOP_CHECK: Duration = Duration::from_millis(100);

/// Batches that come one after the other.
pub type BatchIterator = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// When a batch is handed over.
#[derive(Clone)]
pub enum Pace {
    /// As soon as there is room: the engine merges what has queued up.
    Free,
    /// When the batch before is visible: each is an epoch of its own.
    EpochEach,
    /// At its place in an order that several streams share.
    InTurn(Arc<Turns>, Arc<Vec<usize>>),
}

/// A stretch of a stream that is measured by itself.
pub struct Stretch {
    /// Its batches.
    pub batches: BatchIterator,
    /// When each of them comes.
    pub pace: Pace,
}

impl Stretch {
    /// Batches that are there already.
    pub fn of(batches: Vec<RecordBatch>, pace: Pace) -> Stretch {
        Stretch {
            batches: Box::new(batches.into_iter().map(Ok)),
            pace,
        }
    }
}

/// What a stretch took.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// From its first batch until its last row was visible.
    pub spent: Spent,
    /// Rows handed over.
    pub rows: u64,
    /// With [`Pace::EpochEach`]: from handing over each batch until it was visible.
    pub epochs: Vec<Duration>,
}

/// A counter that threads wait for.
#[derive(Default)]
pub struct Turns(Mutex<usize>, Condvar);

impl Turns {
    /// Goes on to the next place.
    pub fn advance(&self) {
        *self.0.lock() += 1;
        self.1.notify_all();
    }

    /// Waits until a place is reached.
    ///
    /// # Returns
    /// `false` if told to stop.
    fn wait(&self, place: usize, stop: &StopToken) -> bool {
        let mut reached = self.0.lock();
        while *reached < place && !stop.is_stopped() {
            self.1.wait_for(&mut reached, STOP_CHECK);
        }
        !stop.is_stopped()
    }
}

/// The rows of one source.
struct Stream {
    stretches: Mutex<Vec<Stretch>>,
    measured: Mutex<Vec<Measured>>,
}

/// The connector: a stream for each name of a source or table.
#[derive(Default)]
pub struct Batches {
    streams: BTreeMap<String, Arc<Stream>>,
    /// Advanced once all views are there: nothing is handed over before.
    pub gate: Arc<Turns>,
    database: Arc<OnceLock<Weak<Database>>>,
}

impl Batches {
    /// Adds the rows of a source or table.
    pub fn add(&mut self, name: &str, stretches: Vec<Stretch>) {
        let stream = Stream {
            stretches: Mutex::new(stretches),
            measured: Mutex::default(),
        };
        self.streams.insert(name.to_string(), Arc::new(stream));
    }

    /// Tells the database that it feeds.
    pub fn feeds(&self, database: &Arc<Database>) {
        let _ = self.database.set(Arc::downgrade(database));
    }

    /// What each stretch of a stream took.
    pub fn measured(&self, name: &str) -> Vec<Measured> {
        self.streams
            .get(name)
            .map(|stream| stream.measured.lock().clone())
            .unwrap_or_default()
    }
}

impl Connector for Batches {
    fn name(&self) -> &'static str {
        CONNECTOR
    }

    fn options(&self) -> &'static [OptionSpec] {
        &[]
    }

    fn source(&self, request: SourceRequest) -> Result<Box<dyn Source>> {
        let stream = self.streams.get(&request.name);
        let stream = stream.ok_or_else(|| Error::bug(format!("cannot feed {}: it has no rows", request.name)))?;
        Ok(Box::new(Running {
            stream: stream.clone(),
            schema: request.schema,
            // All views are there before the first row is: a later one has nothing to read again.
            is_replay: request.until.is_some(),
            gate: self.gate.clone(),
            database: self.database.clone(),
        }))
    }
}

struct Running {
    stream: Arc<Stream>,
    schema: SchemaRef,
    is_replay: bool,
    gate: Arc<Turns>,
    database: Arc<OnceLock<Weak<Database>>>,
}

impl Source for Running {
    fn run(self: Box<Self>, output: &mut dyn SourceOutput, stop: &StopToken) -> Result<()> {
        if self.is_replay || !self.gate.wait(1, stop) {
            return Ok(());
        }
        let stretches = std::mem::take(&mut *self.stream.stretches.lock());
        for stretch in stretches {
            let measured = self.stretch(stretch, output, stop)?;
            self.stream.measured.lock().push(measured);
        }
        Ok(())
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

impl Running {
    fn stretch(&self, stretch: Stretch, output: &mut dyn SourceOutput, stop: &StopToken) -> Result<Measured> {
        let database = self.database.get().and_then(Weak::upgrade);
        let database = database.ok_or_else(|| Error::bug("cannot feed a database that is gone"))?;
        block_on(database.wait_for_newest())?;
        let watch = Stopwatch::start();
        let mut measured = Measured::default();
        for (number, batch) in stretch.batches.enumerate() {
            let rows = self.in_columns(batch?)?;
            measured.rows += rows.num_rows() as u64;
            match &stretch.pace {
                Pace::Free => push(output, rows)?,
                Pace::EpochEach => {
                    let (start, epoch) = (Instant::now(), database.epoch().next());
                    push(output, rows)?;
                    block_on(database.wait_visible(epoch))?;
                    measured.epochs.push(start.elapsed());
                }
                Pace::InTurn(turns, places) => {
                    if !turns.wait(places.get(number).copied().unwrap_or(usize::MAX), stop) {
                        break;
                    }
                    push(output, rows)?;
                    turns.advance();
                }
            }
        }
        block_on(database.wait_for_newest())?;
        measured.spent = watch.spent();
        Ok(measured)
    }

    /// A batch under the names and the nullability that were declared.
    fn in_columns(&self, batch: RecordBatch) -> Result<RecordBatch> {
        Ok(RecordBatch::try_new(self.schema.clone(), batch.columns().to_vec())?)
    }
}

fn push(output: &mut dyn SourceOutput, rows: RecordBatch) -> Result<()> {
    output.push(SourceBatch {
        rows,
        bad: Vec::new(),
        offsets: Offsets::new(),
        bytes: 0,
    })
}
