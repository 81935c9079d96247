//! When checkpoints are taken by themselves, what the log may drop after one, and how the last one went.
//!
//! # Rules kept here
//! 1. Nothing is written where nothing has changed: a record of the log is a change, an epoch alone is none.
//! 2. The log keeps what the newest checkpoints need, as many as are kept: a start may have to pass over damaged ones.

use super::{NextRecord, SECTION_LOG, blocking};
use crate::database::Database;
use cenote_statestore::checkpoint::Manifest;
use cenote_statestore::{Error, Result};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How checkpoints have gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// The first record of the log that is in none.
    pub(crate) next_record: Option<u64>,
    /// Checkpoints that were published since the start, and that failed.
    pub(crate) published: u64,
    pub(crate) failed: u64,
    /// Why the last one failed; `None`: it did not.
    pub(crate) failure: Option<Error>,
    /// Of the last one that was published.
    pub(crate) last: Option<Published>,
}

/// What a published checkpoint took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Published {
    pub(crate) epoch: u64,
    pub(crate) at: Instant,
    pub(crate) took: Duration,
    pub(crate) bytes_new: u64,
}

impl Progress {
    pub(crate) fn note(&mut self, outcome: &Result<Manifest>, took: Duration) {
        match outcome {
            Ok(manifest) => {
                self.published += 1;
                self.failure = None;
                self.next_record = next_record(manifest).or(self.next_record);
                self.last = Some(Published {
                    epoch: manifest.epoch,
                    at: Instant::now(),
                    took,
                    bytes_new: manifest.bytes_new,
                });
            }
            Err(error) => {
                self.failed += 1;
                self.failure = Some(error.clone());
            }
        }
    }
}

/// Where the log goes on behind a checkpoint, if it says so.
fn next_record(manifest: &Manifest) -> Option<u64> {
    let next: NextRecord = serde_json::from_value(manifest.sections.get(SECTION_LOG)?.clone()).ok()?;
    Some(next.record)
}

/// The first record that a start from one of the newest checkpoints needs; `None`: all that there are.
fn needed_from(mut manifests: Vec<Manifest>, count: usize) -> Option<u64> {
    manifests.sort_by_key(|manifest| std::cmp::Reverse(manifest.sequence));
    let newest = manifests.iter().take(count.max(1));
    newest.map(next_record).min().flatten()
}

impl Database {
    /// Takes a checkpoint every so often, while the database is there.
    pub async fn checkpoint_every(self: Arc<Self>, interval: Duration) {
        let database: Weak<Database> = Arc::downgrade(&self);
        drop(self);
        let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(database) = database.upgrade() else { return };
            database.checkpoint_if_changed().await;
        }
    }

    /// Takes a checkpoint if the log has gone on since the last one. That it failed is told in the log, in metrics and by `/readyz`.
    pub async fn checkpoint_if_changed(self: &Arc<Self>) {
        let sealed = match self.engine().read_sealed_state(Vec::new()).await {
            Ok((sealed, _)) => sealed,
            Err(_) => return,
        };
        let known = self.checkpointer().progress().next_record;
        if sealed.next_record.is_none() || sealed.next_record == known {
            return;
        }
        if let Err(error) = self.checkpoint(None).await {
            tracing::error!("no checkpoint was taken: {}", error.render());
        }
    }

    /// Lets the log drop what no start needs any more.
    pub(super) async fn forget_log(self: &Arc<Self>) -> Result<()> {
        let database = self.clone();
        let manifests = blocking(move || database.checkpointer().store()?.checkpoints().all()).await?;
        let whole = manifests
            .into_iter()
            .filter_map(|(_, manifest)| manifest.ok())
            .collect();
        match needed_from(whole, self.config().checkpoint_retain) {
            Some(record) => self.engine().forget_log_before(record).await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cenote_statestore::checkpoint::Kind;

    fn manifest(sequence: u64, record: Option<u64>) -> Manifest {
        let mut text = serde_json::json!({
            "checksum": "", "format": "", "version": 1, "id": "", "sequence": sequence, "server": "", "software": "",
            "epoch": 1, "time": "", "time_ms": 0, "kind": Kind::Checkpoint, "catalog_version": 0, "bytes": 0,
            "bytes_new": 0, "tables": [], "sections": {}
        });
        if let Some(record) = record {
            text["sections"]["log"] = serde_json::json!({"record": record, "last_collection": 20});
        }
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn the_log_keeps_what_as_many_checkpoints_need_as_are_kept() {
        let of = |records: &[Option<u64>], count| {
            let numbered = records.iter().zip(1..);
            needed_from(
                numbered.map(|(record, sequence)| manifest(sequence, *record)).collect(),
                count,
            )
        };
        assert_eq!(of(&[Some(5), Some(9), Some(12)], 1), Some(12));
        assert_eq!(of(&[Some(5), Some(9), Some(12)], 2), Some(9));
        assert_eq!(of(&[Some(5)], 3), Some(5));
        assert_eq!(of(&[None, Some(9)], 2), None, "an old one that does not say needs all");
        assert_eq!(of(&[None, Some(9)], 1), Some(9));
        assert_eq!(of(&[], 2), None);
    }
}
