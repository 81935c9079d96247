//! PostgreSQL's typing rules, as a rewrite of the plan before DataFusion coerces types.
//!
//! - A difference of dates is INTEGER; `nullif` has its first argument's type; texts are of one type.
//! - The columns of a UNION have the type that its branches are coerced to, before they are.
//! - A parameter that is cast is of the type it is cast to; others are of the type that their place tells ([`parameters`]).
//! - A cast of a number literal is a literal: functions such as `round` look for one to know their result's type.
//! - NUMERIC literals become floats by their digits, rounded once.
//! - Text literals that are cast are read in the input form of that type.
//! - Values of two types side by side are brought together ([`mixed`]); formats of times are PostgreSQL's ([`patterns`]).
//! - ARRAY_AGG, STRING_AGG and COUNT of different rows are [`crate::gathered`].
//!
//! Rewritten expressions keep their names, by which the nodes above know them.

mod mixed;
mod outers;
mod parameters;
pub(crate) mod patterns;
pub(crate) mod sets;

use crate::arithmetic::{is_negated_here, negative};
use crate::casts::named::{NamedCast, OpenNumeric};
use crate::casts::text::reads_text;
use arrow::datatypes::{DataType, TimeUnit};
use cenote_statestore::{Error, ErrorKind};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, Union, WindowFrame, WindowFrameBound,
    WindowFrameUnits,
};
use datafusion::optimizer::analyzer::type_coercion::coerce_union_schema;
use datafusion::prelude::cast;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// DISTINCT as GROUP BY of all columns: DataFusion drops it where a key of the input repeats.
fn grouped(input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    let columns = input.schema().columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Aggregate(Aggregate::try_new(input, columns, Vec::new())?))
}

/// Functions with a format of times as their second argument.
const FORMATTING: [&str; 3] = ["to_char", "to_date", "to_timestamp"];

/// Applies PostgreSQL's typing rules to a plan.
pub(crate) fn apply_rules(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = plan
        .transform_up_with_subqueries(|node| sets::of_columns(node, false))?
        .data;
    typed(parameters::typed(plan)?)
}

/// The rules from the tables upwards, and from a query to the subqueries that take its columns.
fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_down_up(outers::left_first, |node| {
        let schema = merge_schema(&node.inputs());
        let node = node.map_subqueries(|subquery| Ok(Transformed::yes(typed(outers::retyped(subquery, &schema)?)?)))?;
        let node = node.data;
        // The counts of LIMIT and OFFSET have a type of their own.
        if matches!(node, LogicalPlan::Limit(_) | LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(node));
        }
        if let LogicalPlan::Union(Union { inputs, .. }) = node {
            let inputs = mixed::unmixed_union(inputs)?;
            let schema = Arc::new(coerce_union_schema(&inputs)?);
            return Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema })));
        }
        if let LogicalPlan::Distinct(Distinct::All(input)) = node {
            return Ok(Transformed::yes(grouped(input)?));
        }
        let names = NamePreserver::new(&node);
        let node = node
            .map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|expr| {
                    let expr = mixed::unmixed(expr, &schema)?;
                    Ok(Transformed::yes(rewrite(expr, &schema)?.data))
                })?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })?
            .data;
        Ok(Transformed::yes(node.recompute_schema()?))
    })?;
    Ok(rewritten.data)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match &expr {
        // Numbers without a sign have no type in SQL.
        Expr::Column(column) if column.name != Aggregate::INTERNAL_GROUPING_ID && is_unsigned(&expr, schema) => {
            Ok(Transformed::yes(cast(expr, DataType::Int64)))
        }
        Expr::Cast(Cast { expr: inner, field }) => match inner.as_ref() {
            Expr::Literal(value, metadata) => match cast_literal(value, field.data_type())? {
                Some(value) => Ok(Transformed::yes(Expr::Literal(value, metadata.clone()))),
                None => Ok(Transformed::no(expr)),
            },
            Expr::Placeholder(_) => Ok(Transformed::yes(with_type_of_parameter(expr))),
            _ => Ok(Transformed::no(expr)),
        },
        Expr::Negative(inner) => match inner.as_ref() {
            Expr::Literal(value, metadata) => match negated(value) {
                Some(value) => Ok(Transformed::yes(Expr::Literal(value, metadata.clone()))),
                None if is_negated_here(&value.data_type()) => Ok(Transformed::yes(negative(*inner.clone()))),
                None => Ok(Transformed::no(expr)),
            },
            inner if inner.get_type(schema).is_ok_and(|found| is_negated_here(&found)) => {
                Ok(Transformed::yes(negative(inner.clone())))
            }
            _ => Ok(Transformed::no(expr)),
        },
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Minus,
            right,
        }) if is_date(left, schema) && is_date(right, schema) => Ok(Transformed::yes(cast(expr, DataType::Int32))),
        Expr::WindowFunction(window) if window.fun.name() == "row_number" => {
            // It has no frame, and DataFusion's default one is not there for every type of order.
            let (unbounded, current) = (ScalarValue::UInt64(None), WindowFrameBound::CurrentRow);
            let rows = WindowFrame::new_bounds(WindowFrameUnits::Rows, WindowFrameBound::Preceding(unbounded), current);
            let mut window = window.clone();
            window.params.window_frame = rows;
            Ok(Transformed::yes(Expr::WindowFunction(window)))
        }
        Expr::AggregateFunction(call) => match crate::gathered::of_call(call, schema)? {
            Some(gathered) => Ok(Transformed::yes(gathered)),
            None => Ok(Transformed::no(expr)),
        },
        Expr::ScalarFunction(call) if FORMATTING.contains(&call.name()) => with_format(call, &expr, schema),
        Expr::IsNull(inner) if crate::structs::is_struct(inner, schema) => {
            Ok(Transformed::yes(crate::structs::null_test(*inner.clone(), false)))
        }
        Expr::IsNotNull(inner) if crate::structs::is_struct(inner, schema) => {
            Ok(Transformed::yes(crate::structs::null_test(*inner.clone(), true)))
        }
        Expr::InList(_) | Expr::Between(_) => Ok(Transformed::yes(crate::unknowns::in_lists(expr, schema)?)),
        Expr::ScalarFunction(call) if crate::arrays::is_replaced(call, schema) => {
            Ok(Transformed::yes(crate::arrays::of_call(call)?))
        }
        Expr::ScalarFunction(call) => Ok(match rewrite_call(call, &expr, schema) {
            Some(rewritten) => Transformed::yes(constant_cast(rewritten)?),
            None => Transformed::no(expr),
        }),
        _ => Ok(Transformed::no(expr)),
    }
}

/// A literal with a sign, of the least type that it fits; `None`: the operator computes it.
fn negated(value: &ScalarValue) -> Option<ScalarValue> {
    match value {
        ScalarValue::Int32(Some(i32::MIN)) => Some(ScalarValue::Int64(Some(-i64::from(i32::MIN)))),
        ScalarValue::Int32(Some(value)) => Some(ScalarValue::Int32(Some(-value))),
        // One more than the greatest BIGINT has without its sign another type.
        ScalarValue::Decimal128(Some(value), _, 0) if *value == -i128::from(i64::MIN) => {
            Some(ScalarValue::Int64(Some(i64::MIN)))
        }
        ScalarValue::Decimal128(Some(value), precision, scale) => {
            Some(ScalarValue::Decimal128(Some(-value), *precision, *scale))
        }
        _ => None,
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

fn is_unsigned(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(data_type) if data_type.is_unsigned_integer())
}

fn is_date(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Date32))
}

/// A call with its format in the library's terms.
///
/// # Errors
/// 0A000: the format is no literal, or has a part without a counterpart.
fn with_format(call: &ScalarFunction, expr: &Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let name = call.name();
    let [value, format] = call.args.as_slice() else {
        return Ok(match rewrite_call(call, expr, schema) {
            Some(rewritten) => Transformed::yes(rewritten),
            None => Transformed::no(expr.clone()),
        });
    };
    let refused = |what: String| {
        let message = format!("cannot compute {name}(): {what} is not supported yet");
        let error = Error::new(ErrorKind::Unsupported, "SQL-0301", message);
        Err(crate::provider::outside(error.attempt("'YYYY-MM-DD HH24:MI:SS.US'")))
    };
    let Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) = format else {
        return refused("a format that is no constant".into());
    };
    let format = match patterns::chrono_format(text) {
        Ok(format) => format,
        Err(part) => return refused(format!("\"{part}\" in a format")),
    };
    let format = Expr::Literal(ScalarValue::Utf8(Some(format)), metadata.clone());
    let call = ScalarFunction::new_udf(call.func.clone(), vec![value.clone(), format]);
    let expr = Expr::ScalarFunction(call.clone());
    Ok(Transformed::yes(rewrite_call(&call, &expr, schema).unwrap_or(expr)))
}

/// A call with PostgreSQL's type; `None`: it has it.
fn rewrite_call(call: &ScalarFunction, expr: &Expr, schema: &DFSchema) -> Option<Expr> {
    if let Some(cast) = NamedCast::cast_of(call) {
        return Some(with_type_of_parameter(cast));
    }
    if let Some(cast) = expr
        .get_type(schema)
        .ok()
        .and_then(|to| OpenNumeric::cast_of(call, &to))
    {
        return Some(cast);
    }
    let given = expr.get_type(schema).ok()?;
    let wanted = match (call.name(), &given) {
        ("nullif", _) => call.args.first()?.get_type(schema).ok()?,
        (_, DataType::Utf8View) => DataType::Utf8,
        (_, unsigned) if unsigned.is_unsigned_integer() => DataType::Int64,
        (_, DataType::Timestamp(TimeUnit::Nanosecond, zone)) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        _ => return None,
    };
    (wanted != given && wanted != DataType::Null).then(|| cast(expr.clone(), wanted))
}

/// A cast of a literal as the literal that it is.
fn constant_cast(expr: Expr) -> Result<Expr> {
    if let Expr::Cast(Cast { expr: inner, field }) = &expr
        && let Expr::Literal(value, metadata) = inner.as_ref()
        && let Some(value) = cast_literal(value, field.data_type())?
    {
        return Ok(Expr::Literal(value, metadata.clone()));
    }
    Ok(expr)
}

/// The literal that a cast of a literal is; `None`: the cast is left to DataFusion.
fn cast_literal(value: &ScalarValue, to: &DataType) -> Result<Option<ScalarValue>> {
    match (value, to) {
        (ScalarValue::Utf8(Some(text)), to) if reads_text(to) => {
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
