//! Which statements ask for the system catalog.

use super::is_touched;
use crate::parse::{Parsed, parse_script};

fn touches(sql: &str) -> bool {
    match &*parse_script(sql).expect(sql)[0].parsed {
        Parsed::Sql { ast, .. } => is_touched(ast),
        _ => false,
    }
}

#[test]
fn statements_about_the_catalog_are_told_from_others() {
    for sql in [
        "SELECT * FROM pg_class",
        "SELECT * FROM t JOIN information_schema.tables x ON true",
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM pg_catalog.pg_type)",
        "SELECT current_schema",
        "SELECT current_user",
        "SELECT version()",
        "SELECT 't'::regclass",
        "SELECT $1::oid[]",
        "SELECT a COLLATE \"C\" FROM t",
    ] {
        assert!(touches(sql), "{sql}");
    }
    for sql in [
        "SELECT * FROM t WHERE pg_id = 1",
        "SELECT sum(a), count(*) FROM page_views GROUP BY b",
        "SELECT a::text FROM t",
        "INSERT INTO t VALUES (1)",
    ] {
        assert!(!touches(sql), "{sql}");
    }
}
