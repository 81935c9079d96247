//! Natural numbers of any size: what a variance needs between exact sums and its one rounding.
//!
//! # Not here
//! Keeping sums: `float_sum` and `moments` do that in words of their own, without allocation.

use std::cmp::Ordering;

/// A natural number; words lowest first, the last one not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Natural(Vec<u64>);

impl Natural {
    /// The magnitude of an integer in two's complement.
    pub(crate) fn magnitude(words: &[u64]) -> Natural {
        let mut words = words.to_vec();
        if words.last().is_some_and(|top| (*top as i64) < 0) {
            let mut carry = true;
            for word in &mut words {
                (*word, carry) = (!*word).overflowing_add(u64::from(carry));
            }
        }
        Natural(words).normal()
    }

    /// A power of ten.
    pub(crate) fn power_of_ten(exponent: u32) -> Natural {
        (0..exponent).fold(Natural(vec![1]), |power, _| power.times_word(10))
    }

    fn normal(mut self) -> Natural {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Digits of the binary form.
    pub(crate) fn bits(&self) -> u32 {
        self.0
            .last()
            .map_or(0, |top| self.0.len() as u32 * 64 - top.leading_zeros())
    }

    pub(crate) fn times(&self, other: &Natural) -> Natural {
        let mut product = vec![0u64; self.0.len() + other.0.len()];
        for (index, word) in self.0.iter().enumerate() {
            let mut carry = 0u128;
            for (digit, factor) in product[index..].iter_mut().zip(other.0.iter().chain(Some(&0))) {
                carry += u128::from(*word) * u128::from(*factor) + u128::from(*digit);
                *digit = carry as u64;
                carry >>= 64;
            }
        }
        Natural(product).normal()
    }

    pub(crate) fn times_word(&self, factor: u64) -> Natural {
        self.times(&Natural(vec![factor]).normal())
    }

    /// The difference; zero where it would be negative.
    pub(crate) fn minus(&self, other: &Natural) -> Natural {
        if self.cmp(other) != Ordering::Greater {
            return Natural::default();
        }
        let mut words = self.0.clone();
        let mut borrow = false;
        for (index, word) in words.iter_mut().enumerate() {
            let (less, first) = word.overflowing_sub(other.0.get(index).copied().unwrap_or(0));
            let (less, second) = less.overflowing_sub(u64::from(borrow));
            (*word, borrow) = (less, first | second);
        }
        Natural(words).normal()
    }

    /// The quotient, rounded down. `divisor` is not zero.
    pub(crate) fn over_word(&self, divisor: u64) -> Natural {
        let mut words = self.0.clone();
        let mut rest = 0u128;
        for word in words.iter_mut().rev() {
            let part = (rest << 64) | u128::from(*word);
            *word = (part / u128::from(divisor)) as u64;
            rest = part % u128::from(divisor);
        }
        Natural(words).normal()
    }

    /// Times 2^`by`, rounded down.
    pub(crate) fn shifted(&self, by: i32) -> Natural {
        let (words, bits) = ((by.unsigned_abs() / 64) as usize, by.unsigned_abs() % 64);
        if by >= 0 {
            let mut shifted = vec![0; words];
            shifted.extend_from_slice(&self.0);
            return Natural(shifted).times_word(1 << bits);
        }
        let kept = self.0.get(words..).unwrap_or_default();
        let above = kept.iter().skip(1).chain(Some(&0));
        let shifted = kept.iter().zip(above);
        let shifted = shifted.map(|(word, above)| (word >> bits) | (above << 1 << (63 - bits)));
        Natural(shifted.collect()).normal()
    }

    /// The number, if it fits.
    pub(crate) fn to_u128(&self) -> Option<u128> {
        let at = |index: usize| u128::from(self.0.get(index).copied().unwrap_or(0));
        (self.0.len() <= 2).then(|| at(0) | (at(1) << 64))
    }

    /// The square root, rounded down; `None` where it does not fit.
    pub(crate) fn root(&self) -> Option<u128> {
        if let Some(small) = self.to_u128() {
            return Some(small.isqrt());
        }
        if self.bits() > 254 {
            return None;
        }
        // Newton's iteration falls from any start above the root until it is there.
        let mut root = 1u128 << self.bits().div_ceil(2);
        loop {
            let next = (root + self.over(root)) / 2;
            if next >= root {
                return Some(root);
            }
            root = next;
        }
    }

    /// The quotient of a number below 2^254 by one near its root, rounded down.
    fn over(&self, divisor: u128) -> u128 {
        use arrow::datatypes::i256;
        let at = |index: usize| u128::from(self.0.get(index).copied().unwrap_or(0));
        let wide = i256::from_parts(at(0) | (at(1) << 64), (at(2) | (at(3) << 64)) as i128);
        let quotient = wide.wrapping_div(i256::from_parts(divisor, 0));
        quotient.to_parts().0
    }

    /// The nearest double to the number times 2^`exponent`, up to the last bits.
    pub(crate) fn to_f64(&self, exponent: i32) -> f64 {
        let cut = self.bits() as i32 - 120;
        let top = self.shifted(-cut).to_u128().unwrap_or(u128::MAX);
        scaled(top as f64, exponent + cut)
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Natural) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Natural) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

/// `value * 2^exponent`.
pub(crate) fn scaled(mut value: f64, mut exponent: i32) -> f64 {
    const STEP: i32 = 1000;
    let power = |exponent: i32| f64::from_bits(((exponent + 1023) as u64) << 52);
    while exponent.abs() > STEP && value != 0.0 && value.is_finite() {
        let step = STEP * exponent.signum();
        value *= power(step);
        exponent -= step;
    }
    value * power(exponent.clamp(-STEP, STEP))
}

#[cfg(test)]
mod tests;
