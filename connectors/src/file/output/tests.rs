//! Files as other programs see them, after kills at every moment.

use super::*;
use crate::sink_contract::tests::{insertions, updates};
use crate::sink_contract::{Drill, Kill};
use crate::testing::{BIGINT, Bars, TEXT, rows_of, schema, sink_request};
use arrow::datatypes::SchemaRef;
use cenote_engine::port::PathPolicy;
use cenote_statestore::{Error, ErrorKind};
use std::collections::BTreeMap;
use std::path::Path;

fn columns() -> SchemaRef {
    schema(&[("k", BIGINT), ("v", TEXT)])
}

fn sink(folder: &Path, pairs: &[(&str, &str)]) -> Result<Box<dyn Sink>> {
    let path = folder.to_str().unwrap();
    let pairs: Vec<_> = pairs.iter().copied().chain([("path", path)]).collect();
    let bars: Arc<dyn Encodings> = Arc::new(Bars);
    Ok(Box::new(FileOutput::new(&sink_request(&columns(), &pairs), &bars)?))
}

/// What a reader of the folder finds, by name; hidden files are not his.
fn published(folder: &Path) -> BTreeMap<String, String> {
    let names = |hidden: bool| {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        entries.filter(move |entry| entry.file_name().to_str().unwrap().starts_with('.') == hidden)
    };
    let text = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    names(false)
        .map(|entry| (entry.file_name().into_string().unwrap(), text(entry.path())))
        .collect()
}

fn hidden(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    entries.filter(|name| name.to_str().unwrap().starts_with('.')).count()
}

fn clear(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

/// What a changelog of the epochs says, line by line.
fn lines(epochs: &[(Epoch, Changes)]) -> Vec<String> {
    let of_epoch = |(epoch, changes): &(Epoch, Changes)| {
        let rows = rows_of(changes.rows()).into_iter().enumerate();
        let line = |(row, text)| format!("{epoch}|{}|{text}", changes.weights().get(row));
        rows.map(line).collect::<Vec<_>>()
    };
    epochs.iter().flat_map(of_epoch).collect()
}

/// The rows of all files in order, without what a format puts around them.
fn rows(files: &BTreeMap<String, String>) -> Vec<String> {
    let rows = files.values().flat_map(|text| text.lines());
    rows.filter(|line| !["#", "."].contains(line))
        .map(str::to_string)
        .collect()
}

#[test]
fn files_are_complete_and_the_same_whenever_a_sink_is_killed() {
    let epochs = updates(3, 5);
    let rolls: [&[(&str, &str)]; 3] = [&[], &[("roll_epochs", "2")], &[("roll_rows", "1000000")]];
    for format in ["ndjson", "parquet"] {
        for roll in rolls {
            for (kill, epochs_per_transaction) in [(Kill::Process, 2), (Kill::Call, 1)] {
                let folder = tempfile::tempdir().unwrap();
                let pairs: Vec<_> = roll
                    .iter()
                    .copied()
                    .chain([("format", format), ("mode", "changelog")])
                    .collect();
                let open = || sink(folder.path(), &pairs).unwrap();
                let drill = Drill {
                    open: &open,
                    epochs: &epochs,
                    epochs_per_transaction,
                };
                drill.run_through();
                let whole = published(folder.path());
                assert_eq!(rows(&whole), lines(&epochs), "{format} {roll:?}");
                clear(folder.path());
                let moments = drill.run_cut_off_everywhere(kill, |at| {
                    assert_eq!(
                        published(folder.path()),
                        whole,
                        "{format} {roll:?} {kill:?} at moment {at}"
                    );
                    assert_eq!(hidden(folder.path()), 0, "{format} {roll:?} {kill:?} at moment {at}");
                    clear(folder.path());
                });
                assert!(moments > 20, "{moments} moments");
            }
        }
    }
}

#[test]
fn files_end_with_the_epoch_that_fills_them() {
    let files_of = |roll: (&str, &str)| -> Vec<usize> {
        let folder = tempfile::tempdir().unwrap();
        let open = || sink(folder.path(), &[("format", "ndjson"), roll]).unwrap();
        let epochs = insertions(6);
        Drill {
            open: &open,
            epochs: &epochs,
            epochs_per_transaction: 4,
        }
        .run_through();
        let files = published(folder.path());
        assert!(files.keys().next().unwrap() == "k-0000000001.ndjson", "{files:?}");
        files.values().map(|text| text.lines().count()).collect()
    };
    // Rows of the epochs: 2 3 1 2 3 1.
    assert_eq!(files_of(("roll_epochs", "1")), [2, 3, 1, 2, 3, 1]);
    assert_eq!(files_of(("roll_epochs", "4")), [8, 4]);
    assert_eq!(files_of(("roll_rows", "3")), [5, 3, 3, 1]);
    // A line is `10|` and the like, and as many `x` as its place in the epoch.
    assert_eq!(files_of(("roll_bytes", "16")), [5, 6, 1]);
}

#[test]
fn nothing_shows_before_it_is_committed_and_all_of_it_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = sink(folder.path(), &[("format", "csv"), ("roll_epochs", "2")]).unwrap();
    sink.recover(None).unwrap();
    let epochs = insertions(3);
    for (epoch, changes) in &epochs {
        sink.write(*epoch, changes).unwrap();
    }
    let token = sink.prepare(epochs[2].0, Cut::Here).unwrap();
    assert!(published(folder.path()).is_empty());
    sink.commit(&token).unwrap();
    assert_eq!(published(folder.path()).len(), 1, "the second file is not full");
    let token = sink.prepare(epochs[2].0, Cut::End).unwrap();
    assert_eq!(published(folder.path()).len(), 1);
    sink.commit(&token).unwrap();
    assert_eq!(published(folder.path()).len(), 2);
}

#[test]
fn a_file_that_a_reader_took_away_is_not_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let epochs = insertions(2);
    let mut first = sink(folder.path(), &[("format", "ndjson")]).unwrap();
    first.recover(None).unwrap();
    first.write(epochs[0].0, &epochs[0].1).unwrap();
    let token = first.prepare(epochs[0].0, Cut::Here).unwrap();
    first.commit(&token).unwrap();
    clear(folder.path());
    let mut second = sink(folder.path(), &[("format", "ndjson")]).unwrap();
    second.recover(Some(&token)).unwrap();
    second.write(epochs[1].0, &epochs[1].1).unwrap();
    let token = second.prepare(epochs[1].0, Cut::End).unwrap();
    second.commit(&token).unwrap();
    assert_eq!(
        published(folder.path()).into_keys().collect::<Vec<_>>(),
        ["k-0000000002.ndjson"]
    );
}

#[test]
fn a_time_limit_makes_a_file_due() {
    let folder = tempfile::tempdir().unwrap();
    let mut sink = sink(folder.path(), &[("format", "ndjson"), ("roll_interval_ms", "1")]).unwrap();
    sink.recover(None).unwrap();
    assert_eq!(sink.due(), None);
    let (epoch, changes) = &insertions(1)[0];
    sink.write(*epoch, changes).unwrap();
    let due = sink.due().expect("a file with rows is due some time");
    std::thread::sleep(due.saturating_duration_since(Instant::now()));
    let token = sink.prepare(*epoch, Cut::Here).unwrap();
    sink.commit(&token).unwrap();
    assert_eq!(published(folder.path()).len(), 1);
    assert_eq!(sink.due(), None);
}

fn refused(sink: Result<Box<dyn Sink>>) -> Error {
    sink.map(|_| ()).unwrap_err()
}

#[test]
fn the_folder_of_another_sink_of_the_name_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("k-0000000007.ndjson"), "theirs").unwrap();
    let mut mine = sink(folder.path(), &[("format", "ndjson")]).unwrap();
    let error = mine.recover(None).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("CONN-0019", ErrorKind::Conflict));
    // Files of others whose names look like its own are not.
    clear(folder.path());
    for name in [
        "k-1-0000000001.ndjson",
        "kk-0000000001.ndjson",
        "k-x.ndjson",
        ".k-1-0000000001.ndjson.staged",
    ] {
        std::fs::write(folder.path().join(name), "theirs").unwrap();
    }
    mine.recover(None).unwrap();
    assert_eq!(hidden(folder.path()), 1);
    // A name that is taken later is not written over.
    let (epoch, changes) = &insertions(1)[0];
    mine.write(*epoch, changes).unwrap();
    let token = mine.prepare(*epoch, Cut::Here).unwrap();
    let taken = folder.path().join("k-0000000001.ndjson");
    std::fs::write(&taken, "theirs").unwrap();
    assert_eq!(mine.commit(&token).unwrap_err().code(), "CONN-0019");
    assert_eq!(std::fs::read_to_string(taken).unwrap(), "theirs");
}

#[test]
fn a_staged_file_that_was_cut_short_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let pairs = [("format", "ndjson"), ("roll_rows", "100")];
    let mut first = sink(folder.path(), &pairs).unwrap();
    first.recover(None).unwrap();
    let (epoch, changes) = &insertions(1)[0];
    first.write(*epoch, changes).unwrap();
    let token = first.prepare(*epoch, Cut::Here).unwrap();
    drop(first);
    let staged = folder.path().join(".k-0000000001.ndjson.staged");
    std::fs::write(&staged, "").unwrap();
    let error = sink(folder.path(), &pairs).unwrap().recover(Some(&token)).unwrap_err();
    assert_eq!((error.code(), error.kind()), ("CONN-0021", ErrorKind::Corrupt));
    assert!(
        error.render().contains(".k-0000000001.ndjson.staged"),
        "{}",
        error.render()
    );
}

#[test]
fn options_and_folders_that_cannot_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let code = |pairs: &[(&str, &str)]| refused(sink(folder.path(), pairs)).code();
    assert_eq!(code(&[]), "CONN-0002");
    assert_eq!(code(&[("format", "json")]), "CONN-0003");
    assert_eq!(code(&[("format", "csv"), ("roll_rows", "0")]), "CONN-0003");
    assert_eq!(code(&[("format", "parquet"), ("roll_bytes", "10")]), "CONN-0003");
    assert_eq!(code(&[("format", "csv"), ("rol_rows", "1")]), "CONN-0001");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert_eq!(refused(sink(&file, &[("format", "csv")])).code(), "CONN-0006");
}

#[test]
fn files_are_written_below_the_allowed_folders_only() {
    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let at = |path: &Path| -> Result<Box<dyn Sink>> {
        let mut request = sink_request(&columns(), &[("format", "csv"), ("path", path.to_str().unwrap())]);
        request.paths = PathPolicy::Below(vec![inside.path().to_path_buf()]);
        let bars: Arc<dyn Encodings> = Arc::new(Bars);
        Ok(Box::new(FileOutput::new(&request, &bars)?))
    };
    at(&inside.path().join("new/deep")).unwrap().recover(None).unwrap();
    assert!(inside.path().join("new/deep").is_dir());
    std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
    for path in ["link", "link/new", "new/../../elsewhere", "none/../../elsewhere"] {
        assert_eq!(refused(at(&inside.path().join(path))).code(), "CONN-0005", "{path}");
    }
    assert_eq!(refused(at(outside.path())).code(), "CONN-0005");
}
