//! CREATE and DROP: from a parsed statement to a logged definition and a running object. Tables and sources are here.

mod alter;
mod defaults;
mod drop;
mod indexes;
mod replace;
mod views;

pub(crate) use replace::{Replacement, dependents};
pub(crate) use views::{OnRowError, Origin, PreparedView, RUN_HISTORY_BYTES, ViewSettings, view_definition};

pub use alter::AlterRecord;
pub(crate) use alter::put;
pub(crate) use drop::{dropped_kind, other_kind};
pub(crate) use indexes::{forget, insert};

use crate::catalog::{ColumnDefinition, DdlRecord, Object, Table, TableDefinition};
use crate::constraints::Declared;
use crate::database::Database;
use crate::error::{from_datafusion, near, unsupported};
use crate::names::{folded, public_name};
use crate::state_backend::{STATE_BACKEND, StateBackend};
use cenote_engine::Commit;
use cenote_engine::port::Options;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder;
use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateTable, CreateTableOptions, Expr, Ident, ObjectName, SqlOption, Statement as Ast,
    Value,
};
use std::collections::HashSet;
use std::sync::Arc;

/// The name of an object in `public`.
pub(crate) fn object_name(name: &ObjectName) -> Result<String> {
    public_name(name).ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            "SQL-0203",
            format!("cannot use schema of \"{name}\": objects are made in public"),
        )
        .sqlstate("3F000")
        .attempt("leave the schema out, or write public")
    })
}

impl Database {
    /// CREATE TABLE and CREATE SOURCE. The caller holds the catalog's lock.
    ///
    /// # Returns
    /// Whether it was created; `false` if it is there already and IF NOT EXISTS was said.
    pub(crate) async fn create_table(
        self: &Arc<Self>,
        create: &CreateTable,
        text: &str,
        is_source: bool,
    ) -> Result<bool> {
        let mut catalog = (*self.catalog()).clone();
        if create.if_not_exists && catalog.get(&object_name(&create.name)?).is_some() {
            return Ok(false);
        }
        let definition = table_definition(create, text, is_source, &mut catalog)?;
        catalog.check_free(&definition.name)?;
        self.check_defaults(&definition)?;
        let table = Arc::new(crate::database::new_table(definition, &self.table_home())?);
        table.checks(self).await?;
        if table.definition.connector.is_some() {
            // Options and columns are checked before anything is made.
            self.source_of(&table, Default::default(), None)?;
        }
        let record = DdlRecord::CreateTable(table.definition.clone());
        let commit = Commit {
            ddl: Some(encode(&record)?),
            create_tables: table.collections(),
            ..Commit::default()
        };
        let epoch = self.engine().commit(commit).await?;
        self.engine().wait_visible(epoch).await?;
        catalog.insert(Object::Table(table.clone()));
        self.set_catalog(catalog);
        if let Err(error) = self.start_source_of(&table) {
            self.sources().fail(&table, error);
        }
        Ok(true)
    }

    fn check_defaults(&self, definition: &TableDefinition) -> Result<()> {
        for column in &definition.columns {
            if let Some(sql) = &column.default {
                let schema = datafusion::common::DFSchema::empty();
                let value = self
                    .planner()
                    .create_logical_expr_from_sql_expr(crate::parse::parse_expression(sql)?, &schema)
                    .map_err(|error| from_datafusion(error).unplaced())?;
                defaults::check(column, &value)?;
            }
        }
        Ok(())
    }
}

pub(crate) fn encode(record: &DdlRecord) -> Result<Vec<u8>> {
    serde_json::to_vec(record).map_err(|error| Error::bug(error.to_string()))
}

/// A change of the catalog as the log has it.
pub(crate) fn decode(text: &[u8]) -> Result<DdlRecord> {
    serde_json::from_slice(text)
        .map_err(|error| Error::bug(format!("the log holds a catalog change that cannot be read: {error}")))
}

fn table_definition(
    create: &CreateTable,
    text: &str,
    is_source: bool,
    catalog: &mut crate::catalog::Catalog,
) -> Result<TableDefinition> {
    refuse_table_clauses(create)?;
    let name = object_name(&create.name)?;
    let mut declared = Declared::default();
    let mut columns = Vec::new();
    let mut names = HashSet::new();
    for column in &create.columns {
        let definition = column_definition(&name, column, &mut declared)?;
        if !names.insert(definition.name.clone()) {
            return Err(duplicate_column(&definition.name));
        }
        check_column_name(&definition.name)?;
        columns.push(definition);
    }
    for constraint in &create.constraints {
        declared.take_constraint(&name, constraint)?;
    }
    let key = key_positions(declared.primary_key(), &mut columns)?;
    refuse_keys(&key, &columns)?;
    let mut options = options_of(&create.table_options)?;
    let state_backend = take_state_backend(&mut options)?;
    let connector = (!options.is_empty()).then_some(options);
    check_connector(&name, is_source, &connector)?;
    if connector.is_some() {
        crate::lengths::refuse_unchecked(&columns)?;
        declared.refuse_unchecked()?;
    }
    let constraints = declared.finish(&name, &columns, catalog)?;
    if columns.is_empty() {
        return Err(unsupported("a table without columns"));
    }
    let (id, offsets) = (catalog.allocate(), connector.is_some().then(|| catalog.allocate()));
    Ok(TableDefinition {
        id,
        name,
        sql: text.to_string(),
        columns,
        primary_key: key,
        constraints,
        connector,
        is_source,
        offsets,
        state_backend,
        was: Vec::new(),
    })
}

fn column_definition(table: &str, column: &ColumnDef, declared: &mut Declared) -> Result<ColumnDefinition> {
    crate::types::column_type(&column.data_type)?;
    let mut definition = ColumnDefinition {
        name: folded(&column.name),
        sql_type: column.data_type.to_string(),
        not_null: false,
        default: None,
    };
    for (at, option) in column.options.iter().enumerate() {
        match &option.option {
            ColumnOption::Null => {}
            ColumnOption::NotNull => definition.not_null = true,
            ColumnOption::Default(expr) => definition.default = Some(expr.to_string()),
            _ if declared.take_option(table, column, at)? => {}
            other => return Err(unsupported(format!("column option {other}"))),
        }
    }
    Ok(definition)
}

fn refuse_table_clauses(create: &CreateTable) -> Result<()> {
    let refused = [
        (create.or_replace, "CREATE OR REPLACE TABLE"),
        (create.temporary, "TEMPORARY"),
        (create.external, "EXTERNAL"),
        (create.query.is_some(), "CREATE TABLE AS"),
        (create.like.is_some(), "LIKE"),
        (create.inherits.is_some(), "INHERITS"),
        (
            create.partition_by.is_some() || create.partition_of.is_some(),
            "PARTITION",
        ),
        (create.on_commit.is_some(), "ON COMMIT"),
        (
            create.location.is_some() || create.file_format.is_some(),
            "STORED AS and LOCATION",
        ),
    ];
    match refused.iter().find(|(present, _)| *present) {
        Some((_, clause)) => Err(unsupported(clause)),
        None => refuse_the_rest(create),
    }
}

/// Refuses what a CREATE TABLE has beyond what is looked at, showing it: the parser reads clauses of many dialects.
fn refuse_the_rest(create: &CreateTable) -> Result<()> {
    let bare = CreateTableBuilder::new(create.name.clone()).build();
    let rest = CreateTable {
        if_not_exists: bare.if_not_exists,
        columns: bare.columns.clone(),
        constraints: bare.constraints.clone(),
        table_options: bare.table_options.clone(),
        ..create.clone()
    };
    match rest == bare {
        true => Ok(()),
        false => Err(unsupported(format!(
            "a clause of \"{}\"",
            rest.to_string().replace(" ()", "")
        ))),
    }
}

fn key_positions(names: &[String], columns: &mut [ColumnDefinition]) -> Result<Vec<usize>> {
    names
        .iter()
        .map(|name| {
            let position = columns.iter().position(|column| column.name == *name).ok_or_else(|| {
                let message = format!("column \"{name}\" named in key does not exist");
                let error = Error::new(ErrorKind::Invalid, "SQL-0302", message).sqlstate("42703");
                near(error, name, columns.iter().map(|column| column.name.as_str()))
            })?;
            columns[position].not_null = true;
            Ok(position)
        })
        .collect()
}

/// Refuses keys of types whose equal values can differ in their bits.
fn refuse_keys(key: &[usize], columns: &[ColumnDefinition]) -> Result<()> {
    for column in key.iter().map(|position| &columns[*position]) {
        let data_type = crate::catalog::parse_type(&column.sql_type)?;
        if let Some(name) = crate::keys::keyless(&data_type) {
            return Err(unsupported(format!(
                "a primary key over column \"{}\" of type {name}",
                column.name
            )));
        }
    }
    Ok(())
}

fn check_connector(name: &str, is_source: bool, connector: &Option<Options>) -> Result<()> {
    match connector {
        Some(options) if !options.contains_key("connector") => Err(Error::new(
            ErrorKind::Invalid,
            "CONN-0002",
            format!("cannot create \"{name}\": WITH has no connector"),
        )
        .sqlstate("22023")
        .attempt("add connector = 'file'")),
        None if is_source => Err(Error::new(
            ErrorKind::Invalid,
            "CONN-0002",
            format!("cannot create source \"{name}\": it has no connector"),
        )
        .sqlstate("22023")
        .attempt("add WITH (connector = 'file', ...), or CREATE TABLE to hold rows here")),
        _ => Ok(()),
    }
}

/// Refuses names that columns of our own have beside those of users.
///
/// # Errors
/// `Invalid` 42701.
pub(crate) fn check_column_name(name: &str) -> Result<()> {
    use cenote_statestore::checkpoint::{DELETED, WEIGHT};
    if ![cenote_engine::ROW_ID, DELETED, WEIGHT].contains(&name) {
        return Ok(());
    }
    let message = format!("column name \"{name}\" conflicts with a system column name");
    Err(Error::new(ErrorKind::Invalid, "SQL-0220", message).sqlstate("42701"))
}

fn duplicate_column(name: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "SQL-0206",
        format!("column \"{name}\" specified more than once"),
    )
    .sqlstate("42701")
}

/// The state backend among options.
fn take_state_backend(options: &mut Options) -> Result<Option<StateBackend>> {
    let name = options.remove(STATE_BACKEND);
    name.map(|name| name.to_lowercase().parse()).transpose()
}

/// The options of a WITH clause as texts, names in lower case.
fn options_of(options: &CreateTableOptions) -> Result<Options> {
    match options {
        CreateTableOptions::None => Ok(Options::new()),
        CreateTableOptions::With(given) | CreateTableOptions::Options(given) | CreateTableOptions::Plain(given) => {
            options_given(given)
        }
        other => Err(unsupported(other)),
    }
}

/// Options as texts, names in lower case.
pub(crate) fn options_given(given: &[SqlOption]) -> Result<Options> {
    let mut named = Options::new();
    for option in given {
        let SqlOption::KeyValue { key, value } = option else {
            return Err(unsupported(format!("option {option}")));
        };
        let text = match value {
            Expr::Value(value) => match &value.value {
                Value::SingleQuotedString(text) | Value::Number(text, _) => text.clone(),
                Value::Boolean(value) => value.to_string(),
                other => other.to_string(),
            },
            Expr::Identifier(Ident { value, .. }) => value.to_lowercase(),
            other => return Err(unsupported(format!("the option value {other}"))),
        };
        let key = key.value.to_lowercase();
        if named.insert(key.clone(), text).is_some() {
            return Err(Error::new(
                ErrorKind::Invalid,
                "SQL-0207",
                format!("option \"{key}\" is given twice"),
            )
            .sqlstate("42601"));
        }
    }
    Ok(named)
}

/// The CREATE TABLE inside a parsed statement.
pub(crate) fn as_create_table(ast: &Ast) -> Result<&CreateTable> {
    match ast {
        Ast::CreateTable(create) => Ok(create),
        other => Err(Error::bug(format!("not a CREATE TABLE: {other}"))),
    }
}

/// What to do instead of writing to an object that a connector feeds.
pub(crate) const FED: &str = "write to what its connector reads, or to a table without a connector";
/// What to do instead of writing to a view.
pub(crate) const MADE: &str = "change the tables it is made of";

/// A table by name, for writing.
pub(crate) fn writable_table(catalog: &crate::catalog::Catalog, name: &ObjectName) -> Result<Arc<Table>> {
    let name = object_name(name)?;
    match catalog.get(&name) {
        None => Err(catalog.missing(&name)),
        Some(Object::Table(table)) if table.definition.connector.is_none() => Ok(table.clone()),
        Some(object) => {
            let (kind, attempt) = match object {
                Object::Table(_) => ("connector-fed table", FED),
                other => (other.kind(), MADE),
            };
            let message = format!("cannot change {kind} \"{name}\": its rows come from elsewhere");
            let error = Error::new(ErrorKind::Invalid, "SQL-0210", message).sqlstate("42809");
            Err(error.attempt(attempt))
        }
    }
}
