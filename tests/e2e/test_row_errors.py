"""Rows that an expression of a view fails on: their errors are rows, come and go with them, and the view goes on."""
import json

import psycopg
import pytest

ERRORS = "SELECT sqlstate, text, count(*) FROM cenote_catalog.errors WHERE source = %s GROUP BY 1, 2 ORDER BY 1, 2"


def errors(db, view):
    return [(state, json.loads(text), n) for state, text, n in db.execute(ERRORS, (view,)).fetchall()]


def test_a_failing_row_is_told_of_and_the_view_goes_on(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT id, a / b AS q FROM {name}")
    view = f"{name}_v"
    assert errors(db, view) == []
    db.execute(f"INSERT INTO {name} VALUES (1, 6, 2), (2, 1, 0), (3, 9, 3), (4, NULL, 0)")
    rows = f"SELECT id, q FROM {view} ORDER BY id"
    # NULL divided by zero is NULL in PostgreSQL.
    assert db.execute(rows).fetchall() == [(1, 3), (3, 3), (4, None)]
    assert errors(db, view) == [("22012", {"id": 2, "a": 1, "b": 0}, 1)]
    db.execute(f"UPDATE {name} SET b = 1 WHERE id = 2")
    assert db.execute(rows).fetchall() == [(1, 3), (2, 1), (3, 3), (4, None)]
    assert errors(db, view) == []
    db.execute(f"UPDATE {name} SET b = 0 WHERE id IN (1, 3)")
    assert errors(db, view) == [("22012", {"id": 1, "a": 6, "b": 0}, 1), ("22012", {"id": 3, "a": 9, "b": 0}, 1)]
    db.execute(f"TRUNCATE {name}")
    assert errors(db, view) == []
    assert db.execute(rows).fetchall() == []


def test_equal_failing_rows_are_counted(db, name):
    db.execute(f"CREATE TABLE {name} (a SMALLINT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT a * a AS s FROM {name}")
    db.execute(f"INSERT INTO {name} VALUES (200), (200), (100)")
    assert errors(db, f"{name}_v") == [("22003", {"a": 200}, 2)]
    db.execute(f"DELETE FROM {name} WHERE a = 200")
    assert errors(db, f"{name}_v") == []
    assert db.execute(f"SELECT s FROM {name}_v").fetchall() == [(10000,)]


def test_a_view_over_failing_rows_is_made(db, name):
    db.execute(f"CREATE TABLE {name} (t TEXT)")
    db.execute(f"INSERT INTO {name} SELECT 'x' || i FROM generate_series(1, 2000) g(i)")
    db.execute(f"INSERT INTO {name} SELECT i::text FROM generate_series(1, 2000) g(i)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT sum(t::int) AS s, count(*) AS n FROM {name}")
    assert db.execute(f"SELECT s, n FROM {name}_v").fetchall() == [(2001000, 2000)]
    assert db.execute("SELECT count(*), min(sqlstate), max(sqlstate) FROM cenote_catalog.errors WHERE source = %s", (f"{name}_v",)).fetchall() == [(2000, "22P02", "22P02")]
    db.execute(f"DELETE FROM {name} WHERE t LIKE 'x%'")
    assert errors(db, f"{name}_v") == []


@pytest.mark.parametrize("kind, rows", [
    ("JOIN", [(2, 1)]),
    ("LEFT JOIN", [(0, None), (2, 1)]),
    ("FULL JOIN", [(0, None), (2, 1), (None, 5)]),
])
def test_a_failing_join_condition(db, name, kind, rows):
    a, b = f"{name}_a", f"{name}_b"
    db.execute(f"CREATE TABLE {a} (k INT, x INT); CREATE TABLE {b} (k INT, y INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT x, y FROM {a} JOIN {b} ON {a}.k = {b}.k AND 4 / x > y".replace(" JOIN ", f" {kind} "))
    db.execute(f"INSERT INTO {b} VALUES (1, 1), (1, 1), (2, 5)")
    db.execute(f"DELETE FROM {b} WHERE k = 1")
    db.execute(f"INSERT INTO {b} VALUES (1, 1)")
    db.execute(f"INSERT INTO {a} VALUES (1, 0), (1, 2)")
    read = lambda: sorted(db.execute(f"SELECT x, y FROM {name}_v").fetchall(), key=repr)
    assert read() == sorted(rows, key=repr)
    found = db.execute("SELECT sqlstate, reason FROM cenote_catalog.errors WHERE source = %s", (f"{name}_v",)).fetchall()
    assert found == [("22012", "division by zero")]
    db.execute(f"DELETE FROM {a} WHERE x = 0")
    assert errors(db, f"{name}_v") == []
    assert read() == sorted([row for row in rows if row[0] != 0], key=repr)


def test_errors_are_read_at_one_epoch_and_in_the_past(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, b INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT 1 / b AS q FROM {name}")
    db.execute(f"INSERT INTO {name} VALUES (1, 0)")
    [(then,)] = db.execute("SELECT cenote_epoch()").fetchall()
    db.execute(f"DELETE FROM {name}")
    kept = f"SELECT sqlstate, reason FROM cenote_state.{name}_v_errors"
    assert db.execute(kept).fetchall() == []
    assert db.execute(f"{kept} AS OF EPOCH {then}").fetchall() == [("22012", "division by zero")]
    assert db.execute(f"SELECT operator, rows FROM cenote_catalog.state_tables WHERE \"table\" = '{name}_v_errors'").fetchall() == [("errors", 0)]


def test_show_errors(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, b INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT 1 / b AS q FROM {name}")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_w AS SELECT id, b FROM {name}")
    db.execute(f"INSERT INTO {name} VALUES (1, 0)")
    cursor = db.execute(f"SHOW ERRORS FOR {name}_v")
    names = [column.name for column in cursor.description]
    assert names == ["source", "file", "line", "byte_offset", "text", "reason", "operator", "code", "sqlstate"]
    [row] = cursor.fetchall()
    row = dict(zip(names, row))
    assert (row["source"], row["reason"], row["sqlstate"]) == (f"{name}_v", "division by zero", "22012")
    assert json.loads(row["text"]) == {"id": 1, "b": 0} or json.loads(row["text"]) == {"b": 0}
    assert db.execute(f"SHOW ERRORS FOR {name}_w").fetchall() == []
    assert (f"{name}_v",) in [(r[0],) for r in db.execute("SHOW ERRORS").fetchall()]
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.execute("SHOW ERRORS FOR no_such_view")


def test_verify_finds_nothing_in_views_of_every_kind(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, g INT, x INT, f DOUBLE PRECISION)")
    views = {
        "plain": f"SELECT id, x + 1 AS y FROM {name}",
        "grouped": f"SELECT g, count(*) AS n, sum(x) AS s, avg(f) AS a, max(x) AS m FROM {name} GROUP BY g",
        "joined": f"SELECT a.id, b.x FROM {name} a LEFT JOIN {name} b ON a.g = b.g AND a.x < b.x",
        "top": f"SELECT id, x FROM {name} ORDER BY x LIMIT 3",
        "failing": f"SELECT g, sum(10 / x) AS s FROM {name} GROUP BY g",
        "distinct": f"SELECT DISTINCT g, x FROM {name}",
    }
    for view, query in views.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name}_{view} AS {query}")
    db.execute(f"INSERT INTO {name} SELECT i, i % 7, (i * 37) % 11, i / 3.0 FROM generate_series(1, 300) g(i)")
    db.execute(f"DELETE FROM {name} WHERE id % 5 = 0")
    db.execute(f"UPDATE {name} SET x = NULL WHERE id % 9 = 0")
    for view in views:
        cursor = db.execute(f"VERIFY MATERIALIZED VIEW {name}_{view}")
        assert [column.name for column in cursor.description][:2] == ["difference", "rows"]
        assert cursor.fetchall() == [], view


def test_verify_says_what_it_cannot(db, name):
    db.execute(f"CREATE TABLE {name} (id INT)")
    with pytest.raises(psycopg.errors.WrongObjectType):
        db.execute(f"VERIFY MATERIALIZED VIEW {name}")
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.execute("VERIFY MATERIALIZED VIEW no_such_view")
    with pytest.raises(psycopg.errors.SyntaxError):
        db.execute(f"VERIFY {name}")


def test_explain_analyze_of_a_view_counts_its_work(db, name):
    db.execute(f"CREATE TABLE {name} (g INT, x INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT g, sum(x) AS s FROM {name} WHERE x > 1 GROUP BY g")
    db.execute(f"INSERT INTO {name} VALUES (1, 1), (1, 2), (2, 3)")
    db.execute(f"INSERT INTO {name} VALUES (1, 5)")
    cursor = db.execute(f"EXPLAIN ANALYZE MATERIALIZED VIEW {name}_v")
    names = [column.name for column in cursor.description]
    rows = {row["kind"]: row for row in (dict(zip(names, row)) for row in cursor.fetchall())}
    assert (rows["input"]["rows_out"], rows["input"]["batches_out"]) == (4, 2)
    assert (rows["map"]["rows_in"], rows["map"]["rows_out"]) == (4, 3)
    # Two groups, then one of them changed: taken back and given anew.
    assert (rows["aggregate"]["rows_in"], rows["aggregate"]["rows_out"]) == (3, 4)
    assert rows["aggregate"]["state_rows"] == 2 and rows["aggregate"]["state_bytes"] > 0
    assert rows["aggregate"]["cpu_us"] > 0
    assert (rows["view"]["rows_in"], rows["view"]["state_rows"]) == (4, 2)
    plan = "\n".join(line for (line,) in db.execute(f"EXPLAIN MATERIALIZED VIEW {name}_v").fetchall())
    assert "aggregate" in plan and f"state: cenote_state.{name}_v" in plan


def test_explain_analyze_of_a_query(db, name):
    db.execute(f"CREATE TABLE {name} (x INT)")
    db.execute(f"INSERT INTO {name} SELECT i FROM generate_series(1, 10) g(i)")
    lines = [line for (line,) in db.execute(f"EXPLAIN ANALYZE SELECT count(*) FROM {name}").fetchall()]
    assert "rows: 1" in lines and any("metrics=" in line for line in lines)


def test_a_group_out_of_range_is_told_of_and_comes_back(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, g INT, x NUMERIC(38, 0), f DOUBLE PRECISION)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT g, sum(x) AS s, count(*) AS n FROM {name} GROUP BY g")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_w AS SELECT count(*) AS groups, sum(n) AS n FROM {name}_v")
    big = "9" * 38
    db.execute(f"INSERT INTO {name} VALUES (1, 1, {big}, 1e308), (2, 2, 5, 1)")
    db.execute(f"INSERT INTO {name} VALUES (3, 1, {big}, 1e308)")
    assert db.execute(f"SELECT g, s, n FROM {name}_v").fetchall() == [(2, 5, 1)]
    assert db.execute(f"SELECT groups, n FROM {name}_w").fetchall() == [(1, 1)]
    assert errors(db, f"{name}_v") == [("22003", {"g": 1}, 1)]
    db.execute(f"INSERT INTO {name} VALUES (4, 1, {big}, 1)")
    assert errors(db, f"{name}_v") == [("22003", {"g": 1}, 1)]
    assert db.execute(f"VERIFY MATERIALIZED VIEW {name}_v").fetchall() == []
    db.execute(f"DELETE FROM {name} WHERE id IN (3, 4)")
    assert sorted(db.execute(f"SELECT g, s, n FROM {name}_v").fetchall()) == [(1, int(big), 1), (2, 5, 1)]
    assert errors(db, f"{name}_v") == []


def test_a_filter_guards_what_it_is_of(db, name):
    db.execute(f"CREATE TABLE {name} (g INT, x INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT g, count(*) AS n, sum(100 / x) FILTER (WHERE x <> 0) AS s, count(DISTINCT 7 / x) FILTER (WHERE x > 0) AS d FROM {name} GROUP BY g")
    db.execute(f"INSERT INTO {name} VALUES (1, 0), (1, 5)")
    assert db.execute(f"SELECT g, n, s, d FROM {name}_v").fetchall() == [(1, 2, 20, 1)]
    assert errors(db, f"{name}_v") == []


def test_an_argument_that_a_function_does_not_take_is_its_rows_error(db, name):
    db.execute(f"CREATE TABLE {name} (n INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT chr(n) AS c FROM {name}")
    db.execute(f"INSERT INTO {name} VALUES (65), (-1)")
    assert db.execute(f"SELECT c FROM {name}_v").fetchall() == [("A",)]
    assert [n for _, _, n in errors(db, f"{name}_v")] == [1]


def test_in_a_block_a_view_leaves_out_what_it_leaves_out_outside(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, b INT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 0), (2, 1)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT id, 10 / b AS q FROM {name}")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_w AS SELECT count(*) AS n FROM {name}_v")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_top AS SELECT id, b FROM {name} ORDER BY b LIMIT 2")
    with db.transaction():
        db.execute(f"INSERT INTO {name} VALUES (3, 2), (4, 0)")
        assert sorted(db.execute(f"SELECT * FROM {name}_v").fetchall()) == [(2, 10), (3, 5)]
        assert db.execute(f"SELECT count(*) FROM {name}_v").fetchall() == [(2,)]
        assert db.execute(f"SELECT n FROM {name}_w").fetchall() == [(2,)]
        assert sorted(db.execute(f"SELECT id FROM {name}_top").fetchall()) == [(1,), (4,)]
    assert sorted(db.execute(f"SELECT * FROM {name}_v").fetchall()) == [(2, 10), (3, 5)]
    assert db.execute(f"SELECT n FROM {name}_w").fetchall() == [(2,)]
    assert sorted(db.execute(f"SELECT id FROM {name}_top").fetchall()) == [(1,), (4,)]
