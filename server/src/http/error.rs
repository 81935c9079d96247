//! Errors as HTTP answers: status and error object.

use super::respond;
use crate::encode::write_json_text;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use cenote_statestore::{Epoch, Error, ErrorKind};
use std::io::Write;

/// An error with the status it is answered with.
pub struct ApiError {
    status: StatusCode,
    error: Error,
    epoch: Option<Epoch>,
    fields: Vec<u8>,
}

/// The answer of a handler.
pub type Answer = Result<Response, ApiError>;

impl ApiError {
    /// An error answered with `status`.
    pub fn new(status: StatusCode, error: Error) -> ApiError {
        ApiError {
            status,
            error,
            epoch: None,
            fields: Vec::new(),
        }
    }

    /// An invalid request, status 400.
    pub fn invalid(code: &'static str, message: impl Into<String>) -> ApiError {
        Error::new(ErrorKind::Invalid, code, message).into()
    }

    /// The error of a statement: what the text asks for wrongly, or asks for that is not built, is a fault of the
    /// request, not of the address.
    pub fn of_statement(error: Error) -> ApiError {
        let status = match status_of(&error) {
            StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => StatusCode::BAD_REQUEST,
            status => status,
        };
        ApiError::new(status, error)
    }

    /// Adds the epoch that the error was found at and more fields of the body, written as `,"name":value`.
    pub fn at(mut self, epoch: Epoch, fields: Vec<u8>) -> ApiError {
        self.epoch = Some(epoch);
        self.fields = fields;
        self
    }

    /// Adds one thing to try.
    pub fn attempt(mut self, hint: impl Into<String>) -> ApiError {
        self.error = self.error.attempt(hint);
        self
    }

    /// Adds a fact.
    pub fn fact(mut self, label: &'static str, value: impl std::fmt::Display) -> ApiError {
        self.error = self.error.fact(label, value);
        self
    }

    /// Moves the position in the SQL text by so many characters.
    pub fn moved(mut self, characters: usize) -> ApiError {
        if let Some(position) = self.error.sql_position() {
            self.error = self.error.position(position + characters);
        }
        self
    }

    /// The error itself.
    #[cfg(test)]
    pub fn error(&self) -> &Error {
        &self.error
    }

    /// The status.
    #[cfg(test)]
    pub fn status(&self) -> StatusCode {
        self.status
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> ApiError {
        ApiError::new(status_of(&error), error)
    }
}

/// The status of an error: by SQLSTATE where that tells more than the kind.
fn status_of(error: &Error) -> StatusCode {
    match error.state() {
        "42P01" | "3F000" => return StatusCode::NOT_FOUND,
        "42501" => return StatusCode::FORBIDDEN,
        _ => {}
    }
    match &error.state()[..2] {
        "23" => return StatusCode::CONFLICT,
        "28" => return StatusCode::UNAUTHORIZED,
        "53" => return StatusCode::SERVICE_UNAVAILABLE,
        "54" => return StatusCode::PAYLOAD_TOO_LARGE,
        _ => {}
    }
    match error.kind() {
        ErrorKind::Invalid => StatusCode::BAD_REQUEST,
        ErrorKind::Conflict => StatusCode::CONFLICT,
        ErrorKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Expired => StatusCode::GONE,
        ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
        ErrorKind::Corrupt | ErrorKind::Bug => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Appends the error object: `{"code","sqlstate","message","detail","hint","position"}`.
pub fn write_error(out: &mut Vec<u8>, error: &Error) {
    let detail = error.detail();
    let fields = [
        ("code", Some(error.code())),
        ("sqlstate", Some(error.state())),
        ("message", Some(error.message())),
        ("detail", detail.as_deref()),
        ("hint", error.hint()),
    ];
    for (index, (name, value)) in fields.into_iter().enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        write_json_text(out, name);
        out.push(b':');
        match value {
            Some(value) => write_json_text(out, value),
            None => out.extend_from_slice(b"null"),
        }
    }
    match error.sql_position() {
        Some(position) => write!(out, ",\"position\":{position}}}").expect("a Vec takes every write"),
        None => out.extend_from_slice(b",\"position\":null}"),
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if self.status.is_server_error() {
            tracing::warn!(
                code = self.error.code(),
                status = self.status.as_u16(),
                "{}",
                self.error
            );
        }
        let mut body = Vec::with_capacity(256);
        body.extend_from_slice(b"{\"error\":");
        write_error(&mut body, &self.error);
        if let Some(epoch) = self.epoch {
            write!(body, ",\"epoch\":{epoch}").expect("a Vec takes every write");
        }
        body.extend_from_slice(&self.fields);
        body.push(b'}');
        respond::json(self.status, self.epoch, body)
    }
}
