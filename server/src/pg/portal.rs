//! Portals: prepared statements with their values, run as far as the client asked.

use super::rows::{ColumnFormat, RowSource};
use super::session::Statement;
use cenote_query::pgtype::{ColumnType, shown_type};
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::scalar::ScalarValue;

/// A bound statement.
pub(super) struct Portal {
    /// `None`: an empty query.
    pub(super) statement: Option<Statement>,
    pub(super) parameters: Vec<ScalarValue>,
    /// Formats of the result's columns, as [`ColumnFormat::at`] reads them.
    pub(super) formats: Vec<ColumnFormat>,
    /// Columns as the client was told, or may ask to be told; `None`: no result.
    pub(super) columns: Option<SchemaRef>,
    pub(super) state: PortalState,
}

/// How far a portal has run.
pub(super) enum PortalState {
    /// Not at all.
    Ready,
    /// It gives rows; those not sent yet wait here.
    Rows(RowSource),
    /// To its end, without rows.
    Done,
}

/// Checks that a statement gives the columns that it was described with.
///
/// # Errors
/// `Invalid`, SQLSTATE 0A000: a table has changed since, so the client would misread the rows.
pub(super) fn check_columns(described: Option<&SchemaRef>, given: &Schema) -> Result<()> {
    let types = |schema: &Schema| -> Vec<u32> {
        schema
            .fields()
            .iter()
            .map(|field| ColumnType::of(field).pg.oid)
            .collect()
    };
    if described.is_some_and(|described| types(described) == types(given)) {
        return Ok(());
    }
    let names = |schema: &Schema| -> String {
        let columns = schema
            .fields()
            .iter()
            .map(|field| format!("{} {}", field.name(), shown_type(field)));
        columns.collect::<Vec<_>>().join(", ")
    };
    let error = Error::new(ErrorKind::Invalid, "PG-0015", "cached plan must not change result type").sqlstate("0A000");
    let described = described.map_or("no columns".to_string(), |described| names(described));
    Err(error
        .fact("prepared with", described)
        .fact("given now", names(given))
        .attempt("prepare the statement again"))
}
