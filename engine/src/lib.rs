//! The dataflow engine: keeps collections current as their inputs change.
//!
//! # Owns
//! The dataflow IR ([`plan`]), the operator kernels ([`kernel`]), the timely runtime, epochs, and the ports through
//! which sources reach it ([`port`]).
//!
//! # Not here
//! SQL; concrete systems and formats. Neither is known to this crate by name.

pub mod batch;
mod committer;
mod dataflow;
pub mod elements;
mod engine;
mod keep;
pub mod kernel;
mod memory;
mod meters;
#[cfg(test)]
#[path = "../tests/engine/models.rs"]
mod models;
mod packet;
mod parts;
pub mod plan;
pub mod port;
mod progress;
mod replay;
mod restore;
mod row_errors;
#[cfg(test)]
#[path = "../tests/engine/rows.rs"]
mod rows;
mod status;
mod worker;

pub use committer::{
    Alter, Commit, Filling, NewView, OnConflict, ROW_ID, Replaces, RetentionRule, Rewrite, RowKey, Sealing, Switch,
    TableWrite, is_row_numbered, row_keys, visible_columns,
};
pub use engine::{
    Engine, EngineConfig, Logged, Recovered, RecoveredTables, Sealed, SourceFeed, StateFound, StateRead, StateRows,
};
pub use keep::Kept;
pub use meters::{OperatorFigures, ViewMeters};
pub use progress::Progress;
pub use replay::{ReplayFeed, ReplayInput};
pub use restore::ViewState;
pub use status::ViewStatus;

/// Stack of every thread that plans statements or evaluates expressions, whose depth a statement decides.
pub const THREAD_STACK_BYTES: usize = 32 << 20;
