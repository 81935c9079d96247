//! FILTER before its argument: `sum(a / b) FILTER (WHERE b <> 0)` as `sum(CASE WHEN b <> 0 THEN a / b END) FILTER (WHERE b <> 0)`.
//!
//! It is said before anything is optimised, so that no rule takes the argument for one that is computed for all rows.

use crate::fallible::{can_fail, plan_can_fail};
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunctionParams, Sort, WindowFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Case, Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// Puts what a FILTER guards under a CASE.
#[derive(Debug)]
pub(crate) struct GuardedArguments;

impl AnalyzerRule for GuardedArguments {
    fn name(&self) -> &str {
        "guarded_arguments"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(of_node)?.data)
    }
}

fn of_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) {
        return Ok(Transformed::no(node));
    }
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let guarded = expr.transform_up(|part| of_call(part, &schema))?;
        Ok(guarded.update_data(|expr| name.restore(expr)))
    })
}

fn of_call(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::AggregateFunction(mut call) => {
            let AggregateFunctionParams {
                args, filter, order_by, ..
            } = &mut call.params;
            let is_changed = guard(args, order_by, filter.as_deref(), schema)?;
            let expr = Expr::AggregateFunction(call);
            Ok(Transformed::new_transformed(expr, is_changed))
        }
        Expr::WindowFunction(mut call) => {
            // Partitions and their order are of all rows.
            let WindowFunctionParams { args, filter, .. } = &mut call.params;
            let is_changed = guard(args, &mut [], filter.as_deref(), schema)?;
            let expr = Expr::WindowFunction(call);
            Ok(Transformed::new_transformed(expr, is_changed))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// # Returns
/// Whether there was something to guard.
fn guard(args: &mut [Expr], order: &mut [Sort], filter: Option<&Expr>, schema: &DFSchema) -> Result<bool> {
    let Some(filter) = filter else {
        return Ok(false);
    };
    let mut is_changed = false;
    let sorted = order.iter_mut().map(|sort| &mut sort.expr);
    for expr in args.iter_mut().chain(sorted) {
        if fails(expr, schema)? {
            let then = vec![(Box::new(filter.clone()), Box::new(expr.clone()))];
            *expr = Expr::Case(Case::new(None, then, None));
            is_changed = true;
        }
    }
    Ok(is_changed)
}

/// Whether an expression can fail, its subqueries included.
pub(crate) fn fails(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    if can_fail(expr, schema) {
        return Ok(true);
    }
    expr.exists(|part| match part {
        Expr::ScalarSubquery(subquery) => {
            Ok(!crate::decorrelate::has_one_row_at_most(&subquery.subquery) || plan_can_fail(&subquery.subquery)?)
        }
        Expr::Exists(exists) => plan_can_fail(&exists.subquery.subquery),
        Expr::InSubquery(test) => plan_can_fail(&test.subquery.subquery),
        Expr::SetComparison(comparison) => plan_can_fail(&comparison.subquery.subquery),
        _ => Ok(false),
    })
}
