//! State of variances and standard deviations: exact sums of values and of their squares, by group slot.

use super::accumulator::{Rows, grow, out_of_range};
use super::load::unfit;
use crate::plan::{AggregateCall, AggregateFunction};
use arrow::array::{ArrayRef, AsArray, BinaryArray, BinaryBuilder, Decimal128Array, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, DecimalType, Float64Type};
use cenote_statestore::{Error, ExactMoments, FloatMoments, Result, Spread};
use std::sync::Arc;

#[derive(Debug)]
enum Moments {
    Exact(Vec<ExactMoments>),
    Float(Vec<FloatMoments>),
}

/// Moments of all groups.
#[derive(Debug)]
pub(super) struct SpreadState {
    function: AggregateFunction,
    spread: Spread,
    moments: Moments,
    counts: Vec<i64>,
    digits: u8,
}

impl SpreadState {
    pub(super) fn new(function: AggregateFunction, spread: Spread, argument: Option<&DataType>) -> SpreadState {
        let (moments, digits) = match argument {
            Some(DataType::Float32 | DataType::Float64) => (Moments::Float(Vec::new()), 0),
            Some(DataType::Decimal128(_, scale)) => (Moments::Exact(Vec::new()), (*scale).max(0) as u8),
            _ => (Moments::Exact(Vec::new()), 0),
        };
        SpreadState {
            function,
            spread,
            moments,
            counts: Vec::new(),
            digits,
        }
    }

    pub(super) fn grow(&mut self, slots: usize) {
        grow(&mut self.counts, slots);
        match &mut self.moments {
            Moments::Exact(moments) => grow(moments, slots),
            Moments::Float(moments) => grow(moments, slots),
        }
    }

    pub(super) fn add_rows(&mut self, rows: &Rows<'_>, argument: &ArrayRef) -> Result<()> {
        let counts = &mut self.counts;
        match &mut self.moments {
            Moments::Exact(moments) => {
                let wide = match argument.data_type() {
                    DataType::Decimal128(_, _) => argument.clone(),
                    _ => cast(argument, &DataType::Decimal128(38, 0))?,
                };
                let values = wide.as_primitive::<Decimal128Type>();
                rows.each_valid(values, |row, group, weight| {
                    moments[group as usize].add(values.value(row), weight);
                    counts[group as usize] += weight;
                });
            }
            Moments::Float(moments) => {
                let doubles = cast(argument, &DataType::Float64)?;
                let values = doubles.as_primitive::<Float64Type>();
                rows.each_valid(values, |row, group, weight| {
                    moments[group as usize].add(values.value(row), weight);
                    counts[group as usize] += weight;
                });
            }
        }
        Ok(())
    }

    /// The results of the groups, in order.
    pub(super) fn results(&self, groups: &[u32], call: &AggregateCall) -> Result<ArrayRef> {
        let beyond = || out_of_range(self.function);
        let counted = groups
            .iter()
            .map(|group| (*group as usize, self.counts[*group as usize]));
        match (&self.moments, &call.output) {
            (Moments::Exact(moments), DataType::Decimal128(precision, scale)) => {
                let read = |(group, count): (usize, i64)| {
                    let moments: &ExactMoments = &moments[group];
                    let value = moments.read(count, self.spread, self.digits, (*scale).max(0) as u8);
                    value
                        .filter(|value| {
                            value.is_none_or(|value| Decimal128Type::is_valid_decimal_precision(value, *precision))
                        })
                        .ok_or_else(beyond)
                };
                let values = counted.map(read).collect::<Result<Decimal128Array>>()?;
                Ok(Arc::new(values.with_precision_and_scale(*precision, *scale)?))
            }
            (Moments::Float(moments), DataType::Float64) => {
                let read = |(group, count): (usize, i64)| match moments[group].read(count, self.spread) {
                    Some(value) if value.is_infinite() => Err(beyond()),
                    value => Ok(value),
                };
                Ok(Arc::new(counted.map(read).collect::<Result<Float64Array>>()?))
            }
            (_, other) => Err(Error::bug(format!("a variance was planned to give {other}"))),
        }
    }

    /// Columns of the state table: both sums rounded, for people; both exactly; the count.
    pub(super) fn columns(&self, groups: &[u32]) -> Vec<ArrayRef> {
        let (mut sums, mut squares) = (Vec::new(), Vec::new());
        let (mut exact, mut bytes) = (BinaryBuilder::new(), Vec::new());
        for group in groups {
            bytes.clear();
            let (sum, square) = match &self.moments {
                Moments::Exact(moments) => {
                    moments[*group as usize].to_bytes(&mut bytes);
                    moments[*group as usize].rounded(self.digits)
                }
                Moments::Float(moments) => {
                    moments[*group as usize].to_bytes(&mut bytes);
                    moments[*group as usize].rounded()
                }
            };
            sums.push(sum);
            squares.push(square);
            exact.append_value(&bytes);
        }
        let counts = groups.iter().map(|group| self.counts[*group as usize]);
        vec![
            Arc::new(Float64Array::from(sums)),
            Arc::new(Float64Array::from(squares)),
            Arc::new(exact.finish()),
            Arc::new(counts.collect::<Int64Array>()),
        ]
    }

    /// Takes the moments of groups as they were, as the exact bytes in [`SpreadState::columns`].
    pub(super) fn load(&mut self, groups: &[u32], exact: &BinaryArray, counts: &[i64]) -> Result<()> {
        for ((group, bytes), count) in groups.iter().zip(exact).zip(counts) {
            let (group, bytes) = (*group as usize, bytes.ok_or_else(|| unfit("moments that are missing"))?);
            match &mut self.moments {
                Moments::Exact(moments) => moments[group] = ExactMoments::from_bytes(bytes)?,
                Moments::Float(moments) => moments[group] = FloatMoments::from_bytes(bytes)?,
            }
            self.counts[group] = *count;
        }
        Ok(())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let moments = match &self.moments {
            Moments::Exact(moments) => moments.capacity() * size_of::<ExactMoments>(),
            Moments::Float(moments) => moments.capacity() * size_of::<FloatMoments>(),
        };
        moments + self.counts.capacity() * 8
    }
}
