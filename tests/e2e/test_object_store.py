"""Checkpoints in a bucket: everything that checkpoints in a folder can do, and what only buckets do wrong.

The store is moto's server, a process of its own. The judges: boto3, which looks into the bucket, pyarrow, which reads what it finds there,
and SQL at the same epoch.
"""
import io
import json
import socket
import threading
from collections import Counter
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from harness import cenote, keeps_buckets
from harness.s3 import SECRET, ObjectStore, Proxy, aws, refusal

pytestmark = pytest.mark.skipif(not keeps_buckets(), reason="the binary has no buckets: it was built without the feature object-store")
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "checkpoints" / "v1"


@pytest.fixture(scope="module")
def store():
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
    """Makes a server whose checkpoints go to a bucket: `on(store, bucket, "prefix", ...)`."""
    def make(store, bucket, prefix="", args=(), env=None, **options):
        url = f"s3://{bucket.name}/{prefix}".rstrip("/")
        server = fresh(args=["--checkpoint-url", url, *args], env={**store.env, **(env or {})}, **options)
        server.place = url
        return server
    return make


def state(store, *args, code=0):
    done = cenote("state", *args, env=store.env)
    assert done.returncode == code, done.stderr
    return done.stdout


def ndjson(text):
    return [json.loads(line) for line in text.splitlines()]


def manifests(bucket, prefix=""):
    """Manifests by order, as boto3 finds them."""
    keys = [key for key in bucket.keys(prefix) if key.endswith("/manifest.json")]
    return sorted((json.loads(bucket.read(key)) for key in keys), key=lambda manifest: manifest["sequence"])


def rows_in(bucket, manifest, name, prefix=""):
    """Rows of a table, as pyarrow reads the objects of its parts."""
    entry, = [entry for entry in manifest["tables"] if entry["name"] == name]
    rows = []
    for part in [part for group in entry["buckets"] for part in group["parts"]]:
        content = bucket.read(prefix + part["path"])
        assert len(content) == part["length"]
        for row in pa.ipc.open_file(io.BytesIO(content)).read_all().to_pylist():
            row.pop("_row_id", None)  # numbers the rows of a table without a key; nobody is shown it
            rows += [row] * row.pop("cenote_weight", 1)
    return rows


def fill(db):
    db.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, who TEXT, amount NUMERIC(20,2))")
    db.execute("INSERT INTO orders VALUES (1, 'ann', 9007199254740993.25), (2, 'bob', 1.10), (3, NULL, -0.01)")
    db.execute("CREATE MATERIALIZED VIEW by_who AS SELECT who, sum(amount) AS total, count(*) AS n FROM orders GROUP BY who")


def upload(folder, bucket, prefix):
    for path in folder.rglob("*"):
        if path.is_file():
            bucket.write(f"{prefix}{path.relative_to(folder)}", path.read_bytes())


def test_a_checkpoint_in_a_bucket_holds_what_the_server_does(store, bucket, on):
    server = on(store, bucket, "some/place", workers=2)
    with server.connect() as db:
        fill(db)
        db.execute('CREATE TABLE "Odd/Name é" (n INT)')
        db.execute('INSERT INTO "Odd/Name é" VALUES (1), (1)')
        db.execute("CREATE SAVEPOINT before_deploy")
        manifest, = manifests(bucket, "some/place/")
        assert manifest["kind"] == "savepoint"
        assert db.execute("SHOW CHECKPOINTS").fetchone()[:4] == (manifest["id"], "whole", "before_deploy", manifest["epoch"])
        for name in ["orders", "by_who", "Odd/Name é"]:
            cursor = db.execute(f'SELECT * FROM "{name}"')
            live = [dict(zip([column.name for column in cursor.description], row)) for row in cursor.fetchall()]
            kept = rows_in(bucket, manifest, name, "some/place/")
            assert len(live) and Counter(map(repr, kept)) == Counter(map(repr, live)), name
        db.execute("DELETE FROM orders WHERE id < 3")
        db.execute("CHECKPOINT")
        # A live server reads its bucket, and joins then with now.
        then = "SELECT who, total, n FROM by_who AS OF SAVEPOINT before_deploy ORDER BY n, who"
        assert [str(row[1]) for row in db.execute(then).fetchall()] == ["9007199254740993.25", "1.10", "-0.01"]
        ids = [manifest["id"] for manifest in manifests(bucket, "some/place/")]
        assert db.execute(f"SELECT count(*) FROM orders AS OF CHECKPOINT '{ids[1]}'").fetchone() == (1,)
        joined = "SELECT o.id FROM orders AS OF SAVEPOINT before_deploy o LEFT JOIN orders n ON n.id = o.id WHERE n.id IS NULL ORDER BY 1"
        assert db.execute(joined).fetchall() == [(1,), (2,)]
    everything = [f"some/place/{path}" for manifest in manifests(bucket, "some/place/") for table in manifest["tables"]
                  for group in table["buckets"] for path in [part["path"] for part in group["parts"]]]
    documents = ["some/place/server.json", "some/place/savepoints/before_deploy.json", *(f"some/place/{id}/manifest.json" for id in ids)]
    assert sorted(bucket.keys()) == sorted({*everything, *documents}), "parts that did not change are named again, not put again"


def test_tools_read_a_bucket_without_a_server(store, bucket, on, tmp_path):
    server = on(store, bucket, "p")
    with server.connect() as db:
        fill(db)
        db.execute("CHECKPOINT")
        digest = server.digest("by_who")[0]
        db.execute("UPDATE orders SET who = 'eve' WHERE id = 2")
        db.execute("CHECKPOINT")
    server.kill()
    old, new = [manifest["id"] for manifest in manifests(bucket, "p/")]
    place = server.place
    listed = {row["name"]: row for row in ndjson(state(store, "ls", "--from", place, "--format", "ndjson"))}
    assert listed["orders"]["rows"] == 3 and listed["by_who"]["kind"] == "materialized_view"
    assert ndjson(state(store, "get", "orders", "2", "--from", f"{place}/{old}"))[0]["who"] == "bob"
    assert ndjson(state(store, "get", "orders", "2", "--from", place))[0]["who"] == "eve"
    assert ndjson(state(store, "scan", "orders", "--where", "id = 2", "--columns", "who", "--from", f"{place}/{new}/")) == [{"who": "eve"}]
    query = "SELECT count(*) AS c, sum(n) AS s FROM by_who"
    assert ndjson(state(store, "query", "--from", place, "--sql", query)) == [{"c": 3, "s": 3}]
    assert state(store, "digest", "by_who", "--from", f"{place}/{old}").split()[0] == digest
    changes = ndjson(state(store, "diff", "--from", f"{place}/{old}", "--to", place, "--table", "orders", "--json", code=1))
    assert [(change["change"], change["key"]) for change in changes] == [("changed", {"id": 2})]
    state(store, "export", "--from", place, "--table", "orders", "--format", "parquet", "--out", tmp_path / "orders.parquet")
    exported = pa.parquet.read_table(tmp_path / "orders.parquet").to_pylist()
    assert sorted(row["id"] for row in exported) == [1, 2, 3] and str(exported[0]["amount"]).count(".") == 1
    verified = cenote("verify", place, env=store.env)
    assert verified.returncode == 0 and [line[:3] for line in verified.stdout.splitlines()] == ["ok:", "ok:"]
    assert cenote("verify", f"{place}/{old}", env=store.env).stdout.startswith(f"ok: {old}")
    nothing = cenote("state", "ls", "--from", f"s3://{bucket.name}/other", env=store.env)
    assert nothing.returncode == 1 and "error[CLI-0016]" in nothing.stderr and f"s3://{bucket.name}/other" in nothing.stderr
    gone = cenote("state", "ls", "--from", f"{place}/20261130T151923.123Z-9f3a01bc", env=store.env)
    assert gone.returncode == 1 and "error[CKPT-0006]" in gone.stderr


def test_a_folder_and_a_bucket_with_the_same_objects_read_alike(store, bucket):
    upload(GOLDEN, bucket, "")
    for command in [["ls", "--format", "ndjson"], ["digest"], ["query", "--sql", "SELECT owner, n FROM by_owner ORDER BY owner"]]:
        told = {state(store, *command, "--from", place) for place in (f"s3://{bucket.name}", str(GOLDEN), GOLDEN.as_uri())}
        assert len(told) == 1 and told != {""}, command
    assert cenote("verify", GOLDEN.as_uri()).stdout == cenote("verify", f"s3://{bucket.name}/", env=store.env).stdout != ""


def test_every_object_that_is_damaged_or_missing_is_named(store, bucket):
    upload(GOLDEN, bucket, "p/")
    new = manifests(bucket, "p/")[-1]
    paths = {part["path"] for table in new["tables"] for group in table["buckets"] for part in group["parts"]}
    place = f"s3://{bucket.name}/p/{new['id']}"
    for path in [*sorted(paths)[:3], f"{new['id']}/manifest.json"]:
        whole = bucket.read(f"p/{path}")
        for damaged in [whole[:-9] + b"x" + whole[-8:], whole[:-1], whole + b"x", b"", None]:
            bucket.write(f"p/{path}", damaged) if damaged is not None else bucket.delete(f"p/{path}")
            if damaged is None and path.endswith("manifest.json"):
                continue  # without one it was never published
            done = cenote("verify", place, env=store.env)
            assert done.returncode == 1 and f"s3://{bucket.name}/p/{path}" in done.stdout, (path, done.stdout, done.stderr)
            done = cenote("state", "digest", "--from", place, env=store.env)
            assert done.returncode == 1 and "error[CKPT-0002]" in done.stderr, done.stderr
        bucket.write(f"p/{path}", whole)
    assert cenote("verify", f"s3://{bucket.name}/p", env=store.env).returncode == 0


def test_a_server_tells_what_is_damaged_in_its_bucket(store, bucket, on):
    server = on(store, bucket)
    with server.connect() as db:
        fill(db)
        db.execute("CREATE SAVEPOINT s")
        part, = [part["path"] for table in manifests(bucket)[0]["tables"] if table["name"] == "orders"
                 for group in table["buckets"] for part in group["parts"]]
        whole = bucket.read(part)
        bucket.write(part, whole[:-9] + b"x" + whole[-8:])
        with pytest.raises(psycopg.Error, match=f"s3://{bucket.name}/{part}.*checksum"):
            db.execute("SELECT * FROM orders AS OF SAVEPOINT s")
        bucket.delete(part)
        with pytest.raises(psycopg.Error, match=f"{part}.*is missing"):
            db.execute("SELECT * FROM orders AS OF SAVEPOINT s")
        assert db.execute("SELECT count(*) FROM by_who AS OF SAVEPOINT s").fetchone() == (3,), "the other tables are whole"
        bucket.write(part, whole)
        assert db.execute("SELECT count(*) FROM orders AS OF SAVEPOINT s").fetchone() == (3,)


def test_a_killed_server_goes_on_with_its_bucket_and_another_one_is_refused(store, bucket, on, fresh):
    server = on(store, bucket, "p")
    with server.connect() as db:
        fill(db)
        db.execute("CREATE SAVEPOINT s")
    server.kill()
    server.start()
    with server.connect() as db:
        db.execute("DELETE FROM orders")
        db.execute("CHECKPOINT")
        ids = [row[0] for row in db.execute("SHOW CHECKPOINTS").fetchall()]
        assert len(ids) == 2 and ids == sorted(ids) == [manifest["id"] for manifest in manifests(bucket, "p/")]
        assert [manifest["sequence"] for manifest in manifests(bucket, "p/")] == [1, 2]
        assert db.execute("SELECT count(*) FROM orders AS OF SAVEPOINT s").fetchone() == (3,)
        with pytest.raises(psycopg.errors.DuplicateObject):
            db.execute("CREATE SAVEPOINT s")
    before = {key: bucket.read(key) for key in bucket.keys()}
    with pytest.raises(RuntimeError, match="CKPT-0001.*belongs to another server"):
        on(store, bucket, "p")
    assert {key: bucket.read(key) for key in bucket.keys()} == before
    with on(store, bucket, "p/deeper").connect() as db:
        db.execute("CHECKPOINT")
    assert {key for key in bucket.keys() if not key.startswith("p/deeper/")} == before.keys()


def test_old_checkpoints_are_deleted_and_nothing_else_in_the_bucket_is(store, bucket, on, proxy):
    others = {"top", "p", "pp/server.json", "p2/20261130T151923.123Z-9f3a01bc/manifest.json", "p/notes.txt"}
    for key in others:
        bucket.write(key, b"not ours")
    server = on(proxy, bucket, "p", args=["--checkpoint-retain", "2"])
    with server.connect() as db:
        fill(db)
        db.execute("CREATE SAVEPOINT first")
        for n in range(4):
            db.execute(f"INSERT INTO orders VALUES ({n + 10}, 'x', 0)")
            db.execute("CHECKPOINT")
        left = manifests(bucket, "p/")
        assert [manifest["sequence"] for manifest in left] == [1, 4, 5]
        named = {f"p/{part['path']}" for manifest in left for table in manifest["tables"] for group in table["buckets"] for part in group["parts"]}
        kept = named | {f"p/{manifest['id']}/manifest.json" for manifest in left} | {"p/server.json", "p/savepoints/first.json"} | others
        assert set(bucket.keys()) == kept
        assert all(bucket.read(key) == b"not ours" for key in others)
        db.execute("DROP SAVEPOINT first")
        db.execute("CHECKPOINT")
        assert [manifest["sequence"] for manifest in manifests(bucket, "p/")] == [5, 6]
    deletions = [path for method, path, _, _ in proxy.requests if method == "POST" and "delete" in path]
    assert deletions and not [path for method, path, _, _ in proxy.requests if method == "DELETE"], "many objects by one request"


def test_large_tables_go_in_parts_and_come_in_ranges(store, bucket, on, proxy):
    server = on(proxy, bucket)
    with server.connect() as db:
        db.execute("CREATE TABLE big (id BIGINT PRIMARY KEY, t TEXT)")
        db.execute("INSERT INTO big SELECT x, md5(x::text) || md5((x + 1)::text) || md5((x + 2)::text) FROM generate_series(1, 250000) AS s(x)")
        db.execute("CHECKPOINT")
        manifest, = manifests(bucket)
        table, = [table for table in manifest["tables"] if table["name"] == "big"]
        assert table["bytes"] > 24 << 20
        parts = [path for method, path, _, size in proxy.requests if method == "PUT" and "partNumber=" in path]
        assert len(parts) >= 4 and max(size for *_, size in proxy.requests) <= 8 << 20
        assert bucket.uploads() == []
        assert len({row["id"] for row in rows_in(bucket, manifest, "big")}) == 250000
        proxy.requests.clear()
        then = db.execute(f"SELECT count(*), sum(id), max(t) FROM big AS OF CHECKPOINT '{manifest['id']}'").fetchone()
        assert then == db.execute("SELECT count(*), sum(id), max(t) FROM big").fetchone()
        ranges = [headers["range"] for _, path, headers, _ in proxy.requests if "public.big" in path]
        assert len(ranges) >= 4
        for first, last in (map(int, asked.removeprefix("bytes=").split("-")) for asked in ranges):
            assert last - first < 8 << 20
        db.execute("UPDATE big SET t = md5(t) || t")
        proxy.rule = lambda method, path, headers, body, forward: refusal(403, "AccessDenied", "No") if "partNumber=2" in path else forward()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            db.execute("CHECKPOINT")
        proxy.rule = None
        assert any("partNumber=2" in path for _, path, _, _ in proxy.requests) and bucket.uploads() == [], "what was begun is taken back"
    server.kill()
    assert cenote("verify", server.place, env=store.env).returncode == 0


def test_a_server_killed_while_it_uploads_leaves_no_checkpoint(store, bucket, on, proxy):
    server = on(proxy, bucket)
    begun, killed = threading.Event(), threading.Event()

    def hold(method, path, headers, body, forward):
        if "partNumber=2" in path:
            begun.set()
            killed.wait(30)
        return forward()

    with server.connect() as db:
        db.execute("CREATE TABLE big (id BIGINT PRIMARY KEY, t TEXT)")
        db.execute("INSERT INTO big SELECT x, md5(x::text) || md5((x + 1)::text) || md5((x + 2)::text) FROM generate_series(1, 250000) AS s(x)")
        proxy.rule = hold
        with pytest.raises(psycopg.Error):
            threading.Thread(target=lambda: (begun.wait(30), server.kill(), killed.set())).start()
            db.execute("CHECKPOINT")
    proxy.rule = None
    assert begun.is_set() and manifests(bucket) == []
    server.start()
    with server.connect() as db:
        assert db.execute("SHOW CHECKPOINTS").fetchall() == []
        db.execute("CHECKPOINT")
    manifest, = manifests(bucket)
    named = {part["path"] for table in manifest["tables"] for group in table["buckets"] for part in group["parts"]}
    assert set(bucket.keys()) == named | {f"{manifest['id']}/manifest.json", "server.json"}, "what was left is collected"


def test_answers_that_are_late_lost_or_wrong_are_asked_for_again(store, bucket, on, proxy):
    server = on(proxy, bucket)
    tries, lost = Counter(), set()

    def flaky(method, path, headers, body, forward):
        tries[method, path] += 1
        if tries[method, path] == 1:
            return refusal(503, "SlowDown", "Please reduce your request rate")
        if method == "PUT" and path not in lost:
            # It is done, and nobody is told.
            lost.add(path)
            status, *_ = forward()
            assert status == 200
            return refusal(500, "InternalError", "We encountered an internal error")
        return forward()

    proxy.rule = flaky
    with server.connect() as db:
        fill(db)
        db.execute("CREATE SAVEPOINT s")
        assert any(path.endswith("manifest.json") for path in lost) and any("savepoints/" in path for path in lost), "the faults fired"
        assert db.execute("SELECT count(*) FROM orders AS OF SAVEPOINT s").fetchone() == (3,)
        proxy.rule = None
        assert len(manifests(bucket)) == 1
        named = db.execute("SELECT status, savepoint FROM cenote_catalog.checkpoints").fetchall()
        assert named == [("whole", "s")]


def test_a_store_that_fails_for_long_costs_one_checkpoint_and_nothing_else(store, bucket, on, proxy):
    server = on(proxy, bucket)
    with server.connect() as db:
        fill(db)
        db.execute("CHECKPOINT")
        failed = []

        def down(method, path, headers, body, forward):
            if method == "PUT":
                failed.append(path)
                return refusal(403, "AccessDenied", "Access Denied")
            return forward()

        proxy.rule = down
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="AccessDenied: Access Denied"):
            db.execute("CHECKPOINT")
        proxy.rule = None
        assert failed and len(manifests(bucket)) == 1
        db.execute("CHECKPOINT")
        assert [manifest["sequence"] for manifest in manifests(bucket)] == [1, 3], "the number of the one that failed is not given again"


@pytest.mark.parametrize("how", ["ignored", "refused", "switched off"])
def test_a_store_without_conditional_put_is_refused(store, bucket, on, proxy, how):
    def careless(method, path, headers, body, forward):
        if "if-none-match" in {name.lower() for name in headers}:
            if how == "refused":
                return refusal(501, "NotImplemented", "A header you provided implies functionality that is not implemented")
            return forward(without=("if-none-match",))
        return forward()

    proxy.rule = careless
    env = {"AWS_CONDITIONAL_PUT": "disabled"} if how == "switched off" else {}
    with on(proxy, bucket, env=env).connect() as db:
        fill(db)
        for _ in range(2):
            with pytest.raises(psycopg.errors.FeatureNotSupported, match=f"s3://{bucket.name}") as told:
                db.execute("CHECKPOINT")
            assert told.value.diag.source_function == "CKPT-0015" and "If-None-Match" in told.value.diag.message_hint
        assert manifests(bucket) == []
        assert db.execute("SELECT count(*) FROM orders").fetchone() == (3,), "the server goes on"


def test_a_bucket_is_not_asked_before_it_is_needed(store, bucket, on, proxy):
    """A start asks once, for a checkpoint to start from."""
    server = on(proxy, bucket)
    with server.connect() as db:
        assert {(method, path.partition("?")[0]) for method, path, *_ in proxy.requests} == {("GET", f"/{bucket.name}/server.json")}
        asked = len(proxy.requests)
        fill(db)
        assert db.execute("SELECT count(*) FROM by_who").fetchone() == (3,)
        assert len(proxy.requests) == asked
        db.execute("CHECKPOINT")
        assert len(proxy.requests) > asked


def test_what_cannot_be_reached_is_told_with_its_reason(store, bucket, fresh):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = aws(f"http://127.0.0.1:{taken.getsockname()[1]}")
        done = cenote("state", "ls", "--from", f"s3://{bucket.name}", env=nobody)
    assert done.returncode == 1 and "error[CKPT-0014]" in done.stderr and "Connection refused" in done.stderr and nobody["AWS_ENDPOINT"] in done.stderr
    with pytest.raises(RuntimeError, match="error.CKPT-0012.: cannot read `s3://no-such-bucket/x/server.json`: NoSuchBucket"):
        fresh(args=["--checkpoint-url", "s3://no-such-bucket/x"], env=store.env)
    done = cenote("state", "get", "t", "1", "--from", "s3://no-such-bucket/20261130T151923.123Z-9f3a01bc", env=store.env)
    assert done.returncode == 1 and "error[CKPT-0012]" in done.stderr
    for env, reason in (({"AWS_ALLOW_HTTP": "false"}, "AWS_ALLOW_HTTP"), ({"AWS_ALLOW_HTTP": "perhaps"}, "boolean"),
                        ({"AWS_CHECKSUM_ALGORITHM": "md5"}, "checksum")):
        done = cenote("verify", f"s3://{bucket.name}", env={**store.env, **env})
        assert done.returncode == 1 and "error[CKPT-0016]" in done.stderr and reason in done.stderr, done.stderr


def test_no_secret_is_told(store, bucket, on, proxy, tmp_path):
    token = "FwoGZXIvYXdzEBYaDEXAMPLETOKEN"
    secrets = [SECRET, token, "hidden"]
    log = {"CENOTE_LOG": "trace", "AWS_SESSION_TOKEN": token}
    server = on(proxy, bucket, env=log, args=["--log", "trace"])
    seen = []
    with server.connect() as db:
        fill(db)
        db.execute("CREATE SAVEPOINT s")
        proxy.rule = lambda *_: refusal(403, "SignatureDoesNotMatch", "The signature does not match")
        for statement in ("CHECKPOINT", "SHOW CHECKPOINTS", "SELECT * FROM orders AS OF SAVEPOINT s"):
            with pytest.raises(psycopg.Error) as told:
                db.execute(statement)
            diag = told.value.diag
            seen += [diag.message_primary, diag.message_detail, diag.message_hint, diag.context]
        for show in ("SHOW ALL", "SELECT * FROM cenote_catalog.settings"):
            try:
                seen += map(str, db.execute(show).fetchall())
            except psycopg.Error:
                pass
    server.terminate()
    done = cenote("state", "ls", "--from", server.place, env={**proxy.env, **log})
    assert "error[CKPT-0013]" in done.stderr
    seen += [done.stderr, done.stdout, server.log_text()]
    assert "SignatureDoesNotMatch" in "".join(map(str, seen))
    for text in map(str, seen):
        assert not [secret for secret in secrets if secret in text], text[-2000:]


def test_a_script_takes_checkpoints_to_a_bucket_too(store, bucket, tmp_path):
    script = "CREATE TABLE IF NOT EXISTS t (n INT); INSERT INTO t VALUES (1); CHECKPOINT"
    place = f"s3://{bucket.name}/run"
    for count in (1, 2):
        done = cenote("run", "--data-dir", tmp_path / "data", "--checkpoint-url", place, "-e", script, env=store.env)
        assert done.returncode == 0, done.stderr
        assert ndjson(state(store, "query", "--from", place, "--sql", "SELECT count(*) AS c FROM t")) == [{"c": count}]
    assert not (tmp_path / "data" / "checkpoints").exists()


def test_credentials_in_a_url_are_refused_and_not_shown():
    for url in ("s3://AKID:hidden@bucket/p", "s3://bucket/p?X-Amz-Signature=hidden"):
        for command in (["serve", "--checkpoint-url", url], ["verify", url], ["state", "ls", "--from", url]):
            done = cenote(*command)
            assert done.returncode == 1 and "error[CLI-0023]" in done.stderr and "hidden" not in done.stderr


def test_listings_of_many_pages_are_read_whole(store, bucket):
    upload(GOLDEN, bucket, "p/")
    with Proxy(store) as proxy:
        def paged(method, path, headers, body, forward):
            # Pages of two, where the client would get a thousand.
            return proxy.forward(method, path + "&max-keys=2", dict(headers), body) if "list-type=2" in path else forward()
        proxy.rule = paged
        done = cenote("verify", f"s3://{bucket.name}/p", env=proxy.env)
        assert done.returncode == 0 and done.stdout == cenote("verify", GOLDEN).stdout
        assert sum("continuation-token" in path for _, path, _, _ in proxy.requests) >= 1
