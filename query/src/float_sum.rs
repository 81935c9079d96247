//! SUM and AVG of floats in ad-hoc queries: exact, rounded once, whatever the order of rows.
//!
//! The same rule as in materialized views, so that a view and its query give the same bits.

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, BooleanArray, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Int64Type};
use cenote_statestore::ExactFloatSum;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion::scalar::ScalarValue;
use std::collections::HashSet;
use std::sync::Arc;

/// What is read from a sum.
#[derive(Clone, Debug)]
pub(crate) struct FloatResult {
    /// The mean instead of the sum.
    pub(crate) mean: bool,
    /// REAL or DOUBLE PRECISION.
    pub(crate) data_type: DataType,
}

impl FloatResult {
    /// The results of sums of that many values.
    ///
    /// # Errors
    /// 22003: finite values whose sum is beyond the type's range.
    fn read<'a>(&self, sums: impl Iterator<Item = (&'a ExactFloatSum, i64)>) -> Result<ArrayRef> {
        let single = self.data_type == DataType::Float32;
        let read = |(sum, count): (&ExactFloatSum, i64)| {
            if count == 0 {
                return Ok(None);
            }
            let value = match (self.mean, single) {
                (true, _) => sum.value() / count as f64,
                (false, true) => sum.value_f32() as f64,
                (false, false) => sum.value(),
            };
            let specials = sum.nan_count() + sum.positive_infinity_count() + sum.negative_infinity_count();
            if value.is_infinite() && specials == 0 {
                return Err(crate::arithmetic::out_of_range("value out of range: overflow"));
            }
            Ok(Some(value))
        };
        let values = sums.map(read).collect::<Result<Float64Array>>()?;
        Ok(cast(&values, &self.data_type)?)
    }
}

/// The columns of a partial sum.
pub(crate) fn state_fields(name: &str) -> Vec<FieldRef> {
    vec![
        Arc::new(Field::new(format!("{name}[exact]"), DataType::Binary, true)),
        Arc::new(Field::new(format!("{name}[count]"), DataType::Int64, true)),
    ]
}

fn doubles(values: &ArrayRef) -> Result<Float64Array> {
    Ok(cast(values, &DataType::Float64)?.as_primitive::<Float64Type>().clone())
}

/// A partial sum's columns, read back.
fn partial(columns: &[ArrayRef]) -> Result<(BinaryArray, Int64Array)> {
    let exact = cast(&columns[0], &DataType::Binary)?;
    Ok((
        exact.as_binary::<i32>().clone(),
        columns[1].as_primitive::<Int64Type>().clone(),
    ))
}

fn sum_of(bytes: &[u8]) -> Result<ExactFloatSum> {
    ExactFloatSum::from_bytes(bytes).map_err(crate::provider::outside)
}

/// One sum.
#[derive(Debug)]
pub(crate) struct FloatSum {
    result: FloatResult,
    sum: ExactFloatSum,
    count: i64,
}

impl FloatSum {
    /// The sum of nothing.
    pub(crate) fn new(result: FloatResult) -> FloatSum {
        FloatSum {
            result,
            sum: ExactFloatSum::default(),
            count: 0,
        }
    }

    fn add(&mut self, values: &[ArrayRef], weight: i64) -> Result<()> {
        for value in doubles(&values[0])?.iter().flatten() {
            self.sum.add(value, weight);
            self.count += weight;
        }
        Ok(())
    }
}

impl Accumulator for FloatSum {
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
        let result = self.result.read(std::iter::once((&self.sum, self.count)))?;
        ScalarValue::try_from_array(&result, 0)
    }

    fn size(&self) -> usize {
        std::mem::size_of_val(self) + self.sum.heap_bytes()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let mut bytes = Vec::new();
        self.sum.to_bytes(&mut bytes);
        Ok(vec![
            ScalarValue::Binary(Some(bytes)),
            ScalarValue::Int64(Some(self.count)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (exact, counts) = partial(states)?;
        for (bytes, count) in exact.iter().zip(counts.iter()) {
            if let (Some(bytes), Some(count)) = (bytes, count) {
                self.sum.merge(&sum_of(bytes)?);
                self.count += count;
            }
        }
        Ok(())
    }
}

/// One sum of different values.
#[derive(Debug)]
pub(crate) struct DistinctFloatSum {
    result: FloatResult,
    /// The values' bits, with one zero and one NaN.
    seen: HashSet<u64>,
}

impl DistinctFloatSum {
    /// The sum of nothing.
    pub(crate) fn new(result: FloatResult) -> DistinctFloatSum {
        DistinctFloatSum {
            result,
            seen: HashSet::new(),
        }
    }
}

impl Accumulator for DistinctFloatSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let canonical = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
        let values = doubles(&values[0])?;
        self.seen
            .extend(values.iter().flatten().map(|value| canonical(value).to_bits()));
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = ExactFloatSum::default();
        self.seen.iter().for_each(|bits| sum.add(f64::from_bits(*bits), 1));
        let result = self.result.read(std::iter::once((&sum, self.seen.len() as i64)))?;
        ScalarValue::try_from_array(&result, 0)
    }

    fn size(&self) -> usize {
        std::mem::size_of_val(self) + self.seen.capacity() * 9
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let bytes: Vec<u8> = self.seen.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        Ok(vec![
            ScalarValue::Binary(Some(bytes)),
            ScalarValue::Int64(Some(self.seen.len() as i64)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (values, _) = partial(states)?;
        for bytes in values.iter().flatten() {
            let values = bytes
                .chunks_exact(8)
                .map(|bits| u64::from_le_bytes(bits.try_into().expect("chunks of eight bytes")));
            self.seen.extend(values);
        }
        Ok(())
    }
}

/// The sums of all groups.
#[derive(Debug)]
pub(crate) struct GroupedFloatSums {
    result: FloatResult,
    sums: Vec<ExactFloatSum>,
    counts: Vec<i64>,
}

impl GroupedFloatSums {
    /// No groups yet.
    pub(crate) fn new(result: FloatResult) -> GroupedFloatSums {
        GroupedFloatSums {
            result,
            sums: Vec::new(),
            counts: Vec::new(),
        }
    }

    fn grow(&mut self, groups: usize) {
        self.sums.resize(groups, ExactFloatSum::default());
        self.counts.resize(groups, 0);
    }
}

fn counts(filter: Option<&BooleanArray>, row: usize) -> bool {
    filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
}

impl GroupsAccumulator for GroupedFloatSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.grow(group_count);
        let values = doubles(&values[0])?;
        for (row, group) in groups.iter().enumerate() {
            if values.is_valid(row) && counts(filter, row) {
                self.sums[*group].add(values.value(row), 1);
                self.counts[*group] += 1;
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let (sums, counts) = (emit.take_needed(&mut self.sums), emit.take_needed(&mut self.counts));
        self.result.read(sums.iter().zip(counts))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, counts) = (emit.take_needed(&mut self.sums), emit.take_needed(&mut self.counts));
        let (mut exact, mut bytes) = (BinaryBuilder::new(), Vec::new());
        for sum in &sums {
            bytes.clear();
            sum.to_bytes(&mut bytes);
            exact.append_value(&bytes);
        }
        Ok(vec![Arc::new(exact.finish()), Arc::new(Int64Array::from(counts))])
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> Result<()> {
        self.grow(group_count);
        let (exact, added) = partial(states)?;
        for (row, group) in groups.iter().enumerate() {
            if exact.is_valid(row) && counts(filter, row) {
                self.sums[*group].merge(&sum_of(exact.value(row))?);
                self.counts[*group] += added.value(row);
            }
        }
        Ok(())
    }

    fn convert_to_state(&self, _values: &[ArrayRef], _filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        Err(DataFusionError::NotImplemented("partial sums of single floats".into()))
    }

    fn size(&self) -> usize {
        self.sums.capacity() * std::mem::size_of::<ExactFloatSum>() + self.counts.capacity() * 8
    }
}
