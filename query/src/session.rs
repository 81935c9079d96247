//! One client's session: settings, open transaction, statements.

mod checkpoints;
mod commitment;
mod cursors;
mod definitions;
mod describe;
mod inspect;
mod run;
mod savepoints;
mod settings;
mod timeout;
mod transactions;

pub use commitment::Commitment;
pub(crate) use commitment::canceled;

use crate::catalog::Object;
use crate::database::{ChangeStream, Database};
use crate::error::{from_datafusion, unsupported};
use crate::names::shown_name;
use crate::outcome::{Outcome, Rows};
use crate::parse::{Parsed, Statement, parse_script};
use crate::plan::ReadView;
use crate::transaction::{ConflictRule, Transaction, failed_transaction};
use arrow::array::RecordBatch;
use arrow::compute::CastOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::util::display::FormatOptions;
use cenote_statestore::{Epoch, ErrorKind, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{Delete, Insert, Statement as Ast, Update};
use futures::StreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a prepared statement takes and gives.
#[derive(Clone, Debug)]
pub struct Description {
    /// Types of `$1`, `$2` ... as inferred or as the client gave them.
    pub parameters: Vec<DataType>,
    /// Columns of the result; `None` for statements without one.
    pub columns: Option<SchemaRef>,
}

/// State of the transaction, as PostgreSQL's ReadyForQuery tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction block is open.
    Idle,
    /// In a transaction block.
    Open,
    /// In a transaction block that failed; only ROLLBACK (or COMMIT, which rolls back) is taken.
    Failed,
}

/// One client's session. Dropping it rolls back what is open.
pub struct Session {
    database: Arc<Database>,
    transaction: Option<Transaction>,
    settings: Arc<BTreeMap<String, String>>,
    /// Settings as the client connected, which RESET goes back to.
    initial: Arc<BTreeMap<String, String>>,
    /// What the open transaction's end does to the settings.
    scope: settings::Scope,
    last_epoch: Epoch,
    last_read: Option<Epoch>,
    copied: crate::copy::Copied,
    cursors: cursors::Cursors,
    /// Savepoints of the open transaction, oldest first.
    savepoints: Vec<savepoints::Savepoint>,
    /// A statement runs; still set when the next one comes if that one was broken off.
    running: bool,
    commitment: Arc<Commitment>,
}

impl Session {
    pub(crate) fn new(database: Arc<Database>) -> Session {
        let settings = Arc::new(crate::settings::defaults());
        Session {
            database,
            transaction: None,
            initial: settings.clone(),
            settings,
            scope: Default::default(),
            last_epoch: Epoch::ZERO,
            last_read: None,
            copied: Default::default(),
            cursors: Default::default(),
            savepoints: Vec::new(),
            running: false,
            commitment: Arc::default(),
        }
    }

    /// The database this session works on.
    pub fn database(&self) -> &Arc<Database> {
        &self.database
    }

    /// Splits a script into statements. Only syntax is checked.
    ///
    /// # Errors
    /// `Invalid` with SQLSTATE 42601 and the position in `sql`; nothing of the script has run.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        parse_script(sql)
    }

    /// Runs one statement.
    ///
    /// # Arguments
    /// - `parameters`: values of `$1`, `$2` ...; cast to the types that the statement needs.
    ///
    /// # Errors
    /// The statement had no effect. In a transaction block the block is failed.
    pub async fn execute(&mut self, statement: &Statement, parameters: &[ScalarValue]) -> Result<Outcome> {
        self.settle();
        self.running = true;
        let outcome = self.execute_in_time(statement, parameters).await;
        self.running = false;
        self.commitment.end();
        outcome
    }

    async fn execute_settled(&mut self, statement: &Statement, parameters: &[ScalarValue]) -> Result<Outcome> {
        let ends = matches!(&*statement.parsed, Parsed::Sql { ast, .. } if matches!(**ast, Ast::Commit { .. } | Ast::Rollback { .. }));
        if self.transaction.as_ref().is_some_and(|transaction| transaction.failed) && !ends {
            return Err(failed_transaction());
        }
        if is_rollback(statement) {
            // What was copied and not looked at yet goes too, and has no say any more.
            self.copied.lock().clear();
        }
        let outcome = match self.take_copied() {
            Ok(()) => self.dispatch(statement, parameters).await,
            Err(error) => Err(error),
        };
        if outcome.is_err()
            && let Some(transaction) = &mut self.transaction
        {
            transaction.failed = true;
        }
        outcome
    }

    /// Where a COPY puts its rows while a transaction block is open.
    pub(crate) fn copied(&self) -> Option<crate::copy::Copied> {
        self.transaction
            .as_ref()
            .filter(|transaction| !transaction.implicit)
            .map(|_| self.copied.clone())
    }

    /// Takes the rows of a COPY into the open transaction.
    fn take_copied(&mut self) -> Result<()> {
        let copied = std::mem::take(&mut *self.copied.lock());
        if let Some(transaction) = &mut self.transaction {
            for (table, rows) in copied {
                transaction.insert(&table, rows, &ConflictRule::Refuse)?;
            }
        }
        Ok(())
    }

    async fn dispatch(&mut self, statement: &Statement, parameters: &[ScalarValue]) -> Result<Outcome> {
        match &*statement.parsed {
            Parsed::Empty => Ok(Outcome::Empty),
            Parsed::Sql { ast, as_of } => self.dispatch_sql(statement, ast, *as_of, parameters).await,
            Parsed::CreateSource(ast) => {
                self.refuse_definition("CREATE SOURCE")?;
                let create = crate::ddl::as_create_table(ast)?;
                self.create_table("CREATE SOURCE", create, &statement.text, true).await
            }
            Parsed::DropSource {
                names,
                if_exists,
                cascade,
            } => {
                self.refuse_definition("DROP")?;
                self.drop_objects(names, "source", *if_exists, *cascade).await
            }
            Parsed::Subscribe { name, snapshot, from } => self.subscribe(name, *snapshot, *from),
            Parsed::Cursor(of) => self.cursor(statement, of, parameters).await,
            Parsed::Inspect(inspection) => self.inspect(inspection).await,
            Parsed::Checkpoint(of) => self.checkpoint(of).await,
            Parsed::Sink(of) => self.sink(of, &statement.text).await,
            Parsed::Show(words) => {
                let rows = crate::show::rows(&self.database, words).await?;
                Ok(fixed_rows(rows, "SHOW"))
            }
        }
    }

    async fn dispatch_sql(
        &mut self,
        statement: &Statement,
        ast: &Ast,
        as_of: Option<Epoch>,
        parameters: &[ScalarValue],
    ) -> Result<Outcome> {
        match ast {
            Ast::Query(_) => self.query(statement, ast, as_of, parameters).await,
            Ast::Insert(insert) => self.changed("INSERT 0", Change::Insert(insert), parameters).await,
            Ast::Update(update) => self.changed("UPDATE", Change::Update(update), parameters).await,
            Ast::Delete(delete) => self.changed("DELETE", Change::Delete(delete), parameters).await,
            Ast::Truncate(truncate) => {
                self.change(Change::Truncate(truncate), parameters).await?;
                Ok(command("TRUNCATE TABLE"))
            }
            Ast::Copy { .. } => crate::copy::start(self, ast).await,
            Ast::StartTransaction { modes, .. } => self.begin(modes),
            Ast::Commit { chain, .. } => self.end_block(true, *chain).await,
            Ast::Rollback { savepoint: None, chain } => self.end_block(false, *chain).await,
            Ast::Rollback {
                savepoint: Some(name), ..
            } => self.rollback_to(name),
            Ast::Savepoint { name } => self.savepoint(name),
            Ast::ReleaseSavepoint { name } => self.release(name),
            Ast::Set(set) => self.set(set),
            Ast::Reset(reset) => self.reset(&reset.reset),
            Ast::Discard { .. } => {
                self.settings = self.initial.clone();
                self.cursors.clear();
                Ok(command("DISCARD ALL"))
            }
            // Channels do not exist, so that none of them are left now.
            Ast::UNLISTEN { .. } => Ok(command("UNLISTEN")),
            Ast::Deallocate { .. } => Ok(command("DEALLOCATE")),
            Ast::ShowVariable { variable } => self.show_setting(variable),
            Ast::Explain {
                statement,
                analyze,
                verbose: false,
                query_plan: false,
                estimate: false,
                format: None,
                options: None,
                ..
            } => self.explain(statement, *analyze, as_of, parameters).await,
            Ast::Explain {
                statement,
                options: Some(options),
                ..
            } if is_changes(options) => {
                let lines = self.database.explain_changes(statement).await?;
                explanation(&lines)
            }
            Ast::Explain { .. } => Err(unsupported("EXPLAIN with options")),
            _ => self.definition(statement, ast).await,
        }
    }

    /// Runs a change and says what it changed: how many rows, or those that RETURNING asks for.
    async fn changed(&mut self, verb: &'static str, change: Change<'_>, parameters: &[ScalarValue]) -> Result<Outcome> {
        let is_block = self.transaction.is_some();
        let changed = self.change(change, parameters).await?;
        let Some(rows) = changed.returned else {
            return Ok(command(format!("{verb} {}", changed.count)));
        };
        let epoch = (!is_block).then_some(self.last_epoch);
        Ok(Outcome::Rows(Rows {
            schema: rows.schema(),
            batches: futures::stream::iter([Ok(rows)]).boxed(),
            epoch,
            verb,
        }))
    }

    /// What a statement reads. An epoch that memory no longer holds is looked for later, where the statement names it
    /// ([`ReadView::with_named`]): a checkpoint may.
    pub(crate) async fn read_view(&self, as_of: Option<Epoch>) -> Result<ReadView> {
        if self.transaction.is_none() {
            self.database.engine().wait_visible(self.last_epoch).await?;
        }
        let read_at = |as_of| {
            self.database
                .read_view(self.transaction.as_ref(), as_of, self.settings.clone())
        };
        match read_at(as_of) {
            Err(error) if as_of.is_some() && error.kind() == ErrorKind::Expired => read_at(None),
            view => view,
        }
    }

    async fn query(
        &mut self,
        statement: &Statement,
        ast: &Ast,
        as_of: Option<Epoch>,
        parameters: &[ScalarValue],
    ) -> Result<Outcome> {
        self.set_from_query(statement, ast)?;
        if self.database.config().answers.wait_for_sources() {
            return self.run_query(ast, as_of, parameters).await;
        }
        self.read(ast, as_of, parameters).await
    }

    /// Runs a query over the contents of one epoch.
    async fn read(&mut self, ast: &Ast, as_of: Option<Epoch>, parameters: &[ScalarValue]) -> Result<Outcome> {
        let view = self.read_view(as_of).await?.with_named(ast).await?;
        let (view, state, plan) = view.plan_to_run(ast, parameters).await?;
        let epoch = view.pin.epoch();
        self.last_read = Some(epoch);
        stream_plan(&state, plan, Some(epoch)).await
    }

    fn subscribe(
        &mut self,
        name: &datafusion::sql::sqlparser::ast::ObjectName,
        snapshot: bool,
        from: Option<Epoch>,
    ) -> Result<Outcome> {
        let name = crate::ddl::object_name(name)?;
        let stream = self.database.changes_now(&name, from, snapshot)?;
        Ok(Outcome::Rows(Rows {
            schema: stream.schema,
            batches: stream.batches,
            epoch: None,
            verb: "SUBSCRIBE",
        }))
    }

    async fn explain(
        &mut self,
        statement: &Ast,
        analyze: bool,
        as_of: Option<Epoch>,
        parameters: &[ScalarValue],
    ) -> Result<Outcome> {
        let view = self.read_view(as_of).await?.with_named(statement).await?;
        let lines = match analyze {
            true => crate::explain::analyze(view, statement, parameters).await?,
            false => crate::explain::explain(&view, statement, parameters).await?,
        };
        explanation(&lines)
    }

    /// The epoch of this session's last commit; reads of this session are never older.
    pub fn last_epoch(&self) -> Epoch {
        self.last_epoch
    }

    /// Changes of a query's result, as they happen, from its first contents on (`cenote run --changes`).
    pub async fn execute_changes(&mut self, statement: &Statement) -> Result<ChangeStream> {
        match &*statement.parsed {
            Parsed::Sql { ast, .. } if matches!(**ast, Ast::Query(_)) => self.run_changes(ast).await,
            _ => Err(unsupported("--changes of a statement that is not a query")),
        }
    }
}

fn is_rollback(statement: &Statement) -> bool {
    matches!(&*statement.parsed, Parsed::Sql { ast, .. } if matches!(**ast, Ast::Rollback { .. }))
}

enum Change<'a> {
    Insert(&'a Insert),
    Update(&'a Update),
    Delete(&'a Delete),
    Truncate(&'a datafusion::sql::sqlparser::ast::Truncate),
}

/// Runs a plan, its result streaming to the client.
pub(crate) async fn stream_plan(
    state: &datafusion::execution::SessionState,
    plan: LogicalPlan,
    epoch: Option<Epoch>,
) -> Result<Outcome> {
    // Only once its types are coerced does a plan tell those of its result.
    let plan = state.optimize(&plan).map_err(from_datafusion)?;
    let schema = shown_schema(plan.schema().as_arrow());
    let physical = state.query_planner().create_physical_plan(&plan, state).await;
    let physical = physical.map_err(from_datafusion)?;
    let stream = crate::threads::compute(state, physical)?;
    let shown = schema.clone();
    let batches = stream.map(move |batch| {
        let batch = batch.map_err(from_datafusion)?;
        rename(batch, &shown)
    });
    Ok(Outcome::Rows(Rows {
        schema,
        batches: batches.boxed(),
        epoch,
        verb: "SELECT",
    }))
}

/// A cast that says what it cannot do, where others give NULL.
const EXACT: CastOptions<'static> = CastOptions {
    safe: false,
    format_options: FormatOptions::new(),
};

/// A batch under the result's names; execution may narrow a type, which the plan's wins over.
pub(crate) fn rename(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields()).map(|(column, field)| {
        if column.data_type() == field.data_type() {
            Ok(column.clone())
        } else {
            arrow::compute::cast_with_options(column, field.data_type(), &EXACT)
        }
    });
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    cenote_statestore::Changes::batch(schema.clone(), columns, batch.num_rows())
}

/// The columns of a result under the names that users see.
pub(crate) fn shown_schema(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| {
        Field::new(shown_name(field.name()), field.data_type().clone(), true).with_metadata(field.metadata().clone())
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn first_words(sql: &str) -> String {
    sql.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

fn command(tag: impl Into<String>) -> Outcome {
    Outcome::Command {
        tag: tag.into(),
        notices: Vec::new(),
    }
}

fn created(tag: &str, made: bool, name: &str) -> Outcome {
    let notices = if made {
        Vec::new()
    } else {
        vec![format!("relation \"{name}\" already exists, skipping")]
    };
    Outcome::Command {
        tag: tag.into(),
        notices,
    }
}

fn text_column(name: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, true)]))
}

pub(crate) fn fixed_rows(rows: RecordBatch, verb: &'static str) -> Outcome {
    let schema = rows.schema();
    let batches = futures::stream::iter([Ok(rows)]).boxed();
    Outcome::Rows(Rows {
        schema,
        batches,
        epoch: None,
        verb,
    })
}

/// Whether an object's rows come from a source that keeps none.
pub(crate) fn passes_rows(object: &Object) -> bool {
    matches!(object, Object::Table(table) if table.versioned.is_none())
}

/// Whether the options of an EXPLAIN are CHANGES alone.
fn is_changes(options: &[datafusion::sql::sqlparser::ast::UtilityOption]) -> bool {
    matches!(options, [option] if option.name.value.eq_ignore_ascii_case("changes") && option.arg.is_none())
}

fn explanation(lines: &[String]) -> Result<Outcome> {
    let lines: arrow::array::StringArray = lines.iter().map(|line| Some(line.as_str())).collect();
    let rows = RecordBatch::try_new(text_column("QUERY PLAN"), vec![Arc::new(lines)])?;
    Ok(fixed_rows(rows, "EXPLAIN"))
}
