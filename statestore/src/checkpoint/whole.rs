//! A file of rows that was read whole and held its checksum, and is read again in pieces.
//!
//! # Rules kept here
//! 1. All of a file is read, and held against its length and its checksum, before any of it is used. Of a long one the checksums of its
//!    pieces are kept then, and each piece is held against its own when it is read to be used: what is used was checked.
//! 2. Memory is bounded, however long a file is.
//!
//! # Not here
//! What the bytes mean (`part`); who else reads them (`held`).

use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::Buffer;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::blobs::{BlobPath, Blobs};
use super::manifest::PartEntry;
use super::{document, fault, part};
use crate::Result;

/// Bytes of a piece: what is near to the processor when its checksum is taken.
const PIECE_BYTES: usize = 256 << 10;

/// A file of so many bytes is kept in memory as a whole.
const SHORT_BYTES: u64 = 1 << 20;

/// Bytes at the end of a longer one that are kept.
const END_BYTES: usize = 16 << 10;

/// A file that was checked.
#[derive(Debug)]
pub(super) struct WholeFile {
    length: u64,
    /// Its last bytes; all of a short one.
    end: Buffer,
    /// The checksums of its pieces; none of a short one.
    pieces: Vec<u64>,
}

impl WholeFile {
    /// Reads a file, and checks its length and its checksum.
    pub(super) fn check(blobs: &dyn Blobs, path: &BlobPath, entry: &PartEntry) -> Result<WholeFile> {
        let mut open = part::open(blobs, path)?;
        if open.length != entry.length {
            let reason = format!("it has {} bytes, not {}", open.length, entry.length);
            return Err(fault::damaged(blobs, path, reason));
        }
        let is_short = entry.length <= SHORT_BYTES;
        let (mut hash, mut length, mut pieces) = (Xxh3::default(), 0, Vec::new());
        let (mut piece, mut end) = (Vec::new(), Vec::new());
        // A file may have grown since it was opened, so it is read until there is no more.
        while length <= entry.length && next_piece(blobs, path, &mut open.bytes, &mut piece)? {
            hash.update(&piece);
            length += piece.len() as u64;
            if is_short {
                end.extend_from_slice(&piece);
            } else {
                pieces.push(xxh3_64(&piece));
                keep_end(&mut end, &piece);
            }
        }
        if length != entry.length {
            let reason = format!("{length} bytes came of it, not {}", entry.length);
            return Err(fault::damaged(blobs, path, reason));
        }
        if document::digits(hash.digest()) != entry.checksum {
            return Err(fault::damaged(blobs, path, "it fails its checksum"));
        }
        let end = Buffer::from_vec(end);
        Ok(WholeFile { length, end, pieces })
    }

    /// Its bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Whether all of it is in memory.
    pub(super) fn is_short(&self) -> bool {
        self.end.len() as u64 == self.length
    }
}

/// Reads the next piece: a whole one, unless it is the last.
///
/// # Returns
/// Whether there was one.
fn next_piece(blobs: &dyn Blobs, path: &BlobPath, bytes: &mut impl Read, piece: &mut Vec<u8>) -> Result<bool> {
    piece.resize(PIECE_BYTES, 0);
    let mut filled = 0;
    while filled < piece.len() {
        match bytes.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(cause) => return Err(fault::io("read", &blobs.describe(Some(path)), cause)),
        }
    }
    piece.truncate(filled);
    Ok(filled > 0)
}

/// Goes on with the last bytes of what is read.
fn keep_end(end: &mut Vec<u8>, piece: &[u8]) {
    let more = &piece[piece.len().saturating_sub(END_BYTES)..];
    let left = (end.len() + more.len()).saturating_sub(END_BYTES);
    end.drain(..left);
    end.extend_from_slice(more);
}

/// Reads a file that was checked, from its beginning on.
pub(super) struct Pieces {
    file: Arc<WholeFile>,
    /// What comes behind the piece; `None`: it is not open.
    bytes: Option<Box<dyn Read + Send>>,
    piece: Vec<u8>,
    /// The number of the piece behind it.
    next: u64,
}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pieces(of {:?}, {} read)", self.file, self.next)
    }
}

impl Pieces {
    /// The pieces of a file.
    pub(super) fn new(file: Arc<WholeFile>) -> Pieces {
        let (bytes, piece, next) = (None, Vec::new(), 0);
        Pieces {
            file,
            bytes,
            piece,
            next,
        }
    }

    /// Bytes of the file. It is opened again where they lie before those that were read last.
    ///
    /// # Arguments
    /// - `range`: within the file.
    ///
    /// # Errors
    /// `Corrupt`: they are not what they were when the file was checked.
    pub(super) fn read(&mut self, blobs: &dyn Blobs, path: &BlobPath, range: Range<u64>) -> Result<Buffer> {
        let (count, end) = ((range.end - range.start) as usize, &self.file.end);
        let end_start = self.file.length - end.len() as u64;
        if range.start >= end_start {
            return Ok(end.slice_with_length((range.start - end_start) as usize, count));
        }
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let at = range.start + taken.len() as u64;
            self.go_to(blobs, path, at / PIECE_BYTES as u64)?;
            let here = &self.piece[(at % PIECE_BYTES as u64) as usize..];
            taken.extend_from_slice(&here[..here.len().min(count - taken.len())]);
        }
        Ok(Buffer::from_vec(taken))
    }

    /// Reads on to a piece.
    fn go_to(&mut self, blobs: &dyn Blobs, path: &BlobPath, number: u64) -> Result<()> {
        if number + 1 < self.next {
            (self.bytes, self.next) = (None, 0);
        }
        while self.next <= number {
            let bytes = match &mut self.bytes {
                Some(bytes) => bytes,
                None => self.bytes.insert(part::open(blobs, path)?.bytes),
            };
            next_piece(blobs, path, bytes, &mut self.piece)?;
            if self.file.pieces.get(self.next as usize) != Some(&xxh3_64(&self.piece)) {
                return Err(fault::damaged(blobs, path, "it is not what it was when it was checked"));
            }
            self.next += 1;
        }
        Ok(())
    }
}
