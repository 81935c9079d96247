//! Lines of COPY's text and CSV formats to texts by column.
//!
//! # Source
//! PostgreSQL's documentation of COPY, "File Formats".

use cenote_statestore::{Error, ErrorKind, Result};

/// Longest row, in bytes.
const ROW_BYTES_MAX: usize = 64 << 20;

/// How rows are written.
#[derive(Clone, Debug)]
pub(super) struct Format {
    pub(super) is_csv: bool,
    pub(super) delimiter: u8,
    pub(super) null: Vec<u8>,
    pub(super) header: bool,
    pub(super) quote: u8,
    pub(super) escape: u8,
}

impl Format {
    pub(super) fn text() -> Format {
        Format {
            is_csv: false,
            delimiter: b'\t',
            null: b"\\N".to_vec(),
            header: false,
            quote: b'"',
            escape: b'"',
        }
    }

    pub(super) fn csv() -> Format {
        Format {
            is_csv: true,
            delimiter: b',',
            null: Vec::new(),
            header: false,
            quote: b'"',
            escape: b'"',
        }
    }
}

/// How far the pending bytes were searched for the end of their row.
#[derive(Clone, Copy, Default)]
struct Searched {
    bytes: usize,
    /// Whether that place is inside quotes, and behind an escape.
    quoted: bool,
    escaped: bool,
}

/// Takes bytes cut anywhere, gives texts by column.
pub(super) struct Reader {
    format: Format,
    pending: Vec<u8>,
    columns: Vec<Vec<Option<String>>>,
    /// The line that the row being read begins in.
    line: u64,
    /// The line that each row of `columns` begins in.
    lines: Vec<u64>,
    searched: Searched,
    ended: bool,
}

impl Reader {
    pub(super) fn new(format: Format, columns: usize) -> Reader {
        Reader {
            format,
            pending: Vec::new(),
            columns: vec![Vec::new(); columns],
            line: 0,
            lines: Vec::new(),
            searched: Searched::default(),
            ended: false,
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.lines.len()
    }

    /// The rows so far: the line that each begins in, texts by column.
    pub(super) fn take(&mut self) -> (Vec<u64>, Vec<Vec<Option<String>>>) {
        let width = self.columns.len();
        (
            std::mem::take(&mut self.lines),
            std::mem::replace(&mut self.columns, vec![Vec::new(); width]),
        )
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        self.pending.extend_from_slice(bytes);
        let pending = std::mem::take(&mut self.pending);
        let mut start = 0;
        while let Some(end) = self.end_of_row(&pending, start) {
            self.row(&pending[start..end])?;
            start = end + 1;
        }
        self.pending = pending;
        self.pending.drain(..start);
        self.searched.bytes -= start;
        if self.pending.len() > ROW_BYTES_MAX {
            return Err(self
                .bad("the row is too long")
                .fact("limit", format!("{ROW_BYTES_MAX} bytes")));
        }
        Ok(())
    }

    /// Takes the last row, which may lack its newline.
    pub(super) fn end(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if self.searched.quoted {
            return Err(self.bad("a quoted value does not end"));
        }
        if pending.is_empty() { Ok(()) } else { self.row(&pending) }
    }

    /// The newline that ends the row at `start`; in CSV newlines inside quotes do not. What was searched before of a
    /// row that comes in many pieces is not searched again.
    fn end_of_row(&mut self, bytes: &[u8], start: usize) -> Option<usize> {
        let Format {
            is_csv, quote, escape, ..
        } = self.format;
        let mut now = self.searched;
        now.bytes = now.bytes.max(start);
        let mut ends_here = |byte: u8| {
            let escapes = match is_csv {
                true => now.quoted && byte == escape && escape != quote,
                false => byte == b'\\',
            };
            if escapes && !now.escaped {
                now.escaped = true;
                return false;
            }
            let escaped = std::mem::take(&mut now.escaped);
            now.quoted ^= is_csv && !escaped && byte == quote;
            byte == b'\n' && !now.quoted && (is_csv || !escaped)
        };
        let end = bytes[now.bytes..].iter().position(|byte| ends_here(*byte));
        let end = end.map(|at| now.bytes + at);
        now.bytes = end.map_or(bytes.len(), |end| end + 1);
        self.searched = now;
        end
    }

    fn row(&mut self, line: &[u8]) -> Result<()> {
        self.line += 1;
        let begun = self.line;
        self.values_of(line)?;
        self.line += line.iter().filter(|byte| **byte == b'\n').count() as u64;
        if self.lines.len() < self.columns.first().map_or(0, Vec::len) {
            self.lines.push(begun);
        }
        Ok(())
    }

    fn values_of(&mut self, line: &[u8]) -> Result<()> {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if self.ended || (self.line == 1 && self.format.header) {
            return Ok(());
        }
        if line == b"\\." {
            self.ended = true;
            return Ok(());
        }
        let values = if self.format.is_csv {
            self.csv_values(line)?
        } else {
            self.text_values(line)?
        };
        if values.len() != self.columns.len() {
            let reason = if values.len() < self.columns.len() {
                "missing data for a column"
            } else {
                "extra data after last expected column"
            };
            return Err(self
                .bad(reason)
                .fact("seen", format!("{} columns", values.len()))
                .fact("expected", format!("{} columns", self.columns.len())));
        }
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(value);
        }
        Ok(())
    }

    fn text_values(&self, line: &[u8]) -> Result<Vec<Option<String>>> {
        let mut escaped = false;
        let ends = |byte: &u8| {
            let is_end = *byte == self.format.delimiter && !escaped;
            escaped = *byte == b'\\' && !escaped;
            is_end
        };
        line.split(ends)
            .map(|raw| {
                if raw == self.format.null {
                    Ok(None)
                } else {
                    self.text(unescaped(raw)).map(Some)
                }
            })
            .collect()
    }

    fn csv_values(&self, line: &[u8]) -> Result<Vec<Option<String>>> {
        let Format {
            delimiter,
            quote,
            escape,
            ..
        } = self.format;
        let (mut values, mut value, mut quoted, mut was_quoted) = (Vec::new(), Vec::new(), false, false);
        let mut bytes = line.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            let next = bytes.peek().copied().filter(|next| *next == quote || *next == escape);
            if let (true, Some(next)) = (quoted && byte == escape, next) {
                value.push(next);
                bytes.next();
            } else if byte == quote {
                (quoted, was_quoted) = (!quoted, true);
            } else if byte == delimiter && !quoted {
                values.push(self.csv_value(std::mem::take(&mut value), was_quoted)?);
                was_quoted = false;
            } else {
                value.push(byte);
            }
        }
        values.push(self.csv_value(value, was_quoted)?);
        Ok(values)
    }

    fn csv_value(&self, value: Vec<u8>, was_quoted: bool) -> Result<Option<String>> {
        if !was_quoted && value == self.format.null {
            Ok(None)
        } else {
            self.text(value).map(Some)
        }
    }

    fn text(&self, bytes: Vec<u8>) -> Result<String> {
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        text.ok_or_else(|| {
            let error = self
                .bad("invalid byte sequence for encoding \"UTF8\"")
                .sqlstate("22021");
            error.attempt("send UTF-8 without the character U+0000")
        })
    }

    fn bad(&self, reason: &str) -> Error {
        Error::new(ErrorKind::Invalid, "COPY-0001", format!("cannot copy: {reason}"))
            .sqlstate("22P04")
            .fact("line", self.line.max(1))
    }
}

/// Undoes the text format's backslashes.
fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((byte, after)) = rest.split_first() {
        let (byte, used) = match (byte, after) {
            (b'\\', [next, ..]) => escape_of(*next, after),
            (plain, _) => (*plain, 0),
        };
        value.push(byte);
        rest = &after[used..];
    }
    value
}

/// The byte that a backslash and `after`, which begins with `first`, stand for, and how many bytes of `after` it takes.
fn escape_of(first: u8, after: &[u8]) -> (u8, usize) {
    let number = |digits: &[u8], radix: u32, count: usize| {
        let digits = digits
            .iter()
            .take(count)
            .map_while(|byte| (*byte as char).to_digit(radix));
        digits.fold((0u32, 0), |(value, used), digit| (value * radix + digit, used + 1))
    };
    match first {
        b'n' => (b'\n', 1),
        b't' => (b'\t', 1),
        b'r' => (b'\r', 1),
        b'b' => (8, 1),
        b'f' => (12, 1),
        b'v' => (11, 1),
        b'0'..=b'7' => {
            let (value, used) = number(after, 8, 3);
            (value as u8, used)
        }
        b'x' => match number(&after[1..], 16, 2) {
            (_, 0) => (b'x', 1),
            (value, used) => (value as u8, used + 1),
        },
        other => (other, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: Format, columns: usize, parts: &[&str]) -> Result<Vec<Vec<Option<String>>>> {
        let mut reader = Reader::new(format, columns);
        for part in parts {
            reader.feed(part.as_bytes())?;
        }
        reader.end()?;
        Ok(reader.take().1)
    }

    fn texts(values: &[Option<&str>]) -> Vec<Option<String>> {
        values.iter().map(|value| value.map(String::from)).collect()
    }

    #[test]
    fn text_rows_may_be_cut_anywhere() {
        let columns = read(Format::text(), 2, &["1\ta\\", "tb\n2\t\\", "N\n3\tlast"]).unwrap();
        assert_eq!(columns[0], texts(&[Some("1"), Some("2"), Some("3")]));
        assert_eq!(columns[1], texts(&[Some("a\tb"), None, Some("last")]));
    }

    #[test]
    fn backslashes_of_text_stand_for_bytes_delimiters_and_newlines() {
        let columns = read(Format::text(), 2, &["\\101\\x42\\q\t\\xg\\", "\na\\", "\tb\\\\\n"]).unwrap();
        assert_eq!(columns[0], texts(&[Some("ABq")]));
        assert_eq!(columns[1], texts(&[Some("xg\na\tb\\")]));
    }

    #[test]
    fn another_escape_than_the_quote_is_undone_inside_quotes() {
        let mut format = Format::csv();
        format.escape = b'\\';
        let columns = read(format, 1, &["\"a\\", "\"b\n\\\\\"\nc\\d\n"]).unwrap();
        assert_eq!(columns[0], texts(&[Some("a\"b\n\\"), Some("c\\d")]));
    }

    #[test]
    fn the_character_nul_is_refused() {
        assert_eq!(read(Format::text(), 1, &["a\0b\n"]).unwrap_err().state(), "22021");
        assert_eq!(read(Format::text(), 1, &["a\\000b\n"]).unwrap_err().state(), "22021");
    }

    #[test]
    fn csv_knows_an_empty_text_from_null_and_keeps_newlines_in_quotes() {
        let columns = read(Format::csv(), 2, &["a,\"\"\n,\"x \"\"y\"\"\nz\"\n"]).unwrap();
        assert_eq!(columns[0], texts(&[Some("a"), None]));
        assert_eq!(columns[1], texts(&[Some(""), Some("x \"y\"\nz")]));
    }

    #[test]
    fn a_row_of_the_wrong_width_is_refused_with_its_line() {
        let error = read(Format::text(), 2, &["1\t2\n3\n"]).unwrap_err();
        assert_eq!(error.detail().unwrap().lines().next(), Some("line: 2"));
    }
}
