//! GROUPING SETS, ROLLUP and CUBE: one aggregation per set, all of them over the same input.

use super::{Lowered, Lowering, column_expr, not_supported};
use crate::error::from_datafusion;
use arrow::datatypes::DataType;
use cenote_engine::plan::{Node, NodeId};
use cenote_statestore::Result;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::utils::{merge_schema, powerset};
use datafusion::logical_expr::{Aggregate, Expr, ExprSchemable, GroupingSet, LogicalPlan};
use std::sync::Arc;

impl Lowering {
    pub(super) fn lower_grouping_sets(&mut self, aggregate: &Aggregate, grouping: &GroupingSet) -> Result<Lowered> {
        let all = grouping.distinct_expr();
        let sets = sets_of(grouping)?;
        let mut inputs: Vec<NodeId> = Vec::new();
        let mut schema = None;
        for (position, set) in sets.iter().enumerate() {
            // The groups of a set that is named twice are there twice, and kept once.
            if let Some(known) = sets[..position].iter().position(|known| known == set) {
                inputs.push(inputs[known]);
                continue;
            }
            let lowered = self.lower_set(aggregate, &all, set)?;
            inputs.push(lowered.node);
            schema.get_or_insert(lowered.schema);
        }
        let schema = schema.ok_or_else(|| not_supported("GROUPING SETS without a set"))?;
        let columns = Arc::new(schema.as_arrow().clone());
        let node = self.add(Node::Union {
            inputs,
            schema: columns,
        });
        Ok(Lowered {
            node,
            schema,
            key: None,
        })
    }

    /// One set's groups, in the columns of all sets.
    fn lower_set(&mut self, aggregate: &Aggregate, all: &[&Expr], set: &[Expr]) -> Result<Lowered> {
        let grouped = Aggregate::try_new(aggregate.input.clone(), set.to_vec(), aggregate.aggr_expr.clone());
        let grouped = LogicalPlan::Aggregate(grouped.map_err(from_datafusion)?);
        let lowered = self.lower(&grouped)?;
        let mut exprs = Vec::new();
        let mut absent = 0u64;
        for key in all {
            absent <<= 1;
            match set.iter().position(|own| own == *key) {
                Some(position) => exprs.push(column_expr(&lowered.schema, position)),
                None => {
                    absent |= 1;
                    let data_type = key.get_type(aggregate.input.schema()).map_err(from_datafusion)?;
                    let null = ScalarValue::try_from(&data_type).map_err(from_datafusion)?;
                    exprs.push(Expr::Literal(null, None));
                }
            }
        }
        let id = ScalarValue::UInt64(Some(absent)).cast_to(aggregate.schema.field(all.len()).data_type());
        exprs.push(Expr::Literal(id.map_err(from_datafusion)?, None));
        let results = set.len()..set.len() + aggregate.aggr_expr.len();
        exprs.extend(results.map(|column| column_expr(&lowered.schema, column)));
        self.project(lowered, &exprs, &aggregate.schema, &[])
    }
}

fn sets_of(grouping: &GroupingSet) -> Result<Vec<Vec<Expr>>> {
    let sets = match grouping {
        GroupingSet::GroupingSets(sets) => sets.clone(),
        GroupingSet::Rollup(keys) => (0..=keys.len()).rev().map(|length| keys[..length].to_vec()).collect(),
        GroupingSet::Cube(keys) => {
            let sets = powerset(keys).map_err(from_datafusion)?;
            sets.into_iter().map(|set| set.into_iter().cloned().collect()).collect()
        }
    };
    let once = |set: Vec<Expr>| {
        let mut kept: Vec<Expr> = Vec::new();
        for key in set {
            if !kept.contains(&key) {
                kept.push(key);
            }
        }
        kept
    };
    Ok(sets.into_iter().map(once).collect())
}

/// Casts the number that tells the sets apart to the type that the plan takes it for: it is kept in another one, as
/// unsigned numbers have no type in SQL.
pub(super) fn with_set_numbers(plan: &LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.clone().transform_up(|node| {
        if matches!(node, LogicalPlan::TableScan(_) | LogicalPlan::Aggregate(_)) {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        node.map_expressions(|expr| {
            expr.transform_up(|expr| match &expr {
                Expr::Column(column) if column.name == Aggregate::INTERNAL_GROUPING_ID => {
                    let data_type = expr.get_type(&schema)?;
                    match data_type {
                        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
                            Ok(Transformed::yes(datafusion::prelude::cast(expr, data_type)))
                        }
                        _ => Ok(Transformed::no(expr)),
                    }
                }
                _ => Ok(Transformed::no(expr)),
            })
        })
    });
    Ok(rewritten.map_err(from_datafusion)?.data)
}
