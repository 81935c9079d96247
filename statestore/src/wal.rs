//! The write-ahead log: what was acknowledged is read back after any crash, or the damage is named.
//!
//! A folder of segment files, appended to by one process. A caller appends any number of records and syncs once: that
//! is its group commit. [`Log::open`] checks every byte before it changes anything, and returns the records.
//!
//! # Rules kept here
//! 1. **Durable.** When [`Log::sync`] returns, all records appended before are on disk, and so are their files' names.
//! 2. **Whole.** A record comes back as it was appended, or not at all; records come back in order and without gaps.
//! 3. **Honest.** The tail that a crash tore is cut (`verdict` decides what is one); anything else that fails its
//!    check is refused, with file and byte, and nothing on disk is changed.
//! 4. **No second chance.** After a failed write or sync what is on disk is not known: every later call fails.
//!
//! # Not here
//! What records mean, when to sync, and what to do with them on replay: the caller's. Checkpoints, which let
//! [`Log::forget_before`] drop old segments.
//!
//! # Source
//! Fate of a failed sync: Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::{Error, Result};
use folder::FolderLock;
use frame::{HEAD, Head, Place, Purpose};
use identity::Identity;
use recovery::Survey;
use segment::{HEADER, Segment};

mod fault;
mod files;
mod folder;
mod frame;
mod identity;
mod record;
mod recovery;
mod replay;
mod segment;
mod verdict;

#[cfg(test)]
mod tests;

pub use files::{Disk, Files};
pub use record::Record;
pub use recovery::Cut;
pub use replay::Replay;

/// Appended bytes beyond which they are handed to the operating system before the next sync.
const BUFFER_BYTES: usize = 1 << 20;

/// How to keep a log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Bytes after which a segment takes no more records. A segment is longer by at most one record.
    pub segment_bytes: u64,
    /// What writes the files; other than [`Disk`] in tests only.
    pub files: Arc<dyn Files>,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions {
            segment_bytes: 64 << 20,
            files: Arc::new(Disk),
        }
    }
}

/// A log open for appending. The folder is locked until it is dropped.
///
/// Dropping does not sync: what was not synced was not acknowledged. [`Log::close`] is the clean end.
///
/// # Examples
/// ```
/// use cenote_statestore::Epoch;
/// use cenote_statestore::wal::{Log, LogOptions, Record};
///
/// let folder = tempfile::tempdir()?;
/// let (mut log, _) = Log::open(folder.path(), LogOptions::default())?;
/// let record = Record { epoch: Epoch(1), kind: 7, header: b"{}".to_vec(), batches: vec![] };
/// log.append(&record)?;
/// log.sync()?;
/// drop(log);
///
/// let (_log, replay) = Log::open(folder.path(), LogOptions::default())?;
/// assert_eq!(replay.collect::<Result<Vec<_>, _>>()?, [record]);
/// # Ok::<(), cenote_statestore::Error>(())
/// ```
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    options: LogOptions,
    identity: Identity,
    /// The last one is being written; its `end` counts bytes handed to the operating system.
    segments: Vec<Segment>,
    file: File,
    /// Bytes of the last segment that are durable.
    synced: u64,
    /// Whole frames that follow the last segment's end.
    buffer: Vec<u8>,
    next: u64,
    /// Whether the last frame is the mark of a clean close.
    marked: bool,
    poison: Option<Error>,
    _lock: FolderLock,
}

impl Log {
    /// Opens the log in a folder, or begins one there, and returns the records that it holds.
    ///
    /// # Cost
    /// Reads and checks the whole log; the replay reads what is wanted of it a second time ([`Replay::starting_at`]).
    ///
    /// # Errors
    /// - `Unavailable`: another process uses the folder (`WAL-0001`, names it), or a file cannot be read or written.
    /// - `Corrupt`: a record is damaged, or a file is damaged or missing; names file and byte. Nothing was changed.
    /// - `Unsupported`: a newer release wrote it. Nothing was changed.
    pub fn open(folder: &Path, options: LogOptions) -> Result<(Log, Replay)> {
        folder::create(folder, options.files.as_ref())?;
        let lock = FolderLock::take(folder)?;
        let mut survey = recovery::survey(folder)?;
        let file = survey.settle(folder, options.files.as_ref())?;
        let Survey {
            identity, next, marked, ..
        } = survey;
        let segments = survey.segments.clone();
        let synced = segments.last().map_or(HEADER as u64, |segment| segment.end);
        let log = Log {
            folder: folder.to_path_buf(),
            options,
            identity,
            segments,
            file,
            synced,
            buffer: Vec::new(),
            next,
            marked,
            poison: None,
            _lock: lock,
        };
        Ok((log, Replay::new(survey)))
    }

    /// Whether a folder has a log, or what is left of one.
    ///
    /// # Errors
    /// `Unavailable`: the folder cannot be read. `Corrupt`, `Unsupported`: the log that is there cannot be used.
    pub fn is_there(folder: &Path) -> Result<bool> {
        if !folder.is_dir() {
            return Ok(false);
        }
        let is_begun = |segment: &Segment| segment.end > HEADER as u64;
        Ok(Identity::load(folder)?.is_some() || segment::list(folder)?.segments.iter().any(is_begun))
    }

    /// Begins a log in a folder that has none, in place of one that is lost: it has no records yet, and is opened as any other.
    ///
    /// # Arguments
    /// - `id`: the lost log's.
    /// - `first`: the sequence number of its first record.
    ///
    /// # Returns
    /// Whether it was begun: there was none.
    ///
    /// # Errors
    /// `Unavailable`: another process uses the folder, or a file cannot be written. Beginning again starts over.
    pub fn begin(folder: &Path, id: &str, first: u64) -> Result<bool> {
        let files = LogOptions::default().files;
        folder::create(folder, files.as_ref())?;
        let _lock = FolderLock::take(folder)?;
        let id = identity::LogId::parse(id).ok_or_else(|| Error::bug("the name of a server is none of a log"))?;
        if Log::is_there(folder)? {
            return Ok(false);
        }
        // Of a beginning that was cut short.
        for segment in segment::list(folder)?.segments {
            let removed = files.remove(&segment.path);
            removed.map_err(|error| fault::io("remove", &segment.path, error))?;
        }
        recovery::create_segment(folder, id, first, files.as_ref())?;
        Identity { id, start: first }.store(folder, files.as_ref())?;
        Ok(true)
    }

    /// Appends a record; it is durable after the next [`Log::sync`].
    ///
    /// # Returns
    /// Its sequence number: 1 for the first of a log, then without gaps.
    ///
    /// # Errors
    /// - `Unsupported`: Arrow IPC cannot hold a batch of it. Nothing was appended; the log goes on.
    /// - `Unavailable`: a write failed, now or earlier. Every later call fails too.
    pub fn append(&mut self, record: &Record) -> Result<u64> {
        self.check_poison()?;
        let outcome = self.make_room();
        self.poison_by(outcome)?;
        self.encode(record)?;
        self.marked = false;
        let sequence = self.next;
        self.next += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            let outcome = self.flush();
            self.poison_by(outcome)?;
        }
        Ok(sequence)
    }

    /// Makes all appended records durable. Does nothing if they are.
    ///
    /// # Errors
    /// `Unavailable`: a write or the sync failed, now or earlier; whether the records will be there after a restart is
    /// not known. Every later call fails too.
    pub fn sync(&mut self) -> Result<()> {
        self.check_poison()?;
        let outcome = self.write_and_sync();
        self.poison_by(outcome)
    }

    /// Syncs and marks the end, so that later damage to the last records is told from a torn tail; then unlocks.
    ///
    /// # Errors
    /// As [`Log::sync`].
    pub fn close(mut self) -> Result<()> {
        self.sync()?;
        if !self.marked {
            self.append_mark();
            self.sync()?;
        }
        Ok(())
    }

    /// Drops the segments that hold only records before `lsn`, which the caller needs no more.
    ///
    /// # Errors
    /// `Unavailable`: a file cannot be written or removed. All records from `lsn` on are kept.
    pub fn forget_before(&mut self, lsn: u64) -> Result<()> {
        self.check_poison()?;
        let kept = self
            .segments
            .partition_point(|segment| segment.first <= lsn)
            .saturating_sub(1);
        if kept == 0 {
            return Ok(());
        }
        let files = self.options.files.clone();
        let identity = Identity {
            start: self.segments[kept].first,
            ..self.identity
        };
        identity.store(&self.folder, files.as_ref())?;
        self.identity = identity;
        for segment in self.segments.drain(..kept) {
            files
                .remove(&segment.path)
                .map_err(|error| fault::io("remove", &segment.path, error))?;
        }
        files
            .sync_folder(&self.folder)
            .map_err(|error| fault::io("sync", &self.folder, error))
    }

    /// The sequence number that the next record will have.
    pub fn next_lsn(&self) -> u64 {
        self.next
    }

    /// The sequence number of the first record that is kept.
    pub fn first_lsn(&self) -> u64 {
        self.identity.start
    }

    /// Bytes of all segments, those not yet synced included.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.end).sum::<u64>() + self.buffer.len() as u64
    }

    /// The random id of this log, as 32 hexadecimal digits; it is in its folder and in every segment.
    pub fn id(&self) -> String {
        self.identity.id.to_string()
    }

    fn end(&self) -> u64 {
        self.segments.last().map_or(HEADER as u64, |segment| segment.end)
    }

    /// Begins a new segment if the last one is full.
    fn make_room(&mut self) -> Result<()> {
        let written = self.end() + self.buffer.len() as u64;
        if written < self.options.segment_bytes || written == HEADER as u64 {
            return Ok(());
        }
        self.write_and_sync()?;
        let (segment, file) =
            recovery::create_segment(&self.folder, self.identity.id, self.next, self.options.files.as_ref())?;
        self.synced = segment.end;
        self.segments.push(segment);
        self.file = file;
        Ok(())
    }

    fn encode(&mut self, record: &Record) -> Result<()> {
        let header_length = u32::try_from(record.header.len())
            .map_err(|_| fault::unwritable(record, "its header is longer than 4 GiB"))?;
        let start = self.buffer.len();
        self.buffer.resize(start + HEAD, 0);
        if let Err(cause) = record::encode(record, &mut self.buffer) {
            self.buffer.truncate(start);
            return Err(fault::unwritable(record, &cause).source(cause));
        }
        self.close_frame(start, header_length, record.epoch.0, record.kind, Purpose::Record);
        Ok(())
    }

    fn append_mark(&mut self) {
        let start = self.buffer.len();
        self.buffer.resize(start + HEAD, 0);
        self.close_frame(start, 0, 0, 0, Purpose::Mark);
        self.marked = true;
    }

    fn close_frame(&mut self, start: usize, header_length: u32, epoch: u64, kind: u8, purpose: Purpose) {
        let segment = self.segments.last().map_or(0, |segment| segment.first);
        let place = Place {
            log: self.identity.id,
            segment,
            offset: self.end() + start as u64,
        };
        let head = Head {
            sequence: self.next,
            synced: self.synced,
            epoch,
            header_length,
            kind,
            purpose,
        };
        frame::close(&mut self.buffer, start, place, head);
    }

    fn flush(&mut self) -> Result<()> {
        let Some(segment) = self.segments.last_mut() else {
            return Ok(());
        };
        files::write_all(self.options.files.as_ref(), &self.file, &self.buffer)
            .map_err(|error| fault::io("write", &segment.path, error))?;
        segment.end += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(BUFFER_BYTES * 2);
        Ok(())
    }

    fn write_and_sync(&mut self) -> Result<()> {
        self.flush()?;
        let Some(segment) = self.segments.last() else {
            return Ok(());
        };
        if segment.end > self.synced {
            self.options
                .files
                .sync(&self.file)
                .map_err(|error| fault::io("sync", &segment.path, error))?;
            self.synced = segment.end;
        }
        Ok(())
    }

    fn check_poison(&self) -> Result<()> {
        self.poison
            .as_ref()
            .map_or(Ok(()), |first| Err(fault::poisoned(&self.folder, first)))
    }

    fn poison_by<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            self.poison = Some(error.clone());
        }
        outcome
    }
}
