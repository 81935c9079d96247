//! The columns that a subquery takes from the query around it.
//!
//! The planner marks a column that is not of its own query, but does not say of which query outside it is: it is the
//! nearest one that has it. A cast that only widens goes with its column, so that `int_column = outer_bigint` is a
//! comparison of columns still.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ExprSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Cast, Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use std::sync::Arc;

/// What becomes of a column of the query around: given the expression over that query's rows, and whether it was found
/// inside a further subquery. `None`: it stays.
type Replacement<'a> = dyn FnMut(&Expr, bool) -> Option<Expr> + 'a;

/// Whether an expression holds a subquery.
pub(super) fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|part| Ok(subquery_of(part).is_some()))
}

/// The subquery that an expression is by itself.
fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// The expressions that a subquery takes from outside, as expressions over the outer rows, each once.
pub(super) fn outer_expressions(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut found = Vec::new();
    in_plan(plan.clone(), &[], &mut |expr, _| {
        if !found.contains(expr) {
            found.push(expr.clone());
        }
        None
    })?;
    Ok(found)
}

/// Whether a plan takes anything from outside.
pub(crate) fn is_correlated(plan: &LogicalPlan) -> Result<bool> {
    Ok(!outer_expressions(plan)?.is_empty())
}

/// The expressions that an expression of a subquery's node takes from outside.
///
/// # Arguments
/// - `local`: what the node's own columns are.
pub(super) fn outer_parts(expr: &Expr, local: &DFSchema) -> Result<Vec<Expr>> {
    let mut found = Vec::new();
    in_expression(expr.clone(), local, &[], &mut |expr, _| {
        if !found.contains(expr) {
            found.push(expr.clone());
        }
        None
    })?;
    Ok(found)
}

/// Replaces what a plan takes from outside.
///
/// # Arguments
/// - `hidden`: the schemas of the subqueries between the plan and the query outside.
pub(super) fn in_plan(plan: LogicalPlan, hidden: &[DFSchemaRef], replace: &mut Replacement) -> Result<LogicalPlan> {
    let plan = match plan {
        LogicalPlan::Join(mut join) if super::joins::lateral(&join.right).is_some() => {
            join.left = Arc::new(in_plan((*join.left).clone(), hidden, replace)?);
            let mut within = hidden.to_vec();
            within.push(join.left.schema().clone());
            let right = (*join.right).clone().map_children(|child| match child {
                LogicalPlan::Subquery(_) => Ok(Transformed::yes(in_subquery_node(child, &within, replace)?)),
                child => Ok(Transformed::yes(in_plan(child, &within, replace)?)),
            })?;
            join.right = Arc::new(right.data);
            LogicalPlan::Join(join)
        }
        other => {
            let inner = other.map_children(|child| Ok(Transformed::yes(in_plan(child, hidden, replace)?)))?;
            inner.data
        }
    };
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    let replaced = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let replaced = in_expression(expr, &schema, hidden, replace)?;
        Ok(replaced.update_data(|expr| name.restore(expr)))
    })?;
    match replaced.transformed {
        true => replaced.data.recompute_schema(),
        false => Ok(replaced.data),
    }
}

fn in_subquery_node(node: LogicalPlan, hidden: &[DFSchemaRef], replace: &mut Replacement) -> Result<LogicalPlan> {
    let LogicalPlan::Subquery(subquery) = node else {
        return Ok(node);
    };
    Ok(LogicalPlan::Subquery(in_subquery(subquery, hidden, replace)?))
}

/// Replaces what a subquery inside the subquery takes from outside both.
fn in_subquery(mut subquery: Subquery, hidden: &[DFSchemaRef], replace: &mut Replacement) -> Result<Subquery> {
    let plan = in_plan((*subquery.subquery).clone(), hidden, replace)?;
    subquery.outer_ref_columns = plan.all_out_ref_exprs();
    subquery.subquery = Arc::new(plan);
    Ok(subquery)
}

/// Replaces what an expression takes from outside.
///
/// # Arguments
/// - `local`: the columns of the inputs of the expression's node.
pub(super) fn in_expression(
    expr: Expr,
    local: &DFSchema,
    hidden: &[DFSchemaRef],
    replace: &mut Replacement,
) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| {
        if let Some((column, whole)) = outer_expression(&expr) {
            if hidden
                .iter()
                .any(|schema| schema.maybe_index_of_column(&column).is_some())
            {
                return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
            }
            return Ok(match replace(&whole, !hidden.is_empty()) {
                Some(replaced) => Transformed::new(replaced, true, TreeNodeRecursion::Jump),
                None => Transformed::new(expr, false, TreeNodeRecursion::Jump),
            });
        }
        if subquery_of(&expr).is_none() {
            return Ok(Transformed::no(expr));
        }
        let mut within = hidden.to_vec();
        within.push(Arc::new(local.clone()));
        let mut inner = |subquery| in_subquery(subquery, &within, replace);
        Ok(Transformed::yes(match expr {
            Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(inner(subquery)?),
            Expr::Exists(mut exists) => {
                exists.subquery = inner(exists.subquery)?;
                Expr::Exists(exists)
            }
            Expr::InSubquery(mut test) => {
                test.subquery = inner(test.subquery)?;
                Expr::InSubquery(test)
            }
            Expr::SetComparison(mut comparison) => {
                comparison.subquery = inner(comparison.subquery)?;
                Expr::SetComparison(comparison)
            }
            other => other,
        }))
    })
}

/// A column from outside, with the casts on it that only widen: the column, and the whole as the outer query has it.
fn outer_expression(expr: &Expr) -> Option<(Column, Expr)> {
    match expr {
        Expr::OuterReferenceColumn(_, column) => Some((column.clone(), Expr::Column(column.clone()))),
        Expr::Cast(Cast { expr: inner, field }) => {
            let Expr::OuterReferenceColumn(from, column) = inner.as_ref() else {
                return None;
            };
            let whole = Expr::Column(column.clone());
            let cast = Cast::new_from_field(Box::new(whole), field.clone());
            widens(from.data_type(), field.data_type()).then(|| (column.clone(), Expr::Cast(cast)))
        }
        _ => None,
    }
}

/// Whether a cast gives every value another one and fails for none.
fn widens(from: &DataType, to: &DataType) -> bool {
    matches!(
        (from, to),
        (DataType::Int16, DataType::Int32 | DataType::Int64) | (DataType::Int32, DataType::Int64)
    )
}

/// The columns of the outer query in the place of marks.
pub(super) fn as_outer(expr: Expr, local: &DFSchema) -> Result<Expr> {
    Ok(in_expression(expr, local, &[], &mut |whole, _| Some(whole.clone()))?.data)
}

/// Columns of the query around as a subquery's condition has them.
pub(super) fn as_seen_within(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let seen = expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = schema.field_from_column(&column)?.clone();
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(seen?.data)
}
