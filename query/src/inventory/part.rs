//! The rows of one state table as rows of the inventory.

use super::Column;
use super::sizes::row_bytes;
use crate::attached::AttachedBatches;
use crate::error::{too_long_together, unsupported};
use crate::pgtext::{JsonWriter, write_string};
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer};
use arrow::datatypes::{Schema, SchemaRef};
use cenote_statestore::forms::json::{column_of, json_type};
use cenote_statestore::{Changes, Error, Result, hash_rows, key_group};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Rows made at once.
const ROWS_PER_BATCH: usize = 8192;

/// Bytes of the rows made at once: as JSON they take up to six times as many.
const BYTES_PER_BATCH: i64 = 8 << 20;

/// Starts reading some columns of a state table; may be called several times.
pub(super) type PartRead = Arc<dyn Fn(&[usize]) -> Result<AttachedBatches> + Send + Sync>;

/// One state table.
#[derive(Clone)]
pub(super) struct StatePart {
    /// The view that it belongs to; `None`: it is a source's or a sink's.
    pub(super) view: Option<String>,
    /// What keeps it.
    pub(super) operator: String,
    /// Its name.
    pub(super) table: String,
    /// Its columns.
    pub(super) columns: SchemaRef,
    /// Columns of its key.
    pub(super) key: Vec<usize>,
    /// Columns whose hash names the key group.
    pub(super) distribution: Vec<usize>,
    pub(super) read: PartRead,
}

impl StatePart {
    /// Stands for all state where it was not read.
    pub(super) fn unread() -> StatePart {
        StatePart {
            view: None,
            operator: String::new(),
            table: String::new(),
            columns: Arc::new(Schema::empty()),
            key: Vec::new(),
            distribution: Vec::new(),
            read: Arc::new(|_| Err(unsupported("cenote_catalog.state in a statement that writes"))),
        }
    }

    fn values(&self) -> Vec<usize> {
        let all = 0..self.columns.fields().len();
        all.filter(|column| !self.key.contains(column)).collect()
    }

    /// The columns that are read to make some columns of the inventory, ascending.
    pub(super) fn needed(&self, wanted: &[Column]) -> Vec<usize> {
        let mut needed = BTreeSet::new();
        for column in wanted {
            match column {
                Column::View | Column::Operator | Column::Table => {}
                Column::KeyGroup => needed.extend(&self.distribution),
                Column::Key => needed.extend(&self.key),
                Column::Value => needed.extend(self.values()),
                Column::Bytes => needed.extend(0..self.columns.fields().len()),
            }
        }
        needed.into_iter().collect()
    }

    /// Its rows, each as it is asked for.
    ///
    /// # Arguments
    /// - `schema`: that of the wanted columns.
    pub(super) fn rows(self, wanted: Vec<Column>, schema: SchemaRef) -> AttachedBatches {
        let needed = self.needed(&wanted);
        let read = match (self.read)(&needed) {
            Ok(read) => read,
            Err(error) => return Box::new(std::iter::once(Err(error))),
        };
        let at = |columns: &[usize]| -> Vec<usize> {
            let place = |column: &usize| needed.binary_search(column).ok();
            columns.iter().filter_map(place).collect()
        };
        let (key, values, distribution) = (at(&self.key), at(&self.values()), at(&self.distribution));
        let described = Arc::new(Described {
            key: Objects::new(&self, &needed, key),
            values: Objects::new(&self, &needed, values),
            distribution,
            part: self,
            wanted,
            schema,
        });
        Box::new(read.flat_map(move |rows| -> AttachedBatches {
            match rows {
                Ok(rows) => described.clone().slices(rows),
                Err(error) => Box::new(std::iter::once(Err(error))),
            }
        }))
    }
}

/// How rows of a state table become rows of the inventory.
struct Described {
    part: StatePart,
    wanted: Vec<Column>,
    schema: SchemaRef,
    distribution: Vec<usize>,
    key: Objects,
    values: Objects,
}

impl Described {
    /// Rows in pieces that are small as JSON, too.
    fn slices(self: Arc<Described>, rows: RecordBatch) -> AttachedBatches {
        let bytes = row_bytes(&rows);
        let pieces = pieces(&bytes).into_iter();
        Box::new(pieces.map(move |piece| self.described(&rows.slice(piece.start, piece.len()), &bytes[piece])))
    }

    fn described(&self, rows: &RecordBatch, bytes: &[i64]) -> Result<RecordBatch> {
        let columns = self.wanted.iter().map(|column| self.column(*column, rows, bytes));
        Changes::batch(self.schema.clone(), columns.collect::<Result<_>>()?, rows.num_rows())
    }

    fn column(&self, column: Column, rows: &RecordBatch, bytes: &[i64]) -> Result<ArrayRef> {
        let count = rows.num_rows();
        let same = |text: Option<&str>| -> Result<ArrayRef> {
            Ok(Arc::new(StringArray::from_iter(std::iter::repeat_n(text, count))))
        };
        match column {
            Column::View => same(self.part.view.as_deref()),
            Column::Operator => same(Some(&self.part.operator)),
            Column::Table => same(Some(&self.part.table)),
            Column::KeyGroup => {
                let key: Vec<ArrayRef> = self.distribution.iter().map(|at| rows.column(*at).clone()).collect();
                let groups = hash_rows(&key, count).into_iter().map(key_group);
                Ok(Arc::new(Int32Array::from_iter_values(groups.map(i32::from))))
            }
            Column::Key => self.key.column(rows),
            Column::Value => self.values.column(rows),
            Column::Bytes => Ok(Arc::new(Int64Array::from(bytes.to_vec()))),
        }
    }
}

/// Ranges of rows, each of a bounded number of them and of bytes unless it is one row.
pub(super) fn pieces(bytes: &[i64]) -> Vec<Range<usize>> {
    let (mut pieces, mut start, mut sum) = (Vec::new(), 0, 0);
    for (row, size) in bytes.iter().enumerate() {
        if row > start && (row - start == ROWS_PER_BATCH || sum + size > BYTES_PER_BATCH) {
            pieces.push(start..row);
            (start, sum) = (row, 0);
        }
        sum += size;
    }
    if start < bytes.len() {
        pieces.push(start..bytes.len());
    }
    pieces
}

/// Some columns of rows as JSON objects, with the values that HTTP gives.
struct Objects {
    /// Their places in what is read, and their names as JSON with a colon.
    columns: Vec<(usize, Vec<u8>)>,
}

impl Objects {
    /// # Arguments
    /// - `needed`: the columns of the table that are read.
    /// - `places`: places among those.
    fn new(part: &StatePart, needed: &[usize], places: Vec<usize>) -> Objects {
        let named = |place: usize| {
            let mut name = Vec::new();
            write_string(&mut name, part.columns.field(needed[place]).name());
            name.push(b':');
            (place, name)
        };
        Objects {
            columns: places.into_iter().map(named).collect(),
        }
    }

    fn column(&self, rows: &RecordBatch) -> Result<ArrayRef> {
        let schema = rows.schema();
        let writer =
            |(place, _): &(usize, Vec<u8>)| JsonWriter::new(schema.field(*place), rows.column(*place).as_ref(), false);
        let writers = self.columns.iter().map(writer).collect::<Result<Vec<_>>>()?;
        let (mut out, mut lengths) = (Vec::new(), Vec::with_capacity(rows.num_rows()));
        for row in 0..rows.num_rows() {
            let start = out.len();
            out.push(b'{');
            for (number, (writer, (_, name))) in writers.iter().zip(&self.columns).enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(name);
                writer.write(&mut out, row);
            }
            out.push(b'}');
            lengths.push(out.len() - start);
        }
        if i32::try_from(out.len()).is_err() {
            return Err(too_long_together());
        }
        let texts = StringArray::try_new(OffsetBuffer::from_lengths(lengths), Buffer::from_vec(out), None);
        let texts = texts.map_err(|error| Error::bug(format!("JSON that is no text: {error}")))?;
        Ok(column_of(texts, &json_type()))
    }
}
