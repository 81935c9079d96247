//! `GET /api/v1/queryable_state/{name}/scan.{ndjson,csv,arrow,parquet}`: a whole collection at one epoch, streamed.

use super::App;
use super::error::Answer;
use super::parameters::{Kind, NUMBERS, Parameter, Parameters};
use super::request::Name;
use super::respond;
use super::scan::{COLUMNS, EPOCH, WHERE, request};
use super::stream::{limited, rows_body, started};
use crate::encode::Format;
use axum::extract::{RawQuery, State};

const LIMIT: Parameter = Parameter {
    name: "limit",
    kind: Kind::Integer,
    help: "Rows at most; default: all.",
};

/// What the binary formats and CSV take.
pub const PARAMETERS: &[Parameter] = &[COLUMNS, WHERE, EPOCH, LIMIT];
/// What NDJSON takes.
pub const PARAMETERS_NDJSON: &[Parameter] = &[COLUMNS, WHERE, EPOCH, LIMIT, NUMBERS];

async fn export(app: App, name: String, query: Option<String>, format: Format, allowed: &[Parameter]) -> Answer {
    let query = Parameters::parse(query.as_deref(), allowed)?;
    let (numbers, limit) = (query.numbers()?, query.integer("limit")?);
    let (schema, epoch, batches) = app.database().scan(request(name, &query)?).await?;
    let encoder = format.encoder(&schema, numbers)?;
    let batches = started(batches).await?;
    let batches = match limit {
        Some(limit) => limited(batches, limit),
        None => batches,
    };
    let body = rows_body(encoder, batches, app.limits().write_timeout, ());
    Ok(respond::of_type(format.content_type(), Some(epoch), body))
}

/// Answers with NDJSON.
pub async fn ndjson(State(app): State<App>, Name(name): Name, RawQuery(query): RawQuery) -> Answer {
    export(app, name, query, Format::Ndjson, PARAMETERS_NDJSON).await
}

/// Answers with CSV.
pub async fn csv(State(app): State<App>, Name(name): Name, RawQuery(query): RawQuery) -> Answer {
    export(app, name, query, Format::Csv, PARAMETERS).await
}

/// Answers with an Arrow IPC stream.
pub async fn arrow(State(app): State<App>, Name(name): Name, RawQuery(query): RawQuery) -> Answer {
    export(app, name, query, Format::Arrow, PARAMETERS).await
}

/// Answers with a Parquet file.
pub async fn parquet(State(app): State<App>, Name(name): Name, RawQuery(query): RawQuery) -> Answer {
    export(app, name, query, Format::Parquet, PARAMETERS).await
}
