"""Figures of a server and its clients: `lookups`, `lookups_ingest`, `scan_arrow`, `freshness`, and the curve of lookups."""
import contextlib
import os
import re
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from harness import Server, binary

from .load import Ingest, append, connect
from .outcome import figure, middle, percentile

LOOKUP = str(Path(__file__).resolve().parents[1] / "lookup.lua")
MADE_TABLES = """CREATE TABLE orders (usr BIGINT, amount BIGINT);
CREATE MATERIALIZED VIEW spent AS SELECT usr, sum(amount) AS total, count(*) AS n FROM orders GROUP BY usr;
INSERT INTO orders SELECT x % 100000, x FROM generate_series(1, 200000) AS s(x);"""
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


def wrk(url, seconds, script=None):
    """Requests per second, and the milliseconds in which half and 99 of 100 of them were answered."""
    command = ["wrk", "--latency", "-t", "1", "-c", "64", "-d", f"{seconds}s", *(["-s", script] if script else []), url]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    if bad := re.search(r"Non-2xx.*|Socket errors.*", done.stdout):
        raise SystemExit(f"{url}: {bad[0]}")
    waits = {part: float(number) * UNITS[unit] for part, number, unit in re.findall(r"(50|99)%\s+([\d.]+)(us|ms|s)\b", done.stdout)}
    return {"per_s": float(re.search(r"Requests/sec:\s+([\d.]+)", done.stdout)[1]), "p50_ms": waits["50"], "p99_ms": waits["99"]}


def rates(server, a, rate):
    """Pairs of lookups and /healthz, alternating, each with `rate` rows a second coming in; and the rates reached."""
    runs, reached = [], []
    for _ in range(a.reps):
        pair = []
        for url, script in ((server.url, LOOKUP), (f"{server.url}/healthz", None)):
            with Ingest(server.url, "orders", rate, a.body_rows) as ingest:
                pair.append(wrk(url, a.seconds, script))
            reached.append(ingest.rows_per_s)
        runs.append(pair)
    return runs, reached


def lookup_figure(name, a, rate):
    with Server(workers=1) as server:
        server.psql(MADE_TABLES)
        runs, reached = rates(server, a, rate)
    more = {"ingested_rows_per_s": middle(reached, 0)} if rate else {}
    return [figure(name, statistics.median(look["per_s"] / health["per_s"] for look, health in runs),
                   lookups_per_s=middle([look["per_s"] for look, _ in runs], 0), healthz_per_s=middle([h["per_s"] for _, h in runs], 0),
                   p50_ms=middle([look["p50_ms"] for look, _ in runs]), p99_ms=middle([look["p99_ms"] for look, _ in runs]),
                   healthz_p99_ms=middle([h["p99_ms"] for _, h in runs]), **more, runs=len(runs))]


def lookups(a):
    return lookup_figure("lookups", a, 0)


def lookups_ingest(a):
    return lookup_figure("lookups_ingest", a, a.ingest)


def lookup_curve(a, ingest_rates):
    """Lookup latency against the rate of rows that come in: `(rows asked for, reached, lookups per second, p50, p99)`."""
    with Server(workers=1) as server:
        server.psql(MADE_TABLES)
        for rate in ingest_rates:
            with Ingest(server.url, "orders", rate, a.body_rows) as ingest:
                found = wrk(server.url, a.seconds, LOOKUP)
            yield rate, ingest.rows_per_s, round(found["per_s"]), found["p50_ms"], found["p99_ms"]


@contextlib.contextmanager
def plain_handler(path):
    """The yardstick of streamed answers: `cenote bench serve-file`; gives its address and process."""
    process = subprocess.Popen([binary(), "bench", "serve-file", path], stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().split()[-1], process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def download(url, pid, target="/dev/null"):
    """Bytes, seconds and the server's CPU seconds of one download."""
    before = cpu_seconds(pid)
    done = subprocess.run(["curl", "-sS", "-f", "-o", target, "-w", "%{size_download} %{time_total}", url],
                          stdout=subprocess.PIPE, text=True, check=True)
    size, seconds = map(float, done.stdout.split())
    return size, seconds, cpu_seconds(pid) - before


def scan_arrow(a):
    with Server(workers=1) as server, tempfile.NamedTemporaryFile(suffix=".arrow") as copy:
        server.psql("CREATE TABLE big (k BIGINT, v BIGINT)")
        for start in range(0, a.rows, 1_000_000):
            end = min(start + 1_000_000, a.rows)
            server.psql(f"INSERT INTO big SELECT x, x * 7919 % 1000003 FROM generate_series({start + 1}, {end}) AS s(x)", timeout=300)
        scan = f"{server.url}/api/v1/queryable_state/big/scan.arrow"
        download(scan, server.process.pid, copy.name)
        with plain_handler(copy.name) as (url, pid):
            download(url, pid)
            runs = [(download(scan, server.process.pid), download(url, pid)) for _ in range(a.reps)]
    def mb_per_s(side):
        return middle([run[side][0] / run[side][1] / 1e6 for run in runs], 0)
    if any(ours[0] != theirs[0] for ours, theirs in runs):
        raise SystemExit("scan.arrow does not give the same number of bytes each time")
    return [figure("scan_arrow", statistics.median((ours[0] / ours[1]) / (theirs[0] / theirs[1]) for ours, theirs in runs), rows=a.rows,
                   mb=round(runs[0][0][0] / 1e6), cenote_mb_per_s=mb_per_s(0), plain_mb_per_s=mb_per_s(1),
                   cenote_cpu_s=middle([ours[2] for ours, _ in runs]), plain_cpu_s=middle([theirs[2] for _, theirs in runs]), runs=len(runs))]


def seen_after(server, asking, writing, key):
    """Milliseconds from sending a row until a lookup on another connection sees its group."""
    start = time.perf_counter()
    writing.request("POST", "/api/v1/tables/orders/rows", f'{{"usr":{key},"amount":1}}\n', {"Content-Type": "application/x-ndjson"})
    status = 404
    while status == 404:
        asking.request("GET", f"/api/v1/queryable_state/spent?key={key}")
        answer = asking.getresponse()
        answer.read()
        status = answer.status
    wait = (time.perf_counter() - start) * 1000
    answer = writing.getresponse()
    text = answer.read()
    if status != 200 or answer.status != 200:
        raise SystemExit(f"freshness: lookup {status}, append {answer.status} {text.decode()}")
    return wait


def freshness(a):
    with Server(workers=1) as server:
        server.psql(MADE_TABLES)
        asking, writing = connect(server.url), connect(server.url)
        append(writing, "orders", b'{"usr":1,"amount":1}\n')
        with Ingest(server.url, "orders", a.fresh_ingest, a.fresh_body_rows) as ingest:
            time.sleep(min(1.0, a.seconds))
            waits = [seen_after(server, asking, writing, 1_000_000 + probe) for probe in range(a.probes)]
    return [figure("freshness", percentile(waits, 0.99), p50_ms=round(percentile(waits, 0.5), 3), p99_ms=round(percentile(waits, 0.99), 3),
                   max_ms=round(max(waits), 3), ingested_rows_per_s=ingest.rows_per_s, body_rows=a.fresh_body_rows, probes=len(waits))]
