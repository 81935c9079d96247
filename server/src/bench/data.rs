//! Rows that look random and are the same in every run.

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_statestore::Result;
use std::ops::Range;
use std::sync::Arc;

/// Rows of a ready-made batch where nothing else is asked for: what DataFusion and the file readers make.
pub const BATCH_ROWS: usize = 8192;

/// A column's value in the row of that number.
pub type Column = fn(u64, &Shape) -> i64;

/// What columns are made from.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of different keys.
    pub keys: u64,
}

/// A number that looks random; different numbers give different ones (the finaliser of splitmix64).
pub fn scramble(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The key of a group: any BIGINT, so that nothing gains from keys that follow each other.
pub fn key_of_group(group: u64) -> i64 {
    scramble(group) as i64
}

/// A key out of all, at random.
pub fn random_key(row: u64, shape: &Shape) -> i64 {
    key_of_group(scramble(row ^ 0x5bd1_e995) % shape.keys)
}

/// The key of the group of that number: each once.
pub fn key_in_turn(row: u64, shape: &Shape) -> i64 {
    key_of_group(row % shape.keys)
}

/// An amount from 0 to 9,999.
pub fn amount(row: u64, _: &Shape) -> i64 {
    (scramble(!row) % 10_000) as i64
}

/// Columns of BIGINT.
pub fn schema(names: &[&str]) -> SchemaRef {
    let fields: Vec<Field> = names
        .iter()
        .map(|name| Field::new(*name, DataType::Int64, true))
        .collect();
    Arc::new(Schema::new(fields))
}

/// What a table's rows are.
#[derive(Clone)]
pub struct Generator {
    /// Its columns, all BIGINT.
    pub schema: SchemaRef,
    /// How each of them is made.
    pub columns: Vec<Column>,
    /// What they are made from.
    pub shape: Shape,
}

impl Generator {
    /// Rows by number, as one batch.
    pub fn batch(&self, rows: Range<u64>) -> Result<RecordBatch> {
        let column = |column: &Column| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(
                rows.clone().map(|row| column(row, &self.shape)),
            ))
        };
        let columns = self.columns.iter().map(column).collect();
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// Rows by number, in batches of at most `size`, made when they are asked for.
    pub fn batches(&self, rows: Range<u64>, size: usize) -> impl Iterator<Item = Result<RecordBatch>> + Send + use<> {
        let (generator, end) = (self.clone(), rows.end);
        let starts = rows.step_by(size.max(1));
        starts.map(move |start| generator.batch(start..end.min(start + size.max(1) as u64)))
    }
}
