"""What a user can ask the system about itself: SHOW, EXPLAIN, operator state, system tables; and what is refused."""
import psycopg
import pytest


@pytest.fixture
def shop(db, name):
    """Two tables, a view with a join and an aggregate, a view on it, a plain view."""
    db.execute(f"CREATE TABLE {name}_o (id INT PRIMARY KEY, usr TEXT, n BIGINT)")
    db.execute(f"CREATE TABLE {name}_u (usr TEXT PRIMARY KEY, city TEXT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_c AS SELECT u.city, sum(o.n) AS s, count(*) AS n FROM {name}_o o JOIN {name}_u u ON o.usr = u.usr GROUP BY u.city")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_top AS SELECT city, s FROM {name}_c ORDER BY s DESC, city LIMIT 2")
    db.execute(f"CREATE VIEW {name}_plain AS SELECT city FROM {name}_c")
    db.execute(f"INSERT INTO {name}_u VALUES ('a', 'Oslo'), ('b', 'Rome'), ('c', 'Bern')")
    db.execute(f"INSERT INTO {name}_o VALUES (1, 'a', 5), (2, 'a', 6), (3, 'b', 1), (4, 'c', 2)")
    return name


def column(rows, i=0):
    return {row[i] for row in rows}


def values(rows):
    return {v for row in rows for v in row}


@pytest.mark.parametrize("command, suffixes", [
    ("SHOW TABLES", ["_o", "_u"]), ("SHOW MATERIALIZED VIEWS", ["_c", "_top"]), ("SHOW VIEWS", ["_plain"]),
])
def test_show_lists_objects(db, shop, command, suffixes):
    shown = values(db.execute(command).fetchall())
    assert {shop + s for s in suffixes} <= shown


@pytest.mark.parametrize("command", ["SHOW SOURCES", "SHOW SINKS", "SHOW STATE"])
def test_show_answers_rows_even_if_none(db, command):
    assert db.execute(command).fetchall() is not None


def test_show_create_gives_text_that_makes_the_same_object(db, shop):
    text = db.execute(f"SHOW CREATE MATERIALIZED VIEW {shop}_top").fetchone()[-1]
    wanted = db.execute(f"SELECT * FROM {shop}_top ORDER BY 1").fetchall()
    db.execute(f"DROP MATERIALIZED VIEW {shop}_top")
    db.execute(text)
    assert db.execute(f"SELECT * FROM {shop}_top ORDER BY 1").fetchall() == wanted
    table = db.execute(f"SHOW CREATE TABLE {shop}_o").fetchone()[-1]
    assert "PRIMARY KEY" in table.upper()


def test_explain_names_operators_and_their_state(db, shop):
    plan = "\n".join(str(v) for v in values(db.execute(
        f"EXPLAIN CREATE MATERIALIZED VIEW {shop}_x AS SELECT u.city, count(*) AS n FROM {shop}_o o JOIN {shop}_u u ON o.usr = u.usr GROUP BY u.city").fetchall()))
    assert "join" in plan.lower() and "aggregate" in plan.lower()
    assert f"{shop}_x" not in values(db.execute("SHOW MATERIALIZED VIEWS").fetchall())
    assert "state" in plan.lower()
    assert db.execute(f"EXPLAIN SELECT * FROM {shop}_c WHERE city = 'Oslo'").fetchall()


def test_every_stateful_operator_is_a_typed_table(db, shop):
    cursor = db.execute("SELECT * FROM cenote_catalog.state_tables")
    mine = [row for row in cursor.fetchall() if row[0] in (f"{shop}_c", f"{shop}_top")]
    assert len(mine) >= 3, "two sides of a join, an aggregate, a Top-N"
    for view, operator, table, *_ in mine:
        state = db.execute(f'SELECT * FROM cenote_state."{table}"')
        assert state.fetchall(), f"{table} of {view} {operator} holds rows"
        assert all(c.type_code != 17 for c in state.description), "accumulators are decoded columns, not bytes"


def test_aggregate_state_follows_the_data(db, shop):
    rows = db.execute("SELECT * FROM cenote_catalog.state_tables").fetchall()
    tables = [row[2] for row in rows if row[0] == f"{shop}_c" and row[1] == "aggregate"]
    assert len(tables) == 1
    read = f'SELECT * FROM cenote_state."{tables[0]}"'
    assert "Oslo" in values(db.execute(read).fetchall())
    db.execute(f"DELETE FROM {shop}_o WHERE usr = 'a'")
    assert "Oslo" not in values(db.execute(read).fetchall())


@pytest.mark.parametrize("table", ["views", "sources", "sinks", "operators", "epochs", "errors", "settings", "functions", "state_tables", "checkpoints"])
def test_system_tables_answer(db, table):
    assert db.execute(f"SELECT * FROM cenote_catalog.{table}").description


@pytest.mark.parametrize("sql", ["SELECT * FROM cenote_catalog.watermarks"])
def test_a_promised_table_that_is_not_built_says_so(db, sql):
    """Once it is built it leaves this list."""
    with pytest.raises(psycopg.errors.FeatureNotSupported) as raised:
        db.execute(sql)
    assert "not supported yet" in str(raised.value)


def test_functions_and_settings_are_listed(db):
    assert {"upper", "sum"} <= values(db.execute("SELECT * FROM cenote_catalog.functions").fetchall())
    assert db.execute("SELECT * FROM cenote_catalog.settings").fetchall()


def test_information_schema_and_pg_catalog_know_the_objects(db, shop):
    columns = db.execute("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = %s ORDER BY ordinal_position", (f"{shop}_o",)).fetchall()
    assert columns == [("id", "integer"), ("usr", "text"), ("n", "bigint")]
    kinds = dict(db.execute("SELECT relname, relkind FROM pg_catalog.pg_class WHERE relname LIKE %s", (f"{shop}%",)).fetchall())
    assert kinds[f"{shop}_o"] in ("r", b"r") and kinds[f"{shop}_c"] in ("m", b"m")


def test_drop_refuses_what_others_use_and_cascade_takes_them(db, shop):
    for sql in (f"DROP TABLE {shop}_o", f"DROP MATERIALIZED VIEW {shop}_c"):
        with pytest.raises(psycopg.errors.DependentObjectsStillExist):
            db.execute(sql)
    db.execute(f"DROP TABLE {shop}_o CASCADE")
    assert not {f"{shop}_o", f"{shop}_c", f"{shop}_top"} & values(db.execute("SHOW TABLES").fetchall() + db.execute("SHOW MATERIALIZED VIEWS").fetchall())
    db.execute(f"DROP TABLE IF EXISTS {shop}_o")


def test_dropped_views_leave_no_state(db, shop):
    db.execute(f"DROP MATERIALIZED VIEW {shop}_top")
    assert f"{shop}_top" not in column(db.execute("SELECT * FROM cenote_catalog.state_tables").fetchall())


@pytest.mark.parametrize("query, named", [
    ("SELECT id, rank() OVER (ORDER BY id) AS r FROM {t}", "window"),
    ("SELECT id, sum(n) OVER (PARTITION BY n) AS r FROM {t}", "window"),
    ("SELECT unnest(ARRAY[id, n]) AS u FROM {t}", "unnest"),
    ("SELECT median(n) AS m FROM {t}", "median"),
    ("SELECT id, x FROM {t}, generate_series(1, 3) AS s(x)", "generate_series"),
    ("WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r WHERE x < 5) SELECT x FROM r", "recursive"),
    ("SELECT id, now() AS at FROM {t}", "now"),
    ("SELECT id, random() AS r FROM {t}", "random"),
])
def test_what_views_cannot_do_yet_is_refused_by_name(db, name, query, named):
    """Refused with a text that names it, never a wrong view; what gets built moves to the test below."""
    db.execute(f"CREATE TABLE {name} (id BIGINT, n BIGINT)")
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS {query.format(t=name)}")
    assert raised.value.sqlstate == "0A000"
    assert "materialized view" in str(raised.value) and named in str(raised.value).lower()


@pytest.mark.parametrize("query", [
    "SELECT id, row_number() OVER (ORDER BY id) AS r FROM {t}", "SELECT id, row_number() OVER (PARTITION BY n ORDER BY id) AS r FROM {t}",
    "SELECT a.id, b.n FROM {t} a FULL JOIN {t} b ON a.id = b.n", "SELECT a.id, b.n FROM {t} a FULL JOIN {t} b ON a.id < b.n",
    "SELECT a.id FROM {t} a, {t} b WHERE a.id < b.n", "SELECT id FROM {t} WHERE n IN (SELECT n FROM {t})",
    "SELECT id FROM {t} a WHERE EXISTS (SELECT 1 FROM {t} b WHERE b.n > a.n)",
    "SELECT n FROM {t} EXCEPT SELECT id FROM {t}", "SELECT n FROM {t} INTERSECT ALL SELECT id FROM {t}", "SELECT count(DISTINCT n) FROM {t}",
])
def test_what_views_can_do_agrees_with_the_query(db, name, query):
    query = query.format(t=name)
    db.execute(f"CREATE TABLE {name} (id BIGINT, n BIGINT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS {query}")
    for change in (f"INSERT INTO {name} VALUES (1, 2), (2, 2), (3, 1), (4, NULL), (NULL, 5)", f"UPDATE {name} SET n = 3 WHERE id = 3",
                   f"DELETE FROM {name} WHERE n = 2"):
        db.execute(change)
        assert sorted(map(str, db.execute(f"SELECT * FROM {name}_v"))) == sorted(map(str, db.execute(query)))


@pytest.mark.parametrize("sql", [
    "CREATE TABLE {t} (id INT, WATERMARK FOR id AS id - 1)", "CREATE TABLE {t} (id INT REFERENCES other (id))",
    "CREATE TABLE {t} (id INT UNIQUE DEFERRABLE)", "CREATE TABLE {t} (id INT GENERATED ALWAYS AS IDENTITY)",
    "CREATE TEMPORARY TABLE {t} (id INT)", "CREATE UNLOGGED TABLE {t} (id INT)", "CREATE TABLE {t} (id INT) PARTITION BY RANGE (id)",
    "CREATE SINK {t} INTO x AS SELECT 1", "SELECT 1 FOR UPDATE", "SELECT 1 INTO {t}",
    "SELECT x FROM generate_series(1, 3) s(x) FETCH FIRST 1 ROW WITH TIES", "COPY (SELECT 1) TO '/tmp/x'",
    "SELECT * FROM cenote_catalog.views TABLESAMPLE BERNOULLI (10)", "SELECT * FROM generate_series(1, 3) WITH ORDINALITY AS s(x, n)",
    "CREATE MATERIALIZED VIEW {t} AS SELECT 1 AS x WITH NO DATA",
])
def test_a_clause_that_is_not_honoured_is_refused(db, name, sql):
    """Refused by name, never ignored; a clause that gets built leaves this list."""
    with pytest.raises(psycopg.Error) as raised:
        db.execute(sql.format(t=name))
    assert raised.value.sqlstate in ("0A000", "42601", "42P01", "42501")
    assert "panic" not in str(raised.value)


def test_an_unknown_with_key_is_refused_with_the_nearest(db, name):
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"CREATE TABLE {name} (id INT) WITH (connector = 'file', format = 'json', pth = 'x.ndjson')")
    said = str(raised.value) + str(raised.value.diag.message_hint) + str(raised.value.diag.message_detail)
    assert "pth" in said and "path" in said
