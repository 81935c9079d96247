//! The fields of a column of STRUCT while its rows are read: columns inside a column.

use crate::column::Column;
use crate::fault::{Fault, FaultKind, Parsed, Refusal};
use arrow::array::{ArrayRef, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Fields;
use cenote_statestore::Result;
use cenote_statestore::forms::record;
use std::sync::Arc;

/// The fields of all rows.
pub(crate) struct Members {
    fields: Fields,
    columns: Vec<Column>,
    /// Which fields have a value in the open row, and whether it came under the field's very name.
    filled: Vec<Option<bool>>,
    len: usize,
}

impl Members {
    /// No rows yet of column `name`.
    ///
    /// # Errors
    /// `Unsupported`: no format reads a field's type.
    pub(crate) fn new(name: &str, fields: &Fields, stored: bool) -> Result<Members> {
        let column = |field: &arrow::datatypes::FieldRef| {
            let named = field.as_ref().clone().with_name(format!("{name}.{}", field.name()));
            Column::new(&named, stored)
        };
        Ok(Members {
            fields: fields.clone(),
            columns: fields.iter().map(column).collect::<Result<_>>()?,
            filled: vec![None; fields.len()],
            len: 0,
        })
    }

    /// Appends NULL for a whole.
    ///
    /// # Errors
    /// None: fields can be NULL.
    pub(crate) fn push_null(&mut self) -> Parsed<()> {
        self.filled.fill(None);
        self.end_last()
    }

    /// Which field a name means: the one of that very name, else the first that differs in case only.
    pub(crate) fn position(&self, name: &[u8]) -> Option<(usize, bool)> {
        let names = self.fields.iter().map(|field| field.name().as_bytes());
        let exact = names.clone().position(|known| known == name);
        let folded = || names.clone().position(|known| known.eq_ignore_ascii_case(name));
        let exact = exact.map(|index| (index, true));
        exact.or_else(|| folded().map(|index| (index, false)))
    }

    /// The names of the fields.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|field| field.name().as_str())
    }

    /// Appends a field's value, which `push` appends to the column it is given, at the row it is given; the last of
    /// several counts. `None` is returned where a value that is there comes before it.
    pub(crate) fn member(&mut self, index: usize, exact: bool) -> Option<(&mut Column, usize)> {
        if self.filled[index] == Some(true) && !exact {
            return None;
        }
        let column = &mut self.columns[index];
        if self.filled[index].is_some() {
            column.truncate(self.len);
        }
        self.filled[index] = Some(exact);
        Some((column, self.len))
    }

    /// Closes a row: fields without a value are NULL.
    pub(crate) fn end_last(&mut self) -> Parsed<()> {
        for (column, filled) in self.columns.iter_mut().zip(&mut self.filled) {
            if filled.take().is_none() {
                column.push_null(self.len)?;
            }
        }
        self.len += 1;
        Ok(())
    }

    /// Takes back the fields of a row that is not closed.
    pub(crate) fn back(&mut self) {
        self.truncate(self.len);
    }

    /// Appends the row that a literal stands for, such as `(1,"a b",)`.
    ///
    /// # Errors
    /// The literal or a field is not of the form; nothing was appended.
    pub(crate) fn read(&mut self, text: &[u8]) -> Result<(), Refusal> {
        let read = self.try_read(text);
        if read.is_err() {
            self.back();
        }
        read
    }

    fn try_read(&mut self, text: &[u8]) -> Result<(), Refusal> {
        let text = std::str::from_utf8(text).map_err(|_| Refusal::Syntax)?;
        let items = record::items(text).map_err(|_| Refusal::Syntax)?;
        if items.len() != self.columns.len() {
            return Err(Refusal::Syntax);
        }
        self.filled.fill(None);
        for (index, item) in items.iter().enumerate() {
            if let Some(text) = item {
                self.columns[index].try_text(text.as_bytes())?;
                self.filled[index] = Some(true);
            }
        }
        self.end_last().map_err(|_| Refusal::Syntax)
    }

    /// Forgets all rows from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.len = self.len.min(rows);
        self.filled.fill(None);
        self.columns.iter_mut().for_each(|column| column.truncate(rows));
    }

    /// The structs of all rows; none are left.
    ///
    /// # Errors
    /// `Bug`: see [`Column::finish`].
    pub(crate) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let len = std::mem::take(&mut self.len);
        let columns = self.columns.iter_mut().map(|column| column.finish(len));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        self.truncate(0);
        Ok(Arc::new(StructArray::try_new_with_length(
            self.fields.clone(),
            columns,
            nulls,
            len,
        )?))
    }
}

/// The fault of a name that is no field's.
pub(crate) fn unknown<'a>(column: &str, name: &str, names: impl Iterator<Item = &'a str>) -> Box<Fault> {
    let hint = match crate::rows::nearest(name, names) {
        Some(near) => format!("; the nearest field is `{near}`"),
        None => String::new(),
    };
    let reason = format!("field `{column}.{name}`: there is no such field{hint}");
    Fault::new(FaultKind::Unknown, reason)
}
