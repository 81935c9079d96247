//! What can fail and what cannot.

use super::*;
use arrow::datatypes::{Field, TimeUnit};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::physical_expr::create_physical_expr;
use datafusion::prelude::{cast, col, lit, when};

fn columns() -> DFSchema {
    let schema = Schema::new(vec![
        Field::new("n", DataType::Int32, true),
        Field::new("t", DataType::Utf8, true),
        Field::new("d", DataType::Decimal128(10, 2), true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, None), true),
    ]);
    DFSchema::try_from(schema).unwrap()
}

/// Both forms of an expression are judged alike.
fn fails(expr: Expr) -> bool {
    let schema = columns();
    let physical = create_physical_expr(&expr, &schema, &ExecutionProps::new()).unwrap();
    let logical = can_fail(&expr, &schema);
    assert_eq!(logical, physical_can_fail(&physical, schema.as_arrow()), "{expr}");
    logical
}

#[test]
fn casts_that_lose_no_value_cannot_fail() {
    for (column, to) in [
        ("n", DataType::Int64),
        ("n", DataType::Float64),
        ("n", DataType::Decimal128(12, 2)),
        ("d", DataType::Decimal128(38, 18)),
        ("d", DataType::Float64),
        ("t", DataType::Utf8View),
    ] {
        assert!(!fails(cast(col(column), to.clone())), "{column} as {to}");
    }
    for (column, to) in [
        ("n", DataType::Int16),
        ("n", DataType::Decimal128(11, 2)),
        ("d", DataType::Decimal128(38, 31)),
        ("d", DataType::Decimal128(38, 1)),
        ("d", DataType::Int64),
        ("t", DataType::Int32),
        ("t", DataType::Date32),
        ("at", DataType::Timestamp(TimeUnit::Nanosecond, None)),
    ] {
        assert!(fails(cast(col(column), to.clone())), "{column} as {to}");
    }
}

#[test]
fn what_holds_a_failing_part_can_fail() {
    let quotient = || lit(1) / col("n");
    assert!(fails(quotient()));
    assert!(fails(col("n").in_list(vec![lit(1), quotient()], false)));
    assert!(!fails(col("n").in_list(vec![lit(1), lit(2)], false)));
    assert!(fails(when(col("n").gt(lit(0)), quotient()).end().unwrap()));
    assert!(!fails(when(col("n").gt(lit(0)), col("n")).end().unwrap()));
    assert!(fails(quotient().is_null()));
    assert!(!fails(col("n").eq(lit(1)).or(col("t").is_not_null())));
}

#[test]
fn like_fails_on_patterns_that_are_none() {
    assert!(!fails(col("t").like(lit("a%"))));
    assert!(!fails(col("t").like(lit("a\\\\"))));
    assert!(fails(col("t").like(lit("a\\"))));
    assert!(fails(col("t").like(col("t"))));
}
