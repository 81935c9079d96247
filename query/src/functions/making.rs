//! `make_date`, `make_time`, `make_timestamp`, `make_timestamptz` and `make_interval`: values of their parts.
//!
//! Parts that make none are refused (22008).

use super::overloads::{Entry, Kind, Overload, failed, gives};
use super::times::{out_of_range, span};
use crate::pgtext::calendar::{DAY_MICROS, days_of, month_days};
use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Float64Type, Int32Type, IntervalMonthDayNanoType, Time64MicrosecondType,
    TimestampMicrosecondType,
};
use datafusion::error::Result;
use std::sync::Arc;

use Kind::{Float, Int};

pub(super) const FUNCTIONS: &[Entry] = &[
    (
        "make_date",
        &[],
        &[Overload::own(&[Int, Int, Int], gives::DATE, make_date)],
    ),
    (
        "make_time",
        &[],
        &[Overload::own(&[Int, Int, Float], gives::TIME, |a| {
            made::<Time64MicrosecondType>(a, |v, s| time_of(v[0], v[1], s))
        })],
    ),
    (
        "make_timestamp",
        &[],
        &[Overload::own(&[Int, Int, Int, Int, Int, Float], gives::STAMP, |a| {
            made::<TimestampMicrosecondType>(a, stamp_of)
        })],
    ),
    (
        "make_timestamptz",
        &[],
        &[Overload::own(&[Int, Int, Int, Int, Int, Float], gives::STAMPTZ, |a| {
            let made = made::<TimestampMicrosecondType>(a, stamp_of)?;
            Ok(arrow::compute::cast(&made, &crate::types::timestamptz())?)
        })],
    ),
    (
        "make_interval",
        &[],
        &[
            Overload::own(&[Int], gives::INTERVAL, make_interval),
            Overload::own(&[Int, Int], gives::INTERVAL, make_interval),
            Overload::own(&[Int, Int, Int], gives::INTERVAL, make_interval),
            Overload::own(&[Int, Int, Int, Int], gives::INTERVAL, make_interval),
            Overload::own(&[Int, Int, Int, Int, Int], gives::INTERVAL, make_interval),
            Overload::own(&[Int, Int, Int, Int, Int, Int], gives::INTERVAL, make_interval),
            Overload::own(&[Int, Int, Int, Int, Int, Int, Float], gives::INTERVAL, make_interval),
        ],
    ),
];

/// A result of whole numbers and, if it is the last argument, seconds.
fn made<T: ArrowPrimitiveType<Native = i64>>(a: &[ArrayRef], make: fn(&[i32], f64) -> Result<i64>) -> Result<ArrayRef> {
    let (seconds, fields) = a.split_last().ok_or_else(|| out_of_range("time"))?;
    let seconds = seconds.as_primitive::<Float64Type>();
    let made = (0..seconds.len()).map(|row| {
        if a.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let values: Vec<i32> = fields
            .iter()
            .map(|field| field.as_primitive::<Int32Type>().value(row))
            .collect();
        make(&values, seconds.value(row)).map(Some)
    });
    Ok(Arc::new(made.collect::<Result<PrimitiveArray<T>>>()?))
}

fn time_of(hour: i32, minute: i32, seconds: f64) -> Result<i64> {
    let micros = (seconds * 1_000_000.0).round_ties_even();
    let is_time = (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60_000_000.0).contains(&micros);
    let total = (hour as i64 * 60 + minute as i64) * 60_000_000 + micros as i64;
    match is_time && total <= DAY_MICROS {
        true => Ok(total),
        false => Err(failed(
            "22008",
            format!("time field value out of range: {hour}:{minute:02}:{seconds}"),
        )),
    }
}

fn date_of(year: i32, month: i32, day: i32) -> Result<i64> {
    let wrong = || {
        failed(
            "22008",
            format!("date field value out of range: {year}-{month:02}-{day:02}"),
        )
    };
    // A negative year is one before Christ.
    let civil = if year < 0 { year as i64 + 1 } else { year as i64 };
    let is_month = year != 0 && (1..=12).contains(&month);
    let is_date = is_month && day >= 1 && day as u32 <= month_days(civil, month as u32);
    match is_date && (-4712..=5_874_897).contains(&year) {
        true => Ok(days_of(civil, month as u32, day as u32)),
        false => Err(wrong()),
    }
}

fn stamp_of(fields: &[i32], seconds: f64) -> Result<i64> {
    let days = date_of(fields[0], fields[1], fields[2])?;
    let micros = days.checked_mul(DAY_MICROS).ok_or_else(|| out_of_range("timestamp"))?;
    micros
        .checked_add(time_of(fields[3], fields[4], seconds)?)
        .ok_or_else(|| out_of_range("timestamp"))
}

fn make_date(a: &[ArrayRef]) -> Result<ArrayRef> {
    let of = |index: usize| a[index].as_primitive::<Int32Type>();
    let (years, months, days) = (of(0), of(1), of(2));
    let made = (0..years.len()).map(|row| {
        let is_known = a.iter().all(|array| array.is_valid(row));
        let date = || date_of(years.value(row), months.value(row), days.value(row));
        is_known.then(|| date().map(|days| days as i32)).transpose()
    });
    Ok(Arc::new(made.collect::<Result<PrimitiveArray<Date32Type>>>()?))
}

fn make_interval(a: &[ArrayRef]) -> Result<ArrayRef> {
    let whole = |index: usize, row: usize| match a.get(index) {
        Some(array) => array.as_primitive::<Int32Type>().value(row) as i128,
        None => 0,
    };
    let made = (0..a[0].len()).map(|row| {
        if a.iter().any(|array| array.is_null(row)) {
            return Ok(None);
        }
        let seconds = a
            .get(6)
            .map_or(0.0, |seconds| seconds.as_primitive::<Float64Type>().value(row));
        let micros = (seconds * 1_000_000.0).round_ties_even();
        // Not so for NaN either.
        let is_held = micros.abs() < i64::MAX as f64;
        if !is_held {
            return Err(out_of_range("interval"));
        }
        let nanos = (whole(4, row) * 3600 + whole(5, row) * 60) * 1_000_000_000 + micros as i128 * 1000;
        span(
            whole(0, row) * 12 + whole(1, row),
            whole(2, row) * 7 + whole(3, row),
            nanos,
        )
        .map(Some)
    });
    Ok(Arc::new(
        made.collect::<Result<PrimitiveArray<IntervalMonthDayNanoType>>>()?,
    ))
}
