//! Totals that are exact: of floats in fixed point, of whole numbers and NUMERIC in 256 bits.

use super::{Reading, SumResult};
use crate::arithmetic::out_of_range;
use arrow::array::{ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, PrimitiveArray};
use arrow::compute::cast;
use arrow::datatypes::{
    ArrowPrimitiveType, DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, DecimalType, Float64Type, i256,
};
use cenote_statestore::ExactFloatSum;
use datafusion::error::{DataFusionError, Result};
use std::fmt::Debug;
use std::sync::Arc;

/// A sum that has lost nothing.
pub(crate) trait Total: Clone + Debug + Default + Send + Sync + 'static {
    /// The values that are added.
    type Arrow: ArrowPrimitiveType;

    /// A column as such values.
    fn values(column: &ArrayRef) -> Result<PrimitiveArray<Self::Arrow>>;

    /// Adds a value so many times.
    fn add(&mut self, value: <Self::Arrow as ArrowPrimitiveType>::Native, weight: i64);

    /// Adds all that another one holds.
    fn merge(&mut self, other: &Self);

    /// What equal values have in common.
    fn identity(value: <Self::Arrow as ArrowPrimitiveType>::Native) -> u128;

    /// The value of an identity.
    fn identified(identity: u128) -> <Self::Arrow as ArrowPrimitiveType>::Native;

    /// Appends the bytes that [`Total::from_bytes`] reads.
    fn to_bytes(&self, bytes: &mut Vec<u8>);

    /// Reads a total back.
    fn from_bytes(bytes: &[u8]) -> Result<Self>;

    /// Bytes held on the heap.
    fn heap_bytes(&self) -> usize;

    /// The results of totals of that many values each; NULL for none.
    ///
    /// # Errors
    /// 22003: a result is beyond its type's range.
    fn read<'a>(result: &SumResult, totals: impl Iterator<Item = (&'a Self, i64)>) -> Result<ArrayRef>;
}

/// A total of floats.
#[derive(Clone, Debug, Default)]
pub(crate) struct FloatTotal(ExactFloatSum);

impl FloatTotal {
    fn value(&self, result: &SumResult, count: i64) -> Result<f64> {
        let sum = &self.0;
        let value = match (result.reading == Reading::Mean, &result.data_type) {
            (true, _) => sum.value() / count as f64,
            (false, DataType::Float32) => sum.value_f32() as f64,
            (false, _) => sum.value(),
        };
        if value.is_infinite() && sum.is_finite() {
            return Err(out_of_range("value out of range: overflow"));
        }
        Ok(value)
    }
}

impl Total for FloatTotal {
    type Arrow = Float64Type;

    fn values(column: &ArrayRef) -> Result<Float64Array> {
        Ok(cast(column, &DataType::Float64)?.as_primitive().clone())
    }

    fn add(&mut self, value: f64, weight: i64) {
        self.0.add(value, weight);
    }

    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    fn identity(value: f64) -> u128 {
        let one_of_equals = if value.is_nan() { f64::NAN } else { value + 0.0 };
        one_of_equals.to_bits() as u128
    }

    fn identified(identity: u128) -> f64 {
        f64::from_bits(identity as u64)
    }

    fn to_bytes(&self, bytes: &mut Vec<u8>) {
        self.0.to_bytes(bytes);
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let sum = ExactFloatSum::from_bytes(bytes).map_err(crate::provider::outside)?;
        Ok(FloatTotal(sum))
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn read<'a>(result: &SumResult, totals: impl Iterator<Item = (&'a Self, i64)>) -> Result<ArrayRef> {
        let values = totals.map(|(total, count)| (count != 0).then(|| total.value(result, count)).transpose());
        let values = values.collect::<Result<Float64Array>>()?;
        Ok(cast(&values, &result.data_type)?)
    }
}

/// A total of whole numbers or NUMERIC, in units of the last digit.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactTotal(i256);

impl ExactTotal {
    /// The sum or mean with `by` digits more than the values have, rounded half away from zero.
    fn value(&self, mean: bool, count: i64, by: i8) -> Option<i128> {
        let raised = self.0.checked_mul(i256::from_i128(10).checked_pow(by.max(0) as u32)?)?;
        if !mean {
            return raised.to_i128();
        }
        let divisor = i256::from_i128(count as i128);
        let (quotient, rest) = (raised.wrapping_div(divisor), raised.wrapping_rem(divisor));
        let is_away = rest.wrapping_abs().wrapping_mul(i256::from_i128(2)) >= divisor;
        let sign = if raised.is_negative() { -1 } else { 1 };
        quotient
            .wrapping_add(i256::from_i128(if is_away { sign } else { 0 }))
            .to_i128()
    }
}

impl Total for ExactTotal {
    type Arrow = Decimal128Type;

    fn values(column: &ArrayRef) -> Result<Decimal128Array> {
        let column = match column.data_type() {
            DataType::Decimal128(_, _) => column.clone(),
            _ => cast(column, &DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))?,
        };
        Ok(column.as_primitive().clone())
    }

    fn add(&mut self, value: i128, weight: i64) {
        let product = i256::from_i128(value).wrapping_mul(i256::from_i128(weight as i128));
        self.0 = self.0.wrapping_add(product);
    }

    fn merge(&mut self, other: &Self) {
        self.0 = self.0.wrapping_add(other.0);
    }

    fn identity(value: i128) -> u128 {
        value as u128
    }

    fn identified(identity: u128) -> i128 {
        identity as i128
    }

    fn to_bytes(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0.to_le_bytes());
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let bytes = bytes
            .try_into()
            .map_err(|_| DataFusionError::Internal("a partial sum has another size".into()))?;
        Ok(ExactTotal(i256::from_le_bytes(bytes)))
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn read<'a>(result: &SumResult, totals: impl Iterator<Item = (&'a Self, i64)>) -> Result<ArrayRef> {
        let (precision, by) = match result.data_type {
            DataType::Decimal128(precision, scale) => (precision, scale - result.scale),
            _ => (DECIMAL128_MAX_PRECISION, 0),
        };
        let beyond = || {
            let name = crate::types::type_name(&result.data_type);
            out_of_range(&format!("{name} out of range"))
        };
        let values = totals.map(|(total, count)| match count {
            0 => Ok(None),
            _ => total
                .value(result.reading == Reading::Mean, count, by)
                .filter(|value| Decimal128Type::is_valid_decimal_precision(*value, precision))
                .map(Some)
                .ok_or_else(beyond),
        });
        let values = values.collect::<Result<Vec<Option<i128>>>>()?;
        match result.data_type {
            DataType::Decimal128(precision, scale) => {
                let array = Decimal128Array::from(values).with_precision_and_scale(precision, scale)?;
                Ok(Arc::new(array))
            }
            _ => {
                let longs = values
                    .into_iter()
                    .map(|value| value.map(i64::try_from).transpose().map_err(|_| beyond()));
                Ok(Arc::new(longs.collect::<Result<Int64Array>>()?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_round_half_away_from_zero() {
        let mean = |sum: i128, count, by| ExactTotal(i256::from_i128(sum)).value(true, count, by);
        assert_eq!(mean(5, 2, 0), Some(3));
        assert_eq!(mean(-5, 2, 0), Some(-3));
        assert_eq!(mean(1, 3, 4), Some(3333));
        assert_eq!(mean(i128::MAX, 1, 16), None);
    }

    #[test]
    fn floats_that_are_equal_have_one_identity() {
        assert_eq!(FloatTotal::identity(-0.0), FloatTotal::identity(0.0));
        assert_eq!(FloatTotal::identity(f64::NAN), FloatTotal::identity(-f64::NAN));
    }
}
