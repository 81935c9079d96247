//! The right to add checkpoints to a folder and to remove them: the server's that owns it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;

use super::blobs::Blobs;
use super::fault;
use super::garbage::{Facts, Garbage, InFlight, Keep, Published, garbage};
use super::identity::{CheckpointId, now_ms, random};
use super::listing::Checkpoints;
use super::manifest::Manifest;
use super::owner::{check_owner, own};
use super::writer::Writer;
use crate::{Error, ErrorKind, Result};

/// What the writers of a store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) checkpoints: Checkpoints,
    pub(super) server: String,
    pub(super) software: String,
    /// Held while files are looked at for deletion, and while savepoints are made.
    pub(super) turn: Mutex<()>,
    pub(super) progress: Mutex<Progress>,
}

/// What has happened in this process.
#[derive(Debug, Default)]
pub(super) struct Progress {
    last_id: Option<CheckpointId>,
    /// The greatest sequence number that may be taken.
    pub(super) sequence: u64,
    pub(super) published: BTreeSet<CheckpointId>,
    /// Names of savepoints.
    pub(super) savepoints: BTreeSet<String>,
    pub(super) in_flight: BTreeMap<CheckpointId, Vec<String>>,
}

/// What [`Store::collect`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// Checkpoints that are gone.
    pub checkpoints: Vec<CheckpointId>,
    /// Files that were deleted, manifests included.
    pub files: usize,
}

/// The checkpoints of the server that owns the folder. One process at a time: the lock of its data directory sees to that.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

impl Store {
    /// Opens the folder for a server, which owns it from then on.
    ///
    /// # Arguments
    /// - `server`: the server's identity, such as [`super::new_server_id`] made once.
    /// - `software`: the version of this program.
    ///
    /// # Errors
    /// `Invalid`: the folder, or a checkpoint in it, belongs to another server. `Corrupt`: the file that names the owner is damaged.
    pub fn open(blobs: Arc<dyn Blobs>, server: &str, software: &str) -> Result<Store> {
        let checkpoints = Checkpoints::new(blobs);
        let mut progress = Progress {
            last_id: checkpoints.folders()?.into_iter().max(),
            ..Progress::default()
        };
        for (id, manifest) in checkpoints.all()? {
            if let Ok(manifest) = &manifest {
                check_owner(&checkpoints, &manifest.server, server)?;
                progress.sequence = progress.sequence.max(manifest.sequence);
            }
            progress.published.insert(id);
        }
        own(&checkpoints, server)?;
        // One that cannot be read keeps everything from being deleted; checkpoints can be taken nevertheless.
        match checkpoints.savepoints() {
            Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
            savepoints => progress.savepoints = savepoints.unwrap_or_default().into_keys().collect(),
        }
        let shared = Shared {
            checkpoints,
            server: server.to_string(),
            software: software.to_string(),
            turn: Mutex::new(()),
            progress: Mutex::new(progress),
        };
        let shared = Arc::new(shared);
        Ok(Store { shared })
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// What there is.
    pub fn checkpoints(&self) -> &Checkpoints {
        &self.shared.checkpoints
    }

    /// Starts a checkpoint.
    ///
    /// # Arguments
    /// - `previous`: the one whose files it may name; `None`: it is a full one.
    ///
    /// # Errors
    /// `Bug`: `previous` is not published in this folder.
    pub fn begin(&self, previous: Option<&Manifest>) -> Result<Writer> {
        let _turn = self.shared.turn.lock();
        let mut progress = self.shared.progress.lock();
        if let Some(previous) = previous.filter(|previous| !progress.published.contains(&previous.id())) {
            return Err(Error::bug(format!(
                "checkpoint {} is not in the folder any more",
                previous.id
            )));
        }
        let id = CheckpointId::new(now_ms(), progress.last_id.as_ref(), random());
        progress.last_id = Some(id.clone());
        let files = previous.map(|previous| previous.parts().map(|part| part.path.clone()).collect());
        progress.in_flight.insert(id.clone(), files.unwrap_or_default());
        drop(progress);
        Ok(Writer::new(self.shared.clone(), id, previous.cloned()))
    }

    /// Deletes checkpoints that need not be kept, and all files that none of the others names.
    ///
    /// # Errors
    /// `Corrupt`, `Unsupported`: a manifest or a savepoint cannot be read; nothing was deleted. `Unavailable`: listing or deleting
    /// failed; what was deleted was garbage, and the next call goes on.
    pub fn collect(&self, keep: Keep) -> Result<Collected> {
        let _turn = self.shared.turn.lock();
        let garbage = self.find_garbage(keep, now_ms())?;
        let blobs = &self.shared.checkpoints.blobs;
        let failed = |cause| fault::io("delete files of", &blobs.describe(None), cause);
        if !garbage.manifests.is_empty() {
            blobs.delete(&garbage.manifests).map_err(failed)?;
        }
        let mut progress = self.shared.progress.lock();
        progress.published.retain(|id| !garbage.checkpoints.contains(id));
        drop(progress);
        if !garbage.files.is_empty() {
            blobs.delete(&garbage.files).map_err(failed)?;
        }
        Ok(Collected {
            files: garbage.manifests.len() + garbage.files.len(),
            checkpoints: garbage.checkpoints,
        })
    }

    fn find_garbage(&self, keep: Keep, now_ms: i64) -> Result<Garbage> {
        let (checkpoints, in_flight) = (&self.shared.checkpoints, self.in_flight());
        let blobs = checkpoints.blobs.as_ref();
        let found = blobs
            .list(None)
            .map_err(|cause| fault::io("list", &blobs.describe(None), cause))?;
        let mut published = Vec::new();
        for (_, manifest) in checkpoints.all()? {
            let manifest = manifest.map_err(|error| fault::uncollected(&error))?;
            published.push(Published::of(&manifest));
        }
        self.check_complete(&published)?;
        let savepoints = checkpoints.savepoints().map_err(|error| fault::uncollected(&error))?;
        self.check_savepoints(&savepoints)?;
        Ok(garbage(&Facts {
            published: &published,
            savepoints: &savepoints.into_values().collect(),
            found: &found,
            in_flight: &in_flight,
            keep,
            now_ms,
        }))
    }

    fn in_flight(&self) -> Vec<InFlight> {
        let progress = self.shared.progress.lock();
        let writers = progress.in_flight.iter();
        writers
            .map(|(id, files)| InFlight {
                id: id.clone(),
                files: files.clone(),
            })
            .collect()
    }

    /// A listing that leaves out a checkpoint would have its files deleted.
    fn check_complete(&self, published: &[Published]) -> Result<()> {
        let known = self.shared.progress.lock().published.clone();
        let listed: BTreeSet<&CheckpointId> = published.iter().map(|published| &published.id).collect();
        for id in known.iter().filter(|id| !listed.contains(id)) {
            if self.shared.checkpoints.published(id)?.is_some() {
                let blobs = self.shared.checkpoints.blobs.as_ref();
                let hidden = fault::missing(blobs, id.as_str(), "the listing of the folder leaves it out");
                return Err(fault::uncollected(&hidden));
            }
            // Somebody removed its folder.
            self.shared.progress.lock().published.remove(id);
        }
        Ok(())
    }
}
