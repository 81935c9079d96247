"""Queries that a view and an ad-hoc SELECT must answer alike, and as PostgreSQL's rules have it."""
import psycopg
import pytest

ROWS = [(0, 0, 1), (1, 0, 2), (0, 1, 3), (None, 1, 4), (0, 0, 5)]

GROUPINGS = {
    "GROUPING SETS ((b, c), (c))": [(0, 0, 0, 6), (0, 1, 0, 3), (1, 0, 0, 2), (None, 0, 1, 8), (None, 1, 0, 4), (None, 1, 1, 7)],
    "ROLLUP (b)": [(0, None, 0, 9), (1, None, 0, 2), (None, None, 0, 4), (None, None, 1, 15)],
    "CUBE (b)": [(0, None, 0, 9), (1, None, 0, 2), (None, None, 0, 4), (None, None, 1, 15)],
}


@pytest.fixture
def grouped(db, name):
    db.execute(f"CREATE TABLE {name} (b INT, c INT, n BIGINT)")
    yield db, name


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_grouping_sets_follow_changes(grouped, grouping):
    db, name = grouped
    column = "c" if "c" in grouping.lower().replace("cube", "").replace("rollup", "").replace("grouping", "") else "NULL::int"
    query = f"SELECT b, {column} AS c, grouping(b) AS g, sum(n)::bigint AS s FROM {name} GROUP BY {grouping}"
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS {query}")
    for row in [*ROWS, (1, 1, 9)]:
        db.execute(f"INSERT INTO {name} VALUES (%s, %s, %s)", row)
    db.execute(f"DELETE FROM {name} WHERE n = 9")
    for source in (f"SELECT * FROM {name}_v", query):
        assert sorted(db.execute(source).fetchall(), key=repr) == sorted(GROUPINGS[grouping], key=repr), source


@pytest.mark.parametrize("query, rows", [
    ("SELECT k, w FROM {a} JOIN {b} USING (k) WHERE k > 1", [(2, 20)]),
    ("SELECT k, w FROM {a} LEFT JOIN {b} USING (k) WHERE k < 3 ORDER BY k", [(1, None), (2, 20)]),
    ("SELECT k, v FROM {a} RIGHT JOIN {b} USING (k) WHERE k >= 2 ORDER BY k", [(2, 2), (3, None)]),
    ("SELECT k, v, w FROM {a} FULL JOIN {b} USING (k) WHERE k <> 2 ORDER BY k", [(1, 1, None), (3, None, 30)]),
    ("SELECT k, count(*) AS n FROM {a} FULL JOIN {b} USING (k) GROUP BY k HAVING k > 1 ORDER BY k", [(2, 1), (3, 1)]),
    ("SELECT k, w FROM {a} NATURAL JOIN {b} WHERE k = 2", [(2, 20)]),
    ("SELECT x.k FROM {a} x JOIN {b} y USING (k) JOIN {a} z USING (k) WHERE k = 2", [(2,)]),
    ("SELECT k FROM {a} WHERE k IN (SELECT k FROM {b} JOIN {a} USING (k) WHERE k > 0)", [(2,)]),
    ("SELECT k FROM {a} LEFT JOIN {b} USING (k) WHERE k >= (SELECT count(*) FROM (SELECT v AS m FROM {a}) x WHERE k = m) ORDER BY k", [(1,), (2,)]),
    ("SELECT k FROM {a} x FULL JOIN {b} y USING (k) WHERE EXISTS (SELECT FROM (SELECT 3 AS m) z WHERE k = m)", [(3,)]),
    ("SELECT k FROM {a} x FULL JOIN {b} y USING (k) WHERE EXISTS (SELECT FROM (SELECT 3 AS k) z WHERE k = 2)", []),
    ("WITH c AS (SELECT 2 AS k, 7 AS u) SELECT k, u FROM {a} FULL JOIN c USING (k) WHERE (SELECT k = 2 FROM (SELECT 1 AS one) z)", [(2, 7)]),
])
def test_merged_columns_of_joins(db, name, query, rows):
    a, b = f"{name}_a", f"{name}_b"
    db.execute(f"CREATE TABLE {a} (k INT, v INT); CREATE TABLE {b} (k INT, w INT)")
    db.execute(f"INSERT INTO {a} VALUES (1, 1), (2, 2)")
    db.execute(f"INSERT INTO {b} VALUES (2, 20), (3, 30)")
    query = query.format(a=a, b=b)
    assert db.execute(query).fetchall() == rows
    unordered = query.split(" ORDER BY")[0]
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS {unordered}")
    assert sorted(db.execute(f"SELECT * FROM {name}_v").fetchall(), key=repr) == sorted(rows, key=repr)


# What PostgreSQL gives: a global aggregate has its row whatever is asked of it later.
@pytest.mark.parametrize("query, rows", [
    ("SELECT t.id, s.n FROM {t} t LEFT JOIN (SELECT count(*) AS n FROM {t}) s ON false", [(1, None), (2, None), (3, None)]),
    ("SELECT * FROM (SELECT count(*) AS n FROM {t}) s WHERE n BETWEEN NULL AND 5", []),
    ("SELECT s.m FROM (SELECT min(a) AS m FROM {t} WHERE id < 3) s WHERE s.m IN (SELECT NULL::int FROM {t})", []),
    ("SELECT s.m, y.id FROM (SELECT min(a) AS m FROM {t} WHERE id = 3) s JOIN {t} y ON s.m = NULL::int", []),
    ("SELECT x.m, l.p FROM (SELECT min(a) AS m FROM {t} WHERE id = 3) x LEFT JOIN LATERAL (SELECT coalesce(x.m, y.id) FROM {t} y) l(p) ON false", [(None, None)]),
    ("SELECT x.m, l.p FROM (SELECT min(a) AS m FROM {t} WHERE id = 3) x LEFT JOIN LATERAL (SELECT coalesce(x.m, y.id) FROM {t} y) l(p) ON l.p IS NULL",
     [(None, None)]),
    ("SELECT a, count(*) AS n FROM {t} GROUP BY GROUPING SETS ((), (a)) HAVING 1 = 2", []),
    ("SELECT count(*) AS n FROM {t} HAVING false", []),
])
def test_a_constant_condition_over_a_global_aggregate(db, name, query, rows):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT)")
    query = query.format(t=name)
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS {query}")
    db.execute(f"INSERT INTO {name} VALUES (1, 1), (2, 2), (3, NULL)")
    for what in (query, f"SELECT * FROM {name}_v"):
        assert sorted(db.execute(what).fetchall(), key=repr) == rows, what


def test_a_plan_that_doubles_is_refused_at_once(db):
    parts = ", ".join(f"c{i} AS (SELECT * FROM c{i - 1} a UNION ALL SELECT * FROM c{i - 1} b)" for i in range(1, 25))
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"WITH c0 AS (SELECT 1 AS x), {parts} SELECT count(*) FROM c24")
    assert raised.value.sqlstate == "54001"


# The columns' order is PostgreSQL's.
@pytest.mark.parametrize("query, columns, rows", [
    ("SELECT * FROM {a} JOIN {b} USING (k)", "k v j w j", [(2, 1, 3, 4, 9)]),
    ("SELECT * FROM {a} FULL JOIN {b} USING (j)", "j v k w k", [(3, 1, 2, None, None), (9, None, None, 4, 2)]),
    ("SELECT * FROM {a} RIGHT JOIN {b} USING (j, k)", "j k v w", [(9, 2, None, 4)]),
    ("SELECT x.w, * FROM {a} NATURAL LEFT JOIN {b} x", "w k j v w", [(None, 2, 3, 1, None)]),
    ("SELECT *, 1 AS one FROM {a} JOIN {b} USING (k), {b} z", "k v j w j w j k one", [(2, 1, 3, 4, 9, 4, 9, 2, 1)]),
    ("WITH c (k, m) AS (SELECT k, v AS x FROM {a}) SELECT * FROM {b} JOIN c USING (k)", "k w j m", [(2, 4, 9, 1)]),
    ("SELECT * FROM (SELECT * FROM {a} JOIN (SELECT w, k FROM {b}) y USING (k)) q (i, v, j, w)", "i v j w", [(2, 1, 3, 4)]),
    ("SELECT * FROM {a} x JOIN {a} y USING (k) JOIN {b} z USING (k)", "k v j v j w j", [(2, 1, 3, 1, 3, 4, 9)]),
])
def test_a_star_shows_merged_columns_first(db, name, query, columns, rows):
    a, b = f"{name}_a", f"{name}_b"
    db.execute(f"CREATE TABLE {a} (v INT, k INT, j INT); CREATE TABLE {b} (w INT, j INT, k INT)")
    db.execute(f"INSERT INTO {a} VALUES (1, 2, 3)")
    db.execute(f"INSERT INTO {b} VALUES (4, 9, 2)")
    found = db.execute(query.format(a=a, b=b))
    assert " ".join(column.name for column in found.description) == columns
    assert sorted(found.fetchall(), key=repr) == sorted(rows, key=repr)


@pytest.mark.parametrize("sql, state", [
    ("SELECT k FROM {a} RIGHT JOIN {b} USING (k) JOIN {a} z USING (k)", "0A000"),
    ("SELECT count(*) FROM {a} GROUP BY CUBE (" + ", ".join(f"k + {n}" for n in range(13)) + ")", "54001"),
])
def test_what_the_planner_would_get_wrong_is_refused(db, name, sql, state):
    a, b = f"{name}_a", f"{name}_b"
    db.execute(f"CREATE TABLE {a} (k INT, v INT); CREATE TABLE {b} (k INT, w INT)")
    for query in (sql, f"CREATE MATERIALIZED VIEW {name}_v AS {sql}"):
        with pytest.raises(psycopg.Error) as raised:
            db.execute(query.format(a=a, b=b))
        assert raised.value.sqlstate == state
    assert db.execute(f"SELECT * FROM {a} LEFT JOIN {b} USING (k) JOIN {a} z USING (k)").fetchall() == []
