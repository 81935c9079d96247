//! Start from a checkpoint: what there was at its epoch, then the log's later commits, one epoch after the other as they were.
//!
//! # Rules kept here
//! 1. The newest checkpoint counts. Where it is damaged nothing starts, unless an older one was asked for. Each of its files is checked
//!    when it is read, once, and those that nothing reads before anything is served.
//! 2. A view goes on from its state if that is the state of its plan, and if every view that it reads goes on from its own; else it
//!    is made anew of its inputs.
//! 3. An epoch of the log is an epoch again, with its number and its changes. Only what a source without a table passed on is in no
//!    log: it is read again from the checkpoint's offsets, and its records are left out.
//!
//! # Not here
//! Writing checkpoints (`checkpoints`); a start from the log alone (`database::open`).

mod tables;

use crate::catalog::{
    Catalog, DdlRecord, IndexDefinition, MaterializedView, Object, PlainView, STATE_SCHEMA, Table, ViewDefinition,
};
use crate::checkpoints::{Checkpointer, Lineage, NextRecord, SECTION_CATALOG, SECTION_LOG, SECTION_PLANS};
use crate::database::{Database, new_table};
use crate::ddl::{Origin, PreparedView, Replacement};
use arrow::datatypes::Schema;
use cenote_engine::plan::{CollectionId, ViewPlan};
use cenote_engine::{Logged, ViewState};
use cenote_statestore::checkpoint::{Blobs, Checkpoint, Checkpoints, Depth, TableEntry};
use cenote_statestore::wal::{Log, Replay};
use cenote_statestore::{Epoch, Error, ErrorKind, Result, TableSchema};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What a change of the catalog has made that is in it only behind its record.
enum Redone {
    /// One that the engine starts with the record.
    Started(Box<PreparedView>),
    /// One that has another's place with the record.
    Replaced(Arc<MaterializedView>),
    /// A table that has other columns with the record, and its indexes.
    Altered(Arc<Table>, Vec<IndexDefinition>),
}

/// Commits of the log that are under way at once.
const UNDER_WAY_MAX: usize = 1024;

/// The checkpoint that a database starts from.
pub(crate) struct StartPoint {
    checkpoint: Checkpoint,
    definitions: Vec<DdlRecord>,
    plans: BTreeMap<String, Vec<String>>,
    last: u64,
    next_record: u64,
    /// Views whose state is theirs.
    restored: BTreeSet<CollectionId>,
    /// Tables that are being filled.
    filling: Option<tokio::task::JoinHandle<Result<()>>>,
}

/// Begins a log that goes on where the newest checkpoint ends, under the name of the server whose checkpoints they are: it is gone,
/// with its machine. Where there is a log, or no such server, nothing is done.
///
/// # Arguments
/// - `log`: the folder of the log.
/// - `may_be_older`: whether a damaged checkpoint is passed over.
///
/// # Errors
/// `Corrupt` CKPT-0103: the newest checkpoint is damaged. `Unavailable`: the checkpoints cannot be read, or the log cannot be begun.
pub(crate) fn take_over(blobs: Arc<dyn Blobs>, log: &Path, may_be_older: bool) -> Result<()> {
    let checkpoints = Checkpoints::new(blobs);
    if Log::is_there(log)? {
        return Ok(());
    }
    let Some(server) = checkpoints.owner()? else {
        return Ok(());
    };
    let newest = checkpoints.newest_whole(Depth::Lengths)?;
    if let Some((id, error)) = newest.damaged.first().filter(|_| !may_be_older) {
        return Err(damaged(
            id.as_str(),
            error,
            newest.whole.as_ref().map(|whole| whole.manifest().id().to_string()),
        ));
    }
    let start = newest.whole.map(StartPoint::of).transpose()?.flatten();
    let first_record = start.map_or(1, |(_, next)| next.record);
    if Log::begin(log, &server, first_record)? {
        tracing::info!("the checkpoints of server {server} are taken over: the log begins with record {first_record}");
    }
    Ok(())
}

impl StartPoint {
    /// The checkpoint to start from; `None`: the log has everything from its beginning.
    ///
    /// # Arguments
    /// - `first_record`: the first record that the log still has.
    /// - `may_be_older`: whether a damaged checkpoint is passed over.
    ///
    /// # Errors
    /// `Corrupt` CKPT-0103: the newest checkpoint is damaged, or there is none and the log does not begin with the first record.
    pub(crate) fn find(
        checkpointer: &Checkpointer,
        first_record: u64,
        may_be_older: bool,
    ) -> Result<Option<StartPoint>> {
        let Some(store) = checkpointer.existing()? else {
            return match first_record {
                ..=1 => Ok(None),
                _ => Err(no_start(first_record, "there is none")),
            };
        };
        // Every file is checked when it is read: before, only where there is an older one to go on from instead.
        let depth = if may_be_older { Depth::Checksums } else { Depth::Lengths };
        let newest = store.checkpoints().newest_whole(depth)?;
        if let Some((id, error)) = newest.damaged.first() {
            let whole = newest.whole.as_ref().map(|whole| whole.manifest().id());
            match may_be_older && (whole.is_some() || first_record <= 1) {
                true => tracing::warn!("checkpoint {id} is passed over: {}", error.render()),
                false => return Err(damaged(id.as_str(), error, whole.map(|id| id.to_string()))),
            }
        }
        let start = newest.whole.map(StartPoint::of).transpose()?.flatten();
        match start {
            Some((start, next)) if next.record >= first_record => {
                checkpointer.started_from(next.record);
                Ok(Some(start))
            }
            _ if first_record <= 1 => Ok(None),
            Some(_) => Err(no_start(first_record, "the newest one is older")),
            None => Err(no_start(first_record, "there is none to start from")),
        }
    }

    /// `None`: it was written by a version that did not start from checkpoints.
    fn of(checkpoint: Checkpoint) -> Result<Option<(StartPoint, NextRecord)>> {
        let sections = &checkpoint.manifest().sections;
        let (Some(log), Some(catalog)) = (sections.get(SECTION_LOG), sections.get(SECTION_CATALOG)) else {
            return Ok(None);
        };
        let next: NextRecord = section(&checkpoint, SECTION_LOG, log)?;
        let plans = sections.get(SECTION_PLANS);
        let start = StartPoint {
            definitions: section(&checkpoint, SECTION_CATALOG, catalog)?,
            plans: plans.map_or(Ok(BTreeMap::new()), |plans| section(&checkpoint, SECTION_PLANS, plans))?,
            last: next.last_collection,
            next_record: next.record,
            restored: BTreeSet::new(),
            filling: None,
            checkpoint: checkpoint.clone(),
        };
        Ok(Some((start, next)))
    }

    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.checkpoint.manifest().epoch)
    }

    /// The first record of the log that is later.
    pub(crate) fn next_record(&self) -> u64 {
        self.next_record
    }

    /// What there was.
    pub(crate) fn take_definitions(&mut self) -> Vec<DdlRecord> {
        std::mem::take(&mut self.definitions)
    }

    /// The last number of a collection that was given away.
    pub(crate) fn last_collection(&self) -> u64 {
        self.last
    }

    /// What the next checkpoint can be an addition to, once tables and views are there.
    pub(crate) fn lineage(&self, database: &Database) -> Lineage {
        let manifest = self.checkpoint.manifest().clone();
        Lineage::of_start(manifest, &database.catalog(), database.errors(), &self.restored)
    }

    /// Judges a start from the checkpoint when tables are filled and views have their state: what of it nobody has read is read now.
    ///
    /// # Arguments
    /// - `rebuilt`: how that went. A view whose state could not be read has failed, which is told of nowhere else.
    ///
    /// # Errors
    /// `Corrupt` CKPT-0103: the checkpoint is damaged. One of `rebuilt`.
    pub(crate) fn judge(&self, checkpointer: &Checkpointer, rebuilt: Result<()>) -> Result<()> {
        let outcome = rebuilt.and_then(|()| self.checkpoint.check_unread());
        let Err(error) = outcome else {
            return Ok(());
        };
        if error.kind() != ErrorKind::Corrupt {
            return Err(error);
        }
        // All that is damaged, and what older one there is.
        let Some(store) = checkpointer.existing()? else {
            return Err(error);
        };
        let newest = store.checkpoints().newest_whole(Depth::Checksums)?;
        let whole = newest.whole.as_ref().map(|whole| whole.manifest().id().to_string());
        match newest.damaged.first() {
            Some((id, error)) => Err(damaged(id.as_str(), error, whole)),
            None => Err(error),
        }
    }

    fn entry(&self, schema: &str, name: &str) -> Option<&TableEntry> {
        let mut tables = self.checkpoint.manifest().tables.iter();
        tables.find(|table| table.schema == schema && table.name == name)
    }

    fn lacks(&self, what: &str) -> Error {
        let message = format!("checkpoint {} has no {what}", self.checkpoint.manifest().id());
        Error::new(ErrorKind::Corrupt, "CKPT-0104", message)
    }

    /// The state that a view goes on from, if it is the plan's.
    ///
    /// # Arguments
    /// - `reads`: the materialized views that it reads.
    pub(crate) fn state_of(
        &mut self,
        definition: &ViewDefinition,
        plan: &ViewPlan,
        reads: impl Iterator<Item = CollectionId>,
    ) -> Option<ViewState> {
        let mut reads = reads.filter(|id| !self.restored.contains(id));
        if reads.next().is_some() || self.plans.get(&definition.name) != Some(&plan.outline()) {
            return None;
        }
        let name = |schema: &str, table: &TableSchema| {
            let entry = self.entry(schema, &table.name)?;
            let same = entry.view.as_deref() == Some(&definition.name)
                && types_of(&entry.table_schema()) == types_of(&table.columns);
            same.then(|| entry.readable_name())
        };
        let mut tables = BTreeMap::new();
        for (node, operator) in plan.nodes.iter().enumerate() {
            for (number, table) in operator.state_tables().iter().enumerate() {
                tables.insert((node, number), name(STATE_SCHEMA, table)?);
            }
        }
        let errors = match plan.errors_table() {
            Some(table) => Some(name(STATE_SCHEMA, &table)?),
            None => None,
        };
        let state = ViewState {
            contents: name(crate::catalog::PUBLIC, &plan.table)?,
            checkpoint: self.checkpoint.clone(),
            tables,
            errors,
        };
        self.restored.insert(definition.id);
        Some(state)
    }
}

fn types_of(schema: &Schema) -> Vec<arrow::datatypes::DataType> {
    schema.fields().iter().map(|field| field.data_type().clone()).collect()
}

fn section<T: serde::de::DeserializeOwned>(checkpoint: &Checkpoint, name: &str, value: &Value) -> Result<T> {
    T::deserialize(value).map_err(|error| {
        let id = checkpoint.manifest().id();
        let message = format!("cannot start from checkpoint {id}: its section \"{name}\" is not understood: {error}");
        Error::new(ErrorKind::Corrupt, "CKPT-0104", message)
    })
}

fn damaged(id: &str, error: &Error, older: Option<String>) -> Error {
    let message = format!("cannot start: checkpoint {id}, the newest one, is damaged");
    let told = Error::new(ErrorKind::Corrupt, "CKPT-0103", message).fact("cause", error.message());
    match older {
        Some(older) => told.attempt(format!(
            "start with --allow-older-checkpoint: it goes on from checkpoint {older} and the log"
        )),
        None => {
            told.attempt("start with --allow-older-checkpoint, if the log is whole; or restore the folder from a copy")
        }
    }
}

fn no_start(first_record: u64, why: &str) -> Error {
    let message = format!(
        "cannot start: the log begins with record {first_record}, and what was before is in a checkpoint, but {why}"
    );
    Error::new(ErrorKind::Corrupt, "CKPT-0103", message).attempt("give the folder of checkpoints with --checkpoint-url")
}

impl Database {
    /// Starts a view that was there at the epoch that the engine starts at.
    pub(crate) async fn attach_view(
        self: &Arc<Self>,
        definition: ViewDefinition,
        start: &mut StartPoint,
    ) -> Result<Arc<crate::catalog::MaterializedView>> {
        let plan = match self.checked_view_plan(&definition).await {
            Ok(plan) => plan,
            Err(failed) => return self.failed_view(definition, failed),
        };
        let catalog = self.catalog();
        let reads = plan
            .reads()
            .filter(|id| matches!(catalog.by_id(*id), Some(Object::MaterializedView(_))));
        let reads: Vec<CollectionId> = reads.collect();
        let state = start.state_of(&definition, &plan, reads.into_iter());
        if state.is_none() {
            // It reads its inputs.
            start.filled().await?;
            let name = &definition.name;
            tracing::warn!("materialized view {name} is made anew: the checkpoint has no state of such a view");
        }
        let origin = state.map_or(Origin::Inputs, Origin::State);
        let (new, prepared) = self.prepare_view(definition, plan, origin, self.view_settings())?;
        self.engine().attach(new).await?;
        Ok(self.started_view(prepared, start.epoch(), start.epoch()))
    }

    /// Makes the commits of the log again that are later than the checkpoint.
    pub(crate) async fn make_again(self: &Arc<Self>, log: Replay, after: Epoch) -> Result<()> {
        let mut under_way = std::collections::VecDeque::new();
        let mut passing = self.passing_offsets();
        for record in log {
            let record = record?;
            if record.epoch <= after {
                continue;
            }
            let epoch = record.epoch;
            let mut logged = Logged::new(record, passing.clone());
            let ddl = logged.ddl()?;
            let redone = match &ddl {
                Some(text) => self.redo(text, &mut logged).await?,
                None => None,
            };
            under_way.push_back(self.engine().again(logged).await?);
            let view = match redone {
                None => None,
                Some(Redone::Started(prepared)) => Some(self.started_view(*prepared, epoch, epoch.previous())),
                Some(Redone::Replaced(view)) => Some(view),
                Some(Redone::Altered(table, indexes)) => {
                    // Its indexes are built of its rows.
                    for one in under_way.drain(..) {
                        done(one).await?;
                    }
                    self.change_catalog(|catalog| crate::ddl::put(catalog, table, indexes));
                    None
                }
            };
            if let Some(view) = view {
                self.change_catalog(|catalog| catalog.insert(Object::MaterializedView(view)));
            }
            if ddl.is_some() {
                passing = self.passing_offsets();
            }
            if under_way.len() >= UNDER_WAY_MAX
                && let Some(oldest) = under_way.pop_front()
            {
                done(oldest).await?;
            }
        }
        for one in under_way {
            done(one).await?;
        }
        Ok(())
    }

    /// The offsets of sources whose rows are in no log.
    fn passing_offsets(&self) -> Arc<BTreeSet<CollectionId>> {
        let catalog = self.catalog();
        let passing = catalog.objects().filter_map(|object| match object {
            Object::Table(table) if table.versioned.is_none() => table.definition.offsets,
            _ => None,
        });
        Arc::new(passing.collect())
    }

    /// Makes a change of the catalog again.
    ///
    /// # Returns
    /// What is in the catalog once the record is made.
    async fn redo(self: &Arc<Self>, text: &str, logged: &mut Logged) -> Result<Option<Redone>> {
        match crate::ddl::decode(text.as_bytes())? {
            DdlRecord::CreateTable(definition) => {
                let table = Arc::new(new_table(definition, &self.table_home())?);
                logged.create_tables = table.collections();
                self.change_catalog(|catalog| {
                    table.definition.offsets.into_iter().for_each(|id| catalog.reserve(id));
                    catalog.insert(Object::Table(table));
                });
            }
            DdlRecord::AlterTable(record) => {
                let catalog = self.catalog();
                let Some(Object::Table(old)) = catalog.by_id(record.definition.id) else {
                    let id = record.definition.id;
                    return Err(Error::bug(format!("the log alters table {id}, which is not there")));
                };
                let (table, alter) = record.prepare(&self.table_home())?;
                logged.alter = Some(alter);
                self.change_catalog(|catalog| catalog.reserve(record.number));
                let indexes = catalog.indexes_of(table.definition.id);
                let indexes = indexes.map(|index| record.renamed(&old.definition, &index.definition));
                return Ok(Some(Redone::Altered(table, indexes.collect())));
            }
            DdlRecord::CreateView(definition) => {
                if !definition.materialized {
                    self.insert_plain_view(definition).await;
                    return Ok(None);
                }
                match self.checked_view_plan(&definition).await {
                    Ok(plan) => {
                        let settings = self.view_settings();
                        let (new, prepared) = self.prepare_view(definition, plan, Origin::Inputs, settings)?;
                        logged.create_view = Some(new);
                        return Ok(Some(Redone::Started(Box::new(prepared))));
                    }
                    Err(failed) => {
                        let view = self.failed_view(definition, failed)?;
                        self.change_catalog(|catalog| catalog.insert(Object::MaterializedView(view)));
                    }
                }
            }
            DdlRecord::ReplaceMaterializedView { old, new } => return self.redo_replacement(old, new, logged).await,
            DdlRecord::ReplaceView { old, new } => {
                self.change_catalog(|catalog| catalog.remove(&[old]));
                self.insert_plain_view(new).await;
            }
            DdlRecord::CreateIndex(definition) => {
                self.change_catalog(|catalog| crate::ddl::insert(catalog, definition));
            }
            DdlRecord::CreateSink(definition) => {
                let sink = Arc::new(crate::sink::new_sink(definition, self.engine().retention()));
                logged.create_tables = vec![(sink.definition.progress, sink.progress.clone())];
                self.change_catalog(|catalog| catalog.insert_sink(sink));
            }
            DdlRecord::DropIndexes(names) => self.change_catalog(|catalog| {
                let dropped = names.iter().filter_map(|name| catalog.remove_index(name));
                dropped.for_each(|index| crate::ddl::forget(&index));
            }),
            DdlRecord::Drop(ids) => {
                self.change_catalog(|catalog| catalog.remove(&ids));
                logged.drops = ids;
            }
        }
        Ok(None)
    }

    /// Makes the replacement of a view again.
    async fn redo_replacement(
        self: &Arc<Self>,
        old: CollectionId,
        new: ViewDefinition,
        logged: &mut Logged,
    ) -> Result<Option<Redone>> {
        let replaced = match self.catalog().by_id(old) {
            Some(Object::MaterializedView(view)) => view.clone(),
            _ => return Err(Error::bug(format!("the log replaces view {old}, which is not there"))),
        };
        let plan = match self.checked_view_plan(&new).await {
            Ok(plan) => plan,
            Err(failed) => {
                logged.drops = vec![old];
                return Ok(Some(Redone::Replaced(self.failed_view(new, failed)?)));
            }
        };
        let replacement = Replacement::new(replaced, plan);
        let mut beside = new.clone();
        if replacement.takes_table() {
            self.change_catalog(|catalog| beside.id = catalog.allocate());
        }
        let beside = self.start_beside(&replacement, beside).await?;
        self.warn_unless_live(&beside).await;
        self.replays().end(beside.started_as);
        (logged.switch, logged.drops) = replacement.switch(&beside);
        // A view that could not be planned any more is only in the catalog.
        logged.drops.retain(|dropped| *dropped != new.id);
        Ok(Some(Redone::Replaced(Arc::new(replacement.placed(&beside, new)))))
    }

    /// A plain view; one that cannot be planned any more tells whoever reads it.
    pub(crate) async fn insert_plain_view(self: &Arc<Self>, definition: ViewDefinition) {
        let columns = self.columns_of_view(&definition).await.unwrap_or_else(|error| {
            tracing::warn!("view {}: {}", definition.name, error.message());
            Arc::new(Schema::empty())
        });
        let view = Arc::new(PlainView { definition, columns });
        self.change_catalog(|catalog| catalog.insert(Object::View(view)));
    }

    pub(crate) fn change_catalog(&self, change: impl FnOnce(&mut Catalog)) {
        let mut catalog = (*self.catalog()).clone();
        change(&mut catalog);
        self.set_catalog(catalog);
    }
}

async fn done(waiting: tokio::sync::oneshot::Receiver<Result<()>>) -> Result<()> {
    let stopped = |_| Error::bug("the engine stopped while the log was read");
    waiting.await.map_err(stopped)?
}
