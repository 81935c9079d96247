//! PostgreSQL's names of unnamed output columns, as a rewrite of the parsed statement before it is planned.
//!
//! Every unnamed item of a select list is given the name PostgreSQL gives it. Names that repeat in one list get a hidden suffix, because the planner wants them
//! different; [`shown_name`] takes it off again.

use crate::walk;
use datafusion::common::{DFSchema, TableReference};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Cte, Expr, Ident, ObjectName, ObjectNamePart, OrderByKind, Query, SelectItem, SetExpr, Statement,
    TableFactor, Value, Visitor, VisitorMut,
};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Separates a repeated name from its number.
const REPEAT: char = '\u{1}';

/// The name a user sees.
pub fn shown_name(name: &str) -> &str {
    name.split(REPEAT).next().unwrap_or(name)
}

/// How the names begin that the planner gives to what it makes, before a number that goes on from statement to statement.
const MADE: [&str; 4] = ["__common_expr_", "__scalar_sq_", "__correlated_sq_", "__in_sq_"];

/// A text about a plan with the planner's own names numbered in the order in which they stand there, so that it is the
/// same whatever was planned before.
pub(crate) fn renumbered(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    while let Some(at) = rest.find("__") {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let Some(made) = MADE.iter().find(|made| from.starts_with(**made)) else {
            out.push_str("__");
            rest = &from[2..];
            continue;
        };
        let behind = &from[made.len()..];
        let digits = behind.len() - behind.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let next = numbers.len() + 1;
        let number = numbers.entry(&from[..made.len() + digits]).or_insert(next);
        out.push_str(&format!("{made}{number}"));
        rest = &behind[digits..];
    }
    out.push_str(rest);
    out
}

/// How relations are named that the planner makes of subqueries, before a number; their columns begin with the relation's
/// name and end with a number.
const MADE_RELATIONS: [&str; 8] = [
    "branch", "domain", "found", "group", "match", "numbered", "outer", "scalar",
];

/// The names of columns that a user knows: with their table where rows of several meet; empty for columns that only the
/// planner knows.
pub(crate) fn known_names(schema: &DFSchema) -> Vec<String> {
    let of = |table: Option<&TableReference>, name: &str| match table {
        Some(table) => (Some(table.table().to_string()), made_of(table.table(), name)),
        None => (None, name.starts_with("__").then(String::new)),
    };
    let named: Vec<_> = schema
        .iter()
        .map(|(table, field)| (of(table, field.name()), shown_name(field.name())))
        .collect();
    let written = named.iter().filter(|((_, made), _)| made.is_none());
    let tables: HashSet<&String> = written.filter_map(|((table, _), _)| table.as_ref()).collect();
    let names = named.iter().map(|((table, made), name)| match (made, table) {
        (Some(made), _) => made.clone(),
        (None, Some(table)) if tables.len() > 1 => format!("{table}.{name}"),
        (None, _) => name.to_string(),
    });
    names.collect()
}

/// What a user knows a column by that the planner made; `None`: the planner did not.
fn made_of(relation: &str, name: &str) -> Option<String> {
    if relation.starts_with("__") || name.starts_with("__") {
        return Some(String::new());
    }
    if !name.starts_with(relation) {
        return None;
    }
    let mut column = unmade(name)?;
    // What a subquery passes on is named anew by each node.
    while let Some(inner) = unmade(column) {
        column = inner;
    }
    let is_known = !matches!(column, "key" | "mark" | "row");
    Some(if is_known {
        shown_name(column).to_string()
    } else {
        String::new()
    })
}

/// The name of what a column of a made relation is of.
fn unmade(name: &str) -> Option<&str> {
    let kind = MADE_RELATIONS.iter().find(|kind| name.starts_with(**kind))?;
    let own = name[kind.len()..].trim_start_matches(|c: char| c.is_ascii_digit());
    let own = own.strip_prefix('_')?;
    Some(match own.rsplit_once('_') {
        Some((column, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => column,
        _ => own,
    })
}

/// Names the unnamed items of every select list in a statement, and the columns of functions in FROM.
pub(crate) fn name_outputs(statement: &mut Statement) {
    let _ = walk::change(statement, &mut Namer);
}

struct Namer;

impl VisitorMut for Namer {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = query.with.as_mut().filter(|with| with.recursive) {
            with.cte_tables.iter_mut().for_each(name_recursive);
        }
        let ordered_by = columns_of_order(query);
        let hidden = name_set(&mut query.body, &ordered_by);
        order_by_position(query, &hidden);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        crate::table_functions::name_column(factor);
        ControlFlow::Continue(())
    }
}

/// The columns that an ORDER BY names with their table.
fn columns_of_order(query: &Query) -> HashSet<String> {
    struct Columns(HashSet<String>);
    impl Visitor for Columns {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::CompoundIdentifier(parts) = expr {
                self.0.extend(parts.last().map(folded));
            }
            ControlFlow::Continue(())
        }
    }
    let mut columns = Columns(HashSet::new());
    let _ = walk::read(&query.order_by, &mut columns);
    columns.0
}

/// An ORDER BY of an output column whose name is hidden goes by its position.
fn order_by_position(query: &mut Query, hidden: &HashMap<String, usize>) {
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) else {
        return;
    };
    for order in orders {
        if let Expr::Identifier(ident) = &order.expr
            && let Some(position) = hidden.get(&folded(ident))
        {
            order.expr = Expr::Value(Value::Number(position.to_string(), false).with_empty_span());
        }
    }
}

/// Gives the columns of a recursive table the names of its column list, which the planner knows outside of the table
/// only and not in its recursive term.
fn name_recursive(table: &mut Cte) {
    let columns = &table.alias.columns;
    let Some(items) = first_items(&mut table.query.body).filter(|items| items.len() == columns.len()) else {
        return;
    };
    let names = items.iter_mut().zip(columns);
    for (item, column) in names {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &*item else {
            return;
        };
        *item = SelectItem::ExprWithAlias {
            expr: expr.clone(),
            alias: column.name.clone(),
        };
    }
    table.alias.columns.clear();
}

/// The select list that names the columns of a set operation.
fn first_items(body: &mut SetExpr) -> Option<&mut Vec<SelectItem>> {
    match body {
        SetExpr::Select(select) => Some(&mut select.projection),
        SetExpr::SetOperation { left, .. } => first_items(left),
        _ => None,
    }
}

/// Names the items of a SELECT or a set operation.
///
/// # Arguments
/// - `ordered_by`: columns that the ORDER BY names with their table. An item computed under the name of one is given a
///   hidden name, because the planner could not tell the two apart.
///
/// # Returns
/// Names that were hidden so, with their items' positions from 1.
fn name_set(body: &mut SetExpr, ordered_by: &HashSet<String>) -> HashMap<String, usize> {
    match body {
        SetExpr::Select(select) => name_items(&mut select.projection, ordered_by),
        SetExpr::SetOperation { left, right, .. } => {
            name_set(left, &HashSet::new());
            name_set(right, &HashSet::new());
            HashMap::new()
        }
        _ => HashMap::new(),
    }
}

fn name_items(items: &mut [SelectItem], ordered_by: &HashSet<String>) -> HashMap<String, usize> {
    let has_wildcard = items
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(_, _)));
    let mut counts: HashMap<String, usize> = HashMap::new();
    for name in items.iter().filter_map(item_name) {
        *counts.entry(name).or_default() += 1;
    }
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut hidden = HashMap::new();
    for (position, item) in items.iter_mut().enumerate() {
        let Some(name) = item_name(item) else {
            continue;
        };
        let number = seen.entry(name.clone()).and_modify(|number| *number += 1).or_insert(1);
        let repeats = counts[&name] > 1;
        let is_column = matches!(item, SelectItem::UnnamedExpr(expr) if is_column(expr));
        if is_column && !repeats && !has_wildcard {
            continue;
        }
        let clashes = matches!(item, SelectItem::UnnamedExpr(_)) && !is_column && ordered_by.contains(&name);
        if clashes && !repeats {
            hidden.insert(name.clone(), position + 1);
        }
        let alias = if repeats || clashes || (is_column && has_wildcard) {
            format!("{name}{REPEAT}{number}")
        } else {
            name
        };
        let expr = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr.clone(),
            _ => continue,
        };
        *item = SelectItem::ExprWithAlias {
            expr,
            alias: Ident::with_quote('"', alias),
        };
    }
    hidden
}

/// Whether an expression is a column; `current_schema` is a function that looks like one.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(ident) => ident.quote_style.is_some() || folded(ident) != "current_schema",
        Expr::CompoundIdentifier(_) => true,
        _ => false,
    }
}

/// The name that an item of a select list has; `None`: it is a wildcard.
pub(crate) fn item_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some(expression_name(expr).unwrap_or_else(|| "?column?".into())),
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

/// A name in quotes, as SQL text.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(crate) fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() {
        ident.value.clone()
    } else {
        ident.value.to_lowercase()
    }
}

/// The name PostgreSQL derives from an expression (`FigureColname` in its parser); `None`: `?column?`.
fn expression_name(expr: &Expr) -> Option<String> {
    let fixed = |name: &str| Some(name.to_string());
    match expr {
        Expr::Identifier(ident) => Some(folded(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded),
        Expr::Function(function) => match function.name.0.last() {
            Some(ObjectNamePart::Identifier(ident)) => Some(folded(ident)),
            _ => None,
        },
        Expr::CompoundFieldAccess { root, access_chain } => {
            let field = access_chain.iter().rev().find_map(|access| match access {
                AccessExpr::Dot(Expr::Identifier(name)) => Some(folded(name)),
                _ => None,
            });
            field.or_else(|| expression_name(root))
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => expression_name(inner),
        Expr::Cast { expr, data_type, .. } => own_name(expr).or_else(|| Some(short_type_name(data_type))),
        Expr::TypedString(typed) => Some(short_type_name(&typed.data_type)),
        Expr::Value(value) if matches!(value.value, Value::Boolean(_)) => fixed("bool"),
        Expr::Interval(_) => fixed("interval"),
        Expr::Extract { .. } => fixed("extract"),
        Expr::Case { else_result, .. } => else_result
            .as_ref()
            .and_then(|result| column_name(result))
            .or_else(|| fixed("case")),
        Expr::Position { .. } => fixed("position"),
        Expr::Substring { .. } => fixed("substring"),
        Expr::Trim { .. } => fixed("btrim"),
        Expr::Ceil { .. } => fixed("ceil"),
        Expr::Floor { .. } => fixed("floor"),
        Expr::Overlay { .. } => fixed("overlay"),
        Expr::AtTimeZone { .. } => fixed("timezone"),
        Expr::Exists { .. } => fixed("exists"),
        Expr::Array(_) => fixed("array"),
        Expr::Tuple(_) => fixed("row"),
        Expr::Subquery(query) => match &*query.body {
            SetExpr::Select(select) => select
                .projection
                .first()
                .and_then(item_name)
                .filter(|name| name != "?column?"),
            _ => None,
        },
        _ => None,
    }
}

/// The name of an expression if it is stronger than that of a type it is cast to.
fn own_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Cast { expr, .. } | Expr::Nested(expr) => own_name(expr),
        Expr::TypedString(_) | Expr::Interval(_) | Expr::Value(_) => None,
        Expr::Case { else_result, .. } => else_result.as_ref().and_then(|result| column_name(result)),
        other => expression_name(other),
    }
}

fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) => expression_name(expr),
        _ => None,
    }
}

fn short_type_name(data_type: &datafusion::sql::sqlparser::ast::DataType) -> String {
    let text = data_type.to_string().to_lowercase();
    let name = text.split('(').next().unwrap_or(&text).trim();
    let name = name.trim_start_matches("pg_catalog.").trim_matches('"');
    match name {
        "int" | "integer" => "int4",
        "bigint" => "int8",
        "smallint" => "int2",
        "real" => "float4",
        "double precision" | "double" | "float" => "float8",
        "boolean" => "bool",
        "decimal" => "numeric",
        "timestamp with time zone" => "timestamptz",
        "timestamp without time zone" => "timestamp",
        "character varying" => "varchar",
        other => other,
    }
    .to_string()
}

/// The name in `public` that an object name means, if it can mean one.
pub(crate) fn public_name(name: &ObjectName) -> Option<String> {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident().map(folded)).collect();
    match parts.as_slice() {
        [name] => Some(name.clone()),
        [schema, name] if schema == crate::catalog::PUBLIC => Some(name.clone()),
        [_, schema, name] if schema == crate::catalog::PUBLIC => Some(name.clone()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_planner_are_numbered_anew() {
        assert_eq!(
            renumbered("__common_expr_7@0 + __common_expr_3@1, __common_expr_7@0, __own__common_expr_12"),
            "__common_expr_1@0 + __common_expr_2@1, __common_expr_1@0, __own__common_expr_3"
        );
        assert_eq!(renumbered("a__b_1, ___, __"), "a__b_1, ___, __");
    }

    #[test]
    fn columns_of_the_planner_have_the_name_of_what_they_are_of_or_none() {
        assert_eq!(made_of("scalar1", "scalar1_value_0").as_deref(), Some("value"));
        assert_eq!(made_of("scalar1", "scalar1_key_1").as_deref(), Some(""));
        assert_eq!(made_of("domain", "domain_user_id_12").as_deref(), Some("user_id"));
        assert_eq!(made_of("found3", "found3_mark").as_deref(), Some(""));
        assert_eq!(made_of("outer2", "outer2_domain_x_0_1").as_deref(), Some("x"));
        assert_eq!(made_of("orders", "orders_id_1"), None);
        assert_eq!(made_of("scalar1", "id"), None);
    }
}
