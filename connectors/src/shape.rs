//! Changes as the rows that leave: what the option `mode` of a sink means.
//!
//! | mode | rows | deletions |
//! |---|---|---|
//! | `append` | each inserted row, as often as it was inserted | refused |
//! | `changelog` | each change, behind its `cenote_epoch` and its `cenote_weight` | rows with a negative weight |

use crate::options::bad_value;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cenote_engine::port::{OptionSpec, SinkRequest};
use cenote_statestore::{Changes, Epoch, Error, ErrorKind, Result};
use std::sync::Arc;

/// Column that tells the epoch of a change.
pub(crate) const EPOCH: &str = "cenote_epoch";

/// Column that tells the weight of a change.
pub(crate) const WEIGHT: &str = "cenote_weight";

/// What leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Append,
    Changelog,
}

/// The option, for connectors that write rows one after another.
pub(crate) const MODE: OptionSpec = OptionSpec {
    name: "mode",
    help: "`append` (default) writes inserted rows as they are and refuses deletions; `changelog` writes every change, with the columns cenote_epoch and cenote_weight before the row's.",
    required: false,
    values: &["append", "changelog"],
};

/// How changes of one sink become rows.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    sink: String,
    mode: Mode,
    schema: SchemaRef,
}

impl Shape {
    /// Reads the option `mode`.
    ///
    /// # Errors
    /// `Invalid` CONN-0003: a column of the sink's has the name of one that a changelog adds.
    pub(crate) fn new(request: &SinkRequest) -> Result<Shape> {
        let mode = match request.options.get("mode").map(String::as_str) {
            Some("changelog") => Mode::Changelog,
            _ => Mode::Append,
        };
        let columns = &request.schema;
        let schema = match mode {
            Mode::Append => columns.clone(),
            Mode::Changelog => {
                if let Some(field) = columns
                    .fields()
                    .iter()
                    .find(|field| [EPOCH, WEIGHT].contains(&field.name().as_str()))
                {
                    let reason = format!("the column \"{}\" is there already", field.name());
                    return Err(bad_value(&request.name, "mode", "changelog", &reason));
                }
                let mut fields = vec![
                    Arc::new(Field::new(EPOCH, DataType::Int64, false)),
                    Arc::new(Field::new(WEIGHT, DataType::Int64, false)),
                ];
                fields.extend(columns.fields().iter().cloned());
                Arc::new(Schema::new(fields))
            }
        };
        Ok(Shape {
            sink: request.name.clone(),
            mode,
            schema,
        })
    }

    /// Columns of the rows.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows of an epoch.
    ///
    /// # Errors
    /// `Invalid` CONN-0018: a deletion, where rows are only appended.
    pub(crate) fn rows(&self, epoch: Epoch, changes: &Changes) -> Result<RecordBatch> {
        match self.mode {
            Mode::Changelog => {
                let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_value(epoch.0 as i64, changes.len()))];
                columns.push(changes.weight_column());
                columns.extend(changes.rows().columns().iter().cloned());
                Changes::batch(self.schema.clone(), columns, changes.len())
            }
            Mode::Append => self.appended(epoch, changes),
        }
    }

    fn appended(&self, epoch: Epoch, changes: &Changes) -> Result<RecordBatch> {
        if !changes.weights().is_insertion() {
            return Err(self.deletion(epoch));
        }
        let times = |row: usize| changes.weights().get(row) as usize;
        if (0..changes.len()).all(|row| times(row) == 1) {
            return Changes::relabel(changes.rows().clone(), self.schema.clone());
        }
        let repeated = (0..changes.len()).flat_map(|row| std::iter::repeat_n(row as u32, times(row)));
        let rows = take_record_batch(changes.rows(), &UInt32Array::from_iter_values(repeated))?;
        Changes::relabel(rows, self.schema.clone())
    }

    /// CONN-0018: rows that cannot be taken back.
    fn deletion(&self, epoch: Epoch) -> Error {
        let message = format!(
            "cannot write to sink \"{}\": rows were deleted or updated, and it only appends",
            self.sink
        );
        Error::new(ErrorKind::Invalid, "CONN-0018", message)
            .sqlstate("55000")
            .fact("at", format!("epoch {epoch}"))
            .attempt("CREATE SINK with mode = 'changelog', or from a view whose rows are never deleted")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BIGINT, rows_of, schema, sink_request};
    use cenote_statestore::Weights;

    fn changes(numbers: &[i64], weights: &[i64]) -> Changes {
        let rows = RecordBatch::try_new(
            schema(&[("n", BIGINT)]),
            vec![Arc::new(Int64Array::from(numbers.to_vec()))],
        );
        Changes::new(rows.unwrap(), Weights::Each(weights.to_vec()))
    }

    fn shape(mode: &str) -> Shape {
        Shape::new(&sink_request(&schema(&[("n", BIGINT)]), &[("mode", mode)])).unwrap()
    }

    #[test]
    fn rows_are_appended_as_often_as_they_were_inserted() {
        let rows = shape("append").rows(Epoch(4), &changes(&[1, 2], &[1, 3])).unwrap();
        assert_eq!(rows_of(&rows), ["1", "2", "2", "2"]);
    }

    #[test]
    fn a_deletion_is_refused_where_rows_are_appended_and_told_in_a_changelog() {
        let changes = changes(&[1, 2], &[-1, 1]);
        let error = shape("append").rows(Epoch(4), &changes).unwrap_err();
        assert_eq!((error.code(), error.kind()), ("CONN-0018", ErrorKind::Invalid));
        let rows = shape("changelog").rows(Epoch(4), &changes).unwrap();
        assert_eq!(rows_of(&rows), ["4|-1|1", "4|1|2"]);
    }

    #[test]
    fn a_changelog_of_a_column_with_its_own_name_is_refused() {
        let request = sink_request(&schema(&[("cenote_weight", BIGINT)]), &[("mode", "changelog")]);
        assert_eq!(Shape::new(&request).unwrap_err().code(), "CONN-0003");
    }
}
