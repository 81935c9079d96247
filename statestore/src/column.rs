//! Growable typed columns addressed by slot: the memory layout of all keyed state.
//!
//! # Owns
//! Values of one column in slots that are written, read and cleared in any order, with a null bitmap,
//! and the conversion from and to Arrow arrays. Fixed-width values lie in one vector; texts and binaries
//! of up to 12 bytes lie inline in a 16-byte view, longer ones in an arena that is compacted when more
//! than half of it is dead (the layout of Umbra's and Arrow's string views).
//!
//! # Rules kept here
//! Equality is equality of bits: a float comes back with the bits it was written with. Where SQL compares
//! `-0.0` and NaN otherwise, the planner normalises keys before they get here.
//!
//! # Not here
//! Which slots are live ([`crate::RowStore`]) and how they are found ([`crate::KeyIndex`]).

mod append;
mod read;

pub use read::Stored;

use crate::forms::json;
use crate::forms::list::{self, ListBytes};
use crate::forms::uuid::{UUID, UUID_BYTES};
use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryBuilder, BooleanArray, FixedSizeBinaryArray, StringBuilder, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use std::sync::Arc;

/// Whether a column of this Arrow type can be kept in state.
pub fn storable(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Boolean
            | Int16
            | Int32
            | Int64
            | UInt64
            | Float32
            | Float64
            | Decimal128(_, _)
            | Date32
            | Time64(TimeUnit::Microsecond)
            | Timestamp(TimeUnit::Microsecond, _)
            | Interval(IntervalUnit::MonthDayNano)
            | Utf8
            | Binary
    ) || *data_type == UUID
        || json::name_of(data_type).is_some()
        || list::is_kept_as_bytes(data_type)
}

/// One growable column.
#[derive(Debug)]
pub struct Column {
    data_type: DataType,
    values: Values,
    nulls: Bitmap,
}

#[derive(Debug)]
enum Values {
    Byte(Vec<u8>),
    Short(Vec<i16>),
    Int(Vec<i32>),
    Long(Vec<i64>),
    Wide(Vec<i128>),
    Bytes(ByteValues),
    /// Lists and structs, as bytes.
    Lists(ByteValues, Box<ListBytes>),
}

/// Bits that are set for NULL slots; no memory until the first NULL.
#[derive(Debug, Default)]
struct Bitmap {
    words: Vec<u64>,
    set: usize,
}

impl Bitmap {
    #[inline(always)]
    fn get(&self, slot: u32) -> bool {
        self.set > 0
            && self
                .words
                .get(slot as usize / 64)
                .is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    #[inline]
    fn assign(&mut self, slot: u32, null: bool) {
        if self.get(slot) == null {
            return;
        }
        let word = slot as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] ^= 1 << (slot % 64);
        self.set = if null { self.set + 1 } else { self.set - 1 };
    }
}

/// Views of 16 bytes (length, then 12 bytes inline, or 4 bytes of prefix and an arena offset).
#[derive(Debug, Default)]
struct ByteValues {
    views: Vec<[u8; 16]>,
    arena: Vec<u8>,
    dead: usize,
}

const INLINE: usize = 12;

impl ByteValues {
    #[inline]
    fn get(&self, slot: u32) -> &[u8] {
        let view = &self.views[slot as usize];
        let length = u32::from_le_bytes([view[0], view[1], view[2], view[3]]) as usize;
        if length <= INLINE {
            return &view[4..4 + length];
        }
        let offset = u64::from_le_bytes(view[8..16].try_into().expect("eight bytes")) as usize;
        &self.arena[offset..offset + length]
    }

    fn set(&mut self, slot: u32, value: &[u8]) {
        self.forget(slot);
        self.views[slot as usize] = self.keep(value);
    }

    /// The view of a value, whose bytes are in the arena where they do not fit into it.
    fn keep(&mut self, value: &[u8]) -> [u8; 16] {
        let mut view = [0u8; 16];
        view[..4].copy_from_slice(&(value.len() as u32).to_le_bytes());
        if value.len() <= INLINE {
            view[4..4 + value.len()].copy_from_slice(value);
        } else {
            view[4..8].copy_from_slice(&value[..4]);
            view[8..].copy_from_slice(&(self.arena.len() as u64).to_le_bytes());
            self.arena.extend_from_slice(value);
        }
        view
    }

    fn forget(&mut self, slot: u32) {
        let view = &self.views[slot as usize];
        let length = u32::from_le_bytes([view[0], view[1], view[2], view[3]]) as usize;
        if length > INLINE {
            self.dead += length;
            self.views[slot as usize] = [0; 16];
            if self.dead > 1 << 16 && self.dead * 2 > self.arena.len() {
                self.compact();
            }
        }
    }

    fn compact(&mut self) {
        let mut arena = Vec::with_capacity(self.arena.len() - self.dead);
        for slot in 0..self.views.len() as u32 {
            let value = self.get(slot);
            if value.len() > INLINE {
                let offset = (arena.len() as u64).to_le_bytes();
                arena.extend_from_slice(value);
                self.views[slot as usize][8..].copy_from_slice(&offset);
            }
        }
        self.arena = arena;
        self.dead = 0;
    }
}

/// A batch's column, borrowed and typed once per batch so that the work per row is a read of a slice.
pub(crate) struct ArrayView<'a> {
    values: ViewValues<'a>,
    nulls: Option<&'a NullBuffer>,
}

enum ViewValues<'a> {
    Bool(&'a BooleanArray),
    Short(&'a [i16]),
    Int(&'a [i32]),
    Long(&'a [i64]),
    Wide(&'a [i128]),
    OwnedWide(Vec<i128>),
    Text(&'a arrow::array::StringArray),
    Binary(&'a arrow::array::BinaryArray),
    OwnedBinary(arrow::array::BinaryArray),
}

impl<'a> ArrayView<'a> {
    pub(crate) fn new(array: &'a ArrayRef) -> ArrayView<'a> {
        use DataType::*;
        let values = match array.data_type() {
            Boolean => ViewValues::Bool(array.as_boolean()),
            Int16 => ViewValues::Short(array.as_primitive::<Int16Type>().values()),
            Int32 => ViewValues::Int(array.as_primitive::<Int32Type>().values()),
            Date32 => ViewValues::Int(array.as_primitive::<Date32Type>().values()),
            Float32 => ViewValues::Int(array.as_primitive::<Float32Type>().values().inner().typed_data()),
            Int64 => ViewValues::Long(array.as_primitive::<Int64Type>().values()),
            UInt64 => ViewValues::Long(array.as_primitive::<UInt64Type>().values().inner().typed_data()),
            Float64 => ViewValues::Long(array.as_primitive::<Float64Type>().values().inner().typed_data()),
            Time64(TimeUnit::Microsecond) => ViewValues::Long(array.as_primitive::<Time64MicrosecondType>().values()),
            Timestamp(TimeUnit::Microsecond, _) => {
                ViewValues::Long(array.as_primitive::<TimestampMicrosecondType>().values())
            }
            Decimal128(_, _) => ViewValues::Wide(array.as_primitive::<Decimal128Type>().values()),
            Interval(IntervalUnit::MonthDayNano) => ViewValues::OwnedWide(
                array
                    .as_primitive::<IntervalMonthDayNanoType>()
                    .values()
                    .iter()
                    .map(|v| interval_bits(*v))
                    .collect(),
            ),
            FixedSizeBinary(_) if *array.data_type() == UUID => ViewValues::OwnedWide(
                array
                    .as_fixed_size_binary()
                    .iter()
                    .map(|value| value.map_or(0, uuid_bits))
                    .collect(),
            ),
            Struct(_) if json::name_of(array.data_type()).is_some() => {
                ViewValues::Text(array.as_struct().column(0).as_string::<i32>())
            }
            Utf8 => ViewValues::Text(array.as_string::<i32>()),
            List(_) | Struct(_) if list::is_kept_as_bytes(array.data_type()) => {
                ViewValues::OwnedBinary(ListBytes::new(array.data_type()).encode(array))
            }
            Binary => ViewValues::Binary(array.as_binary::<i32>()),
            other => panic!("a column of type {other} reached the store without being planned for it"),
        };
        ArrayView {
            values,
            nulls: array.nulls().filter(|nulls| nulls.null_count() > 0),
        }
    }

    #[inline(always)]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    /// Whether two rows of the batch have the same value; NULL equals NULL.
    #[inline(always)]
    pub(crate) fn equal_rows(&self, a: usize, b: usize) -> bool {
        if self.is_null(a) || self.is_null(b) {
            return self.is_null(a) && self.is_null(b);
        }
        match &self.values {
            ViewValues::Bool(values) => values.value(a) == values.value(b),
            ViewValues::Short(values) => values[a] == values[b],
            ViewValues::Int(values) => values[a] == values[b],
            ViewValues::Long(values) => values[a] == values[b],
            ViewValues::Wide(values) => values[a] == values[b],
            ViewValues::OwnedWide(values) => values[a] == values[b],
            ViewValues::Text(_) | ViewValues::Binary(_) | ViewValues::OwnedBinary(_) => self.bytes(a) == self.bytes(b),
        }
    }

    #[inline(always)]
    fn bytes(&self, row: usize) -> &[u8] {
        match &self.values {
            ViewValues::Text(values) => values.value(row).as_bytes(),
            ViewValues::Binary(values) => values.value(row),
            ViewValues::OwnedBinary(values) => values.value(row),
            _ => unreachable!("a fixed-width column has no bytes"),
        }
    }
}

fn interval_bits(value: arrow::datatypes::IntervalMonthDayNano) -> i128 {
    (value.nanoseconds as i128) << 64 | (value.days as u32 as i128) << 32 | value.months as u32 as i128
}

fn uuid_bits(value: &[u8]) -> i128 {
    value.first_chunk().map_or(0, |bytes| i128::from_be_bytes(*bytes))
}

fn interval_value(bits: i128) -> arrow::datatypes::IntervalMonthDayNano {
    arrow::datatypes::IntervalMonthDayNano::new(bits as u32 as i32, (bits >> 32) as u32 as i32, (bits >> 64) as i64)
}

impl Column {
    /// An empty column.
    ///
    /// # Panics
    /// If the type is not [`storable`] (callers check types when they plan).
    pub fn new(data_type: &DataType) -> Column {
        use DataType::*;
        let values = match data_type {
            Boolean => Values::Byte(Vec::new()),
            Int16 => Values::Short(Vec::new()),
            Int32 | Date32 | Float32 => Values::Int(Vec::new()),
            Int64 | UInt64 | Float64 | Time64(_) | Timestamp(_, _) => Values::Long(Vec::new()),
            Decimal128(_, _) | Interval(_) => Values::Wide(Vec::new()),
            uuid if *uuid == UUID => Values::Wide(Vec::new()),
            Utf8 | Binary => Values::Bytes(ByteValues::default()),
            Struct(_) if json::name_of(data_type).is_some() => Values::Bytes(ByteValues::default()),
            List(_) | Struct(_) if list::is_kept_as_bytes(data_type) => {
                Values::Lists(ByteValues::default(), Box::new(ListBytes::new(data_type)))
            }
            other => panic!("a column of type {other} reached the store without being planned for it"),
        };
        Column {
            data_type: data_type.clone(),
            values,
            nulls: Bitmap::default(),
        }
    }

    /// The Arrow type of the column.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Slots there is room for.
    #[inline]
    pub(crate) fn slots(&self) -> usize {
        match &self.values {
            Values::Byte(values) => values.len(),
            Values::Short(values) => values.len(),
            Values::Int(values) => values.len(),
            Values::Long(values) => values.len(),
            Values::Wide(values) => values.len(),
            Values::Bytes(values) | Values::Lists(values, _) => values.views.len(),
        }
    }

    /// Makes room for `slots` slots; new ones hold zero values.
    pub fn grow(&mut self, slots: usize) {
        match &mut self.values {
            Values::Byte(values) => values.resize(slots, 0),
            Values::Short(values) => values.resize(slots, 0),
            Values::Int(values) => values.resize(slots, 0),
            Values::Long(values) => values.resize(slots, 0),
            Values::Wide(values) => values.resize(slots, 0),
            Values::Bytes(values) | Values::Lists(values, _) => values.views.resize(slots, [0; 16]),
        }
    }

    /// Reads something of a slot, so that it is in the cache by the time that more is read of it. Any number is a slot here.
    #[inline]
    pub(crate) fn touch(&self, slot: u32) -> u64 {
        let slot = slot as usize;
        match &self.values {
            Values::Byte(values) => values.get(slot).map_or(0, |value| u64::from(*value)),
            Values::Short(values) => values.get(slot).map_or(0, |value| *value as u64),
            Values::Int(values) => values.get(slot).map_or(0, |value| *value as u64),
            Values::Long(values) => values.get(slot).map_or(0, |value| *value as u64),
            Values::Wide(values) => values.get(slot).map_or(0, |value| *value as u64),
            Values::Bytes(values) | Values::Lists(values, _) => {
                values.views.get(slot).map_or(0, |view| u64::from(view[0]))
            }
        }
    }

    /// Writes `array[rows[i]]` to `slots[i]` for each `i`.
    ///
    /// # Panics
    /// If the lengths differ, or the array's type is not the column's.
    pub fn write(&mut self, slots: &[u32], array: &ArrayRef, rows: &[u32]) {
        assert_eq!(slots.len(), rows.len());
        let view = ArrayView::new(array);
        let pairs = || {
            slots
                .iter()
                .zip(rows)
                .map(|(slot, row)| (*slot as usize, *row as usize))
        };
        match (&mut self.values, &view.values) {
            (Values::Byte(values), ViewValues::Bool(given)) => {
                pairs().for_each(|(slot, row)| values[slot] = given.value(row) as u8);
            }
            (Values::Short(values), ViewValues::Short(given)) => {
                pairs().for_each(|(slot, row)| values[slot] = given[row])
            }
            (Values::Int(values), ViewValues::Int(given)) => pairs().for_each(|(slot, row)| values[slot] = given[row]),
            (Values::Long(values), ViewValues::Long(given)) => {
                pairs().for_each(|(slot, row)| values[slot] = given[row])
            }
            (Values::Wide(values), ViewValues::Wide(given)) => {
                pairs().for_each(|(slot, row)| values[slot] = given[row])
            }
            (Values::Wide(values), ViewValues::OwnedWide(given)) => {
                pairs().for_each(|(slot, row)| values[slot] = given[row]);
            }
            (Values::Bytes(values), ViewValues::Text(_) | ViewValues::Binary(_))
            | (Values::Lists(values, _), ViewValues::OwnedBinary(_)) => {
                for (slot, row) in pairs() {
                    let value = if view.is_null(row) { &[] } else { view.bytes(row) };
                    values.set(slot as u32, value);
                }
            }
            _ => panic!(
                "a column of type {} was written with {}",
                self.data_type,
                array.data_type()
            ),
        }
        if view.nulls.is_some() || self.nulls.set > 0 {
            pairs().for_each(|(slot, row)| self.nulls.assign(slot as u32, view.is_null(row)));
        }
    }

    /// Writes one value; for keys that are inserted one at a time.
    #[inline]
    pub(crate) fn write_one(&mut self, slot: u32, view: &ArrayView<'_>, row: usize) {
        let index = slot as usize;
        match (&mut self.values, &view.values) {
            (Values::Byte(values), ViewValues::Bool(given)) => values[index] = given.value(row) as u8,
            (Values::Short(values), ViewValues::Short(given)) => values[index] = given[row],
            (Values::Int(values), ViewValues::Int(given)) => values[index] = given[row],
            (Values::Long(values), ViewValues::Long(given)) => values[index] = given[row],
            (Values::Wide(values), ViewValues::Wide(given)) => values[index] = given[row],
            (Values::Wide(values), ViewValues::OwnedWide(given)) => values[index] = given[row],
            (Values::Bytes(values) | Values::Lists(values, _), _) => {
                values.set(slot, if view.is_null(row) { &[] } else { view.bytes(row) })
            }
            _ => panic!("a column of type {} was written with another type", self.data_type),
        }
        self.nulls.assign(slot, view.is_null(row));
    }

    /// Whether the slot holds the same value as the row; NULL equals NULL.
    #[inline(always)]
    pub(crate) fn equals(&self, slot: u32, view: &ArrayView<'_>, row: usize) -> bool {
        let null = self.nulls.get(slot);
        if null != view.is_null(row) {
            return false;
        }
        if null {
            return true;
        }
        let index = slot as usize;
        match (&self.values, &view.values) {
            (Values::Long(values), ViewValues::Long(given)) => values[index] == given[row],
            (Values::Int(values), ViewValues::Int(given)) => values[index] == given[row],
            (Values::Bytes(values) | Values::Lists(values, _), _) => values.get(slot) == view.bytes(row),
            (Values::Wide(values), ViewValues::Wide(given)) => values[index] == given[row],
            (Values::Wide(values), ViewValues::OwnedWide(given)) => values[index] == given[row],
            (Values::Short(values), ViewValues::Short(given)) => values[index] == given[row],
            (Values::Byte(values), ViewValues::Bool(given)) => values[index] == given.value(row) as u8,
            _ => false,
        }
    }

    /// Reads the slots, in order, into an Arrow array.
    pub fn gather(&self, slots: &[u32]) -> ArrayRef {
        let nulls = (self.nulls.set > 0)
            .then(|| NullBuffer::new(BooleanBuffer::collect_bool(slots.len(), |i| !self.nulls.get(slots[i]))))
            .filter(|nulls| nulls.null_count() > 0);
        let buffer = match &self.values {
            Values::Byte(values) => {
                let bits = BooleanBuffer::collect_bool(slots.len(), |i| values[slots[i] as usize] != 0);
                return Arc::new(BooleanArray::new(bits, nulls));
            }
            Values::Bytes(values) => return self.gather_bytes(values, slots, nulls.as_ref()),
            Values::Lists(values, lists) => return self.gather_lists(values, lists, slots),
            Values::Wide(values) if matches!(self.data_type, DataType::Interval(_)) => {
                let array: arrow::array::PrimitiveArray<IntervalMonthDayNanoType> = arrow::array::PrimitiveArray::new(
                    slots
                        .iter()
                        .map(|slot| interval_value(values[*slot as usize]))
                        .collect::<Vec<_>>()
                        .into(),
                    nulls,
                );
                return Arc::new(array);
            }
            Values::Wide(values) if self.data_type == UUID => {
                let bytes: Vec<u8> = slots
                    .iter()
                    .flat_map(|slot| values[*slot as usize].to_be_bytes())
                    .collect();
                return Arc::new(FixedSizeBinaryArray::new(UUID_BYTES as i32, bytes.into(), nulls));
            }
            Values::Short(values) => gathered(values, slots),
            Values::Int(values) => gathered(values, slots),
            Values::Long(values) => gathered(values, slots),
            Values::Wide(values) => gathered(values, slots),
        };
        let data = ArrayData::builder(self.data_type.clone())
            .len(slots.len())
            .add_buffer(buffer)
            .nulls(nulls);
        make_array(data.build().expect("buffer length and type agree"))
    }

    fn gather_bytes(&self, values: &ByteValues, slots: &[u32], nulls: Option<&NullBuffer>) -> ArrayRef {
        let bytes: usize = slots.iter().map(|slot| values.get(*slot).len()).sum();
        if self.data_type == DataType::Binary {
            let mut builder = BinaryBuilder::with_capacity(slots.len(), bytes);
            for (i, slot) in slots.iter().enumerate() {
                builder.append_option((!nulls.is_some_and(|nulls| nulls.is_null(i))).then(|| values.get(*slot)));
            }
            return Arc::new(builder.finish());
        }
        let mut builder = StringBuilder::with_capacity(slots.len(), bytes);
        for (i, slot) in slots.iter().enumerate() {
            let text = (!nulls.is_some_and(|nulls| nulls.is_null(i)))
                .then(|| std::str::from_utf8(values.get(*slot)).expect("written from a valid text"));
            builder.append_option(text);
        }
        match self.data_type {
            DataType::Struct(_) => json::column_of(builder.finish(), &self.data_type),
            _ => Arc::new(builder.finish()),
        }
    }

    fn gather_lists(&self, values: &ByteValues, lists: &ListBytes, slots: &[u32]) -> ArrayRef {
        let null = lists.null(&self.data_type);
        let bytes = slots.iter().map(|slot| match self.nulls.get(*slot) {
            true => null.as_slice(),
            false => values.get(*slot),
        });
        lists.decode(bytes, &self.data_type)
    }

    /// The numbers of a column of 64 bits and those of an array, where neither has a NULL.
    #[inline]
    pub(crate) fn longs<'a>(&'a self, view: &'a ArrayView<'_>) -> Option<(&'a [i64], &'a [i64])> {
        match (&self.values, &view.values) {
            (Values::Long(values), ViewValues::Long(given)) if self.nulls.set == 0 && view.nulls.is_none() => {
                Some((values, given))
            }
            _ => None,
        }
    }

    /// Copies values of another column of the same type: slot `from[i]` there to slot `to[i]` here.
    pub(crate) fn copy(&mut self, other: &Column, from: &[u32], to: &[u32]) {
        fn copied<T: Copy>(values: &mut [T], given: &[T], from: &[u32], to: &[u32]) {
            from.iter()
                .zip(to)
                .for_each(|(from, to)| values[*to as usize] = given[*from as usize]);
        }
        match (&mut self.values, &other.values) {
            (Values::Byte(values), Values::Byte(given)) => copied(values, given, from, to),
            (Values::Short(values), Values::Short(given)) => copied(values, given, from, to),
            (Values::Int(values), Values::Int(given)) => copied(values, given, from, to),
            (Values::Long(values), Values::Long(given)) => copied(values, given, from, to),
            (Values::Wide(values), Values::Wide(given)) => copied(values, given, from, to),
            (Values::Bytes(values), Values::Bytes(given)) | (Values::Lists(values, _), Values::Lists(given, _)) => {
                from.iter()
                    .zip(to)
                    .for_each(|(from, to)| values.set(*to, given.get(*from)));
            }
            _ => panic!(
                "a column of type {} was copied from one of another type",
                self.data_type
            ),
        }
        if other.nulls.set > 0 || self.nulls.set > 0 {
            from.iter()
                .zip(to)
                .for_each(|(from, to)| self.nulls.assign(*to, other.nulls.get(*from)));
        }
    }

    /// Forgets a slot's value so that its memory can be reused.
    pub fn clear(&mut self, slot: u32) {
        if let Values::Bytes(values) | Values::Lists(values, _) = &mut self.values {
            values.forget(slot);
        }
        self.nulls.assign(slot, false);
    }

    /// Bytes of memory held, spare capacity included.
    pub fn memory_bytes(&self) -> usize {
        let values = match &self.values {
            Values::Byte(values) => values.capacity(),
            Values::Short(values) => values.capacity() * 2,
            Values::Int(values) => values.capacity() * 4,
            Values::Long(values) => values.capacity() * 8,
            Values::Wide(values) => values.capacity() * 16,
            Values::Bytes(values) | Values::Lists(values, _) => values.views.capacity() * 16 + values.arena.capacity(),
        };
        values + self.nulls.words.capacity() * 8
    }

    /// As [`Column::memory_bytes`], after what is nearly full has grown.
    pub(crate) fn memory_bytes_grown(&self) -> usize {
        let values = match &self.values {
            Values::Byte(values) => grown(values),
            Values::Short(values) => grown(values),
            Values::Int(values) => grown(values),
            Values::Long(values) => grown(values),
            Values::Wide(values) => grown(values),
            Values::Bytes(values) | Values::Lists(values, _) => grown(&values.views) + grown(&values.arena),
        };
        values + self.nulls.words.capacity() * 8
    }
}

/// The bytes of a vector, which doubles when it is full: already those that it will have then if it is nearly full.
fn grown<T>(values: &Vec<T>) -> usize {
    let bytes = values.capacity() * size_of::<T>();
    match values.len() >= values.capacity() / 8 * 7 {
        true => bytes * 2,
        false => bytes,
    }
}

fn gathered<T: arrow::datatypes::ArrowNativeType>(values: &[T], slots: &[u32]) -> Buffer {
    Buffer::from_vec(slots.iter().map(|slot| values[*slot as usize]).collect::<Vec<T>>())
}

#[cfg(test)]
mod tests;
