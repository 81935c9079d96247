//! Clauses that are another spelling of what the planner knows, or say what holds anyway.
//!
//! | Clause | Becomes |
//! |---|---|
//! | `FETCH FIRST n ROWS ONLY` | `LIMIT n` |
//! | `COLLATE "C"` and its like | nothing: texts are ordered by their bytes |
//!
//! # Rules kept here
//! What says something else, such as `WITH TIES` or `COLLATE "de_DE"`, is refused by its name.

use crate::walk;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Fetch, LimitClause, ObjectName, Query, Statement, Value, ValueWithSpan, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span;
use std::ops::ControlFlow;

/// Replaces them in a statement.
///
/// # Errors
/// `Unsupported` 0A000: names the clause.
pub(crate) fn replace(statement: &mut Statement) -> Result<()> {
    match walk::change(statement, &mut Synonyms) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Synonyms;

impl VisitorMut for Synonyms {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let Some(fetch) = query.fetch.take() else {
            return ControlFlow::Continue(());
        };
        match (fetch, query.limit_clause.take()) {
            (Fetch { with_ties: true, .. }, _) => refused("FETCH FIRST ... WITH TIES", None),
            (Fetch { percent: true, .. }, _) => refused("FETCH FIRST ... PERCENT", None),
            (fetch, None) => {
                query.limit_clause = Some(limit(fetch, None));
                ControlFlow::Continue(())
            }
            (
                fetch,
                Some(LimitClause::LimitOffset {
                    limit: None,
                    offset,
                    limit_by,
                }),
            ) if limit_by.is_empty() => {
                query.limit_clause = Some(limit(fetch, offset));
                ControlFlow::Continue(())
            }
            _ => refused("FETCH FIRST beside LIMIT", None),
        }
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        while let Expr::Collate { expr: inner, collation } = expr {
            if !is_by_bytes(collation) {
                let attempt = "leave it out, or say COLLATE \"C\": texts are ordered by their bytes";
                return refused(&format!("COLLATE {collation}"), Some(attempt));
            }
            *expr = (**inner).clone();
        }
        ControlFlow::Continue(())
    }
}

/// LIMIT with the count of FETCH, which is 1 where it is left out.
fn limit(fetch: Fetch, offset: Option<datafusion::sql::sqlparser::ast::Offset>) -> LimitClause {
    let one = || {
        Expr::Value(ValueWithSpan {
            value: Value::Number("1".into(), false),
            span: Span::empty(),
        })
    };
    LimitClause::LimitOffset {
        limit: Some(fetch.quantity.unwrap_or_else(one)),
        offset,
        limit_by: Vec::new(),
    }
}

fn refused(clause: &str, attempt: Option<&str>) -> ControlFlow<Error> {
    let message = format!("cannot plan query: {clause} is not supported yet");
    let error = Error::new(ErrorKind::Unsupported, "SQL-0301", message);
    ControlFlow::Break(match attempt {
        Some(attempt) => error.attempt(attempt),
        None => error,
    })
}

/// Whether a collation orders texts by their bytes, as all are here.
fn is_by_bytes(collation: &ObjectName) -> bool {
    let name = collation.0.last().and_then(|part| part.as_ident());
    name.is_some_and(|name| ["C", "POSIX", "default", "ucs_basic"].contains(&name.value.as_str()))
}
