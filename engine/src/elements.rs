//! Elements of ARRAY_AGG and STRING_AGG: bytes that order them, and results made of them.
//!
//! Shared by materialized views and ad-hoc queries, so that both give the same elements in the same order: an element's
//! bytes are those of Arrow's row format over all columns that decide its place, the value among them. Elements that
//! tie look the same, so the order is a function of the multiset.
//!
//! # Not here
//! Keeping elements: `kernel::values` in views, the accumulators of `query` in ad-hoc queries.

use crate::plan::{AggregateFunction, Delimiter};
use crate::row_errors::too_long;
use arrow::array::{
    Array, ArrayRef, AsArray, Float32Array, Float64Array, Int64Array, ListArray, StringBuilder, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type};
use arrow::row::{RowConverter, Rows, SortField};
use cenote_statestore::Result;
use std::sync::Arc;

/// Bytes of the longest text, as PostgreSQL has it.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// Bytes of the texts of one batch of results.
const BATCH_BYTES_MAX: usize = i32::MAX as usize;

/// How elements are ordered and what is made of them.
#[derive(Debug)]
pub struct ElementOrder {
    function: AggregateFunction,
    distinct: bool,
    value: usize,
    delimiter: Delimiter,
    types: Vec<DataType>,
    converter: RowConverter,
}

/// One different element of a group, and how often it is there.
pub type CountedElement<'a> = (&'a [u8], i64);

impl ElementOrder {
    /// The order over columns of these types.
    ///
    /// # Arguments
    /// - `value`, `delimiter`: as in [`crate::plan::Elements`].
    ///
    /// # Panics
    /// If a type has no order: plans are checked for it ([`has_order`]).
    pub fn new(
        function: AggregateFunction,
        distinct: bool,
        columns: Vec<(DataType, SortOptions)>,
        value: usize,
        delimiter: Delimiter,
    ) -> ElementOrder {
        let fields = columns
            .iter()
            .map(|(data_type, options)| SortField::new_with_options(data_type.clone(), *options));
        let converter = RowConverter::new(fields.collect());
        ElementOrder {
            function,
            distinct,
            value,
            delimiter,
            converter: converter.expect("elements of these types have an order"),
            types: columns.into_iter().map(|(data_type, _)| data_type).collect(),
        }
    }

    /// The bytes of each row's element.
    pub fn encode(&self, columns: &[ArrayRef]) -> Result<Rows> {
        let columns = columns.iter().enumerate();
        let columns: Vec<ArrayRef> = columns.map(|(place, column)| self.canonical(place, column)).collect();
        Ok(self.converter.convert_columns(&columns)?)
    }

    /// Floats with one NaN, and with one zero where equal values are one: in keys, and in different values.
    fn canonical(&self, place: usize, column: &ArrayRef) -> ArrayRef {
        let shows_zero = place == self.value && !self.distinct;
        match column.data_type() {
            DataType::Float64 => {
                let one = |value: f64| match value {
                    nan if nan.is_nan() => f64::NAN,
                    shown if shows_zero => shown,
                    other => other + 0.0,
                };
                let floats: Float64Array = column.as_primitive::<Float64Type>().unary(one);
                Arc::new(floats)
            }
            DataType::Float32 => {
                let one = |value: f32| match value {
                    nan if nan.is_nan() => f32::NAN,
                    shown if shows_zero => shown,
                    other => other + 0.0,
                };
                let floats: Float32Array = column.as_primitive::<Float32Type>().unary(one);
                Arc::new(floats)
            }
            _ => column.clone(),
        }
    }

    /// The columns that elements were made of.
    pub fn decode<'a>(&self, elements: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        let mut columns = self.converter.convert_rows(elements.map(|bytes| parser.parse(bytes)))?;
        if columns.is_empty() {
            columns = self.types.iter().map(arrow::array::new_empty_array).collect();
        }
        Ok(columns)
    }

    /// The results of groups, whose elements come in order.
    ///
    /// # Errors
    /// `Invalid` 54000: an array or a text is too long, or those of all groups are together; of fewer they may not be.
    pub fn results(&self, groups: &[Vec<CountedElement<'_>>]) -> Result<ArrayRef> {
        let columns = || self.decode(groups.iter().flatten().map(|(bytes, _)| *bytes));
        match self.function {
            AggregateFunction::ArrayAgg => self.arrays(groups, &columns()?[self.value]),
            AggregateFunction::StringAgg => self.texts(groups, &columns()?),
            _ => {
                let counts = groups.iter().map(|group| group.len() as i64);
                Ok(Arc::new(counts.collect::<Int64Array>()))
            }
        }
    }

    /// How often an element is shown.
    fn times(&self, count: i64) -> usize {
        if self.distinct { 1 } else { count.max(0) as usize }
    }

    fn arrays(&self, groups: &[Vec<CountedElement<'_>>], values: &ArrayRef) -> Result<ArrayRef> {
        let lengths = groups
            .iter()
            .map(|group| group.iter().map(|(_, count)| self.times(*count)).sum::<usize>());
        let lengths: Vec<usize> = lengths.collect();
        if lengths.iter().sum::<usize>() > i32::MAX as usize {
            return Err(too_long("cannot compute array_agg", "2147483647 elements"));
        }
        let counted = groups.iter().flatten().enumerate();
        let indices = counted.flat_map(|(index, (_, count))| std::iter::repeat_n(index as u64, self.times(*count)));
        let items = take(values, &UInt64Array::from_iter_values(indices), None)?;
        let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        let nulls: NullBuffer = lengths.iter().map(|length| *length > 0).collect();
        let lists = ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), items, Some(nulls))?;
        Ok(Arc::new(lists))
    }

    fn texts(&self, groups: &[Vec<CountedElement<'_>>], columns: &[ArrayRef]) -> Result<ArrayRef> {
        let values = columns[self.value].as_string::<i32>();
        let delimiter = |index: usize| match &self.delimiter {
            Delimiter::Text(text) => text.as_str(),
            Delimiter::Column(place) => {
                let delimiters = columns[*place].as_string::<i32>();
                if delimiters.is_valid(index) {
                    delimiters.value(index)
                } else {
                    ""
                }
            }
        };
        let (mut builder, mut index, mut total) = (StringBuilder::new(), 0, 0usize);
        let mut text = String::new();
        for group in groups {
            text.clear();
            let mut bytes = 0usize;
            let mut is_first = true;
            for (_, count) in group {
                let (value, between, times) = (values.value(index), delimiter(index), self.times(*count));
                index += 1;
                bytes = bytes.saturating_add((value.len() + between.len()).saturating_mul(times));
                if bytes > TEXT_BYTES_MAX {
                    return Err(too_long("cannot compute string_agg", "1 GiB"));
                }
                for _ in 0..times {
                    if !std::mem::take(&mut is_first) {
                        text.push_str(between);
                    }
                    text.push_str(value);
                }
            }
            total += text.len();
            if total > BATCH_BYTES_MAX {
                return Err(too_long(
                    "cannot compute string_agg",
                    "2 GiB for the groups of one batch",
                ));
            }
            builder.append_option((!group.is_empty()).then_some(&text));
        }
        Ok(Arc::new(builder.finish()))
    }
}

/// Whether elements of a type can be ordered.
pub fn has_order(data_type: &DataType) -> bool {
    RowConverter::supports_fields(&[SortField::new(data_type.clone())])
}
