//! The port of sinks: how changes leave so that each is outside exactly once, whatever is killed when.
//!
//! # Rules kept here
//! 1. **Two steps.** What was written is nowhere to be seen until it is committed. [`Sink::prepare`] makes it durable and
//!    says in a token what there is; whoever drives the sink puts the token into the log, and only then calls
//!    [`Sink::commit`]. A kill before the token is in the log leaves nothing outside, one after it leaves what
//!    [`Sink::recover`] completes.
//! 2. **Order.** Epochs are written ascending, each whole and in one call; in it deletions stand before insertions, and both
//!    are sorted. So what comes out is a function of the changes alone.
//! 3. A sink blocks the thread that calls it and no other.
//!
//! # Not here
//! When an epoch may be committed, progress in the log, retries (`query::sink`). What is written where (connectors).
//!
//! # Source
//! Two-phase commit driven by a log, as in Gray, "Notes on Data Base Operating Systems", 1978.

use super::{Options, PathPolicy};
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Changes, Epoch, Result};
use std::time::Instant;

/// Where to write.
#[derive(Clone)]
pub struct SinkRequest {
    /// Name of the sink.
    pub name: String,
    /// Columns of what is written, in the types the store keeps.
    pub schema: SchemaRef,
    /// Indices of the columns that make a row's key; empty: rows have none.
    pub key: Vec<usize>,
    /// The `WITH` options, `connector` included.
    pub options: Options,
    /// Folders that files may be written to.
    pub paths: PathPolicy,
}

/// How a sink keeps its promise that each change is outside once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SinkContract {
    /// What is prepared shows when it is committed, and not before.
    Transactional,
    /// Writing the same epochs again changes nothing, as rows are put in place by key: what is prepared is outside already,
    /// the token is a mark, and committing does nothing.
    Idempotent,
}

/// What follows what is being prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// More: what is not worth committing yet may wait, durably.
    Here,
    /// Nothing: all that was written is to be committed.
    End,
}

/// A sink ready to be written to. First of all [`Sink::recover`] is called, once after each start and each failure.
pub trait Sink: Send {
    /// How it keeps its promise.
    fn contract(&self) -> SinkContract {
        SinkContract::Transactional
    }

    /// Puts everything outside into the state that a token stands for: commits what it says is prepared, if that is not
    /// done yet, and removes all else that was written and not committed.
    ///
    /// # Arguments
    /// - `token`: the newest one in the log; `None`: there is none.
    ///
    /// # Errors
    /// `Invalid`: with no token, there is output of another sink in its place. `Unavailable`: it may work later.
    fn recover(&mut self, token: Option<&str>) -> Result<()>;

    /// Writes all changes of one epoch, to be committed later; the first call after a commit begins a transaction.
    ///
    /// # Arguments
    /// - `epoch`: above those written before.
    /// - `changes`: net changes, at least one; deletions first, then insertions, both by key.
    ///
    /// # Returns
    /// Bytes that they take outside, as far as that is known before they are committed.
    ///
    /// # Errors
    /// `Invalid`: it cannot take such a change; it never will. `Unavailable`: it may work later, after [`Sink::recover`].
    fn write(&mut self, epoch: Epoch, changes: &Changes) -> Result<u64>;

    /// Makes everything that was written since the last commit durable.
    ///
    /// # Returns
    /// What is needed to commit it, as text: by this sink or by one that is made of the same request after a restart. It
    /// stands for everything prepared and not committed, so the newest one is enough.
    ///
    /// # Errors
    /// `Unavailable`: nothing is prepared. Call [`Sink::recover`] and write again.
    fn prepare(&mut self, epoch: Epoch, cut: Cut) -> Result<String>;

    /// Commits what was prepared; nothing happens where that is done already.
    ///
    /// # Errors
    /// `Unavailable`: call it again.
    fn commit(&mut self, token: &str) -> Result<()>;

    /// When it wants to be prepared and committed though nothing was written.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Lets go of what it holds. What is prepared stays, what is not goes.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}
