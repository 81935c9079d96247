//! `cenote run`: a script in one process, results on stdout.

use super::interrupt::{signalled, watch_signals};
use super::no_runtime;
use super::output::Output;
use super::place::blobs_at;
use super::progress::{Line, Progress};
use crate::encode::{ChangeLines, Encoder, Format, Numbers, chunks};
use arrow::array::AsArray;
use arrow::datatypes::SchemaRef;
use cenote_engine::port::PathPolicy;
use cenote_query::{
    Answers, BatchStream, ChangeStream, CopyIn, Database, DatabaseConfig, Outcome, Session, Statement, parse_script,
};
use cenote_statestore::{Error, ErrorKind, Result};
use futures::{FutureExt, StreamExt};
use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Run a SQL script in this process and print what its SELECTs give
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cenote run -e \"CREATE TABLE orders (usr VARCHAR, amount BIGINT)
                   WITH (connector = 'file', format = 'json', path = 'orders.ndjson');
                 SELECT usr, SUM(amount) AS total FROM orders GROUP BY usr\"
  cenote run report.sql --format table
  cenote run live.sql --changes          print every change until Ctrl-C")]
pub struct RunOptions {
    /// Script to run; `-` reads it from standard input
    #[arg(value_name = "FILE.sql", env = "CENOTE_FILE")]
    file: Option<PathBuf>,
    /// SQL to run, after FILE.sql if both are given; may be repeated
    #[arg(short = 'e', long = "execute", value_name = "SQL", env = "CENOTE_EXECUTE")]
    execute: Vec<String>,
    /// Folder that keeps tables and views between runs; without it nothing outlives the process
    #[arg(long, value_name = "DIR", env = "CENOTE_DATA_DIR")]
    data_dir: Option<PathBuf>,
    /// Where checkpoints go: a path, or a URL such as file:///srv/checkpoints, or s3://bucket/prefix in builds with buckets [default: `checkpoints` in the data folder]
    #[arg(long, value_name = "URL", env = "CENOTE_CHECKPOINT_URL")]
    checkpoint_url: Option<String>,
    /// Start from an older checkpoint and the log where the newest checkpoint is damaged
    #[arg(long, env = "CENOTE_ALLOW_OLDER_CHECKPOINT", value_parser = clap::builder::FalseyValueParser::new())]
    allow_older_checkpoint: bool,
    /// Worker threads of the dataflow engine [default: one per core]
    #[arg(long, value_name = "N", env = "CENOTE_WORKERS", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// How results are printed
    #[arg(long, value_enum, default_value = "ndjson", env = "CENOTE_FORMAT")]
    format: Format,
    /// Print every change with its weight and epoch as it happens, instead of final rows
    #[arg(long, env = "CENOTE_CHANGES", value_parser = clap::builder::FalseyValueParser::new())]
    changes: bool,
    /// Memory that one query may use
    #[arg(long, value_name = "SIZE", env = "CENOTE_QUERY_MEMORY", default_value = "1GiB")]
    query_memory: super::units::ByteSize,
}

/// Runs the command.
///
/// # Errors
/// The first statement that failed; what was printed before it is flushed.
pub fn run(options: RunOptions) -> Result<()> {
    if options.changes && matches!(options.format, Format::Table | Format::Parquet) {
        return Err(Error::new(
            ErrorKind::Invalid,
            "CLI-0007",
            "cannot print changes in this format: it needs all rows before the first",
        )
        .attempt("use --format ndjson, csv or arrow with --changes"));
    }
    let script = read_script(&options)?;
    let statements = parse_script(&script).map_err(|error| locate(error, &script))?;
    let transient = options.data_dir.is_none() && reads_once(&statements);
    let mut stopped = watch_signals()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(no_runtime)?;
    let done = runtime.block_on(async {
        let database = Database::open(config(&options, transient)?).await?;
        let line = Line::default();
        let mut printer = Printer {
            used: false,
            output: Output::stdout(line.clone()),
            format: options.format,
        };
        let progress = Progress::start(&database, line);
        let done = tokio::select! {
            done = run_script(&database, &script, &options, &mut printer) => done,
            () = signalled(&mut stopped) => Ok(()),
        };
        let flushed = printer.output.flush();
        drop(progress);
        report_bad_rows(&database).await;
        let shut = database.shutdown().await;
        done.and(flushed).and(shut)
    });
    runtime.shutdown_background();
    done
}

/// Reasons that are shown of rows that could not be read.
const REASONS_SHOWN: usize = 3;

/// Longest wait for them.
const REASONS_TIME: Duration = Duration::from_secs(1);

/// Says which sources had rows that could not be read, and why the first of them could not.
async fn report_bad_rows(database: &Arc<Database>) {
    let metrics = database.metrics();
    let bad = metrics
        .iter()
        .filter(|metric| metric.name == "cenote_source_bad_rows_total");
    for metric in bad.filter(|metric| metric.value > 0.0) {
        let source = metric.labels.first().map_or("", |(_, name)| name.as_str());
        let rows = if metric.value == 1.0 { "row" } else { "rows" };
        eprintln!(
            "warning: {source}: {} {rows} could not be read and left out",
            metric.value
        );
        // Who stopped the run does not wait for the rest of its input.
        let reasons = tokio::time::timeout(REASONS_TIME, reasons(database, source)).await;
        for reason in reasons.ok().and_then(Result::ok).unwrap_or_default() {
            eprintln!("  {reason}");
        }
    }
}

/// The first rows of a source that could not be read: where they stand, and why.
async fn reasons(database: &Arc<Database>, source: &str) -> Result<Vec<String>> {
    let sql = format!(
        "SELECT file || CASE WHEN line > 0 THEN ':' || line::text ELSE '' END || ': ' || reason FROM cenote_catalog.errors \
         WHERE source = '{}' ORDER BY file, line LIMIT {REASONS_SHOWN}",
        source.replace('\'', "''")
    );
    let mut session = database.session();
    let mut found = Vec::new();
    for statement in parse_script(&sql)? {
        if let Outcome::Rows(mut rows) = session.execute(&statement, &[]).await? {
            while let Some(batch) = rows.batches.next().await {
                found.extend(batch?.column(0).as_string::<i32>().iter().flatten().map(str::to_string));
            }
        }
    }
    Ok(found)
}

fn read_script(options: &RunOptions) -> Result<String> {
    let mut script = String::new();
    match &options.file {
        Some(path) if path.as_os_str() == "-" => read_stdin(&mut script)?,
        Some(path) => {
            script = std::fs::read_to_string(path).map_err(|error| {
                Error::new(
                    ErrorKind::Invalid,
                    "CLI-0002",
                    format!("cannot read script {}: {error}", path.display()),
                )
                .sqlstate("58030")
                .source(error)
            })?;
        }
        None if options.execute.is_empty() && !std::io::stdin().is_terminal() => read_stdin(&mut script)?,
        None if options.execute.is_empty() => {
            return Err(
                Error::new(ErrorKind::Invalid, "CLI-0002", "cannot run a script: none was given")
                    .attempt("cenote run FILE.sql, or cenote run -e SQL"),
            );
        }
        None => {}
    }
    for sql in &options.execute {
        if !script.is_empty() {
            script.push_str(";\n");
        }
        script.push_str(sql);
    }
    Ok(script)
}

fn read_stdin(script: &mut String) -> Result<()> {
    std::io::stdin().read_to_string(script).map(drop).map_err(|error| {
        Error::new(
            ErrorKind::Invalid,
            "CLI-0002",
            format!("cannot read script from standard input: {error}"),
        )
        .source(error)
    })
}

/// Whether each row is needed once: one query at the end, and nothing that keeps contents of its own.
fn reads_once(statements: &[Statement]) -> bool {
    let queries = statements.iter().filter(|statement| statement.is_query()).count();
    queries == 1
        && statements
            .iter()
            .all(|statement| statement.is_query() || statement.is_table_definition())
}

fn config(options: &RunOptions, transient_tables: bool) -> Result<DatabaseConfig> {
    Ok(DatabaseConfig {
        data_dir: options.data_dir.clone(),
        checkpoints: options.checkpoint_url.as_deref().map(blobs_at).transpose()?,
        checkpoint_retain: 3,
        allow_older_checkpoint: options.allow_older_checkpoint,
        checkpoint_timeout: Duration::from_secs(600),
        workers: options.workers.map_or_else(super::settings::cores, usize::from),
        retain_epochs: 1,
        retain_time: Duration::ZERO,
        connectors: crate::encode::connectors(),
        paths: PathPolicy::Any,
        transient_tables,
        answers: if options.changes {
            Answers::Changes
        } else {
            Answers::Final
        },
        query_memory_bytes: usize::try_from(options.query_memory.0).unwrap_or(usize::MAX),
        state_backend: Default::default(),
        memory_limit: None,
        state_memory: None,
        state_cache: None,
        take_over: false,
    })
}

async fn run_script(database: &Arc<Database>, script: &str, options: &RunOptions, printer: &mut Printer) -> Result<()> {
    let mut session = database.session();
    let statements = session.parse(script).map_err(|error| locate(error, script))?;
    let mut printed = false;
    for statement in &statements {
        let done = if options.changes && statement.is_query() {
            printed = true;
            follow(&mut session, statement, printer).await
        } else {
            execute(&mut session, statement, printer)
                .await
                .map(|rows| printed |= rows)
        };
        done.map_err(|error| locate(error, statement.text()))?;
    }
    printer.output.flush()?;
    let has_sinks = !database.sinks().is_empty();
    if (!printed || has_sinks) && !database.wait_for_bounded_sources().await? {
        std::future::pending::<()>().await;
    }
    database.finish_sinks().await
}

async fn follow(session: &mut Session, statement: &Statement, printer: &mut Printer) -> Result<()> {
    let changes = session.execute_changes(statement).await?;
    printer.changes(changes).await
}

/// Runs one statement and prints its rows; tells whether it had any to print.
async fn execute(session: &mut Session, statement: &Statement, printer: &mut Printer) -> Result<bool> {
    match session.execute(statement, &[]).await? {
        Outcome::Rows(rows) => printer.rows(&rows.schema, rows.batches).await.map(|()| true),
        Outcome::Command { notices, .. } => {
            for notice in notices {
                eprintln!("NOTICE: {notice}");
            }
            Ok(false)
        }
        Outcome::CopyIn(copy) => copy_stdin(copy).await.map(|()| false),
        Outcome::Empty => Ok(false),
    }
}

async fn copy_stdin(mut copy: Box<dyn CopyIn>) -> Result<()> {
    let mut stdin = std::io::stdin().lock();
    let mut bytes = vec![0; 64 << 10];
    loop {
        let count = match stdin.read(&mut bytes) {
            Ok(count) => count,
            Err(error) => {
                let error = Error::from(error);
                copy.abort(error.clone()).await;
                return Err(error);
            }
        };
        if count == 0 {
            return copy.finish().await.map(drop);
        }
        copy.data(&bytes[..count]).await?;
    }
}

/// Prints results in one format.
struct Printer<W: Write = std::io::Stdout> {
    output: Output<W>,
    format: Format,
    /// Something was printed.
    used: bool,
}

impl<W: Write> Printer<W> {
    async fn rows(&mut self, schema: &SchemaRef, batches: BatchStream) -> Result<()> {
        if std::mem::replace(&mut self.used, true) && matches!(self.format, Format::Arrow | Format::Parquet) {
            let message = "cannot print a second result in this format: a reader would find the first one only";
            let error = Error::new(ErrorKind::Invalid, "CLI-0014", message);
            return Err(error.attempt("run one SELECT each, or use --format ndjson"));
        }
        let encoder = self.format.encoder(schema, Numbers::Raw)?;
        self.print(encoder, batches).await
    }

    async fn changes(&mut self, changes: ChangeStream) -> Result<()> {
        let encoder: Box<dyn Encoder> = match self.format {
            Format::Ndjson => Box::new(ChangeLines::new(&changes.schema, Numbers::Raw)),
            format => format.encoder(&changes.schema, Numbers::Raw)?,
        };
        self.print(encoder, changes.batches).await
    }

    /// Encodes batches as they come; whatever is there is written before waiting for more.
    async fn print(&mut self, mut encoder: Box<dyn Encoder>, mut batches: BatchStream) -> Result<()> {
        encoder.start(self.output.buffer())?;
        loop {
            let next = match batches.next().now_or_never() {
                Some(next) => next,
                None => {
                    self.output.flush()?;
                    batches.next().await
                }
            };
            let Some(batch) = next.transpose()? else { break };
            for chunk in chunks(&batch) {
                encoder.batch(&chunk, self.output.buffer())?;
                self.output.settle()?;
            }
        }
        encoder.finish(self.output.buffer())?;
        self.output.flush()
    }
}

/// Adds the line of SQL and a caret to an error that has a position.
fn locate(error: Error, sql: &str) -> Error {
    let Some(position) = error.sql_position() else {
        return error;
    };
    let before: String = sql.chars().take(position.saturating_sub(1)).collect();
    let line_number = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count();
    let Some(line) = sql.lines().nth(line_number - 1) else {
        return error;
    };
    let from = column.saturating_sub(60);
    let shown: String = line.chars().skip(from).take(100).collect();
    error
        .fact("line", format!("{line_number}: {}", shown.trim_end()))
        .fact("here", caret(line_number, column - from))
}

/// A caret under column `column` of the fact before it.
fn caret(line_number: usize, column: usize) -> String {
    format!("{:>1$}", "^", line_number.to_string().len() + 2 + column + 1)
}

#[cfg(test)]
mod tests;
