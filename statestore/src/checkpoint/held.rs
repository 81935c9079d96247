//! The files of a checkpoint that were checked: each once, however many readers come to it.
//!
//! # Rules kept here
//! 1. Who comes to a file while it is checked waits for that.
//! 2. What is in memory as a whole is so for as long as a reader holds it; of longer files what is kept is little.
//! 3. A file that was checked is known for it: it need not be read once more to be called whole.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::whole::WholeFile;
use crate::Result;

/// The files of a checkpoint, by path.
#[derive(Debug, Default)]
pub(super) struct HeldFiles(Mutex<HashMap<String, Arc<Mutex<Held>>>>);

/// A file; locked while it is checked.
#[derive(Debug, Default)]
struct Held {
    was_whole: bool,
    short: Weak<WholeFile>,
    long: Option<Arc<WholeFile>>,
}

impl HeldFiles {
    /// A file, which is checked unless it was before and is still known.
    pub(super) fn get(&self, path: &str, check: impl FnOnce() -> Result<WholeFile>) -> Result<Arc<WholeFile>> {
        let file = self.0.lock().entry(path.to_string()).or_default().clone();
        let mut held = file.lock();
        if let Some(known) = held.long.clone().or_else(|| held.short.upgrade()) {
            return Ok(known);
        }
        let whole = Arc::new(check()?);
        held.was_whole = true;
        match whole.is_short() {
            true => held.short = Arc::downgrade(&whole),
            false => held.long = Some(whole.clone()),
        }
        Ok(whole)
    }

    /// Whether a file was checked, and was whole.
    pub(super) fn was_whole(&self, path: &str) -> bool {
        let file = self.0.lock().get(path).cloned();
        file.is_some_and(|file| file.lock().was_whole)
    }
}
