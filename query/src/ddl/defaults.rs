//! Whether a column can take its DEFAULT, as far as its type tells when the table is made.
//!
//! # Not here
//! The value, which is computed with every row: it may still be out of range, or NULL.

use crate::casts::text::reads_text;
use crate::catalog::{ColumnDefinition, parse_type};
use crate::database::Database;
use crate::error::{from_datafusion, unsupported};
use crate::types::type_name;
use crate::unknowns::{quoted_text, read};
use arrow::datatypes::DataType;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{Expr, ExprSchemable};

/// Checks a default against its column's type.
///
/// # Errors
/// 22P02 and its like: a quoted text is none of the type. 42804: a value of the type is never assigned to it.
pub(super) fn check(column: &ColumnDefinition, value: &Expr) -> Result<()> {
    let to = parse_type(&column.sql_type)?;
    if let Some(text) = quoted_text(value) {
        if reads_text(&to) {
            read(text, &to).map_err(|error| from_datafusion(error).fact("column", &column.name))?;
        }
        return Ok(());
    }
    let Ok(from) = value.get_type(&DFSchema::empty()) else {
        return Ok(());
    };
    match is_assigned(&from, &to) {
        true => Ok(()),
        false => {
            let message = format!(
                "column \"{}\" is of type {} but default expression is of type {}",
                column.name,
                type_name(&to),
                type_name(&from)
            );
            let error = Error::new(ErrorKind::Invalid, "SQL-0307", message).sqlstate("42804");
            Err(error.attempt("cast the default"))
        }
    }
}

/// Refuses a default that each row would have a value of its own of, where rows are there already.
///
/// # Errors
/// `Unsupported` 0A000.
pub(super) fn refuse_volatile(database: &Database, column: &ColumnDefinition) -> Result<()> {
    let Some(sql) = &column.default else {
        return Ok(());
    };
    let parsed = crate::parse::parse_expression(sql)?;
    let value = database
        .planner()
        .create_logical_expr_from_sql_expr(parsed, &DFSchema::empty())
        .map_err(|error| from_datafusion(error).unplaced())?;
    match value.is_volatile() {
        false => Ok(()),
        true => {
            let what = format!(
                "ADD COLUMN \"{}\" with a default that differs from row to row",
                column.name
            );
            Err(unsupported(what).attempt("add the column without it, and UPDATE the rows"))
        }
    }
}

/// Whether values of a type are assigned to another; `true` where it is not known here.
fn is_assigned(from: &DataType, to: &DataType) -> bool {
    let is_text = |found: &DataType| matches!(found, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8);
    let is_day = |found: &DataType| matches!(found, DataType::Date32 | DataType::Timestamp(_, _));
    let plain = |found: &DataType| found.is_numeric() || is_day(found) || *found == DataType::Boolean;
    match (from, to) {
        (from, to) if is_text(from) => !reads_text(to),
        (from, to) if plain(from) && plain(to) => {
            from.is_numeric() && to.is_numeric() || is_day(from) && is_day(to) || from == to
        }
        _ => true,
    }
}
