//! GROUP BY as PostgreSQL reads it: `()`, lists in brackets, and a table's primary key.
//!
//! Beside a primary key the table's other columns can be named. They have one value in each group, so those that are named
//! become keys of the grouping too, which leaves the groups as they are. A column that is only an argument of aggregates
//! stays none. `GROUP BY ()`, and HAVING alone, make one group of all rows, also where there is no aggregate.
//!
//! # Rules kept here
//! 1. Only the key of a table in FROM itself counts, not one of a view or of a query, as in PostgreSQL.
//! 2. Under GROUPING SETS, ROLLUP and CUBE nothing is added.
//!
//! # Not here
//! What DataFusion takes for dependent: [`crate::dependencies`] keeps it from that.

use crate::catalog::{Catalog, Object};
use crate::names::{folded, public_name};
use crate::walk;
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, GroupByExpr,
    Ident, ObjectName, ObjectNamePart, OrderBy, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableFactor, TableWithJoins, Value, Visitor,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

/// Names of functions whose arguments are computed before rows are grouped.
static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let functions = all_default_aggregate_functions();
    let names = functions
        .iter()
        .flat_map(|function| function.aliases().iter().cloned().chain([function.name().to_string()]));
    names.collect()
});

/// Adds to the GROUP BYs of a query, those of its set operations included, what depends on a primary key among them.
///
/// # Arguments
/// - `is_hidden`: whether a bare name means another relation than the catalog's of that name.
pub(crate) fn complete(query: &mut Query, catalog: &Catalog, is_hidden: &dyn Fn(&str) -> bool) {
    let Query { body, order_by, .. } = query;
    complete_body(body, catalog, is_hidden, order_by.as_ref());
}

fn complete_body(body: &mut SetExpr, catalog: &Catalog, is_hidden: &dyn Fn(&str) -> bool, order_by: Option<&OrderBy>) {
    match body {
        SetExpr::Select(select) => complete_select(select, catalog, is_hidden, order_by),
        SetExpr::SetOperation { left, right, .. } => {
            complete_body(left, catalog, is_hidden, None);
            complete_body(right, catalog, is_hidden, None);
        }
        _ => {}
    }
}

fn complete_select(
    select: &mut Select,
    catalog: &Catalog,
    is_hidden: &dyn Fn(&str) -> bool,
    order_by: Option<&OrderBy>,
) {
    with_plain_keys(select);
    let GroupByExpr::Expressions(keys, _) = &select.group_by else {
        return;
    };
    let is_of_sets = |key: &Expr| matches!(key, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_));
    if keys.is_empty() || keys.iter().any(is_of_sets) {
        return;
    }
    let keys: Vec<Vec<Ident>> = keys
        .iter()
        .filter_map(|key| column_of(key, &select.projection))
        .collect();
    let mut tables = Vec::new();
    select
        .from
        .iter()
        .for_each(|from| tables_of(from, catalog, is_hidden, &mut tables));
    tables.retain(|table| table.is_grouped_by_key(&keys));
    if tables.is_empty() {
        return;
    }
    let mut named = Named::default();
    named.read_items(&select.projection);
    let _ = walk::read(&select.having, &mut named);
    let _ = walk::read(&select.qualify, &mut named);
    let _ = order_by.map(|order_by| walk::read(order_by, &mut named));
    let added: Vec<Expr> = tables
        .iter()
        .flat_map(|table| table.named_columns(&keys, &named))
        .collect();
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        keys.extend(added);
    }
}

/// Takes lists in brackets apart; where no key is left, an aggregate says that the rows are one group.
fn with_plain_keys(select: &mut Select) {
    let GroupByExpr::Expressions(keys, modifiers) = &mut select.group_by else {
        return;
    };
    let is_grouped = !keys.is_empty();
    let apart = |key: Expr| match key {
        Expr::Tuple(keys) => keys,
        key => vec![key],
    };
    *keys = std::mem::take(keys).into_iter().flat_map(apart).collect();
    let is_one_group = keys.is_empty() && modifiers.is_empty() && (is_grouped || select.having.is_some());
    if is_one_group && !has_aggregate(select) {
        let always = Expr::BinaryOp {
            left: Box::new(count_of_all()),
            op: BinaryOperator::GtEq,
            right: Box::new(Expr::Value(Value::Number("0".into(), false).with_empty_span())),
        };
        select.having = Some(match select.having.take() {
            Some(condition) => Expr::BinaryOp {
                left: Box::new(Expr::Nested(Box::new(condition))),
                op: BinaryOperator::And,
                right: Box::new(always),
            },
            None => always,
        });
    }
}

/// `count(*)`.
fn count_of_all() -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("count")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Whether a SELECT's own list or HAVING holds an aggregate; those of its subqueries count too, in vain.
fn has_aggregate(select: &Select) -> bool {
    let (items, having) = (&select.projection, &select.having);
    walk::read(items, &mut Aggregates::default()).is_break()
        || walk::read(having, &mut Aggregates::default()).is_break()
}

/// Whether an expression is computed of the rows of a group or a window, what its subqueries do left aside.
pub(crate) fn is_of_rows(expr: &Expr) -> bool {
    let mut aggregates = Aggregates {
        subqueries: 0,
        is_own: true,
    };
    walk::read(expr, &mut aggregates).is_break()
}

/// Looks for an aggregate.
#[derive(Default)]
struct Aggregates {
    /// How many queries the walk is in.
    subqueries: usize,
    /// Only those in no subquery count, and windows too.
    is_own: bool,
}

impl Visitor for Aggregates {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let is_windowed = matches!(expr, Expr::Function(call) if call.over.is_some());
        let counts = !self.is_own || self.subqueries == 0;
        match counts && (is_aggregate(expr) || self.is_own && is_windowed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// The column that a key of GROUP BY is, by its name or its position in the select list.
fn column_of(key: &Expr, items: &[SelectItem]) -> Option<Vec<Ident>> {
    let item = |position: usize| match items.get(position)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => plain_column(expr),
        _ => None,
    };
    match key {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => item(number.parse::<usize>().ok()?.checked_sub(1)?),
            _ => None,
        },
        key => plain_column(key),
    }
}

fn plain_column(expr: &Expr) -> Option<Vec<Ident>> {
    match expr {
        Expr::Identifier(name) => Some(vec![name.clone()]),
        Expr::CompoundIdentifier(parts) => Some(parts.clone()),
        Expr::Nested(inner) => plain_column(inner),
        _ => None,
    }
}

/// A table with a primary key in FROM.
struct Table {
    /// What its columns are qualified with.
    qualifier: Ident,
    columns: Vec<String>,
    /// Indices of the key's columns.
    key: Vec<usize>,
}

fn tables_of(from: &TableWithJoins, catalog: &Catalog, is_hidden: &dyn Fn(&str) -> bool, tables: &mut Vec<Table>) {
    let factors = std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation));
    for factor in factors {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args: None,
                ..
            } => {
                let public = public_name(name).filter(|public| name.0.len() > 1 || !is_hidden(public));
                let Some(Object::Table(table)) = public.and_then(|public| catalog.get(&public)) else {
                    continue;
                };
                let is_renamed = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
                let key = table.definition.primary_key.clone();
                let own_name = name.0.last().and_then(|part| part.as_ident());
                let qualifier = alias.as_ref().map(|alias| &alias.name).or(own_name);
                if let Some(qualifier) = qualifier.filter(|_| !key.is_empty() && !is_renamed) {
                    tables.push(Table {
                        qualifier: qualifier.clone(),
                        columns: table
                            .columns
                            .fields()
                            .iter()
                            .map(|field| field.name().clone())
                            .collect(),
                        key,
                    });
                }
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias: None,
            } => tables_of(table_with_joins, catalog, is_hidden, tables),
            _ => {}
        }
    }
}

impl Table {
    /// Whether a key of GROUP BY is that column.
    fn is_grouped_by(&self, column: &str, keys: &[Vec<Ident>]) -> bool {
        keys.iter().any(|key| match key.as_slice() {
            [name] => folded(name) == column,
            [.., qualifier, name] => folded(qualifier) == folded(&self.qualifier) && folded(name) == column,
            [] => false,
        })
    }

    fn is_grouped_by_key(&self, keys: &[Vec<Ident>]) -> bool {
        let mut key = self.key.iter();
        key.all(|column| self.is_grouped_by(&self.columns[*column], keys))
    }

    /// The columns that are named outside of aggregates and are no keys yet.
    fn named_columns(&self, keys: &[Vec<Ident>], named: &Named) -> Vec<Expr> {
        let is_named = |column: &&String| named.all || named.names.contains(*column);
        let columns = self
            .columns
            .iter()
            .filter(is_named)
            .filter(|column| !self.is_grouped_by(column, keys));
        let column = |name: &String| vec![self.qualifier.clone(), Ident::with_quote('"', name)];
        columns.map(|name| Expr::CompoundIdentifier(column(name))).collect()
    }
}

/// Names that stand outside of aggregates' arguments.
#[derive(Default)]
struct Named {
    names: HashSet<String>,
    /// A `*` names all.
    all: bool,
    /// Aggregates that the walk is in.
    aggregates: usize,
}

impl Named {
    fn read_items(&mut self, items: &[SelectItem]) {
        for item in items {
            match item {
                SelectItem::Wildcard(_)
                | SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(_), _) => self.all = true,
                item => {
                    let _ = walk::read(item, self);
                }
            }
        }
    }
}

impl Visitor for Named {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            _ if is_aggregate(expr) => self.aggregates += 1,
            Expr::Identifier(name) if self.aggregates == 0 => {
                self.names.insert(folded(name));
            }
            Expr::CompoundIdentifier(parts) if self.aggregates == 0 => self.names.extend(parts.iter().map(folded)),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.aggregates -= usize::from(is_aggregate(expr));
        ControlFlow::Continue(())
    }
}

/// Whether an expression is a call of an aggregate that is not windowed.
fn is_aggregate(expr: &Expr) -> bool {
    let Expr::Function(call) = expr else {
        return false;
    };
    let name = match call.name.0.last() {
        Some(ObjectNamePart::Identifier(name)) => folded(name),
        _ => return false,
    };
    call.over.is_none() && AGGREGATES.contains(&name)
}
