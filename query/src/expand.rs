//! Plain views put in the place of their names, as a rewrite of the parsed statement before it is planned.
//!
//! # Rules kept here
//! 1. A common table expression hides views of its name; inside of itself only those before it do, as in PostgreSQL.
//! 2. AS OF behind a plain view is for every table under it.
//!
//! # Not here
//! Names of output columns ([`crate::names`]), and what `AS OF` becomes ([`crate::past`]).

use crate::catalog::{Catalog, Object, ViewDefinition};
use crate::decorrelate::{NODES_MAX, too_large};
use crate::names::{folded, name_outputs, public_name};
use crate::past::{Moment, moment_at};
use crate::walk;
use cenote_engine::plan::CollectionId;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, Statement, TableAlias, TableAliasColumnDef, TableFactor, VisitorMut,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// How deeply views may stand on plain views.
const VIEW_DEPTH_MAX: usize = 64;

/// Puts the query of every plain view in the place of its name, and names tables of past epochs as such.
///
/// # Arguments
/// - `changed`: materialized views whose kept rows are not what the statement must see (its transaction has written to
///   tables that they read): they are computed anew, like plain ones.
///
/// # Errors
/// `Invalid` 54001: views stand too deep on each other, or the statement reads more than 5,000 relations.
pub(crate) fn expand_views(
    statement: &mut Statement,
    catalog: &Catalog,
    changed: &BTreeSet<CollectionId>,
) -> Result<()> {
    let mut expander = Expander {
        catalog,
        changed,
        common: Vec::new(),
        depth: 0,
        past: None,
        sees: None,
    };
    match walk::change(statement, &mut expander) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Expander<'a> {
    catalog: &'a Catalog,
    changed: &'a BTreeSet<CollectionId>,
    /// Common table expressions in scope, which hide views.
    common: Vec<Common>,
    depth: usize,
    /// The epoch that the view being expanded is read at.
    past: Option<Moment>,
    /// What the view being expanded sees of tables.
    sees: Option<CollectionId>,
}

/// The common table expressions of one query, on a stack of the queries that a walk is in.
pub(crate) struct Common {
    /// Where each one's query is, and its name.
    tables: Vec<(*const Query, String)>,
    /// Relations that each one's query reads, counted as often as it reads them.
    sizes: Vec<usize>,
    /// The same of the query itself, as far as the walk has come.
    relations: usize,
    is_recursive: bool,
    /// How many of them can be named where the walk is: inside one, only those before it.
    seen: usize,
}

impl Common {
    /// Takes note that a walk goes into a query.
    pub(crate) fn enter_query(stack: &mut Vec<Common>, query: &Query) {
        if let Some(outer) = stack.last_mut() {
            outer.enter(query);
        }
        stack.push(Common::of(query));
    }

    /// Takes note that a walk leaves the query that it went into last.
    pub(crate) fn leave_query(stack: &mut Vec<Common>) {
        stack.pop();
        if let Some(outer) = stack.last_mut() {
            outer.seen = outer.tables.len();
        }
    }

    /// Whether a bare name means a common table expression.
    pub(crate) fn hide(stack: &[Common], name: &str) -> bool {
        stack.iter().any(|common| common.hides(name))
    }

    fn of(query: &Query) -> Common {
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        let tables: Vec<_> = tables
            .map(|table| (&raw const *table.query, folded(&table.alias.name)))
            .collect();
        Common {
            is_recursive: query.with.as_ref().is_some_and(|with| with.recursive),
            seen: tables.len(),
            sizes: vec![1; tables.len()],
            relations: 0,
            tables,
        }
    }

    /// Adds what `query`, which the walk has left, reads: to its own size if it is a common table expression.
    fn add(&mut self, query: &Query, relations: usize) {
        match self.tables.iter().position(|(at, _)| std::ptr::eq(*at, query)) {
            Some(inner) => self.sizes[inner] = relations.max(1),
            None => self.relations = self.relations.saturating_add(relations),
        }
    }

    /// How many relations a bare name stands for.
    fn size_of(stack: &[Common], name: &str) -> usize {
        let sizes = stack.iter().rev().find_map(|common| {
            let named = common.tables[..common.seen]
                .iter()
                .rposition(|(_, table)| table == name)?;
            Some(common.sizes[named])
        });
        sizes.unwrap_or(1)
    }

    /// Takes note that the walk goes into `query`, which may be one of the expressions.
    fn enter(&mut self, query: &Query) {
        let inner = self.tables.iter().position(|(at, _)| std::ptr::eq(*at, query));
        if let Some(inner) = inner.filter(|_| !self.is_recursive) {
            self.seen = inner;
        }
    }

    fn hides(&self, name: &str) -> bool {
        self.tables[..self.seen].iter().any(|(_, table)| table == name)
    }
}

impl Expander<'_> {
    /// The name of a table with the columns that the view being expanded sees, where they are not its newest.
    fn seen_as(&self, object: &Object) -> Option<String> {
        match object {
            Object::Table(table) => table.seen_as(self.sees?),
            _ => None,
        }
    }

    /// Ends the walk where the query would be planned for ever: what WITH names is planned wherever it is read.
    fn check_size(&self) -> ControlFlow<Error> {
        match self.common.last() {
            Some(common) if common.relations > NODES_MAX => ControlFlow::Break(too_large()),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn no_past(name: &ObjectName, moment: &Moment) -> Error {
    let message = format!("cannot read \"{name}\" as of {moment}: it is a common table expression");
    Error::new(ErrorKind::Invalid, "SQL-0309", message)
        .sqlstate("42601")
        .attempt("write AS OF behind the tables inside it")
}

impl VisitorMut for Expander<'_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        if let Some(lock) = query.locks.first() {
            let message = format!("cannot plan query: {lock} is not supported yet");
            let error = Error::new(ErrorKind::Unsupported, "SQL-0301", message);
            return ControlFlow::Break(
                error.attempt("leave it out: a commit is refused if a row it changes was changed since it was read"),
            );
        }
        Common::enter_query(&mut self.common, query);
        let is_common = |name: &str| Common::hide(&self.common, name);
        crate::grouping::complete(query, self.catalog, &is_common);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        let relations = self.common.last().map_or(0, |common| common.relations);
        Common::leave_query(&mut self.common);
        match self.common.last_mut() {
            Some(outer) => outer.add(query, relations),
            None => return ControlFlow::Continue(()),
        }
        self.check_size()
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Error> {
        if let Err(error) = refuse_clauses(factor) {
            return ControlFlow::Break(error);
        }
        let TableFactor::Table {
            name,
            alias,
            args: None,
            version,
            ..
        } = factor
        else {
            return ControlFlow::Continue(());
        };
        let own_past = version.take().as_ref().and_then(moment_at);
        let past = own_past.clone().or_else(|| self.past.clone());
        let public = public_name(name);
        let is_common = |name: &String| Common::hide(&self.common, name);
        let is_common = name.0.len() == 1 && public.as_ref().is_some_and(is_common);
        let size = match &public {
            Some(name) if is_common => Common::size_of(&self.common, name),
            _ => 1,
        };
        if let Some(common) = self.common.last_mut() {
            common.relations = common.relations.saturating_add(size);
        }
        if is_common {
            return match own_past {
                None => self.check_size(),
                Some(moment) => ControlFlow::Break(no_past(name, &moment)),
            };
        }
        let object = public.as_ref().and_then(|name| self.catalog.get(name));
        let inlined = match object {
            Some(Object::View(view)) => Some((&view.definition, view.definition.columns.clone())),
            Some(Object::MaterializedView(view)) if past.is_none() && self.changed.contains(&view.definition.id) => {
                let columns = view.columns.fields().iter().map(|field| field.name().clone());
                Some((&view.definition, columns.collect()))
            }
            _ => None,
        };
        if let Some((view, columns)) = inlined {
            match self.subquery(view, &columns, past, alias.take()) {
                Ok(derived) => *factor = derived,
                Err(error) => return ControlFlow::Break(error),
            }
        } else if let Some(was) = object.and_then(|object| self.seen_as(object)) {
            crate::past::qualify_public(name, alias);
            if let Some(last) = name.0.last_mut() {
                *last = ObjectNamePart::Identifier(Ident::with_quote('"', was));
            }
            if let Some(moment) = &past {
                crate::past::qualify(name, alias, moment);
            }
        } else if let Some(moment) = &past {
            crate::past::qualify(name, alias, moment);
        } else if self.depth > 0 && name.0.len() == 1 && object.is_some() {
            // Inside a view's query, or the planner would take a common table expression of whoever reads the view.
            crate::past::qualify_public(name, alias);
        }
        ControlFlow::Continue(())
    }
}

impl Expander<'_> {
    /// The query of a view, in the place of its name.
    ///
    /// # Arguments
    /// - `columns`: names of its columns; none: those of the query.
    fn subquery(
        &self,
        view: &ViewDefinition,
        columns: &[String],
        past: Option<Moment>,
        alias: Option<TableAlias>,
    ) -> Result<TableFactor> {
        let name = &view.name;
        if self.depth > VIEW_DEPTH_MAX {
            let error = Error::new(
                ErrorKind::Invalid,
                "SQL-0004",
                "cannot plan query: its views are too deep",
            );
            return Err(error
                .sqlstate("54001")
                .fact("limit", format!("{VIEW_DEPTH_MAX} levels")));
        }
        let statements = crate::parse::parse_script(&view.query)?;
        let crate::parse::Parsed::Sql { ast, .. } = &*statements[0].parsed else {
            return Err(Error::bug(format!("view \"{name}\" holds no query")));
        };
        let mut ast = (**ast).clone();
        name_outputs(&mut ast);
        let mut inner = Expander {
            catalog: self.catalog,
            changed: self.changed,
            common: Vec::new(),
            depth: self.depth + 1,
            past,
            sees: Some(view.sees()),
        };
        if let ControlFlow::Break(error) = walk::change(&mut ast, &mut inner) {
            return Err(error);
        }
        let Statement::Query(subquery) = ast else {
            return Err(Error::bug(format!("view \"{name}\" holds no query")));
        };
        let own_columns = columns.iter().map(|column| TableAliasColumnDef {
            name: Ident::with_quote('"', column),
            data_type: None,
        });
        let mut alias = alias.unwrap_or_else(|| TableAlias {
            explicit: true,
            name: Ident::with_quote('"', name),
            columns: Vec::new(),
            at: None,
        });
        if alias.columns.is_empty() {
            alias.columns = own_columns.collect();
        }
        Ok(TableFactor::Derived {
            lateral: false,
            subquery,
            alias: Some(alias),
            sample: None,
        })
    }
}

/// Refuses what may stand behind a table's name and would be passed over by the planner.
fn refuse_clauses(factor: &TableFactor) -> Result<()> {
    let clause = match factor {
        TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => "TABLESAMPLE",
        TableFactor::Table {
            with_ordinality: true, ..
        } => "WITH ORDINALITY",
        TableFactor::Table {
            version: Some(_),
            args: Some(_),
            ..
        } => "AS OF behind a function",
        TableFactor::Table {
            with_hints,
            partitions,
            json_path,
            index_hints,
            ..
        } if !with_hints.is_empty() || !partitions.is_empty() || json_path.is_some() || !index_hints.is_empty() => {
            "a hint behind a table's name"
        }
        _ => return Ok(()),
    };
    let message = format!("cannot plan query: {clause} is not supported yet");
    Err(Error::new(ErrorKind::Unsupported, "SQL-0301", message))
}
