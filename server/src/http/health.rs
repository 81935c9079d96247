//! Liveness, readiness, and routes that are promised and not built.

use super::App;
use super::error::ApiError;
use super::respond;
use crate::encode::write_json_text;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Method, Response, StatusCode, Uri};
use cenote_statestore::{Error, ErrorKind};

/// Answers that the process lives.
pub async fn live() -> Response<Body> {
    respond::json(StatusCode::OK, None, &b"{\"status\":\"ok\"}"[..])
}

/// Answers whether requests will be served: `{"ready":true}`, or 503 with reasons.
pub async fn ready(State(app): State<App>) -> Response<Body> {
    let problems = app.database().health().problems;
    let stopping = *app.0.stopping.borrow();
    ready_answer(&problems, stopping)
}

fn ready_answer(problems: &[String], stopping: bool) -> Response<Body> {
    let stopping = stopping.then_some("the server is shutting down");
    let reasons: Vec<&str> = problems.iter().map(String::as_str).chain(stopping).collect();
    if reasons.is_empty() {
        return respond::json(StatusCode::OK, None, &b"{\"ready\":true,\"reasons\":[]}"[..]);
    }
    let mut body = b"{\"ready\":false,\"reasons\":[".to_vec();
    for (index, reason) in reasons.iter().enumerate() {
        if index > 0 {
            body.push(b',');
        }
        write_json_text(&mut body, reason);
    }
    body.extend_from_slice(b"]}");
    respond::json(StatusCode::SERVICE_UNAVAILABLE, None, body)
}

/// Answers for a route that is promised and not built: 501.
pub async fn not_built(uri: Uri) -> ApiError {
    let message = format!("cannot answer {}: not supported yet", uri.path());
    Error::new(ErrorKind::Unsupported, "HTTP-0008", message)
        .attempt("POST /api/v1/sql does what SQL can do; GET /openapi.json lists every route")
        .into()
}

/// Answers for an address that is no route: 404.
pub async fn no_route(uri: Uri) -> ApiError {
    let error = Error::new(
        ErrorKind::Invalid,
        "HTTP-0001",
        format!("cannot find {}: no such route", uri.path()),
    )
    .attempt("GET /openapi.json lists every route");
    ApiError::new(StatusCode::NOT_FOUND, error)
}

/// Answers for a route that does not take the method: 405.
pub async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let message = format!("cannot {method} {}: the route does not take this method", uri.path());
    let error = Error::new(ErrorKind::Invalid, "HTTP-0021", message).attempt("GET /openapi.json lists every route");
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn readiness_lists_every_reason() {
        assert_eq!(ready_answer(&[], false).status(), StatusCode::OK);
        let answer = ready_answer(&["view `rich` failed".into()], true);
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        let body = axum::body::to_bytes(answer.into_body(), 1000).await.unwrap();
        assert_eq!(
            body,
            r#"{"ready":false,"reasons":["view `rich` failed","the server is shutting down"]}"#
        );
    }
}
