//! Options and paths that are refused.

use crate::testing::connector;
use crate::testing::{BIGINT, request, run, schema};
use arrow::datatypes::DataType;
use cenote_engine::port::{Connector, PathPolicy, SourceRequest};
use cenote_statestore::{Error, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::Path;

fn refused(pairs: &[(&str, &str)]) -> Error {
    connector()
        .source(request(&schema(&[("a", BIGINT)]), pairs))
        .map(|_| ())
        .unwrap_err()
}

#[test]
fn options_are_checked_by_name_value_and_company() {
    let code = |pairs: &[(&str, &str)]| refused(pairs).code();
    assert_eq!(code(&[("pth", "x"), ("format", "json")]), "CONN-0001");
    assert_eq!(code(&[("path", "x")]), "CONN-0002");
    assert_eq!(code(&[("path", "x"), ("format", "xml")]), "CONN-0003");
    assert_eq!(
        code(&[("path", "x"), ("format", "json"), ("follow", "yes")]),
        "CONN-0003"
    );
    assert_eq!(
        code(&[("path", "x"), ("format", "json"), ("header", "true")]),
        "CONN-0003"
    );
    assert_eq!(
        code(&[("path", "x"), ("format", "csv"), ("delimiter", "ab")]),
        "CONN-0003"
    );
    assert_eq!(
        code(&[("path", "x"), ("format", "csv"), ("batch_rows", "0")]),
        "CONN-0003"
    );
    assert_eq!(
        code(&[("path", "x"), ("format", "parquet"), ("compression", "gzip")]),
        "CONN-0003"
    );
    assert_eq!(
        code(&[
            ("path", "x"),
            ("format", "json"),
            ("compression", "zstd"),
            ("follow", "true")
        ]),
        "CONN-0003"
    );
    assert_eq!(
        refused(&[("path", "x"), ("format", "csv"), ("headr", "true")]).hint(),
        Some("did you mean `header`?")
    );
}

#[test]
fn a_type_that_no_format_has_is_refused_by_column() {
    let table = schema(&[
        ("a", BIGINT),
        ("odd", DataType::Duration(arrow::datatypes::TimeUnit::Second)),
    ]);
    let error = connector()
        .source(request(&table, &[("path", "/"), ("format", "json")]))
        .map(|_| ())
        .unwrap_err();
    assert_eq!((error.code(), error.kind()), ("CONN-0004", ErrorKind::Unsupported));
    assert!(error.message().contains("`odd`"));
}

#[test]
fn nothing_to_read_is_an_error_that_names_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.json");
    let globbed = folder.path().join("*.json");
    for path in [
        missing.to_str().unwrap(),
        globbed.to_str().unwrap(),
        folder.path().to_str().unwrap(),
        "",
        "a\0b",
    ] {
        let error = refused(&[("path", path), ("format", "json")]);
        assert_eq!(error.code(), "CONN-0006", "{path}");
    }
    let error = refused(&[("path", missing.to_str().unwrap()), ("format", "json")]);
    assert_eq!(
        error.message(),
        format!("cannot read `{}`: no such file or folder", missing.display())
    );
    assert_eq!(error.state(), "58P01");
    assert_eq!(
        refused(&[("path", "/dev/null"), ("format", "json"), ("on_error", "fail")]).code(),
        "CONN-0006"
    );
}

fn below(allowed: &Path, path: &Path) -> SourceRequest {
    let pairs = [("path", path.to_str().unwrap()), ("format", "json")];
    SourceRequest {
        paths: PathPolicy::Below(vec![allowed.to_path_buf()]),
        ..request(&schema(&[("a", BIGINT)]), &pairs)
    }
}

#[test]
fn paths_outside_the_allowed_folders_are_refused_however_they_are_written() {
    let outer = tempfile::tempdir().unwrap();
    let root = outer.path();
    let allowed = root.join("allowed");
    std::fs::create_dir_all(allowed.join("sub")).unwrap();
    std::fs::create_dir(root.join("allowed2")).unwrap();
    for file in [
        "secret.json",
        "allowed/in.json",
        "allowed2/x.json",
        "allowed/sub/y.json",
    ] {
        std::fs::write(root.join(file), "{\"a\":1}\n").unwrap();
    }
    symlink(root.join("secret.json"), allowed.join("link.json")).unwrap();
    symlink(root, allowed.join("up")).unwrap();
    symlink(allowed.join("in.json"), root.join("into.json")).unwrap();
    for path in [
        "secret.json",
        "allowed/../secret.json",
        "allowed/link.json",
        "allowed/up/secret.json",
        "allowed2/x.json",
        "*.json",
        "allowed2/*",
        "missing.json",
        "allowed/up/missing.json",
    ] {
        let error = connector()
            .source(below(&allowed, &root.join(path)))
            .map(|_| ())
            .unwrap_err();
        assert_eq!((error.code(), error.state()), ("CONN-0005", "42501"), "{path}");
        assert_eq!(
            error.message(),
            format!(
                "cannot read `{}`: it is outside the folders that this server may read",
                error_path(root, path)
            )
        );
        assert_eq!(error.detail(), Some(format!("allowed: {}", allowed.display())));
    }
    let error = connector()
        .source(below(&allowed, &allowed.join("sub/*/../../x")))
        .map(|_| ())
        .unwrap_err();
    assert!(error.message().contains("`..` after a wildcard"));
    for path in [
        "allowed/in.json",
        "allowed/sub/../in.json",
        "allowed/up/allowed/in.json",
        "allowed/sub",
        "allowed/sub/*.json",
        "into.json",
    ] {
        assert_eq!(run(below(&allowed, &root.join(path))).unwrap().rows(), ["1"], "{path}");
    }
    let error = connector()
        .source(below(&allowed, &allowed.join("*.json")))
        .map(|_| ())
        .unwrap_err();
    assert!(
        error.message().contains("link.json"),
        "a link found by a glob is refused: {}",
        error.message()
    );
    let error = connector()
        .source(below(&allowed, &allowed.join("missing.json")))
        .map(|_| ())
        .unwrap_err();
    assert_eq!(error.state(), "58P01", "inside, what is not there may be said");
}

/// What an error names: the path as given, or the folder before the wildcard.
fn error_path(root: &Path, path: &str) -> String {
    match path.split_once('*') {
        Some((folder, _)) => root
            .join(folder.trim_end_matches('/'))
            .display()
            .to_string()
            .trim_end_matches('/')
            .to_string(),
        None => root.join(path).display().to_string(),
    }
}

#[test]
fn what_the_operating_system_refuses_is_told_with_its_reason() {
    let error = super::super::watch::unwatched("no space left on device");
    let expected = "error[CONN-0011]: cannot watch files: no space left on device\n  \
                    try: raise fs.inotify.max_user_watches, or follow fewer folders";
    assert_eq!((error.render().as_str(), error.state()), (expected, "58030"));
    let denied = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
    let error = super::super::location::unlisted(Path::new("in"), &denied);
    let expected = "error[CONN-0015]: cannot list folder `in`: permission denied\n  \
                    try: let the user that the server runs as read the folder";
    assert_eq!((error.render().as_str(), error.state()), (expected, "58030"));
}
