//! Values that PostgreSQL takes for equal though their bits differ: `-0` and `0`, a month and 30 days, JSONB's 1 and 1.0.
//!
//! Arrow compares floats in IEEE 754's total order, in which the zeros are two values, and intervals field by field.
//! [`OneZero`] wraps what is compared, joined or ordered, once types are coerced; what is shown stays as it is. A
//! group's key of floats is shown as `0`: which sign stood in its first row must not decide (invariant 2). Which of
//! a group's equal intervals would be shown nothing can decide so: grouping by intervals is refused
//! ([`crate::keys`]).
//!
//! # Not here
//! Keys of stored tables have one zero as they are written: [`crate::dml`].

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use cenote_statestore::forms::json;
use cenote_statestore::forms::record::fields_of;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, JoinConstraint, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, Case, InList, InSubquery, ScalarFunction, Sort, WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

/// Wraps the floats that are compared.
#[derive(Debug)]
pub(crate) struct OneZero;

impl AnalyzerRule for OneZero {
    fn name(&self) -> &str {
        "one_zero"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }
}

fn of_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let node = crate::postgres::sets::of_columns(node, true)?.data;
    if matches!(
        node,
        LogicalPlan::Limit(_) | LogicalPlan::TableScan(_) | LogicalPlan::Values(_)
    ) {
        return Ok(Transformed::no(node));
    }
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    let compared = node.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|expr| {
            crate::keys::check_expression(&expr, &schema)?;
            of_expression(expr, &schema)
        })?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    })?;
    compared.transform_data(|node| of_keys(node, &schema))
}

/// Wraps the keys that a node compares by itself.
fn of_keys(node: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    let has_float = |exprs: &[Expr]| exprs.iter().any(|expr| is_float(expr, schema));
    crate::keys::check_node(&node, schema)?;
    match node {
        LogicalPlan::Aggregate(mut aggregate) if has_float(&aggregate.group_expr) => {
            for key in aggregate.group_expr.iter_mut().filter(|key| is_float(key, schema)) {
                let name = names.save(key);
                *key = name.restore(wrapped(key.clone(), schema));
            }
            Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
        }
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            for (left, right) in &mut join.on {
                if is_wrapped(left, schema) {
                    changed = true;
                    *left = wrapped(left.clone(), schema);
                    *right = wrapped(right.clone(), schema);
                }
            }
            if changed {
                // USING would have keys that are columns.
                join.join_constraint = JoinConstraint::On;
            }
            let node = LogicalPlan::Join(join);
            Ok(match changed {
                true => Transformed::yes(node),
                false => Transformed::no(node),
            })
        }
        LogicalPlan::Sort(mut sort) => {
            sort.expr = sort.expr.into_iter().map(|sort| of_order(sort, schema)).collect();
            Ok(Transformed::yes(LogicalPlan::Sort(sort)))
        }
        LogicalPlan::Distinct(Distinct::On(mut distinct)) => {
            let keys = distinct.on_expr.into_iter().map(|key| wrapped(key, schema));
            distinct.on_expr = keys.collect();
            let of_list = |sort: Sort| match sort.expr.get_type(schema) {
                Ok(DataType::List(_)) => of_order(sort, schema),
                _ => sort,
            };
            let order = distinct.sort_expr;
            distinct.sort_expr = order.map(|order| order.into_iter().map(of_list).collect());
            Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(distinct))))
        }
        LogicalPlan::Distinct(Distinct::All(input))
            if input.schema().fields().iter().any(|f| f.data_type().is_floating()) =>
        {
            let input = with_one_zero(input)?;
            Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::All(Arc::new(input)))))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// All columns of a plan, floats with one zero.
fn with_one_zero(input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let schema = input.schema().clone();
    let columns = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(datafusion::common::Column::new(qualifier.cloned(), field.name()));
        match field.data_type().is_floating() {
            true => wrapped(column, &schema).alias_qualified(qualifier.cloned(), field.name()),
            false => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(input).project(columns)?.build()
}

/// Wraps what an expression compares.
fn of_expression(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(op) && is_compared(&left, &right, schema) => {
            let (left, right) = (wrapped(*left, schema), wrapped(*right, schema));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
        }
        Expr::Between(between) if is_wrapped(&between.expr, schema) => Transformed::yes(Expr::Between(Between {
            expr: Box::new(wrapped(*between.expr, schema)),
            negated: between.negated,
            low: Box::new(wrapped(*between.low, schema)),
            high: Box::new(wrapped(*between.high, schema)),
        })),
        Expr::InList(list) if is_wrapped(&list.expr, schema) => Transformed::yes(Expr::InList(InList {
            expr: Box::new(wrapped(*list.expr, schema)),
            list: list.list.into_iter().map(|item| wrapped(item, schema)).collect(),
            negated: list.negated,
        })),
        Expr::AggregateFunction(AggregateFunction { func, mut params }) if params.distinct => {
            params.args = params.args.into_iter().map(|arg| wrapped(arg, schema)).collect();
            Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, params }))
        }
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, mut params } = *window;
            params.partition_by = params
                .partition_by
                .into_iter()
                .map(|key| wrapped(key, schema))
                .collect();
            params.order_by = params.order_by.into_iter().map(|sort| of_order(sort, schema)).collect();
            Transformed::yes(Expr::WindowFunction(Box::new(WindowFunction { fun, params })))
        }
        Expr::Case(case) if case.expr.as_ref().is_some_and(|expr| is_wrapped(expr, schema)) => {
            let wrap = |expr: Box<Expr>| Box::new(wrapped(*expr, schema));
            Transformed::yes(Expr::Case(Case {
                expr: case.expr.map(wrap),
                when_then_expr: case
                    .when_then_expr
                    .into_iter()
                    .map(|(when, then)| (wrap(when), then))
                    .collect(),
                else_expr: case.else_expr,
            }))
        }
        Expr::InSubquery(test) if is_float(&test.expr, schema) => {
            let inner = with_one_zero(test.subquery.subquery.clone())?;
            Transformed::yes(Expr::InSubquery(InSubquery {
                expr: Box::new(wrapped(*test.expr, schema)),
                subquery: test.subquery.with_plan(Arc::new(inner)),
                negated: test.negated,
            }))
        }
        Expr::ScalarFunction(call) if call.name() == "nullif" && call.args.iter().any(|arg| is_float(arg, schema)) => {
            let args = call.args.into_iter().map(|arg| wrapped(arg, schema)).collect();
            Transformed::yes(Expr::ScalarFunction(ScalarFunction { args, func: call.func }))
        }
        other => Transformed::no(other),
    })
}

fn of_order(sort: Sort, schema: &DFSchema) -> Sort {
    Sort {
        expr: ordered(sort.expr, schema),
        ..sort
    }
}

/// Whether the sign of a zero could decide a comparison.
fn is_compared(left: &Expr, right: &Expr, schema: &DFSchema) -> bool {
    is_wrapped(left, schema) && !is_not_zero(left) && !is_not_zero(right)
}

fn is_comparison(op: Operator) -> bool {
    op.supports_propagation() || matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// Whether the bits of equal values can differ.
fn is_wrapped(expr: &Expr, schema: &DFSchema) -> bool {
    is_float(expr, schema)
        || crate::structs::is_struct(expr, schema)
        || expr
            .get_type(schema)
            .is_ok_and(|data_type| crate::keys::keyless(&data_type).is_some())
}

pub(crate) fn is_float(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(data_type) if data_type.is_floating())
}

fn is_not_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) => *value != 0.0,
        Expr::Literal(ScalarValue::Float32(Some(value)), _) => *value != 0.0,
        _ => false,
    }
}

/// What ORDER BY goes by: as [`wrapped`]; of an array bytes, as NULLs among its elements are above all others wherever
/// NULL as a whole is to stand.
pub(crate) fn ordered(expr: Expr, schema: &DFSchema) -> Expr {
    match expr.get_type(schema) {
        Ok(DataType::List(_)) => crate::structs::order_of(expr),
        _ => wrapped(expr, schema),
    }
}

/// An expression whose zero is `0`, the length of an interval, the value of a JSONB; other types stay as they are.
pub(crate) fn wrapped(expr: Expr, schema: &DFSchema) -> Expr {
    match expr.get_type(schema) {
        Ok(DataType::Interval(_)) => return crate::spans::length_of(expr),
        Ok(data_type) if json::name_of(&data_type) == Some("jsonb") => return crate::json_parts::value_of(expr),
        Ok(data_type) if fields_of(&data_type).is_some() => return crate::structs::order_of(expr),
        _ => {}
    }
    let is_wrapped = matches!(&expr, Expr::ScalarFunction(call) if call.name() == NAME);
    let data_type = match expr.get_type(schema) {
        Ok(data_type) if data_type.is_floating() && !is_wrapped && !is_not_zero(&expr) => data_type,
        _ => return expr,
    };
    let function = Arc::new(ScalarUDF::from(PlainZero {
        signature: Signature::exact(vec![data_type], Volatility::Immutable),
    }));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![expr]))
}

const NAME: &str = "plain_zero";

/// `plain_zero(float)`: the float, `0` in the place of `-0`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PlainZero {
    signature: Signature,
}

impl ScalarUDFImpl for PlainZero {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments[0].clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(plain(array)),
            ColumnarValue::Scalar(value) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&plain(&value.to_array()?), 0)?)
            }
        })
    }
}

/// A sum with `0` is the other number, and `0` for both zeros.
pub(crate) fn plain(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float64 => Arc::new(
            array
                .as_primitive::<Float64Type>()
                .unary::<_, Float64Type>(|value| value + 0.0),
        ),
        DataType::Float32 => Arc::new(
            array
                .as_primitive::<Float32Type>()
                .unary::<_, Float32Type>(|value| value + 0.0),
        ),
        _ => array.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Float64Array;

    #[test]
    fn both_zeros_become_the_plain_one_and_nothing_else_changes() {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![
            Some(-0.0),
            Some(0.0),
            None,
            Some(-1.5),
            Some(f64::NAN),
        ]));
        let plain = plain(&array);
        let bits: Vec<_> = plain
            .as_primitive::<Float64Type>()
            .iter()
            .map(|value| value.map(f64::to_bits))
            .collect();
        let zero = Some(0f64.to_bits());
        assert_eq!(
            bits,
            [zero, zero, None, Some((-1.5f64).to_bits()), Some(f64::NAN.to_bits())]
        );
    }
}
