//! Parts of a batch put together again, into batches that can be: the texts of one cannot be longer than 2 GiB together.
//!
//! # Not here
//! What the parts are of ([`crate::row_errors`], [`crate::kernel`]).

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Changes, Result};

/// Bytes of a batch that is put together.
pub(crate) const BYTES_MAX: usize = 1 << 30;

/// As few batches as may be, with the rows of the parts in their order.
pub(crate) fn rows(schema: &SchemaRef, parts: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    put(parts, BYTES_MAX, bytes_of, |group| Ok(concat_batches(schema, group)?))
}

/// As few batches as may be, with the changes of the parts in their order.
pub(crate) fn changes(schema: &SchemaRef, parts: Vec<Changes>) -> Result<Vec<Changes>> {
    let size = |part: &Changes| bytes_of(part.rows());
    put(parts, BYTES_MAX, size, |group| Changes::concat(schema, group))
}

/// Bytes of a batch's own rows, not of all that its buffers hold.
pub(crate) fn bytes_of(rows: &RecordBatch) -> Result<usize> {
    let mut bytes = 0usize;
    for column in rows.columns() {
        bytes = bytes.saturating_add(column.to_data().get_slice_memory_size()?);
    }
    Ok(bytes)
}

fn put<T>(
    parts: Vec<T>,
    bytes_max: usize,
    size: impl Fn(&T) -> Result<usize>,
    join: impl Fn(&[T]) -> Result<T>,
) -> Result<Vec<T>> {
    if parts.len() == 1 {
        return Ok(parts);
    }
    let (mut made, mut group, mut bytes) = (Vec::new(), Vec::new(), 0usize);
    for part in parts {
        let more = size(&part)?;
        if !group.is_empty() && bytes.saturating_add(more) > bytes_max {
            made.push(join(&group)?);
            group.clear();
            bytes = 0;
        }
        bytes = bytes.saturating_add(more);
        group.push(part);
    }
    if !group.is_empty() {
        made.push(join(&group)?);
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_put_together_up_to_the_limit_and_keep_their_order() {
        let put = |parts: &[usize]| {
            let parts = parts.iter().map(|part| vec![*part]).collect();
            let size = |part: &Vec<usize>| Ok(part.iter().sum());
            put(parts, 10, size, |group: &[Vec<usize>]| Ok(group.concat())).unwrap()
        };
        assert_eq!(put(&[]), Vec::<Vec<usize>>::new());
        assert_eq!(put(&[20]), vec![vec![20]]);
        assert_eq!(put(&[3, 7, 1, 12, 2]), vec![vec![3, 7], vec![1], vec![12], vec![2]]);
    }
}
