//! Checkpoints of a running database: everything that can be read, as of one sealed epoch, in a folder that other tools open.
//!
//! # Rules kept here
//! 1. One epoch for everything: operators' state is read at it by the workers, tables and views by a pin on it.
//! 2. Nobody waits for a checkpoint to be written, but who asked for it: the catalog is held still while the epoch is
//!    chosen and state is copied, and writes go on all the while.
//!
//! # Not here
//! The folder's format ([`cenote_statestore::checkpoint`]); when they are taken by themselves (`schedule`); starting from one
//! (`recovery`).

mod capture;
mod schedule;

use crate::catalog::{Catalog, DdlRecord, Object};
use crate::database::Database;
use crate::system::Columns;
use arrow::array::RecordBatch;
use capture::Deadline;
pub(crate) use capture::Lineage;
use cenote_engine::Sealed as SealedEpoch;
use cenote_statestore::checkpoint::{Blobs, CheckpointId, Checkpoints, Keep, Kind, Manifest, Store};
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use schedule::Progress;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Definitions of what there is, in the manifest.
pub(crate) const SECTION_CATALOG: &str = "catalog";

/// What views are made of, a line for each node.
pub(crate) const SECTION_PLANS: &str = "plans";

/// Where the log goes on.
pub(crate) const SECTION_LOG: &str = "log";

/// Where checkpoints go, and whose they are.
#[derive(Debug)]
pub(crate) struct Checkpointer {
    blobs: Option<Arc<dyn Blobs>>,
    server: String,
    store: OnceLock<Store>,
    /// Held while one is taken.
    turn: tokio::sync::Mutex<()>,
    progress: parking_lot::Mutex<Progress>,
    /// What the next one can be an addition to.
    lineage: parking_lot::Mutex<Option<Lineage>>,
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

/// Where the log goes on behind a checkpoint.
#[derive(Clone, Copy, Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct NextRecord {
    /// Number of the first record of later epochs.
    pub(crate) record: u64,
    /// The last number of a collection that was given away.
    pub(crate) last_collection: u64,
}

impl Checkpointer {
    /// # Arguments
    /// - `blobs`: what keeps them; `None`: nothing does.
    /// - `server`: the name of the log, which is the server's; without a log it is a server that is new each time.
    pub(crate) fn new(blobs: Option<Arc<dyn Blobs>>, server: String) -> Checkpointer {
        Checkpointer {
            blobs,
            server,
            store: OnceLock::new(),
            turn: tokio::sync::Mutex::default(),
            progress: parking_lot::Mutex::default(),
            lineage: parking_lot::Mutex::default(),
        }
    }

    /// How they have gone.
    pub(crate) fn progress(&self) -> Progress {
        self.progress.lock().clone()
    }

    /// Says that the log is in a checkpoint up to a record.
    pub(crate) fn started_from(&self, next_record: u64) {
        self.progress.lock().next_record = Some(next_record);
    }

    /// Says what the next checkpoint can be an addition to.
    pub(crate) fn goes_on_from(&self, lineage: Lineage) {
        *self.lineage.lock() = Some(lineage);
    }

    /// The checkpoints there, if the place has an owner yet; nothing is made.
    pub(crate) fn existing(&self) -> Result<Option<Store>> {
        let Some(blobs) = &self.blobs else {
            return Ok(None);
        };
        match Checkpoints::new(blobs.clone()).owner()? {
            Some(_) => self.store().map(Some),
            None => Ok(None),
        }
    }

    /// The checkpoints there; opened, and made this server's, when it is first asked for.
    pub(crate) fn store(&self) -> Result<Store> {
        if let Some(store) = self.store.get() {
            return Ok(store.clone());
        }
        let blobs = self.blobs.clone().ok_or_else(no_folder)?;
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
        // It goes on, in its turn, where whoever asked goes away: the next one builds upon it.
        let (database, savepoint) = (self.clone(), savepoint.map(str::to_string));
        let taken = tokio::spawn(async move { database.checkpoint_in_turn(savepoint.as_deref()).await }).await;
        taken.map_err(|error| Error::bug(format!("a checkpoint ended early: {error}")))?
    }

    async fn checkpoint_in_turn(self: &Arc<Self>, savepoint: Option<&str>) -> Result<Manifest> {
        let _turn = self.checkpointer().turn.lock().await;
        let start = Instant::now();
        let taken = self.take_checkpoint(savepoint).await;
        // What was asked for wrongly is no failure.
        if !matches!(&taken, Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported)) {
            self.checkpointer().progress.lock().note(&taken, start.elapsed());
        }
        let manifest = taken?;
        if let Err(error) = self.forget_log().await {
            tracing::warn!("the log keeps what it need not: {}", error.render());
        }
        Ok(manifest)
    }

    async fn take_checkpoint(self: &Arc<Self>, savepoint: Option<&str>) -> Result<Manifest> {
        let database = self.clone();
        let store = blocking(move || database.checkpointer().store()).await?;
        let (kind, savepoint) = match savepoint {
            Some(name) => (Kind::Savepoint, Some(name.to_string())),
            None => (Kind::Checkpoint, None),
        };
        if let Some(name) = savepoint.clone() {
            let store = store.clone();
            blocking(move || store.check_new_savepoint(&name)).await?;
        }
        let deadline = Deadline {
            at: Instant::now() + self.config().checkpoint_timeout,
            error: self.out_of_time(),
        };
        // If anything fails from here on, the next one is written whole.
        let lineage = self.checkpointer().lineage.lock().take();
        let capture = tokio::time::timeout_at(deadline.at.into(), self.capture(lineage)).await;
        let capture = capture.map_err(|_| self.out_of_time())??;
        let reached = tokio::time::timeout_at(deadline.at.into(), self.running_sinks().reach(capture.epoch())).await;
        reached.map_err(|_| self.out_of_time())?;
        let database = self.clone();
        let keep = Keep {
            count: self.config().checkpoint_retain.max(1),
            age: Duration::ZERO,
        };
        let written = blocking(move || {
            let (manifest, lineage) = capture.write(&store, kind, &deadline)?;
            database.checkpointer().goes_on_from(lineage);
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

    fn out_of_time(&self) -> Error {
        let limit = self.config().checkpoint_timeout;
        let message = format!("cannot take a checkpoint: it was not written within {limit:?}");
        let error = Error::new(ErrorKind::Unavailable, "CKPT-0105", message).sqlstate("57014");
        error.attempt("raise --checkpoint-timeout")
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
        if self.checkpointer().blobs.is_none() {
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
}

impl Database {
    /// All checkpoints as a table: that of `cenote_catalog.checkpoints`.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub async fn checkpoint_listing(self: &Arc<Self>) -> Result<RecordBatch> {
        table(self.checkpoints().await?)
    }

    /// All savepoints as a table, by name, and what is known of the checkpoint of each.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub async fn savepoint_listing(self: &Arc<Self>) -> Result<RecordBatch> {
        let each = self.checkpoints().await?.into_iter().flat_map(|one| {
            let names = one.savepoints.clone().into_iter();
            let named = move |name| CheckpointListing {
                savepoints: vec![name],
                ..one.clone()
            };
            names.map(named)
        });
        let mut listed: Vec<CheckpointListing> = each.collect();
        listed.sort_by(|a, b| a.savepoints.cmp(&b.savepoints));
        let rows = table(listed)?;
        let shown = [("savepoint", "name"), ("id", "checkpoint")].into_iter();
        let others = ["status", "epoch", "time", "tables", "bytes", "error"];
        let shown = shown.chain(others.map(|name| (name, name)));
        let columns = shown.map(|(column, name)| {
            let column = rows.column_by_name(column).expect("a column of the table");
            (name, column.clone(), true)
        });
        Ok(RecordBatch::try_from_iter_with_nullable(columns)?)
    }
}

/// What a start needs beside tables.
fn sections(catalog: &Catalog, sealed: SealedEpoch) -> Result<BTreeMap<String, Value>> {
    let views = catalog.materialized_views().into_iter();
    let views = views.filter(|view| view.status.failure().is_none());
    let plans: BTreeMap<&String, Vec<String>> =
        views.map(|view| (&view.definition.name, view.plan.outline())).collect();
    let mut sections = BTreeMap::from([
        (SECTION_CATALOG.to_string(), json(definitions(catalog))?),
        (SECTION_PLANS.to_string(), json(plans)?),
    ]);
    if let Some(record) = sealed.next_record {
        let next = NextRecord {
            record,
            last_collection: catalog.last_used(),
        };
        sections.insert(SECTION_LOG.to_string(), json(next)?);
    }
    Ok(sections)
}

fn json(value: impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| Error::bug(format!("a section of a checkpoint as JSON: {error}")))
}

/// What there is, as the log tells it.
fn definitions(catalog: &Catalog) -> Vec<DdlRecord> {
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
    records.into_values().collect()
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
    error.attempt("start with --data-dir, or with --checkpoint-url file:///path/to/a/folder or s3://bucket/prefix")
}

/// Runs work on files where it keeps nobody else from running.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| Error::bug(format!("a checkpoint's work ended early: {error}")))?
}
