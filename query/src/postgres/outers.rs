//! The types of the columns that subqueries take from the query around them.
//!
//! The planner writes the type beside the name, and PostgreSQL's typing rules may change it after: so the rules go
//! through a query's inputs before they go through the subqueries over these.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// A LATERAL join is typed from left to right, being both below and a query with a subquery; other nodes stay.
pub(super) fn left_first(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(mut join) = node else {
        return Ok(Transformed::no(node));
    };
    if !join.right.exists(|node| Ok(matches!(node, LogicalPlan::Subquery(_))))? {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    join.left = super::typed((*join.left).clone())?.into();
    join.right = super::typed(retyped((*join.right).clone(), join.left.schema())?)?.into();
    Ok(Transformed::new(LogicalPlan::Join(join), true, TreeNodeRecursion::Jump))
}

/// A subquery in which the columns of `outer` have their types. A query between the two that has a column of the same
/// name is the nearer one, and is the last to write its type.
pub(super) fn retyped(subquery: LogicalPlan, outer: &DFSchema) -> Result<LogicalPlan> {
    let typed = subquery.transform_down_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|expr| match expr {
                Expr::OuterReferenceColumn(field, column) => {
                    let index = outer.maybe_index_of_column(&column);
                    let field = index.map_or(field, |index| outer.field(index).clone());
                    Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
                }
                other => Ok(Transformed::no(other)),
            })
        })
    });
    Ok(typed?.data)
}
