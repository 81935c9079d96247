//! UPDATE, DELETE and TRUNCATE.

use super::assignments::assigned;
use super::kept::kept_form;
use super::rows::{assign, check_rows, nullable, run};
use super::{Changed, Returning, stored_columns, visible_rows};
use crate::catalog::Table;
use crate::ddl::writable_table;
use crate::error::unsupported;
use crate::names::{folded, quoted};
use crate::plan::{ReadView, bind};
use crate::transaction::Transaction;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::DataType;
use cenote_engine::is_row_numbered;
use cenote_statestore::{Changes, Error, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Delete, Expr, FromTable, Statement as Ast, TableFactor, TableWithJoins, Truncate, Update, UpdateTableFromKind,
};
use std::collections::HashMap;
use std::sync::Arc;

/// UPDATE.
pub(crate) async fn update(
    view: &ReadView,
    transaction: &mut Transaction,
    update: &Update,
    parameters: &[ScalarValue],
) -> Result<Changed> {
    if update.limit.is_some() || !update.order_by.is_empty() || update.or.is_some() || update.output.is_some() {
        return Err(unsupported("UPDATE with LIMIT, ORDER BY, OUTPUT or OR"));
    }
    let (table, alias) = target(view, &update.table)?;
    let returning = Returning::of(update.returning.as_ref(), &alias, update.from.is_some())?;
    let set = assigned(&table, &update.assignments)?;
    let matched = Matching::of_update(&table, &alias, update, &set)
        .rows(view, parameters)
        .await?;
    let stored = stored_columns(&table)?;
    let width = stored.fields().len();
    let old = Changes::relabel(matched.project(&(0..width).collect::<Vec<_>>())?, stored.clone())?;
    let mut columns: Vec<ArrayRef> = old.columns().to_vec();
    for (i, (position, _)) in set.iter().enumerate() {
        columns[*position] = assign(matched.column(width + i), stored.field(*position))?;
    }
    let new = kept_form(&table, RecordBatch::try_new(nullable(&stored), columns)?)?;
    let visible = visible_rows(&table, &new)?;
    check_rows(&view.database, &table, &visible).await?;
    let new = Changes::relabel(new, stored)?;
    let count = old.num_rows();
    transaction.replace(&table, old, new)?;
    let returned = match returning {
        Some(returning) => Some(returning.rows(view, visible, parameters).await?),
        None => None,
    };
    Ok(Changed { count, returned })
}

/// DELETE.
pub(crate) async fn delete(
    view: &ReadView,
    transaction: &mut Transaction,
    delete: &Delete,
    parameters: &[ScalarValue],
) -> Result<Changed> {
    if delete.limit.is_some() || !delete.order_by.is_empty() || !delete.tables.is_empty() || delete.output.is_some() {
        return Err(unsupported("DELETE with LIMIT, ORDER BY, OUTPUT or several tables"));
    }
    let (table, alias) = target(view, deleted_from(delete)?)?;
    let returning = Returning::of(delete.returning.as_ref(), &alias, delete.using.is_some())?;
    let matching = Matching::of_delete(&table, &alias, delete)?;
    let matched = matching.rows(view, parameters).await?;
    let old = Changes::relabel(matched, stored_columns(&table)?)?;
    let (count, none) = (old.num_rows(), old.slice(0, 0));
    let visible = visible_rows(&table, &old)?;
    transaction.replace(&table, old, none)?;
    let returned = match returning {
        Some(returning) => Some(returning.rows(view, visible, parameters).await?),
        None => None,
    };
    Ok(Changed { count, returned })
}

/// Types of the parameters of an UPDATE or a DELETE, but those of its RETURNING.
pub(crate) async fn parameters_of_change(view: &ReadView, ast: &Ast) -> Result<HashMap<String, Option<DataType>>> {
    let (_, plan) = match ast {
        Ast::Update(update) => {
            let (table, alias) = target(view, &update.table)?;
            let set = assigned(&table, &update.assignments)?;
            Matching::of_update(&table, &alias, update, &set).plan(view).await?
        }
        Ast::Delete(delete) => {
            let (table, alias) = target(view, deleted_from(delete)?)?;
            Matching::of_delete(&table, &alias, delete)?.plan(view).await?
        }
        _ => return Err(Error::bug("no change of rows that are there")),
    };
    plan.get_parameter_types().map_err(crate::error::from_datafusion)
}

/// The table that a DELETE names.
pub(crate) fn deleted_from(delete: &Delete) -> Result<&TableWithJoins> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    match from.as_slice() {
        [from] => Ok(from),
        _ => Err(unsupported("DELETE from several tables")),
    }
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
pub(crate) fn target(view: &ReadView, from: &TableWithJoins) -> Result<(Arc<Table>, String)> {
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

/// The stored rows that a statement changes.
struct Matching<'a> {
    table: &'a Arc<Table>,
    /// The name that the table's columns are qualified with.
    alias: &'a str,
    /// Columns to compute behind those of the table.
    extra: String,
    /// The FROM clause.
    source: String,
    selection: Option<&'a Expr>,
}

impl<'a> Matching<'a> {
    fn of_update(table: &'a Arc<Table>, alias: &'a str, update: &'a Update, set: &[(usize, String)]) -> Matching<'a> {
        let from = match &update.from {
            None => String::new(),
            Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) => {
                tables.iter().map(|table| format!(", {table}")).collect()
            }
        };
        let values = set
            .iter()
            .enumerate()
            .map(|(i, (_, sql))| format!(", ({sql}) AS \"set {i}\""));
        Matching {
            table,
            alias,
            extra: values.collect(),
            source: format!("{}{from}", update.table),
            selection: update.selection.as_ref(),
        }
    }

    fn of_delete(table: &'a Arc<Table>, alias: &'a str, delete: &'a Delete) -> Result<Matching<'a>> {
        let using = delete.using.iter().flatten().map(|table| format!(", {table}"));
        Ok(Matching {
            table,
            alias,
            extra: String::new(),
            source: format!("{}{}", deleted_from(delete)?, using.collect::<String>()),
            selection: delete.selection.as_ref(),
        })
    }

    async fn plan(&self, view: &ReadView) -> Result<(SessionState, LogicalPlan)> {
        let view = ReadView {
            row_ids_of: Some(self.table.definition.id),
            ..view.clone()
        };
        let stored = stored_columns(self.table)?;
        let fields = stored.fields().iter().enumerate();
        let alias = quoted(self.alias);
        let columns = fields.map(|(i, field)| format!("{alias}.{} AS \"column {i}\"", quoted(field.name())));
        let columns: Vec<String> = columns.collect();
        let filter = self.selection.map(|selection| format!(" WHERE {selection}"));
        let (extra, source, filter) = (&self.extra, &self.source, filter.unwrap_or_default());
        let sql = format!("SELECT {}{extra} FROM {source}{filter}", columns.join(", "));
        let statements = crate::parse::parse_script(&sql)?;
        let crate::parse::Parsed::Sql { ast, .. } = &*statements[0].parsed else {
            return Err(Error::bug("a change was not planned as a query"));
        };
        let state = view.state();
        let plan = view.plan(&state, ast).await.map_err(Error::unplaced)?;
        Ok((state, plan))
    }

    /// Reads the rows, each once.
    async fn rows(&self, view: &ReadView, parameters: &[ScalarValue]) -> Result<RecordBatch> {
        let (state, plan) = self.plan(view).await?;
        let rows = run(&state, bind(plan, parameters)?).await?;
        first_of_each(rows, self.table)
    }
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
