//! Conditions of joins stay whole where a part of them can fail.
//!
//! DataFusion's rule over projections computes the parts of a join's condition that are of one side once for each row of that
//! side, whatever stands before them: `a.b <> 0 AND 1 / a.b > c.x` would divide by zero.

use crate::fallible::physical_can_fail;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::projection::remove_unnecessary_projections;
use std::sync::Arc;

/// The name of the rule that takes conditions apart.
const TAKES_APART: &str = "ProjectionPushdown";

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The rule, if it takes conditions of joins apart replaced by one that spares those that can fail.
pub(crate) fn kept_in_order(rule: Rule) -> Rule {
    match rule.name() {
        TAKES_APART => Arc::new(OfSafeJoins(rule)),
        _ => rule,
    }
}

#[derive(Debug)]
struct OfSafeJoins(Rule);

impl PhysicalOptimizerRule for OfSafeJoins {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        match plan.exists(|node| Ok(has_failing_filter(node)))? {
            true => plan.transform_down(remove_unnecessary_projections).data(),
            false => self.0.optimize(plan, config),
        }
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

fn has_failing_filter(node: &Arc<dyn ExecutionPlan>) -> bool {
    let join = node.downcast_ref::<NestedLoopJoinExec>();
    let filter = join.and_then(NestedLoopJoinExec::filter);
    filter.is_some_and(|filter| physical_can_fail(filter.expression(), filter.schema()))
}
