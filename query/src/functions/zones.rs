//! AT TIME ZONE, and truncating timestamps, in a zone or not.

use super::overloads::{Entry, Kind, Overload, failed, gives};
use super::times::out_of_range;
use crate::pgtext::Zone;
use crate::pgtext::calendar::{DAY_MICROS, civil_of, days_of};
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray, TimestampMicrosecondArray};
use arrow::datatypes::{IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampMicrosecondType};
use datafusion::error::Result;
use std::sync::Arc;

use Kind::{Interval, Stamp, StampTz, Text};

const SECOND_MICROS: i64 = 1_000_000;
/// Farthest offset of a zone that is given in hours.
const OFFSET_MAX: i32 = 168 * 3600;

pub(super) const FUNCTIONS: &[Entry] = &[
    (
        "timezone",
        &[],
        &[
            Overload::own(&[Text, StampTz], gives::STAMP, |a| {
                in_zones(a, (zone_of_text, same_text), to_local, false)
            }),
            Overload::own(&[Text, Stamp], gives::STAMPTZ, |a| {
                in_zones(a, (zone_of_text, same_text), to_instant, true)
            }),
            Overload::own(&[Interval, StampTz], gives::STAMP, |a| {
                in_zones(a, (zone_of_interval, same_interval), to_local, false)
            }),
            Overload::own(&[Interval, Stamp], gives::STAMPTZ, |a| {
                in_zones(a, (zone_of_interval, same_interval), to_instant, true)
            }),
        ],
    ),
    (
        "date_trunc",
        &[],
        &[
            Overload::own(&[Text, Stamp], gives::STAMP, |a| truncated(a, false)),
            Overload::own(&[Text, StampTz], gives::STAMPTZ, |a| truncated(a, true)),
            Overload::own(&[Text, StampTz, Text], gives::STAMPTZ, |a| truncated(a, true)),
            Overload::own(&[Text, Interval], gives::INTERVAL, truncated_intervals),
        ],
    ),
];

/// The zone of a name, or of an offset, whose sign is POSIX's: `+05:30` is west.
fn zone_of(name: &str) -> Result<Zone> {
    let offset = name
        .strip_prefix('+')
        .map(|rest| (-1, rest))
        .or_else(|| name.strip_prefix('-').map(|rest| (1, rest)));
    let Some((sign, rest)) = offset else {
        return Zone::parse(name).map_err(crate::provider::outside);
    };
    let wrong = || failed("22023", format!("time zone \"{name}\" not recognized"));
    let mut fields = rest
        .splitn(3, ':')
        .map(|field| field.parse::<i32>().ok().filter(|field| *field >= 0));
    let (hours, minutes, seconds) = (fields.next().flatten(), fields.next(), fields.next());
    let minutes = minutes.unwrap_or(Some(0)).filter(|minutes| *minutes < 60);
    let seconds = seconds.unwrap_or(Some(0)).filter(|seconds| *seconds < 60);
    match (hours.filter(|hours| *hours < 168), minutes, seconds) {
        (Some(hours), Some(minutes), Some(seconds)) => Ok(Zone::Fixed(sign * (hours * 3600 + minutes * 60 + seconds))),
        _ => Err(wrong()),
    }
}

fn zone_of_text(zones: &ArrayRef, row: usize) -> Result<Zone> {
    zone_of(zones.as_string::<i32>().value(row))
}

fn zone_of_interval(zones: &ArrayRef, row: usize) -> Result<Zone> {
    let span = zones.as_primitive::<IntervalMonthDayNanoType>().value(row);
    if span.months != 0 || span.days != 0 {
        return Err(failed("22023", "interval time zone must not include months or days"));
    }
    let seconds = span.nanoseconds / 1_000_000_000;
    match i32::try_from(seconds)
        .ok()
        .filter(|seconds| seconds.abs() <= OFFSET_MAX)
    {
        Some(seconds) => Ok(Zone::Fixed(seconds)),
        None => Err(out_of_range("interval time zone")),
    }
}

fn same_text(zones: &ArrayRef, one: usize, other: usize) -> bool {
    let zones = zones.as_string::<i32>();
    zones.value(one) == zones.value(other)
}

fn same_interval(zones: &ArrayRef, one: usize, other: usize) -> bool {
    let zones = zones.as_primitive::<IntervalMonthDayNanoType>();
    zones.value(one) == zones.value(other)
}

fn to_local(zone: &Zone, instant: i64) -> Option<i64> {
    instant.checked_add(zone.offset_at(instant.div_euclid(SECOND_MICROS)) as i64 * SECOND_MICROS)
}

fn to_instant(zone: &Zone, local: i64) -> Option<i64> {
    local.checked_sub(zone.offset_at_local(local.div_euclid(SECOND_MICROS)) as i64 * SECOND_MICROS)
}

/// The zone of a row of a column.
type ZoneAt = fn(&ArrayRef, usize) -> Result<Zone>;

/// Whether two rows of a column have one zone.
type IsSame = fn(&ArrayRef, usize, usize) -> bool;

/// Every row's zone; one that repeats is looked up once.
fn in_zones(
    a: &[ArrayRef],
    (zone_at, is_same): (ZoneAt, IsSame),
    shift: fn(&Zone, i64) -> Option<i64>,
    gives_instants: bool,
) -> Result<ArrayRef> {
    let stamps = a[1].as_primitive::<TimestampMicrosecondType>();
    let mut known: Option<(usize, Zone)> = None;
    let mut shifted = Vec::with_capacity(stamps.len());
    for row in 0..stamps.len() {
        if a[0].is_null(row) || stamps.is_null(row) {
            shifted.push(None);
            continue;
        }
        let zone = match known {
            Some((of, zone)) if is_same(&a[0], of, row) => zone,
            _ => zone_at(&a[0], row)?,
        };
        known = Some((row, zone));
        shifted.push(Some(
            shift(&zone, stamps.value(row)).ok_or_else(|| out_of_range("timestamp"))?,
        ));
    }
    let array = TimestampMicrosecondArray::from(shifted);
    Ok(Arc::new(
        array.with_timezone_opt(gives_instants.then_some(crate::types::UTC)),
    ))
}

/// What a timestamp is cut to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Micros(i64),
    Day,
    Week,
    Months(i64),
    Years(i64),
}

fn unit(name: &str, of: &str) -> Result<Unit> {
    let lower = name.to_lowercase();
    Ok(match lower.as_str() {
        "microsecond" | "microseconds" | "us" | "usec" | "usecs" | "usecond" | "useconds" => Unit::Micros(1),
        "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" | "msecond" | "mseconds" => Unit::Micros(1000),
        "second" | "seconds" | "s" | "sec" | "secs" => Unit::Micros(SECOND_MICROS),
        "minute" | "minutes" | "m" | "min" | "mins" => Unit::Micros(60 * SECOND_MICROS),
        "hour" | "hours" | "h" | "hr" | "hrs" => Unit::Micros(3600 * SECOND_MICROS),
        "day" | "days" | "d" => Unit::Day,
        "week" | "weeks" | "w" => Unit::Week,
        "month" | "months" | "mon" | "mons" => Unit::Months(1),
        "quarter" | "quarters" | "qtr" => Unit::Months(3),
        "year" | "years" | "y" | "yr" | "yrs" => Unit::Years(1),
        "decade" | "decades" | "dec" | "decs" => Unit::Years(10),
        "century" | "centuries" | "c" | "cent" => Unit::Years(100),
        "millennium" | "millennia" | "mil" | "mils" => Unit::Years(1000),
        _ => return Err(failed("22023", format!("unit \"{name}\" not recognized for type {of}"))),
    })
}

/// Microseconds since 1970 cut to a unit, without a zone.
fn cut(micros: i64, unit: Unit) -> i64 {
    let days = micros.div_euclid(DAY_MICROS);
    let (year, month, _) = civil_of(days);
    let start = match unit {
        Unit::Micros(size) => return micros - micros.rem_euclid(size),
        Unit::Day => days,
        // 1970-01-01 was a Thursday.
        Unit::Week => days - (days + 3).rem_euclid(7),
        Unit::Months(size) => days_of(year, month - (month - 1) % size as u32, 1),
        Unit::Years(size) => {
            // Centuries begin with the year 1, decades with the year 0.
            let first = i64::from(size >= 100);
            days_of((year - first).div_euclid(size) * size + first, 1, 1)
        }
    };
    start * DAY_MICROS
}

fn truncated(a: &[ArrayRef], are_instants: bool) -> Result<ArrayRef> {
    let units = a[0].as_string::<i32>();
    let stamps = a[1].as_primitive::<TimestampMicrosecondType>();
    let of = if are_instants {
        "timestamp with time zone"
    } else {
        "timestamp without time zone"
    };
    let zones = a.get(2).map(|zones| zones.as_string::<i32>());
    let mut known: Option<(&str, &str, Unit, Zone)> = None;
    let mut in_zone = |row: usize| -> Result<Option<i64>> {
        if a.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let (name, zone_name) = (units.value(row), zones.map_or("utc", |zones| zones.value(row)));
        let (unit, zone) = match known {
            Some((unit_name, of_zone, unit, zone)) if unit_name == name && of_zone == zone_name => (unit, zone),
            _ => (unit(name, of)?, zone_of(zone_name)?),
        };
        known = Some((name, zone_name, unit, zone));
        Ok(Some(
            cut_in(&zone, stamps.value(row), unit).ok_or_else(|| out_of_range("timestamp"))?,
        ))
    };
    let cut: Vec<Option<i64>> = (0..stamps.len()).map(&mut in_zone).collect::<Result<_>>()?;
    let array = TimestampMicrosecondArray::from(cut);
    Ok(Arc::new(
        array.with_timezone_opt(are_instants.then_some(crate::types::UTC)),
    ))
}

/// An instant cut to a unit of a zone. Below a day the offset stays: an hour that occurs twice is two hours.
fn cut_in(zone: &Zone, instant: i64, unit: Unit) -> Option<i64> {
    let local = to_local(zone, instant)?;
    let start = cut(local, unit);
    match unit {
        Unit::Micros(_) => start.checked_sub(local - instant),
        _ => to_instant(zone, start),
    }
}

fn truncated_intervals(a: &[ArrayRef]) -> Result<ArrayRef> {
    let units = a[0].as_string::<i32>();
    let spans = a[1].as_primitive::<IntervalMonthDayNanoType>();
    let pairs = units.iter().zip(spans.iter());
    let cut = pairs.map(|(name, span)| {
        let Some((name, span)) = name.zip(span) else {
            return Ok(None);
        };
        let months = |size: i32| IntervalMonthDayNano::new(span.months / size * size, 0, 0);
        Ok(Some(match unit(name, "interval")? {
            Unit::Micros(size) => {
                let size = size * 1000;
                IntervalMonthDayNano::new(span.months, span.days, span.nanoseconds / size * size)
            }
            Unit::Day => IntervalMonthDayNano::new(span.months, span.days, 0),
            Unit::Week => {
                let text = "unit \"week\" not supported for type interval";
                return Err(failed("0A000", text));
            }
            Unit::Months(size) => months(size as i32),
            Unit::Years(size) => months(size as i32 * 12),
        }))
    });
    Ok(Arc::new(
        cut.collect::<Result<PrimitiveArray<IntervalMonthDayNanoType>>>()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn centuries_begin_with_the_year_one_and_decades_with_the_year_zero() {
        let start = |year| days_of(year, 1, 1) * DAY_MICROS;
        let of = |year| days_of(year, 5, 17) * DAY_MICROS + 5;
        assert_eq!(cut(of(2024), Unit::Years(100)), start(2001));
        assert_eq!(cut(of(2000), Unit::Years(100)), start(1901));
        assert_eq!(cut(of(2024), Unit::Years(10)), start(2020));
        assert_eq!(cut(of(2024), Unit::Months(3)), days_of(2024, 4, 1) * DAY_MICROS);
    }

    #[test]
    fn both_hours_of_a_clock_change_are_kept_apart() {
        let paris = Zone::parse("Europe/Paris").unwrap();
        let at =
            |hour: i64, minute: i64| days_of(2024, 10, 27) * DAY_MICROS + (hour * 60 + minute) * 60 * SECOND_MICROS;
        assert_eq!(
            cut_in(&paris, at(0, 30), Unit::Micros(3600 * SECOND_MICROS)),
            Some(at(0, 0))
        );
        assert_eq!(
            cut_in(&paris, at(1, 30), Unit::Micros(3600 * SECOND_MICROS)),
            Some(at(1, 0))
        );
    }
}
