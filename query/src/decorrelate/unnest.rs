//! UNNEST for each row of what stands before it, without a join: the row's other columns go along with the elements.
//!
//! `FROM t, unnest(t.a) x` and `FROM t LEFT JOIN unnest(t.a) x ON true`; of the latter an array without elements gives one
//! that is NULL. What has more in it than projections and an UNNEST is computed for its domain, as other subqueries are.

use super::outer::has_subquery;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Projection, Unnest, lit,
};
use std::sync::Arc;

/// The join of rows with what is unnested for each of them; `None`: it is none of these.
pub(super) fn joined(join: &Join, inner: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let is_left = join.join_type == JoinType::Left;
    let is_true = join.filter.as_ref().is_none_or(|filter| *filter == lit(true));
    if !has_unnest(inner)? || is_left && (!join.on.is_empty() || !is_true) {
        return Ok(None);
    }
    let beside = Beside {
        rows: &join.left,
        is_left,
    };
    let Some(plan) = beside.plan(inner)? else {
        return Ok(None);
    };
    let equal = join.on.iter().map(|(left, right)| left.clone().eq(right.clone()));
    match conjunction(equal.chain(join.filter.clone())).filter(|_| !is_true || !join.on.is_empty()) {
        Some(condition) => LogicalPlanBuilder::from(plan).filter(condition)?.build().map(Some),
        None => Ok(Some(plan)),
    }
}

fn has_unnest(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        found |= matches!(node, LogicalPlan::Unnest(_));
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Rows that a plan is computed beside.
struct Beside<'a> {
    rows: &'a LogicalPlan,
    /// Whether a row without elements stays.
    is_left: bool,
}

impl Beside<'_> {
    /// The rows' columns and, behind them, the plan's for each row.
    fn plan(&self, plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
        match plan {
            LogicalPlan::EmptyRelation(empty) if empty.produce_one_row && empty.schema.fields().is_empty() => {
                Ok(Some(self.rows.clone()))
            }
            LogicalPlan::Subquery(subquery) => self.plan(&subquery.subquery),
            LogicalPlan::Projection(projection) => {
                let Some(input) = self.plan(&projection.input)? else {
                    return Ok(None);
                };
                // What is computed of the element that stands for none would have to be NULL.
                let is_below = !has_unnest(&projection.input)?;
                let is_plain = |expr: &Expr| matches!(unalias(expr), Expr::Column(_));
                if self.is_left && !is_below && !projection.expr.iter().all(is_plain) {
                    return Ok(None);
                }
                let own = projection.expr.iter().map(|expr| self.inside(expr));
                let own = own.collect::<Result<Option<Vec<Expr>>>>()?;
                Ok(own.and_then(|own| self.projected(input, own)))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(input) = self.plan(&alias.input)? else {
                    return Ok(None);
                };
                let own = alias.input.schema().columns().into_iter().zip(alias.schema.iter());
                let own = own.map(|(column, (relation, field))| {
                    Expr::Column(column).alias_qualified(relation.cloned(), field.name())
                });
                Ok(self.projected(input, own.collect()))
            }
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            _ => Ok(None),
        }
    }

    /// The rows' columns before some of a plan; `None`: names would meet.
    fn projected(&self, input: LogicalPlan, own: Vec<Expr>) -> Option<LogicalPlan> {
        let mut exprs: Vec<Expr> = self.rows.schema().columns().into_iter().map(Expr::Column).collect();
        exprs.extend(own);
        let projection = Projection::try_new(exprs, Arc::new(input)).ok()?;
        Some(LogicalPlan::Projection(projection))
    }

    /// An expression over the rows' columns; `None`: it takes others from outside, or has a subquery.
    fn inside(&self, expr: &Expr) -> Result<Option<Expr>> {
        if has_subquery(expr)? {
            return Ok(None);
        }
        let mut is_all = true;
        let replaced = expr.clone().transform_up(|part| match part {
            Expr::OuterReferenceColumn(_, column) => {
                is_all &= self.rows.schema().maybe_index_of_column(&column).is_some();
                Ok(Transformed::yes(Expr::Column(column)))
            }
            part => Ok(Transformed::no(part)),
        })?;
        Ok(is_all.then_some(replaced.data))
    }

    fn unnest(&self, unnest: &Unnest) -> Result<Option<LogicalPlan>> {
        let is_one = matches!(unnest.exec_columns.as_slice(), [_]) && unnest.struct_type_columns.is_empty();
        if self.is_left && !is_one {
            return Ok(None);
        }
        let Some(mut input) = self.plan(&unnest.input)? else {
            return Ok(None);
        };
        if self.is_left {
            input = or_one_null(input, &unnest.exec_columns)?;
        }
        let columns = unnest.exec_columns.clone();
        let plan = LogicalPlanBuilder::from(input).unnest_columns_with_options(columns, unnest.options.clone())?;
        plan.build().map(Some)
    }
}

/// A plan whose arrays without elements have one that is NULL.
fn or_one_null(input: LogicalPlan, columns: &[Column]) -> Result<LogicalPlan> {
    let schema = input.schema().clone();
    let exprs = schema
        .columns()
        .into_iter()
        .map(|column| match columns.contains(&column) {
            true => one_at_least(column, &schema),
            false => Ok(Expr::Column(column)),
        });
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
}

fn one_at_least(column: Column, schema: &DFSchema) -> Result<Expr> {
    let (relation, name) = (column.relation.clone(), column.name.clone());
    let array = Expr::Column(column);
    let data_type = array.get_type(schema)?;
    let array = crate::arrays::or_one_null(array, &data_type)?;
    Ok(array.alias_qualified(relation, name))
}

fn unalias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unalias(&alias.expr),
        other => other,
    }
}
