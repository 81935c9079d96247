//! Reading once: formats, compression, bad rows, offsets.

use crate::testing::{BIGINT, Dice, Kept, TEXT, TIMESTAMP, request, run, schema};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, SchemaRef};
use cenote_engine::port::{Connector, Offsets, SourceRequest, StopToken};
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::Path;

fn json(path: &Path, table: &SchemaRef) -> SourceRequest {
    request(table, &[("path", path.to_str().unwrap()), ("format", "json")])
}

fn with(mut request: SourceRequest, pairs: &[(&str, &str)]) -> SourceRequest {
    request
        .options
        .extend(pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())));
    request
}

fn numbers() -> SchemaRef {
    schema(&[("i", BIGINT)])
}

fn lines(range: std::ops::Range<u64>) -> String {
    range.map(|i| format!("{{\"i\":{i}}}\n")).collect()
}

fn sum(kept: &Kept) -> u64 {
    kept.rows().iter().map(|row| row.parse::<u64>().unwrap()).sum()
}

#[test]
fn three_thousand_rows_are_three_thousand_rows_with_and_without_a_bad_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.ndjson");
    for batch_rows in ["65536", "1024", "7"] {
        for count in [1023u64, 1024, 1025, 3000] {
            std::fs::write(&path, lines(0..count)).unwrap();
            let kept = run(with(json(&path, &numbers()), &[("batch_rows", batch_rows)])).unwrap();
            assert_eq!((kept.rows().len() as u64, sum(&kept)), (count, count * (count - 1) / 2));
        }
        for bad in [1023u64, 1024, 1025] {
            let text = lines(0..bad - 1) + "{\"i\":\"x\"}\n" + &lines(bad..3000);
            std::fs::write(&path, text).unwrap();
            let kept = run(with(json(&path, &numbers()), &[("batch_rows", batch_rows)])).unwrap();
            assert_eq!((kept.rows().len(), sum(&kept)), (2999, 4_498_500 - (bad - 1)));
            assert_eq!(
                kept.reasons(),
                [format!("{bad}: field `i`: \"x\" is not a valid BIGINT")]
            );
        }
    }
}

#[test]
fn a_bad_row_says_where_it_stands_and_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.ndjson");
    let long = format!("{{\"i\":\"{}\"}}", "é".repeat(2000));
    std::fs::write(&path, format!("{{\"i\":1}}\n\n{long}\r\n{{\"i\":2}}")).unwrap();
    let kept = run(json(&path, &numbers())).unwrap();
    assert_eq!(kept.rows(), ["1", "2"]);
    let bad = &kept.bad[0];
    assert_eq!(
        (bad.partition.as_str(), bad.line, bad.byte_offset),
        (path.to_str().unwrap(), 3, 9)
    );
    assert!(bad.text.len() <= 1024 && bad.text.len() > 1020 && long.starts_with(&bad.text));
    assert!(bad.reason.starts_with("field `i`: \"éé"));
}

#[test]
fn on_error_fail_stops_at_the_row_after_handing_over_those_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.ndjson");
    std::fs::write(&path, "{\"i\":1}\n{\"i\":2}\n{\"i\":true}\n{\"i\":3}\n").unwrap();
    let request = with(json(&path, &numbers()), &[("on_error", "fail")]);
    let mut kept = Kept::default();
    let source = crate::testing::connector().source(request).unwrap();
    let error = source.run(&mut kept, &StopToken::default()).unwrap_err();
    assert_eq!(
        error.render(),
        format!(
            "error[CONN-0007]: cannot read file `{}` line 3: field `i`: \"true\" is not a valid BIGINT\n  byte offset: 16\n          try: correct the file, or set on_error = 'skip' to collect such rows in cenote_catalog.errors",
            path.display()
        )
    );
    assert_eq!(error.state(), "22P02");
    assert_eq!(kept.rows(), ["1", "2"]);
    assert_eq!(kept.offsets[path.to_str().unwrap()].position, 16);
}

#[test]
fn a_folder_is_read_in_order_and_compressed_files_as_what_they_hold() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("1.ndjson"), lines(0..10)).unwrap();
    let mut gzip = GzEncoder::new(
        std::fs::File::create(at("2.ndjson.gz")).unwrap(),
        flate2::Compression::fast(),
    );
    gzip.write_all(lines(10..20).as_bytes()).unwrap();
    let mut file = gzip.finish().unwrap();
    let mut second = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    second.write_all(lines(20..30).as_bytes()).unwrap();
    file.write_all(&second.finish().unwrap()).unwrap();
    std::fs::write(at("3.zst"), zstd::encode_all(lines(30..40).as_bytes(), 3).unwrap()).unwrap();
    std::fs::write(
        at("4.no-ending"),
        zstd::encode_all(lines(40..50).as_bytes(), 3).unwrap(),
    )
    .unwrap();
    std::fs::write(at(".hidden"), "no").unwrap();
    let kept = run(json(folder.path(), &numbers())).unwrap();
    assert_eq!(kept.rows(), (0..50).map(|i| i.to_string()).collect::<Vec<_>>());
    assert_eq!((kept.bytes, kept.bad.len()), (kept.expected, 0));
    assert!(kept.offsets.values().all(|offset| offset.done));
    assert_eq!(
        kept.offsets[at("2.ndjson.gz").to_str().unwrap()].position,
        lines(10..30).len() as u64
    );
    let raw = run(with(json(&at("3.zst"), &numbers()), &[("compression", "none")])).unwrap();
    assert_eq!(raw.rows().len(), 0);
    assert!(!raw.bad.is_empty());
}

#[test]
fn damaged_compressed_files_give_their_rows_so_far_and_one_bad_row() {
    let folder = tempfile::tempdir().unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::none());
    gzip.write_all(lines(0..100_000).as_bytes()).unwrap();
    let whole = gzip.finish().unwrap();
    std::fs::write(folder.path().join("a.gz"), &whole[..whole.len() / 2]).unwrap();
    std::fs::write(folder.path().join("b.gz"), "not gzip at all").unwrap();
    std::fs::write(folder.path().join("c.json"), lines(7..8)).unwrap();
    let kept = run(json(folder.path(), &numbers())).unwrap();
    assert_eq!(kept.bad.len(), 2);
    let rows = kept.rows();
    assert_eq!(
        rows[..rows.len() - 1],
        (0..rows.len() - 1).map(|i| i.to_string()).collect::<Vec<_>>()
    );
    assert_eq!(rows.last().unwrap(), "7");
    assert_eq!(kept.bad[0].line, rows.len() as u64);
    assert_eq!(
        run(SourceRequest {
            offsets: kept.offsets,
            ..json(folder.path(), &numbers())
        })
        .unwrap()
        .steps
        .len(),
        0
    );
}

#[test]
fn csv_files_have_a_header_that_counts_as_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    std::fs::write(&path, "\u{feff}ts;id\n2024-01-02 03:04:05;1\nx;2\n").unwrap();
    let table = schema(&[("id", BIGINT), ("ts", TIMESTAMP)]);
    let asked = request(
        &table,
        &[("path", path.to_str().unwrap()), ("format", "csv"), ("delimiter", ";")],
    );
    let kept = run(asked).unwrap();
    assert_eq!(kept.rows(), ["1|2024-01-02T03:04:05"]);
    assert_eq!(kept.reasons(), ["3: field `ts`: \"x\" is not a valid TIMESTAMP"]);
    let absent = schema(&[("id", BIGINT), ("amount", BIGINT)]);
    let asked = request(
        &absent,
        &[("path", path.to_str().unwrap()), ("format", "csv"), ("delimiter", ";")],
    );
    let kept = run(asked).unwrap();
    assert_eq!(kept.reasons(), ["1: field `amount`: the header does not have it"]);
}

#[test]
fn what_is_bad_does_not_depend_on_the_columns_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.ndjson");
    std::fs::write(&path, "{\"a\":1,\"t\":\"x\",\"n\":1}\n{\"a\":2,\"t\":\"y\",\"n\":\"z\"}\n{\"a\":3,\"n\":1}\n{\"a\":4,\"t\":{},\"n\":1}\n").unwrap();
    let table = schema(&[("a", BIGINT), ("t!", TEXT), ("n", DataType::Int16)]);
    let all = run(json(&path, &table)).unwrap();
    assert_eq!((all.rows(), all.bad.len()), (vec!["1|x|1".to_string()], 3));
    for (wanted, row) in [(vec![0], "1"), (vec![0, 2], "1|1"), (vec![1], "x"), (vec![], "")] {
        let some = run(SourceRequest {
            projection: Some(wanted),
            ..json(&path, &table)
        })
        .unwrap();
        assert_eq!((some.rows(), &some.bad), (vec![row.to_string()], &all.bad));
    }
}

#[test]
fn a_line_over_the_limit_is_a_bad_row_wherever_blocks_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.ndjson");
    let limit = 100_000;
    let padded = |bytes: usize, i: usize| {
        let rest = format!("{{\"i\":{i},\"p\":\"\"}}\n").len();
        format!("{{\"i\":{i},\"p\":\"{}\"}}\n", "x".repeat(bytes - rest))
    };
    let mut dice = Dice::new(3);
    for _ in 0..20 {
        let sizes: Vec<usize> = (0..30)
            .map(|_| *dice.pick(&[50, 5_000, limit, limit + 1, 150_000, 2_500_000]))
            .collect();
        let text: String = sizes.iter().enumerate().map(|(i, bytes)| padded(*bytes, i)).collect();
        std::fs::write(&path, text).unwrap();
        let kept = run(with(json(&path, &numbers()), &[("line_bytes_max", "100000")])).unwrap();
        let short = sizes
            .iter()
            .enumerate()
            .filter(|(_, bytes)| **bytes <= limit)
            .map(|(i, _)| i.to_string());
        assert_eq!(kept.rows(), short.collect::<Vec<_>>());
        let long = sizes
            .iter()
            .enumerate()
            .filter(|(_, bytes)| **bytes > limit)
            .map(|(i, _)| i as u64 + 1);
        assert_eq!(
            kept.bad.iter().map(|bad| bad.line).collect::<Vec<_>>(),
            long.collect::<Vec<_>>()
        );
        assert!(
            kept.bad
                .iter()
                .all(|bad| bad.text.len() == 1024 && bad.reason.contains("longer than 100000 bytes"))
        );
    }
}

/// Lines of every kind, with line feeds in all places.
fn mixed(format: &str, dice: &mut Dice) -> String {
    let mut text = if format == "csv" {
        "i,t\n".to_string()
    } else {
        String::new()
    };
    for i in 0..200 {
        text += &match (format, dice.below(8)) {
            (_, 0) => "\n".to_string(),
            ("csv", 1) => "x,bad\n".to_string(),
            ("csv", 2) => format!("{i},\"two\nlines\"\r\n"),
            ("csv", _) => format!("{i},{}\n", "t".repeat(dice.below(30))),
            (_, 1) => "{\"i\":bad}\n".to_string(),
            _ => format!("{{\"i\":{i},\"t\":\"{}\"}}\n", "é".repeat(dice.below(30))),
        };
    }
    text.pop();
    text
}

#[test]
fn resuming_at_any_handed_over_offset_neither_loses_nor_repeats() {
    let folder = tempfile::tempdir().unwrap();
    let table = schema(&[("i", BIGINT), ("t", TEXT)]);
    for (seed, format, packed) in [
        (1, "json", false),
        (2, "csv", false),
        (3, "json", true),
        (4, "csv", true),
    ] {
        let text = mixed(format, &mut Dice::new(seed));
        let path = folder.path().join(format!("rows-{seed}"));
        let bytes = if packed {
            zstd::encode_all(text.as_bytes(), 1).unwrap()
        } else {
            text.into_bytes()
        };
        std::fs::write(&path, bytes).unwrap();
        let asked = || {
            request(
                &table,
                &[
                    ("path", path.to_str().unwrap()),
                    ("format", format),
                    ("batch_rows", "7"),
                ],
            )
        };
        let whole = run(asked()).unwrap();
        assert!(whole.steps.len() > 20 && whole.bad.len() > 5, "{}", whole.steps.len());
        let (rows, reasons) = (whole.rows(), whole.reasons());
        for (offsets, read) in &whole.steps {
            let rest = run(SourceRequest {
                offsets: offsets.clone(),
                ..asked()
            })
            .unwrap();
            assert_eq!(rest.rows(), rows[*read..], "{format} from {offsets:?}");
            assert!(reasons.ends_with(&rest.reasons()), "line numbers go on");
            let again = run(SourceRequest {
                until: Some(offsets.clone()),
                ..asked()
            })
            .unwrap();
            assert_eq!(again.rows(), rows[..*read], "{format} until {offsets:?}");
            assert_eq!(&again.offsets, offsets);
        }
        let (from, to) = (&whole.steps[5], &whole.steps[15]);
        let middle = SourceRequest {
            offsets: from.0.clone(),
            until: Some(to.0.clone()),
            ..asked()
        };
        assert_eq!(run(middle).unwrap().rows(), rows[from.1..to.1]);
    }
}

#[test]
fn rows_that_were_read_are_read_again_or_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.ndjson");
    std::fs::write(&path, lines(0..1000)).unwrap();
    let until: Offsets = run(json(&path, &numbers())).unwrap().offsets;
    let again = || {
        run(SourceRequest {
            until: Some(until.clone()),
            ..json(folder.path(), &numbers())
        })
    };
    std::fs::write(&path, lines(0..2000)).unwrap();
    assert_eq!(
        again().unwrap().rows().len(),
        1000,
        "what was appended since is not part of it"
    );
    std::fs::rename(&path, folder.path().join("renamed")).unwrap();
    assert_eq!(again().unwrap().rows().len(), 1000, "a renamed file is found");
    std::fs::rename(folder.path().join("renamed"), &path).unwrap();
    for changed in [lines(0..999), lines(1..1200), String::new()] {
        std::fs::write(&path, changed).unwrap();
        let error = again().map(|kept| kept.rows()).unwrap_err();
        assert_eq!((error.code(), error.state()), ("CONN-0008", "55000"));
        assert!(
            error.message().starts_with(&format!(
                "cannot read file `{}` again: it was cut short",
                path.display()
            )),
            "{error}"
        );
    }
}

#[test]
fn a_file_replaced_or_cut_short_between_runs_is_a_bad_row_and_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.ndjson");
    std::fs::write(&path, lines(0..1000)).unwrap();
    let asked = || with(json(&path, &numbers()), &[("batch_rows", "100")]);
    let half = run(asked()).unwrap().steps[4].clone();
    assert_eq!(half.1, 500);
    for changed in [lines(0..10), lines(5..2000)] {
        std::fs::write(&path, changed).unwrap();
        let kept = run(SourceRequest {
            offsets: half.0.clone(),
            ..asked()
        })
        .unwrap();
        assert_eq!(kept.rows().len(), 0);
        assert_eq!(
            kept.reasons(),
            ["0: it was cut short or replaced after 500 lines of it were read; it is not read again"]
        );
        assert!(kept.offsets.values().all(|offset| offset.done));
    }
}

#[test]
fn batches_are_bounded_and_cover_many_small_files() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..50 {
        std::fs::write(folder.path().join(format!("{i:02}")), lines(i * 10..i * 10 + 10)).unwrap();
    }
    let kept = run(json(folder.path(), &numbers())).unwrap();
    assert_eq!(
        (kept.batches.len(), kept.rows().len(), kept.offsets.len()),
        (1, 500, 50)
    );
    let path = folder.path().join("large");
    std::fs::write(&path, lines(0..200_000)).unwrap();
    let kept = run(json(&path, &numbers())).unwrap();
    let sizes: Vec<usize> = kept.batches.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(sizes[..3], [65_536, 65_536, 65_536]);
    std::fs::write(&path, "x\n".repeat(20_000)).unwrap();
    let kept = run(json(&path, &numbers())).unwrap();
    assert_eq!(kept.bad.len(), 20_000);
    assert!(kept.steps.len() >= 4, "bad rows are handed over in bounded batches");
}

#[test]
fn a_stopped_source_ends_without_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.ndjson");
    std::fs::write(&path, lines(0..1000)).unwrap();
    let stop = StopToken::default();
    stop.stop();
    let mut kept = Kept::default();
    crate::testing::connector()
        .source(json(&path, &numbers()))
        .unwrap()
        .run(&mut kept, &stop)
        .unwrap();
    assert_eq!(kept.steps.len(), 0);
}

#[test]
fn an_error_of_the_output_comes_back_unchanged() {
    struct Closed;
    impl cenote_engine::port::SourceOutput for Closed {
        fn push(&mut self, _: cenote_engine::port::SourceBatch) -> cenote_statestore::Result<()> {
            Err(cenote_statestore::Error::new(
                cenote_statestore::ErrorKind::Unavailable,
                "TEST-0001",
                "closed",
            ))
        }
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), lines(0..10)).unwrap();
    let source = crate::testing::connector()
        .source(json(folder.path(), &numbers()))
        .unwrap();
    assert_eq!(
        source.run(&mut Closed, &StopToken::default()).unwrap_err().code(),
        "TEST-0001"
    );
}
