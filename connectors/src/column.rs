//! A column being filled, one value a row, and its Arrow array in the end.
//!
//! # Rules kept here
//! 1. Every append either adds exactly one value or leaves the column as it was.
//! 2. A row can be taken back: [`Column::truncate`] forgets everything after a number of rows.
//! 3. NULL in a NOT NULL column is a fault, however it came about.

use crate::elements::Elements;
use crate::fault::{Fault, FaultKind, Parsed, Refusal};
use crate::members::Members;
use crate::value::{self, number, time};
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, Date32Array, Decimal128Array, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int16Array, Int32Array, Int64Array, IntervalMonthDayNanoArray, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, IntervalMonthDayNano, IntervalUnit, TimeUnit};
use cenote_statestore::forms::uuid::{UUID, UUID_BYTES};
use cenote_statestore::forms::{json, list, record};
use cenote_statestore::{Error, ErrorKind, Result};
use std::mem::take;
use std::sync::Arc;

/// Texts or byte strings, one after the other.
#[derive(Default)]
pub(crate) struct Spans {
    data: Vec<u8>,
    /// Where each one ends in `data`.
    ends: Vec<i32>,
}

impl Spans {
    fn end_last(&mut self) {
        self.ends.push(self.data.len() as i32);
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows);
        self.data.truncate(self.ends.last().map_or(0, |end| *end as usize));
    }

    fn finish(&mut self) -> (OffsetBuffer<i32>, Buffer) {
        let mut offsets = Vec::with_capacity(self.ends.len() + 1);
        offsets.push(0);
        offsets.extend_from_slice(&self.ends);
        self.ends.clear();
        let capacity = self.data.len();
        let data = std::mem::replace(&mut self.data, Vec::with_capacity(capacity));
        (OffsetBuffer::new(ScalarBuffer::from(offsets)), Buffer::from_vec(data))
    }
}

/// The values of a column, by type. A NULL has a placeholder.
pub(crate) enum Values {
    Boolean(Vec<bool>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: i8,
    },
    Text(Spans),
    Json {
        spans: Spans,
        data_type: DataType,
    },
    Array(Elements),
    Record(Members),
    Binary(Spans),
    Date(Vec<i32>),
    Time(Vec<i64>),
    Interval(Vec<IntervalMonthDayNano>),
    Uuid(Vec<u8>),
    Timestamp {
        values: Vec<i64>,
        zone: Option<Arc<str>>,
    },
}

/// A column of the declared schema while its rows are read.
pub(crate) struct Column {
    name: String,
    sql_type: String,
    nullable: bool,
    /// Whether the array is wanted; if not, values are only checked.
    stored: bool,
    /// The rows that are NULL, ascending.
    nulls: Vec<u32>,
    /// The serial number of the row that the last value belongs to.
    pub(crate) stamp: u64,
    /// Whether that value came under the column's very name, not one that differs in case.
    pub(crate) by_name: bool,
    pub(crate) values: Values,
}

impl Column {
    /// An empty column of a field.
    ///
    /// # Errors
    /// `Unsupported`: no format reads this type.
    pub(crate) fn new(field: &Field, stored: bool) -> Result<Column> {
        let values = match field.data_type() {
            DataType::Boolean => Values::Boolean(Vec::new()),
            DataType::Int16 => Values::Int16(Vec::new()),
            DataType::Int32 => Values::Int32(Vec::new()),
            DataType::Int64 => Values::Int64(Vec::new()),
            DataType::Float32 => Values::Float32(Vec::new()),
            DataType::Float64 => Values::Float64(Vec::new()),
            DataType::Decimal128(precision, scale) => Values::Decimal {
                values: Vec::new(),
                precision: *precision,
                scale: *scale,
            },
            DataType::Utf8 => Values::Text(Spans::default()),
            DataType::Struct(_) if json::name_of(field.data_type()).is_some() => Values::Json {
                spans: Spans::default(),
                data_type: field.data_type().clone(),
            },
            DataType::List(item) if list::element_of(field.data_type()).is_some() => {
                Values::Array(Elements::new(field.name(), item, stored)?)
            }
            DataType::Struct(fields) if record::kept_fields_of(field.data_type()).is_some() => {
                Values::Record(Members::new(field.name(), fields, stored)?)
            }
            DataType::Binary => Values::Binary(Spans::default()),
            DataType::Date32 => Values::Date(Vec::new()),
            DataType::Time64(TimeUnit::Microsecond) => Values::Time(Vec::new()),
            DataType::Interval(IntervalUnit::MonthDayNano) => Values::Interval(Vec::new()),
            uuid if *uuid == UUID => Values::Uuid(Vec::new()),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => Values::Timestamp {
                values: Vec::new(),
                zone: zone.clone(),
            },
            other => return Err(unsupported(field.name(), other)),
        };
        Ok(Column {
            name: field.name().clone(),
            sql_type: sql_type(field.data_type()),
            nullable: field.is_nullable(),
            stored,
            nulls: Vec::new(),
            stamp: 0,
            by_name: false,
            values,
        })
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Appends NULL as row `row`.
    pub(crate) fn push_null(&mut self, row: usize) -> Parsed<()> {
        if !self.nullable {
            let reason = format!("field `{}`: NULL in a column that is NOT NULL", self.name);
            return Err(Fault::new(FaultKind::Null, reason));
        }
        self.push_nothing(row)
    }

    /// Appends NULL as row `row`, also where none may be: its place is to be filled.
    ///
    /// # Errors
    /// None for columns of table types; those of a STRUCT's fields.
    pub(crate) fn push_nothing(&mut self, row: usize) -> Parsed<()> {
        self.nulls.push(row as u32);
        match &mut self.values {
            Values::Boolean(values) => values.push(false),
            Values::Int16(values) => values.push(0),
            Values::Int32(values) | Values::Date(values) => values.push(0),
            Values::Int64(values) | Values::Time(values) | Values::Timestamp { values, .. } => values.push(0),
            Values::Interval(values) => values.push(IntervalMonthDayNano::ZERO),
            Values::Array(elements) => elements.end_last(),
            Values::Record(members) => members.push_null()?,
            Values::Uuid(bytes) => bytes.extend([0; UUID_BYTES]),
            Values::Float32(values) => values.push(0.0),
            Values::Float64(values) => values.push(0.0),
            Values::Decimal { values, .. } => values.push(0),
            Values::Text(spans) | Values::Json { spans, .. } | Values::Binary(spans) => spans.end_last(),
        }
        Ok(())
    }

    /// Appends the value that a text stands for: a quoted JSON string, a CSV field. It must be UTF-8.
    pub(crate) fn push_text(&mut self, text: &[u8]) -> Parsed<()> {
        self.try_text(text).map_err(|refusal| self.refused(refusal, text))
    }

    #[inline]
    pub(crate) fn try_text(&mut self, text: &[u8]) -> Result<(), Refusal> {
        match &mut self.values {
            Values::Text(spans) => {
                if memchr::memchr(0, text).is_some() {
                    return Err(Refusal::Nul);
                }
                if self.stored {
                    spans.data.extend_from_slice(text);
                }
                spans.end_last();
            }
            Values::Json { spans, data_type } => {
                value::json(text, data_type, &mut spans.data)?;
                spans.end_last();
            }
            Values::Binary(spans) => {
                let start = spans.data.len();
                if let Err(refusal) = value::binary(text, &mut spans.data) {
                    spans.data.truncate(start);
                    return Err(refusal);
                }
                spans.end_last();
            }
            Values::Boolean(values) => values.push(value::boolean(text)?),
            Values::Date(values) => values.push(time::date(text)?),
            Values::Time(values) => values.push(time::time_of_day(text)?),
            Values::Interval(values) => values.push(value::interval(text)?),
            Values::Array(elements) => elements.read(text)?,
            Values::Record(members) => members.read(text)?,
            Values::Uuid(bytes) => bytes.extend(value::uuid(text)?),
            Values::Timestamp { values, zone: None } => values.push(time::timestamp(text)?),
            Values::Timestamp { values, zone: Some(_) } => values.push(time::timestamp_utc(text)?),
            _ => self.try_digits(text)?,
        }
        Ok(())
    }

    /// Appends the value of an unquoted JSON number.
    pub(crate) fn push_number(&mut self, text: &[u8]) -> Parsed<()> {
        let outcome = match &mut self.values {
            Values::Timestamp { values, .. } => time::epoch_millis(text).map(|value| values.push(value)),
            Values::Binary(_) | Values::Uuid(_) | Values::Array(_) | Values::Record(_) => Err(Refusal::Syntax),
            Values::Time(_) | Values::Interval(_) => Err(Refusal::Time),
            Values::Text(_) | Values::Json { .. } | Values::Boolean(_) | Values::Date(_) => self.try_text(text),
            _ => self.try_digits(text),
        };
        outcome.map_err(|refusal| self.refused(refusal, text))
    }

    fn try_digits(&mut self, text: &[u8]) -> Result<(), Refusal> {
        match &mut self.values {
            Values::Int16(values) => values.push(number::integer(text)?),
            Values::Int32(values) => values.push(number::integer(text)?),
            Values::Int64(values) => values.push(number::integer(text)?),
            Values::Float32(values) => values.push(number::float32(text)?),
            Values::Float64(values) => values.push(number::float64(text)?),
            Values::Decimal {
                values,
                precision,
                scale,
            } => values.push(number::decimal(text, *precision, *scale)?),
            _ => return Err(Refusal::Syntax),
        }
        Ok(())
    }

    /// Appends an unquoted JSON `true` or `false`, to a BOOLEAN or (as its word) a TEXT column.
    pub(crate) fn push_boolean(&mut self, value: bool) -> Parsed<()> {
        let word: &[u8] = if value { b"true" } else { b"false" };
        match &mut self.values {
            Values::Boolean(values) => values.push(value),
            Values::Text(_) | Values::Json { .. } => return self.push_text(word),
            _ => return Err(self.refused(Refusal::Syntax, word)),
        }
        Ok(())
    }

    /// The fault of a value of another shape: `what` is `an object` or `an array`.
    pub(crate) fn misfit(&self, what: &str) -> Box<Fault> {
        Fault::new(
            FaultKind::Syntax,
            format!("field `{}`: {what} cannot be read as {}", self.name, self.sql_type),
        )
    }

    /// Whether its values are JSON of any shape, taken as they are written.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self.values, Values::Json { .. })
    }

    /// Its elements, if its values are arrays.
    pub(crate) fn elements(&mut self) -> Option<&mut Elements> {
        match &mut self.values {
            Values::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// Its fields, if its values are structs.
    pub(crate) fn members(&mut self) -> Option<&mut Members> {
        match &mut self.values {
            Values::Record(members) => Some(members),
            _ => None,
        }
    }

    fn refused(&self, refusal: Refusal, text: &[u8]) -> Box<Fault> {
        refusal.fault(&self.name, &self.sql_type, text)
    }

    /// Forgets all rows from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        while self.nulls.last().is_some_and(|row| *row as usize >= rows) {
            self.nulls.pop();
        }
        match &mut self.values {
            Values::Boolean(values) => values.truncate(rows),
            Values::Int16(values) => values.truncate(rows),
            Values::Int32(values) | Values::Date(values) => values.truncate(rows),
            Values::Int64(values) | Values::Time(values) | Values::Timestamp { values, .. } => values.truncate(rows),
            Values::Interval(values) => values.truncate(rows),
            Values::Array(elements) => elements.truncate(rows),
            Values::Record(members) => members.truncate(rows),
            Values::Uuid(bytes) => bytes.truncate(rows * UUID_BYTES),
            Values::Float32(values) => values.truncate(rows),
            Values::Float64(values) => values.truncate(rows),
            Values::Decimal { values, .. } => values.truncate(rows),
            Values::Text(spans) | Values::Json { spans, .. } | Values::Binary(spans) => spans.truncate(rows),
        }
    }

    /// The array of the `rows` rows appended; the column is empty then.
    ///
    /// # Errors
    /// `Bug`: a text is not UTF-8, which its reader should have refused.
    pub(crate) fn finish(&mut self, rows: usize) -> Result<ArrayRef> {
        let nulls = self.null_buffer(rows);
        let array: ArrayRef = match &mut self.values {
            Values::Boolean(values) => {
                let bits = BooleanBuffer::from(values.as_slice());
                values.clear();
                Arc::new(BooleanArray::new(bits, nulls))
            }
            Values::Int16(values) => Arc::new(Int16Array::new(handed(values), nulls)),
            Values::Int32(values) => Arc::new(Int32Array::new(handed(values), nulls)),
            Values::Int64(values) => Arc::new(Int64Array::new(handed(values), nulls)),
            Values::Float32(values) => Arc::new(Float32Array::new(handed(values), nulls)),
            Values::Float64(values) => Arc::new(Float64Array::new(handed(values), nulls)),
            Values::Decimal {
                values,
                precision,
                scale,
            } => {
                let array = Decimal128Array::new(handed(values), nulls);
                Arc::new(array.with_precision_and_scale(*precision, *scale)?)
            }
            Values::Text(spans) => {
                let (offsets, data) = spans.finish();
                Arc::new(StringArray::try_new(offsets, data, nulls)?)
            }
            Values::Json { spans, data_type } => {
                let (offsets, data) = spans.finish();
                json::column_of(StringArray::try_new(offsets, data, nulls)?, data_type)
            }
            Values::Binary(spans) => {
                let (offsets, data) = spans.finish();
                Arc::new(BinaryArray::try_new(offsets, data, nulls)?)
            }
            Values::Date(values) => Arc::new(Date32Array::new(handed(values), nulls)),
            Values::Time(values) => Arc::new(Time64MicrosecondArray::new(handed(values), nulls)),
            Values::Interval(values) => Arc::new(IntervalMonthDayNanoArray::new(handed(values), nulls)),
            Values::Array(elements) => elements.finish(nulls)?,
            Values::Record(members) => members.finish(nulls)?,
            Values::Uuid(bytes) => Arc::new(FixedSizeBinaryArray::new(UUID_BYTES as i32, take(bytes).into(), nulls)),
            Values::Timestamp { values, zone } => {
                Arc::new(TimestampMicrosecondArray::new(handed(values), nulls).with_timezone_opt(zone.clone()))
            }
        };
        Ok(array)
    }

    fn null_buffer(&mut self, rows: usize) -> Option<NullBuffer> {
        if self.nulls.is_empty() {
            return None;
        }
        let mut bits = BooleanBufferBuilder::new(rows);
        bits.append_n(rows, true);
        for row in take(&mut self.nulls) {
            bits.set_bit(row as usize, false);
        }
        Some(NullBuffer::new(bits.finish()))
    }
}

/// Hands the values over and keeps room for as many. Where they did not fill theirs, their number varies, and there is room
/// for some more: values that outgrow it by little would take twice as much.
fn handed<T: arrow::datatypes::ArrowNativeType>(values: &mut Vec<T>) -> ScalarBuffer<T> {
    let is_filled = values.len() == values.capacity();
    let more = if is_filled { 0 } else { values.len() / 16 };
    let room = Vec::with_capacity(values.len() + more);
    ScalarBuffer::from(std::mem::replace(values, room))
}

fn unsupported(name: &str, data_type: &DataType) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "CONN-0004",
        format!("cannot read column `{name}`: no file format is read as the type {data_type}"),
    )
}

/// The SQL name of a type that the store keeps.
pub(crate) fn sql_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INTEGER".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::Float32 => "REAL".into(),
        DataType::Float64 => "DOUBLE PRECISION".into(),
        DataType::Decimal128(precision, scale) => format!("NUMERIC({precision},{scale})"),
        DataType::Utf8 => "TEXT".into(),
        DataType::Binary => "BYTEA".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Time64(_) => "TIME".into(),
        DataType::Interval(_) => "INTERVAL".into(),
        uuid if *uuid == UUID => "UUID".into(),
        DataType::List(item) => format!("{}[]", sql_type(item.data_type())),
        DataType::Struct(fields) => match json::name_of(data_type) {
            Some(name) => name.to_uppercase(),
            None => {
                let field = |field: &FieldRef| format!("{} {}", field.name(), sql_type(field.data_type()));
                format!("STRUCT<{}>", fields.iter().map(field).collect::<Vec<_>>().join(", "))
            }
        },
        DataType::Timestamp(_, None) => "TIMESTAMP".into(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMPTZ".into(),
        other => other.to_string(),
    }
}
