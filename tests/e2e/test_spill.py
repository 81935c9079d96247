"""State beyond memory: tables, views and operators whose rows leave it give and hold what those in memory do, on each backend."""
import itertools
import random
import subprocess
from decimal import Decimal

import duckdb
import pytest
from harness import backends, binary

# Memory for nothing: everything leaves at the end of every epoch. And for some of it.
NOTHING, LITTLE = "0", "200KB"


@pytest.fixture(params=["rocksdb", "object"])
def spilling(request, fresh, tmp_path):
    """Makes servers with a backend and so much memory for state: `spilling(NOTHING, workers=2)`."""
    if request.param not in backends():
        pytest.skip(f"the binary was built without the backend {request.param}")
    numbers = itertools.count(1)

    def make(memory, **options):
        place = ["--checkpoint-url", (tmp_path / f"objects{next(numbers)}").as_uri()] if request.param == "object" else []
        return fresh(args=["--state-backend", request.param, "--state-memory", memory, *place], **options)
    return make

TABLES = [
    "CREATE TABLE o (id BIGINT PRIMARY KEY, owner TEXT, cents BIGINT, rate DOUBLE PRECISION, note TEXT)",
    "CREATE TABLE p (owner TEXT, city TEXT)",
]
VIEWS = {
    "by_owner": "SELECT owner, count(*) n, sum(cents) cents FROM o GROUP BY owner",
    "by_rate": "SELECT rate, count(*) n FROM o GROUP BY rate",
    "extremes": "SELECT owner, min(cents) low, max(note) high, count(DISTINCT cents) kinds FROM o GROUP BY owner",
    "cities": "SELECT o.id, o.owner, p.city FROM o JOIN p ON o.owner = p.owner",
    "homeless": "SELECT o.id, p.city FROM o LEFT JOIN p ON o.owner = p.owner",
    "dearest": "SELECT owner, id, cents FROM (SELECT owner, id, cents, row_number() OVER "
               "(PARTITION BY owner ORDER BY cents DESC, id) k FROM o) WHERE k <= 2",
    "total": "SELECT count(*) n, sum(cents) cents, min(note) first FROM o",
    "kinds": "SELECT DISTINCT owner, cents % 3 third FROM o",
    "over": "SELECT city, sum(cents) cents FROM (SELECT p.city, o.cents FROM o JOIN p ON o.owner = p.owner) GROUP BY city",
}


class Load:
    """Random changes, given alike to servers and to DuckDB."""

    def __init__(self, seed):
        self.random, self.ids, self.next = random.Random(seed), [], 0

    def statement(self):
        kind = self.random.random()
        if kind < 0.45 or not self.ids:
            rows = []
            for _ in range(self.random.randint(1, 60)):
                self.next += 1
                self.ids.append(self.next)
                rate = self.random.choice(["0.0", "-0.0", "1.5", "NULL", "'NaN'::DOUBLE PRECISION"])
                owner = self.random.choice(["NULL", *(f"'owner {n}'" for n in range(25))])
                rows.append(f"({self.next}, {owner}, {self.random.randint(0, 40)}, {rate}, '{'x' * self.random.randint(0, 30)}')")
            return "INSERT INTO o VALUES " + ", ".join(rows)
        if kind < 0.55:
            rows = ", ".join(f"('owner {self.random.randint(0, 30)}', 'city {self.random.randint(0, 5)}')" for _ in range(5))
            return f"INSERT INTO p VALUES {rows}"
        if kind < 0.6:
            return f"DELETE FROM p WHERE owner = 'owner {self.random.randint(0, 30)}'"
        some = ", ".join(str(n) for n in self.random.sample(self.ids, min(len(self.ids), 15)))
        if kind < 0.8:
            return f"UPDATE o SET cents = cents + {self.random.randint(-9, 9)}, owner = 'owner {self.random.randint(0, 25)}' WHERE id IN ({some})"
        self.ids = [n for n in self.ids if str(n) not in some.split(", ")]
        return f"DELETE FROM o WHERE id IN ({some})"


def digests(server):
    done = subprocess.run([binary(), "state", "digest", "--url", server.url], capture_output=True, text=True, check=True)
    told = [line.split("  ") for line in done.stdout.splitlines()]
    return {name: (rows, digest) for digest, rows, name in told}


def rows_of(connection, query):
    plain = lambda value: int(value) if isinstance(value, Decimal) else value
    return sorted(repr([plain(value) for value in row]) for row in connection.execute(query).fetchall())


def make(server):
    with server.connect() as db:
        for statement in TABLES:
            db.execute(statement)
        for view, query in VIEWS.items():
            db.execute(f"CREATE MATERIALIZED VIEW {view} AS {query}")


def agree(memory, others, duck):
    """Contents as DuckDB has them, and all state as the server has that keeps it in memory."""
    wanted = digests(memory)
    for server in others:
        found = digests(server)
        assert found == wanted, {name: (found.get(name), wanted.get(name)) for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name)}
    with others[0].connect() as db:
        for view, query in VIEWS.items():
            assert rows_of(db, f"SELECT * FROM {view}") == rows_of(duck, query.replace("::DOUBLE PRECISION", "::DOUBLE")), view


@pytest.mark.parametrize("seed", [1, 2])
def test_what_leaves_memory_is_what_stays_there(fresh, spilling, seed):
    memory = fresh(workers=1)
    others = [spilling(NOTHING, workers=1), spilling(LITTLE, workers=3)]
    servers, load, duck = [memory, *others], Load(seed), duckdb.connect()
    for server in servers:
        make(server)
    for statement in TABLES:
        duck.execute(statement)
    for round in range(6):
        for _ in range(25):
            statement = load.statement()
            for server in servers:
                with server.connect() as db:
                    db.execute(statement)
            duck.execute(statement)
        agree(memory, others, duck)
        for server in servers:
            with server.connect() as db:
                db.execute("CHECKPOINT")
        if round % 2:
            for server in others:
                server.kill()
                server.start()
            agree(memory, others, duck)


def test_points_in_time_indexes_and_lookups(spilling):
    server = spilling(NOTHING, workers=2)
    with server.connect() as db:
        db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)")
        db.execute("CREATE MATERIALIZED VIEW w AS SELECT v, count(*) n FROM t GROUP BY v")
        db.execute("INSERT INTO t SELECT k, 'v' || k % 7 FROM generate_series(1, 5000) AS g(k)")
        before = db.execute("SELECT cenote_epoch()").fetchone()[0]
        db.execute("UPDATE t SET v = 'new' WHERE k % 10 = 0")
        db.execute("DELETE FROM t WHERE k % 10 = 1")
        assert db.execute("SELECT count(*), count(DISTINCT v) FROM t").fetchone() == (4500, 8)
        assert db.execute(f"SELECT count(*) FROM t AS OF EPOCH {before}").fetchone() == (5000,)
        assert db.execute(f"SELECT sum(n) FROM w AS OF EPOCH {before} WHERE v <> 'new'").fetchone() == (5000,)
        assert db.execute("SELECT v FROM t WHERE k = 20").fetchone() == ("new",)
        assert db.execute("SELECT v FROM t WHERE k = 21").fetchone() is None
        assert db.execute("SELECT n FROM w WHERE v = 'new'").fetchone() == (500,)
        with pytest.raises(Exception, match="duplicate key"):
            db.execute("INSERT INTO t VALUES (20, 'again')")
        db.execute("INSERT INTO t VALUES (20, 'again') ON CONFLICT DO NOTHING")
        db.execute("CREATE INDEX by_v ON t (v)")
        assert db.execute("SELECT count(*) FROM t WHERE v = 'new'").fetchone() == (500,)
        db.execute("INSERT INTO t VALUES (21, 'new')")
        assert db.execute("SELECT count(*) FROM t WHERE v = 'new'").fetchone() == (501,)
        with db.transaction():
            cursor = db.cursor("pages")
            cursor.itersize = 100
            cursor.execute("SELECT k FROM t ORDER BY k")
            assert len(cursor.fetchall()) == 4501


def test_the_backend_of_one_view_or_table(fresh, tmp_path):
    if len(backends()) < 3:
        pytest.skip("the binary was built without a backend")
    server = fresh(workers=2, args=["--state-memory", "0", "--checkpoint-url", tmp_path / "objects"])
    with server.connect() as db:
        db.execute("CREATE TABLE here (k BIGINT PRIMARY KEY, v BIGINT)")
        db.execute("CREATE TABLE there (k BIGINT PRIMARY KEY, v BIGINT) WITH (state_backend = 'rocksdb')")
        db.execute("CREATE MATERIALIZED VIEW sums WITH (state_backend = object) AS SELECT v % 10 d, sum(v) s FROM there GROUP BY 1")
        for table in ["here", "there"]:
            db.execute(f"INSERT INTO {table} SELECT k, k FROM generate_series(1, 20000) AS g(k)")
        assert {path.name for path in (server.data / "spill").iterdir()} == {"rocksdb", "cache"}
        assert db.execute("SELECT sum(s) FROM sums").fetchone() == (200010000,)
        with pytest.raises(Exception, match='there is no state backend "redis"'):
            db.execute("CREATE TABLE other (k BIGINT) WITH (state_backend = 'redis')")
        with pytest.raises(Exception, match="takes no option"):
            db.execute("CREATE MATERIALIZED VIEW other WITH (state_backends = 'memory') AS SELECT 1 a")
    server.kill()
    server.start()
    with server.connect() as db:
        assert db.execute("SELECT count(*), sum(v) FROM there").fetchone() == (20000, 200010000)
        db.execute("UPDATE there SET v = v + 1 WHERE k <= 10")
        assert db.execute("SELECT sum(s) FROM sums").fetchone() == (200010010,)
    assert list((tmp_path / "objects" / "spill").iterdir())
    assert server.terminate() == 0
    assert not (tmp_path / "objects" / "spill").exists(), "it outlives no process"


def test_rows_are_refused_beyond_the_limit_and_deletions_are_not(fresh):
    server = fresh(workers=1, args=["--memory-limit", "150MiB"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT)")
        with pytest.raises(Exception, match="over its memory limit") as refused:
            for start in range(0, 10_000_000, 20_000):
                db.execute(f"INSERT INTO t SELECT k, repeat('x', 200) || k FROM generate_series({start}, {start + 19_999}) AS s(k)")
        assert refused.value.sqlstate == "53200"
        held = db.execute("SELECT count(*) FROM t").fetchone()[0]
        db.execute("DELETE FROM t WHERE k < 1000")
        assert db.execute("SELECT count(*) FROM t").fetchone() == (held - 1000,)
