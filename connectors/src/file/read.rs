//! Reading one file, from an offset on, into a [`Sink`].
//!
//! # Rules kept here
//! 1. The offset noted for a file always stands at the beginning of a record; bytes of an unfinished one
//!    are read again.
//! 2. What is wrong with the file itself comes back as [`Halt::File`]; only the output's errors end the source.

use super::identity::Identity;
use super::input::{Input, compression_of};
use super::policy;
use super::settings::{Compression, Format, Settings};
use super::sink::{BadLine, Sink};
use crate::csv::{CsvRows, HeaderRule};
use crate::json::JsonRows;
use crate::parquet::ParquetFile;
use crate::text::{Progress, TextRows, lengthy_fault};
use cenote_engine::port::{PartitionOffset, SourceRequest, StopToken};
use cenote_statestore::{Error, Result};
use memchr::memchr;
use std::fs::File;
use std::path::Path;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Why reading a file ended early.
pub(crate) enum Halt {
    /// The source must end.
    Source(Error),
    /// This file cannot be read any further.
    File(FileFault),
}

/// What is wrong with a file.
pub(crate) struct FileFault {
    /// The line or record reached; 0: none.
    pub(crate) line: u64,
    pub(crate) reason: String,
    pub(crate) sqlstate: &'static str,
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Source(error)
    }
}

/// A file to read and how far.
pub(crate) struct Task<'a> {
    /// The name of the partition.
    pub(crate) partition: &'a str,
    pub(crate) path: &'a Path,
    /// Where to start.
    pub(crate) offset: Option<&'a PartitionOffset>,
    /// Where to end, exactly.
    pub(crate) until: Option<u64>,
    /// Whether more lines may come behind the last: an unfinished one is left then.
    pub(crate) follow: bool,
}

/// Reads files of one source, one after the other.
pub(crate) struct Reader<'a> {
    request: &'a SourceRequest,
    settings: &'a Settings,
    stop: &'a StopToken,
    /// Kept from file to file.
    buffer: Vec<u8>,
    json: Option<JsonRows>,
}

/// A text file while it is read.
struct TextFile<'t> {
    task: &'t Task<'t>,
    file: File,
    input: Input,
    format: TextRows,
    identity: Identity,
    /// Where the bytes at hand begin.
    position: u64,
    /// Lines before that.
    lines: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(request: &'a SourceRequest, settings: &'a Settings, stop: &'a StopToken) -> Reader<'a> {
        Reader {
            request,
            settings,
            stop,
            buffer: Vec::new(),
            json: None,
        }
    }

    /// What the source was asked for.
    pub(crate) fn request(&self) -> &'a SourceRequest {
        self.request
    }

    /// Reads a file to its end (or to `until`, or to the last whole line of a followed one).
    ///
    /// # Returns
    /// Whether it was read that far: `false` if the source was told to stop. The offset is noted in the sink,
    /// not as done.
    ///
    /// # Errors
    /// See [`Halt`].
    pub(crate) fn read(&mut self, task: &Task<'_>, sink: &mut Sink<'_>) -> Result<bool, Halt> {
        let file = policy::open(task.path, &self.request.paths).map_err(file_error)?;
        check_same(&file, task)?;
        match self.settings.format {
            Format::Parquet => self.read_parquet(file, task, sink),
            Format::Json | Format::Csv => self.read_text(file, task, sink),
        }
    }

    fn read_text(&mut self, file: File, task: &Task<'_>, sink: &mut Sink<'_>) -> Result<bool, Halt> {
        let packed = compression_of(&file, task.path, self.settings.compression).map_err(io_fault(0))?;
        let is_packed = packed.is_packed();
        if task.follow && is_packed {
            return Err(fault(
                0,
                "it is compressed, and compressed files cannot be followed",
                "0A000",
            ));
        }
        let position = task.offset.map_or(0, |offset| offset.position);
        let lines = task.offset.map_or(0, |offset| offset.records);
        if !is_packed && file.metadata().map_err(io_fault(lines))?.len() < position {
            return Err(changed(lines));
        }
        let identity = Identity::of(&file, if is_packed { u64::MAX } else { position }).map_err(io_fault(lines))?;
        let mut format = self.format(sink);
        if position > 0 {
            self.read_header_again(&file, packed, &mut format, sink)?;
        }
        let handle = file.try_clone().map_err(io_fault(lines))?;
        let buffer = std::mem::take(&mut self.buffer);
        let input = Input::open(handle, packed, position, task.until, buffer).map_err(io_fault(lines))?;
        let mut text = TextFile {
            task,
            file,
            input,
            format,
            identity,
            position,
            lines,
        };
        let outcome = text.read(self.settings, self.stop, sink);
        self.buffer = text.input.into_buffer();
        if let TextRows::Json(json) = text.format {
            self.json = Some(json);
        }
        outcome
    }

    fn format(&mut self, sink: &Sink<'_>) -> TextRows {
        match self.settings.format {
            Format::Csv => {
                let columns = sink.rows.columns.len();
                TextRows::Csv(CsvRows::new(
                    self.settings.csv.clone(),
                    HeaderRule::EveryColumn,
                    columns,
                ))
            }
            _ => TextRows::Json(self.json.take().unwrap_or_else(|| JsonRows::new(false))),
        }
    }

    /// Reads the header of a CSV file that is to be read from further on.
    fn read_header_again(
        &mut self,
        file: &File,
        packed: Compression,
        format: &mut TextRows,
        sink: &Sink<'_>,
    ) -> Result<(), Halt> {
        let TextRows::Csv(csv) = format else {
            return Ok(());
        };
        if !csv.wants_header() {
            return Ok(());
        }
        let handle = file.try_clone().map_err(io_fault(0))?;
        let mut input = Input::open(handle, packed, 0, None, std::mem::take(&mut self.buffer)).map_err(io_fault(0))?;
        loop {
            let more = input.fill().map_err(io_fault(0))?;
            let bytes = input.bytes().strip_prefix(BYTE_ORDER_MARK).unwrap_or(input.bytes());
            let header = csv.header(&sink.rows, bytes, !more);
            if header.map_err(|found| fault(1, found.reason, "42703"))?.is_some() || !more {
                break;
            }
        }
        self.buffer = input.into_buffer();
        Ok(())
    }

    fn read_parquet(&mut self, file: File, task: &Task<'_>, sink: &mut Sink<'_>) -> Result<bool, Halt> {
        let identity = Identity::of(&file, u64::MAX).map_err(io_fault(0))?.text();
        let all: Vec<usize> = (0..self.request.schema.fields().len()).collect();
        let wanted = self.request.projection.as_deref().unwrap_or(&all);
        let start = task.offset.map_or(0, |offset| offset.position);
        let opened = ParquetFile::open(file, &self.request.schema, wanted, self.settings.batch_rows, start);
        let mut parquet = opened.map_err(|reason| fault(0, reason, "22000"))?;
        sink.flush()?;
        loop {
            if self.stop.is_stopped() {
                return Ok(false);
            }
            let left = task
                .until
                .map_or(u64::MAX, |until| until.saturating_sub(parquet.record()));
            let batch = match left {
                0 => None,
                left => parquet
                    .next(left)
                    .map_err(|reason| fault(parquet.record() + 1, reason, "22000"))?,
            };
            let Some(batch) = batch else {
                let position = parquet.record();
                if task.until.is_some_and(|until| position < until) {
                    return Err(shrunk(position, task.until));
                }
                sink.reached(
                    task.partition,
                    PartitionOffset {
                        position,
                        records: position,
                        done: false,
                        identity,
                    },
                );
                return Ok(true);
            };
            self.hand_over(task, &parquet, batch, &identity, sink)?;
        }
    }

    fn hand_over(
        &self,
        task: &Task<'_>,
        parquet: &ParquetFile,
        batch: crate::parquet::ParquetBatch,
        identity: &str,
        sink: &mut Sink<'_>,
    ) -> Result<(), Halt> {
        sink.count(parquet.bytes_of(batch.records), 0);
        for bad in batch.bad {
            let (partition, text) = (task.partition, bad.text.as_bytes());
            sink.refuse(BadLine {
                partition,
                line: bad.record,
                byte_offset: 0,
                text,
                reason: bad.reason,
                sqlstate: bad.sqlstate,
                code: "CONN-0007",
            })?;
        }
        let position = parquet.record();
        let offset = PartitionOffset {
            position,
            records: position,
            done: false,
            identity: identity.to_string(),
        };
        sink.reached(task.partition, offset);
        Ok(sink.push(batch.rows)?)
    }
}

impl TextFile<'_> {
    fn read(&mut self, settings: &Settings, stop: &StopToken, sink: &mut Sink<'_>) -> Result<bool, Halt> {
        loop {
            if stop.is_stopped() {
                return Ok(false);
            }
            let filled = self.input.fill();
            let file_bytes = self.input.file_bytes();
            sink.count(file_bytes, 0);
            let more = filled.map_err(io_fault(self.lines + 1))?;
            if self.position == 0 && self.input.bytes().starts_with(BYTE_ORDER_MARK) {
                self.advance(BYTE_ORDER_MARK.len(), 0);
            }
            let last = !more && !self.task.follow;
            if self.read_header(sink, last)? {
                self.read_records(sink, last)?;
            }
            if self.input.bytes().len() > settings.line_bytes_max {
                self.pass_long_line(settings, sink)?;
            }
            if !more {
                return self.end(sink);
            }
        }
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
        self.note(sink)?;
        Ok(true)
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
            self.take(progress, sink)?;
            sink.count(0, bytes as u64);
            if sink.is_full() {
                sink.flush()?;
            }
        }
    }

    /// Notes what was read of the bytes at hand.
    fn take(&mut self, progress: Progress, sink: &mut Sink<'_>) -> Result<(), Halt> {
        let (start, first_line) = (self.position, self.lines + 1);
        let mut used = 0;
        for bad in progress.bad {
            // With `on_error = 'fail'` the offset handed over must stand before the row.
            let offset = self.offset_at(start + bad.start as u64, first_line - 1 + bad.lines_before)?;
            sink.reached(self.task.partition, offset);
            let text = &self.input.bytes()[bad.start..bad.end];
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
            used = bad.end;
        }
        debug_assert!(used <= progress.bytes);
        self.advance(progress.bytes, progress.lines);
        self.note(sink)
    }

    fn advance(&mut self, bytes: usize, lines: u64) {
        self.input.use_up(bytes);
        self.position += bytes as u64;
        self.lines += lines;
    }

    fn note(&mut self, sink: &mut Sink<'_>) -> Result<(), Halt> {
        let offset = self.offset_at(self.position, self.lines)?;
        sink.reached(self.task.partition, offset);
        Ok(())
    }

    fn offset_at(&mut self, position: u64, records: u64) -> Result<PartitionOffset, Halt> {
        if !self.identity.is_settled() {
            self.identity = Identity::of(&self.file, self.file_position(position)).map_err(io_fault(records))?;
        }
        Ok(PartitionOffset {
            position,
            records,
            done: false,
            identity: self.identity.text(),
        })
    }

    /// How far the file itself was read; a compressed one is known by its beginning at once.
    fn file_position(&self, position: u64) -> u64 {
        if self.input.is_packed() { u64::MAX } else { position }
    }

    /// Passes over the line at hand, which is longer than allowed, as a bad row.
    fn pass_long_line(&mut self, settings: &Settings, sink: &mut Sink<'_>) -> Result<(), Halt> {
        let found = lengthy_fault(settings.line_bytes_max);
        let text = self.input.bytes()[..self.input.bytes().len().min(2048)].to_vec();
        let text = text.split(|byte| *byte == b'\n').next().unwrap_or(&text);
        let offset = self.offset_at(self.position, self.lines)?;
        sink.reached(self.task.partition, offset);
        let (partition, line, byte_offset) = (self.task.partition, self.lines + 1, self.position);
        let bad = BadLine {
            partition,
            line,
            byte_offset,
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
            let more = self.input.fill().map_err(io_fault(self.lines + 1))?;
            let file_bytes = self.input.file_bytes();
            sink.count(file_bytes, 0);
            if !more && self.input.bytes().is_empty() {
                if self.task.follow {
                    // Its end is still to come: it is met again from its beginning.
                    return Ok(());
                }
                break;
            }
        }
        sink.refuse(bad)?;
        self.position += passed;
        self.lines += 1;
        self.note(sink)
    }

    /// At the end of the file.
    fn end(&mut self, sink: &mut Sink<'_>) -> Result<bool, Halt> {
        if self.task.until.is_some() && !self.input.is_at_until() {
            return Err(shrunk(self.position, self.task.until));
        }
        // Before its header a CSV file was not begun, even behind a byte order mark.
        let begun = !matches!(&self.format, TextRows::Csv(csv) if csv.wants_header());
        if begun && self.task.offset.is_none() && sink.latest(self.task.partition).is_none() {
            self.note(sink)?;
        }
        Ok(true)
    }
}

/// A file that is not the one read before must not be read in its place.
fn check_same(file: &File, task: &Task<'_>) -> Result<(), Halt> {
    let Some(offset) = task.offset.filter(|offset| offset.position > 0) else {
        return Ok(());
    };
    let known = Identity::parse(&offset.identity);
    let same = known
        .map_or(Ok(true), |known| known.fits(file))
        .map_err(io_fault(offset.records))?;
    if same {
        return Ok(());
    }
    Err(changed(offset.records))
}

fn changed(lines: u64) -> Halt {
    let reason = format!("it was cut short or replaced after {lines} lines of it were read; it is not read again");
    fault(0, reason, "55000")
}

fn shrunk(position: u64, until: Option<u64>) -> Halt {
    let until = until.unwrap_or(0);
    fault(
        0,
        format!("it was cut short: {until} were read before, {position} are there"),
        "55000",
    )
}

pub(crate) fn fault(line: u64, reason: impl Into<String>, sqlstate: &'static str) -> Halt {
    Halt::File(FileFault {
        line,
        reason: reason.into(),
        sqlstate,
    })
}

fn io_fault(line: u64) -> impl Fn(std::io::Error) -> Halt {
    move |error| fault(line, error.to_string(), "58030")
}

/// An error of opening a file, without its own "cannot read ...".
fn file_error(error: Error) -> Halt {
    let reason = error
        .message()
        .split_once("`: ")
        .map_or(error.message(), |(_, reason)| reason);
    fault(0, reason, error.state())
}
