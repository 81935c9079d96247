//! DROP, with what depends on the dropped objects.

use super::{encode, object_name};
use crate::catalog::{DdlRecord, Object};
use crate::database::Database;
use crate::error::unsupported;
use cenote_engine::Commit;
use cenote_engine::plan::CollectionId;
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};
use std::sync::Arc;

impl Database {
    /// DROP of tables, sources and views.
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
        let _guard = self.lock_catalog().await;
        let mut catalog = (*self.catalog()).clone();
        let mut notices = Vec::new();
        for name in names {
            let name = object_name(name)?;
            let Some(object) = catalog.get(&name).cloned() else {
                if if_exists {
                    notices.push(format!("{wanted} \"{name}\" does not exist, skipping"));
                    continue;
                }
                return Err(catalog.missing(&name));
            };
            if object.kind() != wanted {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "SQL-0204",
                    format!("cannot drop {wanted} \"{name}\": it is a {}", object.kind()),
                )
                .sqlstate("42809")
                .attempt(format!("DROP {} {name}", object.kind().to_uppercase())));
            }
            let doomed = with_readers(&catalog, &object, cascade)?;
            self.drop_all(&doomed).await?;
            let ids: Vec<CollectionId> = doomed.iter().map(Object::id).collect();
            catalog.remove(&ids);
            self.set_catalog(catalog.clone());
        }
        Ok(notices)
    }

    async fn drop_all(&self, doomed: &[Object]) -> Result<()> {
        let mut drops = Vec::new();
        for object in doomed {
            drops.push(object.id());
            if let Object::Table(table) = object {
                self.sources().stop(object.id());
                drops.extend(table.definition.offsets);
            }
        }
        let ddl = Some(encode(&DdlRecord::Drop(drops.clone()))?);
        let epoch = self
            .engine()
            .commit(Commit {
                ddl,
                drops,
                ..Commit::default()
            })
            .await?;
        self.engine().wait_visible(epoch).await
    }
}

/// An object and everything that reads it, readers first.
fn with_readers(catalog: &crate::catalog::Catalog, object: &Object, cascade: bool) -> Result<Vec<Object>> {
    let readers = catalog.readers(object.id());
    if !cascade && !readers.is_empty() {
        let names: Vec<String> = readers
            .iter()
            .map(|reader| format!("{} {}", reader.kind(), reader.name()))
            .collect();
        return Err(Error::new(
            ErrorKind::Invalid,
            "SQL-0205",
            format!(
                "cannot drop {} \"{}\": other objects depend on it",
                object.kind(),
                object.name()
            ),
        )
        .sqlstate("2BP01")
        .fact("dependents", names.join(", "))
        .attempt("DROP ... CASCADE drops the dependents too"));
    }
    let mut doomed: Vec<Object> = Vec::new();
    for reader in readers {
        for object in with_readers(catalog, reader, true)? {
            if !doomed.iter().any(|known| known.id() == object.id()) {
                doomed.push(object);
            }
        }
    }
    doomed.push(object.clone());
    Ok(doomed)
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
