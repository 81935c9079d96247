//! The keys of a table's rows: the primary key and the columns of UNIQUE.
//!
//! Transactions look for conflicts in their snapshot, the committer in the newest contents; both go by these keys.

use super::is_row_numbered;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use cenote_statestore::{Error, ErrorKind, Lookup, Pin, Result, VersionedTable};

/// Columns that no two rows of a table share the values of.
#[derive(Clone, Debug)]
pub struct RowKey {
    /// Name of its constraint.
    pub name: String,
    /// Indices of its columns.
    pub columns: Vec<usize>,
    /// Position among the table's unique keys; `None`: the primary key.
    unique: Option<usize>,
}

/// The keys of a table: the primary key, if there is one, then the others.
pub fn row_keys(table: &VersionedTable) -> Vec<RowKey> {
    let primary = (!is_row_numbered(&table.schema().columns)).then(|| RowKey {
        name: table.key_name(),
        columns: table.schema().key.clone(),
        unique: None,
    });
    primary.into_iter().chain(unique_keys(table)).collect()
}

/// The keys of a table beside its primary key.
pub(crate) fn unique_keys(table: &VersionedTable) -> impl Iterator<Item = RowKey> {
    table.unique_keys().iter().enumerate().map(|(position, key)| RowKey {
        name: key.name.clone(),
        columns: key.columns.clone(),
        unique: Some(position),
    })
}

impl RowKey {
    /// The key's columns of rows.
    pub fn values(&self, rows: &RecordBatch) -> Vec<ArrayRef> {
        self.columns.iter().map(|column| rows.column(*column).clone()).collect()
    }

    /// The rows that have these values at one epoch.
    pub fn lookup(&self, table: &VersionedTable, values: &[ArrayRef], pin: &Pin) -> Result<Lookup> {
        match self.unique {
            None => table.lookup(values, pin),
            Some(key) => table.lookup_unique(key, values, pin),
        }
    }

    /// The rows that have these values now: for the writer of the table.
    pub(crate) fn newest(&self, table: &VersionedTable, values: &[ArrayRef]) -> Result<Lookup> {
        match self.unique {
            None => table.newest_rows(values),
            Some(key) => table.newest_unique(key, values),
        }
    }

    /// The error for a row whose values are there already.
    pub fn duplicate(&self, table: &VersionedTable, rows: &RecordBatch, row: usize) -> Error {
        let schema = table.schema();
        let names = self
            .columns
            .iter()
            .map(|column| schema.columns.field(*column).name().as_str());
        let values = self.columns.iter().map(|column| shown(rows.column(*column), row));
        let (names, values): (Vec<&str>, Vec<String>) = (names.collect(), values.collect());
        let there = format!("Key ({})=({}) already exists.", names.join(", "), values.join(", "));
        Error::new(
            ErrorKind::Conflict,
            "TABLE-0101",
            format!("duplicate key value violates unique constraint \"{}\"", self.name),
        )
        .sqlstate("23505")
        .telling(there)
        .of_constraint(&schema.name, &self.name)
    }
}

/// A value as PostgreSQL writes it in messages.
fn shown(array: &ArrayRef, row: usize) -> String {
    if array.is_null(row) {
        return "null".into();
    }
    if let DataType::Boolean = array.data_type() {
        return if array.as_boolean().value(row) { "t" } else { "f" }.into();
    }
    let options = FormatOptions::new()
        .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
        .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:::z"));
    match ArrayFormatter::try_new(array, &options) {
        Ok(formatter) => formatter.value(row).to_string(),
        Err(_) => String::new(),
    }
}
