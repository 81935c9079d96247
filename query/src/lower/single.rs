//! Groups of one row each: a key of the input is among the columns that it is grouped by, so nothing is kept for them.

use super::{Lowered, Lowering, not_supported};
use cenote_statestore::Result;
use datafusion::logical_expr::{Aggregate, Expr, lit};

/// What is refused: a value that a scalar subquery gives, of a type without a greatest one.
const ONE_OF_MANY: &str = "first_value(), or a scalar subquery of this type whose rows no primary key tells apart";

impl Lowering {
    /// Lowers an aggregation over groups of one row as a projection; `None`: it is another one.
    pub(super) fn lower_single_rows(&mut self, aggregate: &Aggregate) -> Result<Option<Lowered>> {
        if matches!(aggregate.group_expr.as_slice(), [] | [Expr::GroupingSet(_)]) {
            return Ok(None);
        }
        let values: Option<Vec<Expr>> = aggregate.aggr_expr.iter().map(value_of_one_row).collect();
        let Some(values) = values else {
            return Ok(None);
        };
        let input = self.lower(&aggregate.input)?;
        let groups = aggregate.group_expr.iter().map(|group| match group {
            Expr::Column(column) => input.schema.maybe_index_of_column(column),
            _ => None,
        });
        let Some(groups) = groups.collect::<Option<Vec<usize>>>() else {
            return Ok(None);
        };
        let covered = |key: &Vec<usize>| key.iter().all(|column| groups.contains(column));
        if !input.key.as_ref().is_some_and(covered) {
            return match aggregate.aggr_expr.first().is_some_and(is_first_value) {
                true => Err(not_supported(ONE_OF_MANY)),
                false => Ok(None),
            };
        }
        let exprs: Vec<Expr> = aggregate.group_expr.iter().cloned().chain(values).collect();
        self.project(input, &exprs, &aggregate.schema, &[]).map(Some)
    }
}

fn is_first_value(call: &Expr) -> bool {
    matches!(call, Expr::AggregateFunction(function) if function.func.name() == "first_value")
}

/// What an aggregate is over one row.
fn value_of_one_row(call: &Expr) -> Option<Expr> {
    let Expr::AggregateFunction(function) = call.clone().unalias_nested().data else {
        return None;
    };
    if function.params.filter.is_some() {
        return None;
    }
    match (function.func.name(), function.params.args.as_slice()) {
        ("min" | "max" | "first_value", [argument]) => Some(argument.clone()),
        ("count", [Expr::Literal(value, _)]) if !value.is_null() => Some(lit(1i64)),
        _ => None,
    }
}
