"""ALTER TABLE: columns change in one epoch, what reads the table goes on or is named in the refusal, at every start alike.

The judges: PostgreSQL's rules, written out; DuckDB, which is given the same statements; digests of views from before."""
import threading

import duckdb
import psycopg
import pytest


def columns(db, table):
    return db.execute("SELECT column_name, data_type, is_nullable FROM information_schema.columns WHERE table_name = %s "
                      "ORDER BY ordinal_position", [table]).fetchall()


def names(db, sql):
    return [column.name for column in db.execute(sql).description]


def refused(db, sql, state, *words):
    with pytest.raises(psycopg.Error) as raised:
        db.execute(sql)
    text = str(raised.value) + (raised.value.diag.message_detail or "") + (raised.value.diag.message_hint or "")
    assert raised.value.sqlstate == state, text
    for word in words:
        assert word in text, f"{word} is not in: {text}"


STEPS = [
    "INSERT INTO {t} VALUES (1, 'a'), (2, NULL)",
    "ALTER TABLE {t} ADD COLUMN x INTEGER DEFAULT 7",
    "INSERT INTO {t} (k, w) VALUES (3, 'c')",
    "INSERT INTO {t} VALUES (4, 'd', 40)",
    "ALTER TABLE {t} RENAME COLUMN w TO word",
    "UPDATE {t} SET x = x + 1 WHERE k < 3",
    "ALTER TABLE {t} ALTER COLUMN x TYPE BIGINT",
    "UPDATE {t} SET x = 5000000000 WHERE k = 1",
    "ALTER TABLE {t} ADD COLUMN y DECIMAL(10,2) DEFAULT 1.50",
    "DELETE FROM {t} WHERE k = 2",
    "ALTER TABLE {t} DROP COLUMN word",
    "INSERT INTO {t} VALUES (5, 50, 2.25)",
    "ALTER TABLE {t} ADD COLUMN IF NOT EXISTS y INTEGER",
    "ALTER TABLE {t} DROP COLUMN IF EXISTS nothing",
    "ALTER TABLE {t} RENAME y TO z",
    "UPDATE {t} SET z = NULL WHERE k = 4",
]


@pytest.mark.parametrize("key", ["PRIMARY KEY", ""])
@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_each_step_leaves_what_duckdb_has(db, name, key, backend):
    judge = duckdb.connect()
    judge.execute(f"CREATE TABLE {name} (k INTEGER, w VARCHAR)")
    db.execute(f"CREATE TABLE {name} (k INTEGER {key}, w VARCHAR) WITH (state_backend = '{backend}')")
    for step in STEPS:
        judge.execute(step.format(t=name))
        db.execute(step.format(t=name))
        expected = judge.execute(f"SELECT * FROM {name} ORDER BY k")
        assert names(db, f"SELECT * FROM {name}") == [column[0] for column in expected.description], step
        assert db.execute(f"SELECT * FROM {name} ORDER BY k").fetchall() == expected.fetchall(), step


def test_several_actions_are_one_change(db, name):
    db.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, a INT, b TEXT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 2, 'x')")
    db.execute(f"ALTER TABLE {name} ADD c INT, ALTER a SET DATA TYPE NUMERIC, DROP b, ADD b INT DEFAULT 3 NOT NULL")
    assert db.execute(f"SELECT * FROM {name}").fetchall() == [(1, 2, None, 3)]
    assert columns(db, name) == [("k", "integer", "NO"), ("a", "numeric", "YES"), ("c", "integer", "YES"), ("b", "integer", "NO")]
    refused(db, f"ALTER TABLE {name} ADD e INT, DROP nothing", "42703", "nothing")
    assert names(db, f"SELECT * FROM {name}") == ["k", "a", "c", "b"], "all actions or none"


def test_not_null_without_a_default_is_refused_where_rows_are(db, name):
    db.execute(f"CREATE TABLE {name} (k INT)")
    db.execute(f"ALTER TABLE {name} ADD COLUMN a INT NOT NULL")
    db.execute(f"INSERT INTO {name} VALUES (1, 1)")
    refused(db, f"ALTER TABLE {name} ADD COLUMN b INT NOT NULL", "23502", "contains null values")
    refused(db, f"ALTER TABLE {name} ADD COLUMN b VARCHAR(2) DEFAULT 'long'", "22001")
    refused(db, f"ALTER TABLE {name} ADD COLUMN b DOUBLE PRECISION DEFAULT random()", "0A000", "row to row")
    assert db.execute(f"SELECT * FROM {name}").fetchall() == [(1, 1)]
    refused(db, f"INSERT INTO {name} (k) VALUES (2)", "23502")


@pytest.mark.parametrize("old, new, value", [
    ("SMALLINT", "INT", -5), ("SMALLINT", "BIGINT", 5), ("INT", "BIGINT", 7), ("INT", "NUMERIC", 7), ("BIGINT", "NUMERIC(19,0)", 2 ** 62),
    ("REAL", "DOUBLE PRECISION", 0.5), ("VARCHAR(3)", "VARCHAR(9)", "abc"), ("VARCHAR(3)", "TEXT", "abc"), ("NUMERIC(5,2)", "NUMERIC(9,4)", 1),
])
def test_a_type_becomes_a_wider_one(db, name, old, new, value):
    db.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, n {old})")
    db.execute(f"INSERT INTO {name} VALUES (1, {value!r}), (2, NULL)")
    db.execute(f"ALTER TABLE {name} ALTER COLUMN n TYPE {new}")
    assert db.execute(f"SELECT n FROM {name} ORDER BY k").fetchall() == [(value,), (None,)]


@pytest.mark.parametrize("old, new", [("INT", "SMALLINT"), ("BIGINT", "INT"), ("BIGINT", "NUMERIC(5,0)"), ("TEXT", "VARCHAR(3)"), ("TEXT", "INT"),
                                      ("NUMERIC(5,2)", "NUMERIC(5,3)"), ("DOUBLE PRECISION", "REAL"), ("INT", "TEXT")])
def test_another_type_is_refused(db, name, old, new):
    db.execute(f"CREATE TABLE {name} (n {old})")
    refused(db, f"ALTER TABLE {name} ALTER COLUMN n TYPE {new}", "0A000", "cannot alter type")


def test_names_keys_and_conditions(db, name):
    db.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, u INT UNIQUE, c INT CHECK (c > 0), w TEXT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 1, 1, 'a')")
    refused(db, f"ALTER TABLE {name} ADD COLUMN w INT", "42701", "already exists")
    refused(db, f"ALTER TABLE {name} RENAME w TO k", "42701", "already exists")
    refused(db, f"ALTER TABLE {name} DROP COLUMN k", "2BP01", "_pkey")
    refused(db, f"ALTER TABLE {name} DROP COLUMN u", "2BP01", "_u_key")
    refused(db, f"ALTER TABLE {name} DROP COLUMN c", "2BP01", "_c_check")
    refused(db, f"ALTER TABLE {name} RENAME c TO d", "0A000", "_c_check")
    refused(db, f"ALTER TABLE {name} ADD COLUMN _row_id INT", "42701")
    refused(db, f"ALTER TABLE {name}_not ADD COLUMN a INT", "42P01")
    db.execute(f"ALTER TABLE IF EXISTS {name}_not ADD COLUMN a INT")
    db.execute(f"ALTER TABLE {name} RENAME k TO id")
    db.execute(f"ALTER TABLE {name} DROP COLUMN w, ADD COLUMN x INT DEFAULT 9")
    refused(db, f"INSERT INTO {name} VALUES (1, 2, 2, 1)", "23505", "(id)=(1)")
    refused(db, f"INSERT INTO {name} VALUES (2, 1, 2, 1)", "23505", "(u)=(1)")
    refused(db, f"INSERT INTO {name} VALUES (2, 2, 0, 1)", "23514")
    db.execute(f"INSERT INTO {name} VALUES (1, 3, 3, 3) ON CONFLICT (id) DO UPDATE SET x = 4")
    assert db.execute(f"SELECT * FROM {name}").fetchall() == [(1, 1, 1, 4)]


VIEWS = {
    "all_of": "MATERIALIZED VIEW {t}_all_of AS SELECT * FROM {t}",
    "filtered": "MATERIALIZED VIEW {t}_filtered AS SELECT * FROM {t} WHERE n > 1",
    "by_w": "MATERIALIZED VIEW {t}_by_w AS SELECT w, sum(n) AS n, count(*) AS c FROM {t} GROUP BY w",
    "plain": "VIEW {t}_plain AS SELECT * FROM {t}",
    "over": "MATERIALIZED VIEW {t}_over AS SELECT p.w, p.n FROM {t}_plain p JOIN {t} ON {t}.k = p.k",
    "paired": "MATERIALIZED VIEW {t}_paired AS SELECT a.k, b.w FROM {t} a LEFT JOIN {t} b ON a.n = b.k",
    "top": "MATERIALIZED VIEW {t}_top AS SELECT k, w FROM {t} ORDER BY n DESC, k LIMIT 2",
}
WHAT_THEY_HOLD = {
    "all_of": "SELECT k, w, n FROM {t}",
    "filtered": "SELECT k, w, n FROM {t} WHERE n > 1",
    "by_w": "SELECT w, sum(n)::BIGINT, count(*) FROM {t} GROUP BY w",
    "plain": "SELECT k, w, n FROM {t}",
    "over": "SELECT w, n FROM {t}",
    "paired": "SELECT a.k, b.w FROM {t} a LEFT JOIN {t} b ON a.n = b.k",
    "top": "SELECT k, w FROM {t} ORDER BY n DESC, k LIMIT 2",
}


class Judged:
    """A table with views of all kinds, and what DuckDB has of them: there the table never changes but in its rows."""

    def __init__(self, db, table, key=" PRIMARY KEY"):
        self.table, self.judge = table, duckdb.connect()
        self.judge.execute(f"CREATE TABLE {table} (k INT, w TEXT, n INT)")
        db.execute(f"CREATE TABLE {table} (k INT{key}, w TEXT, n INT)")
        self.run(db, "INSERT INTO {t} VALUES (1, 'a', 1), (2, 'b', 2), (3, 'a', 1)")
        for view in VIEWS.values():
            db.execute("CREATE " + view.format(t=table))

    def run(self, db, sql, there=None):
        self.judge.execute((there or sql).format(t=self.table))
        db.execute(sql.format(t=self.table))

    def check(self, db, when):
        for view, sql in WHAT_THEY_HOLD.items():
            expected = self.judge.execute(sql.format(t=self.table)).fetchall()
            seen = db.execute(f"SELECT * FROM {self.table}_{view}").fetchall()
            assert sorted(seen, key=repr) == sorted(expected, key=repr), f"{view} {when}"
        assert names(db, f"SELECT * FROM {self.table}_all_of") == ["k", "w", "n"]
        assert names(db, f"SELECT * FROM {self.table}_plain") == ["k", "w", "n"]


def rows_change(judged, db, at):
    judged.run(db, f"INSERT INTO {{t}} VALUES ({at}, 'a', {at % 4}, 'more')", f"INSERT INTO {{t}} VALUES ({at}, 'a', {at % 4})")
    judged.run(db, "UPDATE {t} SET number = number + 1 WHERE k = 2", "UPDATE {t} SET n = n + 1 WHERE k = 2")
    db.execute(f"UPDATE {judged.table} SET extra = 'other' WHERE k = 1")
    judged.run(db, f"DELETE FROM {{t}} WHERE k = {at - 1} AND k > 10")


@pytest.mark.parametrize("key", [" PRIMARY KEY", ""])
@pytest.mark.parametrize("checkpoints", ["none", "before", "after", "both"])
def test_views_go_on_and_come_back(fresh, checkpoints, key):
    server = fresh(workers=2)
    with server.connect() as db:
        judged = Judged(db, "t", key)
        judged.check(db, "at first")
        if checkpoints in ("before", "both"):
            db.execute("CHECKPOINT")
        db.execute("ALTER TABLE t ADD COLUMN extra TEXT DEFAULT 'none'")
        judged.check(db, "behind ADD COLUMN")
        db.execute("ALTER TABLE t RENAME COLUMN n TO number")
        judged.check(db, "behind RENAME")
        rows_change(judged, db, 11)
        judged.check(db, "behind changes")
        db.execute("CREATE MATERIALIZED VIEW later AS SELECT extra, count(*) AS c FROM t GROUP BY extra")
        later = sorted(db.execute("SELECT * FROM later").fetchall())
        if checkpoints in ("after", "both"):
            db.execute("CHECKPOINT")
        rows_change(judged, db, 12)
        later = sorted(db.execute("SELECT * FROM later").fetchall())
        rows = sorted(db.execute("SELECT * FROM t").fetchall())
    for _ in range(2):
        server.restart()
        if checkpoints in ("after", "both"):
            assert "made anew" not in server.log_text(), "state of views is found"
        with server.connect() as db:
            judged.check(db, "behind a kill")
            assert sorted(db.execute("SELECT * FROM later").fetchall()) == later
            assert sorted(db.execute("SELECT * FROM t").fetchall()) == rows
            assert names(db, "SELECT * FROM t") == ["k", "w", "number", "extra"]
            rows_change(judged, db, 13)
            judged.check(db, "behind a kill and changes")
            db.execute("CHECKPOINT")
            later = sorted(db.execute("SELECT * FROM later").fetchall())
            rows = sorted(db.execute("SELECT * FROM t").fetchall())
            db.execute("DELETE FROM t WHERE k = 13")
            judged.judge.execute("DELETE FROM t WHERE k = 13")
            later = sorted(db.execute("SELECT * FROM later").fetchall())
            rows = sorted(db.execute("SELECT * FROM t").fetchall())
    assert "made anew" not in server.log_text()


def test_a_column_that_is_read_stays_and_the_readers_are_named(db, name):
    db.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, n INT, w TEXT)")
    db.execute(f"CREATE VIEW {name}_p AS SELECT n FROM {name}")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_m AS SELECT n FROM {name}_p")
    refused(db, f"ALTER TABLE {name} DROP COLUMN n", "2BP01", f"{name}_p", f"{name}_m")
    refused(db, f"ALTER TABLE {name} ALTER COLUMN n TYPE BIGINT", "0A000", f"{name}_m")
    db.execute(f"DROP VIEW {name}_p CASCADE")
    db.execute(f"CREATE INDEX {name}_i ON {name} (n)")
    refused(db, f"ALTER TABLE {name} DROP COLUMN n", "2BP01", f"{name}_i")
    db.execute(f"ALTER TABLE {name} ALTER COLUMN n TYPE BIGINT, DROP COLUMN w")


def test_a_view_sees_new_columns_once_it_is_replaced(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (k INT PRIMARY KEY, n INT)")
        db.execute("INSERT INTO t VALUES (1, 1)")
        db.execute("CREATE MATERIALIZED VIEW m AS SELECT k, n FROM t")
        db.execute("CREATE VIEW p AS SELECT * FROM t")
        db.execute("ALTER TABLE t ADD COLUMN x INT DEFAULT 5")
        refused(db, "CREATE MATERIALIZED VIEW both AS SELECT t.x FROM t JOIN p ON t.k = p.k", "0A000", "older than its newest columns")
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT k, x AS n FROM t")
        assert db.execute("SELECT * FROM m").fetchall() == [(1, 5)]
        db.execute("CREATE OR REPLACE VIEW p AS SELECT * FROM t")
        assert names(db, "SELECT * FROM p") == ["k", "n", "x"]
        db.execute("CREATE MATERIALIZED VIEW both AS SELECT t.x FROM t JOIN p ON t.k = p.k")
    for checkpoint in (False, True):
        with server.connect() as db:
            db.execute("INSERT INTO t VALUES (%s, 1, 6)", [2 + checkpoint])
            if checkpoint:
                db.execute("CHECKPOINT")
        server.restart()
        with server.connect() as db:
            assert db.execute("SELECT * FROM m ORDER BY k").fetchall() == [(1, 5), (2, 6), (3, 6)][:2 + checkpoint]
            assert names(db, "SELECT * FROM p") == ["k", "n", "x"]


def test_a_transaction_that_began_before_is_refused(server, db, name):
    db.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, n INT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 1)")
    with server.connect() as other:
        for write in (f"INSERT INTO {name} VALUES (2, 2)", f"UPDATE {name} SET n = 9", f"DELETE FROM {name}"):
            other.execute("BEGIN")
            other.execute(write)
            db.execute(f"ALTER TABLE {name} DROP COLUMN n, ADD COLUMN n INT DEFAULT 4")
            with pytest.raises(psycopg.errors.SerializationFailure) as raised:
                other.execute("COMMIT")
            assert name in str(raised.value)
        other.execute("BEGIN")
        other.execute("SELECT 1")
        db.execute(f"ALTER TABLE {name} ADD COLUMN m INT")
        with pytest.raises(psycopg.Error):
            other.execute(f"SELECT * FROM {name}")
        other.execute("ROLLBACK")
        assert other.execute(f"SELECT * FROM {name}").fetchall() == [(1, 4, None)]


def test_single_statements_beside_it_are_planned_again(server, db, name):
    db.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, n INT DEFAULT 1)")
    failures, done = [], threading.Event()

    def write(part):
        with server.connect() as other:
            at = part
            while not done.is_set():
                try:
                    other.execute(f"INSERT INTO {name} (k) VALUES ({at})")
                    at += 4
                except psycopg.Error as error:
                    failures.append(error)
                    return
            counts.append((at - part) // 4)

    counts = []
    writers = [threading.Thread(target=write, args=[part]) for part in range(4)]
    [writer.start() for writer in writers]
    for column in range(12):
        db.execute(f"ALTER TABLE {name} ADD COLUMN c{column} INT DEFAULT {column}")
    done.set()
    [writer.join() for writer in writers]
    assert not failures, failures[0]
    assert db.execute(f"SELECT count(*), sum(c0), sum(c11) FROM {name}").fetchone() == (sum(counts), 0, sum(counts) * 11)


def test_time_travel_gives_no_other_columns(db, name):
    db.execute(f"CREATE TABLE {name} (k INT, n INT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 2)")
    before = db.execute("SELECT cenote_epoch()").fetchone()[0]
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT * FROM {name}")
    db.execute(f"ALTER TABLE {name} ADD COLUMN m INT DEFAULT 3")
    then = db.execute("SELECT cenote_epoch()").fetchone()[0]
    db.execute(f"DELETE FROM {name}")
    assert db.execute(f"SELECT * FROM {name} AS OF EPOCH {then}").fetchall() == [(1, 2, 3)]
    assert db.execute(f"SELECT * FROM {name}_v AS OF EPOCH {then}").fetchall() == [(1, 2)]
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"SELECT * FROM {name} AS OF EPOCH {before}")
    assert "kept" in str(raised.value) + (raised.value.diag.message_detail or ""), str(raised.value)


def test_checkpoints_have_the_columns_of_then(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (k INT, n INT)")
        db.execute("INSERT INTO t VALUES (1, 2)")
        db.execute("CREATE VIEW p AS SELECT * FROM t")
        db.execute("CREATE SAVEPOINT before")
        db.execute("ALTER TABLE t ADD COLUMN m INT DEFAULT 3")
        assert db.execute("SELECT * FROM t AS OF SAVEPOINT before").fetchall() == [(1, 2)]
        assert db.execute("SELECT * FROM t").fetchall() == [(1, 2, 3)]
        refused(db, "SELECT * FROM p AS OF SAVEPOINT before", "0A000", "older than the newest columns", '"t"')


def test_sinks_and_subscriptions(fresh, tmp_path):
    server = fresh(args=["--allow-path", str(tmp_path)])
    with server.connect() as db, server.connect() as reader:
        db.execute("CREATE TABLE t (k INT, n INT)")
        changes = reader.cursor().stream("SUBSCRIBE TO t WITH (snapshot = true)")
        db.execute("INSERT INTO t VALUES (1, 2)")
        assert next(changes)[2:] == (1, 2)
        db.execute("ALTER TABLE t ADD COLUMN m INT")
        with pytest.raises(psycopg.Error, match="its columns are others now"):
            next(changes)
        db.execute(f"CREATE SINK s FROM t WITH (connector = 'file', path = '{tmp_path}/out', format = 'ndjson', mode = 'changelog')")
        refused(db, "ALTER TABLE t ADD COLUMN o INT", "0A000", "sink s")


def test_indexes_copy_http_and_catalogs_have_the_new_columns(server, db, name):
    db.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, n INT)")
    db.execute(f"INSERT INTO {name} SELECT i, i % 10 FROM generate_series(1, 1000) AS g(i)")
    db.execute(f"CREATE INDEX {name}_i ON {name} (n)")
    db.execute(f"ALTER TABLE {name} RENAME n TO number")
    db.execute(f"ALTER TABLE {name} ADD COLUMN x TEXT DEFAULT 'y'")
    assert db.execute(f"SELECT count(*) FROM {name} WHERE number = 3").fetchone() == (100,)
    with db.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        copy.write_row((2000, 3, "copied"))
    assert db.execute(f"SELECT count(*), count(DISTINCT x) FROM {name} WHERE number = 3").fetchone() == (101, 2)
    assert columns(db, name) == [("k", "integer", "NO"), ("number", "integer", "YES"), ("x", "text", "YES")]
    attributes = db.execute("SELECT attname FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid "
                            f"WHERE c.relname = '{name}' AND attnum > 0 ORDER BY attnum").fetchall()
    assert attributes == [("k",), ("number",), ("x",)]
    readable = next(one for one in server.readables() if one["name"] == name)
    assert "number" in str(readable) and "'x'" in str(readable)
    assert server.post(f"/api/v1/tables/{name}/rows", b'{"k": 3000, "number": 3, "x": "sent"}\n',
                       headers={"Content-Type": "application/x-ndjson"}).status == 200
    assert db.execute(f"SELECT x FROM {name} WHERE k = 3000").fetchone() == ("sent",)


def test_what_is_no_table_of_rows_is_not_altered(db, name, server):
    db.execute(f"CREATE TABLE {name} (k INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_m AS SELECT * FROM {name}")
    refused(db, f"ALTER TABLE {name}_m ADD COLUMN x INT", "42809", "materialized view")
    db.execute("BEGIN")
    refused(db, f"ALTER TABLE {name} ADD COLUMN x INT", "25001", "transaction block")
    db.execute("ROLLBACK")
