//! The catalog: names, definitions, and the handles of running objects.
//!
//! A [`Catalog`] is an immutable snapshot; DDL makes a new one and swaps it in. What must outlive the process is
//! told as [`DdlRecord`]s in the log, in the same commit as the change itself.
//!
//! # Not here
//! Turning SQL into definitions (`ddl`), reading (`provider`).

mod kept;
mod layouts;
mod sinks;

pub(crate) use kept::KeptBy;
pub use layouts::Layout;
pub(crate) use layouts::older_columns_of;
pub use sinks::{SinkDefinition, SinkObject, progress_schema};

use crate::constraints::{Checks, Constraints};
use crate::database::Points;
use crate::ddl::AlterRecord;
use crate::parse::Parsed;
use crate::relations::named_relations;
use crate::state_backend::StateBackend;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_engine::plan::{CollectionId, ViewPlan};
use cenote_engine::port::Options;
use cenote_engine::{ROW_ID, ViewMeters, ViewStatus};
use cenote_statestore::{Epoch, Error, ErrorKind, Result, TableSchema, VersionedTable};
use datafusion::sql::sqlparser::ast::DataType as SqlType;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use tokio::sync::OnceCell;

/// The schema that unqualified names are in.
pub const PUBLIC: &str = "public";

/// Schema of operators' state tables.
pub const STATE_SCHEMA: &str = "cenote_state";

/// Schema of system tables.
pub const CATALOG_SCHEMA: &str = "cenote_catalog";

/// Collection of the table of rows that could not be read.
pub const ERRORS: CollectionId = CollectionId(1);

/// First collection of users' objects.
pub const FIRST_COLLECTION: u64 = 16;

/// A column as declared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnDefinition {
    /// Its name.
    pub name: String,
    /// Declared type, PostgreSQL's text for it.
    pub sql_type: String,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// SQL text of the default.
    pub default: Option<String>,
}

/// A change of the catalog, as logged.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DdlRecord {
    /// A table or a source.
    CreateTable(TableDefinition),
    /// A table that has got other columns.
    AlterTable(Box<AlterRecord>),
    /// A view or a materialized view.
    CreateView(ViewDefinition),
    /// Objects dropped, by collection.
    Drop(Vec<CollectionId>),
    /// An index of a table or a view.
    CreateIndex(IndexDefinition),
    /// Indexes dropped, by their names.
    DropIndexes(Vec<String>),
    /// A sink.
    CreateSink(SinkDefinition),
    /// A materialized view that takes the place of another: its number too, where readers go on with it.
    ReplaceMaterializedView {
        /// The view that goes.
        old: CollectionId,
        /// The view that comes.
        new: ViewDefinition,
    },
    /// A plain view that takes the place of another.
    ReplaceView {
        /// The view that goes.
        old: CollectionId,
        /// The view that comes.
        new: ViewDefinition,
    },
}

/// A table or source as declared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TableDefinition {
    /// Its collection.
    pub id: CollectionId,
    /// Its name in `public`.
    pub name: String,
    /// The statement that made it.
    pub sql: String,
    /// Columns in order.
    pub columns: Vec<ColumnDefinition>,
    /// Indices of the primary key's columns.
    pub primary_key: Vec<usize>,
    /// Its other constraints.
    #[serde(default, skip_serializing_if = "Constraints::is_empty")]
    pub constraints: Constraints,
    /// Options of its connector; `None` for tables held here.
    pub connector: Option<Options>,
    /// Whether it is a source: its rows are passed on and not kept.
    pub is_source: bool,
    /// Collection of its offsets, if it has a connector.
    pub offsets: Option<CollectionId>,
    /// Where its rows are kept, if it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_backend: Option<StateBackend>,
    /// Columns that it had for views which are still there, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub was: Vec<Layout>,
}

/// An index as declared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IndexDefinition {
    /// A number of its own, as collections have.
    pub id: CollectionId,
    /// Its name.
    pub name: String,
    /// The table or view that it is of.
    pub on: CollectionId,
    /// Names of its columns.
    pub columns: Vec<String>,
}

/// An index with its place.
#[derive(Clone, Debug)]
pub struct Index {
    /// How it was declared.
    pub definition: IndexDefinition,
    /// What it is of.
    pub table: Arc<VersionedTable>,
    /// Its position among the table's indexes.
    pub position: usize,
}

/// A view as declared.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ViewDefinition {
    /// Its collection.
    pub id: CollectionId,
    /// Its name in `public`.
    pub name: String,
    /// The statement that made it.
    pub sql: String,
    /// Text of its query alone.
    pub query: String,
    /// Names given in a column list.
    pub columns: Vec<String>,
    /// Whether it is materialized.
    pub materialized: bool,
    /// Where its state is kept, if it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_backend: Option<StateBackend>,
    /// It sees tables as they were when this number was given away; `None`: its collection's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sees: Option<CollectionId>,
    /// What its query names.
    #[serde(skip)]
    pub(crate) named: Named,
}

/// Names in `public` that a query names, found out with the first question.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named(OnceLock<BTreeSet<String>>);

impl ViewDefinition {
    /// It sees tables as they were when this number was given away.
    pub(crate) fn sees(&self) -> CollectionId {
        self.sees.unwrap_or(self.id)
    }

    /// Names in `public` that its query names.
    fn named(&self) -> &BTreeSet<String> {
        self.named.0.get_or_init(|| {
            let statements = crate::parse::parse_script(&self.query).unwrap_or_default();
            let asts = statements.iter().filter_map(|statement| match &*statement.parsed {
                Parsed::Sql { ast, .. } => Some(ast),
                _ => None,
            });
            let named = asts.flat_map(|ast| named_relations(ast));
            let in_public = named.filter(|(schema, _)| schema.as_deref().unwrap_or(PUBLIC) == PUBLIC);
            in_public.map(|(_, name)| name).collect()
        })
    }
}

/// A table with its contents.
#[derive(Debug)]
pub struct Table {
    /// How it was declared.
    pub definition: TableDefinition,
    /// Columns that users see.
    pub columns: SchemaRef,
    /// The most characters that each column's texts have.
    pub lengths: Vec<Option<u64>>,
    /// Its CHECK conditions, once a row was checked.
    pub(crate) checks: OnceCell<Checks>,
    /// The short way to one row.
    pub(crate) points: Points,
    /// The last number whose views see it with these columns; `None`: they are its newest.
    pub(crate) layout: Option<CollectionId>,
    /// Contents; `None` for a source, and for a transient table.
    pub versioned: Option<Arc<VersionedTable>>,
    /// Offsets of its connector.
    pub offsets: Option<Arc<VersionedTable>>,
}

impl Table {
    /// What a write to it is planned for.
    pub(crate) fn planned(&self) -> Vec<(CollectionId, Arc<VersionedTable>)> {
        let rows = self.versioned.clone().map(|rows| (self.definition.id, rows));
        rows.into_iter().collect()
    }

    /// What the committer writes of it: rows, and offsets of its source.
    pub(crate) fn collections(&self) -> Vec<(CollectionId, Arc<VersionedTable>)> {
        let rows = self.versioned.clone().map(|rows| (self.definition.id, rows));
        let offsets = self.definition.offsets.zip(self.offsets.clone());
        rows.into_iter().chain(offsets).collect()
    }
}

/// A plain view.
#[derive(Debug)]
pub struct PlainView {
    /// How it was declared.
    pub definition: ViewDefinition,
    /// Columns of its query.
    pub columns: SchemaRef,
}

/// A materialized view with its contents.
#[derive(Debug)]
pub struct MaterializedView {
    /// How it was declared.
    pub definition: ViewDefinition,
    /// Columns.
    pub columns: SchemaRef,
    /// What runs.
    pub plan: Arc<ViewPlan>,
    /// Contents.
    pub versioned: Arc<VersionedTable>,
    /// Errors of its rows, if it can have any.
    pub errors: Option<Arc<VersionedTable>>,
    /// Whether it works.
    pub status: Arc<ViewStatus>,
    /// What its operators have done.
    pub meters: Arc<ViewMeters>,
    /// Epoch of its first contents.
    pub created: Epoch,
    /// Collections it reads, directly.
    pub reads: Vec<CollectionId>,
    /// Its number when it was started: another one, where it took a view's place.
    pub started_as: CollectionId,
    /// The short way to one row.
    pub(crate) points: Points,
}

impl MaterializedView {
    /// Refuses an epoch before the view's first: its contents then are not known, which is not the same as empty.
    ///
    /// # Errors
    /// `Expired` 55000.
    pub(crate) fn check_there_at(&self, epoch: Epoch) -> Result<()> {
        if epoch >= self.created {
            return Ok(());
        }
        let name = &self.definition.name;
        let message = format!("cannot read \"{name}\" at epoch {epoch}: it was made after that");
        let error = Error::new(ErrorKind::Expired, "STATE-0106", message).sqlstate("55000");
        Err(error.fact("first epoch", self.created))
    }
}

/// An object in `public`.
#[derive(Clone, Debug)]
pub enum Object {
    /// A table, or a source.
    Table(Arc<Table>),
    /// A plain view.
    View(Arc<PlainView>),
    /// A materialized view.
    MaterializedView(Arc<MaterializedView>),
}

impl Object {
    /// Its collection.
    pub fn id(&self) -> CollectionId {
        match self {
            Object::Table(table) => table.definition.id,
            Object::View(view) => view.definition.id,
            Object::MaterializedView(view) => view.definition.id,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Object::Table(table) => &table.definition.name,
            Object::View(view) => &view.definition.name,
            Object::MaterializedView(view) => &view.definition.name,
        }
    }

    /// What it is called in messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Object::Table(table) if table.definition.is_source => "source",
            Object::Table(_) => "table",
            Object::View(_) => "view",
            Object::MaterializedView(_) => "materialized view",
        }
    }

    /// Contents, with their versions, of what keeps any.
    pub(crate) fn versioned(&self) -> Option<&Arc<VersionedTable>> {
        match self {
            Object::Table(table) => table.versioned.as_ref(),
            Object::View(_) => None,
            Object::MaterializedView(view) => Some(&view.versioned),
        }
    }

    /// Columns that users see.
    pub fn columns(&self) -> &SchemaRef {
        match self {
            Object::Table(table) => &table.columns,
            Object::View(view) => &view.columns,
            Object::MaterializedView(view) => &view.columns,
        }
    }

    /// The statement that made it.
    pub fn sql(&self) -> &str {
        match self {
            Object::Table(table) => &table.definition.sql,
            Object::View(view) => &view.definition.sql,
            Object::MaterializedView(view) => &view.definition.sql,
        }
    }
}

/// All objects at one moment.
#[derive(Clone, Debug)]
pub struct Catalog {
    objects: BTreeMap<String, Object>,
    names: BTreeMap<CollectionId, String>,
    indexes: BTreeMap<String, Arc<Index>>,
    sinks: BTreeMap<String, Arc<SinkObject>>,
    /// Tables as views see them that were made before the tables got other columns.
    layouts: BTreeMap<String, Object>,
    next: u64,
}

impl Default for Catalog {
    fn default() -> Catalog {
        Catalog {
            objects: BTreeMap::new(),
            names: BTreeMap::new(),
            indexes: BTreeMap::new(),
            sinks: BTreeMap::new(),
            layouts: BTreeMap::new(),
            next: FIRST_COLLECTION,
        }
    }
}

impl Catalog {
    /// The object of that name in `public`.
    pub fn get(&self, name: &str) -> Option<&Object> {
        self.objects.get(name).or_else(|| self.layouts.get(name))
    }

    /// The object of that collection.
    pub fn by_id(&self, id: CollectionId) -> Option<&Object> {
        self.objects.get(self.names.get(&id)?)
    }

    /// All objects in the order of their names.
    pub fn objects(&self) -> impl Iterator<Item = &Object> {
        self.objects.values()
    }

    /// The status of a view and of every view that it reads, directly or through others.
    pub fn views_under(&self, view: &MaterializedView) -> Vec<Arc<ViewStatus>> {
        self.failing_with(view).0
    }

    /// What a view, directly or through others, cannot do without: the status of the views, its own first, and the
    /// sources that keep no rows.
    pub(crate) fn failing_with(&self, view: &MaterializedView) -> (Vec<Arc<ViewStatus>>, Vec<CollectionId>) {
        let (mut views, mut sources) = (vec![view.status.clone()], Vec::new());
        let (mut ahead, mut seen) = (view.reads.clone(), BTreeSet::new());
        while let Some(id) = ahead.pop() {
            if !seen.insert(id) {
                continue;
            }
            match self.by_id(id) {
                Some(Object::MaterializedView(input)) => {
                    views.push(input.status.clone());
                    ahead.extend(&input.reads);
                }
                Some(Object::Table(table)) if table.versioned.is_none() => sources.push(id),
                _ => {}
            }
        }
        (views, sources)
    }

    /// The materialized views that read any of these collections, directly or through others.
    pub(crate) fn views_over(&self, changed: impl Iterator<Item = CollectionId>) -> BTreeSet<CollectionId> {
        let (mut changed, mut views): (BTreeSet<_>, _) = (changed.collect(), BTreeSet::new());
        // In the order of their creation, a view comes after what it reads.
        for view in self.materialized_views() {
            if view.reads.iter().any(|input| changed.contains(input)) {
                changed.insert(view.definition.id);
                views.insert(view.definition.id);
            }
        }
        views
    }

    /// All materialized views in the order of their creation.
    pub fn materialized_views(&self) -> Vec<&Arc<MaterializedView>> {
        let by_id = self.names.values().filter_map(|name| self.objects.get(name));
        let views = by_id.filter_map(|object| match object {
            Object::MaterializedView(view) => Some(view),
            _ => None,
        });
        views.collect()
    }

    /// A collection number that was never used.
    pub fn allocate(&mut self) -> CollectionId {
        self.next += 1;
        CollectionId(self.next - 1)
    }

    /// The last number that was given away.
    pub(crate) fn last_used(&self) -> u64 {
        self.next - 1
    }

    /// Marks a collection number as used.
    pub fn reserve(&mut self, id: CollectionId) {
        self.next = self.next.max(id.0 + 1);
    }

    /// Adds an object; one of the same name is replaced.
    pub fn insert(&mut self, object: Object) {
        self.reserve(object.id());
        let (id, name) = (object.id(), object.name().to_string());
        self.note_layouts(&object);
        if let Some(replaced) = self.objects.insert(name.clone(), object) {
            self.names.remove(&replaced.id());
        }
        self.names.insert(id, name);
    }

    /// Removes objects by collection.
    pub fn remove(&mut self, ids: &[CollectionId]) {
        let ids: BTreeSet<CollectionId> = ids.iter().copied().collect();
        for name in ids.iter().filter_map(|id| self.names.remove(id)) {
            self.objects.remove(&name);
        }
        self.layouts.retain(|_, object| !ids.contains(&object.id()));
        self.indexes.retain(|_, index| !ids.contains(&index.definition.on));
        self.sinks.retain(|_, sink| !ids.contains(&sink.definition.id));
    }

    /// The index of that name, if a user made it.
    pub fn index(&self, name: &str) -> Option<&Arc<Index>> {
        self.indexes.get(name)
    }

    /// The indexes that users made of an object.
    pub fn indexes_of(&self, id: CollectionId) -> impl Iterator<Item = &Arc<Index>> {
        self.indexes.values().filter(move |index| index.definition.on == id)
    }

    /// Adds an index.
    pub(crate) fn insert_index(&mut self, index: Index) {
        self.reserve(index.definition.id);
        self.indexes.insert(index.definition.name.clone(), Arc::new(index));
    }

    /// Removes an index.
    pub(crate) fn remove_index(&mut self, name: &str) -> Option<Arc<Index>> {
        self.indexes.remove(name)
    }

    /// Names of all relations: objects, and the indexes of keys.
    pub(crate) fn relation_names(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self.objects.keys().chain(self.indexes.keys()).cloned().collect();
        for object in self.objects.values() {
            if let Object::Table(table) = object {
                names.extend(table.definition.primary_key_name());
                names.extend(table.definition.constraints.unique.iter().map(|key| key.name.clone()));
            }
        }
        names
    }

    /// Refuses a name that is taken.
    ///
    /// # Errors
    /// `Conflict` 42P07.
    pub fn check_free(&self, name: &str) -> Result<()> {
        let sink = self.sinks.get(name).map(|_| "sink");
        let Some(kind) = self.get(name).map(Object::kind).or(sink) else {
            return Ok(());
        };
        let message = format!("cannot create \"{name}\": a {kind} of that name exists already");
        Err(Error::new(ErrorKind::Conflict, "SQL-0201", message)
            .sqlstate("42P07")
            .attempt("choose another name, or DROP it first"))
    }

    /// Objects that read `id`, directly.
    pub fn readers(&self, id: CollectionId) -> Vec<&Object> {
        self.objects
            .values()
            .filter(|object| object.id() != id)
            .filter(|object| match object {
                // Plain views are inlined: what they are needed for only its text tells.
                Object::MaterializedView(view) => view.reads.contains(&id) || self.is_named(id, &view.definition),
                Object::View(view) => self.is_named(id, &view.definition),
                Object::Table(_) => false,
            })
            .collect()
    }

    fn is_named(&self, id: CollectionId, view: &ViewDefinition) -> bool {
        self.by_id(id).is_some_and(|object| self.names(object, view))
    }

    /// Whether a view's query names an object.
    pub(crate) fn names(&self, object: &Object, view: &ViewDefinition) -> bool {
        view.named().contains(object.name())
    }

    /// The error for a name that is not there, with near names.
    pub fn missing(&self, name: &str) -> Error {
        let mut near: Vec<(usize, &str)> = self
            .objects
            .keys()
            .map(|candidate| (strsim::damerau_levenshtein(candidate, name), candidate.as_str()))
            .filter(|(distance, candidate)| *distance <= 2.min(candidate.len() / 2).max(1))
            .collect();
        near.sort_unstable();
        let error = Error::new(
            ErrorKind::Invalid,
            "SQL-0202",
            format!("relation \"{name}\" does not exist"),
        )
        .sqlstate("42P01");
        match near.first() {
            Some((_, candidate)) => error.attempt(format!("perhaps you meant \"{candidate}\"")),
            None => error,
        }
    }
}

impl TableDefinition {
    /// Name of the primary key's constraint; `None`: there is no primary key.
    pub fn primary_key_name(&self) -> Option<String> {
        let named = self.constraints.primary_key_name.clone();
        let is_there = !self.primary_key.is_empty();
        is_there.then(|| named.unwrap_or_else(|| format!("{}_pkey", self.name)))
    }

    /// Columns as users see them.
    pub fn visible_columns(&self) -> Result<SchemaRef> {
        let fields = self.columns.iter().map(|column| {
            Ok(Field::new(
                &column.name,
                parse_type(&column.sql_type)?,
                !column.not_null,
            ))
        });
        Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
    }

    /// Columns as stored, with row numbers where there is no primary key, and the identity.
    pub fn stored_schema(&self) -> Result<TableSchema> {
        let visible = self.visible_columns()?;
        let (columns, key) = if self.primary_key.is_empty() {
            let mut fields: Vec<_> = visible.fields().iter().cloned().collect();
            fields.push(Arc::new(Field::new(ROW_ID, DataType::Int64, false)));
            (Arc::new(Schema::new(fields)) as SchemaRef, vec![visible.fields().len()])
        } else {
            (visible, self.primary_key.clone())
        };
        Ok(TableSchema {
            name: self.name.clone(),
            columns,
            key,
            unique: true,
        })
    }
}

/// The Arrow type of a declared type's text.
pub fn parse_type(text: &str) -> Result<DataType> {
    crate::types::column_type(&parse_sql_type(text)?)
}

/// Reads a declared type's text again.
pub(crate) fn parse_sql_type(text: &str) -> Result<SqlType> {
    crate::parse::structs::parse_type(text)
        .map_err(|error| Error::bug(format!("the catalog holds the type {text:?}: {error}")))
}

/// Columns of the kept table of sources' errors without its row number.
pub(crate) const ERRORS_WIDTH: usize = 6;

/// The kept table of rows that sources could not read; `cenote_catalog.errors` shows it with the views' ([`crate::row_errors`]).
pub fn errors_schema() -> TableSchema {
    let fields = vec![
        Field::new("source", DataType::Utf8, false),
        Field::new("file", DataType::Utf8, false),
        Field::new("line", DataType::Int64, false),
        Field::new("byte_offset", DataType::Int64, false),
        Field::new("text", DataType::Utf8, false),
        Field::new("reason", DataType::Utf8, false),
        Field::new(ROW_ID, DataType::Int64, false),
    ];
    TableSchema {
        name: "errors".into(),
        columns: Arc::new(Schema::new(fields)),
        key: vec![ERRORS_WIDTH],
        unique: true,
    }
}

/// Columns of a source's offsets.
pub fn offsets_schema(source: &str) -> TableSchema {
    let fields = vec![
        Field::new("partition", DataType::Utf8, false),
        Field::new("position", DataType::Int64, false),
        Field::new("records", DataType::Int64, false),
        Field::new("done", DataType::Boolean, false),
        Field::new("identity", DataType::Utf8, false),
    ];
    let columns = Arc::new(Schema::new(fields));
    TableSchema {
        name: format!("{source}_offsets"),
        columns,
        key: vec![0],
        unique: true,
    }
}
