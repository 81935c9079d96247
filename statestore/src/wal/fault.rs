//! The errors of the log, each with its code, in one place.

use std::io;
use std::path::Path;

use super::identity::FORMAT;
use super::verdict::Flaw;
use crate::{Error, ErrorKind};

fn log(folder: &Path) -> String {
    format!("write-ahead log `{}`", folder.display())
}

/// A process, perhaps this one, holds the folder.
pub(super) fn locked(folder: &Path, holder: &str) -> Error {
    let holder = if holder.is_empty() { "unknown" } else { holder };
    let message = format!("cannot open {}: it is in use", log(folder));
    Error::new(ErrorKind::Unavailable, "WAL-0001", message)
        .sqlstate("55006")
        .fact("process", holder)
        .attempt("stop that process, or choose another data directory")
}

/// The bytes at an offset of a segment are not what was written there.
pub(super) fn damaged_record(segment: &Path, offset: u64, sequence: u64, flaw: Flaw) -> Error {
    let (reason, found) = match flaw {
        Flaw::Incomplete => ("no whole record is there", None),
        Flaw::Checksum => ("a record fails its checksum", None),
        Flaw::Order { found } => ("a record is out of order", Some(found)),
    };
    let message = format!("cannot read `{}` at byte {offset}: {reason}", segment.display());
    let error = Error::new(ErrorKind::Corrupt, "WAL-0002", message).fact("expected", format!("record {sequence}"));
    let error = match found {
        Some(found) => error.fact("found", format!("record {found}")),
        None => error,
    };
    error.attempt("restore the file from a copy: it was whole once, and nothing was changed in it now")
}

/// A record whose checksum holds cannot be decoded.
pub(super) fn unreadable_record(segment: &Path, offset: u64, cause: arrow::error::ArrowError) -> Error {
    let message = format!(
        "cannot read `{}` at byte {offset}: its batches do not decode: {cause}",
        segment.display()
    );
    let error = Error::new(ErrorKind::Corrupt, "WAL-0009", message).source(cause);
    error.attempt("restore the file from a copy")
}

/// Records between two segments are not there.
pub(super) fn missing_segment(missing: &Path, first: u64, next: Option<u64>) -> Error {
    let folder = missing.parent().unwrap_or(missing);
    let name = missing.file_name().unwrap_or_default().to_string_lossy();
    let message = format!("cannot open {}: segment `{name}` is missing", log(folder));
    let lost = match next {
        Some(next) if next > first + 1 => format!("{first} to {}", next - 1),
        Some(_) => first.to_string(),
        None => format!("from {first}"),
    };
    Error::new(ErrorKind::Corrupt, "WAL-0003", message)
        .fact("records lost", lost)
        .attempt("restore the segment from a copy: nothing was changed in the folder")
}

/// Two segments hold the same records.
pub(super) fn repeated_segment(segment: &Path, first: u64, expected: u64) -> Error {
    let message = format!(
        "cannot read `{}`: it repeats records of the segment before it",
        segment.display()
    );
    Error::new(ErrorKind::Corrupt, "WAL-0010", message)
        .fact("starts at", format!("record {first}"))
        .fact("expected", format!("record {expected}"))
        .attempt("restore the folder from a copy: nothing was changed in it")
}

/// A file was written by a newer release.
pub(super) fn newer_format(file: &Path, found: u64) -> Error {
    let message = format!("cannot read `{}`: it has format version {found}", file.display());
    Error::new(ErrorKind::Unsupported, "WAL-0004", message)
        .fact("supported", format!("versions up to {FORMAT}"))
        .attempt("use the release of Cenote that wrote it, or a newer one")
}

/// The head of a segment, or the identity file, is not what was written.
pub(super) fn damaged_file(file: &Path, reason: &str) -> Error {
    let message = format!("cannot read `{}` at byte 0: {reason}", file.display());
    Error::new(ErrorKind::Corrupt, "WAL-0005", message)
        .attempt("restore the file from a copy: nothing was changed in the folder")
}

/// The operating system failed to do something to a file.
pub(super) fn io(verb: &str, file: &Path, cause: io::Error) -> Error {
    let message = format!("cannot {verb} `{}`: {cause}", file.display());
    Error::new(ErrorKind::Unavailable, "WAL-0006", message)
        .sqlstate("58030")
        .source(cause)
}

/// An earlier write failed, so what is on disk is not known.
pub(super) fn poisoned(folder: &Path, first: &Error) -> Error {
    let message = format!("cannot append to {}: an earlier write to it failed", log(folder));
    Error::new(ErrorKind::Unavailable, "WAL-0007", message)
        .sqlstate("58030")
        .fact("first failure", first)
        .attempt("restart: what was acknowledged is on disk and is read back")
        .source(first.clone())
}

/// The record cannot be written as it is.
pub(super) fn unwritable(record: &super::Record, cause: impl std::fmt::Display) -> Error {
    let message = format!("cannot append a record of epoch {}: {cause}", record.epoch);
    Error::new(ErrorKind::Unsupported, "WAL-0008", message)
}
