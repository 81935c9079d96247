//! What a sink does next, and what it waits for: an epoch, an order, a checkpoint, a time. Nothing is looked at without being woken.

use super::{Orders, Runner};
use cenote_engine::port::Cut;
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use std::time::{Duration, Instant};

/// How long a sink that waits for checkpoints lets pass between those that it asks for.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);

/// What to do next.
#[derive(Debug)]
pub(super) enum Step {
    /// Read and write up to an epoch.
    Read(Epoch),
    /// Commit what is prepared.
    Settle,
    /// Prepare though nothing was written: the sink is due.
    Roll,
    /// Note in the log how far it has come.
    Note,
    /// End.
    End(Cut),
}

impl Runner {
    /// Waits for something to do.
    pub(super) fn next(&mut self) -> Result<Step> {
        loop {
            // Marked as seen before they are looked at, so that whatever comes then wakes it.
            self.published.mark_unchanged();
            let orders = *self.orders.borrow_and_update();
            let visible = self.database.epoch();
            if self.is_broken || self.is_committable() {
                return Ok(Step::Settle);
            }
            let is_over = orders
                .end
                .and_then(|end| end.until)
                .is_some_and(|until| until <= Instant::now());
            let limit = self.limit(&orders, visible);
            let after = self.follower.epoch();
            if !is_over && (after < limit || self.contents.is_some() && after <= limit) {
                return Ok(Step::Read(limit));
            }
            let is_asked = orders.reach > *self.progress.prepared.borrow() && orders.reach <= after;
            if !is_over && is_asked && self.contents.is_none() {
                return Ok(Step::Note);
            }
            if let Some(end) = orders.end {
                return Ok(Step::End(end.cut));
            }
            if self.sink.due().is_some_and(|due| due <= Instant::now()) {
                return Ok(Step::Roll);
            }
            self.wait(visible)?;
        }
    }

    /// How far it may read now.
    fn limit(&self, orders: &Orders, visible: Epoch) -> Epoch {
        let limit = match self.progress.waits_for_checkpoints {
            true => orders.reach.min(visible),
            false => visible,
        };
        orders.end.map_or(limit, |end| limit.min(end.through))
    }

    /// Whether what is prepared may be committed.
    pub(super) fn is_committable(&self) -> bool {
        let prepared = self.records.prepared.as_ref();
        prepared.is_some_and(|record| record.epoch <= self.database.durable_epoch_for(self.from.id))
    }

    /// Waits for a newer epoch than `seen`, an order, a checkpoint, the time that the sink is due, or the end of its view.
    fn wait(&mut self, seen: Epoch) -> Result<()> {
        let wakes = [self.sink.due(), self.ask_for_checkpoint(seen)?];
        let wake = wakes.into_iter().flatten().min();
        let mut visible = self.database.engine().progress().subscribe();
        let (orders, published, lost) = (&mut self.orders, &mut self.published, &mut self.lost);
        self.handle.block_on(async {
            let due = async {
                match wake {
                    Some(wake) => tokio::time::sleep_until(wake.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                _ = orders.changed() => Ok(()),
                newer = visible.wait_for(|epoch| *epoch > seen) => newer.map(drop).map_err(|_| stopped()),
                _ = published.changed() => Ok(()),
                () = due => Ok(()),
                error = lost => Err(error),
            }
        })
    }

    /// Asks for a checkpoint if there is something to write that waits for one; gives the time to ask again.
    fn ask_for_checkpoint(&mut self, visible: Epoch) -> Result<Option<Instant>> {
        if !self.progress.waits_for_checkpoints {
            return Ok(None);
        }
        let after = self.follower.epoch();
        self.has_news = self.has_news || self.contents.is_some() || !self.changes(after, visible)?.is_empty();
        if !self.has_news {
            return Ok(None);
        }
        let again = self.asked.map(|asked| asked + CHECKPOINT_INTERVAL);
        if let Some(again) = again.filter(|again| *again > Instant::now()) {
            return Ok(Some(again));
        }
        self.asked = Some(Instant::now());
        let (database, name) = (self.database.clone(), self.progress.name.clone());
        self.handle.spawn(async move {
            if let Err(error) = database.checkpoint(None).await {
                tracing::warn!("sink {name} waits for a checkpoint: {}", error.render());
            }
        });
        Ok(Some(Instant::now() + CHECKPOINT_INTERVAL))
    }

    /// Waits for a time, or for an order to end that does not wait.
    pub(super) fn pause(&mut self, time: Duration) {
        let ends = |orders: &Orders| orders.end.is_some_and(|end| end.until.is_some());
        let orders = &mut self.orders;
        let _ = self
            .handle
            .block_on(async { tokio::time::timeout(time, orders.wait_for(ends)).await });
    }
}

fn stopped() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "ENGINE-0001",
        "cannot follow changes: the engine has stopped",
    )
}
