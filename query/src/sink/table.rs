//! `cenote_catalog.sinks` and SHOW SINKS.

use crate::catalog::{Catalog, Object, SinkObject};
use crate::database::Database;
use crate::system::Columns;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_engine::port::Options;
use cenote_statestore::Result;

/// Parts of names of options whose values are never shown.
const SECRETS: [&str; 4] = ["password", "secret", "token", "credential"];

/// Columns of the table.
pub(crate) fn columns() -> Result<SchemaRef> {
    Ok(rows(&[])?.schema())
}

/// All sinks, and how far they have come.
pub(crate) fn table(database: &Database, catalog: &Catalog) -> Result<RecordBatch> {
    let listed: Vec<Listed> = catalog
        .sinks()
        .map(|sink| Listed::new(database, catalog, sink))
        .collect();
    rows(&listed)
}

/// A sink as it is listed.
struct Listed {
    name: String,
    from: Option<String>,
    connector: Option<String>,
    options: String,
    status: &'static str,
    epoch: i64,
    rows: i64,
    bytes: i64,
    error: Option<String>,
}

impl Listed {
    fn new(database: &Database, catalog: &Catalog, sink: &SinkObject) -> Listed {
        let definition = &sink.definition;
        let progress = database.running_sinks().progress_of(definition.id);
        let progress = progress.as_deref();
        let status = match progress {
            Some(progress) if progress.failure().is_some() => "failed",
            Some(progress) if progress.has_ended() => "finished",
            _ => "running",
        };
        Listed {
            name: definition.name.clone(),
            from: catalog.by_id(definition.from).map(Object::name).map(str::to_string),
            connector: definition.options.get("connector").cloned(),
            options: shown(&definition.options),
            status,
            epoch: progress.map_or(0, |progress| progress.epoch().0 as i64),
            rows: progress.map_or(0, |progress| progress.rows() as i64),
            bytes: progress.map_or(0, |progress| progress.bytes() as i64),
            error: progress.and_then(|progress| Some(progress.failure()?.message().to_string())),
        }
    }
}

fn rows(listed: &[Listed]) -> Result<RecordBatch> {
    let text = |of: &dyn Fn(&Listed) -> Option<String>| listed.iter().map(of).collect();
    let number = |of: &dyn Fn(&Listed) -> i64| listed.iter().map(of).collect();
    Columns::default()
        .text("name", text(&|sink| Some(sink.name.clone())))
        .text("from_name", text(&|sink| sink.from.clone()))
        .text("connector", text(&|sink| sink.connector.clone()))
        .text("options", text(&|sink| Some(sink.options.clone())))
        .text("status", text(&|sink| Some(sink.status.to_string())))
        .number("epoch", number(&|sink| sink.epoch))
        .number("rows", number(&|sink| sink.rows))
        .number("bytes", number(&|sink| sink.bytes))
        .text("error", text(&|sink| sink.error.clone()))
        .batch()
}

/// Options as text, the connector's name and secrets left out.
fn shown(options: &Options) -> String {
    let is_secret = |name: &str| SECRETS.iter().any(|secret| name.contains(secret));
    let named = options.iter().filter(|(name, _)| *name != "connector");
    let shown = named.map(|(name, value)| match is_secret(name) {
        true => format!("{name} = ***"),
        false => format!("{name} = '{value}'"),
    });
    shown.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_shown_without_secrets() {
        let options = [
            ("connector", "x"),
            ("path", "out"),
            ("sasl_password", "hush"),
            ("api_token", "hush"),
        ];
        let options = options.map(|(name, value)| (name.to_string(), value.to_string()));
        let text = shown(&Options::from(options));
        assert_eq!(text, "api_token = ***, path = 'out', sasl_password = ***");
    }
}
