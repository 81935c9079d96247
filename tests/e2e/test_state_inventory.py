"""`cenote_catalog.state`: all state tables as one. The judges: what every other door says of each table, DuckDB, and sums that only one epoch has."""
import json
import threading
from collections import Counter
from decimal import Decimal
from urllib.parse import quote

import duckdb
import psycopg
import pytest
from harness import Server, cenote

BIG = 9007199254740993
TOTAL = Decimal("12345678901234567890.000000001")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A server with state of every kind: operators', a source's offsets and bad rows, a sink's progress, errors of a view."""
    folder = tmp_path_factory.mktemp("inventory")
    (folder / "lines.ndjson").write_text('{"n": 1}\nno json\n{"n": 2}\n')
    with Server(workers=2, cwd=folder, args=["--checkpoint-url", f"file://{folder}/ckpt", "--checkpoint-interval", "0s"]) as server:
        with server.connect() as db:
            db.execute('CREATE TABLE orders (id BIGINT, "Who \"\"x\"\"" TEXT, amount NUMERIC(38,9), at TIMESTAMPTZ)')
            db.execute("CREATE TABLE people (who TEXT, city TEXT)")
            db.execute("INSERT INTO orders VALUES (%s, 'ann', %s, '2026-01-02 03:04:05.678901+00'), (2, 'bob', -0.5, NULL), (3, NULL, NULL, NULL)",
                       (BIG, TOTAL))
            db.execute("INSERT INTO people VALUES ('ann', 'rome'), ('ann', 'rome'), ('bob', NULL), ('a''b', 'x\"y')")
            db.execute("CREATE MATERIALIZED VIEW by_id AS SELECT id, at, sum(amount) AS total, max(amount) AS most FROM orders GROUP BY id, at")
            db.execute('CREATE MATERIALIZED VIEW cities AS SELECT o.id, p.city FROM orders o JOIN people p ON p.who = o."Who ""x"""')
            db.execute("CREATE MATERIALIZED VIEW newest AS SELECT * FROM orders ORDER BY id DESC LIMIT 2")
            db.execute('CREATE MATERIALIZED VIEW "Odd Name" AS SELECT who, array_agg(city) AS cities FROM people GROUP BY who')
            db.execute("CREATE MATERIALIZED VIEW halves AS SELECT id, 1 / (id - 2) AS half FROM orders")
            db.execute("CREATE TABLE lines (n BIGINT) WITH (connector = 'file', format = 'json', path = 'lines.ndjson')")
            db.execute("CREATE SINK counted FROM by_id WITH (connector = 'blackhole')")
        server.ask_until(lambda db: db.execute("SELECT count(*) = 2 FROM lines").fetchone()[0]
                         and db.execute("SELECT bool_and(epoch > 0) FROM cenote_catalog.sinks").fetchone()[0]
                         and db.execute("SELECT count(*) = 2 FROM cenote_catalog.errors").fetchone()[0])
        ((server.aggregate,),) = server.sql("SELECT \"table\" FROM cenote_catalog.state_tables WHERE view = 'by_id' AND key_columns = 'id, at' AND rows = 3 "
                                            "ORDER BY length(\"table\") LIMIT 1")
        yield server


def live(server, condition="true"):
    """Rows of the inventory as psql prints them."""
    text = server.psql(f'SELECT view, operator, "table", key_group, key, value, bytes FROM cenote_catalog.state WHERE {condition}', "-F", "\t")
    rows = [line.split("\t") for line in text.splitlines()]
    return [(view or None, operator, table, int(group), key, value, int(size)) for view, operator, table, group, key, value, size in rows]


def test_it_is_the_union_of_all_state_tables(kept):
    rows = live(kept)
    entries = {entry["name"]: entry for entry in kept.readables() if entry["kind"] == "state"}
    with kept.connect() as db:
        tables = db.execute('SELECT view, operator, "table" FROM cenote_catalog.state_tables WHERE rows > 0').fetchall()
    assert {row[:3] for row in rows} == set(tables) | {(None, "source", "cenote_catalog.errors")}
    for _, _, table in tables:
        name = f"cenote_state.{table}"
        text = kept.get(f"/api/v1/queryable_state/{quote(name)}/scan.ndjson").text
        told = Counter(json.dumps(json.loads(line), sort_keys=True) for line in text.splitlines())
        here = [(json.loads(row[4]), json.loads(row[5])) for row in rows if row[2] == table]
        assert Counter(json.dumps({**key, **value}, sort_keys=True) for key, value in here) == told, name
        assert {tuple(key) for key, _ in here} == {tuple(entries[name]["key"])}, name
        assert not any(set(key) & set(value) for key, value in here)
    bad = [json.loads(row[5]) for row in rows if row[2] == "cenote_catalog.errors"]
    assert [(row["source"], row["text"]) for row in bad] == [("lines", "no json")]
    kinds = {row[1] for row in rows}
    assert {"source", "sink", "errors", "aggregate", "join"} <= kinds, kinds


def test_keys_and_values_have_every_digit(kept):
    (row,) = [row for row in live(kept, f"\"table\" = '{kept.aggregate}'") if str(BIG) in row[4]]
    assert json.loads(row[4]) == {"id": str(BIG), "at": "2026-01-02T03:04:05.678901Z"}
    assert str(TOTAL) in json.loads(row[5]).values()
    with kept.connect() as db:
        digits = db.execute("SELECT (key->>'id')::bigint FROM cenote_catalog.state WHERE view = 'by_id' AND operator = 'aggregate' ORDER BY 1 DESC LIMIT 1")
        assert digits.fetchone() == (BIG,)


def test_another_program_counts_the_same(kept, tmp_path):
    sql = "SELECT view, \"table\", key_group, key, value, bytes FROM cenote_catalog.state WHERE view = 'by_id'"
    done = cenote("state", "query", "--url", kept.url, "--sql", sql, "--format", "ndjson")
    assert done.returncode == 0, done.stderr
    lines = tmp_path / "state.ndjson"
    lines.write_text(done.stdout)
    judge = duckdb.sql(f"SELECT max(CAST(key->>'id' AS BIGINT)), count(*), sum(bytes) FROM read_json('{lines}', columns = "
                       "{'view': 'TEXT', 'table': 'TEXT', 'key_group': 'INT', 'key': 'JSON', 'value': 'JSON', 'bytes': 'BIGINT'}) "
                       f"WHERE \"table\" = '{kept.aggregate}'").fetchall()
    told = kept.sql("SELECT max((key->>'id')::bigint), count(*), sum(bytes)::bigint FROM cenote_catalog.state WHERE \"table\" = %s", (kept.aggregate,))
    assert judge == told and judge[0][:2] == (BIG, 3)


def test_a_checkpoint_holds_the_same_rows_as_the_server(kept):
    with kept.connect() as db:
        db.execute("CREATE SAVEPOINT inventory")
        root = kept.cwd / "ckpt"
        # A checkpoint makes sinks note how far they have come, which is behind its epoch.
        here = Counter(live(kept, "operator <> 'sink'"))
        sql = "SELECT view, operator, \"table\", key_group, key::text AS key, value::text AS value, bytes FROM {} WHERE operator <> 'sink'"
        for name in ("state", "cenote_catalog.state"):
            done = cenote("state", "query", "--from", root, "--sql", sql.format(name))
            assert done.returncode == 0, done.stderr
            assert Counter(tuple(json.loads(line).values()) for line in done.stdout.splitlines()) == here
        then = db.execute(sql.format("cenote_catalog.state AS OF SAVEPOINT inventory")).fetchall()
        assert Counter(then) == here
        db.execute("INSERT INTO people VALUES ('new', 'oslo')")
        assert Counter(db.execute(sql.format("cenote_catalog.state AS OF SAVEPOINT inventory")).fetchall()) == here
        assert Counter(live(kept, "operator <> 'sink'")) != here
        db.execute("DELETE FROM people WHERE who = 'new'")
        groups = "SELECT \"table\", key_group, count(*) AS n FROM {} WHERE operator <> 'sink' GROUP BY 1, 2 ORDER BY 1, 2"
        done = cenote("state", "query", "--from", root, "--sql", groups.format("state"))
        assert [tuple(json.loads(line).values()) for line in done.stdout.splitlines()] == db.execute(groups.format("cenote_catalog.state")).fetchall()
        epoch = db.execute("SELECT cenote_epoch()").fetchone()[0]
        with pytest.raises(psycopg.Error) as raised:
            db.execute(f"SELECT count(*) FROM cenote_catalog.state AS OF EPOCH {epoch}")
        assert raised.value.sqlstate == "0A000" and raised.value.diag.source_function == "STATE-0107"


def test_it_is_read_as_tables_are(kept, name):
    with kept.connect() as db:
        rows = db.execute('SELECT count(*) FROM cenote_catalog.state WHERE "table" = %s', (kept.aggregate,), prepare=True)
        assert rows.fetchone() == (3,)
        assert db.execute("SELECT count(*) FROM cenote_catalog.state WHERE \"table\" = 'no_such'").fetchone() == (0,)
        assert db.execute("SELECT count(*), sum(bytes) > 0 FROM cenote_catalog.state").fetchone()[1]
        db.execute(f"CREATE VIEW {name} AS SELECT \"table\", count(*) AS keys FROM cenote_catalog.state GROUP BY 1")
        assert db.execute(f"SELECT keys FROM {name} WHERE \"table\" = '{kept.aggregate}'").fetchone() == (3,)
        sql = ("SELECT count(*) FROM cenote_catalog.state a JOIN cenote_catalog.state b USING (\"table\", key_group, bytes) "
               f"JOIN cenote_state.{kept.aggregate} s ON s.id = (a.key->>'id')::bigint WHERE a.\"table\" = '{kept.aggregate}' AND a.key::text = b.key::text")
        assert db.execute(sql).fetchone() == (3,)
        db.execute("BEGIN")
        db.execute("DECLARE c CURSOR FOR SELECT \"table\" FROM cenote_catalog.state WHERE view = 'by_id'")
        assert len(db.execute("FETCH 2 FROM c").fetchall()) == 2
        db.execute("ROLLBACK")
        assert any("rows: 1" in line for line, in db.execute("EXPLAIN ANALYZE SELECT count(*) FROM cenote_catalog.state").fetchall())
        columns = db.execute("SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'cenote_catalog' AND table_name = 'state' "
                             "ORDER BY ordinal_position").fetchall()
        assert columns == [("view", "text"), ("operator", "text"), ("table", "text"), ("key_group", "integer"), ("key", "json"), ("value", "json"),
                           ("bytes", "bigint")]
        for statement in (f"CREATE MATERIALIZED VIEW {name}_m AS SELECT count(*) AS n FROM cenote_catalog.state",
                          f"INSERT INTO people SELECT \"table\", 'x' FROM cenote_catalog.state"):
            with pytest.raises(psycopg.Error) as raised:
                db.execute(statement)
            assert raised.value.sqlstate == "0A000", statement
        db.execute(f"DROP VIEW {name}")


def test_many_views_are_read_at_one_epoch_while_others_write(fresh):
    server = fresh(workers=2)
    with server.connect() as db:
        db.execute("CREATE TABLE a (k BIGINT, v BIGINT)")
        db.execute("CREATE TABLE b (k BIGINT, v BIGINT)")
        for number in range(30):
            table = "ab"[number % 2]
            db.execute(f"CREATE MATERIALIZED VIEW v{number} AS SELECT k, count(*) AS n, sum(v) AS s FROM {table} GROUP BY k")
    stop = threading.Event()

    def write():
        with server.connect() as writer:
            for turn in range(100_000):
                if stop.is_set():
                    return
                # Of each transaction both tables have one row.
                writer.execute(f"BEGIN; INSERT INTO a VALUES ({turn % 97}, 1); INSERT INTO b VALUES ({turn % 89}, 1); COMMIT")

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen = set()
    try:
        with server.connect() as db:
            sql = ("SELECT \"table\", sum((value->>'group_rows')::bigint)::bigint, (SELECT count(*) FROM a), (SELECT count(*) FROM b), "
                   "(SELECT sum(n)::bigint FROM v7) FROM cenote_catalog.state WHERE operator = 'aggregate' GROUP BY 1")
            while len(seen) < 15:
                rows = db.execute(sql).fetchall()
                sums = {number for row in rows for number in row[1:]}
                if rows:
                    assert len(rows) == 30 and len(sums) == 1, rows
                    seen |= sums
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def test_views_may_come_and_go_while_it_is_read(fresh):
    server = fresh(workers=2)
    with server.connect() as db:
        db.execute("CREATE TABLE a (k BIGINT)")
        db.execute("INSERT INTO a VALUES (1), (2)")
        db.execute("CREATE MATERIALIZED VIEW stays AS SELECT k, count(*) AS n FROM a GROUP BY k")
    stop = threading.Event()

    def change():
        with server.connect() as other:
            while not stop.is_set():
                other.execute("CREATE MATERIALIZED VIEW goes AS SELECT k, count(*) AS n FROM a GROUP BY k")
                other.execute("DROP MATERIALIZED VIEW goes")

    changer = threading.Thread(target=change)
    changer.start()
    try:
        with server.connect() as db:
            for _ in range(150):
                rows = db.execute("SELECT view, count(*) FROM cenote_catalog.state WHERE operator = 'aggregate' GROUP BY 1 ORDER BY 1").fetchall()
                assert ("stays", 2) in rows and set(rows) <= {("stays", 2), ("goes", 2)}, rows
    finally:
        stop.set()
        changer.join()
