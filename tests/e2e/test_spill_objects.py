"""State in an object store: what is in the bucket and for how long, a start from the bucket alone, and a store that fails.

That it holds what the other backends hold is in `test_spill.py`. The store is moto's server, a process of its own.
"""
import re
import shutil

import psycopg
import pytest
from harness import backends, cenote
from harness.s3 import SECRET, ObjectStore, Proxy, refusal

OBJECT = ["--state-backend", "object", "--state-memory", "0"]
# So little for the buffers of changes that some of them are written.
SMALL = [*OBJECT, "--memory-limit", "1GiB"]
ROWS = 25_000


@pytest.fixture(scope="module")
def store():
    if "object" not in backends():
        pytest.skip("the binary was built without the backend object")
    with ObjectStore() as running:
        yield running


@pytest.fixture
def bucket(store, name):
    return store.bucket(name.replace("_", "-"))


@pytest.fixture
def proxy(store):
    with Proxy(store) as standing:
        yield standing


@pytest.fixture
def on(fresh):
    """Makes a server whose checkpoints and state go to a bucket: `on(store, bucket, OBJECT, workers=2)`."""
    def make(store, bucket, args, **options):
        server = fresh(args=["--checkpoint-url", f"s3://{bucket.name}/p", *args], env=store.env, **options)
        server.place = f"s3://{bucket.name}/p"
        return server
    return make


def make(db):
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, owner TEXT, note TEXT)")
    db.execute("CREATE MATERIALIZED VIEW by_owner AS SELECT owner, count(*) n, sum(k) s FROM t GROUP BY owner")
    db.execute("CREATE MATERIALIZED VIEW wide AS SELECT k, note || owner AS text FROM t")
    db.execute("CREATE MATERIALIZED VIEW pairs AS SELECT a.k, b.note FROM t a JOIN t b ON b.k = a.k + 1")


def insert(db, batch):
    first = batch * ROWS
    db.execute(f"INSERT INTO t SELECT k, 'owner ' || k % 100, repeat(md5(k::text), 5) FROM generate_series({first}, {first + ROWS - 1}) AS g(k)")


def told(db):
    """What the views say, each by a few numbers that are known otherwise."""
    return (db.execute("SELECT count(*), sum(k) FROM t").fetchone(), db.execute("SELECT sum(n), sum(s) FROM by_owner").fetchone(),
            db.execute("SELECT count(*), sum(k) FROM wide WHERE length(text) > 160").fetchone(), db.execute("SELECT count(*) FROM pairs").fetchone())


def expected(rows):
    both = (rows, rows * (rows - 1) // 2)
    return both, both, both, (rows - 1,)


def starts(bucket):
    """Folders of state in the bucket: server and start."""
    return {tuple(key.split("/")[2:4]) for key in bucket.keys("p/spill/")}


def test_state_is_in_the_bucket_while_the_server_runs(store, bucket, on):
    server = on(store, bucket, [*SMALL, "--state-cache", "10MiB", "--checkpoint-retain", "1"], workers=2)
    with server.connect() as db:
        make(db)
        for batch in range(3):
            insert(db, batch)
            db.execute("CHECKPOINT")
            assert told(db) == expected((batch + 1) * ROWS)
        written = [key for key in bucket.keys("p/spill/") if key.endswith(".sst")]
        assert written, "more than fits into buffers"
        (first,) = starts(bucket)
        cache = server.data / "spill" / "cache"
        cached = sum(path.stat().st_size for path in cache.rglob("*") if path.is_file())
        assert 0 < cached < 16 << 20
        manifests = [key for key in bucket.keys("p/") if key.endswith("/manifest.json")]
        assert len(manifests) == 1, "old checkpoints are deleted, and nothing of the state is with them"
        assert told(db) == expected(3 * ROWS)
        digests = server.digests()
    # Tools see checkpoints alone.
    verified = cenote("verify", server.place, env=store.env)
    assert verified.returncode == 0 and len(verified.stdout.splitlines()) == 1, verified.stdout
    assert "spill" not in cenote("state", "ls", "--from", server.place, env=store.env).stdout
    server.kill()
    assert starts(bucket) == {first}, "a server that is killed leaves it"
    server.start()
    assert server.digests() == digests
    (second,) = starts(bucket)
    assert second[0] == first[0] and second[1] != first[1], "the next start removes it, and has its own"
    with server.connect() as db:
        db.execute("DELETE FROM t WHERE k % 2 = 1")
        assert db.execute("SELECT sum(n) FROM by_owner").fetchone() == (3 * ROWS // 2,)
    assert server.terminate() == 0
    assert starts(bucket) == set(), "a server that ends takes it along"
    assert SECRET not in server.log_text()


def test_a_fresh_machine_starts_from_the_bucket_alone(store, bucket, on):
    server = on(store, bucket, OBJECT, workers=1)
    with server.connect() as db:
        make(db)
        insert(db, 0)
        db.execute("CREATE SAVEPOINT first")
        insert(db, 1)
        db.execute("CHECKPOINT")
        digests = server.digests()
        before = db.execute("SHOW CHECKPOINTS").fetchall()
    server.kill()
    shutil.rmtree(server.data)
    with pytest.raises(RuntimeError, match=r"(?s)CKPT-0001.*--take-over"):
        on(store, bucket, OBJECT)
    other = on(store, bucket, [*OBJECT, "--take-over"], workers=3)
    assert other.digests() == digests
    with other.connect() as db:
        assert told(db) == expected(2 * ROWS)
        assert db.execute("SELECT count(*) FROM wide AS OF SAVEPOINT first").fetchone() == (ROWS,)
        assert db.execute("SHOW CHECKPOINTS").fetchall() == before
        insert(db, 2)
        assert told(db) == expected(3 * ROWS)
    # It has a log now, and goes on with that.
    other.kill()
    other.start()
    with other.connect() as db:
        assert told(db) == expected(3 * ROWS)
        db.execute("CHECKPOINT")
        assert len(db.execute("SHOW CHECKPOINTS").fetchall()) == len(before) + 1
    assert len(starts(bucket)) == 1


def test_a_machine_that_takes_over_nothing_begins_with_nothing(store, bucket, on):
    server = on(store, bucket, [*OBJECT, "--take-over"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (k INT)")
        db.execute("INSERT INTO t VALUES (1)")
    server.restart()
    with server.connect() as db:
        assert db.execute("SELECT k FROM t").fetchall() == [(1,)]


def test_a_store_that_fails_is_named_and_nothing_wrong_is_answered(store, bucket, on, proxy):
    server = on(proxy, bucket, SMALL, workers=2)
    with server.connect() as db:
        make(db)
        insert(db, 0)
        assert told(db) == expected(ROWS)
        refused = []

        def down(method, path, headers, body, forward):
            if method == "PUT" and "/spill/" in path:
                refused.append(path)
                return refusal(403, "AccessDenied", "Access Denied")
            return forward()

        proxy.rule = down
        failed = None
        for batch in range(1, 12):
            insert(db, batch)
            try:
                assert told(db) == expected((batch + 1) * ROWS)
            except psycopg.Error as error:
                failed = str(error)
                break
        assert refused and failed, "more than fits into buffers"
        assert re.search(rf"cannot write spilled state in s3://{bucket.name}/p/spill/\w+: AccessDenied: Access Denied", failed), failed
        assert "hidden" not in failed + server.log_text() and SECRET not in failed + server.log_text()
        assert db.execute("SELECT count(*), sum(k) FROM t").fetchone() == expected((batch + 1) * ROWS)[0], "rows of tables stay in memory"
        proxy.rule = None
    server.kill()
    server.start()
    with server.connect() as db:
        assert told(db) == expected((batch + 1) * ROWS)


def test_a_server_without_a_place_for_its_state_does_not_start(fresh):
    if "object" not in backends():
        pytest.skip("the binary was built without the backend object")
    with pytest.raises(RuntimeError, match=r"(?s)SQL-0242.*--checkpoint-url"):
        fresh(args=OBJECT, ready_timeout=20)
