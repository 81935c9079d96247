//! Tools that read a checkpoint without a server: `cenote state ... --from`, `cenote verify`.
//!
//! # Rules kept here
//! 1. Everything that is read was checked; what is damaged is named, and an older checkpoint is never taken in its place unasked.
//! 2. Names, formats and digests are those of a live server.
//!
//! # Not here
//! The format of checkpoints, and merging their parts: `cenote_statestore::checkpoint`.

mod diff;
mod export;
mod list;
mod look_up;
mod query;
mod rows;
mod verify;

pub use diff::{DIFFERENT, DiffOptions, diff};
pub use export::export;
pub use list::list;
pub use look_up::look_up;
pub use query::{query, scan};
pub use verify::{VerifyOptions, verify};

use super::output::Output;
use super::place::Place;
use cenote_query::schema_and_name;
use cenote_statestore::checkpoint::{Blobs, Checkpoint, Checkpoints, Depth, KeyGroups, TableEntry};
use cenote_statestore::{Digest, Error, ErrorKind, Result, Weights};
use std::path::Path;

/// Opens the checkpoint at a place: `ROOT/ID`, or `ROOT` for the newest one.
///
/// # Errors
/// There is none; it is damaged; or the newest one is, and an older one was not asked for.
pub fn open(place: &Path) -> Result<Checkpoint> {
    let place = Place::parse(place)?;
    let checkpoints = Checkpoints::new(place.blobs.clone());
    match &place.id {
        Some(id) => checkpoints.open(id),
        None => newest(&checkpoints, place.blobs.as_ref()),
    }
}

/// The name that the checkpoint knows a table by which is named as on a live server: either part may be in double quotes.
fn named(checkpoint: &Checkpoint, text: &str) -> String {
    if checkpoint.manifest().table(text).is_some() {
        return text.to_string();
    }
    let (schema, name) = schema_and_name(text);
    let mut tables = checkpoint.manifest().tables.iter();
    let found = tables.find(|table| table.schema == schema && table.name == name);
    found.map_or_else(|| text.to_string(), TableEntry::readable_name)
}

fn newest(checkpoints: &Checkpoints, root: &dyn Blobs) -> Result<Checkpoint> {
    let found = checkpoints.newest_whole(Depth::Lengths)?;
    let shown = root.describe(None);
    let Some((id, reason)) = found.damaged.first() else {
        return found.whole.ok_or_else(|| none_there(root));
    };
    let message = format!("cannot take the newest checkpoint of `{shown}`: {id} is damaged");
    let error = Error::new(ErrorKind::Corrupt, "CLI-0017", message).fact("damage", reason);
    Err(match found.whole {
        Some(older) => error.attempt(format!(
            "--from {shown}/{} for the newest one that is whole",
            older.manifest().id()
        )),
        None => error.attempt("restore the file from a copy: no older checkpoint is whole"),
    })
}

fn none_there(root: &dyn Blobs) -> Error {
    let message = format!("cannot read `{}`: there is no checkpoint in it", root.describe(None));
    Error::new(ErrorKind::Invalid, "CLI-0016", message)
        .sqlstate("02000")
        .attempt("--from ROOT/ID of a checkpoint, or --from ROOT, the folder or bucket that has a server's checkpoints")
}

/// Prints `digest  rows  name` of tables; of all when none is named.
///
/// # Errors
/// A table is not there, or a file is damaged.
pub fn digest(checkpoint: &Checkpoint, names: Vec<String>, output: &mut Output) -> Result<()> {
    let all = || {
        checkpoint
            .manifest()
            .tables
            .iter()
            .map(TableEntry::readable_name)
            .collect()
    };
    let names: Vec<String> = if names.is_empty() { all() } else { names };
    for name in &names {
        let mut digest = Digest::default();
        for changes in checkpoint.read_table(&named(checkpoint, name), KeyGroups::ALL)? {
            let (rows, weights) = changes?.into_parts();
            let weights = match weights {
                Weights::All(1) => None,
                Weights::All(weight) => Some(vec![weight; rows.num_rows()]),
                Weights::Each(each) => Some(each),
            };
            digest.update(&rows, weights.as_deref())?;
        }
        let line = format!("{}  {}  {name}\n", digest.finish_hex(), digest.rows());
        output.buffer().extend_from_slice(line.as_bytes());
    }
    output.flush()
}

#[cfg(test)]
mod tests;
