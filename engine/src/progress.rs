//! How far the dataflows have come: the epoch that readers may read, and the lag that writers wait for.

use cenote_statestore::Epoch;
use crossbeam_channel::{Receiver, Sender};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::SystemTime;
use tokio::sync::watch;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

/// Written by worker 0, read by everybody.
#[derive(Debug)]
pub struct Progress {
    visible: watch::Sender<Epoch>,
    /// Every epoch up to here is finished by every view, those still being created included.
    finished: Mutex<Epoch>,
    finished_moved: Condvar,
    /// Has a token after the visible epoch has moved.
    moved: Sender<()>,
    /// When epochs were sealed, in microseconds since 1970, both ascending.
    sealed: Mutex<VecDeque<(Epoch, i64)>>,
}

impl Progress {
    /// # Returns
    /// It, and what the committer hears of the visible epoch by.
    pub(crate) fn new(epoch: Epoch) -> (Progress, Receiver<()>) {
        let (moved, hears) = crossbeam_channel::bounded(1);
        let progress = Progress {
            visible: watch::Sender::new(epoch),
            finished: Mutex::new(epoch),
            finished_moved: Condvar::new(),
            moved,
            sealed: Mutex::new(VecDeque::from([(epoch, now())])),
        };
        (progress, hears)
    }

    /// The newest epoch that every live view has sealed.
    pub fn visible(&self) -> Epoch {
        *self.visible.borrow()
    }

    /// To wait for epochs to become visible.
    pub fn subscribe(&self) -> watch::Receiver<Epoch> {
        self.visible.subscribe()
    }

    pub(crate) fn note_sealed(&self, epoch: Epoch) {
        let mut sealed = self.sealed.lock();
        // A clock that is set back does not reorder epochs.
        let time = sealed.back().map_or(0, |(_, last)| *last).max(now());
        sealed.push_back((epoch, time));
    }

    /// Drops the times of epochs before one.
    pub(crate) fn forget_sealed_before(&self, epoch: Epoch) {
        let mut sealed = self.sealed.lock();
        while sealed.pop_front_if(|(first, _)| *first < epoch).is_some() {}
    }

    /// When epochs from one on were sealed: epochs and microseconds since 1970, both ascending. Those that are kept no more are
    /// not among them.
    pub fn sealed_times(&self) -> Vec<(Epoch, i64)> {
        self.sealed.lock().iter().copied().collect()
    }

    /// The newest epoch that was sealed at a time or before; `None`: those that were are not kept.
    ///
    /// # Arguments
    /// - `time`: microseconds since 1970.
    pub fn sealed_at(&self, time: i64) -> Option<Epoch> {
        let sealed = self.sealed.lock();
        let later = sealed.partition_point(|(_, sealed)| *sealed <= time);
        let found = later.checked_sub(1).map(|last| sealed[last].0);
        found.map(|epoch| epoch.min(self.visible()))
    }

    pub(crate) fn publish(&self, visible: Epoch, finished: Epoch) {
        let has_moved = self.visible.send_if_modified(|epoch| {
            let moved = visible > *epoch;
            *epoch = visible.max(*epoch);
            moved
        });
        if has_moved {
            // A token that is there says it as well.
            let _ = self.moved.try_send(());
        }
        let mut now = self.finished.lock();
        if finished > *now {
            *now = finished;
            self.finished_moved.notify_all();
        }
    }

    /// Every epoch up to here is finished by every view.
    pub(crate) fn finished(&self) -> Epoch {
        *self.finished.lock()
    }

    /// Blocks until `enough` holds of the finished epoch.
    pub(crate) fn wait_finished(&self, enough: impl Fn(Epoch) -> bool) {
        let mut finished = self.finished.lock();
        while !enough(*finished) {
            self.finished_moved.wait(&mut finished);
        }
    }
}
