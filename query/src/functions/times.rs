//! Arithmetic of dates, times and intervals.
//!
//! Timestamps are microseconds; the calendar is [`crate::pgtext`]'s. The zone of a session is UTC.
//!
//! # Not here
//! Zones and truncating: [`super::zones`]. Fields of EXTRACT: [`super::fields`]. Values of parts: [`super::making`].

use super::overloads::{Entry, Kind, Overload, failed, gives};
use crate::pgtext::calendar::{DAY_MICROS, civil_of, month_days};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, TimestampMicrosecondArray};
use arrow::datatypes::{
    DataType, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use datafusion::error::{DataFusionError, Result};
use std::sync::Arc;

use Kind::{Any, Date, Float, Interval, Stamp, StampTz, Time};

const DAY_NANOS: i128 = 86_400_000_000_000;
const MONTH_DAYS: i128 = 30;

pub(super) const FUNCTIONS: &[Entry] = &[
    (
        "age",
        &[],
        &[
            Overload::own(&[Stamp, Stamp], gives::INTERVAL, |a| of_stamps(a, age)),
            Overload::own(&[StampTz, StampTz], gives::INTERVAL, |a| of_stamps(a, age)),
        ],
    ),
    (
        "cenote_timestamp_difference",
        &[],
        &[
            Overload::own(&[Stamp, Stamp], gives::INTERVAL, |a| of_stamps(a, difference)),
            Overload::own(&[StampTz, StampTz], gives::INTERVAL, |a| of_stamps(a, difference)),
        ],
    ),
    (
        "justify_days",
        &[],
        &[Overload::own(&[Interval], gives::INTERVAL, |a| {
            of_interval(a, justify_days)
        })],
    ),
    (
        "justify_hours",
        &[],
        &[Overload::own(&[Interval], gives::INTERVAL, |a| {
            of_interval(a, justify_hours)
        })],
    ),
    (
        "justify_interval",
        &[],
        &[Overload::own(&[Interval], gives::INTERVAL, |a| {
            of_interval(a, justify_interval)
        })],
    ),
    (
        "cenote_interval_times",
        &[],
        &[Overload::own(&[Interval, Float], gives::INTERVAL, |a| scaled(a, false))],
    ),
    (
        "cenote_interval_divided",
        &[],
        &[Overload::own(&[Interval, Float], gives::INTERVAL, |a| scaled(a, true))],
    ),
    (
        "cenote_time_plus",
        &[],
        &[Overload::own(&[Time, Interval], gives::TIME, |a| shifted_time(a, 1))],
    ),
    (
        "cenote_time_minus",
        &[],
        &[Overload::own(&[Time, Interval], gives::TIME, |a| shifted_time(a, -1))],
    ),
    (
        "cenote_interval_of_time",
        &[],
        &[Overload::own(&[Time], gives::INTERVAL, |a| {
            let times = a[0].as_primitive::<Time64MicrosecondType>();
            let spans: PrimitiveArray<IntervalMonthDayNanoType> =
                times.unary(|micros| IntervalMonthDayNano::new(0, 0, micros * 1000));
            Ok(Arc::new(spans))
        })],
    ),
    (
        "cenote_time_of_interval",
        &[],
        &[Overload::own(&[Interval], gives::TIME, |a| {
            let spans = a[0].as_primitive::<IntervalMonthDayNanoType>();
            let times: PrimitiveArray<Time64MicrosecondType> =
                spans.unary(|span| (span.nanoseconds / 1000).rem_euclid(DAY_MICROS));
            Ok(Arc::new(times))
        })],
    ),
    (
        "isfinite",
        &[],
        &[
            Overload::own(&[Date], gives::BOOL, yes),
            Overload::own(&[Stamp], gives::BOOL, yes),
            Overload::own(&[StampTz], gives::BOOL, yes),
            Overload::own(&[Interval], gives::BOOL, yes),
        ],
    ),
    (
        "cenote_overlaps",
        &[],
        &[
            Overload::own(&[Stamp, Stamp, Stamp, Stamp], gives::BOOL, overlaps),
            Overload::own(&[StampTz, StampTz, StampTz, StampTz], gives::BOOL, overlaps),
            Overload::own(&[Time, Time, Time, Time], gives::BOOL, |a| {
                let times: Vec<ArrayRef> = a.iter().map(as_micros).collect::<Result<_>>()?;
                overlaps(&times)
            }),
        ],
    ),
    (
        "pg_typeof",
        &[],
        &[Overload::own(&[Any], gives::TEXT, |a| {
            let name = crate::types::type_name(a[0].data_type());
            let name = if *a[0].data_type() == DataType::Null {
                "unknown"
            } else {
                name.split('(').next().unwrap_or(&name)
            };
            Ok(Arc::new(arrow::array::StringArray::from(vec![name; a[0].len()])))
        })],
    ),
];

pub(super) fn out_of_range(what: &str) -> DataFusionError {
    failed("22008", format!("{what} out of range"))
}

fn yes(a: &[ArrayRef]) -> Result<ArrayRef> {
    Ok(Arc::new(a[0].nulls().map_or_else(
        || BooleanArray::from(vec![true; a[0].len()]),
        |nulls| nulls.iter().map(|is_valid| is_valid.then_some(true)).collect(),
    )))
}

/// Timestamps of either kind, or times, as microseconds.
fn as_micros(array: &ArrayRef) -> Result<ArrayRef> {
    let number = arrow::compute::cast(array, &DataType::Int64)?;
    Ok(arrow::compute::cast(
        &number,
        &DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None),
    )?)
}

fn stamps(array: &ArrayRef) -> &TimestampMicrosecondArray {
    array.as_primitive::<TimestampMicrosecondType>()
}

fn of_stamps(a: &[ArrayRef], compute: fn(i64, i64) -> Result<IntervalMonthDayNano>) -> Result<ArrayRef> {
    let pairs = stamps(&a[0]).iter().zip(stamps(&a[1]).iter());
    let computed = pairs.map(|(a, b)| a.zip(b).map(|(a, b)| compute(a, b)).transpose());
    Ok(Arc::new(
        computed.collect::<Result<PrimitiveArray<IntervalMonthDayNanoType>>>()?,
    ))
}

type OfInterval = fn(IntervalMonthDayNano) -> Result<IntervalMonthDayNano>;

fn of_interval(a: &[ArrayRef], compute: OfInterval) -> Result<ArrayRef> {
    let spans = a[0].as_primitive::<IntervalMonthDayNanoType>().iter();
    let computed = spans.map(|span| span.map(compute).transpose());
    Ok(Arc::new(
        computed.collect::<Result<PrimitiveArray<IntervalMonthDayNanoType>>>()?,
    ))
}

/// An interval of parts that may be too large for it.
pub(super) fn span(months: i128, days: i128, nanos: i128) -> Result<IntervalMonthDayNano> {
    let overflow = || out_of_range("interval");
    Ok(IntervalMonthDayNano::new(
        months.try_into().map_err(|_| overflow())?,
        days.try_into().map_err(|_| overflow())?,
        nanos.try_into().map_err(|_| overflow())?,
    ))
}

/// The time between two instants: days of 24 hours, and the rest.
fn difference(a: i64, b: i64) -> Result<IntervalMonthDayNano> {
    let micros = a as i128 - b as i128;
    span(0, micros / DAY_MICROS as i128, micros % DAY_MICROS as i128 * 1000)
}

/// The time between two instants in years, months and days, as people count.
fn age(a: i64, b: i64) -> Result<IntervalMonthDayNano> {
    if a < b {
        let IntervalMonthDayNano {
            months,
            days,
            nanoseconds,
        } = age_of(b, a)?;
        return span(-(months as i128), -(days as i128), -(nanoseconds as i128));
    }
    age_of(a, b)
}

/// [`age`] of a later instant and an earlier one: what is short of a month is lent by the earlier one's month.
fn age_of(late: i64, early: i64) -> Result<IntervalMonthDayNano> {
    let parts = |micros: i64| {
        let (year, month, day) = civil_of(micros.div_euclid(DAY_MICROS));
        (year, month, day as i64, micros.rem_euclid(DAY_MICROS))
    };
    let ((y1, m1, d1, t1), (y2, m2, d2, t2)) = (parts(late), parts(early));
    let (mut months, mut days, mut micros) = ((y1 - y2) * 12 + m1 as i64 - m2 as i64, d1 - d2, t1 - t2);
    if micros < 0 {
        micros += DAY_MICROS;
        days -= 1;
    }
    if days < 0 {
        days += month_days(y2, m2) as i64;
        months -= 1;
    }
    span(months as i128, days as i128, micros as i128 * 1000)
}

/// Carries whole units of `size` from a smaller part to a larger, so that both have one sign.
fn carried(large: i128, small: i128, size: i128) -> (i128, i128) {
    let whole = small / size;
    let (mut large, mut small) = (large + whole, small - whole * size);
    if large > 0 && small < 0 {
        large -= 1;
        small += size;
    } else if large < 0 && small > 0 {
        large += 1;
        small -= size;
    }
    (large, small)
}

fn justify_days(of: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let (months, days) = carried(of.months as i128, of.days as i128, MONTH_DAYS);
    span(months, days, of.nanoseconds as i128)
}

fn justify_hours(of: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    let (days, nanos) = carried(of.days as i128, of.nanoseconds as i128, DAY_NANOS);
    span(of.months as i128, days, nanos)
}

fn justify_interval(of: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    // All as time, which has one sign, and taken apart again.
    let total = (of.months as i128 * MONTH_DAYS + of.days as i128) * DAY_NANOS + of.nanoseconds as i128;
    let days = total / DAY_NANOS;
    span(days / MONTH_DAYS, days % MONTH_DAYS, total % DAY_NANOS)
}

fn scaled(a: &[ArrayRef], divides: bool) -> Result<ArrayRef> {
    let spans = a[0].as_primitive::<IntervalMonthDayNanoType>();
    let factors = a[1].as_primitive::<Float64Type>();
    let computed = spans
        .iter()
        .zip(factors.iter())
        .map(|(span, factor)| match span.zip(factor) {
            Some((_, 0.0)) if divides => Err(failed("22012", "division by zero")),
            Some((span, factor)) => times(span, factor, divides).map(Some),
            None => Ok(None),
        });
    Ok(Arc::new(
        computed.collect::<Result<PrimitiveArray<IntervalMonthDayNanoType>>>()?,
    ))
}

/// An interval so many times: what is left of months becomes days, and of days time, as `interval_mul` has it.
fn times(of: IntervalMonthDayNano, factor: f64, divides: bool) -> Result<IntervalMonthDayNano> {
    let by = |part: f64| if divides { part / factor } else { part * factor };
    let (months, days, micros) = (
        by(of.months as f64),
        by(of.days as f64),
        by(of.nanoseconds as f64 / 1000.0),
    );
    let too_large = |part: f64| !part.is_finite() || part.abs() >= i32::MAX as f64;
    if too_large(months) || too_large(days) {
        return Err(out_of_range("interval"));
    }
    let to_micros = |part: f64| (part * 1_000_000.0).round_ties_even() / 1_000_000.0;
    // Days of what is left of the months, and seconds of what is left of both.
    let month_days = to_micros((months - months.trunc()) * MONTH_DAYS as f64);
    let mut seconds = to_micros((days - days.trunc() + month_days - month_days.trunc()) * 86_400.0);
    let mut whole_days = days.trunc() + month_days.trunc();
    if seconds.abs() >= 86_400.0 {
        whole_days += (seconds / 86_400.0).trunc();
        seconds -= (seconds / 86_400.0).trunc() * 86_400.0;
    }
    let micros = (micros + seconds * 1_000_000.0).round_ties_even();
    if !micros.is_finite() || micros.abs() > i64::MAX as f64 {
        return Err(out_of_range("interval"));
    }
    span(months as i128, whole_days as i128, micros as i128 * 1000)
}

fn shifted_time(a: &[ArrayRef], sign: i64) -> Result<ArrayRef> {
    let times = a[0].as_primitive::<Time64MicrosecondType>();
    let spans = a[1].as_primitive::<IntervalMonthDayNanoType>();
    let shifted: PrimitiveArray<Time64MicrosecondType> = times
        .iter()
        .zip(spans.iter())
        .map(|(time, span)| Some((time? + sign * (span?.nanoseconds / 1000 % DAY_MICROS)).rem_euclid(DAY_MICROS)))
        .collect();
    Ok(Arc::new(shifted))
}

/// Whether two spans of time meet; each is of two ends in any order, and an end alone is a moment.
fn overlaps(a: &[ArrayRef]) -> Result<ArrayRef> {
    let value = |index: usize, row: usize| {
        let ends = stamps(&a[index]);
        ends.is_valid(row).then(|| ends.value(row))
    };
    // As PostgreSQL: an end that is NULL is unknown, and the other one may decide.
    let ordered = |one: Option<i64>, other: Option<i64>| match (one, other) {
        (None, other) => (other, None),
        (Some(one), Some(other)) if one > other => (Some(other), Some(one)),
        both => both,
    };
    let meet = |row: usize| -> Option<bool> {
        let (start, end) = ordered(value(0, row), value(1, row));
        let (from, to) = ordered(value(2, row), value(3, row));
        let (start, from) = (start?, from?);
        if start == from {
            // The start is in both, unless an end is unknown.
            return end.and(to).map(|_| true);
        }
        let (first_end, later) = if start > from { (to, start) } else { (end, from) };
        let later_end = if start > from { end } else { to };
        match first_end {
            Some(first_end) if later < first_end => Some(true),
            Some(_) => later_end.map(|_| false),
            None => None,
        }
    };
    Ok(Arc::new((0..a[0].len()).map(meet).collect::<BooleanArray>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_intervals_are_carried_with_one_sign() {
        assert_eq!(carried(0, 35, 30), (1, 5));
        assert_eq!(carried(1, -1, 24), (0, 23));
        assert_eq!(carried(-1, 1, 24), (0, -23));
    }

    #[test]
    fn half_a_month_is_15_days() {
        let month = IntervalMonthDayNano::new(1, 0, 0);
        assert_eq!(times(month, 1.5, false).unwrap(), IntervalMonthDayNano::new(1, 15, 0));
        let day = IntervalMonthDayNano::new(0, 1, 0);
        assert_eq!(
            times(day, 3.0, true).unwrap(),
            IntervalMonthDayNano::new(0, 0, 28_800_000_000_000)
        );
    }
}
