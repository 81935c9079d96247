//! Values that come in whole arrays, into slots behind all others: one copy of memory where they lie as Arrow has them.
//!
//! # Not here
//! Which slots they are, and that nothing lies behind them ([`crate::RowStore`]).

use super::{ArrayView, ByteValues, Column, Values, ViewValues};
use arrow::array::{Array, ArrayRef};

impl Column {
    /// Makes room for values to be appended, so that nothing is moved while they come.
    ///
    /// # Arguments
    /// - `first`: the first slot that they will be in.
    pub(crate) fn reserve(&mut self, first: usize, count: usize) {
        let slots = first + count;
        match &mut self.values {
            Values::Byte(values) => make_room(values, slots),
            Values::Short(values) => make_room(values, slots),
            Values::Int(values) => make_room(values, slots),
            Values::Long(values) => make_room(values, slots),
            Values::Wide(values) => make_room(values, slots),
            Values::Bytes(values) | Values::Lists(values, _) => make_room(&mut values.views, slots),
        }
    }

    /// Writes an array into the slots from `first` on. There is room for no more slots then.
    ///
    /// # Arguments
    /// - `first`: behind the last slot that was ever in use.
    ///
    /// # Panics
    /// If the array's type is not the column's.
    pub(crate) fn append(&mut self, first: usize, array: &ArrayRef) {
        let view = ArrayView::new(array);
        match (&mut self.values, &view.values) {
            (Values::Byte(values), ViewValues::Bool(given)) => {
                values.truncate(first);
                values.extend(given.values().iter().map(u8::from));
            }
            (Values::Short(values), ViewValues::Short(given)) => put_behind(values, first, given),
            (Values::Int(values), ViewValues::Int(given)) => put_behind(values, first, given),
            (Values::Long(values), ViewValues::Long(given)) => put_behind(values, first, given),
            (Values::Wide(values), ViewValues::Wide(given)) => put_behind(values, first, given),
            (Values::Wide(values), ViewValues::OwnedWide(given)) => put_behind(values, first, given),
            (Values::Bytes(values), ViewValues::Text(_) | ViewValues::Binary(_))
            | (Values::Lists(values, _), ViewValues::OwnedBinary(_)) => values.append(first, &view, array.len()),
            _ => panic!("a column of type {} was given {}", self.data_type, array.data_type()),
        }
        if let Some(nulls) = view.nulls {
            let rows = (0..array.len()).filter(|row| nulls.is_null(*row));
            rows.for_each(|row| self.nulls.assign((first + row) as u32, true));
        }
    }

    /// Whether two slots hold the same value; NULL equals NULL.
    #[inline]
    pub(crate) fn same(&self, a: u32, b: u32) -> bool {
        self.stored(a) == self.stored(b)
    }
}

impl ByteValues {
    fn append(&mut self, first: usize, given: &ArrayView<'_>, count: usize) {
        self.views.truncate(first);
        for row in 0..count {
            let value = if given.is_null(row) { &[] } else { given.bytes(row) };
            let view = self.keep(value);
            self.views.push(view);
        }
    }
}

fn make_room<T>(values: &mut Vec<T>, slots: usize) {
    values.reserve_exact(slots.saturating_sub(values.len()));
}

/// Slots behind `first` are not in use yet: what lies there is nothing.
fn put_behind<T: Copy>(values: &mut Vec<T>, first: usize, given: &[T]) {
    values.truncate(first);
    values.extend_from_slice(given);
}
