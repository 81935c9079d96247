//! Changes: rows with signed weights, in columns.
//!
//! # Owns
//! The batch type that travels through the whole system, and the kernels on it: taking rows, joining
//! batches, and consolidation (equal rows become one, with the sum of their weights; zero sums vanish).

use crate::column::ArrayView;
use crate::hash::hash_rows;
use crate::{Error, Result};
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use arrow::datatypes::SchemaRef;
use hashbrown::HashTable;

/// Weights of the rows of a batch: +n inserts a row n times, -n deletes it n times.
#[derive(Clone, Debug, PartialEq)]
pub enum Weights {
    /// Every row has this weight; the usual case costs no column.
    All(i64),
    /// One weight per row.
    Each(Vec<i64>),
}

impl Weights {
    /// The weight of a row.
    #[inline(always)]
    pub fn get(&self, row: usize) -> i64 {
        match self {
            Weights::All(weight) => *weight,
            Weights::Each(weights) => weights[row],
        }
    }

    /// Whether no weight is negative.
    pub fn is_insertion(&self) -> bool {
        match self {
            Weights::All(weight) => *weight >= 0,
            Weights::Each(weights) => weights.iter().all(|weight| *weight >= 0),
        }
    }

    fn take(&self, rows: &[u32]) -> Weights {
        match self {
            Weights::All(weight) => Weights::All(*weight),
            Weights::Each(weights) => Weights::Each(rows.iter().map(|row| weights[*row as usize]).collect()),
        }
    }
}

/// Rows and their weights: `weights` has one entry per row of `rows`.
#[derive(Clone, Debug)]
pub struct Changes {
    rows: RecordBatch,
    weights: Weights,
}

impl Changes {
    /// Joins rows and weights.
    ///
    /// # Panics
    /// If there is not one weight per row.
    pub fn new(rows: RecordBatch, weights: Weights) -> Changes {
        if let Weights::Each(each) = &weights {
            assert_eq!(each.len(), rows.num_rows(), "one weight per row");
        }
        Changes { rows, weights }
    }

    /// Every row once.
    pub fn insertions(rows: RecordBatch) -> Changes {
        Changes {
            rows,
            weights: Weights::All(1),
        }
    }

    /// Every row taken away once.
    pub fn deletions(rows: RecordBatch) -> Changes {
        Changes {
            rows,
            weights: Weights::All(-1),
        }
    }

    /// No rows.
    pub fn empty(schema: SchemaRef) -> Changes {
        Changes::insertions(RecordBatch::new_empty(schema))
    }

    /// The rows.
    pub fn rows(&self) -> &RecordBatch {
        &self.rows
    }

    /// The weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Number of rows, whatever their weights.
    pub fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The columns' names and types.
    pub fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    /// Rows and weights, apart.
    pub fn into_parts(self) -> (RecordBatch, Weights) {
        (self.rows, self.weights)
    }

    /// The same weights for other rows of the same number.
    pub fn with_rows(&self, rows: RecordBatch) -> Changes {
        Changes::new(rows, self.weights.clone())
    }

    /// `len` rows from `offset`, without copying columns.
    pub fn slice(&self, offset: usize, len: usize) -> Changes {
        let weights = match &self.weights {
            Weights::All(weight) => Weights::All(*weight),
            Weights::Each(weights) => Weights::Each(weights[offset..offset + len].to_vec()),
        };
        Changes {
            rows: self.rows.slice(offset, len),
            weights,
        }
    }

    /// The rows at `indices`, in that order.
    pub fn take(&self, indices: &[u32]) -> Result<Changes> {
        Ok(Changes {
            rows: take_rows(&self.rows, indices.to_vec())?,
            weights: self.weights.take(indices),
        })
    }

    /// The rows where `mask` is true (NULL counts as false).
    pub fn filter(&self, mask: &BooleanArray) -> Result<Changes> {
        let mask = match mask.nulls().filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => BooleanArray::new(mask.values() & nulls.inner(), None),
            None => mask.clone(),
        };
        let rows = filter_record_batch(&self.rows, &mask)?;
        let weights = match &self.weights {
            Weights::All(weight) => Weights::All(*weight),
            Weights::Each(weights) => Weights::Each(
                weights
                    .iter()
                    .enumerate()
                    .filter(|(row, _)| mask.value(*row))
                    .map(|(_, w)| *w)
                    .collect(),
            ),
        };
        Ok(Changes { rows, weights })
    }

    /// One batch of several of the same schema.
    pub fn concat(schema: &SchemaRef, parts: &[Changes]) -> Result<Changes> {
        match parts {
            [] => Ok(Changes::empty(schema.clone())),
            [one] => Ok(one.clone()),
            _ => {
                let rows = concat_batches(schema, parts.iter().map(|part| &part.rows))?;
                Ok(Changes {
                    rows,
                    weights: concat_weights(parts),
                })
            }
        }
    }

    /// Equal rows become one with the sum of their weights; rows whose sum is zero vanish.
    ///
    /// # Returns
    /// Distinct rows, each where it first stood, unless all weights have one sign: then the batch is returned as
    /// it is, because nothing can cancel.
    pub fn consolidate(self) -> Result<Changes> {
        let one_sign = match &self.weights {
            Weights::All(_) => true,
            Weights::Each(weights) => weights.iter().all(|w| *w > 0) || weights.iter().all(|w| *w < 0),
        };
        if one_sign || self.len() < 2 {
            Ok(self.without_zeros()?)
        } else {
            self.consolidate_fully()
        }
    }

    /// As [`Changes::consolidate`], but equal rows become one whatever the signs.
    pub fn consolidate_fully(self) -> Result<Changes> {
        let (mut kept, mut sums) = (Vec::new(), Vec::new());
        let columns = self.rows.columns().to_vec();
        let views: Vec<ArrayView<'_>> = columns.iter().map(ArrayView::new).collect();
        let hashes = hash_rows(&columns, self.len());
        let mut table: HashTable<u32> = HashTable::with_capacity(self.len());
        for row in 0..self.len() {
            let entry = table.entry(
                hashes[row],
                |position| {
                    views
                        .iter()
                        .all(|view| view.equal_rows(kept[*position as usize] as usize, row))
                },
                |position| hashes[kept[*position as usize] as usize],
            );
            match entry {
                hashbrown::hash_table::Entry::Occupied(entry) => sums[*entry.get() as usize] += self.weights.get(row),
                hashbrown::hash_table::Entry::Vacant(entry) => {
                    entry.insert(kept.len() as u32);
                    kept.push(row as u32);
                    sums.push(self.weights.get(row));
                }
            }
        }
        drop(table);
        drop(views);
        if kept.len() == self.len() && sums.iter().all(|sum| *sum != 0) {
            return Ok(self);
        }
        let indices: Vec<u32> = kept
            .iter()
            .zip(&sums)
            .filter(|(_, sum)| **sum != 0)
            .map(|(row, _)| *row)
            .collect();
        sums.retain(|sum| *sum != 0);
        Ok(Changes {
            rows: take_rows(&self.rows, indices)?,
            weights: Weights::Each(sums),
        })
    }

    fn without_zeros(self) -> Result<Changes> {
        match &self.weights {
            Weights::All(0) => Ok(Changes::empty(self.schema())),
            Weights::All(_) => Ok(self),
            Weights::Each(weights) if weights.contains(&0) => {
                let kept: Vec<u32> = (0..self.len() as u32)
                    .filter(|row| weights[*row as usize] != 0)
                    .collect();
                self.take(&kept)
            }
            Weights::Each(_) => Ok(self),
        }
    }

    /// The weights as an Arrow column.
    pub fn weight_column(&self) -> ArrayRef {
        match &self.weights {
            Weights::All(weight) => std::sync::Arc::new(Int64Array::from_value(*weight, self.len())),
            Weights::Each(weights) => std::sync::Arc::new(Int64Array::from(weights.clone())),
        }
    }

    /// Bytes of memory the columns take.
    pub fn memory_bytes(&self) -> usize {
        self.rows.get_array_memory_size()
    }

    /// The same columns under another schema of the same types: names and nullability may differ.
    ///
    /// # Errors
    /// A column has NULLs where the schema has none, or is of another type.
    pub fn relabel(batch: RecordBatch, schema: SchemaRef) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        Changes::batch(schema, batch.columns().to_vec(), rows)
    }

    /// A batch of given columns with a row count of its own, for batches that may have no columns.
    pub fn batch(schema: SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, columns, &options).map_err(Error::from)
    }
}

/// Rows of a batch that may have no columns.
fn take_rows(rows: &RecordBatch, indices: Vec<u32>) -> Result<RecordBatch> {
    if rows.num_columns() == 0 {
        return Changes::batch(rows.schema(), Vec::new(), indices.len());
    }
    Ok(take_record_batch(rows, &UInt32Array::from(indices))?)
}

fn concat_weights(parts: &[Changes]) -> Weights {
    if let Weights::All(first) = parts[0].weights
        && parts.iter().all(|part| part.weights == Weights::All(first))
    {
        return Weights::All(first);
    }
    let mut weights = Vec::with_capacity(parts.iter().map(Changes::len).sum());
    for part in parts {
        match &part.weights {
            Weights::All(weight) => weights.resize(weights.len() + part.len(), *weight),
            Weights::Each(each) => weights.extend_from_slice(each),
        }
    }
    Weights::Each(weights)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringArray;
    use arrow::datatypes::{DataType, Field, Schema};
    use std::sync::Arc;

    fn changes(rows: &[(Option<&str>, i64, i64)]) -> Changes {
        let schema = Arc::new(Schema::new(vec![
            Field::new("name", DataType::Utf8, true),
            Field::new("n", DataType::Int64, false),
        ]));
        let names: ArrayRef = Arc::new(StringArray::from(rows.iter().map(|row| row.0).collect::<Vec<_>>()));
        let numbers: ArrayRef = Arc::new(Int64Array::from(rows.iter().map(|row| row.1).collect::<Vec<_>>()));
        let batch = RecordBatch::try_new(schema, vec![names, numbers]).unwrap();
        Changes::new(batch, Weights::Each(rows.iter().map(|row| row.2).collect()))
    }

    #[test]
    fn equal_rows_add_up_and_zero_sums_vanish() {
        let given = changes(&[
            (Some("a"), 1, 1),
            (None, 1, 2),
            (Some("a"), 1, -1),
            (None, 1, -1),
            (Some("b"), 2, -3),
        ]);
        let wanted = changes(&[(None, 1, 1), (Some("b"), 2, -3)]);
        let got = given.consolidate().unwrap();
        assert_eq!(got.rows(), wanted.rows());
        assert_eq!(got.weights(), wanted.weights());
    }

    #[test]
    fn insertions_alone_are_left_as_they_are() {
        let given = changes(&[(Some("a"), 1, 1), (Some("a"), 1, 1)]);
        assert_eq!(given.clone().consolidate().unwrap().len(), 2);
        assert_eq!(given.consolidate_fully().unwrap().weights(), &Weights::Each(vec![2]));
    }

    #[test]
    fn rows_without_columns_keep_their_number() {
        let none = Arc::new(Schema::empty());
        let given = Changes::new(Changes::batch(none, vec![], 3).unwrap(), Weights::Each(vec![2, -1, 3]));
        assert_eq!(given.take(&[2, 0]).unwrap().weights(), &Weights::Each(vec![3, 2]));
        assert_eq!(given.clone().consolidate().unwrap().weights(), &Weights::Each(vec![4]));
        let kept = given.filter(&BooleanArray::from(vec![true, false, true])).unwrap();
        assert_eq!((kept.len(), kept.weights()), (2, &Weights::Each(vec![2, 3])));
        assert_eq!(
            Changes::concat(&given.schema(), &[given.clone(), given.clone()])
                .unwrap()
                .len(),
            6
        );
    }

    #[test]
    fn filter_drops_rows_where_the_mask_is_null() {
        let given = changes(&[(Some("a"), 1, 1), (Some("b"), 2, 1), (Some("c"), 3, -1)]);
        let kept = given
            .filter(&BooleanArray::from(vec![Some(true), None, Some(true)]))
            .unwrap();
        assert_eq!(kept.weights(), &Weights::Each(vec![1, -1]));
    }
}
