//! `POST /api/v1/sql`: statements in, results out, as JSON or as an Arrow stream.
//!
//! Several statements are one implicit transaction, as in a PostgreSQL simple query. A JSON result is whole before
//! its status is sent, so that a failure is always an error object; its size is bounded. Arrow results stream.

use super::App;
use super::error::{Answer, ApiError};
use super::parameters::{NUMBERS, Parameter, Parameters};
use super::request::{parse_object, read_body};
use super::respond;
use super::sql_parameters::parameters;
use super::stream::{rows_body, started};
use crate::encode::{Format, Numbers, json_writers, write_json_text};
use arrow::array::RecordBatch;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, Response, StatusCode};
use cenote_query::pgtype::shown_type;
use cenote_query::{CopyIn, Outcome, Rows, Session, Statement, TransactionStatus};
use cenote_statestore::{Epoch, Error, ErrorKind};
use datafusion::scalar::ScalarValue;
use futures::StreamExt;
use serde_json::Value;
use std::io::Write;

/// What the route takes.
pub const PARAMETERS: &[Parameter] = &[NUMBERS];

/// A request as it was read.
struct Request {
    sql: String,
    parameters: Vec<ScalarValue>,
    numbers: Numbers,
    arrow: bool,
}

/// The result of one statement as JSON.
struct Done {
    json: Vec<u8>,
    epoch: Epoch,
}

fn accepts_arrow(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|media| {
        media
            .split(';')
            .next()
            .is_some_and(|media| media.trim() == Format::Arrow.content_type())
    })
}

impl Request {
    async fn read(app: &App, query: Option<&str>, headers: &HeaderMap, body: Body) -> Result<Request, ApiError> {
        let numbers = Parameters::parse(query, PARAMETERS)?.numbers()?;
        let body = read_body(headers, body, app.limits()).await?;
        let mut object = parse_object(&body, &["sql", "params"])?;
        let Some(Value::String(sql)) = object.remove("sql") else {
            return Err(ApiError::invalid(
                "HTTP-0006",
                "cannot run a statement: the request's body has no text `sql`",
            )
            .attempt("{\"sql\": \"SELECT 1\"}"));
        };
        let limit = app.limits().statement_bytes_max;
        if sql.len() > limit {
            let error = Error::new(
                ErrorKind::Invalid,
                "HTTP-0013",
                "cannot run the statement: its text is too long",
            );
            let error = error.sqlstate("54000").fact("seen", format!("{} bytes", sql.len()));
            return Err(error
                .fact("limit", format!("{limit} bytes, set by --max-statement"))
                .attempt("send several statements, or the rows to /api/v1/tables/{name}/rows")
                .into());
        }
        Ok(Request {
            sql,
            parameters: parameters(object.get("params"))?,
            numbers,
            arrow: accepts_arrow(headers),
        })
    }
}

/// Answers with the results of the statements.
pub async fn sql(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap, body: Body) -> Answer {
    let request = Request::read(&app, query.as_deref(), &headers, body).await?;
    let mut session = app.database().session();
    let statements = session.parse(&request.sql).map_err(ApiError::of_statement)?;
    if statements.len() > 1 && !request.parameters.is_empty() {
        return Err(
            ApiError::invalid("HTTP-0006", "cannot run several statements with parameters")
                .fact("statements", statements.len())
                .attempt("send one statement per request"),
        );
    }
    check_parameters(&statements, &request.parameters)?;
    check_cursors(&statements)?;
    match (statements.as_slice(), request.arrow) {
        ([statement], true) => run_arrow(&app, session, statement, &request).await,
        (_, true) => Err(ApiError::invalid(
            "HTTP-0017",
            "cannot answer as an Arrow stream: not exactly one statement",
        )
        .fact("statements", statements.len())),
        ([statement], false) => {
            let done = run(&app, &mut session, statement, &request, 0).await?;
            check_ended(&session)?;
            Ok(respond::json(StatusCode::OK, Some(done.epoch), done.json))
        }
        (statements, false) => run_all(&app, &mut session, statements, &request).await,
    }
}

async fn run_all(app: &App, session: &mut Session, statements: &[Statement], request: &Request) -> Answer {
    session.begin_implicit();
    let ran = run_each(app, session, statements, request).await;
    let ended = session.end_implicit(ran.is_err()).await.map_err(ApiError::of_statement);
    let (body, epoch) = ran?;
    ended?;
    check_ended(session)?;
    Ok(respond::json(StatusCode::OK, Some(epoch), body))
}

/// Refuses parameters of another number than the statement has.
fn check_parameters(statements: &[Statement], parameters: &[ScalarValue]) -> Result<(), ApiError> {
    let known = statements.iter().map(Statement::parameters_len).max().unwrap_or(0);
    if parameters.len() == known {
        return Ok(());
    }
    let (than, attempt) = match parameters.len() < known {
        true => ("more", "give a value for each of $1, $2 ..."),
        false => ("fewer", "write $1, $2 ... where they belong"),
    };
    let message = format!("cannot bind `params` of the request's body: the statement has {than} parameters");
    let error = Error::new(ErrorKind::Invalid, "HTTP-0006", message).sqlstate("08P01");
    let error = error.fact("params", parameters.len()).fact("parameters", known);
    Err(error.attempt(attempt).into())
}

/// Refuses cursors, which would end with the request that declares them.
fn check_cursors(statements: &[Statement]) -> Result<(), ApiError> {
    let Some(verb) = statements.iter().find_map(Statement::cursor_verb) else {
        return Ok(());
    };
    let message = format!("cannot run {verb} over HTTP: a request has no session that a cursor could live in");
    let error = Error::new(ErrorKind::Unsupported, "HTTP-0022", message);
    let attempt = "read with LIMIT, or as a stream with `Accept: application/vnd.apache.arrow.stream`";
    Err(ApiError::of_statement(error.attempt(attempt)))
}

/// Refuses a request that leaves a transaction block open, which ends with the request and is rolled back.
fn check_ended(session: &Session) -> Result<(), ApiError> {
    if session.transaction_status() == TransactionStatus::Idle {
        return Ok(());
    }
    let message = "cannot end the request: its transaction has no COMMIT, and was rolled back";
    let error = Error::new(ErrorKind::Invalid, "HTTP-0020", message).sqlstate("25001");
    let error = error.attempt("send BEGIN, the changes and COMMIT as the statements of one request");
    Err(ApiError::of_statement(error))
}

/// Runs statements in order; gives the array of their results and the newest epoch among them.
async fn run_each(
    app: &App,
    session: &mut Session,
    statements: &[Statement],
    request: &Request,
) -> Result<(Vec<u8>, Epoch), ApiError> {
    let (mut body, mut epoch) = (vec![b'['], app.database().epoch());
    let mut offsets = Offsets {
        sql: &request.sql,
        byte: 0,
        characters: 0,
    };
    for (index, statement) in statements.iter().enumerate() {
        let done = run(app, session, statement, request, body.len()).await;
        let done = done.map_err(|error| offsets.moved(error, statement))?;
        offsets.skip(statement);
        if index > 0 {
            body.push(b',');
        }
        body.extend_from_slice(&done.json);
        epoch = epoch.max(done.epoch);
    }
    body.push(b']');
    Ok((body, epoch))
}

/// Where the statements of a script stand in its text.
struct Offsets<'a> {
    sql: &'a str,
    byte: usize,
    characters: usize,
}

impl Offsets<'_> {
    fn start(&self, statement: &Statement) -> Option<usize> {
        self.sql[self.byte..].find(statement.text())
    }

    /// Makes the position of an error, which is one in the statement, one in the script.
    fn moved(&self, error: ApiError, statement: &Statement) -> ApiError {
        let Some(start) = self.start(statement) else {
            return error;
        };
        error.moved(self.characters + self.sql[self.byte..self.byte + start].chars().count())
    }

    fn skip(&mut self, statement: &Statement) {
        if let Some(start) = self.start(statement) {
            let end = self.byte + start + statement.text().len();
            self.characters += self.sql[self.byte..end].chars().count();
            self.byte = end;
        }
    }
}

/// Runs one statement and writes its result as JSON. `used`: bytes of results before it.
async fn run(
    app: &App,
    session: &mut Session,
    statement: &Statement,
    request: &Request,
    used: usize,
) -> Result<Done, ApiError> {
    let outcome = session
        .execute(statement, &request.parameters)
        .await
        .map_err(ApiError::of_statement)?;
    match outcome {
        Outcome::Rows(rows) if rows.verb == "SUBSCRIBE" => Err(endless()),
        Outcome::Rows(rows) => {
            let epoch = rows.epoch.unwrap_or_else(|| app.database().epoch());
            let limit = app.limits().result_bytes_max.saturating_sub(used);
            let json = collect(rows, epoch, request.numbers, limit).await?;
            Ok(Done { json, epoch })
        }
        Outcome::Command { tag, notices } => Ok(command(&tag, &notices, session.last_epoch())),
        Outcome::CopyIn(copy) => Err(refuse_copy(copy).await),
        Outcome::Empty => Ok(command("", &[], session.last_epoch())),
    }
}

fn endless() -> ApiError {
    ApiError::invalid(
        "HTTP-0017",
        "cannot answer SUBSCRIBE as one JSON document: it has no end",
    )
    .attempt("GET /api/v1/queryable_state/{name}/changes, or `Accept: application/vnd.apache.arrow.stream`")
}

async fn refuse_copy(copy: Box<dyn CopyIn>) -> ApiError {
    let error = Error::new(
        ErrorKind::Unsupported,
        "HTTP-0017",
        "cannot run COPY FROM STDIN over HTTP: a request has no second body",
    )
    .attempt("POST /api/v1/tables/{name}/rows with NDJSON, JSON, CSV or Arrow");
    copy.abort(error.clone()).await;
    ApiError::of_statement(error)
}

fn command(tag: &str, notices: &[String], epoch: Epoch) -> Done {
    let mut json = b"{\"columns\":[],\"rows\":[],\"tag\":".to_vec();
    write_json_text(&mut json, tag);
    json.extend_from_slice(b",\"notices\":[");
    for (index, notice) in notices.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        write_json_text(&mut json, notice);
    }
    write!(json, "],\"epoch\":{epoch}}}").expect("a Vec takes every write");
    Done { json, epoch }
}

/// Writes `{"columns":[..],"rows":[[..]],"tag":..,"epoch":n}`.
async fn collect(mut rows: Rows, epoch: Epoch, numbers: Numbers, limit: usize) -> Result<Vec<u8>, ApiError> {
    let mut json = b"{\"columns\":[".to_vec();
    for (index, field) in rows.schema.fields().iter().enumerate() {
        json.extend_from_slice(if index > 0 { b",{\"name\":" } else { b"{\"name\":" });
        write_json_text(&mut json, field.name());
        json.extend_from_slice(b",\"type\":");
        write_json_text(&mut json, &shown_type(field));
        json.push(b'}');
    }
    json.extend_from_slice(b"],\"rows\":[");
    let mut count = 0;
    while let Some(batch) = rows.batches.next().await {
        let batch = batch.map_err(ApiError::of_statement)?;
        write_rows(&mut json, &batch, &mut count, numbers, limit)?;
    }
    json.extend_from_slice(b"],\"tag\":");
    write_json_text(&mut json, &format!("{} {count}", rows.verb));
    write!(json, ",\"epoch\":{epoch}}}").expect("a Vec takes every write");
    Ok(json)
}

fn write_rows(
    json: &mut Vec<u8>,
    batch: &RecordBatch,
    count: &mut u64,
    numbers: Numbers,
    limit: usize,
) -> Result<(), ApiError> {
    let columns = json_writers(batch.schema_ref().fields(), batch.columns(), numbers)?;
    for row in 0..batch.num_rows() {
        json.extend_from_slice(if *count > 0 { b",[" } else { b"[" });
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                json.push(b',');
            }
            column.write(json, row);
        }
        json.push(b']');
        *count += 1;
        if json.len() > limit {
            return Err(too_large(*count, limit));
        }
    }
    Ok(())
}

fn too_large(rows: u64, limit: usize) -> ApiError {
    Error::new(
        ErrorKind::Invalid,
        "HTTP-0014",
        "cannot answer as one JSON document: the result is too large",
    )
    .sqlstate("54000")
    .fact("limit", format!("{limit} bytes, set by --max-result"))
    .fact("reached at", format!("row {rows}"))
    .attempt("`Accept: application/vnd.apache.arrow.stream`, LIMIT, or /api/v1/queryable_state/{name}/scan.ndjson")
    .into()
}

async fn run_arrow(app: &App, mut session: Session, statement: &Statement, request: &Request) -> Answer {
    let outcome = session
        .execute(statement, &request.parameters)
        .await
        .map_err(ApiError::of_statement)?;
    let rows = match outcome {
        Outcome::Rows(rows) => rows,
        Outcome::Command { tag, notices } => {
            check_ended(&session)?;
            let done = command(&tag, &notices, session.last_epoch());
            return Ok(respond::json(StatusCode::OK, Some(done.epoch), done.json));
        }
        Outcome::CopyIn(copy) => return Err(refuse_copy(copy).await),
        Outcome::Empty => {
            return Ok(respond::json(
                StatusCode::OK,
                None,
                command("", &[], session.last_epoch()).json,
            ));
        }
    };
    stream_arrow(app, session, rows).await
}

async fn stream_arrow(app: &App, session: Session, rows: Rows) -> Result<Response<Body>, ApiError> {
    let epoch = rows.epoch.unwrap_or_else(|| app.database().epoch());
    let encoder = Format::Arrow.encoder(&rows.schema, Numbers::Raw)?;
    let batches = match rows.verb {
        "SUBSCRIBE" => rows.batches,
        _ => started(rows.batches).await.map_err(ApiError::of_statement)?,
    };
    let body = rows_body(encoder, batches, app.limits().write_timeout, session);
    Ok(respond::of_type(Format::Arrow.content_type(), Some(epoch), body))
}

#[cfg(test)]
mod tests;
