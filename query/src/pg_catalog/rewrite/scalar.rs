//! Scalar subqueries over the row they stand in (in select lists and in WHERE), as left joins.
//!
//! The planner takes such a subquery only if it aggregates; those of clients look one row up by its key. A left join
//! gives the same row or NULL, as long as at most one row matches, which a scalar subquery demands anyhow.

use crate::names::folded;
use crate::walk;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, GroupByExpr, Ident, Join, JoinConstraint, JoinOperator, ObjectNamePart, Query, Select,
    SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, Visitor, VisitorMut,
};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Makes joins of scalar subqueries, where that changes nothing.
pub(super) fn join_scalar_subqueries(statement: &mut Statement) {
    let _ = walk::change(statement, &mut Joiner);
}

struct Joiner;

impl VisitorMut for Joiner {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let SetExpr::Select(select) = query.body.as_mut()
            && !select.from.is_empty()
            && is_plain(select)
        {
            join(select);
        }
        ControlFlow::Continue(())
    }
}

/// Whether a SELECT gives one row per row of its tables.
fn is_plain(select: &Select) -> bool {
    let ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    ungrouped && select.distinct.is_none() && select.having.is_none()
}

fn join(select: &mut Select) {
    let mut taker = Taker {
        outer: names_of(&select.from),
        taken: Vec::new(),
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _ = walk::change(expr, &mut taker);
        }
    }
    if let Some(condition) = &mut select.selection {
        let _ = walk::change(condition, &mut taker);
    }
    if taker.taken.is_empty() {
        return;
    }
    let mut from = as_one(std::mem::take(&mut select.from));
    for (tables, condition) in taker.taken {
        let relation = nested(as_one(tables));
        from.joins.push(Join {
            relation,
            global: false,
            join_operator: JoinOperator::LeftOuter(JoinConstraint::On(condition)),
        });
    }
    select.from = vec![from];
}

/// Tables with a comma between them, as joins.
fn as_one(tables: Vec<TableWithJoins>) -> TableWithJoins {
    let mut tables = tables.into_iter();
    let mut one = tables.next().expect("a FROM names a table");
    one.joins.extend(tables.map(|table| Join {
        relation: nested(table),
        global: false,
        join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
    }));
    one
}

fn nested(table: TableWithJoins) -> TableFactor {
    if table.joins.is_empty() {
        return table.relation;
    }
    TableFactor::NestedJoin {
        table_with_joins: Box::new(table),
        alias: None,
    }
}

/// Takes subqueries out of expressions, leaving what they compute.
struct Taker {
    outer: HashSet<String>,
    taken: Vec<(Vec<TableWithJoins>, Expr)>,
}

impl VisitorMut for Taker {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Subquery(query) = expr
            && let Some((value, tables, condition)) = self.lookup(query)
        {
            self.outer.extend(names_of(&tables));
            self.taken.push((tables, condition));
            *expr = value;
        }
        ControlFlow::Continue(())
    }
}

impl Taker {
    /// What a subquery computes, of which tables, where: if it looks up a row by the outer one.
    fn lookup(&self, query: &Query) -> Option<(Expr, Vec<TableWithJoins>, Expr)> {
        let is_bare = query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none();
        let SetExpr::Select(select) = query.body.as_ref() else {
            return None;
        };
        let condition = select.selection.clone()?;
        let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
            select.projection.as_slice()
        else {
            return None;
        };
        let inner = names_of(&select.from);
        let joins = is_bare
            && is_plain(select)
            && !select.from.is_empty()
            && is_null_of_nothing(value)
            && inner.is_disjoint(&self.outer)
            && refers_to(&condition, &self.outer);
        joins.then(|| (value.clone(), select.from.clone(), condition))
    }
}

/// Whether an expression is NULL where its columns are: a column, or a function of the catalog over columns.
fn is_null_of_nothing(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Function(function) => matches!(
            function.name.0.last(),
            Some(ObjectNamePart::Identifier(ident)) if ident.value.to_lowercase().starts_with("pg_get_")
        ),
        Expr::Cast { expr, .. } | Expr::Nested(expr) => is_null_of_nothing(expr),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Eq,
            right,
        } => is_null_of_nothing(left) && matches!(**right, Expr::Value(_)),
        _ => false,
    }
}

/// Names by which the columns of tables can be qualified.
fn names_of(tables: &[TableWithJoins]) -> HashSet<String> {
    let factors = tables
        .iter()
        .flat_map(|table| std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)));
    factors.filter_map(name_of).collect()
}

fn name_of(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            Some(folded(&alias.name))
        }
        TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident().map(folded)),
        _ => None,
    }
}

fn refers_to(expr: &Expr, names: &HashSet<String>) -> bool {
    struct Finder<'a>(&'a HashSet<String>);
    impl Visitor for Finder<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let qualifier = |parts: &[Ident]| parts.first().map(folded);
            match expr {
                Expr::CompoundIdentifier(parts) if qualifier(parts).is_some_and(|name| self.0.contains(&name)) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    walk::read(expr, &mut Finder(names)).is_break()
}
