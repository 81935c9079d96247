"""Figures of state on disk: `checkpoint_bytes`, `checkpoint_time`, `checkpoint_ingest`, `checkpoint_lookups`, `export`."""
import contextlib
import json
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pyarrow.ipc
import pyarrow.parquet
from harness import Server, binary

from .outcome import figure, middle
from .serving import LOOKUP, MADE_TABLES, wrk

TABLE = "CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, sum(id) AS total FROM t GROUP BY k"
ROWS_PER_INSERT = 1_000_000
UPDATES = 40


def fill(db, rows):
    db.execute(TABLE)
    db.execute(VIEW)
    for start in range(0, rows, ROWS_PER_INSERT):
        end = min(start + ROWS_PER_INSERT, rows)
        db.execute(f"INSERT INTO t SELECT x, x FROM generate_series({start + 1}, {end}) AS s(x)")


def newest(server):
    manifests = [json.loads(path.read_text()) for path in (server.data / "checkpoints").glob("*/manifest.json")]
    return max(manifests, key=lambda manifest: manifest["sequence"])


def checkpoint(server, db):
    """Seconds that a checkpoint took, and bytes that it wrote."""
    start = time.perf_counter()
    db.execute("CHECKPOINT")
    return time.perf_counter() - start, newest(server)["bytes_new"]


def checkpoint_bytes(a):
    """And `checkpoint_time`."""
    with Server(workers=2, args=("--checkpoint-interval", "0s")) as server:
        with server.connect() as db:
            fill(db, a.ckpt_groups)
            full = checkpoint(server, db)
            added = []
            for part in range(a.reps):
                db.execute(f"UPDATE t SET k = k + {a.ckpt_groups} WHERE id % 100 = {part}")
                added.append(checkpoint(server, db))
    took, size = (statistics.median(values) for values in zip(*added))
    more = {"groups": a.ckpt_groups, "changed": "1%", "runs": a.reps}
    return [figure("checkpoint_bytes", size / full[1], full_mb=round(full[1] / 1e6, 1), next_mb=round(size / 1e6, 2), **more),
            figure("checkpoint_time", took / full[0], full_s=round(full[0], 2), next_s=round(took, 3), **more)]


def updated(interval, a):
    """Seconds of updates of every row of a table below a view, and checkpoints meanwhile."""
    with Server(workers=1, args=("--checkpoint-interval", interval)) as server, server.connect() as db:
        fill(db, a.groups)
        db.execute("CHECKPOINT")
        before, part, start = newest(server)["sequence"], a.groups // UPDATES, time.perf_counter()
        for turn in range(UPDATES):
            db.execute(f"UPDATE t SET k = k + 1 WHERE id BETWEEN {turn * part + 1} AND {turn * part + part}")
        return time.perf_counter() - start, newest(server)["sequence"] - before


def checkpoint_ingest(a):
    runs = [(updated("0s", a), updated("1s", a)) for _ in range(a.reps)]
    return [figure("checkpoint_ingest", statistics.median(without[0] / each[0] for without, each in runs), rows=a.groups,
                   without_s=middle([without[0] for without, _ in runs]), each_second_s=middle([each[0] for _, each in runs]),
                   checkpoints=middle([each[1] for _, each in runs], 0), runs=len(runs))]


@contextlib.contextmanager
def checkpoints_without_end(server):
    """One checkpoint after the other, each of what was written since the last one."""
    stop, failures = threading.Event(), []

    def run():
        try:
            with server.connect() as db:
                while not stop.is_set():
                    db.execute("INSERT INTO orders SELECT x % 100000, 1 FROM generate_series(1, 1000) AS s(x)")
                    db.execute("CHECKPOINT")
        except Exception as error:  # told below
            failures.append(error)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


def checkpoint_lookups(a):
    with Server(workers=1, args=("--checkpoint-interval", "0s")) as server:
        server.psql(MADE_TABLES)
        runs = []
        for _ in range(a.reps):
            quiet = wrk(server.url, a.seconds, LOOKUP)
            with checkpoints_without_end(server):
                runs.append((quiet, wrk(server.url, a.seconds, LOOKUP)))
    return [figure("checkpoint_lookups", statistics.median(busy["p99_ms"] / quiet["p99_ms"] for quiet, busy in runs),
                   quiet_p99_ms=middle([quiet["p99_ms"] for quiet, _ in runs]), checkpoint_p99_ms=middle([busy["p99_ms"] for _, busy in runs]), runs=len(runs))]


def timed(work):
    """Wall and CPU seconds, those of children that ended meanwhile."""
    def spent():
        return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))
    start, before = time.perf_counter(), spent()
    work()
    return time.perf_counter() - start, spent() - before


def export(a):
    with tempfile.TemporaryDirectory() as folder, Server(workers=1, args=("--checkpoint-interval", "0s"), ready_timeout=600) as server:
        with server.connect() as db:
            fill(db, a.rows)
            db.execute("CHECKPOINT")
        source, arrow, ours, theirs = server.data / "checkpoints" / newest(server)["id"], *(f"{folder}/{name}" for name in ("v.arrow", "ours", "theirs"))
        def exported(form, out):
            subprocess.run([binary(), "state", "export", "--from", source, "--table", "v", "--format", form, "--out", out], check=True, capture_output=True)
        exported("arrow", arrow)
        table = pyarrow.ipc.open_stream(arrow).read_all()
        runs = []
        for _ in range(a.reps):
            Path(ours).unlink(missing_ok=True)
            runs.append((timed(lambda: exported("parquet", ours)), timed(lambda: pyarrow.parquet.write_table(table, theirs, compression="snappy"))))
        if pyarrow.parquet.read_metadata(ours).num_rows != a.rows:
            raise SystemExit("export: rows are missing")
    return [figure("export", statistics.median(theirs[1] / ours[1] for ours, theirs in runs), rows=a.rows,
                   cenote_cpu_s=middle([ours[1] for ours, _ in runs]), pyarrow_cpu_s=middle([theirs[1] for _, theirs in runs]),
                   cenote_wall_s=middle([ours[0] for ours, _ in runs]), pyarrow_wall_s=middle([theirs[0] for _, theirs in runs]), runs=len(runs))]
