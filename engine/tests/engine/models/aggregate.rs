//! The model of aggregation: every answer computed from all rows of the input, one group at a time.

use super::compare_values;
use crate::plan::{Aggregate, AggregateCall, AggregateFunction};
use crate::rows::{Bag, Cell, Row, add};
use arrow::datatypes::DataType;
use cenote_statestore::ExactFloatSum;
use std::collections::BTreeMap;

/// Rows of one group and how often each counts.
type Group<'a> = Vec<(&'a Row, i64)>;

fn groups<'a>(node: &Aggregate, held: &'a Bag) -> BTreeMap<Row, Group<'a>> {
    let mut groups: BTreeMap<Row, Group<'a>> = BTreeMap::new();
    if node.keys.is_empty() {
        groups.insert(Row::new(), Group::new());
    }
    for (row, count) in held {
        let key = node.keys.iter().map(|key| row[*key].clone()).collect();
        groups.entry(key).or_default().push((row, *count));
    }
    groups
}

/// The whole result.
pub fn results(node: &Aggregate, held: &Bag) -> Bag {
    let row =
        |(key, group): (Row, Group<'_>)| (row_of(key, node.calls.iter().map(|call| value(node, call, &group))), 1);
    groups(node, held).into_iter().map(row).collect()
}

/// The contents of a state table.
pub fn state(node: &Aggregate, held: &Bag, table: usize) -> Bag {
    let mut state = Bag::new();
    let keepers: Vec<&AggregateCall> = node.calls.iter().filter(|call| call.keeps_values()).collect();
    for (key, group) in groups(node, held) {
        if table == 0 {
            let rows = Cell::Number(group.iter().map(|(_, count)| *count as i128).sum());
            let accumulators = node.calls.iter().flat_map(|call| accumulator(node, call, &group));
            add(&mut state, &row_of(key, [rows].into_iter().chain(accumulators)), 1);
        } else {
            for (value, count) in kept(keepers[table - 1], &group) {
                add(
                    &mut state,
                    &row_of(key.clone(), [value, Cell::Number(count as i128)]),
                    1,
                );
            }
        }
    }
    state
}

fn row_of(key: Row, rest: impl IntoIterator<Item = Cell>) -> Row {
    key.into_iter().chain(rest).collect()
}

/// Values that are not NULL and pass the filter, with their counts.
fn values(call: &AggregateCall, group: &Group<'_>) -> Vec<(Cell, i64)> {
    let passes = |row: &Row| call.filter.is_none_or(|filter| row[filter] == Cell::Number(1));
    let argument = |row: &Row| call.argument.map_or(Cell::Number(0), |argument| row[argument].clone());
    let all = group
        .iter()
        .filter(|(row, _)| passes(row))
        .map(|(row, count)| (argument(row), *count));
    let all = all.filter(|(value, _)| !value.is_null());
    if call.distinct {
        kept(call, group).into_keys().map(|value| (value, 1)).collect()
    } else {
        all.collect()
    }
}

/// Different values with their counts, where SQL's equality of floats decides what is different.
fn kept(call: &AggregateCall, group: &Group<'_>) -> BTreeMap<Cell, i64> {
    let mut kept = BTreeMap::new();
    for (value, count) in values(
        &AggregateCall {
            distinct: false,
            ..call.clone()
        },
        group,
    ) {
        *kept.entry(canonical(value)).or_default() += count;
    }
    kept
}

fn canonical(cell: Cell) -> Cell {
    match cell.double() {
        Some(double) if double.is_nan() => Cell::float(f64::NAN),
        Some(0.0) => Cell::float(0.0),
        _ => cell,
    }
}

fn scale(kind: &DataType) -> u32 {
    if let DataType::Decimal128(_, scale) = kind {
        *scale as u32
    } else {
        0
    }
}

fn value(node: &Aggregate, call: &AggregateCall, group: &Group<'_>) -> Cell {
    let values = values(call, group);
    let count: i64 = values.iter().map(|(_, count)| *count).sum();
    match call.function {
        AggregateFunction::Count => Cell::Number(count as i128),
        AggregateFunction::Min => values
            .into_iter()
            .map(|(value, _)| canonical(value))
            .min_by(compare_values)
            .unwrap_or(Cell::Null),
        AggregateFunction::Max => values
            .into_iter()
            .map(|(value, _)| canonical(value))
            .max_by(compare_values)
            .unwrap_or(Cell::Null),
        _ if count == 0 => Cell::Null,
        _ => sum_or_mean(node, call, &values, count),
    }
}

fn sum_or_mean(node: &Aggregate, call: &AggregateCall, values: &[(Cell, i64)], count: i64) -> Cell {
    let mean = call.function == AggregateFunction::Avg;
    let argument = node.input_schema.field(call.argument.unwrap()).data_type();
    if matches!(argument, DataType::Float32 | DataType::Float64) {
        let sum = double_sum(values);
        let result = if mean { sum / count as f64 } else { sum };
        let result = if call.output == DataType::Float32 {
            result as f32 as f64
        } else {
            result
        };
        return canonical_nan(result);
    }
    let sum = whole_sum(values);
    if call.output == DataType::Float64 {
        let exact = sum as f64 / 10f64.powi(scale(argument) as i32);
        return Cell::float(if mean { exact / count as f64 } else { exact });
    }
    let wide = sum * 10i128.pow(scale(&call.output) - scale(argument));
    Cell::Number(if mean { rounded(wide, count as i128) } else { wide })
}

/// Division, half away from zero.
fn rounded(dividend: i128, divisor: i128) -> i128 {
    let magnitude = (dividend.abs() * 2 + divisor) / (divisor * 2);
    if dividend < 0 { -magnitude } else { magnitude }
}

fn whole_sum(values: &[(Cell, i64)]) -> i128 {
    values
        .iter()
        .map(|(value, count)| value.number().unwrap() * *count as i128)
        .sum()
}

/// The exact sum, rounded once. Where plain addition is exact (small multiples of a quarter), it must agree.
fn double_sum(values: &[(Cell, i64)]) -> f64 {
    let values = values.iter().map(|(value, count)| (value.double().unwrap(), *count));
    let mut exact = ExactFloatSum::default();
    values.clone().for_each(|(value, count)| exact.add(value, count));
    let plain = |value: f64| !value.is_finite() || (value.abs() < 1e6 && (value * 4.0).fract() == 0.0);
    if values.clone().all(|(value, _)| plain(value)) {
        let sum = values.fold(0.0, |sum, (value, count)| sum + value * count as f64);
        assert!(
            sum == exact.value() || (sum.is_nan() && exact.value().is_nan()),
            "{sum} is not {}",
            exact.value()
        );
    }
    exact.value()
}

fn canonical_nan(value: f64) -> Cell {
    Cell::float(if value.is_nan() { f64::NAN } else { value })
}

/// Columns of an accumulator in the state table of groups.
fn accumulator(node: &Aggregate, call: &AggregateCall, group: &Group<'_>) -> Vec<Cell> {
    let values = values(call, group);
    let count = Cell::Number(values.iter().map(|(_, count)| *count as i128).sum());
    let argument = call
        .argument
        .map(|argument| node.input_schema.field(argument).data_type());
    match (call.function, argument) {
        (AggregateFunction::Count, _) => vec![count],
        (AggregateFunction::Min | AggregateFunction::Max, _) => vec![value(node, call, group)],
        (_, Some(DataType::Float32 | DataType::Float64)) => {
            let (mut sum, mut bytes) = (ExactFloatSum::default(), Vec::new());
            values
                .iter()
                .for_each(|(value, count)| sum.add(value.double().unwrap(), *count));
            sum.to_bytes(&mut bytes);
            vec![canonical_nan(double_sum(&values)), Cell::Bytes(bytes), count]
        }
        _ => vec![Cell::Number(whole_sum(&values)), count],
    }
}
