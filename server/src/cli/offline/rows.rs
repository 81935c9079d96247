//! Rows of a checkpoint as readers see them: each as often as it is there, a bounded number at a time.

use crate::encode::CHUNK_ROWS;
use arrow::array::{ArrayRef, Int16Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_statestore::checkpoint::{Checkpoint, KeyGroups, TableEntry, TableRows};
use cenote_statestore::{Changes, Result, hash_rows, key_group};
use std::sync::Arc;

/// The column that says which key group a row of state is in.
pub const KEY_GROUP: &str = "key_group";

/// Rows of a table, repeated as their weights say.
pub struct Repeated {
    rows: TableRows,
    /// What is being repeated: rows, the next row, and how often that one was given.
    current: Option<(Changes, usize, i64)>,
}

impl Repeated {
    /// All rows of a table.
    ///
    /// # Errors
    /// There is no such table.
    pub fn of(checkpoint: &Checkpoint, name: &str) -> Result<Repeated> {
        let rows = checkpoint.read_table(name, KeyGroups::ALL)?;
        Ok(Repeated { rows, current: None })
    }

    fn piece(&mut self) -> Result<Option<RecordBatch>> {
        let Some((changes, row, given)) = &mut self.current else {
            return Ok(None);
        };
        let mut indices = Vec::new();
        while indices.len() < CHUNK_ROWS && *row < changes.len() {
            let left = changes.weights().get(*row) - *given;
            let room = (CHUNK_ROWS - indices.len()) as i64;
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
                    Ok(changes) if matches!(changes.weights(), cenote_statestore::Weights::All(1)) => {
                        return Some(Ok(changes.into_parts().0));
                    }
                    Ok(changes) => self.current = Some((changes, 0, 0)),
                    Err(error) => return Some(Err(error)),
                },
            }
        }
    }
}

/// The columns of a table with that of key groups, unless it has a column so named.
pub fn with_key_group(table: &TableEntry) -> Option<SchemaRef> {
    let schema = table.table_schema();
    let is_free = schema.index_of(KEY_GROUP).is_err();
    is_free.then(|| {
        let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(KEY_GROUP, DataType::Int16, false)));
        Arc::new(Schema::new(fields))
    })
}

/// The key group of each row.
pub fn key_groups(table: &TableEntry, rows: &RecordBatch) -> ArrayRef {
    let key: Vec<ArrayRef> = table
        .key_columns()
        .iter()
        .map(|column| rows.column(*column).clone())
        .collect();
    let groups = hash_rows(&key, rows.num_rows())
        .into_iter()
        .map(|hash| i16::from(key_group(hash)));
    Arc::new(Int16Array::from_iter_values(groups))
}
