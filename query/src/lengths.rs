//! Declared lengths of texts: `VARCHAR(n)` and `CHAR(n)`.
//!
//! # Rules kept here
//! 1. A column takes no text of more characters (22001). A cast to such a type cuts, as in PostgreSQL.
//! 2. CHAR(n) is not filled with blanks, and is kept without those at its end ([`crate::dml`]).
//! 3. Rows of a connector are not checked, so its columns declare no length.

use crate::catalog::{ColumnDefinition, parse_sql_type};
use arrow::array::{AsArray, RecordBatch};
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{CharacterLength, DataType as SqlType};

/// The most characters that a text of a type has; `None`: it is no such type, or has no limit.
pub(crate) fn length_max(sql_type: &SqlType) -> Option<u64> {
    match sql_type {
        SqlType::Varchar(length) | SqlType::CharacterVarying(length) | SqlType::CharVarying(length) => match length {
            Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
            _ => None,
        },
        SqlType::Char(length) | SqlType::Character(length) => match length {
            Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
            Some(CharacterLength::Max) => None,
            None => Some(1),
        },
        _ => None,
    }
}

/// The limits of a table's columns.
pub(crate) fn of_columns(columns: &[ColumnDefinition]) -> Result<Vec<Option<u64>>> {
    let limits = columns
        .iter()
        .map(|column| Ok(length_max(&parse_sql_type(&column.sql_type)?)));
    limits.collect()
}

/// Refuses a column with a length where nothing would check it.
pub(crate) fn refuse_unchecked(columns: &[ColumnDefinition]) -> Result<()> {
    for (column, limit) in columns.iter().zip(of_columns(columns)?) {
        if limit.is_some() {
            let message = format!(
                "cannot create column \"{}\" as {}: the length of a connector's texts is not checked yet",
                column.name, column.sql_type
            );
            return Err(Error::new(ErrorKind::Unsupported, "SQL-0107", message).attempt("use VARCHAR without a length"));
        }
    }
    Ok(())
}

/// Refuses texts that are longer than their columns.
///
/// # Arguments
/// - `limits`: one per column of `rows`.
pub(crate) fn check(columns: &[ColumnDefinition], limits: &[Option<u64>], rows: &RecordBatch) -> Result<()> {
    for ((column, limit), array) in columns.iter().zip(limits).zip(rows.columns()) {
        let (Some(limit), Some(texts)) = (limit, array.as_string_opt::<i32>()) else {
            continue;
        };
        // Few texts have more bytes than they may have characters, and only those are counted.
        let is_longer = |text: &str| text.len() as u64 > *limit && text.chars().count() as u64 > *limit;
        if texts.iter().flatten().any(is_longer) {
            let message = format!("value too long for type {}", shown_type(&column.sql_type, *limit));
            let error = Error::new(ErrorKind::Invalid, "TABLE-0106", message);
            return Err(error.sqlstate("22001").fact("column", &column.name));
        }
    }
    Ok(())
}

/// Whether the type of a column with a length is CHAR(n), as it is written.
pub(crate) fn is_char(sql_type: &str) -> bool {
    let sql_type = sql_type.to_lowercase();
    !(sql_type.starts_with("varchar") || sql_type.contains("varying"))
}

fn shown_type(sql_type: &str, limit: u64) -> String {
    match is_char(sql_type) {
        false => format!("character varying({limit})"),
        true => format!("character({limit})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_from_every_way_to_write_them() {
        let length = |text| length_max(&parse_sql_type(text).unwrap());
        for text in ["VARCHAR(5)", "CHARACTER VARYING(5)", "CHAR(5)", "CHARACTER(5)"] {
            assert_eq!(length(text), Some(5), "{text}");
        }
        assert_eq!(length("CHAR"), Some(1));
        assert_eq!(length("VARCHAR"), None);
        assert_eq!(length("TEXT"), None);
    }
}
