//! A client of the HTTP door.

use super::unexpected;
use crate::cli::output::Output;
use crate::encode::{Format, Restored};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use cenote_statestore::{Error, ErrorKind, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::time::Duration;
use ureq::http::Response;
use ureq::{Agent, Body};

const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A path of segments, each percent-encoded.
pub fn path(segments: &[&str]) -> String {
    segments
        .iter()
        .map(|segment| format!("/{}", utf8_percent_encode(segment, ESCAPED)))
        .collect()
}

/// Appends `name=value` to a path that has a `?`.
pub fn push_parameter(path: &mut String, name: &str, value: &str) {
    let (name, value) = (utf8_percent_encode(name, ESCAPED), utf8_percent_encode(value, ESCAPED));
    path.push_str(&format!("&{name}={value}"));
}

/// One server.
pub struct Client {
    agent: Agent,
    base: String,
}

impl Client {
    /// A client of the server at `url`.
    pub fn new(url: &str) -> Client {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(Duration::from_secs(10)))
            .build();
        let base = url.trim_end_matches('/');
        let base = if base.contains("://") {
            base.to_owned()
        } else {
            format!("http://{base}")
        };
        Client {
            agent: config.into(),
            base,
        }
    }

    fn checked(&self, answer: std::result::Result<Response<Body>, ureq::Error>) -> Result<Response<Body>> {
        let answer = answer.map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                "CLI-0010",
                format!("cannot reach the server at {}: {error}", self.base),
            )
            .attempt("cenote serve, and --url with the address that it prints")
            .source(error)
        })?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        match read_json(answer) {
            Ok(body) if body["error"]["message"].is_string() => Err(refusal(&body["error"])),
            _ => Err(unexpected(&format!("HTTP status {status}"))),
        }
    }

    /// Sends a GET.
    ///
    /// # Errors
    /// `Unavailable`: no server there. Otherwise what the server answered.
    pub fn get(&self, path: &str) -> Result<Response<Body>> {
        self.checked(self.agent.get(format!("{}{path}", self.base)).call())
    }

    /// Sends a GET and reads JSON.
    pub fn json(&self, path: &str) -> Result<Value> {
        read_json(self.get(path)?)
    }

    /// Runs a statement; the answer is an Arrow stream, or JSON when the statement has no rows.
    pub fn query(&self, sql: &str) -> Result<Response<Body>> {
        let body = serde_json::json!({ "sql": sql }).to_string();
        let request = self.agent.post(format!("{}/api/v1/sql", self.base));
        let request = request
            .header("Content-Type", "application/json")
            .header("Accept", Format::Arrow.content_type());
        self.checked(request.send(body.as_bytes()))
    }
}

/// The error object of an answer as an error of ours.
fn refusal(error: &Value) -> Error {
    let message = error["message"].as_str().unwrap_or_default();
    let mut refusal = Error::new(ErrorKind::Invalid, "CLI-0013", message);
    for (label, field) in [("code", "code"), ("sqlstate", "sqlstate")] {
        if let Some(value) = error[field].as_str() {
            refusal = refusal.fact(label, value);
        }
    }
    if let Some(detail) = error["detail"].as_str() {
        refusal = detail
            .lines()
            .fold(refusal, |refusal, line| refusal.fact("detail", line));
    }
    match error["hint"].as_str() {
        Some(hint) => refusal.attempt(hint),
        None => refusal,
    }
}

/// Reads the whole answer as JSON.
pub fn read_json(answer: Response<Body>) -> Result<Value> {
    serde_json::from_reader(BufReader::new(answer.into_body().into_reader()))
        .map_err(|error| unexpected(&error.to_string()))
}

/// The bytes of the answer.
pub fn reader(answer: Response<Body>) -> impl BufRead {
    BufReader::new(answer.into_body().into_reader())
}

/// Whether the answer is an Arrow stream.
pub fn is_arrow(answer: &Response<Body>) -> bool {
    answer
        .headers()
        .get("content-type")
        .is_some_and(|value| value == Format::Arrow.content_type())
}

/// The batches of an Arrow stream, which ends where that does.
pub fn batches<R: Read>(answer: R) -> Result<(SchemaRef, impl Iterator<Item = Result<RecordBatch>>)> {
    let reader = StreamReader::try_new(answer, None).map_err(cut)?;
    let restored = Restored::new(&reader.schema());
    let schema = restored.schema().clone();
    Ok((schema, reader.map(move |batch| restored.batch(&batch.map_err(cut)?))))
}

/// The error of an answer that has no proper end.
pub fn cut(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "CLI-0015",
        format!("cannot read the rows to their end: {error}"),
    )
    .attempt("run the command again; the server's log says why it stopped sending")
    .source(error)
}

/// Copies the answer to the output.
pub fn copy(answer: Response<Body>, output: &mut Output) -> Result<()> {
    let mut reader = answer.into_body().into_reader();
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = reader.read(&mut bytes).map_err(cut)?;
        if count == 0 {
            return output.flush();
        }
        output.buffer().extend_from_slice(&bytes[..count]);
        output.settle()?;
    }
}
