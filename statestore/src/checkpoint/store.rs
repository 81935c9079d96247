//! Checkpoints of a folder: what there is ([`Checkpoints`], for everybody), and the right to add and remove ([`Store`], for the
//! server that owns the folder).

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::blobs::{BlobPath, Blobs};
use super::garbage::{Facts, Garbage, InFlight, Keep, Published, garbage};
use super::identity::{CheckpointId, now_ms, random, rfc3339};
use super::manifest::{self, KeyGroups, Manifest, TableEntry};
use super::read::{Care, TableRows, check_bytes, check_length};
use super::verify::{Verified, verify};
use super::writer::Writer;
use super::{OWNER, SAVEPOINTS, document, fault, names};
use crate::{Error, ErrorKind, Result};

/// Bytes of a document at most: more is no document of ours.
const DOCUMENT_BYTES_MAX: u64 = 1 << 30;

const OWNER_FORMAT: &str = "cenote-checkpoints";
const SAVEPOINT_FORMAT: &str = "cenote-savepoint";

/// Bytes of a savepoint's name at most.
const NAME_BYTES_MAX: usize = 63;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Owner {
    checksum: String,
    format: String,
    version: u64,
    server: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavepointDocument {
    checksum: String,
    format: String,
    version: u64,
    name: String,
    checkpoint: String,
    time: String,
}

/// How much of a checkpoint is looked at before it is called whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Its manifest, and whether all files are there with their lengths.
    Lengths,
    /// Also the checksum of every file: reads all of them.
    Checksums,
}

/// The newest checkpoint that is whole, and newer ones that are not.
#[derive(Debug)]
pub struct Newest {
    /// The checkpoint; `None`: there is none that is whole.
    pub whole: Option<Checkpoint>,
    /// Newer ones that cannot be used, newest first, each with the reason. A caller that goes on with an older one must
    /// have been told to.
    pub damaged: Vec<(CheckpointId, Error)>,
}

/// The checkpoints in a folder, for reading.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    pub(super) blobs: Arc<dyn Blobs>,
}

/// One checkpoint, for reading.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    blobs: Arc<dyn Blobs>,
    manifest: Arc<Manifest>,
}

pub(super) fn place(path: String) -> Result<BlobPath> {
    BlobPath::parse(&path).ok_or_else(|| Error::bug(format!("`{path}` is no place for a file of checkpoints")))
}

pub(super) fn manifest_path(id: &CheckpointId) -> Result<BlobPath> {
    place(format!("{id}/{}", manifest::NAME))
}

fn savepoint_path(name: &str) -> Result<BlobPath> {
    place(format!("{SAVEPOINTS}/{}.json", names::escaped(name)))
}

fn read_document(blobs: &dyn Blobs, path: &BlobPath) -> Result<Option<Vec<u8>>> {
    let failed = |cause| fault::io("read", &blobs.describe(Some(path)), cause);
    let open = match blobs.open(path) {
        Ok(open) => open,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(fault::damaged(blobs, path, error));
        }
        Err(cause) => return Err(failed(cause)),
    };
    let mut bytes = Vec::new();
    open.bytes
        .take(DOCUMENT_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    match bytes.len() as u64 == open.length {
        true => Ok(Some(bytes)),
        false => Err(fault::damaged(
            blobs,
            path,
            format!("{} bytes came of it, not {}", bytes.len(), open.length),
        )),
    }
}

impl Checkpoints {
    /// The checkpoints that `blobs` keep.
    pub fn new(blobs: Arc<dyn Blobs>) -> Checkpoints {
        Checkpoints { blobs }
    }

    /// The server that the folder belongs to; `None`: it has no owner yet.
    ///
    /// # Errors
    /// `Corrupt`: the file that says so is damaged. `Unsupported`: a newer release wrote it.
    pub fn owner(&self) -> Result<Option<String>> {
        let path = place(OWNER.to_string())?;
        let Some(bytes) = read_document(self.blobs.as_ref(), &path)? else {
            return Ok(None);
        };
        let owner = document::unseal::<Owner>(&bytes, OWNER_FORMAT)
            .map_err(|flaw| fault::flawed(self.blobs.as_ref(), &path, flaw))?;
        Ok(Some(owner.server))
    }

    /// Every published checkpoint, oldest id first: its manifest, or why that cannot be used.
    ///
    /// # Errors
    /// `Unavailable`: the folder, or a manifest, cannot be read at all.
    pub fn all(&self) -> Result<Vec<(CheckpointId, Result<Manifest>)>> {
        let mut all = Vec::new();
        for id in self.folders()? {
            match self.published(&id) {
                Ok(None) => {}
                Ok(Some(manifest)) => all.push((id, Ok(manifest))),
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => all.push((id, Err(error))),
            }
        }
        Ok(all)
    }

    /// Names of folders of checkpoints, published or not.
    fn folders(&self) -> Result<Vec<CheckpointId>> {
        let folders = self.blobs.folders();
        let folders = folders.map_err(|cause| fault::io("list", &self.blobs.describe(None), cause))?;
        Ok(folders.iter().filter_map(|name| CheckpointId::parse(name)).collect())
    }

    /// The manifest of a checkpoint; `None`: it was not published.
    pub(super) fn published(&self, id: &CheckpointId) -> Result<Option<Manifest>> {
        let (path, blobs) = (manifest_path(id)?, self.blobs.as_ref());
        let Some(bytes) = read_document(blobs, &path)? else {
            return Ok(None);
        };
        let manifest: Manifest =
            document::unseal(&bytes, manifest::FORMAT_NAME).map_err(|flaw| fault::flawed(blobs, &path, flaw))?;
        if manifest.id != id.as_str() {
            return Err(fault::damaged(
                blobs,
                &path,
                format!("it is the manifest of {}", manifest.id),
            ));
        }
        manifest
            .check()
            .map_err(|reason| fault::damaged(blobs, &path, reason))?;
        Ok(Some(manifest))
    }

    /// Opens a checkpoint by its name.
    ///
    /// # Errors
    /// `Invalid`: there is none, or it was never published. `Corrupt`: its manifest is damaged. `Unsupported`: a newer release wrote it.
    pub fn open(&self, id: &str) -> Result<Checkpoint> {
        let parsed = CheckpointId::parse(id)
            .ok_or_else(|| fault::missing(self.blobs.as_ref(), id, "that is no name of a checkpoint"))?;
        match self.published(&parsed)? {
            Some(manifest) => Ok(self.checkpoint(manifest)),
            None => Err(fault::missing(
                self.blobs.as_ref(),
                id,
                "it has no manifest: it was not published, or was deleted",
            )),
        }
    }

    fn checkpoint(&self, manifest: Manifest) -> Checkpoint {
        Checkpoint {
            blobs: self.blobs.clone(),
            manifest: Arc::new(manifest),
        }
    }

    /// The newest checkpoint that is whole, and what is wrong with newer ones.
    ///
    /// # Errors
    /// `Unavailable`: something cannot be read at all, so what is newest is not known.
    pub fn newest_whole(&self, depth: Depth) -> Result<Newest> {
        let (mut manifests, mut damaged) = (Vec::new(), Vec::new());
        for (id, manifest) in self.all()? {
            match manifest {
                Ok(manifest) => manifests.push(manifest),
                Err(error) => damaged.push((id, error)),
            }
        }
        manifests.sort_by(|a, b| b.order().cmp(&a.order()));
        for manifest in manifests {
            let checkpoint = self.checkpoint(manifest);
            match checkpoint.check(depth) {
                Ok(()) => {
                    let id = checkpoint.manifest.id();
                    damaged.retain(|(other, _)| *other > id);
                    damaged.sort_by(|(a, _), (b, _)| b.cmp(a));
                    let whole = Some(checkpoint);
                    return Ok(Newest { whole, damaged });
                }
                Err(error) if error.kind() == ErrorKind::Unavailable => return Err(error),
                Err(error) => damaged.push((checkpoint.manifest.id(), error)),
            }
        }
        damaged.sort_by(|(a, _), (b, _)| b.cmp(a));
        Ok(Newest { whole: None, damaged })
    }

    /// Savepoints by name, and the checkpoint that each names.
    ///
    /// # Errors
    /// `Corrupt`: one of the files is damaged. `Unsupported`: a newer release wrote it. `Unavailable`: it cannot be read.
    pub fn savepoints(&self) -> Result<BTreeMap<String, CheckpointId>> {
        let (folder, blobs) = (place(SAVEPOINTS.to_string())?, self.blobs.as_ref());
        let found = blobs.list(Some(&folder));
        let found = found.map_err(|cause| fault::io("list", &blobs.describe(Some(&folder)), cause))?;
        let mut savepoints = BTreeMap::new();
        for file in found.iter().filter(|file| file.path.name().ends_with(".json")) {
            let Some(bytes) = read_document(blobs, &file.path)? else {
                continue;
            };
            let document: SavepointDocument =
                document::unseal(&bytes, SAVEPOINT_FORMAT).map_err(|flaw| fault::flawed(blobs, &file.path, flaw))?;
            let id = CheckpointId::parse(&document.checkpoint)
                .filter(|_| savepoint_path(&document.name).ok().as_ref() == Some(&file.path));
            let id =
                id.ok_or_else(|| fault::damaged(blobs, &file.path, "it names no checkpoint, or lies elsewhere"))?;
            savepoints.insert(document.name, id);
        }
        Ok(savepoints)
    }
}

impl Checkpoint {
    /// What is in it.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads the rows of a table whose key groups are in a range.
    ///
    /// # Arguments
    /// - `name`: as users give it: `t`, `cenote_state.t`.
    ///
    /// # Errors
    /// `Invalid`: there is no such table. Reading gives `Corrupt` for a file that is missing or damaged, and names it.
    pub fn read_table(&self, name: &str, groups: KeyGroups) -> Result<TableRows> {
        let table = self.table(name)?;
        Ok(TableRows::new(self.blobs.clone(), table, groups, Care::Usual))
    }

    /// The entry of a table.
    ///
    /// # Errors
    /// `Invalid`: there is no such table; the error lists those there are.
    pub fn table(&self, name: &str) -> Result<&TableEntry> {
        self.manifest.table(name).ok_or_else(|| {
            let names: Vec<String> = self.manifest.tables.iter().map(TableEntry::readable_name).collect();
            fault::no_table(&self.manifest.id(), name, &names)
        })
    }

    pub(super) fn read_thoroughly(&self, table: &TableEntry) -> TableRows {
        TableRows::new(self.blobs.clone(), table, KeyGroups::ALL, Care::Thorough)
    }

    /// Reads and checks everything.
    ///
    /// # Returns
    /// What was read, and all that is wrong.
    ///
    /// # Errors
    /// `Unavailable`: something cannot be read at all.
    pub fn verify(&self) -> Result<Verified> {
        verify(self)
    }

    pub(super) fn blobs(&self) -> &Arc<dyn Blobs> {
        &self.blobs
    }

    /// A table does not have the rows that the manifest says.
    pub(super) fn miscounted(&self, table: &TableEntry, found: u64, expected: u64) -> Error {
        let reason = format!("table `{}` has {found} rows, not {expected}", table.readable_name());
        match manifest_path(&self.manifest.id()) {
            Ok(path) => fault::damaged(self.blobs.as_ref(), &path, reason),
            Err(error) => error,
        }
    }

    fn check(&self, depth: Depth) -> Result<()> {
        self.manifest.parts().try_for_each(|part| match depth {
            Depth::Lengths => check_length(self.blobs.as_ref(), part).map(drop),
            Depth::Checksums => check_bytes(self.blobs.as_ref(), part),
        })
    }
}

/// What the writers of a store share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) checkpoints: Checkpoints,
    pub(super) server: String,
    pub(super) software: String,
    /// Held while files are looked at for deletion, and while savepoints are made.
    turn: Mutex<()>,
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
    savepoints: BTreeSet<String>,
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
        let mut progress = Progress::default();
        progress.last_id = checkpoints.folders()?.into_iter().max();
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

    /// Names a checkpoint, which is kept from then on.
    ///
    /// # Errors
    /// `Invalid`: the name is taken, empty or longer than 63 bytes; or there is no such checkpoint. `Corrupt`: its manifest is damaged.
    pub fn create_savepoint(&self, name: &str, id: &CheckpointId) -> Result<()> {
        let _turn = self.shared.turn.lock();
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(fault::savepoint("create", name, "a name has 1 to 63 bytes").sqlstate("42602"));
        }
        let blobs = &self.shared.checkpoints.blobs;
        self.shared.checkpoints.open(id.as_str())?;
        let document = SavepointDocument {
            checksum: document::unsealed(),
            format: SAVEPOINT_FORMAT.into(),
            version: document::FORMAT,
            name: name.to_string(),
            checkpoint: id.to_string(),
            time: rfc3339(now_ms()),
        };
        let path = savepoint_path(name)?;
        let bytes = document::seal(&document).map_err(|error| Error::bug(error.to_string()))?;
        match blobs.put_if_absent(&path, &bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(fault::savepoint("create", name, "it is there already"));
            }
            outcome => outcome.map_err(|cause| fault::io("write", &blobs.describe(Some(&path)), cause))?,
        }
        match read_document(blobs.as_ref(), &path) {
            Err(error) if error.kind() == ErrorKind::Unavailable => Err(error),
            Ok(Some(found)) if found == bytes => {
                self.shared.progress.lock().savepoints.insert(name.to_string());
                Ok(())
            }
            _ => {
                let _ = blobs.delete(std::slice::from_ref(&path));
                Err(fault::lost(blobs.as_ref(), &path, "is not what was written"))
            }
        }
    }

    /// Forgets a savepoint, also one whose file is damaged; its checkpoint is collected when its time has come.
    ///
    /// # Errors
    /// `Invalid`: there is none of that name.
    pub fn drop_savepoint(&self, name: &str) -> Result<()> {
        let _turn = self.shared.turn.lock();
        let none = || fault::savepoint("drop", name, "there is none of that name");
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(none());
        }
        let (path, blobs) = (savepoint_path(name)?, &self.shared.checkpoints.blobs);
        match blobs.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(none()),
            opened => drop(opened.map_err(|cause| fault::io("read", &blobs.describe(Some(&path)), cause))?),
        }
        let deleted = blobs.delete(std::slice::from_ref(&path));
        deleted.map_err(|cause| fault::io("delete", &blobs.describe(Some(&path)), cause))?;
        self.shared.progress.lock().savepoints.remove(name);
        Ok(())
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

impl Store {
    /// As [`Store::check_complete`], for savepoints.
    fn check_savepoints(&self, listed: &BTreeMap<String, CheckpointId>) -> Result<()> {
        let known = self.shared.progress.lock().savepoints.clone();
        let blobs = self.shared.checkpoints.blobs.as_ref();
        for name in known.iter().filter(|name| !listed.contains_key(*name)) {
            if read_document(blobs, &savepoint_path(name)?)?.is_some() {
                let hidden = fault::savepoint("find", name, "the listing of the folder leaves it out");
                return Err(fault::uncollected(&hidden));
            }
            self.shared.progress.lock().savepoints.remove(name);
        }
        Ok(())
    }
}

fn check_owner(checkpoints: &Checkpoints, owner: &str, server: &str) -> Result<()> {
    match owner == server {
        true => Ok(()),
        false => Err(fault::foreign(checkpoints.blobs.as_ref(), owner, server)),
    }
}

/// Writes down who owns the folder, unless somebody does.
fn own(checkpoints: &Checkpoints, server: &str) -> Result<()> {
    let (path, blobs) = (place(OWNER.to_string())?, checkpoints.blobs.as_ref());
    if checkpoints.owner()?.is_none() {
        let owner = Owner {
            checksum: document::unsealed(),
            format: OWNER_FORMAT.into(),
            version: document::FORMAT,
            server: server.to_string(),
        };
        let bytes = document::seal(&owner).map_err(|error| Error::bug(error.to_string()))?;
        match blobs.put_if_absent(&path, &bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => outcome.map_err(|cause| fault::io("write", &blobs.describe(Some(&path)), cause))?,
        }
    }
    match checkpoints.owner()? {
        Some(owner) => check_owner(checkpoints, &owner, server),
        None => Err(fault::lost(blobs, &path, "is not there after it was written")),
    }
}
