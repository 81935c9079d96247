//! Versioned, typed, columnar state: what every table, view and operator of Cenote keeps its rows in.
//!
//! # Owns
//! Rows and their signed weights ([`Changes`]), [`Epoch`]s, hashing of keys, keyed in-memory storage
//! ([`RowStore`]), tables that many readers see at one epoch while a writer moves on
//! ([`VersionedTable`]), order-independent digests, the write-ahead log, and the error type of the
//! whole project.
//!
//! # Not here
//! SQL, operators, connectors and the network. This crate knows none of them.

#[cfg(feature = "object-store")]
mod calls;
mod changes;
pub mod checkpoint;
mod column;
mod digest;
mod epoch;
mod error;
mod float_sum;
pub mod forms;
mod hash;
mod index;
mod memory;
mod moments;
mod natural;
mod retention;
mod rows;
pub mod spill;
mod table;
pub mod wal;

pub use changes::{Changes, Weights};
pub use column::{Column, Stored, storable};
pub use digest::Digest;
pub use epoch::Epoch;
pub use error::{Error, ErrorKind, Result};
pub use float_sum::ExactFloatSum;
pub use hash::{KEY_GROUPS, hash_rows, key_group, other_hashes, shard_of};
pub use index::{KeyIndex, NO_SLOT, with_spare};
pub use memory::{LOOKS_APART, ProcessMemory};
pub use moments::{ExactMoments, FloatMoments, Spread};
pub use retention::{Pin, Retention};
pub use rows::{RowStore, RowView, room_for, rows_at_once};
pub use table::{
    Delta, DeltaRows, Follower, Lookup, Scan, StoredRow, TableSchema, TableStatistics, UniqueKey, VersionedTable,
};
