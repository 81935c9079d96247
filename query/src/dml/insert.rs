//! INSERT.

use super::assignments::is_default;
use super::kept::kept_form;
use super::returning::no_rows;
use super::rows::{check_rows, conform, run};
use super::upsert::{Conflicts, Upsert};
use super::{Changed, Returning, visible_rows};
use crate::catalog::Table;
use crate::ddl::writable_table;
use crate::error::unsupported;
use crate::names::folded;
use crate::plan::{ReadView, bind};
use crate::transaction::{ConflictRule, Transaction};
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Insert, ObjectName, SelectItem, SetExpr, Statement as Ast, TableObject, Value, Values,
};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

/// An INSERT without what the planner does not know: aliases, defaults, ON CONFLICT and RETURNING.
struct Plain {
    table: Arc<Table>,
    /// The name that ON CONFLICT and RETURNING qualify the table's columns with.
    alias: String,
    insert: Insert,
}

/// INSERT.
pub(crate) async fn insert(
    view: &ReadView,
    transaction: &mut Transaction,
    insert: &Insert,
    parameters: &[ScalarValue],
) -> Result<Changed> {
    let Plain {
        table,
        alias,
        insert: plain,
    } = Plain::of(view, insert).await?;
    let conflicts = Conflicts::of(&table, insert.on.as_ref())?;
    let returning = Returning::of(insert.returning.as_ref(), &alias, false)?;
    let rows = kept_form(&table, proposed(view, &table, plain, parameters).await?)?;
    check_rows(&view.database, &table, &rows).await?;
    let changed = match conflicts {
        Conflicts::Update { key, update } => {
            let upsert = Upsert {
                view,
                table: &table,
                alias: &alias,
                update,
            };
            upsert.run(transaction, key, rows, parameters).await?
        }
        Conflicts::Refuse => visible_rows(&table, &transaction.insert(&table, rows, &ConflictRule::Refuse)?)?,
        Conflicts::Skip(keys) => {
            let is_told = returning.is_some();
            let rule = ConflictRule::Skip { keys, is_told };
            visible_rows(&table, &transaction.insert(&table, rows, &rule)?)?
        }
    };
    let count = changed.num_rows();
    let returned = match returning {
        Some(returning) => Some(returning.rows(view, changed, parameters).await?),
        None => None,
    };
    Ok(Changed { count, returned })
}

/// The rows that an INSERT proposes, in the table's types.
async fn proposed(view: &ReadView, table: &Table, insert: Insert, parameters: &[ScalarValue]) -> Result<RecordBatch> {
    let view = inserting(view, table);
    let state = view.state();
    let plan = view.plan(&state, &Ast::Insert(insert)).await?;
    let LogicalPlan::Dml(dml) = plan else {
        return Err(Error::bug("an INSERT was not planned as one"));
    };
    let rows = run(&state, bind(dml.input.as_ref().clone(), parameters)?).await?;
    conform(rows, &table.columns)
}

fn inserting(view: &ReadView, table: &Table) -> ReadView {
    ReadView {
        inserts_into: Some(table.definition.id),
        ..view.clone()
    }
}

/// Types of an INSERT's parameters, as far as they can be told, by their names `$1`, `$2` ..., and the plan of its
/// RETURNING.
pub(crate) async fn parameters_of_insert(
    view: &ReadView,
    insert: &Insert,
) -> Result<(HashMap<String, Option<DataType>>, Option<LogicalPlan>)> {
    let Plain {
        table,
        alias,
        insert: plain,
    } = Plain::of(view, insert).await?;
    let inserting = inserting(view, &table);
    let mut plans = vec![inserting.plan(&inserting.state(), &Ast::Insert(plain)).await?];
    if let Conflicts::Update { update, .. } = Conflicts::of(&table, insert.on.as_ref())? {
        let upsert = Upsert {
            view,
            table: &table,
            alias: &alias,
            update,
        };
        let (_, plan) = upsert.plan(&no_rows(&table), &no_rows(&table)).await?;
        plans.push(plan);
    }
    let mut returned = None;
    if let Some(returning) = Returning::of(insert.returning.as_ref(), &alias, false)? {
        let (_, plan) = returning.plan(view, no_rows(&table)).await?;
        plans.push(plan.clone());
        returned = Some(plan);
    }
    let mut types: HashMap<String, Option<DataType>> = HashMap::new();
    for plan in plans {
        let inferred = plan.get_parameter_types().map_err(crate::error::from_datafusion)?;
        for (name, data_type) in inferred {
            let known = types.entry(name).or_default();
            *known = known.take().or(data_type);
        }
    }
    Ok((types, returned))
}

impl Plain {
    async fn of(view: &ReadView, insert: &Insert) -> Result<Plain> {
        refuse_clauses(insert)?;
        let TableObject::TableName(name) = &insert.table else {
            return Err(unsupported("INSERT into a function"));
        };
        let table = writable_table(&view.catalog, name)?;
        let alias = insert.table_alias.as_ref().map(|alias| folded(&alias.alias));
        let mut plain = insert.clone();
        (plain.on, plain.returning, plain.table_alias) = (None, None, None);
        if plain.source.is_none() {
            give_default_values(&table, &mut plain)?;
        }
        if plain.columns.is_empty()
            && let Some(source) = &plain.source
            && width_of(&source.body).is_none()
        {
            let inserting = inserting(view, &table);
            let source = inserting.plan(&inserting.state(), &Ast::Query(source.clone())).await?;
            name_first_columns(&table, &mut plain, source.schema().fields().len());
        }
        name_columns(&table, &mut plain)?;
        fill_defaults(&table, &mut plain)?;
        Ok(Plain {
            alias: alias.unwrap_or_else(|| table.definition.name.clone()),
            table,
            insert: plain,
        })
    }
}

fn refuse_clauses(insert: &Insert) -> Result<()> {
    let refused = [
        (insert.or.is_some(), "INSERT OR"),
        (insert.overwrite, "INSERT OVERWRITE"),
        (insert.partitioned.is_some(), "PARTITION"),
        (insert.output.is_some(), "OUTPUT"),
        (insert.has_table_keyword, "INSERT INTO TABLE"),
        (!insert.assignments.is_empty(), "INSERT ... SET"),
        (
            insert.source.is_none() && !insert.columns.is_empty(),
            "INSERT without values",
        ),
    ];
    match refused.iter().find(|(present, _)| *present) {
        Some((_, clause)) => Err(unsupported(clause)),
        None => Ok(()),
    }
}

/// Makes `DEFAULT VALUES` a row of defaults.
fn give_default_values(table: &Table, insert: &mut Insert) -> Result<()> {
    let defaults = vec!["DEFAULT"; table.definition.columns.len()].join(", ");
    let statements = crate::parse::parse_script(&format!("VALUES ({defaults})"))?;
    if let crate::parse::Parsed::Sql { ast, .. } = &*statements[0].parsed
        && let Ast::Query(query) = &**ast
    {
        insert.source = Some(query.clone());
        return Ok(());
    }
    Err(Error::bug("VALUES was not parsed as a query"))
}

/// Puts the columns' defaults in the place of the word DEFAULT.
fn fill_defaults(table: &Table, insert: &mut Insert) -> Result<()> {
    let Some(source) = &mut insert.source else {
        return Ok(());
    };
    let SetExpr::Values(Values { rows, .. }) = &mut *source.body else {
        return Ok(());
    };
    let columns: Vec<Option<&str>> = insert.columns.iter().map(|name| default_of(table, name)).collect();
    for row in rows {
        for (cell, default) in row.content.iter_mut().zip(&columns) {
            if is_default(cell) {
                *cell = match default {
                    Some(sql) => crate::parse::parse_expression(sql)?.expr,
                    None => Expr::Value(Value::Null.into()),
                };
            }
        }
    }
    Ok(())
}

fn default_of<'a>(table: &'a Table, name: &ObjectName) -> Option<&'a str> {
    let name = name.0.last().and_then(|part| part.as_ident()).map(folded)?;
    let column = table.definition.columns.iter().find(|column| column.name == name)?;
    column.default.as_deref()
}

/// Names the columns of an INSERT that names none: as many of the table's first as there are values, as in PostgreSQL.
///
/// # Errors
/// `Invalid` 42601: more or fewer values than columns.
fn name_columns(table: &Table, insert: &mut Insert) -> Result<()> {
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
