//! The errors of checkpoints, each with its code, in one place.

use std::io;

use super::blobs::{BlobPath, Blobs, Refusal, Refused};
use super::document::{FORMAT, Flaw};
use super::identity::CheckpointId;
use crate::{Error, ErrorKind};

/// Tables that an error names at most.
const TABLES_NAMED: usize = 20;

fn named(blobs: &dyn Blobs, path: &BlobPath) -> String {
    format!("`{}`", blobs.describe(Some(path)))
}

/// Another server owns the folder.
pub(super) fn foreign(blobs: &dyn Blobs, owner: &str, server: &str) -> Error {
    let message = format!(
        "cannot keep checkpoints in `{}`: it belongs to another server",
        blobs.describe(None)
    );
    Error::new(ErrorKind::Invalid, "CKPT-0001", message)
        .sqlstate("55000")
        .fact("belongs to", owner)
        .fact("this server", server)
        .attempt("choose another place, or start with the data directory that it belongs to; if that is lost for good, with an empty one and --take-over")
}

/// A file is missing, or is not what was written.
pub(super) fn damaged(blobs: &dyn Blobs, path: &BlobPath, reason: impl std::fmt::Display) -> Error {
    let message = format!("cannot read {}: {reason}", named(blobs, path));
    Error::new(ErrorKind::Corrupt, "CKPT-0002", message)
        .attempt("restore the file from a copy, or use an older checkpoint: `cenote verify` names all that is damaged")
}

/// A document cannot be used.
pub(super) fn flawed(blobs: &dyn Blobs, path: &BlobPath, flaw: Flaw) -> Error {
    match flaw {
        Flaw::Damaged(reason) => damaged(blobs, path, reason),
        Flaw::Newer(version) => {
            let message = format!("cannot read {}: it has format version {version}", named(blobs, path));
            Error::new(ErrorKind::Unsupported, "CKPT-0003", message)
                .fact("supported", format!("versions up to {FORMAT}"))
                .attempt("use the release of Cenote that wrote it, or a newer one")
        }
    }
}

/// What keeps the bytes failed.
pub(super) fn io(verb: &str, place: &str, cause: io::Error) -> Error {
    let message = format!("cannot {verb} `{place}`: {cause}");
    let inner = cause.get_ref().and_then(|inner| inner.downcast_ref::<Refused>());
    match inner.map(|refused| refused.refusal) {
        None => Error::new(ErrorKind::Unavailable, "CKPT-0004", message).sqlstate("58030"),
        Some(refusal) => refused(refusal, message),
    }
    .source(cause)
}

/// What keeps the bytes does not work at all.
fn refused(refusal: Refusal, message: String) -> Error {
    let (kind, code, state, attempt) = match refusal {
        Refusal::NoBucket => (
            ErrorKind::Unavailable,
            "CKPT-0012",
            "58P01",
            "create the bucket, or correct its name or AWS_ENDPOINT",
        ),
        Refusal::Denied => (
            ErrorKind::Unavailable,
            "CKPT-0013",
            "42501",
            "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, and that they may read, write, list and delete there",
        ),
        Refusal::Unreachable => (
            ErrorKind::Unavailable,
            "CKPT-0014",
            "08006",
            "check AWS_ENDPOINT, AWS_REGION and the network; nothing was lost",
        ),
        Refusal::Overwrites => (
            ErrorKind::Unsupported,
            "CKPT-0015",
            "0A000",
            "use a store that honours `If-None-Match: *` on PutObject: without it two servers could overwrite each other's checkpoints",
        ),
        Refusal::Settings => (
            ErrorKind::Invalid,
            "CKPT-0016",
            "22023",
            "correct the variables AWS_... of the environment, and start again",
        ),
    };
    Error::new(kind, code, message).sqlstate(state).attempt(attempt)
}

/// What was written is not there as it was written.
pub(super) fn lost(blobs: &dyn Blobs, path: &BlobPath, reason: impl std::fmt::Display) -> Error {
    let message = format!("cannot publish checkpoint: {} {reason}", named(blobs, path));
    Error::new(ErrorKind::Unavailable, "CKPT-0005", message)
        .sqlstate("58030")
        .attempt("look at the disk or the bucket: it said that the write was done. The next checkpoint writes anew")
}

/// No checkpoint has that name.
pub(super) fn missing(blobs: &dyn Blobs, id: &str, reason: &str) -> Error {
    let message = format!("cannot open checkpoint {id} in `{}`: {reason}", blobs.describe(None));
    Error::new(ErrorKind::Invalid, "CKPT-0006", message)
        .sqlstate("02000")
        .attempt("`cenote state ls --from ROOT` opens the newest one")
}

/// The checkpoint has no such table.
pub(super) fn no_table(id: &CheckpointId, name: &str, tables: &[String]) -> Error {
    let message = format!("cannot read `{name}` in checkpoint {id}: there is no such table");
    let more = if tables.len() > TABLES_NAMED { ", ..." } else { "" };
    let named: Vec<&str> = tables.iter().take(TABLES_NAMED).map(String::as_str).collect();
    Error::new(ErrorKind::Invalid, "CKPT-0007", message)
        .sqlstate("42P01")
        .fact("tables", format!("{}{more}", named.join(", ")))
}

/// A column's type or name cannot be in a checkpoint.
pub(super) fn unstorable(table: &str, column: &str, reason: impl std::fmt::Display) -> Error {
    let message = format!("cannot write table `{table}` to a checkpoint: column `{column}` {reason}");
    Error::new(ErrorKind::Unsupported, "CKPT-0008", message)
}

/// A savepoint of that name cannot be made, or is not there.
pub(super) fn savepoint(verb: &str, name: &str, reason: &str) -> Error {
    let message = format!("cannot {verb} savepoint \"{name}\": {reason}");
    Error::new(ErrorKind::Invalid, "CKPT-0009", message).sqlstate(match verb {
        "create" => "42710",
        _ => "42704",
    })
}

/// A part of the checkpoint failed before.
pub(super) fn spoilt(id: &CheckpointId, first: &Error) -> Error {
    let message = format!("cannot publish checkpoint {id}: a part of it was not written");
    Error::new(ErrorKind::Unavailable, "CKPT-0010", message)
        .sqlstate("58030")
        .fact("first failure", first)
        .attempt("the next checkpoint writes anew; nothing was lost")
        .source(first.clone())
}

/// A manifest cannot be read, so what it needs is not known and nothing is deleted.
pub(super) fn uncollected(cause: &Error) -> Error {
    let message = "cannot delete old checkpoints: the files that one of them needs are not known";
    Error::new(cause.kind(), "CKPT-0011", message)
        .sqlstate(cause.state())
        .fact("cause", cause)
        .attempt("restore that manifest from a copy, or remove the folder of its checkpoint")
        .source(cause.clone())
}
