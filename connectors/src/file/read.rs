//! Reading one file, from an offset on, into a [`Sink`].
//!
//! # Rules kept here
//! 1. What is wrong with the file itself comes back as [`Halt::File`]; only the output's errors end the source.
//! 2. Threads that decode are used for large text files alone: a small one costs no more than where there are none.
//!
//! # Not here
//! The text of a file, once it is open: `text_file`.

use super::identity::Identity;
use super::input::{Input, compression_of};
use super::policy;
use super::settings::{Compression, Format, Settings};
use super::sink::{BadLine, Sink};
use super::text_file::{BYTE_ORDER_MARK, Place, TextFile};
use crate::csv::{CsvRows, HeaderRule};
use crate::json::JsonRows;
use crate::parquet::ParquetFile;
use crate::text::TextRows;
use cenote_engine::port::{PartitionOffset, SourceRequest, StopToken};
use cenote_statestore::{Error, Result};
use std::fs::File;
use std::io::Result as IoResult;
use std::path::Path;

/// Blocks of text for which a thread is started.
const BLOCKS_PER_THREAD: u64 = 2;

/// Bytes of text that a compressed byte is taken for, as nobody knows before.
const PACKED_TIMES: u64 = 4;

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
        let length = file.metadata().map_err(io_fault(lines))?.len();
        let handle = file.try_clone().map_err(io_fault(lines))?;
        let input = self
            .input(handle, packed, position, task.until)
            .map_err(io_fault(lines))?;
        let mut text = TextFile {
            request: self.request,
            settings: self.settings,
            input,
            format,
            place: Place {
                task,
                file,
                is_packed,
                identity,
                position,
                lines,
            },
            threads: self.threads(task, length, is_packed),
            team: None,
        };
        let outcome = text.read(self.stop, sink);
        self.buffer = text.input.into_buffer();
        if let TextRows::Json(json) = text.format {
            self.json = Some(json);
        }
        outcome
    }

    /// Threads that are worth while for a file of `length` bytes: each is to have some blocks.
    fn threads(&self, task: &Task<'_>, length: u64, is_packed: bool) -> usize {
        let position = task.offset.map_or(0, |offset| offset.position);
        let length = if is_packed {
            length.saturating_mul(PACKED_TIMES)
        } else {
            length
        };
        let bytes = task.until.unwrap_or(u64::MAX).min(length).saturating_sub(position);
        let blocks = bytes / self.settings.block_bytes as u64;
        self.request.threads.min((blocks / BLOCKS_PER_THREAD) as usize).max(1)
    }

    /// Text from byte `start` on, in the buffer of the file before.
    fn input(&mut self, file: File, packed: Compression, start: u64, until: Option<u64>) -> IoResult<Input> {
        let (block_bytes, buffer) = (self.settings.block_bytes, std::mem::take(&mut self.buffer));
        Input::open(file, packed, start..until.unwrap_or(u64::MAX), block_bytes, buffer)
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
        let mut input = self.input(handle, packed, 0, None).map_err(io_fault(0))?;
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

pub(crate) fn shrunk(position: u64, until: Option<u64>) -> Halt {
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

pub(crate) fn io_fault(line: u64) -> impl Fn(std::io::Error) -> Halt {
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
