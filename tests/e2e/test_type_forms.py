"""PostgreSQL's input and output forms of types, their errors, and what compares equal, as its manual has it."""
import pytest

ONE = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
# type, text given, text shown
FORMS = [
    ("uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", ONE),
    ("uuid", "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}", ONE),
    ("uuid", "a0eebc999c0b4ef8bb6d6bb9bd380a11", ONE),
    ("uuid", "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11", ONE),
    ("time", "04:05:06.789", "04:05:06.789"),
    ("time", "04:05", "04:05:00"),
    ("time", "040506", "04:05:06"),
    ("time", "04:05 PM", "16:05:00"),
    ("time", "04:05:06.789-8", "04:05:06.789"),
    ("time", "24:00", "24:00:00"),
    ("interval", "1 year 2 months 3 days 4 hours 5 minutes 6 seconds", "1 year 2 mons 3 days 04:05:06"),
    ("interval", "P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
    ("interval", "1-2", "1 year 2 mons"),
    ("interval", "3 4:05:06", "3 days 04:05:06"),
    ("interval", "1 day ago", "-1 days"),
    ("interval", "1.5 hours", "01:30:00"),
    ("interval", "-1 year -2 mons +3 days -04:05:06", "-1 years -2 mons +3 days -04:05:06"),
]
# type, text, SQLSTATE
WRONG = [
    ("uuid", "a0eebc99", "22P02"), ("uuid", ONE + "0", "22P02"), ("uuid", "{" + ONE, "22P02"), ("uuid", "", "22P02"),
    ("time", "noonish", "22007"), ("time", "25:00", "22008"),
    ("interval", "1 parsec", "22007"), ("interval", "999999999999 years", "22015"),
]


@pytest.mark.parametrize("kind, given, shown", FORMS)
def test_a_text_is_read_by_every_door_and_shown_in_postgresqls_form(db, name, kind, given, shown):
    assert db.execute(f"SELECT CAST('{given}' AS {kind})::text").fetchone() == (shown,)
    assert db.execute(f"SELECT (t::{kind})::text FROM (VALUES ('{given}'), (NULL)) AS s(t)").fetchall() == [(shown,), (None,)]
    db.execute(f"CREATE TABLE {name} (id INT, v {kind})")
    db.execute(f"INSERT INTO {name} VALUES (1, '{given}')")
    db.execute(f"INSERT INTO {name} (v, id) SELECT '{given}', 2")
    db.execute(f"INSERT INTO {name} VALUES (3, %s)", (given,))
    with db.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        copy.write(f"4\t{given}\n")
    db.execute(f"INSERT INTO {name} VALUES (5, NULL)")
    db.execute(f"UPDATE {name} SET v = '{given}' WHERE id = 5")
    assert db.execute(f"SELECT v::text, count(*) FROM {name} GROUP BY v::text").fetchall() == [(shown, 5)]
    assert db.execute(f"SELECT count(*) FROM {name} WHERE v = '{given}' AND v IN ('{shown}') AND v BETWEEN '{given}' AND '{shown}'").fetchone() == (5,)
    assert db.execute(f"SELECT count(*) FROM {name} WHERE v = %s", (given,)).fetchone() == (5,)
    assert db.execute(f"DELETE FROM {name} WHERE v = %s", (given,)).rowcount == 5


@pytest.mark.parametrize("kind, given, state", WRONG)
def test_a_text_of_another_form_is_refused(db, name, kind, given, state):
    db.execute(f"CREATE TABLE {name} (id INT, v {kind})")
    for sql in (f"SELECT CAST('{given}' AS {kind})", f"SELECT t::{kind} FROM (VALUES ('{given}')) AS s(t)",
                f"INSERT INTO {name} VALUES (1, '{given}')", f"UPDATE {name} SET v = '{given}'", f"SELECT * FROM {name} WHERE v = '{given}'"):
        if sql.startswith("UPDATE"):
            db.execute(f"INSERT INTO {name} VALUES (1, NULL)")
        with pytest.raises(Exception) as raised:
            db.execute(sql)
        assert raised.value.sqlstate == state, (sql, raised.value)
    with pytest.raises(Exception) as raised:
        with db.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            copy.write(f"4\t{given}\n")
    assert raised.value.sqlstate == state
    assert db.execute(f"SELECT * FROM {name}").fetchall() == [(1, None)]


def test_uuids_compare_by_value(db):
    row = db.execute("SELECT CAST('123e4567-e89b-12d3-a456-426655440000' AS UUID) = '123E4567E89B12D3A456426655440000', "
                     "'{123E4567E89B12D3A456426655440000}' = '123e4567-e89b-12d3-a456-426655440000'::uuid").fetchone()
    assert row == (True, True)
    with pytest.raises(Exception) as raised:
        db.execute("SELECT u = t FROM (SELECT '123e4567-e89b-12d3-a456-426655440000'::uuid AS u, 'a' || 'b' AS t) AS s")
    assert raised.value.sqlstate in ("42883", "42804")


def test_binary_is_shown_as_hexadecimal_text(db):
    assert db.execute("SELECT '\\x00ff'::bytea::text, b::text FROM (VALUES ('\\x61'::bytea)) AS s(b)").fetchone() == ("\\x00ff", "\\x61")


def test_a_default_is_read_in_its_columns_form(db, name):
    db.execute(f"CREATE TABLE {name} (id INT, u UUID DEFAULT '{ONE.upper()}', t TIME DEFAULT '4:05 PM', i INTERVAL DEFAULT '1-2')")
    db.execute(f"INSERT INTO {name} (id) VALUES (1)")
    with db.cursor().copy(f"COPY {name} (id) FROM STDIN") as copy:
        copy.write("2\n")
    assert db.execute(f"SELECT u::text, t::text, i::text, count(*) FROM {name} GROUP BY 1, 2, 3").fetchall() == [(ONE, "16:05:00", "1 year 2 mons", 2)]


VALUES = {"UUID": [ONE, "00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
          "TIME": ["00:00:00", "12:34:56.789012", "23:59:59.999999"]}


@pytest.mark.parametrize("kind", VALUES)
def test_views_group_join_and_order_by_value(server, db, name, kind):
    low, middle, high = sorted(VALUES[kind])
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, k {kind}, g INT)")
    queries = [f"SELECT k, count(*) AS n FROM {name} GROUP BY k", f"SELECT DISTINCT k FROM {name}",
               f"SELECT a.id, b.id AS other FROM {name} a JOIN {name} b ON a.k = b.k",
               f"SELECT g, min(k) AS lo, max(k) AS hi, count(DISTINCT k) AS n FROM {name} GROUP BY g",
               f"SELECT id, k FROM {name} ORDER BY k DESC, id LIMIT 3", f"SELECT id FROM {name} WHERE k > '{low}'"]
    for number, query in enumerate(queries):
        db.execute(f"CREATE MATERIALIZED VIEW {name}_{number} AS {query}")
    db.execute(f"INSERT INTO {name} VALUES (1, '{low}', 1), (2, '{high}', 1), (3, '{low.upper()}', 2), (4, NULL, 2), (5, '{middle}', 2), (6, '{high}', 2)")
    db.execute(f"DELETE FROM {name} WHERE id = 6")
    db.execute(f"UPDATE {name} SET k = '{high}' WHERE id = 3")
    for number, query in enumerate(queries):
        assert sorted(db.execute(f"SELECT * FROM {name}_{number}").fetchall(), key=repr) == sorted(db.execute(query).fetchall(), key=repr), query
    assert db.execute(f"SELECT lo::text, hi::text, n FROM {name}_3 ORDER BY g").fetchall() == [(low, high, 2), (middle, high, 2)]
    assert [str(row[0]) for row in db.execute(f"SELECT k FROM {name}_0 WHERE k IS NOT NULL ORDER BY k").fetchall()] == [low, middle, high]
    assert server.api(f"queryable_state/{name}_0?key={high.replace(':', '%3A').upper()}")["value"]["n"] == 2
    db.execute(f"CREATE TABLE {name}_k (k {kind} PRIMARY KEY, n INT)")
    db.execute(f"INSERT INTO {name}_k VALUES ('{low}', 1), ('{high}', 2)")
    assert db.execute(f"SELECT n FROM {name}_k WHERE k = '{high.upper()}'").fetchone() == (2,)
    with pytest.raises(Exception) as raised:
        db.execute(f"INSERT INTO {name}_k VALUES ('{low.upper()}', 3)")
    assert raised.value.sqlstate == "23505"


def test_intervals_compare_by_length(db, name):
    assert db.execute("SELECT INTERVAL '1 month' = '30 days', INTERVAL '30 days' = INTERVAL '720 hours', INTERVAL '1 mon' < '31 days', "
                      "INTERVAL '1 day' IN ('24:00', '1 year'), INTERVAL '1 mon' IS DISTINCT FROM INTERVAL '30 days'").fetchone() == (True, True, True, True, False)
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, i INTERVAL)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_j AS SELECT a.id, b.id AS other FROM {name} a JOIN {name} b ON a.i = b.i AND a.id < b.id")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_t AS SELECT id FROM {name} ORDER BY i DESC LIMIT 2")
    db.execute(f"INSERT INTO {name} VALUES (1, '1 month'), (2, '30 days'), (3, '720:00:00'), (4, '31 days'), (5, '1 mon 12 hours'), (6, NULL)")
    assert sorted(db.execute(f"SELECT * FROM {name}_j").fetchall()) == [(1, 2), (1, 3), (2, 3)]
    assert sorted(db.execute(f"SELECT id FROM {name}_t").fetchall()) == [(4,), (6,)]
    assert db.execute(f"SELECT id FROM {name} ORDER BY i, id").fetchall() == [(1,), (2,), (3,), (5,), (4,), (6,)]


@pytest.mark.parametrize("query", ["SELECT i, count(*) AS n FROM {0} GROUP BY i", "SELECT DISTINCT i FROM {0}", "SELECT count(DISTINCT i) AS n FROM {0}", "SELECT nullif(i, '1 day'::interval) AS n FROM {0}",
                                   "SELECT i FROM {0} UNION SELECT i FROM {0}"])
def test_what_would_choose_among_equal_intervals_is_refused(db, name, query):
    db.execute(f"CREATE TABLE {name} (id INT, i INTERVAL)")
    for sql in (query.format(name), f"CREATE MATERIALIZED VIEW {name}_v AS {query.format(name)}"):
        with pytest.raises(Exception) as raised:
            db.execute(sql)
        assert raised.value.sqlstate == "0A000" and "interval" in str(raised.value)
    with pytest.raises(Exception) as raised:
        db.execute(f"CREATE TABLE {name}_k (i INTERVAL PRIMARY KEY)")
    assert raised.value.sqlstate == "0A000"


@pytest.mark.parametrize("kind", ["TIME(3)", "INTERVAL DAY TO SECOND", "INTERVAL(3)", "TIMETZ", "MONEY", "INET", "XML", "BIT(3)", "BOX"])
def test_a_type_that_is_not_built_is_refused_by_name(db, name, kind):
    with pytest.raises(Exception) as raised:
        db.execute(f"CREATE TABLE {name} (v {kind})")
    assert raised.value.sqlstate in ("0A000", "42704")


# text given, JSONB shown
JSONB = [
    ('{"bar": "baz", "balance": 7.77, "active":false}', '{"bar": "baz", "active": false, "balance": 7.77}'),
    ('{"reading": 1.230e-5}', '{"reading": 0.00001230}'),
    (' { "b" : [ 1 ,2 ,{} ] , "a" : null } ', '{"a": null, "b": [1, 2, {}]}'),
    ('{"a":1,"a":2,"aa":3,"b":4}', '{"a": 2, "b": 4, "aa": 3}'),
    ('"\\u00e9\\/\\u0007"', '"é/\\u0007"'),
    ("1e5", "100000"), ("-0", "0"), ("1.50", "1.50"), ("null", "null"), ("9007199254740993", "9007199254740993"),
]


@pytest.mark.parametrize("given, shown", JSONB)
def test_jsonb_has_its_normal_form_and_json_keeps_its_text(db, name, given, shown):
    assert db.execute("SELECT %s::jsonb::text, %s::json::text, %s::json::jsonb::text, %s::jsonb::json::text", [given] * 4).fetchone() == (shown, given, shown, shown)
    assert db.execute(f"SELECT CAST('{given}' AS JSONB)::text, CAST('{given}' AS JSON)::text").fetchone() == (shown, given)
    db.execute(f"CREATE TABLE {name} (id INT, j JSON, b JSONB)")
    db.execute(f"INSERT INTO {name} VALUES (1, '{given}', '{given}')")
    db.execute(f"INSERT INTO {name} VALUES (2, %s, %s)", (given, given))
    with db.cursor().copy(f"COPY {name} FROM STDIN WITH (FORMAT csv)") as copy:
        quoted = given.replace('"', '""')
        copy.write(f'3,"{quoted}","{quoted}"\n')
    db.execute(f"UPDATE {name} SET j = '{given}', b = '{given}' WHERE id = 1")
    assert db.execute(f"SELECT j::text, b::text FROM {name}").fetchall() == [(given, shown)] * 3


@pytest.mark.parametrize("text", ["", "{", "[1,]", "{a:1}", "01", "nul", "'a", "1 2", "NaN"])
@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_what_is_no_json_is_refused(server, db, name, kind, text):
    db.execute(f"CREATE TABLE {name} (v {kind})")
    quoted = text.replace("'", "''")
    for sql in (f"SELECT '{quoted}'::{kind}", f"INSERT INTO {name} VALUES ('{quoted}')", f"SELECT t::{kind} FROM (VALUES ('{quoted}')) AS s(t)"):
        with pytest.raises(Exception) as raised:
            db.execute(sql)
        assert raised.value.sqlstate == "22P02"
    if text:
        answer = server.post(f"/api/v1/tables/{name}/rows", f"v\n\"{text}\"\n", headers={"Content-Type": "text/csv"})
        assert answer.status == 400 and answer.json()["error"]["sqlstate"] == "22P02"
    assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)


DOCUMENT = '{"a": [10, {"b": "x"}, null, [2, 3]], "c": {"d": "e \\"f"}, "n": null, "t": true}'
PARTS = [
    ("-> 'a'", '[10, {"b": "x"}, null, [2, 3]]'), ("-> 'a' -> 0", "10"), ("-> 'a' -> -1", "[2, 3]"), ("-> 'a' -> 9", None),
    ("-> 'a' ->> 1", '{"b": "x"}'), ("-> 'a' -> 1 ->> 'b'", "x"), ("-> 'c' -> 'd'", '"e \\"f"'), ("-> 'c' ->> 'd'", 'e "f'), ("-> 'n'", "null"),
    ("->> 'n'", None), ("->> 't'", "true"), ("-> 'x'", None), ("-> 0", None), ("#> '{a,1}'", '{"b": "x"}'), ("#>> '{a,1,b}'", "x"), ("#>> '{a,-1,0}'", "2"),
    ("#>> '{a,z}'", None), ("#>> '{n}'", None),
]


@pytest.mark.parametrize("kind", ["json", "jsonb"])
@pytest.mark.parametrize("step, shown", PARTS)
def test_parts_of_json_are_found_ad_hoc_and_in_views(db, name, kind, step, shown):
    assert db.execute(f"SELECT ('{DOCUMENT}'::{kind} {step})::text").fetchone() == (shown,)
    db.execute(f"CREATE TABLE {name} (id INT, d {kind})")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT id, d {step} AS part FROM {name}")
    db.execute(f"INSERT INTO {name} VALUES (1, '{DOCUMENT}'), (2, NULL)")
    assert db.execute(f"SELECT part::text FROM {name}_v ORDER BY id").fetchall() == [(shown,), (None,)]
    assert db.execute(f"SELECT (d {step})::text FROM {name} ORDER BY id").fetchall() == [(shown,), (None,)]


def test_jsonb_is_equal_by_value_and_json_has_no_equality(db, name):
    assert db.execute("SELECT '{\"a\":1.0,\"b\":2}'::jsonb = '{\"b\":2.00,\"a\":1}', '1'::jsonb <> '\"1\"', '[1]'::jsonb IN ('1', '[1.0]')").fetchone() == (True, True, True)
    db.execute(f"CREATE TABLE {name} (id INT, b JSONB, j JSON)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT a.id, c.id AS other FROM {name} a JOIN {name} c ON a.b = c.b AND a.id < c.id")
    db.execute(f"INSERT INTO {name} VALUES (1, '{{\"a\": 1}}', '1'), (2, '{{\"a\": 1.0}}', '1'), (3, '{{}}', '1')")
    assert db.execute(f"SELECT * FROM {name}_v").fetchall() == [(1, 2)]
    assert db.execute(f"SELECT id FROM {name} WHERE b IN (SELECT b FROM {name} WHERE id = 1) ORDER BY id").fetchall() == [(1,), (2,)]
    for sql, state in ((f"SELECT j = j FROM {name}", "42883"), (f"SELECT b = 'a' || 'b' FROM {name}", "42883"), (f"SELECT b < b FROM {name}", "0A000"),
                       (f"SELECT DISTINCT b FROM {name}", "0A000"), (f"SELECT b FROM {name} GROUP BY b", "0A000"), (f"SELECT id FROM {name} ORDER BY b", "0A000"),
                       (f"SELECT count(DISTINCT j) FROM {name}", "0A000"), (f"SELECT b @> '1' FROM {name}", "0A000"),
                       (f"CREATE TABLE {name}_k (b JSONB PRIMARY KEY)", "0A000"), (f"SELECT id, b IN (SELECT b FROM {name}) FROM {name}", "0A000")):
        with pytest.raises(Exception) as raised:
            db.execute(sql)
        assert raised.value.sqlstate == state, (sql, raised.value)


def test_json_columns_take_any_json_over_http(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT, j JSON, b JSONB)")
    lines = '{"id":1,"j":{"x": [1,2]},"b":{"y":1e2, "x":[]}}\n{"id":2,"j":"text","b":12.50}\n{"id":3,"j":true,"b":null}\n'
    assert server.post(f"/api/v1/tables/{name}/rows", lines, headers={"Content-Type": "application/x-ndjson"}).status in (200, 201)
    shown = db.execute(f"SELECT j::text, b::text FROM {name} ORDER BY id").fetchall()
    assert shown == [('{"x": [1,2]}', '{"x": [], "y": 100}'), ('"text"', "12.50"), ("true", None)]
    rows = server.post("/api/v1/sql", {"sql": f"SELECT j, b FROM {name} ORDER BY id"}).json()["rows"]
    assert rows == [[{"x": [1, 2]}, {"x": [], "y": 100}], ["text", 12.5], [True, None]]


# type, text given, text shown
ARRAYS = [
    ("bigint[]", "{1,2,NULL}", "{1,2,NULL}"), ("bigint[]", " { 1 , null } ", "{1,NULL}"), ("bigint[]", "{}", "{}"),
    ("text[]", '{a,"",null,"NULL","x y","q\\"\\\\"}', '{a,"",NULL,"NULL","x y","q\\"\\\\"}'),
    ("boolean[]", "{yes,f}", "{t,f}"), ("numeric(5,2)[]", "{1.005,-2}", "{1.01,-2.00}"), ("date[]", "{2024-02-29}", "{2024-02-29}"),
    ("uuid[]", "{" + ONE.upper() + "}", "{" + ONE + "}"), ("double precision[]", "{1.5,NaN}", "{1.5,NaN}"), ("bytea[]", '{"\\\\x00ff"}', '{"\\\\x00ff"}'),
]


@pytest.mark.parametrize("kind, given, shown", ARRAYS)
def test_array_literals_are_read_and_shown(db, name, kind, given, shown):
    assert db.execute(f"SELECT CAST('{given}' AS {kind})::text").fetchone() == (shown,)
    db.execute(f"CREATE TABLE {name} (id INT, v {kind})")
    db.execute(f"INSERT INTO {name} VALUES (1, '{given}')")
    db.execute(f"INSERT INTO {name} VALUES (2, %s)", (given,))
    db.execute(f"INSERT INTO {name} (v, id) SELECT '{given}', 3")
    db.execute(f"UPDATE {name} SET v = '{given}' WHERE id = 3")
    with db.cursor().copy(f"COPY {name} FROM STDIN WITH (FORMAT csv)") as copy:
        quoted = given.replace('"', '""')
        copy.write(f'4,"{quoted}"\n')
    assert db.execute(f"SELECT v::text, count(*) FROM {name} GROUP BY v::text").fetchall() == [(shown, 4)]


@pytest.mark.parametrize("text", ["", "1,2", "{1,2", "{1,,2}", "{1}x", "{a}", "{{1},{2}}"])
def test_what_is_no_array_of_the_type_is_refused(db, name, text):
    db.execute(f"CREATE TABLE {name} (v BIGINT[])")
    for sql in (f"SELECT '{text}'::bigint[]", f"INSERT INTO {name} VALUES ('{text}')"):
        with pytest.raises(Exception) as raised:
            db.execute(sql)
        assert raised.value.sqlstate in ("22P02", "0A000" if "{{" in text else "22P02")


def test_arrays_have_postgresqls_operators(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, a BIGINT[], t TEXT[])")
    db.execute(f"INSERT INTO {name} VALUES (1, ARRAY[10, 20, NULL], ARRAY['x', 'y']), (2, '{{}}', '{{}}'), (3, NULL, NULL)")
    queries = ["SELECT id, a[1] AS f, a[3] AS n, a[0] AS z, a[-1] AS m, t[2] AS y, array_length(a, 1) AS l, array_length(a, 2) AS l2 FROM {0}",
               "SELECT id, 10 = ANY(a) AS found, 11 = ANY(a) AS missing FROM {0}", "SELECT id FROM {0} WHERE 'y' = ANY(t)"]
    rows = [[(1, 10, None, None, None, "y", 3, None), (2, None, None, None, None, None, None, None), (3, *[None] * 7)],
            [(1, True, None), (2, False, False), (3, None, None)], [(1,)]]
    for number, (query, wanted) in enumerate(zip(queries, rows)):
        sql = query.format(name)
        assert sorted(db.execute(sql).fetchall()) == wanted, sql
        db.execute(f"CREATE MATERIALIZED VIEW {name}_{number} AS {sql}")
        assert sorted(db.execute(f"SELECT * FROM {name}_{number}").fetchall()) == wanted, sql
    assert sorted(db.execute(f"SELECT id, unnest(a) AS e FROM {name}").fetchall(), key=repr) == [(1, 10), (1, 20), (1, None)]
    assert db.execute("SELECT ARRAY[1,2] = '{{1,2}}'::int[], ARRAY[1,NULL] = ARRAY[1,NULL], ARRAY[1,2] = ARRAY[2,1]".replace("{{", "{").replace("}}", "}")).fetchone() == (True, True, False)
    for sql, state in ((f"SELECT a[1:2] FROM {name}", "0A000"), (f"SELECT a < a FROM {name}", "0A000")):
        with pytest.raises(Exception) as raised:
            db.execute(sql)
        assert raised.value.sqlstate == state, (sql, raised.value)


def test_arrays_are_keys_of_views_and_come_as_json_lists(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT, a BIGINT[])")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_g AS SELECT a, count(*) AS n FROM {name} GROUP BY a")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_j AS SELECT x.id, y.id AS other FROM {name} x JOIN {name} y ON x.a = y.a AND x.id < y.id")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_t AS SELECT id, a FROM {name} WHERE a IS NOT NULL ORDER BY a DESC, id LIMIT 2")
    lines = '{"id":1,"a":[1,2]}\n{"id":2,"a":"{1,2}"}\n{"id":3,"a":[]}\n{"id":4,"a":null}\n{"id":5,"a":["9007199254740993",null]}\n'
    assert server.post(f"/api/v1/tables/{name}/rows", lines, headers={"Content-Type": "application/x-ndjson"}).status in (200, 201)
    db.execute(f"DELETE FROM {name} WHERE id = 3")
    assert sorted(db.execute(f"SELECT a, n FROM {name}_g").fetchall(), key=repr) == [(None, 1), ([1, 2], 2), ([2**53 + 1, None], 1)]
    assert db.execute(f"SELECT * FROM {name}_j").fetchall() == [(1, 2)]
    assert sorted(db.execute(f"SELECT * FROM {name}_t").fetchall()) == [(1, [1, 2]), (5, [2**53 + 1, None])]
    assert server.api(f"queryable_state/{name}_g?key=%7B1,2%7D")["value"] == {"a": [1, 2], "n": 2}
    asked = server.post("/api/v1/sql", {"sql": f"SELECT id, a FROM {name} WHERE a = $1 ORDER BY id", "params": [[1, 2]]}).json()
    assert asked["rows"] == [[1, [1, 2]], [2, [1, 2]]]
    for bad in ('{"id":6,"a":[1.5]}', '{"id":6,"a":[[1]]}', '{"id":6,"a":["x"]}', '{"id":6,"a":[1'):
        assert server.post(f"/api/v1/tables/{name}/rows", bad, headers={"Content-Type": "application/x-ndjson"}).status == 400
    with pytest.raises(Exception) as raised:
        db.execute(f"CREATE TABLE {name}_k (a DOUBLE PRECISION[] PRIMARY KEY)")
    assert raised.value.sqlstate == "0A000"


@pytest.mark.parametrize("kind", ["BIGINT[][]", "BIGINT[3]", "INTERVAL[]", "JSONB[]", "VARCHAR(3)[]"])
def test_arrays_that_are_not_built_are_refused(db, name, kind):
    with pytest.raises(Exception) as raised:
        db.execute(f"CREATE TABLE {name} (v {kind})")
    assert raised.value.sqlstate == "0A000"
