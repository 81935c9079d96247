//! Typed rows in a store of bytes.
//!
//! # Layout
//! A key is the table's number, the hash of the row's key (lower half, upper half), and the row's identity; the value is the
//! epoch that the row was created in, its multiplicity, and its other columns. Numbers of the key are big-endian. Rows are in
//! Arrow's row format.
//! Identities are equal if their bits are, as in memory.
//!
//! # Source
//! Arrow's row format: <https://docs.rs/arrow-row>.

use super::backend::{Backend, Entries, Snapshot, Writes};
use crate::{Changes, Epoch, Error, Result, rows_at_once};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, Rows, SortField};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a key before the identity.
const HEAD: usize = 12;

/// Bytes of a value before the other columns.
const STAMP: usize = 16;

/// Entries read at once where it is not known how many there are.
const SCAN_ENTRIES: usize = 4096;

/// Reads entries of a range of keys, so many at most.
type ScanRange<'a> = dyn Fn(std::ops::Range<&[u8]>, usize, &mut Entries) -> Result<()> + 'a;

/// One table's rows in a store. Its rows leave the store with it.
#[derive(Debug)]
pub struct SpillTable {
    backend: Arc<dyn Backend>,
    number: u32,
    columns: SchemaRef,
    identity: Vec<usize>,
    /// Columns that are not in the key.
    others: Vec<usize>,
    in_key: RowConverter,
    in_value: RowConverter,
    /// Of the batch that had the largest rows so far.
    bytes_per_row: AtomicUsize,
}

/// Rows read from a [`SpillTable`].
#[derive(Clone, Debug)]
pub struct Spilled {
    /// The rows, all columns.
    pub rows: RecordBatch,
    /// The hashes of their keys.
    pub hashes: Vec<u64>,
    /// The epochs they were created in.
    pub created: Vec<u64>,
    /// Their multiplicities.
    pub weights: Vec<i64>,
}

/// Rows on their way into a [`SpillTable`].
pub struct SpillRows<'a> {
    /// The rows, all columns.
    pub rows: &'a RecordBatch,
    /// The hashes of their keys.
    pub hashes: &'a [u64],
    /// The epochs they were created in, and their multiplicities.
    pub stamp: &'a dyn Fn(usize) -> (u64, i64),
}

fn converter(schema: &SchemaRef, columns: &[usize]) -> Result<RowConverter> {
    let fields = columns
        .iter()
        .map(|column| SortField::new(schema.field(*column).data_type().clone()));
    Ok(RowConverter::new(fields.collect())?)
}

/// The hash as it stands in a key.
fn ordered(hash: u64) -> u64 {
    hash.rotate_left(32)
}

impl SpillTable {
    /// An empty table in a store.
    ///
    /// # Arguments
    /// - `identity`: columns that no two rows have the same values in.
    ///
    /// # Errors
    /// `Unsupported`: a column's type cannot be written as bytes.
    pub fn new(backend: Arc<dyn Backend>, columns: SchemaRef, identity: Vec<usize>) -> Result<SpillTable> {
        let all = 0..columns.fields().len();
        let others: Vec<usize> = all.filter(|column| !identity.contains(column)).collect();
        Ok(SpillTable {
            number: backend.next_table(),
            in_key: converter(&columns, &identity)?,
            in_value: converter(&columns, &others)?,
            backend,
            columns,
            identity,
            others,
            bytes_per_row: AtomicUsize::new(0),
        })
    }

    /// The table's columns.
    pub fn columns(&self) -> &SchemaRef {
        &self.columns
    }

    /// The store.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    fn head(&self, hash: u64, key: &mut Vec<u8>) {
        key.clear();
        key.extend_from_slice(&self.number.to_be_bytes());
        key.extend_from_slice(&ordered(hash).to_be_bytes());
    }

    /// The keys that hashes from `from` on have, in the store's order, up to `until` (not included).
    fn bounds(&self, from: u64, until: Option<u64>) -> (Vec<u8>, Vec<u8>) {
        let end = match until {
            Some(until) => [&self.number.to_be_bytes()[..], &until.to_be_bytes()[..]].concat(),
            None => (self.number + 1).to_be_bytes().to_vec(),
        };
        ([&self.number.to_be_bytes()[..], &from.to_be_bytes()[..]].concat(), end)
    }

    fn encode(converter: &RowConverter, rows: &[ArrayRef]) -> Result<Option<Rows>> {
        match rows.is_empty() {
            true => Ok(None),
            false => Ok(Some(converter.convert_columns(rows)?)),
        }
    }

    /// Adds rows to what is to be written; one takes the place of another one of its identity.
    ///
    /// # Errors
    /// `Unsupported`: a value cannot be written as bytes.
    pub fn put(&self, writes: &mut Writes, given: &SpillRows<'_>) -> Result<()> {
        let columns = given.rows.columns();
        let of = |columns_of: &[usize]| -> Vec<ArrayRef> {
            columns_of.iter().map(|column| columns[*column].clone()).collect()
        };
        let keys = Self::encode(&self.in_key, &of(&self.identity))?;
        let values = Self::encode(&self.in_value, &of(&self.others))?;
        let (mut key, mut value, before) = (Vec::new(), Vec::new(), writes.bytes());
        for (row, hash) in given.hashes.iter().enumerate() {
            self.head(*hash, &mut key);
            key.extend_from_slice(keys.as_ref().map_or(&[], |keys| keys.row(row).data()));
            let (created, weight) = (given.stamp)(row);
            value.clear();
            value.extend_from_slice(&created.to_le_bytes());
            value.extend_from_slice(&weight.to_le_bytes());
            value.extend_from_slice(values.as_ref().map_or(&[], |values| values.row(row).data()));
            writes.put(&key, &value);
        }
        let bytes = (writes.bytes() - before) / given.hashes.len().max(1);
        self.bytes_per_row.fetch_max(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes of a row, about, where they are largest.
    pub fn bytes_per_row(&self) -> usize {
        self.bytes_per_row.load(Ordering::Relaxed)
    }

    /// Adds removals to what is to be written.
    ///
    /// # Arguments
    /// - `identities`: columns of the rows' identities, bit for bit as they were put.
    ///
    /// # Errors
    /// `Unsupported`: a value cannot be written as bytes.
    pub fn remove(&self, writes: &mut Writes, hashes: &[u64], identities: &[ArrayRef]) -> Result<()> {
        let keys = Self::encode(&self.in_key, identities)?;
        let mut key = Vec::new();
        for (row, hash) in hashes.iter().enumerate() {
            self.head(*hash, &mut key);
            key.extend_from_slice(keys.as_ref().map_or(&[], |keys| keys.row(row).data()));
            writes.remove(&key);
        }
        Ok(())
    }

    /// Rows of some identities.
    ///
    /// # Arguments
    /// - `hashes`: of the rows' keys.
    /// - `identities`: columns of the identities.
    ///
    /// # Errors
    /// `Unavailable`: the store cannot be read.
    pub fn find(&self, hashes: &[u64], identities: &[ArrayRef]) -> Result<Spilled> {
        let encoded = Self::encode(&self.in_key, identities)?;
        let (mut keys, mut key) = (Entries::default(), Vec::new());
        for (row, hash) in hashes.iter().enumerate() {
            self.head(*hash, &mut key);
            key.extend_from_slice(encoded.as_ref().map_or(&[], |keys| keys.row(row).data()));
            keys.push(&key, &[]);
        }
        let mut found = Entries::default();
        self.backend.get(&keys, &mut found, &mut Vec::new())?;
        self.decode(&found)
    }

    /// All rows of some hashes.
    ///
    /// # Errors
    /// `Unavailable`: the store cannot be read.
    pub fn of_hashes(&self, hashes: &[u64]) -> Result<Spilled> {
        let mut ordered_hashes: Vec<u64> = hashes.iter().map(|hash| ordered(*hash)).collect();
        ordered_hashes.sort_unstable();
        ordered_hashes.dedup();
        let (mut ranges, mut found) = (Entries::default(), Entries::default());
        for hash in ordered_hashes {
            let (from, until) = self.bounds(hash, hash.checked_add(1));
            ranges.push(&from, &until);
        }
        self.backend.scan_each(&ranges, &mut found)?;
        self.decode(&found)
    }

    /// Rows in the order of the lower half of their hashes.
    ///
    /// # Arguments
    /// - `from`: of these hashes and greater ones. `until`: of smaller ones; `None`: of all.
    /// - `most`: rows to read, at least 1: fewer where they are large, more where so many have one hash.
    ///
    /// # Returns
    /// The rows, and up to which hash (not included) they are all there are; `None`: up to `until`.
    ///
    /// # Errors
    /// `Unavailable`: the store cannot be read.
    pub fn range(&self, from: u32, until: Option<u32>, most: usize) -> Result<(Spilled, Option<u32>)> {
        let scan =
            |range: std::ops::Range<&[u8]>, most: usize, found: &mut Entries| self.backend.scan(range, most, found);
        let (found, cut) = self.scan_range(&scan, from, until, most)?;
        Ok((self.decode(&found)?, cut))
    }

    fn scan_range(
        &self,
        scan: &ScanRange<'_>,
        from: u32,
        until: Option<u32>,
        most: usize,
    ) -> Result<(Entries, Option<u32>)> {
        let most = rows_at_once(most, self.bytes_per_row());
        let whole = |half: u32| (half as u64) << 32;
        let (start, end) = self.bounds(whole(from), until.map(whole));
        let mut found = Entries::default();
        scan(&start..&end, most, &mut found)?;
        if found.len() < most {
            return Ok((found, None));
        }
        // The last hash may have more rows: leave it to the next time, or read all of it.
        let last = self.half_of(found.key(found.len() - 1));
        let first_of_last = (0..found.len()).position(|entry| self.half_of(found.key(entry)) == last);
        let first_of_last = first_of_last.unwrap_or_default();
        if first_of_last > 0 {
            found.truncate(first_of_last);
            return Ok((found, Some(last)));
        }
        let next = last.checked_add(1);
        let mut found = Entries::default();
        let (start, end) = self.bounds(whole(last), next.map(whole));
        scan(&start..&end, usize::MAX, &mut found)?;
        let is_all = next.is_none() || next == until;
        Ok((found, next.filter(|_| !is_all)))
    }

    /// The lower half of the hash in a key.
    fn half_of(&self, key: &[u8]) -> u32 {
        u32::from_be_bytes(key[4..8].try_into().expect("four bytes"))
    }

    /// All rows as they are now, to be read later.
    pub fn snapshot(self: &Arc<Self>) -> SpillScan {
        SpillScan {
            snapshot: self.backend.snapshot(),
            table: self.clone(),
            from: Some(0),
        }
    }

    /// Removes all rows.
    ///
    /// # Errors
    /// `Unavailable`: the store cannot be written to.
    pub fn clear(&self) -> Result<()> {
        let (from, until) = self.bounds(0, None);
        self.backend.remove_range(&from..&until)
    }

    fn decode(&self, found: &Entries) -> Result<Spilled> {
        let damaged = || Error::bug("a spilled row is not as it was written");
        let count = found.len();
        let (mut hashes, mut created, mut weights) = (
            Vec::with_capacity(count),
            Vec::with_capacity(count),
            Vec::with_capacity(count),
        );
        for entry in 0..count {
            let head = found.key(entry).get(4..HEAD).ok_or_else(damaged)?;
            let stamp = found.value(entry).get(..STAMP).ok_or_else(damaged)?;
            hashes.push(ordered(u64::from_be_bytes(head.try_into().expect("eight bytes"))));
            created.push(u64::from_le_bytes(stamp[..8].try_into().expect("eight bytes")));
            weights.push(i64::from_le_bytes(stamp[8..].try_into().expect("eight bytes")));
        }
        let mut columns: Vec<Option<ArrayRef>> = vec![None; self.columns.fields().len()];
        if !self.identity.is_empty() {
            let parser = self.in_key.parser();
            let keys = (0..count).map(|entry| parser.parse(&found.key(entry)[HEAD..]));
            let keys = self.in_key.convert_rows(keys)?;
            for (column, array) in self.identity.iter().zip(keys) {
                columns[*column] = Some(array);
            }
        }
        if !self.others.is_empty() {
            let parser = self.in_value.parser();
            let values = (0..count).map(|entry| parser.parse(&found.value(entry)[STAMP..]));
            let values = self.in_value.convert_rows(values)?;
            for (column, array) in self.others.iter().zip(values) {
                columns[*column] = Some(array);
            }
        }
        let columns = columns.into_iter().map(|column| column.ok_or_else(damaged));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        Ok(Spilled {
            rows: Changes::batch(self.columns.clone(), columns, count)?,
            hashes,
            created,
            weights,
        })
    }
}

impl Drop for SpillTable {
    fn drop(&mut self) {
        // What cannot be removed only takes room: nobody has its number again.
        let _ = self.backend.forget(self.number);
    }
}

/// Rows of a table as they were.
pub struct SpillScan {
    snapshot: Box<dyn Snapshot>,
    table: Arc<SpillTable>,
    from: Option<u32>,
}

impl Iterator for SpillScan {
    type Item = Result<Spilled>;

    fn next(&mut self) -> Option<Result<Spilled>> {
        let from = self.from?;
        let scan =
            |range: std::ops::Range<&[u8]>, most: usize, found: &mut Entries| self.snapshot.scan(range, most, found);
        let read = self.table.scan_range(&scan, from, None, SCAN_ENTRIES);
        let rows = read.and_then(|(found, cut)| {
            self.from = cut;
            self.table.decode(&found)
        });
        if rows.is_err() {
            self.from = None;
        }
        Some(rows)
    }
}

impl Spilled {
    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Whether a row was there at an epoch.
    pub fn is_seen(&self, row: usize, epoch: Epoch) -> bool {
        self.created[row] <= epoch.0
    }
}
