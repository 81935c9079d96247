//! Rows of a checkpoint as readers see them: each as often as it is there, a bounded number at a time.

use crate::encode::CHUNK_ROWS;
use arrow::array::{ArrayRef, Int16Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_statestore::checkpoint::{Checkpoint, KeyGroups, Repeated, TableEntry};
use cenote_statestore::{Result, hash_rows, key_group};
use std::sync::Arc;

/// The column that says which key group a row of state is in.
pub const KEY_GROUP: &str = "key_group";

/// All rows of a table, each as often as it is there.
///
/// # Errors
/// There is no such table.
pub fn repeated(checkpoint: &Checkpoint, name: &str) -> Result<Repeated> {
    Ok(checkpoint.read_table(name, KeyGroups::ALL)?.repeated(CHUNK_ROWS))
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
