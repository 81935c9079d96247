//! PostgreSQL's typing rules, as a rewrite of the plan before DataFusion coerces types.
//!
//! - A difference of dates is INTEGER; `nullif` has its first argument's type; texts are of one type.
//! - The columns of a UNION have the type that its branches are coerced to, before they are.
//! - A parameter that is cast is of the type it is cast to.
//! - A cast of a number literal is a literal: functions such as `round` look for one to know their result's type.
//! - NUMERIC literals become floats by their digits, rounded once.
//! - Text literals cast to BYTEA, UUID, TIME or INTERVAL are read in the input form of that type.
//!
//! Rewritten expressions keep their names, by which the nodes above know them.

use crate::casts::named::NamedCast;
use crate::casts::text::is_read_here;
use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Union};
use datafusion::optimizer::analyzer::type_coercion::coerce_union_schema;
use datafusion::prelude::cast;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// Applies PostgreSQL's typing rules to a plan.
pub(crate) fn apply_rules(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        // The counts of LIMIT and OFFSET have a type of their own.
        if matches!(node, LogicalPlan::Limit(_) | LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(node));
        }
        if let LogicalPlan::Union(Union { inputs, .. }) = node {
            let schema = Arc::new(coerce_union_schema(&inputs)?);
            return Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema })));
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let node = node
            .map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| rewrite(expr, &schema))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })?
            .data;
        Ok(Transformed::yes(node.recompute_schema()?))
    })?;
    Ok(rewritten.data)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match &expr {
        Expr::Cast(Cast { expr: inner, field }) => match inner.as_ref() {
            Expr::Literal(value, metadata) => match cast_literal(value, field.data_type())? {
                Some(value) => Ok(Transformed::yes(Expr::Literal(value, metadata.clone()))),
                None => Ok(Transformed::no(expr)),
            },
            Expr::Placeholder(_) => Ok(Transformed::yes(with_type_of_parameter(expr))),
            _ => Ok(Transformed::no(expr)),
        },
        Expr::Negative(inner) => match inner.as_ref() {
            Expr::Literal(ScalarValue::Int32(Some(value)), metadata) => {
                let negated = ScalarValue::Int32(value.checked_neg());
                Ok(Transformed::yes(Expr::Literal(negated, metadata.clone())))
            }
            _ => Ok(Transformed::no(expr)),
        },
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Minus,
            right,
        }) if is_date(left, schema) && is_date(right, schema) => Ok(Transformed::yes(cast(expr, DataType::Int32))),
        Expr::InList(_) | Expr::Between(_) => Ok(Transformed::yes(crate::unknowns::in_lists(expr, schema)?)),
        Expr::ScalarFunction(call) if crate::arrays::is_replaced(call, schema) => {
            Ok(Transformed::yes(crate::arrays::of_call(call)?))
        }
        Expr::ScalarFunction(call) => Ok(match rewrite_call(call, &expr, schema) {
            Some(rewritten) => Transformed::yes(rewritten),
            None => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    }
}

/// A parameter that is cast is of the type it is cast to.
fn with_type_of_parameter(expr: Expr) -> Expr {
    match expr {
        Expr::Cast(Cast { expr: inner, field }) => match *inner {
            Expr::Placeholder(parameter) if parameter.field.is_none() => {
                let typed = Placeholder::new_with_field(parameter.id, Some(field.clone()));
                Expr::Cast(Cast::new_from_field(Box::new(Expr::Placeholder(typed)), field))
            }
            inner => Expr::Cast(Cast::new_from_field(Box::new(inner), field)),
        },
        other => other,
    }
}

fn is_date(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Date32))
}

/// A call with PostgreSQL's type; `None`: it has it.
fn rewrite_call(call: &ScalarFunction, expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    if let Some(cast) = NamedCast::cast_of(call) {
        return Some(with_type_of_parameter(cast));
    }
    let given = expr.get_type(schema).ok()?;
    let wanted = match (call.name(), &given) {
        ("nullif", _) => call.args.first()?.get_type(schema).ok()?,
        (_, DataType::Utf8View) => DataType::Utf8,
        _ => return None,
    };
    (wanted != given && wanted != DataType::Null).then(|| cast(expr.clone(), wanted))
}

/// The literal that a cast of a literal is; `None`: the cast is left to DataFusion.
fn cast_literal(value: &ScalarValue, to: &DataType) -> Result<Option<ScalarValue>> {
    match (value, to) {
        (ScalarValue::Utf8(Some(text)), to) if *to == DataType::Binary || is_read_here(to) => {
            let value = crate::pgtext::parse_scalar(Some(text), to, &crate::pgtext::TextStyle::default());
            value.map(Some).map_err(crate::provider::outside)
        }
        (ScalarValue::Int64(Some(value)), DataType::Int32) => {
            Ok(i32::try_from(*value).ok().map(|value| ScalarValue::Int32(Some(value))))
        }
        (ScalarValue::Decimal128(Some(_), _, _), DataType::Float64) => Ok(value
            .to_string()
            .parse()
            .ok()
            .map(|value| ScalarValue::Float64(Some(value)))),
        (ScalarValue::Decimal128(Some(_), _, _), DataType::Float32) => Ok(value
            .to_string()
            .parse()
            .ok()
            .map(|value| ScalarValue::Float32(Some(value)))),
        _ => Ok(None),
    }
}
