//! What was committed is there again after a restart, and views over it are the same.

use crate::backfill::writes;
use crate::database::{Database, config, scan, stored};
use crate::plan::CollectionId;
use crate::rows::{Bag, Cell, Random, bag, with_seeds};
use crate::views::{create_tables, create_views, orders, people};
use cenote_engine::{Commit, Recovered};
use cenote_statestore::{Epoch, ErrorKind, Result, Retention, VersionedTable};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Opens a database in a folder; the two tables come back by their logged names.
fn open(folder: &Path, workers: usize) -> Result<(Database, Vec<(Epoch, String)>)> {
    let retention = Arc::<Retention>::default();
    let (mut tables, mut seen) = (BTreeMap::new(), Vec::new());
    let mut recovered = Recovered::open(config(workers, Some(folder.to_owned())), retention.clone(), &[])?;
    recovered.read(|epoch, ddl, known| {
        let text = String::from_utf8(ddl.to_vec()).unwrap();
        let (verb, id) = text.split_once(' ').unwrap();
        let id = CollectionId(id.parse().unwrap());
        if verb == "drop" {
            known.remove(id);
            tables.remove(&id);
        } else {
            let schema = if verb == "orders" {
                stored("orders", &orders(), &[0])
            } else {
                stored("people", &people(), &[])
            };
            let table = Arc::new(VersionedTable::new(schema, 1, true, retention.clone(), 1 << 20));
            known.add(id, table.clone());
            tables.insert(id, table);
        }
        seen.push((epoch, text));
        Ok(())
    })?;
    Ok((Database::over(recovered.start()?, tables), seen))
}

/// Creates the two tables with their text in the log.
fn create_logged_tables(database: &mut Database) -> (CollectionId, CollectionId) {
    let mut create = |name: &str, id: u64, schema| {
        let (id, table) = (CollectionId(id), database.new_table(schema, 1));
        database.tables.insert(id, table.clone());
        let ddl = Some(format!("{name} {}", id.0).into_bytes());
        database
            .commit(Commit {
                create_tables: vec![(id, table)],
                ddl,
                ..Commit::default()
            })
            .unwrap();
        database.now().insert(id, Bag::new());
        id
    };
    (
        create("orders", 101, stored("orders", &orders(), &[0])),
        create("people", 102, stored("people", &people(), &[])),
    )
}

fn visible_contents(database: &Database, table: CollectionId) -> Bag {
    let stored = database.stored_rows(table);
    let visible = cenote_engine::visible_columns(&stored.schema()).fields().len();
    bag(&[stored.project(&(0..visible).collect::<Vec<_>>()).unwrap()])
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn tables_come_back_as_they_were_and_go_on() {
    with_seeds(3, |seed| {
        let folder = tempfile::tempdir().unwrap();
        let mut random = Random::new(seed);
        let (mut database, _) = open(folder.path(), 2).unwrap();
        let mut tables = create_logged_tables(&mut database);
        for round in 0..4 {
            for _ in 0..25 {
                crate::views::churn(&mut database, &mut random, tables);
            }
            let some = writes(&mut random, tables, 20);
            database.burst(some);
            let (held, last) = (database.now().clone(), database.last());
            drop(database);
            let (again, seen) = open(folder.path(), 1 + round).unwrap();
            database = again;
            assert_eq!(seen.len(), 2, "{seen:?}");
            assert_eq!(database.engine.visible(), last, "epochs go on where they ended");
            for (id, rows) in &held {
                assert_eq!(visible_contents(&database, *id), *rows);
            }
            let ids: Vec<CollectionId> = database.tables.keys().copied().collect();
            tables = (ids[0], ids[1]);
            *database.now() = held;
            create_views(&mut database, tables, &mut |_| {});
            for _ in 0..10 {
                crate::views::churn(&mut database, &mut random, tables);
            }
            database.check_all_epochs();
            database.views.clear();
        }
    });
}

#[test]
fn what_was_acknowledged_is_in_the_files_before_any_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(5);
    let (mut database, _) = open(folder.path(), 2).unwrap();
    let tables = create_logged_tables(&mut database);
    for _ in 0..10 {
        let some = writes(&mut random, tables, 10);
        database.burst(some);
        let crashed = tempfile::tempdir().unwrap();
        copy(folder.path(), crashed.path());
        let (again, _) = open(crashed.path(), 1).unwrap();
        assert_eq!(again.engine.visible(), database.last());
        for (id, rows) in database.now().clone() {
            assert_eq!(visible_contents(&again, id), rows);
        }
    }
}

#[test]
fn a_dropped_table_stays_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (mut database, _) = open(folder.path(), 1).unwrap();
    let tables = create_logged_tables(&mut database);
    let mut random = Random::new(5);
    let some = writes(&mut random, tables, 10);
    database.burst(some);
    let ddl = Some(b"drop 101".to_vec());
    database
        .commit(Commit {
            drops: vec![tables.0],
            ddl,
            ..Commit::default()
        })
        .unwrap();
    let write = database.inserts(tables.0, &[crate::views::random_order(&mut random)]);
    let error = database
        .commit(Commit {
            writes: vec![write],
            ..Commit::default()
        })
        .unwrap_err();
    assert_eq!((error.kind(), error.state()), (ErrorKind::Conflict, "42P01"));
    drop(database);
    let (again, seen) = open(folder.path(), 1).unwrap();
    assert_eq!(again.tables.keys().copied().collect::<Vec<_>>(), vec![tables.1]);
    assert_eq!(seen.last(), Some(&(again.engine.visible(), "drop 101".to_owned())));
}

#[test]
fn a_refused_commit_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (mut database, _) = open(folder.path(), 1).unwrap();
    let tables = create_logged_tables(&mut database);
    let row = crate::views::random_order(&mut Random::new(1));
    let person = crate::views::random_person(&mut Random::new(1));
    database.insert(tables.0, std::slice::from_ref(&row));
    let last = database.last();
    let writes = vec![
        database.inserts(tables.1, &[person]),
        database.inserts(tables.0, &[row]),
    ];
    let error = database
        .commit(Commit {
            writes,
            ddl: Some(b"orders 300".to_vec()),
            ..Commit::default()
        })
        .unwrap_err();
    assert_eq!(error.state(), "23505");
    drop(database);
    let (again, seen) = open(folder.path(), 1).unwrap();
    assert_eq!((again.engine.visible(), seen.len()), (last, 2));
    assert_eq!(again.stored_rows(tables.1).num_rows(), 0);
    assert_eq!(
        scan(&again.tables[&tables.0], again.engine.pin_visible().unwrap()).len(),
        1
    );
}

#[test]
fn a_row_changed_since_it_was_read_refuses_the_commit() {
    let mut database = Database::start(1);
    let (orders, _) = create_tables(&mut database);
    let row = |cents: i128| vec![Cell::Number(1), Cell::text("ann"), Cell::Number(cents)];
    database.insert(orders, &[row(1)]);
    let (read_at, stored) = (database.last(), database.stored_rows(orders));
    database.burst(vec![crate::database::Blind {
        table: orders,
        rows: vec![row(2)],
        truncate: false,
    }]);
    let mut write = database.inserts(orders, &[]);
    write.deletes.push(stored);
    let error = database
        .commit(Commit {
            writes: vec![write.clone()],
            read_at,
            ..Commit::default()
        })
        .unwrap_err();
    assert_eq!((error.kind(), error.state()), (ErrorKind::Conflict, "40001"));
    write.deletes = vec![database.stored_rows(orders)];
    let read_at = database.last();
    database
        .commit(Commit {
            writes: vec![write],
            read_at,
            ..Commit::default()
        })
        .unwrap();
    assert_eq!(database.stored_rows(orders).num_rows(), 0);
}
