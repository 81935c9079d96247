//! Following files: what is appended, what appears, what is renamed, cut or replaced. No test sleeps: each
//! waits for the batch that it expects.

use crate::testing::{BIGINT, request, rows_of, run, schema};
use arrow::array::Int64Array;
use arrow::array::RecordBatch;
use cenote_engine::port::{BadRow, Connector, Offsets, Source, SourceBatch, SourceOutput, SourceRequest, StopToken};
use cenote_statestore::Result;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Long enough for any machine; a test that passes does not wait for it.
const PATIENCE: Duration = Duration::from_secs(20);

struct Sent(Sender<SourceBatch>);

impl SourceOutput for Sent {
    fn push(&mut self, batch: SourceBatch) -> Result<()> {
        let _ = self.0.send(batch);
        Ok(())
    }
}

/// A source running on a thread of its own.
pub(super) struct Followed {
    batches: Receiver<SourceBatch>,
    thread: Option<JoinHandle<Result<()>>>,
    stop: StopToken,
    offsets: Offsets,
    bad: Vec<BadRow>,
}

impl Followed {
    fn start(request: SourceRequest) -> Followed {
        Followed::run(crate::testing::connector().source(request).unwrap())
    }

    pub(super) fn run(source: Box<dyn Source>) -> Followed {
        let (sender, batches) = channel();
        let stop = StopToken::default();
        let token = stop.clone();
        assert!(!source.is_bounded());
        let thread = std::thread::spawn(move || source.run(&mut Sent(sender), &token));
        Followed {
            batches,
            thread: Some(thread),
            stop,
            offsets: Offsets::new(),
            bad: Vec::new(),
        }
    }

    /// Waits until `count` rows and bad rows have come, and gives the rows.
    pub(super) fn wait_for(&mut self, count: usize) -> Vec<String> {
        let mut rows = Vec::new();
        let mut seen = 0;
        while seen < count {
            let batch = self
                .batches
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("{seen} of {count} rows came"));
            seen += batch.rows.num_rows() + batch.bad.len();
            rows.extend(rows_of(&batch.rows));
            self.offsets.extend(batch.offsets);
            self.bad.extend(batch.bad);
        }
        assert_eq!(seen, count);
        rows
    }

    /// Stops the source and checks that nothing more came.
    pub(super) fn end(mut self) -> Offsets {
        self.stop.stop();
        self.thread.take().unwrap().join().unwrap().unwrap();
        for batch in self.batches.try_iter() {
            assert_eq!((batch.rows.num_rows(), batch.bad.len()), (0, 0));
            self.offsets.extend(batch.offsets);
        }
        self.offsets
    }
}

fn asked(path: &Path) -> SourceRequest {
    request(
        &schema(&[("i", BIGINT)]),
        &[("path", path.to_str().unwrap()), ("format", "json"), ("follow", "true")],
    )
}

pub(super) fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[test]
fn appended_lines_arrive_at_once_and_an_unfinished_one_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    append(&path, "{\"i\":1}\n{\"i\":2");
    let mut source = Followed::start(asked(&path));
    assert_eq!(source.wait_for(1), ["1"]);
    append(&path, "0}");
    append(&path, "\n");
    assert_eq!(source.wait_for(1), ["20"]);
    let mut slowest = Duration::ZERO;
    for i in 0..50 {
        let begun = Instant::now();
        append(&path, &format!("{{\"i\":{i}}}\n"));
        assert_eq!(source.wait_for(1), [i.to_string()]);
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < Duration::from_millis(500), "{slowest:?}");
    append(&path, "{\"i\":\"x\"}\n");
    source.wait_for(1);
    assert_eq!(
        (source.bad[0].line, source.bad[0].byte_offset),
        (53, path.metadata().unwrap().len() - 10)
    );
    let offsets = source.end();
    append(&path, "{\"i\":99}\n");
    let mut source = Followed::start(SourceRequest {
        offsets,
        ..asked(&path)
    });
    assert_eq!(source.wait_for(1), ["99"]);
    source.end();
}

#[test]
fn new_files_of_a_folder_and_of_a_deep_glob_arrive() {
    let folder = tempfile::tempdir().unwrap();
    append(&folder.path().join("a.json"), "{\"i\":1}\n");
    let mut source = Followed::start(asked(folder.path()));
    assert_eq!(source.wait_for(1), ["1"]);
    append(&folder.path().join(".hidden"), "{\"i\":0}\n");
    append(&folder.path().join("b.json"), "{\"i\":2}\n");
    assert_eq!(source.wait_for(1), ["2"]);
    append(&folder.path().join("a.json"), "{\"i\":3}\n");
    assert_eq!(source.wait_for(1), ["3"]);
    assert_eq!(source.end().len(), 2);

    let folder = tempfile::tempdir().unwrap();
    let mut source = Followed::start(asked(&folder.path().join("*/*.json")));
    std::fs::create_dir(folder.path().join("x")).unwrap();
    append(&folder.path().join("x/a.json"), "{\"i\":1}\n");
    assert_eq!(source.wait_for(1), ["1"]);
    append(&folder.path().join("x/a.txt"), "{\"i\":0}\n");
    append(&folder.path().join("x/a.json"), "{\"i\":2}\n");
    assert_eq!(source.wait_for(1), ["2"]);
    source.end();
}

#[test]
fn a_renamed_file_goes_on_and_a_new_one_under_its_name_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let (log, rotated) = (folder.path().join("log"), folder.path().join("log.1"));
    append(&log, "{\"i\":1}\n");
    let mut source = Followed::start(asked(folder.path()));
    assert_eq!(source.wait_for(1), ["1"]);
    let mut open = OpenOptions::new().append(true).open(&log).unwrap();
    std::fs::rename(&log, &rotated).unwrap();
    open.write_all(b"{\"i\":2}\n").unwrap();
    assert_eq!(source.wait_for(1), ["2"]);
    append(&log, "{\"i\":3}\n");
    assert_eq!(source.wait_for(1), ["3"]);
    open.write_all(b"{\"i\":4}\n").unwrap();
    assert_eq!(source.wait_for(1), ["4"]);
    let offsets = source.end();
    assert_eq!(offsets.len(), 2);
    assert_eq!(offsets[log.to_str().unwrap()].records, 3);
    append(&log, "{\"i\":5}\n");
    open.write_all(b"{\"i\":6}\n").unwrap();
    let mut source = Followed::start(SourceRequest {
        offsets: offsets.clone(),
        ..asked(folder.path())
    });
    let mut rows = source.wait_for(2);
    rows.sort();
    assert_eq!(rows, ["5", "6"]);
    source.end();
    let mut again = run(SourceRequest {
        until: Some(offsets),
        ..asked(folder.path())
    })
    .unwrap()
    .rows();
    again.sort();
    assert_eq!(again, ["1", "2", "3", "4"]);
}

#[test]
fn a_file_cut_short_or_replaced_is_read_as_a_new_one() {
    for replaced in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        append(&path, "{\"i\":1}\n{\"i\":2}\n");
        let mut source = Followed::start(asked(&path));
        assert_eq!(source.wait_for(2).len(), 2);
        if replaced {
            let other = folder.path().join("other");
            append(&other, "{\"i\":7}\n{\"i\":8}\n{\"i\":9}\n");
            std::fs::rename(&other, &path).unwrap();
            assert_eq!(source.wait_for(3), ["7", "8", "9"]);
        } else {
            File::create(&path).unwrap().write_all(b"{\"i\":7}\n").unwrap();
            assert_eq!(source.wait_for(1), ["7"]);
        }
        append(&path, "{\"i\":3}\n");
        assert_eq!(source.wait_for(1), ["3"]);
        assert!(source.bad.is_empty());
        let offsets = source.end();
        append(&path, "{\"i\":4}\n");
        let mut again = Followed::start(SourceRequest {
            offsets,
            ..asked(&path)
        });
        assert_eq!(again.wait_for(1), ["4"], "each file goes on where it was");
        again.end();
    }
}

#[test]
fn what_was_left_in_a_rotated_log_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
    append(&path, "{\"i\":1}\n");
    let mut source = Followed::start(asked(&path));
    assert_eq!(source.wait_for(1), ["1"]);
    std::fs::rename(&path, &old).unwrap();
    append(&old, "{\"i\":2}\n");
    append(&path, "{\"i\":3}\n");
    assert_eq!(source.wait_for(2), ["2", "3"]);
    append(&path, "{\"i\":4}\n");
    assert_eq!(source.wait_for(1), ["4"]);
    source.end();
}

#[test]
fn a_stop_wakes_a_source_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let source = Followed::start(asked(folder.path()));
    let begun = Instant::now();
    source.end();
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn links_are_followed_to_where_they_lead() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let real = elsewhere.path().join("real");
    append(&real, "{\"i\":1}\n");
    std::os::unix::fs::symlink(&real, folder.path().join("link")).unwrap();
    for path in [folder.path().join("link"), folder.path().to_path_buf()] {
        let mut source = Followed::start(asked(&path));
        source.wait_for(real.metadata().unwrap().len() as usize / 8);
        append(&real, "{\"i\":2}\n");
        assert_eq!(source.wait_for(1), ["2"]);
        source.end();
    }
}

#[test]
fn csv_waits_for_its_header_and_parquet_for_its_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.csv");
    append(&path, "\u{feff}x,");
    let table = schema(&[("i", BIGINT)]);
    let asked = request(
        &table,
        &[("path", path.to_str().unwrap()), ("format", "csv"), ("follow", "true")],
    );
    let mut source = Followed::start(asked.clone());
    append(&path, "i\n1,10\n2,\"20");
    assert_eq!(source.wait_for(1), ["10"]);
    append(&path, "\"\n");
    assert_eq!(source.wait_for(1), ["20"]);
    let offsets = source.end();
    append(&path, "3,30\n");
    let mut source = Followed::start(SourceRequest { offsets, ..asked });
    assert_eq!(source.wait_for(1), ["30"]);
    source.end();

    let folder = tempfile::tempdir().unwrap();
    let asked = request(
        &table,
        &[
            ("path", folder.path().to_str().unwrap()),
            ("format", "parquet"),
            ("follow", "true"),
        ],
    );
    let write = |i: i64| {
        let batch = RecordBatch::try_from_iter([("i", Arc::new(Int64Array::from(vec![i])) as _)]).unwrap();
        let file = File::create(folder.path().join(format!("{i}.parquet"))).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    };
    write(0);
    let mut source = Followed::start(asked);
    assert_eq!(source.wait_for(1), ["0"]);
    for i in 1..4 {
        write(i);
        assert_eq!(source.wait_for(1), [i.to_string()]);
    }
    std::fs::write(folder.path().join("1.parquet"), "something else").unwrap();
    assert_eq!(source.wait_for(1), Vec::<String>::new());
    assert!(
        source.bad[0].reason.starts_with("it was cut short or replaced"),
        "{}",
        source.bad[0].reason
    );
    std::fs::write(folder.path().join("5.parquet"), "not finished").unwrap();
    assert_eq!(source.wait_for(1), Vec::<String>::new());
    write(5);
    assert_eq!(
        source.wait_for(1),
        ["5"],
        "a file that gave nothing is read when it is written again"
    );
    source.end();
}

#[test]
fn a_compressed_file_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.gz");
    append(&path, "");
    let error = crate::testing::connector()
        .source(asked(&path))
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error.code(), "CONN-0009");
    append(&folder.path().join("log"), "{\"i\":1}\n");
    let mut source = Followed::start(asked(folder.path()));
    assert_eq!(source.wait_for(2), ["1"]);
    assert_eq!(
        source.bad[0].reason,
        "it is compressed, and compressed files cannot be followed"
    );
    source.end();
}
