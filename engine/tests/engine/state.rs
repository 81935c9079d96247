//! State tables read live: at a sealed epoch, in agreement with the view and its inputs.

use crate::backfill::writes;
use crate::database::{Database, read_state};
use crate::models::view::state;
use crate::rows::{Bag, Random, bag, with_seeds};
use crate::views::{by_person, create_tables, create_views};
use cenote_engine::{StateRead, StateRows};
use cenote_statestore::Epoch;

#[test]
fn every_state_table_is_read_as_of_one_epoch_while_commits_go_on() {
    with_seeds(3, |seed| {
        for workers in [1, 2, 4] {
            let mut random = Random::new(seed);
            let mut database = Database::start(workers);
            let tables = create_tables(&mut database);
            create_views(&mut database, tables, &mut |_| {});
            let mut reads = Vec::new();
            for _ in 0..6 {
                let some = writes(&mut random, tables, 15);
                database.burst(some);
                for (id, view) in &database.views {
                    for (node, table) in view
                        .plan
                        .nodes
                        .iter()
                        .enumerate()
                        .flat_map(|(node, plan)| (0..plan.state_tables().len()).map(move |table| (node, table)))
                    {
                        let (epoch, rows) = database.state(*id, node, table).unwrap();
                        assert_eq!(epoch, database.last(), "a read sees the newest commit");
                        reads.push((*id, node, table, epoch, bag(&rows)));
                    }
                }
            }
            for (id, node, table, epoch, rows) in reads {
                let plan = &database.views[&id].plan;
                let wanted = state(plan, &database.everything(epoch.0), node, table);
                assert!(
                    rows == wanted,
                    "`{}` node {node} table {table} at {epoch}: {rows:?}\nnot {wanted:?}",
                    plan.table.name
                );
            }
            database.check_all_epochs();
        }
    });
}

#[test]
fn reads_and_commits_in_one_burst_are_each_of_one_epoch() {
    for workers in [1, 4] {
        let mut random = Random::new(7);
        let mut database = Database::start(workers);
        let tables = create_tables(&mut database);
        let view = database.create_view(by_person(tables.0));
        let (engine, runtime) = (database.engine.clone(), database.runtime.handle().clone());
        let reader = std::thread::spawn(move || {
            let read = || StateRead {
                view,
                started_as: view,
                node: 1,
                table: 0,
                rows: StateRows::All,
            };
            let read = || runtime.block_on(read_state(&engine, read())).unwrap();
            (0..200)
                .map(|_| read())
                .map(|(epoch, rows)| (epoch, bag(&rows)))
                .collect::<Vec<(Epoch, Bag)>>()
        });
        while !reader.is_finished() {
            for _ in 0..10 {
                let some = writes(&mut random, tables, 20);
                database.burst(some);
            }
            // A writer that is faster than the views makes every read wait for all that is queued before it.
            database.wait();
        }
        for (epoch, rows) in reader.join().unwrap() {
            let wanted = state(&database.views[&view].plan, &database.past[&epoch.0], 1, 0);
            assert!(rows == wanted, "at {epoch}: {rows:?}\nnot {wanted:?}");
        }
    }
}

#[test]
fn sizes_of_state_are_told_and_return_to_nothing() {
    let mut database = Database::start(4);
    let mut random = Random::new(3);
    let tables = create_tables(&mut database);
    create_views(&mut database, tables, &mut |_| {});
    let some = writes(&mut random, tables, 50);
    database.burst(some);
    let rows = |database: &Database| -> Vec<(String, usize, u64)> {
        database.wait();
        let sizes = database.views.iter().flat_map(|(id, view)| {
            let sizes = database.runtime.block_on(database.engine.state_sizes(*id)).unwrap();
            sizes
                .into_iter()
                .map(|(node, _, rows, _)| (view.plan.table.name.clone(), node, rows))
        });
        sizes.collect()
    };
    assert!(rows(&database).iter().any(|(_, _, rows)| *rows > 0));
    let all = [tables.0, tables.1].map(|table| crate::database::Blind {
        table,
        rows: vec![],
        truncate: true,
    });
    database.burst(all.into());
    for (view, node, rows) in rows(&database) {
        // A global aggregate keeps its one group.
        let kept = u64::from(["global", "counted"].contains(&view.as_str()) && rows == 1);
        assert_eq!(rows, kept, "`{view}`, node {node}");
    }
}
