//! JSON documents that carry the checksum of themselves: the manifest, the owner of a folder, the names of savepoints.
//!
//! # Layout
//! `{"checksum": "<16 hexadecimal digits>"` comes first. The digits are the xxh3-64 of the whole file with these digits
//! written as zeros, so any byte that changes is noticed, blanks included.
//!
//! # Rules kept here
//! 1. A document of a format version that this release does not know is refused by the number of that version.
//! 2. A field that is unknown in a known version is refused: `deny_unknown_fields` on every part.

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

/// The format version that this release writes; it reads all up to it.
pub const FORMAT: u64 = 1;

const HEAD: &[u8] = b"{\n  \"checksum\": \"";
const DIGITS: usize = 16;
const ZEROS: &str = "0000000000000000";

/// Why a document cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    /// It is not what was written.
    Damaged(String),
    /// It has a newer format version.
    Newer(u64),
}

/// All that a reader needs to know before it trusts the other fields.
#[derive(serde::Deserialize)]
struct Preface {
    format: String,
    version: u64,
}

/// The first field, which [`seal`] fills in.
pub(super) fn unsealed() -> String {
    ZEROS.to_string()
}

/// A checksum as documents write it.
pub(super) fn digits(checksum: u64) -> String {
    format!("{checksum:016x}")
}

/// The bytes of a document whose first field is `checksum`, made by [`unsealed`].
pub(super) fn seal(document: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec_pretty(document)?;
    bytes.push(b'\n');
    debug_assert!(bytes.starts_with(HEAD));
    let checksum = digits(xxh3_64(&bytes));
    bytes[HEAD.len()..HEAD.len() + DIGITS].copy_from_slice(checksum.as_bytes());
    Ok(bytes)
}

/// The checksum of a document that [`seal`] made.
pub(super) fn checksum_of(sealed: &[u8]) -> String {
    let digits = sealed.get(HEAD.len()..HEAD.len() + DIGITS).unwrap_or_default();
    String::from_utf8_lossy(digits).into_owned()
}

/// Reads a document of the format called `format`.
pub(super) fn unseal<T: DeserializeOwned>(bytes: &[u8], format: &str) -> Result<T, Flaw> {
    let preface = serde_json::from_slice::<Preface>(bytes).ok();
    if let Some(preface) = preface.filter(|preface| preface.format == format && preface.version > FORMAT) {
        return Err(Flaw::Newer(preface.version));
    }
    let found = bytes
        .strip_prefix(HEAD)
        .and_then(|rest| rest.get(..DIGITS))
        .ok_or_else(|| Flaw::Damaged("its checksum is not where it must be".into()))?;
    let mut zeroed = bytes.to_vec();
    zeroed[HEAD.len()..HEAD.len() + DIGITS].copy_from_slice(ZEROS.as_bytes());
    let expected = digits(xxh3_64(&zeroed));
    if found != expected.as_bytes() {
        return Err(Flaw::Damaged("it fails its checksum".into()));
    }
    serde_json::from_slice(bytes).map_err(|error| Flaw::Damaged(format!("it does not follow its format: {error}")))
}
