//! Sources that feed a table, or that pass through to the views that read them.

use crate::database::Database;
use crate::plan::CollectionId;
use crate::rows::{Cell, Row, batch};
use crate::views::{by_person, create_tables, orders};
use cenote_engine::{Commit, OnConflict, TableWrite};
use cenote_statestore::{Epoch, Error, ErrorKind};

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
    let feed = database.engine.source_feed(CollectionId(500));
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

#[test]
fn merged_batches_resolve_keys_in_the_order_they_came() {
    for (on_conflict, wanted) in [(OnConflict::Replace, 49), (OnConflict::Ignore, 0)] {
        let mut database = Database::start(1);
        let (orders, _) = create_tables(&mut database);
        let feed = database.engine.source_feed(CollectionId(500));
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
        database.engine.source_feed(CollectionId(500)),
        database.engine.source_feed(CollectionId(501)),
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
