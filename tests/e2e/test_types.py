"""A value leaves by every door with the type and the digits that it came in with."""
import base64
import csv
import datetime
import io
import json
import re
import uuid
from decimal import Decimal

import duckdb
import polars
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg.types.json import Json, Jsonb

COLUMNS = """id BIGINT PRIMARY KEY, ok BOOLEAN, s SMALLINT, i INTEGER, r REAL, x DOUBLE PRECISION, d NUMERIC(38,9),
             t TEXT, b BYTEA, day DATE, at TIMESTAMP, z TIMESTAMPTZ, u UUID, tm TIME, iv INTERVAL, j JSON, jb JSONB,
             ns BIGINT[], ts TEXT[], ds NUMERIC(20,3)[], us UUID[]"""
UTC = datetime.timezone.utc
FIRST = (2**53 + 1, True, -32768, 2147483647, 0.5, 0.1, Decimal("12345678901234567890123456789.123456789"), "Zoë 🚲 'q' \"d\", \n",
         bytes(range(256)), datetime.date(2024, 2, 29), datetime.datetime(1999, 12, 31, 23, 59, 59, 999999),
         datetime.datetime(2024, 10, 27, 0, 30, 0, 1, UTC), uuid.UUID("123e4567-e89b-12d3-a456-426655440000"),
         datetime.time(23, 59, 59, 999999), datetime.timedelta(days=3, hours=25, microseconds=1),
         {"b": [1, None, "\u00e9\n"], "a": {}}, {"b": [1, None, "\u00e9\n"], "a": 1.5, "aa": True},
         [2**53 + 1, None, -1], ["a", "", None, "NULL", "{x,\"y\"}\\"], [Decimal("1.500"), None], [uuid.UUID(int=7)])
SMALL = (3, False, 32767, -2147483648, -1.5, 1e300, Decimal("-0.000000001"), "", b"", datetime.date(1, 1, 1),
         datetime.datetime(9999, 12, 31, 0, 0), datetime.datetime(1970, 1, 1, tzinfo=UTC),
         uuid.UUID(int=2**128 - 1), datetime.time(0, 0), datetime.timedelta(days=-400, microseconds=-1), [], "text", [], [], [], [])
NULLS = (-(2**63), *[None] * (len(FIRST) - 1))
ROWS = sorted([FIRST, NULLS, SMALL])
NAMES = [part.split()[0] for part in re.sub(r"\(.*?\)", "", COLUMNS).split(",")]


def given(row):
    """The values of a row as psycopg takes them."""
    wrap = {NAMES.index("j"): Json, NAMES.index("jb"): Jsonb}
    return [wrap[i](value) if i in wrap and value is not None else value for i, value in enumerate(row)]


@pytest.fixture(scope="module")
def typed(_shared):
    """The table and a view of it, filled once."""
    with _shared.connect() as db:
        db.execute(f"CREATE TABLE typed ({COLUMNS})")
        db.execute("CREATE MATERIALIZED VIEW typed_v AS SELECT * FROM typed")
        for row in ROWS:
            db.execute(f"INSERT INTO typed VALUES ({', '.join(['%s'] * len(row))})", given(row))
    return _shared


@pytest.fixture(params=["typed", "typed_v"])
def what(request, typed):
    return request.param


def arrow_rows(table):
    """The rows of an Arrow table with instants in UTC, in key order."""
    def plain(name, value):
        if name == "iv" and value is not None:
            return span(value)
        if name in ("j", "jb") and value is not None:
            return json.loads(value)
        if name == "us" and value is not None:
            return [uuid.UUID(bytes=one) if isinstance(one, bytes) else one for one in value]
        return value.astimezone(UTC) if isinstance(value, datetime.datetime) and value.tzinfo else value
    return sorted((tuple(plain(n, v) for n, v in row.items()) for row in table.to_pylist()), key=lambda row: row[0])


def span(value):
    """A timedelta of an interval without months: Arrow's months, days and nanoseconds, or PostgreSQL's text."""
    if not isinstance(value, str):
        assert value.months == 0 and value.nanoseconds % 1000 == 0
        return datetime.timedelta(days=value.days, microseconds=value.nanoseconds // 1000)
    days, sign, hours, minutes, seconds = re.fullmatch(r"(?:(-?\d+) days? ?)?(?:([-+]?)(\d+):(\d+):([\d.]+))?", value).groups("")
    seconds, _, digits = seconds.partition(".")
    time = datetime.timedelta(hours=int(hours or 0), minutes=int(minutes or 0), seconds=int(seconds or 0), microseconds=int(digits.ljust(6, "0")))
    return datetime.timedelta(days=int(days or 0)) + (-time if sign == "-" else time)


@pytest.mark.parametrize("binary", [False, True])
def test_pgwire(typed, what, binary):
    with typed.connect() as db, db.cursor(binary=binary) as cursor:
        cursor.execute(f"SELECT * FROM {what} ORDER BY id")
        assert cursor.fetchall() == ROWS
        assert [c.type_code for c in cursor.description] == [20, 16, 21, 23, 700, 701, 1700, 25, 17, 1082, 1114, 1184, 2950, 1083, 1186, 114, 3802, 1016, 1009, 1231, 2951]


def test_scan_arrow_opens_in_pyarrow_with_its_types(typed, what):
    answer = typed.get(f"/api/v1/queryable_state/{what}/scan.arrow")
    assert answer.headers["content-type"].startswith("application/vnd.apache.arrow.stream")
    assert answer.epoch > 0
    table = pa.ipc.open_stream(answer.body).read_all()
    assert table.column_names == NAMES
    assert arrow_rows(table) == ROWS
    kinds = dict(zip(table.schema.names, table.schema.types))
    assert kinds["d"] == pa.decimal128(38, 9)
    assert kinds["at"] == pa.timestamp("us") and kinds["z"].unit == "us" and kinds["z"].tz in ("UTC", "+00:00")
    assert (kinds["s"], kinds["i"], kinds["id"], kinds["r"], kinds["x"]) == (pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64())
    assert (kinds["u"], kinds["tm"], kinds["iv"]) == (pa.uuid(), pa.time64("us"), pa.month_day_nano_interval())
    assert (kinds["ns"], kinds["ts"], kinds["ds"]) == (pa.list_(pa.int64()), pa.list_(pa.string()), pa.list_(pa.decimal128(20, 3)))


def test_scan_arrow_opens_in_polars(typed, what):
    frame = polars.read_ipc_stream(io.BytesIO(typed.get(f"/api/v1/queryable_state/{what}/scan.arrow").body)).sort("id")
    assert frame["id"].to_list() == [row[0] for row in ROWS]
    assert frame["d"].to_list() == [row[6] for row in ROWS]
    assert frame["at"].to_list() == [row[10] for row in ROWS]
    assert frame["b"].to_list() == [row[8] for row in ROWS]


def test_scan_arrow_opens_in_duckdb(typed, what):
    table = pa.ipc.open_stream(typed.get(f"/api/v1/queryable_state/{what}/scan.arrow").body).read_all()
    with duckdb.connect() as connection:
        connection.register("pulled", table)
        found = connection.execute('SELECT id, d, epoch_us("at"), epoch_us(z), b, t FROM pulled ORDER BY id').fetchall()
    assert [row[0] for row in found] == [row[0] for row in ROWS]
    assert [row[1] for row in found] == [row[6] for row in ROWS]
    assert [row[4:] for row in found] == [(row[8], row[7]) for row in ROWS]
    wanted = [None if row[10] is None else (row[10] - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1) for row in ROWS]
    assert [row[2] for row in found] == wanted


def test_scan_parquet_keeps_types(typed, what):
    body = typed.get(f"/api/v1/queryable_state/{what}/scan.parquet").body
    table = pq.read_table(io.BytesIO(body))
    assert arrow_rows(table) == ROWS
    assert table.schema.field("d").type == pa.decimal128(38, 9)


def test_scan_csv_reads_back(typed, what):
    lines = list(csv.reader(io.StringIO(typed.get(f"/api/v1/queryable_state/{what}/scan.csv").text, newline="")))
    assert lines[0] == NAMES
    found = {int(line[0]): dict(zip(NAMES, line)) for line in lines[1:]}
    first = found[2**53 + 1]
    assert (first["d"], first["t"], first["x"]) == (str(FIRST[6]), FIRST[7], "0.1")
    assert first["at"].replace("T", " ") == "1999-12-31 23:59:59.999999"
    assert found[-(2**63)]["t"] == ""
    assert (first["ns"], first["ts"], first["ds"]) == ("{9007199254740993,NULL,-1}", '{a,"",NULL,"NULL","{x,\\"y\\"}\\\\"}', "{1.500,NULL}")
    assert (json.loads(first["j"]), first["jb"]) == (FIRST[15], '{"a": 1.5, "b": [1, null, "\u00e9\\n"], "aa": true}')
    assert (first["u"], first["tm"], first["iv"]) == (str(FIRST[12]), "23:59:59.999999", "4 days 01:00:00.000001")


def test_scan_ndjson_reads_back_exactly(typed, what):
    lines = typed.get(f"/api/v1/queryable_state/{what}/scan.ndjson").text.splitlines()
    found = {int(row["id"]): row for row in (json.loads(line, parse_float=Decimal) for line in lines)}
    first = found[2**53 + 1]
    assert Decimal(first["d"]) == FIRST[6]
    assert base64.b64decode(first["b"]) == FIRST[8]
    assert first["t"] == FIRST[7]
    assert first["day"] == "2024-02-29"
    assert datetime.datetime.fromisoformat(first["z"].replace("Z", "+00:00")) == FIRST[11]
    assert (first["u"], first["tm"], first["iv"]) == (str(FIRST[12]), "23:59:59.999999", "4 days 01:00:00.000001")
    assert (first["j"], json.dumps(first["jb"], ensure_ascii=False, default=float)) == (FIRST[15], '{"a": 1.5, "b": [1, null, "\u00e9\\n"], "aa": true}')
    assert all(found[-(2**63)][n] is None for n in NAMES[1:])


def test_lookup_gives_large_numbers_as_strings_unless_asked(typed, what):
    answer = typed.api(f"queryable_state/{what}?id={2**53 + 1}") if what == "typed_v" else typed.api(f"queryable_state/{what}?key={2**53 + 1}")
    value = answer["value"] if "value" in answer else answer["values"][0]
    assert value["d"] == str(FIRST[6])
    assert (value["u"], value["tm"], value["iv"]) == (str(FIRST[12]), "23:59:59.999999", "4 days 01:00:00.000001")
    assert (value["ns"], value["ts"], value["ds"], value["us"]) == (["9007199254740993", None, -1], FIRST[18], ["1.500", None], [str(uuid.UUID(int=7))])
    assert (value["j"], value["jb"]) == FIRST[15:17]
    assert str(value["id"]) == str(2**53 + 1) and isinstance(value["id"], str)
    raw = typed.get(f"/api/v1/queryable_state/typed?key={2**53 + 1}&numbers=raw").text
    assert json.loads(raw, parse_float=Decimal)["value"]["d"] == FIRST[6]
    assert json.loads(raw)["value"]["id"] == 2**53 + 1


def test_sql_over_http_keeps_digits(typed, what):
    answer = typed.post("/api/v1/sql", {"sql": f"SELECT id, d, at FROM {what} WHERE id = $1", "params": [2**53 + 1]})
    assert answer.status == 200, answer.text
    row = json.loads(answer.body, parse_float=Decimal)["rows"][0]
    assert int(row[0]) == 2**53 + 1
    assert Decimal(row[1]) == FIRST[6]


def test_sql_over_http_gives_arrow_when_asked(typed, what):
    answer = typed.post("/api/v1/sql", {"sql": f"SELECT * FROM {what} ORDER BY id"}, headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert arrow_rows(pa.ipc.open_stream(answer.body).read_all()) == ROWS


@pytest.mark.parametrize("form, media", [("ndjson", "application/x-ndjson"), ("csv", "text/csv"), ("arrow", "application/vnd.apache.arrow.stream")])
def test_what_is_scanned_can_be_appended_and_is_the_same(typed, name, form, media):
    typed.psql(f"CREATE TABLE {name} ({COLUMNS})")
    body = typed.get(f"/api/v1/queryable_state/typed/scan.{form}").body
    answer = typed.post(f"/api/v1/tables/{name}/rows", body, headers={"Content-Type": media})
    assert answer.status in (200, 201), answer.text
    assert typed.digest(name) == typed.digest("typed")


@pytest.mark.parametrize("form", ["ndjson", "csv", "parquet"])
def test_what_is_scanned_can_be_read_from_a_file_and_is_the_same(typed, name, form):
    (typed.cwd / f"{name}.{form}").write_bytes(typed.get(f"/api/v1/queryable_state/typed/scan.{form}").body)
    kind = {"ndjson": "json", "csv": "csv', header = 'true"}.get(form, form)
    typed.psql(f"CREATE TABLE {name} ({COLUMNS}) WITH (connector = 'file', path = '{name}.{form}', format = '{kind}')")
    typed.wait_until(name, lambda db: db.execute(f"SELECT count(*) FROM {name}").fetchone() == (len(ROWS),))
    assert typed.digest(name) == typed.digest("typed")


def test_what_is_scanned_can_be_copied_in_and_is_the_same(typed, name):
    body = typed.get("/api/v1/queryable_state/typed/scan.csv").body
    with typed.connect() as db:
        db.execute(f"CREATE TABLE {name} ({COLUMNS})")
        with db.cursor().copy(f"COPY {name} FROM STDIN WITH (FORMAT csv, HEADER)") as copy:
            copy.write(body)
    assert typed.digest(name) == typed.digest("typed")


def test_all_types_survive_a_restart(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute(f"CREATE TABLE typed ({COLUMNS})")
        db.execute("CREATE MATERIALIZED VIEW typed_v AS SELECT * FROM typed")
        for row in ROWS:
            db.execute(f"INSERT INTO typed VALUES ({', '.join(['%s'] * len(row))})", given(row))
    before = server.digests()
    server.restart()
    assert server.digests() == before
    assert sorted(server.sql("SELECT * FROM typed_v")) == ROWS


@pytest.mark.parametrize("kind", ["NUMERIC(18,2)", "SMALLINT", "REAL", "DATE", "TIMESTAMPTZ", "BOOLEAN", "BYTEA", "UUID", "TIME"])
def test_a_group_key_of_any_type_can_be_looked_up(server, name, kind):
    texts = {"NUMERIC(18,2)": "12.50", "SMALLINT": "-7", "REAL": "0.5", "DATE": "2024-02-29", "TIMESTAMPTZ": "2024-02-29T12:00:00.000001Z",
             "BOOLEAN": "true", "BYTEA": "\\x00ff", "UUID": "123e4567-e89b-12d3-a456-426655440000", "TIME": "23:59:59.000001"}
    with server.connect() as db:
        db.execute(f"CREATE TABLE {name} (k {kind}, n INT)")
        db.execute(f"INSERT INTO {name} VALUES (CAST('{texts[kind]}' AS {kind}), 1), (CAST('{texts[kind]}' AS {kind}), 2)")
        db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT k, sum(n) AS s FROM {name} GROUP BY k")
    key = texts[kind].replace("\\", "%5C").replace(":", "%3A")
    assert server.api(f"queryable_state/{name}_v?key={key}")["value"]["s"] == 3


def test_numeric_out_of_range_is_refused(db, name):
    db.execute(f"CREATE TABLE {name} (d NUMERIC(5,2), s SMALLINT)")
    for bad in ["(1000, 1)", "(1, 40000)"]:
        with pytest.raises(Exception) as raised:
            db.execute(f"INSERT INTO {name} VALUES {bad}")
        assert raised.value.sqlstate == "22003"
    db.execute(f"INSERT INTO {name} VALUES (1.005, 1)")
    assert db.execute(f"SELECT d FROM {name}").fetchall() == [(Decimal("1.01"),)]


def test_numbers_beyond_numeric_are_refused_and_not_rounded(db, name):
    nines = "9" * 38
    assert db.execute(f"SELECT {nines}").fetchone() == (Decimal(nines),)
    db.execute(f"CREATE TABLE {name} (id INT, n NUMERIC(38))")
    for sql in (f"SELECT {nines}9", f"SELECT 0.{nines}9", f"SELECT {nines} + 1", f"SELECT {nines}::numeric(38) * 2",
                f"INSERT INTO {name} VALUES (1, {nines}9)", f"INSERT INTO {name} VALUES (1, {nines} + 1)"):
        with pytest.raises(psycopg.errors.NumericValueOutOfRange):
            db.execute(sql)
    assert db.execute("SELECT 1e300 > 1e299").fetchone() == (True,)


@pytest.mark.parametrize("value", ["1e39", "-1e39", "1e-50"])
def test_a_double_that_real_cannot_hold_is_refused(db, name, value):
    db.execute(f"CREATE TABLE {name} (r REAL)")
    for sql in (f"SELECT '{value}'::double precision::real", f"INSERT INTO {name} SELECT x FROM (SELECT '{value}'::float8 AS x) s"):
        with pytest.raises(psycopg.errors.NumericValueOutOfRange):
            db.execute(sql)


def test_both_zeros_are_one_in_views_and_queries(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, d DOUBLE PRECISION)")
    db.execute(f"INSERT INTO {name} VALUES (1, '-0'), (2, '0'), (3, '-0'), (4, 1), (5, NULL)")
    for number, (query, rows) in enumerate([
        (f"SELECT d, count(*) AS n FROM {name} GROUP BY d", [(0.0, 3), (1.0, 1), (None, 1)]),
        (f"SELECT count(*) AS n FROM {name} WHERE d = 0", [(3,)]),
        (f"SELECT count(*) AS n FROM {name} WHERE d < 0", [(0,)]),
        (f"SELECT count(*) AS n FROM {name} WHERE d IN (0, 5)", [(3,)]),
        (f"SELECT count(*) AS n FROM {name} WHERE d BETWEEN 0 AND 0.5", [(3,)]),
        (f"SELECT count(*) AS n FROM {name} a JOIN {name} b ON a.d = b.d", [(10,)]),
        (f"SELECT count(*) AS n FROM (SELECT DISTINCT d FROM {name}) s", [(3,)]),
        (f"SELECT sum(CASE d WHEN 0 THEN 1 ELSE 0 END)::bigint AS n FROM {name}", [(3,)]),
    ]):
        assert sorted(db.execute(query).fetchall(), key=repr) == sorted(rows, key=repr), query
        db.execute(f"CREATE MATERIALIZED VIEW {name}_{number} AS {query}")
        kept = db.execute(f"SELECT * FROM {name}_{number}").fetchall()
        assert sorted(kept, key=repr) == sorted(rows, key=repr), query
    assert db.execute(f"SELECT id FROM {name} ORDER BY d, id").fetchall() == [(1,), (2,), (3,), (4,), (5,)]


def test_declared_lengths_are_kept_to(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(3), c CHAR(2))")
    db.execute(f"INSERT INTO {name} VALUES (1, 'äöü', 'ab')")
    for sql in (f"INSERT INTO {name} VALUES (2, 'abcd', 'x')", f"UPDATE {name} SET c = 'abc'"):
        with pytest.raises(psycopg.errors.StringDataRightTruncation):
            db.execute(sql)
    with pytest.raises(psycopg.errors.StringDataRightTruncation):
        with db.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            copy.write("3\tabcd\tx\n")
    assert db.execute(f"SELECT * FROM {name}").fetchall() == [(1, "äöü", "ab")]
    assert db.execute(f"SELECT ('abcde' || v)::varchar(4), 'abc'::char(2) FROM {name}").fetchone() == ("abcd", "ab")


@pytest.mark.parametrize("query, answer", [
    ("SELECT CASE WHEN false THEN 3 ELSE 9007199254740993 END", 9007199254740993),
    ("SELECT CASE WHEN false THEN 1 ELSE 2.5 END", Decimal("2.5")),
    ("SELECT CASE WHEN id = 0 THEN id ELSE f END FROM {t}", 3.25),
    ("SELECT f > n FROM {t}", True),
    ("SELECT 1e-20::float8 > 0.0", True),
    ("SELECT count(*) FROM (SELECT 1e20::float8 AS x UNION ALL SELECT 1.5) s WHERE x > 2", 1),
    ("SELECT coalesce(NULL::numeric, 1e300::float8)", 1e300),
    ("SELECT '9999-12-31'::date > '2024-01-01'::timestamp", True),
    ("SELECT coalesce(NULL::timestamp, '9999-12-31'::date)", datetime.datetime(9999, 12, 31)),
    ("SELECT date_trunc('month', '2200-12-31'::date)", datetime.datetime(2200, 12, 1, tzinfo=datetime.timezone.utc)),
    ("SELECT -('NaN'::float8) = 'NaN'::float8", True),
    ("SELECT -('NaN'::float8) > 1", True),
    ("SELECT to_char('2024-03-05 07:08:09'::timestamp, 'YYYY-MM-DD HH24:MI:SS')", "2024-03-05 07:08:09"),
    ("SELECT to_date('05 Mar 2024', 'DD Mon YYYY')", datetime.date(2024, 3, 5)),
    ("SELECT 'abc' SIMILAR TO '(a|b)%'", True),
    ("SELECT 'abc' NOT SIMILAR TO 'a.c'", True),
    ("SELECT sum(id) + count(DISTINCT f) FROM {t}", 2),
])
def test_values_of_two_types_meet_as_in_postgresql(db, name, query, answer):
    db.execute(f"CREATE TABLE {name} (id INT, f DOUBLE PRECISION, n NUMERIC(10,2))")
    db.execute(f"INSERT INTO {name} VALUES (1, 3.25, 3.2)")
    assert db.execute(query.format(t=name)).fetchone() == (answer,)


@pytest.mark.parametrize("sql, state", [
    ("SELECT now() AT TIME ZONE 'No/Where'", "22023"),
    ("SELECT to_char(now(), 'Q')", "0A000"),
    ("CREATE TABLE {t} (at TIMESTAMP(0))", "0A000"),
    ("SELECT now()::timestamptz(3)", "0A000"),
    ("SUBSCRIBE TO {t} WHERE n = 1", "42601"),
    ("EXPLAIN (FORMAT JSON) SELECT 1", "0A000"),
    ("SELECT length(repeat('x', 2000000000))", "54000"),
    ("SELECT cardinality(array_repeat(1, 2000000000))", "54000"),
    ("SELECT length(lpad('x', 2147483647, 'y'))", "54000"),
])
def test_what_cannot_be_honoured_is_refused(db, name, sql, state):
    with pytest.raises(psycopg.Error) as raised:
        db.execute(sql.format(t=name))
    assert raised.value.sqlstate == state
