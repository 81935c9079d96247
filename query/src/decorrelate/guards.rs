//! Subqueries behind a guard: `b <> 0 AND (SELECT sum(x / b) ...) > 1`.
//!
//! A subquery that can fail is computed for no row that what stands before it decides: its domain is of the rows that the
//! guards let through, and has a column that says so. All that can fail in the subquery is computed on rows that were joined with
//! the domain. A condition that can fail would be moved below that join by the optimiser; [`turn`] ties it to the domain.
//!
//! # Rules kept here
//! 1. What is joined back to rows that no guard let through is of no interest: nobody looks at it.
//! 2. A subquery inside a guarded one is guarded by its rows.
//! 3. A subquery that cannot fail is computed as if there were no guards.

mod turn;

use super::Rewrite;
use super::flatten::{Domain, Flat, Flattening};
use super::outer::{has_subquery, is_correlated};
use super::pull::{Pulled, pull};
use crate::fallible::{can_fail, plan_can_fail};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan};

impl Flattening<'_> {
    /// [`pull`], where what is left cannot fail, or is computed only if there is a row in the domain.
    pub(super) fn pull(&mut self, plan: &LogicalPlan) -> Result<Option<Pulled>> {
        let Some(mut pulled) = pull(plan)? else {
            return Ok(None);
        };
        if !self.domain.is_guarded() || !pulled.can_fail()? {
            return Ok(Some(pulled));
        }
        // Of a plan without outer columns nothing was pulled: what is left would be the same plan again.
        if pulled.conditions.is_empty() || !is_whole(plan)? {
            return Ok(None);
        }
        pulled.base = self.rewrite.if_needed(&pulled.base, &self.domain.existence())?;
        Ok(Some(pulled))
    }

    /// A condition whose parts that can fail wait for the domain.
    ///
    /// # Arguments
    /// - `columns`: the domain's columns where it is computed.
    pub(super) fn in_turn(
        &self,
        predicate: Expr,
        schema: &DFSchema,
        columns: &[datafusion::common::Column],
    ) -> Result<Expr> {
        let needed = match columns.last() {
            Some(needed) if self.domain.is_guarded() => needed.clone(),
            _ => return Ok(predicate),
        };
        let mut parts = Vec::new();
        for part in split_conjunction_owned(predicate) {
            let waits = !has_subquery(&part)? && can_fail(&part, schema);
            parts.push(match waits {
                true => turn::after(part, Expr::Column(needed.clone())),
                false => part,
            });
        }
        // The same parts, so there is one.
        Ok(conjunction(parts).unwrap_or_else(|| datafusion::logical_expr::lit(true)))
    }
}

/// Whether what can fail in a plan has nothing before it that names outer columns: these are in its topmost filter, whose
/// other conditions cannot fail.
fn is_whole(plan: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Filter(filter) = plan else {
        return Ok(false);
    };
    if is_correlated(&filter.input)? {
        return Ok(false);
    }
    for part in split_conjunction(&filter.predicate) {
        if !part.contains_outer() && (has_subquery(part)? || can_fail(part, filter.input.schema())) {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Pulled {
    /// Whether the plan can fail, or what its conditions compute of it.
    fn can_fail(&self) -> Result<bool> {
        let mut conditions = self.conditions.iter();
        let schema = self.base.schema();
        Ok(plan_can_fail(&self.base)? || conditions.any(|condition| can_fail(condition, schema)))
    }
}

impl Rewrite {
    /// A subquery's domain, guarded where it matters.
    pub(super) fn domain(&self, subquery: &LogicalPlan, rows: &LogicalPlan, guards: Option<&[Expr]>) -> Result<Domain> {
        let domain = Domain::of(subquery, rows)?;
        let guards = guards.or(self.is_guarded.then_some(&[]));
        Ok(match guards {
            Some(guards) if plan_can_fail(subquery)? => domain.guarded(guards),
            _ => domain,
        })
    }

    /// A plan that takes nothing from outside, computed only if there is a row in a domain.
    fn if_needed(&mut self, plan: &LogicalPlan, domain: &Domain) -> Result<LogicalPlan> {
        let (rewrite, rows) = (&mut *self, domain);
        let Flat { plan, .. } = Flattening { rewrite, domain: rows }.plan(plan)?;
        Ok(plan)
    }

    /// What a semi join takes a match of, computed only if there are rows to match, where it can fail.
    pub(super) fn guarded_base(&mut self, rows: &LogicalPlan, plan: &LogicalPlan) -> Result<Option<Pulled>> {
        let Some(mut pulled) = pull(plan)? else {
            return Ok(None);
        };
        if !pulled.can_fail()? {
            return Ok(Some(pulled));
        }
        if is_correlated(plan)? && !is_whole(plan)? {
            return Ok(None);
        }
        let domain = Domain::of(&pulled.base, rows)?.guarded(&[]);
        pulled.base = self.if_needed(&pulled.base, &domain)?;
        Ok(Some(pulled))
    }

    /// A plan computed for a domain, without subqueries.
    pub(super) fn finished(&mut self, flat: Flat, domain: &Domain) -> Result<Flat> {
        let before = self.is_guarded;
        self.is_guarded |= domain.is_guarded();
        let plan = self.plan(flat.plan);
        self.is_guarded = before;
        Ok(Flat { plan: plan?, ..flat })
    }
}
