//! The model of Top-N: sorting everything.

use super::compare_cells;
use crate::plan::TopN;
use crate::rows::{Bag, Cell, Row, add, repeated};
use arrow::compute::SortOptions;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The whole result.
pub fn results(node: &TopN, held: &Bag) -> Bag {
    let mut partitions: BTreeMap<Row, Vec<&Row>> = BTreeMap::new();
    for row in repeated(held) {
        let key = node.partition.iter().map(|column| row[*column].clone()).collect();
        partitions.entry(key).or_default().push(row);
    }
    let mut results = Bag::new();
    for mut rows in partitions.into_values() {
        rows.sort_by(|a, b| compare_rows(node, a, b));
        let numbered = rows.into_iter().enumerate().skip(node.offset as usize);
        for (position, row) in numbered.take(node.limit.unwrap_or(u64::MAX) as usize) {
            let mut row = row.clone();
            row.extend(node.row_number.then(|| Cell::Number(position as i128 + 1)));
            add(&mut results, &row, 1);
        }
    }
    results
}

/// Ties are broken by the whole row, NULLs first; floats by their bits in total order, so that the answer is one.
fn compare_rows(node: &TopN, a: &Row, b: &Row) -> Ordering {
    let by_order = node
        .order
        .iter()
        .map(|(column, options)| compare_cells(&a[*column], &b[*column], *options));
    let whole = |(a, b): (&Cell, &Cell)| match (a.double(), b.double()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => compare_cells(a, b, SortOptions::default()),
    };
    by_order
        .chain(a.iter().zip(b).map(whole))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// The contents of the state table.
pub fn state(held: &Bag) -> Bag {
    held.iter()
        .map(|(row, count)| ([row.clone(), vec![Cell::Number(*count as i128)]].concat(), 1))
        .collect()
}
