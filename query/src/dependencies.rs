//! Keeps DataFusion from using functional dependencies, which it gets wrong.
//!
//! What it knows of a projection's columns is shifted where a computed column stands before one that is copied, so that
//! in `SELECT upper(c) AS u, c FROM (SELECT DISTINCT c FROM t)` it takes `u` for a key. Three places go by that:
//! - the planner adds what depends on a key to GROUP BY: [`Relations`] plans derived tables that know of no key;
//! - `optimize_projections` drops from GROUP BY what depends on a key: [`without`] gives such keys other names, by which it
//!   does not find them;
//! - `eliminate_duplicated_expr` drops it from ORDER BY: [`without`] keeps it away from there.
//!
//! Beside it, LATERAL items that DataFusion takes for plain ones are marked here.
//!
//! # Not here
//! DISTINCT, which is a GROUP BY from the start ([`crate::postgres`]).

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, FunctionalDependencies, get_required_group_by_exprs_indices};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, Subquery};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::sql::sqlparser::ast::TableFactor;
use std::cell::Cell;
use std::sync::Arc;

/// The names of the rules that go by dependencies.
const PRUNES_GROUPS: &str = "optimize_projections";
const PRUNES_ORDERS: &str = "eliminate_duplicated_expr";

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules, those that go by dependencies kept from it.
pub(crate) fn without(rules: Vec<Rule>) -> Vec<Rule> {
    let replace = |rule: Rule| -> Rule {
        match rule.name() {
            PRUNES_GROUPS | PRUNES_ORDERS => Arc::new(Unaware { rule }),
            _ => rule,
        }
    };
    rules.into_iter().map(replace).collect()
}

#[derive(Debug)]
struct Unaware {
    rule: Rule,
}

impl OptimizerRule for Unaware {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Sort(sort) if self.name() == PRUNES_ORDERS && has_dependencies(sort.input.schema()) => {
                Ok(Transformed::no(plan))
            }
            _ if self.name() == PRUNES_GROUPS => {
                let renamed = plan.transform_up_with_subqueries(with_other_names)?;
                renamed.transform_data(|plan| self.rule.rewrite(plan, config))
            }
            _ => self.rule.rewrite(plan, config),
        }
    }
}

fn has_dependencies(schema: &DFSchema) -> bool {
    !schema.functional_dependencies().is_empty()
}

/// A GROUP BY of which some would be dropped, its keys under names that the input does not have.
fn with_other_names(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = plan else {
        return Ok(Transformed::no(plan));
    };
    let keys: Vec<String> = aggregate
        .group_expr
        .iter()
        .map(|key| key.schema_name().to_string())
        .collect();
    let needed = get_required_group_by_exprs_indices(aggregate.input.schema(), &keys);
    if needed.is_none_or(|needed| needed.len() == keys.len()) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let named = |(position, key): (usize, &Expr)| key.clone().unalias().alias(format!("group_key_{position}"));
    let group = aggregate.group_expr.iter().enumerate().map(named).collect();
    let renamed = Aggregate::try_new(aggregate.input, group, aggregate.aggr_expr)?;
    let as_before = |((old, now), position): ((_, _), usize)| {
        let (relation, field): (
            Option<&datafusion::common::TableReference>,
            &Arc<arrow::datatypes::Field>,
        ) = old;
        let column = Expr::Column(datafusion::common::Column::from(now));
        match position < keys.len() {
            true => column.alias_qualified(relation.cloned(), field.name()),
            false => column,
        }
    };
    let exprs = aggregate
        .schema
        .iter()
        .zip(renamed.schema.iter())
        .zip(0..)
        .map(as_before)
        .collect();
    let projection = Projection::try_new(exprs, Arc::new(LogicalPlan::Aggregate(renamed)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// Plans the relations of FROM as DataFusion does, and forgets what it knows of their keys.
#[derive(Debug)]
pub(crate) struct Relations;

thread_local! {
    /// Whether the relation that is planned next is one that this planner asked for.
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
}

impl RelationPlanner for Relations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let has_no_key = !matches!(relation, TableFactor::Derived { .. } | TableFactor::Table { .. });
        if has_no_key || IS_OWN.take() {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        IS_OWN.set(true);
        let is_lateral = matches!(relation, TableFactor::Derived { lateral: true, .. });
        let plan = forgetful(context.plan(relation)?)?;
        let plan = match is_lateral {
            true => told_to_be_lateral(plan)?,
            false => plan,
        };
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
    }
}

/// A LATERAL item of which only subqueries name columns outside, marked as DataFusion marks others.
fn told_to_be_lateral(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !plan.all_out_ref_exprs().is_empty() || !crate::decorrelate::is_correlated(&plan)? {
        return Ok(plan);
    }
    Ok(LogicalPlan::Subquery(Subquery {
        subquery: Arc::new(plan),
        outer_ref_columns: Vec::new(),
        spans: Default::default(),
    }))
}

fn forgetful(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !has_dependencies(plan.schema()) {
        return Ok(plan);
    }
    let schema = plan.schema().as_ref().clone();
    let schema = Arc::new(schema.with_functional_dependencies(FunctionalDependencies::empty())?);
    let columns = schema.columns().into_iter().map(Expr::Column).collect();
    let projection = Projection::try_new_with_schema(columns, Arc::new(plan), schema)?;
    Ok(LogicalPlan::Projection(projection))
}
