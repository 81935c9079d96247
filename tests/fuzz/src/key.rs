//! Keys of `/api/v1/queryable_state/{name}?...`: the query string, and the text of a value by its column's type.
//!
//! # Rules checked
//! 1. No bytes make the readers panic.
//! 2. What was read, printed and read again is the same, and prints the same.

use crate::key_query::KeyQuery;
use crate::pgtext::{Formatter, TextStyle, parse_array};
use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use cenote_statestore::forms::{json, uuid};
use std::sync::Arc;

/// Checks one input: its first byte says what the rest is.
pub fn check(data: &[u8]) {
    let Some((kind, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let types = types();
    match types.get(*kind as usize % (types.len() + 1)) {
        Some(data_type) => value(text, data_type),
        None => query(text),
    }
}

fn types() -> Vec<DataType> {
    let list = |item: DataType| DataType::List(Arc::new(Field::new("item", item, true)));
    vec![
        DataType::Boolean,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::Float32,
        DataType::Float64,
        DataType::Decimal128(38, 9),
        DataType::Decimal128(5, 2),
        DataType::Utf8,
        DataType::Binary,
        DataType::Date32,
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        DataType::Interval(IntervalUnit::MonthDayNano),
        uuid::UUID,
        json::json_type(),
        json::jsonb_type(),
        list(DataType::Int64),
        list(DataType::Utf8),
        list(DataType::Decimal128(38, 9)),
        list(DataType::Timestamp(TimeUnit::Microsecond, None)),
    ]
}

fn printed(array: &ArrayRef, data_type: &DataType) -> String {
    let field = Field::new("k", data_type.clone(), true);
    let formatter =
        Formatter::new(&field, array.as_ref(), &TextStyle::default()).expect("a type that is read is written");
    formatter.text(0).expect("a text is not NULL")
}

fn value(text: &str, data_type: &DataType) {
    let Ok(first) = parse_array(&[Some(text)], data_type) else {
        return;
    };
    assert_eq!(first.data_type(), data_type);
    let once = printed(&first, data_type);
    let second = match parse_array(&[Some(&once)], data_type) {
        Ok(second) => second,
        Err(error) => panic!(
            "{data_type}: {text:?} was printed as {once:?}, which does not read: {}",
            error.render()
        ),
    };
    let twice = printed(&second, data_type);
    assert_eq!(once, twice, "{data_type}: {text:?}");
    if !matches!(data_type, DataType::Float32 | DataType::Float64) {
        assert_eq!(&first, &second, "{data_type}: {text:?}, printed as {once:?}");
    }
}

fn query(text: &str) {
    let Ok(first) = KeyQuery::parse(Some(text)) else { return };
    assert!(
        first.columns.is_empty() || first.columns.len() == first.key.len(),
        "{first:?}"
    );
    let mut out = form_urlencoded::Serializer::new(String::new());
    for (index, value) in first.key.iter().enumerate() {
        let value = value.as_deref().unwrap_or_default();
        match first.columns.get(index) {
            Some(column) => out.append_pair(&format!("\"{column}\""), value),
            None => out.append_pair("key", value),
        };
    }
    for numbers in &first.numbers {
        out.append_pair("numbers", numbers);
    }
    let once = out.finish();
    let second =
        KeyQuery::parse(Some(&once)).unwrap_or_else(|_| panic!("{text:?} was printed as {once:?}, which is refused"));
    // `""=1` names no column: a name of two quotes is itself.
    if first.columns.iter().all(|column| !column.is_empty()) {
        assert_eq!(first, second, "{text:?} was printed as {once:?}");
    }
}
