//! Columns of tables as a manifest writes them: every type that state can hold, in words, without loss.
//!
//! # Not here
//! SQL's names of types: a caller that knows them hands them in.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::forms::uuid::UUID;

/// One column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnEntry {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub data_type: TypeEntry,
    /// Its type's name in SQL, where the writer knew it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sql_type: Option<String>,
    /// Whether it may hold NULL.
    pub nullable: bool,
    /// The metadata of its Arrow field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TypeEntry {
    /// Arrow `Boolean`.
    Boolean,
    /// Arrow `Int16`.
    Int16,
    /// Arrow `Int32`.
    Int32,
    /// Arrow `Int64`.
    Int64,
    /// Arrow `UInt64`.
    Uint64,
    /// Arrow `Float32`.
    Float32,
    /// Arrow `Float64`.
    Float64,
    /// Arrow `Decimal128`.
    Decimal {
        /// Digits.
        precision: u8,
        /// Digits behind the point.
        scale: i8,
    },
    /// Arrow `Date32`.
    Date,
    /// Arrow `Time64`, microseconds.
    Time,
    /// Arrow `Timestamp`, microseconds, without a zone.
    Timestamp,
    /// Arrow `Timestamp`, microseconds, with a zone.
    TimestampIn(String),
    /// Arrow `Interval`: months, days, nanoseconds.
    Interval,
    /// Arrow `Utf8`.
    Text,
    /// Arrow `Binary`.
    Binary,
    /// Arrow `FixedSizeBinary` of 16 bytes.
    Uuid,
    /// Arrow `List`.
    List(Box<ColumnEntry>),
    /// Arrow `Struct`. JSON and JSONB are structs of one text, called so.
    Struct(Vec<ColumnEntry>),
}

impl TypeEntry {
    /// The entry of a type; `None` for one that state does not hold.
    fn of(data_type: &DataType) -> Option<TypeEntry> {
        Some(match data_type {
            DataType::Boolean => TypeEntry::Boolean,
            DataType::Int16 => TypeEntry::Int16,
            DataType::Int32 => TypeEntry::Int32,
            DataType::Int64 => TypeEntry::Int64,
            DataType::UInt64 => TypeEntry::Uint64,
            DataType::Float32 => TypeEntry::Float32,
            DataType::Float64 => TypeEntry::Float64,
            DataType::Decimal128(precision, scale) => TypeEntry::Decimal {
                precision: *precision,
                scale: *scale,
            },
            DataType::Date32 => TypeEntry::Date,
            DataType::Time64(TimeUnit::Microsecond) => TypeEntry::Time,
            DataType::Timestamp(TimeUnit::Microsecond, None) => TypeEntry::Timestamp,
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => TypeEntry::TimestampIn(zone.to_string()),
            DataType::Interval(IntervalUnit::MonthDayNano) => TypeEntry::Interval,
            DataType::Utf8 => TypeEntry::Text,
            DataType::Binary => TypeEntry::Binary,
            uuid if *uuid == UUID => TypeEntry::Uuid,
            DataType::List(item) => TypeEntry::List(Box::new(ColumnEntry::of(item)?)),
            DataType::Struct(fields) => TypeEntry::Struct(
                fields
                    .iter()
                    .map(|field| ColumnEntry::of(field))
                    .collect::<Option<_>>()?,
            ),
            _ => return None,
        })
    }

    fn data_type(&self) -> DataType {
        match self {
            TypeEntry::Boolean => DataType::Boolean,
            TypeEntry::Int16 => DataType::Int16,
            TypeEntry::Int32 => DataType::Int32,
            TypeEntry::Int64 => DataType::Int64,
            TypeEntry::Uint64 => DataType::UInt64,
            TypeEntry::Float32 => DataType::Float32,
            TypeEntry::Float64 => DataType::Float64,
            TypeEntry::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale),
            TypeEntry::Date => DataType::Date32,
            TypeEntry::Time => DataType::Time64(TimeUnit::Microsecond),
            TypeEntry::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            TypeEntry::TimestampIn(zone) => DataType::Timestamp(TimeUnit::Microsecond, Some(zone.as_str().into())),
            TypeEntry::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            TypeEntry::Text => DataType::Utf8,
            TypeEntry::Binary => DataType::Binary,
            TypeEntry::Uuid => UUID,
            TypeEntry::List(item) => DataType::List(Arc::new(item.field())),
            TypeEntry::Struct(fields) => {
                let fields: Fields = fields.iter().map(ColumnEntry::field).collect();
                DataType::Struct(fields)
            }
        }
    }
}

impl ColumnEntry {
    /// The entry of an Arrow field; `None` for a type that state does not hold.
    pub(super) fn of(field: &Field) -> Option<ColumnEntry> {
        let metadata = field.metadata().iter().map(|(key, value)| (key.clone(), value.clone()));
        Some(ColumnEntry {
            name: field.name().clone(),
            data_type: TypeEntry::of(field.data_type())?,
            sql_type: None,
            nullable: field.is_nullable(),
            metadata: metadata.collect(),
        })
    }

    /// The Arrow field.
    pub fn field(&self) -> Field {
        let metadata = self.metadata.iter().map(|(key, value)| (key.clone(), value.clone()));
        Field::new(&self.name, self.data_type.data_type(), self.nullable).with_metadata(metadata.collect())
    }
}

/// The Arrow schema of columns.
pub(super) fn schema_of(columns: &[ColumnEntry]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(ColumnEntry::field).collect::<Vec<_>>()))
}
