//! Rows that a source passed on before a view was created, read again for that view alone.
//!
//! # Rules kept here
//! 1. A replay is part of the view's first epoch: the view is not live before all of it has arrived.
//! 2. The channel is bounded; a reader that is faster than the view waits.
//! 3. A replay that ends without saying so has failed: half of a source's rows are no contents.
//!
//! # Not here
//! Which rows to read again (`query`), reading them (connectors), when they are fed (`worker`).

use crate::worker::WorkerPort;
use arrow::array::RecordBatch;
use cenote_statestore::{Error, ErrorKind, Result};
use crossbeam_channel::{Receiver, Sender, TryRecvError};

/// Batches that may wait for the view.
const BATCHES_MAX: usize = 8;

#[derive(Debug)]
enum Message {
    Rows(RecordBatch),
    End(Result<()>),
}

/// Gives a new view what one of its sources passed on before.
pub struct ReplayFeed {
    /// `None` only while it is dropped.
    messages: Option<Sender<Message>>,
    reader: WorkerPort,
}

/// The view's end of a replay.
#[derive(Clone, Debug)]
pub struct ReplayInput(Receiver<Message>);

/// What a replay has for its view now.
pub(crate) enum Replayed {
    Rows(RecordBatch),
    /// Nothing yet; the worker is woken when there is.
    Nothing,
    End,
}

/// Makes both ends of a replay; `reader` is the worker that feeds it to the view.
pub(crate) fn channel(reader: WorkerPort) -> (ReplayFeed, ReplayInput) {
    let (messages, receiver) = crossbeam_channel::bounded(BATCHES_MAX);
    let messages = Some(messages);
    (ReplayFeed { messages, reader }, ReplayInput(receiver))
}

impl ReplayFeed {
    /// Hands over rows; blocks while the view has enough to do.
    ///
    /// # Errors
    /// The view is gone: stop reading.
    pub fn send(&self, rows: RecordBatch) -> Result<()> {
        self.tell(Message::Rows(rows))
    }

    /// Says that the view has everything, or why it cannot.
    pub fn finish(self, outcome: Result<()>) {
        // A view that is gone needs no end.
        let _ = self.tell(Message::End(outcome));
    }

    fn tell(&self, message: Message) -> Result<()> {
        let told = self
            .messages
            .as_ref()
            .is_some_and(|messages| messages.send(message).is_ok());
        self.reader.wake();
        told.then_some(()).ok_or_else(|| {
            Error::new(
                ErrorKind::Conflict,
                "ENGINE-0004",
                "the view that a source is read again for was dropped",
            )
        })
    }
}

impl Drop for ReplayFeed {
    fn drop(&mut self) {
        // A worker that parked on an empty channel must see that it is closed.
        self.messages = None;
        self.reader.wake();
    }
}

impl ReplayInput {
    /// What there is now, without waiting.
    ///
    /// # Errors
    /// The replay failed, and so has the view.
    pub(crate) fn poll(&self) -> Result<Replayed> {
        match self.0.try_recv() {
            Ok(Message::Rows(rows)) => Ok(Replayed::Rows(rows)),
            Ok(Message::End(outcome)) => outcome.map(|()| Replayed::End),
            Err(TryRecvError::Empty) => Ok(Replayed::Nothing),
            Err(TryRecvError::Disconnected) => Err(Error::bug("a source's replay stopped before its end")),
        }
    }
}
