//! Records of a text format, one after the other, from bytes at hand.
//!
//! # Rules kept here
//! 1. Only whole records are read: what is incomplete stays until more bytes come, or is read as it
//!    stands when there are no more.
//! 2. Bytes that are not UTF-8 are a fault of their record, wherever in it they stand.
//! 3. Line numbers count line feeds, so that an editor shows the line that a message names.
//!
//! # Not here
//! Where bytes come from is `file::input`; what a record is made of is `json` and `csv`.

use crate::csv::CsvRows;
use crate::fault::{Fault, FaultKind, Parsed};
use crate::json::{Cursor, JsonRows};
use crate::rows::Rows;
use memchr::{memchr, memchr_iter, memrchr};

/// What reading one record gives; `end` is the place behind it.
pub(crate) enum Step {
    /// A row was added.
    Row { end: usize },
    /// There was nothing.
    Blank { end: usize },
    /// It could not be read.
    Bad { end: usize, fault: Box<Fault> },
    /// It is not complete in the bytes at hand.
    Open,
}

/// A format whose records are read one by one.
pub(crate) trait Records {
    /// Reads the record at `at`. `last`: no bytes come after `input`, so [`Step::Open`] is not an answer.
    fn record(&mut self, rows: &mut Rows, input: &[u8], at: usize, last: bool) -> Step;
}

impl Records for JsonRows {
    #[inline]
    fn record(&mut self, rows: &mut Rows, input: &[u8], at: usize, last: bool) -> Step {
        let mut cursor = Cursor::line(input, at);
        if cursor.peek() != b'{' {
            cursor.blanks();
            match input.get(cursor.at) {
                None => {
                    return if last {
                        Step::Blank { end: input.len() }
                    } else {
                        Step::Open
                    };
                }
                Some(b'\n') => return Step::Blank { end: cursor.at + 1 },
                Some(_) => {}
            }
        }
        let outcome = match self.object(rows, &mut cursor) {
            Ok(()) => line_end(rows, &mut cursor),
            Err(fault) => Err(fault),
        };
        match outcome {
            Ok(end) => Step::Row { end },
            Err(fault) => match memchr(b'\n', &input[at..]) {
                Some(len) => Step::Bad {
                    end: at + len + 1,
                    fault,
                },
                None if last => Step::Bad {
                    end: input.len(),
                    fault,
                },
                None => Step::Open,
            },
        }
    }
}

/// The place behind the line whose object was read, if nothing else is on it.
#[inline]
fn line_end(rows: &mut Rows, cursor: &mut Cursor<'_>) -> Parsed<usize> {
    cursor.blanks();
    match cursor.bytes.get(cursor.at) {
        Some(b'\n') => Ok(cursor.at + 1),
        None => Ok(cursor.at),
        Some(_) => {
            rows.uncount();
            Err(cursor.fault("expected one object a line"))
        }
    }
}

/// A text format: either of the two, so that a caller needs no type parameter.
pub(crate) enum TextRows {
    Json(JsonRows),
    Csv(CsvRows),
}

/// A record that could not be read, in the bytes at hand.
pub(crate) struct BadRecord {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Line feeds before it in the bytes at hand.
    pub(crate) lines_before: u64,
    pub(crate) fault: Box<Fault>,
}

/// How far the bytes at hand were read.
#[derive(Default)]
pub(crate) struct Progress {
    /// Bytes read.
    pub(crate) bytes: usize,
    /// Lines read.
    pub(crate) lines: u64,
    /// The records that could not be read, in order.
    pub(crate) bad: Vec<BadRecord>,
}

/// When to stop before the bytes end.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Rows in [`Rows`], those from before included.
    pub(crate) rows: usize,
    /// Bad records.
    pub(crate) bad: usize,
    /// Bytes of a record, its line feed included: a longer one is bad.
    pub(crate) record_bytes: usize,
}

impl TextRows {
    /// A reader of the same, for records of the same file.
    pub(crate) fn another(&self) -> TextRows {
        match self {
            TextRows::Json(json) => TextRows::Json(json.another()),
            TextRows::Csv(csv) => TextRows::Csv(csv.another()),
        }
    }

    /// How many bytes of `input`, which begins with a record, are whole records, whoever reads them; `None`: it is not
    /// known without reading them.
    pub(crate) fn whole(&self, input: &[u8]) -> Option<usize> {
        let whole = memrchr(b'\n', input).map_or(0, |at| at + 1);
        match self {
            TextRows::Json(_) => Some(whole),
            // A line feed between quotes ends no record, and what a quote means depends on all before it.
            TextRows::Csv(_) => memchr(b'"', &input[..whole]).is_none().then_some(whole),
        }
    }

    /// Reads the records of `input`, up to a limit. `last`: no bytes come after `input`.
    pub(crate) fn read(&mut self, rows: &mut Rows, input: &[u8], last: bool, limits: Limits) -> Progress {
        match self {
            TextRows::Json(records) => {
                // Records are lines: without the unfinished one, no character is cut in two.
                let whole = if last {
                    input.len()
                } else {
                    memrchr(b'\n', input).map_or(0, |at| at + 1)
                };
                read(records, rows, &input[..whole], last, limits)
            }
            TextRows::Csv(records) => {
                let whole = if last {
                    input.len()
                } else {
                    memrchr(b'\n', input).map_or(0, |at| at + 1)
                };
                let mut progress = read(records, rows, &input[..whole], last, limits);
                progress.lines = 0;
                recount(&mut progress, input);
                progress
            }
        }
    }
}

/// Counts lines by their line feeds, where a record can have several.
fn recount(progress: &mut Progress, input: &[u8]) {
    let mut at = 0;
    for bad in &mut progress.bad {
        progress.lines += memchr_iter(b'\n', &input[at..bad.start]).count() as u64;
        bad.lines_before = progress.lines;
        at = bad.start;
    }
    progress.lines += memchr_iter(b'\n', &input[at..progress.bytes]).count() as u64;
    let unfinished = progress.bytes > 0 && input[progress.bytes - 1] != b'\n';
    progress.lines += u64::from(unfinished);
}

fn read<R: Records>(records: &mut R, rows: &mut Rows, input: &[u8], last: bool, limits: Limits) -> Progress {
    let mut progress = Progress::default();
    let mut valid = valid_length(input, 0);
    while progress.bytes < input.len() && rows.len() < limits.rows && progress.bad.len() < limits.bad {
        let at = progress.bytes;
        let mut end = match records.record(rows, input, at, last) {
            Step::Row { end } if end > valid || end - at > limits.record_bytes => {
                rows.uncount();
                progress.fail(at, end, encoding_fault(input, valid, at));
                end
            }
            Step::Row { end } | Step::Blank { end } => end,
            Step::Bad { end, fault } => {
                progress.fail(at, end, fault);
                end
            }
            Step::Open => break,
        };
        if end - at > limits.record_bytes {
            end = progress.lengthy(input, at, end, limits.record_bytes);
        }
        if end > valid {
            valid = valid_length(input, end);
        }
        progress.bytes = end;
        progress.lines += 1;
    }
    progress
}

impl Progress {
    #[cold]
    fn fail(&mut self, start: usize, end: usize, fault: Box<Fault>) {
        self.bad.push(BadRecord {
            start,
            end,
            lines_before: self.lines,
            fault,
        });
    }

    /// Makes the record from `start` to `end`, whatever was said of it, a line that is too long.
    ///
    /// # Returns
    /// The end of that line: a record of several lines is given up after its first, as one whose end is
    /// not at hand yet would be.
    #[cold]
    fn lengthy(&mut self, input: &[u8], start: usize, end: usize, bytes_max: usize) -> usize {
        let line_end = memchr(b'\n', &input[start..end]).map_or(end, |len| start + len + 1);
        if self.bad.last().is_some_and(|bad| bad.start == start) {
            self.bad.pop();
        }
        self.fail(start, line_end, lengthy_fault(bytes_max));
        line_end
    }
}

/// Up to where `input` is UTF-8, looked at from `from` on.
fn valid_length(input: &[u8], from: usize) -> usize {
    match std::str::from_utf8(&input[from..]) {
        Ok(_) => input.len(),
        Err(error) => from + error.valid_up_to(),
    }
}

/// The fault of a record longer than allowed.
pub(crate) fn lengthy_fault(bytes_max: usize) -> Box<Fault> {
    Fault::new(
        FaultKind::Length,
        format!("the line is longer than {bytes_max} bytes (line_bytes_max)"),
    )
}

#[cold]
fn encoding_fault(input: &[u8], invalid: usize, start: usize) -> Box<Fault> {
    let byte = input.get(invalid).copied().unwrap_or(0);
    let place = invalid - start + 1;
    Fault::new(
        FaultKind::Encoding,
        format!("invalid UTF-8 at byte {place}: found byte 0x{byte:02x}"),
    )
}
