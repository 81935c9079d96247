//! Names that never repeat: of checkpoints, and of the server that owns a folder.
//!
//! # Rules kept here
//! 1. A [`CheckpointId`] begins with the time and ends with random digits: ids of one server ascend, also when its clock is set
//!    back, and no two are equal, across restarts, crashes and reused folders.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::temporal_conversions::timestamp_ms_to_datetime;

/// Digits behind the time.
const RANDOM_DIGITS: usize = 8;

/// `20261130T151923.123Z`.
const TIME_BYTES: usize = 20;

/// A random number. The standard library seeds its hash maps from the system's randomness; so does this.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

/// A new name for a server, to be kept in its data folder: 32 hexadecimal digits.
pub fn new_server_id() -> String {
    format!("{:016x}{:016x}", random(), random())
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// A time as RFC 3339 has it, in UTC with milliseconds.
pub(super) fn rfc3339(ms: i64) -> String {
    timestamp_ms_to_datetime(ms).map_or_else(String::new, |time| time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// The name of a checkpoint, which sorts by time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(String);

impl CheckpointId {
    /// A new id at a time, above `last`.
    pub(super) fn new(now_ms: i64, last: Option<&CheckpointId>, random: u64) -> CheckpointId {
        let form = |ms: i64| timestamp_ms_to_datetime(ms).map(|time| time.format("%Y%m%dT%H%M%S%.3fZ").to_string());
        let make = |time: String| CheckpointId(format!("{time}-{:0RANDOM_DIGITS$x}", random as u32));
        let id = make(form(now_ms.clamp(0, YEAR_9999_MS)).unwrap_or_default());
        match last {
            // The clock stands, or was set back: the time of the last one and a millisecond.
            Some(last) if last.0[..TIME_BYTES] >= id.0[..TIME_BYTES] => {
                make(form((last.time_ms() + 1).min(YEAR_9999_MS)).unwrap_or_default())
            }
            _ => id,
        }
    }

    /// Reads an id; `None` if it is none.
    pub fn parse(text: &str) -> Option<CheckpointId> {
        let shape = b"00000000T000000.000Z-xxxxxxxx";
        let fits = |(byte, shape): (u8, &u8)| match shape {
            b'0' => byte.is_ascii_digit(),
            b'x' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            shape => byte == *shape,
        };
        let is_id = text.len() == shape.len() && text.bytes().zip(shape).all(fits);
        let id = is_id.then(|| CheckpointId(text.to_string()))?;
        id.checked_time_ms().map(|_| id)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn time_ms(&self) -> i64 {
        self.checked_time_ms().unwrap_or_default()
    }

    fn checked_time_ms(&self) -> Option<i64> {
        let t = &self.0;
        let number = |range: std::ops::Range<usize>| t[range].parse::<i64>().ok();
        let (year, month, day) = (number(0..4)?, number(4..6)?, number(6..8)?);
        let (hour, minute, second, ms) = (number(9..11)?, number(11..13)?, number(13..15)?, number(16..19)?);
        let is_time = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 60;
        is_time.then(|| ((days(year, month, day) * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + ms)
    }
}

const YEAR_9999_MS: i64 = 253_402_300_799_999;

/// Days from 1970-01-01 to a date (Howard Hinnant's `days_from_civil`).
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
