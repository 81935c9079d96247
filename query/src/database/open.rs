//! Opening: recovery of catalog and tables from the log, rebuilding of views, start of sources.

use super::{Database, DatabaseConfig, Points};
use crate::catalog::{
    Catalog, DdlRecord, ERRORS, IndexDefinition, Object, PlainView, SinkObject, Table, TableDefinition, ViewDefinition,
    errors_schema, offsets_schema,
};
use crate::checkpoints::Checkpointer;
use crate::sink::{Sinks, new_sink};
use crate::source::{Replays, Sources};
use arrow::datatypes::Schema;
use cenote_engine::{EngineConfig, Recovered, RecoveredTables, RetentionRule};
use cenote_statestore::{Error, Result, Retention, VersionedTable};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Bytes of past changes that a table keeps for subscribers.
pub(crate) const HISTORY_BYTES: usize = 64 << 20;

/// What the log says, in the order of collections.
#[derive(Default)]
struct Definitions {
    tables: BTreeMap<u64, Arc<Table>>,
    views: BTreeMap<u64, ViewDefinition>,
    indexes: BTreeMap<String, IndexDefinition>,
    sinks: BTreeMap<u64, Arc<SinkObject>>,
    last: u64,
}

impl Database {
    /// Opens a database: recovers the catalog and the tables, rebuilds the views, starts the sources.
    ///
    /// # Errors
    /// `Corrupt`: the log is damaged in its middle; the error names file and offset and nothing was changed.
    pub async fn open(config: DatabaseConfig) -> Result<Arc<Database>> {
        let retention = Arc::new(Retention::default());
        let errors = Arc::new(VersionedTable::new(
            errors_schema(),
            1,
            true,
            retention.clone(),
            HISTORY_BYTES,
        ));
        let engine_config = EngineConfig {
            workers: config.workers,
            log_dir: config.data_dir.as_ref().map(|dir| dir.join("log")),
            retention: RetentionRule {
                epochs: config.retain_epochs,
                time: config.retain_time,
            },
        };
        let mut definitions = Definitions::default();
        let recovered = Recovered::open(
            engine_config,
            retention.clone(),
            &[(ERRORS, errors.clone())],
            |_, text, tables| definitions.take(text, tables, &retention, config.transient_tables),
        )?;
        let in_data_dir = || config.data_dir.as_ref().map(|dir| dir.join("checkpoints"));
        let folder = config.checkpoint_dir.clone().or_else(in_data_dir);
        let checkpointer = Checkpointer::new(folder, recovered.log_id());
        let engine = recovered.start()?;
        let planner = crate::plan::base_state(&config)?;
        let database = Arc::new(Database {
            config,
            engine,
            catalog: tokio::sync::watch::Sender::new(Arc::default()),
            losing: tokio::sync::Mutex::default(),
            changing: Arc::default(),
            planner,
            errors,
            attached: std::sync::OnceLock::new(),
            sources: Sources::default(),
            replays: Replays::default(),
            checkpointer,
            sinks: Sinks::default(),
        });
        database.rebuild(definitions).await?;
        Ok(database)
    }

    async fn rebuild(self: &Arc<Self>, definitions: Definitions) -> Result<()> {
        let mut catalog = Catalog::default();
        for table in definitions.tables.values() {
            catalog.insert(Object::Table(table.clone()));
        }
        catalog.reserve(cenote_engine::plan::CollectionId(definitions.last));
        self.set_catalog(catalog);
        for definition in definitions.views.into_values() {
            let object = if definition.materialized {
                Object::MaterializedView(self.start_view(definition).await?)
            } else {
                let columns = self.columns_of_view(&definition).await.unwrap_or_else(|error| {
                    // Whoever reads it is told by its query.
                    tracing::warn!("view {}: {}", definition.name, error.message());
                    Arc::new(Schema::empty())
                });
                Object::View(Arc::new(PlainView { definition, columns }))
            };
            let mut catalog = (*self.catalog()).clone();
            catalog.insert(object);
            self.set_catalog(catalog);
        }
        let mut catalog = (*self.catalog()).clone();
        for definition in definitions.indexes.into_values() {
            if let Some(object) = catalog.by_id(definition.on).cloned() {
                let name = definition.name.clone();
                match crate::ddl::build(definition, &object) {
                    Ok(index) => catalog.insert_index(index),
                    // What it is on has failed, and tells so when it is read.
                    Err(error) => tracing::warn!("index {name}: {}", error.message()),
                }
            }
        }
        self.set_catalog(catalog);
        // Before sources, so that nothing has changed yet since the log ends.
        self.start_sinks(definitions.sinks.into_values()).await?;
        for table in definitions.tables.into_values() {
            if let Err(error) = self.start_source_of(&table) {
                // Its table is there all the same, and so is everything else.
                self.sources().fail(&table, error);
            }
        }
        self.wait_for_newest().await?;
        Ok(())
    }
}

/// A table with empty contents.
pub(crate) fn new_table(definition: TableDefinition, retention: &Arc<Retention>, transient: bool) -> Result<Table> {
    let versioned = |schema| VersionedTable::new(schema, 1, true, retention.clone(), HISTORY_BYTES);
    let only_flows_through = transient && definition.connector.is_some() && definition.primary_key.is_empty();
    let keeps_rows = !definition.is_source && !only_flows_through;
    Ok(Table {
        columns: definition.visible_columns()?,
        lengths: crate::lengths::of_columns(&definition.columns)?,
        checks: OnceCell::new(),
        points: Points::default(),
        versioned: if keeps_rows {
            let (name, unique) = (definition.primary_key_name(), definition.constraints.unique_keys());
            Some(Arc::new(versioned(definition.stored_schema()?).with_keys(name, unique)))
        } else {
            None
        },
        offsets: definition
            .offsets
            .map(|_| Arc::new(versioned(offsets_schema(&definition.name)))),
        definition,
    })
}

impl Definitions {
    fn take(
        &mut self,
        text: &[u8],
        tables: &mut RecoveredTables<'_>,
        retention: &Arc<Retention>,
        transient: bool,
    ) -> Result<()> {
        let record: DdlRecord = serde_json::from_slice(text)
            .map_err(|error| Error::bug(format!("the log holds a catalog change that cannot be read: {error}")))?;
        match record {
            DdlRecord::CreateTable(definition) => {
                let table = Arc::new(new_table(definition, retention, transient)?);
                self.note(table.definition.id.0);
                if let Some(versioned) = &table.versioned {
                    tables.add(table.definition.id, versioned.clone());
                }
                if let (Some(id), Some(offsets)) = (table.definition.offsets, &table.offsets) {
                    self.note(id.0);
                    tables.add(id, offsets.clone());
                }
                self.tables.insert(table.definition.id.0, table);
            }
            DdlRecord::CreateView(definition) => {
                self.note(definition.id.0);
                self.views.insert(definition.id.0, definition);
            }
            DdlRecord::CreateIndex(definition) => {
                self.note(definition.id.0);
                self.indexes.insert(definition.name.clone(), definition);
            }
            DdlRecord::CreateSink(definition) => {
                let sink = Arc::new(new_sink(definition, retention));
                self.note(sink.definition.progress.0);
                tables.add(sink.definition.progress, sink.progress.clone());
                self.sinks.insert(sink.definition.id.0, sink);
            }
            DdlRecord::DropIndexes(names) => self.indexes.retain(|name, _| !names.contains(name)),
            DdlRecord::ReplaceView { old, new } => {
                self.views.remove(&old.0);
                self.note(new.id.0);
                self.views.insert(new.id.0, new);
            }
            DdlRecord::Drop(ids) => {
                self.indexes.retain(|_, index| !ids.contains(&index.on));
                for id in ids {
                    self.tables.remove(&id.0);
                    self.views.remove(&id.0);
                    self.sinks.remove(&id.0);
                    tables.remove(id);
                }
            }
        }
        Ok(())
    }

    fn note(&mut self, id: u64) {
        self.last = self.last.max(id);
    }
}
