//! Functions in FROM that give a column: how it is called.
//!
//! | Item | Its column |
//! |---|---|
//! | `unnest(a)`, `generate_series(1, 3)` | as the function |
//! | `unnest(a) AS x` | `x`, which is the item's name too |
//! | `unnest(a) AS x(y)` | `y` |
//!
//! `LATERAL unnest(a)` says what holds anyway.
//!
//! # Not here
//! The rows, which are DataFusion's; unnesting for each row of what stands before: [`crate::decorrelate`].

use crate::names::folded;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, TableAlias, TableAliasColumnDef, TableFactor,
};

const UNNEST: &str = "unnest";

/// The function of numbers and times.
pub(crate) const SERIES: &str = "generate_series";

/// Gives the column of such an item its name.
pub(crate) fn name_column(factor: &mut TableFactor) {
    if let Some(unnest) = lateral_unnest(factor) {
        *factor = unnest;
    }
    let (alias, own) = match factor {
        TableFactor::UNNEST {
            alias,
            array_exprs,
            with_offset: false,
            with_ordinality: false,
            ..
        } if array_exprs.len() == 1 => (alias, UNNEST),
        TableFactor::Table {
            name,
            alias,
            args: Some(_),
            with_ordinality: false,
            ..
        }
        | TableFactor::Function {
            name,
            alias,
            with_ordinality: false,
            ..
        } if is_named(name, SERIES) => (alias, SERIES),
        _ => return,
    };
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new(own),
        columns: Vec::new(),
        at: None,
    });
    if alias.columns.is_empty() {
        alias.columns = vec![TableAliasColumnDef {
            name: alias.name.clone(),
            data_type: None,
        }];
    }
}

fn is_named(name: &ObjectName, wanted: &str) -> bool {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|last| folded(last) == wanted)
}

/// `LATERAL unnest(a)` as `unnest(a)`.
fn lateral_unnest(factor: &TableFactor) -> Option<TableFactor> {
    let TableFactor::Function {
        lateral: true,
        name,
        args,
        with_ordinality,
        alias,
    } = factor
    else {
        return None;
    };
    let plain = |argument: &FunctionArg| -> Option<Expr> {
        match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
            _ => None,
        }
    };
    is_named(name, UNNEST).then_some(())?;
    Some(TableFactor::UNNEST {
        alias: alias.clone(),
        array_exprs: args.iter().map(plain).collect::<Option<_>>()?,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: *with_ordinality,
    })
}
