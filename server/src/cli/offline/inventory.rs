//! All state together: which keys live, in which key group, and what each one holds, without knowing any schema.

use super::rows::{key_groups, repeated};
use crate::encode::{Numbers, RowObject};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use cenote_query::{AttachedBatches, AttachedTable};
use cenote_statestore::Result;
use cenote_statestore::checkpoint::{Checkpoint, TableEntry, TableKind};
use cenote_statestore::forms::json::{column_of, json_type};
use std::sync::Arc;

/// Where the inventory is found: in the system catalog, and without a schema.
const NAMES: [(&str, &str); 2] = [("cenote_catalog", "state"), ("public", "state")];

/// The inventory under its names, unless a table of the checkpoint is called so.
pub fn tables(checkpoint: &Checkpoint, others: &[AttachedTable]) -> Vec<AttachedTable> {
    let is_free = |schema: &str, name: &str| {
        !others
            .iter()
            .any(|table| table.schema_name == schema && table.name == name)
    };
    let names = NAMES.iter().filter(|(schema, name)| is_free(schema, name));
    names
        .map(|(schema, name)| {
            let checkpoint = checkpoint.clone();
            AttachedTable {
                schema_name: schema.to_string(),
                name: name.to_string(),
                columns: columns(),
                read: Arc::new(move || read(&checkpoint)),
            }
        })
        .collect()
}

fn columns() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    Arc::new(Schema::new(vec![
        text("view"),
        text("operator"),
        text("table"),
        Field::new("key_group", DataType::Int16, false),
        Field::new("key", json_type(), false),
        Field::new("value", json_type(), false),
        Field::new("bytes", DataType::Int64, false),
    ]))
}

fn read(checkpoint: &Checkpoint) -> Result<AttachedBatches> {
    let state = checkpoint.manifest().tables.iter();
    let state = state.filter(|table| !matches!(table.kind, TableKind::Table | TableKind::View));
    let tables: Vec<TableEntry> = state.cloned().collect();
    let checkpoint = checkpoint.clone();
    Ok(Box::new(tables.into_iter().flat_map(move |table| {
        let rows: AttachedBatches = match repeated(&checkpoint, &table.readable_name()) {
            Ok(rows) => Box::new(rows.map(move |rows| described(&table, &rows?))),
            Err(error) => Box::new(std::iter::once(Err(error))),
        };
        rows
    })))
}

/// Rows of a table as rows of the inventory.
fn described(table: &TableEntry, rows: &RecordBatch) -> Result<RecordBatch> {
    let count = rows.num_rows();
    let identity = table.identity_columns();
    let others: Vec<usize> = (0..rows.num_columns())
        .filter(|column| !identity.contains(column))
        .collect();
    let (keys, values) = (objects(rows, &identity)?, objects(rows, &others)?);
    let bytes = keys
        .iter()
        .zip(&values)
        .map(|(key, value)| (key.len() + value.len()) as i64);
    let bytes: ArrayRef = Arc::new(Int64Array::from_iter_values(bytes));
    let same = |text: Option<&str>| -> ArrayRef { Arc::new(StringArray::from_iter(std::iter::repeat_n(text, count))) };
    let json = |texts: Vec<String>| column_of(StringArray::from(texts), &json_type());
    let all = vec![
        same(table.view.as_deref()),
        same(table.operator.as_deref()),
        same(Some(&table.name)),
        key_groups(table, rows),
        json(keys),
        json(values),
        bytes,
    ];
    Ok(RecordBatch::try_new(columns(), all)?)
}

/// Some columns of each row as a JSON object with exact digits.
fn objects(rows: &RecordBatch, columns: &[usize]) -> Result<Vec<String>> {
    let fields: Fields = columns
        .iter()
        .map(|column| rows.schema_ref().fields()[*column].clone())
        .collect();
    let arrays: Vec<ArrayRef> = columns.iter().map(|column| rows.column(*column).clone()).collect();
    let object = RowObject::new(&fields, Numbers::Raw);
    let writer = object.over(&arrays)?;
    let text = |row: usize| {
        let mut out = Vec::new();
        writer.write(&mut out, row);
        String::from_utf8_lossy(&out).into_owned()
    };
    Ok((0..rows.num_rows()).map(text).collect())
}
