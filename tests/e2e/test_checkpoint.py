"""CHECKPOINT: everything at one epoch, in files that other programs read. The judges: pyarrow, DuckDB over what it read, and SQL at that epoch."""
import json
import threading
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.ipc
import pytest


def newest(root):
    """The manifest that was published last."""
    manifests = [json.loads(path.read_text()) for path in Path(root).glob("*/manifest.json")]
    return max(manifests, key=lambda manifest: manifest["sequence"])


def table(root, manifest, schema, name):
    """A table's rows as pyarrow reads them; a row that is there several times comes as often."""
    entry, = [entry for entry in manifest["tables"] if (entry["schema"], entry["name"]) == (schema, name)]
    parts = [part for bucket in entry["buckets"] for part in bucket["parts"]]
    rows = []
    for part in parts:
        for row in pa.ipc.open_file(Path(root) / part["path"]).read_all().to_pylist():
            rows += [row] * row.pop("cenote_weight", 1)
    assert entry["rows"] == len(rows)
    return rows


def rows_of(db, sql):
    cursor = db.execute(sql)
    names = [column.name for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor.fetchall()]


def same(one, other):
    def key(row):
        return sorted((name, repr(value)) for name, value in row.items())
    assert sorted(one, key=key) == sorted(other, key=key)


def test_a_checkpoint_holds_tables_views_and_state_as_typed_files(fresh, tmp_path):
    server = fresh(args=["--checkpoint-url", f"file://{tmp_path}/ckpt"])
    root = tmp_path / "ckpt"
    with server.connect() as db:
        db.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, who TEXT, amount NUMERIC(20,2), at TIMESTAMP)")
        db.execute("CREATE TABLE people (who TEXT, city TEXT)")
        db.execute("""INSERT INTO orders VALUES (1, 'ann', 9007199254740993.25, '2026-01-02 03:04:05.678901'), (2, 'bob', 1.10, NULL),
                                                (3, NULL, -0.01, NULL), (4, 'ann', 2.00, NULL)""")
        db.execute("INSERT INTO people VALUES ('ann', 'rome'), ('ann', 'rome'), ('bob', NULL)")
        db.execute("CREATE MATERIALIZED VIEW by_who AS SELECT who, sum(amount) AS total, count(*) AS n FROM orders GROUP BY who")
        db.execute("CREATE MATERIALIZED VIEW cities AS SELECT o.who, p.city FROM orders o JOIN people p ON p.who = o.who")
        db.execute("CHECKPOINT")
        manifest = newest(root)
        assert db.execute("SHOW CHECKPOINTS").fetchone()[:4] == (manifest["id"], "whole", None, manifest["epoch"])
        for name in ["orders", "by_who", "cities"]:
            same(table(root, manifest, "public", name), rows_of(db, f"SELECT * FROM {name}"))
        kept = table(root, manifest, "public", "orders")
        assert {row["amount"] for row in kept} >= {Decimal("9007199254740993.25"), Decimal("-0.01")}
        states = db.execute("SELECT \"table\" FROM cenote_catalog.state_tables ORDER BY 1").fetchall()
        assert len(states) >= 3
        for name, in states:
            same(table(root, manifest, "cenote_state", name), rows_of(db, f'SELECT * FROM cenote_state."{name}"'))
        # Another engine over the files alone.
        orders = pa.Table.from_pylist(kept)
        answer = duckdb.sql("SELECT who, sum(amount) AS total, count(*) AS n FROM orders GROUP BY who").fetchall()
        assert sorted(answer, key=repr) == sorted(((row["who"], row["total"], row["n"]) for row in table(root, manifest, "public", "by_who")), key=repr)
        assert orders.num_rows == 4


def test_all_of_a_checkpoint_is_of_one_epoch_while_writers_are_at_work(fresh):
    server = fresh(workers=2)
    with server.connect() as db:
        db.execute("CREATE TABLE acct (id INT PRIMARY KEY, owner TEXT, bal BIGINT)")
        db.execute("INSERT INTO acct SELECT x, 'o' || (x % 7)::text, 100 FROM generate_series(1, 70) AS s(x)")
        db.execute("CREATE MATERIALIZED VIEW per_owner AS SELECT owner, sum(bal)::bigint AS s FROM acct GROUP BY owner")
        db.execute("CREATE MATERIALIZED VIEW total AS SELECT sum(s)::bigint AS s FROM per_owner")
    stop = threading.Event()

    def move():
        i = 0
        with server.connect() as connection:
            while not stop.is_set():
                i += 1
                connection.execute(f"UPDATE acct SET bal = bal + CASE WHEN id % 2 = 0 THEN {i} ELSE -{i} END")

    writer = threading.Thread(target=move)
    writer.start()
    try:
        with server.connect() as db:
            epochs = []
            for _ in range(8):
                db.execute("CHECKPOINT")
                root = Path(server.data) / "checkpoints"
                manifest = newest(root)
                epochs.append(manifest["epoch"])
                accounts = table(root, manifest, "public", "acct")
                owners = {}
                for row in accounts:
                    owners[row["owner"]] = owners.get(row["owner"], 0) + row["bal"]
                assert sum(owners.values()) == 7000
                assert {row["owner"]: row["s"] for row in table(root, manifest, "public", "per_owner")} == owners
                assert table(root, manifest, "public", "total") == [{"s": 7000}]
                state, = [entry["name"] for entry in manifest["tables"] if entry["schema"] == "cenote_state" and entry.get("view") == "per_owner" and "operator" in entry]
                assert sum(row["group_rows"] for row in table(root, manifest, "cenote_state", state)) == 70
            assert epochs == sorted(set(epochs)), "writers were at work meanwhile"
            listed = db.execute("SELECT id, status, epoch FROM cenote_catalog.checkpoints ORDER BY epoch").fetchall()
            assert [row[1:] for row in listed] == [("whole", epoch) for epoch in epochs]
    finally:
        stop.set()
        writer.join()


def test_savepoints_have_names_that_are_taken_once(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY)")
        db.execute("CREATE SAVEPOINT Before_Deploy")
        with pytest.raises(psycopg.errors.DuplicateObject, match="before_deploy"):
            db.execute("CREATE SAVEPOINT before_deploy")
        listed = db.execute("SELECT savepoint FROM cenote_catalog.checkpoints").fetchall()
        assert listed == [("before_deploy",)], "nothing is written for a name that is taken"
        with pytest.raises(psycopg.Error, match='savepoint "nothing"'):
            db.execute("DROP SAVEPOINT nothing")
        db.execute("DROP SAVEPOINT IF EXISTS nothing")
        db.execute("DROP SAVEPOINT before_deploy")
        assert db.execute("SELECT savepoint FROM cenote_catalog.checkpoints").fetchall() == [(None,)]
        with pytest.raises(psycopg.errors.ActiveSqlTransaction):
            with db.transaction():
                db.execute("SELECT 1")
                db.execute("INSERT INTO t VALUES (1)")
                db.execute("CHECKPOINT")


def test_a_folder_belongs_to_one_server_and_ids_go_on_after_a_restart(fresh, tmp_path):
    args = ["--checkpoint-url", str(tmp_path / "ckpt")]
    server = fresh(args=args)
    with server.connect() as db:
        db.execute("CHECKPOINT")
    server.kill()
    server.start()
    with server.connect() as db:
        db.execute("CHECKPOINT")
        ids = [row[0] for row in db.execute("SHOW CHECKPOINTS").fetchall()]
    assert len(set(ids)) == 2 and ids == sorted(ids)
    with fresh(args=args).connect() as db:
        with pytest.raises(psycopg.Error, match="another server|belongs to"):
            db.execute("CHECKPOINT")


def test_a_damaged_checkpoint_is_listed_as_such(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CHECKPOINT")
        path, = (Path(server.data) / "checkpoints").glob("*/manifest.json")
        path.write_text(path.read_text().replace('"epoch"', '"apoch"', 1))
        (_, status, *_, error), = db.execute("SHOW CHECKPOINTS").fetchall()
        assert status == "damaged" and path.parent.name in error, (status, error)
        db.execute("CHECKPOINT")
        assert sorted(row[1] for row in db.execute("SHOW CHECKPOINTS").fetchall()) == ["damaged", "whole"]
