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

/// Takes bytes cut anywhere, gives texts by column.
pub(super) struct Reader {
    format: Format,
    pending: Vec<u8>,
    columns: Vec<Vec<Option<String>>>,
    line: u64,
    first_line: u64,
    ended: bool,
}

impl Reader {
    pub(super) fn new(format: Format, columns: usize) -> Reader {
        Reader {
            format,
            pending: Vec::new(),
            columns: vec![Vec::new(); columns],
            line: 0,
            first_line: 1,
            ended: false,
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    /// The rows so far: number of their first line, their count, texts by column.
    pub(super) fn take(&mut self) -> (u64, usize, Vec<Vec<Option<String>>>) {
        let count = self.rows();
        let width = self.columns.len();
        let first = std::mem::replace(&mut self.first_line, self.line + 1);
        (
            first,
            count,
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
        self.pending = pending[start..].to_vec();
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
        if self.format.is_csv && self.is_inside_quotes(&pending) {
            return Err(self.bad("a quoted value does not end"));
        }
        if pending.is_empty() { Ok(()) } else { self.row(&pending) }
    }

    /// The newline that ends the row at `start`; in CSV newlines inside quotes do not.
    fn end_of_row(&self, bytes: &[u8], start: usize) -> Option<usize> {
        if !self.format.is_csv {
            return bytes[start..]
                .iter()
                .position(|byte| *byte == b'\n')
                .map(|at| start + at);
        }
        let mut quoted = false;
        for (at, byte) in bytes.iter().enumerate().skip(start) {
            if *byte == self.format.quote {
                quoted = !quoted;
            } else if *byte == b'\n' && !quoted {
                return Some(at);
            }
        }
        None
    }

    fn is_inside_quotes(&self, bytes: &[u8]) -> bool {
        bytes.iter().filter(|byte| **byte == self.format.quote).count() % 2 == 1
    }

    fn row(&mut self, line: &[u8]) -> Result<()> {
        self.line += 1;
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
        line.split(|byte| *byte == self.format.delimiter)
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
            if quoted && byte == escape && bytes.peek() == Some(&quote) {
                value.push(quote);
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
        String::from_utf8(bytes).map_err(|_| self.bad("invalid byte sequence for encoding UTF8").sqlstate("22021"))
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
    let mut bytes = raw.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        value.push(match bytes.next() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'v') => 11,
            Some(other) => other,
            None => b'\\',
        });
    }
    value
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
        Ok(reader.take().2)
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
