//! Which PostgreSQL type a column is: Arrow types and field metadata on one side, OIDs and names on the other.
//!
//! # Rules kept here
//! 1. **Metadata wins.** A field's metadata key [`TYPE_KEY`] (`jsonb`, `uuid`, `varchar(20)`, `regclass` ...) says
//!    what the Arrow type cannot.
//! 2. **Nothing narrows.** Each Arrow type maps to a PostgreSQL type that holds all its values, with one exception:
//!    `UInt64` is `bigint`, as what clients expect of counters and epochs; a value above 2^63-1 is an error in binary
//!    form and is printed in full as text.
//!
//! # Not here
//! The values' text and binary forms are [`crate::pgtext`].

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use cenote_statestore::forms::json;
use cenote_statestore::forms::uuid::UUID;

mod table;
#[cfg(test)]
mod tests;

use table::SCALARS;

/// Key of a field's metadata that names its PostgreSQL type where the Arrow type does not imply it.
pub const TYPE_KEY: &str = "cenote.type";

/// The zone that the Arrow type of every `timestamptz` names.
pub const TIMESTAMPTZ_ZONE: &str = "+00:00";

/// OIDs that code elsewhere asks about.
pub mod oid {
    #![allow(missing_docs)]
    pub const BOOL: u32 = 16;
    pub const BYTEA: u32 = 17;
    pub const CHAR: u32 = 18;
    pub const NAME: u32 = 19;
    pub const INT8: u32 = 20;
    pub const INT2: u32 = 21;
    pub const INT4: u32 = 23;
    pub const TEXT: u32 = 25;
    pub const OID: u32 = 26;
    pub const JSON: u32 = 114;
    pub const FLOAT4: u32 = 700;
    pub const FLOAT8: u32 = 701;
    pub const UNKNOWN: u32 = 705;
    pub const BPCHAR: u32 = 1042;
    pub const VARCHAR: u32 = 1043;
    pub const DATE: u32 = 1082;
    pub const TIME: u32 = 1083;
    pub const TIMESTAMP: u32 = 1114;
    pub const TIMESTAMPTZ: u32 = 1184;
    pub const INTERVAL: u32 = 1186;
    pub const NUMERIC: u32 = 1700;
    pub const RECORD: u32 = 2249;
    pub const RECORD_ARRAY: u32 = 2287;
    pub const UUID: u32 = 2950;
    pub const JSONB: u32 = 3802;
}

/// One type of PostgreSQL's catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PgType {
    /// `pg_type.oid`.
    pub oid: u32,
    /// `pg_type.typname`, such as `int4` or `_int4`.
    pub name: &'static str,
    /// `pg_type.typlen`: bytes of a value, -1 where it varies.
    pub size: i16,
    /// OID of the element type of an array; 0 for others.
    pub element: u32,
    /// OID of the array type with elements of this type; 0 if there is none.
    pub array: u32,
    display: &'static str,
}

/// A type with its modifier: what a row description says of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnType {
    /// The type.
    pub pg: PgType,
    /// `atttypmod`: precision and scale of `numeric`, length of `varchar`; -1: none.
    pub typmod: i32,
}

impl PgType {
    /// The type with this OID; `None` if Cenote does not know it.
    pub fn from_oid(oid: u32) -> Option<PgType> {
        if let Some(scalar) = SCALARS.iter().find(|pg| pg.oid == oid) {
            return Some(*scalar);
        }
        SCALARS
            .iter()
            .find(|pg| pg.array == oid && oid != 0)
            .map(PgType::array_of)
    }

    /// The type by a name that SQL or the catalog uses (`int4`, `integer`, `_int4`, `integer[]`), without modifier.
    pub fn from_name(name: &str) -> Option<PgType> {
        let name = name.trim();
        if let Some(element) = name.strip_suffix("[]") {
            return PgType::from_name(element)
                .filter(|pg| pg.array != 0)
                .map(|pg| pg.to_array());
        }
        let lower = name.to_ascii_lowercase();
        let scalar = SCALARS.iter().find(|pg| pg.name == lower || pg.display == lower);
        let aliased = || {
            table::ALIASES
                .iter()
                .find(|(alias, _)| *alias == lower)
                .map(|(_, oid)| table::scalar(*oid))
        };
        let array = || {
            SCALARS
                .iter()
                .find(|pg| lower.strip_prefix('_') == Some(pg.name) && pg.array != 0)
        };
        scalar
            .copied()
            .or_else(aliased)
            .or_else(|| array().map(PgType::array_of))
    }

    /// The array type whose elements are of this type; an array type is its own, as PostgreSQL has it.
    pub fn to_array(self) -> PgType {
        if self.element != 0 {
            self
        } else {
            PgType::array_of(&self)
        }
    }

    fn array_of(element: &PgType) -> PgType {
        let name = table::array_name(element.oid);
        PgType {
            oid: element.array,
            name,
            size: -1,
            element: element.oid,
            array: 0,
            display: element.display,
        }
    }

    /// Whether values are arrays.
    pub fn is_array(&self) -> bool {
        self.element != 0
    }

    /// The type as `format_type` prints it, with `typmod` (-1: none): `numeric(10,2)`, `timestamp with time zone`,
    /// `integer[]`.
    pub fn display(&self, typmod: i32) -> String {
        let scalar_oid = if self.is_array() { self.element } else { self.oid };
        let mut text = display_scalar(scalar_oid, self.display, typmod);
        if self.is_array() {
            text.push_str("[]");
        }
        text
    }

    /// The Arrow type that holds values of this type by themselves, as of a parameter that a client declares.
    ///
    /// # Returns
    /// `None` for `unknown`, and for `numeric`, whose scale only a value or a column tells.
    pub fn data_type(&self) -> Option<DataType> {
        if self.is_array() {
            let element = PgType::from_oid(self.element)?.data_type()?;
            return Some(DataType::List(Field::new("item", element, true).into()));
        }
        Some(match self.oid {
            oid::BOOL => DataType::Boolean,
            oid::BYTEA => DataType::Binary,
            oid::INT2 => DataType::Int16,
            oid::INT4 => DataType::Int32,
            oid::INT8 => DataType::Int64,
            oid::FLOAT4 => DataType::Float32,
            oid::FLOAT8 => DataType::Float64,
            oid::DATE => DataType::Date32,
            oid::TIME => DataType::Time64(TimeUnit::Microsecond),
            oid::TIMESTAMP => DataType::Timestamp(TimeUnit::Microsecond, None),
            oid::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some(TIMESTAMPTZ_ZONE.into())),
            oid::INTERVAL => DataType::Interval(IntervalUnit::MonthDayNano),
            oid::UUID => UUID,
            oid::JSON => json::json_type(),
            oid::JSONB => json::jsonb_type(),
            oid::NUMERIC | oid::UNKNOWN => return None,
            _ if table::is_oid_like(self.oid) => DataType::Int64,
            _ => DataType::Utf8,
        })
    }

    /// The name that PostgreSQL's input functions use in their errors (`timestamp`, `integer`, `double precision`).
    pub fn input_name(&self) -> &'static str {
        match self.oid {
            oid::TIMESTAMP => "timestamp",
            oid::TIME => "time",
            _ => self.display,
        }
    }
}

fn display_scalar(scalar_oid: u32, display: &str, typmod: i32) -> String {
    match scalar_oid {
        oid::NUMERIC if typmod >= 4 => {
            let (precision, scale) = numeric_parts(typmod);
            format!("numeric({precision},{scale})")
        }
        oid::VARCHAR | oid::BPCHAR if typmod >= 4 => format!("{display}({})", typmod - 4),
        oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ if typmod >= 0 => {
            let (head, tail) = display.split_once(' ').unwrap_or((display, ""));
            format!("{head}({typmod}) {tail}")
        }
        oid::INTERVAL if typmod >= 0 && typmod & 0xffff != 0xffff => format!("{display}({})", typmod & 0xffff),
        _ => display.to_string(),
    }
}

impl ColumnType {
    /// The type of a column: its metadata, else its Arrow type.
    pub fn of(field: &Field) -> ColumnType {
        let named = field.metadata().get(TYPE_KEY).and_then(|name| ColumnType::parse(name));
        named.unwrap_or_else(|| ColumnType::of_data_type(field.data_type()))
    }

    /// The type that an Arrow type implies. What PostgreSQL has no word for is `text`.
    pub fn of_data_type(data_type: &DataType) -> ColumnType {
        let plain = |oid| ColumnType {
            pg: table::scalar(oid),
            typmod: -1,
        };
        match data_type {
            DataType::Boolean => plain(oid::BOOL),
            DataType::Int8 | DataType::Int16 | DataType::UInt8 => plain(oid::INT2),
            DataType::Int32 | DataType::UInt16 => plain(oid::INT4),
            DataType::Int64 | DataType::UInt32 | DataType::UInt64 => plain(oid::INT8),
            DataType::Float16 | DataType::Float32 => plain(oid::FLOAT4),
            DataType::Float64 => plain(oid::FLOAT8),
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => ColumnType {
                pg: table::scalar(oid::NUMERIC),
                typmod: numeric_typmod(*precision, *scale),
            },
            uuid if *uuid == UUID => plain(oid::UUID),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
                plain(oid::BYTEA)
            }
            DataType::Date32 => plain(oid::DATE),
            DataType::Time32(_) | DataType::Time64(_) => plain(oid::TIME),
            DataType::Timestamp(_, None) | DataType::Date64 => plain(oid::TIMESTAMP),
            DataType::Timestamp(_, Some(_)) => plain(oid::TIMESTAMPTZ),
            DataType::Interval(_) | DataType::Duration(_) => plain(oid::INTERVAL),
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                let element = ColumnType::of(item);
                ColumnType {
                    pg: element.pg.to_array(),
                    typmod: element.typmod,
                }
            }
            DataType::Struct(_) => plain(match json::name_of(data_type) {
                Some("json") => oid::JSON,
                Some(_) => oid::JSONB,
                None => oid::RECORD,
            }),
            DataType::Map(_, _) => plain(oid::JSON),
            DataType::Dictionary(_, values) => ColumnType::of_data_type(values),
            _ => plain(oid::TEXT),
        }
    }

    /// Reads a type with its modifier, such as `numeric(10,2)`, `varchar(20)[]` or `jsonb`.
    pub fn parse(text: &str) -> Option<ColumnType> {
        let Some((name, rest)) = text.split_once('(') else {
            return Some(ColumnType {
                pg: PgType::from_name(text)?,
                typmod: -1,
            });
        };
        let (arguments, suffix) = rest.split_once(')')?;
        // The catalog's type `char` takes no length; with one it is SQL's `character`.
        let name = if name.trim().eq_ignore_ascii_case("char") {
            "bpchar"
        } else {
            name.trim()
        };
        let pg = PgType::from_name(&format!("{name}{}", suffix.trim()))?;
        let numbers: Vec<i32> = arguments
            .split(',')
            .map(|part| part.trim().parse().ok())
            .collect::<Option<_>>()?;
        let scalar_oid = if pg.is_array() { pg.element } else { pg.oid };
        let typmod = match (scalar_oid, numbers.as_slice()) {
            (oid::NUMERIC, [precision]) => numeric_typmod(u8::try_from(*precision).ok()?, 0),
            (oid::NUMERIC, [precision, scale]) => {
                numeric_typmod(u8::try_from(*precision).ok()?, i8::try_from(*scale).ok()?)
            }
            (oid::VARCHAR | oid::BPCHAR, [length]) => length.checked_add(4)?,
            (_, [digits]) => *digits,
            _ => return None,
        };
        Some(ColumnType { pg, typmod })
    }

    /// The type as `format_type` prints it.
    pub fn display(&self) -> String {
        self.pg.display(self.typmod)
    }
}

/// The type of a column as people are shown it: with its fields where it is a STRUCT.
pub fn shown_type(field: &Field) -> String {
    let column = ColumnType::of(field);
    match column.pg.oid {
        oid::RECORD | oid::RECORD_ARRAY => crate::types::type_name(field.data_type()),
        _ => column.display(),
    }
}

/// `atttypmod` of `numeric(precision, scale)`.
pub fn numeric_typmod(precision: u8, scale: i8) -> i32 {
    (((precision as i32) << 16) | (scale as i32 & 0x7ff)) + 4
}

/// Precision and scale of a `numeric` with this `atttypmod`, which is at least 4.
pub fn numeric_parts(typmod: i32) -> (i32, i32) {
    let packed = typmod - 4;
    // The scale is a signed number of 11 bits.
    ((packed >> 16) & 0xffff, ((packed & 0x7ff) ^ 1024) - 1024)
}
