//! Models: the slow and obvious way to each answer, from all rows of the input every time.
//!
//! Shared by the tests of kernels (inside the crate) and of the engine (outside it).
#![allow(dead_code)] // either side uses its part

#[path = "models/aggregate.rs"]
pub mod aggregate;
#[path = "models/join.rs"]
pub mod join;
#[path = "models/top_n.rs"]
pub mod top_n;
#[path = "models/view.rs"]
pub mod view;

use crate::rows::Cell;
use arrow::compute::SortOptions;
use std::cmp::Ordering;

/// SQL's order of values that are not NULL: `-0.0` equals `0.0`, NaN is greatest.
pub fn compare_values(a: &Cell, b: &Cell) -> Ordering {
    match (a.double(), b.double()) {
        (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())),
        _ => a.cmp(b),
    }
}

/// SQL's order of values, NULLs where the options put them.
pub fn compare_cells(a: &Cell, b: &Cell, options: SortOptions) -> Ordering {
    match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) if options.nulls_first => Ordering::Less,
        (true, false) => Ordering::Greater,
        (false, true) => compare_cells(b, a, options).reverse(),
        _ if options.descending => compare_values(b, a),
        _ => compare_values(a, b),
    }
}
