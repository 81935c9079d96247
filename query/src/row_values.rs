//! Comparisons of rows, field by field, as a rewrite of the parsed statement.
//!
//! `(a, b) = (c, d)`, `<`, `IN (...)`, `BETWEEN`, `IS NULL` and `IS DISTINCT FROM` become comparisons of `a` with `c`
//! and of `b` with `d`; so types are brought together field by field, and an unknown field makes the whole unknown
//! only where it decides, as in PostgreSQL. A row that is a function's argument becomes a call of `struct`.
//!
//! # Not here
//! Rows as values: [`crate::structs`].

mod subqueries;

use crate::walk;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    ObjectName, Select, Statement, UnaryOperator, VisitorMut,
};
use std::ops::ControlFlow;

/// Rewrites the comparisons of rows of a statement.
///
/// # Errors
/// `Invalid` 42601: rows of different lengths are compared.
pub(crate) fn compare_fields(statement: &mut Statement) -> Result<()> {
    match walk::change(statement, &mut Rows::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

#[derive(Default)]
struct Rows {
    tests: subqueries::Tests,
}

impl VisitorMut for Rows {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        match self.tests.conditions(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let rewritten = match expr {
            Expr::Function(call) => {
                name_rows(call);
                return ControlFlow::Continue(());
            }
            _ => self.tests.value(expr).and_then(|tested| match tested {
                Some(tested) => Ok(Some(tested)),
                None => compared(expr),
            }),
        };
        match rewritten {
            Ok(Some(rewritten)) => *expr = rewritten,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(error),
        }
        ControlFlow::Continue(())
    }
}

/// Gives the rows that are left, which are values, a form that takes any expression.
pub(crate) fn name_rest(statement: &mut Statement) {
    let _ = walk::change(statement, &mut Values);
}

struct Values;

impl VisitorMut for Values {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Tuple(fields) = expr
            && !fields.is_empty()
        {
            *expr = struct_of(std::mem::take(fields));
        }
        ControlFlow::Continue(())
    }
}

/// Gives rows among a function's arguments a form that takes any expression.
fn name_rows(call: &mut Function) {
    let FunctionArguments::List(list) = &mut call.args else {
        return;
    };
    for argument in &mut list.args {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(row)) = argument
            && let Expr::Tuple(fields) = without_parentheses(row)
        {
            *row = struct_of(fields.clone());
        }
    }
}

fn struct_of(fields: Vec<Expr>) -> Expr {
    let args = fields
        .into_iter()
        .map(|field| FunctionArg::Unnamed(FunctionArgExpr::Expr(field)));
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("struct")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args.collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn without_parentheses(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => without_parentheses(inner),
        other => other,
    }
}

/// The fields of a row written `(a, b)` or `ROW(a, b)`.
fn fields_of(expr: &Expr) -> Option<Vec<&Expr>> {
    match without_parentheses(expr) {
        Expr::Tuple(fields) => Some(fields.iter().collect()),
        Expr::Function(call) if call.over.is_none() && call.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &call.args else {
                return None;
            };
            let fields = list.args.iter().map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(field)) => Some(field),
                _ => None,
            });
            fields.collect()
        }
        _ => None,
    }
}

/// A comparison of rows as one of their fields; `None`: it is none.
fn compared(expr: &Expr) -> Result<Option<Expr>> {
    Ok(match expr {
        Expr::BinaryOp { left, op, right } => match (fields_of(left), fields_of(right)) {
            (Some(left), Some(right)) => by_operator(&left, op, &right)?,
            _ => None,
        },
        Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
            let (Some(left), Some(right)) = (fields_of(left), fields_of(right)) else {
                return Ok(None);
            };
            let differ = |(a, b): (&Expr, &Expr)| Expr::IsDistinctFrom(Box::new(a.clone()), Box::new(b.clone()));
            let distinct = any(pairs(&left, &right)?.into_iter().map(differ).collect());
            Some(match expr {
                Expr::IsDistinctFrom(_, _) => distinct,
                _ => negated(true, distinct),
            })
        }
        Expr::IsNull(row) => fields_of(row).map(|fields| all(fields.into_iter().map(is_null).collect())),
        Expr::IsNotNull(row) => {
            let known = |field: &Expr| Expr::IsNotNull(Box::new(field.clone()));
            fields_of(row).map(|fields| all(fields.into_iter().map(known).collect()))
        }
        Expr::InList {
            expr,
            list,
            negated: is_negated,
        } => match fields_of(expr) {
            Some(row) => Some(negated(*is_negated, in_list(&row, list)?)),
            None => None,
        },
        Expr::Between {
            expr,
            negated: is_negated,
            low,
            high,
        } => match fields_of(expr) {
            Some(row) => Some(negated(*is_negated, between(&row, low, high)?)),
            None => None,
        },
        _ => None,
    })
}

fn is_null(field: &Expr) -> Expr {
    Expr::IsNull(Box::new(field.clone()))
}

fn in_list(row: &[&Expr], list: &[Expr]) -> Result<Expr> {
    let equal = list.iter().map(|item| {
        let item = fields_of(item).ok_or_else(|| no_row(item))?;
        equal_fields(row, &item)
    });
    Ok(any(equal.collect::<Result<_>>()?))
}

fn between(row: &[&Expr], low: &Expr, high: &Expr) -> Result<Expr> {
    let bound = |bound: &Expr, op| -> Result<Expr> {
        let fields = fields_of(bound).ok_or_else(|| no_row(bound))?;
        ordered(row, op, &fields)
    };
    Ok(all(vec![
        bound(low, BinaryOperator::GtEq)?,
        bound(high, BinaryOperator::LtEq)?,
    ]))
}

fn by_operator(left: &[&Expr], op: &BinaryOperator, right: &[&Expr]) -> Result<Option<Expr>> {
    Ok(Some(match op {
        BinaryOperator::Eq => equal_fields(left, right)?,
        BinaryOperator::NotEq => {
            let pairs = pairs(left, right)?.into_iter();
            any(pairs.map(|(a, b)| binary(a, BinaryOperator::NotEq, b)).collect())
        }
        BinaryOperator::Lt | BinaryOperator::LtEq | BinaryOperator::Gt | BinaryOperator::GtEq => {
            ordered(left, op.clone(), right)?
        }
        _ => return Ok(None),
    }))
}

fn equal_fields(left: &[&Expr], right: &[&Expr]) -> Result<Expr> {
    let pairs = pairs(left, right)?.into_iter();
    Ok(all(pairs.map(|(a, b)| binary(a, BinaryOperator::Eq, b)).collect()))
}

/// The first fields that differ decide.
fn ordered(left: &[&Expr], op: BinaryOperator, right: &[&Expr]) -> Result<Expr> {
    let strict = match op {
        BinaryOperator::Lt | BinaryOperator::LtEq => BinaryOperator::Lt,
        _ => BinaryOperator::Gt,
    };
    let mut pairs = pairs(left, right)?;
    let Some((a, b)) = pairs.pop() else {
        return Err(unequal(left.len(), right.len()));
    };
    let last = binary(a, op, b);
    let decided = pairs.into_iter().rev().fold(last, |rest, (a, b)| {
        let tie = all(vec![binary(a, BinaryOperator::Eq, b), rest]);
        any(vec![binary(a, strict.clone(), b), tie])
    });
    Ok(decided)
}

fn pairs<'a>(left: &[&'a Expr], right: &[&'a Expr]) -> Result<Vec<(&'a Expr, &'a Expr)>> {
    if left.len() != right.len() || left.is_empty() {
        return Err(unequal(left.len(), right.len()));
    }
    Ok(left.iter().copied().zip(right.iter().copied()).collect())
}

fn binary(left: &Expr, op: BinaryOperator, right: &Expr) -> Expr {
    joined(left.clone(), op, right.clone())
}

fn joined(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    let inner = Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    };
    Expr::Nested(Box::new(inner))
}

fn negated(is_negated: bool, expr: Expr) -> Expr {
    match is_negated {
        true => Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: Box::new(expr),
        },
        false => expr,
    }
}

fn all(parts: Vec<Expr>) -> Expr {
    balanced(parts, &BinaryOperator::And)
}

fn any(parts: Vec<Expr>) -> Expr {
    balanced(parts, &BinaryOperator::Or)
}

/// One expression of many, no deeper than needs be: lists can be long.
fn balanced(mut parts: Vec<Expr>, op: &BinaryOperator) -> Expr {
    while parts.len() > 1 {
        let mut halved = Vec::with_capacity(parts.len().div_ceil(2));
        let mut given = parts.into_iter();
        while let Some(left) = given.next() {
            halved.push(match given.next() {
                Some(right) => joined(left, op.clone(), right),
                None => left,
            });
        }
        parts = halved;
    }
    parts.pop().unwrap_or_else(|| Expr::Tuple(Vec::new()))
}

fn unequal(left: usize, right: usize) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "SQL-0320",
        "cannot compare rows: unequal number of entries in row expressions",
    )
    .sqlstate("42601")
    .fact("left", format!("{left} fields"))
    .fact("right", format!("{right} fields"))
}

fn no_row(item: &Expr) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "SQL-0319",
        format!("cannot compare a row with {item}: it is no row"),
    )
    .sqlstate("42883")
}
