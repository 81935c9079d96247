"""Errors of single rows of every kind: what a function refuses, texts that grow too long, groups, and how rows are shown.

SQLSTATEs and values are PostgreSQL's for the same expression (`psql -c "SELECT ..."`); lengths that are refused at less than its
1 GiB are those of `docs/design/0007-row-errors.md`.
"""
import json

import psycopg
import pytest

ERRORS = "SELECT sqlstate, count(*) FROM cenote_catalog.errors WHERE source = %s GROUP BY 1 ORDER BY 1"
ROWS = "SELECT text FROM cenote_catalog.errors WHERE source = %s ORDER BY text"


def states(db, view):
    return db.execute(ERRORS, (view,)).fetchall()


def rows(db, view):
    return [json.loads(text) for (text,) in db.execute(ROWS, (view,)).fetchall()]


# An expression over n and s, a row that it has a value for, the value, a row that it has none for, and the SQLSTATE.
REFUSED = {
    "repeat": ("repeat(s, n)", (2, "ab"), "abab", (900000000, "ab"), "54000"),
    "lpad": ("lpad(s, n)", (3, "a"), "  a", (900000000, "a"), "54000"),
    "rpad": ("rpad(s, n)", (3, "a"), "a  ", (900000000, "a"), "54000"),
    "unit_not_supported": ("date_part(s, INTERVAL '3 days')::int", (1, "day"), 3, (1, "julian"), "0A000"),
    "unit_not_known": ("date_part(s, INTERVAL '3 days')::int", (1, "day"), 3, (1, "dax"), "22023"),
    "overlay": ("overlay(s placing 'x' from n)", (1, "ab"), "xb", (0, "ab"), "22011"),
    "regexp_count": ("regexp_count(s, 'a', n)", (1, "aa"), 2, (0, "aa"), "22023"),
    "replace": ("length(replace(repeat('a', n), 'a', repeat('b', n)))", (10, ""), 100, (100000, ""), "54000"),
    "regexp_replace": ("length(regexp_replace(repeat('a', n), 'a', repeat('b', n), 'g'))", (10, ""), 100, (100000, ""), "54000"),
    "concat": ("length(concat(repeat('a', n), repeat('a', n), repeat('a', n), repeat('a', n), repeat('a', n)))", (2, ""), 10, (250000000, ""), "54000"),
    "chr": ("chr(n)", (65, ""), "A", (-1, ""), "22023"),
    "pattern": ("regexp_replace(s, s, 'x')", (1, "a"), "x", (1, "a("), "2201B"),
    "cast": ("s::int", (1, "7"), 7, (1, "seven"), "22P02"),
    "overflow": ("n * 1000000", (1, ""), 1000000, (1000000, ""), "22003"),
    "division": ("10 / n", (2, ""), 5, (0, ""), "22012"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_an_expression_refuses_is_its_rows_error(db, name, kind):
    expr, good, value, bad, state = REFUSED[kind]
    db.execute(f"CREATE TABLE {name} (n INT, s TEXT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT {expr} AS x FROM {name}")
    db.execute(f"INSERT INTO {name} VALUES (%s, %s), (%s, %s)", (*good, *bad))
    assert db.execute(f"SELECT x FROM {name}_v").fetchall() == [(value,)]
    assert states(db, f"{name}_v") == [(state, 1)]
    assert rows(db, f"{name}_v") == [{key: item for key, item in zip("ns", bad) if key in rows(db, f"{name}_v")[0]}]
    assert db.execute(f"VERIFY MATERIALIZED VIEW {name}_v").fetchall() == []
    db.execute(f"DELETE FROM {name} WHERE n = %s AND s = %s", bad)
    assert states(db, f"{name}_v") == []
    assert db.execute(f"SELECT x FROM {name}_v").fetchall() == [(value,)]


def test_what_is_not_built_for_any_row_is_refused_at_once(db, name):
    db.execute(f"CREATE TABLE {name} (n INT, s INTERVAL, t TIMESTAMP)")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="not supported in a materialized view yet"):
        db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT date_bin(s, t) AS x FROM {name}")


def test_texts_of_a_batch_that_are_too_long_together_are_made_in_parts(db, name):
    # 24 rows of 10 MiB, times 9: 2.1 GiB, and a batch of texts holds 2.
    db.execute(f"CREATE TABLE {name} (t TEXT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT octet_length(concat({', '.join('t' * 9)})) AS n FROM {name}")
    db.execute(f"INSERT INTO {name} SELECT repeat('x', 10485760) FROM generate_series(1, 24)")
    assert db.execute(f"SELECT n, count(*) FROM {name}_v GROUP BY n").fetchall() == [(9 * 10485760, 24)]
    assert states(db, f"{name}_v") == []


def test_a_group_whose_text_is_too_long_is_told_of_alone(db, name):
    # PostgreSQL: 54000 above 1 GiB, for a group and not for all groups together.
    between = "y" * 102400
    length = lambda rows: rows + (rows - 1) * 102400
    db.execute(f"CREATE TABLE {name} (g INT, s TEXT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT g, length(string_agg(s, '{between}')) AS n FROM {name} GROUP BY g")
    db.execute(f"INSERT INTO {name} SELECT g, 'x' FROM generate_series(1, 2) a(g), generate_series(1, 6000) b(i)")
    both = [(1, length(6000)), (2, length(6000))]
    assert sorted(db.execute(f"SELECT g, n FROM {name}_v").fetchall()) == both
    db.execute(f"INSERT INTO {name} SELECT 1, 'x' FROM generate_series(1, 6000) b(i)")
    assert db.execute(f"SELECT g, n FROM {name}_v").fetchall() == both[1:]
    assert (states(db, f"{name}_v"), rows(db, f"{name}_v")) == ([("54000", 1)], [{"g": 1}])
    db.execute(f"DELETE FROM {name} WHERE g = 1")
    db.execute(f"INSERT INTO {name} VALUES (1, 'abc')")
    assert sorted(db.execute(f"SELECT g, n FROM {name}_v").fetchall()) == [(1, 3), both[1]]
    assert states(db, f"{name}_v") == []


def test_errors_take_bounded_space_and_are_counted(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, t TEXT, b BYTEA)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT id, t::int AS n, length(b) AS l FROM {name}")
    db.execute(f"INSERT INTO {name} SELECT i, repeat('ä', 200000), 'abc'::bytea FROM generate_series(1, 20) g(i)")
    count = f"SELECT row_errors FROM cenote_catalog.views WHERE name = '{name}_v'"
    assert db.execute(count).fetchall() == [(20,)]
    longest = db.execute("SELECT max(length(reason)), max(length(text)) FROM cenote_catalog.errors WHERE source = %s", (f"{name}_v",)).fetchall()[0]
    assert longest[0] <= 301 and longest[1] <= 1001
    assert rows(db, f"{name}_v")[0] == {"id": 1, "t": 200 * "ä" + "…", "b": "616263"}
    db.execute(f"UPDATE {name} SET t = '5' WHERE id = 7")
    assert db.execute(f"SELECT id, n FROM {name}_v").fetchall() == [(7, 5)]
    assert db.execute(count).fetchall() == [(19,)]
    db.execute(f"DELETE FROM {name}")
    assert states(db, f"{name}_v") == []


NAMED = {
    "condition": ("SELECT a.k, b.y FROM {a} a JOIN {b} b ON a.k = b.k AND 4 / a.x > b.y", {"a.k": 1, "a.x": 0, "b.k": 1, "b.y": 5}),
    "computed_key": ("SELECT a.k, b.y FROM {a} a JOIN {b} b ON a.k + 1 = b.k + 1 AND 4 / a.x > b.y", {"a.k": 1, "a.x": 0, "b.k": 1, "b.y": 5}),
    "above_a_join": ("SELECT a.k, b.y / a.x AS q FROM {a} a JOIN {b} b ON a.k = b.k", {"a.k": 1, "a.x": 0, "b.k": 1, "b.y": 5}),
    "one_table": ("SELECT k, 4 / x AS q FROM {a} a", {"k": 1, "x": 0}),
    "common_part": ("SELECT (4 / x) * (4 / x) + k AS p, (4 / x) * (4 / x) - k AS q FROM {a} a", {"k": 1, "x": 0}),
    "scalar_subquery": ("SELECT k, (SELECT max(y) FROM {b} b) / x AS q FROM {a} a", {"k": 1, "x": 0, "value": 5}),
    "lateral": ("SELECT a.k, l.m FROM {a} a, LATERAL (SELECT 10 / a.x AS m) l", {"x": 0}),
}


@pytest.mark.parametrize("kind", NAMED)
def test_a_row_is_shown_by_the_names_that_were_written(db, name, kind):
    query, row = NAMED[kind]
    a, b = f"{name}_a", f"{name}_b"
    db.execute(f"CREATE TABLE {a} (k INT, x INT); CREATE TABLE {b} (k INT, y INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS {query.format(a=a, b=b)}")
    db.execute(f"INSERT INTO {a} VALUES (1, 0); INSERT INTO {b} VALUES (1, 5)")
    assert rows(db, f"{name}_v") == [row]


def test_errors_are_the_same_after_a_restart_and_whatever_was_planned_before(fresh):
    server = fresh(workers=2)
    db = server.connect()
    db.execute("CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, y INT)")
    queries = {kind: query.format(a="a", b="b").replace(" a a", " a").replace(" b b", " b") for kind, (query, _) in NAMED.items()}
    for kind, query in queries.items():
        db.execute(f"CREATE MATERIALIZED VIEW {kind} AS {query}")
    db.execute("DROP MATERIALIZED VIEW one_table")
    db.execute(f"CREATE MATERIALIZED VIEW one_table AS {queries['one_table']}")
    db.execute("INSERT INTO a VALUES (1, 0), (1, 2), (2, 0); INSERT INTO b VALUES (1, 5), (2, 0)")
    kept = lambda db: (
        db.execute("SELECT source, operator, code, sqlstate, reason, text FROM cenote_catalog.errors ORDER BY 1, 2, 3, 4, 5, 6").fetchall(),
        db.execute('SELECT view, "table", rows FROM cenote_catalog.state_tables ORDER BY 1, 2').fetchall(),
    )
    before = kept(db)
    assert len(before[0]) >= len(queries)
    assert not [operator for _, operator, *_ in before[0] if "__common_expr_3" in operator]
    db.close()
    server.kill()
    server.start()
    assert kept(server.connect()) == before


def test_in_a_block_errors_are_those_that_are_committed(db, name):
    db.execute(f"CREATE TABLE {name} (n INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT 1 / n AS q FROM {name}")
    with db.transaction():
        db.execute(f"INSERT INTO {name} VALUES (0)")
        assert db.execute(f"SHOW ERRORS FOR {name}_v").fetchall() == []
        assert db.execute(f"VERIFY MATERIALIZED VIEW {name}_v").fetchall() == []
    assert len(db.execute(f"SHOW ERRORS FOR {name}_v").fetchall()) == 1
