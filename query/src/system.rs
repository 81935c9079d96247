//! System tables: schema `cenote_catalog`.

use crate::catalog::{KeptBy, Object};
use crate::database::StateTable;
use crate::plan::ReadView;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use cenote_engine::port::OptionSpec;
use cenote_statestore::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// All system tables.
pub(crate) const TABLES: [&str; 14] = [
    "checkpoints",
    "connector_options",
    "errors",
    "epochs",
    "functions",
    "materialized_views",
    "operators",
    "settings",
    "sinks",
    "sources",
    "state",
    "state_tables",
    "tables",
    "views",
];

/// System tables that are promised and not there yet.
const PROMISED: [&str; 1] = ["watermarks"];

/// Refuses names that are no system table's.
///
/// # Errors
/// `Unsupported`: the table is promised. `Invalid` 42P01: there is no such table.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if TABLES.contains(&name) {
        return Ok(());
    }
    if PROMISED.contains(&name) {
        let message = format!("cannot read cenote_catalog.{name}: not supported yet");
        return Err(Error::new(ErrorKind::Unsupported, "SQL-0008", message));
    }
    let message = format!("relation \"cenote_catalog.{name}\" does not exist");
    let error = Error::new(ErrorKind::Invalid, "SQL-0202", message).sqlstate("42P01");
    Err(error.attempt(format!("the tables there are {}", TABLES.join(", "))))
}

/// A table being put together, by columns.
#[derive(Default)]
pub(crate) struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    pub(crate) fn text(mut self, name: &str, values: Vec<Option<String>>) -> Columns {
        self.fields.push(Field::new(name, DataType::Utf8, true));
        self.arrays.push(Arc::new(StringArray::from(values)));
        self
    }

    pub(crate) fn number(mut self, name: &str, values: Vec<i64>) -> Columns {
        self.fields.push(Field::new(name, DataType::Int64, true));
        self.arrays.push(Arc::new(Int64Array::from(values)));
        self
    }

    pub(crate) fn number_if_any(mut self, name: &str, values: Vec<Option<i64>>) -> Columns {
        self.fields.push(Field::new(name, DataType::Int64, true));
        self.arrays.push(Arc::new(Int64Array::from(values)));
        self
    }

    pub(crate) fn batch(self) -> Result<RecordBatch> {
        Ok(RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.arrays)?)
    }

    fn finish(self) -> Result<Option<RecordBatch>> {
        self.batch().map(Some)
    }
}

/// The contents of a system table; `None`: there is no such table. `errors` and `state` are tables of their own.
pub(crate) async fn system_table(view: &ReadView, name: &str) -> Result<Option<RecordBatch>> {
    match name {
        "views" | "materialized_views" => views(view),
        "tables" => tables(view),
        "sinks" => crate::sink::table(&view.database, &view.catalog).map(Some),
        "sources" => sources(view),
        "state_tables" => state_tables(view).await,
        "operators" => crate::figures::operators(view, None).await.map(Some),
        "epochs" => epochs(view),
        "settings" => settings(view),
        "functions" => functions(view),
        "connector_options" => connector_options(view),
        "checkpoints" => crate::checkpoints::table(view.database.checkpoints().await?).map(Some),
        _ => Ok(None),
    }
}

fn views(view: &ReadView) -> Result<Option<RecordBatch>> {
    let objects: Vec<&Object> = view
        .catalog
        .objects()
        .filter(|object| !matches!(object, Object::Table(_)))
        .collect();
    let status = |object: &&Object| match object {
        Object::MaterializedView(view) if view.status.failure().is_some() => "failed",
        Object::MaterializedView(view) if !view.status.is_live() => "creating",
        _ => "running",
    };
    let failure = |object: &&Object| match object {
        Object::MaterializedView(view) => view.status.failure().map(|error| error.message().to_string()),
        _ => None,
    };
    let row_errors = |object: &&Object| match object {
        Object::MaterializedView(view) => view.errors.as_ref().map_or(0, |errors| errors.statistics().rows as i64),
        _ => 0,
    };
    Columns::default()
        .text(
            "name",
            objects.iter().map(|object| Some(object.name().to_string())).collect(),
        )
        .text(
            "kind",
            objects.iter().map(|object| Some(object.kind().to_string())).collect(),
        )
        .text(
            "status",
            objects.iter().map(|object| Some(status(object).to_string())).collect(),
        )
        .text("error", objects.iter().map(failure).collect())
        .number("row_errors", objects.iter().map(row_errors).collect())
        .text(
            "definition",
            objects.iter().map(|object| Some(object.sql().to_string())).collect(),
        )
        .finish()
}

fn tables(view: &ReadView) -> Result<Option<RecordBatch>> {
    let objects: Vec<&Object> = view
        .catalog
        .objects()
        .filter(|object| object.kind() == "table")
        .collect();
    Columns::default()
        .text(
            "name",
            objects.iter().map(|object| Some(object.name().to_string())).collect(),
        )
        .text(
            "definition",
            objects.iter().map(|object| Some(object.sql().to_string())).collect(),
        )
        .finish()
}

fn sources(view: &ReadView) -> Result<Option<RecordBatch>> {
    let progress = view.database.sources().progress();
    let epoch = view.epoch();
    let status = |source: &crate::source::SourceProgress| match (source.failure(), source.is_finished_at(epoch)) {
        (Some(_), _) => "failed",
        (None, true) => "finished",
        (None, false) => "running",
    };
    Columns::default()
        .text(
            "name",
            progress.iter().map(|source| Some(source.name.clone())).collect(),
        )
        .text(
            "status",
            progress.iter().map(|source| Some(status(source).to_string())).collect(),
        )
        .number("rows", progress.iter().map(|source| source.rows() as i64).collect())
        .number(
            "bad_rows",
            progress.iter().map(|source| source.bad_rows() as i64).collect(),
        )
        .number("bytes", progress.iter().map(|source| source.bytes() as i64).collect())
        .text(
            "error",
            progress
                .iter()
                .map(|s| s.failure().map(|error| error.message().to_string()))
                .collect(),
        )
        .finish()
}

/// Every option of `WITH (...)`, as the connectors of this build declare them.
fn connector_options(view: &ReadView) -> Result<Option<RecordBatch>> {
    let connectors = view.database.config().connectors.iter();
    let options: Vec<(&str, &str, &OptionSpec)> = connectors
        .flat_map(|connector| {
            let read = connector.options().iter().map(|option| ("source", option));
            let written = connector.sink_options().iter().map(|option| ("sink", option));
            read.chain(written)
                .map(|(direction, option)| (connector.name(), direction, option))
        })
        .collect();
    let texts = |of: fn(&OptionSpec) -> String| options.iter().map(|(_, _, option)| Some(of(option))).collect();
    let names = options.iter().map(|(connector, ..)| Some(connector.to_string()));
    let directions = options.iter().map(|(_, direction, _)| Some(direction.to_string()));
    Columns::default()
        .text("connector", names.collect())
        .text("direction", directions.collect())
        .text("option", texts(|option| option.name.to_string()))
        .text(
            "required",
            texts(|option| if option.required { "yes" } else { "no" }.to_string()),
        )
        .text("values", texts(|option| option.values.join(", ")))
        .text("description", texts(|option| option.help.to_string()))
        .finish()
}

async fn state_tables(view: &ReadView) -> Result<Option<RecordBatch>> {
    let readables = view.database.readables_of(&view.catalog).await?;
    let states = view.database.state_tables(&view.catalog);
    let states: HashMap<&str, &StateTable> = states.iter().map(|state| (state.schema.name.as_str(), state)).collect();
    let kept = view.catalog.kept_states();
    let kept: HashMap<&str, KeptBy<'_>> = kept
        .map(|(kept_by, kept)| (kept.schema().name.as_str(), kept_by))
        .collect();
    let found: Vec<_> = readables
        .iter()
        .filter(|readable| readable.schema_name == crate::catalog::STATE_SCHEMA)
        .map(|readable| (readable, states.get(readable.name.as_str())))
        .collect();
    let kept_by = |readable: &crate::database::Readable| kept.get(readable.name.as_str());
    let key = |readable: &crate::database::Readable| {
        let names: Vec<&str> = readable
            .key
            .iter()
            .map(|key| readable.columns.field(*key).name().as_str())
            .collect();
        names.join(", ")
    };
    Columns::default()
        .text(
            "view",
            found
                .iter()
                .map(|(readable, state)| match state {
                    Some(state) => Some(state.view.definition.name.clone()),
                    None => match kept_by(readable) {
                        Some(KeptBy::View(view)) => Some(view.definition.name.clone()),
                        _ => None,
                    },
                })
                .collect(),
        )
        .text(
            "operator",
            found
                .iter()
                .map(|(readable, state)| match state {
                    Some(state) => Some(state.operator.to_string()),
                    None => kept_by(readable).map(|kept_by| kept_by.operator().to_string()),
                })
                .collect(),
        )
        .text(
            "table",
            found.iter().map(|(readable, _)| Some(readable.name.clone())).collect(),
        )
        .text(
            "key_columns",
            found.iter().map(|(readable, _)| Some(key(readable))).collect(),
        )
        .number("rows", found.iter().map(|(readable, _)| readable.rows as i64).collect())
        .number(
            "bytes",
            found.iter().map(|(readable, _)| readable.bytes as i64).collect(),
        )
        .finish()
}

fn epochs(view: &ReadView) -> Result<Option<RecordBatch>> {
    let retention = view.database.engine().retention();
    let epochs = [
        ("visible", view.database.epoch()),
        ("read", view.pin.epoch()),
        ("retained_from", retention.kept_from()),
    ];
    let names = epochs.iter().map(|(name, _)| Some(name.to_string())).collect();
    let mut columns = Columns::default().text("name", names);
    columns.fields.push(Field::new("epoch", DataType::UInt64, false));
    columns.arrays.push(Arc::new(UInt64Array::from_iter_values(
        epochs.iter().map(|(_, epoch)| epoch.0),
    )));
    columns.finish()
}

fn settings(view: &ReadView) -> Result<Option<RecordBatch>> {
    Columns::default()
        .text("name", view.settings.keys().map(|name| Some(name.clone())).collect())
        .text(
            "setting",
            view.settings.values().map(|value| Some(value.clone())).collect(),
        )
        .finish()
}

fn functions(view: &ReadView) -> Result<Option<RecordBatch>> {
    let planner = view.database.planner();
    let mut names: Vec<(String, &str)> = Vec::new();
    names.extend(planner.scalar_functions().keys().map(|name| (name.clone(), "scalar")));
    names.extend(
        planner
            .aggregate_functions()
            .keys()
            .map(|name| (name.clone(), "aggregate")),
    );
    names.extend(planner.window_functions().keys().map(|name| (name.clone(), "window")));
    // What rewritten statements call is no user's.
    names.retain(|(name, _)| !name.starts_with("cenote_"));
    names.sort();
    Columns::default()
        .text("name", names.iter().map(|(name, _)| Some(name.clone())).collect())
        .text("kind", names.iter().map(|(_, kind)| Some(kind.to_string())).collect())
        .finish()
}
