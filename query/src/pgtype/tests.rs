use super::*;
use std::collections::HashMap;
use std::sync::Arc;

fn of(data_type: DataType) -> ColumnType {
    ColumnType::of(&Field::new("c", data_type, true))
}

fn named(name: &str) -> ColumnType {
    let metadata = HashMap::from([(TYPE_KEY.to_string(), name.to_string())]);
    ColumnType::of(&Field::new("c", DataType::Utf8, true).with_metadata(metadata))
}

#[test]
fn arrow_types_have_the_oid_size_and_name_of_postgresql() {
    let list = |item| DataType::List(Arc::new(Field::new("item", item, true)));
    let timestamptz = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    for (data_type, oid, size, display) in [
        (DataType::Boolean, 16, 1, "boolean"),
        (DataType::Int16, 21, 2, "smallint"),
        (DataType::Int32, 23, 4, "integer"),
        (DataType::Int64, 20, 8, "bigint"),
        (DataType::UInt64, 20, 8, "bigint"),
        (DataType::Float32, 700, 4, "real"),
        (DataType::Float64, 701, 8, "double precision"),
        (DataType::Decimal128(18, 2), 1700, -1, "numeric(18,2)"),
        (DataType::Decimal128(38, 38), 1700, -1, "numeric(38,38)"),
        (DataType::Decimal128(5, -2), 1700, -1, "numeric(5,-2)"),
        (DataType::Utf8View, 25, -1, "text"),
        (DataType::Null, 25, -1, "text"),
        (DataType::Binary, 17, -1, "bytea"),
        (DataType::Date32, 1082, 4, "date"),
        (
            DataType::Time64(TimeUnit::Microsecond),
            1083,
            8,
            "time without time zone",
        ),
        (
            DataType::Timestamp(TimeUnit::Microsecond, None),
            1114,
            8,
            "timestamp without time zone",
        ),
        (timestamptz.clone(), 1184, 8, "timestamp with time zone"),
        (DataType::Interval(IntervalUnit::MonthDayNano), 1186, 16, "interval"),
        (list(DataType::Int32), 1007, -1, "integer[]"),
        (list(list(DataType::Utf8)), 1009, -1, "text[]"),
        (list(timestamptz), 1185, -1, "timestamp with time zone[]"),
    ] {
        let column = of(data_type);
        assert_eq!(
            (column.pg.oid, column.pg.size, column.display().as_str()),
            (oid, size, display)
        );
    }
}

#[test]
fn typmod_of_numeric_is_what_postgresql_stores() {
    // select atttypmod from pg_attribute where attname = ... : numeric(18,2), numeric(38,9), numeric(5,-2)
    assert_eq!(of(DataType::Decimal128(18, 2)).typmod, 1_179_654);
    assert_eq!(of(DataType::Decimal128(38, 9)).typmod, 2_490_381);
    assert_eq!(of(DataType::Decimal128(5, -2)).typmod, 329_730);
}

#[test]
fn metadata_of_a_field_wins_over_its_arrow_type() {
    for (name, oid, display) in [
        ("jsonb", 3802, "jsonb"),
        ("uuid", 2950, "uuid"),
        ("varchar(20)", 1043, "character varying(20)"),
        ("char(3)", 1042, "character(3)"),
        ("varchar(20)[]", 1015, "character varying(20)[]"),
        ("numeric(10, 2)", 1700, "numeric(10,2)"),
        ("regclass", 2205, "regclass"),
        ("\"char\"", 18, "\"char\""),
        ("_int4", 1007, "integer[]"),
        ("int", 23, "integer"),
        ("timestamp", 1114, "timestamp without time zone"),
        ("timestamptz(3)", 1184, "timestamp(3) with time zone"),
        ("no_such_type", 25, "text"),
    ] {
        let column = named(name);
        assert_eq!((column.pg.oid, column.display().as_str()), (oid, display), "{name}");
    }
}

#[test]
fn every_type_is_found_by_its_oid_and_by_its_name() {
    for pg in table::SCALARS {
        assert_eq!(PgType::from_oid(pg.oid), Some(*pg));
        assert_eq!(PgType::from_name(pg.name), Some(*pg));
        assert_eq!(table::scalar(pg.oid), *pg);
        if pg.array != 0 {
            let array = PgType::from_oid(pg.array).unwrap();
            assert_eq!((array.element, array.name), (pg.oid, format!("_{}", pg.name).as_str()));
            assert_eq!(PgType::from_name(array.name), Some(array));
            assert_eq!(array.to_array(), array);
        }
    }
    assert_eq!(PgType::from_oid(0), None);
    assert_eq!(PgType::from_oid(4_000_000_000), None);
    assert_eq!(PgType::from_name("nope"), None);
    assert_eq!(PgType::from_name("unknown[]"), None);
}

#[test]
fn parameter_types_are_the_arrow_types_that_map_back() {
    for pg in table::SCALARS {
        if let Some(data_type) = pg.data_type().filter(|_| {
            [
                16, 17, 20, 21, 23, 25, 114, 700, 701, 1082, 1083, 1114, 1186, 2950, 3802,
            ]
            .contains(&pg.oid)
        }) {
            assert_eq!(ColumnType::of_data_type(&data_type).pg, *pg);
        }
    }
    let array = PgType::from_oid(1016).unwrap();
    assert_eq!(ColumnType::of_data_type(&array.data_type().unwrap()).pg, array);
    assert_eq!(PgType::from_oid(1700).unwrap().data_type(), None);
}
