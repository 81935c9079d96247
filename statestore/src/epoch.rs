//! The unit of atomicity, visibility and recovery.

use std::fmt;

/// A dense, monotonic number of a commit. It is not a time.
///
/// Epoch 0 is the empty database; the first commit is epoch 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The empty database, before any commit.
    pub const ZERO: Epoch = Epoch(0);

    /// The epoch after this one.
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }

    /// The epoch before this one; epoch 0 has none and stays.
    pub fn previous(self) -> Epoch {
        Epoch(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
