//! Written forms of the values that Arrow has no reader for: what doors for SQL and doors for files both read.
//!
//! # Owns
//! PostgreSQL's input and output of UUID ([`uuid`]), its input of INTERVAL ([`interval`]), JSON ([`json`]),
//! literals of arrays ([`list`]) and of STRUCT ([`record`]). A reader says what kind
//! of fault a text has ([`Malformed`]) and no more.
//!
//! # Not here
//! Messages and SQLSTATEs, which name the column or the type: `query::pgtext` and `connectors::value`.

pub mod interval;
pub mod json;
pub mod list;
pub mod record;
pub mod uuid;

/// Why a text is no value of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It is not of the type's form.
    Syntax,
    /// It is of the form, and beyond the type's range.
    Range,
    /// It nests deeper than is read.
    Depth,
    /// It holds the character U+0000, which no text here has.
    Nul,
}
