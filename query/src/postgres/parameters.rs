//! Types of parameters that no client declared, by the place that they stand in, as PostgreSQL resolves them.
//!
//! DataFusion gives a parameter the type of the other side of its operator. Here are the other places: the array of
//! `v = ANY($1)`, conditions, the results of CASE and COALESCE, the counts of LIMIT and OFFSET. A parameter has one type,
//! wherever it stands.
//!
//! # Not here
//! Parameters that are cast, and what an INSERT inserts: both are of the type they are made to.

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use std::collections::HashMap;
use std::sync::Arc;

/// Functions whose arguments are of one type.
const OF_ONE_TYPE: [&str; 4] = ["coalesce", "nullif", "greatest", "least"];

/// What is known of a plan's parameters.
#[derive(Default)]
struct Found {
    /// Types that they have already.
    known: HashMap<String, FieldRef>,
    /// Types that a place tells.
    told: HashMap<String, FieldRef>,
    /// Whether one has no type where it stands.
    is_open: bool,
}

/// A plan whose parameters have the types that their places tell.
pub(super) fn typed(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut found = Found::default();
    plan.apply_with_subqueries(|node| {
        found.of_node(node)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !found.is_open || (found.known.is_empty() && found.told.is_empty()) {
        return Ok(plan);
    }
    let typed = plan.transform_up_with_subqueries(|node| {
        let node = node
            .map_expressions(|expr| expr.transform_up(|part| Ok(found.filled(part))))?
            .data;
        match node {
            // Its schema follows its inputs' once their types are settled.
            LogicalPlan::Union(_) => Ok(Transformed::yes(node)),
            node => Ok(Transformed::yes(node.recompute_schema()?)),
        }
    })?;
    Ok(typed.data)
}

impl Found {
    fn of_node(&mut self, node: &LogicalPlan) -> Result<()> {
        let schema = merge_schema(&node.inputs());
        match node {
            LogicalPlan::Limit(limit) => {
                let counts = [&limit.skip, &limit.fetch];
                counts
                    .into_iter()
                    .flatten()
                    .for_each(|count| self.tell(count, &DataType::Int64));
            }
            LogicalPlan::Filter(filter) => self.tell(&filter.predicate, &DataType::Boolean),
            _ => {}
        }
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                self.of_expression(part, &schema);
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(())
    }

    /// Notes that an expression is of a type, if it is a parameter.
    fn tell(&mut self, expr: &Expr, data_type: &DataType) {
        if let Expr::Placeholder(Placeholder { id, field: None }) = expr
            && *data_type != DataType::Null
        {
            let field = || Arc::new(Field::new("", data_type.clone(), true));
            self.told.entry(id.clone()).or_insert_with(field);
        }
    }

    fn tell_like(&mut self, expr: &Expr, other: &Expr, schema: &DFSchema) {
        if is_open(expr)
            && !is_open(other)
            && let Ok(data_type) = other.get_type(schema)
        {
            self.tell(expr, &data_type);
        }
    }

    /// Gives all of some expressions the type of the first that has one.
    fn tell_alike<'e>(&mut self, exprs: impl Iterator<Item = &'e Expr> + Clone, schema: &DFSchema) {
        let mut types = exprs
            .clone()
            .filter(|expr| !is_open(expr))
            .map(|expr| expr.get_type(schema));
        let known = types.find_map(|data_type| data_type.ok().filter(|data_type| *data_type != DataType::Null));
        if let Some(data_type) = known {
            exprs.for_each(|expr| self.tell(expr, &data_type));
        }
    }

    fn of_expression(&mut self, expr: &Expr, schema: &DFSchema) {
        match expr {
            Expr::Placeholder(Placeholder { id, field: Some(field) }) => {
                self.known.entry(id.clone()).or_insert_with(|| field.clone());
            }
            Expr::Placeholder(_) => self.is_open = true,
            Expr::Not(inner) | Expr::IsTrue(inner) | Expr::IsFalse(inner) => self.tell(inner, &DataType::Boolean),
            Expr::BinaryExpr(binary) => self.of_operator(binary, schema),
            Expr::InList(list) => self.tell_alike(std::iter::once(list.expr.as_ref()).chain(&list.list), schema),
            Expr::Between(between) => {
                let sides = [&between.expr, &between.low, &between.high];
                self.tell_alike(sides.into_iter().map(AsRef::as_ref), schema);
            }
            Expr::Case(case) => {
                let whens = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
                match &case.expr {
                    Some(operand) => self.tell_alike(std::iter::once(operand.as_ref()).chain(whens), schema),
                    None => whens.for_each(|when| self.tell(when, &DataType::Boolean)),
                }
                let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
                self.tell_alike(thens.chain(case.else_expr.as_deref()), schema);
            }
            Expr::ScalarFunction(call) => self.of_call(call, schema),
            _ => {}
        }
    }

    fn of_operator(&mut self, binary: &BinaryExpr, schema: &DFSchema) {
        let (left, right) = (binary.left.as_ref(), binary.right.as_ref());
        for (one, other) in [(left, right), (right, left)] {
            match binary.op {
                Operator::And | Operator::Or => self.tell(one, &DataType::Boolean),
                _ => self.tell_like(one, other, schema),
            }
            // What `v < ANY($1)` is planned as.
            if let Expr::ScalarFunction(call) = one
                && matches!(call.name(), "array_min" | "array_max")
                && let [array] = call.args.as_slice()
            {
                self.tell_array(array, other, schema);
            }
        }
    }

    fn of_call(&mut self, call: &ScalarFunction, schema: &DFSchema) {
        match (call.name(), call.args.as_slice()) {
            ("array_has", [array, value]) => {
                self.tell_array(array, value, schema);
                if let (true, Ok(DataType::List(item))) = (is_open(value), array.get_type(schema)) {
                    self.tell(value, item.data_type());
                }
            }
            (name, args) if OF_ONE_TYPE.contains(&name) => self.tell_alike(args.iter(), schema),
            _ => {}
        }
    }

    fn tell_array(&mut self, array: &Expr, value: &Expr, schema: &DFSchema) {
        if is_open(array)
            && !is_open(value)
            && let Ok(data_type) = value.get_type(schema)
            && data_type != DataType::Null
        {
            self.tell(array, &DataType::List(Arc::new(Field::new_list_field(data_type, true))));
        }
    }

    fn filled(&self, expr: Expr) -> Transformed<Expr> {
        match expr {
            Expr::Placeholder(Placeholder { id, field: None }) => {
                let field = self.known.get(&id).or_else(|| self.told.get(&id)).cloned();
                Transformed::yes(Expr::Placeholder(Placeholder::new_with_field(id, field)))
            }
            other => Transformed::no(other),
        }
    }
}

/// Whether it is a parameter whose type nothing has told.
fn is_open(expr: &Expr) -> bool {
    matches!(expr, Expr::Placeholder(Placeholder { field: None, .. }))
}
