//! `/api/v1/snapshot/...`: several collections, or everything that can be read, at one epoch.

use super::App;
use super::error::{Answer, ApiError};
use super::inventory::kind_name;
use super::parameters::{Kind, Parameter, Parameters};
use super::respond;
use super::scan::split_names;
use super::stream::several_body;
use crate::encode::{Format, Numbers, write_json_text};
use arrow::datatypes::{Schema, SchemaRef};
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use cenote_query::Readable;
use std::io::Write;
use std::sync::Arc;

/// What the routes take.
pub const PARAMETERS: &[Parameter] = &[Parameter {
    name: "names",
    kind: Kind::Text,
    help: "`view`, `schema.view` or `cenote_state.table`, separated by commas; a name in double quotes may hold commas. Default: all tables, views and state tables but those of views that have failed.",
}];

fn names(query: Option<&str>) -> Result<Vec<String>, ApiError> {
    let parameters = Parameters::parse(query, PARAMETERS)?;
    Ok(parameters.text("names").map(split_names).unwrap_or_default())
}

/// Answers with an Arrow IPC stream for each collection, one behind the other.
pub async fn arrow(State(app): State<App>, RawQuery(query): RawQuery) -> Answer {
    let (epoch, scans) = app.database().scan_together(&names(query.as_deref())?).await?;
    let count = scans.len();
    let parts = scans.into_iter().map(|scan| {
        let schema = labelled(&scan.readable, count);
        Ok((Format::Arrow.encoder(&schema, Numbers::Raw)?, scan.batches))
    });
    let parts = parts.collect::<Result<Vec<_>, ApiError>>()?;
    let body = several_body(parts, app.limits().write_timeout);
    Ok(respond::of_type(Format::Arrow.content_type(), Some(epoch), body))
}

/// The columns of a collection, and in the schema's metadata what it is and how many come with it.
fn labelled(readable: &Readable, count: usize) -> SchemaRef {
    let key = readable.key.iter().map(|column| readable.columns.field(*column).name());
    let labels = [
        ("cenote.name", readable.readable_name()),
        ("cenote.schema", readable.schema_name.clone()),
        ("cenote.table", readable.name.clone()),
        ("cenote.kind", kind_name(readable.kind).to_string()),
        ("cenote.key", serde_json::json!(key.collect::<Vec<_>>()).to_string()),
        ("cenote.epoch", readable.epoch.to_string()),
        ("cenote.tables", count.to_string()),
    ];
    let labels = labels.map(|(name, value)| (name.to_string(), value));
    let fields = readable.columns.fields().clone();
    Arc::new(Schema::new_with_metadata(fields, labels.into_iter().collect()))
}

/// Answers with the digest of each collection: `{"epoch","digests":[{"name","digest","rows"}]}`.
pub async fn digest(State(app): State<App>, RawQuery(query): RawQuery) -> Answer {
    let (epoch, digests) = app.database().digests(&names(query.as_deref())?).await?;
    let mut body = format!("{{\"epoch\":{epoch},\"digests\":[").into_bytes();
    for (index, found) in digests.iter().enumerate() {
        body.extend_from_slice(if index > 0 { b",{\"name\":" } else { b"{\"name\":" });
        write_json_text(&mut body, &found.readable.readable_name());
        body.extend_from_slice(b",\"digest\":");
        write_json_text(&mut body, &found.digest);
        write!(body, ",\"rows\":{}}}", found.rows).expect("a Vec takes every write");
    }
    body.extend_from_slice(b"]}");
    Ok(respond::json(StatusCode::OK, Some(epoch), body))
}
