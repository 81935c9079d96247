//! PostgreSQL's binary form to values: parameters of prepared statements.

use super::TextStyle;
use super::calendar::{DAY_MICROS, POSTGRES_EPOCH_DAYS};
use super::read::parse_scalar;
use super::read_number::parse_numeric;
use crate::pgtype::{PgType, TIMESTAMPTZ_ZONE, oid};
use arrow::datatypes::{DataType, IntervalMonthDayNano};
use cenote_statestore::forms::json;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::scalar::ScalarValue;

/// Reads a value in the binary form of type `pg`.
///
/// # Returns
/// A value of the Arrow type that [`PgType::data_type`] names; a `numeric` has 38 digits and the scale that it was sent
/// with. Types without an Arrow type of their own (`xml`) are text.
///
/// # Errors
/// - `Invalid` 22P03: the bytes are not of the form. 22021: text that is not UTF-8. 22003, 22008: out of range.
/// - `Unsupported` 0A000: `infinity`, `NaN` in a `numeric`, or a type that has no binary form here.
pub fn parse_binary(bytes: &[u8], pg: &PgType) -> Result<ScalarValue> {
    if pg.is_array() {
        return read_array(bytes, pg);
    }
    Ok(match pg.oid {
        oid::BOOL => ScalarValue::Boolean(Some(fixed::<1>(bytes, pg)?[0] != 0)),
        oid::INT2 => ScalarValue::Int16(Some(i16::from_be_bytes(fixed(bytes, pg)?))),
        oid::INT4 => ScalarValue::Int32(Some(i32::from_be_bytes(fixed(bytes, pg)?))),
        oid::INT8 => ScalarValue::Int64(Some(i64::from_be_bytes(fixed(bytes, pg)?))),
        oid::FLOAT4 => ScalarValue::Float32(Some(f32::from_be_bytes(fixed(bytes, pg)?))),
        oid::FLOAT8 => ScalarValue::Float64(Some(f64::from_be_bytes(fixed(bytes, pg)?))),
        oid::BYTEA => ScalarValue::Binary(Some(bytes.to_vec())),
        oid::NUMERIC => parse_numeric(&numeric_text(bytes, pg)?)?,
        oid::DATE => ScalarValue::Date32(Some(read_days(bytes, pg)?)),
        oid::TIME => ScalarValue::Time64Microsecond(Some(read_time_of_day(bytes, pg)?)),
        oid::TIMESTAMP => ScalarValue::TimestampMicrosecond(Some(read_micros(bytes, pg)?), None),
        oid::TIMESTAMPTZ => {
            ScalarValue::TimestampMicrosecond(Some(read_micros(bytes, pg)?), Some(TIMESTAMPTZ_ZONE.into()))
        }
        oid::INTERVAL => ScalarValue::IntervalMonthDayNano(Some(read_interval(bytes, pg)?)),
        oid::UUID => ScalarValue::FixedSizeBinary(16, Some(fixed::<16>(bytes, pg)?.to_vec())),
        oid::JSON => parse_scalar(Some(&read_text(bytes)?), &json::json_type(), &TextStyle::default())?,
        oid::JSONB => match bytes.split_first() {
            Some((1, text)) => parse_scalar(Some(&read_text(text)?), &json::jsonb_type(), &TextStyle::default())?,
            _ => return Err(malformed(pg)),
        },
        _ if pg.size == 4 => ScalarValue::Int64(Some(u32::from_be_bytes(fixed(bytes, pg)?) as i64)),
        oid::NAME | oid::CHAR | oid::UNKNOWN => ScalarValue::Utf8(Some(read_text(bytes)?)),
        _ if pg.size == -1 && pg.oid != oid::RECORD => ScalarValue::Utf8(Some(read_text(bytes)?)),
        _ => {
            let message = format!(
                "cannot read {} in binary format: only its text form is supported",
                pg.display(-1)
            );
            return Err(Error::new(ErrorKind::Unsupported, "VALUE-0008", message));
        }
    })
}

fn malformed(pg: &PgType) -> Error {
    let message = format!("incorrect binary data format for type {}", pg.display(-1));
    Error::new(ErrorKind::Invalid, "VALUE-0009", message).sqlstate("22P03")
}

fn infinite(pg: &PgType) -> Error {
    let message = format!("cannot read a {} parameter: infinity is not held here", pg.input_name());
    Error::new(ErrorKind::Unsupported, "VALUE-0005", message)
}

fn out_of_range(pg: &PgType) -> Error {
    let message = format!("{} out of range", pg.input_name());
    Error::new(ErrorKind::Invalid, "VALUE-0003", message).sqlstate("22008")
}

fn fixed<const N: usize>(bytes: &[u8], pg: &PgType) -> Result<[u8; N]> {
    bytes
        .try_into()
        .map_err(|_| malformed(pg).fact("bytes", bytes.len()).fact("expected", N))
}

fn read_text(bytes: &[u8]) -> Result<String> {
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.map(str::to_string).ok_or_else(|| {
        let message = "invalid byte sequence for encoding \"UTF8\"";
        Error::new(ErrorKind::Invalid, "VALUE-0010", message).sqlstate("22021")
    })
}

fn read_days(bytes: &[u8], pg: &PgType) -> Result<i32> {
    match i32::from_be_bytes(fixed(bytes, pg)?) {
        i32::MIN | i32::MAX => Err(infinite(pg)),
        days => days.checked_add(POSTGRES_EPOCH_DAYS).ok_or_else(|| out_of_range(pg)),
    }
}

fn read_time_of_day(bytes: &[u8], pg: &PgType) -> Result<i64> {
    let micros = i64::from_be_bytes(fixed(bytes, pg)?);
    if (0..=DAY_MICROS).contains(&micros) {
        Ok(micros)
    } else {
        Err(out_of_range(pg))
    }
}

fn read_micros(bytes: &[u8], pg: &PgType) -> Result<i64> {
    match i64::from_be_bytes(fixed(bytes, pg)?) {
        i64::MIN | i64::MAX => Err(infinite(pg)),
        micros => micros
            .checked_add(POSTGRES_EPOCH_DAYS as i64 * DAY_MICROS)
            .ok_or_else(|| out_of_range(pg)),
    }
}

fn read_interval(bytes: &[u8], pg: &PgType) -> Result<IntervalMonthDayNano> {
    let mut reader = Reader(bytes);
    let (Some(micros), Some(days), Some(months), []) = (reader.i64(), reader.i32(), reader.i32(), reader.0) else {
        return Err(malformed(pg));
    };
    let nanos = micros.checked_mul(1_000).ok_or_else(|| out_of_range(pg))?;
    Ok(IntervalMonthDayNano::new(months, days, nanos))
}

/// Bytes not read yet.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn i64(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }
}

/// Digits beyond these no decimal holds: refused before any text is made of them.
const NUMERIC_DIGITS_MAX: i32 = 100;

/// The text of a binary `numeric`.
fn numeric_text(bytes: &[u8], pg: &PgType) -> Result<String> {
    let mut reader = Reader(bytes);
    let header = (reader.u16(), reader.u16(), reader.u16(), reader.u16());
    let (Some(count), Some(weight), Some(sign), Some(scale)) = header else {
        return Err(malformed(pg));
    };
    let (weight, scale) = (weight as i16 as i32, scale as i32);
    let digits: Vec<u16> = std::iter::from_fn(|| reader.u16()).collect();
    if digits.len() != count as usize || !reader.0.is_empty() || digits.iter().any(|digit| *digit > 9_999) {
        return Err(malformed(pg));
    }
    match sign {
        0 | 0x4000 => {}
        0xc000 | 0xd000 | 0xf000 => return parse_numeric("NaN").map(|_| String::new()),
        _ => return Err(malformed(pg)),
    }
    if !digits.is_empty() && (weight.abs() > NUMERIC_DIGITS_MAX || scale > NUMERIC_DIGITS_MAX) {
        let error = Error::new(
            ErrorKind::Invalid,
            "VALUE-0002",
            "value is out of range for type numeric",
        );
        return Err(error.sqlstate("22003").fact("limit", "38 digits"));
    }
    let digit_at = |place: i32| {
        usize::try_from(weight - place)
            .ok()
            .and_then(|index| digits.get(index))
            .copied()
    };
    let mut text = String::from(if sign == 0x4000 { "-0" } else { "0" });
    (0..=weight.max(0))
        .rev()
        .for_each(|place| text.push_str(&format!("{:04}", digit_at(place).unwrap_or(0))));
    text.push('.');
    let start = text.len();
    let groups = (scale.min(NUMERIC_DIGITS_MAX) + 3) / 4;
    (1..=groups).for_each(|group| text.push_str(&format!("{:04}", digit_at(-group).unwrap_or(0))));
    text.truncate(start + scale as usize);
    Ok(text)
}

fn read_array(bytes: &[u8], pg: &PgType) -> Result<ScalarValue> {
    let element = PgType::from_oid(pg.element).ok_or_else(|| malformed(pg))?;
    let mut reader = Reader(bytes);
    let (Some(dimensions), Some(_), Some(sent)) = (reader.i32(), reader.i32(), reader.i32()) else {
        return Err(malformed(pg));
    };
    if sent as u32 != element.oid {
        return Err(malformed(pg).sqlstate("42804").fact("element type sent", sent));
    }
    if dimensions > 1 {
        let message = format!(
            "cannot read a {} parameter: it has {dimensions} dimensions",
            pg.display(-1)
        );
        return Err(Error::new(ErrorKind::Unsupported, "VALUE-0005", message));
    }
    let count = if dimensions == 1 { reader.i32() } else { Some(0) };
    let (Some(count), true) = (count, dimensions == 0 || reader.i32().is_some()) else {
        return Err(malformed(pg));
    };
    let mut values = Vec::new();
    for _ in 0..count {
        values.push(match reader.i32().ok_or_else(|| malformed(pg))? {
            -1 => None,
            length => {
                let length = usize::try_from(length).map_err(|_| malformed(pg))?;
                Some(parse_binary(
                    reader.take(length).ok_or_else(|| malformed(pg))?,
                    &element,
                )?)
            }
        });
    }
    if !reader.0.is_empty() {
        return Err(malformed(pg));
    }
    list_of(values, &element)
}

/// A list of elements that may be NULL; decimals get the largest scale among them.
fn list_of(values: Vec<Option<ScalarValue>>, element: &PgType) -> Result<ScalarValue> {
    let scales = values.iter().flatten().filter_map(|value| match value {
        ScalarValue::Decimal128(_, _, scale) => Some(*scale),
        _ => None,
    });
    let decimal = DataType::Decimal128(super::read_number::DIGITS_MAX, scales.max().unwrap_or(0));
    let data_type = element.data_type().unwrap_or(if element.oid == oid::NUMERIC {
        decimal
    } else {
        DataType::Utf8
    });
    let lost = |error| Error::bug(format!("an array parameter is lost: {error}"));
    let null = ScalarValue::try_from(&data_type).map_err(lost)?;
    let cast = |value: Option<ScalarValue>| value.map_or(Ok(null.clone()), |value| value.cast_to(&data_type));
    let values: Vec<ScalarValue> = values
        .into_iter()
        .map(cast)
        .collect::<Result<_, _>>()
        .map_err(|error| {
            Error::new(
                ErrorKind::Invalid,
                "VALUE-0002",
                format!("cannot read a numeric[] parameter: {error}"),
            )
            .sqlstate("22003")
        })?;
    Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &data_type)))
}
