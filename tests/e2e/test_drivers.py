"""psycopg 3 and asyncpg: parameters, transactions, prepared statements, cursors, COPY, and SQLSTATEs."""
import asyncio
import datetime
import threading
from decimal import Decimal

import asyncpg
import psycopg
import pytest


def test_parameters_keep_their_types(db, name):
    db.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, w TEXT, d NUMERIC(38,9), at TIMESTAMPTZ, b BYTEA, x DOUBLE PRECISION, ok BOOLEAN)")
    row = (2**53 + 1, "it's", Decimal("12345678901234567890123456789.123456789"),
           datetime.datetime(2024, 2, 29, 23, 59, 59, 999999, datetime.timezone.utc), b"\x00\xff'", 0.1, True)
    db.execute(f"INSERT INTO {name} VALUES (%s, %s, %s, %s, %s, %s, %s)", row)
    assert db.execute(f"SELECT * FROM {name} WHERE id = %s", (2**53 + 1,)).fetchone() == row
    with db.cursor(binary=True) as cursor:
        assert cursor.execute(f"SELECT * FROM {name} WHERE w = %s AND x < %s", ("it's", 1.0)).fetchone() == row


def test_null_parameters_are_null(db, name):
    db.execute(f"CREATE TABLE {name} (id INT, w TEXT)")
    db.execute(f"INSERT INTO {name} VALUES (%s, %s)", (1, None))
    assert db.execute(f"SELECT w FROM {name} WHERE id = %s", (1,)).fetchone() == (None,)


def test_a_prepared_statement_runs_many_times(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, w TEXT)")
    for i in range(20):
        db.execute(f"INSERT INTO {name} VALUES (%s, %s)", (i, f"w{i}"), prepare=True)
    for i in range(20):
        assert db.execute(f"SELECT w FROM {name} WHERE id = %s", (i,), prepare=True).fetchone() == (f"w{i}",)


def test_executemany_pipelines(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    with db.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {name} VALUES (%s)", [(i,) for i in range(100)])
    assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (100,)


def test_a_transaction_is_one_epoch_and_rolls_back_whole(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    with pytest.raises(ZeroDivisionError), server.connect(autocommit=False) as other, other.transaction():
        other.execute(f"INSERT INTO {name} VALUES (1)")
        raise ZeroDivisionError
    assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)
    before = db.execute("SELECT cenote_epoch()").fetchone()[0]
    with db.transaction():
        db.execute(f"INSERT INTO {name} VALUES (1)")
        db.execute(f"INSERT INTO {name} VALUES (2)")
    changes = [c for event in _first_events(server, name, before, 2) for c in event]
    assert len({epoch for epoch, _, _ in changes}) == 1
    assert len(changes) == 2


def _first_events(server, name, from_epoch, count):
    from harness.http import changes_of
    found = []
    for event in server.events(name, f"?from_epoch={from_epoch}"):
        if changes := changes_of(event):
            found.append(changes)
        if sum(map(len, found)) >= count:
            return found


def test_a_transaction_reads_its_own_writes_and_others_do_not(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT sum(n) AS s FROM {name}")
    with server.connect() as other:
        db.execute("BEGIN")
        db.execute(f"INSERT INTO {name} VALUES (1, 5)")
        assert db.execute(f"SELECT n FROM {name} WHERE id = 1").fetchone() == (5,)
        assert other.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)
        db.execute("COMMIT")
        assert other.execute(f"SELECT s FROM {name}_v").fetchone() == (5,)


def test_a_commit_is_visible_to_its_session_at_once(db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT count(*) AS n, sum(n) AS s FROM {name}")
    for i in range(1, 101):
        db.execute(f"INSERT INTO {name} VALUES ({i})")
        assert db.execute(f"SELECT n, s FROM {name}_v").fetchone() == (i, i * (i + 1) // 2)


def test_after_an_error_only_rollback_is_taken(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    db.execute("BEGIN")
    db.execute(f"INSERT INTO {name} VALUES (1)")
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.execute("SELECT * FROM no_such_table_anywhere")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        db.execute("SELECT 1")
    db.execute("ROLLBACK")
    assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)


@pytest.mark.parametrize("sql, error", [
    ("SELECT * FROM no_such_table_anywhere", psycopg.errors.UndefinedTable),
    ("SELECT no_such_column FROM {t}", psycopg.errors.UndefinedColumn),
    ("SELECT no_such_function(1)", psycopg.errors.UndefinedFunction),
    ("SELEC 1", psycopg.errors.SyntaxError),
    ("SELECT 1 / 0", psycopg.errors.DivisionByZero),
    ("SELECT 'x'::int", psycopg.errors.InvalidTextRepresentation),
    ("SELECT 9223372036854775807 + 1", psycopg.errors.NumericValueOutOfRange),
    ("INSERT INTO {t} VALUES (1, 'again')", psycopg.errors.UniqueViolation),
    ("INSERT INTO {t} VALUES (NULL, 'x')", psycopg.errors.NotNullViolation),
    ("INSERT INTO {t} VALUES (2, NULL)", psycopg.errors.NotNullViolation),
    ("CREATE TABLE {t} (id INT)", psycopg.errors.DuplicateTable),
    ("CREATE MATERIALIZED VIEW {t} AS SELECT 1 AS x", psycopg.errors.DuplicateTable),
    ("DROP TABLE no_such_table_anywhere", psycopg.errors.UndefinedTable),
    ("DROP TABLE {t}", psycopg.errors.DependentObjectsStillExist),
    ("SELECT w, count(*) FROM {t}", psycopg.errors.GroupingError),
])
def test_errors_have_postgresql_sqlstates(db, name, sql, error):
    db.execute(f"CREATE TABLE IF NOT EXISTS {name} (id INT PRIMARY KEY, w TEXT NOT NULL)")
    db.execute(f"INSERT INTO {name} VALUES (1, 'one')")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT w FROM {name}")
    with pytest.raises(error) as raised:
        db.execute(sql.format(t=name))
    assert raised.value.sqlstate == error.sqlstate
    assert db.execute(f"SELECT count(*) FROM {name}_v").fetchone() == (1,)


def test_conflicting_writers_of_one_row_never_lose_an_update(server, name):
    """Two sessions add to one counter; each failed one is told to run again (40001) and does."""
    with server.connect() as db:
        db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)")
        db.execute(f"INSERT INTO {name} VALUES (1, 0)")

    def add():
        with server.connect() as connection:
            for _ in range(50):
                while True:
                    try:
                        connection.execute(f"UPDATE {name} SET n = n + 1 WHERE id = 1")
                        break
                    except psycopg.errors.SerializationFailure:
                        continue

    threads = [threading.Thread(target=add) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.sql(f"SELECT n FROM {name}") == [(100,)]


def test_copy_in_from_psycopg(db, name):
    db.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, w TEXT)")
    with db.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
        for i in range(5000):
            copy.write_row((i, None if i % 7 == 0 else f"w{i}"))
    assert db.execute(f"SELECT count(*), count(w), sum(id) FROM {name}").fetchone() == (5000, 4285, 12497500)


def test_column_names_are_postgresqls(db):
    cursor = db.execute("SELECT count(*), sum(x), 1 + 1, upper('a'), x AS \"Mixed\", CAST(1 AS TEXT) FROM generate_series(1, 1) AS s(x) GROUP BY x")
    assert [c.name for c in cursor.description] == ["count", "sum", "?column?", "upper", "Mixed", "text"]


def test_settings_are_set_and_shown(db):
    db.execute("SET application_name = 'judge'")
    assert db.execute("SHOW application_name").fetchone() == ("judge",)
    with pytest.raises(psycopg.Error) as raised:
        db.execute("SET no_such_setting_at_all = 1")
    assert raised.value.sqlstate == "42704"


def test_asyncpg_talks_parameters_transactions_and_types(server, name):
    host, port = server.doors["pg"]

    async def talk():
        connection = await asyncpg.connect(host=host, port=port, user="cenote", database="cenote", timeout=10)
        try:
            await connection.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, d NUMERIC(18,2), at TIMESTAMP, b BYTEA)")
            at = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456)
            await connection.execute(f"INSERT INTO {name} VALUES ($1, $2, $3, $4)", 2**60, Decimal("1.50"), at, b"\x00\x01")
            row = await connection.fetchrow(f"SELECT * FROM {name} WHERE id = $1", 2**60)
            assert tuple(row) == (2**60, Decimal("1.50"), at, b"\x00\x01")
            async with connection.transaction():
                await connection.execute(f"DELETE FROM {name}")
            assert await connection.fetchval(f"SELECT count(*) FROM {name}") == 0
            with pytest.raises(asyncpg.exceptions.UndefinedTableError):
                await connection.fetch("SELECT * FROM no_such_table_anywhere")
        finally:
            await connection.close()

    asyncio.run(talk())


def test_asyncpg_finds_out_about_types_and_settings(server, name):
    """What asyncpg asks of pg_catalog for an array it does not know, and how its pool resets a connection."""
    host, port = server.doors["pg"]

    async def talk():
        pool = await asyncpg.create_pool(host=host, port=port, user="cenote", database="cenote", min_size=1, max_size=1)
        try:
            async with pool.acquire() as connection:
                await connection.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY)")
                assert await connection.fetchval("SELECT ARRAY[1, 2]") == [1, 2]
                assert await connection.fetchval("SELECT relkind FROM pg_class WHERE relname = $1", name) == b"r"
                assert await connection.fetchval(f"SELECT '{name}'::regclass") == name
            async with pool.acquire() as connection:
                assert await connection.fetchval("SELECT current_database()") == "cenote"
        finally:
            await pool.close()

    asyncio.run(talk())


def test_psycopg_finds_types_by_name(db):
    found = psycopg.types.TypeInfo.fetch(db, "int4")
    assert (found.oid, found.array_oid) == (23, 1007)
    assert psycopg.types.TypeInfo.fetch(db, "no_such_type") is None


def test_a_name_that_means_nothing_is_no_regclass(db):
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.execute("SELECT 'no_such_table_anywhere'::regclass")


def test_a_running_query_can_be_cancelled(server):
    with server.connect() as connection:
        threading.Timer(0.3, connection.cancel_safe).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT count(*) FROM generate_series(1, 100000) a(x), generate_series(1, 100000) b(y) WHERE x + y = 3")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_many_connections_come_and_go(server):
    before = server.threads()
    for _ in range(200):
        with server.connect() as connection:
            connection.execute("SELECT 1")
    assert server.threads() <= before + 4


@pytest.mark.parametrize("text", ["", ";", "-- only a comment", " ;; "])
def test_an_empty_query_is_no_error(db, text):
    db.execute(text)
    assert db.execute("SELECT 1").fetchone() == (1,)
