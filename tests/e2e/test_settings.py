"""Settings and transaction modes: kept to, or refused by name."""
import time

import psycopg
import pytest

ENDLESS = "SELECT count(*) FROM generate_series(1, 100000) a(x), generate_series(1, 100000) b(y) WHERE x + y = -1"


def test_a_statement_over_its_timeout_is_broken_off(db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT)")
    db.execute("SET statement_timeout = '300ms'")
    start = time.monotonic()
    for sql in (ENDLESS, f"INSERT INTO {name} SELECT * FROM ({ENDLESS}) s",
                f"SUBSCRIBE TO {name}", "SELECT x FROM generate_series(1, 100000000000) AS s(x)"):
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            db.execute(sql)
    assert time.monotonic() - start < 20
    db.execute("SET statement_timeout = '10s'")
    assert db.execute("SELECT 1").fetchone() == (1,), "a statement in time is left alone"
    db.execute("SET statement_timeout = 0")
    assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)


@pytest.mark.parametrize("setting, value, state", [
    ("statement_timeout", "soon", "22023"),
    ("idle_in_transaction_session_timeout", "5s", "0A000"),
    ("search_path", "other, public", "0A000"),
    ("default_transaction_isolation", "serializable", "0A000"),
    ("session_authorization", "bob", "0A000"),
    ("timezone", "Europe/Berlin", "0A000"),
    ("statement_timout", "5s", "42704"),
])
def test_what_is_not_kept_to_is_refused(db, setting, value, state):
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"SET {setting} = '{value}'" if setting != "search_path" else f"SET {setting} TO {value}")
    assert raised.value.sqlstate == state


def shown(db, setting):
    return db.execute(f"SHOW {setting}").fetchone()[0]


def test_a_block_that_is_rolled_back_takes_back_what_it_set(db):
    db.execute("SET application_name = 'before'")
    db.execute("BEGIN")
    db.execute("SET application_name = 'inside'")
    db.execute("ROLLBACK")
    assert shown(db, "application_name") == "before"
    db.execute("BEGIN")
    db.execute("SET application_name = 'inside'")
    db.execute("COMMIT")
    assert shown(db, "application_name") == "inside"


def test_set_local_lasts_until_the_block_ends(db):
    db.execute("SET application_name = 'before'")
    for end in ("COMMIT", "ROLLBACK"):
        db.execute("BEGIN")
        db.execute("SET LOCAL application_name = 'inside'")
        assert shown(db, "application_name") == "inside"
        db.execute(end)
        assert shown(db, "application_name") == "before"
    db.execute("SET LOCAL application_name = 'nowhere'")
    assert shown(db, "application_name") == "before", "outside a block it has no effect, as in PostgreSQL"


def test_transactions_that_only_read_change_nothing(db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT)")
    insert = f"INSERT INTO {name} VALUES (1)"
    for begin in ("BEGIN READ ONLY", "BEGIN; SET TRANSACTION READ ONLY"):
        db.execute(begin)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            db.execute(insert)
        db.execute("ROLLBACK")
    db.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        db.execute(insert)
    db.execute("SET default_transaction_read_only = off")
    db.execute(insert)
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        db.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")


def test_a_request_that_leaves_its_transaction_open_is_refused(server, name):
    server.sql(f"CREATE TABLE {name} (n BIGINT)")
    for sql in (f"BEGIN; INSERT INTO {name} VALUES (1)", "BEGIN"):
        answer = server.post("/api/v1/sql", {"sql": sql})
        assert answer.status == 400 and answer.json()["error"]["sqlstate"] == "25001", answer.text
    assert server.sql(f"SELECT count(*) FROM {name}") == [(0,)]
    answer = server.post("/api/v1/sql", {"sql": f"BEGIN; INSERT INTO {name} VALUES (1); COMMIT"})
    assert answer.status == 200, answer.text
    assert server.sql(f"SELECT count(*) FROM {name}") == [(1,)]


def test_read_only_holds_for_copy_and_definitions(db, name):
    db.execute(f"CREATE TABLE {name} (n BIGINT)")
    db.execute("SET default_transaction_read_only = on")
    for sql in (f"DROP TABLE {name}", f"CREATE TABLE {name}_2 (n INT)", f"CREATE VIEW {name}_v AS SELECT 1 AS x"):
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            db.execute(sql)
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        with db.cursor().copy(f"COPY {name} FROM STDIN") as copy:
            copy.write("1\n")
    assert shown(db, "transaction_read_only") == "on"
    assert db.execute(f"SELECT count(*) FROM {name}").fetchone() == (0,)


def test_options_of_a_connection_are_settings(server):
    with psycopg.connect(server.dsn, options="-c statement_timeout=5s -c application_name=here", autocommit=True) as db:
        assert shown(db, "statement_timeout") == "5s"
        assert shown(db, "application_name") == "here"
    with pytest.raises(psycopg.OperationalError, match="statement_timeout"):
        psycopg.connect(server.dsn, options="-c statement_timeout=soon")


def test_a_timeout_longer_than_any_is_refused(db):
    with pytest.raises(psycopg.Error) as raised:
        db.execute("SET statement_timeout = '10000000000000000000s'")
    assert raised.value.sqlstate == "22023"
    assert db.execute("SELECT 1").fetchone() == (1,)


def test_set_config_may_last_for_the_block_only(db):
    db.execute("SET application_name = 'before'")
    db.execute("BEGIN")
    db.execute("SELECT set_config('application_name', 'inside', true)")
    assert shown(db, "application_name") == "inside"
    db.execute("COMMIT")
    assert shown(db, "application_name") == "before"
