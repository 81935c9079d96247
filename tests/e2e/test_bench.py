"""The benches run, at sizes that say nothing about speed: a figure that cannot be taken any more is found here."""
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness import binary, cenote, python_cache

BENCH = Path(__file__).resolve().parents[1] / "bench"
sys.path.insert(0, str(BENCH))
sys.path.insert(0, str(BENCH / "peers"))

from figures import outcome, page  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

FIGURES = ["w1", "w1_2workers", "w1_2cores", "aggregate", "join", "memory", "lookups", "lookups_ingest", "scan_arrow", "first_row", "idle_rss",
           "freshness", "restart", "idle_views", "checkpoint_bytes", "checkpoint_ingest", "checkpoint_lookups", "export"]


def run(script, *arguments):
    """The output of a bench; exit 1 says that a figure misses its reach."""
    done = subprocess.run([sys.executable, str(BENCH / script), *arguments], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "CENOTE_BIN": binary()})
    assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
    return done.stdout


def bench(*arguments):
    """The line of one `cenote bench`."""
    done = cenote("bench", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_measured(name):
    if "lookups" in name and not shutil.which("wrk"):
        pytest.skip("wrk is not installed: tests/setup wrk")
    lines = [json.loads(line) for line in run("bench", "--small", name).splitlines() if line.startswith("{")]
    assert name in [line["figure"] for line in lines]
    for line in lines:
        assert math.isfinite(line["value"]) and line["value"] >= 0
        assert (line["rule"], line["reach"], line["unit"]) == outcome.REACH[line["figure"]][:3]


def test_every_figure_is_measured_here():
    told = subprocess.run([sys.executable, str(BENCH / "bench"), "--help"], capture_output=True, text=True, check=True).stdout
    assert f"{', '.join(FIGURES)} (default: all)" in " ".join(told.split())
    assert set(outcome.REACH) == {*FIGURES, "idle_views_rss", "checkpoint_time"}


def test_curves_are_measured_and_printed():
    if not shutil.which("wrk"):
        pytest.skip("wrk is not installed: tests/setup wrk")
    text = run("bench", "--small", "--curves", "idle_rss")
    for title in ("CPU and memory against groups and workers", "Memory against kept epochs", "CPU against rows per epoch",
                  "CPU against views on one source", "Lookups against rows that come in"):
        assert title in text
    assert "nan" not in text.lower()


def test_what_is_said_of_a_curve_stands_under_it():
    titles = {"CPU and memory against groups and workers", "Memory against kept epochs", "CPU against rows per epoch",
              "CPU against views on one source", "Lookups against rows that come in"}
    assert page.knees().keys() <= titles


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_cenote_gives_the_rows_of_each_workload_of_the_peers(workload):
    """DuckDB's rows over the same files are what is right."""
    told = run("peers/run_peer.py", "--peer", "command", "--command", f"{BENCH / 'cenote_peer'} {{job}}", "--workload", workload,
               "--events", "20000", "--work", str(python_cache() / "bench"))
    line = json.loads(told.splitlines()[-1])
    assert line["exit"] == 0, line.get("error")
    assert line["correct"] and line["rows_out"] > 0, line


def test_the_peers_are_compared_in_one_table():
    table = run("bench_peers", "--python", sys.executable, "--peers", "duckdb", "command", "--events", "2000", "--reps", "1", "--wait", "0")
    rows = {line.split("  ")[0]: line for line in table.splitlines()}
    assert rows["Cenote"].endswith("yes") and rows["DuckDB, batch"].endswith("yes")


@pytest.mark.parametrize("options", [("--keys", "500"), ("--keys", "500", "--batch", "700"), ("--keys", "500", "--workers", "2"), ("--keys", "1")])
def test_bench_aggregate_agrees_with_its_yardstick(options):
    line = bench("aggregate", "--rows", "20000", "--reps", "1", *options)
    assert line["bench"] == "aggregate" and line["ratio_cpu"] > 0


@pytest.mark.parametrize("options", [(), ("--publish",), ("--workers", "2")])
def test_bench_join_agrees_with_its_yardstick(options):
    line = bench("join", "--left", "2000", "--right", "30000", "--reps", "1", *options)
    assert line["bench"] == "join" and line["ratio_cpu"] > 0


@pytest.mark.parametrize("options", [(), ("--deletes",), ("--count",), ("--workers", "2", "--deletes")])
def test_bench_steps_makes_epochs_of_the_sizes_asked_for(options):
    line = bench("steps", "--groups", "2000", "--sizes", "1,50", "--rows", "500", *options)
    assert [(step["rows_per_epoch"], step["epochs"]) for step in line["steps"]] == [(1, 500), (50, 10)]
    assert line["load"]["rows"] == 2000


def test_bench_views_counts_every_view():
    line = bench("views", "--counts", "1,7", "--rows", "20000", "--idle", "0")
    assert [point["views"] for point in line["views"]] == [1, 7]


def test_serve_file_streams_the_bytes_of_the_file(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(os.urandom(300_000))
    process = subprocess.Popen([binary(), "bench", "serve-file", str(path)], stdout=subprocess.PIPE, text=True)
    try:
        url = process.stdout.readline().split()[-1]
        got = subprocess.run(["curl", "-sS", "-f", url], stdout=subprocess.PIPE, check=True).stdout
        assert got == path.read_bytes()
    finally:
        process.terminate()
        assert process.wait() == 0
        process.stdout.close()


def test_an_unknown_bench_is_refused_with_the_names_there_are():
    done = cenote("bench", "nothing")
    assert done.returncode == 2 and "serve-file" in cenote("bench", "--help").stdout
