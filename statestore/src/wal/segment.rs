//! A segment: one file of the log, named by the sequence number of its first record.
//!
//! It begins with a header of [`HEADER`] bytes: magic (8), format version (`u32`), the log's id (16), first sequence
//! number (`u64`), CRC-32 of these (`u32`), little-endian. Frames follow without gaps.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::fault;
use super::files::ASIDE;
use super::frame::{self, HEAD, Head, MAGIC, Place};
use super::identity::{FORMAT, LogId};
use super::verdict::{Flaw, Later, has_hole};
use crate::Result;

/// Bytes before the first frame.
pub(super) const HEADER: usize = 40;

const HEADER_MAGIC: [u8; 8] = *b"CENOTWAL";
const EXTENSION: &str = "wal";
const READ_AHEAD: usize = 256 << 10;

/// A segment on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub path: PathBuf,
    /// Sequence number of its first record.
    pub first: u64,
    /// Bytes up to the end of its last frame, or the file's length before it has been looked at.
    pub end: u64,
}

/// What a folder holds, in order.
#[derive(Default)]
pub(super) struct Listing {
    pub segments: Vec<Segment>,
    /// Files that were never put in place.
    pub aside: Vec<PathBuf>,
}

/// The path of the segment that starts with record `first`.
pub(super) fn path(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:020}.{EXTENSION}"))
}

/// Lists a folder. Files with other names are not the log's and are left alone.
pub(super) fn list(folder: &Path) -> Result<Listing> {
    let failed = |error| fault::io("list", folder, error);
    let mut listing = Listing::default();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == ASIDE) {
            listing.aside.push(path);
        } else if let Some(first) = first_of(&path) {
            let end = entry.metadata().map_err(failed)?.len();
            listing.segments.push(Segment { path, first, end });
        }
    }
    listing.segments.sort_by_key(|segment| segment.first);
    Ok(listing)
}

fn first_of(path: &Path) -> Option<u64> {
    let digits = path.file_name()?.to_str()?.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    (digits.len() == 20).then(|| digits.parse().ok())?
}

/// The header of a segment.
pub(super) fn header(log: LogId, first: u64) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..8].copy_from_slice(&HEADER_MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT.to_le_bytes());
    bytes[12..28].copy_from_slice(&log.0);
    bytes[28..36].copy_from_slice(&first.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[..36]);
    bytes[36..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The next thing in a segment.
#[derive(Debug)]
pub(super) enum Step {
    /// The segment ends here, cleanly.
    End,
    /// A frame that holds its checksum and is next in order.
    Frame(Head),
    /// The bytes here are no such frame.
    Bad(Flaw),
}

/// Reads a segment frame by frame, checking each.
#[derive(Debug)]
pub(super) struct Reader {
    file: BufReader<File>,
    segment: Segment,
    log: LogId,
    offset: u64,
    frame: Vec<u8>,
}

impl Reader {
    /// Opens a segment and checks its header.
    ///
    /// # Errors
    /// - `Corrupt`: the header is damaged, or belongs to another log or place in it.
    /// - `Unsupported`: a newer release wrote it.
    /// - `Unavailable`: the file cannot be read.
    pub(super) fn open(segment: &Segment, log: Option<LogId>) -> Result<Reader> {
        let failed = |error| fault::io("read", &segment.path, error);
        let file = File::open(&segment.path).map_err(failed)?;
        let mut file = BufReader::with_capacity(READ_AHEAD, file);
        let mut bytes = Vec::with_capacity(HEADER);
        file.by_ref()
            .take(HEADER as u64)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        let log = check_header(segment, &bytes, log)?;
        Ok(Reader {
            file,
            segment: segment.clone(),
            log,
            offset: HEADER as u64,
            frame: Vec::new(),
        })
    }

    /// The log that the header names.
    pub(super) fn log(&self) -> LogId {
        self.log
    }

    /// The segment that is read.
    pub(super) fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Byte at which the next frame starts.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Goes to a place where a frame starts.
    pub(super) fn go_to(&mut self, offset: u64) -> Result<()> {
        let failed = |error| fault::io("read", &self.segment.path, error);
        self.file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        self.offset = offset;
        Ok(())
    }

    /// The body of the frame that [`Reader::step`] returned last.
    pub(super) fn body(&self) -> &[u8] {
        self.frame.get(HEAD..).unwrap_or_default()
    }

    /// Takes the next frame, which should have sequence number `expected`. After a bad one there is no next.
    pub(super) fn step(&mut self, expected: u64) -> Result<Step> {
        let room = self.segment.end.saturating_sub(self.offset);
        if room == 0 {
            return Ok(Step::End);
        }
        let mut head = [0; HEAD];
        if room < HEAD as u64 {
            return Ok(Step::Bad(Flaw::Incomplete));
        }
        self.read(&mut head)?;
        let Some(length) = frame::length(&head, room) else {
            return Ok(Step::Bad(Flaw::Incomplete));
        };
        let mut frame = std::mem::take(&mut self.frame);
        frame.resize(length, 0);
        frame[..HEAD].copy_from_slice(&head);
        let outcome = self.read(&mut frame[HEAD..]);
        self.frame = frame;
        outcome?;
        let place = Place {
            log: self.log,
            segment: self.segment.first,
            offset: self.offset,
        };
        Ok(match frame::verified(&self.frame, place) {
            None => Step::Bad(Flaw::Checksum),
            Some(head) if head.sequence != expected => Step::Bad(Flaw::Order { found: head.sequence }),
            Some(head) => {
                self.offset += length as u64;
                Step::Frame(head)
            }
        })
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.file
            .read_exact(bytes)
            .map_err(|error| fault::io("read", &self.segment.path, error))
    }

    /// Looks for valid frames behind the bad place at which the reader stands.
    pub(super) fn later(&self) -> Result<Option<Later>> {
        let rest = self
            .rest()
            .map_err(|error| fault::io("read", &self.segment.path, error))?;
        let mut later: Option<Later> = None;
        let mut at = 1;
        while let Some(found) = rest
            .get(at..)
            .and_then(|from| from.windows(MAGIC.len()).position(|w| w == MAGIC))
        {
            at += found;
            match self.frame_in(&rest, at) {
                None => at += 1,
                Some((head, length)) => {
                    let hole = || has_hole(&rest, self.offset, self.offset + at as u64);
                    let known = *later.get_or_insert_with(|| Later {
                        synced: 0,
                        hole: hole(),
                    });
                    later = Some(Later {
                        synced: known.synced.max(head.synced),
                        ..known
                    });
                    at += length;
                }
            }
        }
        Ok(later)
    }

    fn rest(&self) -> io::Result<Vec<u8>> {
        let mut file = File::open(&self.segment.path)?;
        file.seek(SeekFrom::Start(self.offset))?;
        let mut rest = Vec::new();
        file.take(self.segment.end - self.offset).read_to_end(&mut rest)?;
        Ok(rest)
    }

    fn frame_in(&self, rest: &[u8], at: usize) -> Option<(Head, usize)> {
        let frame = &rest[at..];
        let length = frame::length(frame.first_chunk()?, frame.len() as u64)?;
        let place = Place {
            log: self.log,
            segment: self.segment.first,
            offset: self.offset + at as u64,
        };
        Some((frame::verified(&frame[..length], place)?, length))
    }
}

/// Checks a header; `log` is the id that it must have, if that is known.
fn check_header(segment: &Segment, bytes: &[u8], log: Option<LogId>) -> Result<LogId> {
    let damaged = |reason| Err(fault::damaged_file(&segment.path, reason));
    let Some(header) = bytes.first_chunk::<HEADER>() else {
        return damaged("it is shorter than its header");
    };
    if header[..8] != HEADER_MAGIC {
        return damaged("it is not a segment of a write-ahead log");
    }
    let version = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
    if version > FORMAT {
        return Err(fault::newer_format(&segment.path, version.into()));
    }
    let mut id = [0; 16];
    id.copy_from_slice(&header[12..28]);
    let found = LogId(id);
    let mut first = [0; 8];
    first.copy_from_slice(&header[28..36]);
    let first = u64::from_le_bytes(first);
    if *header != self::header(found, first) {
        return damaged("its header fails its checksum");
    }
    if first != segment.first {
        return damaged("its header names another place in the log than its file name");
    }
    match log {
        Some(log) if log != found => damaged("it belongs to another log"),
        _ => Ok(found),
    }
}
