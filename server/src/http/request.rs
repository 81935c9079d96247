//! What handlers take from a request: the name in the path, the body within its limit, who asks.

use super::error::ApiError;
use super::{App, Limits};
use axum::body::{Body, BodyDataStream};
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::header::{CONTENT_LENGTH, EXPECT, HOST, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use cenote_statestore::{Error, ErrorKind};
use futures::{FutureExt, StreamExt};
use serde_json::{Map, Value};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

/// How long the rest of a body that is too large is read.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// The `{name}` of a path.
pub struct Name(pub String);

impl FromRequestParts<App> for Name {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Name, ApiError> {
        match Path::<String>::from_request_parts(parts, app).await {
            Ok(Path(name)) => Ok(Name(name)),
            Err(error) => Err(
                ApiError::invalid("HTTP-0002", format!("cannot read the name in the address: {error}"))
                    .attempt("percent-encode the name as UTF-8"),
            ),
        }
    }
}

fn too_large(seen: impl std::fmt::Display, limits: &Limits) -> ApiError {
    let error = Error::new(
        ErrorKind::Invalid,
        "HTTP-0005",
        "cannot take the request: its body is too large",
    )
    .sqlstate("54000")
    .fact("seen", format!("{seen} bytes"))
    .fact("limit", format!("{} bytes, set by --max-body", limits.body_bytes_max))
    .attempt("send several smaller requests");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, error)
}

/// Reads a whole body.
///
/// # Errors
/// 413: larger than the limit; 408: the client paused longer than the read timeout; 400: it went away.
pub async fn read_body(headers: &HeaderMap, body: Body, limits: &Limits) -> Result<Bytes, ApiError> {
    let expected = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<usize>().ok());
    if let Some(length) = expected.filter(|length| *length > limits.body_bytes_max) {
        // A client that asked first has sent nothing.
        if !headers.contains_key(EXPECT) {
            discard(body.into_data_stream()).await;
        }
        return Err(too_large(length, limits));
    }
    let mut stream = body.into_data_stream();
    let mut bytes = Vec::with_capacity(expected.unwrap_or(0));
    loop {
        let next = tokio::time::timeout(limits.read_timeout, stream.next())
            .await
            .map_err(|_| slow(limits))?;
        let Some(frame) = next else { break };
        let frame = frame.map_err(|error| {
            ApiError::invalid(
                "HTTP-0006",
                format!("cannot read the request's body to its end: {error}"),
            )
        })?;
        if bytes.len() + frame.len() > limits.body_bytes_max {
            discard(stream).await;
            return Err(too_large(format_args!("more than {}", bytes.len()), limits));
        }
        bytes.extend_from_slice(&frame);
    }
    Ok(bytes.into())
}

/// Reads on for a while: a client that is still sending would find its connection closed, and never read the answer.
async fn discard(mut body: BodyDataStream) {
    let all = async {
        while let Some(Ok(_)) = body.next().await {
            // A body that always has more would never let the clock be looked at.
            tokio::task::coop::consume_budget().await;
        }
    };
    // A client that sends for longer is cut.
    let _ = tokio::time::timeout(DISCARD_TIME, all).await;
}

fn slow(limits: &Limits) -> ApiError {
    let error = Error::new(
        ErrorKind::Unavailable,
        "HTTP-0015",
        "cannot read the request's body: the client paused too long",
    )
    .sqlstate("08006")
    .fact("limit", format!("{:?}, set by --read-timeout", limits.read_timeout))
    .attempt("send the whole body again without a pause: nothing of it was kept");
    ApiError::new(StatusCode::REQUEST_TIMEOUT, error)
}

/// Parses a body that must be a JSON object with no other than the given fields.
///
/// # Errors
/// 400: not JSON, not an object, or an unknown field (the nearest is suggested).
pub fn parse_object(body: &[u8], fields: &[&str]) -> Result<Map<String, Value>, ApiError> {
    let object: Map<String, Value> = serde_json::from_slice(body).map_err(|error| {
        ApiError::invalid(
            "HTTP-0006",
            format!("cannot read the request's body as a JSON object: {error}"),
        )
        .fact("fields", fields.join(", "))
    })?;
    for name in object.keys() {
        if fields.contains(&name.as_str()) {
            continue;
        }
        let error = ApiError::invalid(
            "HTTP-0006",
            format!("cannot use field `{name}` of the request's body: unknown"),
        )
        .fact("fields", fields.join(", "));
        return Err(match super::nearest(name, fields.iter().copied()) {
            Some(near) => error.attempt(format!("did you mean `{near}`?")),
            None => error,
        });
    }
    Ok(object)
}

/// Answers with an error where a handler panics: the connection would be closed without a word otherwise.
pub async fn caught(request: Request, next: Next) -> Response {
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().await;
    answer.unwrap_or_else(|_| {
        let error = Error::bug("cannot answer the request: its handler panicked");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, error).into_response()
    })
}

/// Refuses writes that a browser sends on behalf of a page of another origin: the server listens on the user's own
/// machine, and any page that the user visits could reach it.
pub async fn same_origin(request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) || is_same_origin(request.headers()) {
        return next.run(request).await;
    }
    let error = Error::new(
        ErrorKind::Invalid,
        "HTTP-0012",
        "cannot take a write from a page of another origin",
    )
    .sqlstate("42501")
    .attempt("send it from a program, or from a page that this server served");
    ApiError::new(StatusCode::FORBIDDEN, error).into_response()
}

fn is_same_origin(headers: &HeaderMap) -> bool {
    let Some(origin) = headers.get(ORIGIN) else { return true };
    let origin = origin.to_str().unwrap_or("");
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    authority.is_some() && authority == host
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn headers(origin: Option<&'static str>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("127.0.0.1:8080"));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        headers
    }

    #[test]
    fn only_pages_of_this_server_and_programs_may_write() {
        assert!(is_same_origin(&headers(None)));
        assert!(is_same_origin(&headers(Some("http://127.0.0.1:8080"))));
        assert!(!is_same_origin(&headers(Some("http://evil.example"))));
        assert!(!is_same_origin(&headers(Some("null"))));
    }

    #[test]
    fn unknown_body_field_is_refused_with_the_nearest_name() {
        let error = parse_object(br#"{"sqll":"select 1"}"#, &["sql", "params"])
            .err()
            .unwrap();
        assert_eq!(error.error().hint(), Some("did you mean `sql`?"));
        assert!(parse_object(b"[1]", &["sql"]).is_err());
        assert!(parse_object(br#"{"sql":"select 1"}"#, &["sql"]).is_ok());
    }
}
