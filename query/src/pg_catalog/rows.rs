//! Puts a system table together: one line per column.

use crate::pgtype::TYPE_KEY;
use arrow::array::{ArrayRef, BooleanArray, Float32Array, Int16Array, Int32Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Int16Type, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;

/// The columns made so far of a table with a row for each of `rows`.
pub(super) struct Table<'a, T> {
    rows: &'a [T],
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl<'a, T> Table<'a, T> {
    pub(super) fn of(rows: &'a [T]) -> Table<'a, T> {
        Table {
            rows,
            fields: Vec::new(),
            arrays: Vec::new(),
        }
    }

    fn column(mut self, name: &str, pg_type: Option<&str>, array: ArrayRef) -> Self {
        let metadata: HashMap<_, _> = pg_type
            .map(|pg_type| (TYPE_KEY.to_string(), pg_type.to_string()))
            .into_iter()
            .collect();
        let field = Field::new(name, array.data_type().clone(), true).with_metadata(metadata);
        self.fields.push(field);
        self.arrays.push(array);
        self
    }

    fn texts<S: AsRef<str>>(&self, value: impl Fn(&'a T) -> Option<S>) -> ArrayRef {
        Arc::new(self.rows.iter().map(value).collect::<StringArray>())
    }

    /// A column of type `oid`.
    pub(super) fn oid(self, name: &str, value: impl Fn(&'a T) -> i32) -> Self {
        let array = Int32Array::from_iter_values(self.rows.iter().map(value));
        self.column(name, Some("oid"), Arc::new(array))
    }

    /// A column of type `name`.
    pub(super) fn name<S: AsRef<str>>(self, name: &str, value: impl Fn(&'a T) -> S) -> Self {
        let array = self.texts(|row| Some(value(row)));
        self.column(name, Some("name"), array)
    }

    /// A column of type `text`.
    pub(super) fn text<S: AsRef<str>>(self, name: &str, value: impl Fn(&'a T) -> Option<S>) -> Self {
        let array = self.texts(value);
        self.column(name, None, array)
    }

    /// A column of one letter.
    pub(super) fn letter(self, name: &str, value: impl Fn(&'a T) -> char) -> Self {
        let array = self.texts(|row| Some(value(row).to_string()));
        self.column(name, Some("char"), array)
    }

    pub(super) fn boolean(self, name: &str, value: impl Fn(&'a T) -> bool) -> Self {
        let array: BooleanArray = self.rows.iter().map(|row| Some(value(row))).collect();
        self.column(name, None, Arc::new(array))
    }

    pub(super) fn small(self, name: &str, value: impl Fn(&'a T) -> i16) -> Self {
        let array = Int16Array::from_iter_values(self.rows.iter().map(value));
        self.column(name, None, Arc::new(array))
    }

    pub(super) fn integer(self, name: &str, value: impl Fn(&'a T) -> i32) -> Self {
        let array = Int32Array::from_iter_values(self.rows.iter().map(value));
        self.column(name, None, Arc::new(array))
    }

    pub(super) fn real(self, name: &str, value: impl Fn(&'a T) -> f32) -> Self {
        let array = Float32Array::from_iter_values(self.rows.iter().map(value));
        self.column(name, None, Arc::new(array))
    }

    /// A column of lists of column numbers.
    pub(super) fn smalls(self, name: &str, value: impl Fn(&'a T) -> Option<Vec<i16>>) -> Self {
        let lists = self
            .rows
            .iter()
            .map(|row| value(row).map(|list| list.into_iter().map(Some)));
        let array = ListArray::from_iter_primitive::<Int16Type, _, _>(lists);
        self.column(name, None, Arc::new(array))
    }

    /// A column of type `text` that is NULL in every row.
    pub(super) fn null(self, name: &str) -> Self {
        self.text(name, |_| None::<&str>)
    }

    /// A column of lists of texts (such as access privileges) that is NULL in every row.
    pub(super) fn null_list(self, name: &str) -> Self {
        let item = Arc::new(Field::new("item", DataType::Utf8, true));
        let array = arrow::array::new_null_array(&DataType::List(item), self.rows.len());
        self.column(name, None, array)
    }

    pub(super) fn finish(self) -> (SchemaRef, Vec<RecordBatch>) {
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(schema.clone(), self.arrays);
        (schema, vec![batch.expect("each column has a value for each row")])
    }
}
