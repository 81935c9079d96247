//! Which types of a Parquet file are read as which declared ones, and how.
//!
//! | In the file | Declared |
//! |---|---|
//! | integers, signed or not | SMALLINT, INTEGER, BIGINT, NUMERIC (out of range: the row is bad), REAL, DOUBLE PRECISION (nearest) |
//! | floats | REAL (out of range: the row is bad), DOUBLE PRECISION |
//! | decimals | NUMERIC, rounded half away from zero at its scale (beyond its precision: the row is bad) |
//! | decimals of scale 0 | integers |
//! | strings | TEXT, BYTEA |
//! | byte arrays | BYTEA, TEXT (not UTF-8: the row is bad) |
//! | booleans | BOOLEAN |
//! | dates | DATE, TIMESTAMP, TIMESTAMPTZ (midnight) |
//! | timestamps, with or without zone (both count from 1970 UTC) | TIMESTAMP, TIMESTAMPTZ; nanoseconds are rounded |

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, TimestampMicrosecondArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use std::sync::Arc;

/// How values of one type become another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cast {
    /// They are of that type.
    Same,
    /// Every value has its counterpart.
    Total,
    /// Some values have none and become NULL.
    Partial,
    /// Nanoseconds to microseconds.
    Rounded,
    /// Double to single precision.
    Narrowed,
    /// Days to microseconds.
    Midnight,
}

impl Cast {
    /// The way from one type to another; `None`: there is none.
    pub(crate) fn between(from: &DataType, to: &DataType) -> Option<Cast> {
        use DataType::*;
        if from == to {
            return Some(Cast::Same);
        }
        let decimal = |data_type: &DataType| match data_type {
            Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => Some(*scale),
            _ => None,
        };
        match (from, to) {
            (from, Int16 | Int32 | Int64 | Decimal128(..)) if from.is_integer() => Some(Cast::Partial),
            (from, Float32 | Float64) if from.is_integer() => Some(Cast::Total),
            (Float16, Float32 | Float64) | (Float32, Float64) => Some(Cast::Total),
            (Float64, Float32) => Some(Cast::Narrowed),
            (from, Decimal128(..)) if decimal(from).is_some() => Some(Cast::Partial),
            (from, Int16 | Int32 | Int64) if decimal(from) == Some(0) => Some(Cast::Partial),
            (Utf8 | LargeUtf8 | Utf8View, Utf8 | Binary) => Some(Cast::Total),
            (Binary | LargeBinary | BinaryView | FixedSizeBinary(_), Binary) => Some(Cast::Total),
            (Binary | LargeBinary | BinaryView, Utf8) => Some(Cast::Partial),
            (Date32, Timestamp(TimeUnit::Microsecond, _)) => Some(Cast::Midnight),
            (Timestamp(TimeUnit::Nanosecond, _), Timestamp(TimeUnit::Microsecond, _)) => Some(Cast::Rounded),
            (Timestamp(..), Timestamp(TimeUnit::Microsecond, _)) => Some(Cast::Partial),
            _ => None,
        }
    }

    /// Whether a value can have no counterpart.
    pub(crate) fn can_refuse(self) -> bool {
        matches!(self, Cast::Partial | Cast::Narrowed | Cast::Midnight)
    }

    /// Converts `array`; a value without a counterpart becomes NULL.
    pub(crate) fn apply(self, array: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
        let cast = |array: &ArrayRef, to: &DataType| {
            let options = CastOptions {
                safe: true,
                ..CastOptions::default()
            };
            cast_with_options(array, to, &options).map_err(|error| error.to_string())
        };
        match (self, to) {
            (Cast::Same, _) => Ok(Arc::clone(array)),
            (Cast::Total | Cast::Partial, DataType::Timestamp(unit, zone)) => {
                let plain = zoneless(array)?;
                let micros = cast(&plain, &DataType::Timestamp(*unit, None))?;
                let micros = micros.as_primitive::<TimestampMicrosecondType>().clone();
                Ok(Arc::new(micros.with_timezone_opt(zone.clone())))
            }
            (Cast::Total | Cast::Partial, _) => cast(array, to),
            (Cast::Rounded, DataType::Timestamp(_, zone)) => {
                let nanos = array.as_primitive::<TimestampNanosecondType>();
                let micros: TimestampMicrosecondArray = nanos.unary(round_nanos);
                Ok(Arc::new(micros.with_timezone_opt(zone.clone())))
            }
            (Cast::Narrowed, _) => {
                let wide = array.as_primitive::<Float64Type>();
                let narrow: Float32Array = wide.unary_opt::<_, Float32Type>(|value| {
                    let single = value as f32;
                    let lost = single.is_infinite() && value.is_finite() || single == 0.0 && value != 0.0;
                    (!lost).then_some(single)
                });
                Ok(Arc::new(narrow))
            }
            (Cast::Midnight, DataType::Timestamp(_, zone)) => {
                let days = array.as_primitive::<Date32Type>();
                let micros: TimestampMicrosecondArray =
                    days.unary_opt::<_, TimestampMicrosecondType>(|day| i64::from(day).checked_mul(86_400_000_000));
                Ok(Arc::new(micros.with_timezone_opt(zone.clone())))
            }
            (Cast::Rounded | Cast::Midnight, _) => Err(format!("cannot read as {to}")),
        }
    }
}

/// Half a microsecond counts as one, away from zero.
fn round_nanos(nanos: i64) -> i64 {
    let rest = nanos % 1000;
    nanos / 1000 + i64::from(rest >= 500) - i64::from(rest <= -500)
}

/// The same moments without a zone, which has no part in their values.
fn zoneless(array: &ArrayRef) -> Result<ArrayRef, String> {
    match array.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            let data = array
                .to_data()
                .into_builder()
                .data_type(DataType::Timestamp(*unit, None));
            data.build()
                .map(arrow::array::make_array)
                .map_err(|error| error.to_string())
        }
        _ => Ok(Arc::clone(array)),
    }
}
