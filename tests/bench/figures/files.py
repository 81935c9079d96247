"""Figures of whole processes that read files: `w1`, `w1_2workers`, `w1_2cores`, `first_row`."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness import binary, python_cache

from .outcome import figure, middle

BENCH = Path(__file__).resolve().parents[1]
EXAMPLE = """CREATE TABLE orders (usr VARCHAR, amount BIGINT) WITH (connector='file', format='json', path='orders.ndjson');
SELECT usr, SUM(amount) AS total FROM orders GROUP BY usr"""


def peer(name, a, parallelism=1, cores=None):
    """One run of a peer on the workload; its JSON line. `cores`: Cenote may use so many and no more."""
    command = ["--command", f"{BENCH / 'cenote_peer'} {{job}}"] if name == "command" else []
    done = subprocess.run([sys.executable, str(BENCH / "peers" / "run_peer.py"), "--peer", name, "--workload", a.workload, "--events",
                           str(a.events), "--parallelism", str(parallelism), "--work", str(python_cache() / "bench"), "--wait",
                           str(a.wait), *command],
                          stdout=subprocess.PIPE, text=True, env={**os.environ, "CENOTE_BIN": binary(), "CENOTE_BENCH_CORES": str(cores or "")})
    if not done.stdout.strip():
        raise SystemExit(f"{name} could not be run")
    line = json.loads(done.stdout.splitlines()[-1])
    if line["exit"] != 0 or not line.get("correct", True):
        raise SystemExit(f"{name} gave no right answer: {json.dumps(line)}")
    return line


def medians(prefix, runs):
    """What is printed of one side's runs."""
    return {f"{prefix}_{field}": middle([run[field] for run in runs]) for field in ("cpu_s", "wall_s", "rss_mib")}


def w1(a):
    runs = [(peer("command", a), peer("duckdb", a)) for _ in range(a.reps)]
    ours, theirs = zip(*runs)
    return [figure("w1", statistics.median(o["cpu_s"] / t["cpu_s"] for o, t in runs), workload=a.workload, events=a.events,
                   **medians("cenote", ours), **medians("duckdb", theirs), runs=len(runs),
                   other_cores=max(run["other_cores"] for pair in runs for run in pair))]


def scaling(name, a, held):
    """Wall time of one worker against two; `held`: on as many cores as there are workers."""
    runs = [tuple(peer("command", a, workers, workers if held else None) for workers in (1, 2)) for _ in range(a.reps)]
    one, two = zip(*runs)
    return [figure(name, statistics.median(o["wall_s"] / t["wall_s"] for o, t in runs), workload=a.workload, events=a.events,
                   **medians("1worker", one), **medians("2workers", two), runs=len(runs),
                   other_cores=max(run["other_cores"] for pair in runs for run in pair))]


def w1_2workers(a):
    return scaling("w1_2workers", a, held=False)


def w1_2cores(a):
    return scaling("w1_2cores", a, held=True)


def first_row(a):
    folder = tempfile.mkdtemp(prefix="cenote-bench-")
    try:
        Path(folder, "orders.ndjson").write_text('{"usr":"alice","amount":12}\n{"usr":"bob","amount":7}\n{"usr":"alice","amount":5}\n')
        waits = []
        for _ in range(a.starts):
            start = time.perf_counter()
            process = subprocess.Popen([binary(), "run", "-e", EXAMPLE], cwd=folder, stdout=subprocess.PIPE)
            line = process.stdout.readline()
            waits.append((time.perf_counter() - start) * 1000)
            process.stdout.read()
            if process.wait() or not line.startswith(b'{"usr":'):
                raise SystemExit(f"cenote run failed: {line}")
        return [figure("first_row", statistics.median(waits), runs=len(waits), fastest_ms=round(min(waits), 1), slowest_ms=round(max(waits), 1))]
    finally:
        shutil.rmtree(folder)
