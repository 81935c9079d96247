//! `POST /api/v1/tables/{name}/rows`: a body of rows, appended as one epoch, durable when it is answered.

use super::App;
use super::error::{Answer, ApiError};
use super::parameters::Parameters;
use super::request::{Name, read_body};
use super::respond;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use cenote_connectors::decode::{BodyFormat, decode_with_defaults};
use cenote_query::{AppendRows, AppendSchema};
use cenote_statestore::{Error, ErrorKind};

/// Bodies up to this size are decoded in place, larger ones where they hold up no other request.
const INLINE_BYTES: usize = 64 << 10;

/// Media types of bodies, first the one to use.
pub const MEDIA_TYPES: &[(&str, BodyFormat)] = &[
    ("application/x-ndjson", BodyFormat::Ndjson),
    ("application/ndjson", BodyFormat::Ndjson),
    ("application/jsonl", BodyFormat::Ndjson),
    ("application/x-jsonlines", BodyFormat::Ndjson),
    ("application/json", BodyFormat::JsonArray),
    ("text/csv", BodyFormat::Csv),
    ("application/vnd.apache.arrow.stream", BodyFormat::ArrowStream),
];

fn body_format(headers: &HeaderMap) -> Result<BodyFormat, ApiError> {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or("");
    let media = value.split(';').next().unwrap_or("").trim();
    if let Some((_, format)) = MEDIA_TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(media)) {
        return Ok(*format);
    }
    let reason = if media.is_empty() {
        "no Content-Type".to_owned()
    } else {
        format!("Content-Type `{media}`")
    };
    let names: Vec<&str> = MEDIA_TYPES.iter().map(|(name, _)| *name).collect();
    let error = Error::new(
        ErrorKind::Invalid,
        "HTTP-0007",
        format!("cannot read rows from the body: {reason} is not a format of rows"),
    );
    Err(ApiError::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        error.fact("formats", names.join(", ")),
    ))
}

fn decode(schema: &AppendSchema, format: BodyFormat, body: &[u8]) -> Result<Vec<AppendRows>, Error> {
    let decoded = decode_with_defaults(&schema.columns, &schema.has_default, format, body)?.into_iter();
    let rows = decoded.map(|decoded| AppendRows {
        batch: decoded.batch,
        absent: decoded.absent,
    });
    Ok(rows.collect())
}

/// Answers an append: `{"epoch":n,"rows":n}`.
pub async fn append(
    State(app): State<App>,
    Name(name): Name,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    let format = body_format(&headers)?;
    let schema = app.database().append_schema(&name)?;
    let body = read_body(&headers, body, app.limits()).await?;
    let batches = if body.len() <= INLINE_BYTES {
        decode(&schema, format, &body)?
    } else {
        let decoding = tokio::task::spawn_blocking(move || decode(&schema, format, &body));
        decoding
            .await
            .map_err(|error| Error::bug(format!("cannot decode rows: {error}")))??
    };
    let rows: usize = batches.iter().map(|rows| rows.batch.num_rows()).sum();
    let epoch = if rows == 0 {
        app.database().epoch()
    } else {
        app.database().append(&name, batches).await?
    };
    let answer = format!("{{\"epoch\":{epoch},\"rows\":{rows}}}");
    Ok(respond::json(StatusCode::OK, Some(epoch), answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn format_of(content_type: Option<&'static str>) -> Option<BodyFormat> {
        let mut headers = HeaderMap::new();
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        }
        body_format(&headers).ok()
    }

    #[test]
    fn content_type_decides_the_format() {
        assert_eq!(format_of(Some("text/csv; charset=utf-8")), Some(BodyFormat::Csv));
        assert_eq!(format_of(Some("Application/JSON")), Some(BodyFormat::JsonArray));
        assert_eq!(format_of(Some("application/x-www-form-urlencoded")), None);
        assert_eq!(format_of(None), None);
    }
}
