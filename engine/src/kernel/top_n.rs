//! The first rows of each partition in an order, with OFFSET, LIMIT and row numbers.
//!
//! All rows are kept, sorted by partition, order and then the whole row, as comparable bytes; so a deletion
//! among the first rows is followed by whatever comes next, and ties have one answer. A touched partition's first
//! rows are set aside and compared with those at the end of the epoch.
//!
//! # Source
//! Arrow's row format for the comparable bytes: <https://arrow.apache.org/blog/2022/11/07/multi-column-sorts-in-arrow-rust-part-1/>.

use super::changed::StateChanges;
use super::load::counted_rows;
use super::{Kernel, not_noted};
use crate::plan::{Node, TopN};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use arrow::row::{RowConverter, Rows, SortField};
use cenote_statestore::{Changes, Epoch, Error, Result, TableSchema, Weights};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

type Bytes = Box<[u8]>;

/// State and logic of one Top-N on one worker.
pub struct TopNKernel {
    node: TopN,
    table: TableSchema,
    partitions: RowConverter,
    sort: RowConverter,
    rows: BTreeMap<Bytes, i64>,
    bytes: usize,
    /// First rows of the partitions touched in this epoch, as they were: row bytes, row number, times.
    before: HashMap<Bytes, Vec<Ranked>>,
    /// Rows that have changed, where that is noted.
    changed: Option<HashSet<Bytes>>,
}

/// A row among the first, by its bytes; `number` is its first position, `times` how often it counts from there.
#[derive(Clone, Debug, PartialEq)]
struct Ranked {
    row: Bytes,
    number: i64,
    times: i64,
}

impl TopNKernel {
    /// An empty Top-N.
    ///
    /// # Errors
    /// `Unsupported`: a column's type has no order.
    pub fn new(node: &TopN) -> Result<TopNKernel> {
        let field = |column: usize, options: SortOptions| {
            SortField::new_with_options(node.input_schema.field(column).data_type().clone(), options)
        };
        let partition: Vec<SortField> = node
            .partition
            .iter()
            .map(|column| field(*column, SortOptions::default()))
            .collect();
        let order = node.order.iter().map(|(column, options)| field(*column, *options));
        let whole = (0..node.input_schema.fields().len()).map(|column| field(column, SortOptions::default()));
        let sort = partition.iter().cloned().chain(order).chain(whole).collect();
        Ok(TopNKernel {
            table: Node::TopN(node.clone()).state_tables().remove(0),
            node: node.clone(),
            partitions: RowConverter::new(partition)?,
            sort: RowConverter::new(sort)?,
            rows: BTreeMap::new(),
            bytes: 0,
            before: HashMap::new(),
            changed: None,
        })
    }

    /// Positions `[offset, offset + limit)` of a partition.
    fn first_rows(&self, partition: &[u8]) -> Vec<Ranked> {
        let bounded = |position: u64| position.min(i64::MAX as u64) as i64;
        let from = bounded(self.node.offset);
        let to = self
            .node
            .limit
            .map(|limit| bounded(self.node.offset.saturating_add(limit)));
        let (mut position, mut found) = (0i64, Vec::new());
        for (row, times) in self
            .rows
            .range::<[u8], _>((std::ops::Bound::Included(partition), std::ops::Bound::Unbounded))
        {
            if !row.starts_with(partition) || to.is_some_and(|to| position >= to) {
                break;
            }
            let start = position.max(from);
            let end = to.map_or(position + times, |to| to.min(position + times));
            if start < end {
                found.push(Ranked {
                    row: row.clone(),
                    number: start + 1,
                    times: end - start,
                });
            }
            position += times;
        }
        found
    }

    fn add(&mut self, row: &[u8], weight: i64) -> Result<()> {
        let missing = || Error::bug("a Top-N was told to forget a row that it does not hold");
        if let Some(changed) = self.changed.as_mut().filter(|changed| !changed.contains(row)) {
            changed.insert(row.into());
        }
        match self.rows.get_mut(row) {
            Some(times) if *times + weight > 0 => *times += weight,
            Some(times) if *times + weight == 0 => {
                self.rows.remove(row);
                self.bytes -= row.len() + 48;
            }
            None if weight > 0 => {
                self.rows.insert(row.into(), weight);
                self.bytes += row.len() + 48;
            }
            None if weight == 0 => {}
            _ => return Err(missing()),
        }
        Ok(())
    }

    /// The input's columns of rows given by their bytes.
    fn decode<'a>(&self, rows: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        if self.schema().fields().is_empty() {
            return Ok(Vec::new());
        }
        let parser = self.sort.parser();
        let columns = self.sort.convert_rows(rows.map(|row| parser.parse(row)))?;
        Ok(columns[self.node.partition.len() + self.node.order.len()..].to_vec())
    }

    /// Adds ranked rows with a sign to weights by row (and number, where numbers come out).
    fn tally(&self, ranked: Vec<Ranked>, sign: i64, net: &mut BTreeMap<(Bytes, i64), i64>) {
        for Ranked { row, number, times } in ranked {
            if self.node.row_number {
                for offset in 0..times {
                    *net.entry((row.clone(), number + offset)).or_default() += sign;
                }
            } else {
                *net.entry((row, 0)).or_default() += sign * times;
            }
        }
    }

    fn range_of<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a Bytes, &'a i64)> {
        self.rows
            .range::<[u8], _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded))
            .take_while(move |(row, _)| row.starts_with(prefix))
    }

    fn state_rows<'a>(&self, rows: impl Iterator<Item = (&'a Bytes, &'a i64)>) -> Result<RecordBatch> {
        let (rows, times): (Vec<&Bytes>, Vec<i64>) = rows.map(|(row, times)| (row, *times)).unzip();
        let mut columns = self.decode(rows.iter().map(|row| row.as_ref()))?;
        columns.push(Arc::new(Int64Array::from(times)));
        Changes::batch(self.table.columns.clone(), columns, rows.len())
    }

    fn schema(&self) -> SchemaRef {
        self.node.schema.clone()
    }

    /// Rows as bytes: those of their partitions and those that they are kept by. `None`: they have no columns, and are all the same.
    fn encode(&self, changes: &Changes) -> Result<(Option<Rows>, Option<Rows>)> {
        let columns = changes.rows().columns();
        let partition = self.node.partition.iter().map(|column| columns[*column].clone());
        let partition: Vec<ArrayRef> = partition.collect();
        let order = self.node.order.iter().map(|(column, _)| comparable(&columns[*column]));
        let all = partition.iter().cloned().chain(order).chain(columns.iter().cloned());
        let all: Vec<ArrayRef> = all.collect();
        let partitions = (!partition.is_empty()).then(|| self.partitions.convert_columns(&partition));
        let rows = (!all.is_empty()).then(|| self.sort.convert_columns(&all));
        Ok((partitions.transpose()?, rows.transpose()?))
    }
}

/// The bytes of one of encoded rows.
fn bytes_of(rows: &Option<Rows>, row: usize) -> &[u8] {
    rows.as_ref().map_or(&[], |rows| rows.row(row).data())
}

/// Floats as SQL orders them: `-0.0` like `0.0`, every NaN alike and greatest.
fn comparable(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float64 => {
            let value = |value: f64| if value.is_nan() { f64::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(value))
        }
        DataType::Float32 => {
            let value = |value: f32| if value.is_nan() { f32::NAN } else { value + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(value))
        }
        _ => column.clone(),
    }
}

impl Kernel for TopNKernel {
    fn push(&mut self, _input: usize, changes: &Changes, _output: &mut Vec<Changes>) -> Result<()> {
        let (partitions, rows) = self.encode(changes)?;
        for row in 0..changes.len() {
            let prefix = bytes_of(&partitions, row);
            if !self.before.contains_key(prefix) {
                let first = self.first_rows(prefix);
                self.before.insert(prefix.into(), first);
            }
            self.add(bytes_of(&rows, row), changes.weights().get(row))?;
        }
        Ok(())
    }

    fn load(&mut self, _table: usize, rows: &RecordBatch) -> Result<()> {
        let changes = counted_rows(rows, &self.table.columns, &self.node.input_schema)?;
        let (_, rows) = self.encode(&changes)?;
        let changed = self.changed.take();
        let added = (0..changes.len()).try_for_each(|row| self.add(bytes_of(&rows, row), changes.weights().get(row)));
        self.changed = changed;
        added
    }

    fn stand(&mut self, tables: &[Vec<RecordBatch>]) -> Result<Vec<(usize, Changes)>> {
        let rows = tables.iter().flatten();
        let rows = rows.map(|rows| counted_rows(rows, &self.table.columns, &self.node.input_schema));
        rows.map(|rows| Ok((0, rows?))).collect()
    }

    fn finish(&mut self, _epoch: Epoch, output: &mut Vec<Changes>) -> Result<()> {
        let mut net = BTreeMap::new();
        for (partition, before) in std::mem::take(&mut self.before) {
            let after = self.first_rows(&partition);
            if after != before {
                self.tally(before, -1, &mut net);
                self.tally(after, 1, &mut net);
            }
        }
        net.retain(|_, weight| *weight != 0);
        if net.is_empty() {
            return Ok(());
        }
        let mut columns = self.decode(net.keys().map(|(row, _)| row.as_ref()))?;
        if self.node.row_number {
            columns.push(Arc::new(net.keys().map(|(_, number)| *number).collect::<Int64Array>()));
        }
        let rows = Changes::batch(self.schema(), columns, net.len())?;
        output.push(Changes::new(rows, Weights::Each(net.into_values().collect())));
        Ok(())
    }

    fn read(&self, _table: usize, keys: Option<&[ArrayRef]>) -> Result<Vec<RecordBatch>> {
        let Some(keys) = keys.filter(|_| !self.node.partition.is_empty()) else {
            return Ok(vec![self.state_rows(self.rows.iter())?]);
        };
        let prefixes = self.partitions.convert_columns(keys)?;
        prefixes
            .iter()
            .map(|prefix| self.state_rows(self.range_of(prefix.data())))
            .collect()
    }

    fn note_changes(&mut self, _table: usize) {
        self.changed = Some(HashSet::new());
    }

    fn take_changes(&mut self, _table: usize) -> Result<StateChanges> {
        let changed = std::mem::take(self.changed.as_mut().ok_or_else(not_noted)?);
        let there = changed.iter().filter_map(|row| self.rows.get_key_value(row));
        let there = self.state_rows(there)?;
        let gone: Vec<&Bytes> = changed.iter().filter(|row| !self.rows.contains_key(*row)).collect();
        let columns = self.decode(gone.iter().map(|row| row.as_ref()))?;
        let gone = Changes::batch(self.node.input_schema.clone(), columns, gone.len())?;
        StateChanges::settled(&self.table, vec![there], vec![gone])
    }

    fn size(&self, _table: usize) -> (u64, u64) {
        (self.rows.len() as u64, self.bytes as u64)
    }
}
