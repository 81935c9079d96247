//! JSON rows: the rules one by one, then random objects against `serde_json` as a slow model.

use super::*;
use crate::testing::{BIGINT, Dice, TEXT, TIMESTAMP, read_text, schema, timestamptz};
use crate::text::TextRows;
use arrow::datatypes::{DataType, SchemaRef};
use serde_json::Value;

fn read(schema: &SchemaRef, text: &str) -> (Vec<String>, Vec<String>) {
    read_text(schema, TextRows::Json(JsonRows::new(false)), text.as_bytes())
}

fn good(schema: &SchemaRef, text: &str) -> Vec<String> {
    let (rows, bad) = read(schema, text);
    assert_eq!(bad, Vec::<String>::new());
    rows
}

fn fault(schema: &SchemaRef, text: &str) -> String {
    let (rows, bad) = read(schema, text);
    assert_eq!((rows, bad.len()), (vec![], 1), "{bad:?}");
    bad[0].split_once(": ").unwrap().1.to_string()
}

#[test]
fn an_integer_beyond_64_bits_in_an_unused_field_loses_nothing() {
    let lines = r#"{"id":1,"note":"ok","serial":327267367867168100000}
{"id":2,"note":"ok","serial":18446744073709551616}
{"id":9007199254740993,"note":"ok","serial":1}
"#;
    let unused = schema(&[("id", BIGINT), ("note", TEXT)]);
    assert_eq!(good(&unused, lines), ["1|ok", "2|ok", "9007199254740993|ok"]);
    let bigint = schema(&[("id", BIGINT), ("serial", BIGINT)]);
    let (rows, bad) = read(&bigint, lines);
    assert_eq!(rows, ["9007199254740993|1"]);
    assert_eq!(
        bad,
        [
            "1: field `serial`: 327267367867168100000 is out of range for BIGINT",
            "2: field `serial`: 18446744073709551616 is out of range for BIGINT"
        ]
    );
    let decimal = schema(&[("id", BIGINT), ("serial", DataType::Decimal128(38, 0))]);
    assert_eq!(
        good(&decimal, lines),
        [
            "1|327267367867168100000",
            "2|18446744073709551616",
            "9007199254740993|1"
        ]
    );
}

#[test]
fn an_object_where_a_scalar_is_declared_is_a_bad_row_naming_the_field() {
    let table = schema(&[("id", TEXT), ("ts", TIMESTAMP)]);
    let (rows, bad) = read(
        &table,
        r#"{"id":"a","ts":{"long":1}}
{"id":"b","ts":1752588000573}
{"id":"c"}
{"id":"d","ts":null}"#,
    );
    assert_eq!(rows, ["b|2025-07-15T14:00:00.573", "c|NULL", "d|NULL"]);
    assert_eq!(bad, ["1: field `ts`: an object cannot be read as TIMESTAMP"]);
    assert_eq!(
        fault(&table, r#"{"id":[1]}"#),
        "field `id`: an array cannot be read as TEXT"
    );
}

#[test]
fn every_type_is_read_exactly() {
    let table = schema(&[
        ("b", DataType::Boolean),
        ("s", DataType::Int16),
        ("i", DataType::Int32),
        ("l", BIGINT),
        ("f", DataType::Float32),
        ("d", DataType::Float64),
        ("n", DataType::Decimal128(38, 9)),
        ("t", TEXT),
        ("x", DataType::Binary),
        ("day", DataType::Date32),
        ("ts", TIMESTAMP),
        ("tz", timestamptz()),
    ]);
    let row = r#"{"b":true,"s":-32768,"i":2147483647,"l":-9223372036854775808,"f":1.5e-3,"d":1.7976931348623157e308,"n":12345678901234567890123456789.123456789,"t":"é\u00e9\ud83d\ude00\n","x":"\\x00ff","day":"2024-02-29","ts":"2024-02-29 12:34:56.123456","tz":"2024-02-29T12:34:56.123456+02:00"}"#;
    assert_eq!(
        good(&table, row),
        [
            "true|-32768|2147483647|-9223372036854775808|0.0015|1.7976931348623157e308|12345678901234567890123456789.123456789|éé😀\n|00ff|2024-02-29|2024-02-29T12:34:56.123456|2024-02-29T10:34:56.123456Z"
        ]
    );
    let quoted = r#"{"b":"f","s":"1","i":"2","l":"9007199254740993","f":"0.5","d":"NaN","n":"0.0000000005"}"#;
    assert_eq!(
        good(&table, quoted),
        ["false|1|2|9007199254740993|0.5|NaN|0.000000001|NULL|NULL|NULL|NULL|NULL"]
    );
}

#[test]
fn values_that_do_not_fit_name_their_field() {
    let table = schema(&[
        ("s", DataType::Int16),
        ("n", DataType::Decimal128(4, 2)),
        ("d", DataType::Date32),
        ("k!", BIGINT),
    ]);
    for (line, reason) in [
        (r#"{"k":1,"s":32768}"#, "field `s`: 32768 is out of range for SMALLINT"),
        (
            r#"{"k":1,"s":1.5}"#,
            "field `s`: 1.5 has a fraction, which SMALLINT cannot hold",
        ),
        (r#"{"k":1,"n":100}"#, "field `n`: 100 is out of range for NUMERIC(4,2)"),
        (r#"{"k":1,"n":"x"}"#, "field `n`: \"x\" is not a valid NUMERIC(4,2)"),
        (r#"{"k":1,"d":5}"#, "field `d`: \"5\" is not a valid DATE"),
        (
            r#"{"k":1,"d":"2024-01-01 10:00"}"#,
            "field `d`: \"2024-01-01 10:00\" has a time of day, which DATE cannot hold",
        ),
        (r#"{"k":true}"#, "field `k`: \"true\" is not a valid BIGINT"),
        (r#"{"k":null}"#, "field `k`: NULL in a column that is NOT NULL"),
        (r#"{"s":1}"#, "field `k`: NULL in a column that is NOT NULL"),
        (
            r#"{"k":18446744073709551616}"#,
            "field `k`: 18446744073709551616 is out of range for BIGINT",
        ),
    ] {
        assert_eq!(fault(&table, line), reason);
    }
}

#[test]
fn what_is_not_json_is_a_bad_row_and_the_next_line_is_read() {
    let table = schema(&[("a", BIGINT)]);
    for line in [
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,}",
        "{\"a\":1}}",
        "{\"a\":1}{\"a\":2}",
        "{\"a\":01}",
        "{\"a\":-}",
        "{\"a\":1.}",
        "{\"a\":1e}",
        "{\"a\":tru}",
        "{\"a\":1 2}",
        "{a:1}",
        "{\"b\":\"\u{1}\"}",
        "{\"b\":\"\\x\"}",
        "{\"b\":\"\\ud800\"}",
        "{\"b\":\"\\ud800\\u0041\"}",
        "{\"b\":\"open}",
        "{\"b\":[1,]}",
        "{\"b\":{\"c\":}}",
        "[1]",
        "1",
        "null",
        "x",
        "{\"b\":[}",
        "{,}",
        "{\"a\":1 \"b\":2}",
        "{\"b\":\"\t\"}",
    ] {
        let (rows, bad) = read(&table, &format!("{{\"a\":7}}\n{line}\n{{\"a\":8}}\n"));
        assert_eq!(rows, ["7", "8"], "{line}");
        assert_eq!(bad.len(), 1, "{line}");
        assert!(bad[0].starts_with("2: invalid JSON at byte "), "{line}: {}", bad[0]);
    }
    let deep = format!("{{\"b\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(fault(&table, &deep).contains("nested too deep"));
}

#[test]
fn blank_lines_carriage_returns_and_a_missing_last_line_feed_are_fine() {
    let table = schema(&[("a", BIGINT)]);
    assert_eq!(
        good(&table, "\n{\"a\":1}\r\n\r\n  \t\n {\"a\": 2 } \r\n{}\n{\"a\":3}"),
        ["1", "2", "NULL", "3"]
    );
    assert_eq!(good(&table, "{\"a\":1}  "), ["1"]);
    assert_eq!(good(&table, "  "), Vec::<String>::new());
}

#[test]
fn the_last_of_two_equal_fields_counts_and_an_exact_name_beats_one_of_other_case() {
    let table = schema(&[("id", BIGINT), ("t", TEXT)]);
    assert_eq!(
        good(&table, "{\"id\":1,\"t\":\"abc\",\"id\":2,\"t\":\"x\"}\n{\"id\":3}"),
        ["2|x", "3|NULL"]
    );
    assert_eq!(
        good(&table, "{\"id\":null,\"id\":2}\n{\"id\":2,\"id\":null}\n{\"id\":5}"),
        ["2|NULL", "NULL|NULL", "5|NULL"]
    );
    assert_eq!(
        good(&table, "{\"ID\":1}\n{\"Id\":1,\"id\":2}\n{\"id\":2,\"iD\":1}"),
        ["1|NULL", "2|NULL", "2|NULL"]
    );
    assert_eq!(
        good(
            &table,
            "{\"ID\":1,\"ID\":2}\n{\"ID\":1,\"Id\":2}\n{\"ID\":1,\"id\":2,\"Id\":3}"
        ),
        ["2|NULL", "2|NULL", "2|NULL"]
    );
}

#[test]
fn a_row_that_fails_late_leaves_nothing_behind() {
    let table = schema(&[
        ("a", BIGINT),
        ("t", TEXT),
        ("n", DataType::Decimal128(5, 1)),
        ("z", BIGINT),
    ]);
    let (rows, bad) = read(
        &table,
        "{\"a\":1,\"t\":\"one\",\"n\":1,\"z\":1}\n{\"a\":2,\"t\":\"two\",\"n\":null,\"z\":\"x\"}\n{\"t\":\"three\",\"z\":3}\n{\"a\":4,\"z\":4} x\n{\"a\":5,\"z\":5}",
    );
    assert_eq!(rows, ["1|one|1.0|1", "NULL|three|NULL|3", "5|NULL|NULL|5"]);
    assert_eq!(bad.len(), 2);
}

#[test]
fn invalid_utf8_is_a_fault_of_its_line_alone() {
    let table = schema(&[("t", TEXT)]);
    let mut text = b"{\"t\":\"a\"}\n{\"t\":\"".to_vec();
    text.extend([0xff, 0xfe]);
    text.extend(b"\"}\n{\"u\":\"");
    text.extend([0xc3]);
    text.extend("\"}\n{\"t\":\"é\"}\n".as_bytes());
    let (rows, bad) = read_text(&table, TextRows::Json(JsonRows::new(false)), &text);
    assert_eq!(rows, ["a", "é"]);
    assert_eq!(
        bad,
        [
            "2: invalid UTF-8 at byte 7: found byte 0xff",
            "3: invalid UTF-8 at byte 7: found byte 0xc3"
        ]
    );
}

/// What a value should become, decided by `serde_json` and the value parsers: `Err` for a bad row.
fn model_value(value: Option<&Value>, data_type: &DataType) -> Result<String, ()> {
    use crate::value::{boolean, number, time};
    let text = match value {
        None | Some(Value::Null) => return Ok("NULL".to_string()),
        Some(Value::Array(_) | Value::Object(_)) => return Err(()),
        Some(Value::Bool(word)) if matches!(data_type, DataType::Boolean | DataType::Utf8) => word.to_string(),
        Some(Value::Bool(_)) => return Err(()),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::String(text)) => text.clone(),
    };
    let bytes = text.as_bytes();
    let shown = match data_type {
        DataType::Int64 => number::integer::<i64>(bytes).map(|value| value.to_string()),
        DataType::Int16 => number::integer::<i16>(bytes).map(|value| value.to_string()),
        DataType::Boolean => boolean(bytes).map(|value| value.to_string()),
        DataType::Utf8 if text.contains('\0') => return Err(()),
        DataType::Utf8 => Ok(text),
        DataType::Decimal128(..) => number::decimal(bytes, 20, 0).map(|value| value.to_string()),
        DataType::Timestamp(..) if matches!(value, Some(Value::Number(_))) => {
            time::epoch_millis(bytes).map(|v| v.to_string())
        }
        DataType::Timestamp(..) => time::timestamp(bytes).map(|value| value.to_string()),
        other => unreachable!("{other}"),
    };
    shown.map_err(|_| ())
}

fn model(table: &SchemaRef, line: &str) -> Result<String, ()> {
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(line) else {
        return Err(());
    };
    let values = table
        .fields()
        .iter()
        .map(|field| model_value(fields.get(field.name()), field.data_type()));
    Ok(values.collect::<Result<Vec<_>, _>>()?.join("|"))
}

/// A JSON value as text, with everything unusual now and then.
fn random_value(dice: &mut Dice, depth: usize) -> String {
    const NUMBERS: &[&str] = &[
        "0",
        "-0",
        "7",
        "-12",
        "123456789012345678",
        "1234567890123456789",
        "9223372036854775807",
        "9223372036854775808",
        "327267367867168100000",
        "1.0",
        "1.5",
        "2e3",
        "-1E+2",
        "1e-3",
        "12345.678e2",
        "32767",
        "32768",
        "01",
        "1.",
        "-",
        "+1",
        ".5",
    ];
    const TEXTS: &[&str] = &[
        "",
        "a",
        "abcdefgh",
        "abcdefghijklmnopq",
        "12",
        "-3",
        "1e2",
        "t",
        "true",
        "2024-01-02 03:04:05",
        "é",
        "日本語",
        "\\n",
        "\\\"",
        "a\\\\b",
        "\\u00e9x",
        "\\ud83d\\ude00",
        "\\ud83d",
        "\\u0000",
        "\\q",
        "tab\there",
        "a\\/b",
        "1234567\\u0031",
    ];
    match dice.below(if depth < 3 { 12 } else { 9 }) {
        0..3 => dice.next().to_string()[..1 + dice.below(8)].to_string(),
        3 | 4 => dice.pick(NUMBERS).to_string(),
        5..8 => format!("\"{}\"", dice.pick(TEXTS)),
        8 => dice.pick(&["null", "true", "false", "nul", ""]).to_string(),
        9 => random_object(dice, depth + 1),
        _ => {
            let items: Vec<String> = (0..dice.below(3)).map(|_| random_value(dice, depth + 1)).collect();
            format!("[{}]", items.join(","))
        }
    }
}

fn random_object(dice: &mut Dice, depth: usize) -> String {
    const NAMES: &[&str] = &["a", "s", "b", "t", "n", "ts", "unused", "other", "q\\u0061", "\\u0061"];
    const BLANKS: &[&str] = &["", "", "", "", "", " ", "\t", "  "];
    let count = dice.below(8);
    // The same order most of the time; never a name twice, but for the escaped `a`.
    let first = if dice.below(3) > 0 { 0 } else { dice.below(NAMES.len()) };
    let mut text = "{".to_string();
    for field in 0..count {
        let name = NAMES[(first + field) % NAMES.len()];
        let value = random_value(dice, depth);
        let comma = if field > 0 { "," } else { "" };
        let blanks: Vec<&str> = (0..5).map(|_| *dice.pick(BLANKS)).collect();
        text += &format!(
            "{}{comma}{}\"{name}\"{}:{}{value}{}",
            "", blanks[0], blanks[1], blanks[2], blanks[3]
        );
    }
    text + "}"
}

/// A line that is usually an object; now and then a byte of it is lost or doubled.
fn random_line(dice: &mut Dice) -> String {
    let mut line = random_object(dice, 0);
    if dice.below(10) == 0 {
        let at = dice.below(line.len());
        if line.is_char_boundary(at) && line.is_char_boundary(at + 1) {
            let byte = line.remove(at);
            if dice.below(2) == 0 {
                line.insert(at, byte);
                line.insert(at, byte);
            }
        }
    }
    line
}

#[test]
fn random_objects_are_read_as_a_slow_model_reads_them() {
    let table = schema(&[
        ("a", BIGINT),
        ("s", DataType::Int16),
        ("b", DataType::Boolean),
        ("t", TEXT),
        ("n", DataType::Decimal128(20, 0)),
        ("ts", TIMESTAMP),
    ]);
    for seed in 1..=300 {
        let mut dice = Dice::new(seed);
        let lines: Vec<String> = (0..200).map(|_| random_line(&mut dice)).collect();
        let (rows, bad) = read(&table, &lines.join("\n"));
        let mut rows = rows.into_iter();
        let bad: Vec<u64> = bad
            .iter()
            .map(|bad| bad.split(':').next().unwrap().parse().unwrap())
            .collect();
        for (at, line) in lines.iter().enumerate() {
            if line.contains("\"a\"") && line.contains("\"\\u0061\"") {
                // A name twice: which value counts is tested by itself.
                if !bad.contains(&(at as u64 + 1)) {
                    rows.next();
                }
                continue;
            }
            let expected = model(&table, line).map(|row| plain_exponents(&row));
            let found = if bad.contains(&(at as u64 + 1)) {
                Err(())
            } else {
                Ok(rows.next().unwrap_or_default())
            };
            let found = found.map(|row| plain_exponents(&timestamp_as_micros(&row)));
            assert_eq!(found, expected, "seed {seed}, line {}: {line}", at + 1);
        }
        assert_eq!(rows.next(), None, "seed {seed}");
    }
}

/// The row with exponents written one way: serde_json does not keep their case and sign in a number that becomes a text.
fn plain_exponents(row: &str) -> String {
    row.replace('E', "e").replace("e+", "e")
}

/// The row with its last value, a timestamp, as microseconds.
fn timestamp_as_micros(row: &str) -> String {
    match row.rsplit_once('|') {
        Some((rest, shown)) if shown != "NULL" => match crate::value::time::timestamp(shown.as_bytes()) {
            Ok(micros) => format!("{rest}|{micros}"),
            Err(_) => row.to_string(),
        },
        _ => row.to_string(),
    }
}
