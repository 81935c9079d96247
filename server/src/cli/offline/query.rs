//! `cenote state query --from`, `scan --from`: SQL over a checkpoint, in Cenote's own dialect.
//!
//! A database in memory shows the tables of the checkpoint under their names: those of users in `public`, state of operators in
//! `cenote_state` with a column `key_group`, and all state together as `cenote_catalog.state`, also called `state`.

use super::named;
use super::rows::{key_groups, repeated, with_key_group};
use crate::cli::output::Output;
use crate::cli::state::ScanOptions;
use crate::cli::{no_runtime, settings};
use crate::encode::{Encoder, Format, Numbers, chunks};
use arrow::array::RecordBatch;
use cenote_engine::port::PathPolicy;
use cenote_query::{
    Answers, AttachedBatches, AttachedRead, AttachedTable, Database, DatabaseConfig, Outcome, Rows, StateInventory,
};
use cenote_statestore::checkpoint::{Checkpoint, TableEntry, TableKind};
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;

/// Memory that the query may use.
const QUERY_BYTES: usize = 1 << 30;

/// Runs one query and prints its rows.
///
/// # Errors
/// The query is wrong, is none, or a file is damaged.
pub fn query(checkpoint: &Checkpoint, sql: &str, format: Format, output: &mut Output) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_stack_size(cenote_engine::THREAD_STACK_BYTES)
        .enable_all()
        .build()
        .map_err(no_runtime)?;
    let done = runtime.block_on(async {
        let database = Database::open(config()).await?;
        database.attach(tables(checkpoint), Epoch(checkpoint.manifest().epoch));
        let done = match run(&database, sql).await {
            Ok(rows) => write(rows, format, output).await,
            Err(error) => Err(error),
        };
        let shut = database.shutdown().await;
        done.and(shut)
    });
    runtime.shutdown_background();
    done
}

async fn run(database: &Arc<Database>, sql: &str) -> Result<Rows> {
    let mut session = database.session();
    let statements = session.parse(sql)?;
    let [statement] = statements.as_slice() else {
        return Err(no_query());
    };
    if !statement.is_query() {
        return Err(no_query());
    }
    match session.execute(statement, &[]).await? {
        Outcome::Rows(rows) => Ok(rows),
        _ => Err(no_query()),
    }
}

fn no_query() -> Error {
    Error::new(
        ErrorKind::Invalid,
        "CLI-0018",
        "cannot run statement on a checkpoint: one query can be run, and nothing can be changed",
    )
    .sqlstate("25006")
}

async fn write(mut rows: Rows, format: Format, output: &mut Output) -> Result<()> {
    let mut encoder: Box<dyn Encoder> = format.encoder(&rows.schema, Numbers::Raw)?;
    encoder.start(output.buffer())?;
    while let Some(batch) = rows.batches.next().await {
        for chunk in chunks(&batch?) {
            encoder.batch(&chunk, output.buffer())?;
            output.settle()?;
        }
    }
    encoder.finish(output.buffer())?;
    output.flush()
}

fn config() -> DatabaseConfig {
    DatabaseConfig {
        checkpoints: None,
        checkpoint_retain: 1,
        allow_older_checkpoint: false,
        checkpoint_timeout: Duration::from_secs(600),
        data_dir: None,
        workers: settings::cores(),
        retain_epochs: 1,
        retain_time: Duration::ZERO,
        connectors: crate::encode::connectors(),
        paths: PathPolicy::Any,
        transient_tables: false,
        answers: Answers::Current,
        query_memory_bytes: QUERY_BYTES,
        state_backend: Default::default(),
        memory_limit: None,
        state_memory: None,
        state_cache: None,
        take_over: false,
    }
}

/// Where all state together is found: in the system catalog, and without a schema.
const STATE: [(&str, &str); 2] = [("cenote_catalog", "state"), ("public", "state")];

/// The tables of the checkpoint, and its state under its names, unless a table of the checkpoint is called so.
fn tables(checkpoint: &Checkpoint) -> Vec<AttachedTable> {
    let own = &checkpoint.manifest().tables;
    let is_free = |schema: &str, name: &str| !own.iter().any(|table| table.schema == schema && table.name == name);
    let state = STATE.iter().filter(|(schema, name)| is_free(schema, name));
    let inventory = StateInventory::of_checkpoint(checkpoint);
    let state = state.map(|(schema, name)| AttachedTable::of_state(*schema, *name, inventory.clone()));
    own.iter()
        .map(|table| attached(checkpoint, table))
        .chain(state)
        .collect()
}

fn attached(checkpoint: &Checkpoint, table: &TableEntry) -> AttachedTable {
    let is_state = !matches!(table.kind, TableKind::Table | TableKind::View);
    let grouped = is_state.then(|| with_key_group(table)).flatten();
    let columns = grouped.clone().unwrap_or_else(|| table.table_schema());
    let (checkpoint, entry) = (checkpoint.clone(), table.clone());
    let read: AttachedRead = Arc::new(move || {
        let rows = repeated(&checkpoint, &entry.readable_name())?;
        let (grouped, entry) = (grouped.clone(), entry.clone());
        let batches: AttachedBatches = match grouped {
            None => Box::new(rows),
            Some(columns) => Box::new(rows.map(move |rows| {
                let rows = rows?;
                let mut all = rows.columns().to_vec();
                all.push(key_groups(&entry, &rows));
                Ok(RecordBatch::try_new(columns.clone(), all)?)
            })),
        };
        Ok(batches)
    });
    AttachedTable::new(&table.schema, &table.name, columns, read)
}

/// Runs `SELECT columns FROM name WHERE filter LIMIT n`.
///
/// # Errors
/// As [`query`]; or an epoch was asked for that is not the checkpoint's.
pub fn scan(checkpoint: &Checkpoint, scan: &ScanOptions, output: &mut Output) -> Result<()> {
    let table = checkpoint.table(&named(checkpoint, &scan.name))?;
    let epoch = checkpoint.manifest().epoch;
    if let Some(wanted) = scan.epoch.filter(|wanted| *wanted != epoch) {
        let message = format!(
            "cannot read `{}` at epoch {wanted}: the checkpoint is of one epoch",
            scan.name
        );
        return Err(Error::new(ErrorKind::Expired, "STATE-0104", message).fact("kept", format!("epoch {epoch}")));
    }
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let columns = match &scan.columns {
        Some(columns) => columns.split(',').map(|column| quoted(column.trim())).collect(),
        None => table
            .columns
            .iter()
            .map(|column| quoted(&column.name))
            .collect::<Vec<_>>(),
    };
    let mut sql = format!(
        "SELECT {} FROM {}.{}",
        columns.join(", "),
        quoted(&table.schema),
        quoted(&table.name)
    );
    if let Some(filter) = &scan.filter {
        sql.push_str(&format!(" WHERE ({filter}\n)"));
    }
    if let Some(limit) = scan.limit {
        sql.push_str(&format!(" LIMIT {limit}"));
    }
    query(checkpoint, &sql, scan.format, output)
}
