"""`cenote state` against a live server."""
import json
import threading

import duckdb
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
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


ODD = ["Odd Name", "a.b", "MiXed", "cenote_state.fake", 'say "x"', "public.v", "comma, too"]


@pytest.fixture(scope="module")
def oddly_named(_shared, tmp_path_factory):
    """Tables with names that need quotes, each with a row that has its name."""
    with _shared.connect() as db:
        for number, name in enumerate(ODD):
            quoted = '"' + name.replace('"', '""') + '"'
            db.execute(f"CREATE TABLE {quoted} (k BIGINT PRIMARY KEY, n TEXT)")
            db.execute(f"INSERT INTO {quoted} VALUES ({number}, %s)", (name,))
    yield _shared
    with _shared.connect() as db:
        for name in ODD:
            db.execute('DROP TABLE "' + name.replace('"', '""') + '"')


def test_names_that_need_quotes_mean_what_the_list_calls_them(oddly_named, tmp_path):
    listed = [json.loads(line)["name"] for line in state(oddly_named, "ls", "--format", "ndjson").splitlines()]
    for number, name in enumerate(ODD):
        quoted = '"' + name.replace('"', '""') + '"'
        forms = [quoted, f"public.{quoted}"] + ([name] if name in listed else [])
        assert [form for form in (name, f"public.{quoted}") if form in listed], (name, listed)
        for form in forms:
            row = {"k": number, "n": name}
            assert json.loads(state(oddly_named, "get", form, str(number))) == row
            assert json.loads(state(oddly_named, "scan", form)) == row
            assert state(oddly_named, "digest", form).split("  ", 2)[1:] == ["1", f"{form}\n"]
            out = tmp_path / "one.parquet"
            state(oddly_named, "export", "--table", form, "--out", out)
            assert pa.parquet.read_table(out).to_pylist() == [row]


def test_everything_is_exported_as_of_one_epoch_while_others_write(fresh, tmp_path):
    server = fresh(workers=2)
    with server.connect() as db:
        db.execute("CREATE TABLE moves (id BIGINT PRIMARY KEY, owner TEXT, amount NUMERIC(38,9), at TIMESTAMPTZ, note JSONB, tag UUID)")
        db.execute("CREATE MATERIALIZED VIEW by_owner AS SELECT owner, count(*) AS n, sum(amount) AS total FROM moves GROUP BY owner")
        db.execute("CREATE MATERIALIZED VIEW again AS SELECT owner, count(*) AS n, sum(amount) AS total FROM moves GROUP BY owner")
        db.execute("INSERT INTO moves VALUES (9007199254740993, 'big', 12345678901234567890.000000001, '2026-01-02 03:04:05.678901+00', "
                   "'{\"a\": 1}', '00000000-0000-0000-0000-00000000000a')")
        groups, = db.execute("SELECT \"table\" FROM cenote_catalog.state_tables WHERE view = 'by_owner' AND operator = 'aggregate'").fetchone()
    stop = threading.Event()

    def write():
        with server.connect() as writer:
            for turn in range(1, 100_000):
                if stop.is_set():
                    return
                writer.execute("INSERT INTO moves VALUES (%s, %s, 0.000000001)", (turn, f"o{turn % 50}"))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(5):
            out = tmp_path / str(turn)
            state(server, "export", "--out", out)
            with duckdb.connect() as judge:
                for table in ("moves", "by_owner", "again", f"cenote_state.{groups}"):
                    judge.execute(f"CREATE VIEW \"{table}\" AS FROM '{out}/{table}.parquet'")
                expected = "SELECT owner, count(*), sum(amount) FROM moves GROUP BY owner"
                for table in ("by_owner", "again"):
                    assert judge.execute(f"SELECT count(*) FROM (({expected}) EXCEPT SELECT * FROM {table})").fetchone() == (0,)
                    assert judge.execute(f"SELECT count(*) = (SELECT count(*) FROM {table}) FROM ({expected})").fetchone() == (True,)
                assert judge.execute(f"SELECT (SELECT sum(group_rows) FROM \"cenote_state.{groups}\") = (SELECT count(*) FROM moves)").fetchone() == (True,)
            told = [line.split("  ") for line in state(server, "digest").splitlines()]
            digests = {name: (digest, rows) for digest, rows, name in told}
            assert digests["by_owner"] == digests["again"] and {"moves", f"cenote_state.{groups}"} <= set(digests)
    finally:
        stop.set()
        writer.join()
    (big,) = [row for row in pa.parquet.read_table(out / "moves.parquet").to_pylist() if row["owner"] == "big"]
    assert big["id"] == 9007199254740993 and str(big["amount"]) == "12345678901234567890.000000001" and big["at"].microsecond == 678901


@pytest.mark.parametrize("kind", ["arrow", "csv", "ndjson", "parquet"])
def test_an_exported_file_is_what_the_door_for_the_format_gives(oddly_named, tmp_path, kind):
    with oddly_named.connect() as db:
        table = f"every_{kind}"
        db.execute(f"CREATE TABLE {table} (i BIGINT, d NUMERIC(38,9), t TEXT, at TIMESTAMPTZ, j JSONB, u UUID, l BIGINT[], b BYTEA, s STRUCT<a INT, b TEXT>, v INTERVAL)")
        db.execute(f"INSERT INTO {table} VALUES (9007199254740993, 1.000000001, 'a', '2026-01-02 03:04:05.678901+00', '{{\"a\": 1}}', "
                   "'00000000-0000-0000-0000-00000000000a', '{1,NULL}', '\\x00ff', ROW(1, 'x'), '1 month 2 days'), "
                   "(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)")
    out = tmp_path / f"file.{kind}"
    state(oddly_named, "export", "--table", table, "--format", kind, "--out", out)
    query = "?numbers=raw" if kind == "ndjson" else ""
    door = oddly_named.get(f"/api/v1/queryable_state/{table}/scan.{kind}{query}").body
    if kind in ("csv", "ndjson"):
        assert out.read_bytes() == door
        return
    read = pa.ipc.open_stream if kind == "arrow" else None
    here = read(pa.py_buffer(out.read_bytes())).read_all() if read else pa.parquet.read_table(out)
    there = read(pa.py_buffer(door)).read_all() if read else pa.parquet.read_table(pa.BufferReader(door))
    assert here.schema.remove_metadata() == there.schema.remove_metadata() and here.to_pylist() == there.to_pylist()


def test_a_table_that_is_not_there_leaves_no_file(counted, tmp_path):
    done = cenote("state", "export", "--table", "no_such", "--out", tmp_path / "x.parquet", "--url", counted.url)
    assert done.returncode == 1 and "no_such" in done.stderr and "42P01" in done.stderr and list(tmp_path.iterdir()) == []


def test_snapshots_open_in_other_programs_one_table_behind_the_other(counted):
    answer = counted.get("/api/v1/snapshot/scan.arrow?names=state_cli,state_cli_v")
    assert answer.status == 200
    source, tables = pa.BufferReader(answer.body), {}
    while source.tell() < source.size():
        table = pa.ipc.open_stream(source).read_all()
        labels = {key.decode(): value.decode() for key, value in table.schema.metadata.items()}
        assert int(labels["cenote.epoch"]) == answer.epoch and labels["cenote.tables"] == "2"
        tables[labels["cenote.name"]] = table.num_rows
    assert tables == {"state_cli": 3, "state_cli_v": 2}
    assert counted.get("/api/v1/snapshot/digest?names=no_such").status == 404
    assert counted.get("/api/v1/snapshot/digest?name=state_cli").json()["error"]["hint"] == "did you mean `names`?"


def test_a_server_that_is_not_there_is_told():
    done = cenote("state", "ls", "--url", "http://127.0.0.1:9")
    assert done.returncode == 1 and "127.0.0.1:9" in done.stderr
