//! A subquery computed for every row of its domain at once.
//!
//! The domain holds the different values that the subquery takes from outside. What comes out holds the subquery's own
//! columns under their names, and the domain's: for each row of the domain, the subquery's rows for it. Where equalities
//! give the domain's columns already (`p.id = o.id`), these stand for it, and the domain is not computed at all: for
//! values that are not among them the subquery is empty.

use super::limits::Range;
use super::outer::{as_outer, has_subquery, in_expression, is_correlated, outer_expressions};
use super::pull::{Pulled, equality};
use super::{Rewrite, column_of, unsupported};
use crate::fallible::plan_can_fail;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinConstraint, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, Filter, Join, Limit, LogicalPlan, LogicalPlanBuilder, Projection,
    SubqueryAlias, Union, Window, lit,
};
use std::sync::Arc;

/// A subquery's plan that takes nothing from outside any more.
pub(super) struct Flat {
    pub(super) plan: LogicalPlan,
    /// The domain's columns in it, in the domain's order.
    pub(super) columns: Vec<Column>,
    /// Whether none of them is ever NULL: then `=` tells as much as IS NOT DISTINCT FROM.
    pub(super) never_null: bool,
}

/// What a subquery takes from outside.
pub(super) struct Domain {
    /// Expressions over the outer rows.
    pub(super) outer: Vec<Expr>,
    fields: Vec<FieldRef>,
    /// The outer rows.
    source: LogicalPlan,
    /// Of a guarded subquery, which is computed for these rows alone: the conditions on them. The last expression is a
    /// constant then, whose column tells that there is such a row.
    guards: Option<Vec<Expr>>,
}

impl Domain {
    /// What `subquery` takes from `rows`.
    ///
    /// # Errors
    /// 0A000: the subquery takes what the rows do not have.
    pub(super) fn of(subquery: &LogicalPlan, rows: &LogicalPlan) -> Result<Domain> {
        let outer = outer_expressions(subquery)?;
        let fields = outer.iter().map(|expr| {
            let field = expr.to_field(rows.schema())?.1;
            let column = expr.column_refs().into_iter().next();
            let name = column.map_or_else(|| field.name().clone(), |column| column.name.clone());
            Ok(Arc::new(field.as_ref().clone().with_name(name)))
        });
        Ok(Domain {
            fields: fields.collect::<Result<_>>()?,
            outer,
            source: rows.clone(),
            guards: None,
        })
    }

    /// The domain of a subquery that is computed only where guards let a row through.
    pub(super) fn guarded(mut self, guards: &[Expr]) -> Domain {
        self.outer.push(lit(true));
        self.fields
            .push(Arc::new(Field::new("needed", DataType::Boolean, false)));
        self.guards = Some(guards.to_vec());
        self
    }

    /// Whether there is a row at all, of the same rows.
    pub(super) fn existence(&self) -> Domain {
        let none = Domain {
            outer: Vec::new(),
            fields: Vec::new(),
            source: self.source.clone(),
            guards: None,
        };
        none.guarded(self.guards.as_deref().unwrap_or_default())
    }

    pub(super) fn is_guarded(&self) -> bool {
        self.guards.is_some()
    }

    /// The outer expressions beside their columns, by which values are joined back to the rows.
    pub(super) fn pairs(&self, columns: impl IntoIterator<Item = Expr>) -> Vec<(Expr, Expr)> {
        let pairs = self.outer.iter().cloned().zip(columns);
        pairs.filter(|(outer, _)| !matches!(outer, Expr::Literal(..))).collect()
    }

    fn position(&self, outer: &Expr) -> Option<usize> {
        self.outer.iter().position(|known| known == outer)
    }
}

/// Computes a subquery for its domain.
pub(super) struct Flattening<'a> {
    pub(super) rewrite: &'a mut Rewrite,
    pub(super) domain: &'a Domain,
}

impl Flattening<'_> {
    pub(super) fn plan(&mut self, plan: &LogicalPlan) -> Result<Flat> {
        if !self.needs_domain(plan)? {
            return self.for_each(plan);
        }
        if let Some(pulled) = self.pull(plan)? {
            return self.pulled(pulled);
        }
        match plan {
            LogicalPlan::Filter(filter) => {
                let flat = self.plan(&filter.input)?;
                let schema = filter.input.schema();
                let predicate = self.in_turn(filter.predicate.clone(), schema, &flat.columns)?;
                let predicate = self.inside(predicate, schema, &flat.columns)?;
                let plan = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(flat.plan))?);
                Ok(Flat { plan, ..flat })
            }
            LogicalPlan::Projection(projection) => self.projection(plan, projection),
            LogicalPlan::SubqueryAlias(alias) => self.alias(alias),
            // A LATERAL item with nothing before it.
            LogicalPlan::Subquery(subquery) => self.plan(&subquery.subquery),
            LogicalPlan::Sort(sort) => match sort.fetch {
                None => self.plan(&sort.input),
                Some(fetch) => {
                    let range = Range {
                        skip: 0,
                        fetch: Some(fetch),
                    };
                    self.first_rows(range, &sort.expr, &sort.input)
                }
            },
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(plan, aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let flat = self.plan(input)?;
                let plan = LogicalPlan::Distinct(Distinct::All(Arc::new(flat.plan)));
                Ok(Flat { plan, ..flat })
            }
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Window(window) => self.window(plan, window),
            LogicalPlan::Unnest(unnest) => {
                let flat = self.plan(&unnest.input)?;
                let (columns, options) = (unnest.exec_columns.clone(), unnest.options.clone());
                let plan = LogicalPlanBuilder::from(flat.plan).unnest_columns_with_options(columns, options)?;
                Ok(Flat {
                    plan: plan.build()?,
                    columns: flat.columns,
                    never_null: flat.never_null,
                })
            }
            other if !is_correlated(other)? => self.for_each(other),
            other => Err(unsupported(format!(
                "an outer column in {} of a subquery",
                other.display()
            ))),
        }
    }

    /// The domain's rows, under a name of their own.
    pub(super) fn rows(&mut self) -> Result<Flat> {
        let source = super::joins::domain_source(&self.domain.source)?;
        let source = filtered(source, self.domain.guards.clone().unwrap_or_default())?;
        // Under names of their own: that of a cast is its column's. The same ones each time, so that a view keeps them once.
        let (values, given) = self.domain_columns("domain", self.domain.outer.clone());
        let values = LogicalPlan::Projection(Projection::try_new(values, Arc::new(source))?);
        let given: Vec<Expr> = given.into_iter().map(Expr::Column).collect();
        let distinct = Aggregate::try_new(Arc::new(values), given.clone(), Vec::new())?;
        let distinct = LogicalPlan::Aggregate(distinct);
        let name = self.rewrite.name("outer");
        let (exprs, columns) = self.domain_columns(&name, given);
        let never_null = self.domain.fields.iter().all(|field| !field.is_nullable());
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(distinct))?);
        Ok(Flat {
            plan,
            columns,
            never_null,
        })
    }

    /// Expressions under the names of the domain's columns.
    pub(super) fn domain_columns(&self, relation: &str, exprs: Vec<Expr>) -> (Vec<Expr>, Vec<Column>) {
        let named = exprs.into_iter().zip(&self.domain.fields).enumerate();
        named
            .map(|(index, (expr, field))| column_of(expr, relation, &format!("{}_{index}", field.name())))
            .unzip()
    }

    /// Whether a plan is not to be computed by itself.
    pub(super) fn needs_domain(&self, plan: &LogicalPlan) -> Result<bool> {
        Ok(is_correlated(plan)? || self.domain.is_guarded() && plan_can_fail(plan)?)
    }

    /// A plan that takes nothing from outside, once for each row of the domain.
    fn for_each(&mut self, plan: &LogicalPlan) -> Result<Flat> {
        let rows = self.rows()?;
        if matches!(plan, LogicalPlan::EmptyRelation(empty) if empty.produce_one_row)
            && plan.schema().fields().is_empty()
        {
            return Ok(rows);
        }
        let plan = joined(rows.plan, plan.clone(), JoinType::Inner, Vec::new(), false, None)?;
        Ok(Flat { plan, ..rows })
    }

    /// An expression of a node of the subquery, over the flat plan of the node's input.
    ///
    /// # Arguments
    /// - `local`: the node's own columns, as they were.
    pub(super) fn inside(&self, expr: Expr, local: &DFSchema, columns: &[Column]) -> Result<Expr> {
        let replaced = in_expression(expr, local, &[], &mut |outer, nested| {
            let position = self.domain.position(outer)?;
            let column = columns[position].clone();
            Some(match nested {
                true => Expr::OuterReferenceColumn(self.domain.fields[position].clone(), column),
                false => Expr::Column(column),
            })
        })?;
        Ok(replaced.data)
    }

    /// A column of the domain as a subquery over the flat plan names it.
    pub(super) fn as_outer_column(&self, outer: &Expr, flat: &Flat) -> Option<Expr> {
        let position = self.domain.position(outer)?;
        let (field, column) = (&self.domain.fields[position], &flat.columns[position]);
        Some(Expr::OuterReferenceColumn(field.clone(), column.clone()))
    }

    /// The same for all expressions of a node whose input is replaced; names stay.
    pub(super) fn all_inside(&self, node: &LogicalPlan, columns: &[Column]) -> Result<LogicalPlan> {
        let local = datafusion::logical_expr::utils::merge_schema(&node.inputs());
        let names = NamePreserver::new(node);
        let replaced = node.clone().map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(Transformed::yes(name.restore(self.inside(expr, &local, columns)?)))
        });
        Ok(replaced?.data)
    }

    /// Rows that conditions tie to the domain.
    fn pulled(&mut self, pulled: Pulled) -> Result<Flat> {
        let schema = pulled.base.schema().clone();
        if let Some(keys) = self.keys(&pulled)? {
            return self.keyed(pulled, keys);
        }
        let rows = self.rows()?;
        let (mut on, mut residual, mut nested) = (Vec::new(), Vec::new(), Vec::new());
        for condition in pulled.conditions {
            let inside = |expr: &Expr| self.inside(expr.clone(), &schema, &rows.columns);
            match equality(&condition) {
                _ if has_subquery(&condition)? => nested.push(inside(&condition)?),
                Some((own, outer)) => on.push((inside(outer)?, own.clone())),
                None => residual.push(inside(&condition)?),
            }
        }
        let mut plan = joined(
            rows.plan,
            pulled.base,
            JoinType::Inner,
            on,
            false,
            conjunction(residual),
        )?;
        if let Some(nested) = conjunction(nested) {
            plan = LogicalPlan::Filter(Filter::try_new(nested, Arc::new(plan))?);
        }
        Ok(Flat {
            plan,
            columns: rows.columns,
            never_null: rows.never_null,
        })
    }

    /// The conditions that make the domain's columns equal to expressions of the subquery, and these expressions; `None`:
    /// not all columns have one.
    fn keys(&self, pulled: &Pulled) -> Result<Option<Vec<(usize, Expr)>>> {
        let mut keys: Vec<Option<(usize, Expr)>> = vec![None; self.domain.outer.len()];
        let schema = pulled.base.schema();
        for (condition, (own, outer)) in pulled
            .conditions
            .iter()
            .map(equality)
            .enumerate()
            .filter_map(with_sides)
        {
            let whole = as_outer(outer.clone(), schema)?;
            let Some(position) = self.domain.position(&whole) else {
                continue;
            };
            let wanted = self.domain.fields[position].data_type();
            let is_key = own.get_type(schema)? == *wanted && is_exact(wanted) && !has_subquery(own)?;
            if is_key && keys[position].is_none() {
                keys[position] = Some((condition, own.clone()));
            }
        }
        Ok(keys.into_iter().collect())
    }

    /// Rows whose own columns stand for the domain's.
    fn keyed(&mut self, pulled: Pulled, keys: Vec<(usize, Expr)>) -> Result<Flat> {
        let schema = pulled.base.schema().clone();
        let name = self.rewrite.name("outer");
        let (used, keys): (Vec<usize>, Vec<Expr>) = keys.into_iter().unzip();
        let present = keys.iter().map(|key| key.clone().is_not_null()).collect();
        let base = filtered(pulled.base, present)?;
        let mut exprs: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
        let (named, columns) = self.domain_columns(&name, keys);
        exprs.extend(named);
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(base))?);
        let others = pulled.conditions.into_iter().enumerate();
        let others = others.filter(|(position, _)| !used.contains(position));
        let others = others.map(|(_, condition)| self.inside(condition, &schema, &columns));
        Ok(Flat {
            plan: filtered(plan, others.collect::<Result<_>>()?)?,
            columns,
            never_null: true,
        })
    }

    fn projection(&mut self, node: &LogicalPlan, projection: &Projection) -> Result<Flat> {
        let flat = self.plan(&projection.input)?;
        let LogicalPlan::Projection(inside) = self.all_inside(node, &flat.columns)? else {
            return Ok(flat);
        };
        let mut exprs: Vec<Expr> = flat.columns.iter().cloned().map(Expr::Column).collect();
        exprs.extend(inside.expr);
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(flat.plan))?);
        Ok(Flat { plan, ..flat })
    }

    fn alias(&mut self, alias: &SubqueryAlias) -> Result<Flat> {
        let flat = self.plan(&alias.input)?;
        let mut exprs: Vec<Expr> = flat.columns.iter().cloned().map(Expr::Column).collect();
        let own = alias.input.schema().columns().into_iter().zip(alias.schema.iter());
        exprs.extend(
            own.map(|(column, (relation, field))| {
                Expr::Column(column).alias_qualified(relation.cloned(), field.name())
            }),
        );
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(flat.plan))?);
        Ok(Flat { plan, ..flat })
    }

    fn limit(&mut self, limit: &Limit) -> Result<Flat> {
        let range = Range::of(limit)?;
        match limit.input.as_ref() {
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.first_rows(range, &sort.expr, &sort.input),
            // A projection over a sort keeps the sort's order.
            LogicalPlan::Projection(projection) if matches!(projection.input.as_ref(), LogicalPlan::Sort(_)) => {
                let limited = Limit {
                    input: projection.input.clone(),
                    ..limit.clone()
                };
                let above = Projection::try_new(projection.expr.clone(), Arc::new(LogicalPlan::Limit(limited)))?;
                self.plan(&LogicalPlan::Projection(above))
            }
            other => self.first_rows(range, &[], other),
        }
    }

    fn window(&mut self, node: &LogicalPlan, window: &Window) -> Result<Flat> {
        let flat = self.plan(&window.input)?;
        let LogicalPlan::Window(inside) = self.all_inside(node, &flat.columns)? else {
            return Ok(flat);
        };
        let mut exprs = inside.window_expr;
        for expr in &mut exprs {
            let names = NamePreserver::new(node);
            let name = names.save(expr);
            let parted = expr.clone().transform_up(|part| match part {
                Expr::WindowFunction(mut call) => {
                    let domain = flat.columns.iter().cloned().map(Expr::Column);
                    call.params.partition_by.splice(0..0, domain);
                    Ok(Transformed::yes(Expr::WindowFunction(call)))
                }
                other => Ok(Transformed::no(other)),
            })?;
            *expr = name.restore(parted.data);
        }
        let plan = LogicalPlan::Window(Window::try_new(exprs, Arc::new(flat.plan))?);
        Ok(Flat { plan, ..flat })
    }

    fn union(&mut self, union: &Union) -> Result<Flat> {
        let (mut inputs, mut never_null) = (Vec::new(), true);
        for input in &union.inputs {
            let flat = self.plan(input)?;
            never_null &= flat.never_null;
            let name = self.rewrite.name("branch");
            let domain = flat.columns.iter().cloned().map(Expr::Column).collect();
            let (mut exprs, _) = self.domain_columns(&name, domain);
            let own = input.schema().columns().into_iter().enumerate();
            exprs.extend(own.map(|(index, column)| column_of(Expr::Column(column), &name, &index.to_string()).0));
            inputs.push(Arc::new(LogicalPlan::Projection(Projection::try_new(
                exprs,
                Arc::new(flat.plan),
            )?)));
        }
        let plan = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        let mut given: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let own = given.split_off(self.domain.outer.len());
        let name = self.rewrite.name("outer");
        let (mut exprs, columns) = self.domain_columns(&name, given);
        exprs.extend(
            own.into_iter()
                .zip(union.schema.iter())
                .map(|(expr, (relation, field))| expr.alias_qualified(relation.cloned(), field.name())),
        );
        Ok(Flat {
            plan: LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?),
            columns,
            never_null,
        })
    }
}

/// A condition's position with the sides of its equality.
fn with_sides<'a>((position, sides): (usize, Option<(&'a Expr, &'a Expr)>)) -> Option<(usize, (&'a Expr, &'a Expr))> {
    sides.map(|sides| (position, sides))
}

/// Whether equal values of a type are the same in every respect.
fn is_exact(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Utf8
                | DataType::Date32
                | DataType::Timestamp(_, _)
                | DataType::Time64(_)
                | DataType::Decimal128(_, _)
                | DataType::Binary
                | DataType::FixedSizeBinary(_)
        )
}

/// Columns beside those that they are equal to.
pub(super) fn pairs(left: &[Column], right: &[Column]) -> Vec<(Expr, Expr)> {
    let pairs = left.iter().cloned().zip(right.iter().cloned());
    pairs
        .map(|(left, right)| (Expr::Column(left), Expr::Column(right)))
        .collect()
}

pub(super) fn filtered(plan: LogicalPlan, conditions: Vec<Expr>) -> Result<LogicalPlan> {
    match conjunction(conditions) {
        Some(condition) => LogicalPlanBuilder::from(plan).filter(condition)?.build(),
        None => Ok(plan),
    }
}

/// A join.
///
/// # Arguments
/// - `null_safe`: NULL is equal to NULL.
pub(super) fn joined(
    left: LogicalPlan,
    right: LogicalPlan,
    kind: JoinType,
    on: Vec<(Expr, Expr)>,
    null_safe: bool,
    filter: Option<Expr>,
) -> Result<LogicalPlan> {
    let nulls = match null_safe && !on.is_empty() {
        true => NullEquality::NullEqualsNull,
        false => NullEquality::NullEqualsNothing,
    };
    let (left, right) = (Arc::new(left), Arc::new(right));
    let join = Join::try_new(left, right, on, filter, kind, JoinConstraint::On, nulls, false)?;
    Ok(LogicalPlan::Join(join))
}
