//! ALTER TABLE: columns are added, dropped, renamed or given a wider type, all of one statement in one epoch.
//!
//! # Rules kept here
//! 1. What reads a table goes on with the columns that it knows: columns come in behind the others, and a new name is the table's alone.
//! 2. A column goes, or gets another type, only while no view reads the table; the error names those that do.
//! 3. The committer rewrites the rows at one epoch. Before it the table cannot be read as it was, and is refused.
//!
//! # Not here
//! What an action makes of the columns (`alter::columns`); who sees which columns (`catalog::layouts`).

mod columns;

use super::{defaults, encode, object_name};
use crate::catalog::{Catalog, DdlRecord, IndexDefinition, Layout, Object, Table, TableDefinition};
use crate::database::{Database, TableHome, new_table};
use crate::error::unsupported;
use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use cenote_engine::plan::CollectionId;
use cenote_engine::{Alter, Commit, Rewrite, is_row_numbered};
use cenote_statestore::{Changes, Error, ErrorKind, Result};
use columns::NewColumns;
use datafusion::sql::sqlparser::ast::AlterTable;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A table in new columns, as logged: what is needed to make its rows of the old ones again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AlterRecord {
    /// The table with its new columns.
    pub definition: TableDefinition,
    /// For each of them, the position that it had; `None`: it is new.
    pub from: Vec<Option<usize>>,
    /// One row: what the new columns have in rows that were there, as an Arrow stream; empty if there are none.
    pub fill: Vec<u8>,
    /// Views up to this number were made before.
    pub number: CollectionId,
}

impl AlterRecord {
    /// The table in its new columns, and how its rows come into it.
    pub(crate) fn prepare(&self, home: &TableHome<'_>) -> Result<(Arc<Table>, Alter)> {
        let table = Arc::new(new_table(self.definition.clone(), home)?);
        let into = table.versioned.clone();
        let into = into.ok_or_else(|| Error::bug("a table that keeps no rows was altered"))?;
        let alter = Alter {
            table: self.definition.id,
            rewrite: rewrite(&table, self.from.clone(), self.filled_columns()?),
            into,
        };
        Ok((table, alter))
    }

    fn filled_columns(&self) -> Result<Vec<ArrayRef>> {
        if self.fill.is_empty() {
            return Ok(Vec::new());
        }
        let unread = |error| {
            Error::bug(format!(
                "the log holds values of new columns that cannot be read: {error}"
            ))
        };
        let mut stream = StreamReader::try_new(self.fill.as_slice(), None).map_err(unread)?;
        match stream.next() {
            Some(rows) => Ok(rows.map_err(unread)?.columns().to_vec()),
            None => Ok(Vec::new()),
        }
    }

    /// An index of the table, under the names that its columns have now.
    pub(crate) fn renamed(&self, old: &TableDefinition, index: &IndexDefinition) -> IndexDefinition {
        let renamed = |column: &String| {
            let from = old.columns.iter().position(|known| known.name == *column);
            let now = self.from.iter().position(|known| known.is_some() && *known == from);
            now.map_or_else(|| column.clone(), |now| self.definition.columns[now].name.clone())
        };
        IndexDefinition {
            columns: index.columns.iter().map(renamed).collect(),
            ..index.clone()
        }
    }
}

/// Makes rows of a table's new columns.
///
/// # Arguments
/// - `fill`: one value for each column that is new.
fn rewrite(table: &Arc<Table>, from: Vec<Option<usize>>, fill: Vec<ArrayRef>) -> Rewrite {
    let table = table.clone();
    Rewrite::new(move |rows| {
        let Some(versioned) = &table.versioned else {
            return Err(Error::bug("a table that keeps no rows was altered"));
        };
        let (stored, count) = (versioned.schema().columns.clone(), rows.num_rows());
        let mut fill = fill.iter();
        let mut columns = Vec::with_capacity(stored.fields().len());
        for (field, from) in table.columns.fields().iter().zip(&from) {
            let column = match from {
                Some(from) => crate::dml::assign(rows.column(*from), field)?,
                None => {
                    let value = fill.next().ok_or_else(|| Error::bug("a new column has no value"))?;
                    arrow::compute::take(value, &UInt32Array::from(vec![0; count]), None)?
                }
            };
            if !field.is_nullable() && column.null_count() > 0 {
                return Err(holds_null(&table.definition.name, field.name()));
            }
            columns.push(column);
        }
        if is_row_numbered(&stored) {
            columns.push(rows.column(rows.num_columns() - 1).clone());
        }
        Changes::batch(stored, columns, count)
    })
}

impl Database {
    /// ALTER TABLE. The caller holds the catalog's lock.
    ///
    /// # Returns
    /// Notices for what IF EXISTS and IF NOT EXISTS pass over.
    pub(crate) async fn alter_table(self: &Arc<Self>, alter: &AlterTable, text: &str) -> Result<Vec<String>> {
        refuse_clauses(alter)?;
        let mut catalog = (*self.catalog()).clone();
        let name = object_name(&alter.name)?;
        let old = match catalog.get(&name) {
            Some(object) => alterable(object)?,
            None if alter.if_exists => return Ok(vec![format!("relation \"{name}\" does not exist, skipping")]),
            None => return Err(catalog.missing(&name)),
        };
        let mut new = NewColumns::of(&old.definition);
        alter.operations.iter().try_for_each(|action| new.take(action))?;
        if !new.is_changed() {
            return Ok(new.notices);
        }
        check_dependents(&catalog, &old, &new)?;
        let notices = std::mem::take(&mut new.notices);
        let record = self.alter_record(&mut catalog, &old, new, text)?;
        self.commit_alter(catalog, &old, record).await?;
        Ok(notices)
    }

    fn alter_record(&self, catalog: &mut Catalog, old: &Table, new: NewColumns, text: &str) -> Result<AlterRecord> {
        let number = catalog.allocate();
        let (mut definition, from) = new.finish()?;
        definition.sql = format!("{};\n{}", definition.sql.trim_end().trim_end_matches(';'), text.trim());
        match catalog.readers(definition.id).is_empty() {
            true => definition.was.clear(),
            false => definition.was.push(Layout {
                until: number,
                columns: old
                    .definition
                    .columns
                    .iter()
                    .map(|column| column.name.clone())
                    .collect(),
            }),
        }
        self.check_defaults(&definition)?;
        let fill = self.fill(&definition, &from)?;
        Ok(AlterRecord {
            definition,
            from,
            fill,
            number,
        })
    }

    /// What new columns have in rows that are there: their default as it is now.
    fn fill(&self, definition: &TableDefinition, from: &[Option<usize>]) -> Result<Vec<u8>> {
        let added: Vec<usize> = (0..from.len()).filter(|column| from[*column].is_none()).collect();
        if added.is_empty() {
            return Ok(Vec::new());
        }
        let table = new_table(definition.clone(), &self.table_home())?;
        let columns = crate::dml::nullable(&table.columns);
        let values = definition.columns.iter().zip(columns.fields()).zip(from);
        let values = values.map(|((column, field), from)| match (from, column.default.as_deref()) {
            (None, Some(default)) => {
                defaults::refuse_volatile(self, column)?;
                self.default_column(Some(default), field, 1)
            }
            _ => Ok(new_null_array(field.data_type(), 1)),
        });
        let row = RecordBatch::try_new(columns.clone(), values.collect::<Result<Vec<_>>>()?)?;
        let row = crate::dml::kept_form(&table, row)?;
        crate::lengths::check(&definition.columns, &table.lengths, &row)?;
        let row = row.project(&added)?;
        let mut written = Vec::new();
        let mut stream = StreamWriter::try_new(&mut written, &row.schema())?;
        stream.write(&row)?;
        stream.finish()?;
        drop(stream);
        Ok(written)
    }

    async fn commit_alter(self: &Arc<Self>, mut catalog: Catalog, old: &Table, record: AlterRecord) -> Result<()> {
        let (table, alter) = record.prepare(&self.table_home())?;
        table.checks(self).await?;
        let indexes = catalog.indexes_of(table.definition.id);
        let indexes: Vec<IndexDefinition> = indexes
            .map(|index| record.renamed(&old.definition, &index.definition))
            .collect();
        let commit = Commit {
            ddl: Some(encode(&DdlRecord::AlterTable(Box::new(record)))?),
            alter: Some(alter),
            ..Commit::default()
        };
        let epoch = self.engine().commit(commit).await?;
        self.engine().wait_visible(epoch).await?;
        let built = tokio::task::spawn_blocking(move || {
            put(&mut catalog, table, indexes);
            catalog
        });
        let built = built.await;
        self.set_catalog(built.map_err(|error| Error::bug(format!("an index broke off: {error}")))?);
        Ok(())
    }
}

/// Puts a table with its new columns into a catalog, and its indexes, which are built.
pub(crate) fn put(catalog: &mut Catalog, table: Arc<Table>, indexes: Vec<IndexDefinition>) {
    catalog.insert(Object::Table(table));
    indexes.into_iter().for_each(|index| super::insert(catalog, index));
}

fn refuse_clauses(alter: &AlterTable) -> Result<()> {
    let refused = [
        (alter.only, "ALTER TABLE ONLY"),
        (alter.location.is_some(), "ALTER TABLE ... SET LOCATION"),
        (alter.on_cluster.is_some(), "ALTER TABLE ... ON CLUSTER"),
        (alter.table_type.is_some(), "ALTER of that kind of table"),
    ];
    match refused.iter().find(|(present, _)| *present) {
        Some((_, clause)) => Err(unsupported(clause)),
        None => Ok(()),
    }
}

/// A table whose columns can be changed: its rows are held here.
fn alterable(object: &Object) -> Result<Arc<Table>> {
    if let Object::Table(table) = object
        && table.definition.connector.is_none()
        && table.versioned.is_some()
    {
        return Ok(table.clone());
    }
    let (name, kind) = (object.name(), object.kind());
    let (kind, attempt) = match object {
        Object::Table(_) if kind == "table" => {
            ("connector-fed table", format!("DROP TABLE {name} and create it again"))
        }
        Object::Table(_) => (kind, format!("DROP SOURCE {name} and create it again")),
        _ => (kind, format!("CREATE OR REPLACE {} {name}", kind.to_uppercase())),
    };
    let message =
        format!("cannot alter {kind} \"{name}\": only tables that hold their own rows have columns to change");
    let error = Error::new(ErrorKind::Invalid, "SQL-0250", message).sqlstate("42809");
    Err(error.attempt(attempt))
}

/// Refuses what dependents cannot go on with.
///
/// # Errors
/// `Invalid` 2BP01, `Unsupported` 0A000.
fn check_dependents(catalog: &Catalog, table: &Table, new: &NewColumns) -> Result<()> {
    let (id, name) = (table.definition.id, &table.definition.name);
    let sinks = catalog.sinks().filter(|sink| sink.definition.from == id);
    let sinks: Vec<String> = sinks.map(|sink| format!("sink {}", sink.definition.name)).collect();
    if !sinks.is_empty() {
        let message = format!("cannot alter table \"{name}\": a sink writes its rows in the columns that it has");
        return Err(depended_on(
            Error::new(ErrorKind::Unsupported, "SQL-0253", message),
            sinks,
        ));
    }
    let readers = catalog.readers(id).into_iter();
    let readers: Vec<String> = readers
        .map(|reader| format!("{} {}", reader.kind(), reader.name()))
        .collect();
    if let Some(column) = new.dropped.first() {
        let indexes = catalog.indexes_of(id);
        let indexes = indexes.filter(|index| index.definition.columns.contains(column));
        let indexes = indexes.map(|index| format!("index {}", index.definition.name));
        let all: Vec<String> = readers.into_iter().chain(indexes).collect();
        if !all.is_empty() {
            let message =
                format!("cannot drop column \"{column}\" of table \"{name}\": other objects depend on the table");
            let error = Error::new(ErrorKind::Invalid, "SQL-0252", message).sqlstate("2BP01");
            return Err(depended_on(error, all));
        }
        return Ok(());
    }
    if let Some(column) = new.retyped.first().filter(|_| !readers.is_empty()) {
        let message = format!("cannot alter type of column \"{column}\" of table \"{name}\": views read the table");
        return Err(depended_on(
            Error::new(ErrorKind::Unsupported, "SQL-0253", message),
            readers,
        ));
    }
    Ok(())
}

fn depended_on(error: Error, dependents: Vec<String>) -> Error {
    let error = error.fact("dependents", dependents.join(", "));
    error.attempt("DROP them first, and create them again behind it")
}

fn holds_null(table: &str, column: &str) -> Error {
    let message = format!("column \"{column}\" of relation \"{table}\" contains null values");
    let error = Error::new(ErrorKind::Invalid, "SQL-0255", message).sqlstate("23502");
    error.attempt("give the column a DEFAULT")
}
