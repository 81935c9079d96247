//! `AS OF EPOCH n`, `AS OF TIMESTAMP '...'`, `AS OF CHECKPOINT 'id'` and `AS OF SAVEPOINT name` behind a table's name: that table is
//! read as it stood then, the others as they are.
//!
//! The clause leaves the tokens before the grammar sees them, stands in the tree as the table's version, and becomes a
//! catalog of its own before names are resolved: `t AS OF EPOCH 5` is read as `"cenote@5".public.t AS t`.
//!
//! # Not here
//! Keeping the epoch readable, and what the catalog of a moment holds: `plan`, `kept`.

use crate::names::folded;
use crate::plan::DATABASE;
use crate::walk;
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Query, Statement as Ast, TableAlias, TableFactor, TableVersion, Value,
    Visitor, VisitorMut,
};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::ops::ControlFlow;

/// One clause as it stood in the text.
#[derive(Debug)]
pub(crate) struct Clause {
    /// Position of the token before it: the last part of a table's name.
    pub(crate) behind: usize,
    /// Position of its first word.
    pub(crate) position: usize,
    /// The moment that it names.
    pub(crate) moment: Moment,
}

/// A moment of the past.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    /// A sealed epoch.
    Epoch(Epoch),
    /// The newest epoch that was sealed at a time or before, in microseconds since 1970.
    Timestamp(i64),
    /// A checkpoint, by its id.
    Checkpoint(String),
    /// A savepoint, by its name.
    Savepoint(String),
}

const CHECKPOINT: &str = "checkpoint/";
const SAVEPOINT: &str = "savepoint/";
const TIMESTAMP: &str = "timestamp/";

impl Moment {
    fn of_name(name: &str) -> Option<Moment> {
        if let Some(id) = name.strip_prefix(CHECKPOINT) {
            return Some(Moment::Checkpoint(id.to_string()));
        }
        if let Some(time) = name.strip_prefix(TIMESTAMP) {
            return time.parse().ok().map(Moment::Timestamp);
        }
        Some(Moment::Savepoint(name.strip_prefix(SAVEPOINT)?.to_string()))
    }

    /// Its name, which [`Moment::of_name`] knows.
    fn name(&self) -> String {
        match self {
            Moment::Epoch(epoch) => epoch.to_string(),
            Moment::Timestamp(time) => format!("{TIMESTAMP}{time}"),
            Moment::Checkpoint(id) => format!("{CHECKPOINT}{id}"),
            Moment::Savepoint(name) => format!("{SAVEPOINT}{name}"),
        }
    }

    fn epoch(&self) -> Option<Epoch> {
        match self {
            Moment::Epoch(epoch) => Some(*epoch),
            _ => None,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Epoch(epoch) => write!(f, "epoch {epoch}"),
            Moment::Timestamp(time) => write!(f, "{}", shown_time(*time)),
            Moment::Checkpoint(id) => write!(f, "checkpoint {id}"),
            Moment::Savepoint(name) => write!(f, "savepoint \"{name}\""),
        }
    }
}

/// Microseconds since 1970 as people read them.
pub(crate) fn shown_time(time: i64) -> String {
    let time = chrono::DateTime::from_timestamp_micros(time);
    time.map_or_else(String::new, |time| time.format("%Y-%m-%d %H:%M:%S%.6f+00").to_string())
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
            "cannot parse statement: AS OF does not follow the name of a table",
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
            *version = found.map(|found| version_at(&self.clauses.remove(found).moment));
        }
        ControlFlow::Continue(())
    }
}

fn version_at(moment: &Moment) -> TableVersion {
    let value = match moment {
        Moment::Epoch(epoch) => Value::Number(epoch.to_string(), false),
        other => Value::SingleQuotedString(other.name()),
    };
    TableVersion::VersionAsOf(Expr::value(value))
}

/// The moment of a table's version.
pub(crate) fn moment_at(version: &TableVersion) -> Option<Moment> {
    match version {
        TableVersion::VersionAsOf(Expr::Value(value)) => match &value.value {
            Value::Number(number, _) => number.parse().ok().map(|epoch| Moment::Epoch(Epoch(epoch))),
            Value::SingleQuotedString(name) => Moment::of_name(name),
            _ => None,
        },
        _ => None,
    }
}

/// The moments that a statement names.
pub(crate) fn moments(ast: &Ast) -> BTreeSet<Moment> {
    Tables::of(ast).0.into_iter().flatten().collect()
}

/// The one epoch that a statement names for all of its tables.
pub(crate) fn epoch_of_all(ast: &Ast) -> Option<Epoch> {
    let tables = Tables::of(ast).0;
    let first = tables.first()?;
    let is_of_all = tables.iter().all(|table| table == first);
    first.as_ref().filter(|_| is_of_all).and_then(Moment::epoch)
}

/// The moment of each stored table that a statement reads.
#[derive(Default)]
struct Tables(Vec<Option<Moment>>);

impl Tables {
    fn of(ast: &Ast) -> Tables {
        let mut reading = Reading::default();
        let _ = walk::read(ast, &mut reading);
        let is_common = |name: &Option<String>| name.as_ref().is_some_and(|name| reading.common.contains(name));
        let is_stored = |(name, moment): &&(Option<String>, Option<Moment>)| moment.is_some() || !is_common(name);
        let stored = reading.tables.iter().filter(is_stored);
        Tables(stored.map(|(_, moment)| moment.clone()).collect())
    }
}

/// A relation as a statement names it, common table expressions included.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    /// The schema, if one is named.
    pub(crate) schema: Option<String>,
    /// The name.
    pub(crate) name: String,
    /// The moment that it is read at, if it is not now.
    pub(crate) moment: Option<Moment>,
    /// Position in the statement.
    pub(crate) position: usize,
}

impl Named {
    fn of(name: &ObjectName, moment: Option<Moment>) -> Option<Named> {
        let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        let (last, before) = parts.split_last()?;
        Some(Named {
            schema: before.last().map(|schema| folded(schema)),
            name: folded(last),
            moment,
            position: last.span.start.column as usize,
        })
    }
}

/// All relations that a statement names, and when each is read.
pub(crate) fn named(ast: &Ast) -> Vec<Named> {
    let mut reading = Reading::default();
    let _ = walk::read(ast, &mut reading);
    reading.named
}

/// Tables as they are named, and the names of common table expressions.
#[derive(Default)]
struct Reading {
    tables: Vec<(Option<String>, Option<Moment>)>,
    named: Vec<Named>,
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
            let moment = version.as_ref().and_then(moment_at);
            self.named.extend(Named::of(name, moment.clone()));
            self.tables.push((alone, moment));
        }
        ControlFlow::Continue(())
    }
}

/// The catalog that holds everything as it stood at a moment.
fn catalog_at(moment: &Moment) -> String {
    format!("{DATABASE}@{}", moment.name())
}

/// The moment that a catalog is of.
pub(crate) fn moment_of_catalog(name: &str) -> Option<Moment> {
    let moment = name.strip_prefix(DATABASE)?.strip_prefix('@')?;
    let epoch = moment.parse().ok().map(|epoch| Moment::Epoch(Epoch(epoch)));
    epoch.or_else(|| Moment::of_name(moment))
}

/// Names a table in the catalog of a moment; it keeps its own name as an alias.
pub(crate) fn qualify(name: &mut ObjectName, alias: &mut Option<TableAlias>, moment: &Moment) {
    let Some(last) = keep_name(name, alias) else {
        return;
    };
    let schema = match name.0.as_slice() {
        [.., ObjectNamePart::Identifier(schema), _] => schema.clone(),
        _ => Ident::new(crate::catalog::PUBLIC),
    };
    let parts = [Ident::with_quote('"', catalog_at(moment)), schema, last];
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
