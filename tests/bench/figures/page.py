"""`docs/benchmarks.md`: figures, curves and peers as one page, with date, versions, machine and method."""
import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import textwrap
from pathlib import Path

from harness import binary, python_cache

from . import curves as of_curves
from .outcome import REACH, as_text

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "benchmarks.md"
LINE = 140
PEERS = python_cache() / "bench" / "peers.json"

METHOD = """- A figure is a ratio of two sides measured in one run, one after the other, alternating; the median of the runs is printed. Absolute
  figures are the medians of each side.
- CPU seconds are those of the whole process, all threads, user and system; start-up is in them where a process is started (`w1`,
  `first_row`), planning is in them everywhere.
- `aggregate`, `join`, `memory` and the curves run in the process of `cenote bench`: batches of 8,192 rows are made beforehand and handed to
  the engine through the port that every connector uses; the view is made by SQL. They are fed as fast as the engine takes them.
  `aggregate` and `join` run as `cenote run` does, which publishes the rows at the end of its inputs; `as_server` is the same ratio
  where every epoch is published on the way, and is kept, as in a server. The clock stops when the last row can be read. What the view holds is compared with what DataFusion
  answers; a difference ends the run.
- `w1` compares its final rows with DuckDB's. Files are in the page cache.
- `w1_2workers` leaves one worker the whole machine, where its source has a thread of its own; `w1_2cores` holds each side to as many cores as it
  has workers (`sched_setaffinity`).
- Servers have a data folder: an append is on disk before it is answered. Clients run on the same machine and take CPU from the server."""

MISSED = """- `join`: half of a worker's time is waiting for memory in `push_block` and `find_all`: each row of either side is looked up among the keys,
  its matches are read, and it is put into its own side's state, so that a later row of the other side, or its deletion, finds it. A batch join
  builds one side once and only reads it for the other; and what it reads stays in order. A tenth goes to the kernel's clearing of pages for the
  five million rows that are kept. To be faster, rows of a side whose key is unique would have to lie with their key, one access instead of two,
  and rows would have to be partitioned by hash so that each part's state fits into the cache. The ratio differs by processor: 0.18 to 0.29 seen.
- `w1_2workers`, `w1_2cores`: one worker keeps 1.4 cores busy already, as its source decodes on threads of its own; two workers take a fifth more
  CPU (rows are dealt out, hashed and exchanged), and there are two cores. There is no serial part to speak of: both workers are busy from the first
  batch to the printing, which is 0.1 s. More than 1.4 times is not to be had on two cores; more cores than workers and decoders would show it."""

NOT_COMPARABLE = """- DuckDB and DataFusion answer once and keep nothing that the next row could change; Cenote keeps operator state, publishes a view that
  is read by key while it changes, and takes deletes. They bound the work from below.
- Cenote's `sum` of BIGINT is NUMERIC, as PostgreSQL's is, and cannot overflow; DataFusion's is a BIGINT that wraps.
- In `w1` Cenote writes rows from its view, DuckDB from its hash table; both decode the same JSON. The peers' decoders differ, and take
  much of the time (see the issue's 0.58 for decoding alone).
- Flink and Pathway emit changes while they run; their figures hold a runtime's start (Flink: seconds). No peer takes checkpoints here.
- `scan_arrow`: the plain handler holds the file in memory and copies nothing but to the socket.
- Wall times on a machine with two cores, clients included, say little about a larger one; ratios of CPU seconds do."""


def versions():
    """`name version` of what was compared and of what measured."""
    found = [subprocess.run([binary(), "--version"], stdout=subprocess.PIPE, text=True).stdout.strip()]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip()
    found[0] += f" ({commit})" if commit else ""
    lock = (ROOT / "Cargo.lock").read_text()
    locked = dict(re.findall(r'^name = "(datafusion|timely)"\nversion = "(.*)"', lock, re.M))
    found += [f"{name} {version}" for name, version in locked.items()]
    found.append(f"DuckDB {importlib.metadata.version('duckdb')}")
    return ", ".join(found)


def machine():
    """Processor, cores, memory, kernel."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    memory = int(re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())[1]) / 2**20
    return f"{cpu[1] if cpu else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, Linux {platform.release()}"


def pair_of(line):
    """The absolute figures behind a ratio, but for what says how it was run."""
    left_out = {"figure", "value", "rule", "reach", "ok", "unit", "other_cores"}
    return ", ".join(f"{key} {value:,}" if isinstance(value, (int, float)) else f"{key} {value}" for key, value in line.items() if key not in left_out)


def figures(lines):
    rows = ["| Figure | What | Value | Reach | |", "|---|---|--:|---|---|"]
    for line in lines:
        rows.append(f"| `{line['figure']}` | {REACH[line['figure']][3]} | {line['value']:g} {line['unit']} | {line['rule']} {line['reach']:g} "
                    f"| {'reached' if line['ok'] else '**missed**'} |")
    behind = [f"- `{line['figure']}`: {pair_of(line)}" for line in lines]
    return "\n".join(rows) + "\n\nBehind them:\n\n" + "\n".join(behind)


def peers():
    """The table that `make bench-peers` left, if it was run here."""
    if not PEERS.exists():
        return "Not measured here: `make bench-peers`."
    known = json.loads(PEERS.read_text())
    rows = [("peer", "version", "CPU s", "x DuckDB", "wall s", "peak MiB", "rows right"), *map(tuple, known["rows"])]
    missing = "".join(f"\nNot measured: {name}: {reason}." for name, reason in known["missing"].items())
    return (f"`w1`, {known['events']:,} rows, parallelism 1, each in a process of its own, median of {known['reps']}, {known['date']}; `make bench-peers`.\n\n"
            f"```text\n{as_text(rows)}\n```\n{missing}").rstrip()


def knees():
    """What is known of the bends of a curve, kept by hand beside the code that measures it."""
    text = (Path(__file__).parent / "knees.md").read_text()
    return dict(re.findall(r"^## (.+)\n\n((?:.+\n?)+)", text, re.M))


def write(lines, curves, a):
    known = knees()
    parts = ["# Benchmarks", "<!-- Written by `make bench ARGS=--write`; do not edit. What is said of each curve is in tests/bench/figures/knees.md. -->",
             textwrap.fill(f"{datetime.date.today()}. {versions()}. {machine()}. Median of {a.reps}. {a.note or ''}", LINE), "## Figures", figures(lines)]
    if curves:
        parts.append("## Growth")
        for title, method, table in of_curves.as_sections(curves):
            parts += [f"### {title}", textwrap.fill(method, LINE), f"```text\n{table}\n```", known.get(title, "").strip()]
    parts += ["## Peers", peers(), "## Where the time of what is missed goes", MISSED, "## Method", METHOD, "## Not comparable", NOT_COMPARABLE]
    PAGE.write_text("\n\n".join(part for part in parts if part) + "\n")
    return PAGE
