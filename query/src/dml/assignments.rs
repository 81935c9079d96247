//! `SET a = x, (b, c) = (y, z)`: which columns are set, and to which expressions.

use crate::catalog::Table;
use crate::error::{no_column, unsupported};
use crate::names::folded;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, OrderByKind,
    Query, SelectItem, SetExpr, Value,
};

/// The columns that assignments set, each once, and the SQL texts of their values.
///
/// # Errors
/// `Invalid` 42703: no such column. 42601: a column that is set twice, lists of different lengths.
pub(super) fn assigned(table: &Table, assignments: &[Assignment]) -> Result<Vec<(usize, String)>> {
    let mut set: Vec<(usize, String)> = Vec::new();
    for assignment in assignments {
        for (name, value) in pairs(assignment)? {
            let position = position_of(table, name)?;
            if set.iter().any(|(known, _)| *known == position) {
                let name = &table.definition.columns[position].name;
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "SQL-0314",
                    format!("multiple assignments to same column \"{name}\""),
                )
                .sqlstate("42601"));
            }
            set.push((position, text_of(table, position, &value)));
        }
    }
    Ok(set)
}

/// Columns and values of one assignment.
fn pairs(assignment: &Assignment) -> Result<Vec<(&ObjectName, Expr)>> {
    let names = match &assignment.target {
        AssignmentTarget::ColumnName(name) => return Ok(vec![(name, assignment.value.clone())]),
        AssignmentTarget::Tuple(names) => names,
    };
    let values = match &assignment.value {
        Expr::Tuple(values) => values.clone(),
        Expr::Nested(value) if names.len() == 1 => vec![(**value).clone()],
        Expr::Subquery(query) => items_of(query)?,
        other => match row_values(other) {
            Some(values) => values,
            None => {
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    "SQL-0317",
                    "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression",
                )
                .sqlstate("0A000"));
            }
        },
    };
    if values.len() != names.len() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "SQL-0318",
            "number of columns does not match number of values",
        )
        .sqlstate("42601"));
    }
    Ok(names.iter().zip(values).collect())
}

/// The values of `ROW(x, y)`.
fn row_values(expr: &Expr) -> Option<Vec<Expr>> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    if !function.name.to_string().eq_ignore_ascii_case("row") {
        return None;
    }
    let values = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    values.collect()
}

/// A subquery of several columns as one subquery per column.
fn items_of(query: &Query) -> Result<Vec<Expr>> {
    let refused = || unsupported("SET of several columns to such a subquery");
    let SetExpr::Select(select) = &*query.body else {
        return Err(refused());
    };
    let by_position = query.order_by.as_ref().is_some_and(|order| match &order.kind {
        OrderByKind::Expressions(items) => items
            .iter()
            .any(|item| !matches!(item.expr, Expr::CompoundIdentifier(_))),
        OrderByKind::All(_) => true,
    });
    if select.distinct.is_some() || by_position {
        return Err(refused());
    }
    let items = select.projection.iter().map(|item| {
        if !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }) {
            return Err(refused());
        }
        let mut one = query.clone();
        if let SetExpr::Select(select) = &mut *one.body {
            select.projection = vec![item.clone()];
        }
        Ok(Expr::Subquery(Box::new(one)))
    });
    items.collect()
}

fn position_of(table: &Table, name: &ObjectName) -> Result<usize> {
    let last = name.0.last().and_then(|part| part.as_ident());
    let column = last.map(folded).unwrap_or_default();
    let columns = &table.definition.columns;
    columns.iter().position(|known| known.name == column).ok_or_else(|| {
        no_column(
            &table.definition.name,
            &column,
            columns.iter().map(|known| known.name.as_str()),
        )
    })
}

/// Whether an expression is the word DEFAULT.
pub(crate) fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

fn text_of(table: &Table, position: usize, value: &Expr) -> String {
    let column = &table.definition.columns[position];
    if is_default(value) {
        return column.default.clone().unwrap_or_else(|| "NULL".into());
    }
    let is_parameter = matches!(value, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)));
    // A parameter is of its column's type; a text is not cut to the column's length.
    match is_parameter && table.lengths[position].is_none() {
        true => format!("CAST({value} AS {})", column.sql_type),
        false => value.to_string(),
    }
}
