"""Variances, arrays and texts of groups, and rows as values: in views as they change, and in ad-hoc queries.

Expected values come from PostgreSQL 15; where it leaves an order open, from the rule that elements come by value with
NULLs last. Deviations are compared to ten digits: PostgreSQL shows as many as the value needs, here a variance of BIGINT
has ten after the point, others sixteen.
"""
import math
import re
from decimal import Decimal as D

import psycopg
import pytest

COLUMNS = "id INT PRIMARY KEY, g TEXT, i INT, b BIGINT, n NUMERIC(10,2), d DOUBLE PRECISION, r REAL, s TEXT, f BOOLEAN"
ROWS = """(1,'a',1,10000000001,1.25,0.1,0.5,'x',true), (2,'a',2,10000000002,2.50,0.2,1.5,'y',false),
 (3,'a',2,10000000002,2.50,0.3,1.5,'y',true), (4,'a',null,null,null,null,null,null,true), (5,'b',7,7,7.00,7.5,7.5,'z',true),
 (6,'c',null,null,null,null,null,null,null), (7,'d',-3,-3,-99999999.99,1e9,1e9,'',true), (8,'d',4,9,99999999.99,1000000001,1e9,'é',true),
 (9,'e',5,5,0.01,'NaN','NaN','q',true), (10,'e',6,6,0.02,1,1,'p',true), (11,'f',1,1,1,'Infinity','-Infinity','w',true)"""
NAN = math.nan

# The select list, the rest of the query, the rows of PostgreSQL.
QUERIES = [
    ("g, stddev(i) AS a, stddev_samp(n) AS b, stddev_pop(d) AS c, variance(r) AS d, var_samp(b) AS e, var_pop(i) AS f", "GROUP BY g", [
        ("a", D("0.57735026918962576451"), D("0.72168783648703220563"), 0.08164965809277261, 0.3333333333333333, D("0.33333333333333333333"), D("0.22222222222222222222")),
        ("b", None, None, 0.0, None, None, D(0)),
        ("c", None, None, None, None, None, None),
        ("d", D("4.9497474683058327"), D("141421356.2232"), 0.5, 0.0, D(72), D("12.25")),
        ("e", D("0.70710678118654752440"), D("0.007071067811865475244008"), NAN, NAN, D("0.5"), D("0.25")),
        ("f", None, None, NAN, None, None, D(0)),
    ]),
    ("stddev(DISTINCT i) AS a, var_pop(DISTINCT n) FILTER (WHERE f) AS b, var_samp(d) FILTER (WHERE g = 'a') AS c, "
     "stddev_pop(DISTINCT r) FILTER (WHERE g = 'a') AS d", "", [(D("3.4364987719368982"), D("2499999999500005.0584"), 0.01, 0.5)]),
    ("g, array_agg(i) AS a, array_agg(s ORDER BY s DESC) AS b, string_agg(s, '|') AS c", "GROUP BY g", [
        ("a", [1, 2, 2, None], [None, "y", "y", "x"], "x|y|y"), ("b", [7], ["z"], "z"), ("c", [None], [None], None),
        ("d", [-3, 4], ["é", ""], "|é"), ("e", [5, 6], ["q", "p"], "p|q"), ("f", [1], ["w"], "w"),
    ]),
    ("g, array_agg(DISTINCT i) AS a, array_agg(DISTINCT s ORDER BY s DESC) AS b, string_agg(DISTINCT s, ', ') AS c", "GROUP BY g", [
        ("a", [1, 2, None], [None, "y", "x"], "x, y"), ("b", [7], ["z"], "z"), ("c", [None], [None], None),
        ("d", [-3, 4], ["é", ""], ", é"), ("e", [5, 6], ["q", "p"], "p, q"), ("f", [1], ["w"], "w"),
    ]),
    ("array_agg(id ORDER BY g DESC, id) AS a, string_agg(s, g ORDER BY id) AS b, array_agg(n ORDER BY n DESC NULLS LAST) AS c",
     "WHERE g IN ('a', 'b')", [([5, 1, 2, 3, 4], "xayaybz", [D("7.00"), D("2.50"), D("2.50"), D("1.25"), None])]),
    ("array_agg(i) FILTER (WHERE i > 100) AS a, string_agg(s, ',') FILTER (WHERE s = '') AS b", "", [(None, "")]),
    ("g, count(DISTINCT (i, s)) AS a, count(DISTINCT (i, s)) FILTER (WHERE f) AS b", "GROUP BY g", [
        ("a", 3, 3), ("b", 1, 1), ("c", 1, 0), ("d", 2, 2), ("e", 2, 2), ("f", 1, 1)]),
    ("stddev(i) AS a, stddev_pop(d) AS b, array_agg(i) AS c, string_agg(s, ',') AS d, count(DISTINCT (i, s)) AS e", "WHERE id < 0", [(None, None, None, None, 0)]),
    ("stddev(i) AS a, stddev_pop(i) AS b, var_pop(d) AS c, var_samp(r) AS d", "WHERE id = 5", [(None, D(0), 0.0, None)]),
    ("id", "WHERE (i, s) = (2, 'y')", [(2,), (3,)]),
    ("id", "WHERE (i, s) < (2, 'y')", [(1,), (7,), (11,)]),
    ("id", "WHERE ROW(i, n) >= ROW(2, 2.5)", [(2,), (3,), (5,), (8,), (9,), (10,)]),
    ("id", "WHERE (i, s) IN ((1, 'x'), (7, 'z'), (NULL, 'q'))", [(1,), (5,)]),
    ("id", "WHERE (i, s) NOT IN ((1, 'x'), (2, 'q'))", [(2,), (3,), (5,), (7,), (8,), (9,), (10,), (11,)]),
    ("id", "WHERE (i, s) IS NULL", [(4,), (6,)]),
    ("id", "WHERE (i, s) IS DISTINCT FROM (2, 'y')", [(1,), (4,), (5,), (6,), (7,), (8,), (9,), (10,), (11,)]),
    ("id", "WHERE (i, s) BETWEEN (1, 'a') AND (2, 'x')", [(1,), (11,)]),
]


def plain(value):
    """A value that equals another one where the two agree to ten digits."""
    if isinstance(value, (float, D)):
        return "NaN" if math.isnan(value) else float(f"{value:.9e}")
    return tuple(map(plain, value)) if isinstance(value, (list, tuple)) else value


def bag(rows):
    return sorted([plain(row) for row in rows], key=repr)


def make_views(db, name):
    db.execute(f"CREATE TABLE {name} ({COLUMNS})")
    for number, (shown, rest, _) in enumerate(QUERIES):
        db.execute(f"CREATE MATERIALIZED VIEW {name}_{number} AS SELECT {shown} FROM {name} {rest}")


def check(db, name, wanted):
    """Every view and its query give the same, and what is wanted."""
    for number, (shown, rest, rows) in enumerate(QUERIES):
        view = db.execute(f"SELECT * FROM {name}_{number}").fetchall()
        adhoc = db.execute(f"SELECT {shown} FROM {name} {rest}").fetchall()
        assert sorted(map(repr, view)) == sorted(map(repr, adhoc)), shown
        if wanted:
            assert bag(view) == bag(rows), shown


def test_views_and_queries_give_what_postgres_gives(db, name):
    make_views(db, name)
    check(db, name, wanted=False)
    db.execute(f"INSERT INTO {name} VALUES {ROWS}")
    check(db, name, wanted=True)


def told(server, prefix):
    """Digests of views and their state, under names without the prefix and the hash of the plan, which has the table's name."""
    named = {key.replace(prefix, ""): value for key, value in server.digests(prefix).items()}
    return {re.sub(r"_(aggregate|distinct)_[0-9a-f]{6}", r"_\1", key): value for key, value in named.items()}


def test_rows_that_come_one_by_one_and_go_leave_no_trace(fresh):
    server = fresh(workers=3)
    with server.connect() as db:
        make_views(db, "many")
        make_views(db, "once")
        empty = told(server, "many_")
        db.execute(f"INSERT INTO once VALUES {ROWS}")
        for row in " ".join(ROWS.split()).replace("), (", ")\n(").splitlines():
            db.execute(f"INSERT INTO many VALUES {row}")
            db.execute("INSERT INTO many SELECT id + 100, g, i + 1, b * 2, n / 3, d * 1e100, -r, s || 'x', NOT f FROM many WHERE id < 100")
            check(db, "many", wanted=False)
            db.execute("DELETE FROM many WHERE id > 100")
        check(db, "many", wanted=True)
        assert told(server, "many_") == told(server, "once_")
    server.kill()
    server.start()
    with server.connect() as db:
        check(db, "many", wanted=True)
        assert told(server, "many_") == told(server, "once_")
        db.execute("UPDATE many SET i = i + 1, s = s || '!' WHERE g = 'a'")
        check(db, "many", wanted=False)
        assert db.execute("SELECT a, c FROM many_2 WHERE g = 'a'").fetchone() == ([2, 3, 3, None], "x!|y!|y!")
        db.execute("DELETE FROM many")
        check(db, "many", wanted=False)
        assert told(server, "many_") == empty


def test_elements_are_a_typed_state_table(db, name):
    db.execute(f"CREATE TABLE {name} (g INT, x INT, s TEXT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT g, array_agg(x ORDER BY s DESC) AS a FROM {name} GROUP BY g")
    db.execute(f"INSERT INTO {name} VALUES (1, 5, 'a'), (1, 5, 'a'), (1, NULL, 'b')")
    table = db.execute('SELECT "table" FROM cenote_catalog.state_tables WHERE "table" LIKE %s', [f"{name}_v%values"]).fetchone()[0]
    rows = db.execute(f'SELECT g, "order", value, multiplicity FROM cenote_state."{table}"').fetchall()
    assert sorted(rows, key=repr) == [(1, "a", 5, 2), (1, "b", None, 1)]


def test_every_type_of_arrays_makes_arrays(db, name):
    values = {
        "BOOLEAN": "true", "SMALLINT": "1", "INT": "2", "BIGINT": "9007199254740993", "REAL": "0.5", "DOUBLE PRECISION": "0.25",
        "NUMERIC(38,9)": "1.000000001", "TEXT": "'a,b'", "BYTEA": "'\\x00ff'", "DATE": "'2024-02-29'", "TIME": "'12:34:56.789'",
        "TIMESTAMP": "'2024-02-29 01:02:03.000004'", "TIMESTAMPTZ": "'2024-02-29 01:02:03.000004+00'",
        "UUID": "'00112233-4455-6677-8899-aabbccddeeff'",
    }
    columns = ", ".join(f"c{index} {kind}" for index, kind in enumerate(values))
    shown = ", ".join(f"array_agg(c{index}) AS c{index}" for index in range(len(values)))
    db.execute(f"CREATE TABLE {name} ({columns})")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT {shown} FROM {name}")
    db.execute(f"INSERT INTO {name} VALUES ({', '.join(['NULL'] * len(values))}), ({', '.join(values.values())})")
    row = db.execute(f"SELECT * FROM {name}").fetchall()
    there = next(row for row in row if row[0] is not None)
    view = db.execute(f"SELECT * FROM {name}_v").fetchone()
    assert view == tuple([value, None] for value in there)
    assert view == db.execute(f"SELECT {shown} FROM {name}").fetchone()


def test_zeros_and_nans_among_elements(db, name):
    db.execute(f"CREATE TABLE {name} (x DOUBLE PRECISION)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT array_agg(x) AS a, array_agg(DISTINCT x) AS b FROM {name}")
    db.execute(f"INSERT INTO {name} VALUES ('NaN'), (0), ('-0'), ('-Infinity'), ('NaN'), (NULL)")
    query = f"SELECT array_agg(x) AS a, array_agg(DISTINCT x) AS b FROM {name}"
    for sql in (f"SELECT a::text, b::text FROM {name}_v", f"SELECT a::text, b::text FROM ({query}) q"):
        assert db.execute(sql).fetchone() == ("{-Infinity,-0,0,NaN,NaN,NULL}", "{-Infinity,0,NaN,NULL}")


def refused(db, sql, code):
    with pytest.raises(psycopg.Error) as raised:
        db.execute(sql)
    assert raised.value.sqlstate == code, (sql, str(raised.value))
    return str(raised.value)


def test_what_is_out_of_range_is_an_error_and_comes_back(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (d DOUBLE PRECISION, n NUMERIC(38,0))")
        db.execute("INSERT INTO t VALUES (1e200, 1), (2e200, 1)")
        refused(db, "SELECT var_pop(d) FROM t", "22003")
        db.execute("UPDATE t SET d = 1e200, n = CASE WHEN d = 1e200 THEN 1 ELSE -1 END * 90000000000000000000000000000000000000")
        assert db.execute("SELECT var_pop(d) FROM t").fetchone() == (0.0,)
        refused(db, "SELECT variance(n) FROM t", "22003")


def test_what_is_not_supported_is_refused_by_name(db, name):
    db.execute(f"CREATE TABLE {name} (g INT, i INT, s TEXT, p INTERVAL, a INT[])")
    view = f"CREATE MATERIALIZED VIEW {name}_v AS SELECT "
    for call in ("median(i)", "corr(g, i)", "covar_pop(g, i)", "regr_slope(g, i)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY i)"):
        assert "not supported" in refused(db, f"{view}{call} AS x FROM {name}", "0A000"), call
    for prefix in (view, "SELECT "):
        assert "interval" in refused(db, f"{prefix}array_agg(p) AS x FROM {name}", "0A000")
        assert "integer[]" in refused(db, f"{prefix}array_agg(a) AS x FROM {name}", "0A000")
        refused(db, f"{prefix}array_agg(DISTINCT i ORDER BY g) AS x FROM {name}", "42P10")
        refused(db, f"{prefix}string_agg(i, ',') AS x FROM {name}", "42883")
        refused(db, f"{prefix}(g, i) = (g, i, g) AS x FROM {name}", "42601")


def test_fields_that_are_unknown_matter_only_where_they_decide(db):
    for sql, value in [
        ("(1, 2) < (1, NULL)", None), ("(1, 2) < (NULL, 3)", None), ("(1, 2) < (2, NULL)", True), ("(1, 2) <> (1, NULL)", None),
        ("(1, 2) <> (2, NULL)", True), ("(1, 2) = (1, NULL)", None), ("(1, 2) = (2, NULL)", False),
    ]:
        assert db.execute(f"SELECT {sql}").fetchone() == (value,), sql
