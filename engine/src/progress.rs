//! How far the dataflows have come: the epoch that readers may read, and the lag that writers wait for.

use cenote_statestore::Epoch;
use crossbeam_channel::{Receiver, Sender};
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

/// Written by worker 0, read by everybody.
#[derive(Debug)]
pub struct Progress {
    visible: watch::Sender<Epoch>,
    /// Every epoch up to here is finished by every view, those still being created included.
    finished: Mutex<Epoch>,
    finished_moved: Condvar,
    /// Has a token after the visible epoch has moved.
    moved: Sender<()>,
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
