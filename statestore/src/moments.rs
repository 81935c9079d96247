//! Exact sums of values and of their squares, from which variances and standard deviations are read.
//!
//! Computing a variance value by value rounds at each step and depends on the order; reading it from rounded sums
//! loses all digits where the values are far from zero and near each other. Here both sums are exact, and so is
//! `n * sum(x * x) - sum(x)^2`; the result is rounded once from there. So it is a function of the multiset of values.
//!
//! # Rules kept here
//! 1. **Invertible.** `add(x, w)` then `add(x, -w)` is the identity, NaN and infinities included.
//! 2. **Canonical.** Equal multisets of values give equal bytes.
//! 3. **Never full.** Sums have room for 2^63 values of the widest type; only results are out of range.
//!
//! # Not here
//! Counting the values: the operator does, as for sums.

use crate::natural::{Natural, scaled};
use crate::{Error, ErrorKind, ExactFloatSum, Result};

/// What is read from moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    /// Of a sample (divided by one less than the count), not of a population.
    pub sample: bool,
    /// The standard deviation, not the variance.
    pub root: bool,
}

impl Spread {
    /// The numbers whose product a variance is divided by; `None`: so few values have none.
    fn divisors(self, count: i64) -> Option<[u64; 2]> {
        let count = u64::try_from(count).ok()?;
        let other = if self.sample { count.checked_sub(1)? } else { count };
        (other > 0).then_some([count, other])
    }
}

/// Words of a sum, and of a sum of squares.
const SUM_WORDS: usize = 3;
const SQUARES_WORDS: usize = 6;

/// Moments of whole numbers, or of NUMERIC in units of the last digit.
///
/// # Examples
/// ```
/// use cenote_statestore::{ExactMoments, Spread};
/// let mut moments = ExactMoments::default();
/// [1, 2, 3, 4].into_iter().for_each(|value| moments.add(value, 1));
/// let population = Spread { sample: false, root: false };
/// assert_eq!(moments.read(4, population, 0, 2), Some(Some(125)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExactMoments {
    sum: [u64; SUM_WORDS],
    squares: [u64; SQUARES_WORDS],
}

impl ExactMoments {
    /// Adds `value` `weight` times; a negative weight takes it away.
    pub fn add(&mut self, value: i128, weight: i64) {
        let magnitude = value.unsigned_abs();
        let (low, high) = (magnitude as u64, (magnitude >> 64) as u64);
        let times = weight.unsigned_abs();
        add_product(&mut self.sum, &[low, high], times, (value < 0) != (weight < 0));
        if high == 0 {
            let square = u128::from(low) * u128::from(low);
            let square = [square as u64, (square >> 64) as u64];
            add_product(&mut self.squares, &square, times, weight < 0);
        } else {
            add_product(&mut self.squares, &square_of(low, high), times, weight < 0);
        }
    }

    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &ExactMoments) {
        add_words(&mut self.sum, &other.sum);
        add_words(&mut self.squares, &other.squares);
    }

    /// The variance or deviation, rounded half away from zero.
    ///
    /// # Arguments
    /// - `count`: how many values were added.
    /// - `digits`: digits after the point of the values; `wanted`: of the result, at least as many.
    ///
    /// # Returns
    /// The result in units of its last digit; `None` inside: too few values. `None` outside: out of range.
    pub fn read(&self, count: i64, spread: Spread, digits: u8, wanted: u8) -> Option<Option<i128>> {
        let Some(divisors) = spread.divisors(count) else {
            return Some(None);
        };
        let sum = Natural::magnitude(&self.sum);
        let squares = Natural::magnitude(&self.squares);
        let spread_out = squares.times_word(divisors[0]).minus(&sum.times(&sum));
        let over = |number: Natural| number.over_word(divisors[0]).over_word(divisors[1]);
        let (digits, wanted) = (u32::from(digits), u32::from(wanted));
        let twice = if spread.root {
            let more = Natural::power_of_ten(2 * wanted.checked_sub(digits)?);
            over(spread_out.times(&more).times_word(4)).root()?
        } else {
            let more = Natural::power_of_ten(wanted.saturating_sub(2 * digits));
            let less = (2 * digits).saturating_sub(wanted);
            let quotient = over(spread_out.times(&more).times_word(2));
            (0..less)
                .fold(quotient, |quotient, _| quotient.over_word(10))
                .to_u128()?
        };
        let rounded = twice.checked_add(1)? / 2;
        i128::try_from(rounded).ok().map(Some)
    }

    /// The sums as doubles, for people who look at state.
    pub fn rounded(&self, digits: u8) -> (f64, f64) {
        let unit = 10f64.powi(i32::from(digits));
        let sum = Natural::magnitude(&self.sum).to_f64(0) / unit;
        let is_negative = (self.sum[SUM_WORDS - 1] as i64) < 0;
        let squares = Natural::magnitude(&self.squares).to_f64(0) / unit / unit;
        (if is_negative { -sum } else { sum }, squares)
    }

    /// Appends the canonical bytes: the words of the sum and of the sum of squares, little-endian.
    pub fn to_bytes(&self, bytes: &mut Vec<u8>) {
        for word in self.sum.iter().chain(&self.squares) {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Reads what [`ExactMoments::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the bytes have another length.
    pub fn from_bytes(bytes: &[u8]) -> Result<ExactMoments> {
        let (words, rest) = bytes.as_chunks::<8>();
        if words.len() != SUM_WORDS + SQUARES_WORDS || !rest.is_empty() {
            return Err(damaged(bytes));
        }
        let mut moments = ExactMoments::default();
        let places = moments.sum.iter_mut().chain(&mut moments.squares);
        places
            .zip(words)
            .for_each(|(place, word)| *place = u64::from_le_bytes(*word));
        Ok(moments)
    }
}

/// The four words of the square of a number of two.
fn square_of(low: u64, high: u64) -> [u64; 4] {
    let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
    let (bottom, middle, top) = (wide(low, low), wide(low, high), wide(high, high));
    let mut square = [bottom as u64, (bottom >> 64) as u64, top as u64, (top >> 64) as u64];
    for _ in 0..2 {
        add_words(&mut square[1..], &[middle as u64, (middle >> 64) as u64, 0]);
    }
    square
}

/// Adds `magnitude * times` to a sum in two's complement, or takes it away.
fn add_product(sum: &mut [u64], magnitude: &[u64], times: u64, negative: bool) {
    let (mut product, mut carry) = (0u128, 0u64);
    for (index, digit) in sum.iter_mut().enumerate() {
        product += u128::from(magnitude.get(index).copied().unwrap_or(0)) * u128::from(times);
        let part = product as u64;
        product >>= 64;
        let step = if negative {
            u64::overflowing_sub
        } else {
            u64::overflowing_add
        };
        let (next, first) = step(*digit, part);
        let (next, second) = step(next, carry);
        (*digit, carry) = (next, u64::from(first | second));
    }
}

/// Adds two integers in two's complement of one length.
fn add_words(sum: &mut [u64], other: &[u64]) {
    let mut carry = false;
    for (digit, more) in sum.iter_mut().zip(other) {
        let (total, first) = digit.overflowing_add(*more);
        let (total, second) = total.overflowing_add(u64::from(carry));
        (*digit, carry) = (total, first | second);
    }
}

fn damaged(bytes: &[u8]) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "STATE-0203",
        "cannot read sums of squares: their bytes are no canonical form",
    )
    .fact("length", format!("{} bytes", bytes.len()))
}

/// Moments of floats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FloatMoments {
    sum: ExactFloatSum,
    squares: ExactFloatSum,
}

/// The exponent of the unit of [`ExactFloatSum`].
const UNIT: i32 = -1074;

/// Bits that are kept of a variance before it is rounded to a double.
const KEPT_BITS: i32 = 124;

impl FloatMoments {
    /// Adds `value` `weight` times; a negative weight takes it away.
    pub fn add(&mut self, value: f64, weight: i64) {
        self.sum.add(value, weight);
        self.squares.add_square(value, weight);
    }

    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &FloatMoments) {
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
    }

    /// The variance or deviation.
    ///
    /// # Returns
    /// NaN if a NaN or an infinity is among the values; an infinity where finite values have a variance beyond the
    /// range of doubles; `None`: too few values.
    pub fn read(&self, count: i64, spread: Spread) -> Option<f64> {
        let divisors = spread.divisors(count)?;
        let is_special = self.sum.nan_count() != 0
            || self.sum.positive_infinity_count() != 0
            || self.sum.negative_infinity_count() != 0;
        if is_special {
            return Some(f64::NAN);
        }
        let placed = |(base, words): (u16, &[u64])| Natural::magnitude(words).shifted(i32::from(base) * 64);
        let (sum, squares) = (placed(self.sum.words()), placed(self.squares.words()));
        // In units of the square of the unit.
        let spread_out = squares.shifted(-UNIT).times_word(divisors[0]).minus(&sum.times(&sum));
        if spread_out.is_zero() {
            return Some(0.0);
        }
        // An even number of bits, so that the root has half of them.
        let cut = (spread_out.bits() as i32 - 128 - KEPT_BITS) & !1;
        let variance = spread_out.shifted(-cut).over_word(divisors[0]).over_word(divisors[1]);
        let exponent = cut + 2 * UNIT;
        let of_variance = variance.to_f64(exponent);
        if !spread.root || of_variance.is_infinite() {
            return Some(of_variance);
        }
        Some(scaled(variance.root()? as f64, exponent / 2))
    }

    /// The sums as doubles, for people who look at state.
    pub fn rounded(&self) -> (f64, f64) {
        (self.sum.value(), self.squares.value())
    }

    /// Bytes held on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.sum.heap_bytes() + self.squares.heap_bytes()
    }

    /// Appends the canonical bytes: the length of the sum's as `u16`, the sum's, and those of the sum of squares.
    pub fn to_bytes(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.extend_from_slice(&[0, 0]);
        self.sum.to_bytes(bytes);
        let length = (bytes.len() - start - 2) as u16;
        bytes[start..start + 2].copy_from_slice(&length.to_le_bytes());
        self.squares.to_bytes(bytes);
    }

    /// Reads what [`FloatMoments::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the bytes are not the canonical bytes of any sums.
    pub fn from_bytes(bytes: &[u8]) -> Result<FloatMoments> {
        let (head, rest) = bytes.split_first_chunk::<2>().ok_or_else(|| damaged(bytes))?;
        let (sum, squares) = rest
            .split_at_checked(usize::from(u16::from_le_bytes(*head)))
            .ok_or_else(|| damaged(bytes))?;
        Ok(FloatMoments {
            sum: ExactFloatSum::from_bytes(sum)?,
            squares: ExactFloatSum::from_bytes(squares)?,
        })
    }
}

#[cfg(test)]
mod tests;
