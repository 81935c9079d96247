//! Text to integers, floats and decimals.

use super::read::{invalid, is_space, quoted};
use crate::types::{OPEN_NUMERIC, OPEN_SCALE};
use arrow::array::{ArrayRef, Decimal128Array};
use arrow::datatypes::DataType;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::scalar::ScalarValue;
use std::str::FromStr;
use std::sync::Arc;

/// Digits of the largest decimal.
pub(crate) const DIGITS_MAX: u8 = 38;

/// Reads an integer: decimal, `0x`, `0o`, `0b`, with `_` between digits.
pub(crate) fn read_integer<T: TryFrom<i128>>(text: &str, type_name: &str) -> Result<T> {
    let trimmed = text.trim_matches(is_space);
    let (negative, digits) = match trimmed.as_bytes().first() {
        Some(b'-') => (true, &trimmed[1..]),
        Some(b'+') => (false, &trimmed[1..]),
        _ => (false, trimmed),
    };
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        _ => (10, digits),
    };
    let mut magnitude = 0i128;
    let mut is_digit_due = true;
    for (index, byte) in digits.bytes().enumerate() {
        if byte == b'_' && (!is_digit_due || (index == 0 && radix != 10)) {
            is_digit_due = true;
            continue;
        }
        let digit = (byte as char).to_digit(radix).ok_or_else(|| invalid(type_name, text))?;
        magnitude = magnitude.saturating_mul(radix as i128).saturating_add(digit as i128);
        is_digit_due = false;
    }
    if is_digit_due {
        return Err(invalid(type_name, text));
    }
    T::try_from(if negative { -magnitude } else { magnitude }).map_err(|_| {
        let message = format!("value {} is out of range for type {type_name}", quoted(text));
        Error::new(ErrorKind::Invalid, "VALUE-0002", message).sqlstate("22003")
    })
}

/// A float that PostgreSQL has.
pub(crate) trait ReadFloat: FromStr + Copy {
    fn is_infinite(self) -> bool;
    fn is_zero(self) -> bool;
    /// NaN without a sign, whatever was written.
    fn normalised(self) -> Self;
}

macro_rules! read_float {
    ($float:ty) => {
        impl ReadFloat for $float {
            fn is_infinite(self) -> bool {
                <$float>::is_infinite(self)
            }
            fn is_zero(self) -> bool {
                self == 0.0
            }
            fn normalised(self) -> Self {
                if self.is_nan() { <$float>::NAN } else { self }
            }
        }
    };
}
read_float!(f32);
read_float!(f64);

/// Reads a float, `NaN` and infinities included.
pub(crate) fn read_float<F: ReadFloat>(text: &str, type_name: &str) -> Result<F> {
    let trimmed = text.trim_matches(is_space);
    let value = trimmed.parse::<F>().map_err(|_| invalid(type_name, text))?.normalised();
    let mantissa = trimmed.split(['e', 'E']).next().unwrap_or_default();
    let has_digits = mantissa.bytes().any(|byte| byte.is_ascii_digit());
    let is_overflow = value.is_infinite() && has_digits;
    let is_underflow = value.is_zero() && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if is_overflow || is_underflow {
        let message = format!("{} is out of range for type {type_name}", quoted(text));
        return Err(Error::new(ErrorKind::Invalid, "VALUE-0002", message).sqlstate("22003"));
    }
    Ok(value)
}

/// Reads a column of `numeric(precision, scale)`.
pub(crate) fn read_decimals(values: &[Option<&str>], precision: u8, scale: i8) -> Result<ArrayRef> {
    let read = values
        .iter()
        .map(|value| value.map(|text| read_decimal(text, precision, scale)).transpose());
    let array = read.collect::<Result<Decimal128Array>>()?;
    Ok(Arc::new(array.with_precision_and_scale(precision, scale)?))
}

/// The error of a number with more digits than a NUMERIC without precision keeps.
pub(crate) fn digits_lost() -> Error {
    let message = format!("value out of range: NUMERIC without precision keeps {OPEN_SCALE} digits behind the point");
    let error = Error::new(ErrorKind::Invalid, "VALUE-0002", message).sqlstate("22003");
    error.attempt("give the type a scale, as in NUMERIC(38,24), or round the value")
}

/// Reads a `numeric(precision, scale)`, rounding half away from zero; one without precision is not rounded.
///
/// # Returns
/// The value times `10^scale`.
pub(crate) fn read_decimal(text: &str, precision: u8, scale: i8) -> Result<i128> {
    let literal = Literal::parse(text)?;
    let overflow = || {
        let digits = precision as i32 - scale as i32;
        let limit = format!(
            "a field with precision {precision}, scale {scale} must round to an absolute value less than 10^{digits}"
        );
        let error = Error::new(ErrorKind::Invalid, "VALUE-0002", "numeric field overflow").sqlstate("22003");
        error.fact("limit", limit)
    };
    let (value, is_exact) = literal.scaled(scale as i32).ok_or_else(overflow)?;
    if !is_exact && OPEN_NUMERIC == DataType::Decimal128(precision, scale) {
        return Err(digits_lost());
    }
    let limit = 10i128.checked_pow(precision as u32).unwrap_or(i128::MAX);
    if value.abs() >= limit {
        Err(overflow())
    } else {
        Ok(value)
    }
}

/// Reads a `numeric` with the scale that it is written with.
///
/// # Returns
/// A `Decimal128` of 38 digits.
///
/// # Errors
/// - 22P02: it is no number. 22003: it has more than 38 digits.
/// - 0A000: `NaN` and infinities, which a `numeric` does not hold here.
pub fn parse_numeric(text: &str) -> Result<ScalarValue> {
    let literal = Literal::parse(text)?;
    let scale = literal.scale().clamp(0, DIGITS_MAX as i64) as i8;
    let exact = literal
        .scaled(scale as i32)
        .filter(|(_, is_exact)| *is_exact)
        .map(|(value, _)| value);
    let limit = 10i128.pow(DIGITS_MAX as u32);
    match exact.filter(|value| value.abs() < limit) {
        Some(value) => Ok(ScalarValue::Decimal128(Some(value), DIGITS_MAX, scale)),
        None => {
            let message = format!("value {} is out of range for type numeric", quoted(text));
            let error = Error::new(ErrorKind::Invalid, "VALUE-0002", message).sqlstate("22003");
            Err(error.fact("limit", format!("{DIGITS_MAX} digits")))
        }
    }
}

/// The parts of a written number.
struct Literal<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    exponent: i64,
}

impl<'a> Literal<'a> {
    fn parse(text: &'a str) -> Result<Literal<'a>> {
        let trimmed = text.trim_matches(is_space);
        let negative = trimmed.starts_with('-');
        let unsigned = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
        if ["nan", "inf", "infinity"]
            .iter()
            .any(|word| unsigned.eq_ignore_ascii_case(word))
        {
            let message = format!(
                "cannot read {} as numeric: numeric holds no NaN and no infinity here",
                quoted(text)
            );
            return Err(Error::new(ErrorKind::Unsupported, "VALUE-0005", message).attempt("use double precision"));
        }
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(index) => (&unsigned[..index], Literal::exponent(&unsigned[index + 1..])),
            None => (unsigned, Some(0)),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let is_number = [whole, fraction]
            .into_iter()
            .all(|digits| digits.is_empty() || are_digits(digits));
        let has_digits = !whole.is_empty() || !fraction.is_empty();
        match exponent.filter(|_| is_number && has_digits) {
            Some(exponent) => Ok(Literal {
                negative,
                whole,
                fraction,
                exponent,
            }),
            None => Err(invalid("numeric", text)),
        }
    }

    fn exponent(text: &str) -> Option<i64> {
        let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
        if !are_digits(digits) || digits.contains('_') {
            return None;
        }
        // Far beyond all that can be held, on either side.
        let value = digits.parse::<i64>().unwrap_or(i64::MAX).min(1_000_000);
        Some(if text.starts_with('-') { -value } else { value })
    }

    /// Digits after the point, counting the exponent in.
    fn scale(&self) -> i64 {
        self.fraction.bytes().filter(u8::is_ascii_digit).count() as i64 - self.exponent
    }

    /// The number times `10^scale`, rounded half away from zero, and whether that is exact.
    ///
    /// # Returns
    /// `None` when it does not fit.
    fn scaled(&self, scale: i32) -> Option<(i128, bool)> {
        let digits = self
            .whole
            .bytes()
            .chain(self.fraction.bytes())
            .filter(u8::is_ascii_digit);
        let whole_digits = self.whole.bytes().filter(u8::is_ascii_digit).count() as i64;
        // The digit at `place` is worth 10^place after scaling.
        let mut place = whole_digits - 1 + self.exponent + scale as i64;
        let (mut magnitude, mut is_exact, mut rounds_up) = (0i128, true, false);
        for digit in digits.map(|byte| (byte - b'0') as i128) {
            if place >= 0 {
                magnitude = magnitude.checked_mul(10)?.checked_add(digit)?;
            } else {
                rounds_up |= place == -1 && digit >= 5;
                is_exact &= digit == 0;
            }
            place -= 1;
        }
        if place >= 0 && magnitude != 0 {
            magnitude = magnitude.checked_mul(10i128.checked_pow(u32::try_from(place + 1).ok()?)?)?;
        }
        magnitude = magnitude.checked_add(rounds_up as i128)?;
        Some((if self.negative { -magnitude } else { magnitude }, is_exact))
    }
}

/// Digits with single `_` between them.
fn are_digits(text: &str) -> bool {
    text.split('_')
        .all(|group| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit()))
}
