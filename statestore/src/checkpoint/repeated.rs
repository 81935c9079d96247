//! Rows of a checkpoint as readers see them: each as often as it is there, a bounded number at a time.

use super::read::TableRows;
use crate::{Changes, Result, Weights};
use arrow::array::{RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take_record_batch;

/// Rows of a table, repeated as their weights say.
#[derive(Debug)]
pub struct Repeated {
    rows: TableRows,
    /// Rows of a batch at most.
    rows_max: usize,
    /// What is being repeated: rows, the next row, and how often that one was given.
    current: Option<(Changes, usize, i64)>,
}

impl TableRows {
    /// The rows, each as often as it is there, in batches of at most `rows_max` where any is there more than once.
    pub fn repeated(self, rows_max: usize) -> Repeated {
        Repeated {
            rows: self,
            rows_max,
            current: None,
        }
    }
}

impl Repeated {
    fn piece(&mut self) -> Result<Option<RecordBatch>> {
        let rows_max = self.rows_max;
        let Some((changes, row, given)) = &mut self.current else {
            return Ok(None);
        };
        let mut indices = Vec::new();
        while indices.len() < rows_max && *row < changes.len() {
            let left = changes.weights().get(*row) - *given;
            let room = (rows_max - indices.len()) as i64;
            let count = left.min(room).max(0);
            indices.extend(std::iter::repeat_n(*row as u32, count as usize));
            match count == left.max(0) {
                true => (*row, *given) = (*row + 1, 0),
                false => *given += count,
            }
        }
        if indices.is_empty() {
            self.current = None;
            return Ok(None);
        }
        let rows = take_rows(changes.rows(), indices)?;
        Ok(Some(rows))
    }
}

fn take_rows(rows: &RecordBatch, indices: Vec<u32>) -> Result<RecordBatch> {
    if rows.num_columns() == 0 {
        let options = RecordBatchOptions::new().with_row_count(Some(indices.len()));
        return Ok(RecordBatch::try_new_with_options(rows.schema(), Vec::new(), &options)?);
    }
    Ok(take_record_batch(rows, &UInt32Array::from(indices))?)
}

impl Iterator for Repeated {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            match self.piece().transpose() {
                Some(piece) => return Some(piece),
                None => match self.rows.next()? {
                    // Each row once, the usual case: nothing is copied.
                    Ok(changes) if matches!(changes.weights(), Weights::All(1)) => {
                        return Some(Ok(changes.into_parts().0));
                    }
                    Ok(changes) => self.current = Some((changes, 0, 0)),
                    Err(error) => return Some(Err(error)),
                },
            }
        }
    }
}
