//! An exact sum of floats that does not depend on order and can be taken back.
//!
//! Adding doubles one by one rounds at each step, so the result depends on the order, and inserting then
//! deleting a value leaves dust behind. [`ExactFloatSum`] keeps the sum itself, without any rounding, and
//! rounds once when it is asked for a value. So `SUM(DOUBLE)` is a function of the rows that are there:
//! not of their order, of batch sizes, of the number of workers, or of rows that came and went.
//!
//! # How
//! Every finite double is a whole multiple of 2^-1074, so the sum is one big integer in that unit. Of its up
//! to 2,200 bits, values of similar magnitude touch only a few, so a *window* of 64-bit words holds them:
//! four words in the struct itself, which cover a factor of about 10^50 between the smallest digit of the
//! smallest value and the sum; beyond that, words on the heap. The integer is in two's complement, so adding and
//! taking away are one carry chain with no case for signs.
//!
//! # Rules kept here
//! 1. **Invertible.** `add(x, w)` then `add(x, -w)` is the identity, NaN and infinities included.
//! 2. **Canonical.** Equal multisets of values give equal [`ExactFloatSum::to_bytes`].
//! 3. **Rounded once**, to nearest, ties to even, by [`ExactFloatSum::value`] for doubles and by
//!    [`ExactFloatSum::value_f32`] for floats.
//!
//! # Not here
//! Counting rows (so as to tell an empty sum from zero), and averages: they are the operator's.
//!
//! # Source
//! The "superaccumulator": Kulisch and Miranker, "The arithmetic of the digital computer", SIAM Review 28
//! (1986), held sparsely as in R. Neal, "Fast exact summation using small and large superaccumulators" (2015).

use crate::{Error, ErrorKind, Result};
use window::{WORDS_MAX, Window};

mod window;

#[cfg(test)]
mod tests;

const FRACTION_BITS: u32 = 52;
const FRACTION: u64 = (1 << FRACTION_BITS) - 1;
const EXPONENT_SPECIAL: u32 = 0x7ff;
/// The exponent of the unit that is counted in, negated.
const LOWEST: u32 = 1074;
/// Bits of a float's smallest subnormal, 2^-149, in units of 2^-1074.
const F32_LOWEST: u32 = 1074 - 149;

/// The exact sum of a multiset of doubles; see the module's page.
///
/// # Cost
/// 48 bytes, and no allocation while the window of four words is enough. `add` is some 10 ns.
///
/// # Examples
/// ```
/// use cenote_statestore::ExactFloatSum;
/// let mut sum = ExactFloatSum::default();
/// for value in [1e300, 0.1, 0.2, 0.3] {
///     sum.add(value, 1);
/// }
/// sum.add(1e300, -1);
/// assert_eq!(sum.value(), 0.6);
/// ```
#[derive(Clone, Default)]
pub struct ExactFloatSum {
    finite: Window,
    specials: Option<Box<Specials>>,
}

/// Net counts of the values that are no numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Specials {
    nan: i64,
    positive_infinity: i64,
    negative_infinity: i64,
}

/// A finite double times a weight, as sign and magnitude in units of 2^-1074.
struct Term {
    negative: bool,
    product: u128,
    shift: u32,
}

impl ExactFloatSum {
    /// Adds `value` `weight` times; a negative weight takes it away.
    #[inline]
    pub fn add(&mut self, value: f64, weight: i64) {
        let bits = value.to_bits();
        let exponent = (bits >> FRACTION_BITS) as u32 & EXPONENT_SPECIAL;
        if exponent == EXPONENT_SPECIAL {
            return self.add_special(value, weight);
        }
        let implicit = u64::from(exponent != 0) << FRACTION_BITS;
        let mantissa = (bits & FRACTION) | implicit;
        let term = Term {
            negative: value.is_sign_negative() != (weight < 0),
            product: u128::from(mantissa) * u128::from(weight.unsigned_abs()),
            shift: exponent.saturating_sub(1),
        };
        if term.product != 0 {
            self.finite.add(term.negative, term.product, term.shift);
        }
    }

    /// Adds the square of a finite `value` `weight` times; of values that are no numbers it takes no notice.
    ///
    /// The square is exact where it is a multiple of 2^-1074, which holds from 2^-485 on; of smaller values the part
    /// below is cut off.
    pub(crate) fn add_square(&mut self, value: f64, weight: i64) {
        let bits = value.to_bits();
        let exponent = (bits >> FRACTION_BITS) as u32 & EXPONENT_SPECIAL;
        if exponent == EXPONENT_SPECIAL {
            return;
        }
        let mantissa = (bits & FRACTION) | (u64::from(exponent != 0) << FRACTION_BITS);
        let square = u128::from(mantissa) * u128::from(mantissa);
        let double = 2 * exponent.saturating_sub(1);
        let cut = LOWEST.saturating_sub(double);
        let square = square.checked_shr(cut).unwrap_or(0);
        let half = FRACTION_BITS + 1;
        for (part, shift) in [(square & ((1 << half) - 1), 0), (square >> half, half)] {
            let product = part * u128::from(weight.unsigned_abs());
            if product != 0 {
                self.finite
                    .add(weight < 0, product, double.saturating_sub(LOWEST) + shift);
            }
        }
    }

    /// The finite part in units of 2^-1074: the lowest word's index, and words in two's complement.
    pub(crate) fn words(&self) -> (u16, &[u64]) {
        self.finite.trimmed()
    }

    #[cold]
    fn add_special(&mut self, value: f64, weight: i64) {
        let mut counts = self.specials.as_deref().copied().unwrap_or_default();
        let count = if value.is_nan() {
            &mut counts.nan
        } else if value > 0.0 {
            &mut counts.positive_infinity
        } else {
            &mut counts.negative_infinity
        };
        *count = count.wrapping_add(weight);
        self.store_specials(counts);
    }

    fn store_specials(&mut self, counts: Specials) {
        self.specials = (counts != Specials::default()).then(|| Box::new(counts));
    }

    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &ExactFloatSum) {
        self.finite.merge(&other.finite);
        if let Some(theirs) = other.specials.as_deref() {
            let mut counts = self.specials.as_deref().copied().unwrap_or_default();
            counts.nan = counts.nan.wrapping_add(theirs.nan);
            counts.positive_infinity = counts.positive_infinity.wrapping_add(theirs.positive_infinity);
            counts.negative_infinity = counts.negative_infinity.wrapping_add(theirs.negative_infinity);
            self.store_specials(counts);
        }
    }

    /// Whether the sum holds exactly nothing: finite part zero, no net NaN and no net infinity.
    pub fn is_zero(&self) -> bool {
        self.specials.is_none() && self.finite.trimmed().1.is_empty()
    }

    /// Whether no NaN and no infinity is in the sum.
    pub fn is_finite(&self) -> bool {
        self.specials.is_none()
    }

    /// The net count of NaN values.
    pub fn nan_count(&self) -> i64 {
        self.specials.as_deref().map_or(0, |counts| counts.nan)
    }

    /// The net count of values +infinity.
    pub fn positive_infinity_count(&self) -> i64 {
        self.specials.as_deref().map_or(0, |counts| counts.positive_infinity)
    }

    /// The net count of values -infinity.
    pub fn negative_infinity_count(&self) -> i64 {
        self.specials.as_deref().map_or(0, |counts| counts.negative_infinity)
    }

    /// Bytes held on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.finite.heap_bytes() + self.specials.as_ref().map_or(0, |_| size_of::<Specials>())
    }

    /// The sum as a double, rounded once to nearest, ties to even.
    ///
    /// # Returns
    /// NaN if a NaN or both infinities are among the values; an infinity if it is, or if the exact sum is beyond
    /// the range of doubles; else the nearest double. Zero is `+0.0`, even where every value was `-0.0`.
    pub fn value(&self) -> f64 {
        match self.special_value() {
            Some(special) => special,
            None => {
                let rounded = self.finite.rounded(FRACTION_BITS + 1, 0);
                // A carry out of the mantissa lands in the exponent, which is what it means.
                let bits = match rounded.shift {
                    shift if shift >= EXPONENT_SPECIAL - 1 => f64::INFINITY.to_bits(),
                    shift => (u64::from(shift) << FRACTION_BITS) + rounded.mantissa,
                };
                let magnitude = f64::from_bits(bits);
                if rounded.negative { -magnitude } else { magnitude }
            }
        }
    }

    /// The sum as a float, rounded once from the exact sum (not by way of a double).
    ///
    /// # Returns
    /// As [`ExactFloatSum::value`], for the range of floats.
    pub fn value_f32(&self) -> f32 {
        match self.special_value() {
            Some(special) => special as f32,
            None => {
                let rounded = self.finite.rounded(24, F32_LOWEST);
                let bits = match rounded.shift - F32_LOWEST {
                    shift if shift >= 0xfe => f32::INFINITY.to_bits(),
                    shift => (shift << 23) + rounded.mantissa as u32,
                };
                let magnitude = f32::from_bits(bits);
                if rounded.negative { -magnitude } else { magnitude }
            }
        }
    }

    fn special_value(&self) -> Option<f64> {
        let counts = self.specials.as_deref()?;
        Some(
            match (
                counts.nan != 0,
                counts.positive_infinity != 0,
                counts.negative_infinity != 0,
            ) {
                (false, true, false) => f64::INFINITY,
                (false, false, true) => f64::NEG_INFINITY,
                _ => f64::NAN,
            },
        )
    }

    /// Appends the canonical bytes: equal multisets give equal bytes, whatever was added and taken away between.
    ///
    /// Layout, little-endian: count of words `u8`, specials flag `u8`, lowest word's index `u16`, the words, and
    /// with the flag the net counts of NaN, +infinity and -infinity as `i64`.
    pub fn to_bytes(&self, bytes: &mut Vec<u8>) {
        let (base, words) = self.finite.trimmed();
        bytes.push(words.len() as u8);
        bytes.push(u8::from(self.specials.is_some()));
        bytes.extend_from_slice(&base.to_le_bytes());
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        if let Some(counts) = self.specials.as_deref() {
            for count in [counts.nan, counts.positive_infinity, counts.negative_infinity] {
                bytes.extend_from_slice(&count.to_le_bytes());
            }
        }
    }

    /// Reads what [`ExactFloatSum::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the bytes are not the canonical bytes of any sum.
    pub fn from_bytes(bytes: &[u8]) -> Result<ExactFloatSum> {
        let sum = Self::parse(bytes).ok_or_else(|| Self::damaged(bytes))?;
        let mut again = Vec::with_capacity(bytes.len());
        sum.to_bytes(&mut again);
        if again == bytes {
            Ok(sum)
        } else {
            Err(Self::damaged(bytes))
        }
    }

    fn parse(bytes: &[u8]) -> Option<ExactFloatSum> {
        let (head, rest) = bytes.split_first_chunk::<4>()?;
        let (count, base) = (usize::from(head[0]), u16::from_le_bytes([head[2], head[3]]));
        if usize::from(base) + count > WORDS_MAX || rest.len() < count * 8 {
            return None;
        }
        let (words, rest) = rest.split_at(count * 8);
        let words: Vec<u64> = words
            .as_chunks::<8>()
            .0
            .iter()
            .map(|word| u64::from_le_bytes(*word))
            .collect();
        let mut sum = ExactFloatSum {
            finite: Window::of(base, &words),
            specials: None,
        };
        if head[1] != 0 {
            let (counts, tail) = rest.as_chunks::<8>();
            let [nan, positive, negative] = counts else { return None };
            let read = i64::from_le_bytes;
            let counts = Specials {
                nan: read(*nan),
                positive_infinity: read(*positive),
                negative_infinity: read(*negative),
            };
            sum.store_specials(counts);
            return tail.is_empty().then_some(sum);
        }
        rest.is_empty().then_some(sum)
    }

    fn damaged(bytes: &[u8]) -> Error {
        Error::new(
            ErrorKind::Corrupt,
            "STATE-0201",
            "cannot read a sum of floats: its bytes are no canonical form",
        )
        .fact("length", format!("{} bytes", bytes.len()))
    }
}

impl PartialEq for ExactFloatSum {
    fn eq(&self, other: &ExactFloatSum) -> bool {
        self.finite.trimmed() == other.finite.trimmed() && self.specials == other.specials
    }
}

impl Eq for ExactFloatSum {}

impl std::fmt::Debug for ExactFloatSum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExactFloatSum({:?})", self.value())
    }
}
