//! Whether a statement's effect is on its way, so that breaking it off comes too late.
//!
//! # Rules kept here
//! 1. One of two comes first: the statement makes its effect, or its client gives it up. The other one learns of it.
//!    What a client is told is what happened.

use cenote_statestore::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU8, Ordering};

const OPEN: u8 = 0;
const MADE: u8 = 1;
const GIVEN_UP: u8 = 2;

/// Of one statement, shared by those who run it and those who may break it off.
#[derive(Debug, Default)]
pub struct Commitment(AtomicU8);

impl Commitment {
    /// From here on the statement has its effect.
    ///
    /// # Errors
    /// `Unavailable` 57014: it was given up before, and must have none.
    pub(crate) fn make(&self) -> Result<()> {
        match self.0.compare_exchange(OPEN, MADE, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) | Err(MADE) => Ok(()),
            Err(_) => Err(canceled()),
        }
    }

    /// Gives the statement up.
    ///
    /// # Returns
    /// `false`: it has its effect; wait for it.
    pub fn give_up(&self) -> bool {
        self.0
            .compare_exchange(OPEN, GIVEN_UP, Ordering::AcqRel, Ordering::Acquire)
            != Err(MADE)
    }

    /// The effect is there, or could not be made: what comes next can be broken off again.
    pub(super) fn end(&self) {
        let _ = self.0.compare_exchange(MADE, OPEN, Ordering::AcqRel, Ordering::Acquire);
    }
}

pub(crate) fn canceled() -> Error {
    let message = "canceling statement due to user request";
    Error::new(ErrorKind::Unavailable, "SQL-0406", message).sqlstate("57014")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_first_decides() {
        let made = Commitment::default();
        made.make().unwrap();
        assert!(!made.give_up());
        made.end();
        assert!(made.give_up());
        assert_eq!(made.make().unwrap_err().state(), "57014");
        made.end();
        assert!(made.make().is_err(), "what was given up stays so");
    }
}
