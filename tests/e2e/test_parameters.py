"""Parameters that clients send without types: asyncpg asks what they are, and takes values of these types only."""
import asyncio
from decimal import Decimal

import asyncpg
import pytest
from harness import http_request

# Statements over `t (id INT PRIMARY KEY, n BIGINT, w TEXT, d NUMERIC(10,2))`, what PostgreSQL 15 says their parameters are, values, rows.
CASES = [
    ("SELECT id FROM t WHERE id = ANY($1) ORDER BY id", "int4[]", [[1, 3]], [1, 3]),
    ("SELECT id FROM t WHERE w = ANY($1)", "text[]", [["a"]], [1]),
    ("SELECT id FROM t WHERE n <> ALL($1) ORDER BY id", "int8[]", [[10]], [2, 3]),
    ("SELECT id FROM t WHERE n > ANY($1) ORDER BY id", "int8[]", [[10]], [2, 3]),
    ("SELECT id FROM t WHERE n < ALL($1) ORDER BY id", "int8[]", [[20, 30]], [1]),
    ("SELECT id FROM t WHERE d = ANY($1)", "numeric[]", [[Decimal("1.5"), Decimal("2.505")]], [1]),
    ("SELECT id FROM t ORDER BY id LIMIT $1 OFFSET $2", "int8 int8", [1, 1], [2]),
    ("SELECT id FROM t ORDER BY id LIMIT $1", "int8", [None], [1, 2, 3]),
    ("SELECT id FROM t WHERE id IN (SELECT id FROM t ORDER BY id LIMIT $1)", "int8", [1], [1]),
    ("SELECT CASE WHEN $1 THEN id ELSE 0 END FROM t ORDER BY 1", "bool", [True], [1, 2, 3]),
    ("SELECT CASE WHEN $1 THEN n ELSE $2 END FROM t ORDER BY 1", "bool int8", [False, 7], [7, 7, 7]),
    ("SELECT CASE id WHEN $1 THEN 'x' END FROM t ORDER BY id", "int4", [2], [None, "x", None]),
    ("SELECT id FROM t WHERE $1 ORDER BY id", "bool", [True], [1, 2, 3]),
    ("SELECT id FROM t WHERE NOT $1", "bool", [True], []),
    ("SELECT id FROM t WHERE $1 OR id = $2", "bool int4", [False, 1], [1]),
    ("SELECT id FROM t WHERE id = $1 OR $1 IS NULL ORDER BY id", "int4", [None], [1, 2, 3]),
    ("SELECT coalesce($1, n) FROM t ORDER BY 1", "int8", [None], [10, 20, 30]),
    ("SELECT id FROM t WHERE $1 IN (id, 7)", "int4", [1], [1]),
    ("SELECT id FROM t WHERE $1 BETWEEN id AND n ORDER BY id", "int4", [2], [1, 2]),
    ("SELECT count(*) FROM t HAVING count(*) > $1", "int8", [0], [3]),
    ("UPDATE t SET n = n + $1, w = $3 WHERE id = ANY($2) RETURNING n", "int8 int4[] text", [5, [1], "z"], [15]),
    ("DELETE FROM t WHERE id = $1 RETURNING w", "int4", [3], ["c"]),
]


@pytest.mark.parametrize("statement, types, values, rows", CASES, ids=[case[0] for case in CASES])
def test_a_parameter_is_of_the_type_of_its_place(server, name, statement, types, values, rows):
    statement = statement.replace(" t ", f" {name} ")

    async def talk():
        connection = await asyncpg.connect(host=server.doors["pg"][0], port=server.doors["pg"][1], user="cenote", database="cenote", timeout=20)
        try:
            await connection.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, n BIGINT, w TEXT, d NUMERIC(10,2))")
            await connection.execute(f"INSERT INTO {name} VALUES (1, 10, 'a', 1.5), (2, 20, 'b', 2.5), (3, 30, 'c', 3.5)")
            prepared = await connection.prepare(statement)
            told = " ".join(parameter.name for parameter in prepared.get_parameters())
            return told, [row[0] for row in await prepared.fetch(*values)]
        finally:
            await connection.close()

    assert asyncio.run(talk()) == (types, rows)


def test_psycopg_sends_lists_without_a_type(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, w TEXT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b')")
    for values in (["a"], [], ["a", None]):
        found = db.execute(f"SELECT id FROM {name} WHERE w = ANY(%s)", (values,)).fetchall()
        assert found == ([(1,)] if values else []), values
    assert db.execute(f"UPDATE {name} SET w = %s WHERE id = ANY(%s)", ("z", [1, 2])).rowcount == 2


@pytest.mark.parametrize("params", ["[]", "[1]", "[1, 2, 3]"])
def test_http_takes_as_many_parameters_as_there_are(server, params):
    body = f'{{"sql": "SELECT $1::int + $2::int", "params": {params}}}'
    answer = http_request(f"{server.url}/api/v1/sql", "POST", body, headers={"Content-Type": "application/json"})
    assert (answer.status, answer.json()["error"]["sqlstate"]) == (400, "08P01")


def test_a_number_that_does_not_fit_is_told_in_postgresqls_words(server, name):
    server.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    for body in (f'{{"sql": "INSERT INTO {name} VALUES ($1)", "params": [3000000000]}}', '{"sql": "SELECT $1::int", "params": [3000000000]}'):
        answer = http_request(f"{server.url}/api/v1/sql", "POST", body, headers={"Content-Type": "application/json"})
        error = answer.json()["error"]
        assert (error["sqlstate"], error["message"]) == ("22003", "integer out of range")
