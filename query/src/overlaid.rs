//! Materialized views as a transaction block sees them that has written to their tables: computed anew by their own plans.
//!
//! # Not here
//! Views whose queries answer alike as plain ones, which [`crate::expand`] puts in the place of their names.

use crate::catalog::{MaterializedView, Object};
use crate::plan::ReadView;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use cenote_engine::plan::{CollectionId, Node};
use cenote_statestore::{Changes, Error, ErrorKind, Result};
use std::collections::BTreeSet;

/// Rows read at once.
const ROWS_PER_BATCH: usize = 8192;

/// The views whose rows a statement must not take as they are kept.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// Those that are inlined like plain views.
    pub(crate) inlined: BTreeSet<CollectionId>,
    /// Those that are computed by their plans: a query would fail on rows that they leave out, or choose others of equals.
    pub(crate) computed: BTreeSet<CollectionId>,
}

impl Changed {
    /// The views over tables that an open transaction has written to.
    pub(crate) fn of(read: &ReadView) -> Changed {
        let mut changed = Changed::default();
        for id in read.catalog.views_over(read.overlays.keys().copied()) {
            let Some(Object::MaterializedView(view)) = read.catalog.by_id(id) else {
                continue;
            };
            let has_top = view.plan.nodes.iter().any(|node| matches!(node, Node::TopN(_)));
            match has_top || view.errors.is_some() {
                true => changed.computed.insert(id),
                false => changed.inlined.insert(id),
            };
        }
        changed
    }
}

/// The rows of a view as the transaction sees them.
///
/// # Cost
/// As making the view, in one thread; memory for its state.
///
/// # Errors
/// `Unsupported`: it reads a source whose rows are not kept.
pub(crate) fn rows(read: &ReadView, view: &MaterializedView) -> Result<Vec<RecordBatch>> {
    let input = |id: CollectionId, columns: &SchemaRef| Ok(input_rows(read, view, id, columns)?.into_iter().map(Ok));
    let made = cenote_engine::batch::evaluate(&view.plan, input)?.rows;
    let columns = &view.columns;
    let made: Vec<Changes> = made
        .into_iter()
        .map(|changes| Ok(changes.with_rows(Changes::relabel(changes.rows().clone(), columns.clone())?)))
        .collect::<Result<_>>()?;
    let net = Changes::concat(columns, &made)?.consolidate_fully()?;
    let times = (0..net.len()).flat_map(|row| std::iter::repeat_n(row as u32, net.weights().get(row).max(0) as usize));
    let times: Vec<u32> = times.collect();
    Ok(vec![net.take(&times)?.into_parts().0])
}

/// The rows of a view's input as the transaction sees them.
fn input_rows(
    read: &ReadView,
    view: &MaterializedView,
    id: CollectionId,
    columns: &SchemaRef,
) -> Result<Vec<RecordBatch>> {
    let width = columns.fields().len();
    let object = read.catalog.by_id(id);
    let table = match object {
        Some(Object::MaterializedView(input)) => {
            let changed = read.catalog.views_over(read.overlays.keys().copied());
            if changed.contains(&id) {
                return rows(read, input);
            }
            Some(&input.versioned)
        }
        Some(Object::Table(table)) => table.versioned.as_ref(),
        _ => None,
    };
    let Some(table) = table else {
        let (name, source) = (&view.definition.name, object.map_or("a source", |source| source.name()));
        let message =
            format!("cannot read materialized view \"{name}\" in this block: source \"{source}\" keeps no rows");
        return Err(Error::new(ErrorKind::Unsupported, "VIEW-0104", message)
            .attempt("COMMIT first: the block has written to tables that the view reads"));
    };
    if let Some(overlay) = read.overlays.get(&id) {
        return overlay
            .read(table, &read.pin, width)
            .map_err(crate::error::from_datafusion);
    }
    let mut scan = table.scan(read.pin.clone(), (0..width).collect(), 0..table.shards());
    std::iter::from_fn(|| scan.next_batch(ROWS_PER_BATCH).transpose()).collect()
}
