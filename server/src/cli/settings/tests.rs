//! Precedence and refusals of settings.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Command1 {
    #[command(flatten)]
    serve: ServeOptions,
}

fn flags(arguments: &[&str]) -> ServeOptions {
    Command1::parse_from(["serve"].iter().chain(arguments)).serve
}

fn parse(text: &str) -> Result<ServeOptions> {
    parse_file(Path::new("cenote.toml"), text)
}

#[test]
fn flags_win_over_the_file_and_the_file_over_defaults() {
    let file = parse("http = '0.0.0.0:80'\npg = 'off'\nretain_time = '1h'\nmax_body = 1024\nworkers = 3").unwrap();
    let options = flags(&["--http", "127.0.0.1:0", "--workers", "2"]).or(file);
    assert_eq!(options.http.as_deref(), Some("127.0.0.1:0"));
    assert_eq!(options.workers, Some(2));
    let settings = Settings::resolve(options).unwrap();
    assert_eq!(settings.http, Door::At("127.0.0.1:0".into()));
    assert_eq!(settings.pg, Door::Closed);
    assert_eq!(settings.flight, Door::At("127.0.0.1:32010".into()));
    assert_eq!(settings.limits.body_bytes_max, 1024);
    assert_eq!(settings.limits.statement_bytes_max, 16 << 20);
    let database = settings.database();
    assert_eq!(database.workers, 2);
    assert_eq!(database.retain_time, Duration::from_secs(3600));
    assert_eq!(database.data_dir.as_deref(), Some(Path::new("./cenote-data")));
}

#[test]
fn file_named_by_config_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cenote.toml");
    std::fs::write(&path, "allow_path = ['/srv', '/data']\nretain_epochs = 9\n").unwrap();
    let settings = Settings::resolve(flags(&["--config", path.to_str().unwrap()])).unwrap();
    let database = settings.database();
    assert_eq!(database.retain_epochs, 9);
    assert!(matches!(database.paths, PathPolicy::Below(paths) if paths == [Path::new("/srv"), Path::new("/data")]));
    let missing = Settings::resolve(flags(&["--config", "no/such/file.toml"])).unwrap_err();
    assert_eq!(missing.code(), "CLI-0003");
}

#[test]
fn unknown_key_is_refused_with_the_nearest() {
    let error = parse("retain_epoch = 3").unwrap_err();
    assert_eq!(
        error.message(),
        "cannot read settings from cenote.toml: unknown key `retain_epoch`"
    );
    assert_eq!(error.hint(), Some("did you mean `retain_epochs`?"));
    assert!(parse("config = 'other.toml'").is_err());
}

#[test]
fn bad_values_are_refused_with_their_place() {
    let error = parse("http = '127.0.0.1:0'\nmax_body = 'huge'").unwrap_err();
    assert!(
        error.message().contains("line 2") && error.message().contains("huge"),
        "{error}"
    );
    assert!(parse("workers = 0").is_err());
    assert!(parse("workers = ").is_err());
}

#[test]
fn every_option_is_a_key_of_the_file() {
    let value = |key: &str| match key {
        "workers" | "retain_epochs" | "max_connections" | "checkpoint_retain" => "1",
        "allow_older_checkpoint" | "take_over" => "true",
        "allow_path" => "['.']",
        "state_backend" => "'memory'",
        _ => "'1'",
    };
    let text: String = keys().iter().map(|key| format!("{key} = {}\n", value(key))).collect();
    let read = parse(&text).unwrap();
    let merged = ServeOptions::default().or(read.clone());
    assert_eq!(merged, read, "a key is lost in the merge");
    assert!(
        !format!(
            "{:?}",
            ServeOptions {
                config: Some("x".into()),
                ..merged
            }
        )
        .contains("None"),
        "a key is not read"
    );
}
