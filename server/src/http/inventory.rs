//! What can be read, and digests of it.

use super::App;
use super::error::Answer;
use super::parameters::Parameters;
use super::request::Name;
use super::respond;
use crate::encode::write_json_text;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use cenote_query::pgtype::shown_type;
use cenote_query::{Readable, ReadableKind};
use std::io::Write;

/// What a collection is.
pub fn kind_name(kind: ReadableKind) -> &'static str {
    match kind {
        ReadableKind::Table => "table",
        ReadableKind::MaterializedView => "materialized_view",
        ReadableKind::State => "state",
    }
}

fn write_readable(out: &mut Vec<u8>, readable: &Readable) {
    out.extend_from_slice(b"{\"name\":");
    write_json_text(out, &readable.readable_name());
    out.extend_from_slice(b",\"schema\":");
    write_json_text(out, &readable.schema_name);
    out.extend_from_slice(b",\"kind\":");
    write_json_text(out, kind_name(readable.kind));
    out.extend_from_slice(b",\"key\":[");
    for (index, column) in readable.key.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_json_text(out, readable.columns.field(*column).name());
    }
    write!(out, "],\"key_unique\":{},\"columns\":[", readable.key_unique).expect("a Vec takes every write");
    for (index, field) in readable.columns.fields().iter().enumerate() {
        out.extend_from_slice(if index > 0 { b",{\"name\":" } else { b"{\"name\":" });
        write_json_text(out, field.name());
        out.extend_from_slice(b",\"type\":");
        write_json_text(out, &shown_type(field));
        write!(out, ",\"nullable\":{}}}", field.is_nullable()).expect("a Vec takes every write");
    }
    let (rows, bytes, epoch) = (readable.rows, readable.bytes, readable.epoch);
    write!(out, "],\"rows\":{rows},\"bytes\":{bytes},\"epoch\":{epoch}}}").expect("a Vec takes every write");
}

/// Answers with everything that can be read.
pub async fn list(State(app): State<App>, RawQuery(query): RawQuery) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    let epoch = app.database().epoch();
    let mut body = vec![b'['];
    for (index, readable) in app.database().readables().await?.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        write_readable(&mut body, readable);
    }
    body.push(b']');
    Ok(respond::json(StatusCode::OK, Some(epoch), body))
}

/// Answers with the digest of one collection: `{"name","digest","rows","epoch"}`.
pub async fn digest(State(app): State<App>, Name(name): Name, RawQuery(query): RawQuery) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    let (digest, rows, epoch) = app.database().digest(&name).await?;
    let mut body = b"{\"name\":".to_vec();
    write_json_text(&mut body, &name);
    body.extend_from_slice(b",\"digest\":");
    write_json_text(&mut body, &digest);
    write!(body, ",\"rows\":{rows},\"epoch\":{epoch}}}").expect("a Vec takes every write");
    Ok(respond::json(StatusCode::OK, Some(epoch), body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};
    use cenote_statestore::Epoch;
    use std::sync::Arc;

    #[test]
    fn entry_tells_name_kind_key_columns_rows_and_epoch() {
        let columns = vec![
            Field::new("k", DataType::Int64, false),
            Field::new("v", DataType::Utf8, true),
        ];
        let readable = Readable {
            schema_name: "cenote_state".into(),
            name: "by_owner_agg".into(),
            kind: ReadableKind::State,
            columns: Arc::new(Schema::new(columns)),
            key: vec![0],
            key_unique: true,
            rows: 2,
            bytes: 160,
            epoch: Epoch(7),
        };
        let mut out = Vec::new();
        write_readable(&mut out, &readable);
        let expected = r#"{"name":"cenote_state.by_owner_agg","schema":"cenote_state","kind":"state","key":["k"],"key_unique":true,"columns":[{"name":"k","type":"bigint","nullable":false},{"name":"v","type":"text","nullable":true}],"rows":2,"bytes":160,"epoch":7}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
