//! Parquet files: types, projection, resuming, and damage.

use super::*;
use crate::testing::{BIGINT, Dice, Kept, TEXT, TIMESTAMP, request, run, schema};
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::{WriterProperties, WriterVersion};
use arrow::array::{
    BinaryArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, StringArray,
    TimestampMillisecondArray, TimestampNanosecondArray, UInt64Array,
};
use arrow::datatypes::{Field, Schema};
use cenote_engine::port::SourceRequest;
use std::path::Path;

fn write(path: &Path, columns: Vec<(&str, ArrayRef)>, properties: WriterProperties) {
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
    let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema, Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn plain() -> WriterProperties {
    WriterProperties::builder().build()
}

/// A thousand rows: id, name, amount.
fn thousand(path: &Path, properties: WriterProperties) {
    let ids = Int64Array::from_iter_values(0..1000);
    let names = StringArray::from_iter((0..1000).map(|i| (i % 7 != 0).then(|| format!("name {}", i % 50))));
    let amounts = Float64Array::from_iter_values((0..1000).map(|i| f64::from(i) / 4.0));
    write(
        path,
        vec![
            ("id", Arc::new(ids)),
            ("name", Arc::new(names)),
            ("amount", Arc::new(amounts)),
        ],
        properties,
    );
}

fn thousand_schema() -> SchemaRef {
    schema(&[("id", BIGINT), ("name", TEXT), ("amount", DataType::Float64)])
}

fn asked(path: &Path, schema: &SchemaRef) -> SourceRequest {
    request(schema, &[("path", path.to_str().unwrap()), ("format", "parquet")])
}

#[test]
fn columns_are_found_by_name_and_kept_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    write(
        &path,
        vec![
            ("ignored", Arc::new(Int32Array::from(vec![1, 2]))),
            (
                "N",
                Arc::new(
                    Decimal128Array::from(vec![Some(i128::from(u64::MAX) + 1), None])
                        .with_precision_and_scale(38, 0)
                        .unwrap(),
                ),
            ),
            ("id", Arc::new(Int64Array::from(vec![9_007_199_254_740_993, -1]))),
            ("ts", Arc::new(TimestampNanosecondArray::from(vec![1_500, -1_500]))),
            (
                "tz",
                Arc::new(TimestampMillisecondArray::from(vec![Some(1), None]).with_timezone("UTC")),
            ),
            ("d", Arc::new(Date32Array::from(vec![11_016, -1]))),
            ("raw", Arc::new(BinaryArray::from_vec(vec![&b"\x00\xff"[..], b""]))),
            ("small", Arc::new(UInt64Array::from(vec![1, 2]))),
        ],
        plain(),
    );
    let table = schema(&[
        ("id", BIGINT),
        ("n", DataType::Decimal128(38, 0)),
        ("ts", TIMESTAMP),
        ("tz", crate::testing::timestamptz()),
        ("d", DataType::Date32),
        ("raw", DataType::Binary),
        ("small", DataType::Int16),
    ]);
    let kept = run(asked(&path, &table)).unwrap();
    assert_eq!(
        kept.rows(),
        [
            "9007199254740993|18446744073709551616|1970-01-01T00:00:00.000002|1970-01-01T00:00:00.001Z|2000-02-29|00ff|1",
            "-1|NULL|1969-12-31T23:59:59.999998|NULL|1969-12-31||2"
        ]
    );
    assert_eq!(kept.bad, vec![]);
    assert_eq!(kept.bytes, kept.expected);
}

#[test]
fn values_that_do_not_fit_are_bad_rows_with_their_record_number() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let ids = Int64Array::from(vec![Some(1), Some(40_000), None, Some(4)]);
    let texts = BinaryArray::from_vec(vec![&b"a"[..], b"b", b"c", b"\xff"]);
    let amounts = Decimal128Array::from(vec![1235, 2, 3, 4])
        .with_precision_and_scale(10, 3)
        .unwrap();
    write(
        &path,
        vec![("id", Arc::new(ids)), ("t", Arc::new(texts)), ("n", Arc::new(amounts))],
        plain(),
    );
    let table = schema(&[
        ("id!", DataType::Int16),
        ("t", TEXT),
        ("n", DataType::Decimal128(10, 2)),
    ]);
    let kept = run(asked(&path, &table)).unwrap();
    assert_eq!(kept.rows(), ["1|a|1.24"]);
    assert_eq!(kept.bad.len(), 3);
    assert_eq!(
        kept.reasons()[..2],
        [
            "2: field `id`: 40000 is out of range for SMALLINT",
            "3: field `id`: NULL in a column that is NOT NULL"
        ]
    );
    assert_eq!((kept.bad[0].text.as_str(), kept.bad[2].line), ("id=40000", 4));
    let unwanted = SourceRequest {
        projection: Some(vec![2]),
        ..asked(&path, &table)
    };
    assert_eq!(
        run(unwanted).unwrap().rows(),
        ["1.24"],
        "what is bad does not depend on the columns wanted"
    );
}

#[test]
fn a_column_of_another_type_or_an_absent_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    thousand(&path, plain());
    for (table, reason) in [
        (
            schema(&[("amount", BIGINT)]),
            "column `amount` is Float64 in the file, which cannot be read as BIGINT",
        ),
        (
            schema(&[("nmae", TEXT)]),
            "the file has no column `nmae`; the nearest is `name`",
        ),
    ] {
        let kept = run(asked(&path, &table)).unwrap();
        assert_eq!(kept.reasons(), [format!("0: {reason}")]);
        assert_eq!(kept.bad[0].partition, path.to_str().unwrap());
        let mut strict = asked(&path, &table);
        strict.options.insert("on_error".into(), "fail".into());
        let error = run(strict).map(|kept| kept.rows()).unwrap_err();
        assert_eq!(
            error.message(),
            format!("cannot read file `{}`: {reason}", path.display())
        );
        assert_eq!(error.code(), "CONN-0010");
    }
}

#[test]
fn reading_goes_on_at_any_record_and_stops_at_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    thousand(
        &path,
        WriterProperties::builder()
            .set_max_row_group_row_count(Some(300))
            .build(),
    );
    let table = thousand_schema();
    let whole = run(asked(&path, &table)).unwrap();
    assert_eq!(whole.rows().len(), 1000);
    let mut last = whole.offsets.clone();
    let partition = path.to_str().unwrap();
    assert_eq!((last[partition].position, last[partition].done), (1000, true));
    for (from, to) in [
        (0, 1),
        (0, 300),
        (299, 301),
        (300, 600),
        (450, 1000),
        (777, 778),
        (0, 1000),
    ] {
        let at = |position| {
            let mut offsets = last.clone();
            let offset = offsets.get_mut(partition).unwrap();
            (offset.position, offset.records, offset.done) = (position, position, false);
            offsets
        };
        let again = SourceRequest {
            offsets: at(from),
            until: Some(at(to)),
            ..asked(&path, &table)
        };
        assert_eq!(
            run(again).unwrap().rows(),
            whole.rows()[from as usize..to as usize],
            "{from} to {to}"
        );
        let resumed = SourceRequest {
            offsets: at(from),
            ..asked(&path, &table)
        };
        assert_eq!(
            run(resumed).unwrap().rows(),
            whole.rows()[from as usize..],
            "from {from}"
        );
    }
    last.get_mut(partition).unwrap().done = true;
    assert_eq!(
        run(SourceRequest {
            offsets: last,
            ..asked(&path, &table)
        })
        .unwrap()
        .rows()
        .len(),
        0
    );
}

#[test]
fn no_columns_still_count_the_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    thousand(&path, plain());
    let none = SourceRequest {
        projection: Some(vec![]),
        ..asked(&path, &thousand_schema())
    };
    let kept = run(none).unwrap();
    assert_eq!(kept.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1000);
    assert_eq!(kept.batches[0].num_columns(), 0);
}

/// Reads one damaged file beside a good one: the good one is whole whatever became of the other.
fn read_beside(folder: &Path, damaged: &[u8], table: &SchemaRef) -> Kept {
    std::fs::write(folder.join("b.parquet"), damaged).unwrap();
    let kept = run(asked(folder, table)).unwrap();
    let good = kept.offsets.get(folder.join("a.parquet").to_str().unwrap()).unwrap();
    assert_eq!((good.position, good.done), (1000, true));
    assert!(
        kept.bad.iter().all(|bad| bad.partition.ends_with("b.parquet")),
        "{:?}",
        kept.bad
    );
    kept
}

#[test]
fn a_file_cut_short_is_named_and_others_are_read() {
    let folder = tempfile::tempdir().unwrap();
    thousand(&folder.path().join("a.parquet"), plain());
    let bytes = std::fs::read(folder.path().join("a.parquet")).unwrap();
    let table = thousand_schema();
    for cut in [1, 4, 8, 40, bytes.len() / 2, bytes.len() - 4, bytes.len()] {
        let kept = read_beside(folder.path(), &bytes[..bytes.len() - cut], &table);
        assert_eq!((kept.rows().len(), kept.bad.len()), (1000, 1), "cut {cut}");
        let done = SourceRequest {
            offsets: kept.offsets,
            ..asked(folder.path(), &table)
        };
        assert_eq!(run(done).unwrap().steps.len(), 0, "nothing is read twice");
    }
}

/// Properties of every way of writing that matters to a reader.
fn ways() -> Vec<WriterProperties> {
    let build = |version, compression, dictionary| {
        WriterProperties::builder()
            .set_writer_version(version)
            .set_compression(compression)
            .set_dictionary_enabled(dictionary)
            .set_data_page_row_count_limit(256)
            .build()
    };
    vec![
        build(WriterVersion::PARQUET_1_0, Compression::UNCOMPRESSED, true),
        build(WriterVersion::PARQUET_1_0, Compression::SNAPPY, true),
        build(WriterVersion::PARQUET_2_0, Compression::SNAPPY, false),
        build(
            WriterVersion::PARQUET_2_0,
            Compression::ZSTD(ZstdLevel::default()),
            false,
        ),
        build(WriterVersion::PARQUET_2_0, Compression::UNCOMPRESSED, false),
        build(WriterVersion::PARQUET_1_0, Compression::GZIP(Default::default()), true),
    ]
}

#[test]
fn one_byte_changed_anywhere_never_panics_nor_takes_memory() {
    let table = thousand_schema();
    for (way, properties) in ways().into_iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        thousand(&folder.path().join("a.parquet"), properties);
        let bytes = std::fs::read(folder.path().join("a.parquet")).unwrap();
        let mut dice = Dice::new(way as u64 + 1);
        let footer = bytes.len() - 8..bytes.len();
        let metadata = bytes.len().saturating_sub(1200)..bytes.len();
        let anywhere = (0..400).map(|_| dice.below(bytes.len())).collect::<Vec<_>>();
        let before = peak_bytes();
        for at in footer.chain(metadata).chain(anywhere) {
            let mut damaged = bytes.clone();
            damaged[at] ^= dice.pick(&[0x01, 0x10, 0x80, 0xff, 0x7f]);
            let kept = read_beside(folder.path(), &damaged, &table);
            assert!(kept.bad.len() <= 1000);
        }
        // The kernel sums its counters lazily, so a later reading can be a little lower.
        let more = peak_bytes().saturating_sub(before);
        assert!(more < 200 << 20, "way {way}: {more} bytes more");
    }
}

/// The most memory that the process ever held, in bytes.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn sizes_that_are_not_there_are_seen_before_they_are_believed() {
    use super::thrift::{PageSizes, delta_block, footer_is_whole, page_sizes};
    // A list of 2^31 structures in field 4, and nothing behind it.
    assert!(!footer_is_whole(&[0x49, 0xfc, 0x80, 0x80, 0x80, 0x80, 0x08, 0x00]));
    // A string of 2^40 bytes.
    assert!(!footer_is_whole(&[0x68, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0x00]));
    // One schema element with five children that never come.
    assert!(!footer_is_whole(&[0x29, 0x1c, 0x55, 0x0a, 0x00, 0x00]));
    assert!(footer_is_whole(&[0x29, 0x2c, 0x55, 0x02, 0x00, 0x00, 0x00]));
    let header = [0x15, 0x00, 0x15, 0x80, 0x80, 0x80, 0x80, 0x10, 0x15, 0x14, 0x00];
    assert_eq!(
        page_sizes(&header),
        Some(PageSizes {
            header: 11,
            compressed: 10,
            uncompressed: 1 << 31
        })
    );
    assert_eq!(page_sizes(&header[..9]), None);
    // 128 values a block, four parts, 2^40 values promised.
    assert_eq!(
        delta_block(&[0x80, 0x01, 0x04, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0x00, 0x00]),
        None
    );
    assert_eq!(delta_block(&[0x80, 0x01, 0x04, 0x01, 0x00, 0xff]), Some((1, 4 + 1)));
}
