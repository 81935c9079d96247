//! `tableoid`, a column that every table of PostgreSQL has, of tables of the catalog.

use crate::names::folded;
use crate::pg_catalog::SCHEMA;
use crate::pg_catalog::oids::{self, Oid};
use crate::walk;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Select, Statement, TableFactor, Value, VisitorMut};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Puts a table's OID in the place of its `tableoid`, where the name before it is one of a table of the catalog.
pub(super) fn put(statement: &mut Statement) {
    let _ = walk::change(statement, &mut Selects);
}

/// Every SELECT, the inner ones first.
struct Selects;

impl VisitorMut for Selects {
    type Break = ();

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let factors = select.from.iter().flat_map(|from| {
            let joined = from.joins.iter().map(|join| &join.relation);
            std::iter::once(&from.relation).chain(joined)
        });
        let mut names = Names(factors.filter_map(named).collect());
        match names.0.is_empty() {
            true => ControlFlow::Continue(()),
            false => walk::change(select, &mut names),
        }
    }
}

/// The name that a table of the catalog has in a FROM clause, and its OID.
fn named(factor: &TableFactor) -> Option<(String, Oid)> {
    let TableFactor::Table { name, alias, .. } = factor else {
        return None;
    };
    let parts = name.0.iter().filter_map(|part| part.as_ident().map(folded));
    let parts: Vec<String> = parts.collect();
    let [schema, table] = parts.as_slice() else { return None };
    let known = oids::WELL_KNOWN
        .iter()
        .find(|(name, _)| schema == SCHEMA && name == table)?;
    let name = alias
        .as_ref()
        .map_or_else(|| table.clone(), |alias| folded(&alias.name));
    Some((name, known.1))
}

struct Names(HashMap<String, Oid>);

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, column] = parts.as_slice()
            && folded(column) == "tableoid"
            && let Some(oid) = self.0.get(&folded(table))
        {
            *expr = Expr::Cast {
                kind: CastKind::Cast,
                expr: Box::new(Expr::value(Value::Number(oid.to_string(), false))),
                data_type: DataType::Int(None),
                array: false,
                format: None,
            };
        }
        ControlFlow::Continue(())
    }
}
