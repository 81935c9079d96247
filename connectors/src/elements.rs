//! The elements of a column of arrays while its rows are read: a column inside a column.

use crate::column::Column;
use crate::fault::{Parsed, Refusal};
use arrow::array::{ArrayRef, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::FieldRef;
use cenote_statestore::Result;
use cenote_statestore::forms::list;
use std::sync::Arc;

/// The elements of all rows, one after the other.
pub(crate) struct Elements {
    item: FieldRef,
    column: Box<Column>,
    /// Where each row's elements end.
    ends: Vec<i32>,
    /// Elements appended, those of the open row included.
    len: usize,
}

impl Elements {
    /// No elements yet of the arrays of column `name`.
    ///
    /// # Errors
    /// `Unsupported`: no format reads the elements' type.
    pub(crate) fn new(name: &str, item: &FieldRef, stored: bool) -> Result<Elements> {
        let field = item.as_ref().clone().with_name(name);
        Ok(Elements {
            item: item.clone(),
            column: Box::new(Column::new(&field, stored)?),
            ends: Vec::new(),
            len: 0,
        })
    }

    /// Appends an element that `push` appends to the column it is given, at the row it is given.
    ///
    /// # Errors
    /// Those of `push`, which leaves the column as it was then.
    pub(crate) fn push(&mut self, push: impl FnOnce(&mut Column, usize) -> Parsed<()>) -> Parsed<()> {
        push(&mut self.column, self.len)?;
        self.len += 1;
        Ok(())
    }

    /// Closes the array of a row.
    pub(crate) fn end_last(&mut self) {
        self.ends.push(self.len as i32);
    }

    /// Takes back the elements of a row that is not closed.
    pub(crate) fn back(&mut self) {
        self.len = self.ends.last().map_or(0, |end| *end as usize);
        self.column.truncate(self.len);
    }

    /// Appends the array that a literal stands for, such as `{1,2,NULL}`.
    ///
    /// # Errors
    /// The literal or an element is not of the form; nothing was appended.
    pub(crate) fn read(&mut self, text: &[u8]) -> Result<(), Refusal> {
        let read = self.try_read(text);
        match read {
            Ok(()) => self.end_last(),
            Err(_) => self.back(),
        }
        read
    }

    fn try_read(&mut self, text: &[u8]) -> Result<(), Refusal> {
        let text = std::str::from_utf8(text).map_err(|_| Refusal::Syntax)?;
        let items = list::items(text).ok_or(Refusal::Syntax)?;
        for item in items {
            match item.text {
                _ if item.is_nested => return Err(Refusal::Syntax),
                Some(text) => self.column.try_text(text.as_bytes())?,
                None => self.column.push_null(self.len).map_err(|_| Refusal::Syntax)?,
            }
            self.len += 1;
        }
        Ok(())
    }

    /// Forgets all rows from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.back();
    }

    /// The arrays of all rows; none are left.
    ///
    /// # Errors
    /// `Bug`: see [`Column::finish`].
    pub(crate) fn finish(&mut self, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let elements = self.column.finish(self.len)?;
        self.len = 0;
        self.column.truncate(0);
        let mut offsets = Vec::with_capacity(self.ends.len() + 1);
        offsets.push(0);
        offsets.append(&mut self.ends);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(Arc::new(ListArray::try_new(
            self.item.clone(),
            offsets,
            elements,
            nulls,
        )?))
    }
}
