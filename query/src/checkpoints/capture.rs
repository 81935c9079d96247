//! What goes into a checkpoint, and how much of each table: all of it, or what has changed since the last one.
//!
//! # Rules kept here
//! 1. What is written of a table follows what has changed of it. Where that has grown to half of the table, or is in many files, it
//!    is written whole again, so that reading it stays cheap.
//! 2. An addition is made only to a checkpoint that was published, of a table whose changes were noted since then without a gap.
//!
//! # Source
//! Bases and deltas that are merged when they have grown: O'Neil et al., "The Log-Structured Merge-Tree", Acta Informatica 1996.

use super::sections;
use crate::catalog::{CATALOG_SCHEMA, Catalog, Object, PUBLIC, STATE_SCHEMA};
use crate::database::{Database, StateTable};
use arrow::array::RecordBatch;
use cenote_engine::StateRows;
use cenote_engine::kernel::{LaterRows, StateChanges, state_identity};
use cenote_engine::plan::CollectionId;
use cenote_statestore::checkpoint::{
    KeyGroups, Kind, Manifest, PartKind, Sealed, Store, TableKind, TableNumber, TableState, Writer,
};
use cenote_statestore::{Changes, Delta, DeltaRows, Epoch, Error, Pin, Result, VersionedTable};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Rows written at once.
const ROWS_PER_BATCH: usize = 64 * 1024;

/// Tables whose changes are written at once: they are short, and what they wait for is the disk.
const ADDITIONS_AT_ONCE: usize = 4;

/// Files of changes on top of a table's base beyond which it is written whole.
const DELTAS_MAX: usize = 64;

/// A state table of an operator: its view as it was started, the plan's node, the number of the table.
type StateKey = (CollectionId, usize, usize);

/// A published checkpoint, and the tables whose changes are noted since.
#[derive(Debug)]
pub(crate) struct Lineage {
    manifest: Manifest,
    states: BTreeSet<StateKey>,
    /// By the name that users give them.
    tables: BTreeMap<String, Weak<VersionedTable>>,
}

/// When a checkpoint is given up.
pub(super) struct Deadline {
    pub(super) at: Instant,
    pub(super) error: Error,
}

impl Deadline {
    fn check(&self) -> Result<()> {
        match Instant::now() > self.at {
            true => Err(self.error.clone()),
            false => Ok(()),
        }
    }
}

/// Everything at one epoch, to be written.
pub(super) struct Capture {
    epoch: Epoch,
    tables: Vec<Captured>,
    sections: BTreeMap<String, Value>,
    /// The checkpoint that parts are added to.
    previous: Option<Manifest>,
    states: BTreeSet<StateKey>,
}

struct Captured {
    state: TableState,
    contents: Contents,
}

enum Contents {
    /// A table as of a pin.
    Table(Arc<VersionedTable>, Pin),
    /// What has changed of a table after an epoch.
    Delta(Arc<VersionedTable>, Epoch, Pin),
    /// An operator's table.
    Rows(Vec<LaterRows>),
    /// What has changed of an operator's table, and how many rows it has now.
    Changed(StateChanges, u64),
}

impl Lineage {
    /// What a database goes on from that has started from a checkpoint.
    ///
    /// # Arguments
    /// - `restored`: views that go on from their state.
    pub(crate) fn of_start(
        manifest: Manifest,
        catalog: &Catalog,
        errors: &Arc<VersionedTable>,
        restored: &BTreeSet<CollectionId>,
    ) -> Lineage {
        let (mut states, mut tables) = (BTreeSet::new(), BTreeMap::new());
        let mut note = |(state, table): (TableState, Arc<VersionedTable>)| {
            table.keep_deletions(Epoch(manifest.epoch));
            tables.insert(state.readable_name(), Arc::downgrade(&table));
        };
        note(errors_table(errors));
        for object in catalog.objects() {
            match object {
                Object::MaterializedView(view) if !restored.contains(&view.definition.id) => {}
                Object::MaterializedView(view) => {
                    states.extend(StateTable::of_view(view).iter().map(key_of));
                    tables_of(object).into_iter().for_each(&mut note);
                }
                _ => tables_of(object).into_iter().for_each(&mut note),
            }
        }
        Lineage {
            manifest,
            states,
            tables,
        }
    }

    /// Whether what has changed of a table is little enough to be added.
    fn takes_more(&self, table: &TableState) -> bool {
        let entry = self.manifest.table(&table.readable_name());
        let buckets = entry.map_or(&[][..], |entry| &entry.buckets);
        buckets.iter().all(|bucket| {
            let of = |kind: PartKind| bucket.parts.iter().filter(move |part| part.kind == kind);
            let rows = |kind| of(kind).map(|part| part.rows).sum::<u64>();
            of(PartKind::Delta).count() < DELTAS_MAX && rows(PartKind::Delta) * 2 <= rows(PartKind::Base)
        }) && !buckets.is_empty()
    }

    /// Whether all changes of a table are noted since.
    fn follows(&self, name: &str, table: &Arc<VersionedTable>) -> bool {
        let known = self.tables.get(name).and_then(Weak::upgrade);
        let is_the_same = known.is_some_and(|known| Arc::ptr_eq(&known, table));
        is_the_same && table.knows_deletions(Epoch(self.manifest.epoch))
    }
}

fn key_of(table: &StateTable) -> StateKey {
    (table.view.started_as, table.node, table.table)
}

impl Database {
    /// Copies operators' state at the newest epoch, or what has changed of it, and pins it for tables and views.
    ///
    /// # Arguments
    /// - `lineage`: what may be added to.
    pub(super) async fn capture(self: &Arc<Self>, lineage: Option<Lineage>) -> Result<Capture> {
        // What there is must be the same before and after the epoch is chosen.
        let still = self.lock_catalog().await;
        let catalog = self.catalog();
        let lineage = lineage.as_ref();
        let mut tables = vec![errors_table(self.errors())];
        tables.extend(catalog.objects().flat_map(tables_of));
        tables.extend(
            catalog
                .sinks()
                .map(|sink| versioned(STATE_SCHEMA, TableKind::Sink, &sink.progress)),
        );
        let earlier = self.engine().visible();
        let followed = tables.into_iter().map(|(state, table)| {
            let lineage = lineage.filter(|lineage| lineage.follows(&state.readable_name(), &table));
            if lineage.is_none() {
                // What is kept of deletions is of no use, or was given up as too much.
                table.keep_deletions(earlier);
            }
            (state, table, lineage)
        });
        let followed: Vec<_> = followed.collect();
        let mut states = self.state_tables(&catalog);
        states.retain(|state| state.view.status.failure().is_none());
        let states: Vec<(TableState, StateTable)> = states.into_iter().map(|table| (state_of(&table), table)).collect();
        let part_of = |(state, table): &(TableState, StateTable)| {
            let known = lineage.filter(|lineage| lineage.states.contains(&key_of(table)));
            match known.is_some_and(|lineage| lineage.takes_more(state)) {
                true => StateRows::Changed,
                false => StateRows::Base,
            }
        };
        let reads = states.iter().map(|state| state.1.read(part_of(state))).collect();
        let (sealed, found) = self.engine().read_sealed_state(reads).await?;
        let epoch = sealed.epoch;
        self.engine().wait_visible(epoch).await?;
        let pin = self.engine().retention().pin(epoch)?;
        drop(still);
        let tables = followed.into_iter().map(|(state, table, lineage)| Captured {
            contents: contents_of(&state, table, lineage, &pin),
            state,
        });
        let operators = states.iter().zip(found).map(|(state, found)| Captured {
            contents: match part_of(state) {
                StateRows::Changed => Contents::Changed(found.rows, found.size),
                _ => Contents::Rows(found.base),
            },
            state: state.0.clone(),
        });
        Ok(Capture {
            epoch,
            tables: tables.chain(operators).collect(),
            sections: sections(&catalog, sealed)?,
            previous: lineage.map(|lineage| lineage.manifest.clone()),
            states: states.iter().map(|(_, table)| key_of(table)).collect(),
        })
    }
}

/// # Arguments
/// - `lineage`: what follows the table.
fn contents_of(state: &TableState, table: Arc<VersionedTable>, lineage: Option<&Lineage>, pin: &Pin) -> Contents {
    let lineage = lineage.filter(|lineage| lineage.takes_more(state));
    let after = lineage.map(|lineage| Epoch(lineage.manifest.epoch));
    match after.filter(|after| table.delta(*after, pin.clone()).is_some()) {
        Some(after) => Contents::Delta(table, after, pin.clone()),
        None => Contents::Table(table, pin.clone()),
    }
}

impl Capture {
    /// The epoch that everything is of.
    pub(super) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Writes and publishes it.
    ///
    /// # Returns
    /// Its manifest, and what the next one can be an addition to.
    pub(super) fn write(self, store: &Store, kind: Kind, deadline: &Deadline) -> Result<(Manifest, Lineage)> {
        let adds = self.tables.iter().any(|table| table.contents.is_addition());
        let writer = store.begin(self.previous.as_ref().filter(|_| adds))?;
        let mut tables = BTreeMap::new();
        for captured in &self.tables {
            if let Contents::Table(table, _) | Contents::Delta(table, _, _) = &captured.contents {
                tables.insert(captured.state.readable_name(), Arc::downgrade(table));
            }
        }
        let (additions, whole): (Vec<_>, Vec<_>) = self
            .tables
            .into_iter()
            .partition(|captured| captured.contents.is_addition());
        whole
            .into_iter()
            .try_for_each(|captured| captured.write(&writer, deadline))?;
        write_additions(additions, &writer, deadline)?;
        let manifest = writer.publish(Sealed {
            epoch: self.epoch,
            kind,
            catalog_version: self.epoch.0,
            sections: self.sections,
        })?;
        for table in tables.values().filter_map(Weak::upgrade) {
            table.drop_deletions(self.epoch);
        }
        let lineage = Lineage {
            manifest: manifest.clone(),
            states: self.states,
            tables,
        };
        Ok((manifest, lineage))
    }
}

/// Writes what has changed of tables, some of them at once.
fn write_additions(additions: Vec<Captured>, writer: &Writer, deadline: &Deadline) -> Result<()> {
    let threads = additions.len().min(ADDITIONS_AT_ONCE);
    let left = parking_lot::Mutex::new(additions);
    let write_some = || -> Result<()> {
        loop {
            let Some(captured) = left.lock().pop() else {
                return Ok(());
            };
            captured.write(writer, deadline)?;
        }
    };
    if threads < 2 {
        return write_some();
    }
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(write_some)).collect();
        threads.into_iter().try_for_each(|thread| {
            let done = thread.join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    })
}

impl Captured {
    fn write(self, writer: &Writer, deadline: &Deadline) -> Result<()> {
        deadline.check()?;
        let number = writer.table(self.state.clone())?;
        writer.count(number, 0);
        let part = |kind, batches: &mut dyn Iterator<Item = Result<RecordBatch>>| {
            let batches = batches.map(|rows| deadline.check().and(rows));
            writer.part(number, KeyGroups::ALL, kind, batches).map(drop)
        };
        let state = &self.state;
        match self.contents {
            Contents::Table(table, pin) => {
                let columns = (0..table.schema().columns.fields().len()).collect();
                let mut scan = table.scan(pin, columns, 0..table.shards());
                let rows = std::iter::from_fn(|| scan.next_weighted(ROWS_PER_BATCH).transpose());
                part(
                    PartKind::Base,
                    &mut rows.map(|rows| counted(writer, number, state, &rows?)),
                )
            }
            Contents::Rows(rows) => {
                let rows = rows.into_iter().flatten();
                let mut rows = rows.map(|rows| counted(writer, number, state, &Changes::insertions(rows?)));
                part(PartKind::Base, &mut rows)
            }
            Contents::Delta(table, after, pin) => {
                writer.count(number, table.count(&pin)?);
                let lost = || Error::bug(format!("what was deleted from `{}` is not known", state.name));
                let delta: Delta = table.delta(after, pin).ok_or_else(lost)?;
                let mut rows = delta.map(|rows| match rows? {
                    DeltaRows::There(rows) => state.delta_rows(&rows),
                    DeltaRows::Gone(rows) => state.gone_rows(rows.columns(), rows.num_rows()),
                });
                part(PartKind::Delta, &mut rows)
            }
            Contents::Changed(StateChanges { there, gone }, size) => {
                writer.count(number, size);
                let there = there
                    .into_iter()
                    .map(|rows| state.delta_rows(&Changes::insertions(rows)));
                let gone = gone.iter().map(|rows| state.gone_rows(rows.columns(), rows.num_rows()));
                part(PartKind::Delta, &mut there.chain(gone))
            }
        }
    }
}

/// Rows of a base, which are counted.
fn counted(writer: &Writer, number: TableNumber, state: &TableState, rows: &Changes) -> Result<RecordBatch> {
    let weights = (0..rows.len()).map(|row| rows.weights().get(row) as u64);
    writer.count(number, weights.sum());
    state.base_rows(rows)
}

impl Contents {
    fn is_addition(&self) -> bool {
        matches!(self, Contents::Delta(..) | Contents::Changed(..))
    }
}

fn errors_table(errors: &Arc<VersionedTable>) -> (TableState, Arc<VersionedTable>) {
    versioned(CATALOG_SCHEMA, TableKind::Source, errors)
}

/// The tables of an object: its rows, and the state beside them that no operator holds.
fn tables_of(object: &Object) -> Vec<(TableState, Arc<VersionedTable>)> {
    match object {
        Object::Table(table) => {
            let rows = table
                .versioned
                .iter()
                .map(|rows| versioned(PUBLIC, TableKind::Table, rows));
            let offsets = table.offsets.iter();
            let offsets = offsets.map(|rows| versioned(STATE_SCHEMA, TableKind::Source, rows));
            rows.chain(offsets).collect()
        }
        Object::View(_) => Vec::new(),
        Object::MaterializedView(view) if view.status.failure().is_some() => Vec::new(),
        Object::MaterializedView(view) => {
            let errors = view.errors.iter();
            let errors = errors.map(|rows| versioned(STATE_SCHEMA, TableKind::State, rows));
            let mut kept = vec![versioned(PUBLIC, TableKind::View, &view.versioned)];
            kept.extend(errors);
            for (state, _) in &mut kept {
                state.view = Some(view.definition.name.clone());
            }
            kept
        }
    }
}

fn versioned(schema: &str, kind: TableKind, table: &Arc<VersionedTable>) -> (TableState, Arc<VersionedTable>) {
    let state = described(TableState::new(schema, kind, table.schema()));
    (state, table.clone())
}

/// An operator's state table: where rows are kept with a multiplicity, that is a value of the row beside it.
fn state_of(table: &StateTable) -> TableState {
    let schema = &table.schema;
    described(TableState {
        schema: STATE_SCHEMA.to_string(),
        name: schema.name.clone(),
        kind: TableKind::State,
        view: Some(table.view.definition.name.clone()),
        operator: Some(table.operator.to_string()),
        columns: schema.columns.clone(),
        sql_types: Vec::new(),
        key: schema.key.clone(),
        identity: state_identity(schema),
        multiset: false,
    })
}

fn described(state: TableState) -> TableState {
    let types = state.columns.fields().iter();
    let sql_types = types.map(|field| crate::types::type_name(field.data_type())).collect();
    TableState { sql_types, ..state }
}
