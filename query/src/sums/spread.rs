//! Totals that variances and standard deviations are read from: exact sums of values and of their squares.

use super::total::{ExactTotal, FloatTotal, Total};
use super::{Reading, SumResult};
use crate::arithmetic::out_of_range;
use arrow::array::{ArrayRef, Decimal128Array, Float64Array};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, DecimalType, Float64Type};
use cenote_statestore::{ExactMoments, FloatMoments, Spread};
use datafusion::error::{DataFusionError, Result};
use std::sync::Arc;

fn spread_of(result: &SumResult) -> Result<Spread> {
    match result.reading {
        Reading::Spread(spread) => Ok(spread),
        _ => Err(DataFusionError::Internal("a sum is read from moments".into())),
    }
}

/// Moments of floats.
#[derive(Clone, Debug, Default)]
pub(crate) struct FloatSpread(FloatMoments);

impl Total for FloatSpread {
    type Arrow = Float64Type;

    fn values(column: &ArrayRef) -> Result<Float64Array> {
        FloatTotal::values(column)
    }

    fn add(&mut self, value: f64, weight: i64) {
        self.0.add(value, weight);
    }

    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    fn identity(value: f64) -> u128 {
        FloatTotal::identity(value)
    }

    fn identified(identity: u128) -> f64 {
        FloatTotal::identified(identity)
    }

    fn to_bytes(&self, bytes: &mut Vec<u8>) {
        self.0.to_bytes(bytes);
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let moments = FloatMoments::from_bytes(bytes).map_err(crate::provider::outside)?;
        Ok(FloatSpread(moments))
    }

    fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }

    fn read<'a>(result: &SumResult, totals: impl Iterator<Item = (&'a Self, i64)>) -> Result<ArrayRef> {
        let spread = spread_of(result)?;
        let values = totals.map(|(total, count)| match total.0.read(count, spread) {
            Some(value) if value.is_infinite() => Err(out_of_range("value out of range: overflow")),
            value => Ok(value),
        });
        Ok(Arc::new(values.collect::<Result<Float64Array>>()?))
    }
}

/// Moments of whole numbers or NUMERIC.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExactSpread(ExactMoments);

impl Total for ExactSpread {
    type Arrow = Decimal128Type;

    fn values(column: &ArrayRef) -> Result<Decimal128Array> {
        ExactTotal::values(column)
    }

    fn add(&mut self, value: i128, weight: i64) {
        self.0.add(value, weight);
    }

    fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    fn identity(value: i128) -> u128 {
        ExactTotal::identity(value)
    }

    fn identified(identity: u128) -> i128 {
        ExactTotal::identified(identity)
    }

    fn to_bytes(&self, bytes: &mut Vec<u8>) {
        self.0.to_bytes(bytes);
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let moments = ExactMoments::from_bytes(bytes).map_err(crate::provider::outside)?;
        Ok(ExactSpread(moments))
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn read<'a>(result: &SumResult, totals: impl Iterator<Item = (&'a Self, i64)>) -> Result<ArrayRef> {
        let spread = spread_of(result)?;
        let (precision, scale) = match result.data_type {
            DataType::Decimal128(precision, scale) => (precision, scale),
            _ => (DECIMAL128_MAX_PRECISION, 0),
        };
        let fits = |value: &Option<i128>| {
            value.is_none_or(|value| Decimal128Type::is_valid_decimal_precision(value, precision))
        };
        let values = totals.map(|(total, count)| {
            let value = total
                .0
                .read(count, spread, result.scale.max(0) as u8, scale.max(0) as u8);
            value.filter(fits).ok_or_else(|| {
                let name = crate::types::type_name(&result.data_type);
                out_of_range(&format!("{name} out of range"))
            })
        });
        let values = values.collect::<Result<Decimal128Array>>()?;
        Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
    }
}
