//! Whether there can be a row that an expression fails on: the one place that says so.
//!
//! Columns, constants, comparisons and what joins them cannot fail; nor can casts that have a value for every value, LIKE
//! with a pattern that is right, and a few functions. Anything else is taken to.
//!
//! # Not here
//! What follows of it: the order of conditions ([`crate::ordered`]), guards of subqueries ([`crate::decorrelate`]), tables of
//! errors ([`crate::program`]).

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{BinaryExpr, Cast, Like};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr as PhysicalBinary, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::sync::Arc;

/// Functions that have a value for all arguments.
const TOTAL_FUNCTIONS: [&str; 14] = [
    "btrim",
    "character_length",
    "coalesce",
    "greatest",
    "isnan",
    "least",
    "lower",
    "ltrim",
    "nullif",
    "octet_length",
    "plain_zero",
    "rtrim",
    "starts_with",
    "upper",
];

/// Whether an expression can fail, its subqueries not looked at.
///
/// # Arguments
/// - `schema`: the columns of the rows that it is computed of.
pub(crate) fn can_fail(expr: &Expr, schema: &DFSchema) -> bool {
    let found = expr.exists(|part| Ok(fails_itself(part, schema)));
    found.unwrap_or(true)
}

fn fails_itself(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => !is_total(*op),
        Expr::Cast(Cast { expr: inner, field }) => match inner.get_type(schema) {
            Ok(from) => !is_total_cast(&from, field.data_type()),
            Err(_) => true,
        },
        Expr::Like(Like { pattern, .. }) => match pattern.as_ref() {
            Expr::Literal(value, _) => !is_pattern(value),
            _ => true,
        },
        Expr::ScalarFunction(call) => !TOTAL_FUNCTIONS.contains(&call.name()),
        // What they are over may fail; that their own result is too great is left to the group it is of.
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => false,
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::OuterReferenceColumn(_, _)
        | Expr::Literal(_, _)
        | Expr::Placeholder(_)
        | Expr::ScalarVariable(_, _)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::InList(_)
        | Expr::TryCast(_)
        | Expr::GroupingSet(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::ScalarSubquery(_)
        | Expr::SetComparison(_) => false,
        _ => true,
    }
}

/// Whether computing a plan can fail for some of its rows, or for their number, subqueries included.
pub(crate) fn plan_can_fail(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let schema = match node {
            LogicalPlan::TableScan(_) | LogicalPlan::Limit(_) => return Ok(TreeNodeRecursion::Continue),
            node => merge_schema(&node.inputs()),
        };
        node.apply_expressions(|expr| {
            found |= can_fail(expr, &schema) || expr.exists(|part| Ok(is_of_many_rows(part)))?;
            Ok(stop_if(found))
        })?;
        Ok(stop_if(found))
    })?;
    Ok(found)
}

/// Whether a scalar subquery could have more rows than one.
fn is_of_many_rows(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(subquery) if !crate::decorrelate::has_one_row_at_most(&subquery.subquery))
}

fn stop_if(found: bool) -> TreeNodeRecursion {
    match found {
        true => TreeNodeRecursion::Stop,
        false => TreeNodeRecursion::Continue,
    }
}

/// [`can_fail`] of an expression that is planned.
///
/// # Arguments
/// - `schema`: the columns of the rows that it is computed of.
pub(crate) fn physical_can_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    physical_fails_itself(expr, schema)
        || expr
            .children()
            .into_iter()
            .any(|child| physical_can_fail(child, schema))
}

fn physical_fails_itself(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    if let Some(binary) = expr.downcast_ref::<PhysicalBinary>() {
        return !is_total(*binary.op());
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let from = cast.expr().data_type(schema);
        return from.map_or(true, |from| !is_total_cast(&from, cast.cast_type()));
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        let pattern = like.pattern().downcast_ref::<Literal>();
        return pattern.is_none_or(|pattern| !is_pattern(pattern.value()));
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return !TOTAL_FUNCTIONS.contains(&call.name());
    }
    let is_total = expr.is::<Column>()
        || expr.is::<Literal>()
        || expr.is::<NotExpr>()
        || expr.is::<IsNullExpr>()
        || expr.is::<IsNotNullExpr>()
        || expr.is::<InListExpr>()
        || expr.is::<CaseExpr>()
        || crate::ordered::is_ordered(expr);
    !is_total
}

/// Whether an operator has a result for all operands.
fn is_total(operator: Operator) -> bool {
    matches!(
        operator,
        Operator::And
            | Operator::Or
            | Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// Whether a cast has a result for all values.
fn is_total_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64, Int16, Int32, Int64, LargeUtf8, Null, Utf8, Utf8View};
    let digits = |whole: &DataType| match whole {
        Int16 => 5,
        Int32 => 10,
        _ => 19,
    };
    match (from, to) {
        (from, to) if from == to => true,
        (Null, _) => true,
        (Int16, Int32 | Int64) | (Int32, Int64) => true,
        (Int16 | Int32 | Int64, Float32 | Float64) | (Float32, Float64) => true,
        (Int16 | Int32 | Int64, Decimal128(precision, scale)) => *precision as i32 - *scale as i32 >= digits(from),
        (Decimal128(_, _), Float64) => true,
        (Decimal128(precision, scale), Decimal128(wide, more)) => {
            more >= scale && *wide as i32 - *more as i32 >= *precision as i32 - *scale as i32
        }
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | Utf8View) => true,
        (DataType::Timestamp(unit, _), DataType::Timestamp(other, _)) => unit == other,
        _ => false,
    }
}

/// Whether a pattern of LIKE is one: nothing is missing behind its last escape.
fn is_pattern(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Utf8(Some(pattern)) | ScalarValue::Utf8View(Some(pattern)) => {
            let escapes = pattern.chars().rev().take_while(|character| *character == '\\');
            escapes.count() % 2 == 0
        }
        value => value.is_null(),
    }
}

#[cfg(test)]
mod tests;
