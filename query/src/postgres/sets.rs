//! GROUPING SETS, ROLLUP and CUBE over expressions: the keys become columns of a projection below.
//!
//! DataFusion names the keys of grouping sets by their text, which changes when literals get their types; and it
//! compares them by their bits, for which `0` and `-0` are two. A column has a name of its own and one zero.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Alias;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder, Projection};
use std::sync::Arc;

/// Name of a column that holds what a key of floats was before it had one zero.
const BEFORE: &str = "\u{2}before one zero";

/// An aggregation whose grouping sets are of columns; other nodes as they are.
///
/// # Arguments
/// - `floats`: whether keys of floats are to have one zero, instead of keys being made columns.
pub(crate) fn of_columns(node: LogicalPlan, floats: bool) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Aggregate(aggregate) = node else {
        return Ok(Transformed::no(node));
    };
    let schema = aggregate.input.schema().clone();
    let is_found = |key: &Expr| match floats {
        true => crate::zeros::is_float(key, &schema),
        false => !matches!(key, Expr::Column(_)),
    };
    let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice() else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    let mut keys: Vec<Expr> = Vec::new();
    for key in sets.distinct_expr().into_iter().filter(|key| is_found(key)) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    let is_done = floats && schema.fields().iter().any(|field| field.name().starts_with(BEFORE));
    if keys.is_empty() || is_done {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let input = match floats {
        true => with_one_zero(&aggregate.input, &schema, &keys)?,
        false => with_columns(&aggregate.input, &keys)?,
    };
    let to_column = |expr: Expr| match keys.contains(&expr) && !floats {
        true => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(
            expr.schema_name().to_string(),
        )))),
        false => Ok(Transformed::no(expr)),
    };
    let changed = |sets: &GroupingSet| -> Result<GroupingSet> {
        let all = |keys: &[Expr]| -> Result<Vec<Expr>> {
            keys.iter()
                .map(|key| Ok(key.clone().transform_up(to_column)?.data))
                .collect()
        };
        Ok(match sets {
            GroupingSet::Rollup(keys) => GroupingSet::Rollup(all(keys)?),
            GroupingSet::Cube(keys) => GroupingSet::Cube(all(keys)?),
            GroupingSet::GroupingSets(sets) => {
                GroupingSet::GroupingSets(sets.iter().map(|set| all(set)).collect::<Result<_>>()?)
            }
        })
    };
    let group_expr = vec![Expr::GroupingSet(changed(sets)?)];
    let names = NamePreserver::new_for_projection();
    let aggr_expr: Vec<Expr> = aggregate
        .aggr_expr
        .iter()
        .map(|expr| {
            let name = names.save(expr);
            let of_call = |expr: Expr| match &expr {
                Expr::AggregateFunction(call) if call.func.name() == "grouping" => expr.map_children(to_column),
                Expr::Column(column) if floats && keys.contains(&expr) => {
                    Ok(Transformed::yes(Expr::Column(Column::new_unqualified(before(column)))))
                }
                _ => Ok(Transformed::no(expr)),
            };
            let is_grouping = matches!(expr, Expr::AggregateFunction(call) if call.func.name() == "grouping");
            let rewritten = match floats && is_grouping {
                true => expr.clone(),
                false => expr.clone().transform_up(of_call)?.data,
            };
            Ok(name.restore(rewritten))
        })
        .collect::<Result<_>>()?;
    let aggregate = Aggregate::try_new(Arc::new(input), group_expr, aggr_expr)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

fn before(column: &Column) -> String {
    format!("{BEFORE} {}", column.flat_name())
}

/// The input with a column for each key, named as the key is.
fn with_columns(input: &Arc<LogicalPlan>, keys: &[Expr]) -> Result<LogicalPlan> {
    let own = input.schema().columns().into_iter().map(Expr::Column);
    let named = keys.iter().map(|key| key.clone().alias(key.schema_name().to_string()));
    let projection = Projection::try_new(own.chain(named).collect(), input.clone())?;
    Ok(LogicalPlan::Projection(projection))
}

/// The input whose keys have one zero; what they were stands beside them.
fn with_one_zero(input: &Arc<LogicalPlan>, schema: &DFSchema, keys: &[Expr]) -> Result<LogicalPlan> {
    let mut columns = Vec::new();
    for (qualifier, field) in schema.iter() {
        let column = Column::new(qualifier.cloned(), field.name());
        let expr = Expr::Column(column.clone());
        if !keys.contains(&expr) {
            columns.push(expr);
            continue;
        }
        let plain = crate::zeros::wrapped(expr.clone(), schema);
        columns.push(Expr::Alias(Alias::new(plain, qualifier.cloned(), field.name())));
        columns.push(expr.alias(before(&column)));
    }
    LogicalPlanBuilder::from(input.clone()).project(columns)?.build()
}
