//! The state of a running database, read for one query.
//!
//! Operators keep the newest epoch only, so what a query needs of their state is copied by the workers before the query runs,
//! all of it at one epoch, which becomes that of the whole query. What that is comes from the query's plan: the tables that
//! conditions leave, and the columns that are named.
//!
//! # Cost
//! A query is planned twice. The copies are in memory until it has ended.

use super::part::{PartRead, StatePart};
use super::{Column, StateInventory, picked};
use crate::attached::AttachedBatches;
use crate::catalog::{Catalog, KeptBy, MaterializedView};
use crate::database::{ATTEMPTS, Database, StateTable, was_dropped};
use crate::error::from_datafusion;
use crate::plan::{ReadView, bind};
use arrow::array::RecordBatch;
use cenote_engine::StateRows;
use cenote_statestore::{Error, Pin, Result, VersionedTable};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr_rewriter::unnormalize_cols;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows of a table read at once.
const ROWS_PER_BATCH: usize = 8192;

/// What a query needs of the inventory.
struct Asked {
    columns: BTreeSet<Column>,
    /// The conditions of each place where the query reads it.
    places: Vec<Vec<Expr>>,
}

impl Asked {
    /// # Arguments
    /// - `plan`: before it is optimised.
    fn of(state: &SessionState, plan: &LogicalPlan) -> Result<Asked> {
        let plan = state.optimize(plan).map_err(from_datafusion)?;
        let mut asked = Asked {
            columns: BTreeSet::new(),
            places: Vec::new(),
        };
        let found = plan.apply_with_subqueries(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                let provider = source_as_provider(&scan.source)?;
                let inventory = (provider.as_ref() as &dyn Any).downcast_ref::<StateInventory>();
                if inventory.is_some_and(StateInventory::is_unread) {
                    let all: Vec<usize> = (0..Column::ALL.len()).collect();
                    let projection = scan.projection.as_ref().unwrap_or(&all);
                    asked
                        .columns
                        .extend(projection.iter().map(|column| Column::ALL[*column]));
                    asked.places.push(unnormalize_cols(scan.filters.iter().cloned()));
                }
            }
            Ok(TreeNodeRecursion::Continue)
        });
        found.map_err(from_datafusion)?;
        Ok(asked)
    }

    /// Which tables any of the places may read.
    fn picks(&self, parts: &[StatePart], state: &SessionState) -> Result<Vec<bool>> {
        let mut any = vec![false; parts.len()];
        for filters in &self.places {
            let here = picked(parts, filters, state.execution_props()).map_err(from_datafusion)?;
            any.iter_mut().zip(here).for_each(|(any, here)| *any |= here);
        }
        Ok(any)
    }

    fn needed(&self, part: &StatePart) -> Vec<usize> {
        part.needed(&self.columns.iter().copied().collect::<Vec<_>>())
    }
}

/// What keeps a state table's rows.
enum KeptIn {
    /// An operator, of the newest epoch.
    Operator(Box<StateTable>),
    /// A table of many epochs.
    Versions(Arc<VersionedTable>),
}

/// All state tables.
struct Known {
    parts: Vec<StatePart>,
    kept_in: Vec<KeptIn>,
    /// Tables of views that have failed, and the views: none is read unless a query asks for nothing else.
    failed: Vec<(StatePart, Arc<MaterializedView>)>,
}

impl Known {
    fn of(database: &Database, catalog: &Catalog) -> Known {
        let mut known = Known {
            parts: vec![of_versions(None, "source", database.errors(), "cenote_catalog.errors")],
            kept_in: vec![KeptIn::Versions(database.errors().clone())],
            failed: Vec::new(),
        };
        for (kept_by, table) in catalog.kept_states() {
            let view = match kept_by {
                KeptBy::View(view) => Some(view),
                KeptBy::Source(_) | KeptBy::Sink(_) => None,
            };
            let name = view.map(|view| view.definition.name.clone());
            let part = of_versions(name, kept_by.operator(), table, &table.schema().name);
            known.add(database, view, part, KeptIn::Versions(table.clone()));
        }
        for table in database.state_tables(catalog) {
            let view = table.view.clone();
            known.add(
                database,
                Some(&view),
                of_operator(&table),
                KeptIn::Operator(Box::new(table)),
            );
        }
        known
    }

    /// Adds a table, unless its view is not there yet.
    fn add(&mut self, database: &Database, view: Option<&Arc<MaterializedView>>, part: StatePart, kept_in: KeptIn) {
        match view {
            Some(view) if database.check_view(view).is_err() => self.failed.push((part, view.clone())),
            Some(view) if !view.status.is_live() => {}
            _ => {
                self.parts.push(part);
                self.kept_in.push(kept_in);
            }
        }
    }

    /// Refuses a query that asks for nothing but what views that have failed kept.
    fn check_failed(&self, asked: &Asked, state: &SessionState, database: &Database) -> Result<()> {
        let failed: Vec<StatePart> = self.failed.iter().map(|(part, _)| part.clone()).collect();
        let picks = asked.picks(&failed, state)?;
        match picks.iter().position(|picked| *picked) {
            Some(first) => database.check_view(&self.failed[first].1),
            None => Ok(()),
        }
    }
}

fn not_read() -> PartRead {
    Arc::new(|_| Err(Error::bug("a state table that the query was not found to read")))
}

fn of_versions(view: Option<String>, operator: &str, table: &VersionedTable, name: &str) -> StatePart {
    let schema = table.schema();
    let has_key = schema.unique || !schema.key.is_empty();
    StatePart {
        view,
        operator: operator.to_string(),
        table: name.to_string(),
        columns: schema.columns.clone(),
        key: if schema.unique { schema.key.clone() } else { Vec::new() },
        distribution: if has_key { schema.key.clone() } else { schema.identity() },
        read: not_read(),
    }
}

fn of_operator(table: &StateTable) -> StatePart {
    let schema = &table.schema;
    StatePart {
        view: Some(table.view.definition.name.clone()),
        operator: table.operator.to_string(),
        table: schema.name.clone(),
        columns: schema.columns.clone(),
        key: schema.key.clone(),
        distribution: schema.key.clone(),
        read: not_read(),
    }
}

/// Reads a table at an epoch.
fn versions(table: Arc<VersionedTable>, pin: Pin) -> PartRead {
    Arc::new(move |columns| {
        let mut scan = table.scan(pin.clone(), columns.to_vec(), 0..table.shards());
        let rows = std::iter::from_fn(move || scan.next_batch(ROWS_PER_BATCH).transpose());
        let batches: AttachedBatches = Box::new(rows);
        Ok(batches)
    })
}

/// Gives copied rows, which have some of a table's columns.
fn copied(held: Vec<usize>, rows: Vec<RecordBatch>) -> PartRead {
    let rows = Arc::new(rows);
    Arc::new(move |columns| {
        let places = columns.iter().map(|column| held.binary_search(column));
        let places = places.collect::<std::result::Result<Vec<usize>, _>>();
        let places = places.map_err(|_| Error::bug("a column of state that the query was not found to read"))?;
        let rows = rows.clone();
        let batches: AttachedBatches = Box::new((0..rows.len()).map(move |batch| Ok(rows[batch].project(&places)?)));
        Ok(batches)
    })
}

impl ReadView {
    /// Plans a query that is run: state that it reads through the inventory is read here, and its epoch is that of the query.
    pub(crate) async fn plan_to_run(
        self,
        ast: &Ast,
        parameters: &[ScalarValue],
    ) -> Result<(ReadView, SessionState, LogicalPlan)> {
        let state = self.state();
        let plan = bind(self.plan(&state, ast).await?, parameters)?;
        if !self.names_inventory() {
            return Ok((self, state, plan));
        }
        // Apart from the future of all other queries, which it would make larger.
        Box::pin(self.plan_again(&state, &plan, ast, parameters)).await
    }

    async fn plan_again(
        mut self,
        state: &SessionState,
        plan: &LogicalPlan,
        ast: &Ast,
        parameters: &[ScalarValue],
    ) -> Result<(ReadView, SessionState, LogicalPlan)> {
        let asked = Asked::of(state, plan)?;
        let mut attempts = 1;
        while let Err(error) = self.read_inventory(&asked, state).await {
            if !was_dropped(&error) || attempts == ATTEMPTS {
                return Err(error);
            }
            attempts += 1;
            self.catalog = self.database.catalog_after(&self.catalog).await;
        }
        let state = self.state();
        let plan = bind(self.plan(&state, ast).await?, parameters)?;
        Ok((self, state, plan))
    }

    /// Reads what is asked for, and the state tables that the query names by themselves, at one epoch.
    async fn read_inventory(&mut self, asked: &Asked, state: &SessionState) -> Result<()> {
        let mut known = Known::of(&self.database, &self.catalog);
        let picks = asked.picks(&known.parts, state)?;
        let chosen: Vec<usize> = (0..picks.len()).filter(|at| picks[*at]).collect();
        if chosen.is_empty() {
            known.check_failed(asked, state, &self.database)?;
        }
        let read = |at: &usize| match &known.kept_in[*at] {
            KeptIn::Operator(table) => Some(table.read(StateRows::Columns(asked.needed(&known.parts[*at])))),
            KeptIn::Versions(_) => None,
        };
        let reads = chosen.iter().filter_map(read).collect();
        let named = self.states.keys().cloned().collect();
        let mut rows = self.read_states(named, reads).await?.into_iter();
        for at in chosen {
            let part = &mut known.parts[at];
            part.read = match &known.kept_in[at] {
                KeptIn::Operator(_) => copied(asked.needed(part), rows.next().unwrap_or_default()),
                KeptIn::Versions(table) => versions(table.clone(), self.pin.clone()),
            };
        }
        self.inventory = Some(StateInventory::of(known.parts, false));
        Ok(())
    }
}
