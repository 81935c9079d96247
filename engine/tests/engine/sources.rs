//! Sources that feed a table, or that pass through to the views that read them.

use crate::database::Database;
use crate::plan::{CollectionId, ViewPlan};
use crate::plans::Plan;
use crate::rows::{Cell, Row, batch};
use crate::views::{by_person, create_tables, orders, paid, rich};
use arrow::array::AsArray;
use arrow::compute::sum;
use arrow::datatypes::Int64Type;
use cenote_engine::{Commit, OnConflict, Sealing, StateRead, StateRows, TableWrite};
use cenote_statestore::{Epoch, Error, ErrorKind};
use std::sync::{Arc, Condvar, Mutex};

fn order(id: i128) -> Row {
    vec![
        Cell::Number(id),
        Cell::text(&format!("person {}", id % 5)),
        Cell::Number(id % 3),
    ]
}

fn commit(database: &Database, table: CollectionId, rows: &[Row], on_conflict: OnConflict) -> Commit {
    Commit {
        writes: vec![TableWrite {
            on_conflict,
            ..database.inserts(table, rows)
        }],
        ..Commit::default()
    }
}

#[test]
fn a_fed_table_has_all_rows_and_drain_waits_for_them() {
    let mut database = Database::start(2);
    let (orders, _) = create_tables(&mut database);
    let view = database.create_view(by_person(orders));
    let feed = database.engine.source_feed(CollectionId(500), Sealing::AtOnce);
    for start in 0..100 {
        let rows: Vec<Row> = (start * 10..start * 10 + 10).map(order).collect();
        feed.send(commit(&database, orders, &rows, OnConflict::Replace))
            .unwrap();
    }
    feed.drain().unwrap();
    feed.drain().unwrap();
    let after = database.commit(Commit::default()).unwrap();
    database.wait();
    database.wait_live(view).unwrap();
    database
        .now()
        .insert(orders, (0..1000).map(|id| (order(id), 1)).collect());
    assert_eq!(database.contents(view, after), database.everything(after.0)[&view]);
}

/// Keeps a view from working until it is opened.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let is_open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(is_open, |is_open| !*is_open).unwrap());
    }
}

/// A view of all rows of a source, behind a gate.
fn gated(source: CollectionId) -> (Gate, ViewPlan) {
    let (gate, mut plan) = (Gate::default(), Plan::default());
    let input = plan.input(source, &orders());
    let waits = gate.clone();
    plan.filter(input, move |_| {
        waits.wait();
        true
    });
    (gate, plan.view("gated", None))
}

/// A batch of 100 orders of a source that passes.
fn passing(source: CollectionId, number: i128) -> Commit {
    let rows: Vec<Row> = (number * 100..number * 100 + 100).map(order).collect();
    Commit {
        passing: vec![(source, batch(&orders(), &rows))],
        ..Commit::default()
    }
}

/// Two batches are what views may be behind with; those that come meanwhile become one epoch.
#[test]
fn epochs_of_a_source_grow_while_views_are_behind() {
    let mut database = Database::start(1);
    let source = CollectionId(900);
    let (gate, plan) = gated(source);
    let view = database.create_view(plan);
    database.wait();
    let before = database.last();
    let feed = database.engine.source_feed(source, Sealing::AtOnce);
    (0..10).for_each(|number| feed.send(passing(source, number)).unwrap());
    gate.open();
    feed.drain().unwrap();
    let end = database
        .runtime
        .block_on(database.engine.commit(Commit::default()))
        .unwrap();
    database.runtime.block_on(database.engine.wait_visible(end)).unwrap();
    let epochs = end.0 - before.0 - 1;
    assert!((1..=3).contains(&epochs), "{epochs} epochs of 10 batches");
    assert_eq!(database.contents(view, end).len(), 1000);
}

/// What is handed over before a commit that changes nothing is committed before it, though views are behind.
#[test]
fn a_barrier_has_the_batches_that_wait_before_it() {
    let mut database = Database::start(1);
    let source = CollectionId(900);
    let (gate, plan) = gated(source);
    let view = database.create_view(plan);
    database.wait();
    // Until it is live, nothing that is visible waits for it.
    database.wait_live(view).unwrap();
    let feed = database.engine.source_feed(source, Sealing::AtOnce);
    (0..10).for_each(|number| feed.send(passing(source, number)).unwrap());
    let barrier = database
        .runtime
        .block_on(database.engine.commit(Commit::default()))
        .unwrap();
    gate.open();
    database
        .runtime
        .block_on(database.engine.wait_visible(barrier))
        .unwrap();
    assert_eq!(database.contents(view, barrier).len(), 1000);
}

#[test]
fn merged_batches_resolve_keys_in_the_order_they_came() {
    for (on_conflict, wanted) in [(OnConflict::Replace, 49), (OnConflict::Ignore, 0)] {
        let mut database = Database::start(1);
        let (orders, _) = create_tables(&mut database);
        let feed = database.engine.source_feed(CollectionId(500), Sealing::AtOnce);
        for cents in 0..50 {
            let row = vec![Cell::Number(1), Cell::text("ann"), Cell::Number(cents)];
            feed.send(commit(&database, orders, &[row], on_conflict)).unwrap();
        }
        feed.drain().unwrap();
        database.commit(Commit::default()).unwrap();
        let stored = crate::rows::rows(&database.stored_rows(orders));
        assert_eq!(
            stored,
            vec![vec![Cell::Number(1), Cell::text("ann"), Cell::Number(wanted)]]
        );
    }
}

#[test]
fn a_refused_batch_stops_its_source_and_nothing_else() {
    let mut database = Database::start(1);
    let (orders, _) = create_tables(&mut database);
    let (feed, other) = (
        database.engine.source_feed(CollectionId(500), Sealing::AtOnce),
        database.engine.source_feed(CollectionId(501), Sealing::AtOnce),
    );
    feed.send(commit(&database, orders, &[order(1)], OnConflict::Refuse))
        .unwrap();
    feed.drain().unwrap();
    feed.send(commit(&database, orders, &[order(1)], OnConflict::Refuse))
        .unwrap();
    let error = feed.drain().unwrap_err();
    assert_eq!((error.kind(), error.state()), (ErrorKind::Conflict, "23505"));
    assert!(
        feed.send(commit(&database, orders, &[order(2)], OnConflict::Refuse))
            .is_err()
    );
    other
        .send(commit(&database, orders, &[order(3)], OnConflict::Refuse))
        .unwrap();
    other.drain().unwrap();
    database.commit(Commit::default()).unwrap();
    assert_eq!(database.stored_rows(orders).num_rows(), 2);
}

#[test]
fn rows_that_pass_reach_the_views_that_read_their_source_from_then_on() {
    for workers in [1, 4] {
        let mut database = Database::start(workers);
        let source = CollectionId(900);
        let early = database.create_view(by_person(source));
        let pass = |database: &mut Database, ids: std::ops::Range<i128>| -> Epoch {
            let rows: Vec<Row> = ids.map(order).collect();
            let passing = vec![(source, batch(&orders(), &rows))];
            let epoch = database
                .commit(Commit {
                    passing,
                    ..Commit::default()
                })
                .unwrap();
            let held = database.now().entry(source).or_default();
            rows.iter().for_each(|row| crate::rows::add(held, row, 1));
            epoch
        };
        pass(&mut database, 0..20);
        let late = database.create_view(by_person(source));
        let last = pass(&mut database, 20..40);
        database.wait();
        database.wait_live(early).unwrap();
        database.wait_live(late).unwrap();
        assert_eq!(database.contents(early, last), database.everything(last.0)[&early]);
        let since: crate::rows::Bag = (20..40).map(|id| (order(id), 1)).collect();
        let held = std::collections::BTreeMap::from([(source, since)]);
        assert_eq!(
            database.contents(late, last),
            crate::models::view::results(&database.views[&late].plan, &held)
        );
    }
}

/// A view over a source that runs: the replay and what passes meanwhile come in pieces, in any order.
#[test]
fn a_replay_gives_a_later_view_what_had_passed_before_it() {
    for workers in [1, 4] {
        let mut database = Database::start(workers);
        let source = CollectionId(900);
        let early = database.create_view(by_person(source));
        let pass = |database: &mut Database, ids: std::ops::Range<i128>| {
            let rows: Vec<Row> = ids.map(order).collect();
            let passing = vec![(source, batch(&orders(), &rows))];
            let commit = Commit {
                passing,
                ..Commit::default()
            };
            let epoch = database.commit(commit).unwrap();
            let held = database.now().entry(source).or_default();
            rows.iter().for_each(|row| crate::rows::add(held, row, 1));
            epoch
        };
        pass(&mut database, 0..20);
        let (feed, replay) = database.engine.replay();
        let (late, mut view) = database.prepare_view(by_person(source));
        view.replays.insert(source, replay);
        let create = Commit {
            create_view: Some(view),
            ..Commit::default()
        };
        database.commit(create).unwrap();
        pass(&mut database, 20..30);
        for id in 0..20 {
            assert!(!database.views[&late].status.is_live());
            feed.send(batch(&orders(), &[order(id)])).unwrap();
        }
        pass(&mut database, 30..40);
        feed.finish(Ok(()));
        let last = database.last();
        database.wait();
        database.wait_live(late).unwrap();
        let expected = database.everything(last.0);
        assert_eq!(database.contents(early, last), expected[&early]);
        assert_eq!(database.contents(late, last), expected[&late]);
    }
}

#[test]
fn a_replay_that_fails_or_is_forgotten_fails_its_view_alone() {
    let mut database = Database::start(2);
    let source = CollectionId(900);
    let early = database.create_view(by_person(source));
    for forgotten in [false, true] {
        let (feed, replay) = database.engine.replay();
        let (late, mut view) = database.prepare_view(by_person(source));
        view.replays.insert(source, replay);
        let create = Commit {
            create_view: Some(view),
            ..Commit::default()
        };
        database.commit(create).unwrap();
        feed.send(batch(&orders(), &[order(1)])).unwrap();
        if forgotten {
            drop(feed);
        } else {
            feed.finish(Err(Error::new(ErrorKind::Expired, "CONN-0008", "the file is gone")));
        }
        let error = database.wait_live(late).unwrap_err();
        assert_eq!(error.code() == "CONN-0008", !forgotten, "{error}");
        database.drop_view(late);
    }
    database.wait_live(early).unwrap();
}

#[test]
fn a_replay_for_a_view_that_was_dropped_is_told_to_stop() {
    let mut database = Database::start(1);
    let source = CollectionId(900);
    let (feed, replay) = database.engine.replay();
    let (late, mut view) = database.prepare_view(by_person(source));
    view.replays.insert(source, replay);
    let create = Commit {
        create_view: Some(view),
        ..Commit::default()
    };
    database.commit(create).unwrap();
    database.drop_view(late);
    while feed.send(batch(&orders(), &[order(1)])).is_ok() {}
}

/// Hands over batches of 1,000 orders each to be sealed together.
fn feed_open(database: &Database, source: CollectionId, batches: std::ops::Range<i128>) {
    let feed = database.engine.source_feed(source, Sealing::WithNext);
    for number in batches {
        let rows: Vec<Row> = (number * 1000..number * 1000 + 1000).map(order).collect();
        let commit = Commit {
            passing: vec![(source, batch(&orders(), &rows))],
            ..Commit::default()
        };
        feed.send(commit).unwrap();
    }
    feed.drain().unwrap();
}

#[test]
fn batches_sealed_together_are_one_epoch_that_ends_with_the_next_commit() {
    for workers in [1, 4] {
        let mut database = Database::start(workers);
        let source = CollectionId(900);
        let mut create = |plan, is_followed| {
            let (id, mut view) = database.prepare_view(plan);
            view.is_followed = is_followed;
            let created = Commit {
                create_view: Some(view),
                ..Commit::default()
            };
            let since = database.commit(created).unwrap();
            database.views.get_mut(&id).unwrap().since = since;
            id
        };
        let grouped = create(by_person(source), true);
        let plain = [create(paid(source), true), create(paid(source), false)];
        let upper = rich(grouped, &database.views[&grouped].plan.table.columns);
        let upper = database.create_view(upper);
        database.wait();
        let before = database.last();
        feed_open(&database, source, 0..20);
        feed_open(&database, source, 20..100);
        let seen = database.engine.visible();
        assert_eq!(seen, before, "nobody has asked for the end of the epoch");
        database.past.insert(before.0 + 1, database.past[&before.0].clone());
        let rows = (0..100_000).map(|id| (order(id), 1)).collect();
        database.now().insert(source, rows);
        let end = database.commit(Commit::default()).unwrap();
        assert_eq!(end.0, before.0 + 2, "one epoch for the rows, one for the commit");
        database.wait();
        let wanted = database.everything(end.0);
        for view in [grouped, upper, plain[0], plain[1]] {
            assert!(
                database.contents(view, end) == wanted[&view],
                "{view} at {workers} workers"
            );
        }
        assert!(database.contents(plain[0], before).is_empty());
    }
}

/// A read of state in the middle of an open epoch ends it: what it is told of is whole.
#[test]
fn a_read_of_state_ends_the_open_epoch() {
    let mut database = Database::start(2);
    let source = CollectionId(900);
    let view = database.create_view(by_person(source));
    feed_open(&database, source, 0..5);
    let read = StateRead {
        view,
        started_as: view,
        node: 1,
        table: 0,
        rows: StateRows::All,
    };
    let (epoch, rows) = database
        .runtime
        .block_on(database.engine.read_state(vec![read]))
        .unwrap();
    assert_eq!(epoch, database.last().next());
    let counts: i64 = rows[0]
        .iter()
        .map(|rows| sum(rows.column(1).as_primitive::<Int64Type>()).unwrap_or(0))
        .sum();
    assert_eq!(counts, 5000);
}
