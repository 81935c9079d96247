//! Filters that stay above what gives a row of nothing.
//!
//! DataFusion moves a condition below an aggregate if all columns that it names are keys of it. A condition without columns
//! names none: below a global aggregate, or GROUPING SETS with an empty one, `false` takes the rows that are counted, and
//! the count of them stays.
//!
//! # Not here
//! Filters that conditions are put in order for: [`crate::ordered`].

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use std::sync::Arc;

const PUSHES_FILTERS: &str = "push_down_filter";

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules, with the one that moves filters kept from moving them below an aggregate that has a row in any case.
pub(crate) fn kept_above(rules: Vec<Rule>) -> Vec<Rule> {
    let replace = |rule: Rule| -> Rule {
        match rule.name() {
            PUSHES_FILTERS => Arc::new(KeptAbove { rule }),
            _ => rule,
        }
    };
    rules.into_iter().map(replace).collect()
}

#[derive(Debug)]
struct KeptAbove {
    rule: Rule,
}

impl OptimizerRule for KeptAbove {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Filter(filter) = &plan
            && has_row_of_nothing(&filter.input)
        {
            return Ok(Transformed::no(plan));
        }
        self.rule.rewrite(plan, config)
    }
}

/// Whether a plan is an aggregate that can give a row though it reads none.
fn has_row_of_nothing(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => match aggregate.group_expr.as_slice() {
            [] => true,
            keys => keys.iter().any(|key| matches!(key, Expr::GroupingSet(_))),
        },
        _ => false,
    }
}
