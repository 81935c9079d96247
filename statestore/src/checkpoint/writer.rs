//! A checkpoint that is being written, by as many threads as there are.
//!
//! # Rules kept here
//! 1. What is not published is garbage: no reader sees it, and dropping a writer at any moment harms nothing.
//! 2. A part that failed spoils the checkpoint: it cannot be published without it.
//! 3. Before the manifest is put in place, every file that it names is there with its length; after it, it is read back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use serde_json::Value;

use super::blobs::BlobPath;
use super::identity::{CheckpointId, now_ms, rfc3339};
use super::listing::{manifest_path, place};
use super::manifest::{
    BucketEntry, FORMAT_NAME, KeyGroups, Kind, Manifest, PartEntry, PartKind, TableEntry, check_coverage,
};
use super::part::{ENDING, PartFile};
use super::store::Shared;
use super::table::TableState;
use super::{document, fault, names};
use crate::{Epoch, Error, ErrorKind, Result, hash_rows, key_group};

/// A table that was announced to a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableNumber(usize);

/// What is known when a checkpoint is published.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// The sealed epoch that all of it is of.
    pub epoch: Epoch,
    /// Who asked for it.
    pub kind: Kind,
    /// Version of the catalog that is in force.
    pub catalog_version: u64,
    /// JSON of others.
    pub sections: BTreeMap<String, Value>,
}

/// Writes one checkpoint.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    id: CheckpointId,
    previous: Option<Manifest>,
    tables: Mutex<Vec<Building>>,
    files: AtomicU64,
    failure: Mutex<Option<Error>>,
}

#[derive(Debug)]
struct Building {
    state: Arc<TableState>,
    entry: TableEntry,
    /// Its entry in the previous checkpoint, where parts can be added to that.
    previous: Option<TableEntry>,
    buckets: BTreeMap<KeyGroups, Bucket>,
}

#[derive(Debug)]
struct Bucket {
    parts: Vec<PartEntry>,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Kept,
    Written(PartKind),
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, id: CheckpointId, previous: Option<Manifest>) -> Writer {
        Writer {
            shared,
            id,
            previous,
            tables: Mutex::default(),
            files: AtomicU64::new(0),
            failure: Mutex::default(),
        }
    }

    /// The name that the checkpoint will have.
    pub fn id(&self) -> &CheckpointId {
        &self.id
    }

    /// Announces a table. Its buckets follow: each one written or kept, together all key groups.
    ///
    /// # Errors
    /// `Unsupported`: a column's type or name cannot be in a checkpoint. `Bug`: the table was announced before, or its key is
    /// not part of its identity.
    pub fn table(&self, state: TableState) -> Result<TableNumber> {
        let entry = state.entry()?;
        let whole = state
            .identity
            .iter()
            .chain(&state.key)
            .all(|column| *column < state.columns.fields().len());
        if !whole || !state.key.iter().all(|column| state.identity.contains(column)) {
            return Err(Error::bug(format!(
                "the key of `{}` is not part of its identity",
                state.name
            )));
        }
        let older = self.previous.as_ref().and_then(|previous| {
            let mut tables = previous.tables.iter();
            tables.find(|table| (&table.schema, &table.name) == (&entry.schema, &entry.name))
        });
        let previous = older.filter(|older| entry.continues(older)).cloned();
        let mut tables = self.tables.lock();
        if tables
            .iter()
            .any(|table| (&table.entry.schema, &table.entry.name) == (&entry.schema, &entry.name))
        {
            return Err(Error::bug(format!("table `{}` is in the checkpoint twice", state.name)));
        }
        tables.push(Building {
            state: Arc::new(state),
            entry,
            previous,
            buckets: BTreeMap::new(),
        });
        Ok(TableNumber(tables.len() - 1))
    }

    /// Adds to the number of rows that a table has, multiplicities counted.
    pub fn count(&self, table: TableNumber, rows: u64) {
        let mut tables = self.tables.lock();
        if let Some(table) = tables.get_mut(table.0) {
            table.entry.rows = Some(table.entry.rows.unwrap_or(0) + rows);
        }
    }

    /// Writes one part of a bucket. A bucket may get several, all bases or all deltas, of different identities.
    ///
    /// # Arguments
    /// - `kind`: a base stands for all older parts; a delta is laid over those of the previous checkpoint.
    /// - `batches`: rows in the form of [`TableState::base_rows`], or of [`TableState::delta_rows`] and [`TableState::gone_rows`].
    ///   Each identity once.
    ///
    /// # Returns
    /// Bytes written; without rows there is no file, and 0.
    ///
    /// # Errors
    /// `Unavailable`: writing failed; the checkpoint cannot be published any more. `Bug`: a delta without what it is a change of,
    /// a row of another bucket, other columns. An error of `batches` is given on.
    pub fn part(
        &self,
        table: TableNumber,
        groups: KeyGroups,
        kind: PartKind,
        batches: impl IntoIterator<Item = Result<RecordBatch>>,
    ) -> Result<u64> {
        let outcome = self
            .write(table, groups, kind, batches)
            .and_then(|part| self.add(table, groups, kind, part));
        outcome.inspect_err(|error| {
            self.failure.lock().get_or_insert_with(|| error.clone());
        })
    }

    /// Takes a bucket over from the previous checkpoint as it is.
    ///
    /// # Errors
    /// `Bug`: there is no such bucket there, of the same columns and key groups.
    pub fn keep(&self, table: TableNumber, groups: KeyGroups) -> Result<()> {
        let mut tables = self.tables.lock();
        let building = announced(&mut tables, table)?;
        let parts = building.previous_parts(groups)?;
        let how = How::Kept;
        match building.buckets.insert(groups, Bucket { parts, how }) {
            None => Ok(()),
            Some(_) => Err(Error::bug(format!(
                "a bucket of `{}` was both kept and written",
                building.entry.name
            ))),
        }
    }

    fn write(
        &self,
        table: TableNumber,
        groups: KeyGroups,
        kind: PartKind,
        batches: impl IntoIterator<Item = Result<RecordBatch>>,
    ) -> Result<Option<PartEntry>> {
        let state = announced(&mut self.tables.lock(), table)?.state.clone();
        let schema = state.file_schema(kind);
        let mut open: Option<(BlobPath, PartFile)> = None;
        for rows in batches {
            let rows = rows?;
            check_groups(&state, groups, &rows)?;
            if rows.num_rows() == 0 {
                continue;
            }
            if open.is_none() {
                open = Some(self.create(&state, groups, kind, &schema)?);
            }
            let (_, file) = open.as_mut().expect("opened above");
            file.write(&rows)?;
        }
        let Some((path, file)) = open else { return Ok(None) };
        let written = file.finish()?;
        Ok(Some(PartEntry {
            path: path.as_str().to_string(),
            length: written.length,
            checksum: written.checksum,
            rows: written.rows,
            kind,
            epoch: 0,
        }))
    }

    fn create(
        &self,
        state: &TableState,
        groups: KeyGroups,
        kind: PartKind,
        schema: &SchemaRef,
    ) -> Result<(BlobPath, PartFile)> {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let kind = match kind {
            PartKind::Base => "base",
            PartKind::Delta => "delta",
        };
        let name = format!("{:03}-{:03}.{kind}.{number}{ENDING}", groups.first, groups.last);
        let folder = names::folder_of(&state.schema, &state.name);
        let path = place(format!("{}/{folder}/{name}", self.id))?;
        let file = PartFile::create(self.shared.checkpoints.blobs.as_ref(), &path, schema)?;
        Ok((path, file))
    }

    fn add(&self, table: TableNumber, groups: KeyGroups, kind: PartKind, part: Option<PartEntry>) -> Result<u64> {
        let mut tables = self.tables.lock();
        let building = announced(&mut tables, table)?;
        if !building.buckets.contains_key(&groups) {
            let parts = match kind {
                PartKind::Base => Vec::new(),
                PartKind::Delta => building.previous_parts(groups)?,
            };
            let how = How::Written(kind);
            building.buckets.insert(groups, Bucket { parts, how });
        }
        let bucket = building.buckets.get_mut(&groups).expect("inserted above");
        if bucket.how != How::Written(kind) {
            return Err(Error::bug(format!(
                "a bucket of `{}` was written in two ways",
                building.entry.name
            )));
        }
        let length = part.as_ref().map_or(0, |part| part.length);
        bucket.parts.extend(part);
        Ok(length)
    }

    /// Publishes the checkpoint.
    ///
    /// # Errors
    /// `Unavailable`: a part failed before, a file is not there as it was written, or the manifest could not be written. Readers
    /// see the older checkpoint then; if only the last step failed they may see this one, which is whole. `Bug`: the buckets of a
    /// table are not all key groups.
    pub fn publish(self, sealed: Sealed) -> Result<Manifest> {
        if let Some(first) = self.failure.lock().clone() {
            return Err(fault::spoilt(&self.id, &first));
        }
        let mut manifest = self.manifest(sealed)?;
        manifest
            .check()
            .map_err(|reason| Error::bug(format!("checkpoint {}: {reason}", self.id)))?;
        self.check_files(&manifest)?;
        let mut progress = self.shared.progress.lock();
        progress.sequence += 1;
        manifest.sequence = progress.sequence;
        drop(progress);
        let bytes = document::seal(&manifest).map_err(|error| Error::bug(error.to_string()))?;
        let (path, blobs) = (manifest_path(&self.id)?, self.shared.checkpoints.blobs.as_ref());
        let put = blobs.put_if_absent(&path, &bytes);
        put.map_err(|cause| fault::io("write", &blobs.describe(Some(&path)), cause))?;
        manifest.checksum = document::checksum_of(&bytes);
        match self.shared.checkpoints.published(&self.id) {
            Ok(Some(found)) if found == manifest => {}
            Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
            _ => {
                // It would be the newest, and damaged.
                let _ = blobs.delete(std::slice::from_ref(&path));
                return Err(fault::lost(blobs, &path, "is not what was written"));
            }
        }
        self.shared.progress.lock().published.insert(self.id.clone());
        Ok(manifest)
    }

    fn manifest(&self, sealed: Sealed) -> Result<Manifest> {
        let own = format!("{}/", self.id);
        let mut tables = Vec::new();
        for building in self.tables.lock().drain(..) {
            tables.push(building.finish(sealed.epoch, &own)?);
        }
        tables.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        let now_ms = now_ms();
        let mut manifest = Manifest {
            checksum: document::unsealed(),
            format: FORMAT_NAME.into(),
            version: document::FORMAT,
            id: self.id.to_string(),
            sequence: 0,
            server: self.shared.server.clone(),
            software: self.shared.software.clone(),
            epoch: sealed.epoch.0,
            time: rfc3339(now_ms),
            time_ms: now_ms,
            kind: sealed.kind,
            catalog_version: sealed.catalog_version,
            bytes: 0,
            bytes_new: 0,
            tables,
            sections: sealed.sections,
        };
        manifest.bytes = manifest.parts().map(|part| part.length).sum();
        let new = manifest.parts().filter(|part| part.path.starts_with(&own));
        manifest.bytes_new = new.map(|part| part.length).sum();
        Ok(manifest)
    }

    /// Whether every file is there with its length, whatever was said when it was written, and whatever became of older ones.
    fn check_files(&self, manifest: &Manifest) -> Result<()> {
        let blobs = self.shared.checkpoints.blobs.as_ref();
        let folders = manifest.parts().filter_map(|part| part.path.split('/').next());
        let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
        for folder in folders.collect::<BTreeSet<_>>() {
            let folder = place(folder.to_string())?;
            let found = blobs.list(Some(&folder));
            let found = found.map_err(|cause| fault::io("list", &blobs.describe(Some(&folder)), cause))?;
            lengths.extend(
                found
                    .into_iter()
                    .map(|file| (file.path.as_str().to_string(), file.length)),
            );
        }
        for part in manifest.parts() {
            let path = place(part.path.clone())?;
            match lengths.get(part.path.as_str()) {
                Some(length) if *length == part.length => {}
                Some(length) => {
                    let reason = format!("has {length} bytes, not {}", part.length);
                    return Err(fault::lost(blobs, &path, reason));
                }
                None => return Err(fault::lost(blobs, &path, "is not there after it was written")),
            }
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.progress.lock().in_flight.remove(&self.id);
    }
}

fn announced(tables: &mut [Building], table: TableNumber) -> Result<&mut Building> {
    let announced = tables.get_mut(table.0);
    announced.ok_or_else(|| Error::bug("a table of another checkpoint was written"))
}

/// Whether all rows belong to the bucket.
fn check_groups(state: &TableState, groups: KeyGroups, rows: &RecordBatch) -> Result<()> {
    if groups == KeyGroups::ALL || rows.num_columns() < state.columns.fields().len() {
        return Ok(());
    }
    let key: Vec<ArrayRef> = state.key.iter().map(|column| rows.column(*column).clone()).collect();
    let hashes = hash_rows(&key, rows.num_rows());
    match hashes.into_iter().all(|hash| groups.contains(key_group(hash))) {
        true => Ok(()),
        false => Err(Error::bug(format!(
            "a row of `{}` belongs to another bucket",
            state.name
        ))),
    }
}

impl Building {
    fn previous_parts(&self, groups: KeyGroups) -> Result<Vec<PartEntry>> {
        let buckets = self.previous.iter().flat_map(|previous| &previous.buckets);
        let bucket = buckets.into_iter().find(|bucket| bucket.groups() == groups);
        bucket.map(|bucket| bucket.parts.clone()).ok_or_else(|| {
            Error::bug(format!(
                "a bucket of `{}` builds upon a checkpoint that does not have it",
                self.entry.name
            ))
        })
    }

    fn finish(self, epoch: Epoch, own: &str) -> Result<TableEntry> {
        let mut entry = self.entry;
        check_coverage(self.buckets.keys().copied())
            .map_err(|reason| Error::bug(format!("table `{}`: {reason}", entry.name)))?;
        for (groups, mut bucket) in self.buckets {
            let new = bucket.parts.iter_mut().filter(|part| part.path.starts_with(own));
            new.for_each(|part| part.epoch = epoch.0);
            entry.buckets.push(BucketEntry {
                first_group: groups.first,
                last_group: groups.last,
                parts: bucket.parts,
            });
        }
        entry.bytes = entry.parts().map(|part| part.length).sum();
        // Without deltas and multiplicities the parts tell.
        let tell = !entry.multiset && entry.parts().all(|part| part.kind == PartKind::Base);
        if entry.rows.is_none() && tell {
            entry.rows = Some(entry.parts().map(|part| part.rows).sum());
        }
        Ok(entry)
    }
}
