"""One epoch per answer: consistency between views, AS OF, retention."""
import threading

import psycopg
import pytest


def epoch(db):
    return db.execute("SELECT cenote_epoch()").fetchone()[0]


def test_views_never_mix_epochs_while_writers_move_money(fresh):
    """Transfers keep the total; every read must see it, in each view and between them, at any instant."""
    server = fresh(workers=4)
    with server.connect() as db:
        db.execute("CREATE TABLE acct (id INT PRIMARY KEY, owner TEXT, bal BIGINT)")
        db.execute("INSERT INTO acct SELECT x, 'o' || (x % 7)::text, 100 FROM generate_series(1, 70) AS s(x)")
        db.execute("CREATE MATERIALIZED VIEW per_owner AS SELECT owner, sum(bal)::bigint AS s, count(*) AS n FROM acct GROUP BY owner")
        db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(s)::bigint AS s FROM per_owner")
        db.execute("CREATE MATERIALIZED VIEW pairs AS SELECT a.id, a.bal, p.s FROM acct a JOIN per_owner p ON a.owner = p.owner")
    stop = threading.Event()

    def move(seed):
        with server.connect() as connection:
            i = seed
            while not stop.is_set():
                i += 1
                a, b = i * 31 % 70 + 1, i * 17 % 70 + 1
                if a == b:
                    continue
                try:
                    with connection.transaction():
                        connection.execute(f"UPDATE acct SET bal = bal - 3 WHERE id = {a}")
                        connection.execute(f"UPDATE acct SET bal = bal + 3 WHERE id = {b}")
                except psycopg.errors.SerializationFailure:
                    continue

    writers = [threading.Thread(target=move, args=(n,)) for n in range(3)]
    for writer in writers:
        writer.start()
    try:
        with server.connect() as reader:
            first = epoch(reader)
            for _ in range(150):
                row = reader.execute("""SELECT (SELECT sum(bal)::bigint FROM acct), (SELECT sum(s)::bigint FROM per_owner),
                                               (SELECT s FROM total), (SELECT sum(bal)::bigint FROM pairs),
                                               (SELECT count(*) FROM pairs)""").fetchone()
                assert row == (7000, 7000, 7000, 7000, 70)
                wrong = reader.execute("""SELECT count(*) FROM pairs p JOIN acct a ON a.id = p.id WHERE a.bal <> p.bal""").fetchone()
                assert wrong == (0,)
            assert epoch(reader) > first + 20, "writers were at work meanwhile"
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_one_statement_is_one_epoch_and_epochs_are_dense(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)")
    first = epoch(db)
    db.execute(f"INSERT INTO {name} SELECT x, 0 FROM generate_series(1, 5000) AS s(x)")
    db.execute(f"UPDATE {name} SET n = 1")
    db.execute(f"DELETE FROM {name} WHERE id > 10")
    assert epoch(db) == first + 3


def test_as_of_epoch_reads_tables_and_views_as_they_were(fresh):
    server = fresh(args=["--retain-epochs", "100"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c, sum(n)::bigint AS s FROM t")
        then = []
        for i in range(10):
            db.execute(f"INSERT INTO t VALUES ({i}, {i})")
            then.append((epoch(db), i + 1, sum(range(i + 1))))
        db.execute("DELETE FROM t WHERE id < 5")
        for e, count, total in then:
            assert db.execute(f"SELECT c, s FROM v AS OF EPOCH {e}").fetchone() == (count, total)
            assert db.execute(f"SELECT count(*) FROM t AS OF EPOCH {e}").fetchone() == (count,)
        e, count, total = then[3]
        assert db.execute(f"SELECT a.c, b.c FROM v AS OF EPOCH {e} AS a, v AS b").fetchone() == (count, 5)
        assert server.api(f"queryable_state/t/scan?epoch={e}&limit=100")["epoch"] == e


def test_as_of_outside_retention_says_what_is_kept(fresh):
    server = fresh(args=["--retain-epochs", "3", "--retain-time", "0s"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (n INT)")
        old = epoch(db)
        for i in range(20):
            db.execute(f"INSERT INTO t VALUES ({i})")
        now = epoch(db)
        with pytest.raises(psycopg.Error) as raised:
            db.execute(f"SELECT * FROM t AS OF EPOCH {old}")
        assert raised.value.sqlstate == "72000"
        assert str(old) in str(raised.value) and str(now) in str(raised.value)
        with pytest.raises(psycopg.Error) as raised:
            db.execute(f"SELECT * FROM t AS OF EPOCH {now + 1000}")
        assert str(now) in str(raised.value)
        assert db.execute(f"SELECT count(*) FROM t AS OF EPOCH {now}").fetchone() == (20,)


def test_memory_stays_bounded_when_one_row_is_updated_for_ever(fresh):
    server = fresh(args=["--retain-epochs", "10", "--retain-time", "0s"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, n BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT id, n, n % 7 AS m FROM t")
        db.execute("INSERT INTO t SELECT x, 0 FROM generate_series(1, 1000) AS s(x)")
        for _ in range(100):
            db.execute("UPDATE t SET n = n + 1")
        before = server.resident_bytes()
        for _ in range(400):
            db.execute("UPDATE t SET n = n + 1")
        assert server.resident_bytes() < before + 40 * 2**20
        assert db.execute("SELECT min(n), max(n), count(*) FROM v").fetchone() == (500, 500, 1000)


def test_a_time_before_anything_is_refused_by_name(db, name):
    db.execute(f"CREATE TABLE {name} (n INT)")
    with pytest.raises(psycopg.errors.SnapshotTooOld, match="2001-01-01"):
        db.execute(f"SELECT * FROM {name} AS OF TIMESTAMP '2001-01-01'")


def test_a_common_table_expression_hides_nothing_inside_itself(db, name):
    db.execute(f"CREATE TABLE {name} (n INT)")
    db.execute(f"INSERT INTO {name} VALUES (1)")
    first = epoch(db)
    db.execute(f"INSERT INTO {name} VALUES (2)")
    db.execute(f"CREATE VIEW {name}_v AS SELECT n * 10 AS n FROM {name}")
    of_past = f"WITH {name} AS (SELECT * FROM {name} AS OF EPOCH {first}) SELECT * FROM {name}"
    assert db.execute(of_past).fetchall() == [(1,)]
    of_view = f"WITH {name}_v AS (SELECT n + 1 AS n FROM {name}_v) SELECT n FROM {name}_v ORDER BY n"
    assert db.execute(of_view).fetchall() == [(11,), (21,)]
    with pytest.raises(psycopg.errors.SyntaxError):
        db.execute(f"WITH {name} AS (SELECT 1 AS n) SELECT * FROM {name} AS OF EPOCH {first}")
