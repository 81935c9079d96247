//! VALUES whose rows hold subqueries, as a union of one-row queries.
//!
//! The planner below evaluates the cells of VALUES while it plans, before any subquery has run.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Values};
use datafusion::prelude::cast;

/// Rewrites every VALUES that holds a subquery.
pub(crate) fn with_subqueries(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Values(values) if holds_subquery(&values)? => Ok(Transformed::yes(as_union(values)?)),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

fn holds_subquery(values: &Values) -> Result<bool> {
    let is_subquery = |expr: &Expr| matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_));
    for cell in values.values.iter().flatten() {
        if cell.exists(|expr| Ok(is_subquery(expr)))? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn as_union(values: Values) -> Result<LogicalPlan> {
    let fields = values.schema.fields();
    let rows = values.values.into_iter().map(|row| {
        let cells = row.into_iter().zip(fields);
        let named = cells.map(|(cell, field)| cast(cell, field.data_type().clone()).alias(field.name()));
        LogicalPlanBuilder::empty(true).project(named.collect::<Vec<_>>())
    });
    let mut rows = rows.collect::<Result<Vec<_>>>()?.into_iter();
    let first = rows.next().unwrap_or_else(|| LogicalPlanBuilder::empty(false));
    rows.try_fold(first, |above, row| above.union(row.build()?))?.build()
}
