"""Data directories that older releases wrote: checkpoints and log together are opened by every build, and newer formats are refused by name.

`GOLDEN=write pytest e2e/test_formats.py` makes one for a new format with the binary under test, where there is none yet; what a release has
written is never written again."""
import json
import os
import shutil
from pathlib import Path

import pytest
from harness import Server

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "data"
FORMAT = "v1"
#: Behind the second checkpoint are commits that are in the log alone.
BEFORE = [
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, who TEXT, amount NUMERIC(18,2), made TIMESTAMPTZ, tags TEXT[], place UUID UNIQUE, extra JSONB)",
    "CREATE TABLE notes (who TEXT, note TEXT)",
    "CREATE VIEW plain AS SELECT id, amount FROM orders WHERE amount > 1",
    "CREATE MATERIALIZED VIEW by_who AS SELECT who, sum(amount) AS total, count(*) AS n, avg(id) AS mean, min(amount) AS least FROM orders GROUP BY who",
    "CREATE MATERIALIZED VIEW noted AS SELECT o.id, n.note FROM orders o LEFT JOIN notes n ON n.who = o.who",
    "CREATE MATERIALIZED VIEW best AS SELECT id, amount FROM orders ORDER BY amount DESC NULLS LAST, id LIMIT 2",
    "CREATE MATERIALIZED VIEW texts AS SELECT who, string_agg(note, ',' ORDER BY note) AS notes FROM notes GROUP BY who",
    "CREATE MATERIALIZED VIEW unsafe AS SELECT id, 100 / (id - 2) AS q FROM orders",
    "CREATE INDEX notes_by_who ON notes (who)",
    """INSERT INTO orders VALUES
       (1, 'ann', 12.50, '2026-01-02 03:04:05.678901+00', '{a,NULL,"b c"}', '00000000-0000-0000-0000-00000000000a', '{"k": [1, null]}'),
       (2, 'bob', -0.01, NULL, '{}', NULL, 'null'), (9007199254740993, NULL, 9999999999999999.99, '1970-01-01 00:00:00+00', NULL, NULL, NULL)""",
    "INSERT INTO notes VALUES ('ann', 'one'), ('ann', 'one'), ('eve', NULL), (NULL, 'longer than twelve bytes')",
    "CREATE SAVEPOINT first",
    "DELETE FROM notes WHERE who = 'eve'",
    "UPDATE orders SET amount = amount + 1 WHERE id = 1",
    "CHECKPOINT",
    "INSERT INTO orders (id, who, amount) VALUES (3, 'ann', 7), (4, 'cid', NULL)",
    "DELETE FROM orders WHERE id = 2",
    "CREATE MATERIALIZED VIEW late AS SELECT who FROM orders EXCEPT SELECT who FROM notes",
    "DROP INDEX notes_by_who",
    "INSERT INTO notes VALUES ('cid', 'late')",
]
READ = ["orders", "notes", "plain", "by_who", "noted", "best", "texts", "unsafe", "late"]


def contents(server):
    """Everything as JSON would have it, and the digest of all state."""
    with server.connect() as db:
        rows = {name: sorted(repr(row) for row in db.execute(f"SELECT * FROM {name}").fetchall()) for name in READ}
        rows["orders as of first"] = sorted(repr(row) for row in db.execute("SELECT id, amount FROM orders AS OF SAVEPOINT first").fetchall())
    return {"rows": rows, "digests": json.loads(json.dumps(server.digests()))}


def make(folder):
    with Server(workers=2, data_dir=folder / "data", args=["--checkpoint-interval", "0s"]) as server:
        with server.connect() as db:
            for statement in BEFORE:
                db.execute(statement)
        held = contents(server)
        server.kill()
    for lock in folder.glob("data/**/*lock*"):
        lock.unlink()
    (folder / "contents.json").write_text(json.dumps(held, indent=1, sort_keys=True) + "\n")


@pytest.mark.skipif(os.environ.get("GOLDEN") != "write", reason="makes the files for a new format version")
def test_write_golden_data():
    folder = GOLDEN / FORMAT
    assert not folder.exists(), "files of a released format are never rewritten"
    folder.mkdir(parents=True)
    make(folder)


@pytest.mark.parametrize("version", sorted(path.name for path in GOLDEN.glob("v*")) or [FORMAT])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_data_of_every_release_is_opened_and_written_on(version, workers, tmp_path):
    held = json.loads((GOLDEN / version / "contents.json").read_text())
    copy = shutil.copytree(GOLDEN / version / "data", tmp_path / "data")
    with Server(workers=workers, data_dir=copy, args=["--checkpoint-interval", "0s"]) as server:
        assert "made anew" not in server.log_text(), server.log_text()
        assert contents(server) == held
        server.sql("INSERT INTO notes VALUES ('dan', 'new')")
        server.sql("CHECKPOINT")
        server.sql("DELETE FROM notes WHERE who = 'dan'")
        server.restart()
        assert contents(server) == held


def newest_manifest(data):
    places = (data / "checkpoints").glob("*/manifest.json")
    return max(places, key=lambda place: json.loads(place.read_text())["sequence"])


@pytest.mark.parametrize("place, code", [
    (newest_manifest, "CKPT-0103"),
    (lambda data: data / "checkpoints" / "server.json", "CKPT-0003"),
    (lambda data: data / "log" / "log.json", "WAL-0004"),
])
def test_what_a_newer_release_wrote_is_refused_by_name(place, code, tmp_path):
    copy = shutil.copytree(GOLDEN / FORMAT / "data", tmp_path / "data")
    path = place(copy)
    before = {file: file.read_bytes() for file in Path(copy).rglob("*") if file.is_file()}
    text = path.read_text()
    newer = text.replace('"version": 1,', '"version": 7,', 1).replace('"version":1,', '"version":7,', 1)
    assert newer != text
    path.write_text(newer)
    with pytest.raises(RuntimeError) as refused:
        Server(data_dir=copy, ready_timeout=15)
    for told in [code, str(path), "format version 7"]:
        assert told in str(refused.value), refused.value
    path.write_text(text)
    after = {file: file.read_bytes() for file in Path(copy).rglob("*") if file.is_file() and "lock" not in file.name}
    assert after == {file: data for file, data in before.items() if "lock" not in file.name}, "nothing was changed"
