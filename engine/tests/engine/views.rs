//! Views of every shape over changing tables, at every epoch and on 1, 2 and 4 workers.

use crate::database::Database;
use crate::plan::AggregateFunction::{ArrayAgg, Avg, Count, Max, Min, StddevPop, StringAgg, Sum};
use crate::plan::{CollectionId, JoinKind, ViewPlan};
use crate::plans::{Holds, Plan};
use crate::rows::{Cell, Random, Row, schema, with_seeds};
use arrow::datatypes::{DataType, Field, SchemaRef};
use cenote_engine::Commit;
use std::sync::Arc;

/// `orders(id primary key, who, cents)`.
pub fn orders() -> SchemaRef {
    schema(&[
        ("id", DataType::Int64),
        ("who", DataType::Utf8),
        ("cents", DataType::Int64),
    ])
}

/// `people(who, score)`, without a key.
pub fn people() -> SchemaRef {
    schema(&[("who", DataType::Utf8), ("score", DataType::Float64)])
}

pub fn random_name(random: &mut Random) -> Cell {
    let names = ["ann", "bob", "a name of more than twelve bytes", "eve", "kim"].map(Cell::text);
    if random.one_in(8) {
        Cell::Null
    } else {
        random.pick(&names).clone()
    }
}

pub fn random_order(random: &mut Random) -> Row {
    let cents = if random.one_in(8) {
        Cell::Null
    } else {
        Cell::Number(random.below(9) as i128 - 3)
    };
    vec![Cell::Number(random.below(40) as i128), random_name(random), cents]
}

pub fn random_person(random: &mut Random) -> Row {
    let scores = [0.1, 0.2, 0.3, 1e300, -1e300, 0.25].map(Cell::float);
    let score = if random.one_in(8) {
        Cell::Null
    } else {
        random.pick(&scores).clone()
    };
    vec![random_name(random), score]
}

fn is_above(cell: &Cell, bound: i128) -> bool {
    cell.number().is_some_and(|number| number > bound)
}

const DECIMAL: DataType = DataType::Decimal128(38, 0);

/// A filter and a projection: nothing but stateless work.
pub fn paid(orders_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(orders_id, &orders());
    let kept = plan.filter(input, |row| is_above(&row[2], 0));
    plan.project(kept, &[1, 2]);
    plan.view("paid", None)
}

fn list_of(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

/// One group per person.
pub fn by_person(orders_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(orders_id, &orders());
    let calls = [
        (Count, None, DataType::Int64),
        (Sum, Some(2), DECIMAL),
        (Avg, Some(2), DataType::Decimal128(38, 6)),
        (Min, Some(2), DataType::Int64),
        (Max, Some(0), DataType::Int64),
        (StddevPop, Some(2), DataType::Decimal128(38, 6)),
        (ArrayAgg, Some(2), list_of(DataType::Int64)),
    ];
    plan.aggregate(input, &[1], &calls);
    plan.view("by_person", Some(&[0]))
}

/// A view on a view: `rich` of `by_person`.
pub fn rich(by_person: CollectionId, columns: &SchemaRef) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(by_person, columns);
    let kept = plan.filter(input, |row| is_above(&row[2], 3));
    plan.project(kept, &[0, 2]);
    plan.view("rich", Some(&[0]))
}

/// A view on a view on a view: the richest two.
fn richest(rich: CollectionId, columns: &SchemaRef) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(rich, columns);
    plan.greatest(input, &[], 1, 2);
    plan.view("richest", None)
}

/// A diamond: orders by way of two views and directly, joined again.
fn diamond(orders_id: CollectionId, rich: (CollectionId, &SchemaRef), paid: (CollectionId, &SchemaRef)) -> ViewPlan {
    let mut plan = Plan::default();
    let rich = plan.input(rich.0, rich.1);
    let paid = plan.input(paid.0, paid.1);
    let direct = plan.input(orders_id, &orders());
    let both = plan.join(JoinKind::Left, (paid, &[0]), (rich, &[0]), None);
    plan.join(JoinKind::Full, (both, &[0]), (direct, &[1]), None);
    plan.view("diamond", None)
}

/// A table joined with itself, by two inputs.
fn pairs(orders_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let (a, b) = (plan.input(orders_id, &orders()), plan.input(orders_id, &orders()));
    let before = Holds(|row: &Row| Some(row[0].number()? < row[3].number()?));
    plan.join(JoinKind::Inner, (a, &[1]), (b, &[1]), Some(Arc::new(before)));
    plan.view("pairs", Some(&[0, 3]))
}

/// A table joined with itself, by one input that two nodes read.
fn twins(orders_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(orders_id, &orders());
    let (a, b) = (plan.project(input, &[1, 2]), plan.project(input, &[1]));
    plan.join(JoinKind::Inner, (a, &[0]), (b, &[0]), None);
    plan.view("twins", None)
}

fn constant() -> ViewPlan {
    let mut plan = Plan::default();
    plan.constant(
        &people(),
        &[vec![Cell::text("zoe"), Cell::float(1.5)], vec![Cell::Null, Cell::Null]],
    );
    plan.view("constant", None)
}

fn no_rows() -> ViewPlan {
    let mut plan = Plan::default();
    plan.constant(&people(), &[]);
    plan.view("no_rows", None)
}

/// A union of a table, of part of it, and of constant rows.
fn union(people_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let all = plan.input(people_id, &people());
    let part = plan.filter(all, |row| row[0] == Cell::text("ann"));
    let constant = plan.constant(&people(), &[vec![Cell::text("ann"), Cell::float(0.1)]]);
    plan.union(&[all, part, constant]);
    plan.view("union", None)
}

/// A global aggregate over what is often nothing; float sums.
fn global(people_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(people_id, &people());
    let eve = plan.filter(input, |row| row[0] == Cell::text("eve"));
    let calls = [
        (Count, None, DataType::Int64),
        (Sum, Some(1), DataType::Float64),
        (Max, Some(1), DataType::Float64),
        (ArrayAgg, Some(1), list_of(DataType::Float64)),
        (StringAgg, Some(0), DataType::Utf8),
    ];
    plan.aggregate(eve, &[], &calls);
    plan.view("global", Some(&[]))
}

/// `SELECT count(*)`: an aggregate over rows without columns.
fn counted(people_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(people_id, &people());
    let none = plan.project(input, &[]);
    plan.aggregate(none, &[], &[(Count, None, DataType::Int64)]);
    plan.view("counted", Some(&[]))
}

pub fn distinct(people_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(people_id, &people());
    plan.aggregate(input, &[0, 1], &[]);
    plan.view("distinct", Some(&[0, 1]))
}

fn strangers(orders_id: CollectionId, people_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let (orders, people) = (plan.input(orders_id, &orders()), plan.input(people_id, &people()));
    plan.join(JoinKind::Anti, (people, &[0]), (orders, &[1]), None);
    plan.view("strangers", None)
}

fn cross(orders_id: CollectionId, people_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let (orders, people) = (plan.input(orders_id, &orders()), plan.input(people_id, &people()));
    plan.join(JoinKind::Inner, (orders, &[]), (people, &[]), None);
    plan.view("cross", None)
}

fn greatest(orders_id: CollectionId) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(orders_id, &orders());
    plan.greatest(input, &[1], 2, 2);
    plan.view("greatest", Some(&[0]))
}

/// Creates the two tables.
pub fn create_tables(database: &mut Database) -> (CollectionId, CollectionId) {
    (
        database.create_table("orders", &orders(), &[0]),
        database.create_table("people", &people(), &[]),
    )
}

/// Creates a view of every shape; each commit may come between them.
pub fn create_views(
    database: &mut Database,
    (orders, people): (CollectionId, CollectionId),
    between: &mut dyn FnMut(&mut Database),
) {
    let columns = |database: &Database, view: CollectionId| database.views[&view].plan.table.columns.clone();
    let plans = [
        pairs(orders),
        twins(orders),
        constant(),
        no_rows(),
        union(people),
        global(people),
        counted(people),
        distinct(people),
        strangers(orders, people),
        cross(orders, people),
        greatest(orders),
    ];
    for plan in plans {
        database.create_view(plan);
        between(database);
    }
    let paid_id = database.create_view(paid(orders));
    let by_person_id = database.create_view(by_person(orders));
    between(database);
    let plan = rich(by_person_id, &columns(database, by_person_id));
    let rich_id = database.create_view(plan);
    between(database);
    let (rich_columns, paid_columns) = (columns(database, rich_id), columns(database, paid_id));
    database.create_view(richest(rich_id, &rich_columns));
    database.create_view(diamond(orders, (rich_id, &rich_columns), (paid_id, &paid_columns)));
}

pub fn churn(database: &mut Database, random: &mut Random, (orders, people): (CollectionId, CollectionId)) {
    match random.one_in(2) {
        true => database.churn(random, orders, &mut random_order),
        false => database.churn(random, people, &mut random_person),
    }
}

#[test]
fn views_hold_the_batch_answer_at_every_epoch() {
    with_seeds(4, |seed| {
        for workers in [1, 2, 4] {
            let mut random = Random::new(seed);
            let mut database = Database::start(workers);
            let tables = create_tables(&mut database);
            create_views(&mut database, tables, &mut |_| {});
            for _ in 0..60 {
                churn(&mut database, &mut random, tables);
            }
            database.check_all_epochs();
        }
    });
}

/// `people` of one name.
fn named(people_id: CollectionId, name: &'static str) -> ViewPlan {
    let mut plan = Plan::default();
    let input = plan.input(people_id, &people());
    plan.filter(input, move |row| row[0] == Cell::text(name));
    plan.view(&format!("named_{name}"), None)
}

#[test]
fn views_that_rows_cannot_matter_to_do_nothing() {
    const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    for workers in [1, 2] {
        let mut database = Database::start(workers);
        let (_, people_id) = create_tables(&mut database);
        let meters = NAMES.map(|name| {
            let (id, view) = database.prepare_view(named(people_id, name));
            let meters = view.meters.clone();
            let created = Commit {
                create_view: Some(view),
                ..Commit::default()
            };
            database.views.get_mut(&id).unwrap().since = database.commit(created).unwrap();
            // A view holds back the visible epoch, which is waited for below, once it has its first contents.
            database.wait_live(id).unwrap();
            meters
        });
        database.insert(people_id, &[vec![Cell::text("c"), Cell::float(1.0)]]);
        let few: Vec<Row> = ["d", "d", "x"].map(|name| vec![Cell::text(name), Cell::Null]).to_vec();
        database.insert(people_id, &few);
        database.wait();
        for (name, meters) in NAMES.iter().zip(&meters) {
            let filter = meters.figures()[1];
            assert_eq!(
                (filter.rows_in, filter.rows_out),
                (
                    4,
                    match *name {
                        "c" => 1,
                        "d" => 2,
                        _ => 0,
                    }
                ),
                "{name}"
            );
            assert_eq!(
                !filter.cpu.is_zero(),
                ["c", "d"].contains(name),
                "who works on it: {name}"
            );
        }
        let many: Vec<Row> = (0..1000).map(|_| vec![Cell::text("e"), Cell::Null]).collect();
        database.insert(people_id, &many);
        database.wait();
        assert!(
            meters.iter().all(|meters| !meters.figures()[1].cpu.is_zero()),
            "very many rows go to all views"
        );
        database.check_all_epochs();
    }
}
