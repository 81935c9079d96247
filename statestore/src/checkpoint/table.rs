//! What a writer says of a table, and rows in the form that files have.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, new_null_array};
use arrow::datatypes::SchemaRef;

use super::columns::ColumnEntry;
use super::fault;
use super::manifest::{PartKind, TableEntry, TableKind, readable_name};
use super::part::{self, file_schema};
use crate::{Changes, Error, Result, TableSchema, Weights};

/// A table to be written.
#[derive(Clone, Debug)]
pub struct TableState {
    /// The schema that its name is in: `public`, `cenote_state`.
    pub schema: String,
    /// Its name there.
    pub name: String,
    /// What it is.
    pub kind: TableKind,
    /// The view that it belongs to.
    pub view: Option<String>,
    /// What the operator is whose state it is.
    pub operator: Option<String>,
    /// Its columns, without weights.
    pub columns: SchemaRef,
    /// SQL's names of their types; empty where they are not known.
    pub sql_types: Vec<String>,
    /// Columns that rows are distributed by: all of them in `identity`.
    pub key: Vec<usize>,
    /// Columns that make a row's identity.
    pub identity: Vec<usize>,
    /// Whether a row can be there several times. Its identity is the whole row then.
    pub multiset: bool,
}

impl TableState {
    /// A table as the store knows it: distributed by its key, or by whole rows without one.
    pub fn new(schema: &str, kind: TableKind, table: &TableSchema) -> TableState {
        let identity = table.identity();
        let has_key = !table.key.is_empty() || table.unique;
        TableState {
            schema: schema.to_string(),
            name: table.name.clone(),
            kind,
            view: None,
            operator: None,
            columns: table.columns.clone(),
            sql_types: Vec::new(),
            key: if has_key { table.key.clone() } else { identity.clone() },
            identity,
            multiset: !table.unique,
        }
    }

    /// The name that users give it.
    pub fn readable_name(&self) -> String {
        readable_name(&self.schema, &self.name)
    }

    /// Rows as a base has them.
    ///
    /// # Errors
    /// `Bug`: the rows have other columns, or a weight that is not above zero.
    pub fn base_rows(&self, rows: &Changes) -> Result<RecordBatch> {
        self.live_rows(rows, PartKind::Base)
    }

    /// Rows as a delta has them that were added or changed.
    ///
    /// # Errors
    /// `Bug`: the rows have other columns, or a weight that is not above zero.
    pub fn delta_rows(&self, rows: &Changes) -> Result<RecordBatch> {
        self.live_rows(rows, PartKind::Delta)
    }

    fn live_rows(&self, rows: &Changes, kind: PartKind) -> Result<RecordBatch> {
        let mut columns = rows.rows().columns().to_vec();
        if self.multiset {
            let weights = (0..rows.len()).map(|row| rows.weights().get(row));
            columns.push(Arc::new(Int64Array::from_iter_values(weights)));
        }
        let positive = match rows.weights() {
            Weights::All(weight) => *weight == 1 || (self.multiset && *weight > 0),
            Weights::Each(each) => each.iter().all(|weight| *weight == 1 || (self.multiset && *weight > 0)),
        };
        if !positive {
            return Err(Error::bug(format!(
                "a row of `{}` has a weight that no row there can have",
                self.name
            )));
        }
        if kind == PartKind::Delta {
            columns.push(Arc::new(BooleanArray::from(vec![false; rows.len()])));
        }
        self.file_rows(columns, rows.len(), kind)
    }

    /// Rows as a delta has them that are gone.
    ///
    /// # Arguments
    /// - `identities`: the columns of the identity, in their order.
    ///
    /// # Errors
    /// `Bug`: they are other columns.
    pub fn gone_rows(&self, identities: &[ArrayRef], rows: usize) -> Result<RecordBatch> {
        let column = |(index, field): (usize, &Arc<arrow::datatypes::Field>)| {
            let given = self.identity.iter().position(|column| *column == index);
            let given = given.and_then(|position| identities.get(position));
            given.map_or_else(|| new_null_array(field.data_type(), rows), Arc::clone)
        };
        let mut columns: Vec<ArrayRef> = self.columns.fields().iter().enumerate().map(column).collect();
        if self.multiset {
            columns.push(Arc::new(Int64Array::from(vec![0; rows])));
        }
        columns.push(Arc::new(BooleanArray::from(vec![true; rows])));
        self.file_rows(columns, rows, PartKind::Delta)
    }

    fn file_rows(&self, columns: Vec<ArrayRef>, rows: usize, kind: PartKind) -> Result<RecordBatch> {
        part::batch(&self.file_schema(kind), columns, rows)
            .map_err(|error| Error::bug(format!("rows of `{}` have other columns: {error}", self.name)))
    }

    /// The columns of its files.
    pub fn file_schema(&self, kind: PartKind) -> SchemaRef {
        file_schema(&self.columns, &self.identity, self.multiset, kind)
    }

    /// Its entry in a manifest, without parts.
    pub(super) fn entry(&self) -> Result<TableEntry> {
        let readable = self.readable_name();
        let mut columns = Vec::with_capacity(self.columns.fields().len());
        for (index, field) in self.columns.fields().iter().enumerate() {
            let refused = |reason: String| fault::unstorable(&readable, field.name(), reason);
            if part::is_reserved(field.name()) {
                return Err(refused("has a name that checkpoints use themselves".into()));
            }
            let entry = ColumnEntry::of(field).filter(|_| crate::storable(field.data_type()));
            let mut entry = entry.ok_or_else(|| refused(format!("has type {}", field.data_type())))?;
            entry.sql_type = self.sql_types.get(index).cloned();
            columns.push(entry);
        }
        let names = |positions: &[usize]| {
            positions
                .iter()
                .map(|at| self.columns.field(*at).name().clone())
                .collect()
        };
        Ok(TableEntry {
            schema: self.schema.clone(),
            name: self.name.clone(),
            kind: self.kind,
            view: self.view.clone(),
            operator: self.operator.clone(),
            columns,
            key: names(&self.key),
            identity: names(&self.identity),
            multiset: self.multiset,
            rows: None,
            bytes: 0,
            buckets: Vec::new(),
        })
    }
}

impl TableEntry {
    /// Whether parts of another entry can stand among this one's: same columns, same identity.
    pub(super) fn continues(&self, older: &TableEntry) -> bool {
        let same = |a: &[ColumnEntry], b: &[ColumnEntry]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.field() == b.field())
        };
        same(&self.columns, &older.columns)
            && (&self.key, &self.identity, self.multiset) == (&older.key, &older.identity, older.multiset)
    }
}
