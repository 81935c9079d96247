//! Array literals: `{1,2,NULL,"a b"}`.

use super::TextStyle;
use super::read::{is_space, parse_array_in, quoted};
use arrow::array::{ArrayRef, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef};
use cenote_statestore::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::sync::Arc;

/// Reads a column of arrays with elements as `item` says.
pub(crate) fn read_list(values: &[Option<&str>], item: &FieldRef, style: &TextStyle) -> Result<ArrayRef> {
    let is_nested = matches!(item.data_type(), DataType::List(_));
    let mut elements: Vec<Option<Cow<'_, str>>> = Vec::new();
    let mut lengths = Vec::with_capacity(values.len());
    for value in values {
        let before = elements.len();
        if let Some(text) = value {
            let Some(found) = items(text) else {
                return Err(malformed(text));
            };
            if found.iter().any(|element| element.is_nested != is_nested) && !found.is_empty() {
                return Err(if is_nested || nests_evenly(&found) {
                    dimensions(text)
                } else {
                    malformed(text)
                });
            }
            if is_nested && !nests_evenly(&found) {
                return Err(malformed(text));
            }
            elements.extend(found.into_iter().map(|element| element.text));
        }
        lengths.push(elements.len() - before);
    }
    let texts: Vec<Option<&str>> = elements.iter().map(Option::as_deref).collect();
    let array = parse_array_in(&texts, item.data_type(), style)?;
    let nulls = NullBuffer::from_iter(values.iter().map(Option::is_some));
    Ok(Arc::new(ListArray::try_new(
        item.clone(),
        OffsetBuffer::from_lengths(lengths),
        array,
        Some(nulls),
    )?))
}

fn malformed(text: &str) -> Error {
    let message = format!("malformed array literal: {}", quoted(text));
    Error::new(ErrorKind::Invalid, "VALUE-0001", message).sqlstate("22P02")
}

fn dimensions(text: &str) -> Error {
    let message = format!(
        "cannot read array {}: the type holds another number of dimensions",
        quoted(text)
    );
    Error::new(ErrorKind::Unsupported, "VALUE-0005", message)
}

/// One element as it stands in a literal.
struct Element<'a> {
    /// `None`: an unquoted NULL.
    text: Option<Cow<'a, str>>,
    /// The element is an array itself; `text` is its literal.
    is_nested: bool,
}

/// Whether all elements are arrays of one length, themselves even.
fn nests_evenly(elements: &[Element<'_>]) -> bool {
    let mut length = None;
    elements.iter().all(|element| {
        let inner = element.text.as_deref().filter(|_| element.is_nested).and_then(items);
        inner.is_some_and(|inner| {
            let is_deeper = inner.iter().any(|element| element.is_nested);
            *length.get_or_insert(inner.len()) == inner.len()
                && !inner.is_empty()
                && (!is_deeper || nests_evenly(&inner))
        })
    })
}

/// The elements of an array literal; `None` when it is malformed.
fn items(text: &str) -> Option<Vec<Element<'_>>> {
    let body = text.trim_matches(is_space).strip_prefix('{')?;
    let mut elements = Vec::new();
    let mut rest = body.trim_start_matches(is_space);
    if let Some(tail) = rest.strip_prefix('}') {
        return tail.is_empty().then_some(elements);
    }
    loop {
        let (element, tail) = item(rest)?;
        elements.push(element);
        let tail = tail.trim_start_matches(is_space);
        match tail.strip_prefix(',') {
            Some(next) => rest = next.trim_start_matches(is_space),
            None => return (tail == "}").then_some(elements),
        }
    }
}

/// The first element and what follows it.
fn item(text: &str) -> Option<(Element<'_>, &str)> {
    if text.starts_with('{') {
        let end = nested_end(text)?;
        let element = Element {
            text: Some(Cow::Borrowed(&text[..end])),
            is_nested: true,
        };
        return Some((element, &text[end..]));
    }
    if let Some(inner) = text.strip_prefix('"') {
        let (unescaped, tail) = unescape(inner, |character| character == '"')?;
        let element = Element {
            text: Some(unescaped),
            is_nested: false,
        };
        return Some((element, tail.strip_prefix('"')?));
    }
    plain(text)
}

/// An element without quotes: up to the delimiter, spaces around it cut unless escaped.
fn plain(text: &str) -> Option<(Element<'_>, &str)> {
    let (unescaped, tail) = unescape(text, |character| matches!(character, ',' | '{' | '}' | '"'))?;
    if !tail.starts_with([',', '}']) {
        return None;
    }
    let raw = &text[..text.len() - tail.len()];
    if raw.trim_matches(is_space).is_empty() {
        return None;
    }
    let text = match unescaped {
        Cow::Borrowed(plain) => Cow::Borrowed(plain.trim_end_matches(is_space)),
        // An escaped space at the end belongs to the element.
        Cow::Owned(changed) if raw.ends_with("\\ ") => Cow::Owned(changed),
        Cow::Owned(changed) => Cow::Owned(changed.trim_end_matches(is_space).to_string()),
    };
    let is_null = matches!(&text, Cow::Borrowed(word) if word.eq_ignore_ascii_case("null"));
    Some((
        Element {
            text: (!is_null).then_some(text),
            is_nested: false,
        },
        tail,
    ))
}

/// Takes characters until one that `ends` names stands unescaped; what is left begins with it.
fn unescape(text: &str, ends: impl Fn(char) -> bool) -> Option<(Cow<'_, str>, &str)> {
    let mut changed: Option<String> = None;
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        if character == '\\' {
            let (_, escaped) = characters.next()?;
            changed.get_or_insert_with(|| text[..index].to_string()).push(escaped);
        } else if ends(character) {
            let taken = changed.map_or(Cow::Borrowed(&text[..index]), Cow::Owned);
            return Some((taken, &text[index..]));
        } else if let Some(changed) = &mut changed {
            changed.push(character);
        }
    }
    None
}

/// Most dimensions of an array, as PostgreSQL has it.
const DIMENSIONS_MAX: usize = 6;

/// Where the array that `text` begins with ends; `None` also when it nests too deep.
fn nested_end(text: &str) -> Option<usize> {
    let (mut depth, mut is_quoted, mut is_escaped) = (0usize, false, false);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'{' if !is_quoted => depth += 1,
            b'}' if !is_quoted => depth -= 1,
            _ => {}
        }
        if depth >= DIMENSIONS_MAX {
            return None;
        }
        if depth == 0 && !is_escaped {
            return Some(index + 1);
        }
    }
    None
}
