//! CREATE INDEX and DROP INDEX: further lookup keys of tables and materialized views.
//!
//! An index answers equality of all of its columns with one hash probe, at every epoch that its table answers for.
//!
//! # Not here
//! Keeping an index current (`cenote_statestore::table`); choosing it for a read (`provider`, `database::lookup`).

use super::{encode, object_name};
use crate::catalog::{Catalog, DdlRecord, Index, IndexDefinition, Object};
use crate::database::Database;
use crate::error::{near, unsupported};
use crate::names::folded;
use cenote_engine::Commit;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{CreateIndex, Expr, IndexType, ObjectName};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Database {
    /// CREATE INDEX. The caller holds the catalog's lock.
    ///
    /// # Returns
    /// The name of the index, and whether it was created; `false` if it is there already and IF NOT EXISTS was said.
    pub(crate) async fn create_index(self: &Arc<Self>, create: &CreateIndex) -> Result<(String, bool)> {
        refuse_clauses(create)?;
        let mut catalog = (*self.catalog()).clone();
        let object = indexed_object(&catalog, &create.table_name)?;
        let columns = column_names(&object, create)?;
        let name = index_name(create, object.name(), &columns, &catalog.relation_names())?;
        if catalog.relation_names().contains(&name) {
            if create.if_not_exists {
                return Ok((name, false));
            }
            return Err(Error::new(
                ErrorKind::Conflict,
                "SQL-0213",
                format!("relation \"{name}\" already exists"),
            )
            .sqlstate("42P07"));
        }
        let definition = IndexDefinition {
            id: catalog.allocate(),
            name: name.clone(),
            on: object.id(),
            columns,
        };
        let building = object.clone();
        let record = DdlRecord::CreateIndex(definition.clone());
        let built = tokio::task::spawn_blocking(move || build(definition, &building));
        let index = built
            .await
            .map_err(|error| Error::bug(format!("an index broke off: {error}")))??;
        let commit = Commit {
            ddl: Some(encode(&record)?),
            ..Commit::default()
        };
        let committed = self.engine().commit(commit).await;
        if committed.is_err() {
            index.table.drop_index(index.position);
        }
        self.engine().wait_visible(committed?).await?;
        catalog.insert_index(index);
        self.set_catalog(catalog);
        Ok((name, true))
    }

    /// DROP INDEX. The caller holds the catalog's lock.
    ///
    /// # Returns
    /// Notices for indexes that are not there, with IF EXISTS.
    pub(crate) async fn drop_indexes(self: &Arc<Self>, names: &[ObjectName], if_exists: bool) -> Result<Vec<String>> {
        let mut catalog = (*self.catalog()).clone();
        let (mut notices, mut dropped) = (Vec::new(), Vec::new());
        for name in names {
            let name = object_name(name)?;
            match catalog.remove_index(&name) {
                Some(index) => dropped.push(index),
                None if catalog.relation_names().contains(&name) => return Err(not_droppable(&catalog, &name)),
                None if if_exists => notices.push(format!("index \"{name}\" does not exist, skipping")),
                None => {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        "SQL-0216",
                        format!("index \"{name}\" does not exist"),
                    )
                    .sqlstate("42704"));
                }
            }
        }
        let gone = dropped.iter().map(|index| index.definition.name.clone()).collect();
        let commit = Commit {
            ddl: Some(encode(&DdlRecord::DropIndexes(gone))?),
            ..Commit::default()
        };
        let epoch = self.engine().commit(commit).await?;
        self.engine().wait_visible(epoch).await?;
        self.set_catalog(catalog);
        dropped.iter().for_each(|index| forget(index));
        Ok(notices)
    }
}

/// Builds an index that is in the log already and adds it; what it is on may have failed, and tells so when it is read.
pub(crate) fn insert(catalog: &mut Catalog, definition: IndexDefinition) {
    let Some(object) = catalog.by_id(definition.on).cloned() else {
        return;
    };
    let name = definition.name.clone();
    match build(definition, &object) {
        Ok(index) => catalog.insert_index(index),
        Err(error) => tracing::warn!("index {name}: {}", error.message()),
    }
}

/// Takes the memory of an index that is in no catalog any more.
pub(crate) fn forget(index: &Index) {
    index.table.drop_index(index.position);
}

/// Builds an index of an object's contents.
pub(crate) fn build(definition: IndexDefinition, object: &Object) -> Result<Index> {
    let table = object.versioned().cloned();
    let table = table.ok_or_else(|| Error::bug("an index of what keeps no rows"))?;
    let columns = definition
        .columns
        .iter()
        .map(|column| object.columns().index_of(column));
    let columns = columns.collect::<std::result::Result<Vec<usize>, _>>()?;
    let position = table.create_index(columns)?;
    Ok(Index {
        definition,
        table,
        position,
    })
}

fn indexed_object(catalog: &Catalog, name: &ObjectName) -> Result<Object> {
    let name = object_name(name)?;
    let object = catalog.get(&name).ok_or_else(|| catalog.missing(&name))?;
    match object.versioned() {
        Some(_) => Ok(object.clone()),
        None => {
            let error = Error::new(
                ErrorKind::Invalid,
                "SQL-0215",
                format!("cannot create index on relation \"{name}\""),
            )
            .sqlstate("42809");
            Err(error.telling(format!("This operation is not supported for {}s.", object.kind())))
        }
    }
}

fn column_names(object: &Object, create: &CreateIndex) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::with_capacity(create.columns.len());
    for column in &create.columns {
        let options = &column.column.options;
        let name = match &column.column.expr {
            Expr::Identifier(ident) if column.operator_class.is_none() => folded(ident),
            other => return Err(unsupported(format!("an index over {other}"))),
        };
        if options.asc.is_some() || options.nulls_first.is_some() {
            return Err(unsupported(format!("an index over {column}")));
        }
        if object.columns().index_of(&name).is_err() {
            let message = format!("column \"{name}\" does not exist");
            let error = Error::new(ErrorKind::Invalid, "SQL-0302", message).sqlstate("42703");
            let columns = object.columns();
            return Err(near(
                error,
                &name,
                columns.fields().iter().map(|field| field.name().as_str()),
            ));
        }
        if names.contains(&name) {
            return Err(unsupported(format!("an index with column \"{name}\" twice")));
        }
        names.push(name);
    }
    Ok(names)
}

/// The name that was given, or else the one that PostgreSQL would choose.
fn index_name(create: &CreateIndex, on: &str, columns: &[String], taken: &BTreeSet<String>) -> Result<String> {
    if let Some(name) = &create.name {
        return object_name(name);
    }
    let base = format!("{on}_{}_idx", columns.join("_"));
    let numbered = (1..).map(|number| format!("{base}{number}"));
    let mut candidates = std::iter::once(base.clone()).chain(numbered);
    Ok(candidates.find(|name| !taken.contains(name)).unwrap_or(base))
}

fn refuse_clauses(create: &CreateIndex) -> Result<()> {
    if create.unique {
        return Err(unsupported("CREATE UNIQUE INDEX").attempt("declare UNIQUE in CREATE TABLE"));
    }
    let refused = [
        (create.concurrently, "CONCURRENTLY"),
        (!create.include.is_empty(), "INCLUDE"),
        (create.nulls_distinct.is_some(), "NULLS DISTINCT"),
        (!create.with.is_empty(), "WITH in CREATE INDEX"),
        (create.predicate.is_some(), "WHERE in CREATE INDEX"),
        (
            !create.index_options.is_empty() || !create.alter_options.is_empty(),
            "an option of CREATE INDEX",
        ),
    ];
    if let Some((_, clause)) = refused.iter().find(|(present, _)| *present) {
        return Err(unsupported(clause));
    }
    match &create.using {
        None | Some(IndexType::Hash) => Ok(()),
        Some(other) => Err(unsupported(format!("USING {other}")).attempt("leave USING out, or say USING hash")),
    }
}

fn not_droppable(catalog: &Catalog, name: &str) -> Error {
    if let Some(object) = catalog.get(name) {
        let error = Error::new(ErrorKind::Invalid, "SQL-0221", format!("\"{name}\" is not an index")).sqlstate("42809");
        return error.attempt(format!("DROP {} {name}", object.kind().to_uppercase()));
    }
    Error::new(
        ErrorKind::Invalid,
        "SQL-0222",
        format!("cannot drop index {name} because a constraint requires it"),
    )
    .sqlstate("2BP01")
}
