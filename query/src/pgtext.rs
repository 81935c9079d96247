//! PostgreSQL's forms of values: text out and in, binary out and in, and JSON.
//!
//! One place turns Arrow cells into what a client reads and back, so that a value leaves by every door with the type
//! and the digits that it came in with.
//!
//! # Rules kept here
//! 1. **PostgreSQL is the judge.** Text, binary form, accepted input and error texts are those of PostgreSQL 16,
//!    checked against files that a PostgreSQL server wrote (`pgtext/golden`).
//! 2. **Columns, not cells, decide.** An array's type is looked at once per batch ([`Formatter::new`],
//!    [`BinaryEncoder::new`], [`JsonWriter::new`], [`parse_array`]).
//! 3. **Nothing is approximated.** What the column's type cannot hold is an error: `NaN` in a `numeric`, `infinity`
//!    in a `date`, `today` in a `timestamp`.
//!
//! # Not here
//! Which PostgreSQL type a column is: [`crate::pgtype`]. Messages around the values: `server::pg`.

mod binary;
mod binary_read;
pub(crate) mod calendar;
mod cells;
mod json;
mod number;
mod read;
mod read_forms;
mod read_list;
mod read_number;
mod read_record;
mod read_time;
mod writer;
mod zone;

#[cfg(test)]
mod tests;

pub use binary::BinaryEncoder;
pub use binary_read::parse_binary;
pub use json::{JsonWriter, write_json};
pub(crate) use json::{has_stored_form, write_stored, write_string};
pub use read::{parse_array, parse_array_in, parse_scalar};
pub(crate) use read_forms::json_error;
pub use read_number::parse_numeric;
pub(crate) use read_number::{digits_lost, read_decimal};
pub(crate) use read_time::read_timestamp;
pub use writer::Formatter;
pub use zone::Zone;

/// Settings of a session that change how values are written and read.
#[derive(Clone, Copy, Debug, Default)]
pub struct TextStyle {
    /// The zone that a `timestamptz` is shown in, and that one without an offset is read in.
    pub zone: Zone,
}
