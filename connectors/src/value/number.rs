//! Decimal texts to integers, decimals and floats.

use crate::fault::Refusal;

/// A decimal number taken apart: `digits` (before and after the point) times ten to `exponent - fraction.len()`.
struct Parts<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

/// Exponents beyond this decide nothing more: every value is zero or out of range.
const EXPONENT_MAX: i64 = 1_000_000_000;

/// Splits `[+-] digits [. digits] [e [+-] digits]`, with blanks around.
fn parts(text: &[u8]) -> Result<Parts<'_>, Refusal> {
    let text = text.trim_ascii();
    let (negative, rest) = signed(text);
    let (whole, rest) = digits(rest);
    let (fraction, rest) = match rest.split_first() {
        Some((b'.', rest)) => digits(rest),
        _ => (&rest[..0], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(Refusal::Syntax);
    }
    let exponent = match rest.split_first() {
        None => 0,
        Some((b'e' | b'E', rest)) => exponent(rest)?,
        Some(_) => return Err(Refusal::Syntax),
    };
    Ok(Parts {
        negative,
        whole,
        fraction,
        exponent,
    })
}

fn signed(text: &[u8]) -> (bool, &[u8]) {
    match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    }
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let len = text
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    text.split_at(len)
}

fn exponent(text: &[u8]) -> Result<i64, Refusal> {
    let (negative, rest) = signed(text);
    let (number, rest) = digits(rest);
    if number.is_empty() || !rest.is_empty() {
        return Err(Refusal::Syntax);
    }
    let value = number
        .iter()
        .fold(0i64, |sum, byte| (sum * 10 + i64::from(byte - b'0')).min(EXPONENT_MAX));
    Ok(if negative { -value } else { value })
}

/// What lies below the last digit kept.
#[derive(PartialEq, Eq)]
enum Remainder {
    Zero,
    UnderHalf,
    HalfOrMore,
}

/// Value times ten to `scale`, cut towards zero, without its sign; and what was cut off.
fn scaled(parts: &Parts<'_>, scale: i64) -> Result<(i128, Remainder), Refusal> {
    let all = || {
        parts
            .whole
            .iter()
            .chain(parts.fraction)
            .map(|byte| byte - b'0')
            .skip_while(|digit| *digit == 0)
    };
    let count = all().count() as i64;
    if count == 0 {
        return Ok((0, Remainder::Zero));
    }
    // Digits of the result: the significant ones, moved by the exponent.
    let shift = parts.exponent - parts.fraction.len() as i64 + scale;
    let kept = count + shift;
    if kept > 38 {
        return Err(Refusal::Range);
    }
    let taken = kept.clamp(0, count) as usize;
    let mut value = all().take(taken).fold(0i128, |sum, digit| sum * 10 + i128::from(digit));
    value *= 10i128.pow(shift.max(0) as u32);
    let mut dropped = all().skip(taken);
    let remainder = match (kept < 0, dropped.next()) {
        (_, None) => Remainder::Zero,
        (true, Some(_)) => Remainder::UnderHalf,
        (false, Some(5..)) => Remainder::HalfOrMore,
        (false, Some(0)) if dropped.all(|digit| digit == 0) => Remainder::Zero,
        (false, Some(_)) => Remainder::UnderHalf,
    };
    Ok((value, remainder))
}

/// A whole number of any of the integer types.
pub(crate) fn integer<T: TryFrom<i128>>(text: &[u8]) -> Result<T, Refusal> {
    let parts = parts(text)?;
    let (value, remainder) = scaled(&parts, 0)?;
    if remainder != Remainder::Zero {
        return Err(Refusal::Fraction);
    }
    T::try_from(if parts.negative { -value } else { value }).map_err(|_| Refusal::Range)
}

/// The unscaled value of a NUMERIC(`precision`, `scale`), rounded half away from zero.
pub(crate) fn decimal(text: &[u8], precision: u8, scale: i8) -> Result<i128, Refusal> {
    let parts = parts(text)?;
    let (mut value, remainder) = scaled(&parts, i64::from(scale))?;
    value += i128::from(remainder == Remainder::HalfOrMore);
    if value >= 10i128.pow(u32::from(precision)) {
        return Err(Refusal::Range);
    }
    Ok(if parts.negative { -value } else { value })
}

/// A DOUBLE PRECISION.
pub(crate) fn float64(text: &[u8]) -> Result<f64, Refusal> {
    let text = float_text(text)?;
    let value: f64 = text.parse().map_err(|_| Refusal::Syntax)?;
    in_range(value.is_infinite(), value == 0.0, text).map(|()| value)
}

/// A REAL, rounded once from the decimal text.
pub(crate) fn float32(text: &[u8]) -> Result<f32, Refusal> {
    let text = float_text(text)?;
    let value: f32 = text.parse().map_err(|_| Refusal::Syntax)?;
    in_range(value.is_infinite(), value == 0.0, text).map(|()| value)
}

fn float_text(text: &[u8]) -> Result<&str, Refusal> {
    std::str::from_utf8(text.trim_ascii()).map_err(|_| Refusal::Syntax)
}

/// Refuses a finite text that became infinite or zero; `inf`, `Infinity` and `NaN` are what they say.
fn in_range(infinite: bool, zero: bool, text: &str) -> Result<(), Refusal> {
    let spelt = text.trim_start_matches(['+', '-']).starts_with(['i', 'I']);
    let mantissa = text.split(['e', 'E']).next().unwrap_or("");
    let vanished = zero && mantissa.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if (infinite && !spelt) || vanished {
        Err(Refusal::Range)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_up_to_their_bounds() {
        assert_eq!(integer::<i64>(b"9007199254740993"), Ok(9_007_199_254_740_993));
        assert_eq!(integer::<i64>(b"-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(integer::<i64>(b"9223372036854775807"), Ok(i64::MAX));
        assert_eq!(integer::<i64>(b"9223372036854775808"), Err(Refusal::Range));
        assert_eq!(integer::<i16>(b"32768"), Err(Refusal::Range));
        assert_eq!(integer::<i32>(b" +12 "), Ok(12));
        assert_eq!(integer::<i64>(b"327267367867168100000"), Err(Refusal::Range));
    }

    #[test]
    fn integers_take_whole_numbers_in_any_notation_and_no_fractions() {
        assert_eq!(integer::<i64>(b"1.0"), Ok(1));
        assert_eq!(integer::<i64>(b"1.25e2"), Ok(125));
        assert_eq!(integer::<i64>(b"1200e-2"), Ok(12));
        assert_eq!(integer::<i64>(b"0e999999999999999999999"), Ok(0));
        assert_eq!(integer::<i64>(b"1e999999999999999999999"), Err(Refusal::Range));
        assert_eq!(integer::<i64>(b"1e-999999999999999999999"), Err(Refusal::Fraction));
        assert_eq!(integer::<i64>(b"1.5"), Err(Refusal::Fraction));
        assert_eq!(integer::<i64>(b"0.1"), Err(Refusal::Fraction));
        for text in ["", "-", ".", "1e", "1x", "0x10", "1 2", "e5", "--1"] {
            assert_eq!(integer::<i64>(text.as_bytes()), Err(Refusal::Syntax), "{text}");
        }
    }

    #[test]
    fn decimals_round_half_away_from_zero_and_keep_all_digits() {
        assert_eq!(
            decimal(b"327267367867168100000", 38, 0),
            Ok(327_267_367_867_168_100_000)
        );
        assert_eq!(decimal(b"0.005", 18, 2), Ok(1));
        assert_eq!(decimal(b"-0.005", 18, 2), Ok(-1));
        assert_eq!(decimal(b"0.00499999", 18, 2), Ok(0));
        assert_eq!(decimal(b"0.0005", 18, 2), Ok(0));
        assert_eq!(decimal(b"0.0095", 18, 2), Ok(1));
        assert_eq!(decimal(b"9.995", 3, 2), Err(Refusal::Range));
        assert_eq!(decimal(b"9.994", 3, 2), Ok(999));
        assert_eq!(decimal(b"1e3", 5, 1), Ok(10_000));
        assert_eq!(decimal(b"12345e-3", 5, 2), Ok(1235));
        assert_eq!(
            decimal(b"99999999999999999999999999999999999999", 38, 0),
            Ok(10i128.pow(38) - 1)
        );
        assert_eq!(
            decimal(b"99999999999999999999999999999999999999.5", 38, 0),
            Err(Refusal::Range)
        );
        assert_eq!(decimal(b"1e38", 38, 0), Err(Refusal::Range));
        assert_eq!(decimal(b"0.000000001", 38, 9), Ok(1));
        assert_eq!(decimal(b"NaN", 38, 9), Err(Refusal::Syntax));
        assert_eq!(decimal(b"1250", 5, -2), Ok(13));
    }

    #[test]
    fn floats_take_the_nearest_value_and_refuse_what_vanishes() {
        assert_eq!(float64(b"1e-7"), Ok(1e-7));
        assert_eq!(float64(b"0.1"), Ok(0.1));
        assert_eq!(float64(b"9007199254740993"), Ok(9_007_199_254_740_992.0));
        assert_eq!(float64(b"1e400"), Err(Refusal::Range));
        assert_eq!(float64(b"1e-400"), Err(Refusal::Range));
        assert_eq!(float64(b"0e-400"), Ok(0.0));
        assert_eq!(float64(b"-Infinity"), Ok(f64::NEG_INFINITY));
        assert!(float64(b"NaN").is_ok_and(f64::is_nan));
        assert_eq!(float64(b"abc"), Err(Refusal::Syntax));
        assert_eq!(float32(b"16777217"), Ok(16_777_216.0));
        assert_eq!(float32(b"1e39"), Err(Refusal::Range));
    }
}
