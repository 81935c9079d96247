//! Canonical bytes of a row: one unambiguous form for each value, independent of how Arrow lays it out.
//!
//! A value is its type's tag and parameters, then `0` for NULL, or `1` and the value: numbers little-endian at
//! their own width, text and bytes with a length before them, lists with a count, structs field by field. No row's
//! bytes are the start of another's. Floats are as PostgreSQL compares them: `-0.0` is `0.0`, every NaN is one.
//! Decimals are tag, scale and value, whatever their precision and width. A timestamp's time zone says only that it
//! has one: the value is in UTC.
//!
//! Bytes are fixed for ever (`digest` rule 2): add tags, never change one.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray,
    OffsetSizeTrait, StructArray,
};
use arrow::datatypes::*;

use crate::{Error, ErrorKind, Result};

/// Appends the canonical bytes of the value in a row to a buffer.
pub(super) type Encoder = Box<dyn Fn(usize, &mut Vec<u8>)>;

/// First bytes of a value: what is told apart beyond its content.
mod tag {
    pub const NULL: u8 = 0;
    pub const BOOLEAN: u8 = 1;
    pub const INT: u8 = 2;
    pub const UINT: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DECIMAL: u8 = 5;
    pub const TEXT: u8 = 6;
    pub const BYTES: u8 = 7;
    pub const BYTES_FIXED: u8 = 8;
    pub const DATE: u8 = 9;
    pub const TIME: u8 = 10;
    pub const TIMESTAMP: u8 = 11;
    pub const DURATION: u8 = 12;
    pub const INTERVAL: u8 = 13;
    pub const LIST: u8 = 14;
    pub const STRUCT: u8 = 15;
    pub const MAP: u8 = 16;
}

/// Prepares the encoder of one column: the type is looked at once, not per row.
///
/// # Errors
/// [`ErrorKind::Unsupported`]: a union type, alone or nested.
pub(super) fn encoder(array: &ArrayRef) -> Result<Encoder> {
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_, bytes: &mut Vec<u8>| bytes.push(tag::NULL)),
        DataType::Boolean => {
            let values = array.as_boolean().clone();
            nullable(array, [tag::BOOLEAN, 0, 0], move |row, bytes| {
                bytes.push(u8::from(values.value(row)))
            })
        }
        DataType::Utf8 => text(array, array.as_string::<i32>().clone()),
        DataType::LargeUtf8 => text(array, array.as_string::<i64>().clone()),
        DataType::Utf8View => text(array, array.as_string_view().clone()),
        DataType::Binary => binary(array, array.as_binary::<i32>().clone()),
        DataType::LargeBinary => binary(array, array.as_binary::<i64>().clone()),
        DataType::BinaryView => binary(array, array.as_binary_view().clone()),
        DataType::FixedSizeBinary(_) => {
            let values = array.as_fixed_size_binary().clone();
            nullable(array, [tag::BYTES_FIXED, 0, 0], move |row, bytes| {
                push_bytes(values.value(row), bytes)
            })
        }
        DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _) => decimal(array)?,
        DataType::Float16 => fixed::<Float16Type, 2>(array, [tag::FLOAT, 2, 0], |value| {
            let value = if value.is_nan() {
                <Float16Type as ArrowPrimitiveType>::Native::NAN
            } else {
                value
            };
            if value.to_f32() == 0.0 {
                [0; 2]
            } else {
                value.to_le_bytes()
            }
        }),
        DataType::Float32 => fixed::<Float32Type, 4>(array, [tag::FLOAT, 4, 0], |value| {
            let value = if value.is_nan() { f32::NAN } else { value };
            if value == 0.0 { [0; 4] } else { value.to_le_bytes() }
        }),
        DataType::Float64 => fixed::<Float64Type, 8>(array, [tag::FLOAT, 8, 0], |value| {
            crate::hash::float_bits(value).to_le_bytes()
        }),
        DataType::Interval(unit) => interval(array, *unit),
        DataType::List(_) => list(array, array.as_list::<i32>())?,
        DataType::LargeList(_) => list(array, array.as_list::<i64>())?,
        DataType::ListView(_) => list_view(array, array.as_list_view::<i32>())?,
        DataType::LargeListView(_) => list_view(array, array.as_list_view::<i64>())?,
        DataType::FixedSizeList(_, _) => fixed_list(array, array.as_fixed_size_list())?,
        DataType::Struct(_) => structure(array, array.as_struct())?,
        DataType::Map(_, _) => map(array, array.as_map())?,
        DataType::Dictionary(_, values) => encoder(&arrow::compute::cast(array, values)?)?,
        DataType::RunEndEncoded(_, values) => encoder(&arrow::compute::cast(array, values.data_type())?)?,
        DataType::Union(_, _) => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "STATE-0202",
                "cannot digest a column: its type is a union",
            )
            .fact("type", array.data_type()));
        }
        _ => numeric(array)?,
    })
}

fn numeric(array: &ArrayRef) -> Result<Encoder> {
    Ok(match array.data_type() {
        DataType::Int8 => fixed::<Int8Type, 1>(array, [tag::INT, 1, 0], i8::to_le_bytes),
        DataType::Int16 => fixed::<Int16Type, 2>(array, [tag::INT, 2, 0], i16::to_le_bytes),
        DataType::Int32 => fixed::<Int32Type, 4>(array, [tag::INT, 4, 0], i32::to_le_bytes),
        DataType::Int64 => fixed::<Int64Type, 8>(array, [tag::INT, 8, 0], i64::to_le_bytes),
        DataType::UInt8 => fixed::<UInt8Type, 1>(array, [tag::UINT, 1, 0], u8::to_le_bytes),
        DataType::UInt16 => fixed::<UInt16Type, 2>(array, [tag::UINT, 2, 0], u16::to_le_bytes),
        DataType::UInt32 => fixed::<UInt32Type, 4>(array, [tag::UINT, 4, 0], u32::to_le_bytes),
        DataType::UInt64 => fixed::<UInt64Type, 8>(array, [tag::UINT, 8, 0], u64::to_le_bytes),
        DataType::Date32 => fixed::<Date32Type, 4>(array, [tag::DATE, 4, 0], i32::to_le_bytes),
        DataType::Date64 => fixed::<Date64Type, 8>(array, [tag::DATE, 8, 0], i64::to_le_bytes),
        DataType::Time32(unit) | DataType::Time64(unit) => ticks(array, [tag::TIME, unit_code(*unit), 0])?,
        DataType::Timestamp(unit, zone) => ticks(array, [tag::TIMESTAMP, unit_code(*unit), u8::from(zone.is_some())])?,
        DataType::Duration(unit) => ticks(array, [tag::DURATION, unit_code(*unit), 0])?,
        other => return Err(Error::bug(format!("a digest met a column of type {other}"))),
    })
}

/// A count of time units, 8 bytes wide; which unit is in `head`.
fn ticks(array: &ArrayRef, head: [u8; 3]) -> Result<Encoder> {
    let counts = arrow::compute::cast(array, &DataType::Int64)?;
    Ok(fixed::<Int64Type, 8>(&counts, head, i64::to_le_bytes))
}

fn unit_code(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

/// Head and null flag, then the value by `encode`.
fn nullable(array: &ArrayRef, head: [u8; 3], encode: impl Fn(usize, &mut Vec<u8>) + 'static) -> Encoder {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
    Box::new(move |row, bytes| {
        let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        bytes.extend_from_slice(&[head[0], head[1], head[2], u8::from(valid)]);
        if valid {
            encode(row, bytes);
        }
    })
}

fn fixed<T: ArrowPrimitiveType, const N: usize>(
    array: &ArrayRef,
    head: [u8; 3],
    encode: impl Fn(T::Native) -> [u8; N] + 'static,
) -> Encoder {
    let values = array.as_primitive::<T>().values().clone();
    nullable(array, head, move |row, bytes| {
        bytes.extend_from_slice(&encode(values[row]))
    })
}

fn push_bytes(value: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
    bytes.extend_from_slice(value);
}

fn text<A>(array: &ArrayRef, values: A) -> Encoder
where
    A: 'static,
    for<'a> &'a A: arrow::array::ArrayAccessor<Item = &'a str>,
{
    use arrow::array::ArrayAccessor;
    nullable(array, [tag::TEXT, 0, 0], move |row, bytes| {
        push_bytes((&values).value(row).as_bytes(), bytes)
    })
}

fn binary<A>(array: &ArrayRef, values: A) -> Encoder
where
    A: 'static,
    for<'a> &'a A: arrow::array::ArrayAccessor<Item = &'a [u8]>,
{
    use arrow::array::ArrayAccessor;
    nullable(array, [tag::BYTES, 0, 0], move |row, bytes| {
        push_bytes((&values).value(row), bytes)
    })
}

/// Every width alike: 16 bytes where the value fits, else 32 and a mark.
fn decimal(array: &ArrayRef) -> Result<Encoder> {
    let head = |scale: i8| [tag::DECIMAL, scale as u8, 0];
    Ok(match array.data_type() {
        DataType::Decimal32(_, scale) => fixed::<Decimal32Type, 17>(array, head(*scale), |value| narrow(value.into())),
        DataType::Decimal64(_, scale) => fixed::<Decimal64Type, 17>(array, head(*scale), |value| narrow(value.into())),
        DataType::Decimal128(_, scale) => fixed::<Decimal128Type, 17>(array, head(*scale), narrow),
        DataType::Decimal256(_, scale) => {
            let values = array.as_primitive::<Decimal256Type>().values().clone();
            nullable(array, head(*scale), move |row, bytes| match values[row].to_i128() {
                Some(value) => bytes.extend_from_slice(&narrow(value)),
                None => {
                    bytes.push(32);
                    bytes.extend_from_slice(&values[row].to_le_bytes());
                }
            })
        }
        other => return Err(Error::bug(format!("a digest met {other} among the decimals"))),
    })
}

fn narrow(value: i128) -> [u8; 17] {
    let mut bytes = [16; 17];
    bytes[1..].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn interval(array: &ArrayRef, unit: IntervalUnit) -> Encoder {
    match unit {
        IntervalUnit::YearMonth => {
            fixed::<IntervalYearMonthType, 4>(array, [tag::INTERVAL, 1, 0], |months| months.to_le_bytes())
        }
        IntervalUnit::DayTime => fixed::<IntervalDayTimeType, 8>(array, [tag::INTERVAL, 2, 0], |value| {
            let mut bytes = [0; 8];
            bytes[..4].copy_from_slice(&value.days.to_le_bytes());
            bytes[4..].copy_from_slice(&value.milliseconds.to_le_bytes());
            bytes
        }),
        IntervalUnit::MonthDayNano => fixed::<IntervalMonthDayNanoType, 16>(array, [tag::INTERVAL, 3, 0], |value| {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&value.months.to_le_bytes());
            bytes[4..8].copy_from_slice(&value.days.to_le_bytes());
            bytes[8..].copy_from_slice(&value.nanoseconds.to_le_bytes());
            bytes
        }),
    }
}

/// Count and items, where `range` gives the rows of the items.
fn items(
    array: &ArrayRef,
    head: [u8; 3],
    values: &ArrayRef,
    range: impl Fn(usize) -> std::ops::Range<usize> + 'static,
) -> Result<Encoder> {
    let item = encoder(values)?;
    Ok(nullable(array, head, move |row, bytes| {
        let range = range(row);
        bytes.extend_from_slice(&(range.len() as u64).to_le_bytes());
        range.for_each(|row| item(row, bytes));
    }))
}

fn list<O: OffsetSizeTrait>(array: &ArrayRef, lists: &GenericListArray<O>) -> Result<Encoder> {
    let offsets = lists.offsets().clone();
    let range = move |row: usize| offsets[row].as_usize()..offsets[row + 1].as_usize();
    items(array, [tag::LIST, 0, 0], lists.values(), range)
}

fn list_view<O: OffsetSizeTrait>(array: &ArrayRef, lists: &GenericListViewArray<O>) -> Result<Encoder> {
    let (offsets, sizes) = (lists.offsets().clone(), lists.sizes().clone());
    let range = move |row: usize| offsets[row].as_usize()..offsets[row].as_usize() + sizes[row].as_usize();
    items(array, [tag::LIST, 0, 0], lists.values(), range)
}

fn fixed_list(array: &ArrayRef, lists: &FixedSizeListArray) -> Result<Encoder> {
    let length = lists.value_length() as usize;
    items(array, [tag::LIST, 0, 0], lists.values(), move |row| {
        row * length..(row + 1) * length
    })
}

fn structure(array: &ArrayRef, fields: &StructArray) -> Result<Encoder> {
    let encoders = fields.columns().iter().map(encoder).collect::<Result<Vec<_>>>()?;
    let head = [tag::STRUCT, encoders.len() as u8, (encoders.len() >> 8) as u8];
    Ok(nullable(array, head, move |row, bytes| {
        encoders.iter().for_each(|field| field(row, bytes))
    }))
}

fn map(array: &ArrayRef, maps: &MapArray) -> Result<Encoder> {
    let offsets = maps.offsets().clone();
    let range = move |row: usize| offsets[row] as usize..offsets[row + 1] as usize;
    let entries: ArrayRef = Arc::new(maps.entries().clone());
    items(array, [tag::MAP, 0, 0], &entries, range)
}
