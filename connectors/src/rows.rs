//! Rows of a declared schema being read: columns filled together, one row at a time, all or nothing.
//!
//! # Rules kept here
//! 1. Every declared column is read and checked, wanted or not: whether a row is good depends on the
//!    declaration alone, never on what a query projects.
//! 2. A row that fails leaves no trace.

use crate::column::Column;
use crate::fault::Parsed;
use arrow::array::RecordBatch;
use arrow::array::RecordBatchOptions;
use arrow::datatypes::{Schema, SchemaRef};
use cenote_statestore::Result;
use std::sync::Arc;

/// The rows read so far.
pub(crate) struct Rows {
    /// All declared columns.
    pub(crate) columns: Vec<Column>,
    /// Which of them are handed over, ascending.
    wanted: Vec<usize>,
    schema: SchemaRef,
    len: usize,
    serial: u64,
    /// Columns that have a value in the row being read.
    filled: usize,
    /// For each column that has a default, the rows that do not name it.
    absent: Vec<Option<Vec<u32>>>,
}

impl Rows {
    /// No rows yet of `schema`, to be handed over with the columns `projection` (`None`: all).
    ///
    /// # Errors
    /// `Unsupported`: a column's type is read from no format; the error names it.
    pub(crate) fn new(schema: &SchemaRef, projection: Option<&[usize]>) -> Result<Rows> {
        let all: Vec<usize> = (0..schema.fields().len()).collect();
        let wanted = projection.unwrap_or(&all).to_vec();
        let columns = schema
            .fields()
            .iter()
            .enumerate()
            .map(|(index, field)| Column::new(field, wanted.contains(&index)))
            .collect::<Result<Vec<_>>>()?;
        let schema_len = schema.fields().len();
        let schema = projected(schema, &wanted);
        Ok(Rows {
            columns,
            wanted,
            schema,
            len: 0,
            serial: 0,
            filled: 0,
            absent: vec![None; schema_len],
        })
    }

    /// Rows in which columns that have a default may be left out; the places of these are NULL.
    pub(crate) fn with_defaults(mut self, has_default: &[bool]) -> Rows {
        let fields = self.schema.fields().iter().zip(has_default);
        let fields: Vec<_> = fields
            .map(|(field, has)| field.as_ref().clone().with_nullable(field.is_nullable() || *has))
            .collect();
        self.schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        self.absent = has_default.iter().map(|has| has.then(Vec::new)).collect();
        self
    }

    /// The rows since the last call that do not name a column, for each column that has a default.
    pub(crate) fn take_absent(&mut self) -> Vec<Vec<u32>> {
        let absent = self.absent.iter_mut().map(|rows| rows.as_mut().map(std::mem::take));
        absent.map(Option::unwrap_or_default).collect()
    }

    /// The columns handed over.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows read so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Opens the next row.
    #[inline]
    pub(crate) fn open(&mut self) {
        self.serial += 1;
        self.filled = 0;
    }

    /// The column to append the row's value to. `replaces`: the value comes under the column's very name, and takes
    /// the place of any other that the row gave it; `None` if a value of that name is there and this one is not.
    #[inline]
    pub(crate) fn column(&mut self, index: usize, replaces: bool) -> Option<(&mut Column, usize)> {
        let column = &mut self.columns[index];
        if column.stamp == self.serial {
            if !replaces && column.by_name {
                return None;
            }
            column.truncate(self.len);
        } else {
            column.stamp = self.serial;
            self.filled += 1;
        }
        column.by_name = replaces;
        Some((column, self.len))
    }

    /// Closes the row: columns without a value become NULL.
    ///
    /// # Errors
    /// A column without a value is NOT NULL. The row is still open: take it [`back`](Rows::back).
    #[inline]
    pub(crate) fn close(&mut self) -> Parsed<()> {
        if self.filled < self.columns.len() {
            self.fill()?;
        }
        self.len += 1;
        Ok(())
    }

    #[cold]
    fn fill(&mut self) -> Parsed<()> {
        for (column, absent) in self.columns.iter_mut().zip(&mut self.absent) {
            match absent {
                _ if column.stamp == self.serial => {}
                None => column.push_null(self.len)?,
                Some(rows) => {
                    column.push_nothing(self.len)?;
                    rows.push(self.len as u32);
                }
            }
        }
        Ok(())
    }

    /// Takes the open row back.
    #[cold]
    pub(crate) fn back(&mut self) {
        self.columns.iter_mut().for_each(|column| column.truncate(self.len));
        for rows in self.absent.iter_mut().flatten() {
            rows.truncate(rows.partition_point(|row| (*row as usize) < self.len));
        }
    }

    /// Takes back the row closed last.
    #[cold]
    pub(crate) fn uncount(&mut self) {
        self.len = self.len.saturating_sub(1);
        self.back();
    }

    /// Hands over the rows and starts anew.
    ///
    /// # Errors
    /// `Bug`: see [`Column::finish`].
    pub(crate) fn finish(&mut self) -> Result<RecordBatch> {
        let arrays = self
            .wanted
            .iter()
            .map(|index| self.columns[*index].finish(self.len))
            .collect::<Result<Vec<_>>>()?;
        self.columns.iter_mut().for_each(|column| column.truncate(0));
        let options = RecordBatchOptions::new().with_row_count(Some(std::mem::take(&mut self.len)));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            arrays,
            &options,
        )?)
    }
}

/// The schema of the columns `wanted`.
pub(crate) fn projected(schema: &SchemaRef, wanted: &[usize]) -> SchemaRef {
    let fields: Vec<_> = wanted
        .iter()
        .filter_map(|index| schema.fields().get(*index).cloned())
        .collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Which column a name in a file means: the one of that very name, else the first that differs in case only.
///
/// # Returns
/// The column and whether the name is exact.
pub(crate) fn column_of(columns: &[Column], name: &[u8]) -> Option<(usize, bool)> {
    let exact = columns.iter().position(|column| column.name().as_bytes() == name);
    let folded = || {
        columns
            .iter()
            .position(|column| column.name().as_bytes().eq_ignore_ascii_case(name))
    };
    exact
        .map(|index| (index, true))
        .or_else(|| folded().map(|index| (index, false)))
}

/// The name nearest to `name`, when one is near.
pub(crate) fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&name.to_lowercase(), &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, candidate)| *distance <= 2.max(candidate.len() / 3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}
