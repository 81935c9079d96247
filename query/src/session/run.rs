//! Queries of `cenote run`: over streams, through the dataflow, to the end of their inputs.
//!
//! A query over tables whose rows are not kept runs as a view without a name: the view is made, the sources are
//! started, and its contents are the answer once the sources end. ORDER BY and LIMIT at the top of the query are
//! applied to those contents.

use super::{Session, passes_rows, stream_plan};
use crate::catalog::{MaterializedView, Named, Object, Table, ViewDefinition};
use crate::database::ChangeStream;
use crate::ddl::{OnRowError, RUN_HISTORY_BYTES, ViewSettings};
use crate::error::{from_datafusion, unsupported};
use crate::outcome::Outcome;
use crate::plan::bind;
use crate::provider::{CollectionTable, Contents};
use arrow::datatypes::{Field, Schema, SchemaRef};
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Name that a query's own view has in messages and state names.
const QUERY: &str = "query";

impl Session {
    /// Runs a query to the end of its inputs.
    pub(super) async fn run_query(
        &mut self,
        ast: &Ast,
        as_of: Option<Epoch>,
        parameters: &[ScalarValue],
    ) -> Result<Outcome> {
        let sources = self.passing_tables(ast);
        if sources.is_empty() {
            self.database.wait_for_bounded_sources().await?;
            return self.read(ast, as_of, parameters).await;
        }
        refuse_past(ast)?;
        let view = self.read_view(None).await?;
        let state = view.view_state();
        let plan = bind(view.plan(&state, ast).await?, parameters)?;
        let body = body_of(&plan).clone();
        let running = self.start_query(&state, &body, &sources).await?;
        if !self.database.wait_for_bounded_sources().await? {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "RUN-0001",
                "cannot print the final rows of a query whose input never ends",
            )
            .attempt("use --changes to print every change as it happens"));
        }
        if let Some(error) = running.status.failure() {
            return Err(error.clone());
        }
        self.database.check_view(&running)?;
        let epoch = self.database.epoch();
        let pin = self.database.engine().retention().pin(epoch)?;
        let contents = CollectionTable {
            indexes: Vec::new(),
            id: running.definition.id,
            columns: running.columns.clone(),
            contents: Some(Contents::Versioned {
                table: running.versioned.clone(),
                pin,
                overlay: None,
            }),
            defaults: HashMap::new(),
            key: Vec::new(),
        };
        let whole = put_under(&plan, &body, contents)?;
        stream_plan(&view.state(), whole, Some(epoch)).await
    }

    /// Starts a query as a view and gives its changes.
    pub(super) async fn run_changes(&mut self, ast: &Ast) -> Result<ChangeStream> {
        refuse_past(ast)?;
        let sources = self.passing_tables(ast);
        let view = self.read_view(None).await?;
        let state = view.view_state();
        let plan = view.plan(&state, ast).await?;
        let running = self.prepare_query(&state, &plan, RUN_HISTORY_BYTES).await?;
        let columns = shown_columns(&plan);
        self.start_sources(&sources).await?;
        let (database, ended) = (self.database.clone(), running.status.clone());
        let end = async move {
            let is_end = database.wait_for_bounded_sources().await?;
            match ended.failure() {
                Some(error) => Err(error.clone()),
                None => Ok(is_end.then(|| database.epoch())),
            }
        };
        let from = Some(running.created.previous());
        let (table, status) = (running.versioned.clone(), running.status.clone());
        let lost = Box::pin(async move { status.wait_failure().await });
        self.database
            .change_stream(table, columns, from, false, Some(Box::pin(end)), lost)
    }

    /// Tables of a query that keep no rows.
    fn passing_tables(&self, ast: &Ast) -> Vec<Arc<Table>> {
        let catalog = self.database.catalog();
        let mut tables: Vec<Arc<Table>> = Vec::new();
        for (_, name) in crate::relations::named_relations(&expanded(ast, &catalog)) {
            if let Some(object) = catalog.get(&name).filter(|object| passes_rows(object))
                && let Object::Table(table) = object
                && !tables.iter().any(|known| known.definition.id == table.definition.id)
            {
                tables.push(table.clone());
            }
        }
        tables
    }

    async fn start_query(
        &mut self,
        state: &SessionState,
        plan: &LogicalPlan,
        sources: &[Arc<Table>],
    ) -> Result<Arc<MaterializedView>> {
        let running = self.prepare_query(state, plan, 0).await?;
        self.start_sources(sources).await?;
        Ok(running)
    }

    async fn prepare_query(
        &mut self,
        state: &SessionState,
        plan: &LogicalPlan,
        history_bytes: usize,
    ) -> Result<Arc<MaterializedView>> {
        crate::lower::check_deterministic(plan)?;
        let optimized = state.optimize(plan).map_err(from_datafusion)?;
        let names: Vec<String> = (0..plan.schema().fields().len())
            .map(|column| format!("column {column}"))
            .collect();
        let lowered = crate::lower::lower_view(QUERY, &optimized, &names)?;
        let settings = ViewSettings {
            on_row_error: OnRowError::Fail,
            history_bytes,
        };
        let id = {
            let _guard = self.database.lock_catalog().await;
            let mut catalog = (*self.database.catalog()).clone();
            let id = catalog.allocate();
            self.database.set_catalog(catalog);
            id
        };
        let definition = ViewDefinition {
            id,
            name: QUERY.into(),
            sql: String::new(),
            query: String::new(),
            columns: names,
            materialized: true,
            state_backend: None,
            sees: None,
            named: Named::default(),
        };
        let running = self.database.launch(definition, lowered, None, settings).await?;
        running.status.wait_live().await?;
        Ok(running)
    }

    async fn start_sources(&self, sources: &[Arc<Table>]) -> Result<()> {
        for table in sources {
            // One that runs for an earlier query gives this one its rows anew.
            if !self.database.sources().is_started(table.definition.id) {
                self.database.start_source(table, Default::default())?;
            }
        }
        Ok(())
    }
}

/// What runs as a view reads every change of its tables, from the first on.
fn refuse_past(ast: &Ast) -> Result<()> {
    match crate::past::moments(ast).is_empty() {
        true => Ok(()),
        false => Err(unsupported("AS OF in a query over rows that are not kept")),
    }
}

fn expanded(ast: &Ast, catalog: &crate::catalog::Catalog) -> Ast {
    let mut expanded = ast.clone();
    match crate::expand::expand_views(&mut expanded, catalog, &BTreeSet::new()) {
        Ok(()) => expanded,
        Err(_) => ast.clone(),
    }
}

fn shown_columns(plan: &LogicalPlan) -> SchemaRef {
    let fields = plan.schema().fields().iter().map(|field| {
        let stored = crate::types::stored_type(field.data_type()).unwrap_or_else(|| field.data_type().clone());
        Field::new(crate::names::shown_name(field.name()), stored, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// What is below the LIMIT and ORDER BY at the top of a query.
fn body_of(plan: &LogicalPlan) -> &LogicalPlan {
    match plan {
        LogicalPlan::Limit(limit) => body_of(&limit.input),
        LogicalPlan::Sort(sort) => body_of(&sort.input),
        LogicalPlan::Projection(projection) if has_sort(&projection.input) => body_of(&projection.input),
        other => other,
    }
}

fn has_sort(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Sort(_) => true,
        LogicalPlan::Limit(limit) => has_sort(&limit.input),
        _ => false,
    }
}

/// The plan with its body replaced by the contents of the body's view.
fn put_under(plan: &LogicalPlan, body: &LogicalPlan, contents: CollectionTable) -> Result<LogicalPlan> {
    let columns = contents.columns.clone();
    let scan =
        LogicalPlanBuilder::scan(QUERY, provider_as_source(Arc::new(contents)), None).map_err(from_datafusion)?;
    let exprs = body
        .schema()
        .iter()
        .zip(columns.fields())
        .map(|((qualifier, field), column)| {
            let read = Expr::Column(datafusion::common::Column::new(Some(QUERY), column.name()));
            let read = if column.data_type() == field.data_type() {
                read
            } else {
                datafusion::prelude::cast(read, field.data_type().clone())
            };
            read.alias_qualified(qualifier.cloned(), field.name())
        });
    let replacement = scan
        .project(exprs.collect::<Vec<_>>())
        .and_then(|builder| builder.build())
        .map_err(from_datafusion)?;
    let replaced = plan.clone().transform_down(|node| {
        if &node == body {
            Ok(Transformed::new(
                replacement.clone(),
                true,
                datafusion::common::tree_node::TreeNodeRecursion::Jump,
            ))
        } else {
            Ok(Transformed::no(node))
        }
    });
    Ok(replaced.map_err(from_datafusion)?.data)
}
