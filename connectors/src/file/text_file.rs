//! One text file while it is read: its header, its records, its end.
//!
//! A large file is decoded by a [`Team`] where the source may use several threads: the bytes at hand are cut behind their last
//! whole record, and what comes back is handed over in the order of the file. A file of CSV can be cut at any line feed
//! as long as no quote stands before it; bytes with a quote are decoded on the source's thread, as are small files and
//! what comes in by and by.
//!
//! # Rules kept here
//! 1. The offset noted always stands at the beginning of a record; bytes of an unfinished one are read again.
//! 2. What the team has is taken back before anything is read, passed over or reported here, so that lines and offsets are
//!    counted in the order of the file.
//!
//! # Not here
//! Opening a file and what its faults mean (`read`); what a record means (`json`, `csv`).

use super::identity::Identity;
use super::input::Input;
use super::read::{Halt, Task, fault, io_fault, shrunk};
use super::settings::Settings;
use super::sink::{BadLine, Sink};
use super::team::{Decoded, Decoder, Team};
use crate::rows::Rows;
use crate::text::{Progress, TextRows, lengthy_fault};
use cenote_engine::port::{PartitionOffset, SourceRequest, StopToken};
use memchr::memchr;
use std::fs::File;

pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text file while it is read.
pub(crate) struct TextFile<'t> {
    pub(crate) request: &'t SourceRequest,
    pub(crate) settings: &'t Settings,
    pub(crate) input: Input,
    pub(crate) format: TextRows,
    pub(crate) place: Place<'t>,
    /// Threads that may decode.
    pub(crate) threads: usize,
    /// Present from the first piece on.
    pub(crate) team: Option<Team>,
}

/// How far a file was handed over.
pub(crate) struct Place<'t> {
    pub(crate) task: &'t Task<'t>,
    pub(crate) file: File,
    pub(crate) is_packed: bool,
    pub(crate) identity: Identity,
    /// Bytes of text.
    pub(crate) position: u64,
    /// Lines before that.
    pub(crate) lines: u64,
}

impl TextFile<'_> {
    /// Reads to the end; `false` if told to stop.
    ///
    /// # Errors
    /// See [`Halt`].
    pub(crate) fn read(&mut self, stop: &StopToken, sink: &mut Sink<'_>) -> Result<bool, Halt> {
        loop {
            if stop.is_stopped() {
                return Ok(false);
            }
            let filled = self.input.fill();
            if self.team.is_none() {
                sink.count(self.input.file_bytes(), 0);
            }
            let more = match filled {
                Ok(more) => more,
                Err(error) => {
                    self.take_back(sink)?;
                    return Err(io_fault(self.place.lines + 1)(error));
                }
            };
            if self.is_at_beginning() && self.input.bytes().starts_with(BYTE_ORDER_MARK) {
                self.advance(BYTE_ORDER_MARK.len(), 0);
            }
            let last = !more && !self.place.task.follow;
            if self.read_header(sink, last)? {
                self.read_at_hand(sink, more, last)?;
            }
            if self.input.bytes().len() > self.settings.line_bytes_max {
                self.take_back(sink)?;
                self.pass_long_line(sink)?;
            }
            if !more {
                return self.end(sink);
            }
        }
    }

    /// Whether the bytes at hand are the first of the file.
    fn is_at_beginning(&self) -> bool {
        self.place.position == 0 && self.team.is_none()
    }

    /// Reads the CSV header if it is still to come; whether records follow.
    fn read_header(&mut self, sink: &mut Sink<'_>, last: bool) -> Result<bool, Halt> {
        let TextRows::Csv(csv) = &mut self.format else {
            return Ok(true);
        };
        if !csv.wants_header() {
            return Ok(true);
        }
        let header = csv.header(&sink.rows, self.input.bytes(), last);
        let Some(len) = header.map_err(|found| fault(1, found.reason, "42703"))? else {
            return Ok(false);
        };
        let lines = memchr::memchr_iter(b'\n', &self.input.bytes()[..len]).count() as u64;
        self.advance(len, lines.max(u64::from(len > 0)));
        self.place.note(sink)?;
        Ok(true)
    }

    /// Reads the records at hand, or has the team do so.
    fn read_at_hand(&mut self, sink: &mut Sink<'_>, more: bool, last: bool) -> Result<(), Halt> {
        if self.threads > 1
            && (more || self.team.is_some())
            && let Some(len) = self.format.whole(self.input.bytes())
        {
            if len > 0 {
                self.hand_out(len, sink)?;
            }
            if more {
                return Ok(());
            }
        }
        self.take_back(sink)?;
        self.read_records(sink, last)
    }

    /// Hands the first `len` bytes at hand to the team, and takes what it has done.
    fn hand_out(&mut self, len: usize, sink: &mut Sink<'_>) -> Result<(), Halt> {
        if self.team.is_none() {
            let decoder = || {
                Ok(Decoder {
                    format: self.format.another(),
                    rows: Rows::new(&self.request.schema, self.request.projection.as_deref())?,
                    limits: sink.limits_of_parts(),
                    fail: self.settings.fail,
                })
            };
            self.team = Some(Team::start(self.threads, decoder)?);
        }
        while let Some(team) = self.team.as_mut().filter(|team| team.is_full_for(len))
            && let Some(decoded) = team.take()?
        {
            self.take_decoded(decoded, sink)?;
        }
        let piece = self.input.cut(len);
        if let Some(team) = &mut self.team {
            team.submit(piece);
        }
        while let Some(team) = &mut self.team
            && let Some(decoded) = team.take_ready()?
        {
            self.take_decoded(decoded, sink)?;
        }
        Ok(())
    }

    /// Takes all that the team has, so that this thread can go on by itself.
    fn take_back(&mut self, sink: &mut Sink<'_>) -> Result<(), Halt> {
        while let Some(team) = &mut self.team
            && let Some(decoded) = team.take()?
        {
            self.take_decoded(decoded, sink)?;
        }
        sink.count(self.input.file_bytes(), 0);
        Ok(())
    }

    fn take_decoded(&mut self, decoded: Decoded, sink: &mut Sink<'_>) -> Result<(), Halt> {
        let Decoded { piece, parts } = decoded;
        sink.count(piece.file_bytes(), 0);
        for part in parts {
            let bytes = &piece.bytes()[part.start..];
            let text_bytes = part.progress.bytes as u64;
            sink.add(part.rows, part.progress.bad.len())?;
            self.place.take(bytes, part.progress, sink)?;
            sink.count(0, text_bytes);
            if sink.is_full() {
                sink.flush()?;
            }
        }
        self.input.give_back(piece);
        Ok(())
    }

    /// Reads the records at hand, handing over full batches.
    fn read_records(&mut self, sink: &mut Sink<'_>, last: bool) -> Result<(), Halt> {
        loop {
            let limits = sink.limits();
            let progress = self.format.read(&mut sink.rows, self.input.bytes(), last, limits);
            let bytes = progress.bytes;
            if bytes == 0 {
                return Ok(());
            }
            self.place.take(self.input.bytes(), progress, sink)?;
            self.input.use_up(bytes);
            sink.count(0, bytes as u64);
            if sink.is_full() {
                sink.flush()?;
            }
        }
    }

    fn advance(&mut self, bytes: usize, lines: u64) {
        self.input.use_up(bytes);
        self.place.advance(bytes as u64, lines);
    }

    /// Passes over the line at hand, which is longer than allowed, as a bad row.
    fn pass_long_line(&mut self, sink: &mut Sink<'_>) -> Result<(), Halt> {
        let found = lengthy_fault(self.settings.line_bytes_max);
        let text = self.input.bytes()[..self.input.bytes().len().min(2048)].to_vec();
        let text = text.split(|byte| *byte == b'\n').next().unwrap_or(&text);
        self.place.note(sink)?;
        let bad = BadLine {
            partition: self.place.task.partition,
            line: self.place.lines + 1,
            byte_offset: self.place.position,
            text,
            reason: found.reason,
            sqlstate: found.kind.sqlstate(),
            code: "CONN-0007",
        };
        let mut passed = 0u64;
        loop {
            let found = memchr(b'\n', self.input.bytes());
            let len = found.map_or(self.input.bytes().len(), |at| at + 1);
            self.input.use_up(len);
            passed += len as u64;
            if found.is_some() {
                break;
            }
            let more = self.input.fill().map_err(io_fault(self.place.lines + 1))?;
            sink.count(self.input.file_bytes(), 0);
            if !more && self.input.bytes().is_empty() {
                if self.place.task.follow {
                    // Its end is still to come: it is met again from its beginning.
                    return Ok(());
                }
                break;
            }
        }
        sink.refuse(bad)?;
        self.place.advance(passed, 1);
        self.place.note(sink)
    }

    /// At the end of the file.
    fn end(&mut self, sink: &mut Sink<'_>) -> Result<bool, Halt> {
        let task = self.place.task;
        if task.until.is_some() && !self.input.is_at_until() {
            return Err(shrunk(self.place.position, task.until));
        }
        // Before its header a CSV file was not begun, even behind a byte order mark.
        let begun = !matches!(&self.format, TextRows::Csv(csv) if csv.wants_header());
        if begun && task.offset.is_none() && sink.latest(task.partition).is_none() {
            self.place.note(sink)?;
        }
        Ok(true)
    }
}

impl Place<'_> {
    /// Notes what was read of `bytes`, which begin here.
    fn take(&mut self, bytes: &[u8], progress: Progress, sink: &mut Sink<'_>) -> Result<(), Halt> {
        let (start, first_line) = (self.position, self.lines + 1);
        for bad in progress.bad {
            // With `on_error = 'fail'` the offset handed over must stand before the row.
            let offset = self.offset_at(start + bad.start as u64, first_line - 1 + bad.lines_before)?;
            sink.reached(self.task.partition, offset);
            let text = &bytes[bad.start..bad.end];
            let text = text.strip_suffix(b"\n").unwrap_or(text);
            sink.refuse(BadLine {
                partition: self.task.partition,
                line: first_line + bad.lines_before,
                byte_offset: start + bad.start as u64,
                text: text.strip_suffix(b"\r").unwrap_or(text),
                reason: bad.fault.reason,
                sqlstate: bad.fault.kind.sqlstate(),
                code: "CONN-0007",
            })?;
            debug_assert!(bad.end <= progress.bytes);
        }
        self.advance(progress.bytes as u64, progress.lines);
        self.note(sink)
    }

    fn advance(&mut self, bytes: u64, lines: u64) {
        self.position += bytes;
        self.lines += lines;
    }

    fn note(&mut self, sink: &mut Sink<'_>) -> Result<(), Halt> {
        let offset = self.offset_at(self.position, self.lines)?;
        sink.reached(self.task.partition, offset);
        Ok(())
    }

    fn offset_at(&mut self, position: u64, records: u64) -> Result<PartitionOffset, Halt> {
        if !self.identity.is_settled() {
            // How far the file itself was read; a compressed one is known by its beginning at once.
            let read = if self.is_packed { u64::MAX } else { position };
            self.identity = Identity::of(&self.file, read).map_err(io_fault(records))?;
        }
        Ok(PartitionOffset {
            position,
            records,
            done: false,
            identity: self.identity.text(),
        })
    }
}
