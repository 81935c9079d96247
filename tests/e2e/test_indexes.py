"""CREATE INDEX: a further lookup key of a table or a materialized view, current at every epoch."""
import threading

import psycopg
import pytest


def error_of(db, sql):
    with pytest.raises(psycopg.Error) as raised:
        db.execute(sql)
    return raised.value


def found(server, name, query):
    answer = server.get(f"/api/v1/queryable_state/{name}?{query}")
    return sorted(map(str, answer.json()["values"])) if answer.status == 200 else answer.status


def by_sql(db, name, condition):
    return sorted(db.execute(f"SELECT * FROM {name} WHERE {condition}").fetchall())


@pytest.fixture(params=["table", "view", "keyless"])
def indexed(request, db, name):
    """A collection of rows (id, w, n) with an index over w and one over (n, w); and the table to change it by."""
    key = "" if request.param == "keyless" else "PRIMARY KEY"
    db.execute(f"CREATE TABLE {name} (id INT {key}, w TEXT, n BIGINT)")
    db.execute(f"INSERT INTO {name} SELECT x, 'w' || x % 100, x % 7 FROM generate_series(1, 10000) AS s(x)")
    target = name
    if request.param == "view":
        target = f"{name}_v"
        db.execute(f"CREATE MATERIALIZED VIEW {target} AS SELECT id, w, n FROM {name} WHERE id > 0")
    db.execute(f"CREATE INDEX {name}_w ON {target} (w)")
    assert db.execute(f"CREATE INDEX ON {target} USING hash (n, w)").statusmessage == "CREATE INDEX"
    return target, name


def test_an_index_finds_what_a_scan_finds(server, db, indexed):
    target, table = indexed
    for change in ("SELECT 1", f"UPDATE {table} SET w = 'w7' WHERE id < 50", f"DELETE FROM {table} WHERE id % 3 = 0",
                   f"INSERT INTO {table} VALUES (-1, 'w7', 1), (20000, 'w7', NULL), (20001, NULL, 1)", f"UPDATE {table} SET n = n + 1"):
        db.execute(change)
        for condition, query, scanned in (("w = 'w7'", "w=w7", "w || '' = 'w7'"), ("w = 'w8' AND n = 3::bigint", "w=w8&n=3", "w || '' = 'w8' AND n + 0 = 3"),
                                          ("w = 'nobody'", "w=nobody", "false"), ("w = 'w7' AND id > 30", None, "w || '' = 'w7' AND id > 30")):
            expected = by_sql(db, target, scanned)
            assert by_sql(db, target, condition) == expected, (change, condition)
            if query:
                http = found(server, target, query)
                assert (0 if http == 404 else len(http)) == len(expected), (change, query)


def test_an_index_reads_the_past_and_the_open_transaction(db, indexed):
    target, table = indexed
    before = db.execute("SELECT cenote_epoch()").fetchone()[0]
    db.execute(f"DELETE FROM {table} WHERE w = 'w5' AND id > 200")
    count = f"SELECT count(*) FROM {target} {{}} WHERE w = 'w5'"
    assert db.execute(count.format(f"AS OF EPOCH {before}")).fetchone() == (100,)
    assert db.execute(count.format("")).fetchone() == (2,)
    if target == table:
        db.execute("BEGIN")
        db.execute(f"INSERT INTO {table} VALUES (-5, 'w5', 1)")
        assert db.execute(count.format("")).fetchone() == (3,)
        db.execute("ROLLBACK")


def test_a_plan_tells_that_it_is_a_lookup(server, db, name):
    """What an index is for: the time of a lookup does not grow with the table."""
    db.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, w BIGINT)")
    db.execute(f"INSERT INTO {name} SELECT x, x FROM generate_series(1, 300000) AS s(x)")

    def seconds():
        started = server.cpu_seconds()
        for i in range(20):
            assert found(server, name, f"w={i + 1}") == [str({"id": i + 1, "w": i + 1})]
        return server.cpu_seconds() - started

    without = seconds()
    db.execute(f"CREATE INDEX {name}_w ON {name} (w)")
    assert seconds() < without / 3


def test_an_index_is_made_while_others_write(server, db, name):
    db.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, w BIGINT)")
    db.execute(f"INSERT INTO {name} SELECT x, x % 10 FROM generate_series(1, 100000) AS s(x)")
    stop = threading.Event()

    def write():
        with server.connect() as mine:
            while not stop.is_set():
                mine.execute(f"UPDATE {name} SET w = (w + 1) % 10 WHERE id % 100 = 1")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for i in range(5):
            db.execute(f"CREATE INDEX {name}_{i} ON {name} (w)")
            if i < 4:
                db.execute(f"DROP INDEX {name}_{i}")
    finally:
        stop.set()
        writer.join()
    for w in range(10):
        assert len(by_sql(db, name, f"w = {w}::bigint")) == len(by_sql(db, name, f"w + 0 = {w}"))


@pytest.mark.parametrize("gently", [True, False])
def test_indexes_survive_a_restart_until_they_are_dropped(fresh, gently):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, w TEXT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT w, count(*) AS n FROM t GROUP BY w")
        for sql in ("CREATE INDEX i ON t (w)", "CREATE INDEX j ON v (n)", "CREATE INDEX k ON v (n, w)", "DROP INDEX k"):
            db.execute(sql)
        db.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a')")
    server.restart(gently=gently)
    with server.connect() as db:
        assert by_sql(db, "t", "w = 'a'") == [(1, "a"), (3, "a")]
        assert by_sql(db, "v", "n = 2::bigint") == [("a", 2)]
        names = db.execute("SELECT indexname FROM pg_indexes ORDER BY 1").fetchall()
        assert names == [("i",), ("j",), ("t_pkey",)]
        db.execute("INSERT INTO t VALUES (4, 'b')")
        assert by_sql(db, "v", "n = 2::bigint") == [("a", 2), ("b", 2)]
        db.execute("DROP TABLE t CASCADE")
        assert db.execute("SELECT indexname FROM pg_indexes").fetchall() == []
    server.restart(gently=gently)
    with server.connect() as db:
        assert error_of(db, "DROP INDEX i").sqlstate == "42704"


def test_names_and_refusals(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, w TEXT UNIQUE)")
    db.execute(f"CREATE VIEW {name}_plain AS SELECT * FROM {name}")
    db.execute(f"CREATE INDEX {name}_i ON {name} (w)")
    db.execute(f"CREATE INDEX IF NOT EXISTS {name}_i ON {name} (w)")
    for sql, sqlstate in (
        (f"CREATE INDEX {name}_i ON {name} (id)", "42P07"), (f"CREATE INDEX {name} ON {name} (id)", "42P07"), (f"CREATE INDEX ON {name} (nobody)", "42703"),
        (f"CREATE INDEX ON {name}_plain (w)", "42809"), (f"CREATE INDEX ON {name}_nobody (w)", "42P01"), (f"CREATE UNIQUE INDEX ON {name} (w)", "0A000"),
        (f"CREATE INDEX ON {name} (lower(w))", "0A000"), (f"CREATE INDEX ON {name} (w DESC)", "0A000"), (f"CREATE INDEX ON {name} (w) WHERE id > 1", "0A000"),
        (f"CREATE INDEX ON {name} USING btree (w)", "0A000"), (f"CREATE INDEX ON {name} (w) INCLUDE (id)", "0A000"),
        (f"DROP INDEX {name}_pkey", "2BP01"), (f"DROP INDEX {name}_w_key", "2BP01"), (f"DROP INDEX {name}", "42809"), (f"DROP INDEX {name}_nobody", "42704"),
    ):
        assert error_of(db, sql).sqlstate == sqlstate, sql
    db.execute(f"DROP INDEX IF EXISTS {name}_nobody, {name}_i")
    assert error_of(db, f"DROP INDEX {name}_i").sqlstate == "42704"
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT w FROM {name} WHERE w = 'x'")
    assert by_sql(db, f"{name}_v", "true") == []
