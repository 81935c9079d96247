"""CREATE OR REPLACE MATERIALIZED VIEW: in one epoch the view is what its new query says, and state that did not change is kept.

The judges: DuckDB over the tables; a server that was told the new query from the start, whose state must have the same digests; what
was readable before."""
import random
import threading

import duckdb
import psycopg
import pytest
from harness import cenote

TABLES = {
    "orders": "id BIGINT PRIMARY KEY, who TEXT, item TEXT, amount BIGINT",
    "people": "who TEXT PRIMARY KEY, city TEXT",
}
BY_WHO = "SELECT who, sum(amount) AS total, count(*) AS n FROM orders GROUP BY who"
# The old query, the new one, and whether state of the old one is kept.
PAIRS = {
    "filter above": (BY_WHO, f"SELECT * FROM ({BY_WHO}) AS o WHERE n > 3", True),
    "filter above goes": (f"SELECT * FROM ({BY_WHO}) AS o WHERE n > 3", BY_WHO, True),
    "filter below": (BY_WHO, BY_WHO.replace(" GROUP", " WHERE amount > 20 GROUP"), False),
    "computed": (BY_WHO, f"SELECT who, total * 2 AS total, n FROM ({BY_WHO}) AS o", True),
    "top of groups": ("SELECT who, n FROM (SELECT who, count(*) AS n FROM orders GROUP BY who) AS o ORDER BY n DESC, who LIMIT 5",
                      "SELECT who, n FROM (SELECT who, count(*) AS n FROM orders GROUP BY who) AS o ORDER BY n, who LIMIT 3", True),
    "join above": ("SELECT o.who, o.n, 'none' AS city FROM (SELECT who, count(*) AS n FROM orders GROUP BY who) AS o",
                   "SELECT o.who, o.n, p.city FROM (SELECT who, count(*) AS n FROM orders GROUP BY who) AS o LEFT JOIN people p ON p.who = o.who", True),
    "filter of a join": ("SELECT o.id, o.who, p.city FROM orders o JOIN people p ON p.who = o.who",
                         "SELECT o.id, o.who, p.city FROM orders o JOIN people p ON p.who = o.who ORDER BY o.id LIMIT 7", True),
    "above an outer join": ("SELECT o.id, p.city FROM orders o LEFT JOIN people p ON p.who = o.who",
                            "SELECT o.id, p.city FROM orders o LEFT JOIN people p ON p.who = o.who ORDER BY id DESC LIMIT 9", False),
    "distinct": ("SELECT DISTINCT who, item FROM orders", "SELECT DISTINCT who, item FROM orders WHERE item > 'j'", False),
    "values": ("SELECT who, min(amount) AS least, max(amount) AS most, count(DISTINCT item) AS items FROM orders GROUP BY who",
               "SELECT who, least - 1 AS least, most, items FROM (SELECT who, min(amount) AS least, max(amount) AS most, count(DISTINCT item) AS items"
               " FROM orders GROUP BY who) AS o", True),
    "global": ("SELECT count(*) AS n, max(amount) AS most FROM orders", "SELECT n + 1 AS n, most FROM (SELECT count(*) AS n, max(amount) AS most FROM orders) AS o", True),
    "both ends of an input": ("SELECT who, count(*) AS n FROM orders GROUP BY who",
                              "SELECT a.who, a.n + b.n AS n FROM (SELECT who, count(*) AS n FROM orders GROUP BY who) AS a"
                              " JOIN (SELECT who, count(*) AS n FROM orders WHERE amount > 10 GROUP BY who) AS b ON a.who = b.who", True),
    "union": (BY_WHO, f"{BY_WHO} UNION ALL SELECT who, 0, 0 FROM people", True),
}


def create(db):
    for table, columns in TABLES.items():
        db.execute(f"CREATE TABLE {table} ({columns})")


def churn(db, rng, commits):
    for _ in range(commits):
        key, who = rng.randrange(80), rng.choice(["'a'", "'b'", "'c'", "'d'", "'e'", "NULL"])
        kind = rng.random()
        if kind < 0.6:
            db.execute(f"""INSERT INTO orders VALUES ({key}, {who}, '{rng.choice(["pen", "ink", "nib"])}', {rng.choice(["NULL", rng.randrange(-50, 99)])})
                           ON CONFLICT (id) DO UPDATE SET amount = EXCLUDED.amount, who = EXCLUDED.who""")
        elif kind < 0.75:
            db.execute(f"DELETE FROM orders WHERE id = {key}")
        elif kind < 0.9 and who != "NULL":
            db.execute(f"INSERT INTO people VALUES ({who}, 'city {key}') ON CONFLICT (who) DO UPDATE SET city = EXCLUDED.city")
        else:
            db.execute(f"DELETE FROM people WHERE who = {who}")


def copied(db, duck):
    for table, columns in TABLES.items():
        duck.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")
        if rows := db.execute(f"SELECT * FROM {table}").fetchall():
            duck.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def bag(rows):
    return sorted(map(repr, ([str(value) if value is not None else None for value in row] for row in rows)))


def judge(server, views):
    with server.connect() as db, duckdb.connect() as duck:
        with db.transaction():
            copied(db, duck)
            held = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in views}
    # DuckDB sums BIGINT to HUGEINT: the texts agree.
        for name, query in views.items():
            assert bag(held[name]) == bag(duck.execute(query).fetchall()), name


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("pair", PAIRS)
def test_a_replaced_view_is_as_if_it_had_always_been_so(fresh, pair, workers):
    old, new, keeps = PAIRS[pair]
    server, rng = fresh(workers=workers), random.Random(pair)
    with server.connect() as db:
        create(db)
        churn(db, rng, 80)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {old}")
        churn(db, rng, 40)
        told = [line for line, in db.execute(f"EXPLAIN (CHANGES) CREATE OR REPLACE MATERIALIZED VIEW v AS {new}").fetchall()]
        assert any(line.startswith("keep cenote_state.") for line in told) == keeps, told
        judge(server, {"v": old})
        db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {new}")
        judge(server, {"v": new})
        for _ in range(2):
            churn(db, rng, 40)
            judge(server, {"v": new})
        other = fresh(workers=1)
        with other.connect() as fresh_db:
            create(fresh_db)
            for table in TABLES:
                for row in db.execute(f"SELECT * FROM {table}").fetchall():
                    fresh_db.execute(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(row))})", row)
            fresh_db.execute(f"CREATE MATERIALIZED VIEW v AS {new}")
        assert server.digests() == other.digests()
        db.execute("CHECKPOINT")
        churn(db, rng, 20)
    before = server.digests()
    server.kill()
    server.start()
    assert server.digests() == before
    judge(server, {"v": new})


def test_readers_see_the_difference_as_one_epoch(fresh):
    server, rng = fresh(workers=2), random.Random(7)
    with server.connect() as db:
        create(db)
        churn(db, rng, 100)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {BY_WHO}")
        db.execute("CREATE MATERIALIZED VIEW over AS SELECT n, count(*) AS people FROM v GROUP BY n")
        db.execute("CREATE INDEX by_n ON v (n)")
        old = db.execute("SELECT * FROM v").fetchall()
        before = db.execute("SELECT cenote_epoch()").fetchone()[0]
        new = f"SELECT who, total + 1 AS total, n FROM ({BY_WHO}) AS o WHERE n > 2"
        db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {new}")
        assert bag(db.execute(f"SELECT * FROM v AS OF EPOCH {before}").fetchall()) == bag(old)
        views = {"v": new, "over": f"SELECT n, count(*) AS people FROM ({new}) AS v GROUP BY n"}
        judge(server, views)
        with server.connect() as reader:
            changes = []
            with reader.cursor() as cursor:
                for row in cursor.stream(f"SUBSCRIBE TO v AS OF EPOCH {before}"):
                    changes.append(row)
                    if sum(1 for change in changes if change[1] < 0) == len(old):
                        break
        assert len({epoch for epoch, *_ in changes}) == 1, "one difference"
        churn(db, rng, 50)
        judge(server, views)
        n = db.execute("SELECT n FROM v LIMIT 1").fetchone()
        if n:
            assert db.execute("SELECT count(*) FROM v WHERE n = %s", n).fetchone()[0] > 0
    server.kill()
    server.start()
    judge(server, views)


def test_a_source_that_is_gone_is_not_needed_for_what_is_kept(fresh, tmp_path):
    path = tmp_path / "rows.ndjson"
    path.write_text("".join(f'{{"k": {n % 7}, "n": {n}}}\n' for n in range(1000)))
    server = fresh(args=("--allow-path", str(tmp_path)))
    with server.connect() as db:
        db.execute(f"CREATE SOURCE s (k BIGINT, n BIGINT) WITH (connector = 'file', path = '{path}', format = 'json')")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, sum(n) AS total FROM s GROUP BY k")
        server.wait_until("v", lambda db: db.execute("SELECT sum(total) FROM v").fetchone()[0] == 499500)
        path.unlink()
        new = "SELECT k, total FROM (SELECT k, sum(n) AS total FROM s GROUP BY k) AS o WHERE total > 71000"
        told = [line for line, in db.execute(f"EXPLAIN (CHANGES) CREATE OR REPLACE MATERIALIZED VIEW v AS {new}").fetchall()]
        assert "rebuild v from cenote_state." in told[-1], told
        db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {new}")
        wanted = [(k, sum(range(k, 1000, 7))) for k in range(7) if sum(range(k, 1000, 7)) > 71000]
        assert sorted(db.execute("SELECT k, total FROM v").fetchall()) == wanted
        told = "\n".join(line for line, in db.execute(
            "EXPLAIN (CHANGES) CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT k, count(*) AS total FROM s GROUP BY k").fetchall())
        assert "source s, read again" in told and "drop cenote_state." in told, told


def test_errors_of_rows_that_are_not_seen_again_are_kept(fresh):
    server = fresh(workers=2)
    with server.connect() as db:
        db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, n BIGINT)")
        db.execute("INSERT INTO t SELECT x, x % 4 FROM generate_series(1, 40) AS s(x)")
        inner = "SELECT k % 3 AS g, sum(100 / n) AS total FROM t GROUP BY k % 3"
        db.execute(f"CREATE MATERIALIZED VIEW v AS {inner}")
        errors = "SELECT count(*) FROM cenote_state.v_errors"
        assert db.execute(errors).fetchone() == (10,)
        for new in (f"SELECT * FROM ({inner}) AS o WHERE total > -1", inner, f"SELECT g, total / g AS total FROM ({inner}) AS o"):
            db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {new}")
            own = 1 if "total / g" in new else 0
            assert db.execute(errors).fetchone() == (10 + own,), new
        db.execute("UPDATE t SET n = 1 WHERE n = 0")
        assert db.execute(errors).fetchone() == (1,)
        db.execute("DELETE FROM t")
        assert db.execute(errors).fetchone() == (0,)


def test_other_columns_are_another_table(fresh):
    server = fresh()
    with server.connect() as db:
        create(db)
        churn(db, random.Random(3), 60)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {BY_WHO}")
        db.execute("CREATE MATERIALIZED VIEW over AS SELECT count(*) AS n FROM v")
        wider = "SELECT who, sum(amount) AS total, count(*) AS n, max(amount) AS most FROM orders GROUP BY who"
        with pytest.raises(psycopg.Error, match='other objects depend on it, and column "most" is new') as refused:
            db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {wider}")
        assert refused.value.sqlstate == "2BP01"
        with pytest.raises(psycopg.Error, match='reads materialized view "over", which was made after it'):
            db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT who, sum(amount) AS total, count(*) AS n FROM orders, over GROUP BY who")
        with pytest.raises(psycopg.Error, match="reads the view itself"):
            db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT * FROM v")
        with pytest.raises(psycopg.Error) as refused:
            db.execute("CREATE OR REPLACE MATERIALIZED VIEW orders AS SELECT 1 AS a")
        assert refused.value.sqlstate == "42P07"
        judge(server, {"v": BY_WHO, "over": f"SELECT count(*) AS n FROM ({BY_WHO}) AS v"})
        db.execute("DROP MATERIALIZED VIEW over")
        db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {wider}")
        judge(server, {"v": wider})
        churn(db, random.Random(4), 40)
        db.execute("CREATE OR REPLACE MATERIALIZED VIEW made_now AS SELECT who FROM people")
    server.kill()
    server.start()
    judge(server, {"v": wider, "made_now": "SELECT who FROM people"})


def test_a_view_that_cannot_be_made_leaves_the_old_one(fresh):
    server = fresh()
    with server.connect() as db:
        create(db)
        churn(db, random.Random(5), 40)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {BY_WHO}")
        with pytest.raises(psycopg.Error):
            db.execute("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT nothing FROM orders")
        churn(db, random.Random(6), 40)
    judge(server, {"v": BY_WHO})


@pytest.mark.parametrize("workers", [1, 2])
def test_replacements_while_rows_come_in(fresh, workers):
    """Whoever reads finds one query's answer or the other's, of one epoch; the view over it agrees."""
    server = fresh(workers=workers, args=("--checkpoint-interval", "50ms"))
    plain, doubled = "SELECT g, sum(n) AS s FROM t GROUP BY g", "SELECT g, s * 2 AS s FROM (SELECT g, sum(n) AS s FROM t GROUP BY g) AS o"
    narrow = "SELECT g, sum(n) AS s FROM t WHERE n >= 0 GROUP BY g"
    with server.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT, n BIGINT)")
        db.execute("INSERT INTO t SELECT x, x % 50, x FROM generate_series(1, 5000) AS s(x)")
        db.execute(f"CREATE MATERIALIZED VIEW v AS {plain}")
        db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(s) AS s FROM v")
    stop, failures, reads = threading.Event(), [], [0]

    def write():
        with server.connect() as db:
            rng = random.Random(1)
            while not stop.is_set():
                db.execute("UPDATE t SET n = n + %s WHERE id = %s", (rng.randrange(9), rng.randrange(1, 5000)))

    def read():
        with server.connect() as db:
            while not stop.is_set():
                rows = db.execute("SELECT (SELECT sum(n) FROM t), (SELECT sum(s) FROM v), (SELECT s FROM total)").fetchone()
                reads[0] += 1
                if rows[1] not in (rows[0], 2 * rows[0]) or rows[2] != rows[1]:
                    failures.append(rows)

    def guarded(work):
        try:
            work()
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (write, read)]
    [thread.start() for thread in threads]
    with server.connect() as db:
        for turn in range(12):
            db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {[doubled, narrow, plain][turn % 3]}")
    stop.set()
    [thread.join() for thread in threads]
    assert not failures and reads[0] > 5, (failures[:3], reads)
    before = server.digests()
    server.kill()
    server.start()
    assert server.digests() == before


def test_the_log_makes_replacements_again_as_they_were(fresh):
    """A checkpoint from before them, then the log: every epoch holds what it held."""
    server, rng = fresh(workers=2, args=("--checkpoint-interval", "0s")), random.Random(9)
    with server.connect() as db:
        create(db)
        churn(db, rng, 60)
        db.execute(f"CREATE MATERIALIZED VIEW v AS {BY_WHO}")
        db.execute("CREATE MATERIALIZED VIEW over AS SELECT n, count(*) AS people FROM v GROUP BY n")
        db.execute("CHECKPOINT")
        held = {}
        for query in (f"SELECT * FROM ({BY_WHO}) AS o WHERE n > 1", BY_WHO.replace("sum(amount)", "sum(amount + 1)"), BY_WHO):
            churn(db, rng, 15)
            db.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {query}")
            churn(db, rng, 15)
            epoch = db.execute("SELECT cenote_epoch()").fetchone()[0]
            held[epoch] = [bag(db.execute(f"SELECT * FROM {name} AS OF EPOCH {epoch}").fetchall()) for name in ("v", "over")]
    before = server.digests()
    server.kill()
    server.start()
    assert server.digests() == before
    with server.connect() as db:
        for epoch, contents in held.items():
            assert [bag(db.execute(f"SELECT * FROM {name} AS OF EPOCH {epoch}").fetchall()) for name in ("v", "over")] == contents
        churn(db, rng, 30)
    judge(server, {"v": BY_WHO, "over": f"SELECT n, count(*) AS people FROM ({BY_WHO}) AS v GROUP BY n"})


def test_run_replaces_views_too():
    script = """CREATE TABLE t (k BIGINT PRIMARY KEY, n BIGINT); INSERT INTO t VALUES (1, 2), (2, 3);
                CREATE MATERIALIZED VIEW v AS SELECT sum(n) AS s FROM t; CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT sum(n) + 1 AS s FROM t;
                SELECT s FROM v;"""
    assert cenote("run", "-e", script).stdout.strip() == '{"s":6}'
