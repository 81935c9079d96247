//! A sort where the optimizer has pushed one below a UNION that then no longer has its order.
//!
//! Branches in which two columns are equal need the sort of one of them alone; that they are equal is forgotten above the
//! UNION, and the plan is refused as unsorted. [`rule`] sorts again what an operator needs sorted and does not find so.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::Arc;

/// The rule, to run before plans are checked.
pub(crate) fn rule() -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    Arc::new(Resorted)
}

#[derive(Debug)]
struct Resorted;

impl PhysicalOptimizerRule for Resorted {
    fn name(&self) -> &str {
        "resorted"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(plan.transform_up(of_node)?.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn of_node(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut changed = false;
    let mut children = Vec::new();
    for (child, needed) in plan.children().into_iter().zip(plan.required_input_ordering()) {
        let Some(needed) = needed else {
            children.push(child.clone());
            continue;
        };
        let needed = needed.into_single();
        if child
            .equivalence_properties()
            .ordering_satisfy_requirement(needed.clone())?
        {
            children.push(child.clone());
            continue;
        }
        changed = true;
        let sort = SortExec::new(LexOrdering::from(needed), child.clone()).with_preserve_partitioning(true);
        children.push(Arc::new(sort));
    }
    match changed {
        true => Ok(Transformed::yes(plan.with_new_children(children)?)),
        false => Ok(Transformed::no(plan)),
    }
}
