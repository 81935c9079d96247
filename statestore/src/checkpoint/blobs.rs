//! The seam between checkpoints and what keeps their bytes: a folder on a local disk ([`super::LocalDisk`]), or a bucket of an
//! object store (`Bucket`, with the feature `object-store`).
//!
//! # Rules kept here
//! 1. A [`BlobPath`] names something inside the root and nothing else: no way up, no absolute path, no odd characters.
//! 2. A blob is whole or not there: what a writer that was dropped leaves is no blob of that name.
//!
//! # Not here
//! What the bytes mean; retries.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// Bytes of one name between two slashes at most: what file systems take, less room for a temporary ending.
const PART_BYTES_MAX: usize = 220;

/// Bytes of a path at most.
const PATH_BYTES_MAX: usize = 1024;

/// Where a blob is: names of letters, digits and `._-%~`, with slashes between them, below the root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobPath(String);

impl BlobPath {
    /// Reads a path; `None` if it could name something outside the root, or nothing.
    ///
    /// # Examples
    /// ```
    /// use cenote_statestore::checkpoint::BlobPath;
    /// assert!(BlobPath::parse("20261130T151923.123Z-9f3a01bc/public.t/1.arrow").is_some());
    /// assert!(["", "/etc/passwd", "a/../b", "a//b", "./a", "a\\b"].iter().all(|path| BlobPath::parse(path).is_none()));
    /// ```
    pub fn parse(path: &str) -> Option<BlobPath> {
        let whole = path.len() <= PATH_BYTES_MAX && path.split('/').all(is_part);
        whole.then(|| BlobPath(path.to_string()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name behind the last slash.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// What stands before the first slash; the whole path without one.
    pub fn first(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(first, _)| first)
    }
}

fn is_part(part: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'%' | b'~');
    !part.is_empty() && part.len() <= PART_BYTES_MAX && part.bytes().all(plain) && part.bytes().any(|byte| byte != b'.')
}

impl fmt::Display for BlobPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why what keeps blobs does not work at all, where a kind of [`io::Error`] does not tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such bucket.
    NoBucket,
    /// Who asks may not, or is not known.
    Denied,
    /// It cannot be reached.
    Unreachable,
    /// It overwrites, or may: it does not know how to put a blob in place unless one is there.
    Overwrites,
    /// What the environment says of it makes no sense.
    Settings,
}

/// A [`Refusal`] inside an [`io::Error`].
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct Refused {
    /// What it is.
    pub refusal: Refusal,
    /// Its reason, without secrets.
    pub text: String,
}

/// A blob that a listing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub path: BlobPath,
    /// Its length in bytes.
    pub length: u64,
}

/// A blob open for reading.
pub struct OpenBlob {
    /// Its length in bytes, as the store knows it.
    pub length: u64,
    /// Its bytes, from the first on.
    pub bytes: Box<dyn Read + Send>,
}

/// Where blobs are, for what lies in the same place and is none of theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A folder of this machine.
    Folder(PathBuf),
    /// Objects of a bucket in Amazon S3, or in what speaks its protocol.
    Bucket {
        /// The bucket.
        name: String,
        /// What begins the names of all objects; empty for none.
        prefix: String,
    },
}

/// A blob that is being written. Dropping it without [`BlobWriter::finish`] leaves no blob.
pub trait BlobWriter: Write + Send {
    /// Makes the blob durable under its name.
    ///
    /// # Errors
    /// `AlreadyExists`: there is one of that name, which was left as it is. Others: it may be there or not.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Keeps blobs. Calls block; they may come from several threads.
pub trait Blobs: fmt::Debug + Send + Sync {
    /// Starts a new blob, which is streamed.
    ///
    /// # Errors
    /// What the system says.
    fn create(&self, path: &BlobPath) -> io::Result<Box<dyn BlobWriter>>;

    /// Puts a small blob in place, durably, in one step, unless one is there.
    ///
    /// # Errors
    /// `AlreadyExists`: one is there, which was left as it is. Others: it may be there or not.
    fn put_if_absent(&self, path: &BlobPath, bytes: &[u8]) -> io::Result<()> {
        let mut writer = self.create(path)?;
        writer.write_all(bytes)?;
        writer.finish()
    }

    /// Checks that [`Blobs::put_if_absent`] does what it says, where that is not known.
    ///
    /// # Arguments
    /// - `there`, `bytes`: a blob that is there, and what is in it.
    ///
    /// # Errors
    /// [`Refusal::Overwrites`]: it does not.
    fn check_put_if_absent(&self, there: &BlobPath, bytes: &[u8]) -> io::Result<()> {
        let _ = (there, bytes);
        Ok(())
    }

    /// Opens a blob.
    ///
    /// # Errors
    /// `NotFound`: there is none.
    fn open(&self, path: &BlobPath) -> io::Result<OpenBlob>;

    /// All blobs below a folder, or below the root; what is no blob is left out.
    ///
    /// # Errors
    /// What the system says. A folder that is not there has none.
    fn list(&self, folder: Option<&BlobPath>) -> io::Result<Vec<Found>>;

    /// Names of the folders that lie directly in the root.
    ///
    /// # Errors
    /// What the system says. A root that is not there has none.
    fn folders(&self) -> io::Result<Vec<String>>;

    /// Deletes blobs, durably. Those that are not there are no error.
    ///
    /// # Errors
    /// What the system says; some of them may be gone.
    fn delete(&self, paths: &[BlobPath]) -> io::Result<()>;

    /// Where blobs are; `None`: nothing else can be there.
    fn location(&self) -> Option<Location> {
        None
    }

    /// Where blobs are, for messages.
    fn describe(&self, path: Option<&BlobPath>) -> String;
}
