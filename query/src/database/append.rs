//! Rows appended by programs.

use super::Database;
use crate::catalog::{Object, Table};
use crate::ddl::{FED, MADE};
use crate::dml::{assign, check_rows, kept_form};
use crate::error::{from_datafusion, no_column};
use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::compute::{concat_batches, interleave};
use arrow::datatypes::{Field, Schema, SchemaRef};
use cenote_engine::{Commit, OnConflict, TableWrite};
use cenote_statestore::{Changes, Epoch, Error, ErrorKind, Result};
use datafusion::common::DFSchema;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;

/// Rows to append.
#[derive(Debug)]
pub struct AppendRows {
    /// Columns by name; those that are missing take their default in all rows.
    pub batch: RecordBatch,
    /// For each column of the batch, the rows in which it takes its default, ascending; may be shorter.
    pub absent: Vec<Vec<u32>>,
}

/// What rows can be appended to a table.
#[derive(Clone, Debug)]
pub struct AppendSchema {
    /// Its columns.
    pub columns: SchemaRef,
    /// Which of them have a default.
    pub has_default: Vec<bool>,
}

impl Database {
    /// Appends rows to a table held here, as one epoch, durable and visible when this returns.
    ///
    /// # Arguments
    /// - `rows`: their types are cast exactly or refused.
    ///
    /// # Returns
    /// The epoch of the rows.
    pub async fn append(self: &Arc<Self>, table: &str, rows: Vec<AppendRows>) -> Result<Epoch> {
        let table = self.appendable(table)?;
        let batches = rows
            .iter()
            .map(|rows| self.complete(&table, rows))
            .collect::<Result<Vec<_>>>()?;
        let schema = nullable_columns(&table);
        let rows = kept_form(&table, concat_batches(&schema, &batches)?)?;
        check_rows(self, &table, &rows).await?;
        let rows = Changes::relabel(rows, table.columns.clone())?;
        let write = TableWrite {
            table: table.definition.id,
            deletes: Vec::new(),
            inserts: vec![rows],
            on_conflict: OnConflict::Refuse,
            truncate: false,
        };
        let epoch = self
            .engine
            .commit(Commit {
                writes: vec![write],
                planned: table.planned(),
                ..Commit::default()
            })
            .await?;
        self.engine.wait_visible(epoch).await?;
        Ok(epoch)
    }

    /// Columns that `append` to this table takes, for decoding a body of JSON or CSV.
    ///
    /// # Errors
    /// `NotFound`: no such table. `Invalid` SQL-0219: its rows come from elsewhere.
    pub fn append_schema(&self, table: &str) -> Result<AppendSchema> {
        let table = self.appendable(table)?;
        let columns = table.definition.columns.iter();
        Ok(AppendSchema {
            has_default: columns.map(|column| column.default.is_some()).collect(),
            columns: table.columns.clone(),
        })
    }

    fn appendable(&self, name: &str) -> Result<Arc<Table>> {
        let catalog = self.catalog();
        let name = name.strip_prefix("public.").unwrap_or(name);
        match catalog.get(name) {
            None => Err(catalog.missing(name)),
            Some(Object::Table(table)) if table.definition.connector.is_none() => Ok(table.clone()),
            Some(object) => {
                let message = format!(
                    "cannot append to {} \"{name}\": its rows come from elsewhere",
                    object.kind()
                );
                let error = Error::new(ErrorKind::Invalid, "SQL-0219", message).sqlstate("42809");
                Err(error.attempt(if matches!(object, Object::Table(_)) { FED } else { MADE }))
            }
        }
    }

    /// A batch in the table's columns and types.
    fn complete(&self, table: &Table, AppendRows { batch, absent }: &AppendRows) -> Result<RecordBatch> {
        for field in batch.schema().fields() {
            if table.columns.index_of(field.name()).is_err() {
                let names = table.columns.fields().iter().map(|field| field.name().as_str());
                return Err(no_column(&table.definition.name, field.name(), names));
            }
        }
        let columns = table.definition.columns.iter().zip(table.columns.fields());
        let columns = columns.map(|(definition, field)| {
            let default = definition.default.as_deref();
            let Some((place, _)) = batch.schema_ref().column_with_name(field.name()) else {
                return self.default_column(default, field, batch.num_rows());
            };
            let given = assign(batch.column(place), field)?;
            match absent.get(place).filter(|rows| !rows.is_empty()) {
                None => Ok(given),
                Some(rows) => filled(&given, rows, &self.default_column(default, field, rows.len())?),
            }
        });
        Changes::batch(
            nullable_columns(table),
            columns.collect::<Result<Vec<_>>>()?,
            batch.num_rows(),
        )
    }

    /// A column's default, once for all rows of a batch.
    pub(crate) fn default_column(&self, default: Option<&str>, field: &Field, rows: usize) -> Result<ArrayRef> {
        let Some(sql) = default else {
            return Ok(new_null_array(field.data_type(), rows));
        };
        let empty = DFSchema::empty();
        let parsed = crate::parse::parse_expression(sql)?;
        let expr = self
            .planner
            .create_logical_expr_from_sql_expr(parsed, &empty)
            .map_err(from_datafusion)?;
        let mut props = ExecutionProps::new();
        props.query_execution_start_time = Some(chrono::Utc::now());
        let simplifier = datafusion::optimizer::simplify_expressions::ExprSimplifier::new(
            datafusion::logical_expr::simplify::SimplifyContext::builder()
                .with_query_execution_start_time(props.query_execution_start_time)
                .with_schema(Arc::new(empty.clone()))
                .build(),
        );
        let expr = simplifier.simplify(expr).map_err(from_datafusion)?;
        let physical = create_physical_expr(&expr, &empty, &props).map_err(from_datafusion)?;
        let nothing = Changes::batch(Arc::new(Schema::empty()), Vec::new(), rows)?;
        let value = physical
            .evaluate(&nothing)
            .and_then(|value| value.into_array(rows))
            .map_err(from_datafusion)?;
        assign(&value, field)
    }
}

/// A column with other values in some rows.
///
/// # Arguments
/// - `rows`: those rows, ascending.
/// - `values`: one for each of them.
fn filled(column: &ArrayRef, rows: &[u32], values: &ArrayRef) -> Result<ArrayRef> {
    let mut places: Vec<(usize, usize)> = (0..column.len()).map(|row| (0, row)).collect();
    for (position, row) in rows.iter().enumerate() {
        places[*row as usize] = (1, position);
    }
    Ok(interleave(&[column.as_ref(), values.as_ref()], &places)?)
}

fn nullable_columns(table: &Table) -> SchemaRef {
    let fields: Vec<Field> = table
        .columns
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    Arc::new(Schema::new(fields))
}
