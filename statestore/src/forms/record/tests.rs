use super::super::list::ListBytes;
use super::*;
use arrow::array::{Array, ArrayRef, StringArray, StructArray};
use std::sync::Arc;

fn read(text: &str) -> Result<Vec<Option<String>>, Malformation> {
    let found = items(text)?;
    Ok(found.into_iter().map(|item| item.map(Cow::into_owned)).collect())
}

/// Results of `SELECT (text::ct).*` of PostgreSQL 17 with `CREATE TYPE ct AS (a text, b text)`.
#[test]
fn literals_are_read_as_postgresql_reads_them() {
    let some = |text: &str| Some(text.to_string());
    for (text, wanted) in [
        ("(1,x)", vec![some("1"), some("x")]),
        (" (1,x) ", vec![some("1"), some("x")]),
        ("( 1 , x )", vec![some(" 1 "), some(" x ")]),
        ("(,)", vec![None, None]),
        ("(\"\",)", vec![some(""), None]),
        ("(\"a\"\"b\",\\\"c\\,)", vec![some("a\"b"), some("\"c,")]),
        ("(a\"b,c\"d,\"x\\\\y\")", vec![some("ab,cd"), some("x\\y")]),
    ] {
        assert_eq!(read(text), Ok(wanted), "{text}");
    }
    for (text, wanted) in [
        ("1,x)", Malformation::NoLeftParenthesis),
        ("", Malformation::NoLeftParenthesis),
        ("(1,x", Malformation::UnexpectedEnd),
        ("(1,\"x)", Malformation::UnexpectedEnd),
        ("(1,x\\", Malformation::UnexpectedEnd),
        ("(1,x)y", Malformation::Junk),
    ] {
        assert_eq!(read(text), Err(wanted), "{text}");
    }
}

#[test]
fn what_is_written_is_read_back() {
    let texts = [
        None,
        Some(""),
        Some("a b"),
        Some("\"\\,()"),
        Some("plain"),
        Some("\u{e9}\n"),
    ];
    let mut literal = String::from("(");
    for (place, text) in texts.iter().enumerate() {
        if place > 0 {
            literal.push(',');
        }
        write_item(&mut literal, *text);
    }
    literal.push(')');
    let wanted: Vec<Option<String>> = texts.iter().map(|text| text.map(str::to_string)).collect();
    assert_eq!(read(&literal), Ok(wanted));
}

#[test]
fn bytes_tell_apart_what_differs() {
    let data_type = record_type([("a", DataType::Utf8), ("b", DataType::Utf8)]);
    let rows = [
        Some((Some("a"), Some("b,c"))),
        Some((Some("a,b"), Some("c"))),
        Some((Some(""), None)),
        Some((None, Some(""))),
        Some((None, None)),
        None,
    ];
    let a: StringArray = rows.iter().map(|row| row.and_then(|(a, _)| a)).collect();
    let b: StringArray = rows.iter().map(|row| row.and_then(|(_, b)| b)).collect();
    let nulls = arrow::buffer::NullBuffer::from_iter(rows.iter().map(Option::is_some));
    let fields = fields_of(&data_type).unwrap().clone();
    let column: ArrayRef = Arc::new(StructArray::new(fields, vec![Arc::new(a), Arc::new(b)], Some(nulls)));
    let codec = ListBytes::new(&data_type);
    let bytes = codec.encode(&column);
    for one in 0..column.len() {
        for other in 0..one {
            assert_ne!(bytes.value(one), bytes.value(other), "rows {one} and {other}");
        }
    }
    let back = codec.decode((0..column.len()).map(|row| bytes.value(row)), &data_type);
    assert_eq!(&back, &column);
}

#[test]
fn json_is_no_struct() {
    assert_eq!(fields_of(&json::jsonb_type()), None);
    assert!(kept_fields_of(&record_type([("json", DataType::Int64)])).is_some());
    assert!(kept_fields_of(&record_type([("a", DataType::UInt64)])).is_none());
}
