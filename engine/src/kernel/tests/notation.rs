//! The notation for changes, read and written:
//!
//! ```text
//! orders(user, cents)          by_user = select user, sum(cents) from orders group by user
//! @1  + ann 10                 @1  + ann 10
//! @1  + bob  5                 @1  + bob  5
//! @2  - ann 10                 @2  - ann 10
//! @2  + ann 12                 @2  + ann 12      = ann 12, bob 5
//! ```
//!
//! The second name of the first line marks the column where output begins. A sign may carry a count (`+3`); with
//! several inputs the input's name stands before the sign. `=` gives all contents after the epoch of its line.

use super::drive::Drive;
use crate::kernel::Kernel;
use crate::rows::{Bag, Cell, Row, add, array, batch, changes, rows};
use arrow::array::{ArrayRef, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::array_value_to_string;
use std::collections::BTreeMap;
use std::sync::Arc;

struct Line {
    epoch: u64,
    input: usize,
    row: Row,
    weight: i64,
}

#[derive(Default)]
struct Step {
    pushes: Vec<(usize, Row, i64)>,
    output: Bag,
    contents: Option<Bag>,
}

/// Runs a kernel on the left side of a text and compares with its right side, every row a push of its own.
pub(super) fn check<K: Kernel + 'static>(
    mut drive: Drive<K>,
    inputs: &[(&str, &SchemaRef)],
    output: &SchemaRef,
    text: &str,
) -> Drive<K> {
    let steps = parse(inputs, output, text);
    for epoch in 1..=*steps.keys().last().expect("a line") {
        let none = Step::default();
        let step = steps.get(&epoch).unwrap_or(&none);
        let pushes: Vec<_> = step
            .pushes
            .iter()
            .map(|(input, row, weight)| (*input, changes(inputs[*input].1, &[(row.clone(), *weight)])))
            .collect();
        let got = drive.epoch(&pushes).unwrap();
        assert_same(output, &format!("epoch {epoch} gives"), &got, &step.output);
        if let Some(contents) = &step.contents {
            assert_same(
                output,
                &format!("after epoch {epoch} there is"),
                &drive.contents,
                contents,
            );
        }
    }
    drive
}

/// Compares bags, and shows both in the notation if they differ.
pub(super) fn assert_same(schema: &SchemaRef, what: &str, got: &Bag, wanted: &Bag) {
    assert!(
        got == wanted,
        "{what}\n{}but should be\n{}",
        show(schema, got),
        show(schema, wanted)
    );
}

/// Changes as lines.
pub(super) fn show(schema: &SchemaRef, bag: &Bag) -> String {
    let line = |(row, count): (&Row, &i64)| {
        let sign = if *count < 0 { "-" } else { "+" };
        let count = if count.abs() == 1 {
            String::new()
        } else {
            count.abs().to_string()
        };
        format!("  {sign}{count} {}\n", show_row(schema, row))
    };
    bag.iter().map(line).collect()
}

fn show_row(schema: &SchemaRef, row: &Row) -> String {
    let cells = schema.fields().iter().zip(row).map(|(field, cell)| match cell {
        Cell::Null => "NULL".to_owned(),
        cell => array_value_to_string(&array(field.data_type(), [cell].into_iter()), 0).unwrap(),
    });
    cells.collect::<Vec<_>>().join(" ")
}

fn parse(inputs: &[(&str, &SchemaRef)], output: &SchemaRef, text: &str) -> BTreeMap<u64, Step> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let header = lines.next().expect("a header");
    let middle = header.rfind("   ").map_or(header.len(), |gap| gap + 3);
    let names: Vec<&str> = inputs.iter().map(|(name, _)| *name).collect();
    let mut steps: BTreeMap<u64, Step> = BTreeMap::new();
    let mut epoch = 0;
    for line in lines {
        let (left, right) = line.split_at(middle.min(line.len()));
        if let Some(Line {
            epoch: at,
            input,
            row,
            weight,
        }) = parse_change(left, &names, |i| inputs[i].1)
        {
            epoch = at;
            steps.entry(at).or_default().pushes.push((input, row, weight));
        }
        let (right, contents) = right
            .split_once('=')
            .map_or((right, None), |(right, all)| (right, Some(all)));
        if let Some(Line {
            epoch: at, row, weight, ..
        }) = parse_change(right, &[], |_| output)
        {
            epoch = at;
            add(&mut steps.entry(at).or_default().output, &row, weight);
        }
        if let Some(contents) = contents {
            let mut bag = Bag::new();
            let listed = contents.split(',').filter(|row| !row.trim().is_empty());
            listed.for_each(|row| {
                add(
                    &mut bag,
                    &parse_row(output, &row.split_whitespace().collect::<Vec<_>>()),
                    1,
                )
            });
            steps.entry(epoch).or_default().contents = Some(bag);
        }
    }
    steps
}

fn parse_change<'a>(text: &str, names: &[&str], schema: impl Fn(usize) -> &'a SchemaRef) -> Option<Line> {
    let mut words: Vec<&str> = text.split_whitespace().collect();
    let epoch = words
        .first()?
        .strip_prefix('@')
        .unwrap_or_else(|| panic!("an epoch in {text:?}"))
        .parse()
        .unwrap();
    words.remove(0);
    let input = names.iter().position(|name| words[0] == *name);
    if input.is_some() {
        words.remove(0);
    }
    let input = input.unwrap_or(0);
    let (sign, count) = words[0].split_at(1);
    let count: i64 = if count.is_empty() { 1 } else { count.parse().unwrap() };
    let weight = match sign {
        "+" => count,
        "-" => -count,
        _ => panic!("a sign in {text:?}"),
    };
    Some(Line {
        epoch,
        input,
        row: parse_row(schema(input), &words[1..]),
        weight,
    })
}

fn parse_row(schema: &SchemaRef, words: &[&str]) -> Row {
    assert_eq!(words.len(), schema.fields().len(), "one word per column in {words:?}");
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let column = |kind: &DataType, word: &str| -> ArrayRef {
        let text: ArrayRef = Arc::new(StringArray::from(vec![(word != "NULL").then_some(word)]));
        cast_with_options(&text, kind, &strict).unwrap()
    };
    let columns = schema
        .fields()
        .iter()
        .zip(words)
        .map(|(field, word)| column(field.data_type(), word));
    rows(&Changes::batch(schema.clone(), columns.collect(), 1).unwrap()).remove(0)
}

use cenote_statestore::Changes;

#[test]
fn what_is_written_is_read_again() {
    let schema = crate::rows::schema(&[("who", DataType::Utf8), ("paid", DataType::Decimal128(9, 2))]);
    let row = parse_row(&schema, &["ann", "-1.50"]);
    assert_eq!(row, vec![Cell::text("ann"), Cell::Number(-150)]);
    assert_eq!(show_row(&schema, &row), "ann -1.50");
    assert_eq!(show_row(&schema, &parse_row(&schema, &["NULL", "NULL"])), "NULL NULL");
    assert_eq!(rows(&batch(&schema, [&row])), vec![row]);
}
