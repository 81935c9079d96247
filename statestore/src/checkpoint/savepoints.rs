//! Names of checkpoints that are kept until they are dropped: `savepoints/<name>.json`.

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use super::blobs::BlobPath;
use super::identity::{CheckpointId, now_ms, rfc3339};
use super::listing::{Checkpoints, place, read_document};
use super::store::Store;
use super::{SAVEPOINTS, document, fault, names};
use crate::{Error, ErrorKind, Result};

const FORMAT_NAME: &str = "cenote-savepoint";

/// Bytes of a savepoint's name at most.
const NAME_BYTES_MAX: usize = 63;

/// A savepoint's name, and the checkpoint that it names.
pub type Savepoint = (String, CheckpointId);

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

fn savepoint_path(name: &str) -> Result<BlobPath> {
    place(format!("{SAVEPOINTS}/{}.json", names::escaped(name)))
}

impl Checkpoints {
    /// Savepoints by name, and the checkpoint that each names.
    ///
    /// # Errors
    /// `Corrupt`: one of the files is damaged. `Unsupported`: a newer release wrote it. `Unavailable`: it cannot be read.
    pub fn savepoints(&self) -> Result<BTreeMap<String, CheckpointId>> {
        self.each_savepoint()?
            .into_iter()
            .map(|(_, savepoint)| savepoint)
            .collect()
    }

    /// Every file of a savepoint, and what it says or what is wrong with it.
    ///
    /// # Errors
    /// `Unavailable`: the folder cannot be listed.
    pub fn each_savepoint(&self) -> Result<Vec<(BlobPath, Result<Savepoint>)>> {
        let (folder, blobs) = (place(SAVEPOINTS.to_string())?, self.blobs.as_ref());
        let found = blobs.list(Some(&folder));
        let found = found.map_err(|cause| fault::io("list", &blobs.describe(Some(&folder)), cause))?;
        let files = found.into_iter().filter(|file| file.path.name().ends_with(".json"));
        // One that is gone since it was listed is none.
        let read = files.filter_map(|file| Some((self.read_savepoint(&file.path).transpose()?, file.path)));
        Ok(read.map(|(savepoint, path)| (path, savepoint)).collect())
    }

    /// The checkpoint that a savepoint names; `None`: there is none of that name.
    ///
    /// # Errors
    /// As of [`Checkpoints::savepoints`], for this one.
    pub fn savepoint(&self, name: &str) -> Result<Option<CheckpointId>> {
        Ok(self.read_savepoint(&savepoint_path(name)?)?.map(|(_, id)| id))
    }

    fn read_savepoint(&self, path: &BlobPath) -> Result<Option<Savepoint>> {
        let blobs = self.blobs.as_ref();
        let Some(bytes) = read_document(blobs, path)? else {
            return Ok(None);
        };
        let document: SavepointDocument =
            document::unseal(&bytes, FORMAT_NAME).map_err(|flaw| fault::flawed(blobs, path, flaw))?;
        let id = CheckpointId::parse(&document.checkpoint)
            .filter(|_| savepoint_path(&document.name).ok().as_ref() == Some(path));
        let id = id.ok_or_else(|| fault::damaged(blobs, path, "it names no checkpoint, or lies elsewhere"))?;
        Ok(Some((document.name, id)))
    }
}

/// Refuses a name that no savepoint can have.
fn check_name(name: &str) -> Result<()> {
    match name.len() {
        1..=NAME_BYTES_MAX => Ok(()),
        _ => Err(fault::savepoint("create", name, "a name has 1 to 63 bytes").sqlstate("42602")),
    }
}

impl Store {
    /// Refuses a name that a new savepoint cannot have, before anything is written for it.
    ///
    /// # Errors
    /// `Invalid`: it is taken, empty or longer than 63 bytes. `Corrupt`: the file of that name is damaged.
    pub fn check_new_savepoint(&self, name: &str) -> Result<()> {
        check_name(name)?;
        match self.checkpoints().savepoint(name)? {
            None => Ok(()),
            Some(_) => {
                let error = fault::savepoint("create", name, "it is there already");
                Err(error.attempt(format!("DROP SAVEPOINT {name}, or take another name")))
            }
        }
    }

    /// Names a checkpoint, which is kept from then on.
    ///
    /// # Errors
    /// `Invalid`: the name is taken, empty or longer than 63 bytes; or there is no such checkpoint. `Corrupt`: its manifest is damaged.
    pub fn create_savepoint(&self, name: &str, id: &CheckpointId) -> Result<()> {
        let _turn = self.shared().turn.lock();
        check_name(name)?;
        let blobs = &self.shared().checkpoints.blobs;
        self.shared().checkpoints.open(id.as_str())?;
        let document = SavepointDocument {
            checksum: document::unsealed(),
            format: FORMAT_NAME.into(),
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
                self.shared().progress.lock().savepoints.insert(name.to_string());
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
        let _turn = self.shared().turn.lock();
        let none = || fault::savepoint("drop", name, "there is none of that name");
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(none());
        }
        let (path, blobs) = (savepoint_path(name)?, &self.shared().checkpoints.blobs);
        match blobs.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(none()),
            opened => drop(opened.map_err(|cause| fault::io("read", &blobs.describe(Some(&path)), cause))?),
        }
        let deleted = blobs.delete(std::slice::from_ref(&path));
        deleted.map_err(|cause| fault::io("delete", &blobs.describe(Some(&path)), cause))?;
        self.shared().progress.lock().savepoints.remove(name);
        Ok(())
    }

    /// As [`Store::check_complete`], for savepoints.
    pub(super) fn check_savepoints(&self, listed: &BTreeMap<String, CheckpointId>) -> Result<()> {
        let known = self.shared().progress.lock().savepoints.clone();
        let blobs = self.shared().checkpoints.blobs.as_ref();
        for name in known.iter().filter(|name| !listed.contains_key(*name)) {
            if read_document(blobs, &savepoint_path(name)?)?.is_some() {
                let hidden = fault::savepoint("find", name, "the listing of the folder leaves it out");
                return Err(fault::uncollected(&hidden));
            }
            self.shared().progress.lock().savepoints.remove(name);
        }
        Ok(())
    }
}
