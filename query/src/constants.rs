//! Constants are computed before any row is read, and a query ends with the error of one that fails, as in PostgreSQL.
//!
//! `1/0 = 1 OR true` is an error, `true OR 1/0 = 1` is not: what stands behind a constant that decides is not computed, nor
//! is a branch of CASE that a constant rules out. The optimiser would take the first for true.
//!
//! # Rules kept here
//! 1. What PostgreSQL may leave out of a query before it computes constants is not looked at: the select list of a query
//!    in FROM, and of EXISTS.
//! 2. Only errors of values (class 22) are told here; others are for whoever runs the query.
//! 3. Materialized views keep their rows' errors, constants' too: the rule is for ad-hoc queries.

use crate::arithmetic::checked;
use crate::error::from_datafusion;
use arrow::array::RecordBatch;
use arrow::array::RecordBatchOptions;
use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::{BinaryExpr, Case, ColumnarValue, Expr, Join, LogicalPlan, Operator, Volatility};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;

/// Name of the rule.
pub(crate) const NAME: &str = "constants_first";

/// Computes the constants of a plan.
#[derive(Debug)]
pub(crate) struct ConstantsFirst;

impl AnalyzerRule for ConstantsFirst {
    fn name(&self) -> &str {
        NAME
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        look_into(&plan, Place::List)?;
        Ok(plan)
    }
}

/// Where in a query a node is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// Above the select list, which counts.
    List,
    /// Below the select list that counts.
    Rows,
    /// In a query of whose select list columns may be left out.
    Within,
}

/// Computes the constants of a node and of those below.
fn look_into(plan: &LogicalPlan, place: Place) -> Result<()> {
    let counts = place != Place::Within;
    match plan {
        LogicalPlan::Projection(projection) => {
            let below = match place {
                Place::List => Place::Rows,
                _ => Place::Within,
            };
            if place == Place::List {
                all(&projection.expr)?;
            }
            look_into(&projection.input, below)
        }
        LogicalPlan::Aggregate(aggregate) => {
            all(&aggregate.group_expr)?;
            if counts {
                all(&aggregate.aggr_expr)?;
            }
            look_into(&aggregate.input, place)
        }
        LogicalPlan::Window(window) => {
            if counts {
                all(&window.window_expr)?;
            }
            look_into(&window.input, place)
        }
        LogicalPlan::Filter(filter) => {
            value(&filter.predicate)?;
            look_into(&filter.input, place)
        }
        LogicalPlan::Sort(sort) => {
            for by in &sort.expr {
                value(&by.expr)?;
            }
            look_into(&sort.input, place)
        }
        LogicalPlan::Limit(limit) => look_into(&limit.input, place),
        LogicalPlan::Union(union) => union.inputs.iter().try_for_each(|input| look_into(input, place)),
        LogicalPlan::Join(join) => look_into_join(join),
        other => other
            .inputs()
            .into_iter()
            .try_for_each(|input| look_into(input, Place::Within)),
    }
}

fn look_into_join(join: &Join) -> Result<()> {
    for (left, right) in &join.on {
        value(left)?;
        value(right)?;
    }
    if let Some(filter) = &join.filter {
        value(filter)?;
    }
    look_into(&join.left, Place::Within)?;
    look_into(&join.right, Place::Within)
}

fn all(exprs: &[Expr]) -> Result<()> {
    exprs.iter().try_for_each(|expr| value(expr).map(|_| ()))
}

/// The value of a constant expression, that of no other; `None`: it is none, though parts of it may be.
///
/// # Errors
/// That of the first part that fails, in PostgreSQL's order.
fn value(expr: &Expr) -> Result<Option<ScalarValue>> {
    match expr {
        Expr::Literal(value, _) => Ok(Some(value.clone())),
        Expr::Alias(alias) => value(&alias.expr),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::And | Operator::Or),
            right,
        }) => {
            let decisive = Some(ScalarValue::Boolean(Some(*op == Operator::Or)));
            let of_left = value(left)?;
            if of_left == decisive {
                return Ok(decisive);
            }
            let of_right = value(right)?;
            match (of_left, of_right) {
                (_, right) if right == decisive => Ok(decisive),
                (Some(left), Some(right)) => computed(expr, vec![left, right]),
                _ => Ok(None),
            }
        }
        Expr::Case(case) => of_case(case),
        Expr::ScalarFunction(call) if call.name() == "coalesce" => {
            for argument in &call.args {
                match value(argument)? {
                    Some(value) if !value.is_null() => break,
                    _ => {}
                }
            }
            Ok(None)
        }
        Expr::InList(list) if list.list.iter().all(|item| matches!(item, Expr::Literal(_, _))) => {
            value(&list.expr).map(|_| None)
        }
        Expr::ScalarSubquery(subquery) => look_into(&subquery.subquery, Place::List).map(|()| None),
        Expr::InSubquery(test) => {
            value(&test.expr)?;
            look_into(&test.subquery.subquery, Place::List).map(|()| None)
        }
        Expr::SetComparison(comparison) => {
            value(&comparison.expr)?;
            look_into(&comparison.subquery.subquery, Place::List).map(|()| None)
        }
        Expr::Exists(exists) => look_into(&exists.subquery.subquery, Place::Within).map(|()| None),
        other => of_parts(other),
    }
}

/// The branch of a CASE that constants decide for; those that they rule out are not computed.
fn of_case(case: &Case) -> Result<Option<ScalarValue>> {
    let base = match &case.expr {
        Some(base) => Some(value(base)?),
        None => None,
    };
    let mut is_decided = true;
    for (when, then) in &case.when_then_expr {
        let when = value(when)?;
        let holds = match (&base, when) {
            (None, Some(when)) => Some(when == ScalarValue::Boolean(Some(true))),
            (Some(Some(base)), Some(when)) => Some(!base.is_null() && *base == when),
            _ => None,
        };
        match holds {
            Some(false) => continue,
            Some(true) if is_decided => return value(then),
            Some(true) => return value(then).map(|_| None),
            None => is_decided = false,
        }
        value(then)?;
    }
    match &case.else_expr {
        Some(last) if is_decided => value(last),
        Some(last) => value(last).map(|_| None),
        None => Ok(None),
    }
}

/// An expression that is computed of all of its parts.
fn of_parts(expr: &Expr) -> Result<Option<ScalarValue>> {
    let (mut values, mut parts) = (Vec::new(), 0);
    expr.apply_children(|part| {
        parts += 1;
        values.extend(value(part)?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    match parts > 0 && values.len() == parts && is_immutable(expr) {
        true => computed(expr, values),
        false => Ok(None),
    }
}

/// Whether an expression's value depends on its parts alone.
fn is_immutable(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
        Expr::BinaryExpr(_) | Expr::Cast(_) | Expr::TryCast(_) | Expr::Like(_) | Expr::SimilarTo(_) => true,
        Expr::Not(_) | Expr::Negative(_) | Expr::Between(_) | Expr::InList(_) => true,
        Expr::IsNull(_) | Expr::IsNotNull(_) | Expr::IsTrue(_) | Expr::IsFalse(_) | Expr::IsUnknown(_) => true,
        Expr::IsNotTrue(_) | Expr::IsNotFalse(_) | Expr::IsNotUnknown(_) => true,
        _ => false,
    }
}

/// An expression of these values.
fn computed(expr: &Expr, values: Vec<ScalarValue>) -> Result<Option<ScalarValue>> {
    let mut values = values.into_iter();
    let of_values = expr.clone().map_children(|part| {
        let value = values.next();
        Ok(value.map_or(Transformed::no(part), |value| {
            Transformed::yes(Expr::Literal(value, None))
        }))
    })?;
    let none = DFSchema::empty();
    let run = || -> Result<ColumnarValue> {
        let expr = checked(of_values.data, &none)?;
        let physical = create_physical_expr(&expr, &none, &ExecutionProps::new())?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
        physical.evaluate(&row)
    };
    match run() {
        Ok(ColumnarValue::Scalar(value)) => Ok(Some(value)),
        Ok(ColumnarValue::Array(array)) if array.len() == 1 => ScalarValue::try_from_array(&array, 0).map(Some),
        Ok(_) => Ok(None),
        Err(error) => {
            let error = from_datafusion(error);
            match error.state().starts_with("22") {
                true => Err(crate::provider::outside(error)),
                false => Ok(None),
            }
        }
    }
}
