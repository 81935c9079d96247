//! `AS OF CHECKPOINT 'id'` and `AS OF SAVEPOINT name`: tables, views and state as a checkpoint holds them, read in place.
//!
//! # Rules kept here
//! 1. Only the files of the tables that a query reads are opened, each checked before a row of it is used.
//! 2. A plain view is its query of today over the tables of then.
//!
//! # Not here
//! Where the clause stands in a statement (`past`); the files' format ([`cenote_statestore::checkpoint`]).

use crate::attached::{AttachedBatches, AttachedRead, AttachedTable};
use crate::catalog::{CATALOG_SCHEMA, Catalog, Object, PUBLIC, STATE_SCHEMA};
use crate::checkpoints::blocking;
use crate::database::Database;
use crate::error::unsupported;
use crate::inventory::{STATE, StateInventory};
use crate::past::{Moment, Named};
use async_trait::async_trait;
use cenote_engine::ROW_ID;
use cenote_statestore::checkpoint::{Checkpoint, KeyGroups, Manifest, Store, TableEntry};
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::error::Result as PlanResult;
use std::fmt;
use std::sync::Arc;

/// Rows given at once where a row is there several times.
const ROWS_PER_BATCH: usize = 8192;

/// Everything in one checkpoint.
pub(crate) struct Kept {
    id: String,
    epoch: u64,
    tables: Vec<AttachedTable>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.id)
    }
}

impl Database {
    /// The checkpoint that a moment names; `None`: it names none.
    ///
    /// # Errors
    /// `Invalid` 42704: there is no such savepoint or checkpoint. `Corrupt`: its manifest is damaged.
    pub(crate) async fn kept(self: &Arc<Self>, moment: &Moment) -> Result<Option<Arc<Kept>>> {
        if matches!(moment, Moment::Epoch(_) | Moment::Timestamp(_)) {
            return Ok(None);
        }
        let (database, moment) = (self.clone(), moment.clone());
        let opened = blocking(move || {
            let store = database.checkpointer().store()?;
            let id = match &moment {
                Moment::Epoch(_) | Moment::Timestamp(_) => return Ok(None),
                Moment::Checkpoint(id) => id.clone(),
                Moment::Savepoint(name) => {
                    let id = store.checkpoints().savepoint(name)?;
                    id.ok_or_else(|| no_savepoint(name, &store))?.to_string()
                }
            };
            store.checkpoints().open(&id).map(Some)
        });
        Ok(opened.await?.map(|checkpoint| Arc::new(Kept::of(&checkpoint))))
    }

    /// The newest checkpoint that was taken at a time or before, for one that memory does not hold any more.
    ///
    /// # Errors
    /// `Expired` STATE-0104: there is none; tells from when on there is anything.
    pub(crate) async fn kept_before(self: &Arc<Self>, time: i64) -> Result<Arc<Kept>> {
        let database = self.clone();
        let found = blocking(move || {
            let Some(store) = database.checkpointer().existing()? else {
                return Ok((None, None));
            };
            let all = store.checkpoints().all()?.into_iter();
            let whole: Vec<Manifest> = all.filter_map(|(_, manifest)| manifest.ok()).collect();
            let first = whole.iter().map(|manifest| manifest.time_ms * 1000).min();
            let earlier = whole.iter().filter(|manifest| manifest.time_ms * 1000 <= time);
            let newest = earlier.max_by_key(|manifest| (manifest.time_ms, manifest.sequence));
            let opened = newest.map(|manifest| store.checkpoints().open(manifest.id().as_str()));
            Ok((opened.transpose()?, first))
        });
        let (checkpoint, first) = found.await?;
        let checkpoint = checkpoint.ok_or_else(|| {
            let asked = crate::past::shown_time(time);
            let in_memory = self.engine().progress().sealed_times().first().map(|(_, time)| *time);
            let message = format!("cannot read as of {asked}: its history was dropped");
            let error = Error::new(ErrorKind::Expired, "STATE-0104", message);
            let error = match in_memory {
                Some(time) => error.fact("in memory", format!("{} and later", crate::past::shown_time(time))),
                None => error,
            };
            match first {
                Some(time) => error.fact("in checkpoints", format!("{} and later", crate::past::shown_time(time))),
                None => error.attempt("take checkpoints, or raise `retain_epochs` or `retain_time`"),
            }
        })?;
        Ok(Arc::new(Kept::of(&checkpoint)))
    }

    /// The newest checkpoint of exactly that epoch, for one that memory does not hold any more.
    pub(crate) async fn kept_at(self: &Arc<Self>, epoch: Epoch) -> Option<Arc<Kept>> {
        let database = self.clone();
        let found = blocking(move || {
            let checkpoints = database.checkpointer().store()?;
            let all = checkpoints.checkpoints().all()?.into_iter().rev();
            let mut whole = all.filter_map(|(_, manifest)| manifest.ok());
            match whole.find(|manifest| manifest.epoch == epoch.0) {
                Some(manifest) => checkpoints.checkpoints().open(manifest.id().as_str()).map(Some),
                None => Ok(None),
            }
        });
        let checkpoint = found.await.ok().flatten()?;
        Some(Arc::new(Kept::of(&checkpoint)))
    }
}

impl Kept {
    fn of(checkpoint: &Checkpoint) -> Kept {
        let manifest = checkpoint.manifest();
        let tables = manifest.tables.iter().map(|table| table_of(checkpoint, table));
        let state = StateInventory::of_checkpoint(checkpoint);
        let state = AttachedTable::of_state(CATALOG_SCHEMA, STATE, state);
        Kept {
            id: manifest.id().to_string(),
            epoch: manifest.epoch,
            tables: tables.chain([state]).collect(),
        }
    }

    fn find(&self, schema: &str, name: &str) -> Option<&AttachedTable> {
        let mut tables = self.tables.iter();
        tables.find(|table| table.schema_name == schema && table.name == name)
    }

    /// Refuses a relation that the checkpoint does not hold.
    ///
    /// # Errors
    /// `Invalid` 42P01.
    pub(crate) fn check(&self, named: &Named, catalog: &Catalog) -> Result<()> {
        let schema = named.schema.as_deref().unwrap_or(PUBLIC);
        let is_view = schema == PUBLIC && matches!(catalog.get(&named.name), Some(Object::View(_)));
        if is_view || self.find(schema, &named.name).is_some() {
            return Ok(());
        }
        let message = format!("relation \"{}\" is not in checkpoint {}", named.name, self.id);
        let error = Error::new(ErrorKind::Invalid, "SQL-0202", message).sqlstate("42P01");
        Err(error.fact("epoch", self.epoch.to_string()))
    }
}

/// A table of a checkpoint, without the column that numbers its rows where no user gave it one.
fn table_of(checkpoint: &Checkpoint, table: &TableEntry) -> AttachedTable {
    let schema = table.table_schema();
    let shown = (0..schema.fields().len()).filter(|column| schema.field(*column).name() != ROW_ID);
    let shown: Vec<usize> = shown.collect();
    let columns = Arc::new(schema.project(&shown).expect("columns of the schema"));
    let (checkpoint, name) = (checkpoint.clone(), table.readable_name());
    let read: AttachedRead = Arc::new(move || {
        let rows = checkpoint.read_table(&name, KeyGroups::ALL)?.repeated(ROWS_PER_BATCH);
        let shown = shown.clone();
        let batches: AttachedBatches = Box::new(rows.map(move |rows| Ok(rows?.project(&shown)?)));
        Ok(batches)
    });
    AttachedTable::new(&table.schema, &table.name, columns, read)
}

fn no_savepoint(name: &str, store: &Store) -> Error {
    let message = format!("cannot read as of savepoint \"{name}\": there is none of that name");
    let error = Error::new(ErrorKind::Invalid, "CKPT-0102", message).sqlstate("42704");
    let known = store.checkpoints().each_savepoint().unwrap_or_default();
    let known: Vec<String> = known
        .into_iter()
        .filter_map(|(_, savepoint)| Some(savepoint.ok()?.0))
        .collect();
    match known.is_empty() {
        true => error.attempt("CREATE SAVEPOINT makes one"),
        false => error.attempt(format!("the savepoints there are: {}", known.join(", "))),
    }
}

/// A checkpoint as a catalog of the planner.
#[derive(Debug)]
pub(crate) struct KeptCatalog(pub(crate) Arc<Kept>);

#[derive(Debug)]
struct KeptSchema {
    kept: Arc<Kept>,
    name: String,
}

impl CatalogProvider for KeptCatalog {
    fn schema_names(&self) -> Vec<String> {
        [PUBLIC, STATE_SCHEMA, CATALOG_SCHEMA].map(String::from).to_vec()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        Some(Arc::new(KeptSchema {
            kept: self.0.clone(),
            name: name.to_string(),
        }))
    }
}

#[async_trait]
impl SchemaProvider for KeptSchema {
    fn table_names(&self) -> Vec<String> {
        let here = self.kept.tables.iter().filter(|table| table.schema_name == self.name);
        here.map(|table| table.name.clone()).collect()
    }

    async fn table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = crate::catalog::older_columns_of(name) {
            let what = format!("a view that is older than the newest columns of table \"{table}\", as of a checkpoint");
            let error = unsupported(what).attempt("read the table itself as of the checkpoint");
            return Err(crate::provider::outside(error));
        }
        let found = self.kept.find(&self.name, name);
        Ok(found.map(AttachedTable::provider))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.kept.find(&self.name, name).is_some()
    }
}
