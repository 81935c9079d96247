//! Names of column types in JSON answers, as PostgreSQL's `format_type` writes them.

use arrow::datatypes::{DataType, Field};
use std::borrow::Cow;

/// Metadata key of a field whose type its Arrow type does not tell.
const TYPE_KEY: &str = "cenote.type";

/// The SQL type of a column.
pub fn type_name(field: &Field) -> Cow<'_, str> {
    match field.metadata().get(TYPE_KEY) {
        Some(name) => Cow::Borrowed(name),
        None => arrow_type_name(field.data_type()),
    }
}

fn arrow_type_name(data_type: &DataType) -> Cow<'static, str> {
    Cow::Borrowed(match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::Int16 | DataType::UInt8 => "smallint",
        DataType::Int32 | DataType::UInt16 => "integer",
        DataType::Int64 | DataType::UInt32 => "bigint",
        DataType::UInt64 => "numeric(20,0)",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            return Cow::Owned(format!("numeric({precision},{scale})"));
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => "text",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "bytea",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time without time zone",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            return Cow::Owned(format!("{}[]", type_name(item)));
        }
        DataType::Dictionary(_, value) => return arrow_type_name(value),
        DataType::Struct(_) | DataType::Map(_, _) => "record",
        other => return Cow::Owned(other.to_string().to_lowercase()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::TimeUnit;

    #[test]
    fn types_are_named_as_postgresql_names_them() {
        let name = |data_type: DataType| type_name(&Field::new("c", data_type, true)).into_owned();
        assert_eq!(name(DataType::Decimal128(18, 2)), "numeric(18,2)");
        assert_eq!(name(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))), "timestamp with time zone");
        assert_eq!(name(DataType::new_list(DataType::Utf8, true)), "text[]");
        let json = Field::new("c", DataType::Utf8, true).with_metadata([(TYPE_KEY.into(), "jsonb".into())].into());
        assert_eq!(type_name(&json), "jsonb");
    }
}
