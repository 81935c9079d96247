"""Many views, many clients, no idle cost."""
import threading

VIEWS = 1000
IDLE_SECONDS = 3


def idle_cpu(server):
    """CPU seconds used while nothing happens, over a measured window."""
    before = server.cpu_seconds()
    threading.Event().wait(IDLE_SECONDS)
    return server.cpu_seconds() - before


def test_an_idle_server_uses_no_cpu(fresh):
    server = fresh(workers=4)
    with server.connect() as db:
        db.execute("CREATE TABLE t (n INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c FROM t")
        db.execute("INSERT INTO t VALUES (1)")
        assert idle_cpu(server) <= 0.03 * IDLE_SECONDS


def test_a_thousand_small_views_cost_no_threads_and_no_idle_cpu(fresh):
    server = fresh(workers=2)
    with server.connect() as db:
        db.execute("CREATE TABLE base (id INT PRIMARY KEY, g INT, n BIGINT)")
        db.execute("INSERT INTO base SELECT x, x % 1000, x FROM generate_series(1, 5000) AS s(x)")
        db.execute("CREATE MATERIALIZED VIEW v0 AS SELECT count(*) AS c, sum(n)::bigint AS s FROM base WHERE g = 0")
        threads = server.threads()
        memory = server.resident_bytes()
        for i in range(1, VIEWS):
            db.execute(f"CREATE MATERIALIZED VIEW v{i} AS SELECT count(*) AS c, sum(n)::bigint AS s FROM base WHERE g = {i}")
        assert server.threads() <= threads + 4
        assert server.resident_bytes() - memory < 500 * 2**20
        assert idle_cpu(server) <= 0.05 * IDLE_SECONDS
        db.execute("UPDATE base SET n = n + 1")
        for i in (0, 1, 500, 999):
            want = db.execute(f"SELECT count(*), sum(n)::bigint FROM base WHERE g = {i}").fetchone()
            assert db.execute(f"SELECT c, s FROM v{i}").fetchone() == want
        for i in range(20):
            db.execute(f"INSERT INTO base VALUES ({10_000 + i}, {i}, 1)")
        assert db.execute("SELECT c FROM v19").fetchone() == (6,)
        for i in range(0, VIEWS, 100):
            db.execute(f"DROP MATERIALIZED VIEW v{i}")
        assert db.execute("SELECT c FROM v19").fetchone() == (6,)


def test_a_chain_of_views_on_views_is_current(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (n BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW c0 AS SELECT n FROM t")
        for i in range(1, 50):
            db.execute(f"CREATE MATERIALIZED VIEW c{i} AS SELECT n + 1 AS n FROM c{i - 1}")
        for i in range(10):
            db.execute(f"INSERT INTO t VALUES ({i})")
            assert db.execute("SELECT max(n) FROM c49").fetchone() == (i + 49,)


def test_many_writers_group_their_commits(fresh):
    server = fresh(workers=2)
    with server.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c FROM t")

    def write(client):
        with server.connect() as connection:
            for i in range(100):
                connection.execute(f"INSERT INTO t VALUES ({client * 1000 + i})")

    clients = [threading.Thread(target=write, args=(c,)) for c in range(16)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert server.sql("SELECT c FROM v") == [(1600,)]
