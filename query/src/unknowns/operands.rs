//! Quoted texts as operands of arithmetic and of `||`: `'5' + 1`, `a || NULL`.
//!
//! PostgreSQL takes the operator that has the other side's type on both sides, where there is one: `ts - '...'` is a
//! difference of timestamps. Where there is not, one operator is left: a timestamp and a text are added as with an
//! interval. Beside an array a text or NULL is an array.

use crate::casts::text::reads_text;
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::planner::RawBinaryExpr;
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// The operands with the types that the operator takes.
///
/// # Errors
/// 22P02 and its like: a text is none of the type. 42883: a TEXT that is no literal is added to a number.
pub(super) fn typed(raw: RawBinaryExpr, schema: &DFSchema) -> Result<RawBinaryExpr> {
    let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
        return Ok(raw);
    };
    let RawBinaryExpr { op, left: a, right: b } = raw;
    let is_refused = |expr: &Expr, own: &DataType, other: &DataType| {
        *own == DataType::Utf8 && super::quoted_text(expr).is_none() && is_arithmetic(&op) && is_computed(other)
    };
    if is_refused(&a, &left, &right) || is_refused(&b, &right, &left) {
        let (left, right) = (crate::types::type_name(&left), crate::types::type_name(&right));
        return Err(crate::keys::no_operator(&left, &op, &right));
    }
    Ok(RawBinaryExpr {
        left: operand(a, &op, &right)?,
        right: operand(b, &op, &left)?,
        op,
    })
}

fn operand(expr: Expr, op: &BinaryOperator, other: &DataType) -> Result<Expr> {
    let is_list = matches!(other, DataType::List(_));
    match &expr {
        Expr::Literal(ScalarValue::Null, metadata) if is_list && *op == BinaryOperator::StringConcat => {
            Ok(Expr::Literal(ScalarValue::try_from(other)?, metadata.clone()))
        }
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => match operand_type(op, other) {
            Some(to) => Ok(Expr::Literal(super::read(text, &to)?, metadata.clone())),
            None => Ok(expr),
        },
        _ => Ok(expr),
    }
}

fn is_arithmetic(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// Whether there is arithmetic of a type, but none with TEXT.
fn is_computed(data_type: &DataType) -> bool {
    let is_time = matches!(
        data_type,
        DataType::Date32 | DataType::Timestamp(_, _) | DataType::Interval(_) | DataType::Time64(_)
    );
    reads_text(data_type) && (data_type.is_numeric() || is_time)
}

/// The type of a quoted text beside a value of a type; `None`: it stays a text.
fn operand_type(op: &BinaryOperator, other: &DataType) -> Option<DataType> {
    use BinaryOperator::{Divide, Minus, Multiply, Plus, StringConcat};
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    match (op, other) {
        (StringConcat, DataType::List(_)) => Some(other.clone()),
        (op, number) if is_arithmetic(op) && number.is_numeric() && reads_text(number) => Some(other.clone()),
        (Plus, DataType::Timestamp(_, _) | DataType::Time64(_)) => Some(interval),
        (Plus | Minus, DataType::Interval(_)) => Some(interval),
        (Minus, DataType::Timestamp(_, _) | DataType::Date32) => Some(other.clone()),
        (Multiply | Divide, DataType::Interval(_)) => Some(DataType::Float64),
        _ => None,
    }
}
