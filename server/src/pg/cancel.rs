//! Keys that let a second connection cancel the statement of a first.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use tokio::sync::watch;

/// The keys of all open connections.
#[derive(Clone, Default)]
pub(super) struct CancelKeys(Arc<Mutex<Keys>>);

#[derive(Default)]
struct Keys {
    last_process: i32,
    /// Keyed by SipHash with keys of the operating system's random numbers: its values cannot be foretold.
    random: RandomState,
    open: HashMap<i32, Lock>,
}

struct Lock {
    secret: i32,
    cancel: watch::Sender<u64>,
}

/// One connection's key; withdrawn when dropped.
pub(super) struct CancelKey {
    keys: CancelKeys,
    /// What `pg_backend_pid` and BackendKeyData call the process.
    pub(super) process: i32,
    /// What a cancel request must know.
    pub(super) secret: i32,
}

impl CancelKeys {
    /// Issues the key of a new connection.
    ///
    /// # Returns
    /// The key, and a channel that changes at each request to cancel.
    pub(super) fn issue(&self) -> (CancelKey, watch::Receiver<u64>) {
        let mut keys = self.0.lock();
        let mut process = keys.last_process;
        loop {
            process = process.checked_add(1).unwrap_or(1);
            if !keys.open.contains_key(&process) {
                break;
            }
        }
        keys.last_process = process;
        let secret = keys
            .random
            .hash_one((process, keys.open.len(), std::time::Instant::now())) as i32;
        let (cancel, cancelled) = watch::channel(0);
        keys.open.insert(process, Lock { secret, cancel });
        (
            CancelKey {
                keys: self.clone(),
                process,
                secret,
            },
            cancelled,
        )
    }

    /// Cancels what the connection runs, if the secret is right. A wrong one is told nothing.
    pub(super) fn cancel(&self, process: i32, secret: i32) {
        let keys = self.0.lock();
        if let Some(lock) = keys.open.get(&process).filter(|lock| lock.secret == secret) {
            lock.cancel.send_modify(|count| *count += 1);
        }
    }
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        self.keys.0.lock().open.remove(&self.process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_secret_cancels_and_only_its_own_connection() {
        let keys = CancelKeys::default();
        let (first, first_cancelled) = keys.issue();
        let (_second, second_cancelled) = keys.issue();
        keys.cancel(first.process, first.secret.wrapping_add(1));
        assert!(!first_cancelled.has_changed().unwrap());
        keys.cancel(first.process, first.secret);
        assert!(first_cancelled.has_changed().unwrap());
        assert!(!second_cancelled.has_changed().unwrap());
    }

    #[test]
    fn a_key_is_withdrawn_with_its_connection() {
        let keys = CancelKeys::default();
        let (key, cancelled) = keys.issue();
        drop(key);
        assert!(cancelled.has_changed().is_err());
        assert!(keys.0.lock().open.is_empty());
    }
}
