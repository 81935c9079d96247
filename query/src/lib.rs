//! Catalog, SQL, planning, sessions: everything between a statement's text and the engine.
//!
//! # Owns
//! The catalog; SQL to logical plans (DataFusion) and to the engine's dataflow IR; ad-hoc reads over snapshots;
//! transactions; sessions, which every door shares.
//!
//! # Not here
//! Running operators and writing state (`cenote_engine`); protocols (`cenote-server`).

mod arithmetic;
mod arrays;
mod attached;
mod casts;
mod catalog;
mod checkpoints;
mod choices;
mod constants;
mod constraints;
mod copy;
mod database;
mod ddl;
mod decorrelate;
mod dependencies;
mod dml;
mod error;
mod expand;
mod explain;
mod extremes;
mod fallible;
mod figures;
mod functions;
mod gathered;
mod grouping;
mod history;
mod inventory;
mod json_parts;
mod kept;
mod keys;
mod lengths;
mod literal;
mod lower;
mod misplaced;
mod names;
mod null_equality;
mod operators;
mod ordered;
mod outcome;
mod overlaid;
mod parse;
mod past;
mod pg_catalog;
pub mod pgtext;
pub mod pgtype;
mod plan;
mod postgres;
mod program;
mod provider;
mod pushed;
mod recovery;
mod relations;
mod resorted;
mod row_errors;
mod row_values;
mod session;
mod settings;
mod show;
mod sink;
mod source;
mod spans;
mod spreads;
mod state_backend;
mod structs;
mod sums;
mod synonyms;
mod system;
mod table_functions;
mod threads;
mod transaction;
mod types;
mod unknowns;
mod using;
mod values;
mod verify;
mod walk;
mod zeros;

pub use attached::{AttachedBatches, AttachedRead, AttachedTable};
pub use checkpoints::CheckpointListing;
pub use database::*;
pub use inventory::StateInventory;
pub use outcome::*;
pub use parse::{STATEMENT_BYTES_MAX, Statement, parse_script};
pub use session::{Commitment, Description, Session, TransactionStatus};
pub use sink::SinkProgress;
pub use source::SourceProgress;
pub use state_backend::StateBackend;
