//! Conditions of a subquery that name outer columns, taken out of its filters and inner joins.

use super::outer::{has_subquery, is_correlated, outer_parts};
use datafusion::common::JoinType;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, Join, LogicalPlan, Operator};
use std::sync::Arc;

/// A plan that takes nothing from outside, and the conditions on its rows that do.
pub(super) struct Pulled {
    pub(super) base: LogicalPlan,
    pub(super) conditions: Vec<Expr>,
}

impl Pulled {
    /// Whether a condition holds a further subquery.
    pub(super) fn nests(&self) -> Result<bool> {
        for condition in &self.conditions {
            if has_subquery(condition)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Takes out the conditions that name outer columns; `None`: others than filters and inner joins name some.
pub(super) fn pull(plan: &LogicalPlan) -> Result<Option<Pulled>> {
    if !is_correlated(plan)? {
        let base = plan.clone();
        return Ok(Some(Pulled {
            base,
            conditions: Vec::new(),
        }));
    }
    match plan {
        LogicalPlan::Filter(filter) => {
            let Some(Pulled { base, mut conditions }) = pull(&filter.input)? else {
                return Ok(None);
            };
            let own = split_conjunction_owned(filter.predicate.clone());
            let local = apart(own, filter.input.schema(), &mut conditions)?;
            let base = match conjunction(local) {
                Some(local) => LogicalPlan::Filter(Filter::try_new(local, Arc::new(base))?),
                None => base,
            };
            Ok(Some(Pulled { base, conditions }))
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => pull_join(join),
        _ => Ok(None),
    }
}

fn pull_join(join: &Join) -> Result<Option<Pulled>> {
    if super::joins::lateral(&join.right).is_some() {
        return Ok(None);
    }
    let (Some(left), Some(right)) = (pull(&join.left)?, pull(&join.right)?) else {
        return Ok(None);
    };
    for (left, right) in &join.on {
        if !outer_parts(left, &join.schema)?.is_empty() || !outer_parts(right, &join.schema)?.is_empty() {
            return Ok(None);
        }
    }
    let mut conditions = left.conditions;
    conditions.extend(right.conditions);
    let own = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
    let local = apart(own, &join.schema, &mut conditions)?;
    let base = Join::try_new(
        Arc::new(left.base),
        Arc::new(right.base),
        join.on.clone(),
        conjunction(local),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let base = LogicalPlan::Join(base);
    Ok(Some(Pulled { base, conditions }))
}

/// Moves the conditions that name outer columns; gives the others back.
fn apart(all: Vec<Expr>, schema: &datafusion::common::DFSchema, conditions: &mut Vec<Expr>) -> Result<Vec<Expr>> {
    let mut local = Vec::new();
    for condition in all {
        match outer_parts(&condition, schema)?.is_empty() {
            true => local.push(condition),
            false => conditions.push(condition),
        }
    }
    Ok(local)
}

/// The sides of an equality of which one is of the subquery's own columns and one of outer ones only: own, outer.
pub(super) fn equality(condition: &Expr) -> Option<(&Expr, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = condition
    else {
        return None;
    };
    let is_own = |expr: &Expr| !expr.contains_outer() && expr.any_column_refs();
    let is_outer = |expr: &Expr| expr.contains_outer() && !expr.any_column_refs();
    match (is_own(left) && is_outer(right), is_outer(left) && is_own(right)) {
        (true, _) => Some((left, right)),
        (_, true) => Some((right, left)),
        _ => None,
    }
}
