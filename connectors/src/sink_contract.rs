//! What every sink is held to, whatever it writes to: killed at each moment of its life, and started again, it has put each
//! change outside once and in order.
//!
//! A [`Drill`] drives a sink as the runner of `query::sink` does, over a log in memory. Its runs are cut off at every moment
//! there is, one run each: before and after each call, and between the calls and their records in the log. What is outside
//! in the end is read by the test, with other means, and must be the same after each of them.

use cenote_engine::port::{Cut, Sink, SinkContract};
use cenote_statestore::{Changes, Epoch, Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Code of the error that stands for a kill.
const KILLED: &str = "TEST-KILL";

/// What a kill leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kill {
    /// The log: the sink is made anew.
    Process,
    /// The sink as it is, after a call that failed.
    Call,
}

/// Moments of a run, one of which ends it.
#[derive(Clone, Default)]
struct Moments(Arc<Counted>);

#[derive(Default)]
struct Counted {
    passed: AtomicUsize,
    end: AtomicUsize,
}

impl Moments {
    fn ending_at(end: usize) -> Moments {
        let moments = Moments::default();
        moments.0.end.store(end, Ordering::Relaxed);
        moments
    }

    fn pass(&self) -> Result<()> {
        let now = self.0.passed.fetch_add(1, Ordering::Relaxed);
        match now == self.0.end.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Unavailable, KILLED, "killed here")),
            false => Ok(()),
        }
    }

    /// Whether the end was reached: what never happens proves nothing.
    fn has_ended(&self) -> bool {
        self.0.passed.load(Ordering::Relaxed) > self.0.end.load(Ordering::Relaxed)
    }
}

/// A sink that can be cut off before and after each call.
struct Cuttable {
    sink: Box<dyn Sink>,
    moments: Moments,
}

impl Cuttable {
    fn cut<T>(&mut self, call: impl FnOnce(&mut dyn Sink) -> Result<T>) -> Result<T> {
        self.moments.pass()?;
        let done = call(&mut *self.sink)?;
        self.moments.pass()?;
        Ok(done)
    }
}

/// The newest record of a sink's progress.
#[derive(Clone, Debug, Default)]
struct Record {
    epoch: u64,
    token: Option<String>,
    committed: bool,
}

/// A sink and what is written to it.
pub(crate) struct Drill<'a> {
    /// Makes the sink, as after a start.
    pub(crate) open: &'a dyn Fn() -> Box<dyn Sink>,
    /// What is written, by epoch.
    pub(crate) epochs: &'a [(Epoch, Changes)],
    /// How many epochs a transaction has at most.
    pub(crate) epochs_per_transaction: usize,
}

impl Drill<'_> {
    /// Runs without being cut off.
    pub(crate) fn run_through(&self) {
        let (mut record, moments) = (Record::default(), Moments::ending_at(usize::MAX));
        self.run(&mut record, &moments, &mut None).unwrap();
        assert!(record.committed);
    }

    /// Runs once for each moment, and is cut off there.
    ///
    /// # Arguments
    /// - `check`: called at the end of each run; it says what went wrong, and clears what was written.
    ///
    /// # Returns
    /// How many moments there were.
    pub(crate) fn run_cut_off_everywhere(&self, kill: Kill, mut check: impl FnMut(usize)) -> usize {
        for end in 0.. {
            let (mut record, moments) = (Record::default(), Moments::ending_at(end));
            let mut kept = None;
            let first = self.run(&mut record, &moments, &mut kept);
            if !moments.has_ended() {
                first.unwrap();
                check(end);
                return end;
            }
            assert_eq!(first.unwrap_err().code(), KILLED, "at moment {end}");
            if kill == Kill::Process {
                kept = None;
            }
            self.run(&mut record, &moments, &mut kept).unwrap();
            check(end);
        }
        unreachable!("every run has fewer moments than there are numbers")
    }

    /// Drives the sink from where the log is to the end of input.
    fn run(&self, record: &mut Record, moments: &Moments, kept: &mut Option<Box<dyn Sink>>) -> Result<()> {
        let mut sink = Cuttable {
            sink: kept.take().unwrap_or_else(|| (self.open)()),
            moments: moments.clone(),
        };
        let done = self.drive(&mut sink, record);
        *kept = Some(sink.sink);
        done
    }

    fn drive(&self, sink: &mut Cuttable, record: &mut Record) -> Result<()> {
        for _ in 0..2 {
            let token = record.token.clone();
            sink.cut(|sink| sink.recover(token.as_deref()))?;
        }
        self.commit(sink, record)?;
        loop {
            let rest: Vec<_> = self.epochs.iter().filter(|(epoch, _)| epoch.0 > record.epoch).collect();
            let now = &rest[..rest.len().min(self.epochs_per_transaction)];
            let Some((last, _)) = now.last() else {
                return Ok(());
            };
            for (epoch, changes) in now {
                sink.cut(|sink| sink.write(*epoch, changes))?;
            }
            let cut = if now.len() == rest.len() { Cut::End } else { Cut::Here };
            let token = sink.cut(|sink| sink.prepare(*last, cut))?;
            *record = Record {
                epoch: last.0,
                token: Some(token),
                committed: sink.sink.contract() == SinkContract::Idempotent,
            };
            sink.moments.pass()?;
            self.commit(sink, record)?;
        }
    }

    fn commit(&self, sink: &mut Cuttable, record: &mut Record) -> Result<()> {
        if let Some(token) = record.token.clone().filter(|_| !record.committed) {
            for _ in 0..2 {
                sink.cut(|sink| sink.commit(&token))?;
            }
            record.committed = true;
            sink.moments.pass()?;
        }
        Ok(())
    }
}

pub(crate) mod tests;
