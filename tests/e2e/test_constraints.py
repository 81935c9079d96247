"""What a table promises (UNIQUE, CHECK), what INSERT does about it (ON CONFLICT), and what a change tells (RETURNING).

PostgreSQL's documentation and error texts are the judge: chapters CREATE TABLE, INSERT, UPDATE and appendix A.
"""
import asyncio
import concurrent.futures
import datetime
import threading
from decimal import Decimal

import asyncpg
import psycopg
import pytest

NDJSON = {"Content-Type": "application/x-ndjson"}


def error_of(db, sql, params=None):
    """The error that a statement must end with."""
    with pytest.raises(psycopg.Error) as raised:
        db.execute(sql, params)
    return raised.value


def rows(db, sql, params=None):
    return db.execute(sql, params).fetchall()


def append(server, table, body):
    return server.post(f"/api/v1/tables/{table}/rows", body, headers=NDJSON)


def copy(db, table, text):
    with db.cursor().copy(f"COPY {table} FROM STDIN") as stream:
        stream.write(text)


# ---- UNIQUE ---------------------------------------------------------------------------------------------------


def test_a_second_row_of_a_unique_value_is_refused_with_the_words_of_postgresql(db, name):
    db.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, mail TEXT UNIQUE, a INT, b INT, UNIQUE (a, b))")
    db.execute(f"INSERT INTO {name} VALUES (1, 'x', 1, 1)")
    error = error_of(db, f"INSERT INTO {name} VALUES (2, 'x', 1, 2)")
    assert error.sqlstate == "23505"
    assert error.diag.message_primary == f'duplicate key value violates unique constraint "{name}_mail_key"'
    assert error.diag.message_detail == "Key (mail)=(x) already exists."
    assert (error.diag.constraint_name, error.diag.table_name, error.diag.schema_name) == (f"{name}_mail_key", name, "public")
    error = error_of(db, f"INSERT INTO {name} VALUES (2, 'y', 1, 1)")
    assert error.diag.message_primary == f'duplicate key value violates unique constraint "{name}_a_b_key"'
    assert error.diag.message_detail == "Key (a, b)=(1, 1) already exists."
    error = error_of(db, f"INSERT INTO {name} VALUES (1, 'y', 3, 3)")
    assert error.diag.message_primary == f'duplicate key value violates unique constraint "{name}_pkey"'
    assert error.diag.message_detail == "Key (id)=(1) already exists."
    assert rows(db, f"SELECT count(*) FROM {name}") == [(1,)]


def test_nulls_are_distinct(db, name):
    db.execute(f"CREATE TABLE {name} (a INT, b INT, UNIQUE (a, b))")
    db.execute(f"INSERT INTO {name} VALUES (1, NULL), (1, NULL), (NULL, NULL), (NULL, NULL), (1, 1)")
    assert error_of(db, f"INSERT INTO {name} VALUES (1, 1)").sqlstate == "23505"
    assert rows(db, f"SELECT count(*) FROM {name}") == [(5,)]


def test_within_one_statement_and_in_a_block(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, u INT UNIQUE)")
    assert error_of(db, f"INSERT INTO {name} VALUES (1, 7), (2, 7)").sqlstate == "23505"
    db.execute("BEGIN")
    db.execute(f"INSERT INTO {name} VALUES (1, 7)")
    assert error_of(db, f"INSERT INTO {name} VALUES (2, 7)").sqlstate == "23505"
    db.execute("ROLLBACK")
    db.execute("BEGIN")
    db.execute(f"INSERT INTO {name} VALUES (1, 7)")
    db.execute(f"DELETE FROM {name} WHERE id = 1")
    db.execute(f"INSERT INTO {name} VALUES (2, 7)")
    db.execute("COMMIT")
    assert rows(db, f"SELECT * FROM {name}") == [(2, 7)]


def test_update_and_delete_free_a_value(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, u TEXT UNIQUE)")
    db.execute(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    error = error_of(db, f"UPDATE {name} SET u = 'a' WHERE id = 2")
    assert (error.sqlstate, error.diag.message_detail) == ("23505", "Key (u)=(a) already exists.")
    db.execute(f"UPDATE {name} SET u = 'c' WHERE id = 1")
    db.execute(f"UPDATE {name} SET u = 'a' WHERE id = 2")
    db.execute(f"DELETE FROM {name} WHERE id = 2")
    db.execute(f"INSERT INTO {name} VALUES (3, 'a')")
    assert error_of(db, f"INSERT INTO {name} VALUES (4, 'c')").sqlstate == "23505"
    db.execute(f"TRUNCATE {name}")
    db.execute(f"INSERT INTO {name} VALUES (4, 'c'), (5, 'a')")
    assert rows(db, f"SELECT * FROM {name} ORDER BY id") == [(4, "c"), (5, "a")]


def test_unique_without_a_primary_key(db, name):
    db.execute(f"CREATE TABLE {name} (u INT UNIQUE, w TEXT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    assert error_of(db, f"INSERT INTO {name} VALUES (2, 'c')").sqlstate == "23505"
    db.execute(f"UPDATE {name} SET w = 'z'")
    db.execute(f"DELETE FROM {name} WHERE u = 2")
    db.execute(f"INSERT INTO {name} VALUES (2, 'c')")
    assert rows(db, f"SELECT * FROM {name} ORDER BY u") == [(1, "z"), (2, "c")]


def test_copy_append_and_insert_from_a_query_are_checked_too(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, u INT UNIQUE)")
    db.execute(f"INSERT INTO {name} VALUES (1, 1)")
    with pytest.raises(psycopg.errors.UniqueViolation) as raised:
        copy(db, name, "2\t2\n3\t1\n")
    assert raised.value.diag.message_detail == "Key (u)=(1) already exists."
    with pytest.raises(psycopg.errors.UniqueViolation):
        copy(db, name, "2\t2\n3\t2\n")
    assert append(server, name, '{"id":2,"u":2}\n{"id":3,"u":1}\n').json()["error"]["sqlstate"] == "23505"
    assert error_of(db, f"INSERT INTO {name} SELECT x, x % 3 FROM generate_series(2, 9) AS s(x)").sqlstate == "23505"
    assert rows(db, f"SELECT * FROM {name}") == [(1, 1)]
    copy(db, name, "2\t2\n3\t\\N\n4\t\\N\n")
    assert append(server, name, '{"id":5,"u":5}\n{"id":6}\n').status == 200
    assert rows(db, f"SELECT u FROM {name} ORDER BY id") == [(1,), (2,), (None,), (None,), (5,), (None,)]


def test_of_concurrent_commits_one_has_the_value(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, u INT UNIQUE)")

    def insert(number):
        won = 0
        with server.connect() as mine:
            for u in range(40):
                try:
                    mine.execute(f"INSERT INTO {name} VALUES (%s, %s)", (number * 100 + u, u))
                    won += 1
                except psycopg.errors.UniqueViolation:
                    pass
        return won

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(insert, range(8))) == 40
    assert rows(db, f"SELECT count(*), count(DISTINCT u) FROM {name}") == [(40, 40)]


def test_a_block_that_lost_a_value_meanwhile_is_refused_at_its_commit(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, u INT UNIQUE)")
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute(f"INSERT INTO {name} VALUES (1, 7)")
        db.execute(f"INSERT INTO {name} VALUES (2, 7)")
        error = error_of(other, "COMMIT")
    assert (error.sqlstate, error.diag.message_detail) == ("23505", "Key (u)=(7) already exists.")
    assert rows(db, f"SELECT * FROM {name}") == [(2, 7)]


@pytest.mark.parametrize("gently", [True, False])
def test_constraints_survive_a_restart(fresh, gently):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE t (id INT CONSTRAINT k PRIMARY KEY, u INT CONSTRAINT one UNIQUE, n INT CHECK (n > 0))")
        db.execute("INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
        db.execute("UPDATE t SET u = 3 WHERE id = 2")
    server.restart(gently=gently)
    with server.connect() as db:
        assert error_of(db, "INSERT INTO t VALUES (1, 9, 9)").diag.constraint_name == "k"
        assert error_of(db, "INSERT INTO t VALUES (3, 3, 3)").diag.constraint_name == "one"
        assert error_of(db, "INSERT INTO t VALUES (3, 4, -3)").diag.constraint_name == "t_n_check"
        db.execute("INSERT INTO t VALUES (3, 2, 3)")
        assert rows(db, "SELECT * FROM t ORDER BY id") == [(1, 1, 1), (2, 3, 2), (3, 2, 3)]


@pytest.mark.parametrize("kind, values", [
    ("TEXT", ["'a'", "'A'", "''"]), ("BYTEA", [r"'\x00'", r"'\x0000'"]), ("NUMERIC(38,9)", ["1", "1.000000001"]),
    ("TIMESTAMPTZ", ["'2024-01-01 00:00:00+00'", "'2024-01-01 00:00:00+01'"]), ("DOUBLE PRECISION", ["0.1", "'NaN'", "'-Infinity'"]),
    ("BOOLEAN", ["true", "false"]), ("DATE", ["'2024-02-29'", "'2024-03-01'"]), ("SMALLINT", ["-1", "1"]),
])
def test_values_of_every_type_can_be_unique(db, name, kind, values):
    db.execute(f"CREATE TABLE {name} (u {kind} UNIQUE)")
    for value in values:
        db.execute(f"INSERT INTO {name} VALUES ({value})")
    for value in values:
        assert error_of(db, f"INSERT INTO {name} VALUES ({value})").sqlstate == "23505"
    assert rows(db, f"SELECT count(*) FROM {name}") == [(len(values),)]


# ---- CHECK ----------------------------------------------------------------------------------------------------


def test_a_row_that_a_check_is_false_for_is_refused_with_the_words_of_postgresql(db, name):
    db.execute(f"""CREATE TABLE {name} (id INT, price NUMERIC(9,2) CHECK (price > 0), low INT, high INT,
                   CONSTRAINT ordered CHECK (low <= high), CHECK (id <> 13))""")
    db.execute(f"INSERT INTO {name} VALUES (1, 9.99, 1, 2), (2, NULL, NULL, 5)")
    error = error_of(db, f"INSERT INTO {name} VALUES (3, 1, 1, 1), (4, 0, 1, NULL)")
    assert error.sqlstate == "23514"
    assert error.diag.message_primary == f'new row for relation "{name}" violates check constraint "{name}_price_check"'
    assert error.diag.message_detail == "Failing row contains (4, 0.00, 1, null)."
    assert (error.diag.constraint_name, error.diag.table_name) == (f"{name}_price_check", name)
    assert error_of(db, f"INSERT INTO {name} VALUES (5, 1, 3, 2)").diag.constraint_name == "ordered"
    assert error_of(db, f"INSERT INTO {name} VALUES (13, 1, 1, 2)").diag.constraint_name == f"{name}_id_check"
    error = error_of(db, f"UPDATE {name} SET low = 9 WHERE id = 1")
    assert (error.sqlstate, error.diag.message_detail) == ("23514", "Failing row contains (1, 9.99, 9, 2).")
    assert rows(db, f"SELECT id, low FROM {name} ORDER BY id") == [(1, 1), (2, None)]


def test_checks_hold_for_copy_and_append_and_defaults(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT DEFAULT 0 CHECK (n >= 0), w TEXT CHECK (length(w) < 4 AND w <> lower('NO')))")
    with pytest.raises(psycopg.errors.CheckViolation) as raised:
        copy(db, name, "1\t1\ta\n2\t-1\tb\n")
    assert raised.value.diag.message_detail == "Failing row contains (2, -1, b)."
    error = append(server, name, '{"id":1,"w":"fine"}\n').json()["error"]
    assert (error["sqlstate"], error["detail"]) == ("23514", "Failing row contains (1, 0, fine).")
    assert append(server, name, '{"id":1,"w":"ok"}\n').status == 200
    assert error_of(db, f"INSERT INTO {name} VALUES (2, 2, 'no')").sqlstate == "23514"
    db.execute("BEGIN")
    with pytest.raises(psycopg.errors.CheckViolation):
        copy(db, name, "3\t-1\ta\n")
    db.execute("ROLLBACK")
    assert rows(db, f"SELECT * FROM {name}") == [(1, 0, "ok")]


@pytest.mark.parametrize("check, ok, bad", [
    ("a IN (1, 2, 3)", 3, 4), ("a BETWEEN 1 AND 3 OR a = 9", 9, 5), ("coalesce(a, 0) <> 0", 1, None), ("a IS NOT NULL", 1, None),
    ("CASE WHEN a > 5 THEN a % 2 = 0 ELSE true END", 8, 7), ("a::text ~ '^[0-9]+$'", 12, -1), ("{t}.a > 0", 1, 0),
    ("a * 2 + 1 > 2.5", 1, 0), ("nullif(a, 1) IS NULL", 1, 2),
])
def test_conditions_of_many_kinds(db, name, check, ok, bad):
    db.execute(f"CREATE TABLE {name} (a INT, CHECK ({check.format(t=name)}))")
    db.execute(f"INSERT INTO {name} VALUES (%s)", (ok,))
    assert error_of(db, f"INSERT INTO {name} VALUES (%s)", (bad,)).sqlstate == "23514"


@pytest.mark.parametrize("items, sqlstate", [
    ("a INT CHECK (b > 0)", "42703"), ("a INT CHECK (a + 1)", "42804"), ("a INT CHECK (a > (SELECT 1))", "0A000"),
    ("a INT CHECK (sum(a) > 1)", "42803"), ("a TIMESTAMPTZ CHECK (a > now())", "0A000"), ("a INT, UNIQUE (b)", "42703"),
    ("a INT PRIMARY KEY, b INT PRIMARY KEY", "42P16"), ("a INT UNIQUE DEFERRABLE INITIALLY DEFERRED", "0A000"),
    ("a INT, UNIQUE NULLS NOT DISTINCT (a)", "0A000"), ("a INT, CONSTRAINT c CHECK (a > 0), CONSTRAINT c CHECK (a > 1)", "42710"),
    ("a INT REFERENCES x (y)", "0A000"), ("a INT, EXCLUDE (a WITH =)", None), ("a INT, UNIQUE (a, a)", "42701"),
])
def test_constraints_that_cannot_be_are_refused(db, name, items, sqlstate):
    assert error_of(db, f"CREATE TABLE {name} ({items})").sqlstate in (sqlstate, "42601" if sqlstate is None else sqlstate)
    assert error_of(db, f"SELECT * FROM {name}").sqlstate == "42P01"


def test_a_name_of_a_key_is_taken_once(db, name):
    db.execute(f"CREATE TABLE {name} (a INT, CONSTRAINT {name}_k UNIQUE (a))")
    assert error_of(db, f"CREATE TABLE {name}_2 (a INT, CONSTRAINT {name}_k UNIQUE (a))").sqlstate == "42P07"
    db.execute(f"CREATE TABLE IF NOT EXISTS {name} (a INT, CONSTRAINT {name}_k UNIQUE (a))")


@pytest.mark.parametrize("items", ["id INT UNIQUE", "id INT CHECK (id > 0)"])
def test_a_connector_does_not_promise_what_nobody_checks(db, name, items):
    error = error_of(db, f"CREATE TABLE {name} ({items}) WITH (connector = 'file', path = 'x.ndjson', format = 'json')")
    assert error.sqlstate == "0A000"


# ---- ON CONFLICT ----------------------------------------------------------------------------------------------


def test_do_update_inserts_or_updates(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 1, w TEXT)")
    done = db.execute(f"INSERT INTO {name} VALUES (1, 1, 'a'), (2, 2, 'b') ON CONFLICT (id) DO UPDATE SET n = 0")
    assert done.statusmessage == "INSERT 0 2"
    done = db.execute(f"""INSERT INTO {name} AS t VALUES (2, 5, 'x'), (3, 7, 'y')
                          ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n, w = t.w || excluded.w""")
    assert done.statusmessage == "INSERT 0 2"
    assert rows(db, f"SELECT * FROM {name} ORDER BY id") == [(1, 1, "a"), (2, 7, "bx"), (3, 7, "y")]
    db.execute(f"INSERT INTO {name} VALUES (1, 9, 'q') ON CONFLICT (id) DO UPDATE SET (n, w) = (excluded.n, DEFAULT)")
    assert rows(db, f"SELECT * FROM {name} WHERE id = 1") == [(1, 9, None)]


def test_where_leaves_rows_alone(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 1), (2, 20), (3, NULL)")
    sql = f"""INSERT INTO {name} VALUES (1, 10), (2, 10), (3, 10), (4, 10)
              ON CONFLICT (id) DO UPDATE SET n = excluded.n WHERE {name}.n < excluded.n RETURNING id, n"""
    done = db.execute(sql)
    assert (done.fetchall(), done.statusmessage) == ([(1, 10), (4, 10)], "INSERT 0 2")
    assert rows(db, f"SELECT n FROM {name} ORDER BY id") == [(10,), (20,), (None,), (10,)]


def test_a_row_proposed_twice_is_an_error_of_its_own(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)")
    error = error_of(db, f"INSERT INTO {name} VALUES (1, 1), (1, 2) ON CONFLICT (id) DO UPDATE SET n = excluded.n")
    assert error.sqlstate == "21000"
    assert error.diag.message_primary == "ON CONFLICT DO UPDATE command cannot affect row a second time"
    assert error.diag.message_hint.startswith("Ensure that no rows proposed for insertion within the same command")
    db.execute(f"INSERT INTO {name} VALUES (1, 1), (1, 2) ON CONFLICT (id) DO NOTHING")
    assert rows(db, f"SELECT * FROM {name}") == [(1, 1)]


def test_the_target_says_which_key_is_meant(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, u TEXT CONSTRAINT {name}_u UNIQUE, a INT, b INT, UNIQUE (a, b))")
    db.execute(f"INSERT INTO {name} VALUES (1, 'x', 1, 1)")
    assert db.execute(f"INSERT INTO {name} VALUES (1, 'y'), (2, 'x'), (3, 'z') ON CONFLICT DO NOTHING").statusmessage == "INSERT 0 1"
    assert error_of(db, f"INSERT INTO {name} VALUES (2, 'x') ON CONFLICT (id) DO NOTHING").diag.constraint_name == f"{name}_u"
    db.execute(f"INSERT INTO {name} VALUES (9, 'x', 5, 5) ON CONFLICT (u) DO UPDATE SET a = excluded.a")
    db.execute(f"INSERT INTO {name} VALUES (9, 'x', 5, 5) ON CONFLICT ON CONSTRAINT {name}_u DO UPDATE SET b = 8")
    db.execute(f"INSERT INTO {name} VALUES (9, 'w', 5, 8) ON CONFLICT (b, a) DO UPDATE SET u = excluded.u")
    assert rows(db, f"SELECT * FROM {name} ORDER BY id") == [(1, "w", 5, 8), (3, "z", None, None)]
    error = error_of(db, f"INSERT INTO {name} VALUES (9, 'z', 0, 0) ON CONFLICT (id) DO UPDATE SET a = 0")
    assert error.diag.constraint_name == f"{name}_u"
    error = error_of(db, f"INSERT INTO {name} VALUES (1, 'q', 0, 0) ON CONFLICT (id) DO UPDATE SET u = 'z'")
    assert error.diag.constraint_name == f"{name}_u"
    for target, sqlstate in (("(a)", "42P10"), ("(nobody)", "42703"), ("ON CONSTRAINT nobody", "42704"), ("", "42601")):
        assert error_of(db, f"INSERT INTO {name} VALUES (1) ON CONFLICT {target} DO UPDATE SET a = 1").sqlstate == sqlstate, target
    assert error_of(db, f"INSERT INTO {name} VALUES (1) ON CONFLICT (id) DO UPDATE SET a = a + 1").sqlstate == "42702"
    assert error_of(db, f"INSERT INTO {name} VALUES (1) ON CONFLICT (id) DO UPDATE SET nobody = 1").sqlstate == "42703"


def test_a_null_of_a_unique_column_conflicts_with_nothing(db, name):
    db.execute(f"CREATE TABLE {name} (u INT UNIQUE, n INT)")
    for _ in range(2):
        db.execute(f"INSERT INTO {name} VALUES (NULL, 1), (1, 1) ON CONFLICT (u) DO UPDATE SET n = {name}.n + 1")
    assert sorted(map(str, rows(db, f"SELECT * FROM {name}"))) == ["(1, 2)", "(None, 1)", "(None, 1)"]


def test_constraints_are_checked_of_what_is_proposed_and_of_what_is_updated(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT NOT NULL CHECK (n < 10))")
    db.execute(f"INSERT INTO {name} VALUES (1, 5)")
    upsert = f"INSERT INTO {name} VALUES (1, %s) ON CONFLICT (id) DO UPDATE SET n = {name}.n + excluded.n"
    assert error_of(db, upsert, (10,)).sqlstate == "23514"
    assert error_of(db, upsert, (None,)).sqlstate == "23502"
    assert error_of(db, upsert, (5,)).diag.message_detail == "Failing row contains (1, 10)."
    db.execute(upsert, (4,))
    assert rows(db, f"SELECT * FROM {name}") == [(1, 9)]


def test_upserts_from_a_query_and_in_a_block(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n BIGINT)")
    db.execute(f"INSERT INTO {name} SELECT x, 1 FROM generate_series(1, 20000, 2) AS s(x)")
    db.execute(f"""INSERT INTO {name} SELECT x, 10 FROM generate_series(1, 20000) AS s(x)
                   ON CONFLICT (id) DO UPDATE SET n = {name}.n + excluded.n""")
    assert rows(db, f"SELECT count(*), sum(n) FROM {name}") == [(20000, 10000 * 11 + 10000 * 10)]
    db.execute("BEGIN")
    db.execute(f"INSERT INTO {name} VALUES (0, 1) ON CONFLICT (id) DO UPDATE SET n = -1")
    db.execute(f"INSERT INTO {name} VALUES (0, 1) ON CONFLICT (id) DO UPDATE SET n = {name}.n + 1")
    db.execute(f"INSERT INTO {name} VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET n = 0")
    assert server.sql(f"SELECT n FROM {name} WHERE id < 2") == [(11,)]
    db.execute("COMMIT")
    assert rows(db, f"SELECT * FROM {name} WHERE id < 2 ORDER BY id") == [(0, 2), (1, 0)]


def test_no_upsert_is_lost_under_concurrency(server, db, name):
    db.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, n INT NOT NULL)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT sum(n) AS n FROM {name}")

    def count(_):
        with server.connect() as mine:
            for i in range(30):
                mine.execute(f"INSERT INTO {name} VALUES (%s, 1) ON CONFLICT (k) DO UPDATE SET n = {name}.n + 1", (i % 2,))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert rows(db, f"SELECT * FROM {name} ORDER BY k") == [(0, 120), (1, 120)]
    assert rows(db, f"SELECT n FROM {name}_v") == [(240,)]


def test_do_nothing_tells_the_truth_under_concurrency(server, db, name):
    db.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, who INT)")

    def claim(who):
        won = []
        with server.connect() as mine:
            for k in range(40):
                sql = f"INSERT INTO {name} VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING k"
                won += [(k, who) for k, in rows(mine, sql, (k, who))]
        return won

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        claimed = [pair for part in pool.map(claim, range(6)) for pair in part]
    assert sorted(claimed) == rows(db, f"SELECT k, who FROM {name} ORDER BY k")


def test_an_upsert_in_a_block_that_lost_its_row_is_to_be_run_again(server, db, name):
    db.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, n INT)")
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute(f"INSERT INTO {name} VALUES (1, 1) ON CONFLICT (k) DO UPDATE SET n = {name}.n + 1")
        db.execute(f"INSERT INTO {name} VALUES (1, 5)")
        assert error_of(other, "COMMIT").sqlstate == "40001"
    assert rows(db, f"SELECT * FROM {name}") == [(1, 5)]


def test_a_row_kept_by_do_nothing_and_then_updated_is_not_lost(server, db, name):
    db.execute(f"CREATE TABLE {name} (k INT PRIMARY KEY, n INT)")
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute(f"INSERT INTO {name} VALUES (1, 0) ON CONFLICT DO NOTHING")
        other.execute(f"UPDATE {name} SET n = n + 1 WHERE k = 1")
        db.execute(f"INSERT INTO {name} VALUES (1, 5)")
        assert error_of(other, "COMMIT").sqlstate == "40001"
    assert rows(db, f"SELECT * FROM {name}") == [(1, 5)]


# ---- RETURNING ------------------------------------------------------------------------------------------------


def test_insert_returns_its_rows_in_their_order(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, d NUMERIC(9,2) DEFAULT 1.5, w VARCHAR(5))")
    done = db.execute(f"INSERT INTO {name} (id, w) VALUES (3, 'c'), (1, 'a'), (2, NULL) RETURNING *")
    assert [c.name for c in done.description] == ["id", "d", "w"]
    assert (done.fetchall(), done.statusmessage) == ([(3, Decimal("1.50"), "c"), (1, Decimal("1.50"), "a"), (2, Decimal("1.50"), None)], "INSERT 0 3")
    done = db.execute(f"INSERT INTO {name} AS t VALUES (4, 2, 'd') RETURNING t.id + 1 AS next, upper(w), d * 2, {name[:0]}'x' || w")
    assert [c.name for c in done.description] == ["next", "upper", "?column?", "?column?"]
    assert done.fetchall() == [(5, "D", Decimal("4.00"), "xd")]
    assert rows(db, f"INSERT INTO {name} VALUES (4) ON CONFLICT DO NOTHING RETURNING id") == []
    assert rows(db, f"INSERT INTO {name} (id) SELECT x FROM generate_series(10, 12) AS s(x) RETURNING id") == [(10,), (11,), (12,)]


def test_update_and_delete_return_new_and_old_rows(db, name):
    db.execute(f"CREATE TABLE {name} (id INT, n INT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 10), (2, 20), (3, 30)")
    done = db.execute(f"UPDATE {name} SET n = n + 1 WHERE id > 1 RETURNING id, n, (SELECT sum(n) FROM {name}) AS before")
    assert (sorted(done.fetchall()), done.statusmessage) == ([(2, 21, 60), (3, 31, 60)], "UPDATE 2")
    assert rows(db, f"UPDATE {name} AS t SET n = 0 FROM generate_series(2, 2) AS s(x) WHERE t.id = s.x RETURNING t.id, t.n") == [(2, 0)]
    done = db.execute(f"DELETE FROM {name} WHERE id <> 1 RETURNING *")
    assert (sorted(done.fetchall()), done.statusmessage) == ([(2, 0), (3, 31)], "DELETE 2")
    assert rows(db, f"DELETE FROM {name} WHERE id = 99 RETURNING id") == []
    assert rows(db, f"SELECT * FROM {name}") == [(1, 10)]


def test_what_returning_cannot_be_is_refused_and_changes_nothing(db, name):
    db.execute(f"CREATE TABLE {name} (id INT)")
    db.execute(f"INSERT INTO {name} VALUES (1)")
    for sql, sqlstate in ((f"INSERT INTO {name} VALUES (2) RETURNING nobody", "42703"), (f"INSERT INTO {name} VALUES (2) RETURNING count(*)", "42803"),
                          (f"UPDATE {name} SET id = 2 RETURNING sum(id)", "42803"), (f"DELETE FROM {name} RETURNING 1 / (id - 1)", "22012"),
                          (f"UPDATE {name} SET id = 2 FROM {name} AS o RETURNING *", "0A000")):
        assert error_of(db, sql).sqlstate == sqlstate, sql
    assert rows(db, f"SELECT * FROM {name}") == [(1,)]


def test_rows_come_once_they_are_committed(server, db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT count(*) AS n FROM {name}")
    with server.connect() as other:
        for i in range(20):
            assert rows(db, f"INSERT INTO {name} VALUES (%s) RETURNING id", (i,)) == [(i,)]
            assert rows(other, f"SELECT n FROM {name}_v") == [(i + 1,)]


@pytest.mark.parametrize("binary", [False, True])
def test_parameters_and_columns_are_described(server, name, binary):
    with server.connect() as db, db.cursor(binary=binary) as cursor:
        cursor.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, at TIMESTAMPTZ, d NUMERIC(20,5), w TEXT)")
        at = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, datetime.timezone.utc)
        cursor.execute(f"""INSERT INTO {name} VALUES (%s, %s, %s, %s) ON CONFLICT (id) DO UPDATE SET w = %s
                           RETURNING *, %s::int + 1 AS n""", (2**53 + 1, at, Decimal("1.25"), "w", "z", 41))
        assert cursor.fetchall() == [(2**53 + 1, at, Decimal("1.25000"), "w", 42)]
        assert [c.type_code for c in cursor.description] == [20, 1184, 1700, 25, 23]
        cursor.execute(f"UPDATE {name} SET w = %s WHERE id = %s RETURNING w, id", ("q", 2**53 + 1))
        assert cursor.fetchall() == [("q", 2**53 + 1)]
        cursor.execute(f"DELETE FROM {name} WHERE id = %s RETURNING w", (2**53 + 1,))
        assert cursor.fetchall() == [("q",)]


def test_asyncpg_prepares_what_returns_rows(server, db, name):
    db.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, n INT)")

    async def talk():
        host, port = server.doors["pg"]
        connection = await asyncpg.connect(host=host, port=port, user="cenote", database="cenote", timeout=10)
        try:
            sql = f"INSERT INTO {name} VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = {name}.n + $3 RETURNING id, n"
            statement = await connection.prepare(sql)
            first = await statement.fetch(1, 10, 5)
            second = await statement.fetch(1, 10, 5)
            assert [a.name for a in statement.get_attributes()] == ["id", "n"]
            return [tuple(row) for row in first + second]
        finally:
            await connection.close()

    assert asyncio.run(talk()) == [(1, 10), (1, 15)]


def test_returning_over_http(server, db, name):
    db.execute(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, w TEXT)")
    answer = server.post("/api/v1/sql", {"sql": f"INSERT INTO {name} VALUES (1, 'a') RETURNING w, id", "params": []}).json()
    assert (answer["rows"], answer["tag"]) == ([["a", 1]], "INSERT 0 1")
    assert [c["name"] for c in answer["columns"]] == ["w", "id"]
    assert answer["epoch"] >= 1
    answer = server.post("/api/v1/sql", {"sql": f"DELETE FROM {name} RETURNING *"}).json()
    assert (answer["rows"], answer["tag"]) == ([[1, "a"]], "DELETE 1")


# ---- SET of several columns, DEFAULT --------------------------------------------------------------------------


def test_set_of_several_columns(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, b TEXT DEFAULT 'd', c INT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 1, 'x', 1), (2, 2, 'y', 2)")
    db.execute(f"UPDATE {name} SET (a, b) = (a + 10, DEFAULT), c = a WHERE id = 1")
    db.execute(f"UPDATE {name} SET (a, c) = ROW(7, 8), (b) = ('z') WHERE id = 2")
    assert rows(db, f"SELECT * FROM {name} ORDER BY id") == [(1, 11, "d", 1), (2, 7, "z", 8)]
    db.execute(f"UPDATE {name} SET (a, c) = (SELECT sum(o.a), max(o.c) FROM {name} AS o) WHERE id = 1")
    assert rows(db, f"SELECT a, c FROM {name} WHERE id = 1") == [(18, 8)]
    for assignment, sqlstate in (("(a, c) = (1, 2, 3)", "42601"), ("(a, a) = (1, 2)", "42601"), ("(a, nobody) = (1, 2)", "42703"), ("(a, c) = 1", "0A000")):
        assert error_of(db, f"UPDATE {name} SET {assignment}").sqlstate == sqlstate, assignment


def test_default_in_values(db, name):
    db.execute(f"CREATE TABLE {name} (id INT DEFAULT 7, w TEXT DEFAULT 'a' || 'b', n INT, t TIMESTAMPTZ DEFAULT now())")
    db.execute(f"INSERT INTO {name} VALUES (1, DEFAULT, DEFAULT), (DEFAULT, 'x', 2)")
    db.execute(f"INSERT INTO {name} (n, w) VALUES (DEFAULT, DEFAULT)")
    assert rows(db, f"INSERT INTO {name} DEFAULT VALUES RETURNING id, w, n, t IS NOT NULL") == [(7, "ab", None, True)]
    assert rows(db, f"SELECT id, w, n FROM {name} ORDER BY id, w, n") == [(1, "ab", None), (7, "ab", None), (7, "ab", None), (7, "x", 2)]
    assert error_of(db, f"SELECT DEFAULT FROM {name}").sqlstate in ("42601", "42703")
