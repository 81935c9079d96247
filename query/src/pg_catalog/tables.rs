//! The system tables that tell of the database: `pg_class`, `pg_attribute` and their kind.

use super::oids::{self, Oid};
use super::relations::{Column, Key, Kind, NAMESPACES, Relation, SystemCatalog};
use super::rows::Table;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// Access method of tables and of indexes (`pg_am`).
const HEAP: Oid = 2;
const BTREE: Oid = 403;

/// Collation `default`, of columns of text.
const DEFAULT_COLLATION: Oid = 100;

type Rows = (SchemaRef, Vec<RecordBatch>);

/// Columns and rows of a table of `pg_catalog`; `None`: there is none of that name.
pub(super) fn table(relations: &SystemCatalog, name: &str) -> Option<Rows> {
    own(relations, name).or_else(|| super::library::table(name))
}

/// Whether a table has no rows, whatever the database holds.
pub(super) fn is_always_empty(name: &str) -> bool {
    own(&SystemCatalog::none(), name).is_none() && super::library::is_empty(name)
}

fn own(relations: &SystemCatalog, name: &str) -> Option<Rows> {
    Some(match name {
        "pg_namespace" => namespaces(),
        "pg_class" => classes(relations),
        "pg_attribute" => attributes(relations),
        "pg_attrdef" => defaults(relations),
        "pg_constraint" => constraints(relations),
        "pg_index" => indexes(relations),
        "pg_database" => databases(relations),
        "pg_authid" => roles(relations),
        "pg_settings" => settings(relations),
        "pg_foreign_data_wrapper" => wrappers(relations),
        "pg_foreign_server" => servers(relations),
        "pg_foreign_table" => foreign_tables(relations),
        _ => return None,
    })
}

fn namespaces() -> Rows {
    Table::of(&NAMESPACES)
        .oid("oid", |namespace| namespace.oid)
        .name("nspname", |namespace| namespace.name)
        .oid("nspowner", |_| oids::ROLE)
        .null_list("nspacl")
        .finish()
}

/// The index of a key, as a relation.
fn key_index(relation: &Relation, key: &Key) -> Relation {
    Relation {
        oid: key.index,
        name: key.name.clone(),
        kind: Kind::Index,
        columns: key
            .columns
            .iter()
            .map(|position| relation.columns[*position].clone())
            .collect(),
        keys: Vec::new(),
        checks: Vec::new(),
        size: None,
        ..relation.clone()
    }
}

fn with_indexes(relations: &SystemCatalog) -> Vec<Relation> {
    let indexes = relations.keys().map(|(relation, key)| key_index(relation, key));
    relations.all.iter().cloned().chain(indexes).collect()
}

fn classes(relations: &SystemCatalog) -> Rows {
    let access_method = |relation: &Relation| match relation.kind {
        Kind::Table | Kind::MaterializedView => HEAP,
        Kind::Index => BTREE,
        Kind::View | Kind::Foreign => 0,
    };
    Table::of(&with_indexes(relations))
        .oid("oid", |relation| relation.oid)
        .name("relname", |relation| relation.name.as_str())
        .oid("relnamespace", |relation| relation.namespace)
        .oid("reltype", |_| 0)
        .oid("reloftype", |_| 0)
        .oid("relowner", |_| oids::ROLE)
        .oid("relam", access_method)
        .oid("relfilenode", |relation| relation.oid)
        .oid("reltablespace", |_| 0)
        .integer("relpages", |relation| {
            relation
                .size
                .map_or(0, |(_, bytes)| (bytes / 8192).min(i32::MAX as u64) as i32)
        })
        .real("reltuples", |relation| {
            relation.size.map_or(-1.0, |(rows, _)| rows as f32)
        })
        .integer("relallvisible", |_| 0)
        .oid("reltoastrelid", |_| 0)
        .boolean("relhasindex", |relation| !relation.keys.is_empty())
        .boolean("relisshared", |_| false)
        .letter("relpersistence", |_| 'p')
        .letter("relkind", |relation| relation.kind.letter())
        .small("relnatts", |relation| relation.columns.len() as i16)
        .small("relchecks", |relation| relation.checks.len() as i16)
        .boolean("relhasrules", |_| false)
        .boolean("relhastriggers", |_| false)
        .boolean("relhassubclass", |_| false)
        .boolean("relrowsecurity", |_| false)
        .boolean("relforcerowsecurity", |_| false)
        .boolean("relispopulated", |_| true)
        .letter("relreplident", |_| 'd')
        .boolean("relispartition", |_| false)
        .oid("relrewrite", |_| 0)
        .integer("relfrozenxid", |_| 0)
        .integer("relminmxid", |_| 0)
        .null_list("relacl")
        .null_list("reloptions")
        .null("relpartbound")
        .finish()
}

fn attributes(relations: &SystemCatalog) -> Rows {
    let all = with_indexes(relations);
    let columns: Vec<(&Relation, usize, &Column)> = all
        .iter()
        .flat_map(|relation| {
            let columns = relation.columns.iter().enumerate();
            columns.map(move |(position, column)| (relation, position, column))
        })
        .collect();
    let collation = |column: &Column| match column.column_type.pg.oid {
        crate::pgtype::oid::TEXT | crate::pgtype::oid::VARCHAR | crate::pgtype::oid::BPCHAR => DEFAULT_COLLATION,
        _ => 0,
    };
    Table::of(&columns)
        .oid("attrelid", |(relation, _, _)| relation.oid)
        .name("attname", |(_, _, column)| column.name.as_str())
        .oid("atttypid", |(_, _, column)| column.column_type.pg.oid as Oid)
        .small("attlen", |(_, _, column)| column.column_type.pg.size)
        .small("attnum", |(_, position, _)| *position as i16 + 1)
        .integer("attcacheoff", |_| -1)
        .integer("atttypmod", |(_, _, column)| column.column_type.typmod)
        .small("attndims", |(_, _, column)| column.column_type.pg.is_array() as i16)
        .boolean("attbyval", |(_, _, column)| {
            (1..=8).contains(&column.column_type.pg.size)
        })
        .letter("attalign", |_| 'i')
        .letter(
            "attstorage",
            |(_, _, column)| {
                if column.column_type.pg.size < 0 { 'x' } else { 'p' }
            },
        )
        .text("attcompression", |_| Some(""))
        .boolean("attnotnull", |(_, _, column)| column.not_null)
        .boolean("atthasdef", |(relation, _, column)| has_default(relation, column))
        .boolean("atthasmissing", |_| false)
        .text("attidentity", |_| Some(""))
        .text("attgenerated", |_| Some(""))
        .boolean("attisdropped", |_| false)
        .boolean("attislocal", |_| true)
        .small("attinhcount", |_| 0)
        .oid("attcollation", |(_, _, column)| collation(column))
        .integer("attstattarget", |_| -1)
        .null_list("attacl")
        .null_list("attoptions")
        .null_list("attfdwoptions")
        .null("attmissingval")
        .finish()
}

fn has_default(relation: &Relation, column: &Column) -> bool {
    column.default.is_some() && relation.kind != Kind::Index
}

fn defaults(relations: &SystemCatalog) -> Rows {
    let mut defaults: Vec<(Oid, usize, &str)> = Vec::new();
    for relation in &relations.all {
        for (position, column) in relation.columns.iter().enumerate() {
            if let Some(default) = &column.default {
                defaults.push((relation.oid, position, default));
            }
        }
    }
    let numbered: Vec<_> = defaults.into_iter().enumerate().collect();
    Table::of(&numbered)
        .oid("oid", |(number, _)| oids::DEFAULTS + *number as Oid)
        .oid("adrelid", |(_, (relation, _, _))| *relation)
        .small("adnum", |(_, (_, position, _))| *position as i16 + 1)
        .text("adbin", |(_, (_, _, default))| Some(*default))
        .finish()
}

fn numbers(key: &Key) -> Vec<i16> {
    key.columns.iter().map(|position| *position as i16 + 1).collect()
}

/// A row of `pg_constraint`: a key, or else a CHECK.
struct Constraint<'a> {
    oid: Oid,
    name: &'a str,
    relation: &'a Relation,
    key: Option<&'a Key>,
}

fn constraints(relations: &SystemCatalog) -> Rows {
    let keys = relations.keys().filter_map(|(relation, key)| {
        Some(Constraint {
            oid: key.constraint?,
            name: &key.name,
            relation,
            key: Some(key),
        })
    });
    let checks = relations.checks().map(|(relation, check)| Constraint {
        oid: check.constraint,
        name: &check.name,
        relation,
        key: None,
    });
    let kind = |constraint: &Constraint<'_>| match constraint.key {
        Some(key) if key.is_primary => 'p',
        Some(_) => 'u',
        None => 'c',
    };
    let all: Vec<Constraint<'_>> = keys.chain(checks).collect();
    Table::of(&all)
        .oid("oid", |constraint| constraint.oid)
        .name("conname", |constraint| constraint.name)
        .oid("connamespace", |constraint| constraint.relation.namespace)
        .letter("contype", kind)
        .boolean("condeferrable", |_| false)
        .boolean("condeferred", |_| false)
        .boolean("convalidated", |_| true)
        .oid("conrelid", |constraint| constraint.relation.oid)
        .oid("contypid", |_| 0)
        .oid("conindid", |constraint| constraint.key.map_or(0, |key| key.index))
        .oid("conparentid", |_| 0)
        .oid("confrelid", |_| 0)
        .letter("confupdtype", |_| ' ')
        .letter("confdeltype", |_| ' ')
        .letter("confmatchtype", |_| ' ')
        .boolean("conislocal", |_| true)
        .small("coninhcount", |_| 0)
        .boolean("connoinherit", |_| true)
        .smalls("conkey", |constraint| constraint.key.map(numbers))
        .smalls("confkey", |_| None)
        .null_list("conpfeqop")
        .null_list("conppeqop")
        .null_list("conffeqop")
        .smalls("confdelsetcols", |_| None)
        .null_list("conexclop")
        .null("conbin")
        .finish()
}

fn indexes(relations: &SystemCatalog) -> Rows {
    let keys: Vec<(&Relation, &Key)> = relations.keys().collect();
    let zeros = |key: &Key| vec![0; key.columns.len()];
    Table::of(&keys)
        .oid("indexrelid", |(_, key)| key.index)
        .oid("indrelid", |(relation, _)| relation.oid)
        .small("indnatts", |(_, key)| key.columns.len() as i16)
        .small("indnkeyatts", |(_, key)| key.columns.len() as i16)
        .boolean("indisunique", |(_, key)| key.constraint.is_some())
        .boolean("indnullsnotdistinct", |_| false)
        .boolean("indisprimary", |(_, key)| key.is_primary)
        .boolean("indisexclusion", |_| false)
        .boolean("indimmediate", |_| true)
        .boolean("indisclustered", |_| false)
        .boolean("indisvalid", |_| true)
        .boolean("indcheckxmin", |_| false)
        .boolean("indisready", |_| true)
        .boolean("indislive", |_| true)
        .boolean("indisreplident", |_| false)
        .smalls("indkey", |(_, key)| Some(numbers(key)))
        .smalls("indcollation", |(_, key)| Some(zeros(key)))
        .smalls("indclass", |(_, key)| Some(zeros(key)))
        .smalls("indoption", |(_, key)| Some(zeros(key)))
        .null("indexprs")
        .null("indpred")
        .finish()
}

fn databases(relations: &SystemCatalog) -> Rows {
    Table::of(&[relations.database()])
        .oid("oid", |_| oids::DATABASE)
        .name("datname", |name| *name)
        .oid("datdba", |_| oids::ROLE)
        .integer("encoding", |_| super::functions::UTF8)
        .letter("datlocprovider", |_| 'c')
        .boolean("datistemplate", |_| false)
        .boolean("datallowconn", |_| true)
        .boolean("dathasloginevt", |_| false)
        .integer("datconnlimit", |_| -1)
        .integer("datfrozenxid", |_| 0)
        .integer("datminmxid", |_| 0)
        .oid("dattablespace", |_| 1663)
        .text("datcollate", |_| Some("C"))
        .text("datctype", |_| Some("C"))
        .null("daticulocale")
        .null("datlocale")
        .null("daticurules")
        .null("datcollversion")
        .null_list("datacl")
        .finish()
}

fn roles(relations: &SystemCatalog) -> Rows {
    Table::of(&[relations.user()])
        .oid("oid", |_| oids::ROLE)
        .name("rolname", |name| *name)
        .boolean("rolsuper", |_| true)
        .boolean("rolinherit", |_| true)
        .boolean("rolcreaterole", |_| false)
        .boolean("rolcreatedb", |_| false)
        .boolean("rolcanlogin", |_| true)
        .boolean("rolreplication", |_| false)
        .boolean("rolbypassrls", |_| true)
        .integer("rolconnlimit", |_| -1)
        .null("rolpassword")
        .null("rolvaliduntil")
        .finish()
}

fn settings(relations: &SystemCatalog) -> Rows {
    let settings: Vec<(&String, &String)> = relations.settings.iter().collect();
    Table::of(&settings)
        .text("name", |(name, _)| Some(name.as_str()))
        .text("setting", |(_, value)| Some(value.as_str()))
        .null("unit")
        .text("category", |_| Some("Session"))
        .null("short_desc")
        .null("extra_desc")
        .text("context", |_| Some("user"))
        .text("vartype", |_| Some("string"))
        .text("source", |_| Some("session"))
        .null("min_val")
        .null("max_val")
        .null_list("enumvals")
        .null("boot_val")
        .null("reset_val")
        .null("sourcefile")
        .null("sourceline")
        .boolean("pending_restart", |_| false)
        .finish()
}

/// Sources by the connector that feeds them, which stands for a foreign data wrapper and its one server.
fn connectors(relations: &SystemCatalog) -> Vec<&str> {
    let mut names: Vec<&str> = relations.all.iter().filter_map(connector).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn connector(relation: &Relation) -> Option<&str> {
    let options = relation.connector.as_ref()?;
    Some(options.get("connector").map_or("", String::as_str))
}

const FIRST_WRAPPER: Oid = 14_000;
const FIRST_SERVER: Oid = 15_000;

fn wrappers(relations: &SystemCatalog) -> Rows {
    let numbered: Vec<_> = connectors(relations).into_iter().enumerate().collect();
    Table::of(&numbered)
        .oid("oid", |(number, _)| FIRST_WRAPPER + *number as Oid)
        .name("fdwname", |(_, name)| *name)
        .oid("fdwowner", |_| oids::ROLE)
        .oid("fdwhandler", |_| 0)
        .oid("fdwvalidator", |_| 0)
        .null_list("fdwacl")
        .null_list("fdwoptions")
        .finish()
}

fn servers(relations: &SystemCatalog) -> Rows {
    let numbered: Vec<_> = connectors(relations).into_iter().enumerate().collect();
    Table::of(&numbered)
        .oid("oid", |(number, _)| FIRST_SERVER + *number as Oid)
        .name("srvname", |(_, name)| *name)
        .oid("srvowner", |_| oids::ROLE)
        .oid("srvfdw", |(number, _)| FIRST_WRAPPER + *number as Oid)
        .null("srvtype")
        .null("srvversion")
        .null_list("srvacl")
        .null_list("srvoptions")
        .finish()
}

fn foreign_tables(relations: &SystemCatalog) -> Rows {
    let names = connectors(relations);
    let server = |name: &str| names.iter().position(|known| *known == name).unwrap_or_default() as Oid;
    let sources: Vec<(&Relation, &str)> = relations
        .all
        .iter()
        .filter_map(|relation| connector(relation).map(|name| (relation, name)))
        .collect();
    Table::of(&sources)
        .oid("ftrelid", |(relation, _)| relation.oid)
        .oid("ftserver", |(_, name)| FIRST_SERVER + server(name))
        .null_list("ftoptions")
        .finish()
}
