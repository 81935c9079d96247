//! All relations as the system catalog shows them, put together once for a statement that asks.

use super::oids::{self, Oid, Part};
use crate::catalog::{
    CATALOG_SCHEMA, ColumnDefinition, Index, KeptBy, Object, PUBLIC, STATE_SCHEMA, Table, TableDefinition,
};
use crate::pgtype::{ColumnType, oid};
use crate::plan::ReadView;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use cenote_statestore::Result;
use cenote_statestore::forms::record;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};
use tokio::sync::OnceCell;

/// A schema.
#[derive(Debug)]
pub(super) struct Namespace {
    pub(super) oid: Oid,
    pub(super) name: &'static str,
}

/// All schemas.
pub(super) const NAMESPACES: [Namespace; 5] = [
    namespace(oids::PG_CATALOG, super::SCHEMA),
    namespace(oids::PUBLIC, PUBLIC),
    namespace(oids::INFORMATION_SCHEMA, super::INFORMATION_SCHEMA),
    namespace(oids::CENOTE_CATALOG, CATALOG_SCHEMA),
    namespace(oids::CENOTE_STATE, STATE_SCHEMA),
];

const fn namespace(oid: Oid, name: &'static str) -> Namespace {
    Namespace { oid, name }
}

/// What a relation is: `pg_class.relkind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Table,
    View,
    MaterializedView,
    /// Rows come from elsewhere and are not kept: a source.
    Foreign,
    Index,
}

impl Kind {
    pub(super) fn letter(self) -> char {
        match self {
            Kind::Table => 'r',
            Kind::View => 'v',
            Kind::MaterializedView => 'm',
            Kind::Foreign => 'f',
            Kind::Index => 'i',
        }
    }
}

/// A column of a relation.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) column_type: ColumnType,
    /// The type's name where its OID does not tell: STRUCT, and arrays of it.
    pub(super) struct_name: Option<String>,
    pub(super) not_null: bool,
    /// SQL text of its default.
    pub(super) default: Option<String>,
}

/// A key: the index that keeps it, and its constraint, if it is one.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) index: Oid,
    pub(super) constraint: Option<Oid>,
    /// Positions of its columns.
    pub(super) columns: Vec<usize>,
    /// Whether it is the primary key.
    pub(super) is_primary: bool,
}

/// A CHECK constraint.
#[derive(Clone, Debug)]
pub(super) struct Check {
    pub(super) constraint: Oid,
    pub(super) name: String,
    /// SQL text of its condition.
    pub(super) sql: String,
}

/// A relation.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    pub(super) oid: Oid,
    pub(super) namespace: Oid,
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) columns: Vec<Column>,
    /// The primary key first.
    pub(super) keys: Vec<Key>,
    pub(super) checks: Vec<Check>,
    /// A view's query.
    pub(super) query: Option<String>,
    /// Rows and bytes that it holds, where that is known.
    pub(super) size: Option<(u64, u64)>,
    /// Name and options of its connector.
    pub(super) connector: Option<BTreeMap<String, String>>,
}

/// The relations, and the session that asks.
#[derive(Debug)]
pub(crate) struct SystemCatalog {
    pub(super) all: Vec<Relation>,
    by_oid: HashMap<Oid, usize>,
    /// Names of types of STRUCT, by the modifiers of the columns that have them.
    pub(super) structs: Vec<String>,
    pub(super) settings: Arc<BTreeMap<String, String>>,
}

impl SystemCatalog {
    /// The relations of a view of the database.
    pub(crate) async fn of(view: &ReadView) -> Result<SystemCatalog> {
        let mut all = SYSTEM.clone();
        all.extend(system_tables(view).await?.iter().cloned());
        for object in view.catalog.objects() {
            let mut relation = of_object(object);
            let indexes = view.catalog.indexes_of(object.id());
            relation.keys.extend(indexes.map(|index| of_index(index, object)));
            all.push(relation);
        }
        all.extend(of_kept_states(view));
        all.extend(of_states(view));
        Ok(SystemCatalog::new(all, view.settings.clone()))
    }

    /// Types of STRUCT have one OID in common: their modifiers tell them apart, as those of PostgreSQL's records do.
    fn new(mut all: Vec<Relation>, settings: Arc<BTreeMap<String, String>>) -> SystemCatalog {
        let mut structs = Vec::new();
        for column in all.iter_mut().flat_map(|relation| &mut relation.columns) {
            if let Some(name) = &column.struct_name {
                column.column_type.typmod = structs.len() as i32;
                structs.push(name.clone());
            }
        }
        let by_oid = all
            .iter()
            .enumerate()
            .map(|(at, relation)| (relation.oid, at))
            .collect();
        SystemCatalog {
            all,
            by_oid,
            structs,
            settings,
        }
    }

    /// No relations: what a system table's columns are found with.
    pub(super) fn none() -> SystemCatalog {
        SystemCatalog::new(Vec::new(), Arc::default())
    }

    pub(super) fn get(&self, oid: Oid) -> Option<&Relation> {
        self.by_oid.get(&oid).map(|at| &self.all[*at])
    }

    /// The relation that a name means, in the order of PostgreSQL's search path.
    pub(super) fn find(&self, schema: Option<&str>, name: &str) -> Option<&Relation> {
        let in_namespace = |namespace: Oid| {
            self.all
                .iter()
                .find(|relation| relation.namespace == namespace && relation.name == name)
        };
        match schema {
            None => in_namespace(oids::PG_CATALOG).or_else(|| in_namespace(oids::PUBLIC)),
            Some(schema) => NAMESPACES
                .iter()
                .find(|namespace| namespace.name == schema)
                .and_then(|namespace| in_namespace(namespace.oid)),
        }
    }

    /// All keys of tables.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&Relation, &Key)> {
        let each = self.all.iter();
        each.flat_map(|relation| relation.keys.iter().map(move |key| (relation, key)))
    }

    /// All CHECK constraints.
    pub(super) fn checks(&self) -> impl Iterator<Item = (&Relation, &Check)> {
        let each = self.all.iter();
        each.flat_map(|relation| relation.checks.iter().map(move |check| (relation, check)))
    }

    /// Whose session it is.
    pub(super) fn user(&self) -> &str {
        self.settings
            .get("user")
            .or_else(|| self.settings.get("session_authorization"))
            .map_or(crate::plan::DATABASE, String::as_str)
    }

    /// The database that the client named, which is the user's name if it named none.
    pub(super) fn database(&self) -> &str {
        let named = self
            .settings
            .get("database")
            .filter(|name| !name.is_empty())
            .or_else(|| self.settings.get("user"));
        named.map_or(crate::plan::DATABASE, String::as_str)
    }
}

impl Relation {
    /// A relation of the system, without keys and sizes.
    fn system(oid: Oid, namespace: Oid, name: &str, kind: Kind, columns: Vec<Column>) -> Relation {
        Relation {
            oid,
            namespace,
            name: name.to_string(),
            kind,
            columns,
            keys: Vec::new(),
            checks: Vec::new(),
            query: None,
            size: None,
            connector: None,
        }
    }

    /// Whether its name alone means it.
    pub(super) fn is_visible(&self) -> bool {
        matches!(self.namespace, oids::PG_CATALOG | oids::PUBLIC)
    }
}

fn columns_of(schema: &Schema, hide_nullability: bool) -> Vec<Column> {
    let column = |field: &arrow::datatypes::FieldRef| Column {
        name: crate::names::shown_name(field.name()).to_string(),
        column_type: ColumnType::of(field),
        struct_name: struct_name(field.data_type()),
        not_null: !hide_nullability && !field.is_nullable(),
        default: None,
    };
    schema.fields().iter().map(column).collect()
}

/// The name of a STRUCT or an array of it.
fn struct_name(data_type: &DataType) -> Option<String> {
    let is_struct = match data_type {
        DataType::List(item) => record::fields_of(item.data_type()).is_some(),
        other => record::fields_of(other).is_some(),
    };
    is_struct.then(|| crate::types::type_name(data_type))
}

/// A column as declared. NUMERIC without precision is kept with one, which is what is told.
fn declared(column: &ColumnDefinition, schema: &Schema, position: usize) -> Column {
    let kept = ColumnType::of(schema.field(position));
    let column_type = match ColumnType::parse(&column.sql_type) {
        Some(declared) if declared.pg.oid != oid::NUMERIC => declared,
        _ => kept,
    };
    Column {
        name: column.name.clone(),
        column_type,
        struct_name: struct_name(schema.field(position).data_type()),
        not_null: column.not_null,
        default: column.default.clone(),
    }
}

fn of_object(object: &Object) -> Relation {
    let oid = oids::of(object.id(), Part::Relation);
    let mut relation = Relation::system(oid, oids::PUBLIC, object.name(), Kind::View, Vec::new());
    match object {
        Object::Table(table) => of_table(table, &mut relation),
        Object::View(view) => {
            relation.columns = columns_of(&view.columns, true);
            relation.query = Some(view.definition.query.clone());
        }
        Object::MaterializedView(view) => {
            relation.kind = Kind::MaterializedView;
            relation.columns = columns_of(&view.columns, true);
            relation.query = Some(view.definition.query.clone());
            relation.size = Some(size_of(&view.versioned));
        }
    }
    relation
}

fn of_table(table: &Table, relation: &mut Relation) {
    let definition = &table.definition;
    relation.kind = if definition.is_source {
        Kind::Foreign
    } else {
        Kind::Table
    };
    relation.columns = definition
        .columns
        .iter()
        .enumerate()
        .map(|(position, column)| declared(column, &table.columns, position))
        .collect();
    relation.size = table.versioned.as_deref().map(size_of);
    relation.connector = definition.is_source.then(|| {
        let options = definition.connector.iter().flatten();
        options.map(|(name, value)| (name.clone(), value.clone())).collect()
    });
    relation.keys = keys_of(definition);
    let checks = definition.constraints.checks.iter().enumerate();
    relation.checks = checks
        .map(|(position, check)| Check {
            constraint: oids::of(definition.id, Part::Check(position)),
            name: check.name.clone(),
            sql: check.sql.clone(),
        })
        .collect();
}

fn of_index(index: &Index, object: &Object) -> Key {
    let names = index.definition.columns.iter();
    let columns = names.filter_map(|name| object.columns().index_of(name).ok());
    Key {
        name: index.definition.name.clone(),
        index: oids::of(index.definition.id, Part::Relation),
        constraint: None,
        columns: columns.collect(),
        is_primary: false,
    }
}

fn keys_of(definition: &TableDefinition) -> Vec<Key> {
    let primary = definition.primary_key_name().map(|name| Key {
        name,
        index: oids::of(definition.id, Part::KeyIndex),
        constraint: Some(oids::of(definition.id, Part::KeyConstraint)),
        columns: definition.primary_key.clone(),
        is_primary: true,
    });
    let unique = definition.constraints.unique.iter().enumerate();
    let unique = unique.map(|(position, key)| Key {
        name: key.name.clone(),
        index: oids::of(definition.id, Part::UniqueIndex(position)),
        constraint: Some(oids::of(definition.id, Part::UniqueConstraint(position))),
        columns: key.columns.clone(),
        is_primary: false,
    });
    primary.into_iter().chain(unique).collect()
}

fn size_of(table: &cenote_statestore::VersionedTable) -> (u64, u64) {
    let statistics = table.statistics();
    (statistics.rows, statistics.bytes)
}

/// The relations of state tables that are kept: offsets, errors and progress.
fn of_kept_states(view: &ReadView) -> impl Iterator<Item = Relation> {
    view.catalog.kept_states().map(|(kept_by, kept)| {
        let oid = match kept_by {
            KeptBy::Source(offsets) => oids::of(offsets, Part::Relation),
            KeptBy::View(view) => oids::of(view.definition.id, Part::Errors),
            KeptBy::Sink(sink) => oids::of(sink.definition.progress, Part::Relation),
        };
        let (schema, columns) = (kept.schema(), columns_of(&kept.schema().columns, false));
        let mut relation = Relation::system(oid, oids::CENOTE_STATE, &schema.name, Kind::Table, columns);
        relation.size = Some(size_of(kept));
        relation
    })
}

fn of_states(view: &ReadView) -> Vec<Relation> {
    let mut position_in: HashMap<u64, usize> = HashMap::new();
    let states = view.database.state_tables(&view.catalog).into_iter();
    states
        .map(|state| {
            let view = state.view.definition.id;
            let position = position_in
                .entry(view.0)
                .and_modify(|position| *position += 1)
                .or_insert(0);
            let oid = oids::of(view, Part::State(*position));
            let columns = columns_of(&state.schema.columns, false);
            Relation::system(oid, oids::CENOTE_STATE, &state.schema.name, Kind::Table, columns)
        })
        .collect()
}

/// The tables of `cenote_catalog`, whose columns never change.
async fn system_tables(view: &ReadView) -> Result<&'static [Relation]> {
    static TABLES: OnceCell<Vec<Relation>> = OnceCell::const_new();
    let tables = TABLES.get_or_try_init(|| async {
        let mut found = Vec::new();
        // Of an empty catalog: only their columns are asked for.
        let view = &ReadView {
            catalog: Arc::default(),
            ..view.clone()
        };
        for (position, name) in crate::system::TABLES.iter().enumerate() {
            let columns: SchemaRef = match crate::system::system_table(view, name).await? {
                Some(rows) => rows.schema(),
                None if *name == crate::inventory::STATE => crate::inventory::columns(),
                None => crate::row_errors::columns(),
            };
            let oid = oids::SYSTEM_TABLES + position as Oid;
            let columns = columns_of(&columns, false);
            found.push(Relation::system(oid, oids::CENOTE_CATALOG, name, Kind::Table, columns));
        }
        Ok::<_, cenote_statestore::Error>(found)
    });
    Ok(tables.await?)
}

/// The relations of `pg_catalog` and `information_schema`.
static SYSTEM: LazyLock<Vec<Relation>> = LazyLock::new(|| {
    let nothing = SystemCatalog::none();
    let tables = oids::WELL_KNOWN.iter().filter_map(|(name, oid)| {
        let (schema, _) = super::tables::table(&nothing, name)?;
        let columns = columns_of(&schema, true);
        Some(Relation::system(*oid, oids::PG_CATALOG, name, Kind::Table, columns))
    });
    let views = super::views::VIEWS.iter().enumerate().map(|(position, view)| {
        let namespace = match view.schema {
            super::SCHEMA => oids::PG_CATALOG,
            _ => oids::INFORMATION_SCHEMA,
        };
        let oid = oids::SYSTEM_VIEWS + position as Oid;
        let mut relation = Relation::system(oid, namespace, view.name, Kind::View, Vec::new());
        relation.query = Some(view.query.to_string());
        relation
    });
    tables.chain(views).collect()
});
