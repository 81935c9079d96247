//! Arrays: lists of one dimension, kept as bytes that are equal when the lists are, and PostgreSQL's array literals.
//!
//! # Not here
//! Reading elements as their type: `query::pgtext` and `connectors::column`.

use super::record;
use super::uuid::UUID;
use arrow::array::{ArrayRef, BinaryArray, new_empty_array};
use arrow::datatypes::{DataType, Field, TimeUnit};
use arrow::row::{RowConverter, SortField};
use std::borrow::Cow;
use std::sync::Arc;

/// The Arrow type of an array of elements.
pub fn array_type(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

/// The type of an array's elements, if arrays of it can be kept.
pub fn element_of(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(item) if *data_type == array_type(item.data_type().clone()) => {
            Some(item.data_type()).filter(|element| is_element(element))
        }
        _ => None,
    }
}

fn is_element(data_type: &DataType) -> bool {
    use DataType::*;
    let is_plain = matches!(
        data_type,
        Boolean
            | Int16
            | Int32
            | Int64
            | Float32
            | Float64
            | Decimal128(_, _)
            | Date32
            | Time64(TimeUnit::Microsecond)
            | Timestamp(TimeUnit::Microsecond, _)
            | Utf8
            | Binary
    );
    is_plain || *data_type == UUID || record::kept_fields_of(data_type).is_some()
}

/// Whether values of a type are kept as bytes of [`ListBytes`]: arrays, and STRUCT.
pub fn is_kept_as_bytes(data_type: &DataType) -> bool {
    element_of(data_type).is_some() || record::kept_fields_of(data_type).is_some()
}

/// Turns lists, or structs, of one type into bytes and back.
#[derive(Debug)]
pub struct ListBytes(RowConverter);

impl ListBytes {
    /// For lists of a type.
    ///
    /// # Panics
    /// If [`is_kept_as_bytes`] knows no such type.
    pub fn new(data_type: &DataType) -> ListBytes {
        let converter = RowConverter::new(vec![SortField::new(data_type.clone())]);
        ListBytes(converter.expect("lists of these elements have rows"))
    }

    /// The bytes of each list; those of a NULL mean nothing.
    ///
    /// # Panics
    /// If the lists are of another type, or take more than 2 GB.
    pub fn encode(&self, lists: &ArrayRef) -> BinaryArray {
        let rows = self.0.convert_columns(std::slice::from_ref(lists));
        let bytes = rows.and_then(|rows| rows.try_into_binary());
        bytes.expect("a batch of lists of this type has at most 2 GB")
    }

    /// The lists that bytes stand for.
    pub fn decode<'a>(&self, bytes: impl Iterator<Item = &'a [u8]>, data_type: &DataType) -> ArrayRef {
        let parser = self.0.parser();
        let lists = self.0.convert_rows(bytes.map(|bytes| parser.parse(bytes)));
        let lists = lists.expect("the bytes were made of lists");
        lists.into_iter().next().unwrap_or_else(|| new_empty_array(data_type))
    }

    /// The bytes of a NULL.
    pub fn null(&self, data_type: &DataType) -> Vec<u8> {
        let null = arrow::array::new_null_array(data_type, 1);
        self.encode(&null).value(0).to_vec()
    }
}

/// One element as it stands in a literal.
pub struct Element<'a> {
    /// `None`: an unquoted NULL.
    pub text: Option<Cow<'a, str>>,
    /// The element is an array itself; `text` is its literal.
    pub is_nested: bool,
}

/// Whether C's `isspace` says so.
fn is_space(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// The elements of an array literal; `None` when it is malformed.
pub fn items(text: &str) -> Option<Vec<Element<'_>>> {
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
