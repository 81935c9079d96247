//! Parts of a JSON value, as slices of its text; and the texts of JSON strings.
//!
//! All functions but [`unescaped`] and `check_escapes` are given texts that were checked.

use crate::forms::Malformed;
use std::borrow::Cow;

/// The value of a key of an object; the last one, if the key comes several times.
pub fn member<'a>(value: &'a str, key: &str) -> Option<&'a str> {
    let mut found = None;
    each(value, b'{', |name, part| {
        if name.is_some_and(|name| unescaped(name).is_ok_and(|name| name == key)) {
            found = Some(part);
        }
        true
    });
    found
}

/// The element of an array at a position from 0 on; from -1 down, from its end.
pub fn element(value: &str, position: i64) -> Option<&str> {
    let mut elements = Vec::new();
    each(value, b'[', |_, part| {
        elements.push(part);
        position < 0 || (elements.len() as i64) <= position
    });
    let index = if position < 0 {
        elements.len() as i64 + position
    } else {
        position
    };
    elements.get(usize::try_from(index).ok()?).copied()
}

/// What a path of keys and positions leads to.
pub fn at_path<'a, 'p>(value: &'a str, path: impl IntoIterator<Item = &'p str>) -> Option<&'a str> {
    path.into_iter().try_fold(value.trim_matches(is_blank), |value, step| {
        match value.as_bytes().first() {
            Some(b'{') => member(value, step),
            Some(b'[') => element(value, step.parse().ok()?),
            _ => None,
        }
    })
}

/// A value as `->>` gives it: a text without quotes and escapes, other values as they are written; `None` for null.
///
/// # Errors
/// [`Malformed::Nul`]: the text holds `\u0000`.
pub fn text_of(value: &str) -> Result<Option<Cow<'_, str>>, Malformed> {
    match value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(raw) => unescaped(raw).map(Some),
        None if value == "null" => Ok(None),
        None => Ok(Some(Cow::Borrowed(value))),
    }
}

fn is_blank(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r')
}

/// Goes over the parts of an object or an array, with their keys' raw texts, until `visit` says false.
fn each<'a>(value: &'a str, opening: u8, mut visit: impl FnMut(Option<&'a str>, &'a str) -> bool) {
    let value = value.trim_matches(is_blank);
    let bytes = value.as_bytes();
    if bytes.first() != Some(&opening) {
        return;
    }
    let mut at = 1;
    loop {
        at = past_blanks(bytes, at);
        if matches!(bytes.get(at), None | Some(b'}' | b']')) {
            return;
        }
        let mut name = None;
        if opening == b'{' {
            let end = string_end(bytes, at);
            name = value.get(at + 1..end - 1);
            // Behind the colon.
            at = past_blanks(bytes, past_blanks(bytes, end) + 1);
        }
        let end = value_end(bytes, at);
        let Some(part) = value.get(at..end) else {
            return;
        };
        if !visit(name, part) {
            return;
        }
        at = past_blanks(bytes, end);
        at += usize::from(bytes.get(at) == Some(&b','));
    }
}

fn past_blanks(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
        at += 1;
    }
    at
}

/// The place behind the string that begins at `at`.
pub(super) fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() {
        match bytes[end] {
            b'"' => return end + 1,
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
    bytes.len()
}

/// The place behind the value that begins at `at`.
fn value_end(bytes: &[u8], at: usize) -> usize {
    let (mut end, mut depth) = (at, 0usize);
    while let Some(byte) = bytes.get(end) {
        match byte {
            b'"' => {
                end = string_end(bytes, end);
                if depth == 0 {
                    return end;
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 1 => depth -= 1,
            b'}' | b']' if depth == 1 => return end + 1,
            b'}' | b']' => return end,
            b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return end,
            _ => {}
        }
        end += 1;
    }
    bytes.len()
}

/// Checks the escapes in what stands between a string's quotes, `\u0000` allowed.
pub(super) fn check_escapes(raw: &str) -> Result<(), Malformed> {
    match unescaped(raw) {
        Ok(_) | Err(Malformed::Nul) => Ok(()),
        Err(other) => Err(other),
    }
}

/// The text of a JSON string, from what stands between its quotes.
///
/// # Errors
/// [`Malformed::Syntax`]: an escape that there is not, or half a surrogate pair. [`Malformed::Nul`]: `\u0000`.
pub fn unescaped(raw: &str) -> Result<Cow<'_, str>, Malformed> {
    if !raw.contains('\\') {
        return Ok(Cow::Borrowed(raw));
    }
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    let mut has_nul = false;
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let (character, tail) = escape(&rest[at + 1..])?;
        has_nul |= character == '\0';
        text.push(character);
        rest = tail;
    }
    text.push_str(rest);
    if has_nul {
        Err(Malformed::Nul)
    } else {
        Ok(Cow::Owned(text))
    }
}

/// The character of the escape that `text` begins with, behind its backslash; and what follows it.
fn escape(text: &str) -> Result<(char, &str), Malformed> {
    let mut characters = text.chars();
    let character = match characters.next().ok_or(Malformed::Syntax)? {
        plain @ ('"' | '\\' | '/') => plain,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => return unicode(characters.as_str()),
        _ => return Err(Malformed::Syntax),
    };
    Ok((character, characters.as_str()))
}

fn unicode(text: &str) -> Result<(char, &str), Malformed> {
    let unit = |text: &str| {
        let digits = text
            .get(..4)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        digits
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or(Malformed::Syntax)
    };
    let first = unit(text)?;
    let rest = &text[4..];
    if !(0xd800..0xdc00).contains(&first) {
        let character = char::from_u32(first).ok_or(Malformed::Syntax)?;
        return Ok((character, rest));
    }
    let second = unit(rest.strip_prefix("\\u").ok_or(Malformed::Syntax)?)?;
    if !(0xdc00..0xe000).contains(&second) {
        return Err(Malformed::Syntax);
    }
    let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    Ok((char::from_u32(code).ok_or(Malformed::Syntax)?, &rest[6..]))
}
