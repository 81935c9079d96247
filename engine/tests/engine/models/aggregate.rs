//! The model of aggregation: every answer computed from all rows of the input, one group at a time.

use super::{compare_cells, compare_values};
use crate::plan::{Aggregate, AggregateCall, AggregateFunction, Delimiter, Elements};
use crate::rows::{Bag, Cell, Row, add};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, i256};
use cenote_statestore::{ExactFloatSum, ExactMoments, FloatMoments, Spread};
use std::cmp::Ordering;
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
        } else if let Some(elements) = &keepers[table - 1].elements {
            for (element, count) in elements_of(keepers[table - 1], elements, &group) {
                let row = element.into_iter().chain([Cell::Number(count as i128)]);
                add(&mut state, &row_of(key.clone(), row), 1);
            }
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

/// Different elements in order, with their counts.
fn elements_of(call: &AggregateCall, elements: &Elements, group: &Group<'_>) -> Vec<(Row, i64)> {
    let mut all: Vec<(Row, i64)> = Vec::new();
    for (row, count) in group {
        let passes = call.filter.is_none_or(|filter| row[filter] == Cell::Number(1));
        let is_skipped =
            call.function == AggregateFunction::StringAgg && row[elements.columns[elements.value].0].is_null();
        if !passes || is_skipped {
            continue;
        }
        let shows_zero = |place: usize| place == elements.value && !call.distinct;
        let cells = elements
            .columns
            .iter()
            .enumerate()
            .map(|(place, (column, _))| match row[*column].double() {
                Some(0.0) if shows_zero(place) => row[*column].clone(),
                _ => canonical(row[*column].clone()),
            });
        let element: Row = cells.collect();
        match all.iter_mut().find(|(known, _)| *known == element) {
            Some((_, known)) => *known += count,
            None => all.push((element, *count)),
        }
    }
    all.retain(|(_, count)| *count != 0);
    all.sort_by(|(a, _), (b, _)| compare_elements(elements, a, b));
    all
}

fn compare_elements(elements: &Elements, a: &Row, b: &Row) -> Ordering {
    let places = elements.columns.iter().enumerate();
    places.fold(Ordering::Equal, |so_far, (place, (_, options))| {
        so_far.then_with(|| {
            compare_cells(&a[place], &b[place], *options).then_with(|| zeros(&a[place], &b[place], *options))
        })
    })
}

/// Of two zeros that are shown, the one with a sign is less.
fn zeros(a: &Cell, b: &Cell, options: SortOptions) -> Ordering {
    let is_plain = |cell: &Cell| cell.double().map(f64::is_sign_positive);
    let order = is_plain(a).cmp(&is_plain(b));
    if options.descending { order.reverse() } else { order }
}

/// An array, a text, or how many different rows there are.
fn of_elements(call: &AggregateCall, elements: &Elements, group: &Group<'_>) -> Cell {
    let all = elements_of(call, elements, group);
    if call.function == AggregateFunction::Count {
        return Cell::Number(all.len() as i128);
    }
    let repeated = all.iter().flat_map(|(element, count)| {
        let times = if call.distinct { 1 } else { *count as usize };
        std::iter::repeat_n(element, times)
    });
    let shown: Vec<&Row> = repeated.collect();
    if shown.is_empty() {
        return Cell::Null;
    }
    let value = |element: &&Row| element[elements.value].clone();
    if call.function == AggregateFunction::ArrayAgg {
        return Cell::list(&shown.iter().map(value).collect::<Vec<_>>());
    }
    let mut text = Vec::new();
    for (index, element) in shown.iter().enumerate() {
        let between = match &elements.delimiter {
            Delimiter::Text(text) => text.clone().into_bytes(),
            Delimiter::Column(place) => bytes(&element[*place]),
        };
        if index > 0 {
            text.extend(between);
        }
        text.extend(bytes(&value(element)));
    }
    Cell::Bytes(text)
}

fn bytes(cell: &Cell) -> Vec<u8> {
    match cell {
        Cell::Bytes(bytes) => bytes.clone(),
        _ => Vec::new(),
    }
}

/// A variance or deviation: of whole numbers by plain arithmetic, of floats near to plain arithmetic.
fn spread_of(node: &Aggregate, call: &AggregateCall, spread: Spread, values: &[(Cell, i64)]) -> Cell {
    let argument = node.input_schema.field(call.argument.unwrap()).data_type();
    let count: i64 = values.iter().map(|(_, count)| *count).sum();
    if count < if spread.sample { 2 } else { 1 } {
        return Cell::Null;
    }
    let divisor = count * (count - i64::from(spread.sample));
    if matches!(argument, DataType::Float32 | DataType::Float64) {
        let mut moments = FloatMoments::default();
        values
            .iter()
            .for_each(|(value, count)| moments.add(value.double().unwrap(), *count));
        let result = moments.read(count, spread).unwrap();
        let doubles = || {
            values
                .iter()
                .map(|(value, count)| (value.double().unwrap(), *count as f64))
        };
        let (sum, squares) = doubles().fold((0.0, 0.0), |(s, q), (x, n)| (s + x * n, q + x * x * n));
        let plain = (count as f64 * squares - sum * sum) / divisor as f64;
        let plain = if spread.root { plain.sqrt() } else { plain };
        assert!(result.is_nan() == plain.is_nan() && (plain.is_nan() || (result - plain).abs() <= 1e-9 * plain.abs()));
        return canonical_nan(result);
    }
    let (given, wanted) = (scale(argument), scale(&call.output));
    let wide = |value: i128| i256::from_i128(value);
    let ten = |power: u32| (0..power).fold(wide(1), |power, _| power * wide(10));
    let numbers = || {
        values
            .iter()
            .map(|(value, count)| (wide(value.number().unwrap()), wide(*count as i128)))
    };
    let (sum, squares) = numbers().fold((wide(0), wide(0)), |(s, q), (x, n)| (s + x * n, q + x * x * n));
    let spread_out = wide(count as i128) * squares - sum * sum;
    if !spread.root {
        let (more, less) = (wanted.saturating_sub(2 * given), (2 * given).saturating_sub(wanted));
        let twice = spread_out * ten(more) * wide(2) / (wide(divisor as i128) * ten(less));
        return Cell::Number(((twice + wide(1)) / wide(2)).to_i128().unwrap());
    }
    // The root by bisection: the largest whose square is not above.
    let square = spread_out * ten(2 * (wanted - given)) * wide(4) / wide(divisor as i128);
    let (mut low, mut high) = (wide(0), wide(1 << 126));
    while high - low > wide(1) {
        let middle = (low + high) / wide(2);
        if middle * middle <= square {
            low = middle
        } else {
            high = middle
        }
    }
    Cell::Number(((low + wide(1)) / wide(2)).to_i128().unwrap())
}

fn value(node: &Aggregate, call: &AggregateCall, group: &Group<'_>) -> Cell {
    if let Some(elements) = &call.elements {
        return of_elements(call, elements, group);
    }
    if let Some(spread) = call.function.spread() {
        return spread_of(node, call, spread, &values(call, group));
    }
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
    if let Some(elements) = &call.elements {
        return match call.function {
            AggregateFunction::Count => vec![of_elements(call, elements, group)],
            _ => vec![],
        };
    }
    let values = values(call, group);
    let count = Cell::Number(values.iter().map(|(_, count)| *count as i128).sum());
    let argument = call
        .argument
        .map(|argument| node.input_schema.field(argument).data_type());
    if call.function.spread().is_some() {
        let sums = moments(argument.unwrap(), &values);
        return sums.into_iter().chain([count]).collect();
    }
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
        // Of so many digits a sum could be beyond the column's; here none is.
        (_, Some(DataType::Decimal128(20.., _))) => vec![Cell::Number(whole_sum(&values)), Cell::Null, count],
        _ => vec![Cell::Number(whole_sum(&values)), count],
    }
}

/// Sums and sums of squares, added in this order, which must not matter.
fn moments(argument: &DataType, values: &[(Cell, i64)]) -> [Cell; 3] {
    let mut bytes = Vec::new();
    let (sum, squares) = if matches!(argument, DataType::Float32 | DataType::Float64) {
        let mut moments = FloatMoments::default();
        let doubles = values.iter().map(|(value, count)| (value.double().unwrap(), *count));
        doubles.for_each(|(value, count)| moments.add(value, count));
        moments.to_bytes(&mut bytes);
        moments.rounded()
    } else {
        let mut moments = ExactMoments::default();
        let numbers = values.iter().map(|(value, count)| (value.number().unwrap(), *count));
        numbers.for_each(|(value, count)| moments.add(value, count));
        moments.to_bytes(&mut bytes);
        moments.rounded(scale(argument) as u8)
    };
    [canonical_nan(sum), Cell::float(squares), Cell::Bytes(bytes)]
}
