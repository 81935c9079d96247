//! Array literals: `{1,2,NULL,"a b"}`.

use super::TextStyle;
use super::read::{parse_array_in, quoted};
use arrow::array::{ArrayRef, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef};
use cenote_statestore::forms::list::{Element, items};
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
