//! Catalog, SQL, planning, sessions.
mod database;
mod outcome;
pub mod pgtext;
pub mod pgtype;
mod session;

pub use database::*;
pub use outcome::*;
pub use session::*;
