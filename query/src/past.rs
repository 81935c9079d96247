//! `AS OF EPOCH n` behind a table's name: that table is read as it stood at the epoch, the others as they are.
//!
//! The clause leaves the tokens before the grammar sees them, stands in the tree as the table's version, and becomes a
//! catalog of its own before names are resolved: `t AS OF EPOCH 5` is read as `"cenote@5".public.t AS t`.
//!
//! # Not here
//! Keeping the epoch readable, and what the catalog of an epoch holds: `plan`.

use crate::names::folded;
use crate::plan::DATABASE;
use crate::walk;
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Statement as Ast, TableAlias, TableFactor, TableVersion, Value,
    Visitor, VisitorMut,
};
use std::collections::{BTreeSet, HashSet};
use std::ops::ControlFlow;

/// One clause as it stood in the text.
#[derive(Debug)]
pub(crate) struct Clause {
    /// Position of the token before it: the last part of a table's name.
    pub(crate) behind: usize,
    /// Position of its first word.
    pub(crate) position: usize,
    /// The epoch it names.
    pub(crate) epoch: Epoch,
}

/// Puts clauses on the tables that they follow.
///
/// # Errors
/// 42601: a clause that follows something else. 0A000: the statement is not a query.
pub(crate) fn put(ast: &mut Ast, clauses: Vec<Clause>) -> Result<()> {
    let Some(first) = clauses.first().map(|clause| clause.position) else {
        return Ok(());
    };
    let is_query = match &*ast {
        Ast::Explain { statement, .. } => matches!(**statement, Ast::Query(_)),
        other => matches!(other, Ast::Query(_)),
    };
    if !is_query {
        let message = "cannot run statement: AS OF in a statement that is not a query is not supported yet";
        return Err(Error::new(ErrorKind::Unsupported, "SQL-0002", message).position(first));
    }
    let mut placing = Placing { clauses };
    let _ = walk::change(ast, &mut placing);
    match placing.clauses.first() {
        None => Ok(()),
        Some(left) => Err(Error::new(
            ErrorKind::Invalid,
            "SQL-0001",
            "cannot parse statement: AS OF EPOCH does not follow the name of a table",
        )
        .sqlstate("42601")
        .position(left.position)),
    }
}

struct Placing {
    clauses: Vec<Clause>,
}

impl VisitorMut for Placing {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            version,
            args: None,
            ..
        } = factor
            && let Some(ObjectNamePart::Identifier(last)) = name.0.last()
        {
            let position = last.span.start.column as usize;
            let found = self.clauses.iter().position(|clause| clause.behind == position);
            *version = found.map(|found| version_at(self.clauses.remove(found).epoch));
        }
        ControlFlow::Continue(())
    }
}

fn version_at(epoch: Epoch) -> TableVersion {
    TableVersion::VersionAsOf(Expr::value(Value::Number(epoch.to_string(), false)))
}

/// The epoch of a table's version.
pub(crate) fn epoch_at(version: &TableVersion) -> Option<Epoch> {
    match version {
        TableVersion::VersionAsOf(Expr::Value(value)) => match &value.value {
            Value::Number(number, _) => number.parse().ok().map(Epoch),
            _ => None,
        },
        _ => None,
    }
}

/// The epochs that a statement names.
pub(crate) fn epochs(ast: &Ast) -> BTreeSet<Epoch> {
    Tables::of(ast).0.into_iter().flatten().collect()
}

/// The one epoch that a statement names for all of its tables.
pub(crate) fn epoch_of_all(ast: &Ast) -> Option<Epoch> {
    let tables = Tables::of(ast).0;
    let first = *tables.first()?;
    first.filter(|_| tables.iter().all(|table| *table == first))
}

/// The epoch of each stored table that a statement reads.
#[derive(Default)]
struct Tables(Vec<Option<Epoch>>);

impl Tables {
    fn of(ast: &Ast) -> Tables {
        let mut reading = Reading::default();
        let _ = walk::read(ast, &mut reading);
        let is_common = |name: &Option<String>| name.as_ref().is_some_and(|name| reading.common.contains(name));
        let is_stored = |(name, epoch): &&(Option<String>, Option<Epoch>)| epoch.is_some() || !is_common(name);
        let stored = reading.tables.iter().filter(is_stored);
        Tables(stored.map(|(_, epoch)| *epoch).collect())
    }
}

/// Tables as they are named, and the names of common table expressions.
#[derive(Default)]
struct Reading {
    tables: Vec<(Option<String>, Option<Epoch>)>,
    common: HashSet<String>,
}

impl Visitor for Reading {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.common.extend(tables.map(|table| folded(&table.alias.name)));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            version,
            args: None,
            ..
        } = factor
        {
            let alone = match name.0.as_slice() {
                [ObjectNamePart::Identifier(name)] => Some(folded(name)),
                _ => None,
            };
            self.tables.push((alone, version.as_ref().and_then(epoch_at)));
        }
        ControlFlow::Continue(())
    }
}

/// The catalog that holds everything as it stood at an epoch.
fn catalog_at(epoch: Epoch) -> String {
    format!("{DATABASE}@{epoch}")
}

/// The epoch that a catalog is of.
pub(crate) fn epoch_of_catalog(name: &str) -> Option<Epoch> {
    let epoch = name.strip_prefix(DATABASE)?.strip_prefix('@')?;
    epoch.parse().ok().map(Epoch)
}

/// Names a table in the catalog of an epoch; it keeps its own name as an alias.
pub(crate) fn qualify(name: &mut ObjectName, alias: &mut Option<TableAlias>, epoch: Epoch) {
    let Some(last) = keep_name(name, alias) else {
        return;
    };
    let schema = match name.0.as_slice() {
        [.., ObjectNamePart::Identifier(schema), _] => schema.clone(),
        _ => Ident::new(crate::catalog::PUBLIC),
    };
    let parts = [Ident::with_quote('"', catalog_at(epoch)), schema, last];
    *name = ObjectName(parts.into_iter().map(ObjectNamePart::Identifier).collect());
}

/// Makes a bare name mean the table in `public`, under the name that it has.
pub(crate) fn qualify_public(name: &mut ObjectName, alias: &mut Option<TableAlias>) {
    if let Some(last) = keep_name(name, alias) {
        let parts = [Ident::new(crate::catalog::PUBLIC), last];
        *name = ObjectName(parts.into_iter().map(ObjectNamePart::Identifier).collect());
    }
}

/// Gives a table its own name as alias, where it has none.
fn keep_name(name: &ObjectName, alias: &mut Option<TableAlias>) -> Option<Ident> {
    let Some(ObjectNamePart::Identifier(last)) = name.0.last().cloned() else {
        return None;
    };
    if alias.is_none() {
        *alias = Some(TableAlias {
            explicit: true,
            name: last.clone(),
            columns: Vec::new(),
            at: None,
        });
    }
    Some(last)
}
