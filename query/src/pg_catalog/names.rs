//! Names of relations, types, schemas and functions, and their OIDs: what casts to and from `regclass` and its kind
//! compute.

use super::functions::{numbers, texts, undefined};
use super::library;
use super::oids::Oid;
use super::relations::{NAMESPACES, Relation, SystemCatalog};
use crate::pgtype::PgType;
use arrow::array::{ArrayRef, AsArray, Int32Array, StringArray};
use arrow::datatypes::Int32Type;
use datafusion::error::Result;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// Names of a system table by OID, and OIDs by name.
struct Index {
    names: HashMap<Oid, String>,
    oids: HashMap<String, Oid>,
}

static TYPES: LazyLock<Index> = LazyLock::new(|| Index::of("pg_type", "typname"));
static FUNCTIONS: LazyLock<Index> = LazyLock::new(|| Index::of("pg_proc", "proname"));

impl Index {
    fn of(table: &str, name_column: &str) -> Index {
        let (mut names, mut oids) = (HashMap::new(), HashMap::new());
        for rows in library::table(table).into_iter().flat_map(|(_, rows)| rows) {
            let (Some(oid), Some(name)) = (rows.column_by_name("oid"), rows.column_by_name(name_column)) else {
                continue;
            };
            let pairs = oid.as_primitive::<Int32Type>().iter().zip(name.as_string::<i32>());
            for (oid, name) in pairs.filter_map(|(oid, name)| Some((oid?, name?))) {
                names.insert(oid, name.to_string());
                oids.entry(name.to_string()).or_insert(oid);
            }
        }
        Index { names, oids }
    }
}

/// `pg_type.typname`.
pub(super) fn type_name(oid: Oid) -> Option<&'static str> {
    TYPES.names.get(&oid).map(String::as_str)
}

/// An identifier as SQL needs it.
pub(super) fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match is_plain {
        true => name.to_string(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// A relation's name, with its schema if its name alone does not mean it or if it is `always` asked for.
pub(super) fn qualified(relation: &Relation, always: bool) -> String {
    let schema = NAMESPACES.iter().find(|namespace| namespace.oid == relation.namespace);
    match schema {
        Some(schema) if always || !relation.is_visible() => format!("{}.{}", schema.name, quoted(&relation.name)),
        _ => quoted(&relation.name),
    }
}

/// The parts of a name, quoted or not; `None`: it is no name.
fn parts(name: &str) -> Option<Vec<String>> {
    let (mut parts, mut part, mut chars) = (Vec::new(), String::new(), name.trim().chars().peekable());
    let mut is_quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '"' if is_quoted && chars.peek() == Some(&'"') => part.extend(chars.next()),
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => parts.push(std::mem::take(&mut part)),
            c if is_quoted => part.push(c),
            c => part.extend(c.to_lowercase()),
        }
    }
    parts.push(part);
    (!is_quoted && parts.iter().all(|part| !part.is_empty())).then_some(parts)
}

fn to_names(argument: &ArrayRef, name: impl Fn(Oid) -> Option<String>) -> Result<ArrayRef> {
    let shown = |oid: i64| match Oid::try_from(oid) {
        Ok(0) => "-".to_string(),
        Ok(known) => name(known).unwrap_or_else(|| oid.to_string()),
        Err(_) => oid.to_string(),
    };
    let oids = numbers(argument)?;
    Ok(Arc::new(oids.iter().map(|oid| oid.map(shown)).collect::<StringArray>()))
}

/// OIDs of names; a number is an OID itself, `-` is none.
fn to_oids(argument: &ArrayRef, oid: impl Fn(&str) -> Result<Oid>) -> Result<ArrayRef> {
    let read = |text: Option<&str>| match text {
        None => Ok(None),
        Some("-") => Ok(Some(0)),
        Some(text) => match text.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => oid(text).map(Some),
        },
    };
    let names = texts(argument)?;
    Ok(Arc::new(names.iter().map(read).collect::<Result<Int32Array>>()?))
}

pub(super) fn class_names(relations: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    to_names(&arguments[0], |oid| {
        let key = || {
            let (_, key) = relations.keys().find(|(_, key)| key.index == oid)?;
            Some(quoted(&key.name))
        };
        relations
            .get(oid)
            .map(|relation| qualified(relation, false))
            .or_else(key)
    })
}

pub(super) fn class_oids(relations: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    to_oids(&arguments[0], |text| {
        let parts = parts(text).unwrap_or_default();
        let found = match parts.as_slice() {
            [name] => relations
                .find(None, name)
                .map(|relation| relation.oid)
                .or_else(|| key_index(relations, name)),
            [.., schema, name] => relations.find(Some(schema), name).map(|relation| relation.oid),
            [] => None,
        };
        found.ok_or_else(|| undefined("relation", text, "42P01"))
    })
}

fn key_index(relations: &SystemCatalog, name: &str) -> Option<Oid> {
    let found = relations.keys().find(|(_, key)| key.name == name);
    found.map(|(_, key)| key.index)
}

pub(super) fn type_names(_: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    to_names(&arguments[0], |oid| match PgType::from_oid(oid as u32) {
        Some(pg) => Some(pg.display(-1)),
        None => type_name(oid).map(str::to_string),
    })
}

pub(super) fn type_oids(_: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    to_oids(&arguments[0], |text| {
        let bare = text.trim().trim_start_matches("pg_catalog.");
        let known = || PgType::from_name(bare).map(|pg| pg.oid as Oid);
        known()
            .or_else(|| TYPES.oids.get(&parts(bare)?.pop()?).copied())
            .ok_or_else(|| undefined("type", text, "42704"))
    })
}

pub(super) fn namespace_names(_: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    to_names(&arguments[0], |oid| {
        let found = NAMESPACES.iter().find(|namespace| namespace.oid == oid)?;
        Some(found.name.to_string())
    })
}

pub(super) fn namespace_oids(_: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    to_oids(&arguments[0], |text| {
        let name = parts(text).and_then(|mut parts| parts.pop());
        NAMESPACES
            .iter()
            .find(|namespace| Some(namespace.name) == name.as_deref())
            .map(|namespace| namespace.oid)
            .ok_or_else(|| undefined("schema", text, "3F000"))
    })
}

pub(super) fn function_names(_: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    to_names(&arguments[0], |oid| FUNCTIONS.names.get(&oid).cloned())
}

pub(super) fn function_oids(_: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    to_oids(&arguments[0], |text| {
        let name = parts(text).and_then(|mut parts| parts.pop());
        name.and_then(|name| FUNCTIONS.oids.get(&name).copied())
            .ok_or_else(|| undefined("function", text, "42883"))
    })
}

pub(super) fn role_oids(relations: &SystemCatalog, arguments: &[ArrayRef], _: usize) -> Result<ArrayRef> {
    to_oids(&arguments[0], |text| {
        match parts(text).and_then(|mut parts| parts.pop()) {
            Some(name) if name == relations.user() => Ok(super::oids::ROLE),
            _ => Err(undefined("role", text, "42704")),
        }
    })
}
