//! Cells as JSON values.
//!
//! Numbers that a reader with doubles would change (beyond 2^53, decimals) are strings unless asked for raw.
//! Timestamps are RFC 3339, binary is base64, lists are arrays, structs are objects.

use super::calendar::{write_date, write_interval, write_time, write_timestamp};
use super::cells::{Cells, Values, per_second};
use super::number::{write_decimal, write_f32, write_f64, write_i64, write_u64};
use crate::pgtype::{ColumnType, oid};
use arrow::array::Array;
use arrow::datatypes::{DataType, Field, TimeUnit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cenote_statestore::forms::uuid;
use cenote_statestore::{Result, Stored};

/// The largest integer that a double holds together with all below it.
const EXACT_MAX: u128 = 1 << 53;

const MICROSECOND_NANOS: i64 = 1_000;

/// Writes the cells of one array as JSON.
pub struct JsonWriter<'a> {
    cells: Cells<'a>,
    is_json: bool,
    numbers_raw: bool,
}

impl<'a> JsonWriter<'a> {
    /// Looks at an array once.
    ///
    /// # Arguments
    /// - `field`: a column of type `json` or `jsonb` is embedded as it is; other text is a JSON string.
    /// - `numbers_raw`: large integers and decimals as JSON numbers instead of strings.
    ///
    /// # Errors
    /// `Unsupported`: the Arrow type has no JSON form (unions, run-end encoded arrays).
    pub fn new(field: &Field, array: &'a dyn Array, numbers_raw: bool) -> Result<JsonWriter<'a>> {
        let is_json = matches!(ColumnType::of(field).pg.oid, oid::JSON | oid::JSONB);
        Ok(JsonWriter {
            cells: Cells::new(array)?,
            is_json,
            numbers_raw,
        })
    }

    /// Appends the cell; `null` for NULL.
    ///
    /// # Panics
    /// If `row` is not below the array's length.
    pub fn write(&self, out: &mut Vec<u8>, row: usize) {
        match self
            .cells
            .values
            .text(row)
            .filter(|_| self.is_json && !self.cells.is_null(row))
        {
            Some(text) => write_embedded(out, text),
            None => write_cell(out, &self.cells, row, self.numbers_raw),
        }
    }
}

/// Appends one cell of an array as JSON; `null` for NULL. For whole columns [`JsonWriter`] is cheaper.
///
/// # Arguments
/// - `numbers_raw`: integers beyond 2^53 and decimals as JSON numbers instead of strings.
///
/// # Errors
/// `Unsupported`: the Arrow type has no JSON form.
///
/// # Panics
/// If `row` is not below the array's length.
pub fn write_json(out: &mut Vec<u8>, array: &dyn Array, row: usize, numbers_raw: bool) -> Result<()> {
    write_cell(out, &Cells::new(array)?, row, numbers_raw);
    Ok(())
}

/// Whether [`write_stored`] knows the values of a column.
pub(crate) fn has_stored_form(field: &Field) -> bool {
    use DataType::*;
    let is_plain = matches!(
        field.data_type(),
        Boolean
            | Int16
            | Int32
            | Int64
            | UInt64
            | Float32
            | Float64
            | Decimal128(_, _)
            | Date32
            | Time64(TimeUnit::Microsecond)
            | Timestamp(TimeUnit::Microsecond, _)
            | Utf8
    );
    is_plain && !matches!(ColumnType::of(field).pg.oid, oid::JSON | oid::JSONB)
}

/// Appends a value of the store as [`JsonWriter`] would write it from an array.
///
/// # Panics
/// If the column has no form here: see [`has_stored_form`].
pub(crate) fn write_stored(out: &mut Vec<u8>, data_type: &DataType, value: Stored<'_>, raw: bool) {
    use std::slice::from_ref;
    match (data_type, &value) {
        (_, Stored::Null) => out.extend_from_slice(b"null"),
        (_, Stored::Byte(value)) => out.extend_from_slice(if *value != 0 { b"true" } else { b"false" }),
        (_, Stored::Bytes(bytes)) => write_string(out, std::str::from_utf8(bytes).expect("written from a valid text")),
        (_, Stored::Short(value)) => write_cell(out, &Cells::one(Values::Int16(from_ref(value))), 0, raw),
        (DataType::Date32, Stored::Int(value)) => write_cell(out, &Cells::one(Values::Date32(from_ref(value))), 0, raw),
        (DataType::Float32, Stored::Int(value)) => write_cell(
            out,
            &Cells::one(Values::Float32(&[f32::from_bits(*value as u32)])),
            0,
            raw,
        ),
        (_, Stored::Int(value)) => write_cell(out, &Cells::one(Values::Int32(from_ref(value))), 0, raw),
        (DataType::Int64, Stored::Long(value)) => write_cell(out, &Cells::one(Values::Int64(from_ref(value))), 0, raw),
        (DataType::UInt64, Stored::Long(value)) => {
            write_cell(out, &Cells::one(Values::UInt64(&[*value as u64])), 0, raw)
        }
        (DataType::Float64, Stored::Long(value)) => write_cell(
            out,
            &Cells::one(Values::Float64(&[f64::from_bits(*value as u64)])),
            0,
            raw,
        ),
        (DataType::Time64(_), Stored::Long(value)) => write_cell(
            out,
            &Cells::one(Values::Time64(from_ref(value), MICROSECOND_NANOS)),
            0,
            raw,
        ),
        (DataType::Timestamp(unit, None), Stored::Long(value)) => write_cell(
            out,
            &Cells::one(Values::Timestamp(from_ref(value), per_second(unit))),
            0,
            raw,
        ),
        (DataType::Timestamp(unit, Some(_)), Stored::Long(value)) => write_cell(
            out,
            &Cells::one(Values::Timestamptz(from_ref(value), per_second(unit))),
            0,
            raw,
        ),
        (DataType::Decimal128(_, scale), Stored::Wide(value)) => {
            write_cell(out, &Cells::one(Values::Decimal128(from_ref(value), *scale)), 0, raw)
        }
        (other, _) => panic!("a value of type {other} is written without having been asked for"),
    }
}

fn write_cell(out: &mut Vec<u8>, cells: &Cells<'_>, row: usize, raw: bool) {
    if cells.is_null(row) {
        return out.extend_from_slice(b"null");
    }
    match &cells.values {
        Values::Null => out.extend_from_slice(b"null"),
        Values::Bool(array) => out.extend_from_slice(if array.value(row) { b"true" } else { b"false" }),
        Values::Float32(values) if values[row].is_finite() => write_f32(out, values[row]),
        Values::Float32(values) => quoted(out, |out| write_f32(out, values[row])),
        Values::Float64(values) if values[row].is_finite() => write_f64(out, values[row]),
        Values::Float64(values) => quoted(out, |out| write_f64(out, values[row])),
        Values::Decimal256(array) => {
            let text = array.value_as_string(row);
            quoted_unless(out, raw, |out| out.extend_from_slice(text.as_bytes()));
        }
        Values::Date32(days) => quoted(out, |out| write_date(out, days[row] as i64)),
        Values::List(ranges, elements) => write_list(out, elements, ranges.of(row), raw),
        Values::Struct(fields) => write_object(out, fields, row, raw),
        Values::Json(texts) => write_embedded(out, texts.value(row)),
        Values::Dictionary(keys, values) => write_cell(out, values, keys[row], raw),
        other => write_plain(out, other, row, raw),
    }
}

/// JSON inside JSON. Line ends between tokens are blanks like others, and would end a line of NDJSON.
fn write_embedded(out: &mut Vec<u8>, text: &str) {
    let blank = |byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { byte };
    out.extend(text.bytes().map(blank));
}

fn write_plain(out: &mut Vec<u8>, values: &Values<'_>, row: usize, raw: bool) {
    if let Some(text) = values.text(row) {
        write_string(out, text);
    } else if let Some(value) = values.integer(row) {
        quoted_unless(
            out,
            raw || value.unsigned_abs() <= EXACT_MAX,
            |out| match u64::try_from(value) {
                Ok(value) => write_u64(out, value),
                Err(_) => write_i64(out, value as i64),
            },
        );
    } else if let Some((value, scale)) = values.decimal(row) {
        quoted_unless(out, raw, |out| write_decimal(out, value, scale));
    } else if let Some(moment) = values.moment(row) {
        let suffix: &[u8] = if matches!(values, Values::Timestamptz(_, _)) {
            b"Z"
        } else {
            b""
        };
        quoted(out, |out| {
            write_timestamp(out, moment, b'T');
            out.extend_from_slice(suffix);
        });
    } else if let Some(bytes) = values.bytes(row) {
        quoted(out, |out| out.extend_from_slice(STANDARD.encode(bytes).as_bytes()));
    } else if let Some(nanos) = values.time_nanos(row) {
        quoted(out, |out| write_time(out, nanos));
    } else if let Some(span) = values.span(row) {
        quoted(out, |out| write_interval(out, span));
    } else if let Some(bytes) = values.uuid(row) {
        quoted(out, |out| uuid::write(out, bytes));
    }
}

fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

fn quoted_unless(out: &mut Vec<u8>, plain: bool, write: impl FnOnce(&mut Vec<u8>)) {
    if plain { write(out) } else { quoted(out, write) }
}

fn write_list(out: &mut Vec<u8>, elements: &Cells<'_>, range: std::ops::Range<usize>, raw: bool) {
    out.push(b'[');
    for (position, element) in range.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_cell(out, elements, element, raw);
    }
    out.push(b']');
}

fn write_object(out: &mut Vec<u8>, fields: &[(&str, Cells<'_>)], row: usize, raw: bool) {
    out.push(b'{');
    for (position, (name, cells)) in fields.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_string(out, name);
        out.push(b':');
        write_cell(out, cells, row, raw);
    }
    out.push(b'}');
}

/// Appends a JSON string.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut plain_from = 0;
    for (index, byte) in bytes.iter().enumerate() {
        if !matches!(byte, b'"' | b'\\' | 0..=0x1f) {
            continue;
        }
        out.extend_from_slice(&bytes[plain_from..index]);
        plain_from = index + 1;
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => out.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[(other >> 4) as usize],
                HEX[(other & 15) as usize],
            ]),
        }
    }
    out.extend_from_slice(&bytes[plain_from..]);
    out.push(b'"');
}
