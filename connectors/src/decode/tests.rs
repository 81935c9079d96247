//! Bodies: all or nothing, and what the errors say.

use super::*;
use crate::testing::{BIGINT, TEXT, TIMESTAMP, rows_of, schema};
use arrow::array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;

fn table() -> SchemaRef {
    schema(&[
        ("id!", BIGINT),
        ("amount", DataType::Decimal128(18, 2)),
        ("note", TEXT),
        ("ts", TIMESTAMP),
    ])
}

fn decoded(format: BodyFormat, body: impl AsRef<[u8]>) -> Result<Vec<String>> {
    Ok(decode_body(&table(), format, body.as_ref())?
        .iter()
        .flat_map(rows_of)
        .collect())
}

fn refusal(format: BodyFormat, body: impl AsRef<[u8]>) -> (String, String, String) {
    let error = decoded(format, body).unwrap_err();
    (
        error.code().to_string(),
        error.state().to_string(),
        error.message().to_string(),
    )
}

#[test]
fn each_format_is_read_as_rows_of_the_table() {
    let expected = ["1|1.50|a|NULL", "2|NULL|NULL|2024-01-02T03:04:05"];
    let ndjson = "{\"id\":1,\"amount\":1.5,\"note\":\"a\"}\n{\"id\":2,\"ts\":\"2024-01-02 03:04:05\"}\n";
    assert_eq!(decoded(BodyFormat::Ndjson, ndjson).unwrap(), expected);
    let array = "[\n {\"id\":1,\n \"amount\":1.5,\"note\":\"a\"} , {\"id\":2,\"ts\":\"2024-01-02 03:04:05\"}\n]\n";
    assert_eq!(decoded(BodyFormat::JsonArray, array).unwrap(), expected);
    let csv = "ts,id,note,amount\n,1,a,1.5\n2024-01-02 03:04:05,2,,\n";
    assert_eq!(decoded(BodyFormat::Csv, csv).unwrap(), expected);
}

#[test]
fn bodies_without_rows_give_no_batches() {
    for (format, body) in [
        (BodyFormat::Ndjson, "\n \n"),
        (BodyFormat::Ndjson, ""),
        (BodyFormat::JsonArray, " [ ] "),
        (BodyFormat::Csv, "id,note\n"),
        (BodyFormat::Csv, ""),
    ] {
        assert_eq!(
            decode_body(&table(), format, body.as_bytes()).unwrap().len(),
            0,
            "{format:?} {body:?}"
        );
    }
}

#[test]
fn one_bad_row_refuses_the_body_and_is_named() {
    assert_eq!(
        refusal(BodyFormat::Ndjson, "{\"id\":1}\n\n{\"id\":2,\"amount\":\"x\"}\n"),
        (
            "CONN-0012".into(),
            "22P02".into(),
            "cannot read line 3 of the request body: field `amount`: \"x\" is not a valid NUMERIC(18,2)".into()
        )
    );
    assert_eq!(
        refusal(BodyFormat::JsonArray, "[{\"id\":1},{\"id\":9223372036854775808}]"),
        (
            "CONN-0012".into(),
            "22003".into(),
            "cannot read element 2 of the request body: field `id`: 9223372036854775808 is out of range for BIGINT"
                .into()
        )
    );
    assert_eq!(
        refusal(BodyFormat::Csv, "id,note\n1,a\n,b\n"),
        (
            "CONN-0012".into(),
            "23502".into(),
            "cannot read line 3 of the request body: field `id`: NULL in a column that is NOT NULL".into()
        )
    );
    assert_eq!(refusal(BodyFormat::Ndjson, "{\"id\":1,\"ts\":\"soon\"}").1, "22007");
    assert_eq!(refusal(BodyFormat::Ndjson, b"{\"id\":1,\"note\":\"\xff\"}").1, "22021");
    assert_eq!(
        refusal(BodyFormat::JsonArray, b"[{\"id\":1,\"note\":\"\xff\"}]").1,
        "22021"
    );
}

#[test]
fn a_field_that_is_no_column_is_refused_with_the_nearest() {
    let message = "field `amuont`: there is no such column; the nearest column is `amount`";
    for (format, body, place) in [
        (BodyFormat::Ndjson, "{\"id\":1,\"amuont\":2}", "line 1"),
        (BodyFormat::JsonArray, "[{\"id\":1,\"amuont\":2}]", "element 1"),
        (BodyFormat::Csv, "id,amuont\n1,2\n", "line 1"),
    ] {
        let expected = format!("cannot read {place} of the request body: {message}");
        assert_eq!(refusal(format, body), ("CONN-0013".into(), "42703".into(), expected));
    }
}

#[test]
fn broken_arrays_are_refused() {
    for body in [
        "",
        "{}",
        "[",
        "[{\"id\":1}",
        "[{\"id\":1},]",
        "[{\"id\":1}] x",
        "[1]",
        "[,]",
        "[{\"id\":1} {\"id\":2}]",
    ] {
        assert_eq!(refusal(BodyFormat::JsonArray, body).1, "22P02", "{body}");
    }
}

#[test]
fn large_bodies_come_in_batches_of_bounded_size() {
    let line = |i: usize| format!("{{\"id\":{i}}}");
    let lines: Vec<String> = (0..150_000).map(line).collect();
    for (format, body) in [
        (BodyFormat::Ndjson, lines.join("\n")),
        (BodyFormat::JsonArray, format!("[{}]", lines.join(","))),
    ] {
        let batches = decode_body(&table(), format, body.as_bytes()).unwrap();
        let sizes: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(sizes, [65_536, 65_536, 18_928]);
        assert!(rows_of(&batches[2]).last().unwrap().starts_with("149999|"));
    }
}

fn stream(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        columns.into_iter().map(|(_, array)| array).collect(),
    )
    .unwrap();
    let mut body = Vec::new();
    let mut writer = StreamWriter::try_new(&mut body, &schema).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    body
}

#[test]
fn arrow_streams_are_matched_by_name_and_cast_exactly() {
    let notes: DictionaryArray<Int32Type> = vec![Some("a"), None].into_iter().collect();
    let body = stream(vec![
        ("note", Arc::new(notes)),
        ("ID", Arc::new(Int32Array::from(vec![1, 2]))),
    ]);
    assert_eq!(
        decoded(BodyFormat::ArrowStream, body).unwrap(),
        ["1|NULL|a|NULL", "2|NULL|NULL|NULL"]
    );
    let body = stream(vec![("id", Arc::new(Int64Array::from(vec![Some(1), None])))]);
    assert_eq!(refusal(BodyFormat::ArrowStream, body).1, "23502");
    let body = stream(vec![("id", Arc::new(StringArray::from(vec!["1"])))]);
    assert_eq!(
        refusal(BodyFormat::ArrowStream, body).2,
        "cannot read schema of the request body: field `id`: Utf8 cannot be read as BIGINT"
    );
    let body = stream(vec![
        ("id", Arc::new(Int64Array::from(vec![1]))),
        ("note2", Arc::new(Int64Array::from(vec![1]))),
    ]);
    assert_eq!(refusal(BodyFormat::ArrowStream, body).0, "CONN-0013");
    let narrow = schema(&[("id", DataType::Int16)]);
    let body = stream(vec![("id", Arc::new(Int64Array::from(vec![1, 40_000])))]);
    let error = decode_body(&narrow, BodyFormat::ArrowStream, &body).unwrap_err();
    assert_eq!(
        (error.state(), error.message()),
        (
            "22003",
            "cannot read row 2 of the request body: field `id`: 40000 is out of range for SMALLINT"
        )
    );
}

#[test]
fn damaged_arrow_streams_are_errors_wherever_the_damage_is() {
    let body = stream(vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..100))),
        (
            "note",
            Arc::new(StringArray::from_iter_values((0..100).map(|i| i.to_string()))),
        ),
    ]);
    assert_eq!(decoded(BodyFormat::ArrowStream, &body).unwrap().len(), 100);
    assert_eq!(refusal(BodyFormat::ArrowStream, b"").1, "22P02");
    for len in 1..body.len() - 8 {
        let _ = decoded(BodyFormat::ArrowStream, &body[..len]);
        assert!(len < 300 || decoded(BodyFormat::ArrowStream, &body[..len]).map_or(true, |rows| rows.len() < 101));
    }
    for at in 0..body.len() {
        for bit in [0x01, 0x80, 0xff] {
            let mut damaged = body.clone();
            damaged[at] ^= bit;
            let _ = decoded(BodyFormat::ArrowStream, &damaged);
        }
    }
}

#[test]
fn arrays_json_and_uuids_are_read_by_every_text_format() {
    use arrow::array::AsArray;
    use cenote_statestore::forms::{json, list, uuid};
    let schema = schema(&[
        ("u", uuid::UUID),
        ("j", json::json_type()),
        ("b", json::jsonb_type()),
        ("a", list::array_type(BIGINT)),
    ]);
    let ndjson = r#"{"u":"A0EEBC999C0B4EF8BB6D6BB9BD380A11","j":{"x":  [1]},"b":{"y":1e1, "x":[]},"a":[1,null,"3"]}"#;
    let csv = "u,j,b,a\n{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11},\"{\"\"x\"\":  [1]}\",\"{\"\"x\"\":[],\"\"y\"\":10}\",\"{1,NULL,3}\"\n";
    let read = |format, body: &str| decode_body(&schema, format, body.as_bytes()).unwrap().remove(0);
    let batch = read(BodyFormat::Ndjson, ndjson);
    assert_eq!(batch, read(BodyFormat::Csv, csv));
    assert_eq!(json::texts_of(batch.column(1)).value(0), r#"{"x":  [1]}"#);
    assert_eq!(json::texts_of(batch.column(2)).value(0), r#"{"x": [], "y": 10}"#);
    let elements = batch.column(3).as_list::<i32>().value(0);
    let expected: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(3)]));
    assert_eq!(&elements, &expected);
    for wrong in [
        r#"{"u":1}"#,
        r#"{"u":"a0eebc99"}"#,
        r#"{"a":[1.5]}"#,
        r#"{"a":[[1]]}"#,
        r#"{"a":"{1,"}"#,
        r#"{"a":{}}"#,
        r#"{"j":{"x"}}"#,
        r#"{"a":[1,]}"#,
    ] {
        let error = decode_body(&schema, BodyFormat::Ndjson, wrong.as_bytes()).unwrap_err();
        assert_eq!(error.state(), "22P02", "{wrong}");
    }
}

#[test]
fn lines_that_come_in_pieces_are_rows_or_bad_lines_in_order() {
    let body = "{\"id\":1}\n\nno\n{\"id\":2}\n{\"id\":null}\n{\"id\":3,\"odd\":1}";
    let rules = LineRules {
        strict: false,
        line_bytes_max: 64,
        batch_rows: 2,
    };
    for size in 1..=body.len() {
        let pieces: Vec<&[u8]> = body.as_bytes().chunks(size).collect();
        let (batches, bad) = decode_lines(&table(), &pieces, rules).unwrap();
        let rows: Vec<String> = batches.iter().flat_map(rows_of).collect();
        assert_eq!(
            rows,
            ["1|NULL|NULL|NULL", "2|NULL|NULL|NULL", "3|NULL|NULL|NULL"],
            "{size}"
        );
        let told: Vec<(u64, &[u8])> = bad.iter().map(|bad| (bad.line, bad.bytes.as_slice())).collect();
        assert_eq!(told, [(3, &b"no\n"[..]), (5, &b"{\"id\":null}\n"[..])], "{size}");
    }
    let strict = LineRules { strict: true, ..rules };
    let (_, bad) = decode_lines(&table(), &[body.as_bytes()], strict).unwrap();
    assert_eq!(bad.last().map(|bad| bad.line), Some(6));
}
