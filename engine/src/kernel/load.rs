//! Rows of state tables on their way back into an operator.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};
use cenote_statestore::{Changes, Error, ErrorKind, Result, Weights};

/// The columns of a batch of state, from left to right.
pub(super) struct StateColumns<'a> {
    columns: std::slice::Iter<'a, ArrayRef>,
}

impl<'a> StateColumns<'a> {
    /// # Errors
    /// `Corrupt`: the rows have other columns than the table.
    pub(super) fn of(rows: &'a RecordBatch, table: &SchemaRef) -> Result<StateColumns<'a>> {
        let given = rows.schema();
        let types = |schema: &SchemaRef| -> Vec<_> {
            let fields = schema.fields().iter();
            fields.map(|field| field.data_type().clone()).collect()
        };
        match types(&given) == types(table) {
            true => Ok(StateColumns {
                columns: rows.columns().iter(),
            }),
            false => Err(unfit(format!("columns {given} where {table} belong"))),
        }
    }

    /// The next columns.
    pub(super) fn take(&mut self, count: usize) -> Vec<ArrayRef> {
        self.columns.by_ref().take(count).cloned().collect()
    }

    pub(super) fn next(&mut self) -> Result<&'a ArrayRef> {
        self.columns.next().ok_or_else(|| unfit("too few columns"))
    }

    pub(super) fn next_longs(&mut self) -> Result<&'a Int64Array> {
        self.next()?
            .as_primitive_opt::<Int64Type>()
            .ok_or_else(|| unfit("a count that is no number"))
    }
}

/// State of whole rows: the rows, as often as their last column says.
pub(super) fn counted_rows(rows: &RecordBatch, table: &SchemaRef, schema: &SchemaRef) -> Result<Changes> {
    let mut columns = StateColumns::of(rows, table)?;
    let own = columns.take(schema.fields().len());
    let counts = columns.next_longs()?.values();
    if counts.iter().any(|count| *count < 1) {
        return Err(unfit("a row that is there less than once"));
    }
    let weights = match counts.iter().all(|count| *count == 1) {
        true => Weights::All(1),
        false => Weights::Each(counts.to_vec()),
    };
    Ok(Changes::new(
        Changes::batch(schema.clone(), own, rows.num_rows())?,
        weights,
    ))
}

pub(super) fn unfit(what: impl Into<String>) -> Error {
    let text = format!("cannot take an operator's state back: it has {}", what.into());
    Error::new(ErrorKind::Corrupt, "ENGINE-0006", text)
}
