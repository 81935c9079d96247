//! Tests of the engine through its public face: views against batch recomputation, at every epoch.

mod backfill;
mod database;
mod digests;
mod failures;
mod models;
mod plans;
mod restart;
mod rows;
mod sources;
mod state;
mod views;

use cenote_engine::plan;
