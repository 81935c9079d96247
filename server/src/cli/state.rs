//! `cenote state`: what a server's state holds, asked over HTTP, or what a checkpoint holds, read without a server.

mod client;
mod together;

use super::export::ExportOptions;
use super::offline::{self, DIFFERENT, DiffOptions};
use super::output::Output;
use super::progress::Line;
use crate::encode::{Encoder, Format, Numbers, chunks};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use cenote_statestore::checkpoint::Checkpoint;
use cenote_statestore::{Error, ErrorKind, Result};
use clap::{Args, Subcommand};
pub(super) use client::Client;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;

/// Look at state: tables, views and the state of operators, of a server or of a checkpoint
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  cenote state ls --url http://127.0.0.1:8080
  cenote state get by_owner ann
  cenote state scan by_owner --where \"total > 60\" --limit 10 --format table
  cenote state query --sql \"SELECT count(*) FROM by_owner\"
  cenote state digest by_owner
  cenote state export --out folder       everything as of one epoch, a Parquet file each
  cenote state query --sql \"SELECT view, key_group, count(*) FROM cenote_catalog.state GROUP BY 1, 2\"
  cenote state ls --from ckpt/ID         a checkpoint, no server needed; --from ckpt for the newest
  cenote state ls --from s3://bucket/prefix
  cenote state query --from ckpt/ID --sql \"SELECT key_group, count(*) FROM state GROUP BY 1\"")]
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
    /// Read a checkpoint instead of a server: `ROOT/ID`, or `ROOT` for the newest one; `ROOT` is a path or a URL
    #[arg(long, global = true, value_name = "PLACE")]
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
    Export(ExportOptions),
    Diff(DiffOptions),
}

/// What `get` is asked for.
#[derive(Args, Debug)]
pub struct GetOptions {
    /// `view`, `schema.view` or `cenote_state.table`
    pub name: String,
    /// Value of each key column in order; `--` before values that begin with `-`
    #[arg(required = true, value_name = "KEY", allow_negative_numbers = true)]
    pub key: Vec<String>,
    /// Columns that the values are for, instead of the key
    #[arg(long, value_name = "COLUMN", env = "CENOTE_COLUMN", value_delimiter = ',')]
    pub column: Vec<String>,
}

/// What `scan` is asked for.
#[derive(Args, Debug)]
pub struct ScanOptions {
    /// `view`, `schema.view` or `cenote_state.table`
    pub name: String,
    /// Columns, separated by commas
    #[arg(long, value_name = "COLUMNS", env = "CENOTE_COLUMNS")]
    pub columns: Option<String>,
    /// A SQL predicate
    #[arg(long = "where", value_name = "SQL", env = "CENOTE_WHERE")]
    pub filter: Option<String>,
    /// Rows at most
    #[arg(long, value_name = "N", env = "CENOTE_LIMIT")]
    pub limit: Option<u64>,
    /// Read as of this sealed epoch
    #[arg(long, value_name = "EPOCH", env = "CENOTE_EPOCH")]
    pub epoch: Option<u64>,
    /// How rows are printed
    #[arg(long, value_enum, default_value = "ndjson", env = "CENOTE_FORMAT")]
    pub format: Format,
}

/// Runs the command.
///
/// # Errors
/// The server cannot be reached, or what it answered.
pub fn state(options: StateOptions) -> Result<()> {
    if options.data_dir.is_some() {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "CLI-0001",
            "cannot read state of a data directory: not supported yet",
        )
        .attempt("--url URL of a running server, or --from a checkpoint"));
    }
    if let Some(place) = &options.from {
        return of_checkpoint(&offline::open(place)?, options.command);
    }
    let client = Client::new(&options.url);
    let mut output = Output::stdout(Line::default());
    match options.command {
        StateCommand::Ls { format } => list(&client, format, &mut output),
        StateCommand::Get(get) => look_up(&client, &get, &mut output),
        StateCommand::Scan(scan) => read_rows(&client, &scan, &mut output),
        StateCommand::Query { sql, format } => query(&client, &sql, format, &mut output),
        StateCommand::Digest { names } => together::digest(&client, &names, &mut output),
        StateCommand::Export(options) => together::export(&client, &options),
        StateCommand::Diff(_) => Err(Error::new(
            ErrorKind::Unsupported,
            "CLI-0001",
            "cannot run `cenote state diff` on a server: not supported yet",
        )
        .attempt("cenote checkpoint, then --from ROOT/ID and --to ROOT/ID of two checkpoints")),
    }
}

fn of_checkpoint(checkpoint: &Checkpoint, command: StateCommand) -> Result<()> {
    let mut output = Output::stdout(Line::default());
    match command {
        StateCommand::Ls { format } => offline::list(checkpoint, format, &mut output),
        StateCommand::Get(get) => {
            get.check()?;
            offline::look_up(checkpoint, &get, &mut output)
        }
        StateCommand::Scan(scan) => offline::scan(checkpoint, &scan, &mut output),
        StateCommand::Query { sql, format } => offline::query(checkpoint, &sql, format, &mut output),
        StateCommand::Digest { names } => offline::digest(checkpoint, names, &mut output),
        StateCommand::Export(options) => offline::export(checkpoint, &options),
        StateCommand::Diff(options) => {
            let to = offline::open(&options.to)?;
            match offline::diff(checkpoint, &to, &options, &mut output)? {
                0 => Ok(()),
                count => Err(Error::new(
                    ErrorKind::Invalid,
                    DIFFERENT,
                    format!("{count} differences"),
                )),
            }
        }
    }
}

impl GetOptions {
    /// Whether there is a value for each column.
    fn check(&self) -> Result<()> {
        match self.column.is_empty() || self.column.len() == self.key.len() {
            true => Ok(()),
            false => Err(GetOptions::miscounted(&self.name, self.column.len(), self.key.len())),
        }
    }

    /// Columns and values of a key differ in number.
    pub fn miscounted(name: &str, columns: usize, values: usize) -> Error {
        let message = format!("cannot look up a key of `{name}`: columns and values differ in number");
        Error::new(ErrorKind::Invalid, "CLI-0012", message)
            .fact("columns", columns)
            .fact("values", values)
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

/// Prints batches in a format.
pub fn print(
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
    get.check()?;
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
        let (schema, batches) = client::batches(client::reader(answer))?;
        return print(scan.format, &schema, batches, output);
    }
    client::copy(answer, output)
}

pub(super) fn query(client: &Client, sql: &str, format: Format, output: &mut Output) -> Result<()> {
    let answer = client.query(sql)?;
    if client::is_arrow(&answer) {
        let (schema, batches) = client::batches(client::reader(answer))?;
        return print(format, &schema, batches, output);
    }
    let done = client::read_json(answer)?;
    eprintln!("{}", text(&done, "tag")?);
    Ok(())
}
