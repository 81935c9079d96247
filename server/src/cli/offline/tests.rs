//! What is told where there is nothing.

use super::*;

#[test]
fn empty_folder_has_no_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().to_path_buf(), folder.path().join("not/there")] {
        let error = open(&path).unwrap_err();
        assert_eq!((error.code(), error.state()), ("CLI-0016", "02000"));
    }
    let error = open(&folder.path().join("20261130T151923.123Z-9f3a01bc")).unwrap_err();
    assert_eq!(error.code(), "CKPT-0006");
}
