//! The error type of the whole project: few kinds, many facts.
//!
//! A message reads *cannot verb object: reason*; facts say what was seen and expected; `attempt` says
//! one thing to try. [`Error::render`] prints the whole block that users see on a terminal.

use std::fmt;

/// What the receiver of an error can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request is wrong: change it.
    Invalid,
    /// Somebody else changed the same rows, or the object exists already: run it again.
    Conflict,
    /// Nothing was changed; retry later.
    Unavailable,
    /// The history asked for was dropped: ask for newer data.
    Expired,
    /// Stored bytes fail their checks: stop and repair.
    Corrupt,
    /// Not built.
    Unsupported,
    /// A fault of Cenote: report it.
    Bug,
}

impl ErrorKind {
    /// The SQLSTATE that errors of this kind carry when no closer one is set.
    pub fn sqlstate(self) -> &'static str {
        match self {
            ErrorKind::Invalid => "22000",
            ErrorKind::Conflict => "40001",
            ErrorKind::Unavailable => "57014",
            ErrorKind::Expired => "72000",
            ErrorKind::Corrupt => "XX001",
            ErrorKind::Unsupported => "0A000",
            ErrorKind::Bug => "XX000",
        }
    }
}

/// The label of a fact that is a whole sentence.
const SENTENCE: &str = "detail";

/// A result whose error is [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error: kind, stable code, SQLSTATE, message, facts, and one thing to try.
///
/// # Examples
/// ```
/// use cenote_statestore::{Error, ErrorKind};
/// let error = Error::new(ErrorKind::Expired, "STATE-0104", "cannot read table `orders` at epoch 4210: its history there was dropped")
///     .fact("asked for", "epoch 4210")
///     .attempt("read AS OF EPOCH 5000 or later");
/// assert!(error.render().starts_with("error[STATE-0104]: cannot read table"));
/// ```
#[derive(Clone)]
pub struct Error(Box<Parts>);

#[derive(Clone)]
struct Parts {
    kind: ErrorKind,
    code: &'static str,
    sqlstate: &'static str,
    message: String,
    facts: Vec<(&'static str, String)>,
    attempt: Option<String>,
    position: Option<usize>,
    /// Table and name of the constraint that does not hold.
    constraint: Option<(String, String)>,
    source: Option<std::sync::Arc<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Makes an error of `kind` with a stable `code` such as `STATE-0104`.
    pub fn new(kind: ErrorKind, code: &'static str, message: impl Into<String>) -> Error {
        Error(Box::new(Parts {
            kind,
            code,
            sqlstate: kind.sqlstate(),
            message: message.into(),
            facts: Vec::new(),
            attempt: None,
            position: None,
            constraint: None,
            source: None,
        }))
    }

    /// A fault of Cenote itself. `message` says what was found that must never be.
    pub fn bug(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Bug, "BUG-0001", message).attempt("report this with the statement that caused it")
    }

    /// Sets the five-character SQLSTATE of PostgreSQL that clients see.
    pub fn sqlstate(mut self, sqlstate: &'static str) -> Error {
        self.0.sqlstate = sqlstate;
        self
    }

    /// Adds a whole sentence to the details, as PostgreSQL words it.
    pub fn telling(self, sentence: impl fmt::Display) -> Error {
        self.fact(SENTENCE, sentence)
    }

    /// Names the constraint that does not hold, and its table.
    pub fn of_constraint(mut self, table: impl Into<String>, constraint: impl Into<String>) -> Error {
        self.0.constraint = Some((table.into(), constraint.into()));
        self
    }

    /// The table and the name of the constraint that does not hold.
    pub fn constraint(&self) -> Option<(&str, &str)> {
        let named = self.0.constraint.as_ref();
        named.map(|(table, constraint)| (table.as_str(), constraint.as_str()))
    }

    /// Adds a line `label: value`, in the order of calls.
    pub fn fact(mut self, label: &'static str, value: impl fmt::Display) -> Error {
        self.0.facts.push((label, value.to_string()));
        self
    }

    /// Sets the one thing to try.
    pub fn attempt(mut self, hint: impl Into<String>) -> Error {
        self.0.attempt = Some(hint.into());
        self
    }

    /// Sets the 1-based character position in the SQL text.
    pub fn position(mut self, position: usize) -> Error {
        self.0.position = Some(position);
        self
    }

    /// Takes the position away: it is one in a text that the user has not written.
    pub fn unplaced(mut self) -> Error {
        self.0.position = None;
        self
    }

    /// Keeps the cause, to be seen through [`std::error::Error::source`].
    pub fn source(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
        self.0.source = Some(std::sync::Arc::new(source));
        self
    }

    /// What the receiver can do next.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        self.0.code
    }

    /// The SQLSTATE.
    pub fn state(&self) -> &'static str {
        self.0.sqlstate
    }

    /// The message: *cannot verb object: reason*.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The facts as one text, a line each; `None` without facts.
    pub fn detail(&self) -> Option<String> {
        if self.0.facts.is_empty() {
            return None;
        }
        let lines: Vec<String> = self
            .0
            .facts
            .iter()
            .map(|(label, value)| match *label {
                SENTENCE => value.clone(),
                label => format!("{label}: {value}"),
            })
            .collect();
        Some(lines.join("\n"))
    }

    /// The one thing to try.
    pub fn hint(&self) -> Option<&str> {
        self.0.attempt.as_deref()
    }

    /// The 1-based character position in the SQL text.
    pub fn sql_position(&self) -> Option<usize> {
        self.0.position
    }

    /// The whole block for a terminal: code and message, facts aligned at their colons, the attempt last.
    pub fn render(&self) -> String {
        let parts = &self.0;
        let mut lines: Vec<(&str, &str)> = parts
            .facts
            .iter()
            .map(|(label, value)| (*label, value.as_str()))
            .collect();
        if let Some(attempt) = &parts.attempt {
            lines.push(("try", attempt));
        }
        let width = lines.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        let mut text = format!("error[{}]: {}", parts.code, parts.message);
        for (label, value) in lines {
            text.push_str(&format!("\n  {label:>width$}: {value}"));
        }
        text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0
            .source
            .as_ref()
            .map(|source| source.as_ref() as &(dyn std::error::Error + 'static))
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Error {
        use arrow::error::ArrowError;
        let text = error.to_string();
        match &error {
            ArrowError::DivideByZero => Error::new(
                ErrorKind::Invalid,
                "EVAL-0002",
                "cannot evaluate expression: division by zero",
            )
            .sqlstate("22012"),
            ArrowError::ArithmeticOverflow(_) => Error::new(
                ErrorKind::Invalid,
                "EVAL-0001",
                format!("cannot evaluate expression: {text}"),
            )
            .sqlstate("22003"),
            ArrowError::CastError(_) | ArrowError::ParseError(_) => {
                Error::new(ErrorKind::Invalid, "EVAL-0003", format!("cannot convert value: {text}")).sqlstate("22P02")
            }
            ArrowError::OffsetOverflowError(_) => Error::new(
                ErrorKind::Invalid,
                "EVAL-0009",
                "cannot process batch: the result is too long",
            )
            .sqlstate("54000")
            .fact("most", "2 GiB of text in one"),
            _ => Error::new(ErrorKind::Bug, "BUG-0002", format!("cannot process batch: {text}"))
                .attempt("report this with the statement that caused it"),
        }
        .source(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::new(
            ErrorKind::Unavailable,
            "IO-0001",
            format!("cannot read or write a file: {error}"),
        )
        .sqlstate("58030")
        .source(error)
    }
}

#[cfg(test)]
mod tests;
