//! Operators and clauses with PostgreSQL's meaning where the planner has none, or another.
//!
//! Two places: [`rewrite`] turns syntax into calls before planning (`@ x`, `x AT TIME ZONE z`, EXTRACT, `LIKE ...
//! ESCAPE`), [`TypedOperators`] plans operators by the types of their sides (quotients of NUMERIC, intervals times
//! numbers, differences of timestamps).
//!
//! # Not here
//! What the functions compute: [`crate::functions`]. Overflow of operators that stay: [`crate::arithmetic`].

mod precedence;
mod repeats;
mod syntax;

pub(crate) use syntax::rewrite;

use crate::arithmetic::numeric_operator;
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF};
use datafusion::prelude::cast;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

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
