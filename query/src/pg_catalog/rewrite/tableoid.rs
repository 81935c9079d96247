//! `tableoid`, a column that every table of PostgreSQL has, of tables of the catalog.

use crate::names::folded;
use crate::pg_catalog::SCHEMA;
use crate::pg_catalog::oids::{self, Oid};
use crate::walk;
use datafusion::sql::sqlparser::ast::{CastKind, DataType, Expr, Statement, TableFactor, Value, Visitor, VisitorMut};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Puts a table's OID in the place of its `tableoid`, where the name before it means one table of the catalog only.
pub(super) fn put(statement: &mut Statement) {
    let mut names = Names::default();
    let _ = walk::read(statement, &mut names);
    if names.0.values().any(Option::is_some) {
        let _ = walk::change(statement, &mut names);
    }
}

fn oid_of(table: &str) -> Option<Oid> {
    let known = oids::WELL_KNOWN.iter().find(|(name, _)| *name == table);
    known.map(|(_, oid)| *oid)
}

/// OIDs of the tables that the names in the statement mean; `None`: another table, or several.
#[derive(Default)]
struct Names(HashMap<String, Option<Oid>>);

impl Visitor for Names {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        let (name, oid) = match factor {
            TableFactor::Table { name, alias, .. } => {
                let parts = name.0.iter().filter_map(|part| part.as_ident().map(folded));
                let parts: Vec<String> = parts.collect();
                let oid = match parts.as_slice() {
                    [schema, table] if schema == SCHEMA => oid_of(table),
                    _ => None,
                };
                let alias = alias.as_ref().map(|alias| folded(&alias.name));
                (alias.or_else(|| parts.last().cloned()), oid)
            }
            TableFactor::Derived { alias, .. } => (alias.as_ref().map(|alias| folded(&alias.name)), None),
            _ => (None, None),
        };
        if let Some(name) = name {
            let known = self.0.entry(name).or_insert(oid);
            *known = known.filter(|known| Some(*known) == oid);
        }
        ControlFlow::Continue(())
    }
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && let [table, column] = parts.as_slice()
            && folded(column) == "tableoid"
            && let Some(Some(oid)) = self.0.get(&folded(table))
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
