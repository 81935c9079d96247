"""Clients of the wire protocol that drivers are not, each playing until it is told an error; it gives the error's text."""
import gzip
import http.client
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time

import psycopg
from harness import Server, binary
from harness.s3 import Listener, aws, refusal

AUTH_OK, READY = b"R", b"Z"


def message(kind, body=b""):
    return kind + struct.pack("!I", len(body) + 4) + body


def text(*parts):
    return b"".join(part.encode() + b"\0" for part in parts)


class Wire:
    """A connection to the PostgreSQL door, message by message."""

    def __init__(self, server, start=True, **parameters):
        self.line = socket.create_connection(server.doors["pg"], timeout=20)
        self.file = self.line.makefile("rb")
        if start:
            self.start({"user": "cenote", **parameters})
            self.until(READY)

    def start(self, parameters, version=196608):
        body = b"".join(text(name, value) for name, value in parameters.items()) + b"\0"
        self.line.sendall(struct.pack("!II", len(body) + 8, version) + body)

    def send(self, *messages):
        self.line.sendall(b"".join(messages))

    def read(self):
        kind = self.file.read(1)
        if not kind:
            return None, b""
        return kind, self.file.read(struct.unpack("!I", self.file.read(4))[0] - 4)

    def until(self, wanted):
        """Reads up to a message of that kind, or of an error, and gives it."""
        while True:
            kind, body = self.read()
            if kind in (None, wanted, b"E"):
                return kind, body

    def error(self):
        """The next error as text."""
        kind, body = self.until(b"E")
        assert kind == b"E", "the connection was closed without a word"
        fields = {part[:1].decode(): part[1:].decode() for part in body.split(b"\0") if part}
        lines = [f"error[{fields['R']}] {fields['C']}: {fields['M']}"]
        lines += [f"  {line}" for line in fields.get("D", "").split("\n") if line]
        lines += [f"  try: {fields['H']}"] if "H" in fields else []
        return "\n".join(lines)


def parse(name, sql, *types):
    return message(b"P", text(name, sql) + struct.pack(f"!H{len(types)}I", len(types), *types))


def bind(portal, name, formats=(), values=(), results=()):
    body = text(portal, name) + struct.pack(f"!H{len(formats)}H", len(formats), *formats) + struct.pack("!H", len(values))
    for value in values:
        body += struct.pack("!i", len(value)) + value
    return message(b"B", body + struct.pack(f"!H{len(results)}H", len(results), *results))


def execute(portal):
    return message(b"E", text(portal) + struct.pack("!I", 0))


SYNC = message(b"S")


def said(server, *messages):
    wire = Wire(server)
    wire.send(*messages, SYNC)
    return wire.error()


def too_many_clients(server):
    held = []
    try:
        while True:
            held.append(Wire(server))
            wire = Wire(server, start=False)
            wire.start({"user": "cenote"})
            kind, body = wire.until(READY)
            if kind == b"E":
                wire = Wire(server, start=False)
                wire.start({"user": "cenote"})
                return wire.error()
            held.append(wire)
    finally:
        for wire in held:
            wire.line.close()


def cancelled(server):
    with server.connect() as db:
        slow = "SELECT count(*) FROM generate_series(1, 60000) a(x), generate_series(1, 60000) b(y) WHERE (x * y) % 7 = 1"
        threading.Timer(0.3, db.cancel).start()
        return pg_error(db, slow)


def pg_error(db, sql):
    try:
        db.execute(sql)
    except psycopg.Error as error:
        diag = error.diag
        lines = [f"error[{diag.source_function}] {diag.sqlstate}: {diag.message_primary}"]
        lines += [f"  {line}" for line in (diag.message_detail or "").split("\n") if line]
        lines += [f"  try: {diag.message_hint}"] if diag.message_hint else []
        return "\n".join(lines)
    raise AssertionError("nothing was refused")


def message_too_long(server):
    wire = Wire(server)
    wire.send(b"Q" + struct.pack("!I", 2**31 - 1))
    return wire.error()


def not_the_protocol(server):
    wire = Wire(server)
    wire.send(message(b"B", b"x"), SYNC)
    return wire.error()


def other_version(server):
    wire = Wire(server, start=False)
    wire.start({"user": "cenote"}, version=2 << 16)
    return wire.error()


def no_user(server):
    wire = Wire(server, start=False)
    wire.start({"database": "cenote"})
    return wire.error()


def replication(server):
    wire = Wire(server, start=False)
    wire.start({"user": "cenote", "replication": "true"})
    return wire.error()


def unknown_option(server):
    wire = Wire(server, start=False)
    wire.start({"user": "cenote", "options": "--geqo"})
    return wire.error()


def format_code(server):
    return said(server, parse("", "SELECT 1"), bind("", "", results=[7]), execute(""))


def function_call(server):
    return said(server, message(b"F", struct.pack("!IHHH", 1, 0, 0, 0)))


def copy_given_up(server):
    server.sql("CREATE TABLE t (n INT)")
    wire = Wire(server)
    wire.send(message(b"Q", text("COPY t FROM STDIN")))
    assert wire.until(b"G")[0] == b"G"
    wire.send(message(b"f", text("no more rows")))
    return wire.error()


def other_columns_now(server):
    server.sql("CREATE VIEW v AS SELECT 1 AS a")
    wire = Wire(server)
    wire.send(parse("s", "SELECT * FROM v"), message(b"D", b"S" + text("s")), SYNC)
    wire.until(READY)
    server.sql("CREATE OR REPLACE VIEW v AS SELECT 'x' AS b, 2 AS c")
    wire.send(bind("", "s"), execute(""), SYNC)
    return wire.error()


def no_such_type(server):
    return said(server, parse("", "SELECT $1", 999_999))


def no_portal(server):
    return said(server, execute("nowhere"))


def no_statement(server):
    return said(server, bind("", "nothing"))


def too_many_statements(server):
    wire = Wire(server)
    for start in range(0, 100_000, 500):
        wire.send(*[parse(f"s{number}", "SELECT 1") for number in range(start, start + 500)], SYNC)
        while True:
            kind, body = wire.read()
            if kind == READY:
                break
            if kind == b"E":
                wire.until(READY)
                wire.send(parse("more", "SELECT 1"), SYNC)
                return wire.error()
    raise AssertionError("a hundred thousand statements are kept")


def statement_twice(server):
    return said(server, parse("s", "SELECT 1"), parse("s", "SELECT 1"))


def two_statements(server):
    return said(server, parse("", "SELECT 1; SELECT 2"))


def portal_twice(server):
    return said(server, parse("s", "SELECT 1"), bind("p", "s"), bind("p", "s"))


def portal_at_its_end(server):
    return said(server, parse("s", "SET application_name = 'x'"), bind("p", "s"), execute("p"), execute("p"))


def binary_of_other_length(server):
    return said(server, parse("", "SELECT $1::bigint", 20), bind("", "", formats=[1], values=[b"abc"]), execute(""))


def not_utf8(server):
    return said(server, parse("", "SELECT $1::text", 25), bind("", "", formats=[1], values=[b"a\xff"]), execute(""))


def infinity_as_parameter(server):
    value = struct.pack("!i", 2**31 - 1)
    return said(server, parse("", "SELECT $1::date", 1082), bind("", "", formats=[1], values=[value]), execute(""))


def no_binary_form(server):
    return said(server, parse("", "SELECT $1", 2249), bind("", "", formats=[1], values=[b"abc"]), execute(""))


def slow_body(server):
    """A request whose body does not come, against a server with a short patience."""
    with Server(args=["--read-timeout", "300ms"]) as own:
        own.sql("CREATE TABLE t (n INT)")
        with socket.create_connection(own.doors["http"], timeout=20) as line:
            line.sendall(b"POST /api/v1/tables/t/rows HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\nContent-Length: 100\r\n\r\nn\n1\n")
            return http_text(line)


def http_text(line):
    """The error in an HTTP answer that ends with the connection or its length."""
    answer = http.client.HTTPResponse(line)
    answer.begin()
    error = json.loads(answer.read())["error"]
    lines = [f"HTTP {answer.status}", f"error[{error['code']}] {error['sqlstate']}: {error['message']}"]
    lines += [f"  {part}" for part in (error["detail"] or "").split("\n") if part]
    lines += [f"  try: {error['hint']}"] if error["hint"] else []
    return "\n".join(lines)


def stopping_changes(_):
    with Server() as own:
        own.sql("CREATE TABLE t (n INT)")
        threading.Timer(0.5, lambda: own.sql("INSERT INTO t VALUES (1)")).start()
        threading.Timer(1, own.process.terminate).start()
        error = [event for event in own.events("t")][-1].data["error"]
        return f"error[{error['code']}] {error['sqlstate']}: {error['message']}"


def too_many_http(_):
    with Server(args=["--max-connections", "3"]) as own:
        held = [socket.create_connection(own.doors["http"], timeout=20) for _ in range(4)]
        try:
            time.sleep(0.3)
            with socket.create_connection(own.doors["http"], timeout=20) as line:
                line.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                return http_text(line)
        finally:
            for one in held:
                one.close()


def shut_down(_):
    with Server() as own:
        wire = Wire(own)
        own.process.terminate()
        return wire.error()


def timed_out(server):
    with server.connect() as db:
        db.execute("SET statement_timeout = '100ms'")
        return pg_error(db, "SELECT count(*) FROM generate_series(1, 60000) a(x), generate_series(1, 60000) b(y) WHERE (x * y) % 7 = 1")


def out_of_memory(_):
    with Server(args=["--query-memory", "5MB"]) as own, own.connect() as db:
        said = pg_error(db, "SELECT count(*) FROM generate_series(1, 900000) AS a(x) JOIN generate_series(1, 900000) AS b(x) ON a.x = b.x")
    return re.sub(r"needs too much memory: .*", "needs too much memory: <which operator, and how much>", said)


def changed_meanwhile(server):
    with server.connect(autocommit=False) as one, server.connect(autocommit=False) as two:
        one.execute("COMMIT")
        server.sql("CREATE TABLE t (k INT PRIMARY KEY, n INT)")
        server.sql("INSERT INTO t VALUES (1, 1)")
        one.execute("UPDATE t SET n = 2 WHERE k = 1")
        two.execute("UPDATE t SET n = 3 WHERE k = 1")
        one.commit()
        return pg_error(two, "COMMIT")


def behind(server):
    """A reader asks for changes from where they are no longer kept."""
    server.sql("CREATE TABLE t (n INT)")
    first = server.sql("SELECT cenote_epoch()")[0][0]
    for _ in range(6):
        server.sql("INSERT INTO t VALUES (1)")
    with server.connect() as db:
        said = pg_error(db, f"SUBSCRIBE TO t AS OF EPOCH {first}")
        return re.sub(r"epoch \d+", "epoch <n>", said)


def dropped_under_reader(server):
    server.sql("CREATE TABLE t (n INT)")
    threading.Timer(0.3, lambda: server.sql("DROP TABLE t")).start()
    with server.connect() as db:
        try:
            list(db.cursor().stream("SUBSCRIBE TO t"))
        except psycopg.Error as error:
            return f"error[{error.diag.source_function}] {error.diag.sqlstate}: {error.diag.message_primary}"
    raise AssertionError("the subscription ended well")


def past_of_a_common_table(server):
    epoch = server.sql("SELECT cenote_epoch()")[0][0]
    with server.connect() as db:
        return pg_error(db, f"WITH c AS (SELECT 1 AS n) SELECT * FROM c AS OF EPOCH {epoch}")


def failed_block(server):
    with server.connect() as db:
        db.execute("BEGIN")
        pg_error(db, "SELECT 1/0")
        return pg_error(db, "SELECT 1")


def statement_too_long(server):
    with server.connect() as db:
        return pg_error(db, "SELECT '" + "x" * 20_000_000 + "'")


def statement_too_deep(server):
    with server.connect() as db:
        return pg_error(db, "SELECT " + "(" * 5_000 + "1" + ")" * 5_000)


def definition_in_a_block(server):
    with server.connect() as db:
        db.execute("BEGIN")
        return pg_error(db, "CREATE TABLE t (n INT)")


def change_in_a_read_only_block(server):
    server.sql("CREATE TABLE t (n INT)")
    with server.connect() as db:
        db.execute("BEGIN READ ONLY")
        return pg_error(db, "INSERT INTO t VALUES (1)")


def too_many_savepoints(server):
    with server.connect() as db:
        db.execute("BEGIN")
        for _ in range(10):
            db.execute(";".join(["SAVEPOINT s"] * 100))
        return pg_error(db, "SAVEPOINT s")


def too_many_cursors(server):
    with server.connect() as db:
        for number in range(256):
            db.execute(f"DECLARE c{number} CURSOR WITH HOLD FOR SELECT 1")
        return pg_error(db, "DECLARE more CURSOR WITH HOLD FOR SELECT 1")


def failed_cursor(server):
    with server.connect() as db:
        db.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 1 / x FROM (VALUES (0)) AS t(x)")
        pg_error(db, "FETCH c")
        return pg_error(db, "FETCH c")


def cursor_in_use(server):
    wire = Wire(server)
    declare = "DECLARE c CURSOR WITH HOLD FOR SELECT x FROM generate_series(1, 100000) AS s(x)"
    part = message(b"E", text("part") + struct.pack("!I", 1))
    wire.send(parse("", declare), bind("", ""), execute(""), parse("", "FETCH ALL c"), bind("part", ""), part,
              parse("", "FETCH 5 c"), bind("", ""), execute(""), SYNC)
    return wire.error()


def view_younger_than_the_epoch(server):
    server.sql("CREATE TABLE t (n INT)")
    epoch = server.sql("SELECT cenote_epoch()")[0][0]
    server.sql("CREATE MATERIALIZED VIEW v AS SELECT n FROM t")
    with server.connect() as db:
        return pg_error(db, f"SELECT * FROM v AS OF EPOCH {epoch}")


def counted(server):
    server.sql("CREATE TABLE t (n INT)")
    server.sql("CREATE MATERIALIZED VIEW v AS SELECT n, count(*) AS c FROM t GROUP BY n")
    server.sql("INSERT INTO t VALUES (1)")
    return next(entry["name"] for entry in server.readables() if entry["kind"] == "state" and ".v" in entry["name"])


def old_state(server):
    name = counted(server)
    epoch = server.sql("SELECT cenote_epoch()")[0][0]
    server.sql("INSERT INTO t VALUES (1)")
    with server.connect() as db:
        return pg_error(db, f"SELECT * FROM {name} AS OF EPOCH {epoch}")


def changes_of_state(server):
    return http_said(server.get(f"/api/v1/queryable_state/{counted(server)}/changes"))


def changes_before_the_view(server):
    server.sql("CREATE TABLE t (n INT)")
    epoch = server.sql("SELECT cenote_epoch()")[0][0]
    server.sql("CREATE MATERIALIZED VIEW v AS SELECT n FROM t")
    with server.connect() as db:
        return pg_error(db, f"SUBSCRIBE TO v AS OF EPOCH {epoch}")


def http_said(answer):
    error = answer.json()["error"]
    lines = [f"HTTP {answer.status}", f"error[{error['code']}] {error['sqlstate']}: {error['message']}"]
    lines += [f"  {part}" for part in (error["detail"] or "").split("\n") if part]
    lines += [f"  try: {error['hint']}"] if error["hint"] else []
    return "\n".join(lines)


def body_too_large(server):
    server.sql("CREATE TABLE t (w TEXT)")
    body = '{"w": "' + "x" * 200_000 + '"}\n'
    return http_said(server.post("/api/v1/tables/t/rows", body, headers={"Content-Type": "application/x-ndjson"}))


def statement_too_long_over_http(server):
    return http_said(server.post("/api/v1/sql", {"sql": "SELECT '" + "x" * 60_000 + "'"}))


def run_cli(*args, **options):
    done = subprocess.run([binary(), *args], stderr=subprocess.PIPE, text=True, timeout=60, **options)
    return f"exit {done.returncode}\n{done.stderr}"


def full_output(server):
    with open("/dev/full", "w") as full:
        return run_cli("run", "-e", "SELECT 1", stdout=full)


def answering(body, headers):
    """The address of a server that answers one request with these bytes, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        line, _ = listener.accept()
        line.recv(65536)
        line.sendall(headers + b"\r\n" + body)
        line.close()
        listener.close()

    threading.Thread(target=answer, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


def not_a_cenote_server(server):
    address = answering(b"<html>hello</html>", b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 18\r\n")
    return run_cli("state", "ls", "--url", address, stdout=-3)


def answer_cut_short(server):
    address = answering(b"not Arrow at all", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n")
    return run_cli("state", "scan", "t", "--url", address, stdout=-3)


def damaged(change):
    """What a server says that is started on a log of several segments after `change(folder, segments)`."""
    with Server() as own:
        with own.connect() as db:
            db.execute("CREATE TABLE t (w TEXT)")
            for _ in range(3):
                db.execute("INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 10)")
        own.kill()
        folder = own.data / "log"
        change(folder, sorted(folder.glob("*.wal")))
        said = run_cli("serve", "--data-dir", str(own.data), "--http", "127.0.0.1:0", "--pg", "off", stdout=-3)
        return said.replace(str(own.data.resolve()), "<data>").replace(str(own.data), "<data>")


def damaged_record(_):
    def change(_, segments):
        bytes_ = bytearray(segments[0].read_bytes())
        bytes_[200] ^= 1
        segments[0].write_bytes(bytes_)
    return damaged(change)


def missing_segment(_):
    return damaged(lambda folder, segments: [segment.unlink() for segment in segments])


def damaged_head(_):
    def change(_, segments):
        bytes_ = bytearray(segments[0].read_bytes())
        bytes_[3] ^= 1
        segments[0].write_bytes(bytes_)
    return damaged(change)


def repeated_segment(_):
    def change(folder, segments):
        (folder / f"{2:020}.wal").write_bytes(segments[0].read_bytes())
    return damaged(change)


def bad_row_ends_the_source(server):
    (server.cwd / "bad.ndjson").write_text('{"n": 1}\n{"n": "x"}\n')
    return run_cli("run", "-e", "CREATE TABLE t (n INT) WITH (connector = 'file', format = 'json', path = 'bad.ndjson', on_error = 'fail');"
                   "SELECT count(*) FROM t", stdout=-3, cwd=server.cwd)


def file_is_gone(server):
    """A source is read again for a second view, from a file that is another now."""
    path = server.cwd / "gone.ndjson"
    path.write_text('{"n": 1}\n' * 10)
    server.sql("CREATE SOURCE s (n INT) WITH (connector = 'file', format = 'json', path = 'gone.ndjson')")
    server.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS c FROM s")
    server.wait_until("v", lambda db: db.execute("SELECT c FROM v").fetchall() == [(10,)])
    path.write_text('{"n": 1}\n' * 3)
    with server.connect() as db:
        return pg_error(db, "CREATE MATERIALIZED VIEW w AS SELECT sum(n) AS c FROM s")


def compressed_and_followed(server):
    (server.cwd / "rows.ndjson.gz").write_bytes(gzip.compress(b'{"n": 1}\n'))
    with server.connect() as db:
        return pg_error(db, "CREATE TABLE t (n INT) WITH (connector = 'file', format = 'json', path = 'rows.ndjson.gz', follow = 'true')")


def damaged_parquet(server):
    (server.cwd / "rows.parquet").write_bytes(b"PAR1 this is not Parquet PAR1")
    return run_cli("run", "-e", "CREATE TABLE t (n INT) WITH (connector = 'file', format = 'parquet', path = 'rows.parquet', on_error = 'fail');"
                   "SELECT count(*) FROM t", stdout=-3, cwd=server.cwd)

def dropped_before_commit(server):
    server.sql("CREATE TABLE t (n INT)")
    with server.connect() as db:
        db.execute("BEGIN")
        db.execute("INSERT INTO t VALUES (1)")
        server.sql("DROP TABLE t")
        return pg_error(db, "COMMIT")


def altered_before_commit(server):
    server.sql("CREATE TABLE t (n INT)")
    with server.connect() as db:
        db.execute("BEGIN")
        db.execute("INSERT INTO t VALUES (1)")
        server.sql("ALTER TABLE t ADD COLUMN w TEXT")
        return pg_error(db, "COMMIT")


def asked_store(*answer, **env):
    """What the command line tells of a store that gives one answer to whatever it is asked."""
    with Listener(lambda *_: answer) as store:
        done = subprocess.run([binary(), "state", "ls", "--from", "s3://bucket/prefix"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, **store.env, **env})
        return f"exit {done.returncode}\n{done.stderr}"


def no_bucket(_):
    return asked_store(*refusal(404, "NoSuchBucket", "The specified bucket does not exist"))


def denied_bucket(_):
    return asked_store(*refusal(403, "AccessDenied", "Access Denied"))


def unreachable_bucket(_):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return asked_store(**aws(f"http://127.0.0.1:{taken.getsockname()[1]}"))


def misdescribed_bucket(_):
    return asked_store(AWS_ALLOW_HTTP="false")
