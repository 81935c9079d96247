//! Subscriptions in the simple protocol: one result set per epoch.
//!
//! A client of simple queries (psql) shows a result when it is whole. A subscription has no end, so each epoch is
//! sent as a result of its own, which is complete when the epoch is. psql shows a result only when it has the next one
//! too, so that it knows which is the last; an empty result, which it passes over, follows what is complete.

use super::rows::{RowSource, describe, send_batch};
use super::signals::{Failure, Signals};
use super::wire::Wire;
use cenote_query::pgtext::TextStyle;
use cenote_statestore::{Error, Result};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use std::ops::Range;
use std::task::Poll;

/// Sends a subscription until it ends. The completion of the last result set is left to the caller.
pub(super) async fn send(
    source: &mut RowSource,
    wire: &mut Wire,
    signals: &mut Signals,
    style: &TextStyle,
) -> Result<(), Failure> {
    let mut open = None;
    loop {
        let next = match source.ready_batch(signals)? {
            Poll::Ready(next) => next,
            Poll::Pending => {
                if open.take().is_some() {
                    wire.output.command_complete(&source.tag(0));
                    wire.output.empty_query();
                }
                source.next_batch(wire, signals).await?
            }
        };
        let Some(batch) = next else { break };
        for (epoch, rows) in epochs(&batch)? {
            if open != Some(epoch) {
                if open.is_some() {
                    wire.output.command_complete(&source.tag(0));
                }
                describe(wire, &source.schema, &[]);
                open = Some(epoch);
            }
            send_batch(wire, signals, &batch, rows, &[], style).await?;
        }
    }
    if open.is_none() {
        describe(wire, &source.schema, &[]);
    }
    Ok(())
}

/// The rows of each epoch, by the column that a subscription's rows begin with.
fn epochs(batch: &RecordBatch) -> Result<Vec<(u64, Range<usize>)>> {
    let column = batch.column(0).as_primitive_opt::<UInt64Type>();
    let column = column.ok_or_else(|| Error::bug("a subscription's rows do not begin with their epoch"))?;
    let mut found: Vec<(u64, Range<usize>)> = Vec::new();
    for (row, epoch) in column.values().iter().enumerate() {
        match found.last_mut() {
            Some((last, rows)) if last == epoch => rows.end = row + 1,
            _ => found.push((*epoch, row..row + 1)),
        }
    }
    Ok(found)
}
