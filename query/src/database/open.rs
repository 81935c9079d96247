//! Opening: recovery of catalog and tables from the log, rebuilding of views, start of sources.

use super::{Database, DatabaseConfig, Points};
use crate::catalog::{
    Catalog, DdlRecord, ERRORS, IndexDefinition, Object, SinkObject, Table, TableDefinition, ViewDefinition,
    errors_schema, offsets_schema,
};
use crate::checkpoints::Checkpointer;
use crate::ddl::AlterRecord;
use crate::recovery::StartPoint;
use crate::sink::{Sinks, new_sink};
use crate::source::{Replays, Sources};
use crate::state_backend::StateBackends;
use cenote_engine::{EngineConfig, Recovered, RecoveredTables, RetentionRule};
use cenote_statestore::checkpoint::new_server_id;
use cenote_statestore::spill::Spill;
use cenote_statestore::{Epoch, Result, Retention, VersionedTable};
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
            memory_limit: config.memory_limit,
        };
        if let (true, Some(blobs), Some(log)) = (config.take_over, config.checkpoint_blobs(), &engine_config.log_dir) {
            apart(|| crate::recovery::take_over(blobs, log, config.allow_older_checkpoint))?;
        }
        let mut recovered = Recovered::open(engine_config, retention.clone(), &[(ERRORS, errors.clone())])?;
        let server = recovered.log_id().unwrap_or_else(new_server_id);
        let checkpointer = Checkpointer::new(config.checkpoint_blobs(), server.clone());
        let mut start = match recovered.first_record() {
            Some(first) => apart(|| StartPoint::find(&checkpointer, first, config.allow_older_checkpoint))?,
            None => None,
        };
        let backends = StateBackends::new(&config, server);
        backends.check()?;
        let home = TableHome {
            retention: &retention,
            transient: config.transient_tables,
            backends: &backends,
            history_bytes: config.history_bytes(HISTORY_BYTES),
        };
        let mut definitions = Definitions::default();
        let later = match &mut start {
            None => {
                recovered
                    .read(|epoch, text, tables| definitions.take(crate::ddl::decode(text)?, epoch, tables, &home))?;
                None
            }
            Some(start) => {
                let mut tables = recovered.tables();
                for record in start.take_definitions() {
                    definitions.take(record, start.epoch(), &mut tables, &home)?;
                }
                definitions.note(start.last_collection());
                start.fill(definitions.tables.values(), definitions.sinks.values(), &tables)?;
                recovered.start_at(start.epoch(), start.next_record())
            }
        };
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
            backends,
        });
        let rebuilt = database.rebuild(definitions, start.as_mut()).await;
        match &start {
            None => rebuilt?,
            Some(start) => apart(|| start.judge(database.checkpointer(), rebuilt))?,
        }
        if let (Some(start), Some(later)) = (start, later) {
            // Nothing later than the checkpoint has been applied yet.
            database.checkpointer().goes_on_from(start.lineage(&database));
            database.make_again(later, start.epoch()).await?;
        }
        // Before sources, so that nothing has changed yet since the log ends.
        database.start_sinks().await?;
        database.start_all_sources();
        database.wait_for_newest().await?;
        Ok(database)
    }

    /// # Arguments
    /// - `start`: the checkpoint that views go on from.
    async fn rebuild(self: &Arc<Self>, definitions: Definitions, mut start: Option<&mut StartPoint>) -> Result<()> {
        let mut catalog = Catalog::default();
        for table in definitions.tables.values() {
            catalog.insert(Object::Table(table.clone()));
        }
        catalog.reserve(cenote_engine::plan::CollectionId(definitions.last));
        self.set_catalog(catalog);
        for definition in definitions.views.into_values() {
            if !definition.materialized {
                self.insert_plain_view(definition).await;
                continue;
            }
            let view = match &mut start {
                Some(start) => self.attach_view(definition, start).await?,
                None => self.start_view(definition).await?,
            };
            self.change_catalog(|catalog| catalog.insert(Object::MaterializedView(view)));
        }
        if let Some(start) = start {
            start.filled().await?;
        }
        for view in self.catalog().materialized_views() {
            self.warn_unless_live(view).await;
        }
        self.change_catalog(|catalog| {
            let sinks = definitions.sinks.into_values();
            sinks.for_each(|sink| catalog.insert_sink(sink));
            let indexes = definitions.indexes.into_values();
            indexes.for_each(|definition| crate::ddl::insert(catalog, definition));
        });
        Ok(())
    }

    fn start_all_sources(self: &Arc<Self>) {
        for object in self.catalog().objects() {
            if let Object::Table(table) = object
                && let Err(error) = self.start_source_of(table)
            {
                // Its table is there all the same, and so is everything else.
                self.sources().fail(table, error);
            }
        }
    }
}

/// Runs work on a thread of its own: what keeps checkpoints may wait in ways that a task must not.
pub(super) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Where tables are made.
pub(crate) struct TableHome<'a> {
    pub(crate) retention: &'a Arc<Retention>,
    /// Whether rows of replayable sources stay there.
    pub(crate) transient: bool,
    pub(crate) backends: &'a StateBackends,
    /// Bytes of past changes that a table keeps.
    pub(crate) history_bytes: usize,
}

impl Database {
    /// Where new tables are made.
    pub(crate) fn table_home(&self) -> TableHome<'_> {
        TableHome {
            retention: self.engine().retention(),
            transient: self.config().transient_tables,
            backends: self.state_backends(),
            history_bytes: self.config().history_bytes(HISTORY_BYTES),
        }
    }
}

/// A table whose rows may leave memory, if they have where to go.
pub(crate) fn spilling(table: VersionedTable, spill: Option<&Spill>) -> Result<VersionedTable> {
    match spill {
        Some(spill) => table.with_spill(spill),
        None => Ok(table),
    }
}

/// A table with empty contents.
pub(crate) fn new_table(definition: TableDefinition, home: &TableHome<'_>) -> Result<Table> {
    let versioned = |schema| VersionedTable::new(schema, 1, true, home.retention.clone(), home.history_bytes);
    let only_flows_through = home.transient && definition.connector.is_some() && definition.primary_key.is_empty();
    let keeps_rows = !definition.is_source && !only_flows_through;
    Ok(Table {
        columns: definition.visible_columns()?,
        lengths: crate::lengths::of_columns(&definition.columns)?,
        checks: OnceCell::new(),
        points: Points::default(),
        layout: None,
        versioned: if keeps_rows {
            let (name, unique) = (definition.primary_key_name(), definition.constraints.unique_keys());
            let spill = home.backends.spill(definition.state_backend)?;
            let rows = spilling(versioned(definition.stored_schema()?), spill.as_ref())?;
            Some(Arc::new(rows.with_keys(name, unique)))
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
    /// Takes the next record.
    ///
    /// # Arguments
    /// - `epoch`: the record's.
    fn take(
        &mut self,
        record: DdlRecord,
        epoch: Epoch,
        tables: &mut RecoveredTables<'_>,
        home: &TableHome<'_>,
    ) -> Result<()> {
        match record {
            DdlRecord::AlterTable(record) => self.alter(&record, epoch, tables, home)?,
            DdlRecord::CreateTable(definition) => {
                definition.was.iter().for_each(|layout| self.note(layout.until.0));
                let table = Arc::new(new_table(definition, home)?);
                self.note(table.definition.id.0);
                for (id, rows) in table.collections() {
                    self.note(id.0);
                    tables.add(id, rows);
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
                let sink = Arc::new(new_sink(definition, home.retention));
                self.note(sink.definition.progress.0);
                tables.add(sink.definition.progress, sink.progress.clone());
                self.sinks.insert(sink.definition.id.0, sink);
            }
            DdlRecord::DropIndexes(names) => self.indexes.retain(|name, _| !names.contains(name)),
            DdlRecord::ReplaceView { old, new } | DdlRecord::ReplaceMaterializedView { old, new } => {
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

    fn alter(
        &mut self,
        record: &AlterRecord,
        epoch: Epoch,
        tables: &mut RecoveredTables<'_>,
        home: &TableHome<'_>,
    ) -> Result<()> {
        let (table, alter) = record.prepare(home)?;
        tables.alter(&alter, epoch)?;
        self.note(record.number.0);
        let id = table.definition.id;
        if let Some(old) = self.tables.insert(id.0, table) {
            let indexes = self.indexes.values_mut().filter(|index| index.on == id);
            indexes.for_each(|index| *index = record.renamed(&old.definition, index));
        }
        Ok(())
    }

    fn note(&mut self, id: u64) {
        self.last = self.last.max(id);
    }
}
