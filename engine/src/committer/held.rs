//! Batches of sources that wait for views to catch up, to be of one epoch when their turn comes.

use super::{Request, Sealing};
use cenote_statestore::Epoch;
use std::collections::VecDeque;

/// Epochs of sources that the views may be behind with before batches wait: one to work on, and one to go on with.
const SOURCE_EPOCHS_MAX: usize = 2;

/// Batches that wait, and the epochs that they wait for.
#[derive(Default)]
pub(crate) struct Held {
    batches: VecDeque<Request>,
    /// Epochs of sources that are not visible yet.
    epochs: VecDeque<Epoch>,
}

impl Held {
    pub(super) fn push(&mut self, batch: Request) {
        self.batches.push_back(batch);
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Notes that rows of a source are in an epoch.
    pub(super) fn committed(&mut self, epoch: Epoch) {
        self.epochs.push_back(epoch);
    }

    /// Gives the batches whose turn has come, those of one source as one.
    ///
    /// # Arguments
    /// - `now`: they are not to wait any longer.
    pub(super) fn due(&mut self, visible: Epoch, now: bool) -> Vec<Request> {
        while self.epochs.front().is_some_and(|epoch| *epoch <= visible) {
            self.epochs.pop_front();
        }
        match now || self.epochs.len() < SOURCE_EPOCHS_MAX {
            true => merge_sources(self.batches.drain(..)),
            false => Vec::new(),
        }
    }
}

/// Joins the batches of each source into one epoch, in the order that the sources' first batches came.
fn merge_sources(batches: impl Iterator<Item = Request>) -> Vec<Request> {
    let mut merged: Vec<Request> = Vec::new();
    for request in batches {
        let Request::Source {
            source, commit, permit, ..
        } = request
        else {
            merged.push(request);
            continue;
        };
        let earlier = merged.iter_mut().find_map(|earlier| match earlier {
            Request::Source {
                source: its,
                commit: into,
                ..
            } if *its == source => Some(into),
            _ => None,
        });
        match earlier {
            Some(into) => into.absorb(commit),
            None => merged.push(Request::Source {
                source,
                commit,
                sealing: Sealing::AtOnce,
                permit,
            }),
        }
    }
    merged
}
