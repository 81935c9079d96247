//! Sources that keep no rows, read again for a view that comes later.

use crate::catalog::Table;
use crate::database::Database;
use cenote_engine::ReplayFeed;
use cenote_engine::plan::CollectionId;
use cenote_engine::port::{Offsets, SourceBatch, SourceOutput, StopToken};
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::sync::Arc;

impl Database {
    /// Reads again, for a new view, what a source had passed on as of an epoch.
    pub(crate) fn start_replay(&self, view: CollectionId, table: &Arc<Table>, epoch: Epoch, feed: ReplayFeed) {
        let source = self
            .stored_offsets(table, epoch)
            .and_then(|until| self.source_of(table, Offsets::new(), Some(until)));
        let source = match source {
            Ok(source) => source,
            Err(error) => return feed.finish(Err(error)),
        };
        let stop = self.replays().note(view);
        let replay = move || {
            let outcome = source.run(&mut Replay(&feed), &stop);
            feed.finish(outcome.and_then(|()| unless_stopped(&stop)));
        };
        // A thread that cannot be had drops the feed, which fails the view.
        if let Err(error) = std::thread::Builder::new().name("cenote-replay".into()).spawn(replay) {
            tracing::error!("cannot start a thread to read {} again: {error}", table.definition.name);
        }
    }
}

/// What was read before a stop is not all.
fn unless_stopped(stop: &StopToken) -> Result<()> {
    if stop.is_stopped() {
        return Err(Error::new(
            ErrorKind::Unavailable,
            "CONN-0014",
            "the source was not read to its end",
        ));
    }
    Ok(())
}

/// Replays that may be under way, by view.
#[derive(Default)]
pub(crate) struct Replays(Mutex<Vec<(CollectionId, StopToken)>>);

impl Replays {
    fn note(&self, view: CollectionId) -> StopToken {
        let stop = StopToken::default();
        self.0.lock().push((view, stop.clone()));
        stop
    }

    /// Forgets a view's replays, and stops those that are not at their end.
    pub(crate) fn end(&self, view: CollectionId) {
        self.0.lock().retain(|(of, stop)| {
            if *of == view {
                stop.stop();
            }
            *of != view
        });
    }

    /// Stops all.
    pub(crate) fn stop_all(&self) {
        self.0.lock().drain(..).for_each(|(_, stop)| stop.stop());
    }
}

/// A new view's side of a source that is read again. What could not be read was told the first time.
struct Replay<'a>(&'a ReplayFeed);

impl SourceOutput for Replay<'_> {
    fn push(&mut self, batch: SourceBatch) -> Result<()> {
        if batch.rows.num_rows() == 0 {
            return Ok(());
        }
        self.0.send(batch.rows)
    }
}
