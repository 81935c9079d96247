//! A thousand views over one table in one process: no thread per view, and no work while nothing happens.
//!
//! A test binary of its own, because it measures its process.
#![allow(dead_code)] // shares modules with the tests of the engine

#[path = "engine/database.rs"]
mod database;
#[path = "engine/models.rs"]
mod models;
#[path = "engine/plans.rs"]
mod plans;
#[path = "engine/rows.rs"]
mod rows;

use arrow::datatypes::DataType;
use cenote_engine::plan;
use cenote_statestore::Epoch;
use database::Database;
use plan::{AggregateFunction, CollectionId, ViewPlan};
use plans::Plan;
use rows::{Cell, Row, schema};
use std::time::Duration;

const VIEWS: usize = 1000;
const WORKERS: usize = 2;

fn orders() -> arrow::datatypes::SchemaRef {
    schema(&[
        ("id", DataType::Int64),
        ("who", DataType::Utf8),
        ("cents", DataType::Int64),
    ])
}

/// Counts and sums per person, of those orders that the view is about.
fn plan_of(view: usize, orders_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(orders_id, &orders());
    let kept = plan.filter(input, move |row| {
        row[2].number().is_some_and(|cents| cents % 10 != view as i128 % 10)
    });
    let calls = [
        (AggregateFunction::Count, None, DataType::Int64),
        (AggregateFunction::Sum, Some(2), DataType::Decimal128(38, 0)),
    ];
    plan.aggregate(kept, &[1], &calls);
    plan.view(&format!("view_{view}"), Some(&[0]))
}

fn order(id: i128) -> Row {
    vec![
        Cell::Number(id),
        Cell::text(&format!("person {}", id % 7)),
        Cell::Number(id % 13),
    ]
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Processor time of this process so far, in ticks of 10 ms.
fn ticks() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn a_thousand_views_need_no_thread_each_and_cost_nothing_while_idle() {
    let mut database = Database::start(WORKERS);
    let table = database.create_table("orders", &orders(), &[0]);
    database.insert(table, &(0..100).map(order).collect::<Vec<_>>());
    let before = threads();
    let views: Vec<CollectionId> = (0..VIEWS)
        .map(|view| database.create_view(plan_of(view, table)))
        .collect();
    views.iter().for_each(|view| database.wait_live(*view).unwrap());
    assert_eq!(threads(), before, "threads with and without {VIEWS} views");

    for id in 100..110 {
        database.insert(table, &[order(id)]);
    }
    database.wait();
    let last = database.last();
    let wanted = database.everything(last.0);
    for view in &views {
        assert_eq!(database.contents(*view, last), wanted[view]);
    }

    let start = ticks();
    let silence = Duration::from_millis(500);
    let next = database.engine.wait_visible(Epoch(last.0 + 1));
    let idle = database
        .runtime
        .block_on(async { tokio::time::timeout(silence, next).await });
    assert!(idle.is_err(), "nobody commits, so no epoch comes");
    let spent = ticks() - start;
    assert!(spent <= 3, "{spent} ticks of 10 ms in {silence:?} without input");
}
