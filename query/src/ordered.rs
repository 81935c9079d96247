//! AND and OR from left to right: the right side is computed for those rows alone that the left side does not decide.
//!
//! DataFusion computes both sides for all rows of a batch, so that `b <> 0 AND a / b > 1` fails on a row that the left
//! side refuses. [`ordered`] replaces the operators whose right side can fail: in all expressions of views, and in the
//! filters and projections of ad-hoc queries. In the other nodes of these, [`planning`] says them with CASE.
//!
//! # Not here
//! CASE and coalesce: DataFusion's own do as much. What can fail: [`crate::fallible`].

mod guards;
mod join_filters;
mod kept;
pub(crate) mod planning;

use crate::fallible::physical_can_fail;
use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{and_kleene, is_not_null, not, or_kleene};
use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// An expression whose ANDs and ORs go from left to right where it matters.
///
/// # Arguments
/// - `schema`: the columns of the rows that it is computed of.
pub(crate) fn ordered(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let rewritten = expr.transform_up(|expr| {
        let found = expr.downcast_ref::<BinaryExpr>();
        let found = found.filter(|binary| matches!(binary.op(), Operator::And | Operator::Or));
        Ok(match found.filter(|binary| physical_can_fail(binary.right(), schema)) {
            Some(binary) => Transformed::yes(Arc::new(Ordered {
                left: binary.left().clone(),
                is_and: *binary.op() == Operator::And,
                right: binary.right().clone(),
            }) as Arc<dyn PhysicalExpr>),
            None => Transformed::no(expr),
        })
    })?;
    Ok(rewritten.data)
}

pub(crate) use guards::{GuardedArguments, fails};
pub(crate) use join_filters::kept_in_order;

/// The rule that orders the conditions of an ad-hoc query's filters and projections.
pub(crate) fn rule() -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    Arc::new(OrderedConditions)
}

#[derive(Debug)]
struct OrderedConditions;

impl PhysicalOptimizerRule for OrderedConditions {
    fn name(&self) -> &str {
        "ordered_conditions"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(plan.transform_up(of_node)?.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn of_node(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let schema = filter.input().schema();
        let predicate = ordered(safe_first(filter.predicate(), &schema), &schema)?;
        if Arc::ptr_eq(&predicate, filter.predicate()) {
            return Ok(Transformed::no(plan));
        }
        let rewritten = FilterExecBuilder::from(filter).with_predicate(predicate).build()?;
        return Ok(Transformed::yes(kept::kept(Arc::new(rewritten), &plan)));
    }
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        return Ok(Transformed::no(plan));
    };
    let schema = projection.input().schema();
    let exprs: Vec<ProjectionExpr> = projection
        .expr()
        .iter()
        .map(|one| {
            Ok(ProjectionExpr::new(
                ordered(one.expr.clone(), &schema)?,
                one.alias.clone(),
            ))
        })
        .collect::<Result<_>>()?;
    let is_same = |(one, other): (&ProjectionExpr, &ProjectionExpr)| Arc::ptr_eq(&one.expr, &other.expr);
    if exprs.iter().zip(projection.expr()).all(is_same) {
        return Ok(Transformed::no(plan));
    }
    let rewritten = ProjectionExec::try_new(exprs, projection.input().clone())?;
    Ok(Transformed::yes(kept::kept(Arc::new(rewritten), &plan)))
}

/// A condition whose parts that cannot fail are the first, as the optimiser may have moved them back.
fn safe_first(predicate: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Arc<dyn PhysicalExpr> {
    let parts = split_conjunction(predicate);
    let is_sorted = parts.iter().map(|part| physical_can_fail(part, schema)).is_sorted();
    if is_sorted {
        return predicate.clone();
    }
    let (last, first): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| physical_can_fail(part, schema));
    conjunction(first.into_iter().chain(last).cloned())
}

/// Whether an expression is an AND or OR of this module.
pub(crate) fn is_ordered(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.is::<Ordered>()
}

/// AND or OR whose right side is computed where it decides.
#[derive(Debug)]
struct Ordered {
    left: Arc<dyn PhysicalExpr>,
    is_and: bool,
    right: Arc<dyn PhysicalExpr>,
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Ordered) -> bool {
        self.is_and == other.is_and && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Eq for Ordered {}

impl Hash for Ordered {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.is_and.hash(state);
        self.left.hash(state);
        self.right.hash(state);
    }
}

impl fmt::Display for Ordered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let op = if self.is_and { "AND" } else { "OR" };
        write!(f, "({}) {op} ({})", self.left, self.right)
    }
}

impl PhysicalExpr for Ordered {
    fn data_type(&self, _schema: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        Ok(self.left.nullable(schema)? || self.right.nullable(schema)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let rows = batch.num_rows();
        let left = booleans(self.left.evaluate(batch)?, rows)?;
        // False decides an AND, true an OR; NULL decides neither.
        let decisive = if self.is_and { not(&left)? } else { left.clone() };
        let is_decided = arrow::compute::and(&known(&decisive), &is_not_null(&decisive)?)?;
        let is_open = not(&is_decided)?;
        if !is_open.has_true() {
            return Ok(ColumnarValue::Array(Arc::new(left)));
        }
        let right = booleans(self.right.evaluate_selection(batch, &is_open)?, rows)?;
        let both = match self.is_and {
            true => and_kleene(&left, &right)?,
            false => or_kleene(&left, &right)?,
        };
        Ok(ColumnarValue::Array(Arc::new(both)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        let (right, left) = (children.remove(1), children.remove(0));
        let is_and = self.is_and;
        Ok(Arc::new(Ordered { left, is_and, right }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn booleans(value: ColumnarValue, rows: usize) -> Result<BooleanArray> {
    let array: ArrayRef = arrow::compute::cast(&value.into_array(rows)?, &DataType::Boolean)?;
    Ok(array.as_boolean().clone())
}

/// The values without their NULLs, which are whatever stands there.
fn known(values: &BooleanArray) -> BooleanArray {
    BooleanArray::new(values.values().clone(), None)
}
