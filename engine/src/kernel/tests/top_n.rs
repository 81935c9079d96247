//! Top-N against sorting everything.

use super::drive::Drive;
use super::notation::{assert_same, check};
use crate::kernel::{Kernel, TopNKernel};
use crate::models::compare_values;
use crate::models::top_n::{results, state};
use crate::plan::{Node, TopN};
use crate::rows::{Bag, Cell, Churn, Random, Row, array, changes, cut, schema, with_seeds};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema};
use cenote_statestore::ErrorKind;
use std::cmp::Ordering;
use std::sync::Arc;

struct Shape {
    partition: Vec<usize>,
    order: Vec<(usize, SortOptions)>,
    offset: u64,
    limit: Option<u64>,
    row_number: bool,
}

fn options(descending: bool, nulls_first: bool) -> SortOptions {
    SortOptions {
        descending,
        nulls_first,
    }
}

fn top_n(shape: Shape) -> TopN {
    let input_schema = schema(&[
        ("p", DataType::Utf8),
        ("x", DataType::Int64),
        ("t", DataType::Utf8),
        ("d", DataType::Float64),
    ]);
    let mut fields: Vec<_> = input_schema.fields().iter().cloned().collect();
    if shape.row_number {
        fields.push(Arc::new(Field::new("row_number", DataType::Int64, false)));
    }
    let Shape {
        partition,
        order,
        offset,
        limit,
        row_number,
    } = shape;
    let schema = Arc::new(Schema::new(fields));
    TopN {
        name: "v_top".into(),
        input: 0,
        partition,
        order,
        offset,
        limit,
        row_number,
        input_schema,
        schema,
    }
}

fn random_row(random: &mut Random) -> Row {
    let texts = [
        Cell::Null,
        Cell::text(""),
        Cell::text("a"),
        Cell::text("ab"),
        Cell::text("a rather long text here"),
    ];
    let doubles = [
        -1.5,
        -0.0,
        0.0,
        2.5,
        f64::NAN,
        -f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ]
    .map(Cell::float);
    let number = if random.one_in(5) {
        Cell::Null
    } else {
        Cell::Number(random.below(5) as i128 - 2)
    };
    let double = if random.one_in(5) {
        Cell::Null
    } else {
        random.pick(&doubles).clone()
    };
    vec![random.pick(&texts).clone(), number, random.pick(&texts).clone(), double]
}

fn random_shape(random: &mut Random) -> Shape {
    let columns: Vec<usize> = vec![1, 2, 3];
    let orders = random.below(4);
    let order = (0..orders).map(|_| (*random.pick(&columns), options(random.one_in(2), random.one_in(2))));
    Shape {
        order: order.collect(),
        partition: [vec![], vec![0], vec![0, 1]][random.below(3)].clone(),
        offset: *random.pick(&[0, 0, 1, 3]),
        limit: *random.pick(&[None, Some(0), Some(1), Some(3), Some(10), Some(u64::MAX)]),
        row_number: random.one_in(2),
    }
}

fn compare(drive: &Drive<TopNKernel>, node: &TopN, held: &Bag, random: &mut Random) {
    let wanted = results(node, held);
    assert_same(
        &node.schema,
        &format!("after epoch {} there is", drive.epoch),
        &drive.contents,
        &wanted,
    );
    let table = Node::TopN(node.clone()).state_tables().remove(0);
    let wanted = state(held);
    assert_same(&table.columns, "the state holds", &drive.state(0, None), &wanted);
    assert_eq!(drive.kernel.size(0).0 as usize, wanted.len());
    if !node.partition.is_empty() {
        let row = random_row(random);
        let columns = node
            .partition
            .iter()
            .map(|column| array(table.columns.field(*column).data_type(), [&row[*column]].into_iter()));
        let columns: Vec<_> = columns.collect();
        let of_key = wanted
            .into_iter()
            .filter(|(other, _)| node.partition.iter().all(|c| other[*c] == row[*c]))
            .collect();
        assert_same(
            &table.columns,
            "the state finds",
            &drive.state(0, Some(&columns)),
            &of_key,
        );
    }
}

#[test]
fn first_rows_agree_with_sorting_everything() {
    with_seeds(300, |seed| {
        let (mut random, mut churn) = (Random::new(seed), Churn::new());
        let node = top_n(random_shape(&mut random));
        let mut drive = Drive::top_n(&node);
        for _ in 0..25 {
            let made = churn.epoch(&mut random, &mut random_row);
            let pushes: Vec<_> = cut(&mut random, &node.input_schema, made)
                .into_iter()
                .map(|part| (0, part))
                .collect();
            drive.epoch(&pushes).unwrap();
            compare(&drive, &node, &churn.held, &mut random);
        }
        drive
            .epoch(&[(0, changes(&node.input_schema, &churn.clear()))])
            .unwrap();
        compare(&drive, &node, &churn.held, &mut random);
        assert_eq!(drive.kernel.size(0), (0, 0));
    });
}

fn small(offset: u64, limit: Option<u64>, row_number: bool, order: SortOptions) -> TopN {
    let mut node = top_n(Shape {
        partition: vec![0],
        order: vec![(1, order)],
        offset,
        limit,
        row_number,
    });
    node.input_schema = schema(&[("p", DataType::Utf8), ("x", DataType::Int64)]);
    let mut fields: Vec<_> = node.input_schema.fields().iter().cloned().collect();
    fields.extend(row_number.then(|| Arc::new(Field::new("row_number", DataType::Int64, false))));
    node.schema = Arc::new(Schema::new(fields));
    node
}

#[test]
fn the_next_row_follows_when_one_of_the_first_is_deleted() {
    let node = small(0, Some(2), false, options(true, false));
    check(
        Drive::top_n(&node),
        &[("t", &node.input_schema)],
        &node.schema,
        "
t(p, x)               top = the 2 greatest x of each p, NULLs last
@1  + a 5             @1  + a 5
@1  + a 7             @1  + a 7
@1  + a 1
@1  + a NULL
@1  + b NULL          @1  + b NULL
@2  - a 7             @2  - a 7
                      @2  + a 1          = a 5, a 1, b NULL
@3  - a 5             @3  - a 5
                      @3  + a NULL
@4  + a 9             @4  + a 9
@4  - a 1             @4  - a 1
@5  - a 9             @5  - a 9
@5  - a NULL          @5  - a NULL       = b NULL
",
    );
}

#[test]
fn equal_rows_count_as_often_as_they_are_there() {
    let node = small(1, Some(3), true, options(false, true));
    check(
        Drive::top_n(&node),
        &[("t", &node.input_schema)],
        &node.schema,
        "
t(p, x)               top = positions 2 to 4 by x of each p
@1  +3 a 5            @1  + a 5 2
@1  +2 a 7            @1  + a 5 3
                      @1  + a 7 4
@2  -1 a 5            @2  - a 5 3
                      @2  + a 7 3
@3  +1 a NULL         @3  - a 7 3
                      @3  + a 5 3        = a 5 2, a 5 3, a 7 4
",
    );
}

#[test]
fn offset_and_limit_may_be_as_large_as_their_type() {
    for (offset, limit) in [(1, u64::MAX), (1, i64::MAX as u64), (u64::MAX, u64::MAX), (u64::MAX, 1)] {
        let node = small(offset, Some(limit), false, options(false, false));
        let mut drive = Drive::top_n(&node);
        let row = vec![Cell::text("a"), Cell::Number(1)];
        drive
            .epoch(&[(0, changes(&node.input_schema, &[(row.clone(), 3)]))])
            .unwrap();
        let wanted = if offset == 1 { Bag::from([(row, 2)]) } else { Bag::new() };
        assert_eq!(drive.contents, wanted, "offset {offset}, limit {limit}");
    }
}

#[test]
fn taking_away_what_is_not_there_is_a_fault_and_not_a_silence() {
    let node = small(0, Some(2), false, options(true, false));
    let row = vec![Cell::text("a"), Cell::Number(1)];
    for weight in [-1, -2] {
        let mut drive = Drive::top_n(&node);
        if weight == -2 {
            drive
                .epoch(&[(0, changes(&node.input_schema, &[(row.clone(), 1)]))])
                .unwrap();
        }
        let error = drive
            .epoch(&[(0, changes(&node.input_schema, &[(row.clone(), weight)]))])
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug);
    }
}

#[test]
fn the_model_compares_floats_as_sql_does() {
    let compare = |a: f64, b: f64| compare_values(&Cell::float(a), &Cell::float(b));
    assert_eq!(compare(-0.0, 0.0), Ordering::Equal);
    assert_eq!(compare(f64::NAN, f64::INFINITY), Ordering::Greater);
    assert_eq!(compare(-f64::NAN, f64::NAN), Ordering::Equal);
}
