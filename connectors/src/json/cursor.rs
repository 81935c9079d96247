//! A place in JSON text, and the tokens that begin there.

use crate::fault::{Fault, FaultKind, Parsed};

/// How deep a value may be nested.
pub(crate) const DEPTH_MAX: usize = 128;

/// A place in a text.
pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
    /// The next byte.
    pub(crate) at: usize,
    /// Where the row began, for messages.
    start: usize,
    /// Whether a line feed is blank space (in an array) or the end of the row.
    line_feed_is_blank: bool,
}

impl<'a> Cursor<'a> {
    /// At byte `at` of `bytes`; the row ends at a line feed.
    #[inline]
    pub(crate) fn line(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor {
            bytes,
            at,
            start: at,
            line_feed_is_blank: false,
        }
    }

    /// At byte `at` of `bytes`; line feeds are blank space.
    pub(crate) fn document(bytes: &'a [u8], at: usize) -> Cursor<'a> {
        Cursor {
            bytes,
            at,
            start: at,
            line_feed_is_blank: true,
        }
    }

    /// What follows.
    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    /// The next byte; 0 at the end, which no JSON text has outside an error.
    #[inline(always)]
    pub(crate) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// Moves over `byte` if it is the next one.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.at < self.bytes.len() && self.bytes[self.at] == byte;
        self.at += usize::from(found);
        found
    }

    /// Moves over blank space.
    #[inline]
    pub(crate) fn blanks(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r') || (self.line_feed_is_blank && self.peek() == b'\n') {
            self.at += 1;
        }
    }

    /// A fault at this place.
    #[cold]
    pub(crate) fn fault(&self, problem: &str) -> Box<Fault> {
        let found = match self.bytes.get(self.at) {
            None | Some(b'\n') => "the line ends".to_string(),
            Some(byte @ 0x20..0x7f) => format!("found `{}`", *byte as char),
            Some(byte) => format!("found byte 0x{byte:02x}"),
        };
        let place = self.at - self.start + 1;
        Fault::new(
            FaultKind::Syntax,
            format!("invalid JSON at byte {place}: {problem}, {found}"),
        )
    }

    /// Moves over `word`.
    pub(crate) fn word(&mut self, word: &str) -> Parsed<()> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(self.fault("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    /// An integer of at most 18 digits with nothing unusual about it; `None`, unmoved, for anything else.
    #[inline(always)]
    pub(crate) fn short_integer(&mut self) -> Option<i64> {
        let rest = self.rest();
        let negative = rest.first() == Some(&b'-');
        let digits = &rest[usize::from(negative)..];
        let mut value = 0i64;
        let mut len = 0;
        for byte in digits.iter().take(19) {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(i64::from(digit));
            len += 1;
        }
        let leading_zero = len > 1 && digits[0] == b'0';
        let ends = matches!(digits.get(len), Some(b',' | b'}' | b' ' | b'\t' | b'\r'));
        if len == 0 || len > 18 || leading_zero || !ends {
            return None;
        }
        self.at += len + usize::from(negative);
        Some(if negative { -value } else { value })
    }

    /// The text of a number, moved over.
    pub(crate) fn number(&mut self) -> Parsed<&'a [u8]> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(&self.bytes[start..self.at])
    }

    fn digits(&mut self) -> Parsed<()> {
        if !self.peek().is_ascii_digit() {
            return Err(self.fault("expected a digit"));
        }
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        Ok(())
    }

    /// The text of a string, from behind its opening quote to behind its closing one.
    ///
    /// # Returns
    /// `None` if it has escapes: the text is in `scratch` then.
    #[inline]
    pub(crate) fn string(&mut self, scratch: &mut Vec<u8>) -> Parsed<Option<&'a [u8]>> {
        let start = self.at;
        self.at = plain_end(self.bytes, start);
        if self.peek() == b'"' {
            self.at += 1;
            return Ok(Some(&self.bytes[start..self.at - 1]));
        }
        scratch.clear();
        scratch.extend_from_slice(&self.bytes[start..self.at]);
        self.escaped(scratch).map(|()| None)
    }

    #[cold]
    fn escaped(&mut self, scratch: &mut Vec<u8>) -> Parsed<()> {
        loop {
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' => {
                    self.at += 1;
                    self.escape(scratch)?;
                }
                _ => return Err(self.fault("expected the end of the string")),
            }
            let start = self.at;
            self.at = plain_end(self.bytes, start);
            scratch.extend_from_slice(&self.bytes[start..self.at]);
        }
    }

    fn escape(&mut self, scratch: &mut Vec<u8>) -> Parsed<()> {
        let plain = match self.peek() {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.code_point(scratch),
            _ => return Err(self.fault("expected an escape")),
        };
        self.at += 1;
        scratch.push(plain);
        Ok(())
    }

    /// `u` and four hexadecimal digits, or two such escapes as a surrogate pair.
    fn code_point(&mut self, scratch: &mut Vec<u8>) -> Parsed<()> {
        let first = self.code_unit()?;
        let code = match first {
            0xd800..0xdc00 if self.rest().starts_with(b"\\u") => {
                self.at += 1;
                let second = self.code_unit()?;
                let low = second.wrapping_sub(0xdc00);
                if low >= 0x400 {
                    return Err(self.fault("a surrogate stands alone"));
                }
                0x10000 + ((first - 0xd800) << 10) + low
            }
            _ => first,
        };
        let character = char::from_u32(code).ok_or_else(|| self.fault("a surrogate stands alone"))?;
        scratch.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn code_unit(&mut self) -> Parsed<u32> {
        self.at += 1;
        let mut unit = 0;
        for _ in 0..4 {
            let digit = (self.peek() as char)
                .to_digit(16)
                .ok_or_else(|| self.fault("expected a hexadecimal digit"))?;
            unit = unit * 16 + digit;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Moves over any value, checking it; `depth`: how many values it is inside of.
    pub(crate) fn skip_value(&mut self, depth: usize) -> Parsed<()> {
        match self.peek() {
            b'"' => {
                self.at += 1;
                self.skip_string()
            }
            b'-' | b'0'..=b'9' => self.number().map(|_| ()),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            b'{' | b'[' if depth >= DEPTH_MAX => Err(self.fault("nested too deep")),
            b'{' => self.skip_members(b'}', depth),
            b'[' => self.skip_members(b']', depth),
            _ => Err(self.fault("expected a value")),
        }
    }

    fn skip_string(&mut self) -> Parsed<()> {
        self.at = plain_end(self.bytes, self.at);
        if self.take(b'"') {
            return Ok(());
        }
        self.escaped(&mut Vec::new())
    }

    fn skip_members(&mut self, close: u8, depth: usize) -> Parsed<()> {
        self.at += 1;
        self.blanks();
        if self.take(close) {
            return Ok(());
        }
        loop {
            if close == b'}' {
                self.skip_name()?;
            }
            self.skip_value(depth + 1)?;
            self.blanks();
            if self.take(close) {
                return Ok(());
            }
            if !self.take(b',') {
                return Err(self.fault("expected `,` or the end"));
            }
            self.blanks();
        }
    }

    fn skip_name(&mut self) -> Parsed<()> {
        if !self.take(b'"') {
            return Err(self.fault("expected a field name"));
        }
        self.skip_string()?;
        self.blanks();
        if !self.take(b':') {
            return Err(self.fault("expected `:`"));
        }
        self.blanks();
        Ok(())
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The first place from `at` on with a quote, a backslash or a control character; the length if there is none.
///
/// Eight bytes at a time: a borrow can mark a byte wrongly only above one that is marked rightly.
#[inline]
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        let quote = word ^ (ONES * u64::from(b'"'));
        let slash = word ^ (ONES * u64::from(b'\\'));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let marks = (control | (quote.wrapping_sub(ONES) & !quote) | (slash.wrapping_sub(ONES) & !slash)) & HIGH;
        if marks != 0 {
            return at + (marks.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < bytes.len() && !matches!(bytes[at], b'"' | b'\\' | 0..0x20) {
        at += 1;
    }
    at
}
