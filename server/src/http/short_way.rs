//! Lookups of one key, answered where the request is read: no router, no task, no plan, no description of what is read.
//!
//! # Rules kept here
//! Only what is found is answered here, with the bytes that [`super::lookup`] would answer. Everything else (a missing
//! row, an error, a query string of several parts, a percent sign) takes the long way, which also says what is wrong.

use super::{App, respond};
use crate::encode::write_json_text;
use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, Uri};
use axum::routing::Router;
use cenote_query::PointRow;
use futures::future::{Either, Ready, ready};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::service::{TowerToHyperService, TowerToHyperServiceFuture};
use std::convert::Infallible;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// Where lookups are, up to the name.
const PREFIX: &str = "/api/v1/queryable_state/";

/// The router, and the short way past it.
pub struct ShortWay {
    app: App,
    router: TowerToHyperService<Router>,
}

impl ShortWay {
    /// The short way past `router`.
    pub fn new(app: App, router: Router) -> ShortWay {
        ShortWay {
            app,
            router: TowerToHyperService::new(router),
        }
    }
}

impl Service<Request<Incoming>> for ShortWay {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future =
        Either<Ready<Result<Response<Body>, Infallible>>, TowerToHyperServiceFuture<Router, Request<Incoming>>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        match look_up(&self.app, request.method(), request.uri()) {
            Some(answer) => Either::Left(ready(Ok(answer))),
            None => Either::Right(self.router.call(request)),
        }
    }
}

/// The answer of a lookup by `key=V` that finds its row.
pub(super) fn look_up(app: &App, method: &Method, uri: &Uri) -> Option<Response<Body>> {
    if method != Method::GET {
        return None;
    }
    let name = uri.path().strip_prefix(PREFIX)?;
    let key = uri.query()?.strip_prefix("key=")?;
    // Parts of a path, several parameters, and letters that are written otherwise.
    let is_plain = |text: &str, special: &[u8]| !text.bytes().any(|byte| special.contains(&byte));
    if !is_plain(name, b"/%") || !is_plain(key, b"&%+") {
        return None;
    }
    let since = Instant::now();
    // Where the long way panics too, it answers.
    let looked_up = catch_unwind(AssertUnwindSafe(|| {
        app.database()
            .read_point(name, &[key], |row| (row.epoch, write_answer(&row)))
    }));
    let (epoch, body) = looked_up.ok().flatten()?;
    let answer = respond::json(StatusCode::OK, Some(epoch), body);
    app.figures().count_lookup(since);
    Some(answer)
}

/// Writes `{"name","epoch","key","value"}`.
fn write_answer(row: &PointRow<'_>) -> Vec<u8> {
    let mut body = Vec::with_capacity(256);
    body.extend_from_slice(b"{\"name\":");
    write_json_text(&mut body, row.name);
    write!(body, ",\"epoch\":{},\"key\":", row.epoch).expect("a Vec takes every write");
    write_columns(&mut body, row, row.key.iter().copied());
    body.extend_from_slice(b",\"value\":");
    write_columns(&mut body, row, 0..row.columns.fields().len());
    body.push(b'}');
    body
}

fn write_columns(out: &mut Vec<u8>, row: &PointRow<'_>, columns: impl Iterator<Item = usize>) {
    out.push(b'{');
    for (index, column) in columns.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_json_text(out, row.columns.field(column).name());
        out.push(b':');
        row.write_json(out, column, false);
    }
    out.push(b'}');
}
