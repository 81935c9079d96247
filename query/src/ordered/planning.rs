//! AND and OR in the aggregates, joins, windows and sorts of ad-hoc queries.
//!
//! What an aggregate, a window or a sort takes is computed in a projection below it ([`hoist`]), where [`super::ordered`]
//! keeps the order. In the condition of a join it is said with CASE, whose branches DataFusion computes for their rows alone.
//!
//! It is the last step before operators are made: no rule of the optimiser sees it, or turns it back.

mod hoist;
mod recursion;

use crate::fallible::can_fail;
use async_trait::async_trait;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, LogicalPlan, Operator, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use std::sync::Arc;

/// DataFusion's planner, given plans whose conditions are in order.
#[derive(Debug)]
pub(crate) struct OrderedPlanning;

#[async_trait]
impl QueryPlanner for OrderedPlanning {
    async fn create_physical_plan(
        &self,
        logical_plan: &LogicalPlan,
        session_state: &SessionState,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let ordered = logical_plan.clone().transform_up_with_subqueries(of_node)?.data;
        DefaultPhysicalPlanner::default()
            .create_physical_plan(&ordered, session_state)
            .await
    }
}

fn of_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Join(_) => with_cases(node),
        LogicalPlan::RecursiveQuery(query) => recursion::plain(query),
        LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) => hoist::hoisted(node),
        other => Ok(Transformed::no(other)),
    }
}

/// A node whose conditions are CASEs where the order matters.
fn with_cases(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let cases = expr.transform_up(|part| with_case(part, &schema))?;
        Ok(cases.update_data(|expr| name.restore(expr)))
    })
}

/// AND or OR with a right side that can fail, as a CASE that computes it where the left side does not decide.
///
/// One side is in it twice: the smaller one, so that nested conditions do not grow without measure.
fn with_case(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (left, op, right) = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::And | Operator::Or) && can_fail(&right, schema) =>
        {
            (left, op, right)
        }
        other => return Ok(Transformed::no(other)),
    };
    let decided = op == Operator::Or;
    let both = |left: Box<Expr>| Box::new(Expr::BinaryExpr(BinaryExpr::new(left, op, right.clone())));
    let case = match left.is_volatile() || size(&right)? < size(&left)? {
        true => {
            let branches = vec![
                (Box::new(lit(decided)), Box::new(lit(decided))),
                (Box::new(lit(!decided)), right.clone()),
            ];
            let unknown = both(Box::new(Expr::Literal(ScalarValue::Boolean(None), None)));
            Case::new(Some(left), branches, Some(unknown))
        }
        false => {
            let is_decided = match decided {
                true => Expr::IsTrue(left.clone()),
                false => Expr::IsFalse(left.clone()),
            };
            let branches = vec![(Box::new(is_decided), Box::new(lit(decided)))];
            Case::new(None, branches, Some(both(left)))
        }
    };
    Ok(Transformed::yes(Expr::Case(case)))
}

fn size(expr: &Expr) -> Result<usize> {
    let mut nodes = 0;
    expr.apply(|_| {
        nodes += 1;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(nodes)
}
