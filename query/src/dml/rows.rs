//! Rows on their way into a table: computed, cast as an assignment casts, and checked.

use crate::casts::text::{elements_as, read_texts, reads_text};
use crate::catalog::Table;
use crate::database::Database;
use crate::error::from_datafusion;
use crate::structs::fields_as;
use crate::types::{OPEN_NUMERIC, OPEN_SCALE};
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{DataType, Field, SchemaRef};
use cenote_statestore::forms::record::fields_of;
use cenote_statestore::{Changes, Error, ErrorKind, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use futures::TryStreamExt;
use std::sync::Arc;

/// Runs a plan to its end.
pub(crate) async fn run(state: &SessionState, plan: LogicalPlan) -> Result<RecordBatch> {
    let physical = state.create_physical_plan(&plan).await.map_err(from_datafusion)?;
    let schema = physical.schema();
    let stream = crate::threads::compute(state, physical)?;
    let batches: Vec<RecordBatch> = stream.try_collect().await.map_err(from_datafusion)?;
    Ok(concat_batches(&schema, &batches)?)
}

/// Rows in a table's own types.
pub(crate) fn conform(rows: RecordBatch, columns: &SchemaRef) -> Result<RecordBatch> {
    let arrays = rows
        .columns()
        .iter()
        .zip(columns.fields())
        .map(|(array, field)| assign(array, field));
    Changes::batch(nullable(columns), arrays.collect::<Result<Vec<_>>>()?, rows.num_rows())
}

pub(crate) fn nullable(columns: &SchemaRef) -> SchemaRef {
    let fields: Vec<Field> = columns
        .fields()
        .iter()
        .map(|field| field.as_ref().clone().with_nullable(true))
        .collect();
    Arc::new(arrow::datatypes::Schema::new(fields))
}

/// Casts a value to a column's type as an assignment does.
///
/// # Errors
/// 22003: out of range. 22P02: a text that is not of the type.
pub(crate) fn assign(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    if array.data_type() == field.data_type() {
        return Ok(array.clone());
    }
    let options = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    if let (DataType::Utf8, to) = (array.data_type(), field.data_type())
        && reads_text(to)
    {
        return read_texts(array, to).map_err(|error| error.fact("column", field.name()));
    }
    if let (DataType::Struct(_), DataType::Struct(fields)) = (array.data_type(), field.data_type())
        && fields_of(array.data_type()).is_some()
        && fields_of(field.data_type()).is_some()
    {
        return fields_as(array, fields).map_err(|error| error.fact("column", field.name()));
    }
    if let (DataType::List(_), DataType::List(item)) = (array.data_type(), field.data_type()) {
        return elements_as(array, item).map_err(|error| error.fact("column", field.name()));
    }
    let via = match (array.data_type(), field.data_type()) {
        (DataType::Decimal128(_, scale), DataType::Int16 | DataType::Int32 | DataType::Int64) if *scale > 0 => {
            cast_with_options(array, &DataType::Decimal128(38, 0), &options)?
        }
        (_, DataType::Int16 | DataType::Int32 | DataType::Int64) => crate::casts::round_half_even(array),
        (DataType::Decimal128(_, _), to @ (DataType::Float32 | DataType::Float64)) => {
            crate::casts::nearest_floats(arrow::array::AsArray::as_primitive(array), to)
        }
        (DataType::Decimal128(_, scale), to) if *to == OPEN_NUMERIC && *scale > OPEN_SCALE => {
            let open = crate::casts::open_numerics(arrow::array::AsArray::as_primitive(array));
            open.map_err(|error| from_datafusion(error).fact("column", field.name()))?
        }
        (DataType::Float32 | DataType::Float64, DataType::Decimal128(precision, scale)) => {
            let numbers = crate::casts::numerics_of(array, *precision, *scale);
            numbers.map_err(|error| from_datafusion(error).fact("column", field.name()))?
        }
        (DataType::Float64, DataType::Float32) => {
            let narrowed = crate::casts::narrowed(arrow::array::AsArray::as_primitive(array));
            narrowed.map_err(|error| from_datafusion(error).fact("column", field.name()))?
        }
        _ => array.clone(),
    };
    cast_with_options(&via, field.data_type(), &options).map_err(|error| {
        crate::error::from_datafusion(datafusion::error::DataFusionError::ArrowError(Box::new(error), None))
            .fact("column", field.name())
            .fact("type", crate::types::type_name(field.data_type()))
    })
}

/// Refuses rows that a table does not take: NULL where it has none, texts beyond their length, a CHECK that is false.
///
/// # Arguments
/// - `rows`: the columns that users see.
pub(crate) async fn check_rows(database: &Arc<Database>, table: &Table, rows: &RecordBatch) -> Result<()> {
    for (column, array) in table.definition.columns.iter().zip(rows.columns()) {
        if column.not_null && array.null_count() > 0 {
            let error = Error::new(
                ErrorKind::Invalid,
                "TABLE-0104",
                format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, table.definition.name
                ),
            )
            .sqlstate("23502");
            let first = (0..array.len()).find(|row| array.is_null(*row)).unwrap_or_default();
            return Err(error.telling(crate::constraints::failing_row(rows, first)?));
        }
    }
    crate::lengths::check(&table.definition.columns, &table.lengths, rows)?;
    if table.definition.constraints.checks.is_empty() {
        return Ok(());
    }
    table.checks(database).await?.check(&table.definition.name, rows)
}
