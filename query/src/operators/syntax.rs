//! Syntax that the planner does not know, as calls of functions.

use super::{precedence, repeats};
use crate::walk;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType as SqlType, Expr as Ast, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, GroupByExpr, Query, Select, SelectItem, Statement, UnaryOperator, Value, ValueWithSpan,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Functions that are another of the planner's.
const RENAMED: [(&str, &str); 2] = [
    ("array_remove", "array_remove_all"),
    ("array_replace", "array_replace_all"),
];

/// Puts calls in the place of what the planner does not know.
///
/// # Arguments
/// - `of_catalog`: whether the statement is one of the system catalog, which has types of its own.
///
/// # Errors
/// 0A000: names what is not built.
pub(crate) fn rewrite(statement: &mut Statement, of_catalog: bool) -> Result<()> {
    let mut rewriter = Rewriter {
        of_catalog,
        choices: 0,
        outside: Vec::new(),
    };
    match walk::change(statement, &mut rewriter) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewriter {
    of_catalog: bool,
    /// How many CASE and COALESCE the visitor is in, of the query that it is in.
    choices: usize,
    /// The same of the queries around it.
    outside: Vec<usize>,
}

impl VisitorMut for Rewriter {
    type Break = Error;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.outside.push(std::mem::take(&mut self.choices));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<Error> {
        self.choices = self.outside.pop().unwrap_or_default();
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        if let GroupByExpr::Expressions(items, _) = &mut select.group_by {
            let sets = items.iter_mut().filter_map(|item| match item {
                Ast::Rollup(sets) | Ast::Cube(sets) | Ast::GroupingSets(sets) => Some(sets),
                _ => None,
            });
            for key in sets.flatten().flatten() {
                if let Some(named) = item_at(key, &select.projection) {
                    *key = named;
                }
            }
            items.iter_mut().for_each(repeats::without);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Ast) -> ControlFlow<Error> {
        if let Some(bound) = precedence::bound(expr) {
            *expr = bound;
        }
        self.choices += is_choice(expr) as usize;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Ast) -> ControlFlow<Error> {
        self.choices -= is_choice(expr) as usize;
        if self.choices > 0 && matches!(expr, Ast::Function(function) if is_named(function, "unnest")) {
            return ControlFlow::Break(no_rows());
        }
        let rewritten = match expr {
            Ast::UnaryOp { op, expr } => of_unary(op, expr),
            Ast::BinaryOp { left, op, right } => match of_binary(left, op, right) {
                Ok(rewritten) => rewritten,
                Err(error) => return ControlFlow::Break(error),
            },
            Ast::AtTimeZone { timestamp, time_zone } => {
                Some(call("timezone", vec![(**time_zone).clone(), (**timestamp).clone()]))
            }
            Ast::Extract { field, expr, .. } => {
                let field = field.to_string().trim_matches(['\'', '"']).to_lowercase();
                let name = crate::functions::extract_name(&field);
                Some(call(name, vec![text(field), (**expr).clone()]))
            }
            Ast::Substring {
                expr,
                substring_from,
                substring_for,
                ..
            } => {
                let start = substring_from.as_deref().cloned().unwrap_or_else(|| number(1));
                let mut arguments = vec![(**expr).clone(), start];
                arguments.extend(substring_for.as_deref().cloned());
                Some(call("substring", arguments))
            }
            Ast::Ceil { expr, .. } => Some(call("ceil", vec![(**expr).clone()])),
            Ast::Floor { expr, .. } => Some(call("floor", vec![(**expr).clone()])),
            Ast::Like {
                pattern, escape_char, ..
            }
            | Ast::ILike {
                pattern, escape_char, ..
            } => {
                return like_escape(pattern, escape_char);
            }
            Ast::Cast {
                data_type: SqlType::Custom(name, _),
                ..
            } if !self.of_catalog && name.to_string() == "\"char\"" => {
                let message = "cannot use type \"char\": it is a type of the system catalog only";
                return ControlFlow::Break(Error::new(ErrorKind::Unsupported, "SQL-0105", message));
            }
            Ast::CompoundFieldAccess { root, access_chain } => {
                name_fields(root, access_chain);
                None
            }
            Ast::Function(function) if is_series(function) => return ControlFlow::Break(no_series()),
            Ast::Function(function) => of_function(function),
            _ => None,
        };
        if let Some(rewritten) = rewritten {
            *expr = rewritten;
        }
        ControlFlow::Continue(())
    }
}

fn is_named(function: &Function, name: &str) -> bool {
    let last = function.name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|last| crate::names::folded(last) == name)
}

/// Whether a function gives rows, and has been put where a value stands.
fn is_series(function: &Function) -> bool {
    is_named(function, crate::table_functions::SERIES)
}

/// Whether an expression chooses one of several, of which none gives rows.
fn is_choice(expr: &Ast) -> bool {
    match expr {
        Ast::Case { .. } => true,
        Ast::Function(function) => is_named(function, "coalesce"),
        _ => false,
    }
}

fn no_rows() -> Error {
    let message = "cannot plan query: set-returning functions are not allowed in CASE or COALESCE";
    Error::new(ErrorKind::Unsupported, "SQL-0301", message).attempt("FROM unnest(...) AS x")
}

fn no_series() -> Error {
    let message = "cannot plan query: generate_series() outside of FROM is not supported yet";
    Error::new(ErrorKind::Unsupported, "SQL-0301", message).attempt("FROM generate_series(...) AS x")
}

/// Gives the names of fields the form that the planner knows them by; those that follow a bare name are its own.
fn name_fields(root: &Ast, accesses: &mut [AccessExpr]) {
    let is_name = |access: &AccessExpr| matches!(access, AccessExpr::Dot(Ast::Identifier(_)));
    let start = match root {
        Ast::Identifier(_) => accesses.iter().position(|access| !is_name(access)),
        _ => Some(0),
    };
    for access in accesses.iter_mut().skip(start.unwrap_or(usize::MAX)) {
        if let AccessExpr::Dot(Ast::Identifier(name)) = access {
            *access = AccessExpr::Dot(text(crate::names::folded(name)));
        }
    }
}

fn call(name: &str, arguments: Vec<Ast>) -> Ast {
    crate::casts::named::call(name, arguments)
}

fn text(text: String) -> Ast {
    Ast::Value(Value::SingleQuotedString(text).with_empty_span())
}

fn number(number: i64) -> Ast {
    Ast::Value(Value::Number(number.to_string(), false).with_empty_span())
}

/// The item of a select list that a number in a grouping set stands for.
fn item_at(key: &Ast, items: &[SelectItem]) -> Option<Ast> {
    let Ast::Value(ValueWithSpan {
        value: Value::Number(position, _),
        ..
    }) = key
    else {
        return None;
    };
    let position: usize = position.parse().ok()?;
    match items.get(position.checked_sub(1)?)? {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    }
}

fn of_unary(op: &UnaryOperator, expr: &Ast) -> Option<Ast> {
    let name = match op {
        UnaryOperator::PGAbs => "abs",
        UnaryOperator::PGSquareRoot => "sqrt",
        UnaryOperator::PGCubeRoot => "cbrt",
        UnaryOperator::BitwiseNot => "cenote_bit_not",
        _ => return None,
    };
    Some(call(name, vec![expr.clone()]))
}

fn of_binary(left: &Ast, op: &BinaryOperator, right: &Ast) -> Result<Option<Ast>> {
    let both = || vec![left.clone(), right.clone()];
    Ok(Some(match op {
        BinaryOperator::PGExp => call("power", both()),
        BinaryOperator::PGStartsWith => call("starts_with", both()),
        BinaryOperator::PGOverlap => call("array_has_any", both()),
        BinaryOperator::Overlaps => match (left, right) {
            (Ast::Tuple(left), Ast::Tuple(right)) if left.len() == 2 && right.len() == 2 => {
                call("cenote_overlaps", left.iter().chain(right).cloned().collect())
            }
            _ => return Err(crate::error::unsupported("OVERLAPS of anything but two pairs")),
        },
        _ => return Ok(None),
    }))
}

/// The arguments of a call, if they are plain.
fn plain_arguments(arguments: &FunctionArguments) -> Option<Vec<Ast>> {
    let FunctionArguments::List(list) = arguments else {
        return None;
    };
    let plain = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(plain).collect()
}

fn of_function(function: &Function) -> Option<Ast> {
    let [part] = function.name.0.as_slice() else {
        return None;
    };
    let name = crate::names::folded(part.as_ident()?);
    if function.over.is_some() || function.filter.is_some() {
        return None;
    }
    let arguments = plain_arguments(&function.args)?;
    match (name.as_str(), arguments.as_slice()) {
        ("mod", [left, right]) => Some(Ast::Nested(Box::new(Ast::BinaryOp {
            left: Box::new(Ast::Nested(Box::new(left.clone()))),
            op: BinaryOperator::Modulo,
            right: Box::new(Ast::Nested(Box::new(right.clone()))),
        }))),
        // The planner has one name for both.
        ("count", [Ast::Value(value)]) if is_plain(function) && !matches!(value.value, Value::Null) => {
            Some(count_rows(function))
        }
        // A quoted text has no type of its own.
        ("pg_typeof", [Ast::Value(value)]) if matches!(value.value, Value::SingleQuotedString(_)) => {
            Some(text("unknown".into()))
        }
        _ => {
            let (_, other) = RENAMED.iter().find(|(own, _)| *own == name)?;
            Some(call(other, arguments))
        }
    }
}

/// Whether a call is of all rows.
fn is_plain(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else {
        return false;
    };
    list.duplicate_treatment.is_none() && list.clauses.is_empty() && function.within_group.is_empty()
}

/// `count(1)` as `count(*)`.
fn count_rows(function: &Function) -> Ast {
    let mut function = function.clone();
    if let FunctionArguments::List(list) = &mut function.args {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)];
    }
    Ast::Function(function)
}

/// A pattern with an escape character of its own as one whose is the backslash.
fn like_escape(pattern: &mut Ast, escape: &mut Option<ValueWithSpan>) -> ControlFlow<Error> {
    let Some(found) = escape else {
        return ControlFlow::Continue(());
    };
    let refused = |what: &str| {
        let message = format!("cannot plan query: LIKE with {what} is not supported yet");
        ControlFlow::Break(Error::new(ErrorKind::Unsupported, "SQL-0301", message))
    };
    let Value::SingleQuotedString(character) = &found.value else {
        return refused("an escape that is no constant");
    };
    let mut characters = character.chars();
    let (character, None) = (characters.next(), characters.next()) else {
        let message = "invalid escape string";
        return ControlFlow::Break(Error::new(ErrorKind::Invalid, "SQL-0314", message).sqlstate("22025"));
    };
    if character == Some('\\') {
        *escape = None;
        return ControlFlow::Continue(());
    }
    let Ast::Value(ValueWithSpan {
        value: Value::SingleQuotedString(given),
        ..
    }) = pattern
    else {
        return refused("ESCAPE and a pattern that is no constant");
    };
    let (mut rewritten, mut rest) = (String::new(), given.chars());
    while let Some(next) = rest.next() {
        if Some(next) == character {
            let Some(escaped) = rest.next() else {
                let message = "LIKE pattern must not end with escape character";
                return ControlFlow::Break(Error::new(ErrorKind::Invalid, "SQL-0314", message).sqlstate("22025"));
            };
            rewritten.push('\\');
            rewritten.push(escaped);
        } else if next == '\\' {
            rewritten.push_str("\\\\");
        } else {
            rewritten.push(next);
        }
    }
    *given = rewritten;
    *escape = None;
    ControlFlow::Continue(())
}
