//! Rows from CSV (RFC 4180), as PostgreSQL's `COPY ... CSV` reads it.
//!
//! # Rules kept here
//! 1. A quote opens a quoted field only as its first byte; inside, `""` is a quote and line feeds are text.
//! 2. An unquoted field equal to the NULL text is NULL; a quoted one never is.
//! 3. Every record has as many fields as the header, or without one as the table has columns.
//! 4. With a header, columns are found by name and their order is free; every column must be there, and
//!    other fields are ignored. Without one, fields are the columns in order.
//! 5. A record whose quotes do not close is a fault of its first line alone: reading goes on at the next line.
//!
//! # Not here
//! Texts to values is `value`; reading a file is `text`.

#[cfg(test)]
mod tests;

use crate::column::Column;
use crate::fault::{Fault, FaultKind, Parsed, excerpt};
use crate::rows::{Rows, column_of, nearest};
use crate::text::{Records, Step};
use memchr::{memchr, memchr_iter, memchr2};

/// How a CSV file is written.
#[derive(Clone, Debug)]
pub(crate) struct CsvStyle {
    /// Whether the first record names the fields.
    pub(crate) header: bool,
    /// Between fields.
    pub(crate) delimiter: u8,
    /// The unquoted text that means NULL.
    pub(crate) null: String,
}

impl Default for CsvStyle {
    fn default() -> CsvStyle {
        CsvStyle {
            header: true,
            delimiter: b',',
            null: String::new(),
        }
    }
}

/// Whether the header must have every column, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderRule {
    /// Every column; other fields are ignored (files).
    EveryColumn,
    /// Only columns; absent ones are NULL (request bodies).
    OnlyColumns,
}

/// One field of a record: where its text stands.
#[derive(Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    quoted: bool,
    /// Whether it holds doubled quotes.
    doubled: bool,
}

/// How a record ends.
enum Record {
    /// Complete: the place behind its line feed.
    Ends(usize),
    /// Not complete in the bytes at hand.
    Open,
    /// Not CSV.
    Broken(Box<Fault>),
}

/// Reads rows from CSV records.
pub(crate) struct CsvRows {
    style: CsvStyle,
    rule: HeaderRule,
    /// For every field of a record its column; `None` before the header was read.
    fields: Option<Vec<Option<usize>>>,
    spans: Vec<Span>,
    scratch: Vec<u8>,
}

impl CsvRows {
    /// A reader at the beginning of a file.
    pub(crate) fn new(style: CsvStyle, rule: HeaderRule, columns: usize) -> CsvRows {
        let fields = (!style.header).then(|| (0..columns).map(Some).collect());
        CsvRows {
            style,
            rule,
            fields,
            spans: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// A reader of records under the same header.
    pub(crate) fn another(&self) -> CsvRows {
        CsvRows {
            style: self.style.clone(),
            rule: self.rule,
            fields: self.fields.clone(),
            spans: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Whether the header is still to be read.
    pub(crate) fn wants_header(&self) -> bool {
        self.fields.is_none()
    }

    /// Reads the header at the beginning of `input`.
    ///
    /// # Returns
    /// The place behind it; `None` if it is not complete in `input` and `last` is false. An empty file has none.
    ///
    /// # Errors
    /// It lacks a column, or (by the rule) has one too many; the error names the nearest.
    pub(crate) fn header(&mut self, rows: &Rows, input: &[u8], last: bool) -> Parsed<Option<usize>> {
        if input.is_empty() && last {
            return Ok(Some(0));
        }
        let end = match self.split(input, 0, last) {
            Record::Ends(end) => end,
            Record::Open => return Ok(None),
            Record::Broken(fault) => return Err(fault),
        };
        let names: Vec<Vec<u8>> = self.spans.iter().map(|span| plain(input, *span)).collect();
        let mut found = vec![false; rows.columns.len()];
        let mut fields = Vec::with_capacity(names.len());
        for name in &names {
            let index = self.named(rows, name, &names)?;
            if index.is_some_and(|index| std::mem::replace(&mut found[index], true)) {
                return Err(repeated_column(name));
            }
            fields.push(index);
        }
        if self.rule == HeaderRule::EveryColumn
            && let Some(absent) = found.iter().position(|found| !found)
        {
            return Err(absent_column(rows.columns[absent].name(), &names));
        }
        self.fields = Some(fields);
        Ok(Some(end))
    }

    /// The column that a header name means; a name of other case gives way to the exact name elsewhere.
    fn named(&self, rows: &Rows, name: &[u8], names: &[Vec<u8>]) -> Parsed<Option<usize>> {
        match column_of(&rows.columns, name) {
            Some((index, true)) => Ok(Some(index)),
            Some((index, false)) if names.iter().any(|other| other == rows.columns[index].name().as_bytes()) => {
                Ok(None)
            }
            Some((index, false)) => Ok(Some(index)),
            None if self.rule == HeaderRule::OnlyColumns => Err(surplus_field(rows, name)),
            None => Ok(None),
        }
    }

    /// Finds the fields of the record at `at`.
    fn split(&mut self, input: &[u8], at: usize, last: bool) -> Record {
        self.spans.clear();
        let line_end = memchr(b'\n', &input[at..]).map(|len| at + len);
        let simple_end = match line_end {
            Some(end) => end,
            None if last => input.len(),
            None => return Record::Open,
        };
        if memchr(b'"', &input[at..simple_end]).is_some() {
            return self.split_quoted(input, at, last);
        }
        let next = line_end.map_or(input.len(), |end| end + 1);
        let text_end = simple_end - usize::from(input[at..simple_end].ends_with(b"\r"));
        let mut start = at;
        for len in memchr_iter(self.style.delimiter, &input[at..text_end]) {
            self.spans.push(Span {
                start,
                end: at + len,
                quoted: false,
                doubled: false,
            });
            start = at + len + 1;
        }
        self.spans.push(Span {
            start,
            end: text_end,
            quoted: false,
            doubled: false,
        });
        Record::Ends(next)
    }

    /// The same for a record that has a quote.
    fn split_quoted(&mut self, input: &[u8], at: usize, last: bool) -> Record {
        let mut start = at;
        loop {
            let (span, mut next) = if input.get(start) == Some(&b'"') {
                match quoted(input, start, last) {
                    Ok(Some(span)) => (span, span.end + 1),
                    Ok(None) => return Record::Open,
                    Err(fault) => return Record::Broken(fault),
                }
            } else {
                let len = memchr2(self.style.delimiter, b'\n', &input[start..]);
                match len {
                    Some(len) => (unquoted(input, start, start + len), start + len),
                    None if last => (unquoted(input, start, input.len()), input.len()),
                    None => return Record::Open,
                }
            };
            self.spans.push(span);
            if span.quoted && input.get(next) == Some(&b'\r') && matches!(input.get(next + 1), Some(b'\n') | None) {
                next += 1;
            }
            match input.get(next) {
                Some(byte) if *byte == self.style.delimiter => start = next + 1,
                Some(b'\n') => return Record::Ends(next + 1),
                None if last => return Record::Ends(next),
                None => return Record::Open,
                Some(_) => {
                    let reason = format!(
                        "invalid CSV: text after the closing quote of field {}",
                        self.spans.len()
                    );
                    return Record::Broken(Fault::new(FaultKind::Syntax, reason));
                }
            }
        }
    }

    /// Appends the record's values as a row.
    fn fill(&mut self, rows: &mut Rows, input: &[u8]) -> Parsed<()> {
        let fields = self.fields.as_deref().unwrap_or(&[]);
        if self.spans.len() != fields.len() {
            return Err(wrong_width(self.spans.len(), fields, rows));
        }
        for (span, index) in self.spans.iter().zip(fields) {
            let Some((column, row)) = index.and_then(|index| rows.column(index, true)) else {
                continue;
            };
            let text = &input[span.start..span.end];
            if !span.quoted && text == self.style.null.as_bytes() {
                column.push_null(row)?;
            } else if span.doubled {
                undouble(text, &mut self.scratch);
                column.push_text(&self.scratch)?;
            } else {
                column.push_text(text)?;
            }
        }
        rows.close()
    }
}

impl Records for CsvRows {
    fn record(&mut self, rows: &mut Rows, input: &[u8], at: usize, last: bool) -> Step {
        let end = match self.split(input, at, last) {
            Record::Ends(end) => end,
            Record::Open => return Step::Open,
            Record::Broken(fault) => {
                let end = memchr(b'\n', &input[at..]).map_or(input.len(), |len| at + len + 1);
                return Step::Bad { end, fault };
            }
        };
        if self.spans.len() == 1 && self.spans[0].start == self.spans[0].end && !self.spans[0].quoted {
            return Step::Blank { end };
        }
        rows.open();
        match self.fill(rows, input) {
            Ok(()) => Step::Row { end },
            Err(fault) => {
                rows.back();
                Step::Bad { end, fault }
            }
        }
    }
}

/// The field from `start` to `end`, a carriage return before the end of the line left out.
fn unquoted(input: &[u8], start: usize, end: usize) -> Span {
    let at_line_end = matches!(input.get(end), Some(b'\n') | None);
    let trimmed = end - usize::from(at_line_end && input[start..end].ends_with(b"\r"));
    Span {
        start,
        end: trimmed,
        quoted: false,
        doubled: false,
    }
}

/// The quoted field whose opening quote is at `open`; `None` if it needs more bytes.
fn quoted(input: &[u8], open: usize, last: bool) -> Parsed<Option<Span>> {
    let mut at = open + 1;
    let mut doubled = false;
    while let Some(len) = memchr(b'"', &input[at..]) {
        let close = at + len;
        match input.get(close + 1) {
            Some(b'"') => {
                doubled = true;
                at = close + 2;
            }
            None if !last => return Ok(None),
            _ => {
                return Ok(Some(Span {
                    start: open + 1,
                    end: close,
                    quoted: true,
                    doubled,
                }));
            }
        }
    }
    if last {
        Err(Fault::new(
            FaultKind::Syntax,
            "invalid CSV: a quoted field is not closed",
        ))
    } else {
        Ok(None)
    }
}

/// `text` with each doubled quote made one.
fn undouble(text: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut rest = text;
    while let Some(at) = memchr(b'"', rest) {
        out.extend_from_slice(&rest[..=at]);
        rest = &rest[(at + 2).min(rest.len())..];
    }
    out.extend_from_slice(rest);
}

fn plain(input: &[u8], span: Span) -> Vec<u8> {
    let mut out = Vec::new();
    let text = &input[span.start..span.end];
    if span.doubled {
        undouble(text, &mut out)
    } else {
        out.extend_from_slice(text)
    }
    out.trim_ascii().to_vec()
}

fn wrong_width(seen: usize, fields: &[Option<usize>], rows: &Rows) -> Box<Fault> {
    let expected = fields.len();
    let reason = match fields.get(seen).copied().flatten() {
        Some(index) => {
            let name = rows.columns[index].name();
            format!("field `{name}`: missing, the record has {seen} of {expected} fields")
        }
        None => format!("the record has {seen} fields, expected {expected}"),
    };
    Fault::new(FaultKind::Syntax, reason)
}

fn absent_column(name: &str, names: &[Vec<u8>]) -> Box<Fault> {
    let names: Vec<String> = names.iter().map(|name| excerpt(name, 64)).collect();
    let hint = match nearest(name, names.iter().map(String::as_str)) {
        Some(near) => format!("; the nearest name is `{near}`"),
        None => String::new(),
    };
    Fault::new(
        FaultKind::Unknown,
        format!("field `{name}`: the header does not have it{hint}"),
    )
}

fn repeated_column(name: &[u8]) -> Box<Fault> {
    let name = excerpt(name, 64);
    Fault::new(FaultKind::Syntax, format!("field `{name}`: the header has it twice"))
}

fn surplus_field(rows: &Rows, name: &[u8]) -> Box<Fault> {
    let name = excerpt(name, 64);
    let hint = match nearest(&name, rows.columns.iter().map(Column::name)) {
        Some(near) => format!("; the nearest column is `{near}`"),
        None => String::new(),
    };
    Fault::new(
        FaultKind::Unknown,
        format!("field `{name}`: there is no such column{hint}"),
    )
}
