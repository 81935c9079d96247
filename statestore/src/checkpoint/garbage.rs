//! Which files may be deleted: facts in, decision out.
//!
//! # Rules kept here
//! 1. A checkpoint is kept if it is the newest, among the newest `count`, younger than `age`, or named by a savepoint.
//! 2. A file goes exactly when it lies in a checkpoint's folder and no kept checkpoint names it: neither as its manifest nor as
//!    a part. What checkpoints in flight wrote, or build upon, stays. Files that are not of checkpoints stay.
//! 3. Manifests go before all other files: a checkpoint that is half deleted is none.
//!
//! # Not here
//! Finding the facts, and deleting ([`super::Store::collect`]).

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use super::blobs::{BlobPath, Found};
use super::disk::ASIDE;
use super::identity::CheckpointId;
use super::manifest::{self, Manifest};
use super::{OWNER, SAVEPOINTS};

/// Which checkpoints are kept, besides savepoints and the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The newest so many.
    pub count: usize,
    /// All that are younger.
    pub age: Duration,
}

/// A published checkpoint, as far as collecting needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its name.
    pub id: CheckpointId,
    /// Its place in the order.
    pub sequence: u64,
    /// When it was published, in milliseconds since 1970.
    pub time_ms: i64,
    /// All files that it names.
    pub files: Vec<String>,
}

/// A checkpoint that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Its name.
    pub id: CheckpointId,
    /// Files of older checkpoints that it may name.
    pub files: Vec<String>,
}

/// All that the decision depends on.
#[derive(Debug)]
pub struct Facts<'a> {
    /// Every published checkpoint.
    pub published: &'a [Published],
    /// Checkpoints that savepoints name.
    pub savepoints: &'a BTreeSet<CheckpointId>,
    /// Every file that is there.
    pub found: &'a [Found],
    /// Every checkpoint that is being written.
    pub in_flight: &'a [InFlight],
    /// What is kept.
    pub keep: Keep,
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
}

/// What is to be deleted, in two steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Garbage {
    /// Checkpoints that go.
    pub checkpoints: Vec<CheckpointId>,
    /// Their manifests: first, and durably.
    pub manifests: Vec<BlobPath>,
    /// Files that nothing names then.
    pub files: Vec<BlobPath>,
}

impl Published {
    /// What collecting needs to know of a manifest.
    pub fn of(manifest: &Manifest) -> Published {
        Published {
            id: manifest.id(),
            sequence: manifest.sequence,
            time_ms: manifest.time_ms,
            files: manifest.parts().map(|part| part.path.clone()).collect(),
        }
    }
}

/// Decides what is deleted.
pub fn garbage(facts: &Facts<'_>) -> Garbage {
    let (kept, dropped) = split(facts);
    let in_flight: HashSet<&CheckpointId> = facts.in_flight.iter().map(|writer| &writer.id).collect();
    let published: HashSet<&CheckpointId> = facts.published.iter().map(|published| &published.id).collect();
    let needed: HashSet<&str> = kept
        .iter()
        .flat_map(|published| &published.files)
        .chain(facts.in_flight.iter().flat_map(|writer| &writer.files))
        .map(String::as_str)
        .collect();
    let is_kept = |id: &CheckpointId| kept.iter().any(|kept| kept.id == *id);
    let mut garbage = Garbage::default();
    for found in facts.found {
        let path = &found.path;
        match CheckpointId::parse(path.first()) {
            None if is_abandoned(path) => garbage.files.push(path.clone()),
            None => {}
            Some(id) if in_flight.contains(&id) || needed.contains(path.as_str()) => {}
            Some(id) if path.as_str() == format!("{id}/{}", manifest::NAME) => match published.get(&id) {
                Some(_) if is_kept(&id) => {}
                Some(_) => garbage.manifests.push(path.clone()),
                // Of a manifest that is not among the facts nothing is known: it stays.
                None => {}
            },
            Some(_) => garbage.files.push(path.clone()),
        }
    }
    garbage.checkpoints = dropped.iter().map(|published| published.id.clone()).collect();
    garbage
}

fn split<'a>(facts: &Facts<'a>) -> (Vec<&'a Published>, Vec<&'a Published>) {
    let mut newest_first: Vec<&Published> = facts.published.iter().collect();
    newest_first.sort_by(|a, b| (b.sequence, &b.id).cmp(&(a.sequence, &a.id)));
    let age_ms = i64::try_from(facts.keep.age.as_millis()).unwrap_or(i64::MAX);
    let (mut kept, mut dropped) = (Vec::new(), Vec::new());
    for (rank, published) in newest_first.into_iter().enumerate() {
        let is_young = facts.now_ms.saturating_sub(published.time_ms) < age_ms;
        let is_kept = rank < facts.keep.count.max(1) || is_young || facts.savepoints.contains(&published.id);
        if is_kept {
            kept.push(published)
        } else {
            dropped.push(published)
        }
    }
    (kept, dropped)
}

/// Whether a file outside the folders of checkpoints is one of ours that was never finished.
fn is_abandoned(path: &BlobPath) -> bool {
    let ours = path.first() == SAVEPOINTS || path.as_str().starts_with(OWNER);
    ours && path.as_str().ends_with(ASIDE)
}
