//! Joins of every kind against nested loops.

use super::drive::Drive;
use super::notation::{assert_same, check};
use crate::kernel::{JoinKernel, Kernel};
use crate::models::join::{results, state};
use crate::plan::{Join, JoinKind, Node, Predicate};
use crate::rows::{Bag, Cell, Churn, Random, Row, array, changes, cut, rows, schema, with_seeds};
use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use cenote_statestore::{Changes, Epoch, ErrorKind, Result};
use std::sync::Arc;

const KINDS: [JoinKind; 6] = [
    JoinKind::Inner,
    JoinKind::Left,
    JoinKind::Right,
    JoinKind::Full,
    JoinKind::Semi,
    JoinKind::Anti,
];

/// `x < y` of the columns at two positions; NULL where one is NULL.
#[derive(Debug)]
struct Less(usize, usize);

impl Less {
    fn holds(&self, row: &Row) -> Option<bool> {
        Some(row[self.0].number()? < row[self.1].number()?)
    }
}

impl Predicate for Less {
    fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        Ok(rows(batch).iter().map(|row| self.holds(row)).collect())
    }

    fn is_fallible(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        format!("#{} < #{}", self.0, self.1)
    }
}

const X_BEFORE_Y: Less = Less(2, 5);

fn side(value: &str) -> SchemaRef {
    schema(&[("k", DataType::Utf8), ("j", DataType::Int64), (value, DataType::Int32)])
}

fn join(kind: JoinKind, keys: usize, null_equals_null: bool, residual: bool) -> Join {
    let (left_schema, right_schema) = (side("x"), side("y"));
    let right = right_schema.fields().iter().filter(|_| kind.gives_pairs());
    let fields: Vec<_> = left_schema.fields().iter().chain(right).cloned().collect();
    Join {
        name: "v_join".into(),
        left: 0,
        right: 1,
        left_keys: (0..keys).collect(),
        right_keys: (0..keys).collect(),
        null_equals_null,
        kind,
        residual: residual.then(|| Arc::new(X_BEFORE_Y) as Arc<dyn Predicate>),
        schema: Arc::new(Schema::new(fields)),
        left_schema,
        right_schema,
    }
}

fn random_row(random: &mut Random) -> Row {
    let text = [
        Cell::Null,
        Cell::text("a"),
        Cell::text("b"),
        Cell::text("a key with a long name"),
    ];
    let number = [Cell::Null, Cell::Number(0), Cell::Number(1)];
    let value = if random.one_in(5) {
        Cell::Null
    } else {
        Cell::Number(random.below(4) as i128)
    };
    vec![random.pick(&text).clone(), random.pick(&number).clone(), value]
}

fn compare(drive: &Drive<JoinKernel>, node: &Join, sides: &[Churn; 2], random: &mut Random) {
    let wanted = results(node, &sides[0].held, &sides[1].held);
    assert_same(
        &node.schema,
        &format!("after epoch {} there is", drive.epoch),
        &drive.contents,
        &wanted,
    );
    let keys = [&node.left_keys, &node.right_keys];
    for (number, table) in Node::Join(node.clone()).state_tables().iter().enumerate() {
        let wanted = state(node, keys[number], &sides[number].held);
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
        if !keys[number].is_empty() {
            let key = random_row(random)[..keys[number].len()].to_vec();
            let columns = table.columns.fields().iter().zip(&key);
            let columns: Vec<_> = columns
                .map(|(field, cell)| array(field.data_type(), [cell].into_iter()))
                .collect();
            let of_key = wanted.into_iter().filter(|(row, _)| row[..key.len()] == key).collect();
            assert_same(
                &table.columns,
                &format!("`{}` finds", table.name),
                &drive.state(number, Some(&columns)),
                &of_key,
            );
        }
    }
}

/// The changes of both sides in one epoch, cut and mixed at random.
fn pushes(random: &mut Random, node: &Join, given: [Vec<(Row, i64)>; 2]) -> Vec<(usize, Changes)> {
    let [left, right] = given;
    let mut queues = [
        cut(random, &node.left_schema, left)
            .into_iter()
            .collect::<std::collections::VecDeque<_>>(),
        cut(random, &node.right_schema, right).into_iter().collect(),
    ];
    let mut mixed = Vec::new();
    while queues.iter().any(|queue| !queue.is_empty()) {
        let input = random.below(2);
        mixed.extend(queues[input].pop_front().map(|part| (input, part)));
    }
    mixed
}

fn churn_through(node: &Join, seed: u64) {
    let mut random = Random::new(seed);
    let mut sides = [Churn::new(), Churn::new()];
    let mut drive = Drive::join(node);
    for _ in 0..25 {
        let made = [0, 1].map(|side: usize| match random.one_in(4) {
            true => Vec::new(),
            false => sides[side].epoch(&mut random, &mut random_row),
        });
        let pushes = pushes(&mut random, node, made);
        drive.epoch(&pushes).unwrap();
        compare(&drive, node, &sides, &mut random);
    }
    let made = [0, 1].map(|side: usize| sides[side].clear());
    let pushes = pushes(&mut random, node, made);
    drive.epoch(&pushes).unwrap();
    compare(&drive, node, &sides, &mut random);
    assert_eq!(drive.state_rows(2), vec![0, 0], "rows of state when all is deleted");
}

#[test]
fn joins_of_every_kind_agree_with_nested_loops() {
    with_seeds(12, |seed| {
        for kind in KINDS {
            for keys in 0..=2 {
                for (null_equals_null, residual) in [(false, false), (false, true), (true, false), (true, true)] {
                    eprintln!("{kind:?} on {keys} keys, null equals null: {null_equals_null}, residual: {residual}");
                    churn_through(&join(kind, keys, null_equals_null, residual), seed);
                }
            }
        }
    });
}

#[test]
fn keys_may_stand_at_different_places_on_both_sides() {
    with_seeds(12, |seed| {
        for kind in KINDS {
            let mut node = join(kind, 2, false, false);
            let right = schema(&[("y", DataType::Int32), ("j", DataType::Int64), ("k", DataType::Utf8)]);
            node.right_keys = vec![2, 1];
            let given = right.fields().iter().filter(|_| kind.gives_pairs());
            node.schema = Arc::new(Schema::new(
                node.left_schema
                    .fields()
                    .iter()
                    .chain(given)
                    .cloned()
                    .collect::<Vec<_>>(),
            ));
            node.right_schema = right;
            let (mut random, mut sides) = (Random::new(seed), [Churn::new(), Churn::new()]);
            let mut drive = Drive::join(&node);
            for _ in 0..25 {
                let left = sides[0].epoch(&mut random, &mut random_row);
                let right = sides[1].epoch(&mut random, &mut |random| {
                    let mut row = random_row(random);
                    row.reverse();
                    row
                });
                let pushes = pushes(&mut random, &node, [left, right]);
                drive.epoch(&pushes).unwrap();
                let wanted = results(&node, &sides[0].held, &sides[1].held);
                assert_same(&node.schema, "there is", &drive.contents, &wanted);
            }
        }
    });
}

fn narrow(kind: JoinKind) -> (Join, SchemaRef, SchemaRef) {
    let (left, right) = (
        schema(&[("k", DataType::Int64), ("x", DataType::Utf8)]),
        schema(&[("k", DataType::Int64), ("y", DataType::Utf8)]),
    );
    let mut node = join(kind, 1, false, false);
    let given = right.fields().iter().filter(|_| kind.gives_pairs());
    node.schema = Arc::new(Schema::new(
        left.fields().iter().chain(given).cloned().collect::<Vec<_>>(),
    ));
    (node.left_schema, node.right_schema) = (left.clone(), right.clone());
    (node, left, right)
}

#[test]
fn left_join_gives_a_padded_row_when_the_last_match_is_deleted() {
    let (node, left, right) = narrow(JoinKind::Left);
    check(
        Drive::join(&node),
        &[("a", &left), ("b", &right)],
        &node.schema,
        "
a(k, x) b(k, y)           j = select * from a left join b using (k)
@1  a +2 1 p              @1  +2 1 p NULL NULL
@2  b +2 1 q              @2  -2 1 p NULL NULL
                          @2  +4 1 p 1 q
@3  b -  1 q              @3  -2 1 p 1 q
@4  b -  1 q              @4  -2 1 p 1 q
                          @4  +2 1 p NULL NULL
@5  b +  1 q
@5  b -  1 q
@6  a -  1 p              @6  -  1 p NULL NULL    = 1 p NULL NULL
",
    );
}

#[test]
fn full_join_pads_both_sides_and_null_keys_match_nothing() {
    let (node, left, right) = narrow(JoinKind::Full);
    let drive = check(
        Drive::join(&node),
        &[("a", &left), ("b", &right)],
        &node.schema,
        "
a(k, x) b(k, y)           j = select * from a full join b on a.k = b.k
@1  a + NULL p            @1  + NULL p NULL NULL
@1  b + NULL q            @1  + NULL NULL NULL q
@1  a + 1 p               @1  + 1 p 1 q
@1  b + 1 q
@2  a - NULL p            @2  - NULL p NULL NULL
@2  a - 1 p               @2  - 1 p 1 q
                          @2  + NULL NULL 1 q     = NULL NULL NULL q, NULL NULL 1 q
",
    );
    assert_eq!(drive.state_rows(2), vec![0, 1]);
}

#[test]
fn semi_and_anti_join_divide_the_left_rows() {
    let lines = "
a(k, x) b(k, y)           j
@1  a +3 1 p
@1  a +  NULL p
@2  b +  1 q
@3  b +  1 r
@4  b -  1 q
@5  b -  1 r
";
    for kind in [JoinKind::Semi, JoinKind::Anti] {
        let (node, left, right) = narrow(kind);
        let text = match kind {
            JoinKind::Semi => lines
                .replace(
                    "@2  b +  1 q",
                    "@2  b +  1 q              @2  +3 1 p     = 1 p, 1 p, 1 p",
                )
                .replace("@5  b -  1 r", "@5  b -  1 r              @5  -3 1 p     ="),
            _ => lines
                .replace("@1  a +3 1 p", "@1  a +3 1 p              @1  +3 1 p")
                .replace("@1  a +  NULL p", "@1  a +  NULL p           @1  +  NULL p")
                .replace("@2  b +  1 q", "@2  b +  1 q              @2  -3 1 p     = NULL p")
                .replace("@5  b -  1 r", "@5  b -  1 r              @5  +3 1 p"),
        };
        check(Drive::join(&node), &[("a", &left), ("b", &right)], &node.schema, &text);
    }
}

#[test]
fn a_key_with_more_pairs_than_are_gathered_at_once_is_joined_whole() {
    for kind in KINDS {
        let node = join(kind, 1, false, true);
        let many = |from: i128| -> Vec<(Row, i64)> {
            (0..270)
                .map(|n| (vec![Cell::text("hot"), Cell::Number(n), Cell::Number(from + n % 7)], 1))
                .collect()
        };
        let (left, right) = (many(0), many(3));
        let mut drive = Drive::join(&node);
        drive.epoch(&[(0, changes(&node.left_schema, &left))]).unwrap();
        drive.epoch(&[(1, changes(&node.right_schema, &right))]).unwrap();
        let (left, right): (Bag, Bag) = (left.into_iter().collect(), right.into_iter().collect());
        assert!(drive.contents == results(&node, &left, &right), "{kind:?}");
        let gone: Vec<(Row, i64)> = right.keys().map(|row| (row.clone(), -1)).collect();
        drive.epoch(&[(1, changes(&node.right_schema, &gone))]).unwrap();
        assert!(
            drive.contents == results(&node, &left, &Bag::new()),
            "{kind:?} when the right side is deleted"
        );
    }
}

#[test]
fn rows_without_columns_are_crossed() {
    let none = schema(&[]);
    let mut node = join(JoinKind::Inner, 0, false, false);
    (node.left_schema, node.right_schema, node.schema) = (none.clone(), none.clone(), none.clone());
    let text = "
a() b()                   j = select from a cross join b
@1  a +2                  @1  +6
@1  b +3
@2  a -1                  @2  -3
@3  b -3                  @3  -3     =
";
    let drive = check(Drive::join(&node), &[("a", &none), ("b", &none)], &none, text);
    assert_eq!(drive.state_rows(2), vec![1, 0]);
}

#[test]
fn many_insertions_are_given_early_and_taken_back_only_behind_it() {
    let node = Join {
        left_keys: Vec::new(),
        right_keys: Vec::new(),
        ..join(JoinKind::Inner, 1, false, false)
    };
    let row = |value: i128| vec![Cell::text("a"), Cell::Null, Cell::Number(value)];
    let many = |count: i128, weight: i64| -> Vec<(Row, i64)> { (0..count).map(|value| (row(value), weight)).collect() };
    let mut kernel = JoinKernel::new(&node);
    let mut output = Vec::new();
    kernel
        .push(0, &changes(&node.left_schema, &many(1_000, 1)), &mut output)
        .unwrap();
    assert!(output.is_empty());
    let right = changes(&node.right_schema, &many(1_000, 1));
    let taken = kernel.push_some(1, &right, &mut output).unwrap();
    assert!(
        (1..100).contains(&taken),
        "a thousand pairs each, and {taken} rows at once"
    );
    kernel.push(1, &right.slice(taken, 1_000 - taken), &mut output).unwrap();
    let early: usize = output.iter().map(Changes::len).sum();
    assert!((500_000..=1_000_000).contains(&early), "{early} pairs before the end");
    kernel
        .push(1, &changes(&node.right_schema, &many(400, -1)), &mut output)
        .unwrap();
    kernel.finish(Epoch(1), &mut output).unwrap();
    let mut sum = 0;
    for changes in &output {
        sum += (0..changes.len()).map(|row| changes.weights().get(row)).sum::<i64>();
        assert!(sum >= 0);
    }
    assert_eq!(sum, 600_000);
}

/// A left join gives a padded row and takes it back in one epoch: the insertions of many do not wait for its end.
#[test]
fn insertions_are_given_early_where_an_outer_join_takes_rows_back() {
    let node = join(JoinKind::Left, 1, false, false);
    let row = |value: i128| vec![Cell::text("a"), Cell::Null, Cell::Number(value)];
    let mut kernel = JoinKernel::new(&node);
    let mut output = Vec::new();
    let left: Vec<(Row, i64)> = (0..1_000).map(|value| (row(value), 1)).collect();
    let right: Vec<(Row, i64)> = (0..600).map(|value| (row(value), 1)).collect();
    kernel.push(0, &changes(&node.left_schema, &left), &mut output).unwrap();
    kernel
        .push(1, &changes(&node.right_schema, &right), &mut output)
        .unwrap();
    let early: usize = output.iter().map(Changes::len).sum();
    assert!(early > 300_000, "{early} rows before the end");
    assert!(output.iter().all(|changes| changes.weights().is_insertion()));
    kernel.finish(Epoch(1), &mut output).unwrap();
    let all = Changes::concat(&node.schema, &output)
        .unwrap()
        .consolidate_fully()
        .unwrap();
    let weights = (0..all.len()).map(|row| all.weights().get(row));
    assert_eq!(
        weights.clone().sum::<i64>(),
        600_000,
        "each left row with each right one, and no padded row"
    );
    assert!(weights.min() > Some(0));
}

#[test]
fn taking_away_what_is_not_there_is_a_fault_and_not_a_silence() {
    let node = join(JoinKind::Inner, 1, false, false);
    let row = |value: i128| vec![Cell::text("a"), Cell::Null, Cell::Number(value)];
    for (there, gone) in [((row(1), 1), (row(2), -1)), ((row(1), 1), (row(1), -2))] {
        let mut drive = Drive::join(&node);
        drive.epoch(&[(1, changes(&node.right_schema, &[there]))]).unwrap();
        let error = drive.epoch(&[(1, changes(&node.right_schema, &[gone]))]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug);
    }
}

#[test]
fn pairs_that_the_condition_fails_on_do_not_match_and_are_told_of() {
    #[derive(Debug)]
    struct Failing;
    impl Predicate for Failing {
        fn evaluate(&self, _: &RecordBatch) -> Result<BooleanArray> {
            Err(arrow::error::ArrowError::DivideByZero.into())
        }
        fn is_fallible(&self) -> bool {
            true
        }

        fn describe(&self) -> String {
            "1 / 0 = 1".into()
        }
    }
    let node = Join {
        residual: Some(Arc::new(Failing)),
        ..join(JoinKind::Inner, 1, false, false)
    };
    let row = vec![Cell::text("a"), Cell::Null, Cell::Null];
    let mut kernel = JoinKernel::new(&node);
    let mut output = Vec::new();
    let steps = [
        (0, 2, None),
        (1, 3, Some(6)),
        (0, -1, Some(-3)),
        (1, -3, Some(-3)),
        (0, -1, None),
    ];
    for (input, weight, told) in steps {
        let schema = if input == 0 {
            &node.left_schema
        } else {
            &node.right_schema
        };
        kernel
            .push(input, &changes(schema, &[(row.clone(), weight)]), &mut output)
            .unwrap();
        kernel.finish(Epoch(1), &mut output).unwrap();
        let errors = kernel.take_errors().unwrap();
        assert_eq!(errors.as_ref().map(|errors| errors.weights().get(0)), told);
        if let Some(errors) = errors {
            assert_eq!(errors.rows().column(2).as_string::<i32>().value(0), "22012");
        }
    }
    assert!(output.is_empty());
}
