//! SHOW TABLES, VIEWS, HISTORY, CREATE ... and their kind.

use crate::catalog::Object;
use crate::database::Database;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_statestore::{Error, ErrorKind, Result};
use std::sync::Arc;

/// What a SHOW lists.
enum Listing {
    Objects(&'static str),
    State,
    Checkpoints,
    History(String),
    Sinks,
    Create(String),
}

fn listing(words: &str) -> Result<Listing> {
    let parts: Vec<&str> = words.split(' ').collect();
    Ok(match parts.as_slice() {
        ["tables"] => Listing::Objects("table"),
        ["sources"] => Listing::Objects("source"),
        ["sinks"] => Listing::Sinks,
        ["views"] => Listing::Objects("view"),
        ["materialized", "views"] => Listing::Objects("materialized view"),
        ["state"] => Listing::State,
        ["create", "table" | "source" | "sink" | "view" | "object", name] => Listing::Create(name.to_string()),
        ["create", "materialized", "view", name] => Listing::Create(name.to_string()),
        ["checkpoints"] => Listing::Checkpoints,
        ["history", "of", name @ ..] if !name.is_empty() => {
            let name = name.concat();
            Listing::History(name.strip_prefix("public.").unwrap_or(&name).to_string())
        }
        _ => {
            return Err(Error::new(
                ErrorKind::Invalid,
                "SQL-0503",
                format!("cannot show \"{words}\": there is no such list"),
            )
            .sqlstate("42601")
            .attempt("SHOW TABLES, SOURCES, SINKS, VIEWS, MATERIALIZED VIEWS, STATE, CHECKPOINTS, HISTORY OF <name> or CREATE <object>"));
        }
    })
}

fn text_columns(names: &[&str]) -> SchemaRef {
    Arc::new(Schema::new(
        names
            .iter()
            .map(|name| Field::new(*name, DataType::Utf8, true))
            .collect::<Vec<_>>(),
    ))
}

/// Columns of the answer.
pub(crate) fn columns(words: &str) -> Result<SchemaRef> {
    Ok(match listing(words)? {
        Listing::Objects(_) => text_columns(&["name"]),
        Listing::State => text_columns(&["view", "operator", "table"]),
        Listing::Checkpoints => crate::checkpoints::table(Vec::new())?.schema(),
        Listing::History(_) => crate::history::columns()?,
        Listing::Sinks => crate::sink::columns()?,
        Listing::Create(_) => text_columns(&["name", "create_statement"]),
    })
}

/// The answer.
pub(crate) async fn rows(database: &Arc<Database>, words: &str) -> Result<RecordBatch> {
    let catalog = database.catalog();
    let rows: Vec<Vec<String>> = match listing(words)? {
        Listing::Checkpoints => return crate::checkpoints::table(database.checkpoints().await?),
        Listing::History(name) => return crate::history::rows(database, &name).await,
        Listing::Sinks => return crate::sink::table(database, &catalog),
        Listing::Objects(kind) => {
            let named = catalog.objects().filter(|object| object.kind() == kind);
            named.map(|object| vec![object.name().to_string()]).collect()
        }
        Listing::State => database
            .state_tables(&catalog)
            .into_iter()
            .map(|state| {
                vec![
                    state.view.definition.name.clone(),
                    state.operator.to_string(),
                    state.schema.name,
                ]
            })
            .collect(),
        Listing::Create(name) => {
            let name = name.strip_prefix("public.").unwrap_or(&name);
            let sink = || Some(catalog.sink(name)?.definition.sql.as_str());
            let sql = catalog.get(name).map(Object::sql).or_else(sink);
            vec![vec![
                name.to_string(),
                sql.ok_or_else(|| catalog.missing(name))?.to_string(),
            ]]
        }
    };
    let schema = columns(words)?;
    let arrays = (0..schema.fields().len()).map(|column| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            rows.iter().map(|row| row[column].as_str()),
        ))
    });
    Ok(RecordBatch::try_new(schema.clone(), arrays.collect())?)
}
