//! INSERT, UPDATE, DELETE and TRUNCATE: what they read and the rows they give to the transaction.

use crate::casts::text::{elements_as, is_read_here, read_texts};
use crate::catalog::Table;
use crate::ddl::writable_table;
use crate::error::{from_datafusion, unsupported};
use crate::names::folded;
use crate::plan::{ReadView, bind};
use crate::transaction::Transaction;
use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{CastOptions, cast_with_options, concat_batches};
use arrow::datatypes::{DataType, Field, SchemaRef};
use cenote_engine::{OnConflict, is_row_numbered};
use cenote_statestore::{Changes, Error, ErrorKind, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, Expr, FromTable, Ident, Insert, ObjectName,
    OnConflict as OnConflictAst, OnConflictAction, OnInsert, SelectItem, SetExpr, Statement as Ast, TableFactor,
    TableObject, TableWithJoins, Truncate, Update, UpdateTableFromKind,
};
use futures::TryStreamExt;
use std::cmp::Ordering;
use std::sync::Arc;

/// INSERT.
///
/// # Returns
/// The number of rows inserted.
pub(crate) async fn insert(
    view: &ReadView,
    transaction: &mut Transaction,
    insert: &Insert,
    parameters: &[ScalarValue],
) -> Result<usize> {
    if insert.returning.is_some() {
        return Err(unsupported("RETURNING"));
    }
    let TableObject::TableName(name) = &insert.table else {
        return Err(unsupported("INSERT into a function"));
    };
    let table = writable_table(&view.catalog, name)?;
    let on_conflict = conflict_rule(&table, insert.on.as_ref())?;
    let mut plain = insert.clone();
    plain.on = None;
    let view = ReadView {
        inserts_into: Some(table.definition.id),
        ..view.clone()
    };
    let state = view.state();
    if plain.columns.is_empty()
        && let Some(source) = &plain.source
        && width_of(&source.body).is_none()
    {
        let width = view
            .plan(&state, &Ast::Query(source.clone()))
            .await?
            .schema()
            .fields()
            .len();
        name_first_columns(&table, &mut plain, width);
    }
    name_columns(&table, &mut plain)?;
    let plan = view.plan(&state, &Ast::Insert(plain)).await?;
    let LogicalPlan::Dml(dml) = plan else {
        return Err(Error::bug("an INSERT was not planned as one"));
    };
    let rows = run(&state, bind(dml.input.as_ref().clone(), parameters)?).await?;
    let rows = conform(rows, &table.columns)?;
    check_columns(&table, &rows)?;
    transaction.insert(&table, rows, on_conflict)
}

/// Names the columns of an INSERT that names none: as many of the table's first as there are values, as in PostgreSQL.
///
/// # Errors
/// `Invalid` 42601: more or fewer values than columns.
pub(crate) fn name_columns(table: &Table, insert: &mut Insert) -> Result<()> {
    let Some(width) = insert.source.as_deref().and_then(|source| width_of(&source.body)) else {
        return Ok(());
    };
    if insert.columns.is_empty() {
        name_first_columns(table, insert, width);
    }
    crate::unknowns::type_values(&table.columns, insert);
    let message = match width.cmp(&insert.columns.len()) {
        Ordering::Equal => return Ok(()),
        Ordering::Less => "INSERT has more target columns than expressions",
        Ordering::Greater => "INSERT has more expressions than target columns",
    };
    let error = Error::new(ErrorKind::Invalid, "SQL-0308", message).sqlstate("42601");
    Err(error.fact("expressions", width).fact("columns", insert.columns.len()))
}

fn name_first_columns(table: &Table, insert: &mut Insert, width: usize) {
    let fields = table.columns.fields().iter().take(width);
    let names = fields.map(|field| Ident::with_quote('"', field.name()));
    insert.columns = names.map(ObjectName::from).collect();
}

/// The number of columns of a query, where its text tells.
fn width_of(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        SetExpr::Select(select) => {
            let is_one =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Query(query) => width_of(&query.body),
        SetExpr::SetOperation { left, .. } => width_of(left),
        _ => None,
    }
}

fn conflict_rule(table: &Table, on: Option<&OnInsert>) -> Result<OnConflict> {
    match on {
        None => Ok(OnConflict::Refuse),
        Some(OnInsert::OnConflict(OnConflictAst {
            conflict_target,
            action: OnConflictAction::DoNothing,
        })) => {
            if let Some(target) = conflict_target {
                check_target(table, target)?;
            }
            Ok(OnConflict::Ignore)
        }
        Some(other) => Err(unsupported(other)),
    }
}

/// The columns of ON CONFLICT must be those that a table's rows are told apart by.
fn check_target(table: &Table, target: &ConflictTarget) -> Result<()> {
    let ConflictTarget::Columns(columns) = target else {
        return Err(unsupported("ON CONFLICT ON CONSTRAINT"));
    };
    let mut named: Vec<String> = columns.iter().map(folded).collect();
    let key = table.definition.primary_key.iter();
    let mut key: Vec<String> = key
        .map(|column| table.definition.columns[*column].name.clone())
        .collect();
    named.sort();
    key.sort();
    if named == key {
        return Ok(());
    }
    let message = "there is no unique or exclusion constraint matching the ON CONFLICT specification";
    let error = Error::new(ErrorKind::Invalid, "SQL-0311", message).sqlstate("42P10");
    Err(error
        .fact("columns", named.join(", "))
        .fact("primary key", key.join(", ")))
}

/// UPDATE.
///
/// # Returns
/// The number of rows changed.
pub(crate) async fn update(
    view: ReadView,
    transaction: &mut Transaction,
    update: &Update,
    parameters: &[ScalarValue],
) -> Result<usize> {
    if update.returning.is_some() {
        return Err(unsupported("RETURNING"));
    }
    if update.limit.is_some() || !update.order_by.is_empty() || update.or.is_some() {
        return Err(unsupported("UPDATE with LIMIT, ORDER BY or OR"));
    }
    let (table, alias) = target(&view, &update.table)?;
    let mut set = Vec::new();
    for assignment in &update.assignments {
        let (position, sql) = assigned(&table, assignment)?;
        if set.iter().any(|(known, _)| *known == position) {
            let name = &table.definition.columns[position].name;
            let message = format!("multiple assignments to same column \"{name}\"");
            return Err(Error::new(ErrorKind::Invalid, "SQL-0304", message).sqlstate("42601"));
        }
        set.push((position, sql));
    }
    let from = match &update.from {
        None => String::new(),
        Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) => {
            tables.iter().map(|table| format!(", {table}")).collect()
        }
    };
    let values: Vec<String> = set
        .iter()
        .enumerate()
        .map(|(i, (_, sql))| format!(", ({sql}) AS \"set {i}\""))
        .collect();
    let source = format!("{}{from}", update.table);
    let matched = matching_rows(
        view,
        &table,
        &alias,
        &values.concat(),
        &source,
        update.selection.as_ref(),
        parameters,
    )
    .await?;
    let stored = stored_columns(&table)?;
    let width = stored.fields().len();
    let old = Changes::relabel(matched.project(&(0..width).collect::<Vec<_>>())?, stored.clone())?;
    let mut columns: Vec<ArrayRef> = old.columns().to_vec();
    for (i, (position, _)) in set.iter().enumerate() {
        columns[*position] = assign(matched.column(width + i), stored.field(*position))?;
    }
    let new = RecordBatch::try_new(nullable(&stored), columns)?;
    check_columns(&table, &new)?;
    let new = Changes::relabel(new, stored)?;
    let count = old.num_rows();
    transaction.replace(&table, old, new)?;
    Ok(count)
}

/// DELETE.
///
/// # Returns
/// The number of rows deleted.
pub(crate) async fn delete(
    view: ReadView,
    transaction: &mut Transaction,
    delete: &Delete,
    parameters: &[ScalarValue],
) -> Result<usize> {
    if delete.returning.is_some() {
        return Err(unsupported("RETURNING"));
    }
    if delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() {
        return Err(unsupported("DELETE with LIMIT, ORDER BY or several tables"));
    }
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    let [from] = from.as_slice() else {
        return Err(unsupported("DELETE from several tables"));
    };
    let (table, alias) = target(&view, from)?;
    let using: String = delete
        .using
        .iter()
        .flatten()
        .map(|table| format!(", {table}"))
        .collect();
    let source = format!("{from}{using}");
    let matched = matching_rows(view, &table, &alias, "", &source, delete.selection.as_ref(), parameters).await?;
    let old = Changes::relabel(matched, stored_columns(&table)?)?;
    let count = old.num_rows();
    let none = old.slice(0, 0);
    transaction.replace(&table, old, none)?;
    Ok(count)
}

/// TRUNCATE.
pub(crate) fn truncate(view: &ReadView, transaction: &mut Transaction, truncate: &Truncate) -> Result<()> {
    if truncate.partitions.is_some() || truncate.on_cluster.is_some() {
        return Err(unsupported("TRUNCATE with PARTITION or ON CLUSTER"));
    }
    for target in &truncate.table_names {
        let table = writable_table(&view.catalog, &target.name)?;
        transaction.truncate(&table)?;
    }
    Ok(())
}

/// The table that a statement changes, and the name that its columns are qualified with.
fn target(view: &ReadView, from: &TableWithJoins) -> Result<(Arc<Table>, String)> {
    let TableFactor::Table { name, alias, .. } = &from.relation else {
        return Err(unsupported("a change of something that is not a table"));
    };
    if !from.joins.is_empty() {
        return Err(unsupported("a JOIN in the changed table"));
    }
    let table = writable_table(&view.catalog, name)?;
    let alias = alias
        .as_ref()
        .map_or_else(|| table.definition.name.clone(), |alias| folded(&alias.name));
    Ok((table, alias))
}

fn stored_columns(table: &Table) -> Result<SchemaRef> {
    let versioned = table
        .versioned
        .as_ref()
        .ok_or_else(|| unsupported("a change of a table that keeps no rows"))?;
    Ok(versioned.schema().columns.clone())
}

/// The column and the SQL text of an assignment.
fn assigned(table: &Table, assignment: &Assignment) -> Result<(usize, String)> {
    let AssignmentTarget::ColumnName(name) = &assignment.target else {
        return Err(unsupported("SET of several columns at once"));
    };
    let column = name
        .0
        .last()
        .and_then(|part| part.as_ident())
        .map(folded)
        .unwrap_or_default();
    let position = table
        .definition
        .columns
        .iter()
        .position(|known| known.name == column)
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                "SQL-0302",
                format!(
                    "column \"{column}\" of relation \"{}\" does not exist",
                    table.definition.name
                ),
            )
            .sqlstate("42703")
        })?;
    let is_default = matches!(&assignment.value, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"));
    let sql = if is_default {
        table.definition.columns[position]
            .default
            .clone()
            .unwrap_or_else(|| "NULL".into())
    } else {
        assignment.value.to_string()
    };
    Ok((position, sql))
}

/// Reads the stored rows that a statement changes, each once, with extra columns behind.
async fn matching_rows(
    mut view: ReadView,
    table: &Arc<Table>,
    alias: &str,
    extra: &str,
    source: &str,
    selection: Option<&Expr>,
    parameters: &[ScalarValue],
) -> Result<RecordBatch> {
    view.row_ids_of = Some(table.definition.id);
    let stored = stored_columns(table)?;
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let columns: Vec<String> = stored
        .fields()
        .iter()
        .enumerate()
        .map(|(i, field)| format!("{}.{} AS \"column {i}\"", quoted(alias), quoted(field.name())))
        .collect();
    let filter = selection
        .map(|selection| format!(" WHERE {selection}"))
        .unwrap_or_default();
    let sql = format!("SELECT {}{extra} FROM {source}{filter}", columns.join(", "));
    let statements = crate::parse::parse_script(&sql)?;
    let crate::parse::Parsed::Sql { ast, .. } = &*statements[0].parsed else {
        return Err(Error::bug("a change was not planned as a query"));
    };
    let state = view.state();
    let plan = view.plan(&state, ast).await.map_err(Error::unplaced)?;
    let rows = run(&state, bind(plan, parameters)?).await?;
    first_of_each(rows, table)
}

/// A row that several rows of FROM match is changed once, as in PostgreSQL.
fn first_of_each(rows: RecordBatch, table: &Table) -> Result<RecordBatch> {
    let stored = stored_columns(table)?;
    let key: Vec<usize> = if is_row_numbered(&stored) {
        vec![stored.fields().len() - 1]
    } else {
        table.definition.primary_key.clone()
    };
    let columns: Vec<ArrayRef> = key.iter().map(|column| rows.column(*column).clone()).collect();
    let fields = columns
        .iter()
        .map(|column| arrow::row::SortField::new(column.data_type().clone()))
        .collect();
    let keys = arrow::row::RowConverter::new(fields)?.convert_columns(&columns)?;
    let mut seen = std::collections::HashSet::new();
    let first: arrow::array::BooleanArray = keys.iter().map(|key| Some(seen.insert(key.data().to_vec()))).collect();
    Ok(arrow::compute::filter_record_batch(&rows, &first)?)
}

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
        && (*to == DataType::Binary || is_read_here(to))
    {
        return read_texts(array, to).map_err(|error| error.fact("column", field.name()));
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

/// Refuses what a column does not take: NULL where it has none, texts beyond its length.
pub(crate) fn check_columns(table: &Table, rows: &RecordBatch) -> Result<()> {
    for (column, array) in table.definition.columns.iter().zip(rows.columns()) {
        if column.not_null && array.null_count() > 0 {
            return Err(Error::new(
                ErrorKind::Invalid,
                "TABLE-0104",
                format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, table.definition.name
                ),
            )
            .sqlstate("23502"));
        }
    }
    crate::lengths::check(&table.definition.columns, &table.lengths, rows)
}
