use super::*;
use crate::parse::{Parsed, parse_script};
use datafusion::sql::sqlparser::ast::Statement as Ast;

fn constraints(items: &str) -> Result<Constraints> {
    let statements = parse_script(&format!("CREATE TABLE t ({items})"))?;
    let Parsed::Sql { ast, .. } = &*statements[0].parsed else {
        panic!("not a statement: {items}");
    };
    let Ast::CreateTable(create) = &**ast else {
        panic!("not a table: {items}");
    };
    let mut declared = Declared::default();
    let mut columns = Vec::new();
    for column in &create.columns {
        for at in 0..column.options.len() {
            declared.take_option("t", column, at)?;
        }
        columns.push(ColumnDefinition {
            name: folded(&column.name),
            sql_type: "INT".into(),
            not_null: false,
            default: None,
        });
    }
    for constraint in &create.constraints {
        declared.take_constraint("t", constraint)?;
    }
    declared.finish("t", &columns, &Catalog::default())
}

fn names(items: &str) -> Vec<String> {
    let constraints = constraints(items).unwrap();
    let unique = constraints.unique.into_iter().map(|key| key.name);
    let named = constraints.primary_key_name.into_iter().chain(unique);
    named
        .chain(constraints.checks.into_iter().map(|check| check.name))
        .collect()
}

#[test]
fn names_that_are_left_out_are_those_of_postgresql() {
    assert_eq!(names("a INT UNIQUE, b INT UNIQUE"), ["t_a_key", "t_b_key"]);
    assert_eq!(names("a INT, b INT, UNIQUE (a, b)"), ["t_a_b_key"]);
    assert_eq!(names("a INT CHECK (a > 0) CHECK (a < 9)"), ["t_a_check", "t_a_check1"]);
    assert_eq!(
        names("a INT, b INT, CHECK (a > b), CHECK (b > 0)"),
        ["t_b_check", "t_check"]
    );
    assert_eq!(names("a INT CHECK (true)"), ["t_check"]);
    assert_eq!(
        names("a INT CONSTRAINT k PRIMARY KEY, b INT CONSTRAINT u UNIQUE"),
        ["k", "u"]
    );
    assert_eq!(
        names("a INT, CONSTRAINT t_a_key CHECK (a > 0), UNIQUE (a)"),
        ["t_a_key1", "t_a_key"]
    );
}

#[test]
fn a_key_that_is_declared_twice_is_one() {
    assert_eq!(names("a INT PRIMARY KEY UNIQUE"), Vec::<String>::new());
    assert_eq!(names("a INT UNIQUE, CONSTRAINT u UNIQUE (a)"), ["u"]);
    assert_eq!(names("a INT CONSTRAINT u UNIQUE, CONSTRAINT v UNIQUE (a)"), ["u", "v"]);
}

#[test]
fn what_cannot_be_is_refused_as_in_postgresql() {
    let state = |items: &str| constraints(items).unwrap_err().state();
    assert_eq!(state("a INT PRIMARY KEY, b INT PRIMARY KEY"), "42P16");
    assert_eq!(state("a INT, UNIQUE (b)"), "42703");
    assert_eq!(state("a INT, UNIQUE (a, a)"), "42701");
    assert_eq!(
        state("a INT, CONSTRAINT c CHECK (a > 0), CONSTRAINT c CHECK (a > 1)"),
        "42710"
    );
    assert_eq!(state("a INT, CONSTRAINT t UNIQUE (a)"), "42P07");
    assert_eq!(state("a INT UNIQUE DEFERRABLE"), "0A000");
    assert_eq!(state("a INT, UNIQUE NULLS NOT DISTINCT (a)"), "0A000");
}

#[test]
fn a_definition_without_constraints_is_read_as_before() {
    let read: Constraints = serde_json::from_str("{}").unwrap();
    assert!(read.is_empty());
}
