"""SAVEPOINT, ROLLBACK TO and RELEASE, by themselves and as drivers nest their transactions."""
import asyncio

import asyncpg
import psycopg
import pytest
from harness import http_request
from psycopg import errors


@pytest.fixture
def ids(db, name):
    """A table in a transaction block, and a function that reads it."""
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, w TEXT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 'a')")
    db.execute("BEGIN")

    def read():
        return [row[0] for row in db.execute(f"SELECT id FROM {name} ORDER BY id").fetchall()]

    yield read
    db.execute("ROLLBACK")


def test_rollback_to_takes_back_all_kinds_of_writes(db, ids, name):
    db.execute(f"INSERT INTO {name} VALUES (2, 'b')")
    assert db.execute("SAVEPOINT s").statusmessage == "SAVEPOINT"
    db.execute(f"INSERT INTO {name} VALUES (3, 'c')")
    db.execute(f"DELETE FROM {name} WHERE id = 1")
    db.execute(f"UPDATE {name} SET id = 20 WHERE id = 2")
    assert ids() == [3, 20]
    assert db.execute("ROLLBACK TO SAVEPOINT s").statusmessage == "ROLLBACK"
    assert ids() == [1, 2]
    db.execute(f"TRUNCATE {name}")
    assert ids() == []
    db.execute("ROLLBACK WORK TO s")
    assert ids() == [1, 2]
    db.execute("COMMIT")
    assert ids() == [1, 2]


def test_savepoints_nest_and_the_newest_of_a_name_counts(db, ids, name):
    for number in (2, 3, 4):
        db.execute("SAVEPOINT s")
        db.execute(f"INSERT INTO {name} VALUES ({number})")
    db.execute("ROLLBACK TO s")
    assert ids() == [1, 2, 3]
    assert db.execute("RELEASE s").statusmessage == "RELEASE"
    db.execute("ROLLBACK TO s")
    assert ids() == [1, 2]
    db.execute("RELEASE SAVEPOINT s")
    db.execute("ROLLBACK TO s")
    assert ids() == [1]
    with pytest.raises(errors.InvalidSavepointSpecification, match='savepoint "t" does not exist'):
        db.execute("RELEASE t")


def test_rollback_to_ends_the_savepoints_made_after_it(db, ids, name):
    db.execute("SAVEPOINT a")
    db.execute("SAVEPOINT b")
    db.execute("ROLLBACK TO a")
    with pytest.raises(errors.InvalidSavepointSpecification):
        db.execute("ROLLBACK TO b")
    db.execute("ROLLBACK TO a")
    assert ids() == [1]


def test_rollback_to_leaves_the_failed_state(db, ids, name):
    db.execute("SAVEPOINT s")
    with pytest.raises(errors.UniqueViolation):
        db.execute(f"INSERT INTO {name} VALUES (1)")
    for statement in ("SELECT 1", "SAVEPOINT t", "RELEASE s"):
        with pytest.raises(errors.InFailedSqlTransaction):
            db.execute(statement)
    with pytest.raises(errors.InvalidSavepointSpecification):
        db.execute("ROLLBACK TO t")
    assert db.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
    db.execute("ROLLBACK TO s")
    assert db.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    db.execute(f"INSERT INTO {name} VALUES (2)")
    db.execute("COMMIT")
    assert ids() == [1, 2]


def test_settings_go_back_too(db, ids):
    db.execute("SET application_name = 'one'")
    db.execute("SAVEPOINT s")
    db.execute("SET application_name = 'two'")
    db.execute("SET LOCAL statement_timeout = '7s'")
    db.execute("ROLLBACK TO s")
    assert db.execute("SHOW application_name").fetchone() == ("one",)
    assert db.execute("SHOW statement_timeout").fetchone() == ("0",)
    assert db.info.parameter_status("application_name") == "one"


def test_a_copy_is_taken_back(db, ids, name):
    db.execute("SAVEPOINT s")
    with db.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        copy.write_row((7, "x"))
    db.execute("ROLLBACK TO s")
    assert ids() == [1]
    with db.cursor().copy(f"COPY {name} FROM STDIN") as copy:
        copy.write_row((8, "x"))
    db.execute("SAVEPOINT t")
    db.execute("ROLLBACK TO t")
    assert ids() == [1, 8]


@pytest.mark.parametrize("statement, told", [("SAVEPOINT s", "SAVEPOINT"), ("ROLLBACK TO s", "ROLLBACK TO SAVEPOINT"), ("RELEASE s", "RELEASE SAVEPOINT"),
                                             ("COMMIT AND CHAIN", "COMMIT AND CHAIN"), ("ROLLBACK AND CHAIN", "ROLLBACK AND CHAIN")])
def test_outside_a_block_there_are_none(db, statement, told):
    with pytest.raises(errors.NoActiveSqlTransaction, match=f"{told} can only be used in transaction blocks"):
        db.execute(statement)


def test_and_chain_begins_the_next_block(db, ids, name):
    db.execute(f"INSERT INTO {name} VALUES (2)")
    assert db.execute("COMMIT AND CHAIN").statusmessage == "COMMIT"
    assert db.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    db.execute(f"INSERT INTO {name} VALUES (3)")
    db.execute("ROLLBACK AND CHAIN")
    assert ids() == [1, 2]


def test_psycopg_nests_transactions(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    with db.transaction():
        db.execute(f"INSERT INTO {name} VALUES (1)")
        with pytest.raises(errors.UniqueViolation), db.transaction():
            db.execute(f"INSERT INTO {name} VALUES (2)")
            db.execute(f"INSERT INTO {name} VALUES (1)")
        with db.transaction(), db.transaction(savepoint_name="Inner one"):
            db.execute(f"INSERT INTO {name} VALUES (3)")
    assert db.execute(f"SELECT id FROM {name} ORDER BY id").fetchall() == [(1,), (3,)]


def test_asyncpg_nests_transactions(server, name):
    async def talk():
        connection = await asyncpg.connect(host=server.doors["pg"][0], port=server.doors["pg"][1], user="cenote", database="cenote")
        try:
            await connection.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
            async with connection.transaction():
                await connection.execute(f"INSERT INTO {name} VALUES ($1)", 1)
                with pytest.raises(asyncpg.UniqueViolationError):
                    async with connection.transaction():
                        await connection.execute(f"INSERT INTO {name} VALUES ($1)", 2)
                        await connection.execute(f"INSERT INTO {name} VALUES ($1)", 1)
                async with connection.transaction():
                    await connection.execute(f"INSERT INTO {name} VALUES ($1)", 3)
                read = [row["id"] async for row in connection.cursor(f"SELECT id FROM {name} ORDER BY id", prefetch=1)]
            return read, [tuple(row) for row in await connection.fetch(f"SELECT id FROM {name} ORDER BY id")]
        finally:
            await connection.close()
    assert asyncio.run(talk()) == ([1, 3], [(1,), (3,)])


def test_a_request_over_http_may_use_them(server, name):
    def run(*statements):
        import json
        body = json.dumps({"sql": "; ".join(statements)})
        return http_request(f"{server.url}/api/v1/sql", "POST", body, headers={"Content-Type": "application/json"}).json()
    run(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    run("BEGIN", f"INSERT INTO {name} VALUES (1)", "SAVEPOINT s", f"INSERT INTO {name} VALUES (2)", "ROLLBACK TO s", "COMMIT")
    assert run(f"SELECT id FROM {name}")["rows"] == [[1]]
