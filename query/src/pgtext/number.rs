//! Numbers as PostgreSQL prints them.
//!
//! Floats are the shortest digits that read back as the same value *from the inside* of the rounding interval:
//! PostgreSQL does not use an interval's end points, since not every reader rounds half to even (`1e23` prints as
//! `9.999999999999999e+22`). Rust's shortest digits may be an end point; [`is_midpoint`] finds these few. And of two
//! shortest decimals that are equally near, PostgreSQL takes the even one and Rust the larger one: [`is_tie`].

use std::io::Write;

/// Appends `value` in decimal.
pub(crate) fn write_i64(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_u64(out, value.unsigned_abs());
}

/// Appends `value` in decimal.
pub(crate) fn write_u64(out: &mut Vec<u8>, value: u64) {
    write_padded(out, value, 1);
}

/// Appends `value` in decimal with at least `width` digits, zeros first. `width` is at most 20.
pub(crate) fn write_padded(out: &mut Vec<u8>, mut value: u64, width: usize) {
    let mut digits = [b'0'; 20];
    let mut start = digits.len();
    while value != 0 {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
    }
    out.extend_from_slice(&digits[start.min(digits.len() - width)..]);
}

const CHUNK: u128 = 10_000_000_000_000_000_000;

fn write_u128(out: &mut Vec<u8>, value: u128) {
    match u64::try_from(value) {
        Ok(small) => write_u64(out, small),
        Err(_) => {
            write_u128(out, value / CHUNK);
            write_padded(out, (value % CHUNK) as u64, 19);
        }
    }
}

/// Appends `value * 10^-scale` with `scale` digits after the point; a negative scale appends zeros.
pub(crate) fn write_decimal(out: &mut Vec<u8>, value: i128, scale: i8) {
    if value < 0 {
        out.push(b'-');
    }
    let magnitude = value.unsigned_abs();
    if scale <= 0 {
        write_u128(out, magnitude);
        if magnitude != 0 {
            out.resize(out.len() + scale.unsigned_abs() as usize, b'0');
        }
        return;
    }
    let scale = scale as usize;
    if let (Ok(small), true) = (u64::try_from(magnitude), scale < 20) {
        let unit = 10u64.pow(scale as u32);
        write_u64(out, small / unit);
        out.push(b'.');
        return write_padded(out, small % unit, scale);
    }
    let start = out.len();
    write_u128(out, magnitude);
    let digits = out.len() - start;
    if digits <= scale {
        out.splice(start..start, std::iter::repeat_n(b'0', scale + 1 - digits));
    }
    let point = out.len() - scale;
    out.insert(point, b'.');
}

/// Appends a `double precision`.
pub(crate) fn write_f64(out: &mut Vec<u8>, value: f64) {
    let bits = value.to_bits();
    let (fraction, biased) = (bits & ((1 << 52) - 1), (bits >> 52) as i32 & 0x7ff);
    let binary = Binary::new(fraction, biased, 52, 1075);
    write_float(out, value, 15, binary, |text| {
        text.parse::<f64>().is_ok_and(|read| read == value)
    });
}

/// Appends a `real`.
pub(crate) fn write_f32(out: &mut Vec<u8>, value: f32) {
    let bits = value.to_bits();
    let (fraction, biased) = (bits as u64 & ((1 << 23) - 1), (bits >> 23) as i32 & 0xff);
    let binary = Binary::new(fraction, biased, 23, 150);
    write_float(out, value, 6, binary, |text| {
        text.parse::<f32>().is_ok_and(|read| read == value)
    });
}

/// A finite float's magnitude: `mantissa * 2^exponent`.
#[derive(Clone, Copy)]
struct Binary {
    mantissa: u64,
    exponent: i32,
    /// The next lower float is only half as far away as the next higher one.
    is_low_side_narrow: bool,
}

impl Binary {
    fn new(fraction: u64, biased: i32, fraction_bits: u32, bias: i32) -> Binary {
        let (mantissa, exponent) = if biased == 0 {
            (fraction, 1 - bias)
        } else {
            (fraction | (1 << fraction_bits), biased - bias)
        };
        Binary {
            mantissa,
            exponent,
            is_low_side_narrow: fraction == 0 && biased > 1,
        }
    }
}

/// Decimal digits `d.ddd` (without the point) and the exponent of the first one.
struct Decimal {
    digits: [u8; 20],
    length: usize,
    exponent: i32,
}

impl Decimal {
    /// Reads what `{:e}` prints.
    fn parse(text: &[u8]) -> Decimal {
        let mut decimal = Decimal {
            digits: [b'0'; 20],
            length: 0,
            exponent: 0,
        };
        let split = text.iter().position(|byte| *byte == b'e').unwrap_or(text.len());
        for digit in text[..split].iter().filter(|byte| byte.is_ascii_digit()).take(20) {
            decimal.digits[decimal.length] = *digit;
            decimal.length += 1;
        }
        let exponent = text.get(split + 1..).and_then(|tail| std::str::from_utf8(tail).ok());
        decimal.exponent = exponent.and_then(|tail| tail.parse().ok()).unwrap_or(0);
        decimal
    }

    fn digits(&self) -> &[u8] {
        &self.digits[..self.length]
    }

    /// The decimal that is `delta` steps of the last digit away, trailing zeros cut.
    fn step(&self, delta: i64) -> Decimal {
        let text = self.number().saturating_add_signed(delta).to_string();
        let exponent = self.exponent + text.len() as i32 - self.length as i32;
        Decimal {
            exponent,
            ..Decimal::parse(text.trim_end_matches('0').as_bytes())
        }
    }

    /// The power of ten of the last digit.
    fn power(&self) -> i32 {
        self.exponent - (self.length as i32 - 1)
    }

    fn number(&self) -> u64 {
        self.digits().iter().fold(0u64, |number, digit| {
            number.wrapping_mul(10).wrapping_add((digit - b'0') as u64)
        })
    }
}

trait Float: Copy + std::fmt::LowerExp {
    fn class(self) -> (bool, std::num::FpCategory);
}

impl Float for f64 {
    fn class(self) -> (bool, std::num::FpCategory) {
        (self.is_sign_negative(), self.classify())
    }
}

impl Float for f32 {
    fn class(self) -> (bool, std::num::FpCategory) {
        (self.is_sign_negative(), self.classify())
    }
}

fn write_float<F: Float>(
    out: &mut Vec<u8>,
    value: F,
    fixed_max: i32,
    binary: Binary,
    reads_back: impl Fn(&str) -> bool,
) {
    use std::num::FpCategory;
    let (negative, class) = value.class();
    if negative && class != FpCategory::Nan {
        out.push(b'-');
    }
    match class {
        FpCategory::Nan => out.extend_from_slice(b"NaN"),
        FpCategory::Infinite => out.extend_from_slice(b"Infinity"),
        FpCategory::Zero => out.push(b'0'),
        FpCategory::Normal | FpCategory::Subnormal => {
            let mut text = [0u8; 40];
            let shortest = Decimal::parse(scientific(&mut text, format_args!("{value:e}")));
            let chosen = if is_midpoint(&shortest, binary) {
                inside(value, shortest.length, binary, reads_back)
            } else if is_tie(&shortest, binary) {
                let below = shortest.step(-1);
                if is_inside(&below, binary, reads_back) {
                    below
                } else {
                    shortest
                }
            } else {
                shortest
            };
            write_digits(out, &chosen, fixed_max);
        }
    }
}

fn scientific<'a>(buffer: &'a mut [u8; 40], arguments: std::fmt::Arguments<'_>) -> &'a [u8] {
    let mut rest = &mut buffer[..];
    // The digits and exponent of any finite float fit.
    let _ = rest.write_fmt(arguments);
    let length = 40 - rest.len();
    &buffer[..length]
}

/// Whether the decimal lies exactly between two neighbouring floats.
fn is_midpoint(decimal: &Decimal, binary: Binary) -> bool {
    let Binary {
        mantissa,
        exponent,
        is_low_side_narrow,
    } = binary;
    let (below, below_exponent) = if is_low_side_narrow {
        (4 * mantissa - 1, exponent - 2)
    } else {
        ((2 * mantissa).wrapping_sub(1), exponent - 1)
    };
    let (number, power) = (decimal.number(), decimal.power());
    equals(number, power, 2 * mantissa + 1, exponent - 1) || equals(number, power, below, below_exponent)
}

/// Whether the decimal is odd and the float lies exactly between it and the next one below.
fn is_tie(decimal: &Decimal, binary: Binary) -> bool {
    let twos = binary.mantissa.trailing_zeros();
    let (odd, exponent) = (binary.mantissa >> twos, binary.exponent + twos as i32);
    let number = decimal.number();
    number % 2 == 1 && equals(number * 10 - 5, decimal.power() - 1, odd, exponent)
}

/// Whether `number * 10^power == odd * 2^exponent`.
fn equals(number: u64, power: i32, odd: u64, exponent: i32) -> bool {
    // 5^27 is the largest power below 2^63; with a larger one either side has more factors of 5 than the other can.
    if number == 0 || power.unsigned_abs() > 27 {
        return false;
    }
    let fives = 5u128.pow(power.unsigned_abs());
    let (left, right) = if power >= 0 {
        (number as u128 * fives, odd as u128)
    } else {
        (number as u128, odd as u128 * fives)
    };
    let twos = left.trailing_zeros() as i32;
    left >> twos == right && twos + power == exponent
}

/// The shortest decimal of at least `digits_min` digits strictly inside the rounding interval of `value`.
fn inside<F: Float>(value: F, digits_min: usize, binary: Binary, reads_back: impl Fn(&str) -> bool) -> Decimal {
    let mut text = [0u8; 40];
    for precision in digits_min..17 {
        let decimal = Decimal::parse(scientific(&mut text, format_args!("{:.*e}", precision - 1, value)));
        let mut near = [0, -1, 1].into_iter().map(|delta| decimal.step(delta));
        if let Some(found) = near.find(|near| is_inside(near, binary, &reads_back)) {
            return found;
        }
    }
    Decimal::parse(scientific(&mut text, format_args!("{value:.16e}")))
}

fn is_inside(decimal: &Decimal, binary: Binary, reads_back: impl Fn(&str) -> bool) -> bool {
    let digits = String::from_utf8_lossy(decimal.digits());
    let text = format!("{digits}e{}", decimal.power());
    let negative = format!("-{text}");
    (reads_back(&text) || reads_back(&negative)) && !is_midpoint(decimal, binary)
}

fn write_digits(out: &mut Vec<u8>, decimal: &Decimal, fixed_max: i32) {
    let (digits, exponent) = (decimal.digits(), decimal.exponent);
    if !(-4..fixed_max).contains(&exponent) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        return write_padded(out, exponent.unsigned_abs() as u64, 2);
    }
    if exponent < 0 {
        out.extend_from_slice(&b"0.000"[..1 + exponent.unsigned_abs() as usize]);
        return out.extend_from_slice(digits);
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        out.extend_from_slice(digits);
        out.resize(out.len() + whole - digits.len(), b'0');
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}
