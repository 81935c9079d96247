//! Columnar hashing of rows: one pass per column, no allocation per row.
//!
//! The hash is a fixed function of the values, the same on every machine and in every run: it decides
//! on which worker a row lives, so it must never depend on CPU features or a random seed. Floats hash
//! as PostgreSQL compares them: `-0.0` as `0.0`, every NaN alike. NULL hashes as a value of its own.

use crate::forms::json;
use crate::forms::list::{self, ListBytes};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use xxhash_rust::xxh3::xxh3_64;

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const OTHER_SEED: u64 = 0xc2b2_ae3d_27d4_eb4f;
const NULL: u64 = 0x6b79_d0a1_44f1_7d3b;

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128).wrapping_mul(b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

#[inline(always)]
fn mix(hash: u64, value: u64) -> u64 {
    fold(
        hash ^ value.wrapping_mul(0xd6e8_feb8_6659_fd93),
        0xa076_1d64_78bd_642f ^ hash.rotate_left(29),
    )
}

#[inline(always)]
pub(crate) fn float_bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    }
}

fn each<T>(hashes: &mut [u64], array: &dyn Array, values: &[T], bits: impl Fn(&T) -> u64) {
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => hashes
            .iter_mut()
            .zip(values)
            .for_each(|(hash, value)| *hash = mix(*hash, bits(value))),
        Some(nulls) => {
            for (row, (hash, value)) in hashes.iter_mut().zip(values).enumerate() {
                *hash = mix(*hash, if nulls.is_null(row) { NULL } else { bits(value) });
            }
        }
    }
}

fn each_bytes<'a>(hashes: &mut [u64], values: impl Iterator<Item = Option<&'a [u8]>>) {
    for (hash, value) in hashes.iter_mut().zip(values) {
        *hash = mix(*hash, value.map_or(NULL, xxh3_64));
    }
}

/// Hashes the rows of `columns` from left to right.
///
/// # Arguments
/// - `columns`: arrays of `rows` values each, of types that `storable` accepts.
///
/// # Returns
/// One hash per row. With no columns every row has the same hash.
///
/// # Panics
/// If a column's type is not storable (callers check types when they plan).
pub fn hash_rows(columns: &[ArrayRef], rows: usize) -> Vec<u64> {
    hashes_from(SEED, columns, rows)
}

/// Hashes that have nothing to do with those of [`hash_rows`]: two rows that differ and agree in both are not to be expected.
///
/// # Panics
/// As [`hash_rows`].
pub fn other_hashes(columns: &[ArrayRef], rows: usize) -> Vec<u64> {
    hashes_from(OTHER_SEED, columns, rows)
}

fn hashes_from(seed: u64, columns: &[ArrayRef], rows: usize) -> Vec<u64> {
    let mut hashes = vec![seed; rows];
    for column in columns {
        hash_column(&mut hashes, column);
    }
    hashes
}

fn hash_column(hashes: &mut [u64], column: &ArrayRef) {
    let array = column.as_ref();
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean();
            for (row, hash) in hashes.iter_mut().enumerate() {
                *hash = mix(
                    *hash,
                    if values.is_null(row) {
                        NULL
                    } else {
                        values.value(row) as u64
                    },
                );
            }
        }
        DataType::Int8 => each(hashes, array, array.as_primitive::<Int8Type>().values(), |v| {
            *v as i64 as u64
        }),
        DataType::Int16 => each(hashes, array, array.as_primitive::<Int16Type>().values(), |v| {
            *v as i64 as u64
        }),
        DataType::Int32 => each(hashes, array, array.as_primitive::<Int32Type>().values(), |v| {
            *v as i64 as u64
        }),
        DataType::Int64 => each(hashes, array, array.as_primitive::<Int64Type>().values(), |v| *v as u64),
        DataType::UInt64 => each(hashes, array, array.as_primitive::<UInt64Type>().values(), |v| *v),
        DataType::Float32 => {
            each(hashes, array, array.as_primitive::<Float32Type>().values(), |v| {
                float_bits(*v as f64)
            });
        }
        DataType::Float64 => each(hashes, array, array.as_primitive::<Float64Type>().values(), |v| {
            float_bits(*v)
        }),
        DataType::Decimal128(_, _) => {
            each(hashes, array, array.as_primitive::<Decimal128Type>().values(), |v| {
                fold(*v as u64 ^ SEED, (*v >> 64) as u64 ^ NULL)
            });
        }
        DataType::Date32 => each(hashes, array, array.as_primitive::<Date32Type>().values(), |v| {
            *v as i64 as u64
        }),
        DataType::Time64(TimeUnit::Microsecond) => {
            each(
                hashes,
                array,
                array.as_primitive::<Time64MicrosecondType>().values(),
                |v| *v as u64,
            );
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            each(
                hashes,
                array,
                array.as_primitive::<TimestampMicrosecondType>().values(),
                |v| *v as u64,
            );
        }
        DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano) => {
            each(
                hashes,
                array,
                array.as_primitive::<IntervalMonthDayNanoType>().values(),
                |v| {
                    fold(
                        v.months as u64 ^ SEED,
                        fold(v.days as u64 ^ NULL, v.nanoseconds as u64 ^ SEED),
                    )
                },
            );
        }
        DataType::Utf8 => each_bytes(hashes, array.as_string::<i32>().iter().map(|v| v.map(str::as_bytes))),
        DataType::Struct(_) if json::name_of(array.data_type()).is_some() => {
            let texts = json::texts_of(column);
            each_bytes(hashes, texts.iter().map(|text| text.map(str::as_bytes)));
        }
        DataType::List(_) | DataType::Struct(_) if list::is_kept_as_bytes(array.data_type()) => {
            let bytes = ListBytes::new(array.data_type()).encode(column);
            let valid = |row: usize| column.is_valid(row).then(|| bytes.value(row));
            each_bytes(hashes, (0..column.len()).map(valid));
        }
        DataType::LargeUtf8 => each_bytes(hashes, array.as_string::<i64>().iter().map(|v| v.map(str::as_bytes))),
        DataType::Utf8View => each_bytes(hashes, array.as_string_view().iter().map(|v| v.map(str::as_bytes))),
        DataType::Binary => each_bytes(hashes, array.as_binary::<i32>().iter()),
        DataType::FixedSizeBinary(_) => each_bytes(hashes, array.as_fixed_size_binary().iter()),
        DataType::Null => hashes.iter_mut().for_each(|hash| *hash = mix(*hash, NULL)),
        other => panic!("a column of type {other} reached the store without being planned for it"),
    }
}

/// Maps a hash to one of `shards` by multiply-shift on its high bits.
///
/// # Panics
/// Never; `shards` of 0 gives 0.
#[inline(always)]
pub fn shard_of(hash: u64, shards: usize) -> usize {
    ((hash as u128 * shards as u128) >> 64) as usize
}

/// Key groups a distribution key is hashed into: the unit of distribution, restore and rescale.
pub const KEY_GROUPS: usize = 256;

/// The key group of a hash, `0..256`.
pub fn key_group(hash: u64) -> u8 {
    shard_of(hash, KEY_GROUPS) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Float64Array, Int64Array, StringArray};
    use std::sync::Arc;

    #[test]
    fn equal_floats_hash_alike_and_nulls_differ_from_zero() {
        let column: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(0.0),
            Some(-0.0),
            None,
            Some(f64::NAN),
            Some(-f64::NAN),
        ]));
        let hashes = hash_rows(&[column], 5);
        assert_eq!(hashes[0], hashes[1]);
        assert_ne!(hashes[0], hashes[2]);
        assert_eq!(hashes[3], hashes[4]);
    }

    #[test]
    fn hash_is_the_same_in_every_build() {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let names: ArrayRef = Arc::new(StringArray::from(vec!["ann", "bob", ""]));
        assert_eq!(hash_rows(&[keys, names], 3), GOLDEN);
    }

    const GOLDEN: [u64; 3] = [5566899425309978184, 14177830175251881239, 6348850810148441146];

    #[test]
    fn sequential_keys_spread_over_shards() {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10_000));
        let mut counts = [0usize; 4];
        for hash in hash_rows(&[keys], 10_000) {
            counts[shard_of(hash, 4)] += 1;
        }
        assert!(counts.iter().all(|count| (2300..2700).contains(count)), "{counts:?}");
    }
}
