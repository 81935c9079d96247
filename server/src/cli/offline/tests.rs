//! What paths name, and what is told where there is nothing.

use super::*;

#[test]
fn paths_name_one_checkpoint_or_a_folder_of_them() {
    let id = "20261130T151923.123Z-9f3a01bc";
    let one = |path: &str| match place(Path::new(path)) {
        Place::One(root, id) => Some((root.to_path_buf(), id.to_string())),
        Place::Folder(_) => None,
    };
    assert_eq!(one(&format!("a/b/{id}")), Some(("a/b".into(), id.into())));
    assert_eq!(one(&format!("{id}/")), Some((".".into(), id.into())));
    assert_eq!(one("a/b"), None);
    assert_eq!(one(""), None);
}

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
