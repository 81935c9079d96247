//! Expressions of aggregates, windows and sorts as columns that a projection below computes.

use crate::fallible::can_fail;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, Projection};
use std::sync::Arc;

/// The relation of the computed columns, which no query can name.
const RELATION: &str = "__ordered";

/// A node over one input, whose expressions with an order of their own are columns of a projection below it.
pub(super) fn hoisted(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let input = node.inputs()[0].clone();
    let mut computed = Computed {
        schema: input.schema().as_ref().clone(),
        exprs: Vec::new(),
    };
    let names = NamePreserver::new(&node);
    let schema = node.schema().clone();
    let replaced = node.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(computed.of(expr)?.update_data(|expr| name.restore(expr)))
    })?;
    if computed.exprs.is_empty() {
        return Ok(Transformed::no(replaced.data));
    }
    let own = input.schema().columns().into_iter().map(Expr::Column);
    let exprs = own.chain(computed.exprs).collect();
    let input = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?);
    let expressions = replaced.data.expressions();
    let node = replaced.data.with_new_exprs(expressions, vec![input])?;
    if node.schema().fields().len() == schema.fields().len() {
        return Ok(Transformed::yes(node));
    }
    let columns = schema.columns().into_iter().map(Expr::Column).collect();
    let kept = Projection::try_new_with_schema(columns, Arc::new(node), schema)?;
    Ok(Transformed::yes(LogicalPlan::Projection(kept)))
}

struct Computed {
    /// The columns of the input.
    schema: DFSchema,
    exprs: Vec<Expr>,
}

impl Computed {
    /// An expression of the node.
    fn of(&mut self, expr: Expr) -> Result<Transformed<Expr>> {
        match expr {
            Expr::Alias(mut alias) => {
                let inner = self.of(*alias.expr)?;
                alias.expr = Box::new(inner.data);
                Ok(Transformed::new_transformed(Expr::Alias(alias), inner.transformed))
            }
            Expr::AggregateFunction(mut call) => {
                let sorted = call.params.order_by.iter_mut().map(|sort: &mut Sort| &mut sort.expr);
                let filter = call.params.filter.iter_mut().map(Box::as_mut);
                let is_changed = self.all(call.params.args.iter_mut().chain(filter), false)?;
                let is_changed = self.all(sorted, true)? || is_changed;
                Ok(Transformed::new_transformed(Expr::AggregateFunction(call), is_changed))
            }
            Expr::WindowFunction(mut call) => {
                let is_changed = self.of_window(&mut call)?;
                Ok(Transformed::new_transformed(Expr::WindowFunction(call), is_changed))
            }
            Expr::GroupingSet(sets) => Expr::GroupingSet(sets).map_children(|key| self.of(key)),
            mut other => {
                let is_changed = self.all([&mut other].into_iter(), true)?;
                Ok(Transformed::new_transformed(other, is_changed))
            }
        }
    }

    fn of_window(&mut self, call: &mut WindowFunction) -> Result<bool> {
        let params = &mut call.params;
        let filter = params.filter.iter_mut().map(Box::as_mut);
        let is_changed = self.all(params.args.iter_mut().chain(filter), false)?;
        let sorted = params.order_by.iter_mut().map(|sort: &mut Sort| &mut sort.expr);
        Ok(self.all(params.partition_by.iter_mut().chain(sorted), true)? || is_changed)
    }

    /// # Arguments
    /// - `sorts`: rows are put in order by the expressions; DataFusion does not always know a CASE for itself there.
    ///
    /// # Returns
    /// Whether one became a column.
    fn all<'a>(&mut self, exprs: impl Iterator<Item = &'a mut Expr>, sorts: bool) -> Result<bool> {
        let mut is_changed = false;
        for expr in exprs {
            let has_order = has_order(expr, &self.schema, sorts)?;
            if has_order {
                *expr = self.column(expr.clone());
                is_changed = true;
            }
        }
        Ok(is_changed)
    }

    fn column(&mut self, expr: Expr) -> Expr {
        let named = |number: usize| (TableReference::bare(RELATION), format!("expr_{number}"));
        let is_of = |known: &Expr| matches!(known, Expr::Alias(alias) if *alias.expr == expr);
        let number = match self.exprs.iter().position(is_of) {
            Some(known) => known,
            None => {
                let (relation, name) = named(self.exprs.len());
                self.exprs.push(expr.alias_qualified(Some(relation), name));
                self.exprs.len() - 1
            }
        };
        let (relation, name) = named(number);
        Expr::Column(Column::new(Some(relation), name))
    }
}

/// Whether a part that can fail is to be computed after another part.
fn has_order(expr: &Expr, schema: &DFSchema, sorts: bool) -> Result<bool> {
    let mut found = false;
    expr.apply(|part| {
        found |= match part {
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::And | Operator::Or,
                right,
                ..
            }) => can_fail(right, schema),
            Expr::Case(_) => sorts,
            _ => false,
        };
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}
