//! Changes with weight and epoch as JSON.

use super::{Encoder, Numbers, RowObject};
use arrow::array::{AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{Fields, Int64Type, SchemaRef, UInt64Type};
use cenote_statestore::{Error, Result};
use std::io::Write;

/// The two columns that a batch of changes begins with.
pub struct ChangeColumns<'a> {
    epochs: &'a PrimitiveArray<UInt64Type>,
    weights: &'a PrimitiveArray<Int64Type>,
}

impl<'a> ChangeColumns<'a> {
    /// The columns of a batch of a [`cenote_query::ChangeStream`].
    ///
    /// # Errors
    /// `Bug`: the batch begins with other columns.
    pub fn of(batch: &'a RecordBatch) -> Result<ChangeColumns<'a>> {
        let epochs = batch.columns().first().and_then(|column| column.as_primitive_opt::<UInt64Type>());
        let weights = batch.columns().get(1).and_then(|column| column.as_primitive_opt::<Int64Type>());
        match (epochs, weights) {
            (Some(epochs), Some(weights)) => Ok(ChangeColumns { epochs, weights }),
            _ => Err(Error::bug("cannot encode changes: a batch does not begin with epoch and weight")),
        }
    }

    /// The epoch of row `row`.
    pub fn epoch(&self, row: usize) -> u64 {
        self.epochs.value(row)
    }

    /// The weight of row `row`.
    pub fn weight(&self, row: usize) -> i64 {
        self.weights.value(row)
    }
}

/// Changes as lines of `{"epoch":..,"weight":..,"row":{..}}`.
pub struct ChangeLines {
    object: RowObject,
}

impl ChangeLines {
    /// Lines for batches of a [`cenote_query::ChangeStream`] of this schema: epoch and weight first.
    pub fn new(schema: &SchemaRef, numbers: Numbers) -> ChangeLines {
        let fields: Fields = schema.fields().iter().skip(2).cloned().collect();
        ChangeLines { object: RowObject::new(&fields, numbers) }
    }

    /// Appends one change, without a line end.
    pub fn write(&self, out: &mut Vec<u8>, batch: &RecordBatch, columns: &ChangeColumns<'_>, row: usize) {
        let (epoch, weight) = (columns.epoch(row), columns.weight(row));
        write!(out, "{{\"epoch\":{epoch},\"weight\":{weight},\"row\":").expect("a Vec takes every write");
        self.object.write(out, &batch.columns()[2..], row);
        out.push(b'}');
    }
}

impl Encoder for ChangeLines {
    fn start(&mut self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let columns = ChangeColumns::of(batch)?;
        for row in 0..batch.num_rows() {
            self.write(out, batch, &columns, row);
            out.push(b'\n');
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
