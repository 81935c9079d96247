//! Who a log is: a random id in the folder and in every segment, and where the log starts.
//!
//! `log.json` holds the format version, the id, and the sequence number of the first record that is still kept.
//! It is replaced whole, and has a checksum, as a wrong start would hide records.

use std::fmt;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fault;
use super::files::{self, Files};
use crate::Result;

/// The format version that this release writes; it reads all up to it.
pub(super) const FORMAT: u32 = 1;

const NAME: &str = "log.json";
const FORMAT_NAME: &str = "cenote-wal";

/// A random number that tells logs apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogId(pub [u8; 16]);

impl LogId {
    /// A new id. The standard library seeds its hash maps from the system's randomness; so does this.
    pub(super) fn random() -> LogId {
        let half = || RandomState::new().hash_one(0u8).to_le_bytes();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&half());
        id[8..].copy_from_slice(&half());
        LogId(id)
    }

    /// Reads an id as it is shown; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<LogId> {
        let id = LogId(u128::from_str_radix(text, 16).ok()?.to_be_bytes());
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// The contents of `log.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub id: LogId,
    /// Sequence number of the first record kept, which is the first of a segment.
    pub start: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: String,
    version: u64,
    id: String,
    start: u64,
    crc32: u32,
}

/// All that a reader needs to know before it trusts the other fields.
#[derive(Deserialize)]
struct Preface {
    format: String,
    version: u64,
}

impl Identity {
    /// Reads the identity of a folder; `None` if it has none.
    pub(super) fn load(folder: &Path) -> Result<Option<Identity>> {
        let path = path(folder);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(fault::io("read", &path, error)),
        };
        match serde_json::from_slice::<Preface>(&bytes) {
            Ok(preface) if preface.format == FORMAT_NAME && preface.version > u64::from(FORMAT) => {
                return Err(fault::newer_format(&path, preface.version));
            }
            _ => {}
        }
        let identity = serde_json::from_slice(&bytes).ok().and_then(parse);
        identity
            .map(Some)
            .ok_or_else(|| fault::damaged_file(&path, "it is not the identity of a log, or is damaged"))
    }

    /// Replaces the identity of a folder.
    pub(super) fn store(&self, folder: &Path, files: &dyn Files) -> Result<()> {
        let path = path(folder);
        files::publish(files, &path, &self.text()).map_err(|error| fault::io("write", &path, error))?;
        Ok(())
    }

    fn text(&self) -> Vec<u8> {
        let text = Text {
            format: FORMAT_NAME.into(),
            version: FORMAT.into(),
            id: self.id.to_string(),
            start: self.start,
            crc32: self.checksum(),
        };
        let mut bytes = serde_json::to_vec(&text).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    fn checksum(&self) -> u32 {
        crc32fast::hash(format!("{FORMAT_NAME} {FORMAT} {} {}", self.id, self.start).as_bytes())
    }
}

fn parse(text: Text) -> Option<Identity> {
    let id = LogId::parse(&text.id)?;
    let identity = Identity { id, start: text.start };
    let known = text.format == FORMAT_NAME && text.version == u64::from(FORMAT) && text.start > 0;
    (known && text.crc32 == identity.checksum()).then_some(identity)
}

/// Where the identity of a folder is.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}
