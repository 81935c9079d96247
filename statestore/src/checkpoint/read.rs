//! The rows of a table: the parts of each bucket merged, newest first.
//!
//! # Rules kept here
//! 1. Of each identity the newest part that names it counts, and nothing else does.
//! 2. Nothing of a file is used before all of it was checked. A file that is missing or damaged is an error that names it.
//!
//! # Cost
//! In memory are one batch of one file, a short file as a whole, and the identities of one bucket; of a bucket with one part no identities.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array};
use arrow::compute::filter;
use arrow::datatypes::SchemaRef;

use super::blobs::{BlobPath, Blobs};
use super::held::HeldFiles;
use super::listing::Checkpoint;
use super::manifest::{BucketEntry, KeyGroups, PartEntry, PartKind, TableEntry};
use super::part::{CheckedPart, Rows, batch, file_schema};
use super::{document, fault};
use crate::{Changes, Error, KeyIndex, NO_SLOT, Result, RowStore, Weights, hash_rows, key_group};

/// How much is checked beyond what an answer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// What the answer depends on.
    Usual,
    /// Also that each part names an identity once, that rows are in their buckets, that weights are above zero.
    Thorough,
}

/// Rows of a table, in no order. After an error it ends.
#[derive(Debug)]
pub struct TableRows {
    blobs: Arc<dyn Blobs>,
    held: Arc<HeldFiles>,
    table: TableEntry,
    schema: SchemaRef,
    identity: Vec<usize>,
    key: Vec<usize>,
    groups: KeyGroups,
    care: Care,
    /// Buckets that are still to be read, last first.
    buckets: Vec<BucketEntry>,
    merge: Option<Merge>,
}

/// The bucket that is being read.
#[derive(Debug)]
struct Merge {
    range: KeyGroups,
    /// Parts that are still to be read, oldest first.
    parts: Vec<PartEntry>,
    open: Option<OpenPart>,
    seen: RowStore,
    index: KeyIndex,
}

#[derive(Debug)]
struct OpenPart {
    file: CheckedPart,
    path: BlobPath,
    kind: PartKind,
    /// Slots below it hold identities of newer parts.
    first_slot: u32,
    /// Whether its identities must be remembered.
    is_remembered: bool,
}

impl TableRows {
    pub(super) fn new(checkpoint: &Checkpoint, table: &TableEntry, groups: KeyGroups, care: Care) -> TableRows {
        let overlapping = table.buckets.iter().filter(|bucket| bucket.groups().overlaps(groups));
        TableRows {
            blobs: checkpoint.blobs().clone(),
            held: checkpoint.held().clone(),
            schema: table.table_schema(),
            identity: table.identity_columns(),
            key: table.key_columns(),
            groups,
            care,
            buckets: overlapping.rev().cloned().collect(),
            merge: None,
            table: TableEntry {
                buckets: Vec::new(),
                ..table.clone()
            },
        }
    }

    /// The columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn advance(&mut self) -> Result<Option<Changes>> {
        loop {
            let Some(merge) = &mut self.merge else {
                let Some(bucket) = self.buckets.pop() else {
                    return Ok(None);
                };
                self.merge = Some(self.begin(bucket)?);
                continue;
            };
            if merge.open.is_none() {
                let Some(entry) = merge.parts.pop() else {
                    self.merge = None;
                    continue;
                };
                let opened = self.open(&entry)?;
                self.merge.as_mut().expect("a bucket is being read").open = Some(opened);
                continue;
            }
            let mut merge = self.merge.take().expect("a bucket is being read");
            let open = merge.open.as_mut().expect("a part is open");
            match open.file.next(self.blobs.as_ref())? {
                None => merge.open = None,
                Some(rows) => {
                    let rows = Rows::of(&rows, self.table.multiset, open.kind);
                    let live = self.live(&mut merge, &rows)?;
                    self.merge = Some(merge);
                    if live.is_some() {
                        return Ok(live);
                    }
                    continue;
                }
            }
            self.merge = Some(merge);
        }
    }

    fn begin(&self, bucket: BucketEntry) -> Result<Merge> {
        let identity = self.schema.project(&self.identity).map_err(Error::from)?;
        Ok(Merge {
            range: bucket.groups(),
            parts: bucket.parts,
            open: None,
            seen: RowStore::new(Arc::new(identity)),
            index: KeyIndex::default(),
        })
    }

    fn open(&self, entry: &PartEntry) -> Result<OpenPart> {
        let path = entry
            .blob()
            .ok_or_else(|| Error::bug(format!("`{}` was not checked", entry.path)))?;
        let schema = file_schema(&self.schema, &self.identity, self.table.multiset, entry.kind);
        let merge = self.merge.as_ref().expect("a bucket is being read");
        Ok(OpenPart {
            file: CheckedPart::open(self.blobs.as_ref(), &self.held, &path, entry, &schema)?,
            path,
            kind: entry.kind,
            first_slot: merge.seen.slots(),
            is_remembered: !merge.parts.is_empty() || self.care == Care::Thorough,
        })
    }

    /// The rows of a batch that count.
    fn live(&self, merge: &mut Merge, rows: &Rows) -> Result<Option<Changes>> {
        let count = rows.count;
        let mut kept = vec![true; count];
        self.drop_other_groups(merge, rows, &mut kept)?;
        self.drop_seen(merge, rows, &mut kept)?;
        if let Some(deleted) = &rows.deleted {
            let kept = kept.iter_mut().zip(deleted.values());
            kept.for_each(|(kept, is_gone)| *kept &= !is_gone);
        }
        if let (Care::Thorough, Some(weights)) = (self.care, &rows.weights) {
            let is_bad = |row: usize| kept[row] && weights.value(row) <= 0;
            if (0..count).any(is_bad) {
                return Err(self.broken(merge, "a row has a weight below one"));
            }
        }
        if !kept.contains(&true) {
            return Ok(None);
        }
        self.changes(rows, kept).map(Some)
    }

    fn drop_other_groups(&self, merge: &Merge, rows: &Rows, kept: &mut [bool]) -> Result<()> {
        let is_whole = self.groups.first <= merge.range.first && merge.range.last <= self.groups.last;
        if is_whole && self.care == Care::Usual {
            return Ok(());
        }
        let key: Vec<ArrayRef> = self.key.iter().map(|column| rows.columns[*column].clone()).collect();
        let hashes = hash_rows(&key, kept.len());
        for (kept, hash) in kept.iter_mut().zip(hashes) {
            let group = key_group(hash);
            *kept = self.groups.contains(group);
            if !merge.range.contains(group) && merge.range != KeyGroups::ALL {
                return Err(self.broken(merge, "a row belongs to another bucket"));
            }
        }
        Ok(())
    }

    fn drop_seen(&self, merge: &mut Merge, rows: &Rows, kept: &mut [bool]) -> Result<()> {
        let open = merge.open.as_ref().expect("a part is open");
        let (first_slot, is_remembered) = (open.first_slot, open.is_remembered);
        if !is_remembered && merge.index.is_empty() {
            return Ok(());
        }
        let identity: Vec<ArrayRef> = self
            .identity
            .iter()
            .map(|column| rows.columns[*column].clone())
            .collect();
        let view = RowStore::view(0..identity.len(), &identity);
        let hashes = hash_rows(&identity, kept.len());
        if !is_remembered {
            let mut found = Vec::new();
            merge.seen.find_all(&merge.index, &hashes, &view, &mut found);
            let kept = kept.iter_mut().zip(found);
            kept.for_each(|(kept, slot)| *kept &= slot == NO_SLOT);
            return Ok(());
        }
        for (row, hash) in hashes.into_iter().enumerate() {
            let (seen, index) = (&mut merge.seen, &mut merge.index);
            match index.find(hash, |slot| seen.equals(slot, &view, row)) {
                Some(slot) if slot >= first_slot => {
                    return Err(self.broken(merge, "it names one row twice"));
                }
                Some(_) => kept[row] = false,
                None => {
                    let slot = seen.allocate();
                    seen.write_one(slot, &view, row);
                    index.insert(hash, slot);
                }
            }
        }
        Ok(())
    }

    fn broken(&self, merge: &Merge, reason: &str) -> Error {
        let open = merge.open.as_ref().expect("a part is open");
        fault::damaged(self.blobs.as_ref(), &open.path, reason)
    }

    fn changes(&self, rows: &Rows, kept: Vec<bool>) -> Result<Changes> {
        let mask = (!kept.iter().all(|kept| *kept)).then(|| BooleanArray::from(kept.clone()));
        let take = |column: &ArrayRef| match &mask {
            None => Ok(column.clone()),
            Some(mask) => filter(column, mask),
        };
        let columns = rows.columns.iter().map(take).collect::<Result<Vec<_>, _>>()?;
        let count = kept.iter().filter(|kept| **kept).count();
        let weights = match &rows.weights {
            None => Weights::All(1),
            Some(weights) => Weights::Each(chosen(weights, &kept)),
        };
        Ok(Changes::new(batch(&self.schema, columns, count)?, weights))
    }
}

fn chosen(weights: &Int64Array, kept: &[bool]) -> Vec<i64> {
    let pairs = weights.values().iter().zip(kept);
    pairs.filter(|(_, kept)| **kept).map(|(weight, _)| *weight).collect()
}

impl Iterator for TableRows {
    type Item = Result<Changes>;

    fn next(&mut self) -> Option<Result<Changes>> {
        let next = self.advance().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.merge = None;
            self.buckets.clear();
        }
        next
    }
}

/// Checks the length and the checksum of a file, without decoding it.
pub(super) fn check_bytes(blobs: &dyn Blobs, entry: &PartEntry) -> Result<()> {
    use std::io::Read;
    let path = entry
        .blob()
        .ok_or_else(|| Error::bug(format!("`{}` was not checked", entry.path)))?;
    let open = check_length(blobs, entry)?;
    let (mut hash, mut chunk) = (xxhash_rust::xxh3::Xxh3::default(), vec![0; 1 << 18]);
    let (mut bytes, mut length) = (open.bytes, 0u64);
    loop {
        match bytes.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => {
                hash.update(&chunk[..count]);
                length += count as u64;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(fault::io("read", &blobs.describe(Some(&path)), cause)),
        }
    }
    match length == entry.length && document::digits(hash.digest()) == entry.checksum {
        true => Ok(()),
        false => Err(fault::damaged(blobs, &path, "it fails its checksum")),
    }
}

/// Checks that a file is there with its length.
pub(super) fn check_length(blobs: &dyn Blobs, entry: &PartEntry) -> Result<super::blobs::OpenBlob> {
    let path = entry
        .blob()
        .ok_or_else(|| Error::bug(format!("`{}` was not checked", entry.path)))?;
    let open = super::part::open(blobs, &path)?;
    match open.length == entry.length {
        true => Ok(open),
        false => {
            let reason = format!("it has {} bytes, not {}", open.length, entry.length);
            Err(fault::damaged(blobs, &path, reason))
        }
    }
}
