//! `/api/v1/checkpoints`, `/api/v1/savepoints`: what CHECKPOINT, SHOW CHECKPOINTS, CREATE and DROP SAVEPOINT can do, for programs.

use super::App;
use super::error::{Answer, ApiError};
use super::parameters::Parameters;
use super::request::{Name, parse_object, read_body};
use super::{listing, respond};
use crate::encode::write_json_text;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use cenote_statestore::{Error, ErrorKind};
use std::io::Write;

/// The code of a server that has no place for checkpoints.
const NO_PLACE: &str = "CKPT-0101";

/// Answers with all checkpoints, oldest first.
pub async fn list(State(app): State<App>, RawQuery(query): RawQuery) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    let rows = app.database().checkpoint_listing().await?;
    listing::all(&rows, app.database().epoch())
}

/// Answers with one checkpoint.
pub async fn one(State(app): State<App>, Name(id): Name, RawQuery(query): RawQuery) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    checkpoint(&app, &id).await
}

async fn checkpoint(app: &App, id: &str) -> Answer {
    let rows = app.database().checkpoint_listing().await?;
    let missing = || {
        let error = Error::new(ErrorKind::Invalid, "CKPT-0006", format!("checkpoint {id} is not there"));
        error
            .sqlstate("02000")
            .attempt("GET /api/v1/checkpoints lists those there are")
    };
    listing::one(&rows, id, app.database().epoch(), missing)
}

/// Takes a checkpoint; answers with it once it is there.
pub async fn take(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap, body: Body) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    let body = read_body(&headers, body, app.limits()).await?;
    if !body.trim_ascii().is_empty() {
        parse_object(&body, &[])?;
    }
    let manifest = app.database().checkpoint(None).await.map_err(refused)?;
    checkpoint(&app, manifest.id().as_str()).await
}

/// Answers with all savepoints, by name.
pub async fn list_savepoints(State(app): State<App>, RawQuery(query): RawQuery) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    let rows = app.database().savepoint_listing().await?;
    listing::all(&rows, app.database().epoch())
}

/// Answers with one savepoint.
pub async fn one_savepoint(State(app): State<App>, Name(name): Name, RawQuery(query): RawQuery) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    savepoint(&app, &name).await
}

async fn savepoint(app: &App, name: &str) -> Answer {
    let rows = app.database().savepoint_listing().await?;
    let missing = || {
        let message = format!("cannot find savepoint \"{name}\": there is none of that name");
        Error::new(ErrorKind::Invalid, "CKPT-0009", message).sqlstate("42704")
    };
    listing::one(&rows, name, app.database().epoch(), missing)
}

/// Takes a checkpoint that is kept under a name: `{"name"}`; answers with the savepoint.
pub async fn create_savepoint(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    let body = read_body(&headers, body, app.limits()).await?;
    let object = parse_object(&body, &["name"])?;
    let name = object.get("name").and_then(|name| name.as_str()).ok_or_else(|| {
        let message = "cannot make a savepoint: the request's body has no text `name`";
        ApiError::invalid("HTTP-0006", message).fact("fields", "name")
    })?;
    app.database().checkpoint(Some(name)).await.map_err(refused)?;
    savepoint(&app, name).await
}

/// Forgets a savepoint; answers `{"name","epoch"}`.
pub async fn drop_savepoint(State(app): State<App>, Name(name): Name, RawQuery(query): RawQuery) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    app.database().drop_savepoint(&name).await.map_err(refused)?;
    let epoch = app.database().epoch();
    let mut body = b"{\"name\":".to_vec();
    write_json_text(&mut body, &name);
    write!(body, ",\"epoch\":{epoch}}}").expect("a Vec takes every write");
    Ok(respond::json(StatusCode::OK, Some(epoch), body))
}

/// What is not there, there already, or has no place.
fn refused(error: Error) -> ApiError {
    let status = match (error.code(), error.state()) {
        (NO_PLACE, _) => StatusCode::SERVICE_UNAVAILABLE,
        (_, "42704") => StatusCode::NOT_FOUND,
        (_, "42710") => StatusCode::CONFLICT,
        _ => return error.into(),
    };
    ApiError::new(status, error)
}
