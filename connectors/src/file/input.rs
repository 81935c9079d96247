//! The bytes of a text file, decompressed, in blocks that hold whole lines.

use super::settings::Compression;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufReader, Read, Result as IoResult, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;

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
    is_packed: bool,
    /// Text bytes that may still be read.
    left: u64,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    /// Opens text at byte `start` (of the text), to be read up to byte `until`. `buffer` is used again.
    ///
    /// # Errors
    /// The file cannot be read, or the compressed data before `start` is damaged.
    pub(crate) fn open(
        mut file: File,
        packed: Compression,
        start: u64,
        until: Option<u64>,
        buffer: Vec<u8>,
    ) -> IoResult<Input> {
        let count = Arc::new(AtomicU64::new(0));
        let is_packed = packed.is_packed();
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
        let left = until.map_or(u64::MAX, |until| until.saturating_sub(start));
        Ok(Input {
            reader,
            count,
            reported: 0,
            is_packed,
            left,
            buffer,
            start: 0,
            end: 0,
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

    /// Whether the file is compressed.
    pub(crate) fn is_packed(&self) -> bool {
        self.is_packed
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
        if self.buffer.len() < self.end + BLOCK_BYTES {
            let grown = (self.end + BLOCK_BYTES).max(self.buffer.len() + self.buffer.len() / 2);
            self.buffer.resize(grown, 0);
        }
        let room_end = self.end + BLOCK_BYTES;
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
        if self.buffer.len() > 4 * BLOCK_BYTES {
            Vec::new()
        } else {
            self.buffer
        }
    }
}
