//! Aggregations of a subquery: the domain's columns join its keys.

use super::flatten::{Flat, Flattening, joined, pairs};
use super::unsupported;
use datafusion::common::JoinType;
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use std::sync::Arc;

impl Flattening<'_> {
    /// An aggregation whose rows name outer columns.
    pub(super) fn aggregate(&mut self, node: &LogicalPlan, aggregate: &Aggregate) -> Result<Flat> {
        let is_of_sets = |key: &Expr| matches!(key, Expr::GroupingSet(_));
        if aggregate.group_expr.iter().any(is_of_sets) {
            return Err(unsupported(
                "an outer column under GROUPING SETS, ROLLUP or CUBE in a subquery",
            ));
        }
        let flat = self.plan(&aggregate.input)?;
        let grouped = self.grouped(node, &flat)?;
        if !aggregate.group_expr.is_empty() {
            return Ok(Flat { plan: grouped, ..flat });
        }
        // Without groups there is a row for every row of the domain, also where there is nothing to aggregate.
        let rows = self.rows()?;
        let name = self.rewrite.name("group");
        let own: Vec<Expr> = flat.columns.iter().cloned().map(Expr::Column).collect();
        let (mut exprs, columns) = self.domain_columns(&name, own);
        exprs.extend(aggregate.schema.columns().into_iter().map(Expr::Column));
        let grouped = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(grouped))?);
        let on = pairs(&rows.columns, &columns);
        let null_safe = !(rows.never_null || flat.never_null);
        let plan = joined(rows.plan, grouped, JoinType::Left, on, null_safe, None)?;
        let mut exprs: Vec<Expr> = rows.columns.iter().cloned().map(Expr::Column).collect();
        for (column, call) in aggregate.schema.columns().into_iter().zip(&aggregate.aggr_expr) {
            let (relation, own) = (column.relation.clone(), column.name.clone());
            let value = super::values::or_default(Expr::Column(column), call, &aggregate.schema)?;
            exprs.push(value.alias_qualified(relation, own));
        }
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
        Ok(Flat {
            plan,
            columns: rows.columns,
            never_null: rows.never_null,
        })
    }

    /// An aggregation with the domain's columns among its keys.
    pub(super) fn grouped(&self, node: &LogicalPlan, flat: &Flat) -> Result<LogicalPlan> {
        let LogicalPlan::Aggregate(inside) = self.all_inside(node, &flat.columns)? else {
            return Ok(node.clone());
        };
        let mut keys: Vec<Expr> = flat.columns.iter().cloned().map(Expr::Column).collect();
        keys.extend(inside.group_expr);
        let grouped = Aggregate::try_new(Arc::new(flat.plan.clone()), keys, inside.aggr_expr)?;
        Ok(LogicalPlan::Aggregate(grouped))
    }
}
