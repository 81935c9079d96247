//! The manifest: one JSON document that lists everything in a checkpoint.
//!
//! # Rules kept here
//! 1. A manifest that was read is consistent in itself ([`Manifest::check`]): every part lies in the folder of a checkpoint and
//!    of its own table, buckets cover all key groups once, numbers add up. What is not is refused.
//!
//! # Not here
//! Whether the files are there and are whole (`verify`, `read`); the meaning of sections, which are others' JSON.

use std::collections::{BTreeMap, HashSet};

use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::blobs::BlobPath;
use super::columns::{ColumnEntry, schema_of};
use super::identity::CheckpointId;
use super::{names, part};
use crate::KEY_GROUPS;

/// What manifests are called.
pub(super) const NAME: &str = "manifest.json";

/// What the format is called.
pub(super) const FORMAT_NAME: &str = "cenote-checkpoint";

/// Everything in a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub(super) checksum: String,
    pub(super) format: String,
    pub(super) version: u64,
    /// The checkpoint's name, which is also its folder's.
    pub(super) id: String,
    /// 1 more than the newest one's when it was published.
    pub sequence: u64,
    /// Identity of the server that made it.
    pub server: String,
    /// Version of the program that made it.
    pub software: String,
    /// The sealed epoch that everything in it is of.
    pub epoch: u64,
    /// When it was published: RFC 3339, UTC.
    pub time: String,
    /// The same in milliseconds since 1970.
    pub time_ms: i64,
    /// Who asked for it.
    pub kind: Kind,
    /// Version of the catalog that was in force.
    pub catalog_version: u64,
    /// Bytes of all files that it names, its own and older ones'.
    pub bytes: u64,
    /// Bytes of the files that were written for it.
    pub bytes_new: u64,
    /// Its tables, sorted by schema and name.
    pub tables: Vec<TableEntry>,
    /// JSON of others: offsets of sources, progress of sinks, the catalog.
    pub sections: BTreeMap<String, Value>,
}

/// Who asked for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The interval, or a shutdown.
    Checkpoint,
    /// A person.
    Savepoint,
}

/// What a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TableKind {
    /// A table that is written to.
    Table,
    /// A materialized view's contents.
    View,
    /// State of an operator.
    State,
    /// State of a source.
    Source,
    /// State of a sink.
    Sink,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableEntry {
    /// The schema that its name is in: `public`, `cenote_state`.
    pub schema: String,
    /// Its name there.
    pub name: String,
    /// What it is.
    pub kind: TableKind,
    /// The view that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<String>,
    /// What the operator is whose state it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Its columns.
    pub columns: Vec<ColumnEntry>,
    /// Columns by which its rows are distributed: their hash names the key group.
    pub key: Vec<String>,
    /// Columns that make a row's identity: of each identity there is one row at most.
    pub identity: Vec<String>,
    /// Whether a row can be there several times: its files have a column `cenote_weight` then.
    pub multiset: bool,
    /// Rows, with their multiplicities; absent where the writer did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its parts, by ranges of key groups, ascending, without gaps.
    pub buckets: Vec<BucketEntry>,
}

/// The parts of a range of key groups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketEntry {
    /// The first key group.
    pub first_group: u8,
    /// The last key group.
    pub last_group: u8,
    /// Parts, oldest first.
    pub parts: Vec<PartEntry>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartEntry {
    /// Where it is, from the root.
    pub path: String,
    /// Bytes.
    pub length: u64,
    /// xxh3-64 of the file, 16 hexadecimal digits.
    pub checksum: String,
    /// Rows in it.
    pub rows: u64,
    /// What its rows are.
    pub kind: PartKind,
    /// Epoch of the checkpoint that it was written for.
    pub epoch: u64,
}

/// What the rows of a part are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// All rows there were.
    Base,
    /// For each identity in it its newest row, or that it is gone.
    Delta,
}

/// A range of key groups, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyGroups {
    /// The first one.
    pub first: u8,
    /// The last one.
    pub last: u8,
}

impl KeyGroups {
    /// All of them.
    pub const ALL: KeyGroups = KeyGroups {
        first: 0,
        last: (KEY_GROUPS - 1) as u8,
    };

    /// The groups from `first` to `last`.
    pub fn new(first: u8, last: u8) -> KeyGroups {
        KeyGroups { first, last }
    }

    /// Cuts all groups into `buckets` ranges, 1 to 256, as equal as can be.
    pub fn cut(buckets: usize) -> Vec<KeyGroups> {
        let buckets = buckets.clamp(1, KEY_GROUPS);
        let start = |bucket: usize| bucket * KEY_GROUPS / buckets;
        (0..buckets)
            .map(|bucket| KeyGroups::new(start(bucket) as u8, (start(bucket + 1) - 1) as u8))
            .collect()
    }

    /// Whether a group is in the range.
    pub fn contains(self, group: u8) -> bool {
        (self.first..=self.last).contains(&group)
    }

    /// Whether two ranges have a group in common.
    pub fn overlaps(self, other: KeyGroups) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

impl BucketEntry {
    /// Its key groups.
    pub fn groups(&self) -> KeyGroups {
        KeyGroups::new(self.first_group, self.last_group)
    }
}

/// A name for a file of a table that every file system takes.
pub fn file_name(schema: &str, name: &str) -> String {
    match schema {
        "public" => names::escaped(name),
        schema => format!("{}.{}", names::escaped(schema), names::escaped(name)),
    }
}

impl TableEntry {
    /// The name that users give it: without its schema where that is `public`.
    pub fn readable_name(&self) -> String {
        readable_name(&self.schema, &self.name)
    }

    /// A name for a file of it that every file system takes.
    pub fn file_name(&self) -> String {
        file_name(&self.schema, &self.name)
    }

    /// Its columns.
    pub fn table_schema(&self) -> SchemaRef {
        schema_of(&self.columns)
    }

    /// Positions of the columns of its identity.
    pub fn identity_columns(&self) -> Vec<usize> {
        self.positions(&self.identity)
    }

    /// Positions of the columns that rows are distributed by.
    pub fn key_columns(&self) -> Vec<usize> {
        self.positions(&self.key)
    }

    fn positions(&self, names: &[String]) -> Vec<usize> {
        let position = |name: &String| self.columns.iter().position(|column| column.name == *name);
        names.iter().filter_map(position).collect()
    }

    /// For how many rows to make room before its parts are read: as many as they have, where files of their lengths can have them.
    pub fn rows_likely(&self) -> usize {
        let rows = self.parts().map(|part| part.rows.min(part.length));
        rows.fold(0usize, |sum, rows| {
            sum.saturating_add(usize::try_from(rows).unwrap_or(0))
        })
    }

    /// Every part of it.
    pub fn parts(&self) -> impl Iterator<Item = &PartEntry> {
        self.buckets.iter().flat_map(|bucket| &bucket.parts)
    }

    fn check(&self, files: &mut HashSet<String>) -> Result<(), String> {
        let of = |what: &str| format!("table `{}`: {what}", self.readable_name());
        let names: HashSet<&String> = self.columns.iter().map(|column| &column.name).collect();
        if names.len() != self.columns.len() {
            return Err(of("two columns have one name"));
        }
        if !self.identity.iter().all(|name| names.contains(name))
            || !self.key.iter().all(|name| self.identity.contains(name))
        {
            return Err(of("its key is not among its columns"));
        }
        if self.multiset && self.identity.len() != self.columns.len() {
            return Err(of("it is a multiset with a key"));
        }
        let fields = self.table_schema();
        if let Some(field) = fields.fields().iter().find(|field| !crate::storable(field.data_type())) {
            return Err(of(&format!("column `{}` is of a type that no state has", field.name())));
        }
        if let Some(field) = fields.fields().iter().find(|field| part::is_reserved(field.name())) {
            return Err(of(&format!("column `{}` has a reserved name", field.name())));
        }
        check_coverage(self.buckets.iter().map(BucketEntry::groups)).map_err(|what| of(&what))?;
        for bucket in &self.buckets {
            let deltas_from = bucket.parts.iter().position(|part| part.kind == PartKind::Delta);
            let later = &bucket.parts[deltas_from.unwrap_or(bucket.parts.len())..];
            if later.iter().any(|part| part.kind == PartKind::Base) {
                return Err(of("a base follows a delta"));
            }
        }
        let folder = names::folder_of(&self.schema, &self.name);
        for part in self.parts() {
            part.check(&folder).map_err(|what| of(&what))?;
            if !files.insert(part.path.clone()) {
                return Err(of(&format!("`{}` is named twice", part.path)));
            }
        }
        let bytes = self.parts().try_fold(0u64, |sum, part| sum.checked_add(part.length));
        (bytes == Some(self.bytes))
            .then_some(())
            .ok_or_else(|| of("its bytes do not add up"))
    }
}

/// Whether ranges, in their order, are all key groups.
pub(super) fn check_coverage(ranges: impl Iterator<Item = KeyGroups>) -> Result<(), String> {
    let mut next = 0usize;
    for range in ranges {
        if usize::from(range.first) != next || range.last < range.first {
            return Err(format!("key group {next} is in no bucket, or in two"));
        }
        next = usize::from(range.last) + 1;
    }
    match next {
        KEY_GROUPS => Ok(()),
        next => Err(format!("key group {next} is in no bucket, or in two")),
    }
}

impl PartEntry {
    /// Where the file is.
    pub(super) fn blob(&self) -> Option<BlobPath> {
        BlobPath::parse(&self.path)
    }

    fn check(&self, folder: &str) -> Result<(), String> {
        let inside = self
            .path
            .split_once('/')
            .and_then(|(id, rest)| CheckpointId::parse(id).map(|_| rest));
        let file = inside.and_then(|rest| rest.strip_prefix(folder)?.strip_prefix('/'));
        match file {
            Some(file) if !file.contains('/') && file.ends_with(part::ENDING) && self.blob().is_some() => Ok(()),
            _ => Err(format!("`{}` is no place for a part of it", self.path)),
        }
    }
}

/// A table's name as users give it.
pub(super) fn readable_name(schema: &str, name: &str) -> String {
    match schema {
        "public" => name.to_string(),
        schema => format!("{schema}.{name}"),
    }
}

impl Manifest {
    /// The checkpoint's name.
    pub fn id(&self) -> CheckpointId {
        CheckpointId::parse(&self.id).expect("a manifest is checked when it is made or read")
    }

    /// The table that users call `name`.
    pub fn table(&self, name: &str) -> Option<&TableEntry> {
        self.tables.iter().find(|table| table.readable_name() == name)
    }

    /// What orders checkpoints: the newest is greatest.
    pub fn order(&self) -> (u64, &str) {
        (self.sequence, &self.id)
    }

    /// Every part of every table.
    pub fn parts(&self) -> impl Iterator<Item = &PartEntry> {
        self.tables.iter().flat_map(TableEntry::parts)
    }

    /// Whether the manifest is consistent; else what is wrong with it.
    pub(super) fn check(&self) -> Result<(), String> {
        if CheckpointId::parse(&self.id).is_none() {
            return Err(format!("`{}` is no name of a checkpoint", self.id));
        }
        let named = |table: &TableEntry| (table.schema.clone(), table.name.clone());
        if !self.tables.is_sorted_by(|a, b| named(a) < named(b)) {
            return Err("its tables are not in order, or one is there twice".into());
        }
        let mut files = HashSet::new();
        self.tables.iter().try_for_each(|table| table.check(&mut files))?;
        let bytes = self.parts().map(|part| part.length).try_fold(0u64, u64::checked_add);
        let own = format!("{}/", self.id);
        let mut new = self
            .parts()
            .filter(|part| part.path.starts_with(&own))
            .map(|part| part.length);
        match bytes == Some(self.bytes) && new.try_fold(0u64, u64::checked_add) == Some(self.bytes_new) {
            true => Ok(()),
            false => Err("its bytes do not add up".into()),
        }
    }
}
