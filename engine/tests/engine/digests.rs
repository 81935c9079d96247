//! The same commits give the same bytes, whatever the number of workers and the way commits were grouped.

use crate::backfill::writes;
use crate::database::Database;
use crate::rows::Random;
use crate::views::{create_tables, create_views};
use cenote_statestore::Digest;
use std::collections::BTreeMap;

/// Digests of all views and of all their state tables at the end of a run.
fn run(workers: usize, one_by_one: bool) -> BTreeMap<String, String> {
    let mut random = Random::new(11);
    let mut database = Database::start(workers);
    let tables = create_tables(&mut database);
    if !one_by_one {
        create_views(&mut database, tables, &mut |_| {});
    }
    for _ in 0..60 {
        let some = writes(&mut random, tables, 1);
        database.burst(some);
        if one_by_one {
            database.wait();
        }
    }
    if one_by_one {
        create_views(&mut database, tables, &mut |_| {});
    }
    database.wait();
    let mut digests = BTreeMap::new();
    for (id, view) in &database.views {
        database.wait_live(*id).unwrap();
        digests.insert(view.plan.table.name.clone(), database.digest(*id));
        for (node, plan) in view.plan.nodes.iter().enumerate() {
            for (table, schema) in plan.state_tables().iter().enumerate() {
                let (_, batches) = database.state(*id, node, table).unwrap();
                let mut digest = Digest::default();
                batches.iter().for_each(|rows| digest.update(rows, None).unwrap());
                digests.insert(format!("{}.{}", view.plan.table.name, schema.name), digest.finish_hex());
            }
        }
    }
    digests
}

#[test]
fn views_and_state_have_the_same_digest_on_any_number_of_workers() {
    let wanted = run(1, false);
    assert!(wanted.len() > 20, "views and state tables are digested: {wanted:?}");
    for workers in [2, 4] {
        assert_eq!(run(workers, false), wanted, "{workers} workers");
    }
}

#[test]
fn views_created_at_the_end_have_the_digest_of_views_that_followed() {
    assert_eq!(run(4, true), run(1, false));
}
