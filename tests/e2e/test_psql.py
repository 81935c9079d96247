"""The real psql, as a person uses it."""
import subprocess
import threading

import pytest

SETUP = """
CREATE TABLE accounts (id BIGINT PRIMARY KEY, owner TEXT NOT NULL, balance NUMERIC(18,2), opened TIMESTAMPTZ DEFAULT now());
INSERT INTO accounts (id, owner, balance) VALUES (1,'ann',100.00),(2,'bob',50.00);
CREATE MATERIALIZED VIEW by_owner AS SELECT owner, count(*) n, sum(balance) total FROM accounts GROUP BY owner;
CREATE MATERIALIZED VIEW rich AS SELECT owner, total FROM by_owner WHERE total > 60;
"""
TRANSFER = """
BEGIN;
UPDATE accounts SET balance = balance - 30 WHERE id = 1;
UPDATE accounts SET balance = balance + 30 WHERE id = 2;
COMMIT;
"""


def test_the_main_example_works_in_psql(fresh):
    server = fresh()
    server.psql(SETUP)
    assert server.psql("SELECT * FROM by_owner ORDER BY owner; SELECT * FROM rich;") == "ann|1|100.00\nbob|1|50.00\nann|100.00\n"
    server.psql(TRANSFER)
    assert server.psql("SELECT * FROM by_owner ORDER BY owner; SELECT * FROM rich ORDER BY owner;") == (
        "ann|1|70.00\nbob|1|80.00\nann|70.00\nbob|80.00\n")
    state = server.psql("SELECT * FROM cenote_catalog.state_tables").splitlines()
    table = next(line.split("|")[2] for line in state if line.startswith("by_owner|"))
    rows = server.psql(f"SELECT * FROM cenote_state.\"{table}\"").splitlines()
    assert len(rows) == 2
    assert any(row.startswith("ann|") for row in rows)


def test_a_default_fills_what_insert_leaves_out(server, name):
    server.psql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, opened TIMESTAMPTZ DEFAULT now(), n INT DEFAULT 7);"
                f"INSERT INTO {name} (id) VALUES (1);")
    assert server.psql(f"SELECT n, opened > now() - INTERVAL '1 hour' FROM {name}") == "7|t\n"


def test_copy_from_stdin_is_one_epoch(server, name):
    server.psql(f"CREATE TABLE {name} (id INT PRIMARY KEY, w TEXT, x DOUBLE PRECISION);")
    server.psql(f"COPY {name} FROM STDIN;\n1\ta b\t1.5\n2\t\\N\t\\N\n3\tt\\tab\t-0.25\n\\.\n")
    assert server.psql(f"SELECT id, w, x FROM {name} ORDER BY id") == "1|a b|1.5\n2||\n3|t\tab|-0.25\n"


def test_copy_csv_reads_quotes_and_header(server, name):
    server.psql(f"CREATE TABLE {name} (id INT, w TEXT);")
    server.psql(f"COPY {name} FROM STDIN WITH (FORMAT csv, HEADER true);\nid,w\n1,\"a,\"\"b\"\"\"\n2,\n\\.\n")
    assert server.psql(f"SELECT id, w, w IS NULL FROM {name} ORDER BY id") == '1|a,"b"|f\n2||t\n'


def test_a_bad_copy_keeps_nothing(server, name):
    server.psql(f"CREATE TABLE {name} (id INT PRIMARY KEY);")
    done = server.psql(f"COPY {name} FROM STDIN;\n1\n2\nthree\n\\.\n", check=False)
    assert done.returncode != 0
    assert "three" in done.stderr
    assert server.psql(f"SELECT count(*) FROM {name}") == "0\n"


def test_truncate_empties_table_and_views(server, name):
    server.psql(f"CREATE TABLE {name} (id INT); INSERT INTO {name} VALUES (1), (1), (2);"
                f"CREATE MATERIALIZED VIEW {name}_n AS SELECT count(*) AS n FROM {name};")
    assert server.psql(f"SELECT n FROM {name}_n") == "3\n"
    server.psql(f"TRUNCATE {name};")
    assert server.psql(f"SELECT n FROM {name}_n") == "0\n"


def test_describe_commands_list_tables_and_views(server, name):
    server.psql(f"CREATE TABLE {name} (id INT PRIMARY KEY, w TEXT);"
                f"CREATE MATERIALIZED VIEW {name}_v AS SELECT w FROM {name};")
    assert name in server.psql("\\dt\n")
    assert f"{name}_v" in server.psql("\\dm\n") + server.psql("\\dv\n")
    described = server.psql(f"\\d {name}\n")
    assert "id|integer" in described and "w|text" in described


def test_d_name_tells_types_nullability_defaults_and_the_key(server, name):
    server.psql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, w TEXT NOT NULL, d NUMERIC(18,2), at TIMESTAMPTZ DEFAULT now(), v VARCHAR(20));")
    described = server.psql(f"\\t off\n\\d {name}\n")
    for line in ("id|bigint||not null|", "w|text||not null|", "d|numeric(18,2)|||", "at|timestamp with time zone|||now()", "v|character varying(20)|||"):
        assert line in described
    assert f'"{name}_pkey" PRIMARY KEY, btree (id)' in described
    assert "id|bigint" in server.psql(f"\\d+ {name}\n")


def test_dv_and_dm_tell_plain_views_from_materialized_ones(server, name):
    server.psql(f"CREATE TABLE {name} (w TEXT, n BIGINT); CREATE VIEW {name}_v AS SELECT w FROM {name};"
                f"CREATE MATERIALIZED VIEW {name}_m AS SELECT w, sum(n) AS s FROM {name} GROUP BY w;")
    plain, materialized = server.psql("\\dv\n"), server.psql("\\dm\n")
    assert f"{name}_v|view|" in plain and f"{name}_m|" not in plain
    assert f"{name}_m|materialized view|" in materialized and f"{name}_v|" not in materialized
    assert "s|numeric" in server.psql(f"\\d {name}_m\n")
    assert f"SELECT w FROM {name}" in server.psql(f"\\t off\n\\d+ {name}_v\n")


def test_l_dn_and_du_list_database_schemas_and_user(server):
    env = {**server.psql_env(), "PGDATABASE": "a_name_of_my_own"}
    listed = subprocess.run(["psql", "-X", "-A", "-t", "-c", "\\l", "-c", "SELECT current_database()"],
                            env=env, capture_output=True, text=True, check=True, timeout=20).stdout.splitlines()
    assert listed[0].startswith("a_name_of_my_own|") and listed[-1] == "a_name_of_my_own"
    schemas = {line.split("|")[0] for line in server.psql("\\dn\n").splitlines()}
    assert {"public", "cenote_catalog", "cenote_state"} <= schemas
    assert "Superuser" in server.psql("\\du\n")


@pytest.mark.parametrize("command", ["\\d", "\\dt+", "\\di", "\\df", "\\dT", "\\dp", "\\db", "\\det", "\\dx", "\\dconfig", "\\d pg_class", "\\l+", "\\dd", "\\dO", "\\dO+",
                                     "\\dL", "\\dF", "\\dFd", "\\dFp", "\\dFt", "\\dc"])
def test_other_describe_commands_answer(server, name, command):
    server.psql(f"CREATE TABLE {name} (id INT PRIMARY KEY);")
    done = server.psql(f"{command}\n", check=False)
    assert "ERROR" not in done.stderr


def test_an_error_has_its_position_and_leaves_psql_usable(server):
    done = server.psql("SELECT nothing_here FROM nowhere_at_all;\nSELECT 1;", "-v", "ON_ERROR_STOP=0", check=False)
    assert "ERROR" in done.stderr and "nowhere_at_all" in done.stderr
    assert done.stdout == "1\n"


def test_a_wide_select_and_a_long_one_arrive_whole(server):
    assert server.psql("SELECT count(*), sum(x) FROM generate_series(1, 100000) AS s(x)") == "100000|5000050000\n"
    assert server.psql("SELECT x FROM generate_series(1, 20000) AS s(x)").count("\n") == 20000


def test_subscribe_streams_changes_to_psql_as_they_happen(server, name):
    """psql prints a result when it is whole, so each epoch must come as a result of its own."""
    server.psql(f"CREATE TABLE {name} (w TEXT, n BIGINT); INSERT INTO {name} VALUES ('old', 1);"
                f"CREATE MATERIALIZED VIEW {name}_v AS SELECT w, sum(n) AS s FROM {name} GROUP BY w;")
    watcher = subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-c", f"SUBSCRIBE TO {name}_v WITH (snapshot = true)"],
                               env=server.psql_env(), stdout=subprocess.PIPE, text=True)
    timer = threading.Timer(20, watcher.kill)
    timer.start()
    try:
        first = watcher.stdout.readline().strip().split("|")
        assert first[1:] == ["1", "old", "1"]
        server.psql(f"INSERT INTO {name} VALUES ('old', 2);")
        seen = [watcher.stdout.readline().strip().split("|") for _ in range(2)]
        assert sorted(line[1:] for line in seen) == [["-1", "old", "1"], ["1", "old", "3"]]
        assert int(seen[0][0]) > int(first[0])
    finally:
        timer.cancel()
        watcher.kill()
        watcher.wait()
