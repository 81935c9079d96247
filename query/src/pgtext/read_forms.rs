//! Text to UUIDs, intervals and JSON, whose forms the store keeps ([`cenote_statestore::forms`]), with PostgreSQL's errors.

use super::read::{invalid, quoted};
use super::read_time::syntax;
use arrow::array::{ArrayRef, FixedSizeBinaryArray, StringArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano};
use cenote_statestore::forms::{Malformed, interval, json, uuid};
use cenote_statestore::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Reads an `interval`.
pub(crate) fn read_interval(text: &str) -> Result<IntervalMonthDayNano> {
    interval::read(text).map_err(|fault| match fault {
        Malformed::Syntax | Malformed::Depth | Malformed::Nul => syntax("interval", text),
        Malformed::Range => {
            let message = format!("interval field value out of range: {}", quoted(text));
            Error::new(ErrorKind::Invalid, "VALUE-0003", message).sqlstate("22015")
        }
    })
}

/// Reads a column of UUIDs.
pub(crate) fn read_uuids(values: &[Option<&str>]) -> Result<ArrayRef> {
    let read = |text: &str| uuid::read(text.as_bytes()).map_err(|_| invalid("uuid", text));
    let bytes: Vec<Option<[u8; uuid::UUID_BYTES]>> = values
        .iter()
        .map(|value| value.map(read).transpose())
        .collect::<Result<_>>()?;
    let size = uuid::UUID_BYTES as i32;
    Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(
        bytes.into_iter(),
        size,
    )?))
}

/// Reads a column of JSON, whose texts stay as they are, or of JSONB, which has a normal form.
pub(crate) fn read_json(values: &[Option<&str>], data_type: &DataType) -> Result<ArrayRef> {
    let texts: StringArray = if json::name_of(data_type) == Some("jsonb") {
        let read = |text: &str| json::normalised(text).map_err(|fault| json_error(fault, text));
        let read = values.iter().map(|value| value.map(read).transpose());
        read.collect::<Result<_>>()?
    } else {
        let check = |text| json::check(text).map_err(|fault| json_error(fault, text));
        values.iter().flatten().copied().try_for_each(check)?;
        values.iter().collect()
    };
    Ok(json::column_of(texts, data_type))
}

/// PostgreSQL's error of a text that is not read as JSON or JSONB.
pub(crate) fn json_error(fault: Malformed, text: &str) -> Error {
    let (state, message) = match fault {
        Malformed::Syntax => ("22P02", "invalid input syntax for type json"),
        Malformed::Range => ("22003", "value overflows numeric format"),
        Malformed::Nul => ("22P05", "unsupported Unicode escape sequence"),
        Malformed::Depth => ("54001", "stack depth limit exceeded"),
    };
    let error = Error::new(ErrorKind::Invalid, "VALUE-0001", message).sqlstate(state);
    match fault {
        Malformed::Nul => error.fact("reason", "\\u0000 cannot be converted to text"),
        Malformed::Depth => error.fact("limit", format!("{} levels", json::DEPTH_MAX)),
        _ => error.fact("text", quoted(text)),
    }
}
