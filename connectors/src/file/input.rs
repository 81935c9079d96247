//! The bytes of a text file, decompressed, in blocks that hold whole lines.

use super::settings::Compression;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufReader, Read, Result as IoResult, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that counts the bytes read from it.
struct Counted {
    file: File,
    count: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> IoResult<usize> {
        let len = self.file.read(buffer)?;
        self.count.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }
}

/// How a file is compressed: as the options say, or by its ending, or by its first bytes.
pub(crate) fn compression_of(file: &File, path: &Path, setting: Compression) -> IoResult<Compression> {
    if setting != Compression::Auto {
        return Ok(setting);
    }
    let ending = path
        .extension()
        .and_then(|ending| ending.to_str())
        .unwrap_or("")
        .to_ascii_lowercase();
    let mut head = [0; 4];
    let len = file.read_at(&mut head, 0)?;
    Ok(match (ending.as_str(), &head[..len]) {
        ("gz", _) | (_, [0x1f, 0x8b, ..]) => Compression::Gzip,
        ("zst", _) | (_, [0x28, 0xb5, 0x2f, 0xfd]) => Compression::Zstd,
        _ => Compression::None,
    })
}

/// A text file open at some byte, with the bytes read and not used yet.
pub(crate) struct Input {
    reader: Box<dyn Read>,
    /// Bytes read from the file itself, and of them those reported.
    count: Arc<AtomicU64>,
    reported: u64,
    /// Text bytes that may still be read.
    left: u64,
    /// Text bytes read at once.
    block_bytes: usize,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Buffers of pieces that were given back.
    spare: Vec<Vec<u8>>,
}

/// Bytes cut off, to be used by themselves.
pub(crate) struct Piece {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    file_bytes: u64,
}

impl Piece {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Bytes that were read from the file since the piece before.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }
}

impl Input {
    /// Opens the bytes `range` of the text, to be read `block_bytes` at a time. `buffer` is used again.
    ///
    /// # Errors
    /// The file cannot be read, or the compressed data before the range is damaged.
    pub(crate) fn open(
        mut file: File,
        packed: Compression,
        range: Range<u64>,
        block_bytes: usize,
        buffer: Vec<u8>,
    ) -> IoResult<Input> {
        let count = Arc::new(AtomicU64::new(0));
        let (is_packed, start) = (packed.is_packed(), range.start);
        // Clones of a file share its position, so it may be anywhere.
        file.seek(SeekFrom::Start(if is_packed { 0 } else { start }))?;
        let counted = Counted {
            file,
            count: Arc::clone(&count),
        };
        let mut reader: Box<dyn Read> = match packed {
            Compression::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(1 << 18, counted))),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(counted)?),
            Compression::None | Compression::Auto => Box::new(counted),
        };
        if is_packed {
            std::io::copy(&mut reader.by_ref().take(start), &mut std::io::sink())?;
        }
        Ok(Input {
            reader,
            count,
            reported: 0,
            left: range.end.saturating_sub(start),
            block_bytes,
            buffer,
            start: 0,
            end: 0,
            spare: Vec::new(),
        })
    }

    /// The bytes read and not used yet.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Passes over bytes that were used.
    pub(crate) fn use_up(&mut self, bytes: usize) {
        self.start = (self.start + bytes).min(self.end);
    }

    /// Cuts the first `len` bytes at hand off; the others are copied.
    pub(crate) fn cut(&mut self, len: usize) -> Piece {
        let (start, end) = (self.start, self.start + len);
        let mut buffer = self.spare.pop().unwrap_or_default();
        let rest = &self.buffer[end..self.end];
        if buffer.len() < rest.len() {
            buffer.resize(rest.len(), 0);
        }
        buffer[..rest.len()].copy_from_slice(rest);
        (self.start, self.end) = (0, rest.len());
        let buffer = std::mem::replace(&mut self.buffer, buffer);
        let file_bytes = self.file_bytes();
        Piece {
            buffer,
            start,
            end,
            file_bytes,
        }
    }

    /// Takes a piece's buffer, to be used again; a very large one is let go.
    pub(crate) fn give_back(&mut self, piece: Piece) {
        if piece.buffer.len() <= 4 * self.block_bytes {
            self.spare.push(piece.buffer);
        }
    }

    /// Whether everything up to `until` was read.
    pub(crate) fn is_at_until(&self) -> bool {
        self.left == 0
    }

    /// Reads a block more behind the bytes at hand.
    ///
    /// # Returns
    /// Whether there may be more: `false` at the end.
    pub(crate) fn fill(&mut self) -> IoResult<bool> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() < self.end + self.block_bytes {
            let grown = (self.end + self.block_bytes).max(self.buffer.len() + self.buffer.len() / 2);
            self.buffer.resize(grown, 0);
        }
        let room_end = self.end + self.block_bytes;
        while self.end < room_end {
            let most = ((room_end - self.end) as u64).min(self.left) as usize;
            if most == 0 {
                // A decoder asked for nothing takes it for a fault.
                return Ok(false);
            }
            let len = match self.reader.read(&mut self.buffer[self.end..self.end + most]) {
                Ok(len) => len,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.end += len;
            self.left -= len as u64;
            if len == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bytes read from the file since the last call.
    pub(crate) fn file_bytes(&mut self) -> u64 {
        let count = self.count.load(Ordering::Relaxed);
        count - std::mem::replace(&mut self.reported, count)
    }

    /// The buffer, to be used again; a very large one is let go.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        if self.buffer.len() > 4 * self.block_bytes {
            Vec::new()
        } else {
            self.buffer
        }
    }
}
