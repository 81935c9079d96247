//! `cenote state`: what a server's state holds, asked over HTTP.

mod client;

use super::output::Output;
use super::progress::Line;
use crate::encode::{Encoder, Format, Numbers, chunks};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use cenote_statestore::{Error, ErrorKind, Result};
use clap::{Args, Subcommand};
use client::Client;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// Look at the state of a server: tables, views and the state of operators
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  cenote state ls --url http://127.0.0.1:8080
  cenote state get by_owner ann
  cenote state scan by_owner --where \"total > 60\" --limit 10 --format table
  cenote state query --sql \"SELECT count(*) FROM by_owner\"
  cenote state digest by_owner")]
pub struct StateOptions {
    /// Address of the server
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "CENOTE_URL",
        default_value = "http://127.0.0.1:8080"
    )]
    url: String,
    /// Read a checkpoint instead of a server (not supported yet)
    #[arg(long, global = true, value_name = "PATH")]
    from: Option<PathBuf>,
    /// Read a data directory instead of a server (not supported yet)
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Debug, Subcommand)]
enum StateCommand {
    /// List everything that can be read
    #[command(after_help = "Example:\n  cenote state ls --format ndjson")]
    Ls {
        /// How the list is printed
        #[arg(long, value_enum, default_value = "table", env = "CENOTE_FORMAT")]
        format: Format,
    },
    /// Look up one key
    #[command(after_help = "Examples:
  cenote state get by_owner ann
  cenote state get accounts 1
  cenote state get accounts ann --column owner")]
    Get(GetOptions),
    /// Read rows
    #[command(
        after_help = "Example:\n  cenote state scan by_owner --columns owner,total --where \"total > 60\" --format csv"
    )]
    Scan(ScanOptions),
    /// Run a query
    #[command(
        after_help = "Example:\n  cenote state query --sql \"SELECT owner, total FROM by_owner ORDER BY total DESC\""
    )]
    Query {
        /// The query
        #[arg(long, value_name = "SQL", env = "CENOTE_SQL")]
        sql: String,
        /// How rows are printed
        #[arg(long, value_enum, default_value = "ndjson", env = "CENOTE_FORMAT")]
        format: Format,
    },
    /// Print a digest of the contents that does not depend on order: `digest  rows  name`
    #[command(
        after_help = "Examples:\n  cenote state digest by_owner\n  cenote state digest        every table, view and state table"
    )]
    Digest {
        /// What to digest; all when none is given
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Write state to files (not supported yet)
    #[command(after_help = "Example:\n  cenote state export by_owner --format parquet --out by_owner.parquet")]
    Export(super::promised::Arguments),
    /// Compare two states (not supported yet)
    #[command(after_help = "Example:\n  cenote state diff before after")]
    Diff(super::promised::Arguments),
}

#[derive(Args, Debug)]
struct GetOptions {
    /// `view`, `schema.view` or `cenote_state.table`
    name: String,
    /// Value of each key column in order; `--` before values that begin with `-`
    #[arg(required = true, value_name = "KEY", allow_negative_numbers = true)]
    key: Vec<String>,
    /// Columns that the values are for, instead of the key
    #[arg(long, value_name = "COLUMN", env = "CENOTE_COLUMN", value_delimiter = ',')]
    column: Vec<String>,
}

#[derive(Args, Debug)]
struct ScanOptions {
    /// `view`, `schema.view` or `cenote_state.table`
    name: String,
    /// Columns, separated by commas
    #[arg(long, value_name = "COLUMNS", env = "CENOTE_COLUMNS")]
    columns: Option<String>,
    /// A SQL predicate
    #[arg(long = "where", value_name = "SQL", env = "CENOTE_WHERE")]
    filter: Option<String>,
    /// Rows at most
    #[arg(long, value_name = "N", env = "CENOTE_LIMIT")]
    limit: Option<u64>,
    /// Read as of this sealed epoch
    #[arg(long, value_name = "EPOCH", env = "CENOTE_EPOCH")]
    epoch: Option<u64>,
    /// How rows are printed
    #[arg(long, value_enum, default_value = "ndjson", env = "CENOTE_FORMAT")]
    format: Format,
}

/// Runs the command.
///
/// # Errors
/// The server cannot be reached, or what it answered.
pub fn state(options: StateOptions) -> Result<()> {
    if options.from.is_some() || options.data_dir.is_some() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "CLI-0001",
            "cannot read state without a server: not supported yet",
        )
        .attempt("--url URL of a running server"));
    }
    let client = Client::new(&options.url);
    let mut output = Output::stdout(Line::default());
    match options.command {
        StateCommand::Ls { format } => list(&client, format, &mut output),
        StateCommand::Get(get) => look_up(&client, &get, &mut output),
        StateCommand::Scan(scan) => read_rows(&client, &scan, &mut output),
        StateCommand::Query { sql, format } => query(&client, &sql, format, &mut output),
        StateCommand::Digest { names } => digest(&client, names, &mut output),
        StateCommand::Export(_) => super::promised::refuse("state export"),
        StateCommand::Diff(_) => super::promised::refuse("state diff"),
    }
}

fn unexpected(what: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "CLI-0011",
        format!("cannot read the server's answer: {what}"),
    )
    .attempt("check that --url is the address of a Cenote server of this version")
}

fn entries(client: &Client) -> Result<Vec<Value>> {
    match client.json("/api/v1/queryable_state")? {
        Value::Array(entries) => Ok(entries),
        _ => Err(unexpected("the list of tables is not a list")),
    }
}

fn text<'a>(entry: &'a Value, field: &str) -> Result<&'a str> {
    entry[field]
        .as_str()
        .ok_or_else(|| unexpected(&format!("no `{field}`")))
}

fn number(entry: &Value, field: &str) -> Result<i64> {
    entry[field]
        .as_i64()
        .ok_or_else(|| unexpected(&format!("no `{field}`")))
}

/// The names in a JSON array of strings, or of objects with a `name`.
fn names(list: &Value) -> String {
    let items = list.as_array().map_or(&[][..], Vec::as_slice);
    let names: Vec<&str> = items
        .iter()
        .filter_map(|item| item.as_str().or_else(|| item["name"].as_str()))
        .collect();
    names.join(", ")
}

fn list(client: &Client, format: Format, output: &mut Output) -> Result<()> {
    let entries = entries(client)?;
    let texts = |of: &dyn Fn(&Value) -> Result<String>| -> Result<ArrayRef> {
        let texts: Vec<String> = entries.iter().map(of).collect::<Result<_>>()?;
        Ok(Arc::new(StringArray::from(texts)))
    };
    let numbers = |field: &str| -> Result<ArrayRef> {
        let numbers: Vec<i64> = entries
            .iter()
            .map(|entry| number(entry, field))
            .collect::<Result<_>>()?;
        Ok(Arc::new(Int64Array::from(numbers)))
    };
    let batch = RecordBatch::try_from_iter([
        ("name", texts(&|entry| Ok(text(entry, "name")?.to_owned()))?),
        ("kind", texts(&|entry| Ok(text(entry, "kind")?.to_owned()))?),
        ("key", texts(&|entry| Ok(names(&entry["key"])))?),
        ("columns", texts(&|entry| Ok(names(&entry["columns"])))?),
        ("rows", numbers("rows")?),
        ("bytes", numbers("bytes")?),
        ("epoch", numbers("epoch")?),
    ])?;
    print(format, &batch.schema(), [Ok(batch)].into_iter(), output)
}

fn print(
    format: Format,
    schema: &SchemaRef,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    output: &mut Output,
) -> Result<()> {
    let mut encoder: Box<dyn Encoder> = format.encoder(schema, Numbers::Raw)?;
    encoder.start(output.buffer())?;
    for batch in batches {
        for chunk in chunks(&batch?) {
            encoder.batch(&chunk, output.buffer())?;
            output.settle()?;
        }
    }
    encoder.finish(output.buffer())?;
    output.flush()
}

fn look_up(client: &Client, get: &GetOptions, output: &mut Output) -> Result<()> {
    if !get.column.is_empty() && get.column.len() != get.key.len() {
        return Err(Error::new(
            ErrorKind::Invalid,
            "CLI-0012",
            format!(
                "cannot look up a key of `{}`: columns and values differ in number",
                get.name
            ),
        )
        .fact("columns", get.column.len())
        .fact("values", get.key.len()));
    }
    let mut path = client::path(&["api", "v1", "queryable_state", &get.name]);
    path.push_str("?numbers=raw");
    for (index, value) in get.key.iter().enumerate() {
        let column = get
            .column
            .get(index)
            .map_or("key".to_owned(), |column| format!("\"{column}\""));
        client::push_parameter(&mut path, &column, value);
    }
    let found = client.json(&path)?;
    let values = match (&found["value"], &found["values"]) {
        (Value::Null, Value::Array(values)) => values.as_slice(),
        (Value::Null, _) => return Err(unexpected("no `value`")),
        (value, _) => std::slice::from_ref(value),
    };
    for value in values {
        output.buffer().extend_from_slice(value.to_string().as_bytes());
        output.buffer().push(b'\n');
    }
    output.flush()
}

fn read_rows(client: &Client, scan: &ScanOptions, output: &mut Output) -> Result<()> {
    let kind = match scan.format {
        Format::Ndjson => "scan.ndjson",
        Format::Csv => "scan.csv",
        Format::Parquet => "scan.parquet",
        Format::Arrow | Format::Table => "scan.arrow",
    };
    let mut path = client::path(&["api", "v1", "queryable_state", &scan.name, kind]);
    path.push('?');
    if scan.format == Format::Ndjson {
        client::push_parameter(&mut path, "numbers", "raw");
    }
    let numbers = [("limit", scan.limit), ("epoch", scan.epoch)];
    let texts = [("columns", scan.columns.clone()), ("where", scan.filter.clone())];
    let numbers = numbers
        .into_iter()
        .map(|(name, number)| (name, number.map(|number| number.to_string())));
    for (name, value) in texts.into_iter().chain(numbers) {
        if let Some(value) = value {
            client::push_parameter(&mut path, name, &value);
        }
    }
    let answer = client.get(&path)?;
    if scan.format == Format::Table {
        let (schema, batches) = client::batches(answer)?;
        return print(scan.format, &schema, batches, output);
    }
    client::copy(answer, output)
}

fn query(client: &Client, sql: &str, format: Format, output: &mut Output) -> Result<()> {
    let answer = client.query(sql)?;
    if client::is_arrow(&answer) {
        let (schema, batches) = client::batches(answer)?;
        return print(format, &schema, batches, output);
    }
    let done = client::read_json(answer)?;
    eprintln!("{}", text(&done, "tag")?);
    Ok(())
}

fn digest(client: &Client, mut names: Vec<String>, output: &mut Output) -> Result<()> {
    if names.is_empty() {
        for entry in entries(client)? {
            names.push(text(&entry, "name")?.to_owned());
        }
    }
    for name in &names {
        let found = client.json(&client::path(&["api", "v1", "queryable_state", name, "digest"]))?;
        let line = format!("{}  {}  {name}\n", text(&found, "digest")?, number(&found, "rows")?);
        output.buffer().extend_from_slice(line.as_bytes());
    }
    output.flush()
}
