//! The changes of an epoch in the order that they are written in, which depends on nothing but the changes.

use arrow::row::{RowConverter, SortField};
use cenote_statestore::{Changes, Result};

/// One epoch's changes: equal rows are one, deletions stand before insertions, and both are sorted by key, then by the
/// other columns.
///
/// # Arguments
/// - `changes`: in columns that users see.
/// - `key`: indices of the key's columns.
pub(super) fn ordered(changes: Changes, key: &[usize]) -> Result<Changes> {
    let changes = changes.consolidate_fully()?;
    if changes.len() < 2 {
        return Ok(changes);
    }
    let width = changes.rows().num_columns();
    let others = (0..width).filter(|column| !key.contains(column));
    let columns: Vec<_> = key
        .iter()
        .copied()
        .chain(others)
        .map(|column| changes.rows().column(column).clone())
        .collect();
    let fields = columns
        .iter()
        .map(|column| SortField::new(column.data_type().clone()))
        .collect();
    let rows = RowConverter::new(fields)?.convert_columns(&columns)?;
    let mut places: Vec<u32> = (0..changes.len() as u32).collect();
    places.sort_unstable_by(|a, b| {
        let is_insertion = |place: u32| changes.weights().get(place as usize) > 0;
        let by_row = || rows.row(*a as usize).cmp(&rows.row(*b as usize));
        is_insertion(*a).cmp(&is_insertion(*b)).then_with(by_row)
    });
    changes.take(&places)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use cenote_statestore::Weights;
    use std::sync::Arc;

    fn changes(rows: &[(&str, i64, i64)]) -> Changes {
        let fields = vec![
            Field::new("v", DataType::Utf8, true),
            Field::new("k", DataType::Int64, true),
        ];
        let values = StringArray::from_iter_values(rows.iter().map(|row| row.0));
        let keys = Int64Array::from_iter_values(rows.iter().map(|row| row.1));
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![Arc::new(values), Arc::new(keys)]);
        Changes::new(batch.unwrap(), Weights::Each(rows.iter().map(|row| row.2).collect()))
    }

    fn shown(changes: &Changes) -> Vec<(String, i64, i64)> {
        let (values, keys) = (
            changes.rows().column(0).as_string::<i32>(),
            changes.rows().column(1).as_primitive::<Int64Type>(),
        );
        let row = |row| {
            (
                values.value(row).to_string(),
                keys.value(row),
                changes.weights().get(row),
            )
        };
        (0..changes.len()).map(row).collect()
    }

    #[test]
    fn deletions_stand_before_insertions_and_both_by_key() {
        let rows = [("b", 2, 1), ("a", 3, 1), ("z", 2, -1), ("c", 1, -1), ("a", 1, 1)];
        let mut turned = rows;
        turned.reverse();
        let expected = [("c", 1, -1), ("z", 2, -1), ("a", 1, 1), ("b", 2, 1), ("a", 3, 1)];
        let expected = expected.map(|(value, key, weight)| (value.to_string(), key, weight));
        for rows in [rows, turned] {
            assert_eq!(shown(&ordered(changes(&rows), &[1]).unwrap()), expected);
        }
    }

    #[test]
    fn equal_rows_are_one_and_what_cancels_is_none() {
        let rows = [("a", 1, 1), ("b", 1, 1), ("a", 1, 2), ("b", 1, -1)];
        assert_eq!(shown(&ordered(changes(&rows), &[]).unwrap()), [("a".to_string(), 1, 3)]);
    }
}
