//! What the figures are made of.

use super::*;
use crate::bench::clock::percentile_us;
use crate::bench::data::{self, Generator, Shape};
use std::collections::HashSet;
use std::time::Duration;

#[test]
fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
    assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    assert!(median([].into_iter()).is_nan());
}

#[test]
fn percentiles_are_durations_that_were_measured() {
    let sorted: Vec<Duration> = (1..=100).map(Duration::from_micros).collect();
    assert_eq!(percentile_us(&sorted, 0.5), 51.0);
    assert_eq!(percentile_us(&sorted, 0.99), 100.0);
    assert_eq!(percentile_us(&sorted[..1], 0.99), 1.0);
}

#[test]
fn batches_hold_the_same_rows_whatever_their_size() {
    let generator = Generator {
        schema: data::schema(&["k", "v"]),
        columns: vec![data::random_key, data::amount],
        shape: Shape { keys: 10 },
    };
    let whole = generator.batch(0..1000).unwrap();
    let parts: Vec<_> = generator.batches(0..1000, 64).collect::<Result<_>>().unwrap();
    assert_eq!(
        arrow::compute::concat_batches(&generator.schema, &parts).unwrap(),
        whole
    );
}

#[test]
fn as_many_keys_come_as_are_asked_for() {
    let shape = Shape { keys: 100 };
    let keys = |of: data::Column| (0..5000).map(|row| of(row, &shape)).collect::<HashSet<_>>().len();
    assert_eq!(keys(data::random_key), 100);
    assert_eq!(keys(data::key_in_turn), 100);
}
