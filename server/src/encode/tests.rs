//! Each format against text or against its own reader.

use super::*;
use arrow::array::{ArrayRef, Decimal128Array, Int64Array, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::reader::StreamReader;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::sync::Arc;

fn batch() -> RecordBatch {
    let total = Decimal128Array::from(vec![Some(7000), None])
        .with_precision_and_scale(18, 2)
        .unwrap();
    RecordBatch::try_from_iter_with_nullable([
        (
            "owner",
            Arc::new(StringArray::from(vec!["ann", "b\"ob, jr"])) as ArrayRef,
            false,
        ),
        (
            "n",
            Arc::new(Int64Array::from(vec![1, 9_007_199_254_740_993])) as ArrayRef,
            true,
        ),
        ("total", Arc::new(total) as ArrayRef, true),
    ])
    .unwrap()
}

fn encoded(format: Format, numbers: Numbers, batches: &[RecordBatch]) -> Vec<u8> {
    let mut encoder = format.encoder(&batches[0].schema(), numbers).unwrap();
    let mut out = Vec::new();
    encoder.start(&mut out).unwrap();
    for batch in batches {
        encoder.batch(batch, &mut out).unwrap();
    }
    encoder.finish(&mut out).unwrap();
    out
}

fn text(format: Format, numbers: Numbers) -> String {
    String::from_utf8(encoded(format, numbers, &[batch()])).unwrap()
}

#[test]
fn raw_numbers_keep_every_digit_as_json_numbers() {
    let expected = "{\"owner\":\"ann\",\"n\":1,\"total\":70.00}\n{\"owner\":\"b\\\"ob, jr\",\"n\":9007199254740993,\"total\":null}\n";
    assert_eq!(text(Format::Ndjson, Numbers::Raw), expected);
}

#[test]
fn exact_numbers_are_strings_where_a_float_would_round() {
    let expected = "{\"owner\":\"ann\",\"n\":1,\"total\":\"70.00\"}\n{\"owner\":\"b\\\"ob, jr\",\"n\":\"9007199254740993\",\"total\":null}\n";
    assert_eq!(text(Format::Ndjson, Numbers::Exact), expected);
}

#[test]
fn csv_tells_null_from_empty_text_and_quotes_what_needs_it() {
    assert_eq!(
        text(Format::Csv, Numbers::Raw),
        "owner,n,total\nann,1,70.00\n\"b\"\"ob, jr\",9007199254740993,\n"
    );
    let empty: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None, Some(" x"), Some("a\nb")]));
    let batch = RecordBatch::try_from_iter([("v", empty)]).unwrap();
    assert_eq!(
        encoded(Format::Csv, Numbers::Raw, &[batch]),
        b"v\n\"\"\n\n\" x\"\n\"a\nb\"\n"
    );
}

#[test]
fn table_is_aligned_as_psql_aligns_it() {
    let expected = "  owner   |        n         | total \n\
                    ----------+------------------+-------\n \
                     ann      |                1 | 70.00\n \
                     b\"ob, jr | 9007199254740993 |      \n\
                    (2 rows)\n\n";
    assert_eq!(text(Format::Table, Numbers::Raw), expected);
}

#[test]
fn table_marks_lines_that_go_on_and_shows_control_characters() {
    let values: ArrayRef = Arc::new(StringArray::from(vec!["one\ntwo", "bell\x07"]));
    let batch = RecordBatch::try_from_iter([("v", values)]).unwrap();
    let expected = "    v     \n----------\n one     +\n two\n bell\\x07\n(2 rows)\n\n";
    assert_eq!(
        String::from_utf8(encoded(Format::Table, Numbers::Raw, &[batch])).unwrap(),
        expected
    );
}

#[test]
fn arrow_stream_reads_back_as_it_was() {
    let bytes = encoded(Format::Arrow, Numbers::Raw, &[batch(), batch().slice(1, 1)]);
    let back: Vec<RecordBatch> = StreamReader::try_new(bytes.as_slice(), None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(back, [batch(), batch().slice(1, 1)]);
}

#[test]
fn parquet_file_reads_back_as_it_was() {
    let bytes = encoded(Format::Parquet, Numbers::Raw, &[batch(), batch()]);
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes))
        .unwrap()
        .build()
        .unwrap();
    let back: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
    assert_eq!(
        arrow::compute::concat_batches(&batch().schema(), &back)
            .unwrap()
            .num_rows(),
        4
    );
    assert_eq!(back[0].slice(0, 2).columns(), batch().columns());
}

#[test]
fn parquet_gives_bytes_away_before_the_end() {
    let mut seed = 1u64;
    let mut word = || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        format!("{:016x}", seed ^ (seed >> 29))
    };
    let texts = (0..CHUNK_ROWS).map(|_| (0..32).map(|_| word()).collect::<String>());
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
    let batch = RecordBatch::try_from_iter([("v", values)]).unwrap();
    let mut encoder = Format::Parquet.encoder(&batch.schema(), Numbers::Raw).unwrap();
    let mut out = Vec::new();
    encoder.start(&mut out).unwrap();
    for _ in 0..40 {
        encoder.batch(&batch, &mut out).unwrap();
    }
    assert!(out.len() > 100_000, "{} bytes after 160 MB of rows", out.len());
}

#[test]
fn changes_carry_epoch_weight_and_row() {
    let schema = Schema::new(vec![
        Field::new("epoch", DataType::UInt64, false),
        Field::new("weight", DataType::Int64, false),
        Field::new("usr", DataType::Utf8, false),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(vec![4, 5])),
        Arc::new(Int64Array::from(vec![1, -1])),
        Arc::new(StringArray::from(vec!["ann", "ann"])),
    ];
    let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    let mut out = Vec::new();
    ChangeLines::new(&batch.schema(), Numbers::Raw)
        .batch(&batch, &mut out)
        .unwrap();
    let expected =
        "{\"epoch\":4,\"weight\":1,\"row\":{\"usr\":\"ann\"}}\n{\"epoch\":5,\"weight\":-1,\"row\":{\"usr\":\"ann\"}}\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn json_text_is_escaped() {
    let mut out = Vec::new();
    write_json_text(&mut out, "a\"b\\c\n\u{1}é");
    assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"b\\\\c\\n\\u0001é\"");
}

#[test]
fn chunks_cover_a_batch_once() {
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..(2 * CHUNK_ROWS as i64 + 1)));
    let batch = RecordBatch::try_from_iter([("v", values)]).unwrap();
    let rows: Vec<usize> = chunks(&batch).map(|chunk| chunk.num_rows()).collect();
    assert_eq!(rows, [CHUNK_ROWS, CHUNK_ROWS, 1]);
    assert_eq!(chunks(&batch.slice(0, 0)).count(), 0);
}

#[test]
fn a_type_that_parquet_has_not_is_told() {
    let error = parquet_file::failure(parquet::errors::ParquetError::NYI("Union".into()));
    let expected = "error[ENC-0001]: cannot write Parquet: NYI: Union";
    assert_eq!((error.render().as_str(), error.state()), (expected, "0A000"));
}
