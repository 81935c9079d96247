"""CHECKPOINT: everything at one epoch, in files that other programs read. The judges: pyarrow, DuckDB over what it read, and SQL at that epoch."""
import json
import subprocess
import threading
from decimal import Decimal
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.ipc
import pytest
from harness import binary, cenote


def newest(root):
    """The manifest that was published last."""
    manifests = [json.loads(path.read_text()) for path in Path(root).glob("*/manifest.json")]
    return max(manifests, key=lambda manifest: manifest["sequence"])


def table(root, manifest, schema, name):
    """A table's rows as pyarrow reads them, parts merged as docs/formats/checkpoint.md says; a row that is there several times comes as often."""
    entry, = [entry for entry in manifest["tables"] if (entry["schema"], entry["name"]) == (schema, name)]
    merged = {}
    for part in [part for bucket in entry["buckets"] for part in bucket["parts"]]:
        named = set()
        for row in pa.ipc.open_file(Path(root) / part["path"]).read_all().to_pylist():
            key = repr([row[column] for column in entry["identity"]])
            assert key not in named, f"{part['path']} names {key} twice"
            named.add(key)
            if row.pop("cenote_deleted", False):
                merged.pop(key, None)
            else:
                merged[key] = row
    rows = [row for row in merged.values() for _ in range(row.pop("cenote_weight", 1))]
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
    server = fresh(workers=2, args=["--checkpoint-retain", "20"])
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


def test_old_checkpoints_are_deleted_and_savepoints_are_not(fresh):
    server = fresh(args=["--checkpoint-retain", "2"])
    root = Path(server.data) / "checkpoints"
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT)")
        db.execute("INSERT INTO t VALUES (1), (1)")
        db.execute("CREATE SAVEPOINT first")
        for n in range(4):
            db.execute(f"INSERT INTO t VALUES ({n + 2})")
            db.execute("CHECKPOINT")
        listed = db.execute("SELECT id, savepoint FROM cenote_catalog.checkpoints ORDER BY id").fetchall()
        assert [name for _, name in listed] == ["first", None, None]
        folders = {path.name for path in root.iterdir() if path.is_dir()} - {"savepoints"}
        assert folders == {id for id, _ in listed}, "nothing else is left"
        assert db.execute("SELECT count(*) FROM t AS OF SAVEPOINT first").fetchone() == (2,)
        db.execute("DROP SAVEPOINT first")
        db.execute("CHECKPOINT")
        assert len(db.execute("SHOW CHECKPOINTS").fetchall()) == 2


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
    with pytest.raises(RuntimeError, match="CKPT-0001.*it belongs to another server"):
        fresh(args=args)


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


def test_tables_views_and_state_are_read_as_of_a_checkpoint_and_joined_with_now(fresh):
    server = fresh(workers=2, args=["--retain-epochs", "2", "--retain-time", "0s"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (who TEXT, n BIGINT)")
        db.execute("INSERT INTO t VALUES ('ann', 1), ('ann', 2), ('bob', 9007199254740993), ('bob', 9007199254740993)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT who, sum(n) AS total FROM t GROUP BY who")
        db.execute("CREATE MATERIALIZED VIEW gone AS SELECT DISTINCT who FROM t")
        db.execute("CREATE VIEW plain AS SELECT max(total) AS most FROM v")
        state, = db.execute("SELECT \"table\" FROM cenote_catalog.state_tables WHERE view = 'v'").fetchone()
        then = {sql: sorted(db.execute(sql.format("")).fetchall(), key=repr)
                for sql in ["SELECT * FROM t{}", "SELECT * FROM v{}", "SELECT who FROM gone{}", "SELECT * FROM plain{}", f'SELECT * FROM cenote_state."{state}"{{}}']}
        db.execute("CREATE SAVEPOINT before_deploy")
        (id, *_, epoch), = db.execute("SELECT id, epoch FROM cenote_catalog.checkpoints").fetchall()
        db.execute("DELETE FROM t WHERE who = 'bob'")
        for n in range(20):
            db.execute(f"INSERT INTO t VALUES ('eve', {n})")
        db.execute("DROP MATERIALIZED VIEW gone")
        for sql, wanted in then.items():
            for clause in ["AS OF SAVEPOINT before_deploy", "AS OF SAVEPOINT 'before_deploy'", f"AS OF CHECKPOINT '{id}'", f"AS OF EPOCH {epoch}"]:
                assert sorted(db.execute(sql.format(" " + clause)).fetchall(), key=repr) == wanted, (sql, clause)
        both = db.execute("""SELECT coalesce(a.who, b.who), a.total, b.total FROM v AS OF SAVEPOINT before_deploy a
                             FULL JOIN v b ON a.who = b.who ORDER BY 1""").fetchall()
        assert both == [("ann", 3, 3), ("bob", 18014398509481986, None), ("eve", None, 190)]
        assert db.execute(f'SELECT count(*) FROM cenote_state."{state}" AS OF SAVEPOINT before_deploy a JOIN cenote_state."{state}" b USING (who)').fetchone() == (1,)


def test_what_no_checkpoint_holds_is_refused_by_name(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (n INT)")
        db.execute("CREATE SAVEPOINT s1")
        db.execute("CREATE TABLE later (n INT)")
        for sql, kind, text in [
            ("SELECT * FROM t AS OF SAVEPOINT s2", psycopg.errors.UndefinedObject, "the savepoints there are: s1"),
            ("SELECT * FROM t AS OF CHECKPOINT 'x'", psycopg.Error, "x"),
            ("SELECT * FROM later AS OF SAVEPOINT s1", psycopg.errors.UndefinedTable, 'relation "later" is not in checkpoint'),
            ("SELECT * FROM nowhere AS OF SAVEPOINT s1", psycopg.errors.UndefinedTable, 'relation "nowhere" is not in checkpoint'),
            ("SELECT * FROM t AS OF SAVEPOINT", psycopg.errors.SyntaxError, "takes a name"),
            ("SELECT * FROM t AS OF CHECKPOINT 5", psycopg.errors.SyntaxError, "takes a name"),
            ("SUBSCRIBE TO t AS OF SAVEPOINT s1", psycopg.errors.SyntaxError, "goes on from an epoch"),
            ("CREATE MATERIALIZED VIEW v AS SELECT * FROM t AS OF SAVEPOINT s1", psycopg.errors.FeatureNotSupported, "not a query"),
        ]:
            with pytest.raises(kind) as raised:
                db.execute(sql)
            assert text in str(raised.value), (sql, str(raised.value))
        part, = (Path(server.data) / "checkpoints").glob("*/public.t/*.arrow") if db.execute("INSERT INTO t VALUES (1)") and db.execute("CREATE SAVEPOINT s3") else ()
        data = bytearray(part.read_bytes())
        data[len(data) // 2] ^= 1
        part.write_bytes(data)
        with pytest.raises(psycopg.Error) as raised:
            db.execute("SELECT * FROM t AS OF SAVEPOINT s3")
        assert part.name in str(raised.value), "a damaged file is named, not read"
        assert db.execute("SELECT * FROM t").fetchall() == [(1,)]


def test_columns_may_have_any_name_that_is_not_a_system_columns(fresh):
    """State tables have columns beside those of users: no name of theirs is in the way, or it is refused when it is made."""
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT, multiplicity INT, count INT, count_2 INT, x INT)")
        db.execute("CREATE MATERIALIZED VIEW j AS SELECT a.id, b.multiplicity FROM t a JOIN t b ON a.id = b.id")
        db.execute("CREATE MATERIALIZED VIEW g AS SELECT count AS a, count_2 AS b, count(*) AS n, count(x) AS m, count(DISTINCT x) AS d FROM t GROUP BY 1, 2")
        db.execute("CREATE MATERIALIZED VIEW top AS SELECT id, multiplicity FROM t ORDER BY x LIMIT 2")
        db.execute("INSERT INTO t VALUES (1, 2, 3, 4, 5), (1, 7, 3, 4, 6)")
        db.execute("CHECKPOINT")
        root = Path(server.data) / "checkpoints"
        same(table(root, newest(root), "public", "j"), [{"id": 1, "multiplicity": n} for n in (2, 7, 2, 7)])
        for name, in db.execute("SELECT \"table\" FROM cenote_catalog.state_tables").fetchall():
            same(table(root, newest(root), "cenote_state", name), rows_of(db, f'SELECT * FROM cenote_state."{name}"'))
        for column in ["_row_id", "cenote_weight", "cenote_deleted"]:
            with pytest.raises(psycopg.errors.DuplicateColumn, match="system column"):
                db.execute(f"CREATE TABLE u ({column} INT)")
            with pytest.raises(psycopg.errors.DuplicateColumn, match="system column"):
                db.execute(f"CREATE MATERIALIZED VIEW u AS SELECT id AS {column} FROM t")


def test_what_is_wrong_with_one_savepoint_is_told_and_the_others_are_read(fresh):
    server = fresh()
    root = Path(server.data) / "checkpoints"
    with server.connect() as db:
        db.execute("CREATE TABLE t (n INT)")
        db.execute("INSERT INTO t VALUES (1)")
        for name in "abc":
            db.execute(f"CREATE SAVEPOINT {name}")
        (root / "savepoints" / "a.json").write_bytes(b"")
        lost, = db.execute("SELECT id FROM cenote_catalog.checkpoints WHERE savepoint = 'c'").fetchone()
        (root / lost / "manifest.json").unlink()
        assert db.execute("SELECT n FROM t AS OF SAVEPOINT b").fetchall() == [(1,)]
        with pytest.raises(psycopg.Error, match="a.json"):
            db.execute("SELECT n FROM t AS OF SAVEPOINT a")
        damaged = db.execute("SELECT id, savepoint FROM cenote_catalog.checkpoints WHERE status = 'damaged' ORDER BY 1").fetchall()
        assert damaged == [(lost, "c"), ("savepoints/a.json", None)]
        for name in ['""', '"' + "x" * 64 + '"']:
            before = len(db.execute("SHOW CHECKPOINTS").fetchall())
            with pytest.raises(psycopg.Error):
                db.execute(f"CREATE SAVEPOINT {name}")
            assert len(db.execute("SHOW CHECKPOINTS").fetchall()) == before
    told = cenote("verify", str(root))
    assert told.returncode == 1 and "a.json" in told.stdout and f"checkpoint {lost}" in told.stdout
    with open("/dev/full", "w") as full:
        done = subprocess.run([binary(), "verify", str(root)], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "panicked" not in done.stderr
