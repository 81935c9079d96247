//! A small database around an engine: tables, views, commits, and what every table held at every epoch.

use crate::models::view::{Collections, results};
use crate::plan::{CollectionId, ViewPlan};
use crate::rows::{Bag, Random, Row, add, bag, batch, rows};
use arrow::array::{RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_engine::{
    Commit, Engine, EngineConfig, NewView, OnConflict, ROW_ID, Recovered, RetentionRule, StateRead, StateRows,
    TableWrite, ViewMeters, ViewStatus,
};
use cenote_statestore::{Digest, Epoch, Pin, Result, TableSchema, VersionedTable};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// A running engine with its tables and views.
pub struct Database {
    pub engine: Arc<Engine>,
    pub runtime: Runtime,
    pub tables: BTreeMap<CollectionId, Arc<VersionedTable>>,
    pub views: BTreeMap<CollectionId, View>,
    /// What every table held at every epoch so far.
    pub past: BTreeMap<u64, Collections>,
    next_id: u64,
}

pub struct View {
    pub plan: ViewPlan,
    pub status: Arc<ViewStatus>,
    pub table: Arc<VersionedTable>,
    pub errors: Option<Arc<VersionedTable>>,
    pub since: Epoch,
}

pub fn config(workers: usize, log_dir: Option<PathBuf>) -> EngineConfig {
    EngineConfig {
        workers,
        log_dir,
        retention: RetentionRule {
            epochs: 1 << 40,
            time: Duration::ZERO,
        },
        memory_limit: None,
    }
}

/// Columns as they are stored: a table without a key numbers its rows.
pub fn stored(name: &str, columns: &SchemaRef, key: &[usize]) -> TableSchema {
    let mut fields: Vec<_> = columns.fields().iter().cloned().collect();
    let mut key = key.to_vec();
    if key.is_empty() {
        key.push(fields.len());
        fields.push(Arc::new(Field::new(ROW_ID, DataType::Int64, false)));
    }
    TableSchema {
        name: name.into(),
        columns: Arc::new(Schema::new(fields)),
        key,
        unique: true,
    }
}

impl Database {
    pub fn start(workers: usize) -> Database {
        let recovered = Recovered::open(config(workers, None), Arc::default(), &[]).unwrap();
        Database::over(recovered.start().unwrap(), BTreeMap::new())
    }

    /// Around an engine whose tables exist.
    pub fn over(engine: Engine, tables: BTreeMap<CollectionId, Arc<VersionedTable>>) -> Database {
        let next_id = tables.keys().last().map_or(1, |id| id.0 + 1);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (past, views) = (
            BTreeMap::from([(engine.visible().0, Collections::new())]),
            BTreeMap::new(),
        );
        Database {
            engine: Arc::new(engine),
            runtime,
            tables,
            views,
            past,
            next_id,
        }
    }

    fn new_id(&mut self) -> CollectionId {
        self.next_id += 1;
        CollectionId(self.next_id)
    }

    pub fn new_table(&self, schema: TableSchema, shards: usize) -> Arc<VersionedTable> {
        Arc::new(VersionedTable::new(
            schema,
            shards,
            true,
            self.engine.retention().clone(),
            64 << 20,
        ))
    }

    pub fn commit(&mut self, commit: Commit) -> Result<Epoch> {
        let epoch = self.runtime.block_on(self.engine.commit(commit))?;
        let before = self.past.last_key_value().unwrap().1.clone();
        self.past.insert(epoch.0, before);
        Ok(epoch)
    }

    /// What the tables hold as of the last commit.
    pub fn now(&mut self) -> &mut Collections {
        self.past.last_entry().unwrap().into_mut()
    }

    pub fn create_table(&mut self, name: &str, columns: &SchemaRef, key: &[usize]) -> CollectionId {
        let id = self.new_id();
        let table = self.new_table(stored(name, columns, key), 1);
        self.tables.insert(id, table.clone());
        self.commit(Commit {
            create_tables: vec![(id, table)],
            ..Commit::default()
        })
        .unwrap();
        self.now().insert(id, Bag::new());
        id
    }

    pub fn prepare_view(&mut self, plan: ViewPlan) -> (CollectionId, NewView) {
        let (id, status) = (self.new_id(), Arc::<ViewStatus>::default());
        let table = self.new_table(plan.table.clone(), self.engine.workers());
        let errors = plan
            .errors_table()
            .map(|errors| self.new_table(errors, self.engine.workers()));
        let view = View {
            errors: errors.clone(),
            plan: plan.clone(),
            status: status.clone(),
            table: table.clone(),
            since: Epoch::ZERO,
        };
        self.views.insert(id, view);
        (
            id,
            NewView {
                id,
                meters: Arc::new(ViewMeters::new(plan.nodes.len())),
                errors,
                is_followed: true,
                plan,
                status,
                table,
                replays: BTreeMap::new(),
                state: None,
                replaces: None,
                spill: None,
            },
        )
    }

    pub fn create_view(&mut self, plan: ViewPlan) -> CollectionId {
        let (id, view) = self.prepare_view(plan);
        let since = self
            .commit(Commit {
                create_view: Some(view),
                ..Commit::default()
            })
            .unwrap();
        self.views.get_mut(&id).unwrap().since = since;
        id
    }

    pub fn drop_view(&mut self, id: CollectionId) -> View {
        self.commit(Commit {
            drops: vec![id],
            ..Commit::default()
        })
        .unwrap();
        self.views.remove(&id).unwrap()
    }

    /// A write of rows to insert.
    pub fn inserts(&self, table: CollectionId, given: &[Row]) -> TableWrite {
        let stored = self.tables[&table].schema();
        let visible = cenote_engine::visible_columns(&stored.columns);
        TableWrite {
            table,
            deletes: Vec::new(),
            inserts: vec![batch(&visible, given)],
            on_conflict: OnConflict::Refuse,
            truncate: false,
        }
    }

    /// Inserts rows in one commit.
    pub fn insert(&mut self, table: CollectionId, given: &[Row]) -> Epoch {
        let write = self.inserts(table, given);
        let epoch = self
            .commit(Commit {
                writes: vec![write],
                ..Commit::default()
            })
            .unwrap();
        let held = self.now().entry(table).or_default();
        given.iter().for_each(|row| add(held, row, 1));
        epoch
    }

    /// All stored rows of a table as of the last commit, hidden columns included.
    pub fn stored_rows(&self, table: CollectionId) -> RecordBatch {
        let table = &self.tables[&table];
        self.runtime.block_on(self.engine.wait_visible(self.last())).unwrap();
        let pin = self.engine.retention().pin(self.last()).unwrap();
        let batches = scan(table, pin);
        arrow::compute::concat_batches(&table.schema().columns, &batches).unwrap()
    }

    /// The epoch of the last commit.
    pub fn last(&self) -> Epoch {
        Epoch(*self.past.last_key_value().unwrap().0)
    }

    /// Changes a table at random in one commit: deletions, updates and insertions, sometimes a truncation.
    pub fn churn(&mut self, random: &mut Random, table: CollectionId, make: &mut dyn FnMut(&mut Random) -> Row) {
        let stored = self.stored_rows(table);
        let key = self.tables[&table].schema().key.clone();
        let visible = cenote_engine::visible_columns(&stored.schema()).fields().len();
        let truncate = random.one_in(25);
        let gone: Vec<u32> = (0..stored.num_rows() as u32).filter(|_| random.one_in(6)).collect();
        let deletes = arrow::compute::take_record_batch(&stored, &UInt32Array::from(gone)).unwrap();
        let mut held = if truncate {
            Bag::new()
        } else {
            self.now()[&table].clone()
        };
        if !truncate {
            rows(&deletes)
                .iter()
                .for_each(|row| add(&mut held, &row[..visible].to_vec(), -1));
        }
        let mut inserts = Vec::new();
        for _ in 0..random.below(8) {
            let row = make(random);
            if visible < stored.num_columns() || !held.keys().any(|other| key.iter().all(|k| other[*k] == row[*k])) {
                add(&mut held, &row, 1);
                inserts.push(row);
            }
        }
        let mut write = self.inserts(table, &inserts);
        write.truncate = truncate;
        if !truncate {
            write.deletes.push(deletes);
        }
        let read_at = self.last();
        self.commit(Commit {
            writes: vec![write],
            read_at,
            ..Commit::default()
        })
        .unwrap();
        self.now().insert(table, held);
    }

    /// Commits that do not wait for each other, in whatever order they come through.
    pub fn burst(&mut self, writes: Vec<Blind>) {
        let engine = self.engine.clone();
        let commits: Vec<Commit> = writes.iter().map(|write| self.blind_commit(write)).collect();
        let mut done: Vec<(Epoch, usize)> = self.runtime.block_on(async move {
            let mut tasks = JoinSet::new();
            for (number, commit) in commits.into_iter().enumerate() {
                let engine = engine.clone();
                tasks.spawn(async move { (engine.commit(commit).await.unwrap(), number) });
            }
            tasks.join_all().await
        });
        done.sort();
        for (epoch, number) in done {
            let mut held = self.past.last_key_value().unwrap().1.clone();
            writes[number].apply(&mut held, &self.tables);
            self.past.insert(epoch.0, held);
        }
    }

    fn blind_commit(&self, blind: &Blind) -> Commit {
        let write = self.inserts(blind.table, &blind.rows);
        let write = TableWrite {
            on_conflict: OnConflict::Replace,
            truncate: blind.truncate,
            ..write
        };
        Commit {
            writes: vec![write],
            ..Commit::default()
        }
    }

    pub fn wait(&self) {
        self.runtime.block_on(self.engine.wait_visible(self.last())).unwrap();
    }

    /// Waits until a view has its first contents.
    pub fn wait_live(&self, view: CollectionId) -> Result<()> {
        self.runtime.block_on(self.views[&view].status.wait_live())
    }

    pub fn contents(&self, view: CollectionId, epoch: Epoch) -> Bag {
        bag(&scan(
            &self.views[&view].table,
            self.engine.retention().pin(epoch).unwrap(),
        ))
    }

    /// Everything that there is at an epoch by the models: tables, and views over them that had been created.
    pub fn everything(&self, epoch: u64) -> Collections {
        let mut all = self.past[&epoch].clone();
        for (id, view) in self.views.iter().filter(|(_, view)| view.since.0 <= epoch) {
            all.insert(*id, results(&view.plan, &all));
        }
        all
    }

    /// Compares every view with its plan over the tables' contents, at every epoch since it was created.
    pub fn check_all_epochs(&self) {
        self.wait();
        for id in self.views.keys() {
            self.wait_live(*id).unwrap();
        }
        for epoch in self.past.keys() {
            let wanted = self.everything(*epoch);
            for (id, view) in self.views.iter().filter(|(_, view)| view.since.0 <= *epoch) {
                let got = self.contents(*id, Epoch(*epoch));
                let name = &view.plan.table.name;
                assert!(
                    got == wanted[id],
                    "`{name}` at epoch {epoch} holds\n{got:?}\nbut should hold\n{:?}",
                    wanted[id]
                );
            }
        }
    }

    /// Digest of a view as of the last commit.
    pub fn digest(&self, view: CollectionId) -> String {
        let mut digest = Digest::default();
        for rows in scan(
            &self.views[&view].table,
            self.engine.retention().pin(self.last()).unwrap(),
        ) {
            digest.update(&rows, None).unwrap();
        }
        digest.finish_hex()
    }

    /// A state table of a view's node: the epoch it was read at, and its rows.
    pub fn state(&self, view: CollectionId, node: usize, table: usize) -> Result<(Epoch, Vec<RecordBatch>)> {
        self.runtime.block_on(read_state(
            &self.engine,
            StateRead {
                view,
                started_as: view,
                node,
                table,
                rows: StateRows::All,
            },
        ))
    }
}

/// Reads one state table.
pub async fn read_state(engine: &Engine, read: StateRead) -> Result<(Epoch, Vec<RecordBatch>)> {
    let (epoch, mut rows) = engine.read_state(vec![read]).await?;
    Ok((epoch, rows.remove(0)))
}

/// A write that reads nothing: rows put in by their key, after everything is deleted if so asked.
pub struct Blind {
    pub table: CollectionId,
    pub rows: Vec<Row>,
    pub truncate: bool,
}

impl Blind {
    fn apply(&self, held: &mut Collections, tables: &BTreeMap<CollectionId, Arc<VersionedTable>>) {
        let schema = tables[&self.table].schema();
        let held = held.entry(self.table).or_default();
        if self.truncate {
            held.clear();
        }
        for row in &self.rows {
            if !cenote_engine::is_row_numbered(&schema.columns) {
                held.retain(|other, _| schema.key.iter().any(|key| other[*key] != row[*key]));
            }
            add(held, row, 1);
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.engine.shutdown();
    }
}

pub fn scan(table: &Arc<VersionedTable>, pin: Pin) -> Vec<RecordBatch> {
    let all = (0..table.schema().columns.fields().len()).collect();
    let mut scan = table.scan(pin, all, 0..table.shards());
    std::iter::from_fn(|| scan.next_batch(1000).unwrap()).collect()
}
