//! The time zone that a session shows and reads timestamps in.

use super::calendar::DAY_SECONDS;
use arrow::array::timezone::Tz;
use cenote_statestore::{Error, ErrorKind, Result};
use chrono::{DateTime, NaiveDateTime, Offset, TimeZone};

/// A time zone.
#[derive(Clone, Copy, Debug, Default)]
pub enum Zone {
    /// UTC.
    #[default]
    Utc,
    /// So many seconds east of UTC, always.
    Fixed(i32),
    /// A zone of the IANA database.
    Named(Tz),
}

/// Abbreviations that PostgreSQL's default list knows, in hours east of UTC.
const ABBREVIATIONS: &[(&str, i32)] = &[
    ("utc", 0),
    ("gmt", 0),
    ("ut", 0),
    ("z", 0),
    ("zulu", 0),
    ("uct", 0),
    ("wet", 0),
    ("est", -5),
    ("edt", -4),
    ("cst", -6),
    ("cdt", -5),
    ("mst", -7),
    ("mdt", -6),
    ("pst", -8),
    ("pdt", -7),
    ("akst", -9),
    ("akdt", -8),
    ("hst", -10),
    ("bst", 1),
    ("west", 1),
    ("cet", 1),
    ("cest", 2),
    ("eet", 2),
    ("eest", 3),
    ("msk", 3),
    ("jst", 9),
    ("kst", 9),
    ("aest", 10),
    ("nzst", 12),
    ("nzdt", 13),
];

impl Zone {
    /// The zone of this name: `UTC`, an abbreviation, or a name of the IANA database such as `Europe/Berlin`.
    ///
    /// # Errors
    /// `Invalid`, SQLSTATE 22023: there is no such zone.
    pub fn parse(name: &str) -> Result<Zone> {
        if let Some(zone) = Zone::of_abbreviation(name) {
            return Ok(zone);
        }
        // A plain offset has a sign of its own in POSIX, against the habit everywhere else: not a zone's name here.
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic());
        let tz = is_name
            .then(|| name.parse::<Tz>().ok().or_else(|| capitalised(name).parse().ok()))
            .flatten();
        tz.map(Zone::Named).ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                "VALUE-0006",
                format!("time zone \"{}\" not recognized", name.to_lowercase()),
            )
            .sqlstate("22023")
            .attempt("give a name of the IANA database, such as Europe/Berlin")
        })
    }

    pub(crate) fn of_abbreviation(name: &str) -> Option<Zone> {
        let found = ABBREVIATIONS.iter().find(|(short, _)| short.eq_ignore_ascii_case(name));
        found.map(|(_, hours)| {
            if *hours == 0 {
                Zone::Utc
            } else {
                Zone::Fixed(hours * 3600)
            }
        })
    }

    /// Seconds east of UTC at an instant, given in seconds since 1970.
    pub(crate) fn offset_at(&self, instant: i64) -> i32 {
        match self {
            Zone::Utc => 0,
            Zone::Fixed(offset) => *offset,
            Zone::Named(tz) => tz.offset_from_utc_datetime(&naive(instant)).fix().local_minus_utc(),
        }
    }

    /// Seconds east of UTC at a local time, given as seconds since 1970 as if it were UTC.
    ///
    /// A local time that a change of clocks skipped is read with the offset before it, one that occurs twice with
    /// the offset after it, as PostgreSQL does.
    pub(crate) fn offset_at_local(&self, local: i64) -> i32 {
        let Zone::Named(tz) = self else {
            return self.offset_at(local);
        };
        match tz.offset_from_local_datetime(&naive(local)) {
            chrono::LocalResult::Single(offset) => offset.fix().local_minus_utc(),
            chrono::LocalResult::Ambiguous(_, after) => after.fix().local_minus_utc(),
            chrono::LocalResult::None => self.offset_at(local - DAY_SECONDS),
        }
    }
}

/// A date and time that chrono holds; beyond its range the nearest, where zones no longer change.
fn naive(seconds: i64) -> NaiveDateTime {
    const LIMIT: i64 = 200_000 * 366 * DAY_SECONDS / 2;
    let held = DateTime::from_timestamp(seconds.clamp(-LIMIT, LIMIT), 0);
    held.unwrap_or(DateTime::UNIX_EPOCH).naive_utc()
}

/// `america/new_york` as `America/New_York`: zones are found whatever the case.
fn capitalised(name: &str) -> String {
    let mut is_first = true;
    let letter = |character: char| {
        let changed = if is_first {
            character.to_ascii_uppercase()
        } else {
            character.to_ascii_lowercase()
        };
        is_first = matches!(character, '/' | '_' | '-');
        changed
    };
    name.chars().map(letter).collect()
}
