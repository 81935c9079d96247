//! Joins with subqueries: LATERAL, in ON, and with outer columns on either side.

use super::attach::Attaching;
use super::flatten::{Domain, Flat, Flattening, filtered, joined, pairs};
use super::outer::{has_subquery, in_plan, outer_expressions};
use super::{Rewrite, only_columns, unsupported};
use crate::fallible::can_fail;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{ExprSchema, JoinConstraint, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::coalesce;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection, Subquery, SubqueryAlias};
use std::sync::Arc;

/// The query of a LATERAL item of FROM.
pub(super) fn lateral(plan: &LogicalPlan) -> Option<LogicalPlan> {
    match plan {
        LogicalPlan::Subquery(subquery) => Some((*subquery.subquery).clone()),
        LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
            LogicalPlan::Subquery(subquery) => {
                let named = SubqueryAlias::try_new(subquery.subquery.clone(), alias.alias.clone());
                named.ok().map(LogicalPlan::SubqueryAlias)
            }
            _ => None,
        },
        _ => None,
    }
}

/// Rows among which are all that a domain is of: which of them a LIMIT lets through need not be known.
///
/// # Errors
/// 0A000: the rows could be others when they are computed again.
pub(super) fn domain_source(rows: &LogicalPlan) -> Result<LogicalPlan> {
    let source = widened(rows)?;
    let mut changing = None;
    source.apply(|node| {
        if matches!(node, LogicalPlan::Limit(_)) {
            changing = Some("a correlated subquery over what is computed of the rows of a LIMIT");
        }
        node.apply_expressions(|expr| {
            if expr.is_volatile() {
                changing = Some("a correlated subquery over rows with a function whose value changes with every call");
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    changing.map_or(Ok(source), |what| Err(unsupported(what)))
}

/// A plan whose rows are all of the given one's, and those that a LIMIT kept back.
fn widened(plan: &LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Sort(sort) => widened(&sort.input),
        LogicalPlan::Limit(limit) => widened(&limit.input),
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::SubqueryAlias(_) => {
            let input = widened(plan.inputs()[0])?;
            plan.with_new_exprs(plan.expressions(), vec![input])
        }
        LogicalPlan::Join(join) => {
            use JoinType::{Inner, Left, LeftAnti, LeftSemi, Right};
            let (mut left, mut right) = ((*join.left).clone(), (*join.right).clone());
            if matches!(join.join_type, Inner | Left | LeftSemi | LeftAnti) {
                left = widened(&left)?;
            }
            if matches!(join.join_type, Inner | Right) {
                right = widened(&right)?;
            }
            plan.with_new_exprs(plan.expressions(), vec![left, right])
        }
        other => Ok(other.clone()),
    }
}

impl Rewrite {
    /// A subquery computed for all rows that it can be asked for.
    ///
    /// # Arguments
    /// - `guards`: conditions on the rows, without which it is not computed.
    pub(super) fn flattened(
        &mut self,
        subquery: &LogicalPlan,
        rows: &LogicalPlan,
        guards: Option<&[Expr]>,
    ) -> Result<(Domain, Flat)> {
        let domain = self.domain(subquery, rows, guards)?;
        let flat = match domain.outer.is_empty() {
            true => Flat {
                plan: subquery.clone(),
                columns: Vec::new(),
                never_null: true,
            },
            false => {
                let (rewrite, domain) = (&mut *self, &domain);
                Flattening { rewrite, domain }.plan(subquery)?
            }
        };
        let flat = self.finished(flat, &domain)?;
        Ok((domain, flat))
    }

    /// A join with an item that is computed for each row of the left side.
    pub(super) fn lateral(&mut self, join: Join, inner: LogicalPlan) -> Result<LogicalPlan> {
        if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return Err(unsupported(format!("LATERAL in a {} JOIN", join.join_type)));
        }
        if let Some(plan) = super::unnest::joined(&join, &inner)? {
            return only_columns(self.node(plan)?.data, &join.schema);
        }
        let (domain, flat) = self.flattened(&inner, &join.left, None)?;
        let on = domain.pairs(flat.columns.into_iter().map(Expr::Column));
        let equal = join.on.into_iter().map(|(left, right)| left.eq(right));
        let condition = conjunction(equal.chain(join.filter));
        let left = (*join.left).clone();
        let joined = joined(left, flat.plan, join.join_type, on, !flat.never_null, condition)?;
        only_columns(self.node(joined)?.data, &join.schema)
    }

    /// A join with subqueries in its condition: of an inner join they are conditions on its rows; else each is computed
    /// on the side whose columns it takes.
    pub(super) fn join(&mut self, join: Join) -> Result<LogicalPlan> {
        let mut above = Vec::new();
        let mut kept = Vec::new();
        let (mut left, mut right) = ((*join.left).clone(), (*join.right).clone());
        let parts = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
        for part in parts {
            let waits = !above.is_empty() && can_fail(&part, &join.schema);
            if join.join_type == JoinType::Inner && (waits || has_subquery(&part)?) {
                above.push(part);
            } else if !has_subquery(&part)? {
                kept.push(part);
            } else {
                let columns = columns_of(&part)?;
                let all_in = |plan: &LogicalPlan| has_all(plan, columns.iter());
                let side = match (all_in(&join.right), all_in(&join.left)) {
                    (true, _) => &mut right,
                    (_, true) => &mut left,
                    _ => return self.of_both_sides(join),
                };
                let guards = kept
                    .iter()
                    .filter(|guard: &&Expr| has_all(side, guard.column_refs().into_iter()));
                let guards = guards.map(|guard| guard.clone().is_not_false()).collect();
                let mut values = Attaching::behind(self, side.clone(), guards);
                kept.push(values.replaced(part, false)?);
                *side = values.current;
            }
        }
        for (left, right) in &join.on {
            if has_subquery(left)? || has_subquery(right)? {
                return Err(unsupported("a subquery as a key of a join"));
            }
        }
        let null_safe = join.null_equality == NullEquality::NullEqualsNull;
        let plan = joined(left, right, join.join_type, join.on, null_safe, conjunction(kept))?;
        let plan = only_columns(plan, &join.schema)?;
        match filtered(plan, above)? {
            LogicalPlan::Filter(filter) => self.filter(filter, true),
            plan => Ok(plan),
        }
    }

    /// An outer join with a subquery over columns of both sides in its condition: for each row of the side that is kept,
    /// the rows of the other one under the condition.
    fn of_both_sides(&mut self, join: Join) -> Result<LogicalPlan> {
        let (kept, other) = match join.join_type {
            JoinType::Left => (join.left, join.right),
            JoinType::Right => (join.right, join.left),
            _ => {
                return Err(unsupported(
                    "a subquery over columns of both sides in ON of a FULL JOIN",
                ));
            }
        };
        let equal = join.on.into_iter().map(|(left, right)| left.eq(right));
        let mut conditions = Vec::new();
        for condition in equal.chain(join.filter) {
            let seen = condition.transform_up(|part| match part {
                Expr::Column(column) if other.schema().maybe_index_of_column(&column).is_none() => {
                    let field = kept.schema().field_from_column(&column)?.clone();
                    Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
                }
                part => Ok(Transformed::no(part)),
            });
            conditions.push(seen?.data);
        }
        let inner = filtered((*other).clone(), conditions)?;
        let nulls = NullEquality::NullEqualsNothing;
        let each = Join::try_new(
            kept,
            other,
            Vec::new(),
            None,
            JoinType::Left,
            JoinConstraint::On,
            nulls,
            false,
        )?;
        let plan = self.lateral(each, inner)?;
        let columns = join.schema.columns().into_iter().map(Expr::Column).collect();
        Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
    }
}

fn has_all<'a>(plan: &LogicalPlan, mut columns: impl Iterator<Item = &'a datafusion::common::Column>) -> bool {
    columns.all(|column| plan.schema().maybe_index_of_column(column).is_some())
}

/// The columns that an expression and the subqueries in it take from the rows they are computed on.
fn columns_of(expr: &Expr) -> Result<Vec<datafusion::common::Column>> {
    let mut columns: Vec<_> = expr.column_refs().into_iter().cloned().collect();
    expr.apply(|part| {
        let subquery = match part {
            Expr::ScalarSubquery(subquery) => subquery,
            Expr::Exists(exists) => &exists.subquery,
            Expr::InSubquery(test) => &test.subquery,
            Expr::SetComparison(comparison) => &comparison.subquery,
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        for outer in outer_expressions(&subquery.subquery)? {
            columns.extend(outer.column_refs().into_iter().cloned());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}

impl Flattening<'_> {
    /// A join of which a side, or the condition, names outer columns.
    pub(super) fn join(&mut self, join: &Join) -> Result<Flat> {
        use JoinType::{Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
        if let Some(inner) = lateral(&join.right) {
            return self.lateral(join, inner);
        }
        let (left_keys, right_keys): (Vec<&Expr>, Vec<&Expr>) =
            join.on.iter().map(|(left, right)| (left, right)).unzip();
        let (of_left, of_right) = (
            self.is_of(&join.left, &left_keys)?,
            self.is_of(&join.right, &right_keys)?,
        );
        match join.join_type {
            Inner | Left | LeftSemi | LeftAnti | LeftMark if !of_right => {
                let flat = self.plan(&join.left)?;
                let right = (*join.right).clone();
                self.with_sides(join, flat.plan.clone(), right, flat)
            }
            Inner | Right | RightSemi | RightAnti | RightMark if !of_left => {
                let flat = self.plan(&join.right)?;
                let left = (*join.left).clone();
                self.with_sides(join, left, flat.plan.clone(), flat)
            }
            Full | Inner | Left | LeftSemi | LeftAnti | LeftMark | Right | RightSemi | RightAnti | RightMark => {
                self.both_sides(join)
            }
        }
    }

    /// Whether a side, or what the join computes of it, is not to be computed by itself.
    fn is_of(&self, side: &LogicalPlan, keys: &[&Expr]) -> Result<bool> {
        let fails = keys.iter().any(|key| can_fail(key, side.schema()));
        Ok(self.needs_domain(side)? || self.domain.is_guarded() && fails)
    }

    /// The join of sides of which one holds the domain.
    fn with_sides(&mut self, join: &Join, left: LogicalPlan, right: LogicalPlan, flat: Flat) -> Result<Flat> {
        let (on, filter) = self.condition(join, &flat)?;
        let null_safe = join.null_equality == NullEquality::NullEqualsNull;
        let plan = joined(left, right, join.join_type, on, null_safe, filter)?;
        Ok(Flat { plan, ..flat })
    }

    #[allow(clippy::type_complexity)]
    fn condition(&self, join: &Join, flat: &Flat) -> Result<(Vec<(Expr, Expr)>, Option<Expr>)> {
        let local = join.left.schema().join(join.right.schema())?;
        let inside = |expr: &Expr| self.inside(expr.clone(), &local, &flat.columns);
        let on = join.on.iter().map(|(left, right)| Ok((inside(left)?, inside(right)?)));
        let filter = join.filter.clone();
        let filter = filter.map(|filter| self.in_turn(filter, &local, &flat.columns));
        let filter = filter.transpose()?;
        Ok((on.collect::<Result<_>>()?, filter.as_ref().map(inside).transpose()?))
    }

    /// The join of sides that hold the domain both.
    fn both_sides(&mut self, join: &Join) -> Result<Flat> {
        let (left, right) = (self.plan(&join.left)?, self.plan(&join.right)?);
        let never_null = left.never_null && right.never_null;
        let (own, filter) = match join.join_type {
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                self.condition(join, &right)?
            }
            _ => self.condition(join, &left)?,
        };
        let mut on = pairs(&left.columns, &right.columns);
        let mut conditions: Vec<Expr> = filter.into_iter().collect();
        if !never_null && join.null_equality == NullEquality::NullEqualsNothing {
            // One join takes NULL for equal to NULL in all of its keys or in none.
            conditions.extend(own.iter().map(|(left, _)| left.clone().is_not_null()));
        }
        on.extend(own);
        let plan = joined(
            left.plan,
            right.plan,
            join.join_type,
            on,
            !never_null || join.null_equality == NullEquality::NullEqualsNull,
            conjunction(conditions),
        )?;
        match join.join_type {
            JoinType::Full => self.either(plan, join, left.columns, right.columns, never_null),
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => Ok(Flat {
                plan,
                columns: right.columns,
                never_null: right.never_null,
            }),
            _ => Ok(Flat {
                plan,
                columns: left.columns,
                never_null: left.never_null,
            }),
        }
    }

    /// The domain's columns of a full join: of the side that has a row.
    fn either(
        &mut self,
        plan: LogicalPlan,
        join: &Join,
        left: Vec<datafusion::common::Column>,
        right: Vec<datafusion::common::Column>,
        never_null: bool,
    ) -> Result<Flat> {
        let name = self.rewrite.name("outer");
        let pairs = pairs(&left, &right).into_iter();
        let given = pairs.map(|(left, right)| coalesce(vec![left, right])).collect();
        let (mut exprs, columns) = self.domain_columns(&name, given);
        exprs.extend(join.schema.columns().into_iter().map(Expr::Column));
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
        Ok(Flat {
            plan,
            columns,
            never_null,
        })
    }

    /// A LATERAL item inside the subquery: its outer columns become columns of the left side.
    fn lateral(&mut self, join: &Join, inner: LogicalPlan) -> Result<Flat> {
        let flat = self.plan(&join.left)?;
        let hidden = [join.left.schema().clone()];
        let inner = in_plan(inner, &hidden, &mut |outer, _| self.as_outer_column(outer, &flat))?;
        let right = LogicalPlan::Subquery(Subquery {
            outer_ref_columns: inner.all_out_ref_exprs(),
            subquery: Arc::new(inner),
            spans: Default::default(),
        });
        self.with_sides(join, flat.plan.clone(), right, flat)
    }
}
