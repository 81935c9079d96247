//! What DataFusion reads: tables, views and operator state as they stand at one epoch.
//!
//! # Owns
//! Scans of snapshots in bounded memory, key lookups for equality on the whole key, projection into the store, and
//! the rows of an open transaction laid over a table.

use crate::transaction::Overlay;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use cenote_engine::plan::CollectionId;
use cenote_statestore::{Changes, Pin, VersionedTable};
use datafusion::catalog::{Session as PlanSession, TableProvider};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::scalar::ScalarValue;
use futures::stream;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Rows read at once.
pub const ROWS_PER_BATCH: usize = 8192;

/// A collection as one statement sees it.
pub struct CollectionTable {
    /// Which collection.
    pub id: CollectionId,
    /// Columns that the statement sees: the stored ones, or those without row numbers.
    pub columns: SchemaRef,
    /// Contents; `None`: the collection keeps no rows (a source).
    pub contents: Option<Contents>,
    /// SQL expressions of column defaults.
    pub defaults: HashMap<String, Expr>,
    /// Key columns, as positions in `columns`, if a key has at most one row.
    pub key: Vec<usize>,
    /// Indexes that may be asked: position and columns.
    pub indexes: Vec<(usize, Vec<usize>)>,
}

/// Where rows come from.
#[derive(Clone)]
pub enum Contents {
    /// A versioned table, at a pinned epoch, with what the open transaction has changed.
    Versioned {
        table: Arc<VersionedTable>,
        pin: Pin,
        overlay: Option<Arc<Overlay>>,
    },
    /// Rows that were read already.
    Rows(Arc<Vec<RecordBatch>>),
}

impl fmt::Debug for CollectionTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CollectionTable({})", self.id)
    }
}

#[async_trait]
impl TableProvider for CollectionTable {
    fn schema(&self) -> SchemaRef {
        self.columns.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> PlanResult<Vec<TableProviderFilterPushDown>> {
        // Inexact: a filter may narrow what is read to a key, and is evaluated again above the scan.
        let lookups = self.lookups();
        Ok(filters
            .iter()
            .map(|filter| match equality(filter) {
                Some((column, _)) if lookups.iter().any(|lookup| self.has_column(&lookup.columns, column)) => {
                    TableProviderFilterPushDown::Inexact
                }
                _ => TableProviderFilterPushDown::Unsupported,
            })
            .collect())
    }

    async fn scan(
        &self,
        _session: &dyn PlanSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> PlanResult<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.columns.fields().len()).collect();
        let projection = projection.cloned().unwrap_or(all);
        let schema = Arc::new(self.columns.project(&projection)?);
        let partitions: Vec<Arc<dyn PartitionStream>> = match &self.contents {
            None => {
                return Err(DataFusionError::Plan(
                    "this source keeps no rows: read it through a materialized view, or CREATE TABLE instead".into(),
                ));
            }
            Some(Contents::Rows(rows)) => {
                vec![Arc::new(Fixed {
                    schema: schema.clone(),
                    rows: rows.clone(),
                    projection: projection.clone(),
                })]
            }
            Some(Contents::Versioned {
                table,
                pin,
                overlay: Some(overlay),
            }) => {
                let rows = Arc::new(overlay.read(table, pin, self.columns.fields().len())?);
                vec![Arc::new(Fixed {
                    schema: schema.clone(),
                    rows,
                    projection: projection.clone(),
                })]
            }
            Some(Contents::Versioned {
                table,
                pin,
                overlay: None,
            }) => match self.key_of(filters)? {
                Some((index, key)) => vec![Arc::new(KeyRead {
                    index,
                    schema: schema.clone(),
                    table: table.clone(),
                    pin: pin.clone(),
                    key,
                    projection: projection.clone(),
                })],
                None => (0..table.shards())
                    .map(|shard| -> Arc<dyn PartitionStream> {
                        Arc::new(ShardRead {
                            schema: schema.clone(),
                            table: table.clone(),
                            pin: pin.clone(),
                            shard,
                            projection: projection.clone(),
                        })
                    })
                    .collect(),
            },
        };
        Ok(Arc::new(StreamingTableExec::try_new(
            schema,
            partitions,
            None,
            [],
            false,
            limit,
        )?))
    }
}

impl CollectionTable {
    /// The keys that rows can be looked up by: the primary key, then indexes.
    fn lookups(&self) -> Vec<Keyed> {
        let key = Some((None, self.key.clone())).filter(|(_, key)| !key.is_empty());
        let indexes = self.indexes.iter();
        let indexes = indexes.map(|(index, columns)| (Some(*index), columns.clone()));
        let all = key.into_iter().chain(indexes);
        all.map(|(index, columns)| Keyed { index, columns }).collect()
    }

    fn has_column(&self, columns: &[usize], name: &str) -> bool {
        columns.iter().any(|column| self.columns.field(*column).name() == name)
    }

    /// Values of a whole key that the filters fix, and the index that it is of.
    fn key_of(&self, filters: &[Expr]) -> PlanResult<Option<(Option<usize>, Vec<ArrayRef>)>> {
        let fixed: HashMap<&str, &ScalarValue> = filters.iter().filter_map(equality).collect();
        if fixed.is_empty() {
            return Ok(None);
        }
        for Keyed { index, columns } in self.lookups() {
            let mut key = Vec::with_capacity(columns.len());
            for column in &columns {
                let field = self.columns.field(*column);
                match fixed.get(field.name().as_str()) {
                    // Only a value of the very type: a cast could change which rows are equal to it.
                    Some(value) if value.data_type() == *field.data_type() && !value.is_null() => {
                        key.push(value.to_array()?)
                    }
                    _ => break,
                }
            }
            if key.len() == columns.len() {
                return Ok(Some((index, key)));
            }
        }
        Ok(None)
    }
}

/// A key that rows can be looked up by.
struct Keyed {
    /// Position of the index; `None`: the primary key.
    index: Option<usize>,
    columns: Vec<usize>,
}

/// `column = value`, either way round.
fn equality(filter: &Expr) -> Option<(&str, &ScalarValue)> {
    let Expr::BinaryExpr(binary) = filter else {
        return None;
    };
    match (&*binary.left, binary.op, &*binary.right) {
        (Expr::Column(column), Operator::Eq, Expr::Literal(value, _))
        | (Expr::Literal(value, _), Operator::Eq, Expr::Column(column)) => Some((column.name(), value)),
        _ => None,
    }
}

pub(crate) fn outside(error: cenote_statestore::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

struct ShardRead {
    schema: SchemaRef,
    table: Arc<VersionedTable>,
    pin: Pin,
    shard: usize,
    projection: Vec<usize>,
}

struct KeyRead {
    /// Position of the index; `None`: the primary key.
    index: Option<usize>,
    schema: SchemaRef,
    table: Arc<VersionedTable>,
    pin: Pin,
    key: Vec<ArrayRef>,
    projection: Vec<usize>,
}

struct Fixed {
    schema: SchemaRef,
    rows: Arc<Vec<RecordBatch>>,
    projection: Vec<usize>,
}

impl fmt::Debug for ShardRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "scan of {} at epoch {}, shard {}",
            self.table.schema().name,
            self.pin.epoch(),
            self.shard
        )
    }
}

impl fmt::Debug for KeyRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "lookup in {} at epoch {}",
            self.table.schema().name,
            self.pin.epoch()
        )
    }
}

impl fmt::Debug for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} batches", self.rows.len())
    }
}

impl PartitionStream for ShardRead {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut scan = self
            .table
            .scan(self.pin.clone(), self.projection.clone(), self.shard..self.shard + 1);
        let schema = self.schema.clone();
        let batches = std::iter::from_fn(move || scan.next_batch(ROWS_PER_BATCH).map_err(outside).transpose());
        let with_schema =
            move |batch: PlanResult<RecordBatch>| Changes::relabel(batch?, schema.clone()).map_err(outside);
        Box::pin(RecordBatchStreamAdapter::new(
            self.schema.clone(),
            stream::iter(batches.map(with_schema)),
        ))
    }
}

impl KeyRead {
    fn rows(&self) -> cenote_statestore::Result<RecordBatch> {
        let Some(index) = self.index else {
            return Ok(self.table.lookup(&self.key, &self.pin)?.rows);
        };
        if let Some(found) = self.table.lookup_index(index, &self.key, &self.pin)? {
            return Ok(found.rows);
        }
        // The index was dropped since: all rows, of which the filter above takes the right ones.
        let all = (0..self.table.schema().columns.fields().len()).collect();
        let mut scan = self.table.scan(self.pin.clone(), all, 0..self.table.shards());
        let mut batches = Vec::new();
        while let Some(batch) = scan.next_batch(ROWS_PER_BATCH)? {
            batches.push(batch);
        }
        Ok(arrow::compute::concat_batches(&self.table.schema().columns, &batches)?)
    }
}

impl PartitionStream for KeyRead {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batch = self
            .rows()
            .map_err(outside)
            .and_then(|rows| Changes::relabel(rows.project(&self.projection)?, self.schema.clone()).map_err(outside));
        Box::pin(RecordBatchStreamAdapter::new(
            self.schema.clone(),
            stream::iter([batch]),
        ))
    }
}

impl PartitionStream for Fixed {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (rows, projection, schema) = (self.rows.clone(), self.projection.clone(), self.schema.clone());
        let batches = (0..rows.len())
            .map(move |batch| Changes::relabel(rows[batch].project(&projection)?, schema.clone()).map_err(outside));
        Box::pin(RecordBatchStreamAdapter::new(
            self.schema.clone(),
            stream::iter(batches),
        ))
    }
}
