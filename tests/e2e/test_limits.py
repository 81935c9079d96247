"""Whatever a client sends, the server answers, stays small and stays up."""
import http.client
import json
import socket
import struct
import threading
import time

import psycopg
import pytest


def test_expressions_that_are_too_deep_are_refused_or_run(db):
    for sql in ("SELECT " + "+".join(["1"] * 20_000), "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
                "SELECT count(*) FROM generate_series(1, 1) AS s(a) WHERE " + " OR ".join(f"a = {i}" for i in range(20_000)),
                "SELECT " + "NOT " * 10_000 + "true", "SELECT " + "-" .join([" "] * 5_000) + "1"):
        try:
            assert db.execute(sql).fetchall()
        except psycopg.Error as error:
            assert error.sqlstate in ("54001", "54000", "42601"), f"{error.sqlstate}: {str(error)[:200]}"
        assert db.execute("SELECT 1").fetchone() == (1,)


def test_a_body_that_is_too_large_is_refused(fresh):
    server = fresh(args=["--max-body", "1000000"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (w TEXT)")
    body = json.dumps({"w": "x" * 2_000_000}) + "\n"
    assert server.post("/api/v1/tables/t/rows", body, headers={"Content-Type": "application/x-ndjson"}).status == 413
    assert server.post("/api/v1/sql", {"sql": "SELECT '" + "x" * 2_000_000 + "'"}).status in (400, 413)
    assert server.sql("SELECT count(*) FROM t") == [(0,)]


def test_a_query_over_its_memory_is_refused_and_others_go_on(fresh):
    """A join holds one side whole; groups and sorts go to files instead, and other queries have memory of their own."""
    server = fresh(args=["--query-memory", "20MB"])
    join = "SELECT count(*) FROM generate_series(1, 2000000) AS a(x) JOIN generate_series(1, 2000000) AS b(x) ON a.x = b.x"
    with server.connect() as db, server.connect() as other:
        held = other.cursor().stream("SELECT x FROM generate_series(1, 1000000) AS s(x) ORDER BY x DESC")
        assert next(held) == (1000000,)
        with pytest.raises(psycopg.Error) as raised:
            db.execute(join)
        assert raised.value.sqlstate == "53200"
        assert sum(1 for _ in held) == 999_999
        before = server.resident_bytes()
        grouped = "SELECT x, count(*) AS n FROM generate_series(1, 3000000) AS s(x) GROUP BY x ORDER BY x"
        assert db.execute(f"SELECT count(*), sum(n) FROM ({grouped}) AS g").fetchone() == (3_000_000, 3_000_000)
        assert server.resident_bytes() - before < 100 * 2**20


def test_too_many_connections_are_refused_with_their_sqlstate(fresh):
    server = fresh(args=["--max-connections", "5"])
    held = []
    with pytest.raises(psycopg.OperationalError) as raised:
        for _ in range(10):
            held.append(server.connect())
    assert len(held) == 5
    assert "53300" in str(raised.value) or "connections" in str(raised.value)
    held.pop().close()
    for connection in held:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        connection.close()


GSS, SSL = struct.pack("!II", 8, 80877104), struct.pack("!II", 8, 80877103)


def speak(server, data, size=1):
    with socket.create_connection(server.doors["pg"], timeout=10) as line:
        line.sendall(data)
        return line.recv(size)


@pytest.mark.parametrize("request_", [GSS, SSL], ids=["gss", "ssl"])
def test_encryption_requests_are_answered(server, request_):
    assert speak(server, request_) in (b"N", b"S")


@pytest.mark.parametrize("junk", [
    b"GET / HTTP/1.1\r\n\r\n", struct.pack("!II", 2**31 - 1, 196608), struct.pack("!I", 4), struct.pack("!II", 8, 1), b"\x00" * 64, b"\xff" * 64,
], ids=["http", "huge", "short", "unknown", "zeros", "ones"])
def test_junk_on_the_pg_port_harms_nobody(server, junk):
    before = server.resident_bytes()
    with socket.create_connection(server.doors["pg"], timeout=10) as line:
        line.sendall(junk)
        line.shutdown(socket.SHUT_WR)
        while line.recv(4096):
            pass
    assert server.resident_bytes() - before < 50 * 2**20
    assert server.sql("SELECT 1") == [(1,)]


def test_an_endless_encryption_ping_pong_is_cut(server):
    with socket.create_connection(server.doors["pg"], timeout=10) as line:
        try:
            for _ in range(1000):
                line.sendall(GSS)
                if line.recv(1) != b"N":
                    return
        except OSError:
            return
    raise AssertionError("a thousand requests were answered")


def test_a_reader_that_stops_reading_costs_bounded_memory(fresh):
    """A subscriber sleeps while three million changes pass: it is cut or paced, the writer is not held back."""
    server = fresh(workers=2, args=["--retain-epochs", "10", "--retain-time", "0s"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (n BIGINT, w TEXT)")
        host, port = server.doors["http"]
        idle = http.client.HTTPConnection(host, port, timeout=60)
        idle.request("GET", f"/api/v1/queryable_state/t/changes?from_epoch={db.execute('SELECT cenote_epoch()').fetchone()[0]}")

        def write(rounds):
            for _ in range(rounds):
                db.execute("INSERT INTO t SELECT x, repeat('y', 100) FROM generate_series(1, 20000) AS s(x)")
                db.execute("DELETE FROM t")

        write(20)  # fills what is kept for readers that are behind
        before = server.resident_bytes()
        write(60)  # 300 MB of changes
        assert server.resident_bytes() - before < 100 * 2**20
        text = idle.getresponse().read().decode()
        assert "error" in text and "epoch" in text, "the stream ends with an error that tells where to resume"
        idle.close()


def test_a_large_result_is_streamed_in_bounded_memory(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (n BIGINT, w TEXT)")
        for _ in range(10):
            db.execute("INSERT INTO t SELECT x, repeat('y', 100) FROM generate_series(1, 50000) AS s(x)")
        before = server.resident_bytes()
        cursor = db.cursor()
        assert sum(1 for _ in cursor.stream("SELECT a.w, b.n FROM t a, (SELECT n FROM t LIMIT 4) b")) == 2_000_000
        assert server.resident_bytes() - before < 300 * 2**20
        assert server.get("/api/v1/queryable_state/t/scan.csv").body.count(b"\n") == 500_001


def test_a_query_that_computes_long_keeps_nobody_else_waiting(fresh):
    """The first request after a silence is the one that would find every thread busy."""
    server = fresh(workers=1)
    long = "SELECT count(*) FROM generate_series(1, 60000) a(x), generate_series(1, 60000) b(y) WHERE (x * y) % 7 = 1"
    with server.connect() as busy, server.connect() as other:
        running = threading.Thread(target=lambda: pytest.raises(psycopg.Error, busy.execute, long))
        running.start()
        time.sleep(0.5)
        waits = []
        for _ in range(5):
            start = time.monotonic()
            assert server.get("/healthz").status == 200
            assert other.execute("SHOW server_version").fetchone()
            waits.append(time.monotonic() - start)
            time.sleep(0.1)
        assert running.is_alive(), "the query is still at work"
        busy.cancel_safe()
        running.join()
    assert max(waits) < 1, waits
