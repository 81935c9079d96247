//! State beyond memory: rows of tables and operators that are kept in an ordered store of bytes until they are needed again.
//!
//! # Owns
//! The [`Backend`] trait and the stores behind it; how typed rows are written there ([`SpillTable`]); how much may stay in
//! memory ([`Budget`]).
//!
//! # Rules kept here
//! 1. What is spilled is no durable copy: checkpoints and the log are. A store begins empty with each start.
//! 2. A row is found by the hash of its key: rows of one hash lie side by side, in the order of the hash's lower half, then its
//!    upper half. That is the order in which [`crate::KeyIndex`] stands, so both can be read together range by range.
//!
//! # Not here
//! Which rows leave memory and when: tables (`crate::table`) and operators (the engine) know.
//!
//! # Source
//! A store of key and value with sorted runs, on disk or in an object store: O'Neil et al., "The Log-Structured Merge-Tree", Acta Informatica 1996.

mod backend;
mod budget;
mod map;
#[cfg(feature = "slatedb")]
mod object;
#[cfg(feature = "rocksdb")]
mod rocks;
mod table;

pub use backend::{Backend, Entries, Snapshot, Writes};
pub use budget::{Budget, Share};
pub use map::Map;
#[cfg(feature = "slatedb")]
pub use object::{ObjectMemory, Objects};
#[cfg(feature = "rocksdb")]
pub use rocks::Rocks;
pub use table::{SpillRows, SpillTable, Spilled};

use std::sync::Arc;

/// Where tables and operators may spill to, and how much of them stays in memory.
#[derive(Clone, Debug)]
pub struct Spill {
    /// The store.
    pub backend: Arc<dyn Backend>,
    /// Memory for all that spill there, together.
    pub budget: Arc<Budget>,
}

impl Spill {
    /// A place to spill to.
    ///
    /// # Arguments
    /// - `memory_bytes`: what all that spill there may keep in memory, together.
    pub fn new(backend: Arc<dyn Backend>, memory_bytes: usize) -> Spill {
        Spill {
            backend,
            budget: Arc::new(Budget::new(memory_bytes)),
        }
    }
}

#[cfg(test)]
mod tests;
