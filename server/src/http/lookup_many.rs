//! `POST /api/v1/queryable_state/{name}/lookup`: many keys, all at one epoch.

use super::App;
use super::error::{Answer, ApiError};
use super::lookup::{is_unique, key_columns, write_key, write_row, write_rows};
use super::parameters::{NUMBERS, Parameter, Parameters};
use super::request::{Name, parse_object, read_body};
use super::respond;
use crate::encode::{Numbers, write_json_text};
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use cenote_query::LookupRows;
use serde_json::Value;
use std::io::Write;

/// What the route takes.
pub const PARAMETERS: &[Parameter] = &[NUMBERS];

/// Keys as texts, and the columns that they are for.
#[derive(Debug, PartialEq)]
struct Keys {
    columns: Vec<String>,
    keys: Vec<Vec<Option<String>>>,
}

fn bad(index: usize, reason: &str) -> ApiError {
    ApiError::invalid(
        "HTTP-0006",
        format!("cannot read key {index} of the request's body: {reason}"),
    )
}

/// A JSON scalar as PostgreSQL would read it; `None` is NULL.
fn scalar(index: usize, value: &Value) -> Result<Option<String>, ApiError> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(flag.to_string())),
        Value::Number(number) => Ok(Some(number.to_string())),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Array(_) | Value::Object(_) => Err(bad(index, "a value is neither text, number, boolean nor null")),
    }
}

impl Keys {
    /// Reads `{"keys":[...]}`: scalars, arrays in the order of the key's columns, or objects by column name.
    fn parse(body: &[u8]) -> Result<Keys, ApiError> {
        let object = parse_object(body, &["keys"])?;
        let Some(Value::Array(items)) = object.get("keys") else {
            return Err(
                ApiError::invalid("HTTP-0006", "cannot look up: the request's body has no list `keys`")
                    .attempt("{\"keys\": [1, 2, 3]}"),
            );
        };
        let mut columns: Vec<String> = Vec::new();
        if let Some(Value::Object(first)) = items.first() {
            columns.extend(first.keys().cloned());
        }
        let keys = items
            .iter()
            .enumerate()
            .map(|(index, item)| key(index, item, &columns))
            .collect::<Result<_, _>>()?;
        Ok(Keys { columns, keys })
    }
}

fn key(index: usize, item: &Value, columns: &[String]) -> Result<Vec<Option<String>>, ApiError> {
    match item {
        Value::Object(fields) => {
            if fields.len() != columns.len() {
                return Err(bad(index, "it names other columns than the first key"));
            }
            let value = |column| {
                fields
                    .get(column)
                    .ok_or_else(|| bad(index, "it names other columns than the first key"))
            };
            columns.iter().map(|column| scalar(index, value(column)?)).collect()
        }
        _ if !columns.is_empty() => Err(bad(index, "it names no columns, and the first key does")),
        Value::Array(values) => values.iter().map(|value| scalar(index, value)).collect(),
        value => Ok(vec![scalar(index, value)?]),
    }
}

/// Answers a lookup of many keys: `{"name","epoch","results":[{"key","value"}]}`, results in the order of the keys.
pub async fn look_up_many(
    State(app): State<App>,
    Name(name): Name,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let numbers = Parameters::parse(query.as_deref(), PARAMETERS)?.numbers()?;
    let body = read_body(&headers, body, app.limits()).await?;
    let wanted = Keys::parse(&body)?;
    let found = app.database().lookup(&name, &wanted.columns, &wanted.keys).await?;
    let answer = write_answer(&found, &wanted, numbers)?;
    Ok(respond::json(StatusCode::OK, Some(found.epoch), answer))
}

fn write_answer(found: &LookupRows, wanted: &Keys, numbers: Numbers) -> Result<Vec<u8>, ApiError> {
    let columns = key_columns(&found.readable, &wanted.columns)?;
    let unique = is_unique(&found.readable, &columns);
    let mut rows_of_key: Vec<Vec<usize>> = vec![Vec::new(); wanted.keys.len()];
    for (row, key) in found.key_of_row.iter().enumerate() {
        rows_of_key[*key].push(row);
    }
    let mut out = b"{\"name\":".to_vec();
    write_json_text(&mut out, &found.readable.readable_name());
    write!(out, ",\"epoch\":{},\"results\":[", found.epoch).expect("a Vec takes every write");
    for (index, (key, rows)) in wanted.keys.iter().zip(&rows_of_key).enumerate() {
        out.extend_from_slice(if index > 0 { b",{\"key\":" } else { b"{\"key\":" });
        write_key(&mut out, &found.readable, &columns, key, numbers);
        match (unique, rows.first()) {
            (true, None) => out.extend_from_slice(b",\"value\":null"),
            (true, Some(row)) => {
                out.extend_from_slice(b",\"value\":");
                write_row(&mut out, found, *row, numbers)?;
            }
            (false, _) => {
                out.extend_from_slice(b",\"values\":");
                write_rows(&mut out, found, rows.iter().copied(), numbers)?;
            }
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    Ok(out)
}

#[cfg(test)]
mod tests;
