//! Rows in tests: cells that models can compare and sort, batches of them, bags of them, and seeded randomness.
//!
//! Shared by the tests of kernels (inside the crate) and of the engine (outside it).
#![allow(dead_code)] // either side uses its part

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int64Array,
    RecordBatch, StringArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Float32Type, Float64Type, Int64Type, Schema, SchemaRef, UInt64Type,
};
use cenote_statestore::{Changes, Weights};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A value: whole numbers, decimals, dates, timestamps and booleans as their integer; floats by the bits of the double.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cell {
    Null,
    Number(i128),
    Float(u64),
    Bytes(Vec<u8>),
}

pub type Row = Vec<Cell>;

/// A multiset of rows; a change of one, where counts are negative.
pub type Bag = BTreeMap<Row, i64>;

impl Cell {
    pub fn text(text: &str) -> Cell {
        Cell::Bytes(text.as_bytes().to_vec())
    }

    pub fn float(value: f64) -> Cell {
        Cell::Float(value.to_bits())
    }

    /// As a list of these stands in a row.
    pub fn list(cells: &[Cell]) -> Cell {
        Cell::Bytes(format!("{cells:?}").into())
    }

    pub fn is_null(&self) -> bool {
        *self == Cell::Null
    }

    pub fn number(&self) -> Option<i128> {
        match self {
            Cell::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub fn double(&self) -> Option<f64> {
        match self {
            Cell::Float(bits) => Some(f64::from_bits(*bits)),
            _ => None,
        }
    }
}

/// A schema of nullable columns.
pub fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(
        columns
            .iter()
            .map(|(name, kind)| Field::new(*name, kind.clone(), true))
            .collect::<Vec<_>>(),
    ))
}

/// The cells of an array.
fn cells(array: &ArrayRef) -> Vec<Cell> {
    let each = |cell: &dyn Fn(usize) -> Cell| -> Vec<Cell> {
        (0..array.len())
            .map(|row| if array.is_null(row) { Cell::Null } else { cell(row) })
            .collect()
    };
    match array.data_type() {
        DataType::Utf8 => each(&|row| Cell::text(array.as_string::<i32>().value(row))),
        DataType::Binary => each(&|row| Cell::Bytes(array.as_binary::<i32>().value(row).to_vec())),
        DataType::Float64 => each(&|row| Cell::float(array.as_primitive::<Float64Type>().value(row))),
        DataType::Float32 => each(&|row| Cell::float(array.as_primitive::<Float32Type>().value(row) as f64)),
        DataType::Decimal128(_, _) => each(&|row| Cell::Number(array.as_primitive::<Decimal128Type>().value(row))),
        DataType::UInt64 => each(&|row| Cell::Number(array.as_primitive::<UInt64Type>().value(row) as i128)),
        DataType::Boolean => each(&|row| Cell::Number(array.as_boolean().value(row) as i128)),
        // Nothing but equality is asked of lists.
        DataType::List(_) => {
            each(&|row| Cell::Bytes(format!("{:?}", cells(&array.as_list::<i32>().value(row))).into()))
        }
        other => {
            let via = if *other == DataType::Date32 {
                cast(array, &DataType::Int32).unwrap()
            } else {
                array.clone()
            };
            let longs = cast(&via, &DataType::Int64).unwrap();
            each(&|row| Cell::Number(longs.as_primitive::<Int64Type>().value(row) as i128))
        }
    }
}

/// An array of cells.
pub fn array<'a>(kind: &DataType, cells: impl Iterator<Item = &'a Cell>) -> ArrayRef {
    let cells: Vec<&Cell> = cells.collect();
    let numbers = || cells.iter().map(|cell| cell.number());
    let bytes = || {
        cells.iter().map(|cell| {
            if let Cell::Bytes(bytes) = cell {
                Some(bytes.as_slice())
            } else {
                None
            }
        })
    };
    match kind {
        DataType::Utf8 => Arc::new(
            bytes()
                .map(|bytes| bytes.map(|bytes| std::str::from_utf8(bytes).unwrap()))
                .collect::<StringArray>(),
        ),
        DataType::Binary => Arc::new(bytes().collect::<BinaryArray>()),
        DataType::Float64 => Arc::new(cells.iter().map(|cell| cell.double()).collect::<Float64Array>()),
        DataType::Float32 => Arc::new(
            cells
                .iter()
                .map(|cell| cell.double().map(|value| value as f32))
                .collect::<Float32Array>(),
        ),
        DataType::Decimal128(precision, scale) => Arc::new(
            numbers()
                .collect::<Decimal128Array>()
                .with_precision_and_scale(*precision, *scale)
                .unwrap(),
        ),
        DataType::UInt64 => Arc::new(
            numbers()
                .map(|number| number.map(|n| n as u64))
                .collect::<UInt64Array>(),
        ),
        DataType::Boolean => Arc::new(numbers().map(|number| number.map(|n| n != 0)).collect::<BooleanArray>()),
        other => {
            let longs: ArrayRef = Arc::new(numbers().map(|number| number.map(|n| n as i64)).collect::<Int64Array>());
            let via = if *other == DataType::Date32 {
                cast(&longs, &DataType::Int32).unwrap()
            } else {
                longs
            };
            cast(&via, other).unwrap()
        }
    }
}

/// The rows of a batch, in order.
pub fn rows(batch: &RecordBatch) -> Vec<Row> {
    let mut columns: Vec<_> = batch.columns().iter().map(|column| cells(column).into_iter()).collect();
    (0..batch.num_rows())
        .map(|_| columns.iter_mut().map(|column| column.next().unwrap()).collect())
        .collect()
}

/// A batch of rows.
pub fn batch<'a>(schema: &SchemaRef, rows: impl IntoIterator<Item = &'a Row>) -> RecordBatch {
    let rows: Vec<&Row> = rows.into_iter().collect();
    let columns = schema.fields().iter().enumerate();
    let columns = columns.map(|(column, field)| array(field.data_type(), rows.iter().map(|row| &row[column])));
    Changes::batch(schema.clone(), columns.collect(), rows.len()).unwrap()
}

/// Changes; weights that are all alike are given as such.
pub fn changes(schema: &SchemaRef, given: &[(Row, i64)]) -> Changes {
    let weights: Vec<i64> = given.iter().map(|(_, weight)| *weight).collect();
    let alike = weights
        .first()
        .copied()
        .filter(|first| weights.iter().all(|weight| weight == first));
    let weights = alike.map_or(Weights::Each(weights), Weights::All);
    Changes::new(batch(schema, given.iter().map(|(row, _)| row)), weights)
}

/// Adds `weight` of a row; rows that count zero times are not kept.
pub fn add(bag: &mut Bag, row: &Row, weight: i64) {
    let count = bag.entry(row.clone()).or_insert(0);
    *count += weight;
    if *count == 0 {
        bag.remove(row);
    }
}

/// Adds all changes.
pub fn add_changes(bag: &mut Bag, changes: &Changes) {
    for (row, cells) in rows(changes.rows()).iter().enumerate() {
        add(bag, cells, changes.weights().get(row));
    }
}

/// The rows of batches, counted.
pub fn bag(batches: &[RecordBatch]) -> Bag {
    let mut bag = Bag::new();
    batches.iter().flat_map(rows).for_each(|row| add(&mut bag, &row, 1));
    bag
}

/// Each row as often as it counts.
pub fn repeated(bag: &Bag) -> impl Iterator<Item = &Row> {
    bag.iter()
        .flat_map(|(row, count)| std::iter::repeat_n(row, *count as usize))
}

/// SplitMix64: small, seeded, good enough to choose test data.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Once in `n` times true.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for end in (1..values.len()).rev() {
            values.swap(end, self.below(end + 1));
        }
    }
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Runs a test with seeds `1..=count`; a failure names its seed.
///
/// The variable `CENOTE_TEST_SEED` chooses one seed, `CENOTE_TEST_SEEDS` another count.
pub fn with_seeds(count: u64, test: impl Fn(u64)) {
    let count = number_of("CENOTE_TEST_SEEDS").unwrap_or(count);
    for seed in number_of("CENOTE_TEST_SEED").map_or(1..=count, |seed| seed..=seed) {
        let _named = Named(seed);
        test(seed);
    }
}

struct Named(u64);

impl Drop for Named {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let thread = std::thread::current();
            let test = thread.name().unwrap_or_default().to_owned();
            let seed = self.0;
            eprintln!("seed {seed}; again: CENOTE_TEST_SEED={seed} cargo test --release -p cenote-engine {test}");
        }
    }
}

/// A collection that changes at random, and what it holds.
pub struct Churn {
    pub held: Bag,
}

impl Churn {
    pub fn new() -> Churn {
        Churn { held: Bag::new() }
    }

    /// The changes of one epoch: insertions (several times at once, too), deletions and updates.
    ///
    /// Either deletions name rows that were there before the epoch and stand in any order, as changes come from other
    /// operators; or they name rows that are there at that moment, rows of this epoch included.
    pub fn epoch(&mut self, random: &mut Random, make: &mut dyn FnMut(&mut Random) -> Row) -> Vec<(Row, i64)> {
        let any_order = random.one_in(2);
        let mut deletable = self.held.clone();
        let mut made = Vec::new();
        for _ in 0..random.below(12) {
            let insert = random.below(5) < 2 || deletable.is_empty();
            if !insert {
                let (row, count) = deletable.iter().nth(random.below(deletable.len())).unwrap();
                let (row, weight) = (row.clone(), -(1 + random.below(*count as usize) as i64));
                add(&mut deletable, &row, weight);
                made.push((row, weight));
            }
            if insert || random.one_in(2) {
                let (row, weight) = (
                    make(random),
                    if random.one_in(4) {
                        1 + random.below(3) as i64
                    } else {
                        1
                    },
                );
                if !any_order {
                    add(&mut deletable, &row, weight);
                }
                made.push((row, weight));
            }
        }
        if any_order {
            random.shuffle(&mut made);
        }
        made.iter().for_each(|(row, weight)| add(&mut self.held, row, *weight));
        made
    }

    /// Deletes everything.
    pub fn clear(&mut self) -> Vec<(Row, i64)> {
        std::mem::take(&mut self.held)
            .into_iter()
            .map(|(row, count)| (row, -count))
            .collect()
    }
}

/// Cuts changes anywhere into batches.
pub fn cut(random: &mut Random, schema: &SchemaRef, mut given: Vec<(Row, i64)>) -> Vec<Changes> {
    let mut parts = Vec::new();
    while !given.is_empty() {
        let rest = given.split_off(1 + random.below(given.len()));
        parts.push(changes(schema, &given));
        given = rest;
    }
    parts
}
