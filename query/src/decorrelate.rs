//! Subqueries as joins: correlated ones of every form, in views and ad-hoc queries alike.
//!
//! A subquery that names columns of the query around it is computed once for all of their values: for each row of the
//! *domain*, the different values of those columns, and joined back to the query's rows by them, NULL being equal to
//! NULL. What comes of the join depends on where the subquery stands ([`attach`]):
//! - as a condition by itself: a semi or anti join;
//! - elsewhere EXISTS and IN: a left join with a mark, whose absence is false;
//! - a scalar subquery: a left join with its value, and the number of rows that it is of, more than one being an error.
//!
//! # Rules kept here
//! 1. From the outside inwards: a subquery inside another is rewritten once that one is a part of a join.
//! 2. The columns and names of a node stay what they were.
//! 3. It runs once types are coerced and before arithmetic is checked, so what is made here is checked too.
//!
//! # Not here
//! Which columns are of a query outside ([`outer`]); the subquery computed for a domain ([`flatten`]); what stands before a
//! subquery and keeps it from being computed ([`guards`]).
//!
//! # Source
//! Neumann and Kemper, "Unnesting Arbitrary Queries", BTW 2015.

mod attach;
mod conditions;
mod flatten;
mod groups;
mod guards;
mod joins;
mod limits;
mod outer;
mod pull;
mod single;
mod unnest;
mod values;

use cenote_statestore::{Error, ErrorKind};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::optimizer::AnalyzerRule;
use outer::has_subquery;
pub(crate) use outer::is_correlated;
use std::sync::Arc;
pub(crate) use values::has_one_row_at_most;

/// Nodes of a plan, subqueries included, that a statement may need.
pub(crate) const NODES_MAX: usize = 5000;

/// Puts joins in the place of subqueries.
#[derive(Debug)]
pub(crate) struct SubqueriesAsJoins;

impl AnalyzerRule for SubqueriesAsJoins {
    fn name(&self) -> &str {
        "subqueries_as_joins"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        Rewrite::default().plan(plan)
    }
}

/// One statement's rewrite.
#[derive(Default)]
struct Rewrite {
    /// How many relations were named.
    named: usize,
    /// Whether the plan is of a guarded subquery: those inside it are computed only for its rows.
    is_guarded: bool,
}

impl Rewrite {
    /// A plan without subqueries.
    ///
    /// # Errors
    /// 0A000: a subquery stands where none can be, or is of a form that cannot be joined.
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let holds = plan.exists(|node| Ok(matches!(node, LogicalPlan::Subquery(_)) || node_has_subquery(node)?))?;
        if !holds {
            return Ok(plan);
        }
        let rewritten = plan.transform_down_up(without_laterals, |node| self.node(node))?;
        Ok(rewritten.data)
    }

    fn node(&mut self, node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Join(join) = &node
            && let Some(inner) = joins::lateral(&join.right)
        {
            let left = Arc::new(self.plan((*join.left).clone())?);
            let join = datafusion::logical_expr::Join { left, ..join.clone() };
            return Ok(Transformed::yes(self.lateral(join, inner)?));
        }
        if !node_has_subquery(&node)? {
            // What is below may be NULL where the planner took a scalar subquery to have a row.
            return node.recompute_schema().map(Transformed::yes);
        }
        let rewritten = match node {
            LogicalPlan::Filter(filter) => self.filter(filter, false)?,
            LogicalPlan::Join(join) => self.join(join)?,
            other if other.inputs().len() == 1 => self.one_input(other)?,
            other => return Err(unsupported(format!("a subquery in {}", other.display()))),
        };
        Ok(Transformed::yes(bounded(rewritten)?))
    }

    /// A node over one input, which gets the values of its subqueries as further columns.
    fn one_input(&mut self, node: LogicalPlan) -> Result<LogicalPlan> {
        let schema = node.schema().clone();
        let input = node.inputs()[0].clone();
        let mut values = attach::Attaching::over(self, input);
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let replaced = values.replaced(expr, false)?;
            Ok(Transformed::yes(name.restore(replaced)))
        })?;
        let expressions = node.data.expressions();
        let node = node.data.with_new_exprs(expressions, vec![values.current])?;
        only_columns(node, &schema)
    }

    /// A name that no relation of the statement has.
    fn name(&mut self, what: &str) -> String {
        self.named += 1;
        format!("{what}{}", self.named)
    }
}

/// Keeps a walk out of joins with LATERAL items: what is inside one is rewritten once it is a part of a join.
fn without_laterals(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_lateral = matches!(&node, LogicalPlan::Join(join) if joins::lateral(&join.right).is_some());
    Ok(match is_lateral {
        true => Transformed::new(node, false, TreeNodeRecursion::Jump),
        false => Transformed::no(node),
    })
}

/// The plan, if it has not too many nodes.
///
/// # Errors
/// 54001: it has. What a WITH names is repeated wherever it is read, and the domains of subqueries repeat the rows that
/// these are computed for.
pub(crate) fn bounded(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut nodes = 0;
    plan.apply(|_| {
        nodes += 1;
        Ok(match nodes > NODES_MAX {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    if nodes <= NODES_MAX {
        return Ok(plan);
    }
    Err(crate::provider::outside(too_large()))
}

/// 54001: a statement's plan would have more than [`NODES_MAX`] nodes.
pub(crate) fn too_large() -> Error {
    let message = format!("cannot plan query: its plan has more than {NODES_MAX} nodes");
    let error = Error::new(ErrorKind::Invalid, "SQL-0327", message).sqlstate("54001");
    error.attempt(
        "fewer subqueries and uses of WITH in one statement: join tables, or give parts of the query views of their own",
    )
}

fn node_has_subquery(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= has_subquery(expr)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// The plan's columns that are in a schema.
fn only_columns(plan: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    if plan.schema().fields().len() == schema.fields().len() {
        return Ok(plan);
    }
    let columns = schema.columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?))
}

/// An expression as a column of a relation; the name is the relation's too, as some look only at it.
fn column_of(expr: Expr, relation: &str, name: &str) -> (Expr, datafusion::common::Column) {
    let table = TableReference::bare(relation);
    let name = format!("{relation}_{name}");
    let column = datafusion::common::Column::new(Some(table.clone()), &name);
    (expr.alias_qualified(Some(table), name), column)
}

fn unsupported(what: impl std::fmt::Display) -> DataFusionError {
    let message = format!("cannot plan query: {what} is not supported yet");
    crate::provider::outside(Error::new(ErrorKind::Unsupported, "SQL-0301", message))
}
