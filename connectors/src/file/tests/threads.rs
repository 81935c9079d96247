//! Large files on several threads: nobody can tell from what is handed over how many there were.

use super::following::{Followed, append};
use crate::file::FileSource;
use crate::file::location::Location;
use crate::file::settings::Settings;
use crate::testing::{BIGINT, Dice, Kept, TEXT, request, schema};
use arrow::array::RecordBatch;
use cenote_engine::port::{Offsets, Source, SourceOutput, SourceRequest, StopToken};
use std::path::Path;

/// A source that reads text in blocks of `block_bytes` and decodes it on `threads`.
fn source(request: SourceRequest, threads: usize, block_bytes: usize) -> FileSource {
    let request = SourceRequest { threads, ..request };
    let mut settings = Settings::new(&request).unwrap();
    settings.block_bytes = block_bytes;
    let location = Location::new(&settings.path, &request.paths).unwrap();
    FileSource {
        request,
        settings,
        location,
    }
}

/// What it hands over until its end, and how it ended.
fn run(request: SourceRequest, threads: usize, block_bytes: usize) -> (Kept, String) {
    let mut kept = Kept::default();
    let ended = Box::new(source(request, threads, block_bytes)).run(&mut kept, &StopToken::default());
    (kept, ended.map_or_else(|error| error.render(), |()| String::new()))
}

fn asked(path: &Path, pairs: &[(&str, &str)]) -> SourceRequest {
    let mut all = vec![("path", path.to_str().unwrap())];
    all.extend(pairs);
    request(&schema(&[("i", BIGINT), ("t", TEXT)]), &all)
}

/// Some lines of a format: good, bad, blank, long, not UTF-8, with quotes and marks in all places.
fn text(format: &str, quotes: bool, dice: &mut Dice) -> Vec<u8> {
    let mut text = Vec::new();
    if dice.below(3) == 0 {
        text.extend(b"\xef\xbb\xbf");
    }
    if format == "csv" {
        text.extend(b"t,i\r\n");
    }
    for i in 0..dice.below(400) {
        let filling = "é".repeat(dice.below(30));
        let line = match (format, dice.below(16)) {
            (_, 0) => "\n".to_string(),
            (_, 1) => "\u{feff}\r\n".to_string(),
            ("csv", 2) if quotes => format!("\"a\n\"\"b{i}\",{i}\n"),
            ("csv", 3) if quotes => format!("\"{filling},{i}\n"),
            ("csv", 4) => format!("{filling}{filling}{filling}{filling}{filling}{filling},{i}\n"),
            ("csv", 5) => format!("bad,{filling}\n"),
            ("csv", _) => format!("{filling},{i}\n"),
            (_, 2) => format!("{{\"i\":{i}}} {{}}\n"),
            (_, 3) => format!("{{\"i\":{i},\"t\":\"{filling}\n"),
            (_, 4) => format!("{{\"t\":\"{}\"}}\n", filling.repeat(6)),
            _ => format!("{{\"i\":{i},\"t\":\"{filling}\"}}\n"),
        };
        let from = text.len();
        text.extend(line.as_bytes());
        if dice.below(20) == 0 {
            let at = from + dice.below(text.len() - from);
            text[at] = dice.next() as u8;
        }
    }
    text.truncate(text.len() - dice.below(3).min(text.len()));
    text
}

fn packed(text: Vec<u8>, dice: &mut Dice) -> Vec<u8> {
    match dice.below(6) {
        0 => zstd::encode_all(&text[..], 1).unwrap(),
        1 => {
            // One that breaks off in the middle.
            let whole = zstd::encode_all(&text[..], 1).unwrap();
            whole[..whole.len() - whole.len() / 3].to_vec()
        }
        _ => text,
    }
}

/// Checks that two runs handed over the same, in whatever batches.
fn assert_same(one: &(Kept, String), other: &(Kept, String), what: &str) {
    assert_eq!(one.0.rows(), other.0.rows(), "{what}");
    assert_eq!(one.0.bad, other.0.bad, "{what}");
    assert_eq!(one.0.offsets, other.0.offsets, "{what}");
    assert_eq!(one.1, other.1, "{what}");
    assert!(!one.1.is_empty() || one.0.bytes == other.0.bytes, "{what}");
}

#[test]
fn rows_offsets_and_bad_rows_do_not_depend_on_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    for seed in 0..600 {
        let mut dice = Dice::new(seed);
        let format = *dice.pick(&["json", "csv"]);
        let quotes = dice.below(2) == 0;
        let bytes = text(format, quotes, &mut dice);
        let bytes = packed(bytes, &mut dice);
        std::fs::write(&path, &bytes).unwrap();
        let batch_rows = *dice.pick(&["1", "7", "100", "65536"]);
        let line_bytes_max = *dice.pick(&["100", "1000000"]);
        let pairs = [
            ("format", format),
            ("batch_rows", batch_rows),
            ("line_bytes_max", line_bytes_max),
            ("on_error", *dice.pick(&["skip", "skip", "skip", "fail"])),
        ];
        let block_bytes = *dice.pick(&[40, 300, 2000]);
        let what = format!("seed {seed}, blocks of {block_bytes}, {pairs:?}");
        let alone = run(asked(&path, &pairs), 1, block_bytes);
        for threads in 2..=3 {
            let together = run(asked(&path, &pairs), threads, block_bytes);
            assert_same(&together, &alone, &format!("{threads} threads, {what}"));
            let most = together.0.batches.iter().map(RecordBatch::num_rows).max();
            assert!(most <= batch_rows.parse().ok(), "{what}");
        }
        // Of a line that is too long, what is told depends on how much of it was at hand.
        if line_bytes_max != "100" {
            assert_same(&alone, &run(asked(&path, &pairs), 1, 1 << 20), &what);
        }
    }
}

#[test]
fn every_offset_handed_over_stands_behind_the_rows_handed_over() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    for seed in 1000..1020 {
        let mut dice = Dice::new(seed);
        let format = *dice.pick(&["json", "csv"]);
        std::fs::write(&path, text(format, false, &mut dice)).unwrap();
        let asked = || asked(&path, &[("format", format), ("batch_rows", "16")]);
        let (whole, _) = run(asked(), 3, 200);
        let rows = whole.rows();
        for (offsets, count) in &whole.steps {
            let until = SourceRequest {
                until: Some(offsets.clone()),
                ..asked()
            };
            let (again, _) = run(until, 2, 150);
            assert_eq!((again.rows(), &again.offsets), (rows[..*count].to_vec(), offsets));
            let rest = SourceRequest {
                offsets: offsets.clone(),
                ..asked()
            };
            assert_eq!(run(rest, 2, 150).0.rows(), rows[*count..]);
        }
    }
}

#[test]
fn pieces_of_a_large_file_are_put_together_into_full_batches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let text: String = (0..50_000).map(|i| format!("{{\"i\":{i}}}\n")).collect();
    std::fs::write(&path, text).unwrap();
    let pairs = [("format", "json"), ("batch_rows", "1000")];
    let (kept, _) = run(asked(&path, &pairs), 2, 2000);
    let small = kept.batches.iter().filter(|rows| rows.num_rows() < 800).count();
    assert!(
        kept.batches.len() < 65 && small <= 1,
        "{} batches, {small} small",
        kept.batches.len()
    );
    let numbers = kept
        .rows()
        .into_iter()
        .map(|row| row.split_once('|').unwrap().0.to_string());
    assert!(numbers.eq((0..50_000).map(|i| i.to_string())));
    let (kept, _) = run(asked(&path, &[("format", "json")]), 2, 2000);
    let sizes: Vec<usize> = kept.batches.iter().map(RecordBatch::num_rows).collect();
    assert!(
        sizes.len() >= 3 && sizes[..3].iter().all(|rows| (16_384..17_000).contains(rows)),
        "{sizes:?}"
    );
}

#[test]
fn a_followed_file_that_grows_by_much_is_read_to_its_last_whole_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let lines = |range: std::ops::Range<u64>| range.map(|i| format!("{{\"i\":{i}}}\n")).collect::<String>();
    append(&path, &(lines(0..5000) + "{\"i\":50"));
    let request = asked(&path, &[("format", "json"), ("follow", "true")]);
    let mut source = Followed::run(Box::new(source(request, 3, 1000)));
    let mut rows = source.wait_for(5000);
    append(&path, &("00}\n".to_string() + &lines(5001..9000) + "{"));
    rows.extend(source.wait_for(4000));
    append(&path, "\"i\":9000}\n");
    rows.extend(source.wait_for(1));
    let numbers = (0..=9000).map(|i| format!("{i}|NULL"));
    assert!(rows.into_iter().eq(numbers));
    let offsets = source.end();
    assert_eq!(offsets[path.to_str().unwrap()].records, 9001);
}

#[test]
fn a_source_told_to_stop_in_the_middle_ends_with_what_it_has_handed_over() {
    struct Stopping<'a>(Kept, &'a StopToken);
    impl SourceOutput for Stopping<'_> {
        fn push(&mut self, batch: cenote_engine::port::SourceBatch) -> cenote_statestore::Result<()> {
            self.1.stop();
            self.0.push(batch)
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows");
    let text: String = (0..50_000).map(|i| format!("{{\"i\":{i}}}\n")).collect();
    std::fs::write(&path, text).unwrap();
    let asked = || asked(&path, &[("format", "json"), ("batch_rows", "100")]);
    let stop = StopToken::default();
    let mut output = Stopping(Kept::default(), &stop);
    Box::new(source(asked(), 3, 1000)).run(&mut output, &stop).unwrap();
    let (handed, offsets): (_, Offsets) = (output.0.rows(), output.0.offsets);
    assert!(handed.len() < 10_000, "{} rows", handed.len());
    let rest = SourceRequest { offsets, ..asked() };
    let (rest, _) = run(rest, 3, 1000);
    assert_eq!(handed.len() + rest.rows().len(), 50_000);
    assert_eq!(rest.rows()[0], format!("{}|NULL", handed.len()));
}
