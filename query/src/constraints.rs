//! Constraints of tables: UNIQUE, CHECK and the names of all of them, from a parsed CREATE TABLE to what the catalog keeps.
//!
//! # Rules kept here
//! 1. Names that a user leaves out are the ones PostgreSQL would choose.
//! 2. What is not honoured (DEFERRABLE, NULLS NOT DISTINCT, NOT ENFORCED ...) is refused by name.
//!
//! # Not here
//! Evaluating CHECK ([`checks`]); keeping keys unique (`transaction`, and the engine's committer).

mod checks;

pub(crate) use checks::{Checks, failing_row};

use crate::catalog::{Catalog, ColumnDefinition};
use crate::error::{near, unsupported};
use crate::names::folded;
use crate::walk;
use cenote_statestore::{Error, ErrorKind, Result, UniqueKey};
use datafusion::sql::sqlparser::ast::{
    CheckConstraint, ColumnDef, ColumnOption, ConstraintCharacteristics, DeferrableInitial, Expr, Ident, IndexColumn,
    KeyOrIndexDisplay, NullsDistinctOption, PrimaryKeyConstraint, TableConstraint, UniqueConstraint, Visitor,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The constraints of a table beyond types, NOT NULL and which columns its primary key has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Constraints {
    /// Name of the primary key, if it is not the table's name and `_pkey`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary_key_name: Option<String>,
    /// UNIQUE.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unique: Vec<UniqueDefinition>,
    /// CHECK, in the order of their names, in which they are checked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckDefinition>,
}

/// A UNIQUE constraint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UniqueDefinition {
    /// Its name.
    pub name: String,
    /// Indices of its columns.
    pub columns: Vec<usize>,
}

/// A CHECK constraint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckDefinition {
    /// Its name.
    pub name: String,
    /// SQL text of its condition.
    pub sql: String,
}

impl Constraints {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Constraints::default()
    }

    /// The unique keys as the state store keeps them.
    pub(crate) fn unique_keys(&self) -> Vec<UniqueKey> {
        let keys = self.unique.iter().map(|key| UniqueKey {
            name: key.name.clone(),
            columns: key.columns.clone(),
        });
        keys.collect()
    }
}

/// A key as a statement declares it.
#[derive(PartialEq)]
struct DeclaredKey {
    name: Option<String>,
    columns: Vec<String>,
}

/// The constraints of a CREATE TABLE, in the order of its text.
#[derive(Default)]
pub(crate) struct Declared {
    primary: Option<DeclaredKey>,
    unique: Vec<DeclaredKey>,
    checks: Vec<(Option<String>, Expr)>,
}

impl Declared {
    /// Takes a column's option, if it is a constraint of ours.
    ///
    /// # Returns
    /// Whether it was one.
    pub(crate) fn take_option(&mut self, table: &str, column: &ColumnDef, at: usize) -> Result<bool> {
        let option = &column.options[at];
        let (name, columns) = (option.name.as_ref().map(folded), vec![folded(&column.name)]);
        match &option.option {
            ColumnOption::PrimaryKey(key) => {
                check_characteristics(key.characteristics.as_ref())?;
                self.take_primary(table, DeclaredKey { name, columns })?;
            }
            ColumnOption::Unique(key) => {
                check_unique(key)?;
                self.unique.push(DeclaredKey { name, columns });
            }
            ColumnOption::Check(check) => self.take_check(name, check)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Takes a constraint of the whole table.
    pub(crate) fn take_constraint(&mut self, table: &str, constraint: &TableConstraint) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                check_primary(key)?;
                let (name, columns) = (key.name.as_ref().map(folded), key_columns(&key.columns, "primary key")?);
                self.take_primary(table, DeclaredKey { name, columns })
            }
            TableConstraint::Unique(key) => {
                check_unique(key)?;
                let (name, columns) = (key.name.as_ref().map(folded), key_columns(&key.columns, "unique")?);
                self.unique.push(DeclaredKey { name, columns });
                Ok(())
            }
            TableConstraint::Check(check) => self.take_check(check.name.as_ref().map(folded), check),
            other => Err(unsupported(format!("constraint {other}"))),
        }
    }

    fn take_primary(&mut self, table: &str, key: DeclaredKey) -> Result<()> {
        if self.primary.is_some() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "SQL-0211",
                format!("multiple primary keys for table \"{table}\" are not allowed"),
            )
            .sqlstate("42P16"));
        }
        self.primary = Some(key);
        Ok(())
    }

    fn take_check(&mut self, name: Option<String>, check: &CheckConstraint) -> Result<()> {
        if check.enforced == Some(false) {
            return Err(unsupported("CHECK ... NOT ENFORCED"));
        }
        self.checks.push((name, (*check.expr).clone()));
        Ok(())
    }

    /// Columns of the primary key; none without one.
    pub(crate) fn primary_key(&self) -> &[String] {
        self.primary.as_ref().map_or(&[], |key| &key.columns)
    }

    /// Refuses constraints on a table whose rows are not checked here.
    pub(crate) fn refuse_unchecked(&self) -> Result<()> {
        match (self.unique.is_empty(), self.checks.is_empty()) {
            (true, true) => Ok(()),
            (false, _) => Err(unsupported("UNIQUE on a table with a connector")),
            (_, false) => Err(unsupported("CHECK on a table with a connector")),
        }
    }

    /// The constraints with their names.
    ///
    /// # Errors
    /// 42703: a column that is not there. 42710, 42P07: a name that is taken.
    pub(crate) fn finish(
        mut self,
        table: &str,
        columns: &[ColumnDefinition],
        catalog: &Catalog,
    ) -> Result<Constraints> {
        self.join_repeated();
        let mut names = Names::new(table, catalog);
        let primary_name = self.primary.as_ref().and_then(|key| key.name.clone());
        let keys = self.primary.iter().chain(&self.unique);
        for name in keys.filter_map(|key| key.name.as_ref()) {
            names.take_relation(name)?;
        }
        for name in self.checks.iter().filter_map(|(name, _)| name.as_ref()) {
            names.take(name)?;
        }
        if self.primary.is_some() && primary_name.is_none() {
            names.taken.insert(format!("{table}_pkey"));
        }
        let mut constraints = Constraints {
            primary_key_name: primary_name.filter(|name| *name != format!("{table}_pkey")),
            ..Constraints::default()
        };
        for key in self.unique {
            let name = key
                .name
                .unwrap_or_else(|| names.choose(&[&key.columns.join("_"), "key"]));
            let columns = key.columns.iter().map(|column| position_of(column, columns));
            let columns = columns.collect::<Result<_>>()?;
            constraints.unique.push(UniqueDefinition { name, columns });
        }
        for (name, expr) in self.checks {
            let name = name.unwrap_or_else(|| match only_column(&expr, columns) {
                Some(column) => names.choose(&[&column, "check"]),
                None => names.choose(&["check"]),
            });
            let sql = expr.to_string();
            constraints.checks.push(CheckDefinition { name, sql });
        }
        constraints.checks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(constraints)
    }

    /// A key that is declared twice is one, unless each has a name.
    fn join_repeated(&mut self) {
        let mut kept: Vec<DeclaredKey> = Vec::new();
        for key in std::mem::take(&mut self.unique) {
            let mut earlier = self.primary.iter_mut().chain(&mut kept);
            match earlier.find(|earlier| earlier.columns == key.columns) {
                Some(earlier) if earlier.name.is_none() || key.name.is_none() => {
                    earlier.name = earlier.name.take().or(key.name);
                }
                _ => kept.push(key),
            }
        }
        self.unique = kept;
    }
}

/// Names of constraints of one table, and of the relations beside it.
struct Names<'a> {
    table: &'a str,
    taken: BTreeSet<String>,
    relations: BTreeSet<String>,
}

impl<'a> Names<'a> {
    fn new(table: &'a str, catalog: &Catalog) -> Names<'a> {
        let mut relations = catalog.relation_names();
        relations.insert(table.to_string());
        Names {
            table,
            taken: BTreeSet::new(),
            relations,
        }
    }

    fn take(&mut self, name: &str) -> Result<()> {
        if self.taken.insert(name.to_string()) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Invalid,
            "SQL-0212",
            format!("constraint \"{name}\" for relation \"{}\" already exists", self.table),
        )
        .sqlstate("42710"))
    }

    /// Takes the name of a key, whose index is a relation.
    fn take_relation(&mut self, name: &str) -> Result<()> {
        if self.relations.contains(name) || !self.taken.insert(name.to_string()) {
            return Err(Error::new(
                ErrorKind::Conflict,
                "SQL-0213",
                format!("relation \"{name}\" already exists"),
            )
            .sqlstate("42P07"));
        }
        Ok(())
    }

    /// The name that PostgreSQL makes of a table's name and these parts.
    fn choose(&mut self, parts: &[&str]) -> String {
        let base = format!("{}_{}", self.table, parts.join("_"));
        let numbered = (1..).map(|number| format!("{base}{number}"));
        let mut candidates = std::iter::once(base.clone()).chain(numbered);
        let is_free = |name: &String| !self.taken.contains(name) && !self.relations.contains(name);
        let name = candidates.find(is_free).unwrap_or(base);
        self.taken.insert(name.clone());
        name
    }
}

fn position_of(name: &str, columns: &[ColumnDefinition]) -> Result<usize> {
    columns.iter().position(|column| column.name == name).ok_or_else(|| {
        let message = format!("column \"{name}\" named in key does not exist");
        let error = Error::new(ErrorKind::Invalid, "SQL-0302", message).sqlstate("42703");
        near(error, name, columns.iter().map(|column| column.name.as_str()))
    })
}

/// The one column that an expression names.
fn only_column(expr: &Expr, columns: &[ColumnDefinition]) -> Option<String> {
    struct Named<'a>(BTreeSet<String>, &'a [ColumnDefinition]);
    impl Visitor for Named<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let name = match expr {
                Expr::Identifier(ident) => folded(ident),
                Expr::CompoundIdentifier(parts) => parts.last().map(folded).unwrap_or_default(),
                _ => return ControlFlow::Continue(()),
            };
            if self.1.iter().any(|column| column.name == name) {
                self.0.insert(name);
            }
            ControlFlow::Continue(())
        }
    }
    let mut named = Named(BTreeSet::new(), columns);
    let _ = walk::read(expr, &mut named);
    if named.0.len() == 1 { named.0.pop_first() } else { None }
}

fn key_columns(columns: &[IndexColumn], what: &str) -> Result<Vec<String>> {
    let mut names = Vec::with_capacity(columns.len());
    for column in columns {
        let options = &column.column.options;
        let name = match &column.column.expr {
            Expr::Identifier(ident) if column.operator_class.is_none() => folded(ident),
            other => return Err(unsupported(format!("a key over {other}"))),
        };
        if options.asc.is_some() || options.nulls_first.is_some() || column.column.with_fill.is_some() {
            return Err(unsupported(format!("a key over {column}")));
        }
        if names.contains(&name) {
            return Err(Error::new(
                ErrorKind::Invalid,
                "SQL-0206",
                format!("column \"{name}\" appears twice in {what} constraint"),
            )
            .sqlstate("42701"));
        }
        names.push(name);
    }
    Ok(names)
}

fn check_primary(key: &PrimaryKeyConstraint) -> Result<()> {
    check_characteristics(key.characteristics.as_ref())?;
    check_index(
        key.index_name.as_ref(),
        key.index_type.is_some() || !key.index_options.is_empty(),
    )
}

fn check_unique(key: &UniqueConstraint) -> Result<()> {
    check_characteristics(key.characteristics.as_ref())?;
    if key.nulls_distinct == NullsDistinctOption::NotDistinct {
        return Err(unsupported("UNIQUE NULLS NOT DISTINCT"));
    }
    let has_word = !matches!(key.index_type_display, KeyOrIndexDisplay::None);
    let has_options = key.index_type.is_some() || !key.index_options.is_empty();
    check_index(key.index_name.as_ref(), has_word || has_options)
}

fn check_index(name: Option<&Ident>, has_options: bool) -> Result<()> {
    match name.is_some() || has_options {
        true => Err(unsupported("a name or options of a constraint's index")),
        false => Ok(()),
    }
}

fn check_characteristics(characteristics: Option<&ConstraintCharacteristics>) -> Result<()> {
    let Some(characteristics) = characteristics else {
        return Ok(());
    };
    let is_deferred = matches!(characteristics.initially, Some(DeferrableInitial::Deferred));
    if characteristics.deferrable == Some(true) || is_deferred {
        return Err(unsupported("a DEFERRABLE constraint"));
    }
    match characteristics.enforced {
        Some(false) => Err(unsupported("a constraint that is NOT ENFORCED")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
