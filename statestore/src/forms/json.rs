//! JSON texts: checking them, PostgreSQL's normal form of JSONB, and parts of a value by key or position.
//!
//! A value of JSON or JSONB is kept as its text in a struct of one field, [`json_type`] or [`jsonb_type`]: no text can
//! take its place unread, by coercion or by mistake.
//!
//! # Rules kept here
//! 1. What RFC 8259 does not allow is refused, and so is nesting deeper than [`DEPTH_MAX`].
//! 2. JSONB has no blanks but one behind `:` and `,`, keys sorted by length and then by bytes, the last value of a key
//!    that comes several times, numbers in full without exponents, and texts without needless escapes.
//!
//! # Parts
//! [`access`]: `->`, `->>` and paths.

pub mod access;
#[cfg(test)]
mod tests;

use super::Malformed;
use arrow::array::{Array, ArrayRef, AsArray, StringArray, StructArray};
use arrow::datatypes::{DataType, Field, Fields};
use std::sync::Arc;

/// Objects and arrays inside one another at most.
pub const DEPTH_MAX: usize = 128;

/// Digits of a number before and behind its point at most, as PostgreSQL's NUMERIC has them.
const WHOLE_DIGITS_MAX: i64 = 131_072;
const FRACTION_DIGITS_MAX: i64 = 16_383;

/// The Arrow type of JSON.
pub fn json_type() -> DataType {
    DataType::Struct(fields("json"))
}

/// The Arrow type of JSONB.
pub fn jsonb_type() -> DataType {
    DataType::Struct(fields("jsonb"))
}

fn fields(name: &str) -> Fields {
    Fields::from(vec![Field::new(name, DataType::Utf8, true)])
}

/// The name of the JSON type that an Arrow type is: `json` or `jsonb`.
pub fn name_of(data_type: &DataType) -> Option<&str> {
    match data_type {
        DataType::Struct(fields) => match fields.iter().as_slice() {
            [field] if *field.data_type() == DataType::Utf8 => {
                Some(field.name().as_str()).filter(|name| matches!(*name, "json" | "jsonb"))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The texts in a column of JSON or JSONB.
///
/// # Panics
/// If it is a column of another type.
pub fn texts_of(column: &ArrayRef) -> StringArray {
    let column = column.as_struct();
    let texts = column.column(0).as_string::<i32>();
    match column.nulls() {
        None => texts.clone(),
        Some(nulls) => StringArray::new(texts.offsets().clone(), texts.values().clone(), Some(nulls.clone())),
    }
}

/// A column of a JSON type from texts that were read for it.
///
/// # Panics
/// If `data_type` is no JSON type.
pub fn column_of(texts: StringArray, data_type: &DataType) -> ArrayRef {
    let DataType::Struct(fields) = data_type else {
        panic!("{data_type} is no JSON type");
    };
    let nulls = texts.nulls().cloned();
    Arc::new(StructArray::new(fields.clone(), vec![Arc::new(texts)], nulls))
}

/// Checks that a text is one JSON value, with blanks around it or not.
///
/// # Errors
/// [`Malformed::Syntax`], [`Malformed::Depth`].
pub fn check(text: &str) -> Result<(), Malformed> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    reader.value(None)?;
    reader.end()
}

/// The normal form of JSONB.
///
/// # Errors
/// As [`check`]; [`Malformed::Range`]: a number has too many digits; [`Malformed::Nul`]: a text holds `\u0000`.
pub fn normalised(text: &str) -> Result<String, Malformed> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let mut out = String::with_capacity(text.len());
    reader.value(Some(&mut out))?;
    reader.end()?;
    Ok(out)
}

/// A text that is the same for equal values of JSONB: numbers without zeros at their ends.
pub fn comparable(normal: &str) -> String {
    let mut out = String::with_capacity(normal.len());
    let mut rest = normal;
    while let Some(first) = rest.bytes().next() {
        let length = match first {
            b'"' => access::string_end(rest.as_bytes(), 0),
            b'-' | b'0'..=b'9' => rest
                .find(|c: char| !matches!(c, '-' | '.' | '0'..='9'))
                .unwrap_or(rest.len()),
            _ => rest
                .find(|c: char| matches!(c, '"' | '-' | '0'..='9'))
                .unwrap_or(rest.len()),
        };
        let (token, tail) = rest.split_at(length);
        let is_fraction = first != b'"' && token.contains('.');
        out.push_str(if is_fraction {
            token.trim_end_matches('0').trim_end_matches('.')
        } else {
            token
        });
        rest = tail;
    }
    out
}

/// A place in a text.
struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn end(&mut self) -> Result<(), Malformed> {
        self.blanks();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(Malformed::Syntax)
        }
    }

    /// Reads a value, and appends its normal form if that is asked for.
    fn value(&mut self, out: Option<&mut String>) -> Result<(), Malformed> {
        self.blanks();
        match self.peek() {
            Some(b'{' | b'[') if self.depth == DEPTH_MAX => Err(Malformed::Depth),
            Some(b'{') => self.nested(|reader| reader.object(out)),
            Some(b'[') => self.nested(|reader| reader.array(out)),
            Some(b'"') => {
                let raw = self.string()?;
                match out {
                    Some(out) => write_string(out, &access::unescaped(raw)?),
                    None => access::check_escapes(raw)?,
                }
                Ok(())
            }
            Some(b'-' | b'0'..=b'9') => self.number(out),
            _ => self.word(out),
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<(), Malformed>) -> Result<(), Malformed> {
        self.at += 1;
        self.depth += 1;
        read(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn word(&mut self, out: Option<&mut String>) -> Result<(), Malformed> {
        let rest = &self.text[self.at..];
        let word = ["true", "false", "null"]
            .into_iter()
            .find(|word| rest.starts_with(word));
        let word = word.ok_or(Malformed::Syntax)?;
        self.at += word.len();
        if matches!(self.peek(), Some(b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_')) {
            return Err(Malformed::Syntax);
        }
        if let Some(out) = out {
            out.push_str(word);
        }
        Ok(())
    }

    fn array(&mut self, mut out: Option<&mut String>) -> Result<(), Malformed> {
        let push = |out: &mut Option<&mut String>, text: &str| {
            if let Some(out) = out {
                out.push_str(text);
            }
        };
        push(&mut out, "[");
        self.blanks();
        let mut is_open = !self.take(b']');
        while is_open {
            self.value(out.as_deref_mut())?;
            self.blanks();
            is_open = self.take(b',');
            match is_open {
                true => push(&mut out, ", "),
                false if self.take(b']') => {}
                false => return Err(Malformed::Syntax),
            }
        }
        push(&mut out, "]");
        Ok(())
    }

    fn object(&mut self, out: Option<&mut String>) -> Result<(), Malformed> {
        let mut members: Vec<(String, String)> = Vec::new();
        self.blanks();
        let mut is_open = !self.take(b'}');
        while is_open {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(Malformed::Syntax);
            }
            let raw = self.string()?;
            self.blanks();
            if !self.take(b':') {
                return Err(Malformed::Syntax);
            }
            if out.is_some() {
                let mut value = String::new();
                let key = access::unescaped(raw)?.into_owned();
                self.value(Some(&mut value))?;
                members.push((key, value));
            } else {
                access::check_escapes(raw)?;
                self.value(None)?;
            }
            self.blanks();
            is_open = self.take(b',');
            if !is_open && !self.take(b'}') {
                return Err(Malformed::Syntax);
            }
        }
        if let Some(out) = out {
            write_object(out, members);
        }
        Ok(())
    }

    /// What stands between the quotes of a text, escapes unread.
    fn string(&mut self) -> Result<&'a str, Malformed> {
        let bytes = self.text.as_bytes();
        let start = self.at + 1;
        let mut at = start;
        loop {
            match bytes.get(at) {
                Some(b'"') => break,
                Some(b'\\') if at + 1 < bytes.len() => at += 2,
                Some(0..=0x1f | b'\\') | None => return Err(Malformed::Syntax),
                Some(_) => at += 1,
            }
        }
        self.at = at + 1;
        self.text.get(start..at).ok_or(Malformed::Syntax)
    }

    fn digits(&mut self) -> &'a str {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn number(&mut self, out: Option<&mut String>) -> Result<(), Malformed> {
        let is_negative = self.take(b'-');
        let whole = self.digits();
        let is_whole = whole == "0" || (!whole.is_empty() && !whole.starts_with('0'));
        let has_point = is_whole && self.take(b'.');
        let fraction = if has_point { self.digits() } else { "" };
        let has_exponent = is_whole && matches!(self.peek(), Some(b'e' | b'E'));
        let start = self.at + 1;
        if has_exponent {
            self.at += 1;
            let _ = self.take(b'-') || self.take(b'+');
            if self.digits().is_empty() {
                return Err(Malformed::Syntax);
            }
        }
        let is_cut = matches!(self.peek(), Some(b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'.'));
        if !is_whole || (has_point && fraction.is_empty()) || is_cut {
            return Err(Malformed::Syntax);
        }
        let exponent = if has_exponent { &self.text[start..self.at] } else { "0" };
        match out {
            Some(out) => write_number(out, is_negative, whole, fraction, exponent),
            None => Ok(()),
        }
    }
}

/// Appends an object: keys by length and then by bytes, of equal ones the last.
fn write_object(out: &mut String, mut members: Vec<(String, String)>) {
    members.sort_by(|(a, _), (b, _)| (a.len(), a.as_bytes()).cmp(&(b.len(), b.as_bytes())));
    out.push('{');
    let mut is_first = true;
    for (index, (key, value)) in members.iter().enumerate() {
        if members.get(index + 1).is_some_and(|(next, _)| next == key) {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            out.push_str(", ");
        }
        write_string(out, key);
        out.push_str(": ");
        out.push_str(value);
    }
    out.push('}');
}

/// Appends a text in quotes, with the escapes that it needs.
pub fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' => out.push_str(&format!("\\u{:04x}", character as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Appends a number as NUMERIC prints it: all digits, as many behind the point as were written.
fn write_number(
    out: &mut String,
    is_negative: bool,
    whole: &str,
    fraction: &str,
    exponent: &str,
) -> Result<(), Malformed> {
    let exponent: i64 = exponent.parse().map_err(|_| Malformed::Range)?;
    if exponent.unsigned_abs() > (WHOLE_DIGITS_MAX + FRACTION_DIGITS_MAX) as u64 * 2 {
        return Err(Malformed::Range);
    }
    let digits = format!("{whole}{fraction}");
    let point = whole.len() as i64 + exponent;
    let scale = (fraction.len() as i64 - exponent).max(0);
    let is_zero = digits.bytes().all(|digit| digit == b'0');
    if scale > FRACTION_DIGITS_MAX || (!is_zero && point > WHOLE_DIGITS_MAX) {
        return Err(Malformed::Range);
    }
    if is_negative && !is_zero {
        out.push('-');
    }
    let before = usize::try_from(point).unwrap_or(0).min(digits.len());
    let leading = digits[..before].trim_start_matches('0');
    let padding = (point - digits.len() as i64).max(0) as usize;
    if leading.is_empty() {
        out.push('0');
    } else {
        out.push_str(leading);
        out.extend(std::iter::repeat_n('0', padding));
    }
    if scale > 0 {
        out.push('.');
        out.extend(std::iter::repeat_n('0', (-point).max(0) as usize));
        out.push_str(&digits[before..]);
    }
    Ok(())
}
