//! Operators' state tables: their list, and reads of several at one epoch.

use super::Database;
use crate::catalog::{Catalog, MaterializedView};
use crate::plan::ReadView;
use arrow::array::RecordBatch;
use cenote_engine::{StateRead, StateRows};
use cenote_statestore::{Error, ErrorKind, Result, TableSchema};
use std::sync::Arc;
use std::time::Duration;

/// Times that views may be dropped while the state of many is asked for.
pub(crate) const ATTEMPTS: usize = 8;

/// How long a view that operators have dropped stays in the catalog at most.
const DROP_TIME: Duration = Duration::from_secs(1);

/// Whether a read failed because a view was dropped meanwhile.
pub(crate) fn was_dropped(error: &Error) -> bool {
    error.code() == "ENGINE-0003"
}

/// One state table of one operator.
#[derive(Clone, Debug)]
pub(crate) struct StateTable {
    pub(crate) view: Arc<MaterializedView>,
    pub(crate) node: usize,
    pub(crate) table: usize,
    pub(crate) schema: TableSchema,
    /// What the operator is.
    pub(crate) operator: &'static str,
}

impl Database {
    /// The catalog once it is another than one that was read by, which a view has left: a moment later, or it stays the same.
    pub(crate) async fn catalog_after(&self, read: &Arc<Catalog>) -> Arc<Catalog> {
        let mut catalog = self.catalog.subscribe();
        let moved = catalog.wait_for(|now| !Arc::ptr_eq(now, read));
        // Whoever reads tries again in any case, and not for ever.
        let _ = tokio::time::timeout(DROP_TIME, moved).await;
        self.catalog()
    }

    /// All state tables of operators, in the order of views and operators.
    pub(crate) fn state_tables(&self, catalog: &Catalog) -> Vec<StateTable> {
        let views = catalog.materialized_views().into_iter();
        views.flat_map(StateTable::of_view).collect()
    }

    pub(crate) fn state_table(&self, catalog: &Catalog, name: &str) -> Result<StateTable> {
        let views = catalog.materialized_views().into_iter();
        views
            .flat_map(StateTable::of_view)
            .find(|table| table.schema.name == name)
            .ok_or_else(|| {
                Error::new(
                    ErrorKind::Invalid,
                    "SQL-0202",
                    format!("relation \"cenote_state.{name}\" does not exist"),
                )
                .sqlstate("42P01")
                .attempt("SELECT * FROM cenote_catalog.state_tables lists them")
            })
    }
}

impl ReadView {
    /// Reads state tables of operators, all at one epoch, which becomes that of the view.
    ///
    /// # Arguments
    /// - `names`: tables that the statement names; they are kept with the view.
    /// - `others`: further reads.
    ///
    /// # Returns
    /// What the others found, in their order.
    pub(crate) async fn read_states(
        &mut self,
        names: Vec<String>,
        others: Vec<StateRead>,
    ) -> Result<Vec<Vec<RecordBatch>>> {
        if others.is_empty() && names.iter().all(|name| self.states.contains_key(name)) {
            return Ok(Vec::new());
        }
        let named = names.iter().map(|name| self.database.state_table(&self.catalog, name));
        let named = named.collect::<Result<Vec<_>>>()?;
        let reads = named.iter().map(|table| table.read(StateRows::All)).chain(others);
        let (epoch, mut rows) = self.database.engine().read_state(reads.collect()).await?;
        let of_others = rows.split_off(named.len());
        let states = named.into_iter().zip(rows);
        let states = states.map(|(table, rows)| (table.schema.name, (table.schema.columns, rows)));
        self.states = Arc::new(states.collect());
        self.database.engine().wait_visible(epoch).await?;
        self.pin = self.database.engine().retention().pin(epoch)?;
        Ok(of_others)
    }
}

impl StateTable {
    /// The state tables of a view's operators, in their order.
    pub(crate) fn of_view(view: &Arc<MaterializedView>) -> Vec<StateTable> {
        let mut found = Vec::new();
        for (node, operator) in view.plan.nodes.iter().enumerate() {
            for (table, schema) in operator.state_tables().into_iter().enumerate() {
                found.push(StateTable {
                    view: view.clone(),
                    node,
                    table,
                    schema,
                    operator: operator.kind(),
                });
            }
        }
        found
    }

    /// The engine's read of it.
    pub(crate) fn read(&self, rows: StateRows) -> StateRead {
        StateRead {
            view: self.view.definition.id,
            started_as: self.view.started_as,
            node: self.node,
            table: self.table,
            rows,
        }
    }
}
