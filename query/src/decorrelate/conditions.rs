//! Subqueries as conditions by themselves: semi and anti joins.

use super::attach::{Attaching, Quantified, never_has_rows};
use super::flatten::{filtered, joined};
use super::outer::{as_outer, has_subquery};
use super::pull::{equality, pull};
use super::{Rewrite, column_of, only_columns};
use crate::fallible::{can_fail, plan_can_fail};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Projection, lit};
use std::sync::Arc;

/// The parts of a condition that are looked at first, as they hold no subquery, and the others. A part that can fail stays
/// behind the subqueries that stand before it.
fn in_order(parts: Vec<Expr>, schema: &DFSchema) -> Result<(Vec<Expr>, Vec<Expr>)> {
    let (mut plain, mut others) = (Vec::new(), Vec::new());
    for part in parts {
        match has_subquery(&part)? || !others.is_empty() && can_fail(&part, schema) {
            true => others.push(part),
            false => plain.push(part),
        }
    }
    Ok((plain, others))
}

impl Rewrite {
    /// The rows for which a condition holds.
    ///
    /// # Arguments
    /// - `is_behind`: whether the rows are those of another condition already, which stands before this one.
    pub(super) fn filter(&mut self, filter: Filter, is_behind: bool) -> Result<LogicalPlan> {
        let schema = filter.input.schema().clone();
        let parts = split_conjunction_owned(filter.predicate);
        let (plain, others) = in_order(parts, &schema)?;
        let mut is_behind = is_behind || !plain.is_empty();
        let mut current = filtered((*filter.input).clone(), plain)?;
        let base = current.clone();
        let mut values = Vec::new();
        for part in others {
            if !values.is_empty() {
                values.push(part);
                continue;
            }
            match Quantified::of(part)? {
                Ok(quantified) => {
                    for (subquery, negated) in quantified.tests(current.schema())? {
                        current = self.keep_if_exists(current, &base, &subquery, negated, is_behind)?;
                        current = super::bounded(current)?;
                    }
                    is_behind = true;
                }
                Err(other) => values.push(other),
            }
        }
        if values.is_empty() {
            return Ok(current);
        }
        let mut attaching = match is_behind {
            true => Attaching::behind(self, current, Vec::new()),
            false => Attaching::over(self, current),
        };
        let values = attaching.all(values)?;
        only_columns(filtered(attaching.current, values)?, &schema)
    }

    /// The rows for which a subquery has rows, or has none.
    ///
    /// # Arguments
    /// - `base`: the rows before any other subquery was asked about them: a domain that cannot fail is of these, so that it
    ///   does not hold the joins of the others.
    fn keep_if_exists(
        &mut self,
        rows: LogicalPlan,
        base: &LogicalPlan,
        subquery: &LogicalPlan,
        negated: bool,
        is_behind: bool,
    ) -> Result<LogicalPlan> {
        let subquery = super::values::any_rows(subquery);
        if super::values::has_a_row(subquery) {
            return filtered(rows, vec![lit(!negated)]);
        }
        if never_has_rows(subquery, rows.schema())? {
            return filtered(rows, vec![lit(negated)]);
        }
        let kind = match negated {
            true => JoinType::LeftAnti,
            false => JoinType::LeftSemi,
        };
        let is_behind = is_behind || self.is_guarded;
        let pulled = match is_behind {
            true => self.guarded_base(&rows, subquery)?,
            false => pull(subquery)?,
        };
        if let Some(pulled) = pulled
            && !pulled.nests()?
        {
            let before = std::mem::replace(&mut self.is_guarded, is_behind);
            let base = self.plan(pulled.base);
            self.is_guarded = before;
            return self.keep_if_matched(rows, base?, pulled.conditions, kind);
        }
        let source = if is_behind && plan_can_fail(subquery)? {
            &rows
        } else {
            base
        };
        let (domain, flat) = self.flattened(subquery, source, is_behind.then_some(&[]))?;
        let columns: Vec<Expr> = flat.columns.into_iter().map(Expr::Column).collect();
        let right = LogicalPlan::Projection(Projection::try_new(columns.clone(), Arc::new(flat.plan))?);
        joined(rows, right, kind, domain.pairs(columns), !flat.never_null, None)
    }

    /// The rows with a match under conditions.
    fn keep_if_matched(
        &mut self,
        rows: LogicalPlan,
        base: LogicalPlan,
        conditions: Vec<Expr>,
        kind: JoinType,
    ) -> Result<LogicalPlan> {
        let schema = base.schema().clone();
        let (right, conditions) = self.with_own_names(base, conditions)?;
        let (mut on, mut residual) = (Vec::new(), Vec::new());
        for condition in conditions {
            match equality(&condition) {
                Some((own, outer)) => on.push((as_outer(outer.clone(), &schema)?, own.clone())),
                None => residual.push(as_outer(condition, &schema)?),
            }
        }
        joined(rows, right, kind, on, false, conjunction(residual))
    }

    /// The columns that conditions name, under names that no other relation has; where they name none, whether there is
    /// a row.
    fn with_own_names(&mut self, base: LogicalPlan, conditions: Vec<Expr>) -> Result<(LogicalPlan, Vec<Expr>)> {
        let mut named: Vec<datafusion::common::Column> = Vec::new();
        for column in conditions.iter().flat_map(|condition| condition.column_refs()) {
            if !named.contains(column) {
                named.push(column.clone());
            }
        }
        // Their order must not depend on how a set of them is hashed.
        named.sort_by_key(|column| base.schema().maybe_index_of_column(column));
        if named.is_empty() {
            return Ok((self.existence(base)?, conditions));
        }
        let relation = self.name("match");
        let columns = named.iter().enumerate().map(|(index, column)| {
            column_of(
                Expr::Column(column.clone()),
                &relation,
                &format!("{}_{index}", column.name),
            )
        });
        let (exprs, renamed): (Vec<Expr>, Vec<_>) = columns.unzip();
        let conditions = conditions.into_iter().map(|condition| {
            let renamed = condition.transform_up(|part| match &part {
                Expr::Column(column) => match named.iter().position(|known| known == column) {
                    Some(position) => Ok(Transformed::yes(Expr::Column(renamed[position].clone()))),
                    None => Ok(Transformed::no(part)),
                },
                _ => Ok(Transformed::no(part)),
            });
            Ok(renamed?.data)
        });
        let conditions = conditions.collect::<Result<_>>()?;
        let right = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(base))?);
        Ok((right, conditions))
    }
}
