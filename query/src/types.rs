//! SQL types and the Arrow types that the store keeps them in.

use crate::parse::structs;
use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use cenote_statestore::forms::uuid::UUID;
use cenote_statestore::forms::{json, list, record};
use cenote_statestore::{Error, ErrorKind, Result};
use datafusion::error::Result as PlanResult;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType as SqlType, ExactNumberInfo, ObjectName, TimezoneInfo,
};
use std::sync::Arc;

/// Name of the zone that every TIMESTAMPTZ is kept in.
pub const UTC: &str = "+00:00";

/// Digits of the widest NUMERIC.
pub const NUMERIC_DIGITS_MAX: u8 = 38;

/// Digits behind the point of a NUMERIC without precision, which has any number of them in PostgreSQL. A value with more
/// is refused, not rounded.
pub(crate) const OPEN_SCALE: i8 = 18;

/// The Arrow type of NUMERIC without precision.
pub(crate) const OPEN_NUMERIC: DataType = DataType::Decimal128(NUMERIC_DIGITS_MAX, OPEN_SCALE);

/// The NUMERIC that holds every value of a type: its own digits if it is exact.
pub(crate) fn numeric_of(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Decimal128(_, _) => data_type.clone(),
        DataType::Int8 | DataType::UInt8 | DataType::Int16 | DataType::UInt16 | DataType::Int32 => {
            DataType::Decimal128(10, 0)
        }
        DataType::UInt32 | DataType::Int64 => DataType::Decimal128(19, 0),
        DataType::UInt64 => DataType::Decimal128(20, 0),
        _ => OPEN_NUMERIC,
    }
}

/// Digits of a second that times are kept to.
const MICROSECOND_DIGITS: u64 = 6;

/// The Arrow type of TIMESTAMPTZ.
pub fn timestamptz() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
}

/// The Arrow type of a SQL type; `None` where DataFusion's own choice is right.
fn own_choice(sql_type: &SqlType) -> Option<DataType> {
    Some(match sql_type {
        SqlType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) | SqlType::Datetime(_) => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        SqlType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => timestamptz(),
        SqlType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => DataType::Time64(TimeUnit::Microsecond),
        SqlType::Bytea => DataType::Binary,
        SqlType::TinyInt(_) => DataType::Int16,
        SqlType::Uuid => UUID,
        SqlType::JSON => json::json_type(),
        SqlType::JSONB => json::jsonb_type(),
        SqlType::Interval { .. } => DataType::Interval(IntervalUnit::MonthDayNano),
        SqlType::Numeric(ExactNumberInfo::None)
        | SqlType::Decimal(ExactNumberInfo::None)
        | SqlType::Dec(ExactNumberInfo::None) => OPEN_NUMERIC,
        SqlType::Custom(name, fields) if is_struct(name, fields) => return None,
        SqlType::Custom(name, _) => return custom_choice(&name.to_string().to_lowercase()),
        _ => return None,
    })
}

fn custom_choice(name: &str) -> Option<DataType> {
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    Some(match name {
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "int8" => DataType::Int64,
        "float4" => DataType::Float32,
        "float8" => DataType::Float64,
        "bool" => DataType::Boolean,
        "timestamptz" => timestamptz(),
        "text" | "varchar" | "name" | "bpchar" => DataType::Utf8,
        _ => return None,
    })
}

/// A type that only the system catalog has, with its name: the Arrow type does not tell it.
fn catalog_type(sql_type: &SqlType) -> Option<Field> {
    let name = match sql_type {
        SqlType::Regclass => "regclass".to_string(),
        SqlType::Custom(name, _) => name.to_string().to_lowercase().replace('"', ""),
        _ => return None,
    };
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    let data_type = match name {
        "oid" | "xid" | "regclass" | "regtype" | "regproc" | "regnamespace" | "regrole" => DataType::Int32,
        "name" | "char" => DataType::Utf8,
        _ => return None,
    };
    Some(Field::new("", data_type, true).with_metadata(crate::pg_catalog::metadata(name)))
}

/// Tells DataFusion's planner PostgreSQL's types.
#[derive(Debug)]
pub struct PostgresTypes;

impl TypePlanner for PostgresTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> PlanResult<Option<FieldRef>> {
        if matches!(sql_type, SqlType::Timestamp(Some(_), _) | SqlType::Time(Some(_), _)) {
            column_type(sql_type).map_err(crate::provider::outside)?;
        }
        if let SqlType::Custom(name, fields) = sql_type
            && is_struct(name, fields)
        {
            let data_type = column_type(sql_type).map_err(crate::provider::outside)?;
            return Ok(Some(Arc::new(Field::new("", data_type, true))));
        }
        let own = || own_choice(sql_type).map(|data_type| Field::new("", data_type, true));
        Ok(catalog_type(sql_type).or_else(own).map(Arc::new))
    }
}

/// Names that a misspelt type may have meant.
const TYPE_NAMES: [&str; 19] = [
    "bigint",
    "boolean",
    "bytea",
    "date",
    "double precision",
    "integer",
    "interval",
    "json",
    "jsonb",
    "numeric",
    "real",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
    "varchar",
    "int",
];

/// The Arrow type of a column's declared type.
///
/// # Errors
/// `Unsupported` 0A000: the type is not built. `Invalid` 42704: there is no such type.
pub fn column_type(sql_type: &SqlType) -> Result<DataType> {
    if let SqlType::Timestamp(Some(digits), _)
    | SqlType::Time(Some(digits), TimezoneInfo::None | TimezoneInfo::WithoutTimeZone)
    | SqlType::Datetime(Some(digits)) = sql_type
        && *digits != MICROSECOND_DIGITS
    {
        return Err(unsupported_type(sql_type).attempt("leave the precision out: times are kept to the microsecond"));
    }
    if let SqlType::Interval { fields: Some(_), .. }
    | SqlType::Interval {
        precision: Some(0..=5), ..
    } = sql_type
    {
        return Err(unsupported_type(sql_type));
    }
    if let Some(own) = own_choice(sql_type) {
        return Ok(own);
    }
    Ok(match sql_type {
        SqlType::Boolean | SqlType::Bool => DataType::Boolean,
        SqlType::SmallInt(_) | SqlType::Int2(_) => DataType::Int16,
        SqlType::Int(_) | SqlType::Integer(_) | SqlType::Int4(_) => DataType::Int32,
        SqlType::BigInt(_) | SqlType::Int8(_) => DataType::Int64,
        SqlType::Real | SqlType::Float4 => DataType::Float32,
        SqlType::DoublePrecision | SqlType::Float8 | SqlType::Double(_) => DataType::Float64,
        SqlType::Float(ExactNumberInfo::None) => DataType::Float64,
        SqlType::Float(ExactNumberInfo::Precision(bits)) => {
            if *bits <= 24 {
                DataType::Float32
            } else {
                DataType::Float64
            }
        }
        SqlType::Numeric(info) | SqlType::Decimal(info) | SqlType::Dec(info) => decimal_type(info)?,
        SqlType::Text
        | SqlType::Varchar(_)
        | SqlType::CharacterVarying(_)
        | SqlType::String(_)
        | SqlType::Char(_)
        | SqlType::Character(_)
        | SqlType::CharVarying(_) => DataType::Utf8,
        SqlType::Date => DataType::Date32,
        SqlType::Array(ArrayElemTypeDef::SquareBracket(element, None)) => {
            let is_cut = crate::lengths::length_max(element).is_some();
            let array = list::array_type(column_type(element)?);
            match list::element_of(&array).filter(|_| !is_cut) {
                Some(_) => array,
                None => return Err(unsupported_type(sql_type)),
            }
        }
        SqlType::Custom(name, fields) if is_struct(name, fields) => struct_type(&fields.join(", "), sql_type)?,
        SqlType::Custom(name, _) => {
            let message = format!("cannot use type \"{name}\": it does not exist");
            let error = Error::new(ErrorKind::Invalid, "SQL-0104", message).sqlstate("42704");
            return Err(crate::error::near(error, &name.to_string().to_lowercase(), TYPE_NAMES));
        }
        other => return Err(unsupported_type(other)),
    })
}

fn is_struct(name: &ObjectName, fields: &[String]) -> bool {
    !fields.is_empty() && name.to_string().eq_ignore_ascii_case(structs::NAME)
}

/// The type of a STRUCT by the text of its fields.
///
/// # Errors
/// 42701: a name comes twice. 0A000: a field is of a type that is not built. Those of a field's type.
fn struct_type(fields: &str, sql_type: &SqlType) -> Result<DataType> {
    let unread = |_| unsupported_type(sql_type);
    let mut named: Vec<(String, DataType)> = Vec::new();
    for (name, field) in structs::fields(fields).map_err(unread)? {
        let name = crate::names::folded(&name);
        if named.iter().any(|(known, _)| *known == name) {
            let message = format!("cannot use type {sql_type}: field \"{name}\" is named twice");
            return Err(Error::new(ErrorKind::Invalid, "SQL-0326", message).sqlstate("42701"));
        }
        if crate::lengths::length_max(&field).is_some() {
            let error = unsupported_type(sql_type).fact("field", &name);
            return Err(error.attempt("use TEXT: lengths of texts inside a STRUCT are not checked"));
        }
        let data_type = column_type(&field).map_err(|error| error.fact("field", &name))?;
        named.push((name, data_type));
    }
    let data_type = record::record_type(named);
    match record::kept_fields_of(&data_type) {
        Some(_) => Ok(data_type),
        None => Err(unsupported_type(sql_type).attempt("give the field another name than json or jsonb")),
    }
}

fn unsupported_type(sql_type: &SqlType) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        "SQL-0105",
        format!("cannot use type {sql_type}: columns of it are not supported yet"),
    )
}

fn decimal_type(info: &ExactNumberInfo) -> Result<DataType> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => (NUMERIC_DIGITS_MAX as u64, OPEN_SCALE as i64),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if precision == 0 || precision > 38 || scale < 0 || scale as u64 > precision {
        let reason = "precision goes from 1 to 38 and scale from 0 to the precision";
        return Err(Error::new(
            ErrorKind::Invalid,
            "SQL-0106",
            format!("cannot use type NUMERIC({precision},{scale}): {reason}"),
        )
        .sqlstate("22023"));
    }
    Ok(DataType::Decimal128(precision as u8, scale as i8))
}

/// PostgreSQL's name of an Arrow type, as `format_type` gives it.
pub fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".into(),
        DataType::Int8 | DataType::Int16 => "smallint".into(),
        DataType::Int32 => "integer".into(),
        DataType::Int64 | DataType::UInt32 => "bigint".into(),
        DataType::UInt64 => "numeric(20,0)".into(),
        DataType::Float32 => "real".into(),
        DataType::Float64 => "double precision".into(),
        DataType::Decimal128(precision, scale) => format!("numeric({precision},{scale})"),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null => "text".into(),
        uuid if *uuid == UUID => "uuid".into(),
        DataType::Struct(_) if json::name_of(data_type).is_some() => {
            json::name_of(data_type).unwrap_or_default().into()
        }
        DataType::Struct(fields) => {
            let field = |field: &FieldRef| format!("{} {}", quoted_name(field.name()), type_name(field.data_type()));
            format!("STRUCT<{}>", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_) => {
            "bytea".into()
        }
        DataType::Date32 | DataType::Date64 => "date".into(),
        DataType::Time32(_) | DataType::Time64(_) => "time without time zone".into(),
        DataType::Timestamp(_, None) => "timestamp without time zone".into(),
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone".into(),
        DataType::Interval(_) | DataType::Duration(_) => "interval".into(),
        DataType::List(item) | DataType::LargeList(item) => format!("{}[]", type_name(item.data_type())),
        other => other.to_string().to_lowercase(),
    }
}

/// A name as SQL text, in quotes where folding would change it.
fn quoted_name(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let is_word = name.bytes().all(is_plain) && !name.starts_with(|first: char| first.is_ascii_digit());
    match is_word && !name.is_empty() {
        true => name.to_string(),
        false => crate::names::quoted(name),
    }
}

/// The type that a value of a type is kept in: itself, or the nearest one that the store keeps exactly.
pub fn stored_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::Float16 => DataType::Float32,
        DataType::Utf8View | DataType::LargeUtf8 | DataType::Null => DataType::Utf8,
        uuid if *uuid == UUID => UUID,
        DataType::BinaryView | DataType::LargeBinary | DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(_, None) => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(_, Some(_)) => timestamptz(),
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Dictionary(_, values) => return stored_type(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            let array = list::array_type(stored_type(item.data_type())?);
            list::element_of(&array)?;
            array
        }
        DataType::Struct(fields) if json::name_of(data_type).is_none() => {
            let kept = fields
                .iter()
                .map(|field| Some((field.name().clone(), stored_type(field.data_type())?)));
            let data_type = record::record_type(kept.collect::<Option<Vec<_>>>()?);
            record::kept_fields_of(&data_type)?;
            data_type
        }
        other if cenote_statestore::storable(other) => other.clone(),
        _ => return None,
    })
}
