//! EXTRACT and `date_part`: the fields of dates, times and intervals.
//!
//! `date_part` is a DOUBLE PRECISION; EXTRACT is a NUMERIC, whose scale is that of the field: 6 for seconds, 3 for
//! milliseconds, else 0. So EXTRACT is planned as one of three functions ([`extract_name`]).

use super::overloads::{Entry, Kind, Overload, failed, gives};
use super::times::out_of_range;
use crate::pgtext::calendar::{DAY_MICROS, civil_of, days_of};
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array};
use arrow::datatypes::{
    DataType, Date32Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use datafusion::error::Result;
use std::sync::Arc;

use Kind::{Date, Interval, Stamp, StampTz, Text, Time};

/// Parts of a unit that fields are computed in.
const UNIT: i128 = 1_000_000;
const NUMERIC_DIGITS: u8 = 30;

/// The ways to call one of the functions, whose results have so many digits behind the point.
macro_rules! of_scale {
    ($gives:expr, $run:ident) => {
        &[
            Overload::own(&[Text, Stamp], $gives, |a| $run(a, Of::Stamp)),
            Overload::own(&[Text, StampTz], $gives, |a| $run(a, Of::StampTz)),
            Overload::own(&[Text, Date], $gives, |a| $run(a, Of::Date)),
            Overload::own(&[Text, Time], $gives, |a| $run(a, Of::Time)),
            Overload::own(&[Text, Interval], $gives, |a| $run(a, Of::Interval)),
        ]
    };
}

pub(super) const FUNCTIONS: &[Entry] = &[
    ("date_part", &["datepart"], of_scale!(gives::FLOAT, as_floats)),
    (
        "cenote_extract_0",
        &[],
        of_scale!(|_| DataType::Decimal128(NUMERIC_DIGITS, 0), as_whole),
    ),
    (
        "cenote_extract_3",
        &[],
        of_scale!(|_| DataType::Decimal128(NUMERIC_DIGITS, 3), as_thousandths),
    ),
    (
        "cenote_extract_6",
        &[],
        of_scale!(|_| DataType::Decimal128(NUMERIC_DIGITS, 6), as_millionths),
    ),
];

/// The function that EXTRACT of a field is.
pub(crate) fn extract_name(field: &str) -> &'static str {
    match field {
        "second" | "seconds" | "sec" | "secs" | "s" | "epoch" => "cenote_extract_6",
        "milliseconds" | "millisecond" | "ms" | "msec" | "msecs" => "cenote_extract_3",
        _ => "cenote_extract_0",
    }
}

/// What a field is taken from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Stamp,
    StampTz,
    Date,
    Time,
    Interval,
}

impl Of {
    fn name(self) -> &'static str {
        match self {
            Of::Stamp => "timestamp without time zone",
            Of::StampTz => "timestamp with time zone",
            Of::Date => "date",
            Of::Time => "time without time zone",
            Of::Interval => "interval",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Micros,
    Millis,
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Quarter,
    Week,
    Year,
    Decade,
    Century,
    Millennium,
    Julian,
    IsoYear,
    Dow,
    IsoDow,
    Doy,
    Epoch,
    Zone,
}

fn field(name: &str, of: Of) -> Result<Field> {
    Ok(match name.to_lowercase().as_str() {
        "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Field::Micros,
        "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Field::Millis,
        "second" | "seconds" | "sec" | "secs" | "s" => Field::Second,
        "minute" | "minutes" | "min" | "mins" | "m" => Field::Minute,
        "hour" | "hours" | "hr" | "hrs" | "h" => Field::Hour,
        "day" | "days" | "d" => Field::Day,
        "month" | "months" | "mon" | "mons" => Field::Month,
        "quarter" | "qtr" => Field::Quarter,
        "week" | "weeks" | "w" => Field::Week,
        "year" | "years" | "yr" | "yrs" | "y" => Field::Year,
        "decade" | "decades" | "dec" | "decs" => Field::Decade,
        "century" | "centuries" | "cent" | "c" => Field::Century,
        "millennium" | "millennia" | "mil" | "mils" => Field::Millennium,
        "julian" | "jd" | "j" => Field::Julian,
        "isoyear" => Field::IsoYear,
        "dow" => Field::Dow,
        "isodow" => Field::IsoDow,
        "doy" => Field::Doy,
        "epoch" => Field::Epoch,
        "timezone" | "timezone_h" | "timezone_hour" | "timezone_m" | "timezone_minute" => Field::Zone,
        _ => {
            return Err(failed(
                "22023",
                format!("unit \"{name}\" not recognized for type {}", of.name()),
            ));
        }
    })
}

/// A field of every row, in millionths.
fn millionths(a: &[ArrayRef], of: Of, is_part: bool) -> Result<Vec<Option<i128>>> {
    let names = a[0].as_string::<i32>();
    let mut known: Option<(&str, Field)> = None;
    let mut found = Vec::with_capacity(names.len());
    for row in 0..names.len() {
        if names.is_null(row) || a[1].is_null(row) {
            found.push(None);
            continue;
        }
        let name = names.value(row);
        let field = match known {
            Some((known, field)) if known == name => field,
            _ => field(name, of)?,
        };
        known = Some((name, field));
        found.push(Some(value(&a[1], row, field, of, is_part, name)?));
    }
    Ok(found)
}

fn value(array: &ArrayRef, row: usize, field: Field, of: Of, is_part: bool, name: &str) -> Result<i128> {
    let unsupported = || failed("0A000", format!("unit \"{name}\" not supported for type {}", of.name()));
    let value = match of {
        Of::Stamp | Of::StampTz => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
            of_moment(micros, field).filter(|_| field != Field::Zone || of == Of::StampTz)
        }
        Of::Date => {
            let days = array.as_primitive::<Date32Type>().value(row) as i64;
            let beyond = || failed("22008", "date out of range for timestamp");
            let micros = days.checked_mul(DAY_MICROS).ok_or_else(beyond)?;
            // EXTRACT knows dates, `date_part` makes timestamps of them.
            of_moment(micros, field).filter(|_| field != Field::Zone && (is_part || !is_of_time(field)))
        }
        Of::Time => of_time(array.as_primitive::<Time64MicrosecondType>().value(row), field),
        Of::Interval => of_interval(array.as_primitive::<IntervalMonthDayNanoType>().value(row), field),
    };
    value.ok_or_else(unsupported)
}

fn is_of_time(field: Field) -> bool {
    matches!(
        field,
        Field::Micros | Field::Millis | Field::Second | Field::Minute | Field::Hour
    )
}

/// Fields of a time of the day, or of an interval's time.
fn of_time(micros: i64, field: Field) -> Option<i128> {
    let micros = micros as i128;
    let seconds = micros % (60 * UNIT);
    Some(match field {
        Field::Micros => seconds * UNIT,
        Field::Millis => seconds * 1000,
        Field::Second => seconds,
        Field::Minute => micros / (60 * UNIT) % 60 * UNIT,
        Field::Hour => micros / (3600 * UNIT) * UNIT,
        Field::Epoch => micros,
        _ => return None,
    })
}

/// The year of a civil calendar as people write it: there is no year 0.
fn written_year(year: i64) -> i64 {
    if year > 0 { year } else { year - 1 }
}

fn of_moment(micros: i64, field: Field) -> Option<i128> {
    let days = micros.div_euclid(DAY_MICROS);
    let (year, month, day) = civil_of(days);
    let written = written_year(year);
    // 1970-01-01 was a Thursday; ISO counts Monday as 1.
    let iso_dow = (days + 3).rem_euclid(7) + 1;
    let (iso_year, iso_week) = iso_week(days);
    let spans = |size: i64| {
        if written > 0 {
            (written + size - 1) / size
        } else {
            -((size - 1 - written) / size)
        }
    };
    let whole = match field {
        Field::Micros | Field::Millis | Field::Second | Field::Minute | Field::Hour => {
            return of_time(micros.rem_euclid(DAY_MICROS), field);
        }
        Field::Epoch => return Some(micros as i128),
        Field::Day => day as i64,
        Field::Month => month as i64,
        Field::Quarter => (month as i64 - 1) / 3 + 1,
        Field::Week => iso_week,
        Field::Year => written,
        Field::Decade => year.div_euclid(10),
        Field::Century => spans(100),
        Field::Millennium => spans(1000),
        Field::IsoYear => written_year(iso_year),
        Field::Dow => iso_dow % 7,
        Field::IsoDow => iso_dow,
        Field::Doy => days - days_of(year, 1, 1) + 1,
        Field::Zone => 0,
        Field::Julian if micros.rem_euclid(DAY_MICROS) == 0 => days + 2_440_588,
        Field::Julian => return None,
    };
    Some(whole as i128 * UNIT)
}

/// The ISO year and week of a day: a week is in the year that its Thursday is in.
fn iso_week(days: i64) -> (i64, i64) {
    let thursday = days - (days + 3).rem_euclid(7) + 3;
    let (year, ..) = civil_of(thursday);
    (year, (thursday - days_of(year, 1, 1)) / 7 + 1)
}

fn of_interval(span: IntervalMonthDayNano, field: Field) -> Option<i128> {
    let (years, months) = (span.months as i128 / 12, span.months as i128 % 12);
    let micros = span.nanoseconds / 1000;
    Some(match field {
        Field::Day => span.days as i128 * UNIT,
        Field::Month => months * UNIT,
        Field::Quarter => (months / 3 + 1) * UNIT,
        Field::Year => years * UNIT,
        Field::Decade => years / 10 * UNIT,
        Field::Century => years / 100 * UNIT,
        Field::Millennium => years / 1000 * UNIT,
        Field::Epoch => {
            // A year is 365.25 days, a month 30, as PostgreSQL has it.
            let days = months * 30 + span.days as i128;
            years * 31_557_600 * UNIT + days * DAY_MICROS as i128 + micros as i128
        }
        field => return of_time(micros, field),
    })
}

fn as_floats(a: &[ArrayRef], of: Of) -> Result<ArrayRef> {
    let values = millionths(a, of, true)?.into_iter();
    let floats = values.map(|value| value.map(|value| value as f64 / UNIT as f64));
    Ok(Arc::new(floats.collect::<Float64Array>()))
}

fn as_whole(a: &[ArrayRef], of: Of) -> Result<ArrayRef> {
    numerics(a, of, UNIT, 0)
}

fn as_thousandths(a: &[ArrayRef], of: Of) -> Result<ArrayRef> {
    numerics(a, of, 1000, 3)
}

fn as_millionths(a: &[ArrayRef], of: Of) -> Result<ArrayRef> {
    numerics(a, of, 1, 6)
}

fn numerics(a: &[ArrayRef], of: Of, divisor: i128, scale: i8) -> Result<ArrayRef> {
    let limit = 10i128.pow(NUMERIC_DIGITS as u32);
    let values = millionths(a, of, false)?.into_iter().map(|value| match value {
        Some(value) if (value / divisor).abs() >= limit => Err(out_of_range(of.name())),
        value => Ok(value.map(|value| value / divisor)),
    });
    let numbers = values.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(numbers.with_precision_and_scale(NUMERIC_DIGITS, scale)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_follow_the_civil_calendar() {
        let of = |year, month, day, field| of_moment(days_of(year, month, day) * DAY_MICROS, field).map(|v| v / UNIT);
        assert_eq!(of(2000, 1, 1, Field::Century), Some(20));
        assert_eq!(of(2001, 1, 1, Field::Century), Some(21));
        assert_eq!(of(0, 1, 1, Field::Year), Some(-1));
        assert_eq!(of(2024, 12, 30, Field::IsoYear), Some(2025));
        assert_eq!(of(2024, 12, 30, Field::Week), Some(1));
        assert_eq!(of(2024, 5, 19, Field::Dow), Some(0));
    }
}
