//! A SELECT over a table that never has rows has none, whatever it computes of them.
//!
//! Clients ask for policies, publications, extended statistics and the like with expressions that cannot be planned.
//! There are none of these here, and so what is computed of them is NULL for no row.

use crate::pg_catalog::{SCHEMA, tables};
use crate::walk;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, Select, SelectItem, SetExpr, Statement, TableFactor, Value, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Empties every SELECT that reads from a table that is always empty.
pub(super) fn skip_rows_of_empty_tables(statement: &mut Statement) {
    let _ = walk::change(statement, &mut Emptier);
}

struct Emptier;

impl VisitorMut for Emptier {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut datafusion::sql::sqlparser::ast::Query) -> ControlFlow<()> {
        // The order of no rows is any, and might name what is no longer computed.
        if empty_set(&mut query.body) {
            query.order_by = None;
        }
        ControlFlow::Continue(())
    }
}

/// Returns whether the whole is empty.
fn empty_set(body: &mut SetExpr) -> bool {
    match body {
        SetExpr::Select(select) if reads_nothing(select) && !has_aggregate(select) => {
            empty(select);
            true
        }
        SetExpr::SetOperation { left, right, .. } => empty_set(left) & empty_set(right),
        _ => false,
    }
}

/// Whether a table that has to give a row for the SELECT to give one is always empty.
fn reads_nothing(select: &Select) -> bool {
    use datafusion::sql::sqlparser::ast::JoinOperator as Join;
    select.from.iter().any(|from| {
        let required = from
            .joins
            .iter()
            .filter(|join| matches!(join.join_operator, Join::Join(_) | Join::Inner(_) | Join::CrossJoin(_)));
        // An outer join may keep rows that the first table does not have.
        let keeps_first = from.joins.iter().all(|join| {
            matches!(
                join.join_operator,
                Join::Join(_) | Join::Inner(_) | Join::CrossJoin(_) | Join::Left(_) | Join::LeftOuter(_)
            )
        });
        let first = keeps_first.then_some(&from.relation).into_iter();
        keeps_first && first.chain(required.map(|join| &join.relation)).any(is_empty_table)
    })
}

fn is_empty_table(factor: &TableFactor) -> bool {
    let TableFactor::Table { name, args: None, .. } = factor else {
        return false;
    };
    let parts: Vec<String> = name
        .0
        .iter()
        .filter_map(|part| part.as_ident().map(crate::names::folded))
        .collect();
    matches!(parts.as_slice(), [.., schema, name] if schema == SCHEMA && tables::is_always_empty(name))
}

/// An aggregate gives a row even of no rows. Functions of the catalog and of texts are known to be none.
fn has_aggregate(select: &Select) -> bool {
    struct Calls;
    impl Visitor for Calls {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(function) if !matches!(function.args, FunctionArguments::Subquery(_)) => {
                    let name = function.name.to_string().to_lowercase();
                    let is_scalar = name.starts_with("pg_")
                        || crate::pg_catalog::functions::is_own(&name)
                        || ["array_to_string", "coalesce", "quote_ident", "upper", "lower"].contains(&name.as_str());
                    match is_scalar {
                        true => ControlFlow::Continue(()),
                        false => ControlFlow::Break(()),
                    }
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let items = select.projection.iter();
    items
        .filter(|item| !item.to_string().to_lowercase().contains("select"))
        .any(|item| walk::read(item, &mut Calls).is_break())
}

fn empty(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        {
            *expr = Expr::Value(Value::Null.with_empty_span());
        }
    }
    select.selection = Some(Expr::Value(Value::Boolean(false).with_empty_span()));
}
