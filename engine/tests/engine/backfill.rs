//! Views that come and go while commits stream in.

use crate::database::{Blind, Database};
use crate::models::view::results;
use crate::plan::CollectionId;
use crate::rows::{Cell, Random, Row, with_seeds};
use crate::views::{by_person, create_tables, create_views, distinct as of_people, paid, random_order, random_person};
use cenote_engine::Commit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Some writes to one of the tables.
pub fn writes(random: &mut Random, (orders, people): (CollectionId, CollectionId), count: usize) -> Vec<Blind> {
    let write = |_| {
        let (table, make): (_, fn(&mut Random) -> Row) = if random.one_in(2) {
            (orders, random_order)
        } else {
            (people, random_person)
        };
        let rows = (0..random.below(6)).map(|_| make(random)).collect();
        Blind {
            table,
            rows,
            truncate: random.one_in(12),
        }
    };
    (0..count).map(write).collect()
}

#[test]
fn views_created_while_commits_stream_in_are_exact_from_their_first_epoch() {
    with_seeds(3, |seed| {
        for workers in [1, 2, 4] {
            let mut random = Random::new(seed);
            let mut database = Database::start(workers);
            let tables = create_tables(&mut database);
            let first = writes(&mut random, tables, 20);
            database.burst(first);
            create_views(&mut database, tables, &mut |database| {
                let some = writes(&mut random, tables, 10);
                database.burst(some);
            });
            let last = writes(&mut random, tables, 100);
            database.burst(last);
            database.check_all_epochs();
        }
    });
}

#[test]
fn views_are_dropped_under_load_and_the_others_stay_exact() {
    with_seeds(3, |seed| {
        for workers in [1, 2, 4] {
            let mut random = Random::new(seed);
            let mut database = Database::start(workers);
            let tables = create_tables(&mut database);
            create_views(&mut database, tables, &mut |_| {});
            // From the last to the first, so that a view goes before those it reads.
            let ids: Vec<CollectionId> = database.views.keys().rev().copied().collect();
            for (position, id) in ids.into_iter().enumerate() {
                let some = writes(&mut random, tables, 30);
                database.burst(some);
                if position % 2 == 0 || database.views[&id].plan.table.name == "diamond" {
                    let is_read = database.views.values().any(|view| {
                        view.plan.nodes.iter().any(
                            |node| matches!(node, crate::plan::Node::Input { collection, .. } if *collection == id),
                        )
                    });
                    if !is_read {
                        database.drop_view(id);
                        assert!(
                            database.state(id, 1, 0).is_err(),
                            "the state of a dropped view cannot be read"
                        );
                    }
                }
            }
            database.create_view(by_person(tables.0));
            let some = writes(&mut random, tables, 30);
            database.burst(some);
            database.check_all_epochs();
        }
    });
}

#[test]
fn a_table_larger_than_one_turn_is_read_while_commits_go_on() {
    for workers in [1, 4] {
        let mut random = Random::new(workers as u64);
        let mut database = Database::start(workers);
        let tables = create_tables(&mut database);
        let row = |id: i128| {
            vec![
                Cell::Number(id),
                Cell::text(&format!("person {}", id % 1000)),
                Cell::Number(id % 7),
            ]
        };
        database.insert(tables.0, &(1000..71_000).map(row).collect::<Vec<_>>());
        let plans = [paid(tables.0), by_person(tables.0)];
        let views = plans.map(|plan| {
            let id = database.create_view(plan);
            let some: Vec<Blind> = writes(&mut random, tables, 6)
                .into_iter()
                .map(|b| Blind { truncate: false, ..b })
                .collect();
            database.burst(some);
            id
        });
        database.wait();
        for id in views {
            database.wait_live(id).unwrap();
            let view = &database.views[&id];
            for epoch in [view.since, database.last()] {
                let wanted = results(&view.plan, &database.past[&epoch.0]);
                assert!(
                    database.contents(id, epoch) == wanted,
                    "`{}` at epoch {epoch}",
                    view.plan.table.name
                );
            }
        }
    }
}

#[test]
fn a_view_created_in_the_same_commit_as_a_write_has_the_write() {
    let mut database = Database::start(2);
    let tables = create_tables(&mut database);
    let row = |id: i128| vec![Cell::Number(id), Cell::text("ann"), Cell::Number(5)];
    database.insert(tables.0, &[row(1)]);
    let (id, view) = database.prepare_view(by_person(tables.0));
    let write = database.inserts(tables.0, &[row(2)]);
    let since = database
        .commit(Commit {
            writes: vec![write],
            create_view: Some(view),
            ..Commit::default()
        })
        .unwrap();
    database.now().get_mut(&tables.0).unwrap().insert(row(2), 1);
    database.views.get_mut(&id).unwrap().since = since;
    database.insert(tables.0, &[row(3)]);
    database.check_all_epochs();
}

#[test]
fn a_view_becomes_live_although_commits_never_pause() {
    let mut database = Database::start(2);
    let tables = create_tables(&mut database);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let (engine, stop) = (database.engine.clone(), stop.clone());
            let person = database.inserts(tables.1, &[vec![Cell::text("ann"), Cell::float(1.0)]]);
            database.runtime.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    engine
                        .commit(Commit {
                            writes: vec![person.clone()],
                            ..Commit::default()
                        })
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    let (id, view) = database.prepare_view(of_people(tables.1));
    let created = database.engine.commit(Commit {
        create_view: Some(view),
        ..Commit::default()
    });
    let since = database.runtime.block_on(created).unwrap();
    let status = database.views[&id].status.clone();
    let limit = Duration::from_secs(20);
    let live = database
        .runtime
        .block_on(async { tokio::time::timeout(limit, status.wait_live()).await });
    let reached = database.engine.visible();
    stop.store(true, Ordering::Relaxed);
    writers
        .into_iter()
        .for_each(|writer| database.runtime.block_on(writer).unwrap());
    live.expect("the view is live while commits go on").unwrap();
    assert!(
        reached >= since,
        "visible is epoch {reached}, the view began at {since}"
    );
}
