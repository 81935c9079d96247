//! Values of subqueries as further columns of the rows that they are computed for.
//!
//! IN, ANY and ALL are said with EXISTS first: `x IN (SELECT y ...)` is true where a row with `x = y` exists; else NULL
//! where one with a NULL `y` exists, or `x` is NULL and there is a row at all; else false.

use super::flatten::{Domain, Flat, Flattening, joined};
use super::outer::{as_outer, as_seen_within, has_subquery};
use super::{Rewrite, column_of};
use crate::fallible::plan_can_fail;
use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::expr_fn::{count, first_value, max};
use datafusion::logical_expr::expr::{Case, Exists, InSubquery, ScalarFunction, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator, Projection, Subquery, binary_expr, lit,
    when,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// A subquery that is asked about its rows, as a condition by itself.
pub(super) enum Quantified {
    /// EXISTS, or NOT.
    Exists(Exists),
    /// IN, or NOT.
    In(InSubquery),
    /// ANY and ALL.
    Compared(SetComparison),
}

impl Quantified {
    /// Takes a condition for one; else gives it back.
    pub(super) fn of(condition: Expr) -> Result<std::result::Result<Quantified, Expr>> {
        Ok(match condition {
            Expr::Exists(exists) => Ok(Quantified::Exists(exists)),
            Expr::InSubquery(test) if !has_subquery(&test.expr)? => Ok(Quantified::In(test)),
            Expr::SetComparison(comparison) if !has_subquery(&comparison.expr)? => Ok(Quantified::Compared(comparison)),
            Expr::Not(inner) => match Quantified::of(*inner)? {
                Ok(Quantified::Exists(exists)) => Ok(Quantified::Exists(Exists {
                    negated: !exists.negated,
                    ..exists
                })),
                Ok(Quantified::In(test)) => Ok(Quantified::In(InSubquery {
                    negated: !test.negated,
                    ..test
                })),
                Ok(Quantified::Compared(comparison)) => Err(Expr::Not(Box::new(Expr::SetComparison(comparison)))),
                Err(other) => Err(Expr::Not(Box::new(other))),
            },
            other => Err(other),
        })
    }

    /// Subqueries that must all have rows, or where `true` stands beside them none, for the condition to be true.
    ///
    /// # Arguments
    /// - `schema`: the columns of the rows that it is a condition on.
    pub(super) fn tests(self, schema: &DFSchema) -> Result<Vec<(LogicalPlan, bool)>> {
        match self {
            Quantified::Exists(exists) => Ok(vec![((*exists.subquery.subquery).clone(), exists.negated)]),
            Quantified::In(test) if !test.negated => Ok(vec![(equal_to(&test.expr, &test.subquery, schema)?, false)]),
            Quantified::In(test) => {
                let mut none = vec![(equal_to(&test.expr, &test.subquery, schema)?, true)];
                none.extend(
                    unknown(&test.expr, &test.subquery, schema)?
                        .into_iter()
                        .map(|plan| (plan, true)),
                );
                Ok(none)
            }
            Quantified::Compared(comparison) => {
                let SetComparison {
                    expr,
                    subquery,
                    op,
                    quantifier,
                } = comparison;
                let value = as_seen_within(*expr, schema)?;
                let compared = |own: Expr| binary_expr(value, op, own);
                Ok(vec![match quantifier {
                    SetQuantifier::Any => (with_condition(&subquery, compared)?, false),
                    SetQuantifier::All => (with_condition(&subquery, |own| compared(own).is_not_true())?, true),
                }])
            }
        }
    }
}

/// The rows of a subquery under a condition on its column; what its columns are is of no interest any more.
fn with_condition(subquery: &Subquery, condition: impl FnOnce(Expr) -> Expr) -> Result<LogicalPlan> {
    let plan = &subquery.subquery;
    let (own, input) = match plan.as_ref() {
        LogicalPlan::Projection(projection) if projection.expr.len() == 1 && !projection.expr[0].is_volatile() => (
            projection.expr[0].clone().unalias_nested().data,
            projection.input.clone(),
        ),
        _ => (
            Expr::Column(Column::from(plan.schema().qualified_field(0))),
            plan.clone(),
        ),
    };
    Ok(LogicalPlan::Filter(Filter::try_new(condition(own), input)?))
}

/// The rows of a subquery that are equal to a value.
fn equal_to(value: &Expr, subquery: &Subquery, schema: &DFSchema) -> Result<LogicalPlan> {
    let value = as_seen_within(value.clone(), schema)?;
    with_condition(subquery, |own| value.eq(own))
}

/// The subqueries of which a row makes `value IN` unknown where it is not true.
fn unknown(value: &Expr, subquery: &Subquery, schema: &DFSchema) -> Result<Vec<LogicalPlan>> {
    let mut found = Vec::new();
    if has_scalars(&subquery.subquery)? || subquery.subquery.schema().field(0).is_nullable() {
        found.push(with_condition(subquery, |own| own.is_null())?);
    }
    if holds_scalar(value)? || value.nullable(schema)? {
        let value = as_seen_within(value.clone(), schema)?;
        found.push(with_condition(subquery, |_| value.is_null())?);
    }
    Ok(found)
}

/// Whether columns of a plan may be NULL where the planner knows that they are not: to it a scalar subquery is NULL only if
/// its values can be, though it may have no row.
fn has_scalars(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| {
        let mut found = false;
        node.apply_expressions(|expr| {
            found |= holds_scalar(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    })
}

/// Whether a subquery has no rows, as it asks for a NULL where there is none: comparisons of rows without NULLs.
///
/// # Arguments
/// - `rows`: the columns of the rows that it is asked for.
pub(super) fn never_has_rows(plan: &LogicalPlan, rows: &DFSchema) -> Result<bool> {
    let LogicalPlan::Filter(filter) = plan else {
        return Ok(false);
    };
    for part in split_conjunction(&filter.predicate) {
        let Expr::IsNull(value) = part else {
            continue;
        };
        if holds_scalar(value)? || has_scalars(&filter.input)? {
            continue;
        }
        let seen = value.as_ref().clone().transform_up(|part| match part {
            Expr::OuterReferenceColumn(field, column) => {
                let index = rows.maybe_index_of_column(&column);
                let field = index.map_or_else(
                    || Arc::new(field.as_ref().clone().with_nullable(true)),
                    |index| rows.field(index).clone(),
                );
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        });
        if !seen?.data.nullable(filter.input.schema())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds_scalar(expr: &Expr) -> Result<bool> {
    expr.exists(|inner| Ok(matches!(inner, Expr::ScalarSubquery(_))))
}

fn null() -> Expr {
    Expr::Literal(ScalarValue::Boolean(None), None)
}

/// Rows that get the values of subqueries as columns.
pub(super) struct Attaching<'a> {
    rewrite: &'a mut Rewrite,
    /// The rows as they were.
    base: LogicalPlan,
    /// The rows with what was attached; as many, in the same places.
    pub(super) current: LogicalPlan,
    /// What was attached, with the guards it was computed behind.
    known: Vec<(Expr, Option<Vec<Expr>>, Expr)>,
    /// Conditions on the rows for which values are needed; `None`: there is nothing before them, not even a condition that
    /// the rows have passed.
    guards: Option<Vec<Expr>>,
}

impl<'a> Attaching<'a> {
    pub(super) fn over(rewrite: &'a mut Rewrite, rows: LogicalPlan) -> Attaching<'a> {
        Attaching {
            guards: rewrite.is_guarded.then(Vec::new),
            rewrite,
            base: rows.clone(),
            current: rows,
            known: Vec::new(),
        }
    }

    /// Values for the rows that guards let through.
    pub(super) fn behind(rewrite: &'a mut Rewrite, rows: LogicalPlan, guards: Vec<Expr>) -> Attaching<'a> {
        Attaching {
            guards: Some(guards),
            ..Attaching::over(rewrite, rows)
        }
    }

    /// Conditions that must all hold, one behind the other.
    pub(super) fn all(&mut self, conditions: Vec<Expr>) -> Result<Vec<Expr>> {
        let before = self.guards.clone();
        let mut made = Vec::new();
        for condition in conditions {
            let value = self.replaced(condition, true)?;
            self.guard(value.clone().is_not_false());
            made.push(value);
        }
        self.guards = before;
        Ok(made)
    }

    /// Adds a condition to the guards. One whose value changes with every call guards nothing.
    fn guard(&mut self, condition: Expr) {
        let guards = self.guards.get_or_insert_default();
        if !condition.is_volatile() {
            guards.push(condition);
        }
    }

    /// An expression whose subqueries are columns.
    ///
    /// # Arguments
    /// - `null_is_false`: it is a condition, of which NULL is as good as false.
    pub(super) fn replaced(&mut self, expr: Expr, null_is_false: bool) -> Result<Expr> {
        if !has_subquery(&expr)? {
            return Ok(expr);
        }
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) if matches!(op, Operator::And | Operator::Or) => {
                let before = self.guards.clone();
                let left = self.replaced(*left, null_is_false)?;
                self.guard(match op {
                    Operator::And => left.clone().is_not_false(),
                    _ => left.clone().is_not_true(),
                });
                let right = self.replaced(*right, null_is_false)?;
                self.guards = before;
                Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
            }
            Expr::InSubquery(test) if null_is_false && !test.negated && !has_subquery(&test.expr)? => {
                let plan = equal_to(&test.expr, &test.subquery, self.current.schema())?;
                self.mark(&plan)
            }
            Expr::Case(case) => self.case(case),
            Expr::ScalarFunction(call) if call.name() == "coalesce" => self.coalesce(call),
            other => {
                let within = other.map_children(|child| Ok(Transformed::yes(self.replaced(child, false)?)))?;
                self.part(within.data)
            }
        }
    }

    /// The branches of a CASE, each behind the conditions before it.
    fn case(&mut self, case: Case) -> Result<Expr> {
        let before = self.guards.clone();
        let inner = |this: &mut Self, expr: Box<Expr>| Ok::<_, DataFusionError>(Box::new(this.replaced(*expr, false)?));
        let base = case.expr.map(|base| inner(self, base)).transpose()?;
        let mut branches = Vec::new();
        for (when, then) in case.when_then_expr {
            let when = inner(self, when)?;
            let is_taken = match &base {
                Some(base) => base.as_ref().clone().eq(when.as_ref().clone()),
                None => when.as_ref().clone(),
            };
            let open = self.guards.clone();
            self.guard(is_taken.clone().is_true());
            let then = inner(self, then)?;
            self.guards = open;
            self.guard(is_taken.is_not_true());
            branches.push((when, then));
        }
        let last = case.else_expr.map(|last| inner(self, last)).transpose()?;
        self.guards = before;
        Ok(Expr::Case(Case::new(base, branches, last)))
    }

    /// The arguments of coalesce(), each behind the NULLs before it.
    fn coalesce(&mut self, mut call: ScalarFunction) -> Result<Expr> {
        let before = self.guards.clone();
        for argument in &mut call.args {
            *argument = self.replaced(std::mem::take(argument), false)?;
            self.guard(argument.clone().is_null());
        }
        self.guards = before;
        Ok(Expr::ScalarFunction(call))
    }

    /// A subquery as a column; other expressions as they are.
    fn part(&mut self, part: Expr) -> Result<Expr> {
        if !matches!(
            part,
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
        ) {
            return Ok(part);
        }
        // What was computed behind fewer guards is there for more rows.
        let guards = match crate::ordered::fails(&part, self.current.schema())? {
            true => self.guards.clone(),
            false => None,
        };
        let reaches = |known: &Option<Vec<Expr>>| match (known, &guards) {
            (None, _) => true,
            (Some(known), Some(own)) => own.starts_with(known),
            _ => false,
        };
        let mut known = self.known.iter();
        if let Some((_, _, value)) = known.find(|(known, guards, _)| *known == part && reaches(guards)) {
            return Ok(value.clone());
        }
        let value = match part.clone() {
            Expr::Exists(test) => {
                let mark = self.mark(&test.subquery.subquery)?;
                if test.negated { !mark } else { mark }
            }
            Expr::InSubquery(test) => {
                let value = self.is_in(&test)?;
                if test.negated { !value } else { value }
            }
            Expr::SetComparison(comparison) => self.compared(comparison)?,
            Expr::ScalarSubquery(subquery) => self.scalar(&subquery.subquery)?,
            other => other,
        };
        self.known.push((part, guards, value.clone()));
        Ok(value)
    }

    /// Whether a subquery has rows.
    fn mark(&mut self, subquery: &LogicalPlan) -> Result<Expr> {
        let subquery = super::values::any_rows(subquery);
        if super::values::has_a_row(subquery) {
            return Ok(lit(true));
        }
        if never_has_rows(subquery, self.current.schema())? {
            return Ok(lit(false));
        }
        let relation = self.rewrite.name("found");
        let (domain, flat) = self.flattened(subquery)?;
        let (mark, column) = column_of(lit(true), &relation, "mark");
        let (right, on) = keyed(flat.columns, &domain, &relation, vec![mark], flat.plan)?;
        let right = different(right)?;
        self.attach(right, on, !flat.never_null)?;
        Ok(Expr::Column(column).is_not_null())
    }

    fn is_in(&mut self, test: &InSubquery) -> Result<Expr> {
        let schema = self.current.schema().clone();
        let mut value = when(self.mark(&equal_to(&test.expr, &test.subquery, &schema)?)?, lit(true));
        for plan in unknown(&test.expr, &test.subquery, &schema)? {
            value.when(self.mark(&plan)?, null());
        }
        value.otherwise(lit(false))
    }

    fn compared(&mut self, comparison: SetComparison) -> Result<Expr> {
        let SetComparison {
            expr,
            subquery,
            op,
            quantifier,
        } = comparison;
        let value = as_seen_within(*expr, self.current.schema())?;
        let compared = |own: Expr| binary_expr(value.clone(), op, own);
        let decided = quantifier == SetQuantifier::Any;
        let deciding = with_condition(&subquery, |own| match quantifier {
            SetQuantifier::Any => compared(own).is_true(),
            SetQuantifier::All => compared(own).is_false(),
        })?;
        let unknown = with_condition(&subquery, |own| compared(own).is_null())?;
        when(self.mark(&deciding)?, lit(decided))
            .when(self.mark(&unknown)?, null())
            .otherwise(lit(!decided))
    }

    fn scalar(&mut self, subquery: &LogicalPlan) -> Result<Expr> {
        if let Some((aggregation, value)) = super::values::of_one_aggregation(subquery) {
            return self.aggregated(aggregation, value);
        }
        let relation = self.rewrite.name("scalar");
        let (domain, flat) = self.flattened(subquery)?;
        let own = Column::from(subquery.schema().qualified_field(0));
        if super::values::has_one_row_at_most(subquery) {
            let (value, column) = column_of(Expr::Column(own), &relation, "value");
            let (right, on) = keyed(flat.columns, &domain, &relation, vec![value], flat.plan)?;
            self.attach(right, on, !flat.never_null)?;
            return Ok(Expr::Column(column));
        }
        let one = match is_ordered(subquery.schema().field(0).data_type()) {
            true => max(Expr::Column(own)),
            false => first_value(Expr::Column(own), Vec::new()),
        };
        let keys: Vec<Expr> = flat.columns.iter().cloned().map(Expr::Column).collect();
        let calls = vec![one, count(lit(1i64))];
        let grouped = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(flat.plan), keys, calls)?);
        let given = grouped.schema().columns().split_off(flat.columns.len());
        let named = given.into_iter().map(Expr::Column).zip(["value", "rows"]);
        let (values, columns): (Vec<Expr>, Vec<Column>) =
            named.map(|(expr, name)| column_of(expr, &relation, name)).unzip();
        let (right, on) = keyed(flat.columns, &domain, &relation, values, grouped)?;
        self.attach(right, on, !flat.never_null)?;
        Ok(super::single::only(columns.into_iter().map(Expr::Column).collect()))
    }

    /// The value of an aggregation without groups, which has one also where there are no rows.
    fn aggregated(&mut self, aggregation: &LogicalPlan, value: Expr) -> Result<Expr> {
        let LogicalPlan::Aggregate(aggregate) = aggregation else {
            return Ok(value);
        };
        let relation = self.rewrite.name("scalar");
        // What the aggregation itself takes from outside, and the value over it only may.
        let (domain, flat) = self.aggregation(aggregation, aggregate)?;
        let given = aggregate.schema.columns();
        let named = given.iter().enumerate().map(|(index, column)| {
            let name = format!("value_{index}");
            column_of(Expr::Column(column.clone()), &relation, &name)
        });
        let (values, columns): (Vec<Expr>, Vec<Column>) = named.unzip();
        let is_always_there = flat.columns.is_empty();
        let (right, on) = keyed(flat.columns, &domain, &relation, values, flat.plan)?;
        let mut defaults = Vec::new();
        for (column, call) in columns.into_iter().zip(&aggregate.aggr_expr) {
            let column = Expr::Column(column);
            defaults.push(match is_always_there {
                true => column,
                false => super::values::or_default(column, call, right.schema())?,
            });
        }
        self.attach(right, on, !flat.never_null)?;
        let value = as_outer(value, &aggregate.schema)?;
        let value = value.transform_up(|part| match &part {
            Expr::Column(column) => match given.iter().position(|known| known == column) {
                Some(position) => Ok(Transformed::yes(defaults[position].clone())),
                None => Ok(Transformed::no(part)),
            },
            _ => Ok(Transformed::no(part)),
        });
        Ok(value?.data)
    }

    /// An aggregation grouped by the domain's columns: no row where it is over no rows.
    fn aggregation(&mut self, node: &LogicalPlan, aggregate: &Aggregate) -> Result<(Domain, Flat)> {
        let (rows, guards) = self.rows_for(node)?;
        let domain = self.rewrite.domain(node, &rows, guards.as_deref())?;
        let flat = match domain.outer.is_empty() {
            true => Flat {
                plan: node.clone(),
                columns: Vec::new(),
                never_null: true,
            },
            false => {
                let (rewrite, domain) = (&mut *self.rewrite, &domain);
                let mut flattening = Flattening { rewrite, domain };
                let flat = flattening.plan(&aggregate.input)?;
                let plan = flattening.grouped(node, &flat)?;
                Flat { plan, ..flat }
            }
        };
        let flat = self.rewrite.finished(flat, &domain)?;
        Ok((domain, flat))
    }

    fn flattened(&mut self, subquery: &LogicalPlan) -> Result<(Domain, Flat)> {
        let (rows, guards) = self.rows_for(subquery)?;
        self.rewrite.flattened(subquery, &rows, guards.as_deref())
    }

    /// The rows that a subquery takes its outer columns from, and the guards of these: without what was attached, unless one
    /// needs that.
    fn rows_for(&self, subquery: &LogicalPlan) -> Result<(LogicalPlan, Option<Vec<Expr>>)> {
        let mut wanted = super::outer::outer_expressions(subquery)?;
        let guards = match plan_can_fail(subquery)? {
            true => self.guards.clone(),
            false => None,
        };
        wanted.extend(guards.iter().flatten().cloned());
        let mut columns = wanted.iter().flat_map(|expr| expr.column_refs());
        let suffices = columns.all(|column| self.base.schema().maybe_index_of_column(column).is_some());
        let rows = if suffices { &self.base } else { &self.current };
        Ok((rows.clone(), guards))
    }

    /// Joins values to the rows, at most one to each.
    fn attach(&mut self, right: LogicalPlan, on: Vec<(Expr, Expr)>, null_safe: bool) -> Result<()> {
        self.current = super::bounded(joined(
            self.current.clone(),
            right,
            JoinType::Left,
            on,
            null_safe,
            None,
        )?)?;
        Ok(())
    }
}

/// A subquery's values with its domain's columns under names of their own, and these beside the outer expressions.
#[allow(clippy::type_complexity)]
fn keyed(
    columns: Vec<Column>,
    domain: &Domain,
    relation: &str,
    values: Vec<Expr>,
    plan: LogicalPlan,
) -> Result<(LogicalPlan, Vec<(Expr, Expr)>)> {
    let named = columns.into_iter().enumerate();
    let named = named.map(|(index, column)| column_of(Expr::Column(column), relation, &format!("key_{index}")));
    let (mut exprs, keys): (Vec<Expr>, Vec<Column>) = named.unzip();
    exprs.extend(values);
    let on = domain.pairs(keys.into_iter().map(Expr::Column));
    let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?);
    Ok((plan, on))
}

/// Each different row once.
fn different(plan: LogicalPlan) -> Result<LogicalPlan> {
    let columns = plan.schema().columns().into_iter().map(Expr::Column).collect();
    let grouped = Aggregate::try_new(Arc::new(plan), columns, Vec::new())?;
    Ok(LogicalPlan::Aggregate(grouped))
}

/// Whether values of a type have a greatest one.
fn is_ordered(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || data_type.is_temporal() && !matches!(data_type, DataType::Interval(_))
        || matches!(
            data_type,
            DataType::Boolean | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary
        )
}

impl Rewrite {
    /// One row where a plan has rows, none where it has none.
    pub(super) fn existence(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let (mark, _) = column_of(lit(true), &self.name("found"), "mark");
        different(LogicalPlan::Projection(Projection::try_new(
            vec![mark],
            Arc::new(plan),
        )?))
    }
}
