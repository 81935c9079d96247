//! How large rows are: the bytes of their values.
//!
//! A value of a fixed width counts that, NULL or not; a text or a list its contents and four bytes. What an index beside the rows
//! takes, and rows of other epochs, are not in it.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;

/// Bytes of an offset of a text or a list.
const OFFSET_BYTES: i64 = 4;

/// Bytes of the values of each row.
pub(super) fn row_bytes(rows: &RecordBatch) -> Vec<i64> {
    let mut bytes = vec![0; rows.num_rows()];
    rows.columns().iter().for_each(|column| add(column, &mut bytes));
    bytes
}

fn add(column: &ArrayRef, bytes: &mut [i64]) {
    let mut add_each = |of: &dyn Fn(usize) -> i64| {
        bytes.iter_mut().enumerate().for_each(|(row, bytes)| *bytes += of(row));
    };
    match column.data_type() {
        DataType::Boolean => add_each(&|_| 1),
        DataType::Utf8 => {
            let texts = column.as_string::<i32>();
            add_each(&|row| OFFSET_BYTES + i64::from(texts.value_length(row)));
        }
        DataType::Binary => {
            let texts = column.as_binary::<i32>();
            add_each(&|row| OFFSET_BYTES + i64::from(texts.value_length(row)));
        }
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            let mut elements = vec![0; lists.values().len()];
            add(lists.values(), &mut elements);
            let mut sum = 0;
            let ends: Vec<i64> = std::iter::once(0)
                .chain(elements.iter().map(|bytes| {
                    sum += bytes;
                    sum
                }))
                .collect();
            let offsets = lists.value_offsets();
            add_each(&|row| OFFSET_BYTES + ends[offsets[row + 1] as usize] - ends[offsets[row] as usize]);
        }
        DataType::Struct(_) => column.as_struct().columns().iter().for_each(|field| add(field, bytes)),
        DataType::FixedSizeBinary(width) => add_each(&|_| i64::from(*width)),
        other => {
            let width = other.primitive_width().unwrap_or(0) as i64;
            add_each(&|_| width);
        }
    }
}
