//! Which epochs are kept readable: a rule shared by every table of a database.
//!
//! # Rules kept here
//! 1. Epochs at and above [`Retention::horizon`] are readable. It moves only upwards, except that a pin
//!    below the retention rule holds it.
//! 2. A reader pins its epoch before it reads; pinning below the kept epochs fails.
//!
//! # Not here
//! Choosing the retention rule's epoch (the engine's committer), and dropping versions ([`crate::VersionedTable`]).

use crate::{Epoch, Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The oldest epoch to keep, and the readers that hold it back.
#[derive(Debug, Default)]
pub struct Retention {
    horizon: AtomicU64,
    kept_from: AtomicU64,
    pins: Mutex<BTreeMap<u64, usize>>,
}

/// Keeps one epoch readable until dropped.
#[derive(Debug)]
pub struct Pin {
    retention: Arc<Retention>,
    epoch: Epoch,
}

impl Retention {
    /// The oldest epoch that must stay readable, pins included.
    #[inline]
    pub fn horizon(&self) -> Epoch {
        Epoch(self.horizon.load(Ordering::Acquire))
    }

    /// The oldest epoch that the retention rule keeps, without regard to pins.
    pub fn kept_from(&self) -> Epoch {
        Epoch(self.kept_from.load(Ordering::Acquire))
    }

    /// Raises the retention rule's epoch; lower ones are ignored.
    pub fn keep_from(&self, epoch: Epoch) {
        let pins = self.pins.lock();
        self.kept_from.fetch_max(epoch.0, Ordering::AcqRel);
        self.update(&pins);
    }

    fn update(&self, pins: &BTreeMap<u64, usize>) {
        let kept_from = self.kept_from.load(Ordering::Acquire);
        let horizon = pins.keys().next().map_or(kept_from, |oldest| kept_from.min(*oldest));
        self.horizon.fetch_max(horizon, Ordering::AcqRel);
    }

    /// Pins an epoch.
    ///
    /// # Errors
    /// `Expired`: the epoch is older than what is kept.
    pub fn pin(self: &Arc<Self>, epoch: Epoch) -> Result<Pin> {
        let mut pins = self.pins.lock();
        if epoch < self.horizon() {
            return Err(expired(epoch, self.horizon()));
        }
        *pins.entry(epoch.0).or_insert(0) += 1;
        Ok(Pin {
            retention: self.clone(),
            epoch,
        })
    }
}

pub(crate) fn expired(epoch: Epoch, kept: Epoch) -> Error {
    Error::new(
        ErrorKind::Expired,
        "STATE-0104",
        format!("cannot read at epoch {epoch}: its history was dropped"),
    )
    .fact("asked for", format!("epoch {epoch}"))
    .fact("kept", format!("epoch {kept} and later"))
    .attempt("read a later epoch, or raise `retain_epochs` or `retain_time`")
}

impl Pin {
    /// The pinned epoch.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }
}

impl Clone for Pin {
    fn clone(&self) -> Pin {
        *self.retention.pins.lock().entry(self.epoch.0).or_insert(0) += 1;
        Pin {
            retention: self.retention.clone(),
            epoch: self.epoch,
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.retention.pins.lock();
        if let Some(count) = pins.get_mut(&self.epoch.0) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.epoch.0);
            }
        }
        self.retention.update(&pins);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_the_horizon_until_it_is_dropped() {
        let retention = Arc::new(Retention::default());
        let pin = retention.pin(Epoch(3)).unwrap();
        retention.keep_from(Epoch(10));
        assert_eq!(retention.horizon(), Epoch(3));
        drop(pin);
        assert_eq!(retention.horizon(), Epoch(10));
        assert_eq!(retention.pin(Epoch(9)).unwrap_err().kind(), ErrorKind::Expired);
    }
}
