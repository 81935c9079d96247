"""Input that is broken, hostile or cut short: a clear error each time, nothing lost, the server alive and small."""
import gzip
import json
import random
import socket
import struct
import threading
import time

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from e2e.hostile_clients import Wire, message, text

KIND = {"ndjson": "application/x-ndjson", "json": "application/json", "csv": "text/csv", "arrow": "application/vnd.apache.arrow.stream"}
DEEP = "[" * 200 + "]" * 200

#: Lines of JSON that are no rows of (n BIGINT, w TEXT, day DATE), with what the reason must say.
BAD_JSON = [
    (b'{"n": 1', "the line ends"),
    (b'{"n": 1,}', "expected a field name"),
    (b'{"n": 01}', "invalid JSON"),
    (b'{n: 1}', "expected a field name"),
    (b"{'n': 1}", "expected a field name"),
    (b'[{"n": 1}]', "expected an object"),
    (b'{"n": 1} {"n": 2}', "one object a line"),
    (b'{"n": NaN}', "expected a value"),
    (b'nonsense', "expected an object"),
    (b'{"n": "x"}', "field `n`"),
    (b'{"n": 1.5}', "fraction"),
    (b'{"n": 9223372036854775808}', "out of range"),
    (b'{"n": {"a": 1}}', "an object"),
    (b'{"n": [1]}', "an array"),
    (b'{"n": true}', "field `n`"),
    (b'{"w": "\xff\xfe"}', "UTF-8"),
    (b'{"w": "a\x00b"}', "invalid JSON"),
    (b'{"w": "a\\u0000b"}', "U+0000"),
    (b'{"w": "\\ud800"}', "surrogate"),
    (b'{"w": "a\\qb"}', "escape"),
    (b'\x00\x01\x02\x03', "expected an object"),
    (b'{"day": "2023-02-29"}', "field `day`"),
    (b'{"day": "soon"}', "field `day`"),
    (f'{{"w": {DEEP}}}'.encode(), "nested"),
]


@pytest.fixture
def table(db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT, w TEXT, day DATE)")
    db.execute(f"INSERT INTO {name} VALUES (0, 'before', NULL)")
    return name


def rows(server, name):
    return sorted(server.sql(f"SELECT * FROM {name}"), key=str)


def alive(server):
    assert server.process.poll() is None, server.log_text()[-3000:]
    assert server.sql("SELECT 1") == [(1,)]
    assert server.get("/healthz").status == 200


def test_each_bad_line_of_a_file_is_told_and_the_good_ones_around_it_are_read(server, db, name):
    lines = [b'{"n": -1}', *[line for bad, _ in BAD_JSON for line in (bad, b'{"n": 7, "w": "good"}')]]
    (server.cwd / f"{name}.ndjson").write_bytes(b"\n".join(lines) + b"\n")
    db.execute(f"CREATE TABLE {name} (n BIGINT, w TEXT, day DATE) WITH (connector = 'file', format = 'json', path = '{name}.ndjson')")
    server.wait_until(name, lambda c: c.execute(f"SELECT count(*) FROM {name}").fetchone() == (1 + len(BAD_JSON),))
    told = db.execute("SELECT line, byte_offset, text, reason, file FROM cenote_catalog.errors WHERE source = %s ORDER BY line", (name,)).fetchall()
    assert [line for line, *_ in told] == [2 * i + 2 for i in range(len(BAD_JSON))]
    for (line, offset, shown, reason, file), (bad, says) in zip(told, BAD_JSON):
        assert offset == sum(len(one) + 1 for one in lines[:line - 1])
        assert says in reason, f"{bad}: {reason}"
        assert file.endswith(f"{name}.ndjson")
        assert shown == bad.decode("utf-8", "replace").replace("\0", shown[bad.find(b"\0"):][:1] if b"\0" in bad else "\0")[:1024]
    assert db.execute("SELECT bad_rows FROM cenote_catalog.sources WHERE name = %s", (name,)).fetchone() == (len(BAD_JSON),)


@pytest.mark.parametrize("bad, says", BAD_JSON, ids=range(len(BAD_JSON)))
def test_a_body_with_one_bad_line_is_refused_whole(server, table, bad, says):
    body = b'{"n": 1}\n' + bad + b'\n{"n": 2}\n'
    answer = server.post(f"/api/v1/tables/{table}/rows", body, headers={"Content-Type": KIND["ndjson"]})
    assert answer.status == 400
    error = answer.json()["error"]
    assert "line 2 " in error["message"] and says in error["message"] and error["hint"], error
    assert rows(server, table) == [(0, "before", None)]


@pytest.mark.parametrize("kind, body", [
    ("json", b"[{\"n\": 1}, {\"n\": 2}"), ("json", b"{\"n\": 1}"), ("json", b"[1]"), ("json", b"[{\"n\": 1}] x"), ("json", b"\xff"), ("json", b""),
    ("csv", b"n,w,day\n1,a\n"), ("csv", b"n,w,day\n1,\"a\n"), ("csv", b"m,w,day\n1,a,\n"), ("csv", b"n,n\n1,2\n"), ("csv", b"n\nx\n"),
    ("csv", b"n,w\n1,\xff\n"), ("csv", b"n,w\n1,a\x00b\n"), ("csv", b"\x00\x01\x02"),
    ("arrow", b"not Arrow"), ("arrow", b"\xff\xff\xff\xff\xff\xff\xff\x7f"), ("arrow", b"\xff\xff\xff\xff\x10\x00\x00\x00" + b"\x01" * 16), ("arrow", b""),
])
def test_a_body_that_is_not_of_its_format_is_refused(server, table, kind, body):
    answer = server.post(f"/api/v1/tables/{table}/rows", body, headers={"Content-Type": KIND[kind]})
    if answer.status == 200:
        assert body == b"" and answer.json().get("rows", 0) == 0
    else:
        assert answer.status == 400 and answer.json()["error"]["message"].startswith("cannot "), answer.text
    assert rows(server, table) == [(0, "before", None)]


def test_damaged_arrow_streams_never_bring_the_server_down(server, table):
    sink = pa.BufferOutputStream()
    batch = pa.table({"n": [1, 2, 3], "w": ["a", "b", None]})
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_table(batch)
    good, dice = bytearray(sink.getvalue().to_pybytes()), random.Random(7)
    taken = 0
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(dice.randint(1, 4)):
            bad[dice.randrange(len(bad))] = dice.randrange(256)
        if dice.random() < 0.3:
            bad = bad[:dice.randrange(len(bad))]
        answer = server.post(f"/api/v1/tables/{table}/rows", bytes(bad), headers={"Content-Type": KIND["arrow"]})
        assert answer.status in (200, 400, 409), answer.text
        taken += answer.json().get("rows", 0) if answer.status == 200 else 0
    alive(server)
    assert len(rows(server, table)) == 1 + taken


def test_damaged_parquet_files_never_bring_the_server_down(server, db, name):
    path = server.cwd / f"{name}.parquet"
    pq.write_table(pa.table({"n": list(range(500)), "w": [f"text {i}" for i in range(500)]}), path)
    good, dice = path.read_bytes(), random.Random(11)
    cases = [b"", b"PAR1", b"PAR1" * 3, good[:-1], good[4:], b"\0" * 1000, good[:100] + b"PAR1"]
    for _ in range(25):
        bad = bytearray(good)
        for _ in range(dice.randint(1, 6)):
            bad[dice.randrange(len(bad))] ^= 1 << dice.randrange(8)
        cases.append(bytes(bad))
    for i, data in enumerate(cases):
        path.write_bytes(data)
        try:
            db.execute(f"CREATE TABLE {name}_{i} (n BIGINT, w TEXT) WITH (connector = 'file', format = 'parquet', path = '{path.name}')")
        except psycopg.Error as error:
            assert str(error).startswith("cannot "), error
            continue
        server.ask_until(lambda c: c.execute("SELECT 1 FROM cenote_catalog.sources WHERE name = %s AND status IN ('finished', 'failed')", (f"{name}_{i}",)).fetchone())
        read = db.execute(f"SELECT count(*) FROM {name}_{i}").fetchone()[0]
        told = db.execute("SELECT count(*) FROM cenote_catalog.errors WHERE source = %s", (f"{name}_{i}",)).fetchone()[0]
        assert read == 500 or told or data == b"" or server.sql(f"SELECT error FROM cenote_catalog.sources WHERE name = '{name}_{i}'")[0][0], f"case {i}: {read} rows and no word"
        db.execute(f"DROP TABLE {name}_{i}")


@pytest.mark.parametrize("form, data, good", [
    ("csv", b"n,w\n1,a\n2,\"b\n3,c\n", 2),
    ("csv", b"n,w\n1,a\n2,b,extra\nx,c\n4,d\n", 2),
    ("csv", b"n,w\n1,a\n\xff,b\n3,\x00\n4,d\n", 2),
    ("csv.gz", gzip.compress(b"n,w\n1,a\n2,b\n" * 1)[:-6], None),
    ("csv.gz", b"\x1f\x8b not gzip at all", 0),
])
def test_broken_csv_is_told(server, db, name, form, data, good):
    (server.cwd / f"{name}.{form}").write_bytes(data)
    db.execute(f"CREATE TABLE {name} (n BIGINT, w TEXT) WITH (connector = 'file', format = 'csv', header = 'true', path = '{name}.{form}')")
    server.ask_until(lambda c: c.execute("SELECT 1 FROM cenote_catalog.sources WHERE name = %s AND status IN ('finished', 'failed')", (name,)).fetchone())
    told = db.execute("SELECT line, reason FROM cenote_catalog.errors WHERE source = %s ORDER BY line", (name,)).fetchall()
    failed = db.execute("SELECT error FROM cenote_catalog.sources WHERE name = %s", (name,)).fetchone()[0]
    assert told or failed
    if good is not None:
        assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (good,), (told, failed)


def test_lines_of_100_megabytes_cost_an_error_row_and_no_memory(fresh):
    server = fresh()
    path = server.cwd / "long.ndjson"
    with path.open("wb") as file:
        file.write(b'{"n": 1}\n')
        for _ in range(2):
            file.write(b'{"w": "')
            for _ in range(100):
                file.write(b"x" * 2**20)
            file.write(b'"}\n{"n": 2}\n')
    before = server.resident_bytes()
    with server.connect() as db:
        db.execute("CREATE TABLE t (n BIGINT, w TEXT) WITH (connector = 'file', format = 'json', path = 'long.ndjson', line_bytes_max = '1000000')")
        server.wait_until("t", lambda c: c.execute("SELECT count(*) FROM t").fetchone() == (3,))
        told = db.execute("SELECT line, byte_offset, length(text), reason FROM cenote_catalog.errors ORDER BY line").fetchall()
    assert [(line, size) for line, _, size, _ in told] == [(2, 1024), (4, 1024)]
    assert [offset for _, offset, _, _ in told] == [9, 9 + 100 * 2**20 + 10 + 9]
    assert all("longer than 1000000 bytes" in reason for *_, reason in told)
    assert server.resident_bytes() - before < 150 * 2**20


def test_the_table_of_errors_holds_the_first_ten_thousand_rows_of_a_source(fresh):
    server = fresh()
    (server.cwd / "bad.ndjson").write_text("no\n" * 30_000 + '{"n": 1}\n')
    (server.cwd / "few.ndjson").write_text("no\n" * 3)
    count = "SELECT source, count(*) FROM cenote_catalog.errors GROUP BY source ORDER BY source"
    with server.connect() as db:
        for name in ("bad", "few"):
            db.execute(f"CREATE TABLE {name} (n BIGINT) WITH (connector = 'file', format = 'json', path = '{name}.ndjson')")
        server.wait_until("bad", lambda c: c.execute("SELECT n FROM bad").fetchall() == [(1,)])
        server.ask_until(lambda c: c.execute(count).fetchall() == [("bad", 10_000), ("few", 3)])
        last, = db.execute("SELECT reason FROM cenote_catalog.errors WHERE source = 'bad' ORDER BY line DESC LIMIT 1").fetchone()
        assert "row 10000 of this source here, the last" in last
        assert db.execute("SELECT bad_rows FROM cenote_catalog.sources WHERE name = 'bad'").fetchone() == (30_000,)
    server.restart()
    assert server.sql(count) == [("bad", 10_000), ("few", 3)]
    server.sql("DROP TABLE bad")
    assert server.sql(count) == [("few", 3)], "the rows of a source go with it"


@pytest.mark.parametrize("rows_, state, says", [
    ("1\tx\ty\n", "22P04", "extra data"), ("1\n", "22P04", "missing data"), ("x\ta\n", "22P02", "invalid input syntax for type bigint"),
    ("9223372036854775808\ta\n", "22003", "out of range"), ("1\ta\\000b\n", "22021", "UTF8"),
])
def test_a_copy_with_a_bad_line_keeps_nothing_and_names_it(db, server, name, rows_, state, says):
    db.execute(f"CREATE TABLE {name} (n BIGINT, w TEXT)")
    with pytest.raises(psycopg.Error) as raised, db.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        copy.write("5\tgood\n" + rows_ + "6\tgood\n")
    assert raised.value.sqlstate == state and says in str(raised.value), raised.value
    assert "line: 2" in raised.value.diag.message_detail
    assert rows(server, name) == []


def test_copy_reads_values_by_the_rules_of_their_types(db, name):
    """Expected: what PostgreSQL makes of the same COPY."""
    db.execute(f"CREATE TABLE {name} (b BOOLEAN, i INT, x DOUBLE PRECISION, d NUMERIC(10, 2), day DATE, ts TIMESTAMPTZ, raw BYTEA, w TEXT)")
    with db.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        copy.write("yes\t 12 \t1e3\t1.005\tJan 5 2024\t2024-01-01 12:00 Europe/Berlin\t\\\\xdead\t\\x41\\102\\tc\n")
        copy.write("off\t-0\t-inf\t\\N\t20240229\t2024-01-01\t\\N\ta\\\nb\n")
    seen = db.execute(f"SELECT b, i, x, d::text, day::text, to_char(ts, 'YYYY-MM-DD HH24:MI:SS'), raw, w FROM {name} ORDER BY i DESC").fetchall()
    assert seen == [
        (True, 12, 1000.0, "1.01", "2024-01-05", "2024-01-01 11:00:00", b"\xde\xad", "AB\tc"),
        (False, 0, float("-inf"), None, "2024-02-29", "2024-01-01 00:00:00", None, "a\nb"),
    ]


@pytest.mark.parametrize("target", [
    "/api/v1/queryable_state/..%2f..%2f..%2fetc%2fpasswd", "/api/v1/queryable_state/../../../../etc/passwd", "/../../etc/passwd",
    "/api/v1/queryable_state/%2e%2e/%2e%2e/scan.csv", "/api/v1/queryable_state/%00", "/api/v1/queryable_state/a%00b/scan", "//etc/passwd",
    "/api/v1/queryable_state/" + "x" * 5000, "/api/v1/queryable_state/cenote_state.%27%20OR%201=1--", "/api/v1/tables/%2e%2e%2f%2e%2e/rows",
    "/api/v1/queryable_state/%f0%28%8c%28",
])
def test_names_in_addresses_reach_no_file_and_no_statement(server, target):
    for method in ("GET", "POST"):
        with socket.create_connection(server.doors["http"], timeout=20) as line:
            line.sendall(f"{method} {target} HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nContent-Length: 2\r\nConnection: close\r\n\r\nn\n".encode())
            answer = b"".join(iter(lambda: line.recv(65536), b""))
        status = int(answer.split(b" ")[1])
        assert 400 <= status < 500, answer[:300]
        assert b"root:" not in answer


@pytest.mark.parametrize("path", ["/etc/passwd", "../../../../../etc/passwd", "./../../etc/passwd", "/proc/self/environ", "file:///etc/passwd", "/etc/*", "~/.ssh",
                                  "/dev/zero", "a\\0b", "x" * 5000])
def test_paths_outside_the_folders_are_refused(server, db, name, path):
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"CREATE TABLE {name} (n TEXT) WITH (connector = 'file', format = 'csv', path = '{path}')")
    assert raised.value.sqlstate in ("42501", "58P01", "22023", "58030"), raised.value
    assert "cannot" in str(raised.value) and "root:" not in str(raised.value)


def test_a_link_out_of_the_folders_is_not_followed(server, db, name):
    (server.cwd / name).symlink_to("/etc/passwd")
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"CREATE TABLE {name} (n TEXT) WITH (connector = 'file', format = 'csv', path = '{name}')")
    assert raised.value.sqlstate == "42501"


def test_a_client_that_vanishes_in_the_middle_of_copy_leaves_nothing(server, db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT)")
    for whole in (0, 1000, 200_000):
        wire = Wire(server)
        wire.send(message(b"Q", text(f"COPY {name} FROM STDIN")))
        assert wire.until(b"G")[0] == b"G"
        for start in range(0, whole, 1000):
            wire.send(message(b"d", "".join(f"{n}\n" for n in range(start, start + 1000)).encode()))
        wire.line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.line.close()
        wire.file.close()
    time.sleep(0.3)
    assert rows(server, name) == []
    with db.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        copy.write("1\n")
    assert rows(server, name) == [(1,)]


def test_a_client_that_vanishes_in_the_middle_of_a_body_leaves_nothing(server, table):
    for head, part in ((b"Content-Length: 1000000", b'{"n": 1}\n' * 100), (b"Transfer-Encoding: chunked", b'9\r\n{"n": 1}\n\r\n')):
        with socket.create_connection(server.doors["http"], timeout=20) as line:
            line.sendall(f"POST /api/v1/tables/{table}/rows HTTP/1.1\r\nHost: x\r\nContent-Type: {KIND['ndjson']}\r\n".encode() + head + b"\r\n\r\n" + part)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(0.3)
    assert rows(server, table) == [(0, "before", None)]


def test_clients_that_vanish_in_the_middle_of_a_result_stop_their_queries(server, db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT, w TEXT)")
    db.execute(f"INSERT INTO {name} SELECT x, repeat('y', 200) FROM generate_series(1, 100000) AS s(x)")
    before = server.resident_bytes()
    for _ in range(20):
        wire = Wire(server)
        wire.send(message(b"Q", text(f"SELECT a.w, b.w FROM {name} a, {name} b")))
        wire.until(b"D")
        wire.line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.line.close()
        wire.file.close()
        with socket.create_connection(server.doors["http"], timeout=20) as line:
            line.sendall(f"GET /api/v1/queryable_state/{name}/scan.ndjson HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            line.recv(1000)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    deadline = time.monotonic() + 20
    while True:
        used = server.cpu_seconds()
        time.sleep(0.5)
        if server.cpu_seconds() - used < 0.1:
            break
        assert time.monotonic() < deadline, "queries go on for clients that are gone"
    assert server.resident_bytes() - before < 300 * 2**20
    assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (100_000,)


HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(32) + b"\x20" + bytes(150)


def test_other_protocols_and_noise_on_either_port_are_turned_away(server):
    dice, before = random.Random(3), server.resident_bytes()
    noise = [dice.randbytes(dice.randint(1, 3000)) for _ in range(60)]
    startup = struct.pack("!II", 30, 196608) + b"user\0x\0database\0y\0\0"
    for door in ("pg", "http"):
        for data in [HELLO, b"GET / HTTP/1.1\r\n\r\n", startup, b"SSH-2.0-x\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\r\n" * 50, b"\0" * 9000, *noise]:
            with socket.create_connection(server.doors[door], timeout=20) as line:
                try:
                    line.sendall(data)
                    line.shutdown(socket.SHUT_WR)
                    while line.recv(65536):
                        pass
                except OSError:
                    pass
    assert server.resident_bytes() - before < 50 * 2**20
    alive(server)


def test_requests_that_are_no_http_are_told_so(server):
    for head, statuses in ((b"GET / HTTP/9.9\r\n\r\n", (400, 505)), (b"GET /healthz HTTP/1.1\r\n" + b"X-A: " + b"y" * 3_000_000 + b"\r\n\r\n", (400, 431)),
                           (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (400, 414, 431)),
                           (b"POST /api/v1/sql HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", (400,)),
                           (b"POST /api/v1/sql HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", (400, 413)),
                           (b"POST /api/v1/sql HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", (400,))):
        with socket.create_connection(server.doors["http"], timeout=20) as line:
            try:
                line.sendall(head)
            except OSError:
                pass
            try:
                answer = line.recv(1000)
            except ConnectionResetError:
                continue
        assert int(answer.split(b" ")[1]) in statuses, answer


def test_a_body_that_inflates_is_held_to_the_limit(server, table):
    bomb = gzip.compress(b" " * 2**30, compresslevel=1)
    before = server.resident_bytes()
    answer = server.post(f"/api/v1/tables/{table}/rows", bomb, headers={"Content-Type": KIND["ndjson"], "Content-Encoding": "gzip"})
    assert answer.status in (400, 413, 415), answer.text
    assert server.resident_bytes() - before < 400 * 2**20
    assert rows(server, table) == [(0, "before", None)]


def test_thousands_of_half_open_connections_lock_nobody_out_for_long(fresh):
    server = fresh(args=["--max-connections", "200", "--read-timeout", "1s"])
    server.sql("CREATE TABLE t (n INT)")
    before, held = server.resident_bytes(), []
    try:
        for door in ("pg", "http"):
            for _ in range(1500):
                try:
                    line = socket.create_connection(server.doors[door], timeout=5)
                    line.setblocking(False)
                    held.append(line)
                except OSError:
                    break
        assert server.resident_bytes() - before < 150 * 2**20
        assert server.threads() < 100
        deadline = time.monotonic() + 15
        while True:
            try:
                server.sql("INSERT INTO t VALUES (1)")
                assert server.get("/healthz", timeout=5).status == 200
                break
            except (psycopg.Error, OSError, AssertionError):
                assert time.monotonic() < deadline, "connections that say nothing are never cut"
                time.sleep(0.5)
    finally:
        for line in held:
            line.close()
    assert server.sql("SELECT count(*) FROM t")[0][0] >= 1


def test_a_client_that_sends_a_byte_a_second_is_cut(fresh):
    server = fresh(args=["--read-timeout", "1s"])
    lines = [socket.create_connection(server.doors[door], timeout=20) for door in ("http", "http", "pg")]
    heads = [b"GET /healthz HTTP/1.1\r\nHost: " + b"x" * 100, b"POST /api/v1/sql HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 100, struct.pack("!II", 100, 196608) + b"u" * 100]
    cut, deadline = set(), time.monotonic() + 50
    for at in range(99):
        for index, line in enumerate(lines):
            if index in cut:
                continue
            try:
                line.sendall(heads[index][at:at + 1])
                line.settimeout(0.05)
                if line.recv(1000) == b"":
                    cut.add(index)
            except TimeoutError:
                pass
            except OSError:
                cut.add(index)
        if len(cut) == 3 or time.monotonic() > deadline:
            break
        time.sleep(0.4)
    assert cut == {0, 1, 2}, "HTTP, HTTP and pg: those cut are " + repr(cut)
    assert server.sql("SELECT 1") == [(1,)]


def test_many_bad_statements_at_once_leave_the_data_as_it_was(server, table):
    bad = ["SELECT", "'", "\"", "/*", "$$", "SELECT \x01", "INSERT INTO {t} VALUES (1/0, 'x', NULL)", "DELETE FROM {t} WHERE n = 1/0", "SELECT * FROM {t} WHERE 'x' = 1::date",
           "UPDATE {t} SET n = 'x'", "SELECT $1", "EXECUTE nothing", "COPY {t} FROM STDIN WITH (FORMAT nothing)", ";;;", "SELECT E'\\u00'", "SELECT U&'\\zzzz'", "\ufeffSELECT 1",
           "SELECT 1 \u202e", "SELECT '" + "\U0001f600" * 1000, "(" * 500, "SELECT " + "1," * 5000]
    failures = []

    def play(seed):
        dice = random.Random(seed)
        with server.connect() as db:
            for _ in range(40):
                try:
                    db.execute(dice.choice(bad).format(t=table) if "{t}" in (sql := dice.choice(bad)) else sql)
                except psycopg.Error as error:
                    if error.sqlstate is None or error.sqlstate.startswith("XX"):
                        failures.append((sql, str(error)))

    threads = [threading.Thread(target=play, args=(seed,)) for seed in range(6)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert failures == []
    assert rows(server, table) == [(0, "before", None)]


@pytest.mark.parametrize("body", [
    '{"sql": 1}', '{"sql": null}', "[]", "null", '"x"', '{"sql": "SELECT 1", "params": {}}', '{"sql": "SELECT $1", "params": [1, 2]}', '{"sql": "SELECT 1", "sql2": 1}',
    '{"sql": "SELECT 1"} x', "{" * 5000, '{"sql": "' + "\\ud800" + '"}', "\x00", '{"keys": [1e999]}',
])
def test_a_body_that_is_no_request_is_told_in_words(server, body):
    answer = server.post("/api/v1/sql", body, headers={"Content-Type": "application/json"})
    assert answer.status == 400, answer.text
    assert answer.json()["error"]["message"], answer.text
    json.loads(answer.text)
