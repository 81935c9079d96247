//! The form in which a table keeps values of which several are equal.
//!
//! # Rules kept here
//! 1. A float of a key has one zero: `-0` is kept as `0`, so that keys can be compared by their bits.
//! 2. A CHAR(n) is kept without the blanks at its end, which do not count in PostgreSQL.
//! 3. Blanks alone beyond the length of a VARCHAR(n) are cut, as SQL has it.
//!
//! # Not here
//! Refusing texts that are longer: [`crate::lengths`].

use crate::catalog::{Table, TableDefinition};
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringArray};
use cenote_statestore::Result;
use std::borrow::Cow;
use std::sync::Arc;

/// Rows in the form that a table keeps.
///
/// # Arguments
/// - `rows`: the columns that users see, perhaps with others behind them.
pub(crate) fn kept_form(table: &Table, rows: RecordBatch) -> Result<RecordBatch> {
    let definition = &table.definition;
    let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
    for (position, column) in columns.iter_mut().enumerate().take(definition.columns.len()) {
        if column.data_type().is_floating() && is_key(definition, position) {
            *column = crate::zeros::plain(column);
        }
        let limit = table.lengths.get(position).copied().flatten();
        if let (Some(limit), Some(texts)) = (limit, column.as_string_opt::<i32>()) {
            let is_char = crate::lengths::is_char(&definition.columns[position].sql_type);
            if let Some(cut) = cut_texts(texts, limit as usize, is_char) {
                *column = Arc::new(cut);
            }
        }
    }
    Ok(RecordBatch::try_new(rows.schema(), columns)?)
}

fn is_key(definition: &TableDefinition, position: usize) -> bool {
    let mut unique = definition.constraints.unique.iter();
    definition.primary_key.contains(&position) || unique.any(|unique| unique.columns.contains(&position))
}

/// The texts with fewer blanks at their ends; `None`: they are as they should be.
fn cut_texts(texts: &StringArray, limit: usize, is_char: bool) -> Option<StringArray> {
    let cut = |text: &str| -> Option<String> {
        let trimmed = text.trim_end_matches(' ');
        if trimmed.len() == text.len() {
            return None;
        }
        if is_char {
            return Some(trimmed.to_string());
        }
        let end = text.char_indices().nth(limit)?.0;
        (trimmed.len() <= end).then(|| text[..end].to_string())
    };
    if texts.iter().flatten().all(|text| cut(text).is_none()) {
        return None;
    }
    let all = texts
        .iter()
        .map(|text| text.map(|text| cut(text).map_or(Cow::Borrowed(text), Cow::Owned)));
    Some(all.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_at_the_end_are_cut_as_the_type_has_it() {
        let texts = StringArray::from(vec![Some("ab  "), Some("abc"), None, Some("abcd  ")]);
        let of_char = cut_texts(&texts, 4, true).unwrap();
        assert_eq!(
            of_char,
            StringArray::from(vec![Some("ab"), Some("abc"), None, Some("abcd")])
        );
        let of_varchar = cut_texts(&texts, 4, false).unwrap();
        assert_eq!(
            of_varchar,
            StringArray::from(vec![Some("ab  "), Some("abc"), None, Some("abcd")])
        );
        assert_eq!(cut_texts(&StringArray::from(vec!["abcde"]), 4, false), None);
    }
}
