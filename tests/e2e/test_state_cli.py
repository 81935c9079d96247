"""`cenote state` against a live server."""
import json

import pytest
from harness import cenote


@pytest.fixture(scope="module")
def counted(_shared):
    with _shared.connect() as db:
        db.execute("CREATE TABLE state_cli (usr TEXT, n BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW state_cli_v AS SELECT usr, count(*) AS n FROM state_cli GROUP BY usr")
        db.execute("INSERT INTO state_cli VALUES ('ann', 1), ('bob', 2), ('ann', 3)")
    return _shared


def state(server, *args):
    done = cenote("state", *args, "--url", server.url)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ls_lists_what_can_be_read(counted):
    text = state(counted, "ls")
    assert "state_cli_v" in text and "cenote_state" in text


def test_get_looks_a_key_up(counted):
    assert '"n":2' in state(counted, "get", "state_cli_v", "ann").replace(" ", "")
    done = cenote("state", "get", "state_cli_v", "nobody", "--url", counted.url)
    assert done.returncode == 1 and "nobody" in done.stderr


def test_scan_prints_rows(counted):
    rows = [json.loads(line) for line in state(counted, "scan", "state_cli_v").splitlines()]
    assert sorted(r["usr"] for r in rows) == ["ann", "bob"]


def test_query_runs_sql(counted):
    assert "2" in state(counted, "query", "--sql", "SELECT count(*) AS c FROM state_cli_v")


def test_digest_is_what_http_says(counted):
    assert counted.digest("state_cli_v")[0] in state(counted, "digest", "state_cli_v")


def test_a_server_that_is_not_there_is_told():
    done = cenote("state", "ls", "--url", "http://127.0.0.1:9")
    assert done.returncode == 1 and "127.0.0.1:9" in done.stderr
