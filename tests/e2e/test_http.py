"""HTTP: SQL, inventory, lookups, scans with cursors, appends, health."""
import io
import json
import subprocess

import pyarrow as pa
import pytest


@pytest.fixture(scope="module")
def orders(_shared):
    """`orders` with its view `spent`, whose key is `usr`."""
    with _shared.connect() as db:
        db.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, usr TEXT, amount BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW spent AS SELECT usr, sum(amount) AS total, count(*) AS n FROM orders GROUP BY usr")
        db.execute("INSERT INTO orders SELECT x, 'u' || (x % 100)::text, x FROM generate_series(1, 1000) AS s(x)")
    return _shared


def error_of(answer):
    assert 400 <= answer.status < 500, f"{answer.status} {answer.text}"
    error = answer.json()["error"]
    assert {"code", "sqlstate", "message"} <= error.keys()
    return error


# ---- /sql -----------------------------------------------------------------------------------------------------


def test_sql_answers_columns_rows_and_epoch(orders):
    answer = orders.post("/api/v1/sql", {"sql": "SELECT usr, n FROM spent WHERE usr = 'u7'"})
    body = answer.json()
    assert [c["name"] for c in body["columns"]] == ["usr", "n"]
    assert [c["type"].lower() for c in body["columns"]] == ["text", "bigint"]
    assert body["rows"] == [["u7", 10]]
    assert body["epoch"] == answer.epoch


def test_sql_takes_parameters(orders):
    assert orders.post("/api/v1/sql", {"sql": "SELECT id FROM orders WHERE usr = $1 AND amount > $2 ORDER BY id", "params": ["u7", 900]}).json()["rows"] == [[907]]


def test_several_statements_answer_an_array(orders, name):
    answer = orders.post("/api/v1/sql", {"sql": f"CREATE TABLE {name} (id INT); INSERT INTO {name} VALUES (1), (2); SELECT count(*) FROM {name}"})
    assert answer.status == 200, answer.text
    assert len(answer.json()) == 3
    assert answer.json()[-1]["rows"] == [[2]]


@pytest.mark.parametrize("sql, sqlstate, says, position", [
    ("SELECT *\nFROM no_such_table_anywhere", "42P01", 'relation "no_such_table_anywhere" does not exist', 15),
    ("SELECT id, nobody FROM orders", "42703", 'column "nobody" does not exist', 12),
    ("SELECT 1; SELECT * FROM no_such_table_anywhere", "42P01", "no_such_table_anywhere", 25),
    ("SELEC 1", "42601", "cannot parse statement", 1),
    ("SELECT 1 +", "42601", "cannot parse statement", 11),
    ("SELECT 1/0", "22012", "division by zero", None),
])
def test_sql_errors_are_told_with_code_and_position(orders, sql, sqlstate, says, position):
    """Where PostgreSQL has a text for an error it is PostgreSQL's; drivers and people know it."""
    error = error_of(orders.post("/api/v1/sql", {"sql": sql}))
    assert error["sqlstate"] == sqlstate
    assert says in error["message"]
    assert error["position"] == position


@pytest.mark.parametrize("body", ["", "{", "[]", '{"no_sql": 1}', '{"sql": 5}'])
def test_a_body_that_is_no_request_is_refused(orders, body):
    error_of(orders.post("/api/v1/sql", body, headers={"Content-Type": "application/json"}))


# ---- inventory ------------------------------------------------------------------------------------------------


def test_inventory_lists_tables_views_and_state(orders):
    entries = {e["name"]: e for e in orders.readables()}
    assert entries["orders"]["rows"] == 1000 and entries["spent"]["rows"] == 100
    assert [c["name"] for c in entries["spent"]["columns"]] == ["usr", "total", "n"]
    assert entries["spent"]["epoch"] > 0
    assert {e["kind"] for e in entries.values()} >= {"table", "materialized_view", "state"}
    assert entries["orders"]["key"] == ["id"] and entries["spent"]["key"] == ["usr"]


def test_every_readable_can_be_scanned_and_digested(orders):
    for entry in orders.readables():
        name = entry["name"]
        rows = orders.get(f"/api/v1/queryable_state/{name}/scan.ndjson").text.count("\n")
        digest, counted = orders.digest(name)
        assert digest and counted == rows, name


# ---- lookups --------------------------------------------------------------------------------------------------


def test_point_lookup_by_key(orders):
    answer = orders.api("queryable_state/spent?key=u7")
    assert answer["name"].endswith("spent") and answer["epoch"] > 0
    assert answer["key"] == {"usr": "u7"}
    assert answer["value"]["n"] == 10
    assert int(answer["value"]["total"]) == sum(range(7, 1000, 100))


def test_point_lookup_by_named_column_that_is_not_unique(orders):
    values = orders.api("queryable_state/orders?usr=u7")["values"]
    assert sorted(v["id"] for v in values) == list(range(7, 1000, 100))


def test_point_lookup_by_two_columns(orders):
    answer = orders.api("queryable_state/orders?usr=u7&amount=107")
    assert [v["id"] for v in answer.get("values", [answer.get("value")])] == [107]


def test_a_key_that_is_not_there_is_404_with_the_epoch(orders):
    answer = orders.get("/api/v1/queryable_state/spent?key=nobody")
    assert answer.status == 404
    assert answer.epoch > 0


def test_a_key_of_another_type_is_400(orders):
    answer = orders.get("/api/v1/queryable_state/orders?key=seven")
    assert answer.status == 400
    assert answer.json()["error"]["sqlstate"] == "22P02"


def test_an_unknown_name_or_column_is_told(orders):
    answer = orders.get("/api/v1/queryable_state/spend?key=u7")
    assert answer.status == 404 and answer.json()["error"]["sqlstate"] == "42P01"
    assert "spent" in json.dumps(answer.json()["error"]), "a near name is offered"
    answer = orders.get("/api/v1/queryable_state/spent?nobody=1")
    assert answer.status == 400 and answer.json()["error"]["sqlstate"] == "42703"


def test_many_keys_are_read_at_one_epoch(orders):
    answer = orders.post("/api/v1/queryable_state/spent/lookup", {"keys": ["u1", "nobody", "u2"]})
    assert answer.status == 200, answer.text
    body = answer.json()
    assert body["epoch"] == answer.epoch
    assert [r["key"] for r in body["results"]] == [{"usr": "u1"}, {"usr": "nobody"}, {"usr": "u2"}]
    assert [r["value"] and r["value"]["n"] for r in body["results"]] == [10, None, 10]


def test_operator_state_can_be_looked_up(orders):
    state = next(e for e in orders.readables() if e["kind"] == "state" and "spent" in e["name"])
    column = state["columns"][0]["name"]
    answer = orders.api(f"queryable_state/{state['name']}?{column}=u7")
    assert answer.get("value") or answer["values"]


# ---- scans ----------------------------------------------------------------------------------------------------


def pages(server, name, query):
    """All pages of a scan, following the cursor."""
    answers = [server.api(f"queryable_state/{name}/scan?{query}")]
    while cursor := answers[-1]["next_cursor"]:
        answers.append(server.api(f"queryable_state/{name}/scan?{query}&cursor={cursor}"))
        assert len(answers) < 1000
    return answers


def test_a_scan_pages_through_everything_once(orders):
    answers = pages(orders, "orders", "limit=64")
    ids = [row["id"] for answer in answers for row in answer["rows"]]
    assert len(answers) == 16
    assert sorted(ids) == list(range(1, 1001))


def test_a_cursor_stays_at_its_epoch_while_the_table_changes(orders, name):
    with orders.connect() as db:
        db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)")
        db.execute(f"INSERT INTO {name} SELECT x, 0 FROM generate_series(1, 100) AS s(x)")
        first = orders.api(f"queryable_state/{name}/scan?limit=10")
        rows, cursor = first["rows"], first["next_cursor"]
        while cursor:
            db.execute(f"UPDATE {name} SET n = n + 1 WHERE id % 2 = 0")
            page = orders.api(f"queryable_state/{name}/scan?limit=30&cursor={cursor}")
            assert page["epoch"] == first["epoch"]
            rows, cursor = rows + page["rows"], page["next_cursor"]
    assert sorted(row["id"] for row in rows) == list(range(1, 101))
    assert {row["n"] for row in rows} == {0}


def test_a_scan_projects_and_filters(orders):
    answer = orders.api("queryable_state/orders/scan?columns=id,usr&where=amount%20%3E%20990&limit=100")
    assert sorted(row["id"] for row in answer["rows"]) == list(range(991, 1001))
    assert set(answer["rows"][0]) == {"id", "usr"}


@pytest.mark.parametrize("query", ["columns=nothing", "where=nothing%20%3D%201", "where=;", "limit=-1", "limit=x", "cursor=garbage", "epoch=x", "misspelt=1"])
def test_a_bad_scan_is_refused(orders, query):
    assert orders.get(f"/api/v1/queryable_state/orders/scan?{query}").status == 400


def test_scans_and_sql_agree(orders):
    wanted = sorted(orders.sql("SELECT usr, total, n FROM spent"))
    lines = [json.loads(line) for line in orders.get("/api/v1/queryable_state/spent/scan.ndjson").text.splitlines()]
    assert sorted((r["usr"], int(r["total"]), r["n"]) for r in lines) == [(u, int(t), n) for u, t, n in wanted]


# ---- appends --------------------------------------------------------------------------------------------------


def arrow_body(columns):
    sink = io.BytesIO()
    table = pa.table(columns)
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


BODIES = [
    ("application/x-ndjson", '{"id":1,"w":"a"}\n{"id":9007199254740993,"w":null}\n'),
    ("application/json", '[{"id":1,"w":"a"},{"id":9007199254740993}]'),
    ("text/csv", 'id,w\n1,a\n9007199254740993,\n'),
    ("application/vnd.apache.arrow.stream", arrow_body({"id": pa.array([1, 2**53 + 1], pa.int64()), "w": pa.array(["a", None])})),
]


@pytest.mark.parametrize("kind, body", BODIES, ids=["ndjson", "json", "csv", "arrow"])
def test_rows_are_appended_as_one_epoch(server, name, kind, body):
    with server.connect() as db:
        db.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, w TEXT)")
        answer = server.post(f"/api/v1/tables/{name}/rows", body, headers={"Content-Type": kind})
        assert answer.status in (200, 201), answer.text
        assert answer.json()["epoch"] == db.execute("SELECT cenote_epoch()").fetchone()[0]
        assert db.execute(f"SELECT id, w FROM {name} ORDER BY id").fetchall() == [(1, "a"), (2**53 + 1, None)]


DEFAULTED = [
    ("application/x-ndjson", '{"id":1}\n{"id":2,"v":5}\n{"id":3,"v":null}\n', [(1, 7, "d"), (2, 5, "d"), (3, None, "d")]),
    ("application/json", '[{"id":1},{"id":2,"s":"x"}]', [(1, 7, "d"), (2, 7, "x")]),
    ("application/x-ndjson", '{"ID":1}\n{"V":1,"Id":2}\n', [(1, 7, "d"), (2, 1, "d")]),
    ("text/csv", "v,id\n,1\n5,2\n", [(1, None, "d"), (2, 5, "d")]),
    ("application/vnd.apache.arrow.stream", arrow_body({"id": pa.array([1, 2]), "V": pa.array([None, 5])}), [(1, None, "d"), (2, 5, "d")]),
]


@pytest.mark.parametrize("kind, body, rows", DEFAULTED)
def test_each_row_has_the_defaults_of_what_it_leaves_out(server, name, kind, body, rows):
    with server.connect() as db:
        db.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, v INT DEFAULT 7, s TEXT NOT NULL DEFAULT 'd')")
        answer = server.post(f"/api/v1/tables/{name}/rows", body, headers={"Content-Type": kind})
        assert answer.status in (200, 201), answer.text
        assert db.execute(f"SELECT id, v, s FROM {name} ORDER BY id").fetchall() == rows
        error = error_of(server.post(f"/api/v1/tables/{name}/rows", '[{"id":9},{"id":10,"s":null}]', headers={"Content-Type": "application/json"}))
        assert error["sqlstate"] == "23502" and "element 2" in error["message"]
        error = error_of(server.post(f"/api/v1/tables/{name}/rows", '[{"id":9},5]', headers={"Content-Type": "application/json"}))
        assert error["sqlstate"] == "22P02" and "element 2" in error["message"]


@pytest.mark.parametrize("kind, body, sqlstate", [
    ("application/x-ndjson", '{"id":1}\n{"id":"x"}\n', "22P02"),
    ("application/x-ndjson", '{"id":1}\n{"id":1}\n', "23505"),
    ("application/x-ndjson", '{"id":1,"nobody":2}\n', "42703"),
    ("application/x-ndjson", '{"w":"no key"}\n', "23502"),
    ("application/x-ndjson", '{"id":1\n', None),
])
def test_a_bad_append_keeps_nothing_and_says_why(server, name, kind, body, sqlstate):
    with server.connect() as db:
        db.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, w TEXT)")
        error = error_of(server.post(f"/api/v1/tables/{name}/rows", body, headers={"Content-Type": kind}))
        assert sqlstate in (None, error["sqlstate"])
        assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)


def test_appending_to_a_view_or_to_nothing_is_refused(orders):
    assert orders.post("/api/v1/tables/spent/rows", "{}\n", headers={"Content-Type": "application/x-ndjson"}).status == 400
    rows = {"Content-Type": "application/x-ndjson"}
    assert orders.post("/api/v1/tables/no_such_table_anywhere/rows", "{}\n", headers=rows).status == 404
    assert orders.post("/api/v1/tables/no_such_table_anywhere/rows", "{}\n").status == 415


# ---- health and the like --------------------------------------------------------------------------------------


def test_health_and_readiness(server):
    assert server.get("/healthz").status == 200
    answer = server.get("/readyz")
    assert answer.status == 200, answer.text


def test_metrics_are_prometheus_text(orders):
    text = orders.get("/metrics").text
    names = {line.split("{")[0].split()[0] for line in text.splitlines() if line and not line.startswith("#")}
    assert names and all(n.startswith(("cenote_", "process_")) for n in names)
    assert text.count("# TYPE ") == text.count("# HELP ")


def test_openapi_names_the_routes(server):
    paths = server.get("/openapi.json").json()["paths"]
    for path in ("/healthz", "/api/v1/sql", "/api/v1/queryable_state", "/api/v1/queryable_state/{name}", "/api/v1/tables/{name}/rows"):
        assert path in paths


def test_unknown_paths_and_methods_are_told_as_errors(server):
    assert server.get("/api/v1/nowhere").status == 404
    assert server.post("/healthz", "x").status == 405


def test_curl_gets_what_the_guide_says(orders):
    done = subprocess.run(["curl", "-sS", "--fail", f"{orders.url}/api/v1/queryable_state/spent?key=u7"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["value"]["usr"] == "u7"
