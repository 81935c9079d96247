//! The text of a panic.

use super::*;

#[test]
fn a_panic_of_a_library_is_told_as_a_fault_of_ours() {
    let error = crate::error::from_datafusion(panicked(&"index out of bounds"));
    assert_eq!((error.kind(), error.state()), (ErrorKind::Bug, "XX000"));
    let expected = "error[QUERY-0002]: cannot run query: one of its functions or operators panicked\n  \
                    try: a smaller result, if a text or a list grew beyond 2 GB";
    assert_eq!(error.render(), expected);
}

#[test]
fn what_is_too_long_for_a_batch_is_told_as_such() {
    let error = crate::error::from_datafusion(panicked(&"byte array offset overflow".to_string()));
    assert_eq!(error.state(), "54000");
}
