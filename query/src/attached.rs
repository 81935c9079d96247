//! Tables from outside that a database shows beside its own: those of a checkpoint that is looked at without a server.
//!
//! # Not here
//! Where their rows come from, and which name they have: whoever attaches them.

use crate::database::Database;
use crate::inventory::StateInventory;
use crate::provider::outside;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use cenote_statestore::{Epoch, Error, ErrorKind, Result};
use datafusion::catalog::{Session as PlanSession, TableProvider};
use datafusion::error::Result as PlanResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use std::fmt;
use std::sync::Arc;

/// Batches that are read before they are taken.
const BATCHES_AHEAD: usize = 2;

/// Batches of a table, read as they are taken.
pub type AttachedBatches = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// Starts reading a table; may be called several times.
pub type AttachedRead = Arc<dyn Fn() -> Result<AttachedBatches> + Send + Sync>;

/// One table from outside.
#[derive(Clone)]
pub struct AttachedTable {
    /// The schema that its name is in.
    pub schema_name: String,
    /// Its name there.
    pub name: String,
    provider: Arc<dyn TableProvider>,
}

impl AttachedTable {
    /// A table whose rows `read` gives.
    pub fn new(
        schema_name: impl Into<String>,
        name: impl Into<String>,
        columns: SchemaRef,
        read: AttachedRead,
    ) -> AttachedTable {
        AttachedTable {
            schema_name: schema_name.into(),
            name: name.into(),
            provider: Arc::new(AttachedRows { columns, read }),
        }
    }

    /// All state tables as one.
    pub fn of_state(
        schema_name: impl Into<String>,
        name: impl Into<String>,
        inventory: StateInventory,
    ) -> AttachedTable {
        AttachedTable {
            schema_name: schema_name.into(),
            name: name.into(),
            provider: Arc::new(inventory),
        }
    }

    /// What the planner reads it by.
    pub(crate) fn provider(&self) -> Arc<dyn TableProvider> {
        self.provider.clone()
    }
}

/// A table whose rows come in batches.
#[derive(Clone)]
struct AttachedRows {
    columns: SchemaRef,
    read: AttachedRead,
}

impl fmt::Debug for AttachedRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttachedRows({} columns)", self.columns.fields().len())
    }
}

/// All tables from outside, and the epoch that they are of.
#[derive(Debug)]
pub(crate) struct Attached {
    tables: Vec<AttachedTable>,
    pub(crate) epoch: Epoch,
}

impl Attached {
    /// Refuses to read another epoch than the one that they are of.
    pub(crate) fn check_epoch(&self, epoch: Epoch) -> Result<()> {
        if epoch == self.epoch {
            return Ok(());
        }
        let message = format!("cannot read at epoch {epoch}: what is read here is of one epoch");
        Err(Error::new(ErrorKind::Expired, "STATE-0104", message).fact("kept", format!("epoch {}", self.epoch)))
    }
}

impl fmt::Debug for AttachedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AttachedTable({}.{})", self.schema_name, self.name)
    }
}

impl Database {
    /// Shows tables from outside, all of one epoch, which queries are answered as of. For a database of its own: its other
    /// tables would be of other epochs.
    ///
    /// # Panics
    /// If there are such tables already.
    pub fn attach(&self, tables: Vec<AttachedTable>, epoch: Epoch) {
        let is_first = self.attached_cell().set(Attached { tables, epoch }).is_ok();
        assert!(is_first, "tables are attached once");
    }

    pub(crate) fn attached_table(&self, schema: &str, name: &str) -> Option<&AttachedTable> {
        let mut tables = self.attached_cell().get()?.tables.iter();
        tables.find(|table| table.schema_name == schema && table.name == name)
    }

    /// Names of the tables from outside in a schema.
    pub(crate) fn attached_names(&self, schema: &str) -> Vec<String> {
        let tables = self
            .attached_cell()
            .get()
            .into_iter()
            .flat_map(|attached| &attached.tables);
        let here = tables.filter(|table| table.schema_name == schema);
        here.map(|table| table.name.clone()).collect()
    }
}

#[async_trait]
impl TableProvider for AttachedRows {
    fn schema(&self) -> SchemaRef {
        self.columns.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _session: &dyn PlanSession,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.columns.fields().len()).collect();
        let projection = projection.cloned().unwrap_or(all);
        let schema = Arc::new(self.columns.project(&projection)?);
        let partition: Arc<dyn PartitionStream> = Arc::new(RowsRead {
            rows: self.clone(),
            schema: schema.clone(),
            projection,
        });
        let exec = StreamingTableExec::try_new(schema, vec![partition], None, [], false, limit)?;
        Ok(Arc::new(exec))
    }
}

#[derive(Debug)]
struct RowsRead {
    rows: AttachedRows,
    schema: SchemaRef,
    projection: Vec<usize>,
}

impl PartitionStream for RowsRead {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Reading waits for disks and networks: it is done where nobody else waits for it.
    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (projection, read) = (self.projection.clone(), self.rows.read.clone());
        let mut stream = RecordBatchReceiverStream::builder(self.schema.clone(), BATCHES_AHEAD);
        let sender = stream.tx();
        stream.spawn_blocking(move || {
            for batch in read().map_err(outside)? {
                let projected = batch.map_err(outside)?.project(&projection)?;
                if sender.blocking_send(Ok(projected)).is_err() {
                    // Nobody wants more.
                    break;
                }
            }
            Ok(())
        });
        stream.build()
    }
}
