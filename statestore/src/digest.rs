//! A digest of a multiset of rows: equal contents give equal digests, whatever the order, the batches or the history.
//!
//! The digest is the sum, modulo 2^128, of weight times hash over all rows. Addition does not care for order, so
//! digests of parts can be taken on different workers and merged; a row that was inserted and deleted adds nothing.
//! It is what "two runs give the same state" is judged by.
//!
//! # Rules kept here
//! 1. **By value.** A row's hash is XXH3-128 of its canonical bytes (`row`): how Arrow lays a value out
//!    (`Utf8` or `Utf8View`, dictionary or plain, sliced or whole) does not matter; its type and value do.
//! 2. **For ever.** Canonical bytes and hash are fixed: a digest printed by one release can be compared with
//!    another's.
//!
//! # Not here
//! Protection against an adversary: rows with equal digests can be made on purpose. Names of columns.
//!
//! # Source
//! The additive multiset hash "MSet-Add-Hash" of Clarke et al., "Incremental Multiset Hash Functions and Their
//! Application to Memory Integrity Checking", ASIACRYPT 2003, with a fast hash in place of a cryptographic one.

use arrow::record_batch::RecordBatch;
use xxhash_rust::xxh3::xxh3_128;

use crate::{Error, Result};

mod row;

#[cfg(test)]
mod tests;

/// The digest of a multiset of rows; [`Digest::default`] is that of no rows.
///
/// # Examples
/// ```
/// use arrow::array::{ArrayRef, Int64Array};
/// use arrow::record_batch::RecordBatch;
/// use cenote_statestore::Digest;
/// use std::sync::Arc;
///
/// let rows = |keys: Vec<i64>| RecordBatch::try_from_iter([("k", Arc::new(Int64Array::from(keys)) as ArrayRef)]);
/// let (mut once, mut parts) = (Digest::default(), Digest::default());
/// once.update(&rows(vec![1, 2])?, None)?;
/// parts.update(&rows(vec![2, 3])?, None)?;
/// parts.update(&rows(vec![3, 1])?, Some(&[-1, 1]))?;
/// assert_eq!(once, parts);
/// # Ok::<(), cenote_statestore::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    sum: u128,
    rows: i64,
}

impl Digest {
    /// Adds the rows of `batch`, each as often as its weight says.
    ///
    /// # Arguments
    /// - `weights`: one per row, negative for rows that are taken away; `None`: each row once.
    ///
    /// # Errors
    /// - `Unsupported`: a column of union type. Nothing was added.
    /// - `Bug`: `weights` has another length than the batch. Nothing was added.
    pub fn update(&mut self, batch: &RecordBatch, weights: Option<&[i64]>) -> Result<()> {
        if let Some(weights) = weights.filter(|weights| weights.len() != batch.num_rows()) {
            return Err(Error::bug(format!(
                "{} weights came with {} rows",
                weights.len(),
                batch.num_rows()
            )));
        }
        let columns = batch.columns().iter().map(row::encoder).collect::<Result<Vec<_>>>()?;
        let mut bytes = Vec::new();
        for row in 0..batch.num_rows() {
            bytes.clear();
            columns.iter().for_each(|column| column(row, &mut bytes));
            let weight = weights.map_or(1, |weights| weights[row]);
            self.sum = self.sum.wrapping_add(xxh3_128(&bytes).wrapping_mul(weight as u128));
            self.rows = self.rows.wrapping_add(weight);
        }
        Ok(())
    }

    /// Adds all rows of `other`.
    pub fn merge(&mut self, other: &Digest) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.rows = self.rows.wrapping_add(other.rows);
    }

    /// The sum of all weights: the number of rows, duplicates counted.
    pub fn rows(&self) -> i64 {
        self.rows
    }

    /// The digest as 48 hexadecimal digits: 32 of the sum of hashes, 16 of the number of rows.
    pub fn finish_hex(&self) -> String {
        format!("{:032x}{:016x}", self.sum, self.rows)
    }
}
