//! `/api/v1/sinks`: what CREATE SINK and SHOW SINKS can do, for programs.

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
use serde_json::{Map, Value};
use std::io::Write;

/// Fields of the body that makes a sink.
const FIELDS: [&str; 3] = ["name", "from", "with"];

/// Answers with all sinks, and how far they have come.
pub async fn list(State(app): State<App>, RawQuery(query): RawQuery) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    listing::all(&app.database().sink_listing()?, app.database().epoch())
}

/// Answers with one sink.
pub async fn one(State(app): State<App>, Name(name): Name, RawQuery(query): RawQuery) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    let missing = || {
        let message = format!("sink \"{name}\" does not exist");
        Error::new(ErrorKind::Invalid, "SINK-0101", message).sqlstate("42704")
    };
    listing::one(&app.database().sink_listing()?, &name, app.database().epoch(), missing)
}

/// Makes a sink: `{"name","from","with":{option: value}}`; answers `{"name","epoch"}`.
pub async fn create(State(app): State<App>, RawQuery(query): RawQuery, headers: HeaderMap, body: Body) -> Answer {
    Parameters::parse(query.as_deref(), &[])?;
    let body = read_body(&headers, body, app.limits()).await?;
    let object = parse_object(&body, &FIELDS)?;
    let name = text(&object, "name")?;
    let sql = statement(name, text(&object, "from")?, options(&object)?)?;
    let mut session = app.database().session();
    for statement in session.parse(&sql).map_err(unplaced)? {
        session.execute(&statement, &[]).await.map_err(unplaced)?;
    }
    let epoch = app.database().epoch();
    let mut body = b"{\"name\":".to_vec();
    write_json_text(&mut body, name);
    write!(body, ",\"epoch\":{epoch}}}").expect("a Vec takes every write");
    Ok(respond::json(StatusCode::OK, Some(epoch), body))
}

/// The text that the statement has its positions in is not the client's.
fn unplaced(error: Error) -> ApiError {
    ApiError::of_statement(error.unplaced())
}

fn text<'a>(object: &'a Map<String, Value>, field: &str) -> Result<&'a str, ApiError> {
    object.get(field).and_then(Value::as_str).ok_or_else(|| {
        let message = format!("cannot make a sink: the request's body has no text `{field}`");
        ApiError::invalid("HTTP-0006", message).fact("fields", FIELDS.join(", "))
    })
}

fn options(object: &Map<String, Value>) -> Result<&Map<String, Value>, ApiError> {
    object.get("with").and_then(Value::as_object).ok_or_else(|| {
        let error = ApiError::invalid(
            "HTTP-0006",
            "cannot make a sink: the request's body has no object `with`",
        );
        error.attempt("\"with\": {\"connector\": \"file\", \"path\": \"out\", \"format\": \"ndjson\"}")
    })
}

/// The statement that makes the sink.
fn statement(name: &str, from: &str, options: &Map<String, Value>) -> Result<String, ApiError> {
    let named = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let option = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            _ => {
                let message = format!("cannot make a sink: option `{key}` is neither text, number nor boolean");
                return Err(ApiError::invalid("HTTP-0006", message));
            }
        };
        Ok(format!("{} = '{}'", named(key), value.replace('\'', "''")))
    };
    let options = options.iter().map(option).collect::<Result<Vec<_>, _>>()?.join(", ");
    Ok(format!(
        "CREATE SINK {} FROM {} WITH ({options})",
        named(name),
        named(from)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_quotes_whatever_it_is_given() {
        let options = serde_json::json!({ "path": "it's", "roll_rows": 5, "x\"": true });
        let sql = statement("a\"b", "v", options.as_object().unwrap()).ok().unwrap();
        assert_eq!(
            sql,
            r#"CREATE SINK "a""b" FROM "v" WITH ("path" = 'it''s', "roll_rows" = '5', "x""" = 'true')"#
        );
        let nested = serde_json::json!({ "path": [] });
        assert!(statement("k", "v", nested.as_object().unwrap()).is_err());
    }
}
