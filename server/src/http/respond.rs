//! Whole answers: status, media type, epoch, body.

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use axum::http::{Response, StatusCode};
use cenote_statestore::Epoch;

/// Header that carries the epoch of a read.
pub const EPOCH: HeaderName = HeaderName::from_static("cenote-epoch");

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A JSON answer.
pub fn json(status: StatusCode, epoch: Option<Epoch>, body: impl Into<Body>) -> Response<Body> {
    answer(status, JSON, epoch, body.into())
}

/// An answer of any media type.
pub fn of_type(content_type: &'static str, epoch: Option<Epoch>, body: Body) -> Response<Body> {
    answer(StatusCode::OK, HeaderValue::from_static(content_type), epoch, body)
}

fn answer(status: StatusCode, content_type: HeaderValue, epoch: Option<Epoch>, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, NO_STORE);
    if let Some(Epoch(epoch)) = epoch {
        headers.insert(EPOCH, HeaderValue::from(epoch));
    }
    response
}
