"""What was acknowledged survives SIGKILL; damaged logs are refused by name or recovered exactly.

Several clients write and make objects while the server is killed at random moments. A model outside the server (a
dictionary per client) holds what was acknowledged. The one operation of each client that was under way is in doubt:
it may have happened whole, or not at all.
"""
import os
import random
import shutil
import threading
import time

import psycopg
import pytest
from harness import Server

CLIENTS = 4
# `make crash` takes more.
ROUNDS = int(os.environ.get("CRASH_ROUNDS", 50))


class Client(threading.Thread):
    """Writes to a table of its own until the server goes; remembers what was acknowledged."""

    def __init__(self, server, number, rng, acknowledged):
        super().__init__(daemon=True)
        self.server, self.rng, self.acknowledged = server, rng, acknowledged
        self.table = f"c{number}"
        # Views by name: what their sums are multiplied with.
        self.rows, self.views = {}, {}
        self.doubt = None
        self.error = None

    def run(self):
        try:
            with self.server.connect() as connection:
                while True:
                    self.doubt = self.plan()
                    self.perform(connection, self.doubt)
                    self.rows, self.views = self.doubt[1:]
                    self.doubt = None
                    self.acknowledged.release()
        except psycopg.OperationalError:
            pass
        except Exception as error:  # noqa: BLE001 - told by the main thread
            self.error = error

    def plan(self):
        """The next operation: `(statements, rows after, views after)`."""
        rows, views, statements = dict(self.rows), dict(self.views), []
        if self.rng.random() < 0.08:
            return self.plan_view(rows, views)
        for _ in range(self.rng.choice([1, 1, 1, 3])):
            key, value = self.rng.randrange(50), self.rng.randrange(10**6)
            if key not in rows:
                statements.append(f"INSERT INTO {self.table} VALUES ({key}, {value})")
                rows[key] = value
            elif self.rng.random() < 0.7:
                statements.append(f"UPDATE {self.table} SET v = {value} WHERE k = {key}")
                rows[key] = value
            else:
                statements.append(f"DELETE FROM {self.table} WHERE k = {key}")
                del rows[key]
        return statements, rows, views

    def plan_view(self, rows, views):
        name = f"{self.table}_v{self.rng.randrange(3)}"
        if name in views and self.rng.random() < 0.4:
            del views[name]
            return [f"DROP MATERIALIZED VIEW {name}"], rows, views
        times, replacing = self.rng.randrange(1, 9), "OR REPLACE " if name in views else ""
        views[name] = times
        query = f"SELECT n, s * {times} AS s, {times} AS times FROM (SELECT count(*) AS n, sum(v)::bigint AS s FROM {self.table}) AS o"
        return [f"CREATE {replacing}MATERIALIZED VIEW {name} AS {query}"], rows, views

    def perform(self, connection, operation):
        statements = operation[0]
        if len(statements) == 1:
            connection.execute(statements[0])
        else:
            with connection.transaction():
                for statement in statements:
                    connection.execute(statement)

    def judge(self, connection):
        """Compares what is there with the model and takes over whichever way the operation in doubt went."""
        assert self.error is None, self.error
        rows = dict(connection.execute(f"SELECT k, v FROM {self.table}").fetchall())
        names = [r[0] for r in connection.execute("SELECT name FROM cenote_catalog.views WHERE name LIKE %s", (f"{self.table}_v%",))]
        held = {name: connection.execute(f"SELECT n, s, times FROM {name}").fetchone() for name in names}
        views = {name: times for name, (_, _, times) in held.items()}
        allowed = [(self.rows, self.views)] + ([self.doubt[1:]] if self.doubt else [])
        assert (rows, views) in allowed, f"{self.table}: {self.difference(rows, views)}"
        for name, (n, s, times) in held.items():
            assert (n, s) == (len(rows), sum(rows.values()) * times if rows else None), name
        successor = Client(self.server, int(self.table[1:]), self.rng, self.acknowledged)
        successor.rows, successor.views = rows, views
        return successor

    def difference(self, rows, views):
        lost = {k: v for k, v in self.rows.items() if rows.get(k) != v}
        extra = {k: v for k, v in rows.items() if self.rows.get(k) != v}
        return f"acknowledged and lost {lost}, there and not acknowledged {extra}, views {views} for {self.views}, in doubt {self.doubt and self.doubt[0]}"


@pytest.mark.parametrize("seed, interval", [(1, "0s"), (2, "50ms"), (3, "50ms"), (4, "200ms")])
def test_acknowledged_writes_and_ddl_survive_sigkill(fresh, seed, interval):
    """Starts are from the log alone, and from checkpoints that are taken all the while, at changing numbers of workers."""
    server = fresh(workers=2, args=["--checkpoint-interval", interval])
    rng = random.Random(seed)
    ready = []
    acknowledged = threading.Semaphore(0)
    with server.connect() as db:
        for number in range(CLIENTS):
            db.execute(f"CREATE TABLE c{number} (k INT PRIMARY KEY, v BIGINT)")
    clients = [Client(server, n, random.Random(f"{seed} {n}"), acknowledged) for n in range(CLIENTS)]
    for _ in range(ROUNDS):
        for client in clients:
            client.start()
        for _ in range(rng.randint(5, 100)):
            assert acknowledged.acquire(timeout=30), f"the clients stand still: {[client.error or client.doubt for client in clients]}"
        server.kill()
        for client in clients:
            client.join()
        if rng.random() < 0.2:
            # Once more, while it comes up.
            server.kill_while_starting(rng.random() * 0.2)
        server.workers = rng.choice([1, 2, 2, 3])
        start = time.monotonic()
        server.start()
        ready.append(time.monotonic() - start)
        with server.connect() as db:
            clients = [client.judge(db) for client in clients]
    print(f"{ROUNDS} kills; from start to ready: {sorted(ready)[len(ready) // 2]:.3f} s, at most {max(ready):.3f} s")
    assert any(client.views for client in clients) and all(client.rows for client in clients), "the test wrote something"


def test_rows_appended_over_http_survive_sigkill(fresh):
    server = fresh()
    server.psql("CREATE TABLE t (id BIGINT PRIMARY KEY);")
    for i in range(5):
        body = "".join(f'{{"id":{i * 100 + j}}}\n' for j in range(100))
        assert server.post("/api/v1/tables/t/rows", body, headers={"Content-Type": "application/x-ndjson"}).status in (200, 201)
        server.restart()
        assert server.sql("SELECT count(*), max(id) FROM t") == [((i + 1) * 100, i * 100 + 99)]


def test_epochs_go_on_after_a_restart(fresh):
    server = fresh()
    server.psql("CREATE TABLE t (n INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2);")
    before = server.sql("SELECT cenote_epoch()")[0][0]
    server.restart()
    assert server.sql("SELECT cenote_epoch()")[0][0] >= before
    server.psql("INSERT INTO t VALUES (3);")
    assert server.sql("SELECT cenote_epoch()")[0][0] > before


def test_digests_are_the_same_after_a_restart_and_at_another_worker_count(fresh):
    server = fresh(workers=1)
    server.psql("""CREATE TABLE t (id INT PRIMARY KEY, g INT, x DOUBLE PRECISION);
        CREATE MATERIALIZED VIEW v AS SELECT g, sum(x) AS s, avg(x) AS a, min(x) AS lo, count(*) AS n FROM t GROUP BY g;
        CREATE MATERIALIZED VIEW j AS SELECT a.id, b.s FROM t a LEFT JOIN v b ON a.g = b.g;
        INSERT INTO t SELECT i, i % 7, i / 10.0 FROM generate_series(1, 1000) AS s(i); DELETE FROM t WHERE id % 3 = 0; UPDATE t SET g = 1 WHERE id % 5 = 0;""")

    before = server.digests()
    assert len(before) >= 5
    for workers in (1, 4, 2):
        server.workers = workers
        server.restart()
        assert server.digests() == before, f"{workers} workers"


# ---- damage ---------------------------------------------------------------------------------------------------

COMMITS = 60


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """A data folder whose table `t` got the rows 1 to 60, one commit each, and was then killed."""
    server = Server()
    with server.connect() as db:
        db.execute("CREATE TABLE t (n INT PRIMARY KEY, w TEXT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c, sum(n)::bigint AS s FROM t")
        for n in range(1, COMMITS + 1):
            db.execute(f"INSERT INTO t VALUES ({n}, repeat('w{n} ', 20))")
    server.kill()
    kept = tmp_path_factory.mktemp("logged") / "data"
    shutil.copytree(server.data, kept)
    server.close()
    return kept


def log_files(folder):
    """The log's segments, newest last."""
    found = sorted(folder.rglob("*.wal"))
    assert found, f"no log in {folder}"
    return found


def recovered(folder, tmp_path):
    """Starts a server on a copy that may be damaged: the rows that are there, or the text of its refusal."""
    try:
        server = Server(data_dir=folder, ready_timeout=20)
    except RuntimeError as error:
        return None, str(error)
    try:
        rows = [r[0] for r in server.sql("SELECT n FROM t ORDER BY n")]
        assert server.sql("SELECT c, s FROM v") == [(len(rows), sum(rows) if rows else None)]
        server.psql("INSERT INTO t VALUES (1000, 'new');")
        return rows, ""
    except psycopg.errors.UndefinedTable:
        return [], ""
    finally:
        server.close()


def damaged(logged, tmp_path, harm):
    """A copy of the data folder with its newest log file harmed: `(folder, file name)`."""
    folder = tmp_path / "data"
    shutil.copytree(logged, folder)
    target = log_files(folder)[-1]
    data = bytearray(target.read_bytes())
    target.write_bytes(bytes(harm(data)))
    return folder, target.name


def test_an_undamaged_log_gives_everything(logged, tmp_path):
    folder, _ = damaged(logged, tmp_path, lambda data: data)
    assert recovered(folder, tmp_path)[0] == list(range(1, COMMITS + 1))


@pytest.mark.parametrize("cut", [1, 3, 8, 17, 64, 200, 1000, 5000])
def test_a_torn_tail_gives_a_whole_prefix(logged, tmp_path, cut):
    folder, _ = damaged(logged, tmp_path, lambda data: data[:-cut] if cut < len(data) else data[:1])
    rows, refusal = recovered(folder, tmp_path)
    assert rows is not None, refusal
    assert rows == list(range(1, len(rows) + 1))
    if cut <= 8:
        assert len(rows) >= COMMITS - 1


@pytest.mark.parametrize("junk", [b"\x00" * 4096, b"\xff" * 100, os.urandom(777)])
def test_junk_behind_the_log_is_cut_or_refused(logged, tmp_path, junk):
    folder, name = damaged(logged, tmp_path, lambda data: data + junk)
    rows, refusal = recovered(folder, tmp_path)
    assert rows == list(range(1, COMMITS + 1)) or (rows is None and name in refusal)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
def test_a_flipped_byte_in_the_middle_is_named_or_does_not_matter(logged, tmp_path, share):
    def flip(data):
        data[int(len(data.rstrip(b"\x00")) * share)] ^= 0x55
        return data

    folder, name = damaged(logged, tmp_path, flip)
    rows, refusal = recovered(folder, tmp_path)
    if rows is None:
        assert name in refusal and "at byte" in refusal
        assert "panicked" not in refusal
    else:
        assert rows == list(range(1, COMMITS + 1)), "never a silent loss in the middle"


@pytest.mark.parametrize("back", [9, 60, 130])
def test_damage_at_the_end_of_a_log_that_was_closed_is_no_torn_tail(tmp_path, back):
    """The last record was acknowledged, and the server stopped as told."""
    server = Server(data_dir=tmp_path / "data")
    try:
        server.sql("CREATE TABLE t (n INT PRIMARY KEY, w TEXT)")
        server.sql("INSERT INTO t VALUES (1, 'the only row, whose text makes the record long enough to be hit: ' || repeat('x', 200))")
        assert server.terminate() == 0
    finally:
        server.close()
    target = log_files(tmp_path / "data")[-1]
    data = bytearray(target.read_bytes())
    data[len(data.rstrip(b"\x00")) - back] ^= 0x01
    target.write_bytes(bytes(data))
    if back < 20:  # the mark itself, behind which nothing is missing
        whole = Server(data_dir=tmp_path / "data", ready_timeout=20)
        try:
            assert whole.sql("SELECT n FROM t") == [(1,)]
        finally:
            whole.close()
        return
    with pytest.raises(RuntimeError) as raised:
        Server(data_dir=tmp_path / "data", ready_timeout=20).close()
    assert target.name in str(raised.value) and "at byte" in str(raised.value)


def test_a_log_file_that_is_gone_is_never_an_empty_database(logged, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(logged, folder)
    files = log_files(folder)
    files[0].unlink()
    rows, refusal = recovered(folder, tmp_path)
    assert rows is None and files[0].name in refusal
