//! Aggregation: each function over each type, at random and by hand.

use super::drive::Drive;
use super::notation::{assert_same, check};
use crate::kernel::{AggregateKernel, Kernel};
use crate::models::aggregate as model;
use crate::plan::{Aggregate, AggregateCall, AggregateFunction, Delimiter, Elements, Node};
use crate::rows::{Bag, Cell, Churn, Random, Row, array, bag, changes, cut, schema, with_seeds};
use AggregateFunction::*;
use arrow::array::AsArray;
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use cenote_statestore::ErrorKind;
use std::sync::Arc;

fn call(function: AggregateFunction, argument: Option<usize>, output: DataType) -> AggregateCall {
    AggregateCall {
        function,
        argument,
        filter: None,
        distinct: false,
        output,
        elements: None,
    }
}

/// A call over elements of these columns, each with whether it descends.
fn over_elements(
    function: AggregateFunction,
    columns: &[(usize, bool)],
    value: usize,
    delimiter: Delimiter,
    output: DataType,
) -> AggregateCall {
    let order = |(column, descends): &(usize, bool)| (*column, SortOptions::new(*descends, *descends));
    AggregateCall {
        elements: Some(Elements {
            columns: columns.iter().map(order).collect(),
            value,
            delimiter,
        }),
        ..call(function, (function != Count).then(|| columns[value].0), output)
    }
}

/// Arrays and texts of the values in several orders, and counts of different rows.
fn element_calls(kind: &DataType) -> Vec<AggregateCall> {
    let comma = || Delimiter::Text(", ".into());
    let array = DataType::List(Arc::new(Field::new_list_field(kind.clone(), true)));
    let mut calls = vec![
        over_elements(ArrayAgg, &[(2, false)], 0, comma(), array.clone()),
        over_elements(ArrayAgg, &[(2, true)], 0, comma(), array.clone()),
        over_elements(ArrayAgg, &[(1, true), (0, false), (2, false)], 2, comma(), array),
    ];
    if *kind == DataType::Utf8 {
        calls.push(over_elements(StringAgg, &[(2, false)], 0, comma(), kind.clone()));
        let of_rows = [(1, false), (2, true), (0, false)];
        calls.push(over_elements(
            StringAgg,
            &of_rows,
            1,
            Delimiter::Column(2),
            kind.clone(),
        ));
    }
    let different = |call: &AggregateCall| AggregateCall {
        distinct: true,
        ..call.clone()
    };
    let distinct: Vec<_> = calls
        .iter()
        .filter(|call| call.elements.as_ref().unwrap().columns.len() == 1)
        .map(different)
        .collect();
    calls.extend(distinct);
    calls.push(different(&over_elements(
        Count,
        &[(1, false), (2, false)],
        0,
        comma(),
        DataType::Int64,
    )));
    let filtered: Vec<_> = calls
        .iter()
        .map(|call| AggregateCall {
            filter: Some(3),
            ..call.clone()
        })
        .collect();
    calls.extend(filtered);
    calls
}

fn aggregate(input: &SchemaRef, keys: &[usize], calls: Vec<AggregateCall>) -> Aggregate {
    let named = |(i, call): (usize, &AggregateCall)| Field::new(format!("a{i}"), call.output.clone(), true);
    let fields = keys
        .iter()
        .map(|key| input.field(*key).clone())
        .chain(calls.iter().enumerate().map(named));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Aggregate {
        name: "v_aggregate".into(),
        input: 0,
        keys: keys.to_vec(),
        calls,
        schema,
        input_schema: input.clone(),
    }
}

fn is_number(kind: &DataType) -> bool {
    kind.is_numeric()
}

/// Result types of sums and means.
fn outputs(function: AggregateFunction, kind: &DataType) -> Vec<DataType> {
    match (function, kind) {
        (Count, _) => vec![DataType::Int64],
        (Min | Max, kind) => vec![kind.clone()],
        (_, kind) if !is_number(kind) => vec![],
        (StddevSamp | StddevPop | VarSamp | VarPop, DataType::Float32 | DataType::Float64) => vec![DataType::Float64],
        (StddevSamp | StddevPop, DataType::Decimal128(_, scale)) => vec![DataType::Decimal128(38, *scale)],
        (StddevSamp | StddevPop, _) => vec![DataType::Decimal128(38, 6)],
        (VarSamp | VarPop, DataType::Decimal128(9, scale)) => {
            vec![DataType::Decimal128(38, scale + 1), DataType::Decimal128(38, scale + 9)]
        }
        // The ends of these types are too far from each other.
        (VarSamp | VarPop, DataType::Decimal128(_, _) | DataType::Int64 | DataType::UInt64) => vec![],
        (VarSamp | VarPop, _) => vec![DataType::Decimal128(38, 6)],
        (ArrayAgg | StringAgg, _) => vec![],
        (Sum, DataType::Int16 | DataType::Int32) => vec![DataType::Int64],
        (Sum, DataType::Int64 | DataType::UInt64) => vec![DataType::Decimal128(38, 0)],
        (Sum, DataType::Decimal128(_, scale)) => vec![DataType::Decimal128(38, *scale)],
        (Sum, float) => vec![float.clone()],
        (Avg, DataType::Float32 | DataType::Float64) => vec![DataType::Float64],
        (Avg, DataType::Decimal128(_, scale)) => vec![DataType::Decimal128(38, scale + 4), DataType::Float64],
        (Avg, _) => vec![DataType::Decimal128(38, 6), DataType::Float64],
    }
}

/// Every function that takes the type, plain, of different values, filtered, and both.
fn all_calls(kind: &DataType) -> Vec<AggregateCall> {
    let mut calls = vec![
        call(Count, None, DataType::Int64),
        AggregateCall {
            filter: Some(3),
            ..call(Count, None, DataType::Int64)
        },
    ];
    for function in [Count, Sum, Avg, Min, Max, StddevSamp, StddevPop, VarSamp, VarPop] {
        for output in outputs(function, kind) {
            for (filter, distinct) in [(None, false), (None, true), (Some(3), false), (Some(3), true)] {
                calls.push(AggregateCall {
                    filter,
                    distinct,
                    ..call(function, Some(2), output.clone())
                });
            }
        }
    }
    calls.extend(element_calls(kind));
    calls
}

/// Few different values, so that they meet again, and the ends of the type.
fn values(kind: &DataType) -> Vec<Cell> {
    let numbers = |ends: &[i128]| -> Vec<Cell> {
        [-3, -1, 0, 1, 2, 50]
            .iter()
            .chain(ends)
            .map(|number| Cell::Number(*number))
            .collect()
    };
    match kind {
        DataType::Int16 => numbers(&[i16::MIN as i128, i16::MAX as i128]),
        DataType::Int32 => numbers(&[i32::MIN as i128, i32::MAX as i128]),
        DataType::Int64 | DataType::Timestamp(_, _) => numbers(&[i64::MIN as i128, i64::MAX as i128]),
        DataType::Time64(_) => [0, 1, 86_399_999_999].map(Cell::Number).to_vec(),
        DataType::UInt64 => [0, 1, 7, u64::MAX as i128].map(Cell::Number).to_vec(),
        DataType::Date32 => numbers(&[-719_162, 20_000]),
        DataType::Decimal128(38, _) => numbers(&[10i128.pow(30), -10i128.pow(30)]),
        DataType::Decimal128(_, _) => numbers(&[999_999_999, -999_999_999]),
        DataType::Boolean => [0, 1].map(Cell::Number).to_vec(),
        DataType::Float32 | DataType::Float64 => {
            let mut floats = vec![-1.5, -0.0, 0.0, 0.25, 2.0, 1024.75];
            floats.extend([f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
            floats.into_iter().map(Cell::float).collect()
        }
        _ => [
            "",
            "a",
            "ab",
            "b",
            "ä",
            "longer than twelve bytes",
            "longer than twelve bites",
        ]
        .map(Cell::text)
        .to_vec(),
    }
}

fn kinds() -> Vec<DataType> {
    let micros = TimeUnit::Microsecond;
    vec![
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Decimal128(9, 2),
        DataType::Decimal128(38, 0),
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::Binary,
        DataType::Date32,
        DataType::Time64(micros),
        DataType::Timestamp(micros, None),
        DataType::Timestamp(micros, Some("UTC".into())),
        DataType::Boolean,
        DataType::UInt64,
    ]
}

fn input_of(kind: &DataType) -> SchemaRef {
    schema(&[
        ("g", DataType::Utf8),
        ("h", DataType::Int32),
        ("x", kind.clone()),
        ("f", DataType::Boolean),
    ])
}

fn random_row(random: &mut Random, values: &[Cell]) -> Row {
    let group = [
        Cell::Null,
        Cell::text("a"),
        Cell::text("b"),
        Cell::text("a group with a long name"),
    ];
    let number = [Cell::Null, Cell::Number(0), Cell::Number(1)];
    let value = if random.one_in(5) {
        Cell::Null
    } else {
        random.pick(values).clone()
    };
    vec![
        random.pick(&group).clone(),
        random.pick(&number).clone(),
        value,
        random.pick(&number).clone(),
    ]
}

/// Compares results and state with the model; the state of some keys, too.
fn compare(drive: &Drive<AggregateKernel>, node: &Aggregate, held: &Bag, random: &mut Random) {
    assert_same(
        &node.schema,
        &format!("after epoch {} there is", drive.epoch),
        &drive.contents,
        &model::results(node, held),
    );
    let tables = Node::Aggregate(node.clone()).state_tables();
    for (number, table) in tables.iter().enumerate() {
        let wanted = model::state(node, held, number);
        assert_same(
            &table.columns,
            &format!("`{}` holds", table.name),
            &drive.state(number, None),
            &wanted,
        );
        assert_eq!(
            drive.kernel.size(number).0 as usize,
            wanted.len(),
            "rows of `{}`",
            table.name
        );
        if !node.keys.is_empty() {
            let row = random_row(random, &[Cell::Null]);
            let key: Row = node.keys.iter().map(|key| row[*key].clone()).collect();
            let columns = node.schema.fields().iter().zip(&key);
            let columns: Vec<_> = columns
                .map(|(field, cell)| array(field.data_type(), [cell].into_iter()))
                .collect();
            let of_key: Bag = wanted.into_iter().filter(|(row, _)| row[..key.len()] == key).collect();
            assert_same(
                &table.columns,
                &format!("`{}` finds", table.name),
                &drive.state(number, Some(&columns)),
                &of_key,
            );
        }
    }
}

fn churn_through(kind: &DataType, keys: &[usize], seed: u64) {
    let input = input_of(kind);
    let node = aggregate(&input, keys, all_calls(kind));
    let (mut random, mut churn) = (Random::new(seed), Churn::new());
    let mut drive = Drive::aggregate(&node, true);
    let values = values(kind);
    for _ in 0..25 {
        let made = churn.epoch(&mut random, &mut |random| random_row(random, &values));
        let pushes: Vec<_> = cut(&mut random, &input, made)
            .into_iter()
            .map(|part| (0, part))
            .collect();
        drive.epoch(&pushes).unwrap();
        compare(&drive, &node, &churn.held, &mut random);
    }
    drive.epoch(&[(0, changes(&input, &churn.clear()))]).unwrap();
    compare(&drive, &node, &churn.held, &mut random);
    let tables = Node::Aggregate(node).state_tables().len();
    let groups = if keys.is_empty() { 1 } else { 0 };
    let mut empty = vec![0; tables];
    empty[0] = groups;
    assert_eq!(drive.state_rows(tables), empty, "rows of state when all is deleted");
}

#[test]
fn groups_of_every_type_agree_with_the_model() {
    with_seeds(6, |seed| {
        for kind in kinds() {
            for keys in [&[][..], &[0], &[1, 0]] {
                eprintln!("{kind} by {keys:?}");
                churn_through(&kind, keys, seed);
            }
        }
    });
}

#[test]
fn distinct_gives_each_row_once_while_it_is_there() {
    with_seeds(20, |seed| {
        let input = input_of(&DataType::Float64);
        let node = aggregate(&input, &[0, 1], vec![]);
        let (mut random, mut churn) = (Random::new(seed), Churn::new());
        let mut drive = Drive::aggregate(&node, true);
        for _ in 0..40 {
            let made = churn.epoch(&mut random, &mut |random| random_row(random, &[Cell::Null]));
            drive.epoch(&[(0, changes(&input, &made))]).unwrap();
            compare(&drive, &node, &churn.held, &mut random);
        }
    });
}

#[test]
fn batches_of_one_sign_are_taken_without_a_weight_per_row() {
    let input = schema(&[("g", DataType::Utf8), ("x", DataType::Int64)]);
    let node = aggregate(
        &input,
        &[0],
        vec![
            call(Sum, Some(1), DataType::Decimal128(38, 0)),
            call(Count, None, DataType::Int64),
        ],
    );
    check(
        Drive::aggregate(&node, false),
        &[("orders", &input)],
        &node.schema,
        "
orders(user, cents)       by_user = select user, sum(cents), count(*) from orders group by user
@1  +3 ann 10             @1  + ann 30 3
@1  +  bob  5             @1  + bob  5 1
@2  -2 ann 10             @2  - ann 30 3
                          @2  + ann 10 1       = ann 10 1, bob 5 1
@3  +  bob  1             @3  - bob  5 1
@3  -  ann 10             @3  + bob  6 2
                          @3  - ann 10 1       = bob 6 2
",
    );
}

#[test]
fn a_group_is_forgotten_with_its_last_row_and_starts_anew() {
    let input = schema(&[("g", DataType::Utf8), ("x", DataType::Float64)]);
    let node = aggregate(
        &input,
        &[0],
        vec![
            call(Sum, Some(1), DataType::Float64),
            call(Max, Some(1), DataType::Float64),
        ],
    );
    let drive = check(
        Drive::aggregate(&node, false),
        &[("orders", &input)],
        &node.schema,
        "
orders(user, euros)       by_user = select user, sum(euros), max(euros) from orders group by user
@1  + ann 1e300           @1  + ann 1e300 1e300
@2  + ann 0.1
@3  - ann 1e300           @3  - ann 1e300 1e300
                          @3  + ann 0.1 0.1
@4  - ann 0.1             @4  - ann 0.1 0.1    =
@5  + bob 2               @5  + bob 2 2        = bob 2 2
",
    );
    assert_eq!(drive.state_rows(2), vec![1, 1]);
}

#[test]
fn a_result_that_stays_the_same_gives_no_output() {
    let input = schema(&[("g", DataType::Utf8), ("x", DataType::Float64)]);
    let calls = vec![
        call(Max, Some(1), DataType::Float64),
        call(Sum, Some(1), DataType::Float64),
    ];
    let node = aggregate(&input, &[0], calls);
    check(
        Drive::aggregate(&node, false),
        &[("t", &input)],
        &node.schema,
        "
t(g, x)               m = select g, max(x), sum(x) from t group by g
@1  + a 5             @1  + a 5 5
@1  + n NaN           @1  + n NaN NaN
@1  + z NULL          @1  + z NULL NULL
@2  + a 0
@2  + n NaN
@2  + z NULL
@3  - a 5
@3  + a 5
@4  - n NaN
@5  + g 1
@5  - g 1             @5  + h 1 1
@5  + h 1                                = a 5 5, n NaN NaN, z NULL NULL, h 1 1
",
    );
}

#[test]
fn a_global_aggregate_over_nothing_has_one_row_on_the_worker_that_owns_it() {
    let input = schema(&[("x", DataType::Int64)]);
    let calls = vec![
        call(Count, None, DataType::Int64),
        call(Count, Some(0), DataType::Int64),
        call(Sum, Some(0), DataType::Decimal128(38, 0)),
        call(Min, Some(0), DataType::Int64),
    ];
    let node = aggregate(&input, &[], calls);
    let text = "
t(x)                  s = select count(*), count(x), sum(x), min(x) from t
                      @1  + 0 0 NULL NULL
@2  + NULL            @2  - 0 0 NULL NULL
                      @2  + 1 0 NULL NULL
@3  + 7               @3  - 1 0 NULL NULL
                      @3  + 2 1 7 7
@4  - 7               @4  - 2 1 7 7
@4  - NULL            @4  + 0 0 NULL NULL     = 0 0 NULL NULL
";
    check(Drive::aggregate(&node, true), &[("t", &input)], &node.schema, text);
    let mut other = Drive::aggregate(&node, false);
    assert_eq!(other.epoch(&[]).unwrap(), Bag::new());
    assert_eq!(other.state_rows(1), vec![0]);
}

#[test]
fn rows_without_columns_are_counted() {
    let input = schema(&[]);
    let node = aggregate(&input, &[], vec![call(Count, None, DataType::Int64)]);
    let text = "
t()                   c = select count(*) from t
@1  +3                @1  + 3
@2  -1                @2  - 3
                      @2  + 2     = 2
";
    check(Drive::aggregate(&node, true), &[("t", &input)], &node.schema, text);
}

/// What a kernel with one aggregate gives when values are pushed one by one in one epoch; or the SQLSTATE of the error
/// that it tells of its group.
fn outcome(
    function: AggregateFunction,
    kind: &DataType,
    output: DataType,
    given: &[(i128, i64)],
) -> Result<Bag, String> {
    let input = schema(&[("x", kind.clone())]);
    let node = aggregate(&input, &[], vec![call(function, Some(0), output)]);
    let mut drive = Drive::aggregate(&node, true);
    let pushes: Vec<_> = given
        .iter()
        .map(|(value, weight)| (0, changes(&input, &[(vec![Cell::Number(*value)], *weight)])))
        .collect();
    let given = drive.epoch(&pushes).unwrap();
    match drive.kernel.take_errors().unwrap() {
        None => Ok(given),
        Some(errors) => {
            assert!(given.is_empty() && errors.len() == 1 && errors.weights().get(0) == 1);
            Err(errors.rows().column(2).as_string::<i32>().value(0).to_owned())
        }
    }
}

#[test]
fn a_sum_beyond_its_type_is_out_of_range() {
    let refused = Err("22003".to_owned());
    let max = i64::MAX as i128;
    assert_eq!(
        outcome(Sum, &DataType::Int64, DataType::Int64, &[(max, 1), (1, 1)]),
        refused
    );
    assert_eq!(
        outcome(Sum, &DataType::Int64, DataType::Int64, &[(-max, 1), (-2, 1)]),
        refused
    );
    assert_eq!(
        outcome(
            Sum,
            &DataType::Decimal128(5, 2),
            DataType::Decimal128(5, 2),
            &[(99_999, 1), (1, 1)]
        ),
        refused
    );
    let nines = 10i128.pow(38) - 1;
    assert_eq!(
        outcome(
            Sum,
            &DataType::Decimal128(38, 0),
            DataType::Decimal128(38, 0),
            &[(nines, 1), (1, 1)]
        ),
        refused
    );
    assert_eq!(
        outcome(
            Sum,
            &DataType::Decimal128(38, 0),
            DataType::Decimal128(38, 0),
            &[(nines, 4)]
        ),
        refused
    );
    assert_eq!(
        outcome(
            Avg,
            &DataType::Decimal128(38, 0),
            DataType::Decimal128(38, 6),
            &[(nines, 1)]
        ),
        refused
    );
}

#[test]
fn a_variance_beyond_its_type_is_out_of_range_and_may_come_back() {
    let nines = 10i128.pow(38) - 1;
    let (kind, output) = (DataType::Decimal128(38, 0), DataType::Decimal128(38, 10));
    let far = [(nines, 1), (-nines, 1)];
    for function in [VarPop, VarSamp, StddevPop, StddevSamp] {
        let refused = Err("22003".to_owned());
        assert_eq!(outcome(function, &kind, output.clone(), &far), refused);
        let back = [(nines, 7), (-nines, 5), (3, 2), (nines, -7), (-nines, -5)];
        let zero = Ok(Bag::from([(vec![Cell::Number(0)], 1)]));
        assert_eq!(outcome(function, &kind, output.clone(), &back), zero);
    }
}

#[test]
fn a_sum_may_leave_the_range_on_its_way_within_an_epoch() {
    let one = |value: i128| Ok(Bag::from([(vec![Cell::Number(value)], 1)]));
    let max = i64::MAX as i128;
    assert_eq!(
        outcome(
            Sum,
            &DataType::Int64,
            DataType::Int64,
            &[(max, 2), (1, 1), (max, -1), (max, -1)]
        ),
        one(1)
    );
    let nines = 10i128.pow(38) - 1;
    let decimal = DataType::Decimal128(38, 0);
    assert_eq!(
        outcome(Sum, &decimal, decimal.clone(), &[(nines, 1), (nines, 1), (-nines, 1)]),
        one(nines)
    );
    assert_eq!(
        outcome(Sum, &decimal, decimal.clone(), &[(nines, 5), (7, 1), (nines, -5)]),
        one(7)
    );
    assert_eq!(
        outcome(Sum, &decimal, decimal.clone(), &[(-nines, 5), (7, 1), (nines, 5)]),
        one(7)
    );
}

#[test]
fn means_are_rounded_half_away_from_zero_at_the_scale_of_the_result() {
    let mean = |values: &[(i128, i64)]| outcome(Avg, &DataType::Decimal128(9, 2), DataType::Decimal128(38, 3), values);
    let one = |value: i128| Ok(Bag::from([(vec![Cell::Number(value)], 1)]));
    assert_eq!(mean(&[(1, 1), (2, 1), (2, 1)]), one(17));
    assert_eq!(mean(&[(1, 15), (2, 1)]), one(11));
    assert_eq!(mean(&[(-1, 15), (-2, 1), (0, 4)]), one(-9));
    assert_eq!(mean(&[(1, 1), (0, 19)]), one(1));
    assert_eq!(mean(&[(-1, 1), (0, 19)]), one(-1));
}

#[test]
fn sums_of_doubles_are_exact_and_do_not_depend_on_history() {
    let input = schema(&[("x", DataType::Float64)]);
    let node = aggregate(&input, &[], vec![call(Sum, Some(0), DataType::Float64)]);
    let parts = [
        1e308,
        1e-308,
        0.1,
        0.2,
        0.3,
        -1e308,
        5e-324,
        f64::NAN,
        f64::INFINITY,
        1e16,
        1.0,
        -1e16,
    ];
    let rows: Vec<(Row, i64)> = parts.iter().map(|value| (vec![Cell::float(*value)], 1)).collect();
    let mut fresh = Drive::aggregate(&node, true);
    fresh.epoch(&[(0, changes(&input, &rows[3..5]))]).unwrap();
    with_seeds(20, |seed| {
        let mut random = Random::new(seed);
        let mut drive = Drive::aggregate(&node, true);
        let mut come = rows.clone();
        random.shuffle(&mut come);
        for row in &come {
            drive.epoch(&[(0, changes(&input, std::slice::from_ref(row)))]).unwrap();
        }
        let mut go: Vec<_> = rows[..3]
            .iter()
            .chain(&rows[5..])
            .map(|(row, _)| (row.clone(), -1))
            .collect();
        random.shuffle(&mut go);
        drive.epoch(&[(0, changes(&input, &go))]).unwrap();
        assert_eq!(drive.contents, fresh.contents);
        assert_eq!(drive.state(0, None), fresh.state(0, None));
    });
    assert_eq!(fresh.contents, Bag::from([(vec![Cell::float(0.5)], 1)]));
}

#[test]
fn taking_away_what_is_not_there_is_a_fault_and_not_a_silence() {
    let input = input_of(&DataType::Int64);
    let there = vec![Cell::text("a"), Cell::Null, Cell::Number(1), Cell::Null];
    let not_there = vec![Cell::text("a"), Cell::Null, Cell::Number(2), Cell::Null];
    for calls in [vec![], vec![call(Max, Some(2), DataType::Int64)]] {
        let has_values = !calls.is_empty();
        let node = aggregate(&input, &[0], calls);
        let mut drive = Drive::aggregate(&node, false);
        drive.epoch(&[(0, changes(&input, &[(there.clone(), 1)]))]).unwrap();
        let row = if has_values { &not_there } else { &there };
        let error = drive.epoch(&[(0, changes(&input, &[(row.clone(), -2)]))]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug);
    }
}

#[test]
fn a_change_of_no_weight_changes_nothing() {
    let input = input_of(&DataType::Int64);
    let node = aggregate(&input, &[0], all_calls(&DataType::Int64));
    let mut drive = Drive::aggregate(&node, false);
    let row = vec![Cell::text("a"), Cell::Null, Cell::Number(1), Cell::Number(1)];
    assert_eq!(drive.epoch(&[(0, changes(&input, &[(row, 0)]))]).unwrap(), Bag::new());
    assert_eq!(bag(&drive.kernel.read(0, None).unwrap()), Bag::new());
}

#[test]
fn calls_that_differ_in_their_filter_alone_have_state_tables_of_their_own() {
    let node = aggregate(&input_of(&DataType::Int64), &[0], all_calls(&DataType::Int64));
    let names: Vec<String> = Node::Aggregate(node)
        .state_tables()
        .into_iter()
        .map(|table| table.name)
        .collect();
    let different: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "{names:?}");
}
