//! Reads of a column that copy as little as they can: one cell where it lies, a run of slots in one piece.

use super::{Column, Values};
use crate::forms::uuid::UUID;
use arrow::array::{ArrayData, ArrayRef, make_array};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{ArrowNativeType, DataType};
use std::ops::Range;

/// A value as it lies in its column; what its bits mean is for the column's type to say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stored<'a> {
    /// NULL.
    Null,
    /// A boolean, 0 or 1.
    Byte(u8),
    /// 16 bits.
    Short(i16),
    /// 32 bits: integers, dates, floats.
    Int(i32),
    /// 64 bits: integers, times, floats.
    Long(i64),
    /// 128 bits: decimals, intervals, UUIDs.
    Wide(i128),
    /// Texts, byte strings, and the encoded forms of lists and structs.
    Bytes(&'a [u8]),
}

impl Column {
    /// The value of a slot.
    #[inline]
    pub fn stored(&self, slot: u32) -> Stored<'_> {
        if self.nulls.get(slot) {
            return Stored::Null;
        }
        let index = slot as usize;
        match &self.values {
            Values::Byte(values) => Stored::Byte(values[index]),
            Values::Short(values) => Stored::Short(values[index]),
            Values::Int(values) => Stored::Int(values[index]),
            Values::Long(values) => Stored::Long(values[index]),
            Values::Wide(values) => Stored::Wide(values[index]),
            Values::Bytes(values) | Values::Lists(values, _) => Stored::Bytes(values.get(slot)),
        }
    }

    /// Reads neighbouring slots into an Arrow array: one copy of memory where the values lie as Arrow has them.
    pub fn gather_run(&self, slots: Range<u32>) -> ArrayRef {
        let range = slots.start as usize..slots.end as usize;
        let buffer = match &self.values {
            Values::Short(values) => copied(&values[range.clone()]),
            Values::Int(values) => copied(&values[range.clone()]),
            Values::Long(values) => copied(&values[range.clone()]),
            Values::Wide(values) if !matches!(self.data_type, DataType::Interval(_)) && self.data_type != UUID => {
                copied(&values[range.clone()])
            }
            _ => return self.gather(&slots.collect::<Vec<u32>>()),
        };
        let nulls = (self.nulls.set > 0)
            .then(|| BooleanBuffer::collect_bool(range.len(), |i| !self.nulls.get(slots.start + i as u32)))
            .map(NullBuffer::new)
            .filter(|nulls| nulls.null_count() > 0);
        let data = ArrayData::builder(self.data_type.clone())
            .len(range.len())
            .add_buffer(buffer)
            .nulls(nulls);
        make_array(data.build().expect("buffer length and type agree"))
    }
}

fn copied<T: ArrowNativeType>(values: &[T]) -> Buffer {
    Buffer::from_vec(values.to_vec())
}
