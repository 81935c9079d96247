//! Versioned, typed, columnar state: what every table, view and operator of Cenote keeps its rows in.

mod digest;
mod epoch;
mod error;
mod float_sum;
mod hash;
pub mod wal;

pub use digest::Digest;
pub use epoch::Epoch;
pub use error::{Error, ErrorKind, Result};
pub use float_sum::ExactFloatSum;
pub use hash::{hash_rows, key_group, shard_of};
