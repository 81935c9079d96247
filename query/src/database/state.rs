//! Operators' state tables: their list, and reads of several at one epoch.

use super::Database;
use crate::catalog::{Catalog, MaterializedView};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_engine::{StateRead, StateRows};
use cenote_statestore::{Epoch, Error, ErrorKind, Result, TableSchema};
use std::collections::HashMap;
use std::sync::Arc;

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

    /// Reads whole state tables, all at one epoch.
    pub(crate) async fn read_states(
        &self,
        catalog: &Catalog,
        names: Vec<String>,
    ) -> Result<(Epoch, HashMap<String, (SchemaRef, Vec<RecordBatch>)>)> {
        let tables = names
            .iter()
            .map(|name| self.state_table(catalog, name))
            .collect::<Result<Vec<_>>>()?;
        let reads = tables.iter().map(|table| table.read(StateRows::All)).collect();
        let (epoch, rows) = self.engine.read_state(reads).await?;
        let states = tables
            .into_iter()
            .zip(rows)
            .map(|(table, rows)| (table.schema.name, (table.schema.columns, rows)));
        Ok((epoch, states.collect()))
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
