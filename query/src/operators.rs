//! Operators and clauses with PostgreSQL's meaning where the planner has none, or another.
//!
//! Two places: [`rewrite`] turns syntax into calls before planning (`@ x`, `x AT TIME ZONE z`, EXTRACT, `LIKE ...
//! ESCAPE`), [`TypedOperators`] plans operators by the types of their sides (quotients of NUMERIC, intervals times
//! numbers, differences of timestamps).
//!
//! # Not here
//! What the functions compute: [`crate::functions`]. Overflow of operators that stay: [`crate::arithmetic`].

use crate::arithmetic::numeric_operator;
use crate::walk;
use arrow::datatypes::{DataType, TimeUnit};
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::common::DFSchema;
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF};
use datafusion::prelude::cast;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType as SqlType, Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Statement, UnaryOperator, Value, ValueWithSpan, VisitorMut,
};
use std::ops::ControlFlow;
use std::sync::Arc;

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
    match walk::change(statement, &mut Rewriter { of_catalog }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewriter {
    of_catalog: bool,
}

impl VisitorMut for Rewriter {
    type Break = Error;

    fn pre_visit_expr(&mut self, expr: &mut Ast) -> ControlFlow<Error> {
        if let Some(bound) = bound_signs(expr).or_else(|| bound_prefix(expr)) {
            *expr = bound;
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Ast) -> ControlFlow<Error> {
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
            Ast::Function(function) => of_function(function),
            _ => None,
        };
        if let Some(rewritten) = rewritten {
            *expr = rewritten;
        }
        ControlFlow::Continue(())
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

/// `-a ^ b` as `(-a) ^ b`: the sign binds closer than the power, which the parser has the other way round.
fn bound_signs(expr: &Ast) -> Option<Ast> {
    let Ast::UnaryOp {
        op: UnaryOperator::Minus,
        expr,
    } = expr
    else {
        return None;
    };
    fn signed(expr: &Ast) -> Ast {
        match expr {
            Ast::BinaryOp {
                left,
                op: BinaryOperator::PGExp,
                right,
            } => Ast::BinaryOp {
                left: Box::new(signed(left)),
                op: BinaryOperator::PGExp,
                right: right.clone(),
            },
            other => Ast::UnaryOp {
                op: UnaryOperator::Minus,
                expr: Box::new(other.clone()),
            },
        }
    }
    let is_power = matches!(
        expr.as_ref(),
        Ast::BinaryOp {
            op: BinaryOperator::PGExp,
            ..
        }
    );
    is_power.then(|| signed(expr))
}

/// `@ a + b` as `@ (a + b)`: prefixes other than signs bind less closely than sums, which the parser does not know.
fn bound_prefix(expr: &Ast) -> Option<Ast> {
    /// Takes the prefix off the leftmost operand of a sum.
    fn without_prefix(expr: &Ast) -> Option<(UnaryOperator, Ast)> {
        match expr {
            Ast::BinaryOp {
                left,
                op: op @ (BinaryOperator::Plus | BinaryOperator::Minus),
                right,
            } => {
                let (prefix, left) = without_prefix(left)?;
                Some((
                    prefix,
                    Ast::BinaryOp {
                        left: Box::new(left),
                        op: op.clone(),
                        right: right.clone(),
                    },
                ))
            }
            Ast::UnaryOp { op, expr } if is_prefix(op) => Some((*op, expr.as_ref().clone())),
            _ => None,
        }
    }
    let is_sum = matches!(
        expr,
        Ast::BinaryOp {
            op: BinaryOperator::Plus | BinaryOperator::Minus,
            ..
        }
    );
    let (op, rest) = is_sum.then(|| without_prefix(expr)).flatten()?;
    let expr = Box::new(Ast::Nested(Box::new(rest)));
    Some(Ast::UnaryOp { op, expr })
}

fn is_prefix(op: &UnaryOperator) -> bool {
    use UnaryOperator::{BitwiseNot, PGAbs, PGCubeRoot, PGSquareRoot};
    matches!(op, PGAbs | PGSquareRoot | PGCubeRoot | BitwiseNot)
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

/// Plans operators by the types of their sides.
#[derive(Debug)]
pub(crate) struct TypedOperators;

impl ExprPlanner for TypedOperators {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> PlanResult<PlannerResult<RawBinaryExpr>> {
        let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(raw));
        };
        use BinaryOperator::{Divide, Minus, Multiply, Plus};
        if matches!(raw.op, Divide | Multiply)
            && let Some(planned) = of_numerics(&raw, &left, &right)
        {
            return Ok(PlannerResult::Planned(planned));
        }
        let raw = with_timestamps(raw, &left, &right);
        let (left, right) = (raw.left.get_type(schema)?, raw.right.get_type(schema)?);
        let name = match (&left, &raw.op, &right) {
            (DataType::Interval(_), Multiply, number) if number.is_numeric() => "cenote_interval_times",
            (DataType::Interval(_), Divide, number) if number.is_numeric() => "cenote_interval_divided",
            (DataType::Timestamp(_, _), Minus, DataType::Timestamp(_, _)) => "cenote_timestamp_difference",
            (DataType::Time64(_), Plus, DataType::Interval(_)) => "cenote_time_plus",
            (DataType::Time64(_), Minus, DataType::Interval(_)) => "cenote_time_minus",
            (number, Multiply, DataType::Interval(_)) if number.is_numeric() => {
                return Ok(planned("cenote_interval_times", vec![raw.right, raw.left]));
            }
            (DataType::Interval(_), Plus, DataType::Time64(_)) => {
                return Ok(planned("cenote_time_plus", vec![raw.right, raw.left]));
            }
            _ => return Ok(PlannerResult::Original(raw)),
        };
        Ok(planned(name, vec![raw.left, raw.right]))
    }
}

fn planned(name: &str, arguments: Vec<Expr>) -> PlannerResult<RawBinaryExpr> {
    PlannerResult::Planned(called(crate::functions::own(name), arguments))
}

fn called(function: Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments))
}

/// A quotient or a product of which one side is NUMERIC and the other exact.
fn of_numerics(raw: &RawBinaryExpr, left: &DataType, right: &DataType) -> Option<Expr> {
    let is_numeric = |found: &DataType| matches!(found, DataType::Decimal128(_, _));
    let is_exact = |found: &DataType| is_numeric(found) || found.is_integer();
    if !(is_exact(left) && is_exact(right) && (is_numeric(left) || is_numeric(right))) {
        return None;
    }
    let as_numeric = |expr: &Expr, found: &DataType| match is_numeric(found) {
        true => expr.clone(),
        false => cast(expr.clone(), crate::types::numeric_of(found)),
    };
    let sides = vec![as_numeric(&raw.left, left), as_numeric(&raw.right, right)];
    Some(numeric_operator(raw.op == BinaryOperator::Divide, sides))
}

/// A date beside an interval, or one that a timestamp is subtracted from or the other way round, as a timestamp.
fn with_timestamps(mut raw: RawBinaryExpr, left: &DataType, right: &DataType) -> RawBinaryExpr {
    use BinaryOperator::{Minus, Plus};
    let plain = DataType::Timestamp(TimeUnit::Microsecond, None);
    let is_sum = matches!(raw.op, Plus | Minus);
    let beside = |other: &DataType| match other {
        DataType::Interval(_) if is_sum => Some(plain.clone()),
        DataType::Timestamp(_, _) if raw.op == Minus => Some(other.clone()),
        _ => None,
    };
    match (left, right) {
        (DataType::Date32, other) => {
            if let Some(to) = beside(other) {
                raw.left = cast(raw.left, to);
            }
        }
        (other, DataType::Date32) => {
            if let Some(to) = beside(other) {
                raw.right = cast(raw.right, to);
            }
        }
        (DataType::Timestamp(_, None), DataType::Timestamp(_, Some(_))) if raw.op == Minus => {
            raw.left = cast(raw.left, right.clone());
        }
        (DataType::Timestamp(_, Some(_)), DataType::Timestamp(_, None)) if raw.op == Minus => {
            raw.right = cast(raw.right, left.clone());
        }
        _ => {}
    }
    raw
}
