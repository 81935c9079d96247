//! Literals of STRUCT: `(1,"a b",)`.

use super::TextStyle;
use super::read::{parse_array_in, quoted};
use arrow::array::{ArrayRef, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::Fields;
use cenote_statestore::forms::record::{Malformation, items};
use cenote_statestore::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::sync::Arc;

/// Reads a column of structs with these fields.
///
/// # Errors
/// 22P02: a literal is malformed, or has another number of fields. Those of the first field that does not read.
pub(crate) fn read_records(values: &[Option<&str>], fields: &Fields, style: &TextStyle) -> Result<ArrayRef> {
    let mut rows: Vec<Option<Vec<Option<Cow<'_, str>>>>> = Vec::with_capacity(values.len());
    for value in values {
        rows.push(value.map(|text| items_of(text, fields.len())).transpose()?);
    }
    let column = |place: usize| -> Vec<Option<&str>> {
        let item = rows
            .iter()
            .map(|row| row.as_ref().and_then(|items| items[place].as_deref()));
        item.collect()
    };
    let columns = fields
        .iter()
        .enumerate()
        .map(|(place, field)| parse_array_in(&column(place), field.data_type(), style));
    let nulls = NullBuffer::from_iter(values.iter().map(Option::is_some));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, Some(nulls))?))
}

/// The fields of a literal, as many as the type has.
fn items_of(text: &str, count: usize) -> Result<Vec<Option<Cow<'_, str>>>> {
    let items = items(text).map_err(|malformation| {
        malformed(
            text,
            match malformation {
                Malformation::NoLeftParenthesis => "Missing left parenthesis.",
                Malformation::UnexpectedEnd => "Unexpected end of input.",
                Malformation::Junk => "Junk after right parenthesis.",
            },
        )
    })?;
    match items.len().cmp(&count) {
        std::cmp::Ordering::Equal => Ok(items),
        std::cmp::Ordering::Less => Err(malformed(text, "Too few columns.")),
        std::cmp::Ordering::Greater => Err(malformed(text, "Too many columns.")),
    }
}

fn malformed(text: &str, reason: &str) -> Error {
    let message = format!("malformed record literal: {}", quoted(text));
    let error = Error::new(ErrorKind::Invalid, "VALUE-0001", message).sqlstate("22P02");
    error.fact("reason", reason)
}
