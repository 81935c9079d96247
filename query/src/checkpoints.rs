//! Checkpoints of a running database: everything that can be read, as of one sealed epoch, in a folder that other tools open.
//!
//! # Rules kept here
//! 1. One epoch for everything: operators' state is read at it by the workers, tables and views by a pin on it.
//! 2. Nobody waits for a checkpoint to be written, but who asked for it: the catalog is held still while the epoch is
//!    chosen and state is copied, and writes go on all the while.
//!
//! # Not here
//! The folder's format ([`cenote_statestore::checkpoint`]). Starting from a checkpoint: a restart rebuilds views from what the log
//! and the sources hold.

use crate::catalog::{Catalog, DdlRecord, Object, STATE_SCHEMA};
use crate::database::{Database, StateTable};
use crate::system::Columns;
use arrow::array::RecordBatch;
use cenote_statestore::checkpoint::{
    CheckpointId, Keep, KeyGroups, Kind, LocalDisk, Manifest, PartKind, Sealed, Store, TableKind, TableState, Writer,
    new_server_id,
};
use cenote_statestore::{Changes, Epoch, Error, ErrorKind, Pin, Result, Scan, TableSchema, VersionedTable};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Rows written at once.
const ROWS_PER_BATCH: usize = 64 * 1024;

/// Where checkpoints go, and whose they are.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    folder: Option<PathBuf>,
    server: String,
    store: OnceLock<Store>,
    /// Held while one is taken.
    turn: tokio::sync::Mutex<()>,
}

/// A checkpoint as it is listed.
#[derive(Clone, Debug)]
pub struct CheckpointListing {
    /// Its id.
    pub id: String,
    /// Savepoints that name it.
    pub savepoints: Vec<String>,
    /// What its manifest says, or what is wrong with it.
    pub manifest: Result<Manifest>,
}

/// Everything at one epoch, to be written.
struct Capture {
    epoch: Epoch,
    catalog_version: u64,
    tables: Vec<(TableState, Contents)>,
    sections: BTreeMap<String, serde_json::Value>,
}

enum Contents {
    Versioned(Arc<VersionedTable>, Pin),
    Rows(Vec<RecordBatch>),
}

impl Checkpointer {
    /// # Arguments
    /// - `server`: the name of the log, which is the server's; without a log it is a server that is new each time.
    pub(crate) fn new(folder: Option<PathBuf>, server: Option<String>) -> Checkpointer {
        Checkpointer {
            folder,
            server: server.unwrap_or_else(new_server_id),
            store: OnceLock::new(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The folder's checkpoints; opened, and made this server's, when it is first asked for.
    pub(crate) fn store(&self) -> Result<Store> {
        if let Some(store) = self.store.get() {
            return Ok(store.clone());
        }
        let folder = self.folder.as_ref().ok_or_else(no_folder)?;
        let blobs = Arc::new(LocalDisk::new(folder));
        let store = Store::open(blobs, &self.server, env!("CARGO_PKG_VERSION"))?;
        Ok(self.store.get_or_init(|| store).clone())
    }
}

impl Database {
    /// Takes a checkpoint of everything at the newest epoch.
    ///
    /// # Arguments
    /// - `savepoint`: a name to keep it by.
    ///
    /// # Errors
    /// `Unsupported` CKPT-0101: there is no folder for them. `Invalid`: the name is taken. `Unavailable`: it could not be written; nothing
    /// of it counts then.
    pub async fn checkpoint(self: &Arc<Self>, savepoint: Option<&str>) -> Result<Manifest> {
        let _turn = self.checkpointer().turn.lock().await;
        let database = self.clone();
        let store = blocking(move || database.checkpointer().store()).await?;
        let capture = self.capture().await?;
        self.running_sinks().reach(capture.epoch).await;
        let savepoint = savepoint.map(str::to_string);
        let keep = Keep {
            count: self.config().checkpoint_retain.max(1),
            age: Duration::ZERO,
        };
        let written = blocking(move || {
            let kind = match savepoint {
                Some(_) => Kind::Savepoint,
                None => Kind::Checkpoint,
            };
            if let Some(name) = &savepoint {
                store.check_new_savepoint(name)?;
            }
            let manifest = capture.write(store.begin(None)?, kind)?;
            if let Some(name) = savepoint {
                store.create_savepoint(&name, &manifest.id())?;
            }
            if let Err(error) = store.collect(keep) {
                // What was asked for is there; the next one tries again.
                tracing::warn!("old checkpoints are kept: {}", error.render());
            }
            Ok(manifest)
        });
        let manifest = written.await?;
        self.running_sinks().published(Epoch(manifest.epoch));
        Ok(manifest)
    }

    /// Forgets a savepoint.
    ///
    /// # Errors
    /// `Invalid`: there is none of that name.
    pub async fn drop_savepoint(self: &Arc<Self>, name: &str) -> Result<()> {
        let (database, name) = (self.clone(), name.to_string());
        blocking(move || database.checkpointer().store()?.drop_savepoint(&name)).await
    }

    /// All checkpoints, oldest first; none where there is no folder for them.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub async fn checkpoints(self: &Arc<Self>) -> Result<Vec<CheckpointListing>> {
        if self.checkpointer().folder.is_none() {
            return Ok(Vec::new());
        }
        let database = self.clone();
        blocking(move || {
            let store = database.checkpointer().store()?;
            let mut names: BTreeMap<CheckpointId, Vec<String>> = BTreeMap::new();
            let mut damaged = Vec::new();
            for (path, savepoint) in store.checkpoints().each_savepoint()? {
                match savepoint {
                    Ok((name, id)) => names.entry(id).or_default().push(name),
                    Err(error) => damaged.push(CheckpointListing {
                        id: path.as_str().to_string(),
                        savepoints: Vec::new(),
                        manifest: Err(error),
                    }),
                }
            }
            let listed = store
                .checkpoints()
                .all()?
                .into_iter()
                .map(|(id, manifest)| CheckpointListing {
                    savepoints: names.remove(&id).unwrap_or_default(),
                    id: id.to_string(),
                    manifest,
                });
            let mut listed: Vec<CheckpointListing> = listed.collect();
            // Savepoints of checkpoints that are not there.
            listed.extend(names.into_iter().map(|(id, savepoints)| CheckpointListing {
                manifest: Err(gone(&id)),
                id: id.to_string(),
                savepoints,
            }));
            listed.extend(damaged);
            Ok(listed)
        })
        .await
    }

    /// Copies operators' state at the newest epoch and pins it for tables and views.
    async fn capture(self: &Arc<Self>) -> Result<Capture> {
        // What there is must be the same before and after the epoch is chosen.
        let still = self.lock_catalog().await;
        let catalog = self.catalog();
        let mut states = self.state_tables(&catalog);
        states.retain(|state| state.view.status.failure().is_none());
        let reads = states.iter().map(|state| state.read(None)).collect();
        let (epoch, rows) = self.engine().read_state(reads).await?;
        self.engine().wait_visible(epoch).await?;
        let pin = self.engine().retention().pin(epoch)?;
        drop(still);
        let mut tables = vec![versioned("cenote_catalog", TableKind::Source, self.errors(), &pin)];
        for object in catalog.objects() {
            tables.extend(contents_of(object, &pin));
        }
        let sinks = catalog.sinks();
        tables.extend(sinks.map(|sink| versioned(STATE_SCHEMA, TableKind::Sink, &sink.progress, &pin)));
        for (state, rows) in states.into_iter().zip(rows) {
            tables.push((state_of(&state), Contents::Rows(rows)));
        }
        Ok(Capture {
            epoch,
            catalog_version: epoch.0,
            tables,
            sections: BTreeMap::from([("catalog".to_string(), definitions(&catalog)?)]),
        })
    }
}

impl Capture {
    fn write(self, writer: Writer, kind: Kind) -> Result<Manifest> {
        for (state, contents) in self.tables {
            let number = writer.table(state.clone())?;
            let groups = KeyGroups::cut(1);
            let mut rows = 0;
            let batches = contents.batches().map(|changes| {
                let changes = changes?;
                rows += (0..changes.len())
                    .map(|row| changes.weights().get(row) as u64)
                    .sum::<u64>();
                state.base_rows(&changes)
            });
            writer.part(number, groups[0], PartKind::Base, batches)?;
            writer.count(number, rows);
        }
        writer.publish(Sealed {
            epoch: self.epoch,
            kind,
            catalog_version: self.catalog_version,
            sections: self.sections,
        })
    }
}

impl Contents {
    fn batches(self) -> Box<dyn Iterator<Item = Result<Changes>>> {
        match self {
            Contents::Rows(rows) => Box::new(rows.into_iter().map(|rows| Ok(Changes::insertions(rows)))),
            Contents::Versioned(table, pin) => {
                let columns = (0..table.schema().columns.fields().len()).collect();
                let mut scan: Scan = table.scan(pin, columns, 0..table.shards());
                Box::new(std::iter::from_fn(move || {
                    scan.next_weighted(ROWS_PER_BATCH).transpose()
                }))
            }
        }
    }
}

/// What is kept of an object: its rows, and the state beside them.
fn contents_of(object: &Object, pin: &Pin) -> Vec<(TableState, Contents)> {
    let public = crate::catalog::PUBLIC;
    match object {
        Object::Table(table) => {
            let rows = table
                .versioned
                .iter()
                .map(|rows| versioned(public, TableKind::Table, rows, pin));
            let offsets = table
                .offsets
                .iter()
                .map(|rows| versioned(STATE_SCHEMA, TableKind::Source, rows, pin));
            rows.chain(offsets).collect()
        }
        Object::View(_) => Vec::new(),
        Object::MaterializedView(view) if view.status.failure().is_some() => Vec::new(),
        Object::MaterializedView(view) => {
            let errors = view
                .errors
                .iter()
                .map(|rows| versioned(STATE_SCHEMA, TableKind::State, rows, pin));
            let mut kept = vec![versioned(public, TableKind::View, &view.versioned, pin)];
            kept.extend(errors);
            for (state, _) in &mut kept {
                state.view = Some(view.definition.name.clone());
            }
            kept
        }
    }
}

fn versioned(schema: &str, kind: TableKind, table: &Arc<VersionedTable>, pin: &Pin) -> (TableState, Contents) {
    let state = described(TableState::new(schema, kind, table.schema()));
    (state, Contents::Versioned(table.clone(), pin.clone()))
}

/// An operator's state table: where rows are kept with a multiplicity, that is a value of the row beside it.
fn state_of(table: &StateTable) -> TableState {
    let TableSchema {
        name,
        columns,
        key,
        unique,
    } = &table.schema;
    let all = columns.fields().len();
    let identity = match unique {
        true => key.clone(),
        false => (0..all.saturating_sub(1)).collect(),
    };
    described(TableState {
        schema: STATE_SCHEMA.to_string(),
        name: name.clone(),
        kind: TableKind::State,
        view: Some(table.view.definition.name.clone()),
        operator: Some(table.operator.to_string()),
        columns: columns.clone(),
        sql_types: Vec::new(),
        key: key.clone(),
        identity,
        multiset: false,
    })
}

fn described(state: TableState) -> TableState {
    let types = state.columns.fields().iter();
    let sql_types = types.map(|field| crate::types::type_name(field.data_type())).collect();
    TableState { sql_types, ..state }
}

/// What there is, as the log tells it.
fn definitions(catalog: &Catalog) -> Result<serde_json::Value> {
    let mut records = BTreeMap::new();
    for object in catalog.objects() {
        let record = match object {
            Object::Table(table) => DdlRecord::CreateTable(table.definition.clone()),
            Object::View(view) => DdlRecord::CreateView(view.definition.clone()),
            Object::MaterializedView(view) => DdlRecord::CreateView(view.definition.clone()),
        };
        records.insert(object.id(), record);
        for index in catalog.indexes_of(object.id()) {
            records.insert(index.definition.id, DdlRecord::CreateIndex(index.definition.clone()));
        }
    }
    for sink in catalog.sinks() {
        records.insert(sink.definition.id, DdlRecord::CreateSink(sink.definition.clone()));
    }
    let records: Vec<DdlRecord> = records.into_values().collect();
    serde_json::to_value(records).map_err(|error| Error::bug(format!("definitions as JSON: {error}")))
}

/// The list as a table.
pub(crate) fn table(listed: Vec<CheckpointListing>) -> Result<RecordBatch> {
    let of = |value: &dyn Fn(&Manifest) -> i64| -> Vec<i64> {
        listed
            .iter()
            .map(|one| one.manifest.as_ref().map_or(0, value))
            .collect()
    };
    let text = |value: &dyn Fn(&CheckpointListing) -> Option<String>| listed.iter().map(value).collect();
    Columns::default()
        .text("id", text(&|one| Some(one.id.clone())))
        .text(
            "status",
            text(&|one| Some(if one.manifest.is_ok() { "whole" } else { "damaged" }.to_string())),
        )
        .text(
            "savepoint",
            text(&|one| (!one.savepoints.is_empty()).then(|| one.savepoints.join(", "))),
        )
        .number("epoch", of(&|manifest| manifest.epoch as i64))
        .text(
            "time",
            text(&|one| one.manifest.as_ref().ok().map(|manifest| manifest.time.clone())),
        )
        .number("tables", of(&|manifest| manifest.tables.len() as i64))
        .number("bytes", of(&|manifest| manifest.bytes as i64))
        .number("bytes_new", of(&|manifest| manifest.bytes_new as i64))
        .text(
            "error",
            text(&|one| one.manifest.as_ref().err().map(|error| error.message().to_string())),
        )
        .batch()
}

fn gone(id: &CheckpointId) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        "CKPT-0002",
        format!("checkpoint {id}, which a savepoint names, is not there"),
    )
}

fn no_folder() -> Error {
    let message = "cannot take a checkpoint: there is no folder for them";
    let error = Error::new(ErrorKind::Unsupported, "CKPT-0101", message).sqlstate("55000");
    error.attempt("start with --data-dir, or with --checkpoint-url file:///path/to/a/folder")
}

/// Runs work on files where it keeps nobody else from running.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::bug(format!("a checkpoint's work ended early: {error}")))?
}
