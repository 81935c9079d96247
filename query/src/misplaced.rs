//! Aggregates and window functions where they cannot stand: found in the statement, before planning fails on them in
//! terms of its own.
//!
//! # Not here
//! Columns that are neither grouped nor aggregated: DataFusion finds these.

use crate::names::folded;
use crate::walk;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, JoinConstraint, JoinOperator, ObjectName, Query, Select, SetExpr, Statement, Visit,
    Visitor,
};
use std::ops::ControlFlow;

/// Refuses aggregates in WHERE, GROUP BY, FILTER, join conditions and other aggregates; window functions too.
///
/// # Errors
/// `Invalid` 42803, 42P20 at the function's place.
pub(crate) fn check(statement: &Statement, state: &SessionState) -> Result<()> {
    let mut looking = Looking { state };
    match walk::read(statement, &mut looking) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Looking<'s> {
    state: &'s SessionState,
}

impl Visitor for Looking<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Error> {
        let SetExpr::Values(values) = query.body.as_ref() else {
            return ControlFlow::Continue(());
        };
        let mut cells = values.rows.iter().flat_map(|row| &row.content);
        cells.try_for_each(|cell| inside(cell, self.state, Place::Clause("VALUES")))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Error> {
        let clause = |expr: &Expr, place| inside(expr, self.state, place);
        if let Some(selection) = &select.selection {
            clause(selection, Place::Clause("WHERE"))?;
        }
        if let GroupByExpr::Expressions(groups, _) = &select.group_by {
            groups
                .iter()
                .try_for_each(|group| clause(group, Place::Clause("GROUP BY")))?;
        }
        let joins = select.from.iter().flat_map(|from| &from.joins);
        let mut conditions = joins.filter_map(|join| condition(&join.join_operator));
        conditions.try_for_each(|on| clause(on, Place::Clause("JOIN conditions")))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        let Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        if !is_aggregate(function, self.state) {
            return ControlFlow::Continue(());
        }
        if let Some(filter) = &function.filter {
            inside(filter.as_ref(), self.state, Place::Clause("FILTER"))?;
        }
        inside(&function.args, self.state, Place::Aggregate)
    }
}

/// Where a function is looked for.
#[derive(Clone, Copy)]
enum Place {
    Clause(&'static str),
    /// The arguments of an aggregate.
    Aggregate,
}

/// Looks for aggregates and window functions in a part of a query, but not in its subqueries.
fn inside(node: &impl Visit, state: &SessionState, place: Place) -> ControlFlow<Error> {
    let mut inside = Inside {
        state,
        place,
        queries: 0,
    };
    walk::read(node, &mut inside)
}

struct Inside<'s> {
    state: &'s SessionState,
    place: Place,
    queries: usize,
}

impl Visitor for Inside<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Error> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Error> {
        let Expr::Function(function) = expr else {
            return ControlFlow::Continue(());
        };
        if self.queries > 0 {
            return ControlFlow::Continue(());
        }
        let is_window = function.over.is_some();
        if !is_window && !is_aggregate(function, self.state) {
            return ControlFlow::Continue(());
        }
        let kind = if is_window { "window" } else { "aggregate" };
        let message = match self.place {
            Place::Clause(clause) => format!("{kind} functions are not allowed in {clause}"),
            Place::Aggregate if is_window => {
                "aggregate function calls cannot contain window function calls".to_string()
            }
            Place::Aggregate => "aggregate function calls cannot be nested".to_string(),
        };
        let in_clause = matches!(self.place, Place::Clause(_));
        let sqlstate = if is_window && in_clause { "42P20" } else { "42803" };
        let error = Error::new(ErrorKind::Invalid, "SQL-0328", message).sqlstate(sqlstate);
        let error = match place_of(&function.name) {
            Some(position) => error.position(position),
            None => error,
        };
        ControlFlow::Break(match self.place {
            Place::Clause("WHERE") if !is_window => error.attempt("say it in HAVING, which sees the groups"),
            _ => error.attempt("compute it in a subquery, and use its column"),
        })
    }
}

fn condition(operator: &JoinOperator) -> Option<&Expr> {
    let constraint = match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => constraint,
        _ => return None,
    };
    match constraint {
        JoinConstraint::On(on) => Some(on),
        _ => None,
    }
}

/// Whether a call is that of an aggregate over groups.
fn is_aggregate(function: &Function, state: &SessionState) -> bool {
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(folded);
    function.over.is_none() && name.is_some_and(|name| state.aggregate_functions().contains_key(&name))
}

/// Where a name stands in the statement, if it stands there.
fn place_of(name: &ObjectName) -> Option<usize> {
    let column = name.0.first()?.as_ident()?.span.start.column as usize;
    (column > 0).then_some(column)
}
