//! `/openapi.json`, generated from the table of routes.

use super::parameters::{Kind, Parameter};
use super::respond;
use super::routes::{ROUTES, Route, RouteMethod};
use axum::body::Body;
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::sync::OnceLock;

/// Answers with the description.
pub async fn openapi() -> Response<Body> {
    static TEXT: OnceLock<Bytes> = OnceLock::new();
    let text = TEXT.get_or_init(|| description().to_string().into());
    respond::json(StatusCode::OK, None, text.clone())
}

/// The whole description, OpenAPI 3.1.
pub fn description() -> Value {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = paths.entry(route.path.replace("{*", "{")).or_insert_with(|| json!({}));
        let methods: &[&str] = match route.method {
            RouteMethod::Get => &["get"],
            RouteMethod::Post => &["post"],
            RouteMethod::Delete => &["delete"],
            RouteMethod::Any => &["get", "post"],
        };
        for method in methods {
            path[*method] = operation(route, method);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Cenote", "version": env!("CARGO_PKG_VERSION"), "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" } },
        "paths": paths,
        "components": { "schemas": schemas() },
    })
}

/// An id that is unique to method and path: `get_api_v1_sql`.
fn operation_id(route: &Route, method: &str) -> String {
    let words = route
        .path
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    words.fold(method.to_owned(), |id, word| format!("{id}_{word}"))
}

fn operation(route: &Route, method: &str) -> Value {
    let mut operation = json!({
        "operationId": operation_id(route, method),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": responses(route),
    });
    if !route.bodies.is_empty() {
        operation["requestBody"] = json!({ "required": true, "content": content(route.bodies) });
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let in_path = route
        .path
        .split('/')
        .filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| {
        let name = name.trim_start_matches('*');
        let collections = ["/api/v1/queryable_state/", "/api/v1/tables/"];
        let help = match name {
            "name" if collections.iter().any(|prefix| route.path.starts_with(prefix)) => {
                "`view`, `schema.view` or `cenote_state.table`; either part may be in double quotes."
            }
            "name" => "The name of it, or the id of a checkpoint.",
            _ => "Rest of the address.",
        };
        json!({ "name": name, "in": "path", "required": true, "description": help, "schema": { "type": "string" } })
    });
    let columns = route.column_parameters.then(|| {
        json!({
            "name": "columns", "in": "query", "description": "`column=value` for each column of a key or an index. A column whose name is that of a parameter is given in double quotes.",
            "schema": { "type": "object", "additionalProperties": { "type": "string" } }, "style": "form", "explode": true,
        })
    });
    in_path
        .chain(route.parameters.iter().map(parameter))
        .chain(columns)
        .collect()
}

fn parameter(parameter: &Parameter) -> Value {
    let schema = match parameter.kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Integer => json!({ "type": "integer", "minimum": 0 }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Choice(values) => json!({ "type": "string", "enum": values }),
    };
    json!({ "name": parameter.name, "in": "query", "description": parameter.help, "schema": schema })
}

fn content(media: &[(&str, &str)]) -> Value {
    let entries = media.iter().map(|(media, schema)| {
        (
            (*media).to_owned(),
            json!({ "schema": { "$ref": format!("#/components/schemas/{schema}") } }),
        )
    });
    Value::Object(entries.collect())
}

fn responses(route: &Route) -> Value {
    let error = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } });
    if route.method == RouteMethod::Any {
        return json!({ "501": { "description": "Not supported yet.", "content": error } });
    }
    let epoch =
        json!({ "Cenote-Epoch": { "description": "The epoch that was read.", "schema": { "type": "integer" } } });
    let mut done = json!({ "description": "Done.", "content": content(route.answers) });
    if route.path.starts_with("/api/") {
        done["headers"] = epoch;
    }
    json!({ "200": done, "default": { "description": "An error.", "content": error } })
}

fn schemas() -> Value {
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    let epoch = json!({ "type": "integer", "minimum": 0 });
    let row = json!({ "type": "object", "additionalProperties": true });
    let list = |items: &Value| json!({ "type": "array", "items": items });
    let text = json!({ "type": "string" });
    let number = json!({ "type": "integer" });
    let column = object(json!({ "name": text, "type": text }));
    let maybe_text = json!({ "type": ["string", "null"] });
    let maybe_row = json!({ "type": ["object", "null"], "additionalProperties": true });
    let error = object(json!({
        "code": text, "sqlstate": text, "message": text, "detail": maybe_text, "hint": maybe_text,
        "position": { "type": ["integer", "null"] },
    }));
    let result = object(json!({
        "columns": list(&column), "rows": list(&json!({ "type": "array" })), "epoch": epoch, "tag": text, "notices": list(&text),
    }));
    let entry = object(json!({
        "name": text, "schema": text, "kind": { "enum": ["table", "materialized_view", "state"] }, "key": list(&text),
        "key_unique": { "type": "boolean" },
        "columns": list(&object(json!({ "name": text, "type": text, "nullable": { "type": "boolean" } }))),
        "rows": number, "bytes": number, "epoch": epoch,
    }));
    let sink = object(json!({
        "name": text, "from_name": maybe_text, "connector": maybe_text, "options": text,
        "status": { "enum": ["running", "finished", "failed"] }, "epoch": epoch, "rows": number, "bytes": number,
        "error": maybe_text,
    }));
    let status = json!({ "enum": ["whole", "damaged"] });
    let checkpoint = object(json!({
        "id": text, "status": status, "savepoint": maybe_text, "epoch": epoch, "time": maybe_text, "tables": number,
        "bytes": number, "bytes_new": number, "error": maybe_text,
    }));
    let savepoint = object(json!({
        "name": text, "checkpoint": text, "status": status, "epoch": epoch, "time": maybe_text, "tables": number,
        "bytes": number, "error": maybe_text,
    }));
    json!({
        "Any": {},
        "Checkpoint": checkpoint,
        "Checkpoints": list(&checkpoint),
        "Savepoint": savepoint,
        "Savepoints": list(&savepoint),
        "NewSavepoint": { "type": "object", "required": ["name"], "properties": { "name": text }, "additionalProperties": false },
        "Sink": sink,
        "Sinks": list(&sink),
        "NewSink": {
            "type": "object", "required": ["name", "from", "with"], "additionalProperties": false,
            "properties": { "name": text, "from": text, "with": { "type": "object", "additionalProperties": { "type": ["string", "number", "boolean"] } } },
        },
        "Made": object(json!({ "name": text, "epoch": epoch })),
        "Text": text,
        "Binary": { "type": "string", "format": "binary" },
        "Error": object(json!({ "error": error, "epoch": epoch })),
        "Readiness": object(json!({ "ready": { "type": "boolean" }, "reasons": list(&text) })),
        "SqlRequest": { "type": "object", "required": ["sql"], "properties": { "sql": text, "params": { "type": "array" } }, "additionalProperties": false },
        "SqlResult": { "oneOf": [result, list(&result)] },
        "Inventory": list(&entry),
        "Lookup": object(json!({ "name": text, "epoch": epoch, "key": row, "value": row, "values": list(&row) })),
        "LookupRequest": { "type": "object", "required": ["keys"], "properties": { "keys": { "type": "array" } }, "additionalProperties": false },
        "LookupResults": object(json!({
            "name": text, "epoch": epoch,
            "results": list(&object(json!({ "key": row, "value": maybe_row, "values": list(&row) }))),
        })),
        "Page": object(json!({ "epoch": epoch, "rows": list(&row), "next_cursor": maybe_text })),
        "Change": object(json!({ "epoch": epoch, "weight": number, "row": row })),
        "Digest": object(json!({ "name": text, "digest": text, "rows": number, "epoch": epoch })),
        "Digests": object(json!({
            "epoch": epoch, "digests": list(&object(json!({ "name": text, "digest": text, "rows": number }))),
        })),
        "Rows": list(&row),
        "Appended": object(json!({ "epoch": epoch, "rows": number })),
    })
}

#[cfg(test)]
mod tests;
