"""`cenote serve` as a process: start, ready lines, kill, restart, and the doors' addresses.

The binary is `$CENOTE_BIN`, else `target/release/cenote` under `$CARGO_TARGET_DIR` (or under the checkout).
"""
import collections
import contextlib
import functools
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import quote

import psycopg

from .http import http_request, sse_events

READY = re.compile(r"\b(http|pg\w*|flight)\b.*?(\d+\.\d+\.\d+\.\d+):(\d+)", re.I)
ROOT = Path(__file__).resolve().parents[2]


def python_cache():
    """The folder outside the checkout for whatever tests and benches keep between runs."""
    return Path(os.environ.get("CENOTE_CACHE") or Path.home() / ".cache" / "cenote")


def binary():
    """The path of the binary under test."""
    if path := os.environ.get("CENOTE_BIN"):
        return path
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    return str(target / "release" / "cenote")


def cenote(*args, cwd=None, stdin=None, timeout=60, env=None):
    """Runs the command line to its end and gives the `CompletedProcess`, with text output."""
    return subprocess.run(
        [binary(), *map(str, args)], cwd=cwd, input=stdin, capture_output=True, text=True, timeout=timeout,
        env={**os.environ, **(env or {})},
    )


@functools.cache
def keeps_buckets():
    """Whether the binary was built with the feature object-store."""
    return "object-store" not in cenote("verify", "s3://bucket/prefix", env={"AWS_ENDPOINT": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true"}).stderr


@functools.cache
def backends():
    """The state backends that the binary was built with."""
    built = {"memory"}
    with Server(args=["--checkpoint-url", "objects"]) as server, server.connect() as db:
        for name in ["rocksdb", "object"]:
            with contextlib.suppress(psycopg.errors.FeatureNotSupported):
                db.execute(f"CREATE TABLE {name} (k INT) WITH (state_backend = '{name}')")
                built.add(name)
    return built


def hang_up(descriptor):
    """Shuts a connection down under a client that waits on it."""
    with socket.socket(fileno=os.dup(descriptor)) as line:
        line.shutdown(socket.SHUT_RDWR)


class Server:
    """A server on free ports. Its data folder survives `kill` and `start`, and goes with `close`.

    `args` are more arguments for `cenote serve`; `cwd` is where relative paths of file sources start, and what
    `--allow-path` defaults to; `group` is the folder of a control group that the process runs in.
    """

    def __init__(self, workers=1, args=(), cwd=None, data_dir=None, env=None, start=True, ready_timeout=60,
                 http="127.0.0.1:0", pg="127.0.0.1:0", group=None):
        self.box = Path(tempfile.mkdtemp(prefix="cenote-test-"))
        self.data = Path(data_dir) if data_dir else self.box / "data"
        self.cwd = Path(cwd) if cwd else self.box
        self.workers, self.args, self.env = workers, list(args), env or {}
        self.ready_timeout, self.http_address, self.pg_address = ready_timeout, http, pg
        self.group = group
        self.process = None
        self.log = collections.deque(maxlen=2000)
        if start:
            self.start()

    def command(self):
        # A process that becomes another one keeps its number.
        inside = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(self.group)] if self.group else []
        return [
            *inside, binary(), "serve", "--data-dir", str(self.data), "--http", self.http_address, "--pg", self.pg_address,
            "--flight", "127.0.0.1:0", "--workers", str(self.workers), *map(str, self.args), *self.objects(),
        ]

    def objects(self):
        """Where state goes if the environment says that it leaves for an object store: a folder, which survives `start`."""
        is_object = {**os.environ, **self.env}.get("CENOTE_STATE_BACKEND") == "object"
        return ["--checkpoint-url", str(self.box / "objects")] if is_object and "--checkpoint-url" not in self.args else []

    def kill_while_starting(self, seconds):
        """Starts the process and kills it so much later, ready or not."""
        process = subprocess.Popen(self.command(), cwd=self.cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **self.env})
        threading.Event().wait(seconds)
        process.kill()
        process.wait()

    def start(self):
        """Starts the process and returns when every door has said that it is open."""
        command = self.command()
        self.doors = {}
        self.process = subprocess.Popen(
            command, cwd=self.cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
            env={**os.environ, **self.env},
        )
        ready = threading.Event()
        self.reader = threading.Thread(target=self._read, args=(self.process, ready), daemon=True)
        self.reader.start()
        if not ready.wait(self.ready_timeout) or not {"http", "pg"} <= self.doors.keys():
            self.kill()
            raise RuntimeError(f"the server did not open its doors: {command}\n{self.log_text()}")
        return self

    def _read(self, process, ready):
        for line in process.stdout:
            self.log.append(line)
            found = READY.search(line)
            if found and found[3] != "0" and not ready.is_set():
                door = "pg" if found[1].lower().startswith("pg") else found[1].lower()
                self.doors[door] = (found[2], int(found[3]))
                if {"http", "pg"} <= self.doors.keys():
                    ready.set()
        ready.set()

    def log_text(self):
        return "".join(self.log)

    def kill(self):
        """SIGKILL, as a power cut would do to the process."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        if self.process:
            self.reader.join()

    def terminate(self, timeout=30):
        """SIGTERM; gives the exit code."""
        self.process.terminate()
        try:
            return self.process.wait(timeout)
        finally:
            self.kill()

    def restart(self, gently=False):
        """Stops (by SIGKILL unless `gently`) and starts again on the same data."""
        self.terminate() if gently else self.kill()
        return self.start()

    def close(self):
        self.kill()
        shutil.rmtree(self.box, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def url(self):
        host, port = self.doors["http"]
        return f"http://{host}:{port}"

    @property
    def dsn(self):
        host, port = self.doors["pg"]
        return f"host={host} port={port} user=cenote dbname=cenote"

    def psql_env(self):
        host, port = self.doors["pg"]
        return {**os.environ, "PGHOST": host, "PGPORT": str(port), "PGUSER": "cenote", "PGDATABASE": "cenote",
                "PGCONNECT_TIMEOUT": "10", "PAGER": ""}

    def psql(self, sql, *options, check=True, timeout=60):
        """Runs a script through the real psql, unaligned and without headers; gives its standard output."""
        done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", *options], input=sql,
                              capture_output=True, text=True, env=self.psql_env(), timeout=timeout)
        if check and done.returncode:
            raise AssertionError(f"psql: {done.stderr}")
        return done.stdout if check else done

    def connect(self, **options):
        """A psycopg connection; autocommit unless told otherwise."""
        return psycopg.connect(self.dsn, **{"autocommit": True, "connect_timeout": 10, **options})

    def sql(self, text, params=None):
        """Runs one statement on a new connection; its rows, or None."""
        with self.connect() as connection:
            cursor = connection.execute(text, params)
            return cursor.fetchall() if cursor.description else None

    def get(self, path, **options):
        return http_request(self.url + path, **options)

    def post(self, path, body, **options):
        return http_request(self.url + path, "POST", body, **options)

    def api(self, path, **options):
        """A GET below `/api/v1` that must answer 200; its JSON."""
        answer = self.get(f"/api/v1/{path}", **options)
        assert answer.status == 200, f"GET {path}: {answer.status} {answer.text}"
        return answer.json()

    def events(self, name, query="", **options):
        return sse_events(f"{self.url}/api/v1/queryable_state/{name}/changes{query}", **options)

    @contextlib.contextmanager
    def subscription(self, sql):
        """The cursor and the rows of a SUBSCRIBE.

        psycopg holds the connection's lock while a stream is open, so it is closed (and cancelled) before the connection.
        """
        with self.connect() as watcher:
            cursor = watcher.cursor()
            with contextlib.closing(cursor.stream(sql)) as rows:
                yield cursor, rows

    def digest(self, name):
        """The digest of a readable collection's contents: `(digest, rows)`."""
        answer = self.api(f"queryable_state/{quote(name)}/digest")
        return answer["digest"], answer["rows"]

    def readables(self):
        """The inventory of what can be read: a list of entries, `name` being the name that a path takes."""
        return self.api("queryable_state")

    def digests(self, part=""):
        """Digest and row count of everything whose name holds `part`, operator state included."""
        return {entry["name"]: self.digest(entry["name"]) for entry in self.readables() if part in entry["name"]}

    def wait_until(self, name, condition, timeout=20):
        """Returns what `condition(connection)` gives once that is true, asking again at each change of `name`.

        Waits on a subscription, never on a clock; after `timeout` seconds it raises.
        """
        with self.connect() as reader, self.connect() as watcher:
            timer = threading.Timer(timeout, hang_up, [watcher.fileno()])
            timer.start()
            deadline = time.monotonic() + timeout
            try:
                if answer := condition(reader):
                    return answer
                for _ in watcher.cursor().stream(f"SUBSCRIBE TO {name} WITH (snapshot = true)"):
                    if answer := condition(reader):
                        return answer
            except psycopg.Error as error:
                if time.monotonic() < deadline:
                    raise
                raise TimeoutError(f"{name} did not get there in {timeout} s") from error
            finally:
                timer.cancel()
        raise TimeoutError(f"the subscription to {name} ended")

    def ask_until(self, condition, timeout=20):
        """Like `wait_until` for what has no changes to subscribe to: asks again every 20 ms."""
        deadline = time.monotonic() + timeout
        with self.connect() as connection:
            while time.monotonic() < deadline:
                if answer := condition(connection):
                    return answer
                threading.Event().wait(0.02)
        raise TimeoutError(f"what was asked for did not come in {timeout} s")

    def threads(self):
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def cpu_seconds(self):
        """CPU time that the process has used, user and system."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
