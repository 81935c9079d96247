//! A view that fails, by an error or a panic, fails alone; and the views that read it with it.

use crate::database::{Database, read_state};
use crate::plan::{AggregateFunction, CollectionId, ViewPlan};
use crate::plans::Plan;
use crate::rows::{Bag, Cell, Row};
use crate::views::{by_person, create_tables, orders, paid};
use arrow::datatypes::DataType;
use cenote_engine::{Commit, StateRead, StateRows};
use cenote_statestore::{Error, ErrorKind, Result};

fn order(id: i128, cents: i128) -> Row {
    vec![Cell::Number(id), Cell::text("ann"), Cell::Number(cents)]
}

/// Keeps every row and fails on those of zero cents.
fn fragile(orders_id: CollectionId, fails: fn(&Row) -> Result<()>) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(orders_id, &orders());
    plan.try_map(input, &orders(), move |row| {
        if row[2] == Cell::Number(0) {
            fails(row)?;
        }
        Ok(Some(row.clone()))
    });
    plan.view("fragile", Some(&[0]))
}

/// An error that is the machine's, and none of the row.
fn exceeds(_: &Row) -> Result<()> {
    Err(Error::new(ErrorKind::Unavailable, "EVAL-0003", "no memory is left").sqlstate("53200"))
}

fn panics(row: &Row) -> Result<()> {
    panic!("cannot stand {row:?}")
}

/// A sum that does not fit its type from two large orders on.
fn narrow(orders_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(orders_id, &orders());
    plan.aggregate(input, &[1], &[(AggregateFunction::Sum, Some(2), DataType::Int64)]);
    plan.view("narrow", Some(&[0]))
}

fn reader_of(view: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(view, &orders());
    plan.aggregate(input, &[], &[(AggregateFunction::Count, None, DataType::Int64)]);
    plan.view("reader", Some(&[]))
}

#[test]
fn a_failing_view_says_why_and_the_others_go_on() {
    for workers in [1, 4] {
        for (fails, kind, words) in [
            (exceeds as fn(&Row) -> _, ErrorKind::Unavailable, "no memory"),
            (panics, ErrorKind::Bug, "cannot stand"),
        ] {
            let mut database = Database::start(workers);
            let (orders, _) = create_tables(&mut database);
            let healthy = [
                database.create_view(paid(orders)),
                database.create_view(by_person(orders)),
            ];
            let failing = database.create_view(fragile(orders, fails));
            database.wait_live(failing).unwrap();
            for id in 1..50 {
                database.insert(orders, &[order(id, id % 17)]);
            }
            database.wait();
            let failed = database.views.remove(&failing).unwrap();
            let failure = failed.status.failure().expect("the view failed");
            assert_eq!(failure.kind(), kind);
            assert!(failure.message().contains(words), "{failure}");
            assert_eq!(
                database
                    .runtime
                    .block_on(failed.status.wait_live())
                    .unwrap_err()
                    .message(),
                failure.message()
            );
            database.check_all_epochs();
            let (_, state) = database.state(healthy[1], 1, 0).unwrap();
            assert_eq!(crate::rows::bag(&state).len(), 1);
        }
    }
}

#[test]
fn a_failing_view_is_dropped_and_created_again() {
    for workers in [1, 4] {
        let mut database = Database::start(workers);
        let (orders, _) = create_tables(&mut database);
        let view = database.create_view(fragile(orders, panics));
        database.wait_live(view).unwrap();
        database.insert(orders, &[order(1, 5), order(2, 0)]);
        database.wait();
        assert!(database.drop_view(view).status.failure().is_some());
        let again = database.create_view(fragile(orders, panics));
        assert!(
            database.wait_live(again).is_err(),
            "the row that it cannot stand is still there"
        );
        database.drop_view(again);
        let stored = database.stored_rows(orders);
        let (read_at, mut write) = (database.last(), database.inserts(orders, &[]));
        write.deletes.push(stored);
        database
            .commit(Commit {
                writes: vec![write],
                read_at,
                ..Commit::default()
            })
            .unwrap();
        database.now().insert(orders, Bag::new());
        database.insert(orders, &[order(3, 7)]);
        let last = database.create_view(fragile(orders, panics));
        database.wait_live(last).unwrap();
        database.insert(orders, &[order(4, 8)]);
        database.check_all_epochs();
    }
}

#[test]
fn a_group_out_of_range_is_told_of_and_its_view_goes_on() {
    for workers in [1, 4] {
        let mut database = Database::start(workers);
        let (orders, _) = create_tables(&mut database);
        let view = database.create_view(narrow(orders));
        database.wait_live(view).unwrap();
        let told = database.views[&view]
            .errors
            .clone()
            .expect("its sums can leave their type");
        let max = i64::MAX as i128;
        for (id, (cents, sum)) in [(max, Some(max)), (1, None), (1, None), (-2, Some(max))]
            .into_iter()
            .enumerate()
        {
            database.insert(orders, &[order(id as i128, cents)]);
            database.wait();
            let expected = sum.map(|sum| (vec![Cell::text("ann"), Cell::Number(sum)], 1));
            assert_eq!(database.contents(view, database.last()), Bag::from_iter(expected));
            assert_eq!(told.statistics().rows, sum.is_none() as u64);
            database.state(view, 1, 0).expect("its state can be read");
        }
        database.views.remove(&view);
        database.check_all_epochs();
    }
}

#[test]
fn a_view_on_a_failed_view_fails_with_it() {
    for workers in [1, 4] {
        let mut database = Database::start(workers);
        let (orders, _) = create_tables(&mut database);
        let view = database.create_view(fragile(orders, exceeds));
        let reader = database.create_view(reader_of(view));
        database.insert(orders, &[order(1, 5)]);
        database.wait();
        database.wait_live(reader).unwrap();
        assert_eq!(
            database.contents(reader, database.last()),
            Bag::from([(vec![Cell::Number(1)], 1)])
        );
        for id in 2..40 {
            database.insert(orders, &[order(id, 0), order(id + 100, 1)]);
        }
        database.wait();
        let failure = database.views[&reader]
            .status
            .failure()
            .expect("the reader failed as well")
            .clone();
        assert!(failure.message().contains("`fragile`"), "{failure}");
        let late = database.create_view(reader_of(view));
        assert!(
            database.wait_live(late).is_err(),
            "a view created on a failed view fails"
        );
        database.wait();
    }
}

#[test]
fn a_failed_view_holds_back_neither_history_nor_commits() {
    let mut database = Database::start(2);
    let (orders, _) = create_tables(&mut database);
    let rows: Vec<Row> = (0..200_000).map(|id| order(id, if id == 5 { 0 } else { 1 })).collect();
    database.insert(orders, &rows);
    let view = database.create_view(fragile(orders, exceeds));
    assert!(database.wait_live(view).is_err());
    database.insert(orders, &[order(-1, 1)]);
    database.wait();
    // A read of everything goes through each worker's commands, after which no turn of the backfill is left.
    let last = database.last();
    database.engine.retention().keep_from(last);
    database.insert(orders, &[order(-2, 1)]);
    database.wait();
    let _ = database.state(view, 0, 0);
    assert_eq!(
        database.engine.retention().horizon(),
        last,
        "the failed view pins an old epoch"
    );
}

#[test]
fn a_read_of_state_that_is_not_there_is_an_error() {
    let mut database = Database::start(2);
    let (orders, _) = create_tables(&mut database);
    let view = database.create_view(by_person(orders));
    database.insert(orders, &[order(1, 5)]);
    assert!(database.state(view, 0, 0).is_err(), "an input keeps no state");
    assert!(database.state(view, 1, 9).is_err(), "there is no such table");
    assert!(database.state(view, 17, 0).is_err(), "there is no such node");
    let wrong = crate::rows::array(&DataType::Int64, [Cell::Number(1)].iter());
    let read = read_state(
        &database.engine,
        StateRead {
            view,
            started_as: view,
            node: 1,
            table: 0,
            rows: StateRows::OfKeys(vec![wrong]),
        },
    );
    assert!(
        database
            .runtime
            .block_on(read)
            .is_ok_and(|(_, rows)| rows.iter().all(|rows| rows.num_rows() == 0))
    );
    database.insert(orders, &[order(2, 6)]);
    database.check_all_epochs();
}

#[test]
fn a_read_of_the_state_of_a_dropped_view_says_so() {
    for workers in [1, 4] {
        let mut database = Database::start(workers);
        let (orders, _) = create_tables(&mut database);
        let view = database.create_view(by_person(orders));
        database.drop_view(view);
        let error = database.state(view, 1, 0).unwrap_err();
        assert_eq!((error.kind(), error.state()), (ErrorKind::Conflict, "42P01"));
        assert!(error.message().contains("dropped"), "{error}");
        assert_eq!(error.code(), "ENGINE-0003");
    }
}
