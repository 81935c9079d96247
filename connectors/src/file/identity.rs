//! How a file is known again: by its place on disk and by how it begins.
//!
//! Device and inode numbers tell a renamed file from a new one while both are there, but they do not survive
//! a copy, and devices are numbered anew at a reboot. So a file is the same if its beginning is, as far as it
//! was read; the numbers only find where a renamed file has gone.

use std::fs::File;
use std::io::Result as IoResult;
use std::os::unix::fs::{FileExt, MetadataExt};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes at the beginning of a file that tell it from others.
const HEAD_BYTES: u64 = 4096;

/// A file as it was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    /// How much of the beginning is in `hash`.
    head_bytes: u64,
    hash: u64,
}

impl Identity {
    /// The identity of a file of which at least `read` bytes were read.
    pub(crate) fn of(file: &File, read: u64) -> IoResult<Identity> {
        let metadata = file.metadata()?;
        let head_bytes = read.min(HEAD_BYTES).min(metadata.len());
        let mut head = vec![0; head_bytes as usize];
        file.read_exact_at(&mut head, 0)?;
        Ok(Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            head_bytes,
            hash: xxh3_64(&head),
        })
    }

    /// Whether the file begins as it was known to.
    pub(crate) fn fits(&self, file: &File) -> IoResult<bool> {
        let found = Identity::of(file, self.head_bytes)?;
        Ok(found.head_bytes == self.head_bytes && found.hash == self.hash)
    }

    /// Whether all that tells it from others is in it.
    pub(crate) fn is_settled(&self) -> bool {
        self.head_bytes >= HEAD_BYTES
    }

    /// Whether these are the numbers of the same file on disk.
    pub(crate) fn is_at(&self, metadata: &std::fs::Metadata) -> bool {
        (self.device, self.inode) == (metadata.dev(), metadata.ino())
    }

    /// Device and inode as text.
    pub(crate) fn place(&self) -> String {
        format!("{:x}:{:x}", self.device, self.inode)
    }

    /// As text: `device:inode:bytes:hash`, hexadecimal.
    pub(crate) fn text(&self) -> String {
        format!(
            "{:x}:{:x}:{:x}:{:x}",
            self.device, self.inode, self.head_bytes, self.hash
        )
    }

    /// From its text; `None` if it is not one.
    pub(crate) fn parse(text: &str) -> Option<Identity> {
        let mut numbers = text.split(':').map(|number| u64::from_str_radix(number, 16).ok());
        let mut next = || numbers.next().flatten();
        Some(Identity {
            device: next()?,
            inode: next()?,
            head_bytes: next()?,
            hash: next()?,
        })
    }
}

/// Device and inode of a file as text.
pub(crate) fn place(metadata: &std::fs::Metadata) -> String {
    format!("{:x}:{:x}", metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_the_same_while_its_beginning_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let known = Identity::of(&File::open(&path).unwrap(), 4).unwrap();
        assert_eq!(Identity::parse(&known.text()), Some(known.clone()));
        std::fs::write(&path, "one\nthree\n").unwrap();
        assert!(known.fits(&File::open(&path).unwrap()).unwrap());
        std::fs::write(&path, "oNe\ntwo\n").unwrap();
        assert!(!known.fits(&File::open(&path).unwrap()).unwrap());
        std::fs::write(&path, "on").unwrap();
        assert!(!known.fits(&File::open(&path).unwrap()).unwrap());
        assert_eq!(Identity::parse("x:y"), None);
    }
}
