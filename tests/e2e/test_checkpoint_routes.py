"""`/api/v1/checkpoints` and `/api/v1/savepoints`: what SQL can do, for programs. The judges: SQL, and the files."""
import json

from harness import cenote, http_request


def test_checkpoints_are_taken_and_listed(fresh):
    server = fresh(args=["--checkpoint-interval", "0s"])
    with server.connect() as db:
        assert server.api("checkpoints") == []
        db.execute("CREATE TABLE t (n INT)")
        db.execute("INSERT INTO t VALUES (1)")
        taken = server.post("/api/v1/checkpoints", b"")
        assert taken.status == 200, taken.text
        one = taken.json()
        cursor = db.execute("SELECT * FROM cenote_catalog.checkpoints")
        row = dict(zip([column.name for column in cursor.description], cursor.fetchone()))
        assert one == row and one["status"] == "whole" and server.api("checkpoints") == [one]
        assert server.api(f"checkpoints/{one['id']}") == one
        done = cenote("state", "query", "--from", server.data / "checkpoints" / one["id"], "--sql", "SELECT n FROM t")
        assert json.loads(done.stdout) == {"n": 1}
        db.execute("INSERT INTO t VALUES (2)")
        two = server.post("/api/v1/checkpoints", {}).json()
        assert two["epoch"] > one["epoch"] and [listed["id"] for listed in server.api("checkpoints")] == [one["id"], two["id"]]
    missing = server.get("/api/v1/checkpoints/20200101T000000.000Z-00000000")
    assert missing.status == 404 and missing.json()["error"]["code"] == "CKPT-0006"
    refused = server.post("/api/v1/checkpoints", {"nmae": "x"})
    assert refused.status == 400 and refused.json()["error"]["code"] == "HTTP-0006"


def test_savepoints_are_made_read_and_dropped(fresh):
    server = fresh(args=["--checkpoint-interval", "0s"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (n INT)")
        db.execute("INSERT INTO t VALUES (1)")
        made = server.post("/api/v1/savepoints", {"name": "Before it"})
        assert made.status == 200, made.text
        savepoint = made.json()
        assert savepoint["name"] == "Before it" and savepoint["status"] == "whole"
        assert server.api("savepoints") == [savepoint] and server.api("savepoints/Before%20it") == savepoint
        assert db.execute("SELECT id FROM cenote_catalog.checkpoints WHERE savepoint = 'Before it'").fetchone() == (savepoint["checkpoint"],)
        db.execute("DELETE FROM t")
        assert db.execute('SELECT n FROM t AS OF SAVEPOINT "Before it"').fetchall() == [(1,)]
        db.execute("CREATE SAVEPOINT after")
        assert [one["name"] for one in server.api("savepoints")] == ["Before it", "after"]
    taken = server.post("/api/v1/savepoints", {"name": "Before it"})
    assert taken.status == 409 and taken.json()["error"]["code"] == "CKPT-0009"
    for body in ({}, {"name": 5}, {"name": "x", "nmae": 1}):
        assert server.post("/api/v1/savepoints", body).status == 400, body
    for way in ("GET", "DELETE"):
        missing = http_request(f"{server.url}/api/v1/savepoints/no_such", way)
        assert missing.status == 404 and missing.json()["error"]["code"] == "CKPT-0009"
    dropped = http_request(f"{server.url}/api/v1/savepoints/Before%20it", "DELETE")
    assert dropped.status == 200 and dropped.json()["name"] == "Before it"
    assert [one["name"] for one in server.api("savepoints")] == ["after"]
    foreign = http_request(f"{server.url}/api/v1/savepoints/after", "DELETE", headers={"Origin": "http://evil.example"})
    assert foreign.status == 403 and [one["name"] for one in server.api("savepoints")] == ["after"]


def test_they_are_in_the_description(server):
    paths = server.get("/openapi.json").json()["paths"]
    assert {method for method in paths["/api/v1/savepoints/{name}"]} == {"get", "delete"}
    assert {method for method in paths["/api/v1/checkpoints"]} == {"get", "post"}
