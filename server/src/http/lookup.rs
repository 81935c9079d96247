//! `GET /api/v1/queryable_state/{name}?key=V`: one key, the shortest way through the server.
//!
//! No session, no plan: the query string is split in place, the database probes its hash table, the row is
//! written straight into the body.

use super::App;
use super::error::{Answer, ApiError};
use super::key_query::{Both, KEY, KeyQuery};
use super::parameters::{self, NUMBERS, Parameter};
use super::request::Name;
use super::respond;
use crate::encode::{Numbers, write_json_text};
use arrow::datatypes::Field;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use cenote_query::pgtext::{JsonWriter, parse_array};
use cenote_query::{LookupRows, Readable};
use cenote_statestore::{Error, ErrorKind};
use std::io::Write;

/// What the route takes besides names of columns.
pub const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: KEY,
        kind: parameters::Kind::Text,
        help: "Value of the key; repeated for the columns of a compound key. Instead of it, `column=value` pairs.",
    },
    NUMBERS,
];

/// What a request asks for.
#[derive(Debug, PartialEq)]
struct Wanted {
    columns: Vec<String>,
    key: Vec<Option<String>>,
    numbers: Numbers,
}

impl Wanted {
    /// Reads a query string. A name in double quotes is always a column's.
    fn parse(query: Option<&str>) -> Result<Wanted, ApiError> {
        parameters::check_utf8(query)?;
        let read = KeyQuery::parse(query).map_err(|Both(columns)| {
            ApiError::invalid("HTTP-0011", "cannot look up: both `key` and columns are given")
                .fact("columns", columns.join(", "))
                .attempt("give `key=V`, or `column=V` for each column")
        })?;
        let numbers = match read.numbers.as_slice() {
            [] => Numbers::Exact,
            [one] => parameters::parse_numbers(one)?,
            _ => return Err(parameters::given_twice(NUMBERS.name)),
        };
        Ok(Wanted {
            columns: read.columns,
            key: read.key,
            numbers,
        })
    }
}

/// Answers a lookup of one key.
pub async fn look_up(State(app): State<App>, Name(name): Name, RawQuery(query): RawQuery) -> Answer {
    let wanted = Wanted::parse(query.as_deref())?;
    if wanted.key.is_empty() {
        return Err(no_key(&app.database().readable(&name)?));
    }
    let found = app
        .database()
        .lookup(&name, &wanted.columns, std::slice::from_ref(&wanted.key))
        .await;
    let found = found.map_err(|error| explain(&app, &name, &wanted, error))?;
    let body = write_answer(&found, &wanted)?;
    Ok(respond::json(StatusCode::OK, Some(found.epoch), body))
}

/// Writes `{"name","epoch","key","value"}`, or `"values"` where several rows may have the key.
fn write_answer(found: &LookupRows, wanted: &Wanted) -> Result<Vec<u8>, ApiError> {
    let (columns, numbers) = (key_columns(&found.readable, &wanted.columns)?, wanted.numbers);
    if found.rows.num_rows() == 0 {
        return Err(not_found(found, &columns, &wanted.key, numbers));
    }
    let mut body = Vec::with_capacity(256);
    body.extend_from_slice(b"{\"name\":");
    write_json_text(&mut body, &found.readable.readable_name());
    write!(body, ",\"epoch\":{},\"key\":", found.epoch).expect("a Vec takes every write");
    write_columns(&mut body, found, columns.iter().copied(), 0, numbers)?;
    if is_unique(&found.readable, &columns) {
        body.extend_from_slice(b",\"value\":");
        write_row(&mut body, found, 0, numbers)?;
    } else {
        body.extend_from_slice(b",\"values\":");
        write_rows(&mut body, found, 0..found.rows.num_rows(), numbers)?;
    }
    body.push(b'}');
    Ok(body)
}

/// Indices of the columns that keys are for.
///
/// # Errors
/// 500: the database answered for columns that the collection does not have.
pub fn key_columns(readable: &Readable, names: &[String]) -> Result<Vec<usize>, ApiError> {
    if names.is_empty() {
        return Ok(readable.key.clone());
    }
    let index = |name: &String| {
        readable
            .columns
            .index_of(name)
            .map_err(|error| Error::from(error).into())
    };
    names.iter().map(index).collect()
}

/// Whether these columns hold the whole of a unique key, so that one row at most has a value.
pub fn is_unique(readable: &Readable, columns: &[usize]) -> bool {
    readable.key_unique && readable.key.iter().all(|column| columns.contains(column))
}

/// Appends columns of a found row as an object.
pub fn write_columns(
    out: &mut Vec<u8>,
    found: &LookupRows,
    columns: impl Iterator<Item = usize>,
    row: usize,
    numbers: Numbers,
) -> Result<(), Error> {
    let schema = found.rows.schema_ref();
    out.push(b'{');
    for (index, column) in columns.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let field = schema.field(column);
        write_json_text(out, field.name());
        out.push(b':');
        JsonWriter::new(field, found.rows.column(column).as_ref(), numbers == Numbers::Raw)?.write(out, row);
    }
    out.push(b'}');
    Ok(())
}

/// Appends a found row as an object.
pub fn write_row(out: &mut Vec<u8>, found: &LookupRows, row: usize, numbers: Numbers) -> Result<(), Error> {
    write_columns(out, found, 0..found.rows.num_columns(), row, numbers)
}

/// Appends found rows as an array of objects.
pub fn write_rows(
    out: &mut Vec<u8>,
    found: &LookupRows,
    rows: impl Iterator<Item = usize>,
    numbers: Numbers,
) -> Result<(), Error> {
    out.push(b'[');
    for (index, row) in rows.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_row(out, found, row, numbers)?;
    }
    out.push(b']');
    Ok(())
}

/// Appends the key of a request as an object, its texts in the form of their columns' types.
pub fn write_key(out: &mut Vec<u8>, readable: &Readable, columns: &[usize], key: &[Option<String>], numbers: Numbers) {
    out.push(b'{');
    for (index, (column, text)) in columns.iter().zip(key).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let field = readable.columns.field(*column);
        write_json_text(out, field.name());
        out.push(b':');
        match text {
            None => out.extend_from_slice(b"null"),
            Some(text) => write_as(out, field, text, numbers),
        }
    }
    out.push(b'}');
}

fn write_as(out: &mut Vec<u8>, field: &Field, text: &str, numbers: Numbers) {
    let parsed = parse_array(&[Some(text)], field.data_type());
    let written =
        parsed.and_then(|value| JsonWriter::new(field, &value, numbers == Numbers::Raw).map(|json| json.write(out, 0)));
    if written.is_err() {
        write_json_text(out, text);
    }
}

fn not_found(found: &LookupRows, columns: &[usize], key: &[Option<String>], numbers: Numbers) -> ApiError {
    let name = found.readable.readable_name();
    let mut written = Vec::new();
    write_key(&mut written, &found.readable, columns, key, numbers);
    let message = format!("cannot find the key in `{name}`: no row has it");
    let error = Error::new(ErrorKind::Invalid, "HTTP-0009", message)
        .sqlstate("02000")
        .fact("key", String::from_utf8_lossy(&written));
    let mut fields = b",\"name\":".to_vec();
    write_json_text(&mut fields, &name);
    fields.extend_from_slice(b",\"key\":");
    fields.extend_from_slice(&written);
    ApiError::new(StatusCode::NOT_FOUND, error).at(found.epoch, fields)
}

fn no_key(readable: &Readable) -> ApiError {
    let name = readable.readable_name();
    let error = ApiError::invalid("HTTP-0011", format!("cannot look up in `{name}`: no key is given"));
    let columns: Vec<&str> = readable
        .key
        .iter()
        .map(|column| readable.columns.field(*column).name().as_str())
        .collect();
    let error = if columns.is_empty() {
        error
    } else {
        error.fact("key columns", columns.join(", "))
    };
    error
        .attempt(format!(
            "?key=V, ?column=V, or /api/v1/queryable_state/{name}/scan for all rows"
        ))
        .at(readable.epoch, Vec::new())
}

/// Adds the nearest column or parameter to the database's error about a column that does not exist.
fn explain(app: &App, name: &str, wanted: &Wanted, error: Error) -> ApiError {
    if error.state() != "42703" || error.hint().is_some() {
        return error.into();
    }
    let Ok(readable) = app.database().readable(name) else {
        return error.into();
    };
    let is_column = |column: &&String| readable.columns.index_of(column).is_ok();
    let Some(unknown) = wanted.columns.iter().find(|column| !is_column(column)) else {
        return error.into();
    };
    let columns = readable.columns.fields().iter().map(|field| field.name().as_str());
    let known = columns.chain(PARAMETERS.iter().map(|parameter| parameter.name));
    match parameters::nearest(unknown, known) {
        Some(near) => error.attempt(format!("did you mean `{near}`?")).into(),
        None => error.into(),
    }
}

#[cfg(test)]
pub(super) mod tests;
