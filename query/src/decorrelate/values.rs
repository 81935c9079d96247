//! What can be said of a subquery's rows without computing it.

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, ExprSchemable, FetchType, LogicalPlan, SkipType, when};

/// The part of a subquery that has rows exactly where the subquery has.
pub(super) fn any_rows(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Projection(projection) => any_rows(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => any_rows(&alias.input),
        LogicalPlan::Sort(sort) if sort.fetch != Some(0) => any_rows(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => any_rows(input),
        LogicalPlan::Aggregate(aggregate) if is_of_plain_groups(aggregate) => any_rows(&aggregate.input),
        LogicalPlan::Limit(limit) if keeps_the_first(limit) => any_rows(&limit.input),
        other => other,
    }
}

fn is_of_plain_groups(aggregate: &Aggregate) -> bool {
    !aggregate.group_expr.is_empty() && !matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)])
}

fn keeps_the_first(limit: &datafusion::logical_expr::Limit) -> bool {
    let skips = !matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
    let fetches = match limit.get_fetch_type() {
        Ok(FetchType::Literal(fetch)) => fetch != Some(0),
        _ => false,
    };
    fetches && !skips
}

/// Whether a plan has exactly one row, whatever there is.
pub(super) fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        _ => false,
    }
}

/// Whether a subquery has never more than one row.
pub(crate) fn has_one_row_at_most(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => has_one_row_at_most(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row_at_most(&alias.input),
        LogicalPlan::Filter(filter) => has_one_row_at_most(&filter.input),
        LogicalPlan::Sort(sort) => matches!(sort.fetch, Some(0 | 1)) || has_one_row_at_most(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => has_one_row_at_most(input),
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1)))) || has_one_row_at_most(&limit.input)
        }
        other => has_a_row(other),
    }
}

/// An aggregate's column, where there may be no group: its value over no rows then.
pub(super) fn or_default(column: Expr, call: &Expr, schema: &DFSchema) -> Result<Expr> {
    let Expr::AggregateFunction(function) = call.clone().unalias_nested().data else {
        return Ok(column);
    };
    let default = function.func.default_value(&column.get_type(schema)?)?;
    match default.is_null() {
        true => Ok(column),
        false => when(column.clone().is_null(), Expr::Literal(default, None)).otherwise(column),
    }
}

/// A subquery that is an aggregation without groups: it, and the subquery's value over its columns.
pub(super) fn of_one_aggregation(plan: &LogicalPlan) -> Option<(&LogicalPlan, Expr)> {
    match plan {
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
            Some((plan, Expr::Column(aggregate.schema.columns().into_iter().next()?)))
        }
        LogicalPlan::Projection(projection) => match projection.input.as_ref() {
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
                let value = projection.expr.first()?.clone();
                let nests = super::has_subquery(&value).unwrap_or(true);
                (!nests).then(|| (projection.input.as_ref(), value.unalias_nested().data))
            }
            _ => None,
        },
        LogicalPlan::Sort(sort) if sort.fetch != Some(0) => of_one_aggregation(&sort.input),
        LogicalPlan::Limit(limit) if keeps_the_first(limit) => of_one_aggregation(&limit.input),
        _ => None,
    }
}
