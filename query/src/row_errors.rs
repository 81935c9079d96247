//! `cenote_catalog.errors`: rows that sources could not read, and rows that operators of views could not work on.
//!
//! # Owns
//! The table's columns, and how the kept tables of errors (one of the sources, one of each view that can have errors)
//! become its rows, all at one epoch.
//!
//! # Not here
//! Writing them: `source` for sources, the engine for views.

use crate::catalog::{Catalog, ERRORS_WIDTH};
use arrow::array::{ArrayRef, RecordBatch, StringArray, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use cenote_statestore::{Pin, Result, Scan, VersionedTable};
use datafusion::catalog::{Session as PlanSession, TableProvider};
use datafusion::error::Result as PlanResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use std::sync::Arc;

/// Rows read at once.
const ROWS_PER_BATCH: usize = 1024;

/// Columns of `cenote_catalog.errors`. Where a row comes from: `source` names the source or the view; a source's rows
/// have a place in a file, a view's an operator. `text` is the row: as it stood in the file, or as JSON.
pub(crate) fn columns() -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let number = |name: &str| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(vec![
        text("source"),
        text("file"),
        number("line"),
        number("byte_offset"),
        text("text"),
        text("reason"),
        text("operator"),
        text("code"),
        text("sqlstate"),
    ]))
}

/// All kept errors, to be read at one epoch.
#[derive(Clone)]
pub(crate) struct ErrorTables {
    sources: Arc<VersionedTable>,
    views: Vec<(String, Arc<VersionedTable>)>,
}

impl std::fmt::Debug for ErrorTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ErrorTables({} views)", self.views.len())
    }
}

impl ErrorTables {
    pub(crate) fn new(sources: Arc<VersionedTable>, catalog: &Catalog) -> ErrorTables {
        let views = catalog.materialized_views();
        let kept = views
            .iter()
            .filter_map(|view| Some((view.definition.name.clone(), view.errors.clone()?)));
        ErrorTables {
            sources,
            views: kept.collect(),
        }
    }

    /// Every row at an epoch, in batches of [`columns`].
    pub(crate) fn read(&self, pin: &Pin) -> impl Iterator<Item = Result<RecordBatch>> + Send + 'static {
        let whole = |table: &Arc<VersionedTable>, width: usize| -> Scan {
            table.scan(pin.clone(), (0..width).collect(), 0..table.shards())
        };
        let mut sources = whole(&self.sources, ERRORS_WIDTH);
        let of_sources = std::iter::from_fn(move || sources.next_batch(ROWS_PER_BATCH).transpose())
            .map(|rows| rows.and_then(|rows| of_source(&rows)));
        let views: Vec<(String, Scan)> = self
            .views
            .iter()
            .map(|(name, table)| (name.clone(), whole(table, table.schema().columns.fields().len())))
            .collect();
        let of_views = views.into_iter().flat_map(|(name, mut scan)| {
            std::iter::from_fn(move || {
                let rows = scan.next_batch(ROWS_PER_BATCH).transpose()?;
                Some(rows.and_then(|rows| of_view(&name, &rows)))
            })
        });
        of_sources.chain(of_views)
    }
}

/// Rows of the sources' table of errors.
fn of_source(rows: &RecordBatch) -> Result<RecordBatch> {
    let columns = columns();
    let mut arrays = rows.columns().to_vec();
    arrays.extend((arrays.len()..columns.fields().len()).map(|_| new_null_array(&DataType::Utf8, rows.num_rows())));
    Ok(RecordBatch::try_new(columns, arrays)?)
}

/// Rows of a view's table of errors: operator, code, sqlstate, reason, row.
fn of_view(name: &str, rows: &RecordBatch) -> Result<RecordBatch> {
    let count = rows.num_rows();
    let nulls = |data_type: &DataType| new_null_array(data_type, count);
    let source: ArrayRef = Arc::new(StringArray::from_iter_values(std::iter::repeat_n(name, count)));
    let [operator, code, sqlstate, reason, row] = [0, 1, 2, 3, 4].map(|column| rows.column(column).clone());
    let arrays = vec![
        source,
        nulls(&DataType::Utf8),
        nulls(&DataType::Int64),
        nulls(&DataType::Int64),
        row,
        reason,
        operator,
        code,
        sqlstate,
    ];
    Ok(RecordBatch::try_new(columns(), arrays)?)
}

/// The table as DataFusion reads it at one epoch.
#[derive(Debug)]
pub(crate) struct ErrorsTable {
    pub(crate) tables: ErrorTables,
    pub(crate) pin: Pin,
}

#[async_trait]
impl TableProvider for ErrorsTable {
    fn schema(&self) -> SchemaRef {
        columns()
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
        let all: Vec<usize> = (0..columns().fields().len()).collect();
        let projection = projection.cloned().unwrap_or(all);
        let schema = Arc::new(columns().project(&projection)?);
        let read = ErrorsRead {
            schema: schema.clone(),
            tables: self.tables.clone(),
            pin: self.pin.clone(),
            projection,
        };
        Ok(Arc::new(StreamingTableExec::try_new(
            schema,
            vec![Arc::new(read)],
            None,
            [],
            false,
            limit,
        )?))
    }
}

#[derive(Debug)]
struct ErrorsRead {
    schema: SchemaRef,
    tables: ErrorTables,
    pin: Pin,
    projection: Vec<usize>,
}

impl PartitionStream for ErrorsRead {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let projection = self.projection.clone();
        let batches = self.tables.read(&self.pin).map(move |rows| {
            let rows = rows.map_err(crate::provider::outside)?;
            Ok(rows.project(&projection)?)
        });
        let batches = futures::stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches))
    }
}
