//! `cenote_catalog.state`: all state tables as one, so that the first questions about state need no schema.
//!
//! A row of it is a row of a state table: whose it is, the key group that it lives in, its key and its other columns as JSON,
//! and how large it is.
//!
//! # Rules kept here
//! 1. What a query does not read is not made: JSON is written for the columns that it names, a batch at a time, as rows are
//!    asked for.
//! 2. Conditions on `view`, `operator` and `table` decide which state tables are read, before any of them is.
//!
//! # Not here
//! Where rows come from: `live` for a running database, `checkpoint` for what one holds. One table's rows: `part`.

mod checkpoint;
mod live;
mod part;
mod sizes;

use crate::provider::outside;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use cenote_statestore::forms::json::json_type;
use datafusion::catalog::{Session as PlanSession, TableProvider};
use datafusion::common::DFSchema;
use datafusion::error::Result as PlanResult;
use datafusion::execution::context::ExecutionProps;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use part::StatePart;
use std::fmt;
use std::sync::{Arc, LazyLock};

/// Its name in the system catalog.
pub(crate) const STATE: &str = "state";

/// Columns that are the same for all rows of a state table.
const NAMES: [&str; 3] = ["view", "operator", "table"];

/// Batches that are made before they are taken, where reading waits for files.
const BATCHES_AHEAD: usize = 2;

/// One of the columns, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Column {
    View,
    Operator,
    Table,
    KeyGroup,
    Key,
    Value,
    Bytes,
}

impl Column {
    const ALL: [Column; 7] = [
        Column::View,
        Column::Operator,
        Column::Table,
        Column::KeyGroup,
        Column::Key,
        Column::Value,
        Column::Bytes,
    ];
}

/// The columns of the table.
pub(crate) fn columns() -> SchemaRef {
    static COLUMNS: LazyLock<SchemaRef> = LazyLock::new(|| {
        let names = NAMES.map(|name| Field::new(name, DataType::Utf8, true));
        let others = [
            Field::new("key_group", DataType::Int32, true),
            Field::new("key", json_type(), true),
            Field::new("value", json_type(), true),
            Field::new("bytes", DataType::Int64, true),
        ];
        Arc::new(Schema::new(names.into_iter().chain(others).collect::<Vec<_>>()))
    });
    COLUMNS.clone()
}

/// All state tables of one epoch, read as one table.
#[derive(Clone)]
pub struct StateInventory {
    /// `None`: a statement names it, and what it needs of it was not read.
    parts: Option<Arc<Vec<StatePart>>>,
    /// Whether reading waits for files.
    waits: bool,
}

impl StateInventory {
    /// What a statement is planned with before it is known which state it reads.
    pub(crate) fn unread() -> StateInventory {
        StateInventory {
            parts: None,
            waits: false,
        }
    }

    fn of(parts: Vec<StatePart>, waits: bool) -> StateInventory {
        StateInventory {
            parts: Some(Arc::new(parts)),
            waits,
        }
    }

    fn is_unread(&self) -> bool {
        self.parts.is_none()
    }
}

impl fmt::Debug for StateInventory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parts {
            Some(parts) => write!(f, "StateInventory({} tables)", parts.len()),
            None => f.write_str("StateInventory(unread)"),
        }
    }
}

/// Whether a condition is one on a state table as a whole.
fn is_of_names(filter: &Expr) -> bool {
    let columns = filter.column_refs();
    let is_name = |name: &str| NAMES.contains(&name);
    !columns.is_empty() && !filter.is_volatile() && columns.iter().all(|column| is_name(column.name()))
}

/// Which parts conditions let through. One that cannot be decided here lets through all: it is asked again for each row.
///
/// # Arguments
/// - `filters`: conditions on columns without qualifiers.
fn picked(parts: &[StatePart], filters: &[Expr], props: &ExecutionProps) -> PlanResult<Vec<bool>> {
    let names = names_of(parts)?;
    let schema = DFSchema::try_from(columns().as_ref().clone())?;
    let mut picked = vec![true; parts.len()];
    for filter in filters.iter().filter(|filter| is_of_names(filter)) {
        let decided = create_physical_expr(filter, &schema, props)
            .and_then(|filter| filter.evaluate(&names)?.into_array(parts.len()))
            .ok()
            .filter(|decided| *decided.data_type() == DataType::Boolean);
        if let Some(decided) = decided {
            let decided = decided.as_boolean();
            let is_true = |part: usize| decided.is_valid(part) && decided.value(part);
            (0..parts.len()).for_each(|part| picked[part] &= is_true(part));
        }
    }
    Ok(picked)
}

/// A row for each part that has what all of its rows have.
fn names_of(parts: &[StatePart]) -> PlanResult<RecordBatch> {
    let text =
        |of: fn(&StatePart) -> Option<&str>| -> ArrayRef { Arc::new(parts.iter().map(of).collect::<StringArray>()) };
    let mut arrays = vec![
        text(|part| part.view.as_deref()),
        text(|part| Some(part.operator.as_str())),
        text(|part| Some(part.table.as_str())),
    ];
    let columns = columns();
    let others = columns.fields().iter().skip(arrays.len());
    arrays.extend(others.map(|field| new_null_array(field.data_type(), parts.len())));
    cenote_statestore::Changes::batch(columns.clone(), arrays, parts.len()).map_err(outside)
}

#[async_trait]
impl TableProvider for StateInventory {
    fn schema(&self) -> SchemaRef {
        columns()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> PlanResult<Vec<TableProviderFilterPushDown>> {
        let of = |filter: &&Expr| match is_of_names(filter) {
            true => TableProviderFilterPushDown::Inexact,
            false => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(of).collect())
    }

    async fn scan(
        &self,
        session: &dyn PlanSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..Column::ALL.len()).collect();
        let projection = projection.unwrap_or(&all);
        let schema = Arc::new(columns().project(projection)?);
        let wanted: Vec<Column> = projection.iter().map(|column| Column::ALL[*column]).collect();
        let parts = match &self.parts {
            None => vec![StatePart::unread()],
            Some(parts) => {
                let picked = picked(parts, filters, session.execution_props())?;
                let kept = parts.iter().zip(picked).filter(|(_, picked)| *picked);
                kept.map(|(part, _)| part.clone()).collect()
            }
        };
        let count = match self.waits {
            true => 1,
            false => session.config().target_partitions().clamp(1, parts.len().max(1)),
        };
        let read = |first: usize| -> Arc<dyn PartitionStream> {
            Arc::new(InventoryRead {
                schema: schema.clone(),
                parts: parts.iter().skip(first).step_by(count).cloned().collect(),
                wanted: wanted.clone(),
                waits: self.waits,
            })
        };
        let partitions = (0..count).map(read).collect();
        Ok(Arc::new(StreamingTableExec::try_new(
            schema.clone(),
            partitions,
            None,
            [],
            false,
            limit,
        )?))
    }
}

struct InventoryRead {
    schema: SchemaRef,
    parts: Vec<StatePart>,
    wanted: Vec<Column>,
    waits: bool,
}

impl fmt::Debug for InventoryRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} state tables", self.parts.len())
    }
}

impl PartitionStream for InventoryRead {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, wanted) = (self.schema.clone(), self.wanted.clone());
        let parts = self.parts.clone().into_iter();
        let batches = parts.flat_map(move |part| part.rows(wanted.clone(), schema.clone()));
        let mut batches = batches.map(|batch| batch.map_err(outside));
        if !self.waits {
            let batches = futures::stream::iter(batches);
            return Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches));
        }
        let mut stream = RecordBatchReceiverStream::builder(self.schema.clone(), BATCHES_AHEAD);
        let sender = stream.tx();
        stream.spawn_blocking(move || {
            // Until nobody wants more.
            let _ = batches.try_for_each(|batch| sender.blocking_send(batch));
            Ok(())
        });
        stream.build()
    }
}

#[cfg(test)]
mod tests;
