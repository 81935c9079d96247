//! STRUCT: named fields side by side, and the literals of PostgreSQL's composite types, such as `(1,"a b",)`.
//!
//! # Rules kept here
//! 1. A struct of one TEXT called `json` or `jsonb` is the type of that name ([`super::json`]) and no STRUCT.
//! 2. Every field can be NULL, and a STRUCT that is NULL differs from one whose fields are.
//!
//! # Not here
//! Reading fields as their types: `query::pgtext` and `connectors::column`. The bytes that a STRUCT is kept as are
//! those of [`super::list::ListBytes`].

use super::json;
use crate::column::storable;
use arrow::datatypes::{DataType, Field, Fields};
use std::borrow::Cow;

/// The Arrow type of a STRUCT.
pub fn record_type<N: Into<String>>(fields: impl IntoIterator<Item = (N, DataType)>) -> DataType {
    let fields = fields
        .into_iter()
        .map(|(name, data_type)| Field::new(name, data_type, true));
    DataType::Struct(fields.collect())
}

/// The fields of a STRUCT of any types; `None`: the type is none, or one of the JSON types.
pub fn fields_of(data_type: &DataType) -> Option<&Fields> {
    match data_type {
        DataType::Struct(fields) if json::name_of(data_type).is_none() => Some(fields),
        _ => None,
    }
}

/// The fields of a STRUCT that can be kept.
pub fn kept_fields_of(data_type: &DataType) -> Option<&Fields> {
    let is_kept = |field: &Field| {
        let is_plain = field.is_nullable() && field.metadata().is_empty();
        is_plain && *field.data_type() != DataType::UInt64 && storable(field.data_type())
    };
    fields_of(data_type).filter(|fields| !fields.is_empty() && fields.iter().all(|field| is_kept(field)))
}

/// Why a text is no literal of a STRUCT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformation {
    /// It does not begin with `(`.
    NoLeftParenthesis,
    /// It ends before `)`.
    UnexpectedEnd,
    /// Something follows `)`.
    Junk,
}

/// The fields of a literal, from the first to the last; `None` stands for NULL.
///
/// # Errors
/// What is wrong with the literal.
///
/// # Source
/// `record_in` of PostgreSQL.
pub fn items(text: &str) -> Result<Vec<Option<Cow<'_, str>>>, Malformation> {
    let is_space = |character: char| matches!(character, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c');
    let body = text.trim_start_matches(is_space).strip_prefix('(');
    let mut rest = body.ok_or(Malformation::NoLeftParenthesis)?;
    let mut found = Vec::new();
    loop {
        let (item, tail) = item(rest)?;
        found.push(item);
        rest = &tail[1..];
        if tail.starts_with(')') {
            break;
        }
    }
    match rest.trim_start_matches(is_space) {
        "" => Ok(found),
        _ => Err(Malformation::Junk),
    }
}

/// The first field, and what follows it: that begins with `,` or `)`.
fn item(text: &str) -> Result<(Option<Cow<'_, str>>, &str), Malformation> {
    if text.starts_with([',', ')']) {
        return Ok((None, text));
    }
    let mut changed: Option<String> = None;
    let mut is_quoted = false;
    let mut characters = text.char_indices().peekable();
    while let Some((index, character)) = characters.next() {
        match character {
            ',' | ')' if !is_quoted => {
                let item = changed.map_or(Cow::Borrowed(&text[..index]), Cow::Owned);
                return Ok((Some(item), &text[index..]));
            }
            '"' if is_quoted && characters.next_if(|(_, next)| *next == '"').is_some() => {
                changed.get_or_insert_with(|| text[..index].to_string()).push('"');
            }
            '"' => {
                changed.get_or_insert_with(|| text[..index].to_string());
                is_quoted = !is_quoted;
            }
            '\\' => {
                let (_, escaped) = characters.next().ok_or(Malformation::UnexpectedEnd)?;
                changed.get_or_insert_with(|| text[..index].to_string()).push(escaped);
            }
            plain => {
                if let Some(changed) = &mut changed {
                    changed.push(plain);
                }
            }
        }
    }
    Err(Malformation::UnexpectedEnd)
}

/// Appends the field of a literal, in quotes where it needs them.
pub fn write_item(out: &mut String, item: Option<&str>) {
    let Some(item) = item else {
        return;
    };
    let is_special = |byte: u8| matches!(byte, b'"' | b'\\' | b'(' | b')' | b',' | b' ' | b'\t'..=b'\r');
    if !item.is_empty() && !item.bytes().any(is_special) {
        out.push_str(item);
        return;
    }
    out.push('"');
    for character in item.chars() {
        if matches!(character, '"' | '\\') {
            out.push(character);
        }
        out.push(character);
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
