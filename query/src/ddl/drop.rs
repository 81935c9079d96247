//! DROP, with what depends on the dropped objects.

use super::{encode, object_name};
use crate::catalog::{Catalog, DdlRecord, Object, SinkObject};
use crate::database::Database;
use crate::error::unsupported;
use cenote_engine::Commit;
use cenote_engine::plan::CollectionId;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Database {
    /// DROP of tables, sources and views: all that are named, or none. The caller holds the catalog's lock.
    ///
    /// # Returns
    /// Notices for objects that are not there, with IF EXISTS.
    pub(crate) async fn drop_objects(
        self: &Arc<Self>,
        names: &[ObjectName],
        wanted: &'static str,
        if_exists: bool,
        cascade: bool,
    ) -> Result<Vec<String>> {
        let mut catalog = (*self.catalog()).clone();
        let (mut notices, mut named) = (Vec::new(), Vec::new());
        for name in names {
            let name = object_name(name)?;
            match catalog.get(&name) {
                Some(object) if object.kind() == wanted => named.push(object.clone()),
                Some(object) => return Err(other_kind(object, wanted)),
                None if if_exists => notices.push(format!("{wanted} \"{name}\" does not exist, skipping")),
                None => return Err(catalog.missing(&name)),
            }
        }
        if named.is_empty() {
            return Ok(notices);
        }
        let doomed = with_readers(&catalog, named, cascade)?;
        let sinks = sinks_over(&catalog, &doomed, cascade)?;
        self.drop_all(&doomed, &sinks).await?;
        let mut ids: Vec<CollectionId> = doomed.iter().map(Object::id).collect();
        ids.extend(sinks.iter().map(|sink| sink.definition.id));
        catalog.remove(&ids);
        self.set_catalog(catalog);
        Ok(notices)
    }

    async fn drop_all(self: &Arc<Self>, doomed: &[Object], sinks: &[Arc<SinkObject>]) -> Result<()> {
        let mut drops = Vec::new();
        for sink in sinks {
            self.end_sink(sink).await?;
            drops.extend([sink.definition.id, sink.definition.progress]);
        }
        for object in doomed {
            drops.push(object.id());
            if let Object::Table(table) = object {
                drops.extend(table.definition.offsets);
            }
        }
        let ddl = Some(encode(&DdlRecord::Drop(drops.clone()))?);
        let commit = Commit {
            ddl,
            drops,
            ..Commit::default()
        };
        // A source that waits for room in the log lets go first; if the log fails, nothing can be written any more.
        doomed.iter().for_each(|object| self.sources().stop(object.id()));
        let mut epoch = self.engine().commit(commit).await?;
        for object in doomed {
            if let Object::Table(table) = object
                && table.definition.connector.is_some()
                && let Some(commit) = self.forget_errors(&table.definition.name)?
            {
                epoch = self.engine().commit(commit).await?;
            }
        }
        self.engine().wait_visible(epoch).await
    }
}

pub(crate) fn other_kind(object: &Object, wanted: &str) -> Error {
    let (name, kind) = (object.name(), object.kind());
    let message = format!("cannot drop {wanted} \"{name}\": it is a {kind}");
    Error::new(ErrorKind::Invalid, "SQL-0204", message)
        .sqlstate("42809")
        .attempt(format!("DROP {} {name}", kind.to_uppercase()))
}

/// Objects and everything that reads them, readers first.
///
/// # Errors
/// `Invalid` 2BP01: one that is not named reads them, and CASCADE was not said.
fn with_readers(catalog: &Catalog, named: Vec<Object>, cascade: bool) -> Result<Vec<Object>> {
    let mut found: BTreeMap<CollectionId, Object> = named.iter().map(|object| (object.id(), object.clone())).collect();
    let mut ahead = named;
    while let Some(object) = ahead.pop() {
        let readers = catalog.readers(object.id());
        let others: Vec<&Object> = readers
            .into_iter()
            .filter(|reader| !found.contains_key(&reader.id()))
            .collect();
        if !cascade && !others.is_empty() {
            let named = others
                .iter()
                .map(|reader| format!("{} {}", reader.kind(), reader.name()));
            return Err(depended_on(&object, named.collect()));
        }
        for reader in others {
            found.insert(reader.id(), reader.clone());
            ahead.push(reader.clone());
        }
    }
    // What reads another object was made after it.
    Ok(found.into_values().rev().collect())
}

/// Sinks that follow objects.
///
/// # Errors
/// `Invalid` 2BP01: there is one, and CASCADE was not said.
fn sinks_over(catalog: &Catalog, doomed: &[Object], cascade: bool) -> Result<Vec<Arc<SinkObject>>> {
    let mut found = Vec::new();
    for object in doomed {
        let sinks: Vec<_> = catalog
            .sinks()
            .filter(|sink| sink.definition.from == object.id())
            .cloned()
            .collect();
        if !cascade && !sinks.is_empty() {
            let named = sinks.iter().map(|sink| format!("sink {}", sink.definition.name));
            return Err(depended_on(object, named.collect()));
        }
        found.extend(sinks);
    }
    Ok(found)
}

fn depended_on(object: &Object, readers: Vec<String>) -> Error {
    let message = format!(
        "cannot drop {} \"{}\": other objects depend on it",
        object.kind(),
        object.name()
    );
    Error::new(ErrorKind::Invalid, "SQL-0205", message)
        .sqlstate("2BP01")
        .fact("dependents", readers.join(", "))
        .attempt("DROP ... CASCADE drops the dependents too")
}

/// What a DROP names, if we have such things.
pub(crate) fn dropped_kind(object_type: &ObjectType) -> Result<&'static str> {
    match object_type {
        ObjectType::Table => Ok("table"),
        ObjectType::View => Ok("view"),
        ObjectType::MaterializedView => Ok("materialized view"),
        other => Err(unsupported(format!("DROP {other}"))),
    }
}
