//! NOT IN with a subquery.
//!
//! `a NOT IN (SELECT b ...)` is true where no `b` equals `a`, and, unless the subquery is empty, neither `a` nor any
//! `b` is NULL. So it is two anti joins: one on the keys, and one with the at most two rows that say whether the
//! subquery has a `b`, and whether it has one that is NULL.

use super::{Lowered, Lowering, df_schema, not_supported};
use arrow::datatypes::{DataType, Field};
use cenote_engine::plan::JoinKind;
use cenote_statestore::Result;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, ident};
use std::sync::Arc;

/// The column that says whether a value is NULL; no user's column is called so.
const IS_NULL: &str = "subquery value is null";

impl Lowering {
    pub(super) fn lower_not_in(&mut self, plan: &LogicalPlan, join: &Join) -> Result<Lowered> {
        let ([(value, member)], None) = (join.on.as_slice(), &join.filter) else {
            return Err(not_supported("NOT IN with a correlated subquery"));
        };
        let (left, right) = (self.lower(&join.left)?, self.lower(&join.right)?);
        let nulls = self.nulls_of(plan, right.clone(), member)?;
        let unequal = self.join_node(plan, join, JoinKind::Anti, (left, vec![value]), (right, vec![member]))?;
        let known = Join {
            on: Vec::new(),
            filter: Some(ident(IS_NULL).or(value.clone().is_null())),
            null_aware: false,
            ..join.clone()
        };
        let known_plan = LogicalPlan::Join(known.clone());
        self.join_node(
            &known_plan,
            &known,
            JoinKind::Anti,
            (unequal, Vec::new()),
            (nulls, Vec::new()),
        )
    }

    /// Whether values are NULL: each answer that some row gives, once.
    fn nulls_of(&mut self, plan: &LogicalPlan, rows: Lowered, value: &Expr) -> Result<Lowered> {
        let field = Field::new(IS_NULL, DataType::Boolean, true);
        let names = df_schema(vec![(None, Arc::new(field))])?;
        let answers = self.project(rows, &[value.clone().is_null()], &names, &[])?;
        self.different_rows(plan, answers)
    }
}
