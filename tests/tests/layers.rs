//! Compares the dependencies among the workspace's crates with the table in `docs/architecture.md`.
//!
//! # Rules kept here
//! 1. A crate depends on exactly the crates that the table's row names, so the table is never out of date.
//! 2. Every crate of the workspace has a row.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

type Layers = BTreeMap<String, BTreeSet<String>>;

const TABLE_HEAD: &str = "| Crate | May use |";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate lies in the workspace")
        .to_owned()
}

/// Reads the rows under [`TABLE_HEAD`]: in backquotes the crate in the first cell, what it may use in the second.
fn documented(page: &str) -> Layers {
    let table = page.lines().skip_while(|line| !line.starts_with(TABLE_HEAD)).skip(2);
    let rows = table.take_while(|line| line.starts_with('|'));
    rows.map(|line| {
        let cells: Vec<&str> = line.split('|').collect();
        (
            quoted(cells[1]).next().expect("a row names its crate"),
            quoted(cells[2]).collect(),
        )
    })
    .collect()
}

fn quoted(cell: &str) -> impl Iterator<Item = String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// Dependencies among workspace crates in all sections but `[dev-dependencies]`, without the prefix `cenote-`.
fn declared(metadata: &serde_json::Value) -> Layers {
    let packages = metadata["packages"].as_array().expect("cargo metadata lists packages");
    packages
        .iter()
        .map(|package| (short(&package["name"]), uses(package)))
        .collect()
}

fn uses(package: &serde_json::Value) -> BTreeSet<String> {
    let dependencies = package["dependencies"]
        .as_array()
        .expect("a package lists its dependencies");
    let own = dependencies
        .iter()
        .filter(|one| one["name"].as_str().is_some_and(|name| name.starts_with("cenote-")));
    own.filter(|one| one["kind"].as_str() != Some("dev"))
        .map(|one| short(&one["name"]))
        .collect()
}

fn short(name: &serde_json::Value) -> String {
    name.as_str()
        .expect("names are text")
        .trim_start_matches("cenote-")
        .to_owned()
}

#[test]
fn crates_depend_on_each_other_as_the_architecture_page_says() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata = serde_json::from_slice(&output.stdout).expect("cargo metadata prints JSON");
    let page = std::fs::read_to_string(root().join("docs/architecture.md")).expect("the page is there");
    assert_eq!(
        declared(&metadata),
        documented(&page),
        "left: Cargo.toml files, right: docs/architecture.md"
    );
}

#[test]
fn a_row_of_the_table_is_read_with_all_its_names() {
    let page = format!(
        "x\n{TABLE_HEAD} Never |\n|---|---|---|\n| `b` | `a`, `c` | knows `z` |\n| `a` | | |\n\n| `z` | `b` |\n"
    );
    let wanted: Layers = [("a", vec![]), ("b", vec!["a", "c"])]
        .map(|(name, uses)| (name.to_owned(), uses.into_iter().map(str::to_owned).collect()))
        .into();
    assert_eq!(documented(&page), wanted);
}

#[test]
fn a_dependency_is_seen_and_a_test_dependency_is_not() {
    let metadata = serde_json::json!({"packages": [{"name": "cenote-b", "dependencies": [
        {"name": "cenote-a", "kind": null}, {"name": "cenote-t", "kind": "dev"}, {"name": "serde", "kind": null},
    ]}]});
    let wanted: Layers = [("b".to_owned(), BTreeSet::from(["a".to_owned()]))].into();
    assert_eq!(declared(&metadata), wanted);
}
