//! The text of a row that is kept with its error: a JSON object of bounded length.
//!
//! # Rules kept here
//! 1. A value of more than [`VALUE_CHARS_MAX`] characters, and a row of more than [`ROW_CHARS_MAX`], is cut; what is cut
//!    ends with `…`. A row that is cut in the middle is no JSON.
//! 2. The text is a function of the row alone, so the error of its deletion takes that of its insertion back.

use crate::plan::unique_fields;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::json::writer::{JsonArray, WriterBuilder};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use cenote_statestore::{Changes, Result};
use std::fmt::Write;
use std::sync::Arc;

/// Characters of a value in a row.
const VALUE_CHARS_MAX: usize = 200;

/// Characters of a row.
const ROW_CHARS_MAX: usize = 1000;

/// The text, or its first characters and a mark that there are more.
pub(super) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

/// One row as a JSON object, columns in order, NULL included.
///
/// # Arguments
/// - `row`: a batch of that row alone.
/// - `names`: the names to show of its columns, empty for those to leave out; of columns behind them, their own.
pub(super) fn of_row(row: &RecordBatch, names: &[String]) -> Result<String> {
    let schema = row.schema();
    let named = schema.fields().iter().zip(row.columns()).enumerate();
    let named = named.map(|(index, (field, column))| (names.get(index).unwrap_or(field.name()), column));
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = named
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, column)| {
            let column = short(column);
            (Field::new(name, column.data_type().clone(), true), column)
        })
        .unzip();
    if columns.is_empty() {
        return Ok("{}".into());
    }
    let schema = Schema::new(unique_fields(fields.into_iter()));
    let row = Changes::batch(Arc::new(schema), columns, row.num_rows())?;
    let text = match written(&row) {
        Ok(text) => text,
        // A type that has no form in JSON.
        Err(_) => written(&as_texts(&row)?)?,
    };
    Ok(cut(&text, ROW_CHARS_MAX))
}

fn written(row: &RecordBatch) -> Result<String> {
    let mut writer = WriterBuilder::new()
        .with_explicit_nulls(true)
        .build::<_, JsonArray>(Vec::new());
    writer.write(row)?;
    writer.finish()?;
    let text = String::from_utf8_lossy(writer.get_ref()).into_owned();
    let object = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    Ok(object.unwrap_or(&text).to_string())
}

/// The column of a row; a text that is too long is cut before it is copied.
fn short(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8 => {
            let texts = column.as_string::<i32>();
            let is_long = |text: &str| text.len() > VALUE_CHARS_MAX;
            match texts.iter().flatten().any(is_long) {
                true => Arc::new(
                    texts
                        .iter()
                        .map(|text| text.map(|text| cut(text, VALUE_CHARS_MAX)))
                        .collect::<StringArray>(),
                ),
                false => column.clone(),
            }
        }
        DataType::Binary => {
            let hexed = column.as_binary::<i32>().iter().map(|bytes| bytes.map(hex));
            Arc::new(hexed.collect::<StringArray>())
        }
        _ => column.clone(),
    }
}

fn hex(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(VALUE_CHARS_MAX / 2)];
    let mut text = String::with_capacity(2 * shown.len());
    for byte in shown {
        let _ = write!(text, "{byte:02x}");
    }
    if shown.len() < bytes.len() {
        text.push('…');
    }
    text
}

/// The row with every value as a text.
fn as_texts(row: &RecordBatch) -> Result<RecordBatch> {
    let options = FormatOptions::default();
    let (mut fields, mut columns): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
    for (field, column) in row.schema().fields().iter().zip(row.columns()) {
        let formatter = ArrayFormatter::try_new(column, &options)?;
        let texts = (0..column.len()).map(|at| column.is_valid(at).then(|| formatter.value(at).to_string()));
        columns.push(Arc::new(texts.collect::<StringArray>()));
        fields.push(Field::new(field.name(), DataType::Utf8, true));
    }
    Changes::batch(Arc::new(Schema::new(fields)), columns, row.num_rows())
}
