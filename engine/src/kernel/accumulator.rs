//! Accumulators: one aggregate's state for all groups, in columns by group slot.
//!
//! # Rules kept here
//! Results never depend on the order of changes: integers and decimals are summed exactly ([`WideSums`]), floats in
//! exact fixed point ([`ExactFloatSum`]) and rounded once when read, extremes and elements come from the multiset of
//! values. Variances are read from exact sums of squares ([`SpreadState`]).

mod changed;
mod counts;
mod load;
mod wide;

use super::spread::SpreadState;
use super::values::{Value, ValueCounts, array_of, values_of};
use crate::elements::ElementOrder;
use crate::plan::{AggregateCall, AggregateFunction, Elements};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int64Array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{
    DataType, Decimal128Type, DecimalType, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, Schema,
    UInt64Type, i256,
};
use cenote_statestore::{Error, ErrorKind, ExactFloatSum, Result, Weights};
use counts::Counts;
use std::sync::Arc;
use wide::WideSums;

#[derive(Debug)]
enum State {
    Count(Counts),
    Exact {
        sums: WideSums,
        counts: Counts,
        scale: i8,
    },
    Float {
        sums: Vec<ExactFloatSum>,
        counts: Counts,
    },
    Extreme {
        greatest: bool,
    },
    Spread(SpreadState),
    /// The elements are all.
    Elements,
}

/// One aggregate's state.
#[derive(Debug)]
pub(super) struct Accumulator {
    call: AggregateCall,
    argument_type: Option<DataType>,
    state: State,
    values: Option<ValueCounts>,
    /// How rows become kept values, where those are more than the argument.
    order: Option<ElementOrder>,
    /// Identities of values of groups that went, since changes were taken: keys, then values.
    forgotten: Vec<changed::Identities>,
}

/// Rows of a push, by group, with the weights that count for one aggregate.
pub(super) struct Rows<'a> {
    groups: &'a [u32],
    weights: &'a Weights,
    filter: Option<&'a BooleanArray>,
    /// Whether these are all rows of the push, but for the filter.
    is_whole: bool,
    /// How many rows each group had before the push.
    group_rows: &'a [i64],
}

impl Rows<'_> {
    /// Whether every row of the push counts for an aggregate of `argument`.
    fn count_all(&self, argument: Option<&ArrayRef>) -> bool {
        self.is_whole && self.filter.is_none() && argument.is_none_or(|argument| argument.null_count() == 0)
    }

    /// Calls `add(row, group, weight)` for each row whose filter is true.
    #[inline(always)]
    fn each(&self, mut add: impl FnMut(usize, u32, i64)) {
        match (self.filter, self.weights) {
            (None, Weights::All(weight)) => {
                self.groups
                    .iter()
                    .enumerate()
                    .for_each(|(row, group)| add(row, *group, *weight));
            }
            (None, Weights::Each(weights)) => {
                self.groups
                    .iter()
                    .zip(weights)
                    .enumerate()
                    .for_each(|(row, (group, weight))| add(row, *group, *weight));
            }
            (Some(filter), weights) => {
                for (row, group) in self.groups.iter().enumerate() {
                    if filter.is_valid(row) && filter.value(row) {
                        add(row, *group, weights.get(row));
                    }
                }
            }
        }
    }

    /// As [`Rows::each`], for rows where `array` is not NULL.
    #[inline(always)]
    pub(super) fn each_valid(&self, array: &dyn Array, mut add: impl FnMut(usize, u32, i64)) {
        match array.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => self.each(add),
            Some(nulls) => self.each(|row, group, weight| {
                if nulls.is_valid(row) {
                    add(row, group, weight);
                }
            }),
        }
    }
}

impl Accumulator {
    /// # Arguments
    /// - `input`: the columns that the call names by position.
    pub(super) fn new(call: &AggregateCall, input: &Schema) -> Accumulator {
        let argument_type = call.argument.map(|column| input.field(column).data_type().clone());
        let order = call.elements.as_ref().map(|elements| order_of(call, elements, input));
        Accumulator {
            call: call.clone(),
            state: state_of(call, argument_type.as_ref()),
            argument_type,
            values: call.keeps_values().then(ValueCounts::default),
            order,
            forgotten: Vec::new(),
        }
    }

    /// Makes room for group slots below `slots`.
    pub(super) fn grow(&mut self, slots: usize) {
        match &mut self.state {
            State::Count(counts) => counts.grow(slots),
            State::Exact { sums, counts, .. } => {
                sums.grow(slots);
                counts.grow(slots);
            }
            State::Float { sums, counts } => {
                grow(sums, slots);
                counts.grow(slots);
            }
            State::Spread(spread) => spread.grow(slots),
            State::Extreme { .. } | State::Elements => {}
        }
    }

    /// Adds the rows of a push.
    ///
    /// # Arguments
    /// - `group_rows`: how many rows each group has, without the push.
    pub(super) fn update(
        &mut self,
        groups: &[u32],
        weights: &Weights,
        columns: &[ArrayRef],
        group_rows: &[i64],
    ) -> Result<()> {
        let filter = self.call.filter.map(|column| columns[column].as_boolean());
        let rows = Rows {
            groups,
            weights,
            filter,
            is_whole: true,
            group_rows,
        };
        if let (Some(order), Some(elements)) = (&self.order, &self.call.elements) {
            let given: Vec<ArrayRef> = elements
                .columns
                .iter()
                .map(|(column, _)| columns[*column].clone())
                .collect();
            let skips_null = self.call.function == AggregateFunction::StringAgg;
            let values = self
                .values
                .as_mut()
                .ok_or_else(|| Error::bug("elements are not kept"))?;
            let changes = keep_elements(values, order, &rows, &given, skips_null.then_some(elements.value))?;
            if let State::Count(counts) = &mut self.state
                && let Some(counts) = counts.addable(false, group_rows)
            {
                changes
                    .into_iter()
                    .for_each(|(group, change)| counts[group as usize] += change);
            }
            return Ok(());
        }
        let argument = self.call.argument.map(|column| &columns[column]);
        let (Some(values), Some(argument)) = (&mut self.values, argument) else {
            return add_rows(&mut self.state, &rows, argument);
        };
        let mut distinct = (Vec::new(), Vec::new(), Vec::new());
        let mut failure = None;
        let keys = values_of(argument)?;
        rows.each_valid(argument.as_ref(), |row, group, weight| {
            match values.add(group, keys[row].clone().expect("not null"), weight) {
                Ok(0) => {}
                Ok(change) => {
                    distinct.0.push(row as u32);
                    distinct.1.push(group);
                    distinct.2.push(change);
                }
                Err(error) => failure = Some(error),
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        if self.call.distinct && !distinct.0.is_empty() {
            let (taken, groups, weights) = distinct;
            let argument = arrow::compute::take(argument, &arrow::array::UInt32Array::from(taken), None)?;
            let rows = Rows {
                groups: &groups,
                weights: &Weights::Each(weights),
                filter: None,
                is_whole: false,
                group_rows,
            };
            add_rows(&mut self.state, &rows, Some(&argument))?;
        }
        Ok(())
    }

    /// The results of the groups, in order.
    ///
    /// # Arguments
    /// - `group_rows`: how many rows each group has.
    pub(super) fn result(&self, groups: &[u32], group_rows: &[i64]) -> Result<ArrayRef> {
        match &self.state {
            State::Count(counts) => Ok(longs(groups, counts.get(group_rows))),
            State::Extreme { .. } => self.extremes(groups),
            State::Float { sums, counts } => self.float_results(groups, sums, counts.get(group_rows)),
            State::Exact { sums, counts, scale } => self.exact_results(groups, sums, counts.get(group_rows), *scale),
            State::Spread(spread) => spread.results(groups, &self.call),
            State::Elements => self.elements(groups),
        }
    }

    fn elements(&self, groups: &[u32]) -> Result<ArrayRef> {
        let (Some(values), Some(order)) = (&self.values, &self.order) else {
            return Err(Error::bug("elements are not kept"));
        };
        let of_group = |group: &u32| {
            values
                .of_group(*group)
                .map(|(_, value, count)| (value.bytes(), count))
                .collect()
        };
        let groups: Vec<Vec<_>> = groups.iter().map(of_group).collect();
        order.results(&groups)
    }

    fn extremes(&self, groups: &[u32]) -> Result<ArrayRef> {
        let values = self.values.as_ref().expect("extremes keep values");
        let greatest = matches!(self.state, State::Extreme { greatest: true });
        let found: Vec<Option<Value>> = groups.iter().map(|group| values.extreme(*group, greatest)).collect();
        array_of(&found, &self.call.output)
    }

    /// Sums and means of floats; one beyond the largest float is an error where no infinity went into it.
    fn float_results(&self, groups: &[u32], sums: &[ExactFloatSum], counts: &[i64]) -> Result<ArrayRef> {
        let average = self.call.function == AggregateFunction::Avg;
        let is_real = self.call.output == DataType::Float32;
        let value = |group: &u32| {
            let (sum, count) = (&sums[*group as usize], counts[*group as usize]);
            if count == 0 {
                return Ok(None);
            }
            let value = match (average, is_real) {
                (true, _) => sum.value() / count as f64,
                (false, true) => sum.value_f32() as f64,
                (false, false) => sum.value(),
            };
            match value.is_infinite() && sum.is_finite() {
                true => Err(out_of_range(self.call.function)),
                false => Ok(Some(value)),
            }
        };
        let values = groups.iter().map(value);
        Ok(match is_real {
            true => Arc::new(
                values
                    .map(|value| Ok(value?.map(|value| value as f32)))
                    .collect::<Result<Float32Array>>()?,
            ),
            false => Arc::new(values.collect::<Result<Float64Array>>()?),
        })
    }

    fn exact_results(&self, groups: &[u32], sums: &WideSums, counts: &[i64], scale: i8) -> Result<ArrayRef> {
        let average = self.call.function == AggregateFunction::Avg;
        if let DataType::Decimal128(precision, to) = self.call.output
            && !average
            && to == scale
            && let Some(plain) = plain_sums(groups, sums, counts, precision)
        {
            return Ok(Arc::new(plain.with_precision_and_scale(precision, to)?));
        }
        let results = groups.iter().map(|group| {
            let count = counts[*group as usize];
            if count == 0 {
                return Ok(None);
            }
            let sum = sums.get(*group).ok_or_else(|| out_of_range(self.call.function))?;
            match &self.call.output {
                DataType::Decimal128(_, to) if average => mean(sum, count, to - scale).map(Some),
                DataType::Decimal128(_, to) => rescale(sum, to - scale).map(Some),
                _ => Ok(Some(sum)),
            }
        });
        match &self.call.output {
            DataType::Decimal128(precision, to) => {
                let array = results
                    .collect::<Result<Decimal128Array>>()?
                    .with_precision_and_scale(*precision, *to)?;
                if array
                    .iter()
                    .flatten()
                    .any(|value| !Decimal128Type::is_valid_decimal_precision(value, *precision))
                {
                    return Err(out_of_range(self.call.function));
                }
                Ok(Arc::new(array))
            }
            DataType::Int64 => {
                let longs = results.map(|result| {
                    result.and_then(|sum| {
                        sum.map(i64::try_from)
                            .transpose()
                            .map_err(|_| out_of_range(self.call.function))
                    })
                });
                Ok(Arc::new(longs.collect::<Result<Int64Array>>()?))
            }
            DataType::Float64 => {
                let floats = results.zip(groups).map(|(sum, group)| {
                    let divisor = if average { counts[*group as usize] as f64 } else { 1.0 };
                    Ok(sum?.map(|sum| sum as f64 / 10f64.powi(scale as i32) / divisor))
                });
                Ok(Arc::new(floats.collect::<Result<Float64Array>>()?))
            }
            other => Err(Error::bug(format!("a sum was planned to give {other}"))),
        }
    }

    /// Columns of the state table, as [`crate::plan::Node::state_tables`] declares them.
    ///
    /// # Arguments
    /// - `group_rows`: how many rows each group has.
    pub(super) fn state_columns(&self, groups: &[u32], group_rows: &[i64]) -> Result<Vec<ArrayRef>> {
        Ok(match &self.state {
            State::Count(_) | State::Extreme { .. } => vec![self.result(groups, group_rows)?],
            State::Spread(spread) => spread.columns(groups),
            State::Elements => Vec::new(),
            State::Exact { sums, counts, scale } => {
                let counts = longs(groups, counts.get(group_rows));
                // A sum that is beyond what the column holds is NULL there.
                let fitting: Decimal128Array = groups.iter().map(|group| sums.get(*group)).collect();
                let fitting: ArrayRef = Arc::new(fitting.with_precision_and_scale(38, *scale)?);
                match self.call.may_exceed(self.argument_type.as_ref()) {
                    true => vec![fitting, Arc::new(sums.beyond(groups)), counts],
                    false => vec![fitting, counts],
                }
            }
            State::Float { sums, counts } => {
                let rounded: Float64Array = groups.iter().map(|group| sums[*group as usize].value()).collect();
                let (mut exact, mut bytes) = (BinaryBuilder::new(), Vec::new());
                for group in groups {
                    bytes.clear();
                    sums[*group as usize].to_bytes(&mut bytes);
                    exact.append_value(&bytes);
                }
                let counts = longs(groups, counts.get(group_rows));
                vec![Arc::new(rounded), Arc::new(exact.finish()), counts]
            }
        })
    }

    /// The kept values, if the aggregate keeps them: groups, columns of values, counts.
    pub(super) fn kept_values(&self, group: Option<u32>) -> Result<(Vec<u32>, Vec<ArrayRef>, Vec<i64>)> {
        let (mut groups, mut values, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        let mut take = |(group, value, count): (u32, &Value, i64)| {
            groups.push(group);
            values.push(Some(value.clone()));
            counts.push(count);
        };
        match (&self.values, group) {
            (Some(kept), None) => kept.iter().for_each(&mut take),
            (Some(kept), Some(group)) => kept.of_group(group).for_each(&mut take),
            (None, _) => {}
        }
        Ok((groups, self.value_columns(&values)?, counts))
    }

    /// Kept values in the columns of their table.
    fn value_columns(&self, values: &[Option<Value>]) -> Result<Vec<ArrayRef>> {
        match &self.order {
            Some(order) => order.decode(values.iter().flatten().map(Value::bytes)),
            None => {
                let data_type = self.argument_type.clone().unwrap_or(DataType::Int64);
                Ok(vec![array_of(values, &data_type)?])
            }
        }
    }

    /// Whether it keeps values.
    pub(super) fn keeps_values(&self) -> bool {
        self.values.is_some()
    }

    /// Number of kept values and their bytes.
    pub(super) fn kept_size(&self) -> (u64, u64) {
        self.values
            .as_ref()
            .map_or((0, 0), |values| (values.len() as u64, values.memory_bytes() as u64))
    }

    /// Bytes of the columns by group.
    pub(super) fn memory_bytes(&self) -> usize {
        match &self.state {
            State::Count(counts) => counts.memory_bytes(),
            State::Exact { sums, counts, .. } => sums.memory_bytes() + counts.memory_bytes(),
            State::Float { sums, counts } => {
                sums.capacity() * std::mem::size_of::<ExactFloatSum>() + counts.memory_bytes()
            }
            State::Spread(spread) => spread.memory_bytes(),
            State::Extreme { .. } | State::Elements => 0,
        }
    }
}

fn state_of(call: &AggregateCall, argument: Option<&DataType>) -> State {
    use AggregateFunction::*;
    if let Some(spread) = call.function.spread() {
        return State::Spread(SpreadState::new(call.function, spread, argument));
    }
    let counts = match call.keeps_values() || call.filter.is_some() {
        true => Counts::of_some(),
        false => Counts::default(),
    };
    match (call.function, argument) {
        (Count, _) => State::Count(counts),
        (ArrayAgg | StringAgg, _) => State::Elements,
        (Min, _) => State::Extreme { greatest: false },
        (Max, _) => State::Extreme { greatest: true },
        (_, Some(DataType::Float32 | DataType::Float64)) => State::Float {
            sums: Vec::new(),
            counts,
        },
        (_, argument) => State::Exact {
            sums: WideSums::default(),
            counts,
            scale: match argument {
                Some(DataType::Decimal128(_, scale)) => *scale,
                _ => 0,
            },
        },
    }
}

fn order_of(call: &AggregateCall, elements: &Elements, input: &Schema) -> ElementOrder {
    let columns = elements.columns.iter();
    let columns = columns.map(|(column, options)| (input.field(*column).data_type().clone(), *options));
    ElementOrder::new(
        call.function,
        call.distinct,
        columns.collect(),
        elements.value,
        elements.delimiter.clone(),
    )
}

/// Adds the elements of rows.
///
/// # Arguments
/// - `skips_null`: the column whose NULLs do not count.
///
/// # Returns
/// Groups with +1 for each element that is new in it, -1 for each that left it.
fn keep_elements(
    values: &mut ValueCounts,
    order: &ElementOrder,
    rows: &Rows<'_>,
    columns: &[ArrayRef],
    skips_null: Option<usize>,
) -> Result<Vec<(u32, i64)>> {
    let elements = order.encode(columns)?;
    let is_counted = |row: usize| skips_null.is_none_or(|column| columns[column].is_valid(row));
    let (mut changes, mut failure) = (Vec::new(), None);
    rows.each(|row, group, weight| {
        if !is_counted(row) {
            return;
        }
        match values.add(group, Value::Bytes(elements.row(row).as_ref().into()), weight) {
            Ok(0) => {}
            Ok(change) => changes.push((group, change)),
            Err(error) => failure = Some(error),
        }
    });
    failure.map_or(Ok(changes), Err)
}

pub(super) fn grow<T: Default + Clone>(values: &mut Vec<T>, slots: usize) {
    if values.len() < slots {
        values.resize(slots, T::default());
    }
}

/// Makes room for values to grow to `slots` without being moved.
fn reserve<T>(values: &mut Vec<T>, slots: usize) {
    values.reserve_exact(slots.saturating_sub(values.len()));
}

fn add_rows(state: &mut State, rows: &Rows<'_>, argument: Option<&ArrayRef>) -> Result<()> {
    match (state, argument) {
        (State::Count(counts), argument) => add_counts(counts, rows, argument),
        (State::Extreme { .. } | State::Elements, _) => {}
        (State::Spread(spread), Some(argument)) => return spread.add_rows(rows, argument),
        (State::Exact { sums, counts, .. }, Some(argument)) => {
            add_exact(sums, rows, argument)?;
            add_counts(counts, rows, Some(argument));
        }
        (State::Float { sums, counts }, Some(argument)) => {
            let floats = match argument.data_type() {
                DataType::Float64 => argument.as_primitive::<Float64Type>().clone(),
                _ => Float64Array::from_unary(argument.as_primitive::<Float32Type>(), |value| value as f64),
            };
            rows.each_valid(&floats, |row, group, weight| {
                sums[group as usize].add(floats.value(row), weight);
            });
            add_counts(counts, rows, Some(argument));
        }
        (_, None) => return Err(Error::bug("an aggregate of values has no argument")),
    }
    Ok(())
}

/// Counts the rows whose argument is not NULL.
fn add_counts(counts: &mut Counts, rows: &Rows<'_>, argument: Option<&ArrayRef>) {
    let Some(counts) = counts.addable(rows.count_all(argument), rows.group_rows) else {
        return;
    };
    let add = |_, group: u32, weight| counts[group as usize] += weight;
    match argument {
        Some(argument) => rows.each_valid(argument.as_ref(), add),
        None => rows.each(add),
    }
}

fn add_exact(sums: &mut WideSums, rows: &Rows<'_>, argument: &ArrayRef) -> Result<()> {
    macro_rules! add {
        ($kind:ty, $add:ident) => {{
            let array = argument.as_primitive::<$kind>();
            let values = array.values();
            rows.each_valid(array, |row, group, weight| {
                sums.$add(group, values[row] as i128, weight)
            });
        }};
    }
    match argument.data_type() {
        DataType::Int64 => add!(Int64Type, add_long),
        DataType::Int32 => add!(Int32Type, add_long),
        DataType::Int16 => add!(Int16Type, add_long),
        DataType::UInt64 => add!(UInt64Type, add_long),
        DataType::Decimal128(_, _) => add!(Decimal128Type, add_decimal),
        other => return Err(Error::bug(format!("a sum was planned over {other}"))),
    }
    Ok(())
}

/// Values of groups.
fn longs(groups: &[u32], values: &[i64]) -> ArrayRef {
    let of_groups = groups.iter().map(|group| values[*group as usize]);
    Arc::new(of_groups.collect::<Int64Array>())
}

pub(super) fn out_of_range(function: AggregateFunction) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "EVAL-0001",
        format!("cannot compute {}: result out of range", function.name()),
    )
    .sqlstate("22003")
}

/// Sums as they are kept, if all of them are in the range of the result.
fn plain_sums(groups: &[u32], sums: &WideSums, counts: &[i64], precision: u8) -> Option<Decimal128Array> {
    let largest = 10i128.pow(precision as u32) - 1;
    let values = sums.all(groups)?;
    if !values.iter().all(|value| (-largest..=largest).contains(value)) {
        return None;
    }
    let has_values = BooleanBuffer::collect_bool(groups.len(), |row| counts[groups[row] as usize] != 0);
    let nulls = NullBuffer::new(has_values);
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    Some(Decimal128Array::new(values.into(), nulls))
}

fn rescale(value: i128, by: i8) -> Result<i128> {
    let factor = 10i128.checked_pow(
        by.try_into()
            .map_err(|_| Error::bug("a sum was planned to lose digits"))?,
    );
    factor
        .and_then(|factor| value.checked_mul(factor))
        .ok_or_else(|| out_of_range(AggregateFunction::Sum))
}

/// `sum * 10^by / count`, rounded half away from zero as PostgreSQL's numeric division does.
fn mean(sum: i128, count: i64, by: i8) -> Result<i128> {
    let power = |by: i8| i256::from_i128(10).wrapping_pow(by.max(0) as u32);
    let numerator = i256::from_i128(sum)
        .checked_mul(power(by))
        .ok_or_else(|| out_of_range(AggregateFunction::Avg))?;
    let divisor = i256::from_i128(count as i128).wrapping_mul(power(by.saturating_neg()));
    let quotient = numerator.wrapping_div(divisor);
    let rest = numerator.wrapping_rem(divisor);
    let twice = rest.wrapping_mul(i256::from_i128(2)).wrapping_abs();
    let away = if twice >= divisor.wrapping_abs() {
        if sum < 0 { -1 } else { 1 }
    } else {
        0
    };
    quotient
        .wrapping_add(i256::from_i128(away))
        .to_i128()
        .ok_or_else(|| out_of_range(AggregateFunction::Avg))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_round_half_away_from_zero() {
        assert_eq!(mean(5, 2, 0).unwrap(), 3);
        assert_eq!(mean(-5, 2, 0).unwrap(), -3);
        assert_eq!(mean(1, 3, 4).unwrap(), 3333);
        assert_eq!(mean(2, 3, 4).unwrap(), 6667);
        assert!(mean(i128::MAX, 1, 16).is_err());
        assert_eq!(mean(-250, 1, -2).unwrap(), -3);
    }
}
