//! Changes with weight and epoch as JSON.

use super::json::{ObjectWriter, RowObject};
use super::{Encoder, Numbers};
use arrow::array::{AsArray, PrimitiveArray, RecordBatch};
use arrow::datatypes::{Fields, Int64Type, SchemaRef, UInt64Type};
use cenote_statestore::{Error, Result};
use std::io::Write;

/// The two columns that a batch of changes begins with.
struct ChangeColumns<'a> {
    epochs: &'a PrimitiveArray<UInt64Type>,
    weights: &'a PrimitiveArray<Int64Type>,
}

impl<'a> ChangeColumns<'a> {
    fn of(batch: &'a RecordBatch) -> Result<ChangeColumns<'a>> {
        let epochs = batch
            .columns()
            .first()
            .and_then(|column| column.as_primitive_opt::<UInt64Type>());
        let weights = batch
            .columns()
            .get(1)
            .and_then(|column| column.as_primitive_opt::<Int64Type>());
        match (epochs, weights) {
            (Some(epochs), Some(weights)) => Ok(ChangeColumns { epochs, weights }),
            _ => Err(Error::bug(
                "cannot encode changes: a batch does not begin with epoch and weight",
            )),
        }
    }
}

/// Changes as lines of `{"epoch":..,"weight":..,"row":{..}}`.
pub struct ChangeLines {
    object: RowObject,
}

/// Writes the changes of one batch.
pub struct ChangeWriter<'a> {
    columns: ChangeColumns<'a>,
    object: ObjectWriter<'a>,
}

impl ChangeLines {
    /// Lines for batches of a [`cenote_query::ChangeStream`] of this schema: epoch and weight first.
    pub fn new(schema: &SchemaRef, numbers: Numbers) -> ChangeLines {
        let fields: Fields = schema.fields().iter().skip(2).cloned().collect();
        ChangeLines {
            object: RowObject::new(&fields, numbers),
        }
    }

    /// A writer of the changes of a batch.
    ///
    /// # Errors
    /// `Bug`: the batch does not begin with epoch and weight. `Unsupported`: a type that has no JSON form.
    pub fn over<'a>(&'a self, batch: &'a RecordBatch) -> Result<ChangeWriter<'a>> {
        let columns = ChangeColumns::of(batch)?;
        Ok(ChangeWriter {
            columns,
            object: self.object.over(&batch.columns()[2..])?,
        })
    }
}

impl ChangeWriter<'_> {
    /// The epoch of change `row`.
    pub fn epoch(&self, row: usize) -> u64 {
        self.columns.epochs.value(row)
    }

    /// Appends change `row`, without a line end.
    pub fn write(&self, out: &mut Vec<u8>, row: usize) {
        let (epoch, weight) = (self.epoch(row), self.columns.weights.value(row));
        write!(out, "{{\"epoch\":{epoch},\"weight\":{weight},\"row\":").expect("a Vec takes every write");
        self.object.write(out, row);
        out.push(b'}');
    }
}

impl Encoder for ChangeLines {
    fn start(&mut self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let changes = self.over(batch)?;
        for row in 0..batch.num_rows() {
            changes.write(out, row);
            out.push(b'\n');
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<()> {
        Ok(())
    }
}
