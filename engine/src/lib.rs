//! The dataflow engine: keeps collections current as their inputs change.
pub mod port;
