//! Multisets of values per group, ordered: what MIN, MAX, DISTINCT, ARRAY_AGG and STRING_AGG need to follow deletions.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BooleanBuilder, Decimal128Array, FixedSizeBinaryArray, Float32Array,
    Float64Array, Int64Array, StringBuilder, UInt64Array,
};
use arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type, UInt64Type};
use cenote_statestore::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// A value in a form whose order is SQL's: numbers as wide integers, floats by total order with `-0.0` as `0.0`
/// and one NaN above all, texts and binaries as bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value {
    /// Anything of fixed width.
    Fixed(i128),
    /// Text or binary; an element, whose bytes have its order.
    Bytes(Box<[u8]>),
}

impl Value {
    /// The bytes of what is kept as bytes; none of what is not.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            Value::Fixed(_) => &[],
        }
    }
}

fn float_order(value: f64) -> i128 {
    let canonical = if value.is_nan() { f64::NAN } else { value + 0.0 };
    let bits = canonical.to_bits() as i64;
    (bits ^ (((bits >> 63) as u64) >> 1) as i64) as i128
}

fn float_of(order: i128) -> f64 {
    let bits = order as i64;
    f64::from_bits((bits ^ (((bits >> 63) as u64) >> 1) as i64) as u64)
}

/// The values of a column that are not NULL, in [`Value`] form.
pub(super) fn values_of(array: &ArrayRef) -> Result<Vec<Option<Value>>> {
    let rows = 0..array.len();
    let present = |row: &usize| !array.is_null(*row);
    Ok(match array.data_type() {
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            rows.map(|row| present(&row).then(|| Value::Bytes(texts.value(row).as_bytes().into())))
                .collect()
        }
        DataType::Binary => {
            let bytes = array.as_binary::<i32>();
            rows.map(|row| present(&row).then(|| Value::Bytes(bytes.value(row).into())))
                .collect()
        }
        DataType::Float64 => {
            let floats = array.as_primitive::<Float64Type>();
            rows.map(|row| present(&row).then(|| Value::Fixed(float_order(floats.value(row)))))
                .collect()
        }
        DataType::Float32 => {
            let floats = array.as_primitive::<Float32Type>();
            rows.map(|row| present(&row).then(|| Value::Fixed(float_order(floats.value(row) as f64))))
                .collect()
        }
        DataType::Decimal128(_, _) => {
            let wide = array.as_primitive::<Decimal128Type>();
            rows.map(|row| present(&row).then(|| Value::Fixed(wide.value(row))))
                .collect()
        }
        DataType::FixedSizeBinary(_) => {
            let uuids = array.as_fixed_size_binary();
            rows.map(|row| present(&row).then(|| Value::Bytes(uuids.value(row).into())))
                .collect()
        }
        DataType::UInt64 => {
            let longs = array.as_primitive::<UInt64Type>();
            rows.map(|row| present(&row).then(|| Value::Fixed(longs.value(row) as i128)))
                .collect()
        }
        DataType::Boolean => {
            let bools = array.as_boolean();
            rows.map(|row| present(&row).then(|| Value::Fixed(bools.value(row) as i128)))
                .collect()
        }
        _ => {
            let longs = to_longs(array)?;
            rows.map(|row| present(&row).then(|| Value::Fixed(longs.value(row) as i128)))
                .collect()
        }
    })
}

fn to_longs(array: &ArrayRef) -> Result<Int64Array> {
    let via = match array.data_type() {
        DataType::Date32 => arrow::compute::cast(array, &DataType::Int32)?,
        _ => array.clone(),
    };
    Ok(arrow::compute::cast(&via, &DataType::Int64)?
        .as_primitive::<arrow::datatypes::Int64Type>()
        .clone())
}

/// The way back: an array of the type.
pub(super) fn array_of(values: &[Option<Value>], data_type: &DataType) -> Result<ArrayRef> {
    let fixed = || values.iter().map(|value| fixed_of(value.as_ref()));
    Ok(match data_type {
        DataType::Utf8 => {
            let mut builder = StringBuilder::new();
            for value in values {
                builder
                    .append_option(bytes_of(value.as_ref()).map(|b| std::str::from_utf8(b).expect("kept as a text")));
            }
            Arc::new(builder.finish())
        }
        DataType::Binary => {
            let mut builder = BinaryBuilder::new();
            values
                .iter()
                .for_each(|value| builder.append_option(bytes_of(value.as_ref())));
            Arc::new(builder.finish())
        }
        DataType::FixedSizeBinary(size) => {
            let bytes = values.iter().map(|value| bytes_of(value.as_ref()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, *size)?)
        }
        DataType::Float64 => Arc::new(fixed().map(|value| value.map(float_of)).collect::<Float64Array>()),
        DataType::Float32 => Arc::new(fixed().map(|v| v.map(|v| float_of(v) as f32)).collect::<Float32Array>()),
        DataType::Decimal128(precision, scale) => Arc::new(
            fixed()
                .collect::<Decimal128Array>()
                .with_precision_and_scale(*precision, *scale)?,
        ),
        DataType::UInt64 => Arc::new(
            fixed()
                .map(|value| value.map(|value| value as u64))
                .collect::<UInt64Array>(),
        ),
        DataType::Boolean => {
            let mut builder = BooleanBuilder::new();
            fixed().for_each(|value| builder.append_option(value.map(|value| value != 0)));
            Arc::new(builder.finish())
        }
        other => {
            let longs: ArrayRef = Arc::new(
                fixed()
                    .map(|value| value.map(|value| value as i64))
                    .collect::<Int64Array>(),
            );
            let via = if *other == DataType::Date32 {
                arrow::compute::cast(&longs, &DataType::Int32)?
            } else {
                longs
            };
            arrow::compute::cast(&via, other)?
        }
    })
}

fn fixed_of(value: Option<&Value>) -> Option<i128> {
    match value {
        Some(Value::Fixed(fixed)) => Some(*fixed),
        _ => None,
    }
}

fn bytes_of(value: Option<&Value>) -> Option<&[u8]> {
    match value {
        Some(Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// How often each value stands in each group.
#[derive(Debug, Default)]
pub(super) struct ValueCounts {
    counts: BTreeMap<(u32, Value), i64>,
    bytes: usize,
    /// Values whose count has changed, where that is noted.
    changed: Option<BTreeSet<(u32, Value)>>,
}

impl ValueCounts {
    /// Adds `weight` to a value's count.
    ///
    /// # Returns
    /// +1 if the value is new in its group, -1 if it left it, else 0.
    ///
    /// # Errors
    /// `Bug`: more were taken away than there were.
    pub(super) fn add(&mut self, group: u32, value: Value, weight: i64) -> Result<i64> {
        use std::collections::btree_map::Entry;
        if let Some(changed) = self.changed.as_mut().filter(|_| weight != 0) {
            changed.insert((group, value.clone()));
        }
        match self.counts.entry((group, value)) {
            Entry::Vacant(_) if weight == 0 => Ok(0),
            Entry::Vacant(entry) if weight > 0 => {
                self.bytes += entry_bytes(&entry.key().1);
                entry.insert(weight);
                Ok(1)
            }
            Entry::Occupied(mut entry) if *entry.get() + weight > 0 => {
                *entry.get_mut() += weight;
                Ok(0)
            }
            Entry::Occupied(entry) if *entry.get() + weight == 0 => {
                self.bytes -= entry_bytes(&entry.key().1);
                entry.remove();
                Ok(-1)
            }
            _ => Err(Error::bug(
                "an aggregate was told to forget a value that it does not hold",
            )),
        }
    }

    /// The least or the greatest value of a group.
    pub(super) fn extreme(&self, group: u32, greatest: bool) -> Option<Value> {
        let least = (group, Value::Fixed(i128::MIN));
        let bounds = match group.checked_add(1) {
            Some(next) => (Bound::Included(least), Bound::Excluded((next, Value::Fixed(i128::MIN)))),
            None => (Bound::Included(least), Bound::Unbounded),
        };
        let mut range = self.counts.range(bounds);
        let found = if greatest { range.next_back() } else { range.next() };
        found.map(|((_, value), _)| value.clone())
    }

    /// Notes from here on which counts change.
    pub(super) fn note_changes(&mut self) {
        self.changed = Some(BTreeSet::new());
    }

    /// Takes the values whose counts have changed, with the counts; `None`: it is not noted.
    pub(super) fn take_changed(&mut self) -> Option<Vec<(u32, Value, i64)>> {
        let changed = std::mem::take(self.changed.as_mut()?);
        let counted = changed.into_iter().map(|(group, value)| {
            let entry = (group, value);
            let count = self.counts.get(&entry).copied().unwrap_or(0);
            (entry.0, entry.1, count)
        });
        Some(counted.collect())
    }

    /// Takes those of a group that goes.
    pub(super) fn take_changed_of(&mut self, group: u32) -> Vec<Value> {
        let Some(changed) = &mut self.changed else {
            return Vec::new();
        };
        let from = (group, Value::Fixed(i128::MIN));
        let of_group = changed.range(from..).take_while(|(of, _)| *of == group);
        let of_group: Vec<(u32, Value)> = of_group.cloned().collect();
        for entry in &of_group {
            changed.remove(entry);
        }
        of_group.into_iter().map(|(_, value)| value).collect()
    }

    /// All entries: group, value, count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Value, i64)> {
        self.counts
            .iter()
            .map(|((group, value), count)| (*group, value, *count))
    }

    /// The entries of one group.
    pub(super) fn of_group(&self, group: u32) -> impl Iterator<Item = (u32, &Value, i64)> {
        let from = (group, Value::Fixed(i128::MIN));
        self.counts
            .range(from..)
            .take_while(move |((g, _), _)| *g == group)
            .map(|((g, v), count)| (*g, v, *count))
    }

    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes
    }
}

/// An entry of the tree with its share of the nodes.
fn entry_bytes(value: &Value) -> usize {
    72 + match value {
        Value::Fixed(_) => 0,
        Value::Bytes(bytes) => bytes.len() + 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_order_as_in_sql_and_come_back() {
        let floats = [
            f64::NEG_INFINITY,
            -1.5,
            -0.0,
            0.0,
            f64::MIN_POSITIVE,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ];
        let orders: Vec<i128> = floats.iter().map(|float| float_order(*float)).collect();
        assert!(orders.windows(2).all(|pair| pair[0] <= pair[1]), "{orders:?}");
        assert_eq!(orders[2], orders[3]);
        assert!(float_of(orders[7]).is_nan());
        assert_eq!(float_of(orders[1]), -1.5);
    }

    #[test]
    fn extremes_follow_deletions_within_their_group() {
        let mut counts = ValueCounts::default();
        for (group, value, weight) in [(1, 5, 2), (1, 3, 1), (2, 1, 1), (0, 9, 1)] {
            counts.add(group, Value::Fixed(value), weight).unwrap();
        }
        assert_eq!(counts.extreme(1, false), Some(Value::Fixed(3)));
        assert_eq!(counts.add(1, Value::Fixed(3), -1).unwrap(), -1);
        assert_eq!(counts.extreme(1, false), Some(Value::Fixed(5)));
        assert_eq!(counts.add(1, Value::Fixed(5), -1).unwrap(), 0);
        assert!(counts.add(1, Value::Fixed(7), -1).is_err());
        assert_eq!(counts.extreme(3, true), None);
    }
}
