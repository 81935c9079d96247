//! Logs that are begun in place of lost ones.

use super::*;

const ID: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn a_log_that_is_begun_goes_on_with_the_name_and_the_numbers_of_the_lost_one() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("data/log");
    assert!(!Log::is_there(&folder).unwrap());
    assert!(Log::begin(&folder, ID, 42).unwrap());
    assert!(Log::is_there(&folder).unwrap());
    assert!(!Log::begin(&folder, ID, 7).unwrap(), "there is one");
    let (mut log, replay) = Log::open(&folder, LogOptions::default()).unwrap();
    assert_eq!((log.id().as_str(), log.first_lsn(), log.next_lsn()), (ID, 42, 42));
    assert_eq!(replay.count(), 0);
    assert_eq!(log.append(&record(1)).unwrap(), 42);
    log.close().unwrap();
    let (log, replay) = Log::open(&folder, LogOptions::default()).unwrap();
    assert_eq!(replay.collect::<Result<Vec<_>>>().unwrap(), [record(1)]);
    assert_eq!((log.id().as_str(), log.next_lsn()), (ID, 43));
}

#[test]
fn a_beginning_that_was_cut_short_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    assert!(Log::begin(folder.path(), ID, 42).unwrap());
    std::fs::remove_file(identity::path(folder.path())).unwrap();
    assert!(!Log::is_there(folder.path()).unwrap());
    assert!(Log::begin(folder.path(), ID, 40).unwrap());
    let (log, _) = Log::open(folder.path(), LogOptions::default()).unwrap();
    assert_eq!((log.first_lsn(), log.next_lsn()), (40, 40));
}

#[test]
fn a_log_with_records_is_there_also_without_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (mut log, _) = Log::open(folder.path(), LogOptions::default()).unwrap();
    log.append(&record(1)).unwrap();
    log.close().unwrap();
    std::fs::remove_file(identity::path(folder.path())).unwrap();
    assert!(Log::is_there(folder.path()).unwrap());
    assert!(!Log::begin(folder.path(), ID, 1).unwrap());
}
