"""`cenote run`: scripts, formats, changes, errors, Ctrl-C."""
import csv
import io
import json
import os
import signal
import subprocess

import pyarrow as pa
import pytest
from harness import binary, cenote

TABLE = "CREATE TABLE orders (usr VARCHAR, amount BIGINT) WITH (connector='file', format='json', path='orders.ndjson');"
TOTALS = "SELECT usr, SUM(amount) AS total FROM orders GROUP BY usr"


@pytest.fixture
def here(tmp_path):
    (tmp_path / "orders.ndjson").write_text('{"usr":"alice","amount":12}\n{"usr":"bob","amount":7}\n{"usr":"alice","amount":5}\n')
    return tmp_path


def run(here, *args, **options):
    done = cenote("run", *args, cwd=here, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_prints_the_final_rows(here):
    assert sorted(run(here, "-e", f"{TABLE} {TOTALS}").splitlines()) == ['{"usr":"alice","total":17}', '{"usr":"bob","total":7}']


def test_order_by_is_kept(here):
    assert run(here, "-e", f"{TABLE} {TOTALS} ORDER BY total").splitlines() == ['{"usr":"bob","total":7}', '{"usr":"alice","total":17}']


def test_a_script_file_and_several_results(here):
    (here / "job.sql").write_text(f"-- totals\n{TABLE}\n{TOTALS} ORDER BY usr;\nSELECT count(*) AS n FROM orders;\n")
    assert run(here, "job.sql").splitlines() == ['{"usr":"alice","total":17}', '{"usr":"bob","total":7}', '{"n":3}']


def test_views_and_inserts_work_in_one_process(here):
    script = """CREATE TABLE t (id INT PRIMARY KEY, n INT); CREATE MATERIALIZED VIEW v AS SELECT sum(n) AS s FROM t;
                INSERT INTO t VALUES (1, 2), (2, 3); UPDATE t SET n = 10 WHERE id = 1; SELECT s FROM v;"""
    assert run(here, "-e", script) == '{"s":13}\n'


@pytest.mark.parametrize("workers", [1, 4])
def test_workers_give_the_same_rows(here, workers):
    (here / "orders.ndjson").write_text("".join(f'{{"usr":"u{i % 1000}","amount":{i}}}\n' for i in range(50_000)))
    rows = {r["usr"]: r["total"] for r in map(json.loads, run(here, "--workers", workers, "-e", f"{TABLE} {TOTALS}").splitlines())}
    assert len(rows) == 1000 and rows["u7"] == sum(range(7, 50_000, 1000))


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("text", ["", "\n", '{"usr":"a","amount":"no number"}\n'])
def test_an_input_without_rows_comes_to_its_end(here, text, workers):
    (here / "orders.ndjson").write_text(text)
    counted = run(here, "--workers", workers, "-e", f"{TABLE} SELECT count(*) AS n, sum(amount) AS s FROM orders")
    assert counted == '{"n":0,"s":null}\n'
    assert run(here, "--workers", workers, "-e", f"{TABLE} SELECT usr FROM orders") == ""


@pytest.mark.parametrize("options", [(), ("--changes",)])
def test_a_limit_below_a_query_that_uses_no_column(here, options):
    for query, n in [("SELECT count(*) AS n FROM (SELECT usr FROM orders LIMIT 2) x", 2), ("SELECT count(*) AS n FROM (SELECT usr FROM orders OFFSET 1) x", 2),
                     ("SELECT count(*) AS n FROM (SELECT usr FROM orders LIMIT 9) x", 3)]:
        last = json.loads(run(here, *options, "-e", f"{TABLE} {query}").splitlines()[-1])
        assert (last["row"] if options else last) == {"n": n}


def test_changes_tell_weight_and_epoch(here):
    lines = [json.loads(line) for line in run(here, "--changes", "-e", f"{TABLE} {TOTALS}").splitlines()]
    assert all(set(line) == {"epoch", "weight", "row"} for line in lines)
    sums = {}
    for line in lines:
        key = (line["row"]["usr"], line["row"]["total"])
        sums[key] = sums.get(key, 0) + line["weight"]
    assert {k for k, w in sums.items() if w} == {("alice", 17), ("bob", 7)}


def test_format_csv(here):
    rows = list(csv.reader(io.StringIO(run(here, "--format", "csv", "-e", f"{TABLE} {TOTALS} ORDER BY usr"))))
    assert rows == [["usr", "total"], ["alice", "17"], ["bob", "7"]]


def test_format_table(here):
    text = run(here, "--format", "table", "-e", f"{TABLE} {TOTALS} ORDER BY usr")
    assert "usr" in text.splitlines()[0] + text.splitlines()[1] and "alice" in text and "17" in text


def test_format_arrow(here):
    done = subprocess.run([binary(), "run", "--format", "arrow", "-e", f"{TABLE} {TOTALS} ORDER BY usr"], cwd=here, capture_output=True)
    assert pa.ipc.open_stream(done.stdout).read_all().column("usr").to_pylist() == ["alice", "bob"]


def test_json_output_is_exact(here):
    text = run(here, "-e", "SELECT 9007199254740993 AS a, CAST('0.1' AS DOUBLE PRECISION) AS b, CAST('1.10' AS NUMERIC(38,2)) AS c, NULL AS d, 'é\"' AS e, TRUE AS f")
    assert '"a":9007199254740993' in text and '"b":0.1' in text and "1.10" in text and '"d":null' in text and '"f":true' in text


@pytest.mark.parametrize("script, says", [
    ("SELEC 1", "SELEC"), ("SELECT * FROM nowhere", "nowhere"), ("SELECT 1/0", "zero"),
    ("CREATE TABLE t (id INT) WITH (connector='file', format='json', path='no_such_file.json'); SELECT * FROM t", "no_such_file.json"),
    ("CREATE TABLE t (id INT) WITH (connector='fille', format='json', path='x')", "file"),
])
def test_an_error_exits_1_with_its_text_on_stderr(here, script, says):
    done = cenote("run", "-e", script, cwd=here)
    assert done.returncode == 1
    assert done.stdout == "" and says in done.stderr and "panicked" not in done.stderr


def test_a_file_that_is_not_there_exits_1(here):
    done = cenote("run", "nothing.sql", cwd=here)
    assert done.returncode == 1 and "nothing.sql" in done.stderr


def test_ctrl_c_stops_a_followed_source_cleanly(here):
    table = TABLE.replace("path=", "follow='true', path=")
    process = subprocess.Popen([binary(), "run", "--changes", "-e", f"{table} {TOTALS}"], cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        seen = {}
        while seen != {"alice": 17, "bob": 7}:
            line = json.loads(process.stdout.readline())
            if line["weight"] > 0:
                seen[line["row"]["usr"]] = line["row"]["total"]
        with open(here / "orders.ndjson", "a") as f:
            f.write('{"usr":"bob","amount":1}\n')
        while seen["bob"] != 8:
            line = json.loads(process.stdout.readline())
            if line["weight"] > 0:
                seen[line["row"]["usr"]] = line["row"]["total"]
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
        assert "panicked" not in process.stderr.read()
    finally:
        process.kill()


def test_a_closed_pipe_is_no_crash(here):
    done = subprocess.run(f"{binary()} run -e 'SELECT x FROM generate_series(1, 1000000) AS s(x)' | head -1", shell=True, cwd=here,
                          capture_output=True, text=True, timeout=60)
    assert done.stdout == '{"x":1}\n' and "panicked" not in done.stderr


def test_a_data_dir_keeps_tables_between_runs(here):
    run(here, "--data-dir", "d", "-e", "CREATE TABLE t (n INT); INSERT INTO t VALUES (1), (2)")
    assert run(here, "--data-dir", "d", "-e", "SELECT sum(n) AS s FROM t") == '{"s":3}\n'


def test_bad_rows_are_reported_and_not_fatal(here):
    with open(here / "orders.ndjson", "a") as f:
        f.write("broken\n")
    done = cenote("run", "-e", f"{TABLE} SELECT count(*) AS n FROM orders", cwd=here)
    assert done.returncode == 0 and done.stdout == '{"n":3}\n'
    assert "1 row could not be read" in done.stderr and "orders.ndjson:4: invalid JSON" in done.stderr


def test_help_has_an_example_for_every_command():
    top = cenote("--help")
    assert top.returncode == 0
    for command in ("run", "serve", "state"):
        assert command in top.stdout
        assert f"cenote {command}" in cenote(command, "--help").stdout.split("xample", 1)[-1]
    assert cenote("--version").stdout.startswith("cenote ")


def test_an_option_has_an_environment_variable(here):
    assert run(here, "-e", f"{TABLE} {TOTALS} ORDER BY usr", env={"CENOTE_FORMAT": "csv"}).startswith("usr,total")


def test_an_unknown_option_is_refused(here):
    done = cenote("run", "--no-such-option", cwd=here)
    assert done.returncode != 0 and "--no-such-option" in done.stderr


@pytest.mark.parametrize("command", ["sql", "checkpoint", "savepoint", "capture", "replay", "why"])
def test_a_promised_command_that_is_not_built_says_so(command):
    done = cenote(command, "x")
    assert done.returncode != 0 and "not supported yet" in done.stderr


def test_a_closed_stdin_does_not_matter(here):
    done = subprocess.run([binary(), "run", "-e", "SELECT 1 AS x"], stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, "TERM": "dumb"})
    assert done.stdout == '{"x":1}\n' and done.stderr == ""


@pytest.mark.parametrize("options", [[], ["--changes"]])
@pytest.mark.parametrize("query", ["SELECT 10 / n AS q FROM s", "SELECT a.n FROM s a JOIN s b ON a.n = b.n AND 1 / b.n > a.n", "SELECT sum(10 / n) AS q FROM s"])
def test_a_row_that_a_query_fails_on_is_an_error_and_not_left_out(tmp_path, query, options):
    (tmp_path / "r.ndjson").write_text('{"n":1}\n{"n":0}\n')
    script = f"CREATE SOURCE s (n INT) WITH (connector = 'file', format = 'json', path = 'r.ndjson'); {query}"
    done = cenote("run", *options, "-e", script, cwd=tmp_path)
    assert done.returncode == 1 and "division by zero" in done.stderr, done
