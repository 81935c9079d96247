//! Judged by what a PostgreSQL server wrote: `golden/output.tsv` and `golden/input.tsv`.

use super::*;
use crate::pgtype::{ColumnType, PgType, TYPE_KEY};
use arrow::array::*;
use arrow::datatypes::*;
use datafusion::scalar::ScalarValue;
use std::collections::HashMap;
use std::sync::Arc;

const OUTPUT: &str = include_str!("golden/output.tsv");
const INPUT: &str = include_str!("golden/input.tsv");

/// A field of PostgreSQL's COPY text format.
fn unescape(text: &str) -> String {
    let mut characters = text.chars();
    let mut out = String::new();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, false) => out.push(character),
            _ => match characters.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => panic!("a backslash ends {text}"),
            },
        }
    }
    out
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|index| u8::from_str_radix(&hex[index * 2..index * 2 + 2], 16).unwrap())
        .collect()
}

struct Golden {
    pg: PgType,
    style: TextStyle,
    bytes: Vec<u8>,
    text: String,
    line: &'static str,
}

fn golden() -> impl Iterator<Item = Golden> {
    OUTPUT.lines().map(|line| {
        let mut fields = line.split('\t');
        let (name, hex, text) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
        let (name, zone) = name.split_once('@').unwrap_or((name, "UTC"));
        let style = TextStyle {
            zone: Zone::parse(zone).unwrap(),
        };
        Golden {
            pg: PgType::from_name(name).unwrap(),
            style,
            bytes: bytes_of(hex),
            text: unescape(text),
            line,
        }
    })
}

fn is_multidimensional(golden: &Golden) -> bool {
    golden.text.starts_with("{{")
}

fn field_of(data_type: &DataType) -> Field {
    Field::new("c", data_type.clone(), true)
}

fn text_of(array: &ArrayRef, style: &TextStyle) -> String {
    Formatter::new(&field_of(array.data_type()), array, style)
        .unwrap()
        .text(0)
        .unwrap()
}

#[test]
fn values_print_as_postgresql_prints_them() {
    let mut count = 0;
    for golden in golden().filter(|golden| !is_multidimensional(golden)) {
        let array = parse_binary(&golden.bytes, &golden.pg).unwrap().to_array().unwrap();
        assert_eq!(text_of(&array, &golden.style), golden.text, "{}", golden.line);
        count += 1;
    }
    assert!(count > 5_000, "{count}");
}

#[test]
fn values_leave_in_the_binary_form_of_postgresql() {
    for golden in golden().filter(|golden| !is_multidimensional(golden)) {
        let value = parse_binary(&golden.bytes, &golden.pg).unwrap();
        let array = value.to_array().unwrap();
        let field = field_of(array.data_type());
        assert_eq!(ColumnType::of(&field).pg, golden.pg, "{}", golden.line);
        let mut out = Vec::new();
        BinaryEncoder::new(&field, &array).unwrap().write(&mut out, 0).unwrap();
        assert_eq!(out, golden.bytes, "{}", golden.line);
    }
}

#[test]
fn printed_values_read_back_as_the_same() {
    for golden in golden() {
        let element = ScalarValue::try_from(&DataType::Utf8).unwrap();
        let data_type = match is_multidimensional(&golden) {
            true => {
                let item = PgType::from_oid(golden.pg.element).unwrap().data_type().unwrap();
                let inner = DataType::List(Arc::new(Field::new("item", item, true)));
                DataType::List(Arc::new(Field::new("item", inner, true)))
            }
            false => parse_binary(&golden.bytes, &golden.pg).unwrap_or(element).data_type(),
        };
        let read = parse_array_in(&[Some(&golden.text)], &data_type, &golden.style);
        let array = read.unwrap_or_else(|error| panic!("{}: {error}", golden.line));
        assert_eq!(text_of(&array, &golden.style), golden.text);
        let mut out = Vec::new();
        BinaryEncoder::new(&field_of(&data_type), &array)
            .unwrap()
            .write(&mut out, 0)
            .unwrap();
        assert_eq!(out, golden.bytes, "{}", golden.line);
    }
}

#[test]
fn input_reads_as_postgresql_reads_it() {
    let mut wrong = Vec::new();
    for line in INPUT.lines() {
        let mut fields = line.split('\t').map(unescape);
        let (name, text, expected) = (fields.next().unwrap(), fields.next().unwrap(), fields.next().unwrap());
        let found = attempt(&name, &text);
        if found != expected {
            wrong.push(format!(
                "{name} {text:?}\n  PostgreSQL: {expected}\n      Cenote: {found}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        INPUT.lines().count(),
        wrong.join("\n")
    );
}

fn attempt(name: &str, text: &str) -> String {
    let column = ColumnType::parse(name).unwrap();
    let data_type = match column.pg.data_type() {
        _ if name == "integer[]" && text.starts_with("{{") => {
            let inner = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
            DataType::List(Arc::new(Field::new("item", inner, true)))
        }
        Some(data_type) => data_type,
        None => {
            let (precision, scale) = crate::pgtype::numeric_parts(column.typmod);
            DataType::Decimal128(precision as u8, scale as i8)
        }
    };
    match parse_array(&[Some(text)], &data_type) {
        Ok(array) => {
            let printed = text_of(&array, &TextStyle::default());
            // As a cast to text prints it.
            let is_bool = data_type == DataType::Boolean;
            format!(
                "={}",
                if is_bool {
                    if printed == "t" { "true".into() } else { "false".into() }
                } else {
                    printed
                }
            )
        }
        Err(error) => format!("!{} {}", error.state(), error.message()),
    }
}

#[test]
fn integers_read_the_forms_that_postgresql_16_added() {
    for (text, expected) in [
        ("0x1F", 31),
        ("-0b101", -5),
        ("0o17", 15),
        ("1_000", 1000),
        ("0x_ff", 255),
    ] {
        let array = parse_array(&[Some(text)], &DataType::Int32).unwrap();
        assert_eq!(array.as_primitive::<Int32Type>().value(0), expected);
    }
    for text in ["0x", "_1", "1_", "1__0", "0b2", "0xg"] {
        assert!(parse_array(&[Some(text)], &DataType::Int32).is_err(), "{text}");
    }
}

#[test]
fn values_that_cannot_be_held_are_refused_by_name() {
    let timestamp = DataType::Timestamp(TimeUnit::Microsecond, None);
    for (text, data_type, message) in [
        (
            "NaN",
            DataType::Decimal128(10, 2),
            "cannot read \"NaN\" as numeric: numeric holds no NaN and no infinity here",
        ),
        (
            "infinity",
            DataType::Date32,
            "cannot read \"infinity\" as date: infinity is not held here",
        ),
        (
            "-infinity",
            timestamp,
            "cannot read \"-infinity\" as timestamp: infinity is not held here",
        ),
    ] {
        let error = parse_array(&[Some(text)], &data_type).unwrap_err();
        assert_eq!((error.message(), error.state()), (message, "0A000"));
    }
    let error = parse_array(&[Some("today")], &DataType::Date32).unwrap_err();
    assert!(error.message().contains("current_date"));
    for (oid, bytes) in [
        (1700, "00000000c0000000"),
        (1082, "7fffffff"),
        (1114, "8000000000000000"),
    ] {
        let error = parse_binary(&bytes_of(bytes), &PgType::from_oid(oid).unwrap()).unwrap_err();
        assert_eq!(error.state(), "0A000", "{oid}");
    }
}

#[test]
fn numeric_overflow_names_its_limit() {
    let error = parse_array(&[Some("123456.7")], &DataType::Decimal128(5, 1)).unwrap_err();
    let detail = "limit: a field with precision 5, scale 1 must round to an absolute value less than 10^4";
    assert_eq!((error.state(), error.detail().as_deref()), ("22003", Some(detail)));
}

#[test]
fn damaged_binary_values_are_errors() {
    for golden in golden().step_by(7) {
        for length in 0..golden.bytes.len() {
            let cut = &golden.bytes[..length];
            if !matches!(golden.pg.name, "text" | "bytea") {
                assert!(
                    parse_binary(cut, &golden.pg).is_err(),
                    "{} cut to {length}",
                    golden.line
                );
            }
        }
        let long: Vec<u8> = golden.bytes.iter().copied().chain([7]).collect();
        if !matches!(golden.pg.name, "text" | "bytea") {
            assert!(parse_binary(&long, &golden.pg).is_err(), "{}", golden.line);
        }
    }
    let error = parse_binary(b"\xff", &PgType::from_oid(25).unwrap()).unwrap_err();
    assert_eq!(error.state(), "22021");
    // A count of elements that the bytes do not hold.
    let huge = bytes_of("0000000100000000000000177fffffff00000001");
    assert!(parse_binary(&huge, &PgType::from_oid(1007).unwrap()).is_err());
}

#[test]
fn hostile_array_literals_end_in_an_error() {
    let deep = "{".repeat(100_000);
    let list = DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
    assert_eq!(parse_array(&[Some(&deep)], &list).unwrap_err().state(), "22P02");
}

#[test]
fn null_rows_stay_null() {
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
    for data_type in [
        DataType::Int32,
        DataType::Utf8,
        DataType::Date32,
        DataType::Decimal128(9, 2),
        DataType::Null,
        list,
    ] {
        let array = parse_array(&[None, None], &data_type).unwrap();
        let field = field_of(&data_type);
        let formatter = Formatter::new(&field, &array, &TextStyle::default()).unwrap();
        assert!(formatter.is_null(1) && formatter.text(0).is_none());
        assert!(BinaryEncoder::new(&field, &array).unwrap().is_null(0));
        let mut json = Vec::new();
        write_json(&mut json, &array, 0, false).unwrap();
        assert_eq!(json, b"null");
    }
}

#[test]
fn arrow_types_beyond_those_of_the_store_print_too() {
    let dictionary: DictionaryArray<Int32Type> = vec![Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    let nanos = TimestampNanosecondArray::from(vec![1_704_164_645_123_456_789]);
    let days = IntervalDayTimeArray::from(vec![IntervalDayTime::new(2, -1_500)]);
    let list = FixedSizeListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), None])], 2);
    let record = StructArray::from(vec![
        (
            Arc::new(Field::new("a", DataType::Int32, true)),
            Arc::new(Int32Array::from(vec![1])) as ArrayRef,
        ),
        (
            Arc::new(Field::new("b", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec!["x \"y\""])),
        ),
        (
            Arc::new(Field::new("c", DataType::Utf8, true)),
            Arc::new(StringArray::from(vec![None::<&str>])),
        ),
    ]);
    let uint = UInt64Array::from(vec![u64::MAX]);
    for (array, expected) in [
        (Arc::new(dictionary) as ArrayRef, "a"),
        (Arc::new(nanos), "2024-01-02 03:04:05.123456789"),
        (Arc::new(days), "2 days -00:00:01.5"),
        (Arc::new(list), "{1,NULL}"),
        (Arc::new(record), "(1,\"x \"\"y\"\"\",)"),
        (Arc::new(uint), "18446744073709551615"),
        (Arc::new(DurationSecondArray::from(vec![90_061])), "25:01:01"),
        (Arc::new(IntervalYearMonthArray::from(vec![-14])), "-1 years -2 mons"),
    ] {
        assert_eq!(text_of(&array, &TextStyle::default()), expected);
    }
}

#[test]
fn a_count_beyond_bigint_is_an_error_in_binary_form() {
    let array = UInt64Array::from(vec![u64::MAX]);
    let field = field_of(array.data_type());
    let error = BinaryEncoder::new(&field, &array)
        .unwrap()
        .write(&mut Vec::new(), 0)
        .unwrap_err();
    assert_eq!((error.state(), error.message()), ("22003", "bigint out of range"));
}

#[test]
fn metadata_chooses_the_binary_form() {
    let named = |name: &str, data_type| {
        Field::new("c", data_type, true).with_metadata(HashMap::from([(TYPE_KEY.to_string(), name.to_string())]))
    };
    let encode = |field: &Field, array: &dyn Array| {
        let mut out = Vec::new();
        BinaryEncoder::new(field, array)
            .unwrap()
            .write(&mut out, 0)
            .map(|()| out)
    };
    let text = StringArray::from(vec!["00112233-4455-6677-8899-aabbccddeeff"]);
    assert_eq!(
        encode(&named("uuid", DataType::Utf8), &text).unwrap(),
        bytes_of("00112233445566778899aabbccddeeff")
    );
    let json = StringArray::from(vec!["{}"]);
    assert_eq!(encode(&named("jsonb", DataType::Utf8), &json).unwrap(), b"\x01{}");
    let number = Int64Array::from(vec![4_000_000_000]);
    assert_eq!(
        encode(&named("oid", DataType::Int64), &number).unwrap(),
        4_000_000_000u32.to_be_bytes()
    );
    assert_eq!(
        encode(&named("regclass", DataType::Utf8), &json).unwrap_err().state(),
        "0A000"
    );
    let vector = ListArray::from_iter_primitive::<Int16Type, _, _>([Some([Some(1), Some(2)])]);
    let field = named("int2vector", vector.data_type().clone());
    assert_eq!(
        Formatter::new(&field, &vector, &TextStyle::default())
            .unwrap()
            .text(0)
            .unwrap(),
        "1 2"
    );
}

fn json(array: &dyn Array, numbers_raw: bool) -> String {
    let mut out = Vec::new();
    write_json(&mut out, array, 0, numbers_raw).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn json_keeps_every_digit() {
    for (value, plain, raw) in [
        (9_007_199_254_740_992, "9007199254740992", "9007199254740992"),
        (9_007_199_254_740_993, "\"9007199254740993\"", "9007199254740993"),
        (i64::MIN, "\"-9223372036854775808\"", "-9223372036854775808"),
    ] {
        let array = Int64Array::from(vec![value]);
        assert_eq!(
            (json(&array, false).as_str(), json(&array, true).as_str()),
            (plain, raw)
        );
    }
    let decimal = parse_array(&[Some("-0.50")], &DataType::Decimal128(38, 2)).unwrap();
    assert_eq!(
        (json(&decimal, false).as_str(), json(&decimal, true).as_str()),
        ("\"-0.50\"", "-0.50")
    );
    let large = UInt64Array::from(vec![u64::MAX]);
    assert_eq!(json(&large, false), "\"18446744073709551615\"");
}

#[test]
fn json_values_have_the_forms_that_are_promised() {
    let timestamp = DataType::Timestamp(TimeUnit::Microsecond, None);
    let timestamptz = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let list = DataType::List(Arc::new(Field::new("item", DataType::Float64, true)));
    for (text, data_type, expected) in [
        ("t", DataType::Boolean, "true"),
        ("1.5", DataType::Float64, "1.5"),
        ("1e300", DataType::Float64, "1e+300"),
        ("NaN", DataType::Float64, "\"NaN\""),
        ("-inf", DataType::Float32, "\"-Infinity\""),
        ("a\"b\\\n\u{1}ü", DataType::Utf8, "\"a\\\"b\\\\\\n\\u0001ü\""),
        ("\\xdeadbeef", DataType::Binary, "\"3q2+7w==\""),
        ("2024-01-02", DataType::Date32, "\"2024-01-02\""),
        (
            "2024-01-02 03:04:05.123456",
            timestamp,
            "\"2024-01-02T03:04:05.123456\"",
        ),
        ("2024-01-02 03:04:05+02", timestamptz, "\"2024-01-02T01:04:05Z\""),
        (
            "1 day 01:00",
            DataType::Interval(IntervalUnit::MonthDayNano),
            "\"1 day 01:00:00\"",
        ),
        ("{1,NULL,NaN}", list, "[1,null,\"NaN\"]"),
    ] {
        assert_eq!(json(&parse_array(&[Some(text)], &data_type).unwrap(), false), expected);
    }
    let record = StructArray::from(vec![(
        Arc::new(Field::new("a", DataType::Int32, true)),
        Arc::new(Int32Array::from(vec![None])) as ArrayRef,
    )]);
    assert_eq!(json(&record, false), "{\"a\":null}");
}

#[test]
fn json_columns_are_embedded_as_they_are() {
    let array = StringArray::from(vec!["{\"a\":1}"]);
    let metadata = HashMap::from([(TYPE_KEY.to_string(), "jsonb".to_string())]);
    let mut out = Vec::new();
    let field = field_of(&DataType::Utf8);
    JsonWriter::new(&field.clone().with_metadata(metadata), &array, false)
        .unwrap()
        .write(&mut out, 0);
    JsonWriter::new(&field, &array, false).unwrap().write(&mut out, 0);
    assert_eq!(String::from_utf8(out).unwrap(), "{\"a\":1}\"{\\\"a\\\":1}\"");
}

#[test]
fn zones_are_found_by_name_whatever_the_case() {
    for name in ["UTC", "Europe/Berlin", "america/new_york", "EST"] {
        assert!(Zone::parse(name).is_ok(), "{name}");
    }
    let error = Zone::parse("Nowhere/Zone").unwrap_err();
    assert_eq!(
        (error.state(), error.message()),
        ("22023", "time zone \"nowhere/zone\" not recognized")
    );
}

#[test]
fn a_timestamp_without_offset_is_read_in_the_zone_of_the_session() {
    let style = TextStyle {
        zone: Zone::parse("America/New_York").unwrap(),
    };
    let timestamptz = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let array = parse_array_in(&[Some("2024-07-02 03:04:05")], &timestamptz, &style).unwrap();
    assert_eq!(text_of(&array, &TextStyle::default()), "2024-07-02 07:04:05+00");
    assert_eq!(text_of(&array, &style), "2024-07-02 03:04:05-04");
}

#[test]
fn an_arrow_type_that_postgres_has_not_is_refused() {
    let error = parse_array(&[Some("1")], &DataType::Float16).unwrap_err();
    let expected = "error[VALUE-0007]: cannot read text as Arrow type Float16: not supported";
    assert_eq!((error.render().as_str(), error.state()), (expected, "0A000"));
}
