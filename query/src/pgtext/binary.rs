//! Cells in PostgreSQL's binary form: what `typsend` functions produce, without the length before it.

use super::calendar::{DAY_MICROS, POSTGRES_EPOCH_DAYS};
use super::cells::{Cells, Ranges, Values};
use super::number::write_decimal;
use crate::pgtype::{ColumnType, PgType, oid};
use arrow::array::Array;
use arrow::datatypes::{DataType, Field};
use cenote_statestore::{Error, ErrorKind, Result};

/// Writes the cells of one array in binary form.
pub struct BinaryEncoder<'a> {
    cells: Cells<'a>,
    pg: PgType,
}

impl<'a> BinaryEncoder<'a> {
    /// Looks at an array once.
    ///
    /// # Errors
    /// `Unsupported`: the column's type has no binary form here; text always works.
    pub fn new(field: &Field, array: &'a dyn Array) -> Result<BinaryEncoder<'a>> {
        let pg = ColumnType::of(field).pg;
        let cells = Cells::new(array)?;
        Ok(BinaryEncoder { cells, pg })
    }

    /// Whether the cell is NULL.
    pub fn is_null(&self, row: usize) -> bool {
        self.cells.is_null(row)
    }

    /// Appends the cell's bytes; nothing for NULL.
    ///
    /// # Errors
    /// - `Invalid`, 22003 or 22008: the value is outside what the binary form can hold. Text works.
    /// - `Unsupported`, 0A000: the type has no binary form here.
    ///
    /// # Panics
    /// If `row` is not below the array's length.
    pub fn write(&self, out: &mut Vec<u8>, row: usize) -> Result<()> {
        write_cell(out, &self.pg, &self.cells, row)
    }
}

fn no_binary(pg: &PgType) -> Error {
    let message = format!(
        "cannot send {} in binary format: only its text form is supported",
        pg.display(-1)
    );
    Error::new(ErrorKind::Unsupported, "VALUE-0008", message).attempt("ask for the column in text format")
}

fn out_of_range(pg: &PgType) -> Error {
    let state = if matches!(pg.oid, oid::DATE | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::INTERVAL) {
        "22008"
    } else {
        "22003"
    };
    Error::new(
        ErrorKind::Invalid,
        "VALUE-0002",
        format!("{} out of range", pg.input_name()),
    )
    .sqlstate(state)
}

fn write_cell(out: &mut Vec<u8>, pg: &PgType, cells: &Cells<'_>, row: usize) -> Result<()> {
    if cells.is_null(row) {
        return Ok(());
    }
    match &cells.values {
        Values::Dictionary(keys, values) => return write_cell(out, pg, values, keys[row]),
        Values::List(ranges, elements) if pg.is_array() => {
            let element = PgType::from_oid(pg.element).unwrap_or(*pg);
            return write_array(out, &element, ranges, elements, row);
        }
        Values::Struct(fields) => return write_record(out, fields, row),
        _ => {}
    }
    let values = &cells.values;
    let written = match pg.oid {
        oid::INT2 | oid::INT4 | oid::INT8 => write_integer(out, pg, values, row)?,
        oid::FLOAT4 | oid::FLOAT8 => write_float(out, pg, values, row),
        oid::NUMERIC => write_numeric(out, values, row),
        oid::DATE | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::INTERVAL => {
            write_moment(out, pg, values, row)?
        }
        oid::UUID => write_uuid(out, values, row),
        _ => write_other(out, pg, values, row)?,
    };
    if written { Ok(()) } else { Err(no_binary(pg)) }
}

/// The number of fields, then of each its type, its length (-1: NULL) and its bytes.
fn write_record(out: &mut Vec<u8>, fields: &[(&str, Cells<'_>)], row: usize) -> Result<()> {
    out.extend_from_slice(&(fields.len() as i32).to_be_bytes());
    for (_, cells) in fields {
        let pg = implied_type(&cells.values);
        out.extend_from_slice(&pg.oid.to_be_bytes());
        if cells.is_null(row) {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            continue;
        }
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        write_cell(out, &pg, cells, row)?;
        let length = i32::try_from(out.len() - at - 4).map_err(|_| out_of_range(&pg))?;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}

/// The type that a field's values are sent as.
fn implied_type(values: &Values<'_>) -> PgType {
    let scalar = |oid| PgType::from_oid(oid).unwrap_or_else(|| ColumnType::of_data_type(&DataType::Utf8).pg);
    scalar(match values {
        Values::Bool(_) => oid::BOOL,
        Values::Int8(_) | Values::UInt8(_) | Values::Int16(_) => oid::INT2,
        Values::UInt16(_) | Values::Int32(_) => oid::INT4,
        Values::UInt32(_) | Values::UInt64(_) | Values::Int64(_) => oid::INT8,
        Values::Float32(_) => oid::FLOAT4,
        Values::Float64(_) => oid::FLOAT8,
        Values::Decimal32(..) | Values::Decimal64(..) | Values::Decimal128(..) | Values::Decimal256(_) => oid::NUMERIC,
        Values::Bytes(_) | Values::LargeBytes(_) | Values::BytesView(_) | Values::FixedBytes(_) => oid::BYTEA,
        Values::Uuid(_) => oid::UUID,
        Values::Date32(_) => oid::DATE,
        Values::Time32(..) | Values::Time64(..) => oid::TIME,
        Values::Timestamp(..) => oid::TIMESTAMP,
        Values::Timestamptz(..) => oid::TIMESTAMPTZ,
        Values::IntervalMonths(_) | Values::IntervalDays(_) | Values::Interval(_) | Values::Duration(..) => {
            oid::INTERVAL
        }
        Values::Json(_) => oid::JSON,
        Values::Struct(_) => oid::RECORD,
        Values::List(_, elements) => return implied_type(&elements.values).to_array(),
        Values::Dictionary(_, values) => return implied_type(&values.values),
        Values::Null | Values::Text(_) | Values::LargeText(_) | Values::TextView(_) => oid::TEXT,
    })
}

fn write_integer(out: &mut Vec<u8>, pg: &PgType, values: &Values<'_>, row: usize) -> Result<bool> {
    let Some(value) = values.integer(row) else {
        return Ok(false);
    };
    let overflow = |_| out_of_range(pg);
    match pg.size {
        2 => out.extend_from_slice(&i16::try_from(value).map_err(overflow)?.to_be_bytes()),
        4 => out.extend_from_slice(&i32::try_from(value).map_err(overflow)?.to_be_bytes()),
        _ => out.extend_from_slice(&i64::try_from(value).map_err(overflow)?.to_be_bytes()),
    }
    Ok(true)
}

fn write_float(out: &mut Vec<u8>, pg: &PgType, values: &Values<'_>, row: usize) -> bool {
    match (values, pg.oid) {
        (Values::Float32(values), oid::FLOAT4) => out.extend_from_slice(&values[row].to_be_bytes()),
        (Values::Float32(values), _) => out.extend_from_slice(&(values[row] as f64).to_be_bytes()),
        (Values::Float64(values), oid::FLOAT8) => out.extend_from_slice(&values[row].to_be_bytes()),
        _ => return false,
    }
    true
}

/// `numeric` is a row of digits to base 10,000 around a decimal point: count, weight of the first, sign, scale, digits.
fn write_numeric(out: &mut Vec<u8>, values: &Values<'_>, row: usize) -> bool {
    let mut text = Vec::new();
    if let Some((value, scale)) = values.decimal(row) {
        write_decimal(&mut text, value, scale);
    } else if let Some(value) = values.integer(row) {
        write_decimal(&mut text, value, 0);
    } else if let Values::Decimal256(array) = values {
        text.extend_from_slice(array.value_as_string(row).as_bytes());
    } else {
        return false;
    }
    let is_negative = text.first() == Some(&b'-');
    let unsigned = &text[is_negative as usize..];
    let point = unsigned.iter().position(|byte| *byte == b'.').unwrap_or(unsigned.len());
    let fraction = unsigned.get(point + 1..).unwrap_or_default();
    let whole = &unsigned[..point];
    let mut digits: Vec<u16> = whole
        .rchunks(4)
        .rev()
        .map(|chunk| base_10000(chunk, chunk.len()))
        .collect();
    let mut weight = digits.len() as i16 - 1;
    digits.extend(fraction.chunks(4).map(|chunk| base_10000(chunk, 4)));
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..leading);
    weight -= leading as i16;
    while digits.last() == Some(&0) {
        digits.pop();
    }
    if digits.is_empty() {
        weight = 0;
    }
    out.extend_from_slice(&(digits.len() as u16).to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(
        &if is_negative && !digits.is_empty() {
            0x4000u16
        } else {
            0
        }
        .to_be_bytes(),
    );
    out.extend_from_slice(&(fraction.len() as u16).to_be_bytes());
    digits
        .iter()
        .for_each(|digit| out.extend_from_slice(&digit.to_be_bytes()));
    true
}

fn base_10000(digits: &[u8], width: usize) -> u16 {
    (0..width).fold(0, |number, index| {
        number * 10 + digits.get(index).map_or(0, |digit| (digit - b'0') as u16)
    })
}

fn write_moment(out: &mut Vec<u8>, pg: &PgType, values: &Values<'_>, row: usize) -> Result<bool> {
    match (pg.oid, values) {
        (oid::DATE, Values::Date32(days)) => {
            let days = days[row]
                .checked_sub(POSTGRES_EPOCH_DAYS)
                .ok_or_else(|| out_of_range(pg))?;
            out.extend_from_slice(&days.to_be_bytes());
        }
        (oid::TIME, _) => match values.time_nanos(row) {
            Some(nanos) => out.extend_from_slice(&((nanos / 1_000) as i64).to_be_bytes()),
            None => return Ok(false),
        },
        (oid::TIMESTAMP, Values::Timestamp(_, _)) | (oid::TIMESTAMPTZ, Values::Timestamptz(_, _)) => {
            let moment = values.moment(row).ok_or_else(|| out_of_range(pg))?;
            let days = moment.days - POSTGRES_EPOCH_DAYS as i64;
            let micros = days
                .checked_mul(DAY_MICROS)
                .and_then(|micros| micros.checked_add((moment.nanos / 1_000) as i64));
            // The two ends are PostgreSQL's infinities.
            let micros = micros.filter(|micros| !matches!(*micros, i64::MIN | i64::MAX));
            out.extend_from_slice(&micros.ok_or_else(|| out_of_range(pg))?.to_be_bytes());
        }
        (oid::INTERVAL, _) => match values.span(row) {
            Some(span) => {
                out.extend_from_slice(&(span.nanos / 1_000).to_be_bytes());
                out.extend_from_slice(&span.days.to_be_bytes());
                out.extend_from_slice(&span.months.to_be_bytes());
            }
            None => return Ok(false),
        },
        _ => return Ok(false),
    }
    Ok(true)
}

fn write_uuid(out: &mut Vec<u8>, values: &Values<'_>, row: usize) -> bool {
    if let Some(bytes) = values.uuid(row) {
        out.extend_from_slice(bytes);
        return true;
    }
    let digits: Vec<u32> = values
        .text(row)
        .into_iter()
        .flat_map(str::chars)
        .filter_map(|c| c.to_digit(16))
        .collect();
    if digits.len() != 32 {
        return false;
    }
    out.extend(digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8));
    true
}

fn write_other(out: &mut Vec<u8>, pg: &PgType, values: &Values<'_>, row: usize) -> Result<bool> {
    if let Values::Bool(array) = values {
        out.push(array.value(row) as u8);
        return Ok(true);
    }
    if let Some(number) = values.integer(row) {
        // Object identifiers are unsigned numbers of 4 bytes.
        let is_oid_like = pg.size == 4;
        if is_oid_like {
            out.extend_from_slice(&u32::try_from(number).map_err(|_| out_of_range(pg))?.to_be_bytes());
        }
        return Ok(is_oid_like);
    }
    if let Some(text) = values.text(row) {
        let is_text_like = pg.size == -1 || matches!(pg.oid, oid::NAME | oid::CHAR | oid::UNKNOWN);
        if is_text_like {
            // The binary form of jsonb is a version and the text.
            out.extend((pg.oid == oid::JSONB).then_some(1));
            out.extend_from_slice(text.as_bytes());
        }
        return Ok(is_text_like);
    }
    if let Some(bytes) = values.bytes(row) {
        out.extend_from_slice(bytes);
        return Ok(pg.oid == oid::BYTEA);
    }
    Ok(false)
}

/// An array: dimensions, whether it has NULLs, type of its elements, size and lower bound of each dimension, elements.
fn write_array(out: &mut Vec<u8>, element: &PgType, ranges: &Ranges<'_>, cells: &Cells<'_>, row: usize) -> Result<()> {
    let mut sizes = Vec::new();
    let mut innermost = cells;
    let mut indices: Vec<usize> = ranges.of(row).collect();
    sizes.push(indices.len());
    while let Values::List(inner, elements) = &innermost.values {
        let size = indices.first().map_or(0, |index| inner.of(*index).len());
        if indices
            .iter()
            .any(|index| innermost.is_null(*index) || inner.of(*index).len() != size)
        {
            return Err(no_binary(&element.to_array()).fact("reason", "its inner arrays differ in length"));
        }
        indices = indices.iter().flat_map(|index| inner.of(*index)).collect();
        sizes.push(size);
        innermost = elements;
    }
    if indices.is_empty() {
        sizes.clear();
    }
    let has_nulls = indices.iter().any(|index| innermost.is_null(*index));
    out.extend_from_slice(&(sizes.len() as i32).to_be_bytes());
    out.extend_from_slice(&(has_nulls as i32).to_be_bytes());
    out.extend_from_slice(&element.oid.to_be_bytes());
    for size in &sizes {
        out.extend_from_slice(&(*size as i32).to_be_bytes());
        out.extend_from_slice(&1i32.to_be_bytes());
    }
    for index in indices {
        if innermost.is_null(index) {
            out.extend_from_slice(&(-1i32).to_be_bytes());
            continue;
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        write_cell(out, element, innermost, index)?;
        let length = i32::try_from(out.len() - start - 4).map_err(|_| out_of_range(element))?;
        out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
}
