//! What is written without the library, against what the library writes.

use super::*;
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int16Array, Int64Array,
    IntervalMonthDayNanoArray, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::IntervalMonthDayNano;
use arrow::ipc::reader::StreamReader;
use std::sync::Arc;

fn flat(rows: usize) -> RecordBatch {
    let texts = |row: usize| (!row.is_multiple_of(5)).then(|| "text ".repeat(row % 3));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("l", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        (
            "s",
            Arc::new(Int16Array::from_iter(
                (0..rows).map(|row| (row % 3 > 0).then_some(row as i16)),
            )),
        ),
        ("t", Arc::new(StringArray::from_iter((0..rows).map(texts)))),
        (
            "b",
            Arc::new(BinaryArray::from_iter_values(
                (0..rows).map(|row| vec![row as u8; row % 4]),
            )),
        ),
        (
            "d",
            Arc::new(Decimal128Array::from_iter_values((0..rows).map(|row| row as i128 - 3))),
        ),
        (
            "f",
            Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 / 3.0))),
        ),
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from_iter_values(0..rows as i64).with_timezone("UTC")),
        ),
        (
            "i",
            Arc::new(IntervalMonthDayNanoArray::from(vec![
                IntervalMonthDayNano::new(1, 2, 3);
                rows
            ])),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn encoded(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<u8> {
    let (mut encoder, mut out) = (IpcStream::new(schema).unwrap(), Vec::new());
    encoder.start(&mut out).unwrap();
    batches.iter().for_each(|batch| encoder.batch(batch, &mut out).unwrap());
    encoder.finish(&mut out).unwrap();
    out
}

fn by_the_library(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), schema).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

#[test]
fn flat_batches_are_written_as_by_the_library_to_the_byte() {
    let whole = flat(1_000);
    let batches = [
        flat(70),
        whole.slice(0, 0),
        whole.slice(13, 500),
        flat(1),
        whole.slice(999, 1),
        whole.clone(),
    ];
    let ours = encoded(&whole.schema(), &batches);
    assert!(ours == by_the_library(&whole.schema(), &batches));
    let read: Vec<RecordBatch> = StreamReader::try_new(ours.as_slice(), None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read, batches);
}

#[test]
fn other_batches_are_left_to_the_library() {
    let columns: [(&str, ArrayRef); 2] = [
        ("b", Arc::new(BooleanArray::from(vec![true, false]))),
        ("l", Arc::new(Int64Array::from(vec![1, 2]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let batches = [batch.clone(), batch.slice(1, 1)];
    assert!(encoded(&batch.schema(), &batches) == by_the_library(&batch.schema(), &batches));
}
