"""Bit rot: whichever file of a checkpoint is damaged, however, a start names it and serves nothing, and `cenote verify` names it too.

A start checks each file when it reads it, once: tables on threads of their own, views' state on the workers, and the rest before any door opens."""
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from harness import Server, cenote
from harness.xxh3 import xxh3_64

VIEWS = {
    "sums": "SELECT who, sum(n) AS total, count(*) AS rows, max(n) AS most FROM t GROUP BY who",
    "pairs": "SELECT t.id, k.note FROM t LEFT JOIN keyless k ON k.n = t.n",
    "best": "SELECT id, n FROM t ORDER BY n DESC, id LIMIT 3",
    "totals": "SELECT count(*) AS n, sum(rows) AS rows FROM sums",
    "unsafe": "SELECT id, 10 / (n - 3) AS q FROM t",
}


def newest(root):
    return max((json.loads(path.read_text()) for path in Path(root).glob("*/manifest.json")), key=lambda manifest: manifest["sequence"])


@pytest.fixture(scope="module")
def killed():
    """A server that was killed behind its second checkpoint, which adds to the first; and what it held."""
    with Server(workers=2, args=["--checkpoint-interval", "0s"]) as server:
        with server.connect() as db:
            db.execute("CREATE TABLE t (id INT PRIMARY KEY, who TEXT, n BIGINT UNIQUE)")
            db.execute("CREATE TABLE keyless (n BIGINT, note TEXT)")
            for name, query in VIEWS.items():
                db.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            db.execute("INSERT INTO t SELECT x, 'who ' || (x % 7)::text, x FROM generate_series(1, 60) AS s(x)")
            db.execute("INSERT INTO keyless SELECT x % 20, 'a note that is longer than twelve bytes' FROM generate_series(1, 40) AS s(x)")
            db.execute("CHECKPOINT")
            db.execute("UPDATE t SET n = n + 1000 WHERE id < 5")
            db.execute("DELETE FROM keyless WHERE n = 3")
            db.execute("CHECKPOINT")
            db.execute("INSERT INTO t VALUES (0, 'who 0', -1)")
        digests = server.digests()
        server.kill()
        yield server, digests


def files_of(server):
    """Every file that a start depends on, from the root of checkpoints."""
    manifest = newest(server.data / "checkpoints")
    parts = [part["path"] for table in manifest["tables"] for bucket in table["buckets"] for part in bucket["parts"]]
    kinds = {Path(path).name.split(".")[1] for path in parts}
    assert kinds == {"base", "delta"} and len(parts) > 12, parts
    return parts + [f"{manifest['id']}/manifest.json", "server.json"]


def damages(whole, rng):
    for _ in range(2):
        at = rng.randrange(len(whole))
        yield f"byte {at} of {len(whole)}", whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1:]
    yield "half of it", whole[:len(whole) // 2]
    yield "empty", b""


def refused(server):
    """What a start says that must not succeed."""
    done = subprocess.run(server.command(), cwd=server.cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30)
    assert done.returncode == 1, done.stdout
    assert "listening" not in done.stdout and "panicked" not in done.stdout, done.stdout
    return done.stdout


def test_a_start_names_every_damaged_file_and_serves_nothing(killed):
    server, digests = killed
    root, rng = server.data / "checkpoints", random.Random(11)
    for path in files_of(server):
        place = root / path
        whole = place.read_bytes()
        for case, damaged in damages(whole, rng):
            place.write_bytes(damaged)
            told = refused(server)
            assert str(place) in told and ("CKPT-0103" in told or path == "server.json"), (path, case, told)
            if path != "server.json":
                verified = cenote("verify", root)
                assert verified.returncode == 1 and path in verified.stdout, (path, case, verified)
        if path.endswith(".arrow"):
            place.unlink()
            told = refused(server)
            assert str(place) in told and "it is missing" in told, told
        place.write_bytes(whole)
    server.log.clear()
    server.start()
    try:
        assert server.digests() == digests
        assert "made anew" not in server.log_text()
    finally:
        server.kill()


def test_what_nothing_goes_on_from_is_checked_all_the_same(killed, tmp_path):
    """A view whose plan is not what it was is made anew of its inputs, for which it waits; its old files are read by nobody, and checked."""
    server, digests = killed
    copy = shutil.copytree(server.data, tmp_path / "data")
    manifest = newest(copy / "checkpoints")
    manifest["sections"]["plans"]["sums"] = ["another plan"]
    write_manifest(copy / "checkpoints", manifest)
    with Server(workers=2, data_dir=copy, args=["--checkpoint-interval", "0s"]) as other:
        for view in ("sums", "totals"):
            assert f"materialized view {view} is made anew" in other.log_text()
        assert other.digests() == digests
        other.kill()
        for name in ("sums", "totals"):
            table, = [table for table in manifest["tables"] if table["name"] == name]
            place = copy / "checkpoints" / table["buckets"][0]["parts"][0]["path"]
            whole = place.read_bytes()
            place.write_bytes(whole[:99] + bytes([whole[99] ^ 1]) + whole[100:])
            told = refused(other)
            assert "CKPT-0103" in told and str(place) in told, told
            place.write_bytes(whole)
        other.start()
        assert other.digests() == digests


def write_manifest(root, manifest):
    """Puts a manifest in the place of the one of its name, with a checksum that holds."""
    text = json.dumps({**manifest, "checksum": "0" * 16}, indent=2, ensure_ascii=False) + "\n"
    checksum = xxh3_64(text.encode())
    (root / manifest["id"] / "manifest.json").write_text(text.replace("0" * 16, checksum, 1))


@pytest.fixture
def disk(tmp_path):
    """A folder that is a disk of its own, of two megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True).returncode != 0:
        pytest.skip("only root makes small disks")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_told_and_the_next_checkpoint_is_good_when_there_is_room(disk, fresh):
    """Checkpoints on a disk of their own, which is full for a while; the log is elsewhere."""
    server = fresh(workers=2, args=["--checkpoint-url", f"file://{disk}/ckpt", "--checkpoint-interval", "0s"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT PRIMARY KEY, filler TEXT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, max(id) AS last FROM t")
        db.execute("INSERT INTO t VALUES (0, 'first')")
        db.execute("CHECKPOINT")
        first = newest(disk / "ckpt")
        db.execute("INSERT INTO t SELECT x, repeat(md5(x::text), 32) FROM generate_series(1, 4000) AS s(x)")
        for _ in range(2):
            with pytest.raises(Exception, match="No space left on device"):
                db.execute("CHECKPOINT")
            # It goes on, and what was there is whole.
            assert server.get("/readyz").status == 503
            assert db.execute("SELECT n FROM v").fetchall() == [(4001,)]
            assert newest(disk / "ckpt") == first
            assert cenote("verify", disk / "ckpt").returncode == 0
        db.execute("DELETE FROM t WHERE id > 100")
        assert db.execute("CHECKPOINT") and server.get("/readyz").status == 200
        assert cenote("verify", disk / "ckpt").returncode == 0
        left = {path.parent.parent.name for path in (disk / "ckpt").glob("*/*/*.arrow")}
        assert left <= {path.parent.name for path in (disk / "ckpt").glob("*/manifest.json")}, "nothing is left of what failed"
    server.kill()
    server.start()
    assert server.sql("SELECT n FROM v") == [(101,)]


def test_a_log_that_finds_no_room_acknowledges_nothing_and_loses_nothing(disk):
    """The log cannot go on behind a failed write: the server ends, and what was acknowledged is there when there is room again."""
    with Server(data_dir=disk / "data", args=["--checkpoint-interval", "0s"]) as server:
        acknowledged = 0
        with server.connect() as db:
            db.execute("CREATE TABLE t (id INT PRIMARY KEY, filler TEXT)")
            try:
                for part in range(200):
                    db.execute(f"INSERT INTO t SELECT x, repeat(md5(x::text), 8) FROM generate_series({part * 100}, {part * 100 + 99}) AS s(x)")
                    acknowledged += 100
            except Exception as error:
                told = str(error)
        assert 0 < acknowledged < 20_000, told
        server.kill()
        assert "No space left on device" in server.log_text() + told
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        server.log.clear()
        server.start()
        rows = server.sql("SELECT count(*), max(id) FROM t")[0]
        assert rows in [(acknowledged, acknowledged - 1), (acknowledged + 100, acknowledged + 99)], (rows, acknowledged)
        server.sql("INSERT INTO t VALUES (-1, 'again')")
        server.sql("CHECKPOINT")
