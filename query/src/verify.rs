//! VERIFY MATERIALIZED VIEW: the view's query is computed anew from its inputs, and what differs is listed.
//!
//! # Rules kept here
//! 1. Inputs and view are read at one epoch.
//! 2. The query is run by the batch engine, which shares nothing with the view's operators but the scalar expressions.
//!    Where a batch query has no one answer (rows that tie at a LIMIT, rows that an expression fails on), the view's own
//!    plan is run over the whole inputs instead.

use crate::catalog::{MaterializedView, Object};
use crate::outcome::Outcome;
use crate::parse::Parsed;
use crate::plan::ReadView;
use crate::session::{rename, stream_plan};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_engine::plan::{CollectionId, Node};
use cenote_statestore::{Changes, Error, ErrorKind, Result, VersionedTable};
use futures::StreamExt;
use std::sync::Arc;

/// Rows read at once.
const ROWS_PER_BATCH: usize = 8192;

/// Columns of the answer: whether the row is `missing` from the view or `unexpected` in it, how often, and the row.
pub(crate) fn columns(view: &MaterializedView) -> SchemaRef {
    let mut fields = vec![
        Field::new("difference", DataType::Utf8, false),
        Field::new("rows", DataType::Int64, false),
    ];
    fields.extend(view.columns.fields().iter().map(|field| field.as_ref().clone()));
    Arc::new(Schema::new(fields))
}

/// The rows that differ, each once; none where the view is right.
///
/// # Arguments
/// - `read`: the database at the epoch to verify, without an open transaction's writes.
///
/// # Cost
/// As running the view's query; memory for the view's rows twice.
///
/// # Errors
/// `Unsupported`: an input keeps no rows, so that nothing can be computed anew. `Unavailable`: the view has failed.
pub(crate) async fn verify(read: &ReadView, view: &MaterializedView) -> Result<RecordBatch> {
    read.database.check_view(view)?;
    view.check_there_at(read.pin.epoch())?;
    check_kept(read, view)?;
    let expected = match has_one_batch_answer(view) {
        true => by_query(read, view).await?,
        false => by_plan(read, view)?,
    };
    let mut all = expected;
    let held = whole(&view.versioned, read, view.columns.fields().len());
    for rows in held {
        all.push(Changes::deletions(rows?));
    }
    let all: Vec<Changes> = all
        .into_iter()
        .map(|changes| Ok(changes.with_rows(rename(changes.rows().clone(), &view.columns)?)))
        .collect::<Result<_>>()?;
    let differing = Changes::concat(&view.columns, &all)?.consolidate_fully()?;
    let weights: Vec<i64> = (0..differing.len()).map(|row| differing.weights().get(row)).collect();
    let what = |weight: &i64| if *weight > 0 { "missing" } else { "unexpected" };
    let mut arrays: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(weights.iter().map(what))),
        Arc::new(Int64Array::from_iter_values(weights.iter().map(|weight| weight.abs()))),
    ];
    arrays.extend(differing.rows().columns().iter().cloned());
    Changes::batch(columns(view), arrays, weights.len())
}

/// Refuses a view over rows that are kept nowhere.
fn check_kept(read: &ReadView, view: &MaterializedView) -> Result<()> {
    let mut inputs = view.reads.iter().filter_map(|input| read.catalog.by_id(*input));
    match inputs.find(|input| crate::session::passes_rows(input)) {
        None => Ok(()),
        Some(source) => {
            let (name, source) = (&view.definition.name, source.name());
            let message = format!("cannot verify materialized view \"{name}\": source \"{source}\" keeps no rows");
            Err(Error::new(ErrorKind::Unsupported, "VIEW-0102", message)
                .attempt(format!("declare \"{source}\" with CREATE TABLE, which keeps them")))
        }
    }
}

fn has_one_batch_answer(view: &MaterializedView) -> bool {
    let ties = view.plan.nodes.iter().any(|node| matches!(node, Node::TopN(_)));
    let fails = view.errors.as_ref().is_some_and(|errors| errors.statistics().rows > 0);
    !ties && !fails
}

/// What the query gives as an ad-hoc one.
async fn by_query(read: &ReadView, view: &MaterializedView) -> Result<Vec<Changes>> {
    let statements = crate::parse::parse_script(&view.definition.query)?;
    let Parsed::Sql { ast, .. } = &*statements[0].parsed else {
        return Err(Error::bug("a view's query is not a query"));
    };
    let state = read.state();
    let plan = read.plan(&state, ast).await?;
    let Outcome::Rows(mut rows) = stream_plan(&state, plan, None).await? else {
        return Err(Error::bug("a view's query gives no rows"));
    };
    let mut found = Vec::new();
    while let Some(batch) = rows.batches.next().await {
        found.push(Changes::insertions(batch?));
    }
    Ok(found)
}

/// What the view's plan gives over whole inputs.
fn by_plan(read: &ReadView, view: &MaterializedView) -> Result<Vec<Changes>> {
    let inputs = |id: CollectionId, columns: &SchemaRef| {
        let table = match read.catalog.by_id(id) {
            Some(Object::Table(table)) => table.versioned.as_ref(),
            Some(Object::MaterializedView(view)) => Some(&view.versioned),
            _ => None,
        };
        let table = table.ok_or_else(|| Error::bug(format!("input {id} of a view keeps no rows")))?;
        Ok(whole(table, read, columns.fields().len()))
    };
    Ok(cenote_engine::batch::evaluate(&view.plan, inputs)?.rows)
}

/// All rows of a table at the epoch that is read, the first `width` columns.
fn whole(
    table: &Arc<VersionedTable>,
    read: &ReadView,
    width: usize,
) -> impl Iterator<Item = Result<RecordBatch>> + use<> {
    let mut scan = table.scan(read.pin.clone(), (0..width).collect(), 0..table.shards());
    std::iter::from_fn(move || scan.next_batch(ROWS_PER_BATCH).transpose())
}
