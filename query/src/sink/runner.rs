//! The thread of a sink: reads epochs in order, and takes each transaction through its steps.
//!
//! # Rules kept here
//! 1. prepare, the token in the log, commit, the receipt in the log: in this order, and only then the next one.
//! 2. An epoch is written when it is sealed, whole, in the order of [`ordered`]; one without changes of the view leaves no
//!    trace, in the log neither.
//! 3. A call that may work later is tried again [`TRIES`] times, after [`Sink::recover`], each time from what the log says.
//! 4. A sink whose changes are durable only with a checkpoint reads up to the epoch that a checkpoint asks for, prepares, and commits
//!    once that checkpoint is there. It asks for one itself while it has something to write.
//!
//! # Not here
//! Where it begins (`start`); what a connector does (`cenote_engine::port`).

mod waiting;

use super::order::ordered;
use super::progress::{Record, Records};
use super::start::{Followed, gone};
use super::{Orders, SinkProgress};
use crate::catalog::SinkObject;
use crate::database::Database;
use cenote_engine::Commit;
use cenote_engine::port::{Cut, Sink, SinkContract};
use cenote_statestore::{Changes, Epoch, Error, ErrorKind, Follower, Pin, Result};
use futures::future::BoxFuture;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::watch;
use waiting::Step;

/// Rows after which a transaction takes no further epoch.
const TRANSACTION_ROWS: usize = 64 << 10;

/// Rows read at once of the contents at the start.
const SCAN_ROWS: usize = 64 << 10;

/// How often a call that may work later is tried again.
const TRIES: u32 = 6;

/// The first wait before that; each is twice as long as the one before.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// Whether the log may know the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// It was made just now, and [`Sink::recover`] called.
    New,
    /// It was there before the start.
    Again,
}

/// Whose fault an error is: the sink's calls are tried again.
enum Trouble {
    Sink(Error),
    Own(Error),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Own(error)
    }
}

/// What a transaction has so far.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    rows: usize,
    bytes: u64,
}

/// A sink and where it is.
pub(super) struct Runner {
    database: Arc<Database>,
    handle: Handle,
    object: Arc<SinkObject>,
    from: Followed,
    sink: Box<dyn Sink>,
    /// Whether [`Sink::recover`] has to be called first.
    is_broken: bool,
    follower: Follower,
    /// The contents at the follower's epoch, if they are still to be written.
    contents: Option<Pin>,
    records: Records,
    progress: Arc<SinkProgress>,
    orders: watch::Receiver<Orders>,
    /// The epoch of the newest checkpoint.
    published: watch::Receiver<Epoch>,
    /// Tells why its view is gone.
    lost: BoxFuture<'static, Error>,
    /// When it last asked for a checkpoint.
    asked: Option<Instant>,
    /// Whether there is something behind the follower's epoch that waits for one.
    has_news: bool,
}

impl Runner {
    /// Finds where a sink begins.
    ///
    /// # Errors
    /// `Expired` SINK-0103: the changes since it was last written to are not there any more.
    pub(super) fn new(
        database: &Arc<Database>,
        object: &Arc<SinkObject>,
        from: Followed,
        sink: Box<dyn Sink>,
        begin: Begin,
        progress: Arc<SinkProgress>,
        orders: watch::Receiver<Orders>,
    ) -> Result<Runner> {
        let mut records = database.stored_progress(object)?;
        let durable = database.durable_epoch_for(from.id);
        if progress.waits_for_checkpoints && records.prepared.as_ref().is_some_and(|record| record.epoch > durable) {
            // No checkpoint has it: what follows will be told anew.
            records.prepared = None;
        }
        let (follower, contents) = match records.newest() {
            Some(record) => (database.follow_on(&object.definition.name, &from, record.epoch)?, None),
            None => {
                let pin = database.engine().pin_visible()?;
                (from.table.follow(pin.epoch())?, Some(pin))
            }
        };
        if let Some(pin) = &contents {
            // What was before its contents does not concern it.
            progress.prepared.send_replace(pin.epoch().previous());
        }
        if let Some(record) = records.newest() {
            progress.rows.store(record.rows, Ordering::Relaxed);
            progress.bytes.store(record.bytes, Ordering::Relaxed);
            progress.prepared.send_replace(record.epoch);
            progress.reached.send_replace(record.epoch);
        }
        let lost = database
            .clone()
            .lost(from.name.clone(), from.table.clone(), from.view.clone());
        Ok(Runner {
            database: database.clone(),
            handle: Handle::current(),
            object: object.clone(),
            sink,
            is_broken: begin == Begin::Again,
            follower,
            contents,
            records,
            progress,
            orders,
            published: database.running_sinks().published.subscribe(),
            lost: Box::pin(lost),
            asked: None,
            has_news: false,
            from,
        })
    }

    /// Runs until it is told to end.
    ///
    /// # Errors
    /// What makes going on impossible.
    pub(super) fn run(mut self) -> Result<()> {
        let done = self.follow();
        if let Err(error) = &done
            && !self.holds_back()
        {
            // What was written and not prepared goes; whatever stays, the next start puts in order.
            let token = self.records.newest().and_then(|record| record.token.as_deref());
            if let Err(other) = self.sink.recover(token) {
                tracing::warn!(
                    "sink {} leaves what it had not prepared, after {}: {}",
                    self.progress.name,
                    error.code(),
                    other.message()
                );
            }
        }
        done
    }

    fn follow(&mut self) -> Result<()> {
        loop {
            match self.next()? {
                Step::Read(through) => self.retried(|runner| runner.transact(through))?,
                Step::Settle => self.retried(Runner::settle)?,
                Step::Roll => {
                    self.retried(|runner| runner.finish(Written::default(), runner.follower.epoch(), Cut::Here))?
                }
                Step::Note => self.note()?,
                Step::End(cut) => return self.end(cut),
            }
        }
    }

    /// Takes a step, and takes it again where it may work later.
    fn retried(&mut self, step: impl Fn(&mut Runner) -> Result<(), Trouble>) -> Result<()> {
        let mut tries = 0;
        loop {
            let error = match step(self) {
                Ok(()) => return Ok(()),
                Err(Trouble::Own(error)) => return Err(error),
                Err(Trouble::Sink(error)) => error,
            };
            if error.kind() != ErrorKind::Unavailable || tries == TRIES || self.holds_back() {
                return Err(error);
            }
            self.is_broken = true;
            tracing::warn!("sink {} tries again: {}", self.progress.name, error.message());
            self.pause(FIRST_WAIT * (1 << tries));
            tries += 1;
        }
    }

    /// Puts what is outside in order after a start or a failure.
    fn mend(&mut self) -> Result<(), Trouble> {
        if self.is_broken {
            let token = self.records.newest().and_then(|record| record.token.as_deref());
            self.sink.recover(token).map_err(Trouble::Sink)?;
            self.is_broken = false;
        }
        Ok(())
    }

    /// Writes what there is up to an epoch, and commits it.
    fn transact(&mut self, through: Epoch) -> Result<(), Trouble> {
        self.settle()?;
        let mut written = Written::default();
        if let Some(pin) = self.contents.clone() {
            let contents = self.contents(&pin)?;
            self.write(pin.epoch(), contents, &mut written)?;
        }
        let mut found = self.changes(self.follower.epoch(), through)?.into_iter().peekable();
        while let Some((epoch, changes)) = found.next() {
            // The shards of a table have changes of the same epoch each.
            let mut parts = vec![changes];
            while let Some((_, more)) = found.next_if(|(next, _)| *next == epoch) {
                parts.push(more);
            }
            let whole = Changes::concat(&self.from.table.schema().columns, &parts)?;
            self.write(epoch, whole, &mut written)?;
            if written.rows >= TRANSACTION_ROWS {
                self.finish(std::mem::take(&mut written), epoch, Cut::Here)?;
            }
        }
        match written.rows {
            0 => self.pass(through),
            _ => self.finish(written, through, Cut::Here)?,
        }
        Ok(())
    }

    /// Moves on behind epochs in which there was nothing to write.
    fn pass(&mut self, through: Epoch) {
        (self.contents, self.has_news) = (None, false);
        self.follower.advance(through);
        if self.records.prepared.is_none() {
            self.progress.reached.send_replace(through);
        }
    }

    /// The whole contents at an epoch.
    fn contents(&self, pin: &Pin) -> Result<Changes> {
        let (table, all) = (
            &self.from.table,
            (0..self.from.table.schema().columns.fields().len()).collect(),
        );
        let mut scan = table.scan(pin.clone(), all, 0..table.shards());
        let mut parts = Vec::new();
        while let Some(part) = scan.next_weighted(SCAN_ROWS)? {
            parts.push(part);
        }
        Changes::concat(&table.schema().columns, &parts)
    }

    /// The changes of each epoch in `(after, through]`.
    fn changes(&self, after: Epoch, through: Epoch) -> Result<Vec<(Epoch, Changes)>> {
        let found = self.from.table.changes(after, through);
        found.map_err(|error| behind(&self.progress.name, &self.from, after, error))
    }

    fn write(&mut self, epoch: Epoch, changes: Changes, written: &mut Written) -> Result<(), Trouble> {
        let visible = changes.rows().project(&self.from.projection()).map_err(Error::from)?;
        let visible = Changes::relabel(visible, self.from.columns.clone())?;
        let changes = ordered(changes.with_rows(visible), &self.from.key)?;
        if !changes.is_empty() {
            written.bytes += self.sink.write(epoch, &changes).map_err(Trouble::Sink)?;
            let times = |row: usize| changes.weights().get(row).unsigned_abs() as usize;
            written.rows += (0..changes.len()).map(times).sum::<usize>();
        }
        Ok(())
    }

    /// Prepares what was written, notes that in the log, and commits it if it may be.
    fn finish(&mut self, written: Written, through: Epoch, cut: Cut) -> Result<(), Trouble> {
        self.mend()?;
        let token = self.sink.prepare(through, cut).map_err(Trouble::Sink)?;
        let before = self.records.newest().unwrap_or(&Record::NOTHING);
        let record = Record {
            epoch: through,
            token: Some(token),
            rows: before.rows + written.rows as u64,
            bytes: before.bytes + written.bytes,
        };
        self.progress.rows.store(record.rows, Ordering::Relaxed);
        self.progress.bytes.store(record.bytes, Ordering::Relaxed);
        let commit = match self.sink.contract() {
            SinkContract::Transactional => self.records.prepare(&self.object, record)?,
            SinkContract::Idempotent => self.records.commit(&self.object, record)?,
        };
        self.log(commit)?;
        (self.contents, self.has_news) = (None, false);
        self.follower.advance(through);
        self.progress.prepared.send_replace(through);
        if self.records.prepared.is_none() {
            self.progress.reached.send_replace(through);
        }
        self.settle()
    }

    /// Commits what is prepared and may be committed.
    fn settle(&mut self) -> Result<(), Trouble> {
        self.mend()?;
        if !self.is_committable() {
            return Ok(());
        }
        if let Some(record) = self.records.prepared.clone() {
            let token = record.token.as_deref().unwrap_or_default();
            self.sink.commit(token).map_err(Trouble::Sink)?;
            let commit = self.records.commit(&self.object, record)?;
            self.log(commit)?;
            self.progress.reached.send_replace(self.follower.epoch());
        }
        Ok(())
    }

    /// Notes in the log that everything up to here is prepared, though the newest transaction ends earlier.
    fn note(&mut self) -> Result<()> {
        let epoch = self.follower.epoch();
        let newest = self.records.newest().cloned().unwrap_or(Record::NOTHING);
        let record = Record { epoch, ..newest };
        let commit = match self.records.prepared {
            Some(_) => self.records.prepare(&self.object, record)?,
            None => self.records.commit(&self.object, record)?,
        };
        self.log(commit)?;
        self.progress.prepared.send_replace(epoch);
        Ok(())
    }

    fn log(&self, commit: Commit) -> Result<()> {
        self.handle.block_on(self.database.engine().commit(commit)).map(drop)
    }

    /// Commits what is left, if nothing is to follow, and lets go of the sink.
    fn end(&mut self, cut: Cut) -> Result<()> {
        let has_written = self.records.newest().is_some_and(|record| record.token.is_some());
        if cut == Cut::End && has_written {
            self.retried(|runner| runner.finish(Written::default(), runner.follower.epoch(), Cut::End))?;
        }
        self.sink.close()
    }

    /// Whether something is prepared that must be neither committed nor lost.
    fn holds_back(&self) -> bool {
        self.records.prepared.is_some() && !self.is_committable()
    }
}

/// The error of a sink that is so slow that the history of its view ends before it.
fn behind(sink: &str, from: &Followed, after: Epoch, error: Error) -> Error {
    match error.kind() {
        ErrorKind::Expired => gone(sink, &from.name, after, error.detail().unwrap_or_default()),
        _ => error,
    }
}
