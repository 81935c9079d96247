"""A view that fails, fails alone; the server refuses what it cannot bear and goes on."""
import concurrent.futures

import psycopg
import pytest

# What an expression fails with is its row's error; pairs of a join with more than 2 GiB of text stop the view.
TIMES = "(VALUES " + ", ".join(f"('{i}')" for i in "abcdefghijklmnopqrstuv") + ") b(i)"
BAD = f"SELECT id, max(octet_length(x || i)) - 1 AS q FROM (SELECT id, repeat('x', n) AS x FROM t) a, {TIMES} GROUP BY id"


@pytest.fixture
def failing(fresh):
    """A table with a view that makes more text of one of its values than a batch can hold, a view on that, and a healthy view."""
    server = fresh(workers=2)
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        db.execute("CREATE MATERIALIZED VIEW good AS SELECT count(*) AS c, sum(n) AS s FROM t")
        db.execute(f"CREATE MATERIALIZED VIEW bad AS {BAD}")
        db.execute("CREATE MATERIALIZED VIEW on_bad AS SELECT count(*) AS c FROM bad")
        db.execute("INSERT INTO t VALUES (1, 5), (2, 10)")
        assert db.execute("SELECT c FROM on_bad").fetchone() == (2,)
        db.execute("INSERT INTO t VALUES (3, 100000000)")
        yield server, db


def test_a_view_that_fails_says_so_and_the_others_go_on(failing):
    server, db = failing
    for view in ("bad", "on_bad"):
        with pytest.raises(psycopg.Error) as raised:
            db.execute(f"SELECT * FROM {view}")
        assert "result is too long" in str(raised.value) and "bad" in str(raised.value)
    for i in range(4, 20):
        db.execute(f"INSERT INTO t VALUES ({i}, 1)")
        assert db.execute("SELECT c FROM good").fetchone() == (i,)
    rows = db.execute("SELECT * FROM cenote_catalog.views").fetchall()
    assert "result is too long" in str([r for r in rows if "bad" in r])
    assert "result is too long" not in str([r for r in rows if "good" in r])
    answer = server.get("/readyz")
    assert answer.status == 503 and "bad" in answer.text and "good" not in answer.text
    assert server.get("/healthz").status == 200
    assert server.get("/api/v1/queryable_state/bad/scan?limit=1").status >= 400


def test_state_of_a_failed_view_is_left_out_of_everything_and_refused_by_name(failing):
    server, db = failing
    assert db.execute("SELECT DISTINCT view FROM cenote_catalog.state").fetchall() == [("good",)]
    for view in ("bad", "on_bad"):
        with pytest.raises(psycopg.Error) as raised:
            db.execute("SELECT count(*) FROM cenote_catalog.state WHERE view = %s", (view,))
        assert raised.value.sqlstate == "55000" and "has failed" in str(raised.value)
        assert server.get(f"/api/v1/snapshot/digest?names={view}").status == 503
    names = [found["name"] for found in server.api("snapshot/digest")["digests"]]
    assert {"t", "good"} <= set(names) and not any("bad" in name for name in names)


def test_keys_that_were_found_are_refused_once_the_view_or_one_under_it_has_failed(fresh):
    server = fresh(workers=2)
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        db.execute(f"CREATE MATERIALIZED VIEW bad AS {BAD}")
        db.execute("CREATE MATERIALIZED VIEW on_bad AS SELECT id, count(*) AS c FROM bad GROUP BY id")
        db.execute("INSERT INTO t VALUES (1, 5), (2, 10)")
        assert db.execute("SELECT id, c FROM on_bad ORDER BY id").fetchall() == [(1, 1), (2, 1)]
        found = {"bad": {"id": 2, "q": 10}, "on_bad": {"id": 2, "c": 1}}
        for view, row in found.items():
            assert server.get(f"/api/v1/queryable_state/{view}?key=2").json()["value"] == row
        db.execute("INSERT INTO t VALUES (3, 100000000)")
        for view in found:
            with pytest.raises(psycopg.Error):
                db.execute(f"SELECT * FROM {view}")
            answer = server.get(f"/api/v1/queryable_state/{view}?key=2")
            assert answer.status == 503 and "has failed" in answer.text
        assert server.get("/api/v1/queryable_state/t?key=2").json()["value"] == {"id": 2, "n": 10}


def test_a_failed_view_is_dropped_and_made_again(failing):
    server, db = failing
    db.execute("DROP MATERIALIZED VIEW on_bad")
    db.execute("DROP MATERIALIZED VIEW bad")
    assert server.get("/readyz").status == 200
    db.execute("DELETE FROM t WHERE n > 1000")
    db.execute(f"CREATE MATERIALIZED VIEW bad AS {BAD}")
    assert sorted(db.execute("SELECT * FROM bad").fetchall()) == [(1, 5), (2, 10)]


def test_a_failed_view_is_still_told_after_a_restart(failing):
    server, _ = failing
    server.restart()
    with server.connect() as db:
        assert db.execute("SELECT c FROM good").fetchone() == (3,)
        with pytest.raises(psycopg.Error):
            db.execute("SELECT * FROM bad")
    assert server.get("/readyz").status == 503


def test_a_view_that_fails_on_what_is_there_already_does_not_hurt(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT, n INT)")
        db.execute("INSERT INTO t VALUES (1, 100000000)")
        try:
            db.execute(f"CREATE MATERIALIZED VIEW bad AS {BAD}")
            with pytest.raises(psycopg.Error):
                db.execute("SELECT * FROM bad")
        except psycopg.Error as error:
            assert "result is too long" in str(error)
        db.execute("INSERT INTO t VALUES (2, 1)")
        assert db.execute("SELECT count(*) FROM t").fetchone() == (2,)


def test_sigterm_ends_a_busy_server_with_0(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (n BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT n % 10 AS g, count(*) AS c FROM t GROUP BY n % 10")

    def write():
        with server.connect() as connection:
            done = 0
            try:
                while True:
                    connection.execute("INSERT INTO t SELECT x FROM generate_series(1, 1000) AS s(x)")
                    done += 1
            except psycopg.Error:
                return done

    with concurrent.futures.ThreadPoolExecutor() as pool:
        writing = [pool.submit(write) for _ in range(3)]
        try:
            server.wait_until("v", lambda c: c.execute("SELECT count(*) FROM t").fetchone()[0] >= 20_000)
            assert server.terminate() == 0
        finally:
            server.kill()
        acknowledged = sum(w.result() for w in writing)
    server.start()
    kept = server.sql("SELECT count(*) FROM t")[0][0]
    assert acknowledged * 1000 <= kept <= (acknowledged + 3) * 1000
    assert server.sql("SELECT sum(c)::bigint FROM v") == [(kept,)]


def test_a_second_server_on_the_same_data_is_refused(fresh):
    server = fresh()
    with pytest.raises(RuntimeError) as raised:
        fresh(data_dir=server.data, ready_timeout=15)
    assert str(server.data) in str(raised.value)
    assert server.get("/healthz").status == 200


def test_a_port_that_is_taken_is_told(fresh):
    server = fresh()
    taken = server.doors["http"][1]
    with pytest.raises(RuntimeError) as raised:
        fresh(http=f"127.0.0.1:{taken}", ready_timeout=15)
    assert str(taken) in str(raised.value).split("\n", 1)[1]
