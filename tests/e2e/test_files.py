"""Files as sources: formats, compression, globs, following, bad rows, allowed folders."""
import gzip
import json
import os
import subprocess
import time

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness import cenote

ROWS = [(1, "a", 1.5), (2, None, -0.25), (2**53 + 1, "é,\"q\"", 1e300)]
COLUMNS = "id BIGINT, w TEXT, x DOUBLE PRECISION"


def ndjson(rows):
    return "".join(json.dumps(dict(zip(("id", "w", "x"), row))) + "\n" for row in rows).encode()


def csv_bytes(rows):
    def cell(v):
        return "" if v is None else '"' + v.replace('"', '""') + '"' if isinstance(v, str) else repr(v)
    return ("id,w,x\n" + "".join(",".join(map(cell, row)) + "\n" for row in rows)).encode()


def write(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture
def folder(server, name):
    """A folder below the server's working directory: what it may read by default."""
    path = server.cwd / name
    path.mkdir()
    return path


def create(db, name, path, columns=COLUMNS, **options):
    listed = "".join(f", {k} = '{v}'" for k, v in options.items())
    db.execute(f"CREATE TABLE {name} ({columns}) WITH (connector = 'file', path = '{path}'{listed})")


def count_is(n, table):
    return lambda db: db.execute(f"SELECT count(*) FROM {table}").fetchone() == (n,)


def read_all(server, name, n):
    server.wait_until(name, count_is(n, name))
    return sorted(server.sql(f"SELECT * FROM {name}"), key=lambda row: row[0])


@pytest.mark.parametrize("form, data", [
    ("json", ndjson(ROWS)), ("csv", csv_bytes(ROWS)), ("json.gz", gzip.compress(ndjson(ROWS))), ("csv.gz", gzip.compress(csv_bytes(ROWS))),
])
def test_a_text_file_is_read(server, db, name, folder, form, data):
    write(folder / f"in.{form}", data)
    options = {"header": "true"} if form.startswith("csv") else {}
    create(db, name, f"{name}/in.{form}", format=form.split(".")[0], **options)
    assert read_all(server, name, 3) == ROWS


def test_a_zstd_file_is_read(server, db, name, folder):
    write(folder / "in.json.zst", pa.compress(ndjson(ROWS), codec="zstd", asbytes=True))
    create(db, name, f"{name}/in.json.zst", format="json")
    assert read_all(server, name, 3) == ROWS


def test_a_parquet_file_is_read(server, db, name, folder):
    table = pa.table({"id": pa.array([r[0] for r in ROWS]), "w": [r[1] for r in ROWS], "x": [r[2] for r in ROWS], "unused": [1, 2, 3]})
    pq.write_table(table, folder / "in.parquet", compression="zstd")
    create(db, name, f"{name}/in.parquet", format="parquet")
    assert read_all(server, name, 3) == ROWS


@pytest.mark.parametrize("path", ["{}/*.json", "{}"])
def test_a_glob_and_a_folder_read_every_file(server, db, name, folder, path):
    for i in range(5):
        write(folder / f"{i}.json", ndjson([(i, f"f{i}", 0.0)]))
    create(db, name, path.format(name), format="json")
    assert [r[0] for r in read_all(server, name, 5)] == [0, 1, 2, 3, 4]


def test_a_large_file_is_read_whole(server, db, name, folder):
    write(folder / "in.json", ndjson((i, f"w{i % 10}", i / 4) for i in range(100_000)))
    create(db, name, f"{name}/in.json", format="json")
    server.wait_until(name, count_is(100_000, name), timeout=60)
    assert server.sql(f"SELECT sum(id), sum(x), count(DISTINCT w) FROM {name}") == [(4999950000, 1249987500.0, 10)]


@pytest.mark.parametrize("form", ["json", "csv", "csv.gz"])
def test_a_file_decoded_by_several_threads_is_what_duckdb_reads(tmp_path, form):
    """Plain text first, which is cut anywhere; in its last third, CSV has quotes around line feeds."""
    rows = [(i, f"é{i % 1000}" if i < 80_000 else f'"{i % 7}"\n,', i / 8) for i in range(120_000)]
    path = tmp_path / f"in.{form}"
    if form == "json":
        path.write_bytes(ndjson(rows))
    else:
        plain = "".join(f"{i},{w},{x}\n" for i, w, x in rows[:80_000])
        text = b"id,w,x\n" + plain.encode() + csv_bytes(rows[80_000:]).split(b"\n", 1)[1]
        path.write_bytes(gzip.compress(text, 1) if form.endswith("gz") else text)
    query = "SELECT w, count(*) AS n, sum(id) AS ids, sum(x) AS xs FROM {} GROUP BY w"
    reader = "read_json" if form == "json" else "read_csv"
    types = "{'id': 'BIGINT', 'w': 'VARCHAR', 'x': 'DOUBLE'}"
    more = "format = 'newline_delimited'" if form == "json" else "header = true, quote = '\"', escape = '\"', auto_detect = false"
    wanted = duckdb.sql(query.format(f"{reader}('{path}', columns = {types}, {more})")).fetchall()
    table = f"CREATE TABLE t ({COLUMNS}) WITH (connector = 'file', format = '{form.split('.')[0]}', path = '{path}', on_error = 'fail');"
    for workers in ("1", "2", "4"):
        done = cenote("run", "--workers", workers, "-e", table + query.format("t"))
        assert done.returncode == 0, done.stderr
        found = [tuple(json.loads(line).values()) for line in done.stdout.splitlines()]
        assert sorted(found) == sorted((w, n, int(ids), xs) for w, n, ids, xs in wanted)


@pytest.mark.parametrize("rows", [1023, 1024, 1025, 3000])
def test_batch_borders_lose_nothing(server, db, name, folder, rows):
    write(folder / "in.json", "".join(f'{{"i":{i}}}\n' for i in range(rows)).encode())
    create(db, name, f"{name}/in.json", "i BIGINT", format="json")
    server.wait_until(name, count_is(rows, name))
    assert server.sql(f"SELECT sum(i), count(DISTINCT i) FROM {name}") == [(rows * (rows - 1) // 2, rows)]


def test_a_number_too_large_in_an_unused_field_costs_nothing(server, db, name, folder):
    write(folder / "in.json", b'{"id":1,"note":"ok","serial":327267367867168100000}\n{"id":2,"note":"ok","serial":18446744073709551616}\n'
                              b'{"id":9007199254740993,"note":"ok","serial":1}\n')
    create(db, name, f"{name}/in.json", "id BIGINT, note TEXT", format="json")
    assert [r[0] for r in read_all(server, name, 3)] == [1, 2, 2**53 + 1]
    create(db, f"{name}_d", f"{name}/in.json", "id BIGINT, serial NUMERIC(38,0)", format="json")
    assert [int(r[1]) for r in read_all(server, f"{name}_d", 3)] == [327267367867168100000, 18446744073709551616, 1]


def errors_of(db, source):
    return db.execute("SELECT file, line, byte_offset, text, reason FROM cenote_catalog.errors WHERE source = %s ORDER BY line", (source,)).fetchall()


def test_bad_rows_go_to_the_error_table_and_the_rest_is_read(server, db, name, folder):
    lines = [b'{"id":1,"w":"a"}\n', b'{"id":"x"}\n', b'not json\n', b'{"id":{"long":1}}\n', b'{"id":5,"w":"' + b"y" * 5000 + b'","x":"no"}\n', b'{"id":6}\n']
    write(folder / "in.json", b"".join(lines))
    create(db, name, f"{name}/in.json", format="json")
    assert [r[0] for r in read_all(server, name, 2)] == [1, 6]
    found = errors_of(db, name)
    assert [row[1] for row in found] == [2, 3, 4, 5]
    assert [row[2] for row in found] == [len(lines[0]), *[sum(map(len, lines[:i])) for i in (2, 3, 4)]]
    assert all(row[0].endswith("in.json") for row in found)
    assert found[0][3] == '{"id":"x"}' and "id" in found[0][4]
    assert len(found[3][3]) <= 1024, "long texts are cut"
    assert f'{name}"' in server.get("/metrics").text, "and counted"


def test_bad_csv_rows_are_told_apart(server, db, name, folder):
    write(folder / "in.csv", b"id,w,x\n1,a,1.5\n2,b\n3,c,zz\n4,d,2.5\n")
    create(db, name, f"{name}/in.csv", format="csv", header="true")
    assert [r[0] for r in read_all(server, name, 2)] == [1, 4]
    assert [row[1] for row in errors_of(db, name)] == [3, 4]


def test_on_error_fail_stops_and_says_where(server, db, name, folder):
    write(folder / "in.json", b'{"id":1}\n{"id":"x"}\n{"id":3}\n')
    create(db, name, f"{name}/in.json", format="json", on_error="fail")
    failed = server.ask_until(lambda c: c.execute("SELECT error FROM cenote_catalog.sources WHERE name = %s AND status = 'failed'", (name,)).fetchone())
    assert "in.json" in failed[0] and "2" in failed[0]
    assert server.get("/readyz").status == 503
    db.execute(f"DROP TABLE {name}")


def test_a_truncated_parquet_file_is_named_and_the_server_goes_on(server, db, name, folder):
    pq.write_table(pa.table({"id": list(range(1000))}), folder / "a.parquet")
    write(folder / "b.parquet", (folder / "a.parquet").read_bytes()[:-40])
    create(db, name, f"{name}/b.parquet", "id BIGINT", format="parquet")
    (file, *_, reason), = server.ask_until(lambda c: errors_of(c, name))
    assert "b.parquet" in file and "Parquet" in reason
    assert db.execute("SELECT 1").fetchone() == (1,)


def test_a_primary_key_makes_a_source_upsert(server, db, name, folder):
    write(folder / "in.json", ndjson([(1, "old", 0.0), (2, "two", 0.0), (1, "new", 1.0)]))
    create(db, name, f"{name}/in.json", "id BIGINT PRIMARY KEY, w TEXT, x DOUBLE PRECISION", format="json")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT count(*) AS n FROM {name}")
    server.wait_until(f"{name}_v", lambda c: c.execute(f"SELECT w FROM {name} WHERE id = 1").fetchone() == ("new",))
    assert db.execute(f"SELECT n FROM {name}_v").fetchone() == (2,)


def test_a_source_is_read_by_views_without_keeping_rows(server, db, name, folder):
    write(folder / "in.json", ndjson([(i, f"w{i % 2}", 1.0) for i in range(10)]))
    db.execute(f"CREATE SOURCE {name} ({COLUMNS}) WITH (connector = 'file', format = 'json', path = '{name}/in.json')")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT w, count(*) AS n FROM {name} GROUP BY w")
    server.wait_until(f"{name}_v", lambda c: sorted(c.execute(f"SELECT * FROM {name}_v").fetchall()) == [("w0", 5), ("w1", 5)])


def test_followed_files_show_appended_lines_and_new_files_at_once(server, db, name, folder):
    write(folder / "1.json", ndjson([(0, "a", 1.0)]))
    create(db, name, f"{name}/*.json", format="json", follow="true")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT w, count(*) AS n, max(id) AS m FROM {name} GROUP BY w")
    server.wait_until(f"{name}_v", count_is(1, name))
    waits = []
    with server.subscription(f"SUBSCRIBE TO {name}_v WITH (snapshot = true)") as (_, rows):
        next(rows)
        for i in range(1, 21):
            target = folder / ("1.json" if i % 2 else f"new{i}.json")
            start = time.monotonic()
            with open(target, "ab") as f:
                f.write(ndjson([(i, "a", 1.0)]))
            while next(rows)[1:] != (1, "a", i + 1, i):
                pass
            waits.append((time.monotonic() - start) * 1000)
    waits.sort()
    assert waits[len(waits) // 2] < 250, f"median {waits[len(waits) // 2]:.0f} ms, all {waits}"


def test_a_line_that_is_not_finished_waits_for_its_end(server, db, name, folder):
    path = folder / "in.json"
    write(path, b'{"id":1}\n{"id":')
    create(db, name, f"{name}/in.json", "id BIGINT", format="json", follow="true")
    server.wait_until(name, count_is(1, name))
    with open(path, "ab") as f:
        f.write(b'2}\n')
    server.wait_until(name, count_is(2, name))
    assert sorted(server.sql(f"SELECT id FROM {name}")) == [(1,), (2,)]
    assert errors_of(db, name) == []


def test_a_restart_neither_loses_nor_repeats_followed_rows(fresh):
    server = fresh()
    path = server.cwd / "in.json"
    write(path, ndjson([(i, "a", 1.0) for i in range(100)]))
    with server.connect() as db:
        create(db, "t", "in.json", format="json", follow="true")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT w, count(*) AS n FROM t GROUP BY w")
        server.wait_until("t", count_is(100, "t"))
    for round_ in range(1, 4):
        server.kill()
        with open(path, "ab") as f:
            f.write(ndjson([(i, "b", 1.0) for i in range(round_ * 100, round_ * 100 + 100)]))
        server.start()
        server.wait_until("t", count_is(100 + 100 * round_, "t"))
        assert server.sql("SELECT count(*), count(DISTINCT id) FROM t") == [(100 + 100 * round_, 100 + 100 * round_)]
        assert sorted(server.sql("SELECT * FROM v")) == [("a", 100), ("b", 100 * round_)]


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside.json", "{n}/link.json", "/etc/*", "{n}/../../outside.json"])
def test_files_outside_the_allowed_folders_are_refused(server, db, name, folder, path):
    outside = server.cwd.parent / "outside.json"
    outside.write_bytes(b'{"id":1}\n')
    os.symlink(outside, folder / "link.json")
    with pytest.raises(psycopg.Error) as raised:
        create(db, name, path.format(n=name), "id BIGINT", format="json")
        assert not server.sql(f"SELECT * FROM {name}"), "a glob may be empty, never read"
        raise AssertionError(f"{path} was accepted")
    assert raised.value.sqlstate in ("42501", "22000", "22023")


def test_allow_path_opens_a_folder(fresh, tmp_path):
    server = fresh(args=["--allow-path", str(tmp_path)])
    write(tmp_path / "in.json", ndjson(ROWS))
    with server.connect() as db:
        create(db, "t", tmp_path / "in.json", format="json")
    assert read_all(server, "t", 3) == ROWS


@pytest.mark.parametrize("statement", ["SELECT * FROM '/etc/passwd'", "CREATE EXTERNAL TABLE p STORED AS CSV LOCATION 'file:///etc/passwd'",
                                       "COPY (SELECT 'x') TO '/var/pwn.csv'", "COPY p FROM '/etc/passwd'"])
def test_no_statement_reaches_the_disk_around_the_policy(db, statement):
    with pytest.raises(psycopg.Error):
        db.execute(statement)


def test_secrets_are_not_shown(server, db, name):
    canary = "hunter2-canary"
    try:
        db.execute(f"CREATE TABLE {name} (id INT) WITH (connector = 'file', format = 'json', path = 'x.json', password = '{canary}')")
    except psycopg.Error as error:
        assert canary not in str(error)
    assert canary not in server.log_text() + server.get("/metrics").text


def test_a_file_grows_while_it_is_written_by_another_process(server, db, name, folder):
    """A shell appends in bursts; every line arrives once."""
    create_path = folder / "log.json"
    create_path.touch()
    create(db, name, f"{name}/log.json", "id BIGINT", format="json", follow="true")
    writer = subprocess.Popen(["sh", "-c", f"for i in $(seq 1 500); do echo \"{{\\\"id\\\":$i}}\"; done >> {create_path}"])
    assert writer.wait() == 0
    server.wait_until(name, count_is(500, name))
    assert server.sql(f"SELECT sum(id), count(DISTINCT id) FROM {name}") == [(125250, 500)]
