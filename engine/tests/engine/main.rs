//! Tests of the engine through its public face: views against batch recomputation, at every epoch.

mod database;
mod models;
mod plans;
mod rows;
mod views;

use cenote_engine::plan;
