//! Dates, times and intervals: the civil calendar, and PostgreSQL's ISO text of them.
//!
//! Days count from 1970-01-01 in the proleptic Gregorian calendar; year 0 is 1 BC.

use super::number::{write_i64, write_padded};
use super::zone::Zone;

pub(crate) const DAY_SECONDS: i64 = 86_400;
pub(crate) const DAY_MICROS: i64 = 86_400_000_000;
/// Days from 1970-01-01 to 2000-01-01, where PostgreSQL's binary forms start.
pub(crate) const POSTGRES_EPOCH_DAYS: i32 = 10_957;

/// Days of a civil date. Month and day must be in range.
pub(crate) fn days_of(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = (month as i64 + 9) % 12;
    let day_of_year = (153 * shifted + 2) / 5 + day as i64 - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Year, month and day of a day count.
pub(crate) fn civil_of(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    (year_of_era + era * 400 + (month <= 2) as i64, month, day)
}

/// Days of a month.
pub(crate) fn month_days(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Appends `2024-01-02`, without the era.
///
/// # Returns
/// Whether the date is before Christ: the caller appends ` BC` after what follows the date.
fn write_civil(out: &mut Vec<u8>, days: i64) -> bool {
    let (year, month, day) = civil_of(days);
    let is_bc = year <= 0;
    write_padded(out, if is_bc { 1 - year } else { year } as u64, 4);
    out.push(b'-');
    write_padded(out, month as u64, 2);
    out.push(b'-');
    write_padded(out, day as u64, 2);
    is_bc
}

/// Appends `04:05:06.789`; trailing zeros of the fraction are cut. `nanos` is not negative.
pub(crate) fn write_time(out: &mut Vec<u8>, nanos: u64) {
    let (seconds, fraction) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
    write_padded(out, seconds / 3600, 2);
    out.push(b':');
    write_padded(out, seconds / 60 % 60, 2);
    out.push(b':');
    write_padded(out, seconds % 60, 2);
    if fraction != 0 {
        out.push(b'.');
        write_padded(out, fraction, 9);
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

fn write_era(out: &mut Vec<u8>, is_bc: bool) {
    if is_bc {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a `date`.
pub(crate) fn write_date(out: &mut Vec<u8>, days: i64) {
    let is_bc = write_civil(out, days);
    write_era(out, is_bc);
}

/// A point in time: whole days and the nanoseconds since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) days: i64,
    pub(crate) nanos: u64,
}

impl Moment {
    /// From `ticks` since 1970, of which there are `per_second`.
    pub(crate) fn of_ticks(ticks: i64, per_second: i64) -> Moment {
        let per_day = per_second * DAY_SECONDS;
        let rest = ticks.rem_euclid(per_day) as u64;
        Moment {
            days: ticks.div_euclid(per_day),
            nanos: rest * (1_000_000_000 / per_second as u64),
        }
    }

    fn seconds(self) -> i64 {
        self.days * DAY_SECONDS + (self.nanos / 1_000_000_000) as i64
    }

    fn shifted(self, seconds: i32) -> Moment {
        let total = self.seconds() + seconds as i64;
        Moment {
            days: total.div_euclid(DAY_SECONDS),
            nanos: total.rem_euclid(DAY_SECONDS) as u64 * 1_000_000_000 + self.nanos % 1_000_000_000,
        }
    }
}

/// Appends a `timestamp` with `separator` between date and time (a space, or `T` in JSON).
pub(crate) fn write_timestamp(out: &mut Vec<u8>, moment: Moment, separator: u8) {
    let is_bc = write_civil(out, moment.days);
    out.push(separator);
    write_time(out, moment.nanos);
    write_era(out, is_bc);
}

/// Appends a `timestamptz` as the session's zone shows it.
pub(crate) fn write_timestamptz(out: &mut Vec<u8>, moment: Moment, zone: &Zone) {
    let offset = zone.offset_at(moment.seconds());
    let local = moment.shifted(offset);
    let is_bc = write_civil(out, local.days);
    out.push(b' ');
    write_time(out, local.nanos);
    write_offset(out, offset);
    write_era(out, is_bc);
}

fn write_offset(out: &mut Vec<u8>, offset: i32) {
    out.push(if offset < 0 { b'-' } else { b'+' });
    let seconds = offset.unsigned_abs() as u64;
    write_padded(out, seconds / 3600, 2);
    if !seconds.is_multiple_of(3600) {
        out.push(b':');
        write_padded(out, seconds / 60 % 60, 2);
    }
    if !seconds.is_multiple_of(60) {
        out.push(b':');
        write_padded(out, seconds % 60, 2);
    }
}

/// An `interval`: its three parts do not mix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) months: i32,
    pub(crate) days: i32,
    pub(crate) nanos: i64,
}

/// Appends an `interval` in PostgreSQL's own style: `1 year 2 mons -3 days +04:05:06.7`.
pub(crate) fn write_interval(out: &mut Vec<u8>, span: Span) {
    let start = out.len();
    let mut is_before = false;
    for (value, unit) in [
        (span.months / 12, "year"),
        (span.months % 12, "mon"),
        (span.days, "day"),
    ] {
        if value == 0 {
            continue;
        }
        if out.len() > start {
            out.push(b' ');
        }
        if is_before && value > 0 {
            out.push(b'+');
        }
        write_i64(out, value as i64);
        out.push(b' ');
        out.extend_from_slice(unit.as_bytes());
        if value != 1 {
            out.push(b's');
        }
        is_before = value < 0;
    }
    if span.nanos != 0 || out.len() == start {
        if out.len() > start {
            out.push(b' ');
        }
        if span.nanos < 0 {
            out.push(b'-');
        } else if is_before {
            out.push(b'+');
        }
        write_time(out, span.nanos.unsigned_abs());
    }
}
