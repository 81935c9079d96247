"""A restart goes on from the newest checkpoint: state from it, later commits from the log, sources from their offsets.

The judges: DuckDB over the tables as they are, the digests of everything before the kill, and what was readable at each epoch."""
import json
import random
import re
import shutil
import threading
from datetime import datetime, timezone
from pathlib import Path

import duckdb
import pytest
from harness import Server, cenote

TABLES = {
    "orders": "id BIGINT, who TEXT, item TEXT, amount NUMERIC(38,2), price DOUBLE PRECISION, made TIMESTAMP",
    "people": "who TEXT, city TEXT",
}
VIEWS = {
    "by_who": "SELECT who, sum(amount) AS total, count(*) AS n, avg(price) AS mean, max(made) AS last FROM orders GROUP BY who",
    "spread": "SELECT item, var_samp(amount) AS v, stddev_pop(price) AS s, count(DISTINCT who) AS people FROM orders GROUP BY item",
    "totals": "SELECT count(*) AS n, sum(amount) AS total, min(price) AS least FROM orders",
    "items": "SELECT DISTINCT item FROM orders WHERE amount > 10",
    "texts": "SELECT who, string_agg(item, ',' ORDER BY item) AS items FROM orders GROUP BY who",
    "cities": "SELECT o.id, o.who, p.city FROM orders o LEFT JOIN people p ON p.who = o.who",
    "everybody": "SELECT o.id, p.who, p.city FROM orders o FULL JOIN people p ON p.who = o.who AND o.amount > 20",
    "strangers": "SELECT id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM people p WHERE p.who = o.who)",
    "pairs": "SELECT a.id AS a, b.id AS b FROM orders a JOIN orders b ON a.item = b.item AND a.id < b.id",
    "best": "SELECT * FROM (SELECT id, who, row_number() OVER (PARTITION BY who ORDER BY amount DESC NULLS LAST, id) AS place FROM orders) AS o WHERE place <= 2",
    "either": "SELECT who FROM people UNION ALL SELECT item FROM orders",
    "per_city": "SELECT c.city, count(*) AS n FROM cities c GROUP BY c.city",
    "rich": "SELECT b.who, b.total, c.n FROM by_who b JOIN per_city c ON c.n > b.n",
    "unsafe": "SELECT id, 100 / (id % 5) AS q FROM orders",
}
FALLIBLE = {"unsafe"}


def create(db):
    db.execute(f"CREATE TABLE orders ({TABLES['orders'].replace('id BIGINT', 'id BIGINT PRIMARY KEY')})")
    db.execute(f"CREATE TABLE people ({TABLES['people']})")
    for name, query in VIEWS.items():
        db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")


def churn(db, rng, commits):
    for _ in range(commits):
        key, who, item = rng.randrange(60), rng.choice("abcdefg"), rng.choice(["pen", "ink", "nib"])
        kind = rng.random()
        if kind < 0.55:
            amount, price = rng.choice(["NULL", f"{rng.randrange(-5000, 9999) / 100}"]), rng.choice(["0.1", "1e9", "-0.0", "2.5", "NULL"])
            db.execute(f"""INSERT INTO orders VALUES ({key}, '{who}', '{item}', {amount}, {price}, TIMESTAMP '2026-01-01' + INTERVAL '{key} hours')
                           ON CONFLICT (id) DO UPDATE SET amount = EXCLUDED.amount, who = EXCLUDED.who""")
        elif kind < 0.7:
            db.execute(f"DELETE FROM orders WHERE id = {key}")
        elif kind < 0.9:
            db.execute(f"INSERT INTO people VALUES ('{who}', {rng.choice(['NULL', repr(item)])})")
        else:
            db.execute(f"DELETE FROM people WHERE who = '{who}'")


def judge(server):
    """Every view is the batch answer over the tables."""
    with server.connect() as db, duckdb.connect() as duck:
        with db.transaction():
            for table, columns in TABLES.items():
                duck.execute(f"CREATE TABLE {table} ({columns})")
                if rows := db.execute(f"SELECT * FROM {table}").fetchall():
                    duck.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
            held = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in VIEWS}
        for name, query in VIEWS.items():
            query = f"{query} WHERE id % 5 <> 0".replace("100 / ", "100 // ") if name in FALLIBLE else query
            wanted = duck.execute(query).fetchall()
            assert same(held[name], wanted), name
            duck.execute(f"CREATE TABLE {name} AS {query}")
        failing, = db.execute("SELECT count(*) FROM cenote_state.unsafe_errors").fetchone()
        assert failing == duck.execute("SELECT count(*) FROM orders WHERE id % 5 = 0").fetchone()[0]


def same(one, other):
    def rounded(row):
        return tuple(f"{float(value):.12g}" if isinstance(value, (float,)) or hasattr(value, "as_tuple") else repr(value) for value in row)
    return sorted(map(rounded, one)) == sorted(map(rounded, other))


def kill_and_start(server, **changes):
    """Starts it again; its log from then on, which must not tell of views made anew."""
    server.kill()
    server.log.clear()
    for name, value in changes.items():
        setattr(server, name, value)
    server.start()
    assert "made anew" not in server.log_text(), server.log_text()


@pytest.mark.parametrize("workers", [(1, 1), (1, 3), (2, 1), (3, 8), (8, 2)])
def test_every_kind_of_state_comes_back_at_any_number_of_workers(fresh, workers):
    server, rng = fresh(workers=workers[0]), random.Random(repr(workers))
    with server.connect() as db:
        create(db)
        churn(db, rng, 120)
        db.execute("CHECKPOINT")
        churn(db, rng, 40)
    before = server.digests()
    kill_and_start(server, workers=workers[1])
    assert server.digests() == before
    judge(server)
    for _ in range(2):
        with server.connect() as db:
            churn(db, rng, 60)
        judge(server)
        kill_and_start(server, workers=rng.choice(workers))
    judge(server)


def test_state_is_taken_back_and_not_computed_again(fresh):
    server = fresh(workers=2)
    with server.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM t GROUP BY k")
        db.execute("INSERT INTO t SELECT x, x % 100 FROM generate_series(1, 50000) AS s(x)")
        db.execute("CHECKPOINT")
        db.execute("INSERT INTO t VALUES (0, 7), (-1, 7)")
    kill_and_start(server)
    rows = {figure["operator"]: figure["rows_in"] for figure in figures(server, "v")}
    assert 0 < sum(rows.values()) < 20, rows
    assert server.sql("SELECT n FROM v WHERE k = 7") == [(502,)]


def figures(server, view):
    with server.connect() as db:
        cursor = db.execute("SELECT * FROM cenote_catalog.operators WHERE view = %s", (view,))
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row)) for row in cursor.fetchall()]


def test_epochs_between_the_checkpoint_and_the_kill_can_be_read_again(fresh):
    server, rng, seen = fresh(workers=2, args=["--retain-epochs", "1000"]), random.Random(5), {}
    with server.connect() as db:
        create(db)
        churn(db, rng, 50)
        db.execute("CHECKPOINT")
        for _ in range(25):
            churn(db, rng, 1)
            epoch, = db.execute("SELECT cenote_epoch()").fetchone()
            seen[epoch] = {name: db.execute(f"SELECT * FROM {name} AS OF EPOCH {epoch}").fetchall() for name in VIEWS}
    kill_and_start(server)
    with server.connect() as db:
        for epoch, views in seen.items():
            for name, rows in views.items():
                assert same(db.execute(f"SELECT * FROM {name} AS OF EPOCH {epoch}").fetchall(), rows), (epoch, name)


def test_changes_of_the_catalog_behind_a_checkpoint_are_made_again(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT UNIQUE)")
        db.execute("CREATE TABLE gone (id INT)")
        db.execute("CREATE VIEW plain AS SELECT n FROM t")
        db.execute("CREATE MATERIALIZED VIEW kept AS SELECT sum(n) AS s FROM t")
        db.execute("CREATE MATERIALIZED VIEW dropped AS SELECT count(*) AS c FROM t")
        db.execute("CREATE INDEX old ON t (n)")
        db.execute("INSERT INTO t VALUES (1, 10), (2, 20)")
        db.execute("CHECKPOINT")
        db.execute("DROP MATERIALIZED VIEW dropped")
        db.execute("DROP TABLE gone")
        db.execute("INSERT INTO t VALUES (3, 30)")
        db.execute("CREATE MATERIALIZED VIEW dropped AS SELECT count(*) + 100 AS c FROM t")
        db.execute("CREATE OR REPLACE VIEW plain AS SELECT n + 1 AS n FROM t")
        db.execute("CREATE TABLE made (id BIGINT, note TEXT)")
        db.execute("INSERT INTO made VALUES (1, 'one'), (1, 'one')")
        db.execute("CREATE MATERIALIZED VIEW over_both AS SELECT m.note, k.s FROM made m CROSS JOIN kept k")
        db.execute("DROP INDEX old")
        db.execute("CREATE INDEX fresh_one ON kept (s)")
        db.execute("DELETE FROM made WHERE id = 1")
        db.execute("INSERT INTO made VALUES (2, 'two')")
    for _ in range(2):
        kill_and_start(server)
        with server.connect() as db:
            assert db.execute("SELECT s FROM kept").fetchall() == [(60,)]
            assert db.execute("SELECT c FROM dropped").fetchall() == [(103,)]
            assert sorted(db.execute("SELECT n FROM plain").fetchall()) == [(11,), (21,), (31,)]
            assert db.execute("SELECT * FROM over_both").fetchall() == [("two", 60)]
            assert db.execute("SELECT relname FROM pg_class WHERE relname IN ('old', 'fresh_one')").fetchall() == [("fresh_one",)]
            with pytest.raises(Exception, match="does not exist"):
                db.execute("SELECT * FROM gone")
            with pytest.raises(Exception, match="duplicate key"):
                db.execute("INSERT INTO t VALUES (4, 30)")
    with server.connect() as db:
        db.execute("INSERT INTO t VALUES (5, 50)")
        db.execute("INSERT INTO made VALUES (3, 'three')")
        assert sorted(db.execute("SELECT * FROM over_both").fetchall()) == [("three", 110), ("two", 110)]


def lines(path, first, last):
    with open(path, "a") as file:
        file.writelines(f'{{"id":{i},"k":{i % 10}}}\n' for i in range(first, last))


@pytest.mark.parametrize("kept", ["SOURCE", "TABLE"])
def test_sources_go_on_from_their_offsets(fresh, tmp_path, kept):
    """Rows of a source are in no log: what came behind the checkpoint is read again, once."""
    path = tmp_path / "rows.ndjson"
    lines(path, 0, 5000)
    with open(path, "a") as file:
        file.write("no json\n")
    server = fresh(workers=2, args=["--allow-path", str(tmp_path)])
    with server.connect() as db:
        db.execute(f"CREATE {kept} s (id BIGINT, k BIGINT) WITH (connector = 'file', path = '{path}', format = 'json', follow = 'true')")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, sum(id) AS s FROM s GROUP BY k")
    total = lambda db: db.execute("SELECT coalesce(sum(n), 0)::bigint, coalesce(sum(s), 0)::bigint FROM v").fetchone()  # noqa: E731
    wanted = lambda rows: lambda db: total(db) == (rows, rows * (rows - 1) // 2)  # noqa: E731
    server.wait_until("v", wanted(5000))
    server.sql("CHECKPOINT")
    for rows in [7000, 9000, 9500]:
        lines(path, rows - 2000 if rows < 9500 else 9000, rows)
        server.wait_until("v", wanted(rows))
        kill_and_start(server)
        server.wait_until("v", wanted(rows))
        assert server.sql("SELECT count(*) FROM cenote_catalog.errors") == [(1,)]
    with server.connect() as db:
        db.execute("CREATE MATERIALIZED VIEW later AS SELECT count(*) AS n FROM s")
        server.wait_until("later", lambda db: db.execute("SELECT n FROM later").fetchone() == (9500,))
    kill_and_start(server)
    server.wait_until("v", wanted(9500))
    server.wait_until("later", lambda db: db.execute("SELECT n FROM later").fetchone() == (9500,))


def damage(root, pattern, which=max):
    parts = sorted(Path(root).glob(pattern))
    path = which(parts, key=lambda path: (path.parent.parent.name, path.stat().st_size))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x40
    path.write_bytes(data)
    return path


def test_a_damaged_checkpoint_is_refused_by_name_and_an_older_one_taken_only_when_told(fresh):
    server = fresh()
    with server.connect() as db:
        create(db)
        churn(db, random.Random(1), 60)
        db.execute("CHECKPOINT")
        churn(db, random.Random(2), 30)
        db.execute("CHECKPOINT")
        churn(db, random.Random(3), 30)
    before = server.digests()
    server.kill()
    path = damage(server.data / "checkpoints", "*/*/*.arrow")
    with pytest.raises(RuntimeError) as refused:
        server.start()
    for told in ["CKPT-0103", path.name, "--allow-older-checkpoint"]:
        assert told in str(refused.value), refused.value
    kill_and_start(server, args=["--allow-older-checkpoint"])
    assert server.digests() == before
    judge(server)


def test_without_its_checkpoints_a_server_starts_from_a_whole_log_and_from_nothing_less(fresh, tmp_path):
    server = fresh(args=["--checkpoint-retain", "1"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, filler TEXT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, max(id) AS last FROM t")
        db.execute("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        db.execute("CHECKPOINT")
        server.kill()
        shutil.rmtree(server.data / "checkpoints")
        server.start()
    assert server.sql("SELECT * FROM v") == [(2, 2)]
    with server.connect() as db:
        # More than one file of the log.
        for part in range(5):
            db.execute(f"INSERT INTO t SELECT x, repeat(md5(x::text), 64) FROM generate_series({part * 10000 + 3}, {part * 10000 + 10002}) AS s(x)")
        files = len(list((server.data / "log").iterdir()))
        db.execute("CHECKPOINT")
        server.ask_until(lambda db: len(list((server.data / "log").iterdir())) < files)
        db.execute("INSERT INTO t VALUES (-1, 'z')")
    kill_and_start(server)
    assert server.sql("SELECT * FROM v") == [(50003, 50002)]
    server.kill()
    (server.data / "checkpoints").rename(tmp_path / "moved")
    with pytest.raises(RuntimeError) as refused:
        server.start()
    assert "--checkpoint-url" in str(refused.value) and "the log begins with record" in str(refused.value)
    kill_and_start(server, args=["--checkpoint-url", f"file://{tmp_path}/moved"])
    assert server.sql("SELECT * FROM v") == [(50003, 50002)]


def test_the_folder_of_another_server_is_refused(fresh, tmp_path):
    one = fresh(args=["--checkpoint-url", f"file://{tmp_path}/ckpt"])
    one.sql("CREATE TABLE t (id INT)")
    one.sql("CHECKPOINT")
    one.kill()
    with pytest.raises(RuntimeError, match="belongs to another server|another server"):
        Server(args=["--checkpoint-url", f"file://{tmp_path}/ckpt"])


def test_checkpoints_are_taken_by_themselves_where_something_has_changed(fresh):
    server = fresh(args=["--checkpoint-interval", "100ms"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT)")
    server.ask_until(lambda db: db.execute("SELECT count(*) FROM cenote_catalog.checkpoints").fetchone()[0] == 1)
    first = server.sql("SELECT max(epoch) FROM cenote_catalog.checkpoints")
    threading.Event().wait(0.5)
    assert server.sql("SELECT count(*) FROM cenote_catalog.checkpoints") == [(1,)], "nothing has changed"
    server.sql("INSERT INTO t VALUES (1)")
    server.ask_until(lambda db: db.execute("SELECT max(epoch) FROM cenote_catalog.checkpoints").fetchall() > first)
    metrics = server.get("/metrics").text
    assert re.search(r'cenote_checkpoints_total\{outcome="published"\} [2-9]', metrics), metrics
    assert "cenote_checkpoint_age_seconds" in metrics


def test_a_server_that_is_told_to_stop_takes_a_last_checkpoint(fresh):
    server = fresh(args=["--checkpoint-interval", "0s"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
        db.execute("INSERT INTO t VALUES (1), (2)")
    assert server.terminate() == 0
    ids = [path.parent.name for path in (server.data / "checkpoints").glob("*/manifest.json")]
    assert len(ids) == 1
    listed = cenote("state", "query", "--from", server.data / "checkpoints", "--sql", "SELECT n FROM v", "--format", "ndjson")
    assert listed.stdout.strip() == '{"n":2}', listed
    server.log.clear()
    server.start()
    assert server.sql("SELECT n FROM v") == [(2,)]
    assert server.terminate() == 0
    assert [path.parent.name for path in (server.data / "checkpoints").glob("*/manifest.json")] == ids, "nothing has changed since"


def test_a_checkpoint_that_takes_too_long_is_given_up_and_told(fresh):
    server = fresh(args=["--checkpoint-timeout", "0s", "--checkpoint-interval", "0s"])
    server.sql("CREATE TABLE t (id INT)")
    with pytest.raises(Exception, match="it was not written within") as error:
        server.sql("CHECKPOINT")
    assert error.value.sqlstate == "57014"
    answer = server.post("/api/v1/sql", json.dumps({"sql": "CHECKPOINT"}), headers={"Content-Type": "application/json"})
    assert answer.json()["error"]["code"] == "CKPT-0105"
    assert "the last checkpoint failed" in server.get("/readyz").text
    assert server.sql("SELECT count(*) FROM cenote_catalog.checkpoints") == [(0,)]
    kill_and_start(server, args=["--checkpoint-interval", "0s"])
    server.sql("CHECKPOINT")
    assert server.sql("SELECT count(*) FROM t") == [(0,)]


def test_a_failed_checkpoint_is_told_and_the_next_one_is_good(fresh, tmp_path):
    root = tmp_path / "ckpt"
    server = fresh(args=["--checkpoint-url", f"file://{root}"])
    server.sql("CREATE TABLE t (id INT)")
    server.sql("CHECKPOINT")
    assert server.get("/readyz").status == 200
    moved = tmp_path / "aside"
    root.rename(moved)
    root.write_text("a file where a folder was")
    server.sql("INSERT INTO t VALUES (1)")
    with pytest.raises(Exception, match="cannot"):
        server.sql("CHECKPOINT")
    ready = server.get("/readyz")
    assert ready.status == 503 and "the last checkpoint failed" in ready.text
    root.unlink()
    moved.rename(root)
    server.sql("CHECKPOINT")
    assert server.get("/readyz").status == 200
    kill_and_start(server)
    assert server.sql("SELECT count(*) FROM t") == [(1,)]


def now():
    """A time between what was before and what comes after, as SQL writes it."""
    threading.Event().wait(0.02)
    time = datetime.now(timezone.utc)
    threading.Event().wait(0.02)
    return time.isoformat()


def test_a_time_is_read_from_memory_and_before_that_from_the_checkpoint_that_was_newest(fresh):
    server = fresh(args=["--retain-epochs", "1000"])
    with server.connect() as db:
        before = now()
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT sum(n) AS s FROM t")
        db.execute("INSERT INTO t VALUES (1, 10)")
        one = now()
        db.execute("INSERT INTO t VALUES (2, 20)")
        two = now()
        db.execute("UPDATE t SET n = 5 WHERE id = 1")
        read = lambda time: db.execute(f"SELECT s FROM v AS OF TIMESTAMP '{time}'").fetchall()  # noqa: E731
        assert [read(one), read(two), read(now())] == [[(10,)], [(30,)], [(25,)]]
        assert db.execute(f"SELECT a.n, b.n FROM t AS OF TIMESTAMP '{one}' a FULL JOIN t b ON a.id = b.id ORDER BY b.id").fetchall() == [(10, 5), (None, 20)]
        with pytest.raises(Exception, match="has not come yet"):
            read("2999-01-01")
        with pytest.raises(Exception, match="invalid input syntax|not a time|timestamp"):
            read("yesterday evening")
        with pytest.raises(Exception, match="its history was dropped"):
            read("2001-01-01 00:00:00+00")
        db.execute("CHECKPOINT")
        three = now()
        db.execute("CREATE TABLE other (id INT)")
        db.execute("CREATE SAVEPOINT s")
    server.restart()
    with server.connect() as db:
        read = lambda time: db.execute(f"SELECT s FROM v AS OF TIMESTAMP '{time}'").fetchall()  # noqa: E731
        assert read(three) == [(25,)]
        with pytest.raises(Exception, match="its history was dropped") as error:
            read(two)
        assert "in checkpoints" in str(error.value)
        assert before < one
        db.execute("INSERT INTO t VALUES (3, 1), (4, 1)")
        cursor = db.execute("SHOW HISTORY OF v")
        names = [column.name for column in cursor.description]
        history = [dict(zip(names, row)) for row in cursor.fetchall()]
        assert [entry["savepoint"] for entry in history if entry["checkpoint"]] == [None, "s"]
        last = history[-1]
        assert (last["inserted"], last["deleted"], last["in_memory"]) == (1, 1, "yes")
        assert [entry["epoch"] for entry in history] == sorted(entry["epoch"] for entry in history)
        with pytest.raises(Exception, match="does not exist"):
            db.execute("SHOW HISTORY OF nothing")


def test_a_checkpoint_writes_what_has_changed(fresh):
    """Bytes follow changes, not the size of the state; a reader without us puts parts together."""
    server, rng = fresh(workers=2), random.Random(11)
    with server.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT, filler TEXT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, max(id) AS last FROM t GROUP BY k")
        db.execute("CREATE MATERIALIZED VIEW j AS SELECT a.id, b.n FROM t a JOIN v b ON a.k = b.k")
        db.execute("INSERT INTO t SELECT x, x % 5000, repeat('x', 50) FROM generate_series(1, 20000) AS s(x)")
        db.execute("CHECKPOINT")
        whole = newest(server)["bytes_new"]
        for _ in range(30):
            for _ in range(3):
                key = rng.randrange(1, 20100)
                db.execute(f"INSERT INTO t VALUES ({key}, {key % 5000}, 'new') ON CONFLICT (id) DO UPDATE SET filler = EXCLUDED.filler")
                db.execute(f"DELETE FROM t WHERE id = {rng.randrange(1, 20100)}")
            db.execute("CHECKPOINT")
            manifest = newest(server)
            assert len({part["path"].split("/")[0] for entry in manifest["tables"] for bucket in entry["buckets"] for part in bucket["parts"]}) > 1
        assert manifest["bytes_new"] < whole / 5, (manifest["bytes_new"], whole)
        for entry in manifest["tables"]:
            name = entry["name"] if entry["schema"] == "public" else f'{entry["schema"]}.{entry["name"]}'
            if entry["schema"] != "cenote_catalog":
                assert db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] == entry["rows"], name
    assert cenote("verify", server.data / "checkpoints").returncode == 0
    live, kept = server.digests(), cenote("state", "digest", "--from", server.data / "checkpoints", "--format", "ndjson")
    kept = {row["name"]: row["digest"] for row in map(json.loads, kept.stdout.splitlines())}
    assert {name: digest for name, (digest, _) in live.items() if name in kept} == {name: kept[name] for name in live if name in kept}
    kill_and_start(server, workers=3)
    assert server.digests() == live


def newest(server):
    manifests = [json.loads(path.read_text()) for path in (server.data / "checkpoints").glob("*/manifest.json")]
    return max(manifests, key=lambda manifest: manifest["sequence"])


def test_a_table_whose_deletions_were_too_many_to_note_is_noted_again(fresh):
    """Its next checkpoint is a whole one, and those that follow are additions again."""
    server = fresh()

    def kinds():
        entry, = [entry for entry in newest(server)["tables"] if (entry["schema"], entry["name"]) == ("public", "t")]
        return [part["kind"] for bucket in entry["buckets"] for part in bucket["parts"]]
    with server.connect() as db:
        db.execute("CREATE TABLE t (id TEXT PRIMARY KEY, n INT)")
        db.execute("INSERT INTO t SELECT md5(x::text) || repeat('x', 400), x FROM generate_series(1, 12000) AS s(x)")
        db.execute("CHECKPOINT")
        db.execute("DELETE FROM t WHERE n > 2000")
        db.execute("CHECKPOINT")
        assert kinds() == ["base"]
        db.execute("DELETE FROM t WHERE n = 1")
        db.execute("CHECKPOINT")
        assert kinds() == ["base", "delta"]
    kill_and_start(server)
    assert server.sql("SELECT count(*), min(n), max(n) FROM t") == [(1999, 2, 2000)]
