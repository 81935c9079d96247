//! Who owns a folder of checkpoints: `server.json`, put in place once, if absent.

use std::io;

use serde::{Deserialize, Serialize};

use super::blobs::{BlobPath, Blobs};
use super::listing::{Checkpoints, place, read_document};
use super::{OWNER, document, fault};
use crate::{Error, Result};

/// What the format of the file is called.
pub(super) const FORMAT_NAME: &str = "cenote-checkpoints";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Owner {
    checksum: String,
    format: String,
    version: u64,
    pub(super) server: String,
}

/// Whether the folder, or a checkpoint in it, is this server's.
pub(super) fn check_owner(checkpoints: &Checkpoints, owner: &str, server: &str) -> Result<()> {
    match owner == server {
        true => Ok(()),
        false => Err(fault::foreign(checkpoints.blobs.as_ref(), owner, server)),
    }
}

/// The server that the document names.
pub(super) fn owner_in(blobs: &dyn Blobs, path: &BlobPath, bytes: &[u8]) -> Result<String> {
    let owner = document::unseal::<Owner>(bytes, FORMAT_NAME).map_err(|flaw| fault::flawed(blobs, path, flaw))?;
    Ok(owner.server)
}

/// Writes down who owns the folder, unless somebody does.
pub(super) fn own(checkpoints: &Checkpoints, server: &str) -> Result<()> {
    let (path, blobs) = (place(OWNER.to_string())?, checkpoints.blobs.as_ref());
    if checkpoints.owner()?.is_none() {
        let owner = Owner {
            checksum: document::unsealed(),
            format: FORMAT_NAME.into(),
            version: document::FORMAT,
            server: server.to_string(),
        };
        let bytes = document::seal(&owner).map_err(|error| Error::bug(error.to_string()))?;
        match blobs.put_if_absent(&path, &bytes) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => outcome.map_err(|cause| fault::io("write", &blobs.describe(Some(&path)), cause))?,
        }
    }
    match read_document(blobs, &path)? {
        Some(bytes) => {
            let owner = owner_in(blobs, &path, &bytes)?;
            check_owner(checkpoints, &owner, server)?;
            let checked = blobs.check_put_if_absent(&path, &bytes);
            checked.map_err(|cause| fault::io("keep checkpoints in", &blobs.describe(None), cause))
        }
        None => Err(fault::lost(blobs, &path, "is not there after it was written")),
    }
}
