"""Views among other objects: what depends on what, from when on a view can be read, and that all of it comes up again."""
import psycopg
import pytest


def refused(db, sql):
    with pytest.raises(psycopg.Error) as raised:
        db.execute(sql)
    return raised.value.sqlstate


def test_what_a_view_is_made_of_stays_and_comes_up_again(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (n BIGINT PRIMARY KEY, label TEXT)")
        db.execute("INSERT INTO t VALUES (1, 'one'), (2, 'two'), (3, 'three')")
        db.execute("CREATE VIEW big AS SELECT n, label FROM t WHERE n > 1")
        db.execute("CREATE VIEW bigger AS SELECT n FROM big WHERE n > 2")
        db.execute("CREATE MATERIALIZED VIEW counted AS SELECT count(*) AS n FROM bigger")
        db.execute("CREATE VIEW other AS SELECT label AS big FROM t")
        for sql in ("DROP VIEW big", "DROP VIEW bigger", "DROP TABLE t", "CREATE OR REPLACE VIEW big AS SELECT n FROM t"):
            assert refused(db, sql) == "2BP01", sql
        db.execute("CREATE OR REPLACE VIEW other AS SELECT label AS big, n FROM t")
    server.kill()
    server.start()
    assert server.sql("SELECT n FROM counted") == [(1,)]
    assert server.sql("SELECT big, n FROM other ORDER BY n") == [("one", 1), ("two", 2), ("three", 3)]
    with server.connect() as db:
        db.execute("DROP VIEW big CASCADE")
        assert refused(db, "SELECT * FROM counted") == refused(db, "SELECT * FROM bigger") == "42P01"
        assert db.execute("SELECT count(*) FROM other").fetchone() == (3,), "a column of that name is no dependence"
    server.kill()
    server.start()
    assert server.sql("SELECT count(*) FROM other") == [(3,)]


def test_a_view_can_be_read_in_the_message_that_makes_it(server, db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT)")
    db.execute(f"INSERT INTO {name} VALUES (1), (2)")
    sql = f"CREATE MATERIALIZED VIEW {name}_v AS SELECT sum(n) AS s FROM {name}; SELECT s FROM {name}_v"
    assert server.post("/api/v1/sql", {"sql": sql}).json()[1]["rows"] == [["3"]]


def test_a_view_is_not_taken_for_empty_before_it_was_there(server, db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT)")
    db.execute(f"INSERT INTO {name} VALUES (1)")
    before = db.execute("SELECT cenote_epoch()").fetchone()[0]
    with server.connect() as reader:
        reader.execute("BEGIN")
        assert reader.execute(f"SELECT count(*) FROM {name}").fetchone() == (1,)
        db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT n FROM {name}")
        assert refused(reader, f"SELECT * FROM {name}_v") == "55000"
        reader.execute("ROLLBACK")
        assert reader.execute(f"SELECT * FROM {name}_v").fetchall() == [(1,)]
    assert refused(db, f"SELECT * FROM {name}_v AS OF EPOCH {before}") == "55000"
    assert server.get(f"/api/v1/queryable_state/{name}_v/scan?epoch={before}").status == 410


def test_a_view_of_system_tables_is_refused(db, name):
    for table in ("cenote_catalog.views", "pg_catalog.pg_class"):
        assert refused(db, f"CREATE MATERIALIZED VIEW {name} AS SELECT count(*) AS n FROM {table}") == "0A000"


@pytest.mark.parametrize("rows", [1, 1000])
def test_a_guard_in_a_filter_guards_whatever_comes_in_one_batch(server, db, name, rows):
    db.execute(f"CREATE TABLE {name} (a BIGINT, b BIGINT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT count(*) AS n FROM {name} WHERE b <> 0 AND a / b > 1")
    db.execute(f"INSERT INTO {name} SELECT x, x % 2 FROM generate_series(1, {rows}) AS s(x)")
    assert db.execute(f"SELECT n FROM {name}_v").fetchone() == ((rows + 1) // 2 - 1,)


def test_each_insert_of_a_block_keeps_its_own_rule_for_conflicts(server, db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT PRIMARY KEY, w TEXT)")
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute(f"INSERT INTO {name} VALUES (1, 'mine')")
        other.execute(f"INSERT INTO {name} VALUES (2, 'mine') ON CONFLICT DO NOTHING")
        db.execute(f"INSERT INTO {name} VALUES (1, 'theirs')")
        assert refused(other, "COMMIT") == "23505"
    assert server.sql(f"SELECT * FROM {name}") == [(1, "theirs")]


def test_what_a_block_promises_is_kept_or_refused(server, db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT)")
    db.execute("BEGIN READ ONLY")
    assert refused(db, f"INSERT INTO {name} VALUES (1)") == "25006"
    db.execute("ROLLBACK")
    assert refused(db, "BEGIN ISOLATION LEVEL SERIALIZABLE") == "0A000"
    assert refused(db, f"SELECT * FROM {name} FOR UPDATE") == "0A000"


def test_distinct_from_binds_closer_than_and_and_or(db):
    row = db.execute("SELECT true IS DISTINCT FROM true OR true, false IS NOT DISTINCT FROM true AND false").fetchone()
    assert row == (True, False)


@pytest.mark.parametrize("query", ["SELECT count(DISTINCT 4) AS n FROM {t}", "SELECT count(DISTINCT 'a') AS n FROM {t}",
                                   "SELECT count(1) AS n FROM {t}", "SELECT bool_and(a > 0) AS n FROM {t}",
                                   "SELECT bool_or(a > 1) AS n FROM {t}"])
def test_aggregates_of_constants_and_conditions(db, name, query):
    query = query.format(t=name)
    db.execute(f"CREATE TABLE {name} (a INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS {query}")
    for change in (f"INSERT INTO {name} VALUES (1), (2), (NULL)", f"DELETE FROM {name} WHERE a = 2", f"DELETE FROM {name}"):
        db.execute(change)
        assert db.execute(f"SELECT n FROM {name}_v").fetchone() == db.execute(query).fetchone()


def test_equal_nulls_of_one_join_are_not_those_of_another(db, name):
    a, b, c = (f"{name}_{t}" for t in "abc")
    db.execute(f"CREATE TABLE {a} (q INT); CREATE TABLE {b} (v INT, f INT); CREATE TABLE {c} (f INT)")
    db.execute(f"INSERT INTO {a} VALUES (NULL)")
    db.execute(f"INSERT INTO {b} VALUES (NULL, 1)")
    db.execute(f"INSERT INTO {c} VALUES (1)")
    for number, (joins, count) in enumerate([
        (f"{a} JOIN {b} ON {a}.q = {b}.v JOIN {c} ON {b}.f IS NOT DISTINCT FROM {c}.f", 0),
        (f"{a} JOIN {b} ON {a}.q IS NOT DISTINCT FROM {b}.v JOIN {c} ON {b}.f = {c}.f", 1),
        (f"{a}, {b}, {c} WHERE {a}.q IS NOT DISTINCT FROM {b}.v AND {b}.f = {c}.f", 1),
    ]):
        query = f"SELECT count(*) AS n FROM {joins}"
        assert db.execute(query).fetchone() == (count,), query
        db.execute(f"CREATE MATERIALIZED VIEW {name}_v{number} AS {query}")
        assert db.execute(f"SELECT n FROM {name}_v{number}").fetchone() == (count,), query


def test_a_view_is_no_reader_of_itself(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (n INT)")
        db.execute("CREATE VIEW totals AS WITH totals AS (SELECT 1 AS x) SELECT * FROM totals")
        db.execute("CREATE VIEW other AS WITH t AS (SELECT 1 AS x) SELECT * FROM t")
        db.execute("DROP VIEW totals CASCADE")
        db.execute("DROP TABLE t")
        assert db.execute("SELECT * FROM other").fetchall() == [(1,)], "it never read the table"
        with pytest.raises(psycopg.Error) as raised:
            db.execute("CREATE OR REPLACE VIEW other AS SELECT * FROM other")
        assert raised.value.sqlstate == "42P17"
        db.execute("CREATE VIEW named (a) AS SELECT 1 AS x, 2 AS y")
        assert db.execute("SELECT a, y FROM named").fetchall() == [(1, 2)]
    server.restart()
    assert server.sql("SELECT * FROM other") == [(1,)]


def test_a_drop_of_several_is_whole(db, name):
    db.execute(f"CREATE TABLE {name} (n INT)")
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.execute(f"DROP TABLE {name}, {name}_missing")
    assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)
    db.execute(f"CREATE TABLE {name}_2 (n INT)")
    db.execute(f"CREATE VIEW {name}_v AS SELECT {name}.n FROM {name}, {name}_2")
    db.execute(f"DROP TABLE {name}_2, {name} CASCADE")
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.execute(f"SELECT * FROM {name}_v")


def test_views_in_a_block_show_its_own_writes(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, g INT, x INT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 1, 10), (2, 2, 20)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v (grp, total) AS SELECT g, sum(x) FROM {name} GROUP BY g")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_w AS SELECT count(*) AS n, max(total) AS m FROM {name}_v")
    db.execute(f"CREATE VIEW {name}_p AS SELECT grp FROM {name}_v WHERE total > 15")
    with db.transaction():
        db.execute(f"INSERT INTO {name} VALUES (3, 1, 90)")
        db.execute(f"DELETE FROM {name} WHERE id = 2")
        assert db.execute(f"SELECT grp, total FROM {name}_v").fetchall() == [(1, 100)]
        assert db.execute(f"SELECT t.total FROM {name}_v AS t WHERE t.grp = 1").fetchall() == [(100,)]
        assert db.execute(f"SELECT * FROM {name}_w").fetchall() == [(1, 100)]
        assert db.execute(f"SELECT * FROM {name}_p").fetchall() == [(1,)]
        with psycopg.connect(server.dsn, autocommit=True) as other:
            assert sorted(other.execute(f"SELECT * FROM {name}_v").fetchall()) == [(1, 10), (2, 20)]
    assert db.execute(f"SELECT grp, total FROM {name}_v").fetchall() == [(1, 100)]
    db.execute("BEGIN")
    db.execute(f"TRUNCATE {name}")
    assert db.execute(f"SELECT * FROM {name}_w").fetchall() == [(0, None)]
    db.execute("ROLLBACK")
    assert db.execute(f"SELECT * FROM {name}_w").fetchall() == [(1, 100)]


def test_a_common_table_expression_of_the_reader_is_not_the_views_table(db, name):
    db.execute(f"CREATE TABLE {name} (x INT)")
    db.execute(f"INSERT INTO {name} VALUES (1)")
    db.execute(f"CREATE VIEW {name}_p AS SELECT {name}.x FROM {name}")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT sum({name}.x) AS x FROM {name}")
    for view in (f"{name}_p", f"{name}_v"):
        assert db.execute(f"WITH {name} AS (SELECT 42 AS x) SELECT v.x, c.x FROM {view} v, {name} c").fetchall() == [(1, 42)]
    with db.transaction():
        db.execute(f"INSERT INTO {name} VALUES (2)")
        assert db.execute(f"WITH {name} AS (SELECT 42 AS x) SELECT x FROM {name}_v").fetchall() == [(3,)]
