//! The schemas that names resolve in: PUBLIC, operators' state, and both catalogs.

use super::{DATABASE, ReadView};
use crate::catalog::{CATALOG_SCHEMA, PUBLIC, STATE_SCHEMA};
use crate::kept::KeptCatalog;
use crate::past::Moment;
use crate::pg_catalog;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider};
use datafusion::error::Result as PlanResult;
use std::sync::Arc;

#[derive(Clone)]
pub(super) struct Catalogs {
    pub(super) view: ReadView,
}

#[derive(Clone)]
struct Schemas {
    view: ReadView,
}

#[derive(Clone)]
struct Relations {
    view: ReadView,
    schema: String,
}

macro_rules! opaque_debug {
    ($($name:ident),*) => {
        $(impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        })*
    };
}
opaque_debug!(Catalogs, Schemas, Relations);

impl CatalogProviderList for Catalogs {
    fn register_catalog(&self, _name: String, _catalog: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![DATABASE.into()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        let view = match crate::past::moment_of_catalog(name) {
            Some(moment) if self.view.kept.contains_key(&moment) => {
                return Some(Arc::new(KeptCatalog(self.view.kept[&moment].clone())));
            }
            Some(Moment::Epoch(epoch)) => self.view.at(epoch)?,
            Some(moment @ Moment::Timestamp(_)) => self.view.at(*self.view.epochs.get(&moment)?)?,
            Some(_) => return None,
            None if name == DATABASE || self.view.is_current_database(name) => self.view.clone(),
            None => return None,
        };
        Some(Arc::new(Schemas { view }))
    }
}

impl CatalogProvider for Schemas {
    fn schema_names(&self) -> Vec<String> {
        [PUBLIC, STATE_SCHEMA, CATALOG_SCHEMA, pg_catalog::SCHEMA]
            .map(String::from)
            .to_vec()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.schema_names().iter().any(|known| known == name).then(|| {
            Arc::new(Relations {
                view: self.view.clone(),
                schema: name.to_string(),
            }) as Arc<dyn SchemaProvider>
        })
    }
}

#[async_trait]
impl SchemaProvider for Relations {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.view.database.attached_names(&self.schema);
        names.extend(self.own_names());
        names
    }

    async fn table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.view.database.attached_table(&self.schema, name) {
            return Ok(Some(table.provider()));
        }
        match self.schema.as_str() {
            PUBLIC => self.view.public_table(name).await,
            CATALOG_SCHEMA => self.view.system_table(name).await,
            pg_catalog::SCHEMA => Ok(self.view.pg_table(name)),
            _ => self.view.state_table(name),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|known| known == name)
    }
}

impl Relations {
    fn own_names(&self) -> Vec<String> {
        match self.schema.as_str() {
            PUBLIC => self
                .view
                .catalog
                .objects()
                .map(|object| object.name().to_string())
                .collect(),
            CATALOG_SCHEMA => crate::system::TABLES.iter().map(|name| name.to_string()).collect(),
            pg_catalog::SCHEMA => pg_catalog::table_names(),
            _ => self
                .view
                .database
                .state_tables(&self.view.catalog)
                .into_iter()
                .map(|table| table.schema.name)
                .collect(),
        }
    }
}
