//! A log that the first release wrote opens for ever.
//!
//! Files of a released format are never rewritten. `cargo test -p cenote-statestore write_golden_log -- --ignored` makes
//! them for a new format version, where they are not there yet.

use super::*;
use crate::wal::identity::FORMAT;

fn golden(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../tests/golden/format/v{version}/wal"))
}

fn written() -> Vec<Record> {
    (1..=7).map(record).collect()
}

#[test]
#[ignore = "makes the files for a new format version"]
fn write_golden_log() {
    let folder = golden(FORMAT);
    assert!(!folder.exists(), "files of a released format are never rewritten");
    let (mut log, _) = Log::open(&folder, options(1500)).unwrap();
    written()
        .iter()
        .for_each(|record| assert!(log.append(record).unwrap() > 0));
    log.close().unwrap();
    std::fs::remove_file(folder.join(LOCK_NAME)).unwrap();
}

#[test]
fn logs_of_every_released_format_open() {
    for version in 1..=FORMAT {
        let folder = tempfile::tempdir().unwrap();
        restore(folder.path(), &contents(&golden(version)));
        assert!(segment_names(folder.path()).len() > 1);
        let (mut log, records) = open(folder.path()).unwrap();
        assert_eq!(records, written(), "format {version}");
        log.append(&record(8)).unwrap();
        log.close().unwrap();
        assert_eq!(read(folder.path()).unwrap().len(), 8);
    }
}
