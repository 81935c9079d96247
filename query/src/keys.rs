//! Types whose equal values can look different, or that have no order here: what is refused over them.
//!
//! | Type | Equality | Order | As a key (GROUP BY, DISTINCT, MIN, MAX, PRIMARY KEY) |
//! |---|---|---|---|
//! | INTERVAL | by length ([`crate::spans`]) | by length | refused: which of `1 mon` and `30 days` would be shown? |
//! | JSONB | by value ([`crate::json_parts`]) | refused | refused: which of `1.0` and `1` would be shown? |
//! | JSON | none, as in PostgreSQL (42883) | none | none |
//! | REAL[], DOUBLE PRECISION[] | refused: `{0}` and `{-0}` | refused | refused |
//! | STRUCT with a field of JSON or JSONB | refused | refused | refused |
//! | STRUCT with a field of REAL, DOUBLE PRECISION or INTERVAL | by fields ([`crate::structs`]) | by fields | refused |
//! | other STRUCT | by fields, NULL equal to NULL | by fields, NULL above all | all but MIN and MAX |
//! | other arrays | by elements, NULL equal to NULL | in ORDER BY alone | all but MIN, MAX and DISTINCT in a call |
//!
//! NULLIF, GREATEST, LEAST and DISTINCT ON are refused over all of STRUCT.
//!
//! # Not here
//! Wrapping what is compared by a value of another type: [`crate::zeros`].

use arrow::datatypes::DataType;
use cenote_statestore::forms::json;
use cenote_statestore::forms::record::fields_of;
use cenote_statestore::{Error, ErrorKind};
use datafusion::common::DFSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{ScalarFunction, Sort};
use datafusion::logical_expr::{BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, Operator};

/// Functions that compare their arguments by themselves.
const COMPARING: [&str; 3] = ["nullif", "greatest", "least"];

/// The name of a type that cannot be a key; `None`: it can.
pub(crate) fn keyless(data_type: &DataType) -> Option<&str> {
    match data_type {
        DataType::Interval(_) => Some("interval"),
        DataType::List(item) if *item.data_type() == DataType::Float64 => Some("double precision[]"),
        DataType::List(item) if *item.data_type() == DataType::Float32 => Some("real[]"),
        DataType::List(item) if fields_of(item.data_type()).is_some() => keyless(item.data_type()).map(|_| "record[]"),
        DataType::Struct(fields) if fields_of(data_type).is_some() => {
            let is_odd = |data_type: &DataType| data_type.is_floating() || keyless(data_type).is_some();
            let has_odd = fields.iter().any(|field| is_odd(field.data_type()));
            has_odd.then_some("record")
        }
        other => json::name_of(other),
    }
}

/// Whether a STRUCT has a field, at any depth, whose type has no order.
fn has_json(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) => has_json(item.data_type()),
        DataType::Struct(_) if json::name_of(data_type).is_some() => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_json(field.data_type())),
        _ => false,
    }
}

fn keyless_expr(expr: &Expr, schema: &DFSchema) -> Option<String> {
    let data_type = expr.get_type(schema).ok()?;
    keyless(&data_type).map(str::to_string)
}

/// The name of an expression's type, if values of it have no order.
fn unordered(expr: &Expr, schema: &DFSchema) -> Option<String> {
    let data_type = expr.get_type(schema).ok()?;
    match fields_of(&data_type) {
        Some(_) => has_json(&data_type).then(|| "record".to_string()),
        None => keyless(&data_type)
            .filter(|name| *name != "interval")
            .map(str::to_string),
    }
}

/// The error of a clause over values of a type that is not built.
pub(crate) fn refused(what: &str, name: &str) -> DataFusionError {
    let message = format!("cannot plan query: {what} over {name} is not supported yet");
    let reason = match name {
        "interval" => "equal intervals can look different, such as 1 mon and 30 days",
        "jsonb" => "equal values can look different, such as 1.0 and 1",
        "record" => "it is not built for structs, or a field has a type without it",
        "real[]" | "double precision[]" => "equal values can look different, such as {0} and {-0}",
        name if name.starts_with("STRUCT<") && !name.ends_with("[]") => "it is not built for structs",
        name if name.ends_with("[]") => "NULLs in arrays are ordered otherwise",
        _ => "values of the type have neither equality nor order",
    };
    let error = Error::new(ErrorKind::Unsupported, "SQL-0312", message).fact("reason", reason);
    crate::provider::outside(error.attempt("use a cast to text"))
}

/// The error of an operator that PostgreSQL does not have.
pub(crate) fn no_operator(left: &str, op: impl std::fmt::Display, right: &str) -> DataFusionError {
    let message = format!("operator does not exist: {left} {op} {right}");
    let error = Error::new(ErrorKind::Invalid, "SQL-0313", message).sqlstate("42883");
    crate::provider::outside(error.attempt("cast both sides to text, or to jsonb"))
}

/// Refuses nodes that would choose one of several equal values, or order values without an order.
///
/// # Errors
/// 0A000: names the clause and the type.
pub(crate) fn check_node(node: &LogicalPlan, schema: &DFSchema) -> Result<()> {
    match node {
        LogicalPlan::Aggregate(aggregate) => {
            first_of(&aggregate.group_expr, schema).map_or(Ok(()), |name| Err(refused("GROUP BY or DISTINCT", &name)))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let mut names = input
                .schema()
                .fields()
                .iter()
                .filter_map(|field| keyless(field.data_type()));
            names.next().map_or(Ok(()), |name| Err(refused("DISTINCT", name)))
        }
        LogicalPlan::Distinct(Distinct::On(on)) => {
            if on.on_expr.iter().any(|expr| crate::structs::is_struct(expr, schema)) {
                return Err(refused("DISTINCT ON", "record"));
            }
            first_of(&on.on_expr, schema).map_or(Ok(()), |name| Err(refused("DISTINCT ON", &name)))
        }
        LogicalPlan::Sort(sort) => check_order(&sort.expr, schema),
        LogicalPlan::Join(join) => {
            let mut names = join.on.iter().filter_map(|(left, _)| unordered(left, schema));
            match names.find(|name| name != "jsonb") {
                Some(name) => Err(refused("JOIN", &name)),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn first_of(exprs: &[Expr], schema: &DFSchema) -> Option<String> {
    exprs.iter().find_map(|expr| keyless_expr(expr, schema))
}

/// Refuses to order by values that have no order.
///
/// # Errors
/// 0A000: names the type.
pub(crate) fn check_order(order: &[Sort], schema: &DFSchema) -> Result<()> {
    let name = order.iter().find_map(|sort| unordered(&sort.expr, schema));
    name.map_or(Ok(()), |name| Err(refused("ORDER BY", &name)))
}

/// Refuses expressions that compare values in a way their type does not have.
///
/// # Errors
/// 0A000: names the clause and the type. 42883: JSON has no operators of comparison.
pub(crate) fn check_expression(expr: &Expr, schema: &DFSchema) -> Result<()> {
    match expr {
        Expr::BinaryExpr(binary) => check_comparison(binary, schema),
        Expr::Between(between) => {
            check_array(&between.expr, schema, "BETWEEN")?;
            unordered(&between.expr, schema).map_or(Ok(()), |name| Err(refused("BETWEEN", &name)))
        }
        Expr::InList(list) => match unordered(&list.expr, schema).filter(|name| name != "jsonb") {
            Some(name) if name.ends_with("[]") || name == "record" => Err(refused("IN", &name)),
            Some(name) => Err(no_operator(&name, Operator::Eq, &name)),
            None => Ok(()),
        },
        Expr::InSubquery(list) => {
            keyless_expr(&list.expr, schema).map_or(Ok(()), |name| Err(refused("IN with a subquery", &name)))
        }
        Expr::AggregateFunction(call) => {
            check_order(&call.params.order_by, schema)?;
            if call.params.distinct {
                for argument in &call.params.args {
                    check_array(argument, schema, &format!("{}(DISTINCT)", call.func.name()))?;
                }
            }
            match first_of(&call.params.args, schema).filter(|_| call.params.distinct) {
                Some(name) => Err(refused(&format!("{}(DISTINCT)", call.func.name()), &name)),
                None => Ok(()),
            }
        }
        Expr::WindowFunction(call) => {
            check_order(&call.params.order_by, schema)?;
            let mut names = call.params.partition_by.iter().filter_map(|key| unordered(key, schema));
            match names.find(|name| name != "jsonb") {
                Some(name) => Err(refused("PARTITION BY", &name)),
                None => Ok(()),
            }
        }
        Expr::ScalarFunction(call) => check_call(call, schema),
        _ => Ok(()),
    }
}

fn check_comparison(binary: &BinaryExpr, schema: &DFSchema) -> Result<()> {
    let is_equality = matches!(
        binary.op,
        Operator::Eq | Operator::NotEq | Operator::IsDistinctFrom | Operator::IsNotDistinctFrom
    );
    let is_order = matches!(binary.op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq);
    let (left, right) = (unordered(&binary.left, schema), unordered(&binary.right, schema));
    match (left.as_deref(), right.as_deref()) {
        (Some("jsonb"), Some("jsonb")) if is_equality => Ok(()),
        (Some("jsonb"), Some("jsonb")) if is_order => Err(refused(&binary.op.to_string(), "jsonb")),
        (Some("record"), Some("record")) if is_equality || is_order => Err(refused(&binary.op.to_string(), "record")),
        (Some(left), Some(right)) if left.ends_with("[]") && left == right && (is_equality || is_order) => {
            Err(refused(&binary.op.to_string(), left))
        }
        (Some(left), Some(right)) if is_equality || is_order => Err(no_operator(left, binary.op, right)),
        _ if is_order => check_array(&binary.left, schema, &binary.op.to_string()),
        _ => Ok(()),
    }
}

/// Refuses to order arrays, whose NULLs DataFusion puts first.
fn check_array(expr: &Expr, schema: &DFSchema, what: &str) -> Result<()> {
    match expr.get_type(schema) {
        Ok(data_type @ DataType::List(_)) => Err(refused(what, &crate::types::type_name(&data_type))),
        _ => Ok(()),
    }
}

fn check_call(call: &ScalarFunction, schema: &DFSchema) -> Result<()> {
    if COMPARING.contains(&call.name()) && call.args.iter().any(|arg| crate::structs::is_struct(arg, schema)) {
        return Err(refused(call.name(), "record"));
    }
    match first_of(&call.args, schema).filter(|_| COMPARING.contains(&call.name())) {
        Some(name) => Err(refused(call.name(), &name)),
        None => Ok(()),
    }
}
