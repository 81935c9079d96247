//! Catalog, SQL, planning, sessions.
mod database;
mod outcome;
mod session;

pub use database::*;
pub use outcome::*;
pub use session::*;
