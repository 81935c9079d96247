//! Keeps joins whose NULLs are equal apart from those whose NULLs are not.
//!
//! DataFusion's rule that reorders inner joins takes the keys of all joins below one and compares them all as the
//! topmost join does. Where `IS NOT DISTINCT FROM` and `=` stand in one tree of joins, the answer would be another.

use datafusion::common::NullEquality;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The name of the rule that mixes them.
const REORDERS: &str = "eliminate_cross_join";

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules, the one that mixes joins replaced by one that leaves such plans alone.
pub(crate) fn kept_apart(rules: impl Iterator<Item = Rule>) -> Vec<Rule> {
    let replace = |rule: Rule| -> Rule {
        match rule.name() {
            REORDERS => Arc::new(OfPlainJoins(rule)),
            _ => rule,
        }
    };
    rules.map(replace).collect()
}

/// A rule for plans in which no join takes NULLs for equal.
#[derive(Debug)]
struct OfPlainJoins(Rule);

impl OptimizerRule for OfPlainJoins {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mixes = plan.exists(|node| {
            Ok(matches!(node, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull))
        })?;
        match mixes {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}
