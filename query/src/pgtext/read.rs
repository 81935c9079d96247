//! Text to arrays, by PostgreSQL's input rules: the dispatch over types, booleans and byte strings.

use super::TextStyle;
use super::read_forms::{read_interval, read_json, read_uuids};
use super::read_list::read_list;
use super::read_number::{read_decimals, read_float, read_integer};
use super::read_record::read_records;
use super::read_time::{read_date, read_time, read_timestamp};
use crate::pgtype::ColumnType;
use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryBuilder, BinaryViewBuilder, BooleanArray, LargeBinaryBuilder, LargeStringArray,
    NullArray, PrimitiveArray, StringArray, StringViewArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use cenote_statestore::forms::json;
use cenote_statestore::forms::uuid::UUID;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// Longest piece of a value that an error text repeats, in bytes.
const QUOTED_BYTES_MAX: usize = 1_024;

/// Reads a column of texts, in the default style (time zone UTC).
///
/// # Arguments
/// - `values`: one text per row in the form that PostgreSQL's input function of the type takes; `None` is NULL.
/// - `data_type`: what to make of them. Decimals round to the scale, half away from zero.
///
/// # Returns
/// An array of `data_type` and of the same length.
///
/// # Errors
/// The first value that does not read, with PostgreSQL's message and SQLSTATE:
/// - 22P02, 22007: it is not of the type's form. 22003, 22008, 22015: it is out of the type's range.
/// - 0A000: Cenote does not hold such values (`infinity`, `NaN` in a `numeric`) or does not read this Arrow type.
///
/// # Examples
/// ```
/// use arrow::array::AsArray;
/// use arrow::datatypes::{DataType, Int32Type};
/// let array = cenote_query::pgtext::parse_array(&[Some(" 42 "), None], &DataType::Int32).unwrap();
/// assert_eq!(array.as_primitive::<Int32Type>().value(0), 42);
/// let error = cenote_query::pgtext::parse_array(&[Some("abc")], &DataType::Int32).unwrap_err();
/// assert_eq!(error.message(), "invalid input syntax for type integer: \"abc\"");
/// ```
pub fn parse_array(values: &[Option<&str>], data_type: &DataType) -> Result<ArrayRef> {
    parse_array_in(values, data_type, &TextStyle::default())
}

/// [`parse_array`] in a session's style: its time zone is that of a `timestamptz` written without one.
pub fn parse_array_in(values: &[Option<&str>], data_type: &DataType, style: &TextStyle) -> Result<ArrayRef> {
    let name = ColumnType::of_data_type(data_type).pg.input_name();
    match data_type {
        DataType::Null => nulls(values),
        DataType::Boolean => {
            let read = values.iter().map(|value| value.map(read_bool).transpose());
            Ok(Arc::new(read.collect::<Result<BooleanArray>>()?))
        }
        DataType::Int8 => primitive::<Int8Type>(values, |text| read_integer(text, name)),
        DataType::Int16 => primitive::<Int16Type>(values, |text| read_integer(text, name)),
        DataType::Int32 => primitive::<Int32Type>(values, |text| read_integer(text, name)),
        DataType::Int64 => primitive::<Int64Type>(values, |text| read_integer(text, name)),
        DataType::UInt8 => primitive::<UInt8Type>(values, |text| read_integer(text, name)),
        DataType::UInt16 => primitive::<UInt16Type>(values, |text| read_integer(text, name)),
        DataType::UInt32 => primitive::<UInt32Type>(values, |text| read_integer(text, name)),
        DataType::UInt64 => primitive::<UInt64Type>(values, |text| read_integer(text, name)),
        DataType::Float32 => primitive::<Float32Type>(values, |text| read_float(text, name)),
        DataType::Float64 => primitive::<Float64Type>(values, |text| read_float(text, name)),
        DataType::Decimal128(precision, scale) => read_decimals(values, *precision, *scale),
        DataType::Utf8 => Ok(Arc::new(StringArray::from_iter(values))),
        DataType::LargeUtf8 => Ok(Arc::new(LargeStringArray::from_iter(values))),
        DataType::Utf8View => Ok(Arc::new(StringViewArray::from_iter(values))),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => byte_strings(values, data_type),
        DataType::Date32 => primitive::<Date32Type>(values, read_date),
        DataType::Time64(TimeUnit::Microsecond) => primitive::<Time64MicrosecondType>(values, read_time),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            let read_in = zone.is_some().then_some(&style.zone);
            let read = values
                .iter()
                .map(|value| value.map(|text| read_timestamp(text, read_in, name)).transpose());
            let array = read.collect::<Result<PrimitiveArray<TimestampMicrosecondType>>>()?;
            Ok(Arc::new(array.with_timezone_opt(zone.clone())))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => primitive::<IntervalMonthDayNanoType>(values, read_interval),
        DataType::List(item) => read_list(values, item, style),
        uuid if *uuid == UUID => read_uuids(values),
        DataType::Struct(_) if json::name_of(data_type).is_some() => read_json(values, data_type),
        DataType::Struct(fields) => read_records(values, fields, style),
        other => {
            let message = format!("cannot read text as Arrow type {other}: not supported");
            Err(Error::new(ErrorKind::Unsupported, "VALUE-0007", message))
        }
    }
}

fn nulls(values: &[Option<&str>]) -> Result<ArrayRef> {
    match values.iter().flatten().next() {
        None => Ok(Arc::new(NullArray::new(values.len()))),
        Some(text) => Err(Error::bug(format!("value {} has no type to be read as", quoted(text)))),
    }
}

/// Reads one text as a value of `data_type`.
///
/// # Errors
/// As [`parse_array`].
pub fn parse_scalar(value: Option<&str>, data_type: &DataType, style: &TextStyle) -> Result<ScalarValue> {
    let array = parse_array_in(&[value], data_type, style)?;
    ScalarValue::try_from_array(&array, 0).map_err(|error| Error::bug(format!("a value read is lost: {error}")))
}

fn primitive<T: ArrowPrimitiveType>(
    values: &[Option<&str>],
    read: impl Fn(&str) -> Result<T::Native>,
) -> Result<ArrayRef> {
    let read = values.iter().map(|value| value.map(&read).transpose());
    Ok(Arc::new(read.collect::<Result<PrimitiveArray<T>>>()?))
}

/// `"text"`, cut where it is long.
pub(crate) fn quoted(text: &str) -> String {
    if text.len() <= QUOTED_BYTES_MAX {
        return format!("\"{text}\"");
    }
    let cut = (0..=QUOTED_BYTES_MAX)
        .rev()
        .find(|index| text.is_char_boundary(*index))
        .unwrap_or(0);
    format!("\"{}...\"", &text[..cut])
}

/// PostgreSQL's `invalid input syntax`, SQLSTATE 22P02.
pub(crate) fn invalid(type_name: &str, text: &str) -> Error {
    let message = format!("invalid input syntax for type {type_name}: {}", quoted(text));
    Error::new(ErrorKind::Invalid, "VALUE-0001", message).sqlstate("22P02")
}

/// Whether C's `isspace` says so.
pub(crate) fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

fn read_bool(text: &str) -> Result<bool> {
    let word = text.trim_matches(is_space).to_ascii_lowercase();
    let starts = |whole: &str, length_min: usize| word.len() >= length_min && whole.starts_with(&word);
    match word.as_str() {
        "1" => Ok(true),
        "0" => Ok(false),
        _ if starts("true", 1) || starts("yes", 1) || starts("on", 2) => Ok(true),
        _ if starts("false", 1) || starts("no", 1) || starts("off", 2) => Ok(false),
        _ => Err(invalid("boolean", text)),
    }
}

fn byte_strings(values: &[Option<&str>], data_type: &DataType) -> Result<ArrayRef> {
    let read: Vec<Option<Vec<u8>>> = values
        .iter()
        .map(|value| value.map(read_bytes).transpose())
        .collect::<Result<_>>()?;
    Ok(match data_type {
        DataType::LargeBinary => {
            let mut builder = LargeBinaryBuilder::new();
            builder.extend(read);
            Arc::new(builder.finish())
        }
        DataType::BinaryView => {
            let mut builder = BinaryViewBuilder::new();
            builder.extend(read);
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = BinaryBuilder::new();
            builder.extend(read);
            Arc::new(builder.finish())
        }
    })
}

fn read_bytes(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(digits) => read_hex(digits),
        None => read_escaped(text.as_bytes()),
    }
}

fn read_hex(digits: &str) -> Result<Vec<u8>> {
    let fail = |message: String| Error::new(ErrorKind::Invalid, "VALUE-0001", message).sqlstate("22023");
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let mut high = None;
    for character in digits.chars() {
        if matches!(character, ' ' | '\n' | '\t' | '\r') && high.is_none() {
            continue;
        }
        let digit = character
            .to_digit(16)
            .ok_or_else(|| fail(format!("invalid hexadecimal digit: \"{character}\"")))?;
        match high.take() {
            None => high = Some(digit),
            Some(first) => bytes.push((first * 16 + digit) as u8),
        }
    }
    if high.is_some() {
        return Err(fail("invalid hexadecimal data: odd number of digits".to_string()));
    }
    Ok(bytes)
}

/// The older form: `\\` is a backslash, `\ooo` a byte in octal, all else stands for itself.
fn read_escaped(text: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let (byte, used) = match (first, tail) {
            (b'\\', [b'\\', ..]) => (b'\\', 2),
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', ..]) => {
                ((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'), 4)
            }
            (b'\\', _) => {
                let message = "invalid input syntax for type bytea";
                return Err(Error::new(ErrorKind::Invalid, "VALUE-0001", message).sqlstate("22P02"));
            }
            (plain, _) => (*plain, 1),
        };
        bytes.push(byte);
        rest = &rest[used..];
    }
    Ok(bytes)
}
