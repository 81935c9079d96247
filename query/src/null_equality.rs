//! Keeps joins whose NULLs are equal apart from those whose NULLs are not.
//!
//! DataFusion's rule that reorders inner joins takes the keys of all joins below one and compares them all as the
//! topmost join does. Where `IS NOT DISTINCT FROM` and `=` stand in one tree of joins, the answer would be another. The rule
//! that makes keys of the equalities in a join's condition adds them to keys whose NULLs are equal.

use datafusion::common::NullEquality;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The names of the rules that mix them: over a tree of joins, and in one join.
const REORDERS: &str = "eliminate_cross_join";
const MAKES_KEYS: &str = "extract_equijoin_predicate";

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules, the one that mixes joins replaced by one that leaves such plans alone.
pub(crate) fn kept_apart(rules: impl Iterator<Item = Rule>) -> Vec<Rule> {
    let replace = |rule: Rule| -> Rule {
        match rule.name() {
            REORDERS => Arc::new(OfPlainJoins { rule, whole: true }),
            MAKES_KEYS => Arc::new(OfPlainJoins { rule, whole: false }),
            _ => rule,
        }
    };
    rules.map(replace).collect()
}

/// A rule for plans in which no join takes NULLs for equal.
#[derive(Debug)]
struct OfPlainJoins {
    rule: Rule,
    /// Whether the rule looks at the joins below a node too.
    whole: bool,
}

impl OptimizerRule for OfPlainJoins {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let null_is_null = |node: &LogicalPlan| matches!(node, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull);
        let mixes = match self.whole {
            true => plan.exists(|node| Ok(null_is_null(node)))?,
            false => null_is_null(&plan),
        };
        match mixes {
            true => Ok(Transformed::no(plan)),
            false => self.rule.rewrite(plan, config),
        }
    }
}
