//! Exact sums by group, wider than any value that goes in.

use super::super::load::unfit;
use arrow::array::{Array, BinaryArray, Decimal128Array};
use arrow::datatypes::i256;
use cenote_statestore::Result;
use std::collections::BTreeMap;

/// Exact sums in 128 bits; a sum may leave that range on its way through an epoch, as it may come back.
#[derive(Debug, Default)]
pub(super) struct WideSums {
    low: Vec<i128>,
    /// By group, multiples of 2^128 to add to `low`; never zero.
    carries: BTreeMap<u32, i64>,
}

impl WideSums {
    /// Adds a value of at most 64 bits, whose product with the weight fits.
    #[inline(always)]
    pub(super) fn add_long(&mut self, group: u32, value: i128, weight: i64) {
        let sum = &mut self.low[group as usize];
        match sum.checked_add(value * weight as i128) {
            Some(total) => *sum = total,
            None => self.add_beyond(group, value, weight),
        }
    }

    #[inline(always)]
    pub(super) fn add_decimal(&mut self, group: u32, value: i128, weight: i64) {
        let sum = &mut self.low[group as usize];
        match value
            .checked_mul(weight as i128)
            .and_then(|product| sum.checked_add(product))
        {
            Some(total) => *sum = total,
            None => self.add_beyond(group, value, weight),
        }
    }

    #[cold]
    fn add_beyond(&mut self, group: u32, value: i128, weight: i64) {
        let product = i256::from_i128(value).wrapping_mul(i256::from_i128(weight as i128));
        let (low, high) = i256::from_i128(self.low[group as usize])
            .wrapping_add(product)
            .to_parts();
        let low = low as i128;
        self.low[group as usize] = low;
        let carry = self.carries.entry(group).or_insert(0);
        *carry += (high - (low >> 127)) as i64;
        if *carry == 0 {
            self.carries.remove(&group);
        }
    }

    /// The sum of a group; `None` where it is beyond 128 bits.
    #[inline]
    pub(super) fn get(&self, group: u32) -> Option<i128> {
        (!self.carries.contains_key(&group)).then(|| self.low[group as usize])
    }

    /// The sums of groups, if each fits.
    pub(super) fn all(&self, groups: &[u32]) -> Option<Vec<i128>> {
        let low = || groups.iter().map(|group| self.low[*group as usize]).collect();
        self.carries.is_empty().then(low)
    }

    /// The sums of groups that are beyond 128 bits, as bytes of two's complement, the highest first; NULL for others.
    pub(super) fn beyond(&self, groups: &[u32]) -> BinaryArray {
        let bytes = |group: &u32| {
            let carry = i128::from(*self.carries.get(group)?);
            let low = self.low[*group as usize];
            let sum = i256::from_parts(low as u128, carry + (low >> 127));
            Some(sum.to_be_bytes())
        };
        groups.iter().map(bytes).collect()
    }

    /// Takes the sums of groups as they were.
    ///
    /// # Arguments
    /// - `beyond`: as [`WideSums::beyond`] gave them, for the groups whose sum is NULL; `None`: there are none.
    pub(super) fn load(&mut self, groups: &[u32], sums: &Decimal128Array, beyond: Option<&BinaryArray>) -> Result<()> {
        if sums.null_count() == 0 {
            let sums = groups.iter().zip(sums.values());
            sums.for_each(|(group, sum)| self.low[*group as usize] = *sum);
            return Ok(());
        }
        for (row, (group, sum)) in groups.iter().zip(sums).enumerate() {
            let low = &mut self.low[*group as usize];
            if let Some(sum) = sum {
                *low = sum;
                continue;
            }
            let bytes = beyond
                .filter(|beyond| beyond.is_valid(row))
                .map(|beyond| beyond.value(row));
            let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
            let (lower, high) = i256::from_be_bytes(bytes.ok_or_else(|| unfit("a sum that is missing"))?).to_parts();
            *low = lower as i128;
            let carry = high - (*low >> 127);
            match i64::try_from(carry) {
                Ok(carry) if carry != 0 => self.carries.insert(*group, carry),
                _ => return Err(unfit("a sum that is not beyond what it is said to be beyond")),
            };
        }
        Ok(())
    }

    pub(super) fn grow(&mut self, slots: usize) {
        super::grow(&mut self.low, slots);
    }

    pub(super) fn reserve(&mut self, slots: usize) {
        super::reserve(&mut self.low, slots);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.low.capacity() * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_beyond_what_the_column_holds_come_back() {
        let largest = 10i128.pow(38) - 1;
        let added: [&[(i128, i64)]; 5] = [
            &[(5, 1)],
            &[(largest, 4)],
            &[(-largest, 9)],
            &[(i128::MAX, 3), (i128::MIN, 1)],
            &[(i128::MIN, i64::MAX)],
        ];
        let (mut sums, groups) = (WideSums::default(), [0, 1, 2, 3, 4]);
        sums.grow(5);
        for (group, values) in added.iter().enumerate() {
            values
                .iter()
                .for_each(|(value, weight)| sums.add_decimal(group as u32, *value, *weight));
        }
        let fitting: Decimal128Array = groups.iter().map(|group| sums.get(*group)).collect();
        let beyond = sums.beyond(&groups);
        assert!(beyond.null_count() < 4 && fitting.null_count() == 5 - beyond.null_count());
        let mut again = WideSums::default();
        again.grow(5);
        again.load(&groups, &fitting, Some(&beyond)).unwrap();
        assert_eq!((&again.low, &again.carries), (&sums.low, &sums.carries));
        assert!(again.load(&groups, &fitting, None).is_err(), "a sum is missing");
        let wrong: BinaryArray = groups.iter().map(|_| Some([0u8; 32])).collect();
        assert!(
            again.load(&groups, &fitting, Some(&wrong)).is_err(),
            "a sum that would have fitted"
        );
    }
}
