//! Values of two types side by side: NUMERIC beside a float is compared and computed as DOUBLE PRECISION, and DATE
//! beside a timestamp as that, as in PostgreSQL. Structs become of one type by the places of their fields.
//!
//! DataFusion makes NUMERIC of floats, which cuts digits and fails on NaN, and timestamps in nanoseconds of both, which
//! end in the year 2262. A quoted text beside other values is read as one of their type.

use crate::casts::text::reads_text;
use crate::unknowns::{decided_type, quoted_text, read};
use arrow::datatypes::DataType;
use cenote_statestore::forms::record::fields_of;
use cenote_statestore::{Error, ErrorKind};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, Case, InList, ScalarFunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Projection,
};
use datafusion::prelude::cast;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// Functions whose arguments are values of one kind.
const OF_ONE_KIND: [&str; 3] = ["coalesce", "greatest", "least"];

/// The function whose arguments are compared, and whose result is the first of them.
const NULLIF: &str = "nullif";

/// Functions of timestamps that DataFusion gives nanoseconds when they are given a date.
const OF_TIMESTAMPS: [&str; 1] = ["date_bin"];

/// An expression with its operands brought together.
pub(super) fn unmixed(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    Ok(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if op.supports_propagation() || op.is_numerical_operators() =>
        {
            let sides = match op.is_numerical_operators() {
                true => [*left, *right],
                false => all_of(with_texts(vec![*left, *right], schema, None)?),
            };
            let [left, right] = together(sides, schema, !op.is_numerical_operators());
            let [left, right] = with_doubles([left, right], schema);
            Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
                && crate::structs::is_struct(&left, schema) =>
        {
            let [left, right] = together([*left, *right], schema, true);
            Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
        }
        Expr::Between(between) => {
            let all = vec![*between.expr, *between.low, *between.high];
            let all = all_of(with_texts(all, schema, None)?);
            let [expr, low, high] = together(all, schema, true);
            let [expr, low, high] = with_doubles([expr, low, high], schema);
            Expr::Between(Between::new(
                Box::new(expr),
                between.negated,
                Box::new(low),
                Box::new(high),
            ))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let mut all = vec![*expr];
            all.extend(list);
            let all = with_texts(all, schema, None)?;
            let mut all = together_all(all, schema, true);
            let expr = Box::new(all.remove(0));
            Expr::InList(InList {
                expr,
                list: all,
                negated,
            })
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if OF_ONE_KIND.contains(&func.name()) => {
            let args = with_texts(args, schema, Some(&func.name().to_uppercase()))?;
            let args = together_all(args, schema, true);
            Expr::ScalarFunction(ScalarFunction { func, args })
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == NULLIF => {
            let args = with_texts(args, schema, Some("NULLIF"))?;
            let is_float = matches!(args[0].get_type(schema), Ok(found) if found.is_floating());
            let args = if is_float {
                together_all(args, schema, false)
            } else {
                args
            };
            Expr::ScalarFunction(ScalarFunction { func, args })
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if OF_TIMESTAMPS.contains(&func.name()) => {
            let to = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
            let of_dates = |arg: Expr| match arg.get_type(schema) {
                Ok(DataType::Date32) => cast(arg, to.clone()),
                _ => arg,
            };
            let args = args.into_iter().map(of_dates).collect();
            Expr::ScalarFunction(ScalarFunction { func, args })
        }
        Expr::Case(case) => Expr::Case(of_case(case, schema)?),
        other => other,
    })
}

/// As many expressions as there were.
fn all_of<const N: usize>(exprs: Vec<Expr>) -> [Expr; N] {
    exprs.try_into().expect("as many as before")
}

/// Expressions whose quoted texts have the type of what they stand beside.
///
/// # Arguments
/// - `what`: the construct that takes no TEXT beside other types; `None`: it is for others to tell.
///
/// # Errors
/// 22P02 and its like: a quoted text is none of the type. 42804: a TEXT that is not quoted beside another type.
fn with_texts(exprs: Vec<Expr>, schema: &DFSchema, what: Option<&str>) -> Result<Vec<Expr>> {
    let types: Vec<Option<DataType>> = exprs
        .iter()
        .map(|expr| match quoted_text(expr) {
            Some(_) => None,
            None => expr.get_type(schema).ok(),
        })
        .collect();
    if let Some(what) = what {
        check_texts(types.iter().flatten(), what)?;
    }
    if types.iter().all(Option::is_some) || types.iter().flatten().any(|found| fields_of(found).is_some()) {
        return Ok(exprs);
    }
    let Some(decided) = decided_type(types.iter().flatten()) else {
        return Ok(exprs);
    };
    let typed = exprs.into_iter().map(|expr| match &expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => {
            Ok(Expr::Literal(read(text, &decided)?, metadata.clone()))
        }
        _ => Ok(expr),
    });
    typed.collect()
}

/// Refuses TEXT beside a type that it is not brought together with.
fn check_texts<'a>(types: impl Iterator<Item = &'a DataType>, what: &str) -> Result<()> {
    let (texts, others): (Vec<&DataType>, Vec<&DataType>) = types
        .filter(|found| **found != DataType::Null)
        .partition(|found| **found == DataType::Utf8);
    match others.iter().find(|found| reads_text(found)) {
        Some(other) if !texts.is_empty() => {
            let other = crate::types::type_name(other);
            let message = format!("{what} types text and {other} cannot be matched");
            let error = Error::new(ErrorKind::Invalid, "SQL-0307", message).sqlstate("42804");
            Err(crate::provider::outside(error.attempt("cast one of them")))
        }
        _ => Ok(()),
    }
}

fn of_case(case: Case, schema: &DFSchema) -> Result<Case> {
    let (whens, mut thens): (Vec<_>, Vec<Expr>) = case
        .when_then_expr
        .into_iter()
        .map(|(when, then)| (when, *then))
        .unzip();
    let has_else = case.else_expr.is_some();
    thens.extend(case.else_expr.map(|expr| *expr));
    let mut thens = together_all(with_texts(thens, schema, Some("CASE"))?, schema, true);
    let else_expr = has_else.then(|| thens.pop()).flatten().map(Box::new);
    Ok(Case {
        expr: case.expr,
        when_then_expr: whens.into_iter().zip(thens.into_iter().map(Box::new)).collect(),
        else_expr,
    })
}

fn together<const N: usize>(exprs: [Expr; N], schema: &DFSchema, dates: bool) -> [Expr; N] {
    let all = together_all(exprs.into(), schema, dates);
    all.try_into().expect("as many as before")
}

/// A REAL beside a whole number, both as DOUBLE PRECISION, which holds more of the whole numbers.
fn with_doubles<const N: usize>(exprs: [Expr; N], schema: &DFSchema) -> [Expr; N] {
    let types = exprs.each_ref().map(|expr| expr.get_type(schema).ok());
    let has = |is: fn(&DataType) -> bool| types.iter().flatten().any(is);
    let is_real = |found: &DataType| *found == DataType::Float32;
    if !(has(is_real) && has(DataType::is_integer)) {
        return exprs;
    }
    let mut types = types.into_iter();
    exprs.map(|expr| match types.next().flatten() {
        Some(found) if is_real(&found) || found.is_integer() => cast(expr, DataType::Float64),
        _ => expr,
    })
}

/// Expressions that are compared or chosen from, in one type where PostgreSQL's differs from DataFusion's.
///
/// # Arguments
/// - `dates`: whether DATE is to become a timestamp beside one; in arithmetic it stays.
fn together_all(exprs: Vec<Expr>, schema: &DFSchema, dates: bool) -> Vec<Expr> {
    let types: Vec<Option<DataType>> = exprs.iter().map(|expr| expr.get_type(schema).ok()).collect();
    let mut casts: Vec<Option<DataType>> = targets(&types, dates);
    let mut structs = types.iter().flatten().filter(|found| fields_of(found).is_some());
    if let Some(first) = structs.next() {
        let is_text = |expr: &Expr| matches!(expr, Expr::Literal(ScalarValue::Utf8(Some(_)), _));
        let texts = exprs.iter().zip(&mut casts).filter(|(expr, _)| is_text(expr));
        texts.for_each(|(_, to)| *to = Some(first.clone()));
    }
    let pairs = exprs.into_iter().zip(casts);
    pairs
        .map(|(expr, to)| match to {
            Some(to) => cast(expr, to),
            None => expr,
        })
        .collect()
}

/// For each of several types that meet, the type that it becomes; `None`: it stays.
fn targets(types: &[Option<DataType>], dates: bool) -> Vec<Option<DataType>> {
    let has_float = types.iter().flatten().any(DataType::is_floating);
    let timestamp = types
        .iter()
        .flatten()
        .find(|found| matches!(found, DataType::Timestamp(_, _)));
    let mut structs = types.iter().flatten().filter(|found| fields_of(found).is_some());
    let structure = structs.next().and_then(|first| {
        let first = Ok(first.clone());
        let common = structs.fold(first, |common, other| crate::structs::common_type(&common?, other));
        common.ok()
    });
    let target = |found: &Option<DataType>| match found {
        Some(data_type @ DataType::Struct(_)) if fields_of(data_type).is_some() => {
            structure.clone().filter(|to| found.as_ref() != Some(to))
        }
        Some(DataType::Decimal128(_, _)) if has_float => Some(DataType::Float64),
        Some(DataType::Date32) if dates => timestamp.cloned(),
        _ => None,
    };
    types.iter().map(target).collect()
}

/// The branches of a UNION, their columns brought together.
pub(super) fn unmixed_union(inputs: Vec<Arc<LogicalPlan>>) -> Result<Vec<Arc<LogicalPlan>>> {
    let inputs = with_texts_of_union(inputs)?;
    let width = inputs.first().map_or(0, |input| input.schema().fields().len());
    let mut casts: Vec<Vec<Option<DataType>>> = vec![Vec::new(); inputs.len()];
    for column in 0..width {
        let types: Vec<_> = inputs
            .iter()
            .map(|input| {
                input
                    .schema()
                    .fields()
                    .get(column)
                    .map(|field| field.data_type().clone())
            })
            .collect();
        for (of_input, to) in casts.iter_mut().zip(targets(&types, true)) {
            of_input.push(to);
        }
    }
    let pairs = inputs.into_iter().zip(casts);
    pairs
        .map(|(input, casts)| match casts.iter().any(Option::is_some) {
            true => cast_columns(input, casts).map(Arc::new),
            false => Ok(input),
        })
        .collect()
}

/// The branches of a UNION, their quoted texts with the types of the columns that they stand in.
fn with_texts_of_union(mut inputs: Vec<Arc<LogicalPlan>>) -> Result<Vec<Arc<LogicalPlan>>> {
    let width = inputs.first().map_or(0, |input| input.schema().fields().len());
    for column in 0..width {
        let types = inputs.iter().map(|input| match literal_of(input, column) {
            Some(_) => None,
            None => input
                .schema()
                .fields()
                .get(column)
                .map(|field| field.data_type().clone()),
        });
        let types: Vec<Option<DataType>> = types.collect();
        check_texts(types.iter().flatten(), "UNION")?;
        let Some(decided) = decided_type(types.iter().flatten()).filter(|_| types.iter().any(Option::is_none)) else {
            continue;
        };
        for input in &mut inputs {
            if let Some(text) = literal_of(input, column) {
                let value = read(text, &decided)?;
                *input = Arc::new(with_literal(input, column, value)?);
            }
        }
    }
    Ok(inputs)
}

/// The quoted text that a column of a SELECT is.
fn literal_of(plan: &LogicalPlan, column: usize) -> Option<&str> {
    match plan {
        LogicalPlan::Projection(projection) => quoted_text(projection.expr.get(column)?),
        _ => None,
    }
}

/// A SELECT with a constant in the place of one of its columns.
fn with_literal(plan: &LogicalPlan, column: usize, value: ScalarValue) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = plan else {
        return Ok(plan.clone());
    };
    let mut exprs = projection.expr.clone();
    let (relation, field) = projection.schema.qualified_field(column);
    exprs[column] = Expr::Literal(value, None).alias_qualified(relation.cloned(), field.name());
    Ok(LogicalPlan::Projection(Projection::try_new(
        exprs,
        projection.input.clone(),
    )?))
}

fn cast_columns(input: Arc<LogicalPlan>, casts: Vec<Option<DataType>>) -> Result<LogicalPlan> {
    let schema = input.schema().clone();
    let columns = schema.iter().zip(casts).map(|((qualifier, field), to)| {
        let column = Expr::Column(datafusion::common::Column::new(qualifier.cloned(), field.name()));
        match to {
            Some(to) => cast(column, to).alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(input).project(columns)?.build()
}
