//! The whole text of errors that no request provokes.

use super::*;
use arrow::error::ArrowError;

#[test]
fn faults_of_ours_ask_to_be_reported() {
    let expected = "error[BUG-0001]: a row has no table\n  try: report this with the statement that caused it";
    assert_eq!(Error::bug("a row has no table").render(), expected);
    let error = Error::from(ArrowError::SchemaError("two columns, one array".into()));
    assert_eq!((error.kind(), error.state()), (ErrorKind::Bug, "XX000"));
    let expected = "error[BUG-0002]: cannot process batch: Schema error: two columns, one array\n  try: report this with the statement that caused it";
    assert_eq!(error.render(), expected);
}

#[test]
fn a_file_that_fails_is_told_with_the_reason_of_the_operating_system() {
    let error = Error::from(std::io::Error::from(std::io::ErrorKind::StorageFull));
    assert_eq!((error.kind(), error.state()), (ErrorKind::Unavailable, "58030"));
    assert_eq!(
        error.render(),
        "error[IO-0001]: cannot read or write a file: no storage space"
    );
}

#[test]
fn facts_stand_at_their_colons_and_sentences_alone() {
    let error = Error::new(ErrorKind::Invalid, "SQL-0001", "cannot do it")
        .fact("seen", 1)
        .fact("expected", 2);
    assert_eq!(
        error.render(),
        "error[SQL-0001]: cannot do it\n      seen: 1\n  expected: 2"
    );
    assert_eq!(
        error.telling("Say less.").detail().unwrap(),
        "seen: 1\nexpected: 2\nSay less."
    );
}
