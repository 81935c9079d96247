//! What checkpoints there are and what is in them: for everybody, without a right to change anything.

use std::io::{self, Read};
use std::sync::Arc;

use super::blobs::{BlobPath, Blobs};
use super::held::HeldFiles;
use super::identity::CheckpointId;
use super::manifest::{self, KeyGroups, Manifest, TableEntry};
use super::owner::owner_in;
use super::part::check_part;
use super::read::{Care, TableRows, check_bytes, check_length};
use super::verify::{Verified, verify};
use super::{OWNER, document, fault};
use crate::{Error, ErrorKind, Result};

/// Bytes of a document at most: more is no document of ours.
const DOCUMENT_BYTES_MAX: u64 = 1 << 30;

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
    held: Arc<HeldFiles>,
}

pub(super) fn place(path: String) -> Result<BlobPath> {
    BlobPath::parse(&path).ok_or_else(|| Error::bug(format!("`{path}` is no place for a file of checkpoints")))
}

pub(super) fn manifest_path(id: &CheckpointId) -> Result<BlobPath> {
    place(format!("{id}/{}", manifest::NAME))
}

/// The bytes of a document; `None`: there is none.
pub(super) fn read_document(blobs: &dyn Blobs, path: &BlobPath) -> Result<Option<Vec<u8>>> {
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
        owner_in(self.blobs.as_ref(), &path, &bytes).map(Some)
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
    pub(super) fn folders(&self) -> Result<Vec<CheckpointId>> {
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
            held: Arc::default(),
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
        Ok(TableRows::new(self, table, groups, Care::Usual))
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
        TableRows::new(self, table, KeyGroups::ALL, Care::Thorough)
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

    /// Checks what reading its tables has not: the files that nobody has come to since it was opened. Who reads them then finds them
    /// checked.
    ///
    /// # Errors
    /// `Corrupt`: a file is missing or damaged, also one that a reader found so; names it.
    pub fn check_unread(&self) -> Result<()> {
        let mut unread = self.manifest.parts().filter(|part| !self.held.was_whole(&part.path));
        unread.try_for_each(|part| check_part(self.blobs.as_ref(), &self.held, part))
    }

    pub(super) fn blobs(&self) -> &Arc<dyn Blobs> {
        &self.blobs
    }

    pub(super) fn held(&self) -> &Arc<HeldFiles> {
        &self.held
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
