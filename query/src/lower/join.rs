//! Joins of every kind.

use super::{Lowered, Lowering, QualifiedField, column_expr, df_schema, free_name, not_supported, physical};
use crate::program::Condition;
use arrow::datatypes::{DataType, Field, SchemaRef};
use cenote_engine::plan::{Join as JoinNode, JoinKind, Node, Predicate};
use cenote_statestore::Result;
use datafusion::common::{DFSchema, JoinType, NullEquality};
use datafusion::logical_expr::{Expr, Join, LogicalPlan};
use std::sync::Arc;

impl Lowering {
    pub(super) fn lower_join(&mut self, plan: &LogicalPlan, join: &Join) -> Result<Lowered> {
        if join.null_aware {
            return Err(not_supported("NOT IN in this place"));
        }
        let (kind, swapped) = match join.join_type {
            JoinType::Inner => (JoinKind::Inner, false),
            JoinType::Left => (JoinKind::Left, false),
            JoinType::Right => (JoinKind::Right, false),
            JoinType::Full => (JoinKind::Full, false),
            JoinType::LeftSemi => (JoinKind::Semi, false),
            JoinType::LeftAnti => (JoinKind::Anti, false),
            JoinType::RightSemi => (JoinKind::Semi, true),
            JoinType::RightAnti => (JoinKind::Anti, true),
            JoinType::LeftMark | JoinType::RightMark => return Err(not_supported("EXISTS or IN inside an OR")),
        };
        let (left, right) = (self.lower(&join.left)?, self.lower(&join.right)?);
        let (left_on, right_on): (Vec<&Expr>, Vec<&Expr>) = join.on.iter().map(|(left, right)| (left, right)).unzip();
        if swapped {
            return self.join_node(plan, join, kind, (right, right_on), (left, left_on));
        }
        self.join_node(plan, join, kind, (left, left_on), (right, right_on))
    }

    pub(super) fn join_node(
        &mut self,
        plan: &LogicalPlan,
        join: &Join,
        kind: JoinKind,
        (left, left_on): (Lowered, Vec<&Expr>),
        (right, right_on): (Lowered, Vec<&Expr>),
    ) -> Result<Lowered> {
        let (left_width, right_width) = (left.schema.fields().len(), right.schema.fields().len());
        let (left, left_keys) = self.with_keys(left, &left_on)?;
        let (right, right_keys) = self.with_keys(right, &right_on)?;
        let (left_schema, right_schema) = (self.schema_of(left.node), self.schema_of(right.node));
        let pair = pair_schema(&left.schema, &right.schema)?;
        let residual = match &join.filter {
            Some(filter) => {
                let mut names = crate::names::known_names(&pair);
                // Computed keys are nobody's columns.
                let left_end = left.schema.fields().len();
                names[left_width..left_end].fill(String::new());
                names[left_end + right_width..].fill(String::new());
                Some(condition(filter, &pair, names)?)
            }
            None => None,
        };
        let output = if kind.gives_pairs() {
            pair
        } else {
            left.schema.as_ref().clone()
        };
        let key = join_key(kind, &left, &right, &right_keys);
        let schema: SchemaRef = Arc::new(output.as_arrow().clone());
        let name = self.state_name("join", plan);
        let node = self.add(Node::Join(JoinNode {
            name,
            left: left.node,
            right: right.node,
            left_keys,
            right_keys,
            null_equals_null: join.null_equality == NullEquality::NullEqualsNull,
            kind,
            residual,
            left_schema: left_schema.clone(),
            right_schema,
            schema,
        }));
        let joined = Lowered {
            node,
            schema: Arc::new(output),
            key,
        };
        // Computed keys are left out again.
        let left_columns = 0..left_width;
        let right_columns = left_schema.fields().len()..left_schema.fields().len() + right_width;
        let kept: Vec<usize> = if kind.gives_pairs() {
            left_columns.chain(right_columns).collect()
        } else {
            left_columns.collect()
        };
        let exprs: Vec<Expr> = kept.iter().map(|column| column_expr(&joined.schema, *column)).collect();
        self.project(joined, &exprs, &join.schema, &[])
    }

    /// Adds columns for keys that are computed, or are floats, which are compared by value and not by bits.
    ///
    /// # Returns
    /// The input with the columns, and the positions of the keys.
    fn with_keys(&mut self, input: Lowered, keys: &[&Expr]) -> Result<(Lowered, Vec<usize>)> {
        let width = input.schema.fields().len();
        let mut exprs: Vec<Expr> = (0..width).map(|column| column_expr(&input.schema, column)).collect();
        let mut names: Vec<_> = input
            .schema
            .iter()
            .map(|(qualifier, field)| (qualifier.cloned(), field.clone()))
            .collect();
        let (mut positions, mut computed) = (Vec::new(), Vec::new());
        for key in keys {
            match plain_column(key, &input.schema) {
                Some(position) => positions.push(position),
                None => {
                    positions.push(exprs.len());
                    computed.push(exprs.len());
                    let name = free_name(&names, format!("key_{}", exprs.len() - width + 1));
                    names.push((None, Arc::new(Field::new(name, DataType::Null, true))));
                    exprs.push((*key).clone());
                }
            }
        }
        if computed.is_empty() {
            return Ok((input, positions));
        }
        let names: DFSchema = df_schema(names)?;
        Ok((self.project(input, &exprs, &names, &computed)?, positions))
    }
}

fn condition(filter: &Expr, pair: &DFSchema, input_names: Vec<String>) -> Result<Arc<dyn Predicate>> {
    let expr = physical(filter, pair)?;
    let is_fallible = crate::fallible::physical_can_fail(&expr, pair.as_arrow());
    Ok(Arc::new(Condition {
        expr,
        is_fallible,
        input_names,
    }))
}

/// Columns of a pair of rows, all nullable. Computed keys, which both sides may have, get names of their own.
fn pair_schema(left: &DFSchema, right: &DFSchema) -> Result<DFSchema> {
    let mut fields: Vec<QualifiedField> = Vec::new();
    for (qualifier, field) in left.iter().chain(right.iter()) {
        let name = match qualifier {
            None => free_name(&fields, field.name().clone()),
            Some(_) => field.name().clone(),
        };
        let field = field.as_ref().clone().with_name(name).with_nullable(true);
        fields.push((qualifier.cloned(), Arc::new(field)));
    }
    df_schema(fields)
}

fn plain_column(expr: &Expr, schema: &DFSchema) -> Option<usize> {
    let Expr::Column(column) = expr else {
        return None;
    };
    let index = schema.maybe_index_of_column(column)?;
    (!schema.field(index).data_type().is_floating()).then_some(index)
}

/// A key of the join's output, if one follows from its inputs' keys.
fn join_key(kind: JoinKind, left: &Lowered, right: &Lowered, right_keys: &[usize]) -> Option<Vec<usize>> {
    let left_key = left.key.clone()?;
    let one_match = right
        .key
        .as_ref()
        .is_some_and(|key| key.iter().all(|column| right_keys.contains(column)));
    match kind {
        JoinKind::Semi | JoinKind::Anti => Some(left_key),
        JoinKind::Inner | JoinKind::Left if one_match => Some(left_key),
        _ => None,
    }
}
