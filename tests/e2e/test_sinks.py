"""Sinks: what a view's changes become outside, each of them once, judged by DuckDB and pyarrow over the files alone.

A sink with `mode = 'changelog'` writes every change with its epoch and weight, so its files summed up by weight are the view.
"""
import collections
import contextlib
import itertools
import json
import random
import resource
import subprocess
import threading
import time
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet
import pytest
from harness import binary, cenote

READ = {"ndjson": "read_json('{}', format = 'newline_delimited')", "csv": "read_csv('{}', header = true)", "parquet": "read_parquet('{}')"}


def until(told, seconds=30):
    """What `told` gives once it is true."""
    end = time.monotonic() + seconds
    while not (value := told()):
        assert time.monotonic() < end, f"still {value!r}"
        time.sleep(0.02)
    return value


def shown(db, sink):
    """A sink as SHOW SINKS has it: a dictionary."""
    cursor = db.execute("SHOW SINKS")
    names = [column.name for column in cursor.description]
    return next(dict(zip(names, row)) for row in cursor.fetchall() if row[0] == sink)


def caught_up(db, sink):
    """Waits until a sink has committed everything that is visible now; gives it as it is then."""
    epoch = db.execute("SELECT epoch FROM cenote_catalog.epochs WHERE name = 'visible'").fetchone()[0]

    def there():
        now = shown(db, sink)
        assert now["status"] != "failed", now["error"]
        return now["epoch"] >= epoch and now

    return until(there)


def files(folder, sink="k"):
    """What a reader of the folder sees of a sink, by name."""
    return sorted(path for path in folder.iterdir() if path.name.startswith(f"{sink}-"))


def summed(folder, columns, form="ndjson", sink="k"):
    """The rows that a changelog comes to, and how often each is there; read by DuckDB."""
    names = ", ".join(columns)
    source = READ[form].format(folder / f"{sink}-*.{form}")
    query = f"SELECT {names}, sum(cenote_weight)::BIGINT AS n FROM {source} GROUP BY ALL HAVING n <> 0"
    return collections.Counter({tuple(row[:-1]): row[-1] for row in duckdb.sql(query).fetchall()})


def in_order(folder, sink="k"):
    """Checks that epochs ascend over the files, and that an epoch's deletions stand before its insertions; gives the lines."""
    lines = [json.loads(line) for path in files(folder, sink) for line in path.read_text().splitlines()]
    placed = [(line["cenote_epoch"], line["cenote_weight"] > 0) for line in lines]
    assert placed == sorted(placed)
    return lines


def numbers(folder, sink="k"):
    return [int(path.stem.rsplit("-", 1)[1]) for path in files(folder, sink)]


def made(db, name, into, form="ndjson", mode="changelog", more=""):
    """A table, a view over it that sums, and a sink `k` of the view."""
    db.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, g BIGINT NOT NULL, v BIGINT NOT NULL)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT g, count(*) AS n, sum(v)::BIGINT AS s FROM {name} GROUP BY g")
    db.execute(f"CREATE SINK {name}_k FROM {name}_v WITH (connector = 'file', path = '{into}', format = '{form}', mode = '{mode}'{more})")
    return f"{name}_k"


def view(db, name):
    return collections.Counter(map(tuple, db.execute(f"SELECT g, n, s FROM {name}_v").fetchall()))


def churn(db, name, rng, statements):
    """Random inserts, updates and deletes."""
    for _ in range(statements):
        key = rng.randrange(40)
        db.execute(rng.choice([
            f"INSERT INTO {name} VALUES ({key}, {key % 7}, {rng.randrange(1000)}) ON CONFLICT (id) DO UPDATE SET v = EXCLUDED.v",
            f"UPDATE {name} SET v = v + 1, g = {rng.randrange(7)} WHERE id = {key}",
            f"DELETE FROM {name} WHERE id = {key}",
        ]))


@pytest.mark.parametrize("form", list(READ))
@pytest.mark.parametrize("roll", ["", ", roll_epochs = 7", ", roll_rows = 20"])
def test_a_changelog_summed_up_is_the_view(fresh, form, roll):
    server, rng = fresh(workers=2), random.Random(7)
    with server.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, g BIGINT NOT NULL, v BIGINT NOT NULL)")
        db.execute("CREATE MATERIALIZED VIEW t_v AS SELECT g, count(*) AS n, sum(v)::BIGINT AS s FROM t GROUP BY g")
        churn(db, "t", rng, 20)
        db.execute(f"CREATE SINK k FROM t_v WITH (connector = 'file', path = 'out', format = '{form}', mode = 'changelog'{roll})")
        churn(db, "t", rng, 60)
        caught_up(db, "k")
        expected = view(db, "t")
        db.execute("DROP SINK k")  # what is in a file that is not full shows now
    out = server.cwd / "out"
    assert summed(out, ["g", "n", "s"], form) == expected
    assert numbers(out) == list(range(1, len(files(out)) + 1))
    assert (len(files(out)) > 30) == (roll == ""), "one file an epoch, unless files hold more"
    if form == "ndjson":
        in_order(out)


def test_rows_are_appended_with_their_types(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, d NUMERIC(20, 6), at TIMESTAMP, at_z TIMESTAMPTZ, day DATE, ok BOOLEAN, b BYTEA, "
                   "x DOUBLE PRECISION, tags TEXT[], s TEXT)")
        for form in READ:
            db.execute(f"CREATE SINK k_{form} FROM t WITH (connector = 'file', path = '{form}', format = '{form}')")
        db.execute("INSERT INTO t VALUES (9007199254740993, 12345678901234.567890, '2024-02-29 23:59:59.123456', '2024-01-01 00:00:00+00', "
                   "'0044-03-15', true, '\\x00ff', 0.1, ARRAY['a', NULL, 'b,\"c'], E'a\\nb'), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '')")
        for form in READ:
            caught_up(db, f"k_{form}")
    rows = pa.parquet.read_table(files(server.cwd / "parquet", "k_parquet")[0])
    assert rows.schema.field("d").type == pa.decimal128(20, 6)
    assert rows.schema.field("at").type == pa.timestamp("us")
    assert rows.schema.field("tags").type == pa.list_(pa.string()) or str(rows.schema.field("tags").type).startswith("list<")
    assert rows.column("id").to_pylist() == [2, 9007199254740993], "rows of an epoch by key"
    assert rows.column("d").to_pylist() == [None, Decimal("12345678901234.567890")]
    assert rows.column("b").to_pylist() == [None, b"\x00\xff"]
    assert rows.column("tags").to_pylist() == [None, ["a", None, 'b,"c']]
    first, second = map(json.loads, files(server.cwd / "ndjson", "k_ndjson")[0].read_text().splitlines())
    assert (second["id"], second["s"], second["tags"]) == (9007199254740993, "a\nb", ["a", None, 'b,"c'])
    assert first["d"] is None and '"d":12345678901234.567890' in files(server.cwd / "ndjson", "k_ndjson")[0].read_text()
    told = duckdb.sql(f"SELECT id, d::VARCHAR, s FROM read_csv('{server.cwd}/csv/*.csv', all_varchar = true)").fetchall()
    assert told[1] == ("9007199254740993", "12345678901234.567890", "a\nb")


def test_an_appending_sink_refuses_a_deletion_and_says_so_everywhere(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        db.execute("CREATE SINK k FROM t WITH (connector = 'file', path = 'out', format = 'ndjson')")
        db.execute("INSERT INTO t VALUES (1)")
        caught_up(db, "k")
        assert server.get("/readyz").status == 200
        db.execute("DELETE FROM t")
        told = until(lambda: shown(db, "k")["error"])
        assert "deleted or updated" in told
        assert shown(db, "k")["status"] == "failed"
        ready = server.get("/readyz")
        assert ready.status == 503 and "sink k has stopped" in ready.text
        metrics = server.get("/metrics").text
        assert 'cenote_sink_failed{sink="k"} 1' in metrics and 'cenote_sink_rows_total{sink="k"} 1' in metrics
        assert files(server.cwd / "out") and [json.loads(files(server.cwd / "out")[0].read_text())] == [{"id": 1}]
        db.execute("INSERT INTO t VALUES (2)")  # nothing waits for a sink that has failed
        db.execute("CHECKPOINT")
        db.execute("DROP SINK k")
        assert server.get("/readyz").status == 200
    assert [path.name for path in (server.cwd / "out").iterdir()] == ["k-0000000001.ndjson"], "nothing staged is left"


def test_sinks_are_objects_like_others(db, name, server):
    sink = made(db, name, f"{name}_out")
    assert name + "_k" in [row[0] for row in db.execute("SHOW SINKS").fetchall()]
    row = db.execute("SELECT name, from_name, connector, options, status FROM cenote_catalog.sinks WHERE name = %s", [sink]).fetchone()
    assert row[:3] == (sink, f"{name}_v", "file") and "format = 'ndjson'" in row[3] and row[4] == "running"
    assert "CREATE SINK" in db.execute(f"SHOW CREATE SINK {sink}").fetchone()[1]
    for again, code in [(f"CREATE SINK {sink} FROM {name} WITH (connector = 'blackhole')", "42P07"),
                        (f"CREATE TABLE {sink} (n INT)", "42P07"), (f"DROP SINK {name}", "42809"), (f"DROP TABLE {sink}", "42P01"),
                        (f"CREATE SINK {name}_x FROM nothing WITH (connector = 'blackhole')", "42P01"),
                        (f"DROP SINK {name}_none", "42704")]:
        with pytest.raises(psycopg.Error) as raised:
            db.execute(again)
        assert raised.value.sqlstate == code, again
    db.execute(f"CREATE SINK IF NOT EXISTS {sink} FROM {name} WITH (connector = 'blackhole')")
    db.execute(f"DROP SINK IF EXISTS {name}_none")
    with pytest.raises(psycopg.errors.DependentObjectsStillExist) as raised:
        db.execute(f"DROP MATERIALIZED VIEW {name}_v")
    assert f"sink {sink}" in str(raised.value)
    db.execute(f"DROP TABLE {name} CASCADE")
    assert sink not in [row[0] for row in db.execute("SHOW SINKS").fetchall()]
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.execute(f"SELECT * FROM cenote_state.{sink}_progress")


def test_progress_is_a_table(fresh):
    server = fresh()
    with server.connect() as db:
        made(db, "t", "out")
        db.execute("INSERT INTO t VALUES (1, 1, 5), (2, 2, 6)")
        told = caught_up(db, "t_k")
        read = "SELECT state, epoch, token, rows, bytes FROM cenote_state.t_k_progress"
        [(state, epoch, token, rows, size)] = until(lambda: db.execute(f"{read} WHERE state = 'committed'").fetchall())
        assert db.execute(f"{read} WHERE state = 'prepared'").fetchall() == []
        assert (state, rows, size) == ("committed", 2, told["bytes"]) and epoch <= told["epoch"]
        assert json.loads(token) == {"files": [{"number": 1, "bytes": size}], "open": None, "next": 2}
        assert size == files(server.cwd / "out", "t_k")[0].stat().st_size
        kinds = db.execute("SELECT operator, view FROM cenote_catalog.state_tables WHERE \"table\" = 't_k_progress'").fetchall()
        assert kinds == [("sink", None)]
        before = db.execute("SELECT epoch FROM cenote_catalog.epochs WHERE name = 'visible'").fetchone()
        db.execute("UPDATE t SET v = v WHERE id = 99")  # an epoch without changes of the view leaves no trace
        after = db.execute("SELECT epoch FROM cenote_catalog.epochs WHERE name = 'visible'").fetchone()
        assert after[0] - before[0] <= 1


def test_a_checkpoint_finds_every_sink_prepared(fresh):
    server, rng = fresh(), random.Random(3)
    with server.connect() as db:
        made(db, "t", "out")
        for _ in range(5):
            churn(db, "t", rng, 5)
            db.execute("CREATE TABLE IF NOT EXISTS beside (n INT)")  # epochs that the view has nothing of
            db.execute("INSERT INTO beside VALUES (1)")
            db.execute("CHECKPOINT")
            taken = db.execute("SELECT max(epoch) FROM cenote_catalog.checkpoints").fetchone()[0]
            assert db.execute("SELECT max(epoch) FROM cenote_state.t_k_progress").fetchone()[0] >= taken
    manifests = sorted((server.data / "checkpoints").glob("*/manifest.json"))
    manifest = json.loads(manifests[-1].read_text())
    assert ("cenote_state", "t_k_progress", "sink") in [(t["schema"], t["name"], t["kind"]) for t in manifest["tables"]]
    assert any("create_sink" in record for record in manifest["sections"]["catalog"])


def test_sinks_that_are_behind_are_waited_for(fresh):
    """By a checkpoint until they have prepared, by a server that stops until they have written what there is."""
    server, sinks = fresh(), [f"k{number}" for number in range(6)]
    with server.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, s TEXT)")
        for sink in sinks:
            db.execute(f"CREATE SINK {sink} FROM t WITH (connector = 'file', path = 'out', format = 'csv')")
        db.execute("INSERT INTO t SELECT n, repeat('x', 50) FROM generate_series(1, 150000) s(n)")
        db.execute("CHECKPOINT")
        prepared = [db.execute(f"SELECT max(epoch) FROM cenote_state.{sink}_progress").fetchone()[0] for sink in sinks]
        assert min(epoch or 0 for epoch in prepared) >= db.execute("SELECT max(epoch) FROM cenote_catalog.checkpoints").fetchone()[0]
        db.execute("INSERT INTO t SELECT n, repeat('x', 50) FROM generate_series(150001, 300000) s(n)")
        db.execute("INSERT INTO t VALUES (300001, 'while the others are written')")
    assert server.terminate() == 0
    server.start()
    with server.connect() as db:
        for sink in sinks:
            assert caught_up(db, sink)["rows"] == 300001
            assert duckdb.sql(f"SELECT count(DISTINCT id) FROM read_csv('{server.cwd}/out/{sink}-*.csv')").fetchall() == [(300001,)]


@contextlib.contextmanager
def writing(server, name, seed):
    """Writes in the background until the server goes away."""
    stop = threading.Event()

    def run():
        with contextlib.suppress(psycopg.Error), server.connect() as db:
            rng = random.Random(seed)
            while not stop.is_set():
                churn(db, name, rng, 1)

    writers = [threading.Thread(target=run, daemon=True) for _ in range(2)]
    for writer in writers:
        writer.start()
    yield
    stop.set()
    for writer in writers:
        writer.join()


@pytest.mark.parametrize("roll", ["", ", roll_rows = 30"])
def test_a_server_that_is_stopped_goes_on(fresh, roll):
    server = fresh(workers=2)
    with server.connect() as db:
        made(db, "t", "out", more=roll)
    for round in range(3):
        with writing(server, "t", round):
            time.sleep(0.3)
            assert server.terminate() == 0
        server.start()
        with server.connect() as db:
            caught_up(db, "t_k")
    with server.connect() as db:
        churn(db, "t", random.Random(9), 10)
        told, expected = caught_up(db, "t_k"), view(db, "t")
        db.execute("DROP SINK t_k")
    out = server.cwd / "out"
    assert summed(out, ["g", "n", "s"], sink="t_k") == expected
    assert len(in_order(out, "t_k")) == told["rows"], "rows are counted over restarts"
    assert numbers(out, "t_k") == list(range(1, len(files(out, "t_k")) + 1))


def test_a_killed_server_repeats_and_skips_nothing(fresh):
    """Killed while rows come, the sink goes on, or says that it cannot: what is outside is the first rows, each once, either way."""
    server = fresh()
    ids, went_on = itertools.count(1), 0
    with server.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    for round in range(6):
        out, sink = server.cwd / f"out{round}", f"k{round}"
        with server.connect() as db:
            db.execute("DELETE FROM t")
            db.execute(f"CREATE SINK {sink} FROM t WITH (connector = 'file', path = '{out.name}', format = 'ndjson')")
        first = next(ids)
        last = [first - 1]

        def write():
            with contextlib.suppress(psycopg.Error), server.connect() as db:
                db.execute("INSERT INTO t VALUES (%s)", [first])
                last[0] = first
                for number in ids:
                    db.execute("INSERT INTO t VALUES (%s)", [number])
                    last[0] = number

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        time.sleep(random.Random(round).uniform(0.05, 0.4))
        server.kill()
        writer.join()
        server.start()
        with server.connect() as db:
            if shown(db, sink)["status"] == "failed":
                assert "cannot go on" in shown(db, sink)["error"]
            else:
                went_on += 1
                caught_up(db, sink)
                assert last[0] <= max(row["id"] for row in map(json.loads, lines_of(out, sink)))
            db.execute(f"DROP SINK {sink}")
        written = [json.loads(line)["id"] for line in lines_of(out, sink)]
        assert written == list(range(first, first + len(written))), "the first rows, in order, each once"
        assert len(written) <= last[0] + 1 - first + 1
        ids = itertools.count(first + len(written) + 1000)


def lines_of(folder, sink):
    return [line for path in files(folder, sink) for line in path.read_text().splitlines()]


def test_a_server_killed_at_random_moments_goes_on(fresh):
    """Needs a restart that tells the changes after a checkpoint again, epoch by epoch."""
    server = fresh(workers=2)
    with server.connect() as db:
        made(db, "t", "out")
    rng = random.Random(5)
    for round in range(8):
        with writing(server, "t", round):
            time.sleep(rng.uniform(0.05, 0.5))
            server.kill()
        server.start()
        with server.connect() as db:
            caught_up(db, "t_k")
            if rng.random() < 0.4:
                db.execute("CHECKPOINT")
    with server.connect() as db:
        expected = view(db, "t")
        caught_up(db, "t_k")
    out = server.cwd / "out"
    assert summed(out, ["g", "n", "s"], sink="t_k") == expected
    in_order(out, "t_k")
    assert numbers(out, "t_k") == list(range(1, len(files(out, "t_k")) + 1))


def test_rows_of_a_source_leave_with_the_checkpoint_that_has_them(fresh):
    server = fresh()
    rows = server.cwd / "in.ndjson"
    rows.write_text('{"n": 1}\n{"n": 2}\n')
    with server.connect() as db:
        db.execute("CREATE SOURCE s (n BIGINT) WITH (connector = 'file', format = 'json', path = 'in.ndjson', follow = 'true')")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS rows, sum(n)::BIGINT AS total FROM s")
        db.execute("CREATE SINK k FROM v WITH (connector = 'file', path = 'out', format = 'ndjson', mode = 'changelog')")
        until(lambda: db.execute("SELECT total FROM v").fetchone() == (3,))
        with rows.open("a") as file:
            file.write('{"n": 4}\n')
        until(lambda: db.execute("SELECT total FROM v").fetchone() == (7,))
        taken = db.execute("SELECT count(*) FROM cenote_catalog.checkpoints").fetchone()[0]
        db.execute("CHECKPOINT")
        until(lambda: summed(server.cwd / "out", ["rows", "total"]) == {(3, 7): 1} if files(server.cwd / "out") else False)
        assert db.execute("SELECT count(*) FROM cenote_catalog.checkpoints").fetchone()[0] >= taken
        with rows.open("a") as file:
            file.write('{"n": 8}\n')
        # Nobody asks for a checkpoint: the sink does.
        until(lambda: summed(server.cwd / "out", ["rows", "total"]) == {(4, 15): 1})
        in_order(server.cwd / "out")


@contextlib.contextmanager
def no_more_files(server):
    """The server can open no file more."""
    soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (soft, hard))


def test_a_failure_of_the_system_is_tried_again(fresh):
    server = fresh()
    with server.connect() as db:
        made(db, "t", "out")
        db.execute("INSERT INTO t VALUES (1, 1, 5)")
        caught_up(db, "t_k")
        with no_more_files(server):
            db.execute("INSERT INTO t VALUES (2, 2, 6)")
            until(lambda: "tries again" in server.log_text())
            assert shown(db, "t_k")["status"] == "running"
        caught_up(db, "t_k")
        assert summed(server.cwd / "out", ["g", "n", "s"], sink="t_k") == view(db, "t")
        with no_more_files(server):
            db.execute("INSERT INTO t VALUES (3, 3, 7)")
            told = until(lambda: shown(db, "t_k")["error"])
            assert "cannot write" in told
    server.restart(gently=True)
    with server.connect() as db:
        assert "cannot go on" in shown(db, "t_k")["error"], "it skips nothing"


def test_a_server_prints_rows_on_standard_output(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, s TEXT)")
        db.execute("CREATE SINK p FROM t WITH (connector = 'print', mode = 'changelog')")
        db.execute("INSERT INTO t VALUES (7, 'x')")
        db.execute("UPDATE t SET s = 'y'")
        caught_up(db, "p")
    until(lambda: '"id":7,"s":"y"}' in server.log_text())
    lines = [json.loads(line) for line in server.log_text().splitlines() if line.startswith("{")]
    assert [(line["cenote_weight"], line["s"]) for line in lines] == [(1, "x"), (-1, "x"), (1, "y")]


def test_http_makes_lists_and_shows_sinks(db, name, server):
    db.execute(f"CREATE TABLE {name} (n INT)")
    body = {"name": f"{name}_k", "from": name, "with": {"connector": "blackhole"}}
    answer = server.post("/api/v1/sinks", body)
    assert answer.status == 200 and answer.json()["name"] == f"{name}_k"
    assert server.post("/api/v1/sinks", body).status == 409
    assert server.post("/api/v1/sinks", {**body, "wth": {}}).json()["error"]["hint"] == "did you mean `with`?"
    db.execute(f"INSERT INTO {name} VALUES (1), (1), (2)")
    assert caught_up(db, f"{name}_k")["rows"] == 3, "each row of a table is one"
    one = server.get(f"/api/v1/sinks/{name}_k").json()
    assert (one["connector"], one["from_name"], one["rows"]) == ("blackhole", name, 3)
    assert f"{name}_k" in [sink["name"] for sink in server.get("/api/v1/sinks").json()]
    assert server.get("/api/v1/sinks/none").status == 404


def test_sinks_of_a_read_only_transaction_and_a_block_are_refused(db, name):
    db.execute(f"CREATE TABLE {name} (n INT)")
    db.execute("BEGIN")
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"CREATE SINK {name}_k FROM {name} WITH (connector = 'blackhole')")
    assert raised.value.sqlstate == "25001"
    db.execute("ROLLBACK")


RUN = """CREATE TABLE orders (usr VARCHAR, amount BIGINT) WITH (connector = 'file', format = 'json', path = 'orders.ndjson');
CREATE MATERIALIZED VIEW totals AS SELECT usr, sum(amount)::BIGINT AS total FROM orders GROUP BY usr;
"""


def orders(folder, count):
    rng = random.Random(1)
    rows = [(f"u{rng.randrange(50)}", rng.randrange(100)) for _ in range(count)]
    (folder / "orders.ndjson").write_text("".join(json.dumps({"usr": usr, "amount": amount}) + "\n" for usr, amount in rows))
    totals = collections.Counter()
    for usr, amount in rows:
        totals[usr] += amount
    return collections.Counter({(usr, total): 1 for usr, total in totals.items()})


@pytest.mark.parametrize("form", list(READ))
@pytest.mark.parametrize("args", [(), ("--data-dir", "d")])
def test_run_exits_when_everything_is_written(tmp_path, form, args):
    expected = orders(tmp_path, 150_000)
    sink = f"CREATE SINK k FROM totals WITH (connector = 'file', path = 'out', format = '{form}', mode = 'changelog', roll_rows = 1000000)"
    done = cenote("run", *args, "-e", RUN + sink, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert summed(tmp_path / "out", ["usr", "total"], form) == expected
    assert [path.name for path in (tmp_path / "out").iterdir()] == [f"k-0000000001.{form}"]


def test_run_over_a_source_that_keeps_no_rows(tmp_path):
    expected = orders(tmp_path, 20_000)
    script = RUN.replace("CREATE TABLE", "CREATE SOURCE") + "CREATE SINK k FROM totals WITH (connector = 'file', path = 'out', format = 'ndjson', mode = 'changelog')"
    for args in ((), ("--data-dir", "d")):
        done = cenote("run", *args, "-e", script.replace("'out'", f"'out{len(args)}'"), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert summed(tmp_path / f"out{len(args)}", ["usr", "total"]) == expected


def test_run_prints_and_waits_for_a_slow_reader(tmp_path):
    orders(tmp_path, 60_000)
    script = RUN + "CREATE SINK p FROM orders WITH (connector = 'print')"
    running = subprocess.Popen([binary(), "run", "-e", script], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    time.sleep(1.5)
    assert running.poll() is None, "more lines than a pipe holds are not read yet"
    lines = running.stdout.read().splitlines()
    assert running.wait(30) == 0
    wanted = collections.Counter((row["usr"], row["amount"]) for row in map(json.loads, (tmp_path / "orders.ndjson").read_text().splitlines()))
    assert collections.Counter((row["usr"], row["amount"]) for row in map(json.loads, lines)) == wanted


def test_run_tells_why_a_sink_failed(tmp_path):
    script = """CREATE TABLE t (id BIGINT PRIMARY KEY); INSERT INTO t VALUES (1);
        CREATE SINK k FROM t WITH (connector = 'file', path = 'out', format = 'ndjson'); DELETE FROM t; INSERT INTO t VALUES (2)"""
    done = cenote("run", "-e", script, cwd=tmp_path)
    assert done.returncode == 1 and "CONN-0018" in done.stderr and "changelog" in done.stderr


def test_a_second_run_into_the_same_folder_is_refused(tmp_path):
    orders(tmp_path, 10)
    script = RUN + "CREATE SINK k FROM totals WITH (connector = 'file', path = 'out', format = 'ndjson', mode = 'changelog')"
    assert cenote("run", "-e", script, cwd=tmp_path).returncode == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    done = cenote("run", "-e", script, cwd=tmp_path)
    assert done.returncode == 1 and "CONN-0019" in done.stderr
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    assert Path(tmp_path / "out").is_dir()
