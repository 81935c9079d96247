//! Sources that keep no rows, read again for a view that comes later.

use crate::catalog::Table;
use crate::database::Database;
use cenote_engine::ReplayFeed;
use cenote_engine::port::{Offsets, SourceBatch, SourceOutput, StopToken};
use cenote_statestore::{Epoch, Result};
use std::sync::Arc;

impl Database {
    /// Reads again, for a new view, what a source had passed on as of an epoch.
    pub(crate) fn start_replay(&self, table: &Arc<Table>, epoch: Epoch, feed: ReplayFeed) {
        let source = self
            .stored_offsets(table, epoch)
            .and_then(|until| self.source_of(table, Offsets::new(), Some(until)));
        let source = match source {
            Ok(source) => source,
            Err(error) => return feed.finish(Err(error)),
        };
        let replay = move || {
            let outcome = source.run(&mut Replay(&feed), &StopToken::default());
            feed.finish(outcome);
        };
        // A thread that cannot be had drops the feed, which fails the view.
        if let Err(error) = std::thread::Builder::new().name("cenote-replay".into()).spawn(replay) {
            tracing::error!("cannot start a thread to read {} again: {error}", table.definition.name);
        }
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
