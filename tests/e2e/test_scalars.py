"""What expressions do beside their values: names, keys, order of evaluation, types of columns. Answers are PostgreSQL's."""
import decimal
import math

import psycopg
import pytest

ROWS = "(1, 0, '-0', 'p'), (2, 0, 0, 'q'), (1, 4, 1.5, NULL), (NULL, 2, NULL, 'p')"

QUERIES = {
    "SELECT count(*), count(1) FROM {t}": [(4, 4)],
    "SELECT count(1), count(s), count(*) FILTER (WHERE a = 1) FROM {t}": [(4, 3, 2)],
    "SELECT a AS p, count(*) AS q, count(1) AS r FROM {t} GROUP BY a": [(1, 2, 2), (2, 1, 1), (None, 1, 1)],
    # Keys of grouping sets may be expressions.
    "SELECT a + 1 AS z, count(*) AS n FROM {t} GROUP BY ROLLUP (a + 1)": [(2, 2), (3, 1), (None, 1), (None, 4)],
    "SELECT a + 1 AS z, count(*) AS n FROM {t} GROUP BY GROUPING SETS ((a + 1), ())": [(2, 2), (3, 1), (None, 1), (None, 4)],
    "SELECT a + 1 AS y, b * 2 AS z, count(*) AS n, grouping(a + 1) AS g FROM {t} GROUP BY GROUPING SETS ((a + 1), (b * 2), ())": [
        (2, None, 2, 0), (3, None, 1, 0), (None, 0, 2, 1), (None, 4, 1, 1), (None, 8, 1, 1), (None, None, 1, 0), (None, None, 4, 1)],
    "SELECT a % 2 AS k, b % 2 AS l, count(*) AS n FROM {t} GROUP BY CUBE (a % 2, b % 2)": [
        (0, 0, 1), (0, None, 1), (1, 0, 2), (1, None, 2), (None, 0, 1), (None, 0, 4), (None, None, 1), (None, None, 4)],
    "SELECT a + 1 AS z, count(*) AS n FROM {t} GROUP BY ROLLUP (1)": [(2, 2), (3, 1), (None, 1), (None, 4)],
    # `-0` and `0` are one group.
    "SELECT x + 0 AS x, count(*) AS n FROM {t} GROUP BY CUBE (x)": [(0, 2), (1.5, 1), (None, 1), (None, 4)],
    "SELECT x + 0 AS x, a, count(*) AS n FROM {t} GROUP BY ROLLUP (x, a)": [
        (0, 1, 1), (0, 2, 1), (0, None, 2), (1.5, 1, 1), (1.5, None, 1), (None, None, 1), (None, None, 1), (None, None, 4)],
    # AND, OR and CASE go from left to right.
    "SELECT a FROM {t} WHERE b <> 0 AND a / b >= 0": [(1,)],
    "SELECT a FROM {t} WHERE NOT (b = 0 OR a / b < 0)": [(1,)],
    "SELECT a, b <> 0 AND 10 / b > 1 AS z FROM {t}": [(1, False), (1, True), (2, False), (None, True)],
    "SELECT a FROM {t} WHERE CASE WHEN b = 0 THEN false ELSE 10 / b > 1 END": [(1,), (None,)],
    "SELECT a FROM {t} WHERE b <> 0 AND s = 'p' AND 10 / b = 5": [(None,)],
    "SELECT coalesce(CASE WHEN b = 0 THEN 1 END, 10 / b) AS z FROM {t}": [(1,), (1,), (2,), (5,)],
}


def ordered(rows):
    return sorted(rows, key=repr)


@pytest.fixture
def table(db, name):
    db.execute(f"CREATE TABLE {name} (a INT, b INT, x DOUBLE PRECISION, s TEXT)")
    db.execute(f"INSERT INTO {name} VALUES {ROWS}")
    return name


@pytest.mark.parametrize("query", QUERIES)
def test_queries_and_views_answer_as_postgresql(db, table, query):
    query, rows = query.format(t=table), QUERIES[query]
    assert ordered(db.execute(query).fetchall()) == ordered(rows)
    columns = ", ".join(f"c{number}" for number in range(len(rows[0])))
    db.execute(f"CREATE MATERIALIZED VIEW {table}_v ({columns}) AS {query}")
    assert ordered(db.execute(f"SELECT * FROM {table}_v").fetchall()) == ordered(rows)
    # The view goes with the rows.
    db.execute(f"DELETE FROM {table} WHERE a = 2")
    assert ordered(db.execute(f"SELECT * FROM {table}_v").fetchall()) == ordered(db.execute(query).fetchall())


@pytest.mark.parametrize("column", ["x DOUBLE PRECISION PRIMARY KEY", "x REAL PRIMARY KEY", "x DOUBLE PRECISION UNIQUE"])
def test_both_zeros_are_one_key(db, name, column):
    db.execute(f"CREATE TABLE {name} ({column}, n INT)")
    db.execute(f"INSERT INTO {name} VALUES ('-0', 1)")
    for write in (f"INSERT INTO {name} VALUES (0, 2)", f"INSERT INTO {name} VALUES ('-0', 2)",
                  f"INSERT INTO {name} VALUES (5, 2); UPDATE {name} SET x = 0 WHERE x = 5"):
        with pytest.raises(psycopg.errors.UniqueViolation):
            db.execute(write)
    db.execute(f"INSERT INTO {name} VALUES (0, 3) ON CONFLICT (x) DO UPDATE SET n = excluded.n")
    assert db.execute(f"SELECT n FROM {name} WHERE x = '-0'").fetchall() == [(3,)]


def test_blanks_at_the_end_of_char_do_not_count(db, name):
    db.execute(f"CREATE TABLE {name} (c CHAR(4), v VARCHAR(3))")
    db.execute(f"INSERT INTO {name} VALUES ('ab ', 'xyz'), ('ab   ', 'xyz  ')")
    assert db.execute(f"SELECT length(c), c || '|', v || '|' FROM {name}").fetchall() == [(2, "ab|", "xyz|")] * 2
    assert db.execute(f"SELECT count(*) FROM {name} WHERE c = 'ab'").fetchone() == (2,)
    for row in ("('abcde', 'x')", "('a', 'wxyz')"):
        with pytest.raises(psycopg.errors.StringDataRightTruncation):
            db.execute(f"INSERT INTO {name} VALUES {row}")


def test_numeric_without_precision_loses_no_digit(db, name):
    db.execute(f"CREATE TABLE {name} (n NUMERIC, m NUMERIC(12,4))")
    db.execute(f"INSERT INTO {name} VALUES (0.123456789012345678, 1.00005)")
    assert db.execute(f"SELECT n, m FROM {name}").fetchone() == (
        decimal.Decimal("0.123456789012345678"), decimal.Decimal("1.0001"))
    for value in ("0.1234567890123456789", "'0.1234567890123456789'", "1e-19"):
        with pytest.raises(psycopg.errors.NumericValueOutOfRange):
            db.execute(f"INSERT INTO {name} (n) VALUES ({value})")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v (q, p, a) AS SELECT n / 3, n * n, avg(n) FROM {name} GROUP BY n")
    quotient, product, mean = db.execute(f"SELECT q, p, a FROM {name}_v").fetchone()
    assert quotient == decimal.Decimal("0.041152263004115226")
    assert product == decimal.Decimal("0.015241578753238837")
    assert mean == decimal.Decimal("0.123456789012345678")


@pytest.mark.parametrize("call", ["random()", "now()", "current_date", "clock_timestamp()", "gen_random_uuid()"])
def test_functions_that_change_are_refused_in_views(db, table, call):
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"CREATE MATERIALIZED VIEW {table}_v AS SELECT a, {call} AS z FROM {table}")
    assert raised.value.sqlstate in ("0A000", "42883"), raised.value
    assert call.split("(")[0] in str(raised.value)


def test_sums_of_floats_that_overflow(db, name):
    db.execute(f"CREATE TABLE {name} (x DOUBLE PRECISION)")
    db.execute(f"INSERT INTO {name} VALUES (1e308)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT sum(x) AS s FROM {name}")
    assert math.isclose(db.execute(f"SELECT s FROM {name}_v").fetchone()[0], 1e308)
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        db.execute("SELECT sum(x) FROM (VALUES (1e308::float8), (1e308::float8)) z(x)")
    db.execute(f"INSERT INTO {name} VALUES (1e308)")
    assert db.execute(f"SELECT s FROM {name}_v").fetchall() == []
    assert db.execute(f"SELECT sqlstate FROM cenote_catalog.errors WHERE source = '{name}_v'").fetchall() == [("22003",)]
    db.execute(f"INSERT INTO {name} VALUES ('Infinity')")
    assert db.execute(f"SELECT s FROM {name}_v").fetchall() == [(math.inf,)]
    db.execute(f"DELETE FROM {name} WHERE x = 'Infinity'")
    db.execute(f"INSERT INTO {name} VALUES (-1e308)")
    assert math.isclose(db.execute(f"SELECT s FROM {name}_v").fetchone()[0], 1e308)


@pytest.mark.parametrize("like, state", [("'a%' ESCAPE 'xy'", "22025"), ("'a#' ESCAPE '#'", "22025"), ("s ESCAPE '#'", "0A000")])
def test_escapes_that_are_none_are_refused(db, table, like, state):
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"SELECT * FROM {table} WHERE s LIKE {like}")
    assert raised.value.sqlstate == state
