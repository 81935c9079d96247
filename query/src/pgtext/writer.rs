//! Cells in PostgreSQL's text form.

use super::calendar::{write_date, write_interval, write_time, write_timestamp, write_timestamptz};
use super::cells::{Cells, Values};
use super::number::{write_decimal, write_f32, write_f64, write_i64, write_u64};
use super::{TextStyle, Zone};
use arrow::array::Array;
use arrow::datatypes::Field;
use cenote_statestore::Result;
use cenote_statestore::forms::uuid;

/// Writes the cells of one array as text.
///
/// # Examples
/// ```
/// use arrow::array::Float64Array;
/// use arrow::datatypes::{DataType, Field};
/// use cenote_query::pgtext::{Formatter, TextStyle};
/// let array = Float64Array::from(vec![Some(1e16), None]);
/// let formatter = Formatter::new(&Field::new("x", DataType::Float64, true), &array, &TextStyle::default()).unwrap();
/// let mut text = Vec::new();
/// formatter.write(&mut text, 0);
/// assert_eq!(text, b"1e+16");
/// assert!(formatter.is_null(1));
/// ```
pub struct Formatter<'a> {
    cells: Cells<'a>,
    zone: Zone,
    is_vector: bool,
}

impl<'a> Formatter<'a> {
    /// Looks at an array once, so that writing a cell costs one branch.
    ///
    /// # Errors
    /// `Unsupported`: the Arrow type has no text form (unions, run-end encoded arrays).
    pub fn new(field: &Field, array: &'a dyn Array, style: &TextStyle) -> Result<Formatter<'a>> {
        let named = field.metadata().get(crate::pgtype::TYPE_KEY);
        let is_vector = named.is_some_and(|name| matches!(name.as_str(), "int2vector" | "oidvector"));
        Ok(Formatter {
            cells: Cells::new(array)?,
            zone: style.zone,
            is_vector,
        })
    }

    /// Whether the cell is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.cells.is_null(row)
    }

    /// Appends the cell's text; nothing for NULL.
    ///
    /// # Panics
    /// If `row` is not below the array's length.
    pub fn write(&self, out: &mut Vec<u8>, row: usize) {
        match &self.cells.values {
            Values::List(ranges, elements) if self.is_vector && !self.is_null(row) => {
                for (position, element) in ranges.of(row).enumerate() {
                    if position > 0 {
                        out.push(b' ');
                    }
                    write_cell(out, elements, element, &self.zone);
                }
            }
            _ => write_cell(out, &self.cells, row, &self.zone),
        }
    }

    /// The cell's text; `None` for NULL.
    pub fn text(&self, row: usize) -> Option<String> {
        if self.is_null(row) {
            return None;
        }
        let mut out = Vec::new();
        self.write(&mut out, row);
        Some(String::from_utf8_lossy(&out).into_owned())
    }
}

fn write_cell(out: &mut Vec<u8>, cells: &Cells<'_>, row: usize, zone: &Zone) {
    if cells.is_null(row) {
        return;
    }
    match &cells.values {
        Values::Null => {}
        Values::Bool(array) => out.push(if array.value(row) { b't' } else { b'f' }),
        Values::UInt64(values) => write_u64(out, values[row]),
        Values::Int64(values) => write_i64(out, values[row]),
        Values::Int32(values) => write_i64(out, values[row] as i64),
        Values::Float32(values) => write_f32(out, values[row]),
        Values::Float64(values) => write_f64(out, values[row]),
        Values::Date32(days) => write_date(out, days[row] as i64),
        Values::Timestamp(_, _) => {
            if let Some(moment) = cells.values.moment(row) {
                write_timestamp(out, moment, b' ');
            }
        }
        Values::Timestamptz(_, _) => {
            if let Some(moment) = cells.values.moment(row) {
                write_timestamptz(out, moment, zone);
            }
        }
        Values::List(ranges, elements) => write_array(out, elements, ranges.of(row), zone),
        Values::Struct(fields) => write_record(out, fields, row, zone),
        Values::Dictionary(keys, values) => write_cell(out, values, keys[row], zone),
        other => write_plain(out, other, row),
    }
}

fn write_plain(out: &mut Vec<u8>, values: &Values<'_>, row: usize) {
    if let Some(text) = values.text(row) {
        out.extend_from_slice(text.as_bytes());
    } else if let Some((value, scale)) = values.decimal(row) {
        write_decimal(out, value, scale);
    } else if let Some(value) = values.integer(row) {
        write_i64(out, value as i64);
    } else if let Some(bytes) = values.bytes(row) {
        write_hex(out, bytes);
    } else if let Some(nanos) = values.time_nanos(row) {
        write_time(out, nanos);
    } else if let Some(span) = values.span(row) {
        write_interval(out, span);
    } else if let Some(bytes) = values.uuid(row) {
        uuid::write(out, bytes);
    } else if let Values::Decimal256(array) = values {
        out.extend_from_slice(array.value_as_string(row).as_bytes());
    }
}

fn write_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(b"\\x");
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(DIGITS[(byte >> 4) as usize]);
        out.push(DIGITS[(byte & 15) as usize]);
    }
}

fn write_array(out: &mut Vec<u8>, elements: &Cells<'_>, range: std::ops::Range<usize>, zone: &Zone) {
    let is_nested = matches!(elements.values, Values::List(_, _));
    out.push(b'{');
    for (position, element) in range.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        if elements.is_null(element) {
            out.extend_from_slice(b"NULL");
            continue;
        }
        let start = out.len();
        write_cell(out, elements, element, zone);
        if !is_nested && array_element_needs_quotes(&out[start..]) {
            quote(out, start, |byte| matches!(byte, b'"' | b'\\').then_some(b'\\'));
        }
    }
    out.push(b'}');
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn array_element_needs_quotes(text: &[u8]) -> bool {
    let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | b'{' | b'}' | b',') || is_space(*byte);
    text.is_empty() || text.eq_ignore_ascii_case(b"null") || text.iter().any(is_special)
}

fn write_record(out: &mut Vec<u8>, fields: &[(&str, Cells<'_>)], row: usize, zone: &Zone) {
    out.push(b'(');
    for (position, (_, cells)) in fields.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        if cells.is_null(row) {
            continue;
        }
        let start = out.len();
        write_cell(out, cells, row, zone);
        let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | b'(' | b')' | b',') || is_space(*byte);
        if out.len() == start || out[start..].iter().any(is_special) {
            quote(out, start, |byte| matches!(byte, b'"' | b'\\').then_some(byte));
        }
    }
    out.push(b')');
}

/// Puts what follows `start` between double quotes, with a byte before those that `escape` names.
fn quote(out: &mut Vec<u8>, start: usize, escape: impl Fn(u8) -> Option<u8>) {
    let text = out.split_off(start);
    out.push(b'"');
    for byte in text {
        out.extend(escape(byte));
        out.push(byte);
    }
    out.push(b'"');
}
