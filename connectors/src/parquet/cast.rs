//! Which types of a Parquet file are read as which declared ones, and how.
//!
//! | In the file | Declared |
//! |---|---|
//! | integers, signed or not | SMALLINT, INTEGER, BIGINT, NUMERIC (out of range: the row is bad), REAL, DOUBLE PRECISION (nearest) |
//! | floats | REAL (out of range: the row is bad), DOUBLE PRECISION |
//! | decimals | NUMERIC, rounded half away from zero at its scale (beyond its precision: the row is bad) |
//! | decimals of scale 0 | integers |
//! | strings | TEXT, BYTEA |
//! | strings | UUID, TIME, INTERVAL, JSON, JSONB in the forms of the text formats (else: the row is bad) |
//! | byte arrays of 16 bytes | UUID |
//! | lists | arrays of one dimension, element by element (one does not fit: the row is bad) |
//! | structs | STRUCT, field by field by their names; a field that the file has not is NULL (one does not fit: the row is bad) |
//! | times of day | TIME; nanoseconds are rounded |
//! | byte arrays | BYTEA, TEXT (not UTF-8: the row is bad) |
//! | booleans | BOOLEAN |
//! | dates | DATE, TIMESTAMP, TIMESTAMPTZ (midnight) |
//! | timestamps, with or without zone (both count from 1970 UTC) | TIMESTAMP, TIMESTAMPTZ; nanoseconds are rounded |

use crate::column::Column;
use crate::fault::Refusal;
use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, IntervalMonthDayNanoArray, ListArray, StructArray, Time64MicrosecondArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, Fields, Float32Type, Float64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampNanosecondType,
};
use cenote_statestore::forms::json;
use cenote_statestore::forms::uuid::UUID;
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
    /// Texts in the type's form.
    Read,
    /// Arrays, element by element.
    Elements,
    /// Structs, field by field.
    Fields,
}

impl Cast {
    /// The way from one type to another; `None`: there is none.
    pub(crate) fn between(from: &DataType, to: &DataType) -> Option<Cast> {
        use DataType::*;
        if matches!(from, Interval(IntervalUnit::MonthDayNano)) && from == to {
            return Some(Cast::Rounded);
        }
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
            (Utf8 | LargeUtf8 | Utf8View, Time64(_) | Interval(_)) => Some(Cast::Read),
            (Utf8 | LargeUtf8 | Utf8View, to) if *to == UUID || json::name_of(to).is_some() => Some(Cast::Read),
            (Utf8 | LargeUtf8 | Utf8View, List(_) | Struct(_)) => Some(Cast::Read),
            (Struct(from), Struct(to)) => {
                let mut known = to
                    .iter()
                    .filter_map(|field| Some((named(from, field.name())?.1, field)));
                let reads =
                    |(from, to): (&FieldRef, &FieldRef)| Cast::between(from.data_type(), to.data_type()).is_some();
                let has_one = known.clone().next().is_some();
                (has_one && known.all(reads)).then_some(Cast::Fields)
            }
            (List(from) | LargeList(from) | FixedSizeList(from, _), List(to)) => {
                Cast::between(from.data_type(), to.data_type()).map(|_| Cast::Elements)
            }
            (Time32(_), Time64(TimeUnit::Microsecond)) => Some(Cast::Total),
            (Time64(TimeUnit::Nanosecond), Time64(TimeUnit::Microsecond)) => Some(Cast::Rounded),
            (Interval(_), Interval(IntervalUnit::MonthDayNano)) => Some(Cast::Total),
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
        matches!(
            self,
            Cast::Partial | Cast::Narrowed | Cast::Midnight | Cast::Read | Cast::Elements | Cast::Fields
        )
    }

    /// Why a value has no counterpart in a type.
    pub(crate) fn refusal(self, to: &DataType) -> Refusal {
        match (self, to) {
            (Cast::Read, DataType::Time64(_) | DataType::Interval(_)) => Refusal::Time,
            (Cast::Read, _) => Refusal::Syntax,
            _ => Refusal::Range,
        }
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
            (Cast::Rounded, DataType::Time64(_)) => {
                let nanos = array.as_primitive::<Time64NanosecondType>();
                let micros: Time64MicrosecondArray = nanos.unary(round_nanos);
                Ok(Arc::new(micros))
            }
            (Cast::Rounded, DataType::Interval(_)) => {
                let spans = array.as_primitive::<IntervalMonthDayNanoType>();
                let rounded: IntervalMonthDayNanoArray = spans.unary(|span| IntervalMonthDayNano {
                    nanoseconds: round_nanos(span.nanoseconds).saturating_mul(1000),
                    ..span
                });
                Ok(Arc::new(rounded))
            }
            (Cast::Elements, DataType::List(item)) => elements_as(array, item),
            (Cast::Fields, DataType::Struct(fields)) => fields_as(array, fields),
            (Cast::Read, _) => read_texts(&cast(array, &DataType::Utf8)?, to),
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
            (Cast::Rounded | Cast::Midnight | Cast::Elements | Cast::Fields, _) => Err(format!("cannot read as {to}")),
        }
    }
}

/// Lists with other elements; a list is NULL if one of its elements has no counterpart.
fn elements_as(lists: &ArrayRef, item: &FieldRef) -> Result<ArrayRef, String> {
    let text = |error: arrow::error::ArrowError| error.to_string();
    let from = match lists.data_type() {
        DataType::List(from) | DataType::LargeList(from) | DataType::FixedSizeList(from, _) => from.clone(),
        other => return Err(format!("{other} has no elements")),
    };
    let plain = arrow::compute::cast(lists, &DataType::List(from.clone())).map_err(text)?;
    let plain = plain.as_list::<i32>();
    let inner = Cast::between(from.data_type(), item.data_type()).ok_or("the elements cannot be read")?;
    let elements = inner.apply(plain.values(), item.data_type())?;
    let is_lost = |element: usize| elements.is_null(element) && plain.values().is_valid(element);
    let offsets = plain.value_offsets();
    let is_whole = |row: usize| !(offsets[row] as usize..offsets[row + 1] as usize).any(is_lost);
    let kept: NullBuffer = (0..plain.len())
        .map(|row| plain.is_valid(row) && is_whole(row))
        .collect();
    let kept = Some(kept).filter(|kept| kept.null_count() > 0);
    let lists = ListArray::try_new(item.clone(), plain.offsets().clone(), elements, kept).map_err(text)?;
    Ok(Arc::new(lists))
}

/// The field of a name, else the first whose name differs in case only, with its place.
fn named<'a>(fields: &'a Fields, name: &str) -> Option<(usize, &'a FieldRef)> {
    let folded = || {
        let mut fields = fields.iter().enumerate();
        fields.find(|(_, field)| field.name().eq_ignore_ascii_case(name))
    };
    fields.find(name).or_else(folded)
}

/// Structs with other fields; a struct is NULL if one of its fields has no counterpart.
fn fields_as(structs: &ArrayRef, to: &Fields) -> Result<ArrayRef, String> {
    let structs = structs.as_struct();
    let mut kept: Vec<bool> = (0..structs.len()).map(|row| structs.is_valid(row)).collect();
    let mut columns = Vec::with_capacity(to.len());
    for field in to {
        let Some((place, from)) = named(structs.fields(), field.name()) else {
            columns.push(arrow::array::new_null_array(field.data_type(), structs.len()));
            continue;
        };
        let given = structs.column(place);
        let inner = Cast::between(from.data_type(), field.data_type()).ok_or("a field cannot be read")?;
        let column = inner.apply(given, field.data_type())?;
        for (row, kept) in kept.iter_mut().enumerate() {
            *kept &= column.is_valid(row) || given.is_null(row);
        }
        columns.push(column);
    }
    let nulls = Some(NullBuffer::from(kept)).filter(|nulls| nulls.null_count() > 0);
    let rows = structs.len();
    let structs = StructArray::try_new_with_length(to.clone(), columns, nulls, rows);
    Ok(Arc::new(structs.map_err(|error| error.to_string())?))
}

/// Texts as values of a type, by the rules of the text formats.
fn read_texts(texts: &ArrayRef, to: &DataType) -> Result<ArrayRef, String> {
    let unread = |error: cenote_statestore::Error| error.message().to_string();
    let mut column = Column::new(&Field::new("", to.clone(), true), true).map_err(unread)?;
    let texts = texts.as_string::<i32>();
    for (row, text) in texts.iter().enumerate() {
        let is_read = text.is_some_and(|text| column.push_text(text.as_bytes()).is_ok());
        if !is_read {
            column.push_null(row).map_err(|fault| fault.reason.clone())?;
        }
    }
    column.finish(texts.len()).map_err(unread)
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
