//! The columns of a table as the actions of one ALTER TABLE leave them, one after the other.
//!
//! # Rules kept here
//! 1. Of types only those change whose every value the new one has: nothing is rounded, cut or refused on the way.
//! 2. A key's columns stay, and so do those that a CHECK names.
//!
//! # Not here
//! Who depends on a column (`alter`).

use crate::catalog::{ColumnDefinition, TableDefinition, parse_sql_type, parse_type};
use crate::constraints::Declared;
use crate::ddl::{check_column_name, column_definition, refuse_keys};
use crate::error::{no_column, unsupported};
use crate::lengths::{is_char, length_max};
use crate::names::folded;
use arrow::datatypes::DataType;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnDef, ColumnOption, DataType as SqlType, DropBehavior, Ident,
};

/// A table's columns while they are changed.
pub(super) struct NewColumns {
    /// Names of the columns that there were.
    old: Vec<String>,
    definition: TableDefinition,
    /// For each column, the position that it had.
    from: Vec<Option<usize>>,
    /// Old names of columns that go.
    pub(super) dropped: Vec<String>,
    /// Old names of columns that have another type.
    pub(super) retyped: Vec<String>,
    pub(super) notices: Vec<String>,
    is_changed: bool,
}

impl NewColumns {
    pub(super) fn of(definition: &TableDefinition) -> NewColumns {
        NewColumns {
            old: definition.columns.iter().map(|column| column.name.clone()).collect(),
            definition: definition.clone(),
            from: (0..definition.columns.len()).map(Some).collect(),
            dropped: Vec::new(),
            retyped: Vec::new(),
            notices: Vec::new(),
            is_changed: false,
        }
    }

    /// Whether anything is other than it was.
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Takes the next action.
    pub(super) fn take(&mut self, action: &AlterTableOperation) -> Result<()> {
        match action {
            AlterTableOperation::AddColumn {
                if_not_exists,
                column_def,
                column_position: None,
                ..
            } => self.add(column_def, *if_not_exists),
            AlterTableOperation::DropColumn {
                drop_behavior: Some(DropBehavior::Cascade),
                ..
            } => Err(unsupported("DROP COLUMN ... CASCADE").attempt("DROP what depends on the column first")),
            AlterTableOperation::DropColumn {
                column_names,
                if_exists,
                ..
            } => column_names.iter().try_for_each(|column| self.drop(column, *if_exists)),
            AlterTableOperation::RenameColumn {
                old_column_name,
                new_column_name,
            } => self.rename(old_column_name, new_column_name),
            AlterTableOperation::AlterColumn {
                column_name,
                op: AlterColumnOperation::SetDataType {
                    data_type, using: None, ..
                },
            } => self.retype(column_name, data_type),
            other => Err(unsupported(format!("ALTER TABLE ... {other}"))),
        }
    }

    /// The table's new definition, and for each of its columns the position that it had.
    pub(super) fn finish(self) -> Result<(TableDefinition, Vec<Option<usize>>)> {
        let definition = &self.definition;
        if definition.columns.is_empty() {
            return Err(unsupported("a table without columns"));
        }
        refuse_keys(&definition.primary_key, &definition.columns)?;
        Ok((self.definition, self.from))
    }

    fn add(&mut self, column: &ColumnDef, if_not_exists: bool) -> Result<()> {
        let name = folded(&column.name);
        if self.position(&name).is_some() {
            let message = format!(
                "column \"{name}\" of relation \"{}\" already exists",
                self.definition.name
            );
            if if_not_exists {
                self.notices.push(format!("{message}, skipping"));
                return Ok(());
            }
            return Err(Error::new(ErrorKind::Invalid, "SQL-0251", message).sqlstate("42701"));
        }
        check_column_name(&name)?;
        for option in &column.options {
            let (ColumnOption::Null | ColumnOption::NotNull | ColumnOption::Default(_)) = &option.option else {
                return Err(unsupported(format!("{} in ALTER TABLE ... ADD COLUMN", option.option)));
            };
        }
        let new = column_definition(&self.definition.name, column, &mut Declared::default())?;
        self.definition.columns.push(new);
        self.from.push(None);
        self.is_changed = true;
        Ok(())
    }

    fn drop(&mut self, column: &Ident, if_exists: bool) -> Result<()> {
        let name = folded(column);
        let Some(at) = self.position(&name) else {
            if if_exists {
                let table = &self.definition.name;
                let notice = format!("column \"{name}\" of relation \"{table}\" does not exist, skipping");
                self.notices.push(notice);
                return Ok(());
            }
            return Err(self.no_column(&name));
        };
        self.check_unbound("drop", &name, at)?;
        self.definition.columns.remove(at);
        if let Some(from) = self.from.remove(at) {
            self.dropped.push(self.old[from].clone());
        }
        let shift = |columns: &mut Vec<usize>| {
            let later = columns.iter_mut().filter(|column| **column > at);
            later.for_each(|column| *column -= 1);
        };
        shift(&mut self.definition.primary_key);
        let unique = self.definition.constraints.unique.iter_mut();
        unique.for_each(|unique| shift(&mut unique.columns));
        self.is_changed = true;
        Ok(())
    }

    fn rename(&mut self, column: &Ident, to: &Ident) -> Result<()> {
        let (name, to) = (folded(column), folded(to));
        let at = self.position(&name).ok_or_else(|| self.no_column(&name))?;
        if self.position(&to).is_some() {
            let message = format!(
                "column \"{to}\" of relation \"{}\" already exists",
                self.definition.name
            );
            return Err(Error::new(ErrorKind::Invalid, "SQL-0251", message).sqlstate("42701"));
        }
        check_column_name(&to)?;
        if let Some(check) = self.check_naming(&name) {
            return Err(unsupported(format!(
                "RENAME of column \"{name}\", which CHECK \"{check}\" names"
            )));
        }
        self.definition.columns[at].name = to;
        self.is_changed = true;
        Ok(())
    }

    fn retype(&mut self, column: &Ident, to: &SqlType) -> Result<()> {
        let name = folded(column);
        let at = self.position(&name).ok_or_else(|| self.no_column(&name))?;
        let from = self.definition.columns[at].sql_type.clone();
        let sql_type = to.to_string();
        crate::types::column_type(to)?;
        if is_same(&from, &sql_type)? {
            return Ok(());
        }
        if !takes_all(&from, &sql_type)? {
            let message = format!("cannot alter type of column \"{name}\" from {from} to {sql_type}");
            let error = Error::new(ErrorKind::Unsupported, "SQL-0254", message);
            let error = error.fact(
                "reason",
                "only types that have every value of the old one are supported",
            );
            return Err(error.attempt("add a column of the type, UPDATE it, and drop the old one"));
        }
        if let Some(check) = self.check_naming(&name) {
            return Err(unsupported(format!(
                "TYPE of column \"{name}\", which CHECK \"{check}\" names"
            )));
        }
        let column: &mut ColumnDefinition = &mut self.definition.columns[at];
        column.sql_type = sql_type;
        if let Some(from) = self.from[at] {
            self.retyped.push(self.old[from].clone());
        }
        self.is_changed = true;
        Ok(())
    }

    /// Refuses to take a column from a key, or from a condition.
    fn check_unbound(&self, verb: &str, name: &str, at: usize) -> Result<()> {
        let constraints = &self.definition.constraints;
        let primary = self.definition.primary_key_name();
        let primary = primary.filter(|_| self.definition.primary_key.contains(&at));
        let unique = constraints.unique.iter().find(|unique| unique.columns.contains(&at));
        let unique = unique.map(|unique| unique.name.clone());
        let check = self.check_naming(name).map(str::to_string);
        let Some(constraint) = primary.or(unique).or(check) else {
            return Ok(());
        };
        let table = &self.definition.name;
        let message = format!("cannot {verb} column \"{name}\" of table \"{table}\": a constraint needs it");
        let error = Error::new(ErrorKind::Invalid, "SQL-0252", message).sqlstate("2BP01");
        Err(error.fact("constraint", constraint))
    }

    /// A CHECK whose text has a word like that.
    fn check_naming(&self, name: &str) -> Option<&str> {
        let is_word = |sql: &str| {
            let mut words = sql.split(|char: char| !(char.is_alphanumeric() || char == '_' || char == '$'));
            words.any(|word| word.eq_ignore_ascii_case(name)) || sql.contains(&format!("\"{name}\""))
        };
        let checks = &self.definition.constraints.checks;
        let found = checks.iter().find(|check| is_word(&check.sql));
        found.map(|check| check.name.as_str())
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.definition.columns.iter().position(|column| column.name == name)
    }

    fn no_column(&self, name: &str) -> Error {
        let names = self.definition.columns.iter().map(|column| column.name.as_str());
        no_column(&self.definition.name, name, names)
    }
}

/// Whether two declared types are one: texts differ in their lengths.
fn is_same(from: &str, to: &str) -> Result<bool> {
    let (old, new) = (parse_type(from)?, parse_type(to)?);
    Ok(from.eq_ignore_ascii_case(to) || old == new && old != DataType::Utf8)
}

/// Whether a type has every value of another.
fn takes_all(from: &str, to: &str) -> Result<bool> {
    let whole_digits = |data_type: &DataType| match data_type {
        DataType::Int16 => Some(5),
        DataType::Int32 => Some(10),
        DataType::Int64 => Some(19),
        _ => None,
    };
    let (old, new) = (parse_type(from)?, parse_type(to)?);
    Ok(match (&old, &new) {
        (DataType::Int16, DataType::Int32 | DataType::Int64) | (DataType::Int32, DataType::Int64) => true,
        (DataType::Float32, DataType::Float64) => true,
        (DataType::Decimal128(precision, scale), DataType::Decimal128(wider, finer)) => {
            finer >= scale && *wider as i16 - *finer as i16 >= *precision as i16 - *scale as i16
        }
        (whole, DataType::Decimal128(precision, scale)) => {
            whole_digits(whole).is_some_and(|digits| *precision as i16 - *scale as i16 >= digits)
        }
        (DataType::Utf8, DataType::Utf8) => {
            let (short, long) = (length_max(&parse_sql_type(from)?), length_max(&parse_sql_type(to)?));
            let is_cut = |sql_type: &str, limit: Option<u64>| limit.is_some() && is_char(sql_type);
            let is_wider = long.is_none_or(|long| short.is_some_and(|short| short <= long));
            is_wider && !is_cut(from, short) && !is_cut(to, long)
        }
        (old, new) => old == new,
    })
}
