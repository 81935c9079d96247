//! The yardstick: DataFusion's batch answer to the same SQL over the same batches, on one thread.

use super::clock::{Spent, Stopwatch};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, SchemaRef};
use cenote_statestore::{Error, Result};
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use std::sync::Arc;

/// A table of the yardstick.
pub struct Input<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its columns.
    pub schema: SchemaRef,
    /// Its rows.
    pub batches: &'a [RecordBatch],
}

/// What becomes of the rows of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Kept in memory: the answer is a table, as a view is.
    Kept,
    /// Dropped as they come, and counted.
    Counted,
}

/// An answer and what it took, planning included.
pub struct Answer {
    /// What it took.
    pub spent: Spent,
    /// The rows, if they were kept.
    pub batches: Vec<RecordBatch>,
    /// Their number.
    pub rows: usize,
}

/// Answers a query once.
pub async fn answer(inputs: &[Input<'_>], sql: &str, rows: Rows) -> Result<Answer> {
    let context = context(inputs)?;
    let watch = Stopwatch::start();
    let mut stream = context
        .sql(sql)
        .await
        .map_err(failed)?
        .execute_stream()
        .await
        .map_err(failed)?;
    let (mut batches, mut count) = (Vec::new(), 0);
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(failed)?;
        count += batch.num_rows();
        if rows == Rows::Kept {
            batches.push(batch);
        }
    }
    Ok(Answer {
        spent: watch.spent(),
        batches,
        rows: count,
    })
}

/// The first row of a query over an answer, as texts.
pub async fn row(name: &str, batches: &[RecordBatch], sql: &str) -> Result<Vec<String>> {
    let schema = batches.first().map(RecordBatch::schema);
    let schema = schema.ok_or_else(|| Error::bug("cannot compare with an answer of no rows"))?;
    let found = answer(&[Input { name, schema, batches }], sql, Rows::Kept).await?;
    let batch = found.batches.iter().find(|batch| batch.num_rows() > 0);
    let batch = batch.ok_or_else(|| Error::bug("cannot compare with an answer of no rows"))?;
    let text = |column: &Arc<dyn Array>| {
        let texts = cast(column, &DataType::Utf8)?;
        Ok(texts.as_string::<i32>().value(0).to_string())
    };
    batch.columns().iter().map(text).collect()
}

fn context(inputs: &[Input<'_>]) -> Result<SessionContext> {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    for input in inputs {
        let table = MemTable::try_new(input.schema.clone(), vec![input.batches.to_vec()]).map_err(failed)?;
        context.register_table(input.name, Arc::new(table)).map_err(failed)?;
    }
    Ok(context)
}

fn failed(error: DataFusionError) -> Error {
    Error::bug(format!("cannot run the yardstick: {error}"))
}
