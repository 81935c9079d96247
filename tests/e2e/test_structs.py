"""STRUCT through every door.

`structs/judged.json` holds queries with the rows, or the SQLSTATE, that PostgreSQL 15 gave for a column of
`CREATE TYPE ct AS (a int, b text)`; other values are DuckDB's, or what was put in.
"""
import asyncio
import datetime
import io
import json
from decimal import Decimal
from pathlib import Path

import asyncpg
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CT = "STRUCT<a INT, b TEXT>"
JUDGED = json.loads((Path(__file__).parent / "structs/judged.json").read_text())
ROWS = """(1, ROW(1,'x')), (2, (2,'y z')), (3, '(3,"q""r")'), (4, NULL), (5, ROW(NULL,NULL)), (6, '(,)'), (7, (1,'x')),
          (8, ROW(1,NULL)), (9, ROW(NULL,'x')), (10, ROW(1, '')), (11, '(-5,"a\\\\b")'), (12, ROW(1, 'b,c')), (13, ROW('1', 'null'))"""
# Queries that no view has, whatever they read.
NOT_IN_VIEWS = ("array_agg(DISTINCT",)


@pytest.fixture(scope="module")
def judged(_shared):
    """The table that PostgreSQL had, and for each of its queries a view that saw every row come and some go."""
    with _shared.connect() as db:
        db.execute(f"CREATE TABLE judged (id INT PRIMARY KEY, s {CT})")
        for number, (query, wanted) in enumerate(JUDGED):
            if isinstance(wanted, list) and "FROM {t}" in query:
                db.execute(f"CREATE MATERIALIZED VIEW judged_{number} AS SELECT x.* FROM ({named(query)}) x")
        db.execute("INSERT INTO judged VALUES (1, ROW(2,'y z')), (3, NULL), (50, ROW(1,'x')), (51, ROW(NULL,NULL)), (52, ROW(7,'gone')), (53, NULL)")
        db.execute("DELETE FROM judged WHERE id >= 51")
        db.execute(f"INSERT INTO judged VALUES {ROWS} ON CONFLICT (id) DO UPDATE SET s = EXCLUDED.s")
        db.execute("UPDATE judged SET s = '(,)' WHERE id = 50")
        db.execute("DELETE FROM judged WHERE id = 50")
    return _shared


def named(query):
    """A query over the table whose unnamed columns have names of their own."""
    return query.format(t="judged", ct=CT).replace("s IS NULL, s IS NOT NULL, NOT s IS NULL", "s IS NULL AS n, s IS NOT NULL AS m, NOT s IS NULL AS o").replace(
        "count(DISTINCT s), count(s), count(*)", "count(DISTINCT s) AS a, count(s) AS b, count(*) AS c")


@pytest.mark.parametrize("number", range(len(JUDGED)))
def test_queries_give_what_postgresql_gives(judged, number):
    query, wanted = JUDGED[number]
    sql = query.format(t="judged", ct=CT)
    with judged.connect() as db:
        if isinstance(wanted, str):
            with pytest.raises(Exception) as raised:
                db.execute(sql)
            assert raised.value.sqlstate == wanted, raised.value
            return
        assert [list(row) for row in db.execute(sql).fetchall()] == wanted
        if "FROM {t}" in query:
            found = [list(row) for row in db.execute(f"SELECT * FROM judged_{number}").fetchall()]
            assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_views_keep_structs_apart_that_look_alike(db, name):
    db.execute(f"CREATE TABLE {name} (id INT, s STRUCT<a TEXT, b TEXT>)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_g AS SELECT s, count(*) AS n FROM {name} GROUP BY s")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_j AS SELECT x.id, y.id AS other, x.s FROM {name} x JOIN {name} y ON x.s = y.s AND x.id < y.id")
    db.execute(f"""INSERT INTO {name} VALUES (1, ROW('a','b,c')), (2, ROW('a,b','c')), (3, ROW('','')), (4, ROW(NULL,'')), (5, ROW('',NULL)),
                   (6, ROW(NULL,NULL)), (7, NULL), (8, ROW('a','b,c')), (9, ROW(NULL,NULL)), (10, NULL)""")
    shown = f"SELECT s::text, n FROM {name}_g"
    assert sorted(db.execute(shown).fetchall(), key=repr) == sorted([
        ('(a,"b,c")', 2), ('("a,b",c)', 1), ('("","")', 1), ('(,"")', 1), ('("",)', 1), ("(,)", 2), (None, 2)], key=repr)
    assert sorted(db.execute(f"SELECT id, other, s::text FROM {name}_j").fetchall()) == [(1, 8, '(a,"b,c")'), (6, 9, "(,)")]
    db.execute(f"DELETE FROM {name} WHERE id IN (1, 6, 7, 10)")
    db.execute(f"UPDATE {name} SET s = ROW('a', (s).a || ',c') WHERE id = 2")
    db.execute(f"UPDATE {name} SET s = '(,)' WHERE id = 3")
    assert sorted(db.execute(shown).fetchall(), key=repr) == sorted([
        ('(a,"b,c")', 1), ('(a,"a,b,c")', 1), ('(,"")', 1), ('("",)', 1), ("(,)", 2)], key=repr)
    assert db.execute(f"SELECT id, other, s::text FROM {name}_j").fetchall() == [(3, 9, "(,)")]


def test_a_struct_is_a_key_beside_a_float(db, name):
    db.execute(f"CREATE TABLE {name} (s {CT} NOT NULL, x DOUBLE PRECISION)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT s, x, count(*) AS n FROM {name} GROUP BY s, x")
    db.execute(f"INSERT INTO {name} VALUES (ROW(1,'a'), 0), (ROW(1,'a'), '-0'), (ROW(1,'a'), 1), (ROW(2,'a'), 0)")
    wanted = [("(1,a)", 0.0, 2), ("(1,a)", 1.0, 1), ("(2,a)", 0.0, 1)]
    for what in (f"{name}_v", f"(SELECT s, x, count(*) AS n FROM {name} GROUP BY s, x) q"):
        assert db.execute(f"SELECT s::text AS shown, x, n FROM {what} ORDER BY s, x").fetchall() == wanted


def test_types_are_written_in_both_forms_and_shown_in_one(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, s STRUCT(a INT, \"B c\" STRUCT<d NUMERIC(10,2), e INT[]>), l STRUCT<p TEXT>[])")
    db.execute(f"INSERT INTO {name} VALUES (1, (1, (1.005, '{{1,NULL}}')), '{{\"(x)\",\"(\\\"y z\\\")\",NULL}}'), (2, ROW(2, ROW(2, ARRAY[3])), ARRAY[ROW('q')])")
    shown = "STRUCT<a integer, \"B c\" STRUCT<d numeric(10,2), e integer[]>>"
    assert db.execute(f"SELECT data_type FROM information_schema.columns WHERE table_name = '{name}' ORDER BY ordinal_position").fetchall() == [
        ("integer",), (shown,), ("ARRAY",)]
    types = db.execute(f"SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = '{name}'::regclass AND attnum > 0 ORDER BY attnum").fetchall()
    assert types == [("integer",), (shown,), ("STRUCT<p text>[]",)]
    rows = db.execute(f"SELECT (s).a, (s).\"B c\".d, (s).\"B c\".e[1] AS e, l[1]::text AS l1, (l[2]).p, s.a AS again FROM {name} ORDER BY id").fetchall()
    assert rows == [(1, Decimal("1.01"), 1, "(x)", "y z", 1), (2, Decimal("2.00"), 3, "(q)", None, 2)]
    names = [column.name for column in db.execute(f"SELECT (s).a, (s).\"B c\".d, l[1] FROM {name}").description]
    assert names == ["a", "d", "l"]
    db.execute(f"CREATE TABLE {name}_k (s {CT} PRIMARY KEY, n INT)")
    db.execute(f"INSERT INTO {name}_k VALUES (ROW(1,'x'), 1), (ROW(1,NULL), 2)")
    with pytest.raises(Exception) as raised:
        db.execute(f"INSERT INTO {name}_k VALUES ('(1,x)', 3)")
    assert raised.value.sqlstate == "23505"
    db.execute(f"INSERT INTO {name}_k VALUES ('(1,)', 3) ON CONFLICT (s) DO UPDATE SET n = EXCLUDED.n")
    assert db.execute(f"SELECT s::text AS shown, n FROM {name}_k ORDER BY s").fetchall() == [("(1,x)", 1), ("(1,)", 3)]


@pytest.mark.parametrize("sql, state", [
    ("CREATE TABLE {t}_x (s STRUCT<json TEXT>)", "0A000"), ("CREATE TABLE {t}_x (s STRUCT<a INT, A INT>)", "42701"),
    ("CREATE TABLE {t}_x (s STRUCT<a VARCHAR(3)>)", "0A000"), ("CREATE TABLE {t}_x (s STRUCT<a FOO>)", "42704"),
    ("CREATE TABLE {t}_x (s STRUCT<a INT)", "42601"), ("CREATE TABLE {t}_x (s STRUCT)", "42704"),
    ("CREATE TABLE {t}_x (s STRUCT<f REAL> PRIMARY KEY)", "0A000"), ("SELECT f FROM {t} GROUP BY f", "0A000"),
    ("SELECT count(DISTINCT f) FROM {t}", "0A000"), ("SELECT j FROM {t} ORDER BY j", "0A000"), ("SELECT j = j FROM {t}", "0A000"),
    ("SELECT min(s) FROM {t}", "0A000"), ("SELECT nullif(s, s) FROM {t}", "0A000"), ("SELECT greatest(s, s) FROM {t}", "0A000"),
    ("SELECT DISTINCT ON (s) s FROM {t}", "0A000"), ("SELECT s.z FROM {t}", "42703"), ("SELECT (j).k.z FROM {t}", "42809"),
])
def test_what_is_not_built_is_refused(db, name, sql, state):
    db.execute(f"CREATE TABLE {name} (id INT, s {CT}, f STRUCT<x DOUBLE PRECISION, i INTERVAL>, j STRUCT<k JSONB>)")
    with pytest.raises(Exception) as raised:
        db.execute(sql.format(t=name))
    assert raised.value.sqlstate == state, raised.value


def test_fields_of_every_type_go_in_and_out(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, s STRUCT<n BIGINT, d NUMERIC(20,3), x DOUBLE PRECISION, ok BOOLEAN, t TEXT, y BYTEA, day DATE, z TIMESTAMPTZ, u UUID, i INTERVAL, j JSONB, l TEXT[]>)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT * FROM {name}")
    literal = '(9007199254740993,1.500,-0,t,"q ""r"" \u00e9","\\\\x00ff",2024-02-29,"2024-10-27 00:30:00+00",123e4567-e89b-12d3-a456-426655440000,"1 mon 2 days","{""k"": [1, null]}","{a,NULL,""b c""}")'
    db.execute(f"INSERT INTO {name} VALUES (1, %s), (2, NULL), (3, '(,,,,,,,,,,,)')", (literal,))
    for what in (name, f"{name}_v"):
        assert db.execute(f"SELECT s::text FROM {what} ORDER BY id").fetchall() == [(literal,), (None,), ("(,,,,,,,,,,,)",)]
        rows = server.post("/api/v1/sql", {"sql": f"SELECT s FROM {what} ORDER BY id"}).json()["rows"]
        members = {"n": "9007199254740993", "d": "1.500", "x": -0.0, "ok": True, "t": 'q "r" é', "y": "AP8=", "day": "2024-02-29", "z": "2024-10-27T00:30:00Z",
                   "u": "123e4567-e89b-12d3-a456-426655440000", "i": "1 mon 2 days", "j": {"k": [1, None]}, "l": ["a", None, "b c"]}
        assert rows == [[members], [None], [dict.fromkeys(members)]]
        body = server.get(f"/api/v1/queryable_state/{what}/scan.arrow").body
        table = pa.ipc.open_stream(body).read_all().sort_by("id")
        first = table["s"][0].as_py()
        assert (first["n"], first["d"], first["t"], first["l"], first["day"]) == (2**53 + 1, Decimal("1.500"), 'q "r" é', ["a", None, "b c"], datetime.date(2024, 2, 29))
        assert json.loads(str(first["j"])) == {"k": [1, None]}
        assert table["s"][1].as_py() is None and set(table["s"][2].as_py().values()) == {None}
    parquet = pq.read_table(io.BytesIO(server.get(f"/api/v1/queryable_state/{name}/scan.parquet").body)).sort_by("id")
    assert parquet["s"][0].as_py()["i"] == "1 mon 2 days" and parquet["s"][1].as_py() is None


def test_scan_arrow_opens_in_duckdb_and_polars(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, s {CT}, l STRUCT<a INT>[])")
    db.execute(f"INSERT INTO {name} VALUES (1, ROW(1,'x'), ARRAY[ROW(1),ROW(NULL)]), (2, NULL, NULL), (3, ROW(NULL,NULL), '{{}}')")
    body = server.get(f"/api/v1/queryable_state/{name}/scan.arrow").body
    table = pa.ipc.open_stream(body).read_all()
    assert table.schema.field("s").type == pa.struct([("a", pa.int32()), ("b", pa.string())])
    taken = table
    rows = [(1, {"a": 1, "b": "x"}, [{"a": 1}, {"a": None}]), (2, None, None), (3, {"a": None, "b": None}, [])]
    assert duckdb.sql("SELECT id, s, l FROM taken ORDER BY id").fetchall() == rows
    assert duckdb.sql("SELECT s.b, s.a + 1 FROM taken ORDER BY id").fetchall() == [("x", 2), (None, None), (None, None)]
    assert polars.read_ipc_stream(io.BytesIO(body)).sort("id").rows()[0] == rows[0]


def test_json_goes_in_over_http(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT, s STRUCT<a INT, b TEXT, c STRUCT<d INT[]>>)")
    send = lambda lines: server.post(f"/api/v1/tables/{name}/rows", lines, headers={"Content-Type": "application/x-ndjson"})
    lines = ('{"id":1,"s":{"a":1,"b":"x","c":{"d":[1,null]}}}\n{"id":2,"s":{"b":"only"}}\n{"id":3,"s":null}\n{"id":4}\n{"id":5,"s":{}}\n'
             '{"id":6,"s":"(6,\\"y z\\",)"}\n{"id":7,"s":{"B":"other case", "a": "7", "a": 8}}\n{"id":8,"s": { "c" : { } , "a" : 9 } }\n')
    assert send(lines).status in (200, 201)
    rows = db.execute(f"SELECT id, s::text FROM {name} ORDER BY id").fetchall()
    assert rows == [(1, '(1,x,"(""{1,NULL}"")")'), (2, "(,only,)"), (3, None), (4, None), (5, "(,,)"), (6, '(6,"y z",)'),
                    (7, '(8,"other case",)'), (8, '(9,,"()")')]
    for bad in ('{"id":9,"s":{"a":"q"}}', '{"id":9,"s":[1]}', '{"id":9,"s":5}', '{"id":9,"s":{"zz":1}}', '{"id":9,"s":{"a":1', '{"id":9,"s":"(1)"}', '{"id":9,"s":{"c":{"d":[{}]}}}'):
        assert send(bad).status == 400, bad
    answer = server.post("/api/v1/sql", {"sql": f"SELECT id FROM {name} WHERE s = $1", "params": [{"a": 1, "b": "x", "c": {"d": [1, None]}}]}).json()
    assert answer["rows"] == [[1]]
    described = server.post("/api/v1/sql", {"sql": f"SELECT s FROM {name} LIMIT 0"}).json()["columns"]
    assert described == [{"name": "s", "type": "STRUCT<a integer, b text, c STRUCT<d integer[]>>"}]


def test_drivers_send_and_take_them(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, s {CT})")
    db.execute(f"INSERT INTO {name} VALUES (%s, %s), (%s, %s)", (1, "(1,x)", 2, None))
    db.execute(f"INSERT INTO {name} VALUES (%s, %s)", (3, (3, 'tuple, "q"')))
    db.execute(f"UPDATE {name} SET s = %s WHERE id = %s", ("(2,u)", 2))
    with db.cursor().copy(f"COPY {name} FROM STDIN WITH (FORMAT csv)") as copy:
        copy.write('4,"(4,""a b"")"\n5,\n')
    with db.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        copy.write('6\t(6,"a\\\\\\\\b")\n')
    shown = [(1, "(1,x)"), (2, "(2,u)"), (3, '(3,"tuple, ""q""")'), (4, '(4,"a b")'), (5, None), (6, '(6,"a\\\\b")')]
    assert db.execute(f"SELECT id, s::text FROM {name} ORDER BY id").fetchall() == shown
    assert db.execute(f"SELECT s FROM {name} ORDER BY id").fetchall() == [(("1", "x"),), (("2", "u"),), (("3", 'tuple, "q"'),), (("4", "a b"),), (None,), (("6", "a\\b"),)]
    assert db.execute(f"SELECT id FROM {name} WHERE s = %s", ("(1,x)",)).fetchall() == [(1,)]
    binary = db.cursor(binary=True).execute(f"SELECT s FROM {name} ORDER BY id").fetchall()
    assert binary[:2] == [((1, "x"),), ((2, "u"),)]

    async def ask():
        host, port = server.doors["pg"]
        connection = await asyncpg.connect(host=host, port=port, user="cenote", database="cenote", timeout=10)
        try:
            await connection.execute(f"INSERT INTO {name} VALUES ($1, $2)", 7, "(7,async)")
            return await connection.fetch(f"SELECT id, s FROM {name} WHERE id < 3 OR s = $1 ORDER BY id", "(7,async)")
        finally:
            await connection.close()

    assert [(row["id"], tuple(row["s"])) for row in asyncio.run(ask())] == [(1, (1, "x")), (2, (2, "u")), (7, (7, "async"))]
    assert '(3,"tuple, ""q""")' in server.psql(f"SELECT s FROM {name} WHERE id = 3")
    assert "STRUCT<a integer, b text>" in server.psql(f"\\d {name}")


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_files_hold_them(server, db, name, form):
    rows = [{"id": 1, "s": {"a": 1, "b": "x"}, "l": [{"p": 1}]}, {"id": 2, "s": None, "l": None}, {"id": 3, "s": {"a": None, "b": None}, "l": []}]
    path = server.cwd / f"{name}.{form}"
    if form == "json":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif form == "csv":
        path.write_text('id,s,l\n1,"(1,x)","{""(1)""}"\n2,,\n3,"(,)",{}\n')
    else:
        kinds = pa.schema([("id", pa.int32()), ("s", pa.struct([("b", pa.string()), ("extra", pa.int8()), ("A", pa.int64())])), ("l", pa.list_(pa.struct([("p", pa.int64())])))])
        swapped = [dict(row, s=row["s"] and {"b": row["s"]["b"], "extra": 1, "A": row["s"]["a"]}) for row in rows]
        pq.write_table(pa.Table.from_pylist(swapped, schema=kinds), path)
    db.execute(f"CREATE TABLE {name} (id INT, s {CT}, l STRUCT<p INT>[]) WITH (connector = 'file', path = '{name}.{form}', format = '{form}')")
    asked = f"SELECT id, s::text, l::text FROM {name} ORDER BY id"
    server.ask_until(lambda one: len(one.execute(asked).fetchall()) == 3)
    assert db.execute(asked).fetchall() == [(1, "(1,x)", "{(1)}"), (2, None, None), (3, "(,)", "{}")]


def test_they_survive_a_restart_and_are_read_in_the_past(fresh):
    server = fresh(workers=2)
    with server.connect() as db:
        db.execute(f"CREATE TABLE t (id INT PRIMARY KEY, s {CT})")
        db.execute("CREATE MATERIALIZED VIEW g AS SELECT s, count(*) AS n, array_agg(s) AS l FROM t GROUP BY s")
        db.execute("CREATE MATERIALIZED VIEW j AS SELECT x.id, y.s FROM t x JOIN t y ON x.s = y.s")
        db.execute("INSERT INTO t VALUES (1, ROW(1,'x')), (2, NULL), (3, ROW(NULL,NULL)), (4, '(1,x)')")
        epoch = db.execute("SELECT cenote_epoch()").fetchone()[0]
        db.execute("UPDATE t SET s = ROW(2, 'y') WHERE id = 1")
        past = [(1, "(1,x)"), (2, None), (3, "(,)"), (4, "(1,x)")]
        assert db.execute(f"SELECT id, s::text FROM t AS OF EPOCH {epoch} ORDER BY id").fetchall() == past
        state = db.execute("SELECT \"table\" FROM cenote_catalog.state_tables WHERE \"table\" LIKE 'g_aggregate_%'").fetchone()[0]
        assert ("(1,x)",) in db.execute(f"SELECT s::text FROM cenote_state.{state}").fetchall()
    queries = ["SELECT id, s::text FROM t", "SELECT s::text, n, l::text FROM g", "SELECT id, s::text FROM j"]

    def ask():
        with server.connect() as db:
            return [sorted(db.execute(query).fetchall(), key=repr) for query in queries]

    before = ask()
    assert before[1] == sorted([("(1,x)", 1, '{"(1,x)"}'), (None, 1, "{NULL}"), ("(,)", 1, '{"(,)"}'), ("(2,y)", 1, '{"(2,y)"}')], key=repr)
    server.kill()
    server.restart()
    assert ask() == before
    with server.connect() as db:
        db.execute("DELETE FROM t WHERE s = '(2,y)'")
        db.execute("INSERT INTO t VALUES (9, (1,'x'))")
    assert ("(1,x)", 2, '{"(1,x)","(1,x)"}') in ask()[1]


def test_subscriptions_tell_them(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, s {CT})")
    db.execute(f"INSERT INTO {name} VALUES (1, ROW(1,'x y'))")
    with server.subscription(f"SUBSCRIBE TO {name} WITH (snapshot = true)") as (_, rows):
        assert next(rows)[2:] == (1, ("1", "x y"))
        db.execute(f"UPDATE {name} SET s = NULL WHERE id = 1")
        assert sorted([next(rows)[1:], next(rows)[1:]], key=repr) == sorted([(-1, 1, ("1", "x y")), (1, 1, None)], key=repr)
