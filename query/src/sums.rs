//! SUM, AVG, variances and deviations in ad-hoc queries: exact, rounded once, whatever the order of rows.
//!
//! The same rule as in materialized views, so that a view and its query give the same bits.
//!
//! # Parts
//! [`total`] and [`spread`] have what is added up, floats and exact numbers; here are DataFusion's accumulators over either.

mod spread;
mod total;

pub(crate) use spread::{ExactSpread, FloatSpread};
pub(crate) use total::{ExactTotal, FloatTotal, Total};

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use cenote_statestore::Spread;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::scalar::ScalarValue;
use std::collections::HashSet;
use std::sync::Arc;

/// What can be read from totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The sum.
    Sum,
    /// The sum over the count.
    Mean,
    /// A variance or standard deviation.
    Spread(Spread),
}

/// What is read from a total.
#[derive(Clone, Debug)]
pub(crate) struct SumResult {
    /// What of it.
    pub(crate) reading: Reading,
    /// Digits after the point of the values that are added up; 0 for floats.
    pub(crate) scale: i8,
    /// Type of the result.
    pub(crate) data_type: DataType,
}

/// The columns of a partial result.
pub(crate) fn state_fields(name: &str) -> Vec<FieldRef> {
    vec![
        Arc::new(Field::new(format!("{name}[total]"), DataType::Binary, true)),
        Arc::new(Field::new(format!("{name}[count]"), DataType::Int64, true)),
    ]
}

/// A partial result's columns, read back.
fn partial(columns: &[ArrayRef]) -> Result<(BinaryArray, Int64Array)> {
    let totals = cast(&columns[0], &DataType::Binary)?;
    let counts = columns[1].as_primitive::<Int64Type>().clone();
    Ok((totals.as_binary::<i32>().clone(), counts))
}

fn evaluated<T: Total>(result: &SumResult, total: &T, count: i64) -> Result<ScalarValue> {
    let array = T::read(result, std::iter::once((total, count)))?;
    ScalarValue::try_from_array(&array, 0)
}

/// One sum.
#[derive(Debug)]
pub(crate) struct Sum<T> {
    result: SumResult,
    total: T,
    count: i64,
}

impl<T: Total> Sum<T> {
    /// The sum of nothing.
    pub(crate) fn new(result: SumResult) -> Sum<T> {
        Sum {
            result,
            total: T::default(),
            count: 0,
        }
    }

    fn add(&mut self, values: &[ArrayRef], weight: i64) -> Result<()> {
        for value in T::values(&values[0])?.iter().flatten() {
            self.total.add(value, weight);
            self.count += weight;
        }
        Ok(())
    }
}

impl<T: Total> Accumulator for Sum<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values, 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        evaluated(&self.result, &self.total, self.count)
    }

    fn size(&self) -> usize {
        std::mem::size_of_val(self) + self.total.heap_bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut bytes = Vec::new();
        self.total.to_bytes(&mut bytes);
        Ok(vec![
            ScalarValue::Binary(Some(bytes)),
            ScalarValue::Int64(Some(self.count)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (totals, counts) = partial(states)?;
        for (bytes, count) in totals.iter().zip(counts.iter()) {
            if let (Some(bytes), Some(count)) = (bytes, count) {
                self.total.merge(&T::from_bytes(bytes)?);
                self.count += count;
            }
        }
        Ok(())
    }
}

/// One sum of different values.
#[derive(Debug)]
pub(crate) struct DistinctSum<T> {
    result: SumResult,
    seen: HashSet<u128>,
    total: std::marker::PhantomData<T>,
}

impl<T: Total> DistinctSum<T> {
    /// The sum of nothing.
    pub(crate) fn new(result: SumResult) -> DistinctSum<T> {
        DistinctSum {
            result,
            seen: HashSet::new(),
            total: std::marker::PhantomData,
        }
    }
}

impl<T: Total> Accumulator for DistinctSum<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.seen
            .extend(T::values(&values[0])?.iter().flatten().map(T::identity));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut total = T::default();
        self.seen
            .iter()
            .for_each(|identity| total.add(T::identified(*identity), 1));
        evaluated(&self.result, &total, self.seen.len() as i64)
    }

    fn size(&self) -> usize {
        std::mem::size_of_val(self) + self.seen.capacity() * 17
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let bytes: Vec<u8> = self.seen.iter().flat_map(|identity| identity.to_le_bytes()).collect();
        Ok(vec![
            ScalarValue::Binary(Some(bytes)),
            ScalarValue::Int64(Some(self.seen.len() as i64)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (values, _) = partial(states)?;
        for bytes in values.iter().flatten() {
            let identities = bytes
                .chunks_exact(16)
                .map(|bits| u128::from_le_bytes(bits.try_into().expect("chunks of sixteen bytes")));
            self.seen.extend(identities);
        }
        Ok(())
    }
}

/// The sums of all groups.
#[derive(Debug)]
pub(crate) struct GroupedSums<T> {
    result: SumResult,
    totals: Vec<T>,
    counts: Vec<i64>,
}

impl<T: Total> GroupedSums<T> {
    /// No groups yet.
    pub(crate) fn new(result: SumResult) -> GroupedSums<T> {
        GroupedSums {
            result,
            totals: Vec::new(),
            counts: Vec::new(),
        }
    }

    fn grow(&mut self, groups: usize) {
        self.totals.resize(groups, T::default());
        self.counts.resize(groups, 0);
    }
}

fn is_kept(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl<T: Total> GroupsAccumulator for GroupedSums<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.grow(group_count);
        let values = T::values(&values[0])?;
        for (row, group) in groups.iter().enumerate() {
            if values.is_valid(row) && is_kept(filter, row) {
                self.totals[*group].add(values.value(row), 1);
                self.counts[*group] += 1;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (totals, counts) = (emit.take_needed(&mut self.totals), emit.take_needed(&mut self.counts));
        T::read(&self.result, totals.iter().zip(counts))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (totals, counts) = (emit.take_needed(&mut self.totals), emit.take_needed(&mut self.counts));
        let (mut column, mut bytes) = (BinaryBuilder::new(), Vec::new());
        for total in &totals {
            bytes.clear();
            total.to_bytes(&mut bytes);
            column.append_value(&bytes);
        }
        Ok(vec![Arc::new(column.finish()), Arc::new(Int64Array::from(counts))])
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.grow(group_count);
        let (totals, counts) = partial(states)?;
        for (row, group) in groups.iter().enumerate() {
            if totals.is_valid(row) && is_kept(filter, row) {
                self.totals[*group].merge(&T::from_bytes(totals.value(row))?);
                self.counts[*group] += counts.value(row);
            }
        }
        Ok(())
    }

    fn convert_to_state(&self, _values: &[ArrayRef], _filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        Err(DataFusionError::NotImplemented("partial sums of single values".into()))
    }

    fn size(&self) -> usize {
        self.totals.capacity() * std::mem::size_of::<T>() + self.counts.capacity() * 8
    }
}
