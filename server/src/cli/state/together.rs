//! Several collections of a server at one epoch: exported to files, or digested.

use super::client::{self, Client};
use super::{number, text, unexpected};
use crate::cli::export::ExportOptions;
use crate::cli::output::Output;
use arrow::datatypes::Schema;
use cenote_statestore::Result;
use cenote_statestore::checkpoint::file_name;
use std::collections::BTreeSet;
use std::io::BufRead;

/// The path of a route of snapshots, for some names; for everything if there is none.
fn path(route: &str, names: &[String]) -> String {
    let mut path = client::path(&["api", "v1", "snapshot", route]);
    if !names.is_empty() {
        let quoted = names.iter().map(|name| format!("\"{}\"", name.replace('"', "\"\"")));
        path.push('?');
        client::push_parameter(&mut path, "names", &quoted.collect::<Vec<_>>().join(","));
    }
    path
}

/// Writes collections to files, all as of one epoch.
///
/// # Errors
/// What the server answered; it stopped sending; or a file cannot be written.
pub fn export(client: &Client, options: &ExportOptions) -> Result<()> {
    let names: Vec<String> = options.table.iter().cloned().collect();
    let known = match options.table {
        Some(_) => Vec::new(),
        None => super::entries(client)?,
    };
    let mut answer = client::reader(client.get(&path("scan.arrow", &names))?);
    options.prepare()?;
    let (mut epoch, mut written, mut expected) = (None, BTreeSet::new(), 0);
    while !answer.fill_buf().map_err(client::cut)?.is_empty() {
        let (schema, rows) = client::batches(&mut answer)?;
        let name = label(&schema, "cenote.name")?.to_owned();
        let file = file_name(label(&schema, "cenote.schema")?, label(&schema, "cenote.table")?);
        expected = label(&schema, "cenote.tables")?.parse().unwrap_or(usize::MAX);
        epoch = Some(label(&schema, "cenote.epoch")?.to_owned());
        options.write(&name, &file, &schema, rows)?;
        written.insert(name);
    }
    if written.len() != expected {
        return Err(unexpected(&format!(
            "it ends after {} of {expected} tables",
            written.len()
        )));
    }
    for entry in &known {
        let name = text(entry, "name")?;
        if !written.contains(name) {
            eprintln!("left out: {name}, whose view has failed, is not complete yet, or was dropped");
        }
    }
    if let Some(epoch) = epoch {
        eprintln!("epoch {epoch}");
    }
    Ok(())
}

fn label<'a>(schema: &'a Schema, name: &str) -> Result<&'a str> {
    let value = schema.metadata().get(name);
    value
        .map(String::as_str)
        .ok_or_else(|| unexpected(&format!("no `{name}`")))
}

/// Prints `digest  rows  name` of collections, all as of one epoch; of everything when none is named.
///
/// # Errors
/// What the server answered.
pub fn digest(client: &Client, names: &[String], output: &mut Output) -> Result<()> {
    let answer = client.json(&path("digest", names))?;
    let digests = answer["digests"].as_array().ok_or_else(|| unexpected("no `digests`"))?;
    for (index, found) in digests.iter().enumerate() {
        let name = match names.get(index) {
            Some(name) => name,
            None => text(found, "name")?,
        };
        let line = format!("{}  {}  {name}\n", text(found, "digest")?, number(found, "rows")?);
        output.buffer().extend_from_slice(line.as_bytes());
    }
    output.flush()
}
