"""Statements that are broken off: they have their effect or say that they have none, and leave nothing open."""
import threading
import time

import psycopg
import pytest
from psycopg.pq import TransactionStatus

ENDLESS = "SELECT count(*) FROM generate_series(1, 100000) a(x), generate_series(1, 100000) b(y) WHERE x + y = -1"


def cancelled(db, sql, after=0.3):
    """Runs a statement, cancels it meanwhile, and gives the SQLSTATE (None if it was done before)."""
    timer = threading.Timer(after, db.cancel_safe)
    timer.start()
    try:
        db.execute(sql)
        return None
    except psycopg.Error as error:
        return error.sqlstate
    finally:
        timer.join()


def test_a_cancelled_change_has_no_effect_and_leaves_no_transaction(server, db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT)")
    assert cancelled(db, f"INSERT INTO {name} SELECT * FROM ({ENDLESS}) AS s") == "57014"
    assert db.info.transaction_status == TransactionStatus.IDLE
    db.execute(f"INSERT INTO {name} VALUES (1)")
    assert server.sql(f"SELECT n FROM {name}") == [(1,)], "the next statement commits by itself"


def test_a_statement_cancelled_in_a_block_fails_the_block(server, db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT)")
    db.execute("BEGIN")
    db.execute(f"INSERT INTO {name} VALUES (1)")
    assert cancelled(db, ENDLESS) == "57014"
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        db.execute(f"INSERT INTO {name} VALUES (2)")
    assert db.execute("COMMIT").statusmessage == "ROLLBACK"
    assert server.sql(f"SELECT n FROM {name}") == []


def test_a_view_cancelled_while_it_is_built_is_not_there(server, db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT)")
    db.execute(f"INSERT INTO {name} SELECT x FROM generate_series(1, 20000) AS s(x)")
    view = f"CREATE MATERIALIZED VIEW {name}_v AS SELECT count(*) AS n FROM {name} a JOIN {name} b ON a.n % 2 = b.n % 2"
    state = cancelled(db, view, after=0.2)
    assert state == "57014"
    # What is left of it goes in the background; nobody sees it meanwhile.
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.execute(f"SELECT * FROM {name}_v")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT count(*) AS n FROM {name}")
    assert db.execute(f"SELECT n FROM {name}_v").fetchone() == (20000,)


def test_a_cancelled_view_of_a_billion_pairs_leaves_nothing_behind(fresh):
    """Its pairs are counted as they are made, so they take no memory; once it is cancelled no more are made."""
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE other (n BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW seen AS SELECT count(*) AS n FROM other")
        db.execute("CREATE TABLE t (a BIGINT)")
        db.execute("INSERT INTO t SELECT x FROM generate_series(1, 50000) AS s(x)")
        before = server.resident_bytes()
        assert cancelled(db, "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t x JOIN t y ON x.a < y.a", after=3) == "57014"
        for n in range(5):
            db.execute(f"INSERT INTO other VALUES ({n})")
        assert server.resident_bytes() - before < 300 * 2**20
        assert db.execute("SELECT n FROM seen").fetchone() == (5,)
        spent = server.cpu_seconds()
        time.sleep(3)
        assert server.cpu_seconds() - spent < 1
    assert server.terminate() == 0


def test_what_is_said_of_a_change_cancelled_at_any_moment_is_true(server, db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT PRIMARY KEY)")
    said = {}
    for n in range(150):
        said[n] = cancelled(db, f"INSERT INTO {name} VALUES ({n})", after=n * 0.00002)
    assert set(said.values()) <= {None, "57014"}
    found = {n for n, in server.sql(f"SELECT n FROM {name}")}
    assert found == {n for n, state in said.items() if state is None}
