//! The model of joins: nested loops.

use crate::plan::{Join, JoinKind};
use crate::rows::{Bag, Cell, Row, add, batch};
use arrow::array::Array;
use arrow::datatypes::Schema;
use std::sync::Arc;

/// The whole result.
pub fn results(node: &Join, left: &Bag, right: &Bag) -> Bag {
    let matching = matching(node, left, right);
    let nulls = |side: &Schema| vec![Cell::Null; side.fields().len()];
    let mut results = Bag::new();
    for (l, (row, times)) in left.iter().enumerate() {
        let matched = matching[l].iter().any(|matches| *matches);
        for (r, (other, count)) in right.iter().enumerate() {
            if node.kind.gives_pairs() && matching[l][r] {
                add(&mut results, &[row.clone(), other.clone()].concat(), times * count);
            }
        }
        match node.kind {
            JoinKind::Semi if matched => add(&mut results, row, *times),
            JoinKind::Anti if !matched => add(&mut results, row, *times),
            kind if kind.pads_left() && !matched => {
                add(&mut results, &[row.clone(), nulls(&node.right_schema)].concat(), *times);
            }
            _ => {}
        }
    }
    for (r, (row, times)) in right.iter().enumerate() {
        if node.kind.pads_right() && !matching.iter().any(|matches| matches[r]) {
            add(&mut results, &[nulls(&node.left_schema), row.clone()].concat(), *times);
        }
    }
    results
}

/// For each left row and each right row, whether they match.
fn matching(node: &Join, left: &Bag, right: &Bag) -> Vec<Vec<bool>> {
    let pairs: Vec<Row> = left
        .keys()
        .flat_map(|l| right.keys().map(|r| [l.clone(), r.clone()].concat()))
        .collect();
    let fields = node.left_schema.fields().iter().chain(node.right_schema.fields());
    let schema = Arc::new(Schema::new(
        fields
            .map(|field| field.as_ref().clone().with_nullable(true))
            .collect::<Vec<_>>(),
    ));
    let mask = node
        .residual
        .as_ref()
        .map(|residual| residual.evaluate(&batch(&schema, &pairs)).unwrap());
    let holds = |pair: usize| mask.as_ref().is_none_or(|mask| mask.is_valid(pair) && mask.value(pair));
    let equal = |l: &Row, r: &Row| {
        let keys = node
            .left_keys
            .iter()
            .zip(&node.right_keys)
            .map(|(left, right)| (&l[*left], &r[*right]));
        keys.into_iter()
            .all(|(a, b)| a == b && (node.null_equals_null || !a.is_null()))
    };
    let row_of = |(l, row): (usize, &Row)| {
        let rights = right.keys().enumerate();
        rights
            .map(|(r, other)| equal(row, other) && holds(l * right.len() + r))
            .collect()
    };
    left.keys().enumerate().map(row_of).collect()
}

/// The contents of a side's state table: rows that can match, with their multiplicities.
///
/// # Arguments
/// - `keys`: the side's key columns.
pub fn state(node: &Join, keys: &[usize], held: &Bag) -> Bag {
    let kept = held
        .iter()
        .filter(|(row, _)| node.null_equals_null || keys.iter().all(|key| !row[*key].is_null()));
    kept.map(|(row, count)| ([row.clone(), vec![Cell::Number(*count as i128)]].concat(), 1))
        .collect()
}
