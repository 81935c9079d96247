//! Lines of JSON objects to rows.
//!
//! # Rules checked
//! 1. No bytes make the reader panic.
//! 2. **No line is lost.** A line that is not blank is a row or a bad line, in order, wherever the bytes are cut into
//!    pieces and however small the batches are.
//! 3. **All or nothing.** A body is taken whole exactly when no line of it is bad, with the same rows.
//! 4. **JSON is what serde_json says.** A line that it refuses is bad; of a line that it takes the reader says at
//!    most that a value does not fit its column, and the row has serde_json's values.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::concat_batches;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, Float64Type, Int64Type, Schema, SchemaRef, TimeUnit,
};
use cenote_connectors::decode::{BadLine, BodyFormat, LineRules, decode_body, decode_lines};
use cenote_statestore::forms::{json, uuid};
use serde_json::{Map, Value};
use std::sync::{Arc, LazyLock};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let list = |item: DataType| DataType::List(Arc::new(Field::new("item", item, true)));
    let columns = [
        ("n", DataType::Int64),
        ("w", DataType::Utf8),
        ("b", DataType::Boolean),
        ("f", DataType::Float64),
        ("d", DataType::Decimal128(18, 4)),
        ("day", DataType::Date32),
        ("ts", DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into()))),
        ("j", json::jsonb_type()),
        ("a", list(DataType::Int64)),
        ("t", list(DataType::Utf8)),
        ("u", uuid::UUID),
        ("x", DataType::Binary),
    ];
    let fields = columns.map(|(name, data_type)| Field::new(name, data_type, true));
    Arc::new(Schema::new(fields.to_vec()))
});

type Read = (RecordBatch, Vec<BadLine>);

fn read(pieces: &[&[u8]], strict: bool, batch_rows: usize) -> Read {
    let rules = LineRules {
        strict,
        line_bytes_max: 1 << 20,
        batch_rows,
    };
    let (batches, bad) = decode_lines(&SCHEMA, pieces, rules).expect("every type of the schema is read");
    (concat_batches(&SCHEMA, &batches).expect("batches of one schema"), bad)
}

/// Checks one input: its first byte says where it is cut, the rest are the lines.
pub fn check(data: &[u8]) {
    let Some((cut, body)) = data.split_first() else { return };
    let whole = read(&[body], false, 65_536);
    let (left, right) = body.split_at(body.len() * *cut as usize / 256);
    assert_eq!(whole, read(&[left, right], false, 65_536), "cut at {}", left.len());
    let bytes: Vec<&[u8]> = body.chunks(1 + *cut as usize % 7).collect();
    assert_eq!(whole, read(&bytes, false, 1 + *cut as usize % 3), "in small pieces");
    all_or_nothing(body);
    lines(body, &whole);
}

fn all_or_nothing(body: &[u8]) {
    // A mark at the beginning of a body is no part of it.
    let (rows, bad) = read(&[body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body)], true, 65_536);
    match decode_body(&SCHEMA, BodyFormat::Ndjson, body) {
        Ok(batches) => {
            assert_eq!(bad, []);
            assert_eq!(rows, concat_batches(&SCHEMA, &batches).expect("batches of one schema"));
        }
        Err(error) => {
            let first = bad
                .first()
                .unwrap_or_else(|| panic!("refused without a bad line: {}", error.render()));
            assert!(
                error.message().contains(&format!("line {} ", first.line)),
                "{} {first:?}",
                error.render()
            );
        }
    }
}

/// Every line against serde_json.
fn lines(body: &[u8], (rows, bad): &Read) {
    let (mut row, mut bad) = (0, bad.iter().peekable());
    for (index, line) in body.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n')) {
            continue;
        }
        let judged: Result<Map<String, Value>, _> = serde_json::from_slice(line);
        match bad.next_if(|bad| bad.line == index as u64 + 1) {
            Some(told) => {
                assert_eq!(told.bytes, line);
                let of_form = told.reason.contains("invalid JSON") && !told.reason.contains("nested too deep");
                assert!(
                    judged.is_err() || !of_form,
                    "{} of {}",
                    told.reason,
                    String::from_utf8_lossy(line)
                );
            }
            None => {
                let object = judged.unwrap_or_else(|error| panic!("{error}: taken: {}", String::from_utf8_lossy(line)));
                assert!(row < rows.num_rows(), "line {} is lost", index + 1);
                values(&object, rows, row);
                row += 1;
            }
        }
    }
    assert_eq!(row, rows.num_rows(), "a row that no line has");
    assert_eq!(bad.next(), None, "a bad line that is none");
}

/// The value that counts for a column: of its very name, else of a name that differs in case only.
fn value_of<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let folded: Vec<&String> = object.keys().filter(|key| key.eq_ignore_ascii_case(name)).collect();
    // Among several spellings of a name the last counts, and a map does not tell which that was.
    match (object.get(name), folded.as_slice()) {
        (Some(exact), _) => Some(exact),
        (None, [one]) => object.get(*one),
        _ => None,
    }
}

fn values(object: &Map<String, Value>, rows: &RecordBatch, row: usize) {
    for (index, field) in SCHEMA.fields().iter().enumerate() {
        let column = rows.column(index);
        let Some(value) = value_of(object, field.name()) else {
            continue;
        };
        if value.is_null() {
            assert!(column.is_null(row), "{}: NULL", field.name());
            continue;
        }
        assert!(!column.is_null(row), "{}: {value} became NULL", field.name());
        same(field.name(), value, column, row);
    }
}

fn same(name: &str, value: &Value, column: &dyn Array, row: usize) {
    match (name, value) {
        ("n", Value::Number(number)) if number.is_i64() => {
            assert_eq!(Some(column.as_primitive::<Int64Type>().value(row)), number.as_i64());
        }
        ("w", Value::String(text)) => assert_eq!(column.as_string::<i32>().value(row), text),
        // serde_json keeps an exponent in another way than it was written.
        ("w", Value::Number(number)) => {
            let plain = |text: &str| text.to_lowercase().replace("e+", "e");
            assert_eq!(plain(column.as_string::<i32>().value(row)), plain(&number.to_string()));
        }
        ("b", Value::Bool(flag)) => assert_eq!(column.as_boolean().value(row), *flag),
        ("f", Value::Number(number)) => {
            let expected: f64 = number.to_string().parse().expect("a number");
            assert_eq!(column.as_primitive::<Float64Type>().value(row), expected);
        }
        ("d", Value::Number(number)) if number.is_i64() => {
            let expected = i128::from(number.as_i64().unwrap_or_default()) * 10_000;
            assert_eq!(column.as_primitive::<Decimal128Type>().value(row), expected);
        }
        ("day", _) => assert!(column.as_primitive::<Date32Type>().value(row) >= -2_500_000),
        ("j", value) => {
            let text = column.as_struct().column(0).as_string::<i32>().value(row).to_owned();
            let read: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: kept {text}"));
            assert!(alike(&read, value), "{text} of {value}");
        }
        ("a", Value::Array(items)) => assert_eq!(column.as_list::<i32>().value(row).len(), items.len()),
        ("t", Value::Array(items)) if items.iter().all(Value::is_string) => {
            let kept = column.as_list::<i32>().value(row);
            let kept = kept.as_string::<i32>().iter();
            assert!(kept.eq(items.iter().map(Value::as_str)), "{value}");
        }
        _ => {}
    }
}

/// Equal but for the written form of numbers, which JSONB makes plain.
fn alike(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => true,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| alike(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, value)| right.get(name).is_some_and(|other| alike(value, other)))
        }
        (left, right) => left == right,
    }
}
