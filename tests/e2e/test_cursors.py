"""Cursors of SQL: psycopg's server-side cursors, and what DECLARE, FETCH, MOVE and CLOSE give as PostgreSQL does."""
import psycopg
import pytest
from harness import http_request
from psycopg import errors, sql


@pytest.fixture
def block(server):
    """A connection in a transaction block."""
    with server.connect(autocommit=False) as db:
        yield db


def numbers(count):
    return f"SELECT x FROM generate_series(1, {count}) AS s(x) ORDER BY x"


def test_a_server_side_cursor_of_psycopg_reads_in_parts(block):
    with block.cursor("Mine") as cursor:
        cursor.execute("SELECT x, x * %s AS y FROM generate_series(1, 10) AS s(x) WHERE x = ANY(%s) ORDER BY x", (2, list(range(20))))
        assert [column.name for column in cursor.description] == ["x", "y"]
        assert cursor.fetchone() == (1, 2)
        assert cursor.fetchmany(2) == [(2, 4), (3, 6)]
        cursor.scroll(2)
        assert cursor.fetchone() == (6, 12)
        cursor.scroll(8, mode="absolute")
        assert cursor.fetchall() == [(9, 18), (10, 20)]
        assert cursor.fetchone() is None
    assert block.execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize("binary", [False, True])
def test_a_long_result_streams_through_a_cursor(block, name, binary):
    with block.cursor(name, binary=binary) as cursor:
        cursor.itersize = 7_000
        cursor.execute("SELECT x, repeat('w', 100) FROM generate_series(1, 200000) AS s(x) ORDER BY x")
        seen = 0
        for number, (x, text) in enumerate(cursor, 1):
            assert x == number and len(text) == 100
            seen = number
        assert seen == 200_000


def test_a_cursor_shows_one_epoch_and_the_writes_before_it(db, block, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    block.execute(f"INSERT INTO {name} VALUES (1), (2)")
    block.execute(f"DECLARE c CURSOR FOR SELECT id FROM {name} ORDER BY id")
    block.execute(f"INSERT INTO {name} VALUES (3)")
    block.execute(f"DELETE FROM {name} WHERE id = 2")
    assert block.execute("FETCH ALL c").fetchall() == [(1,), (2,)]
    assert block.execute(f"SELECT id FROM {name} ORDER BY id").fetchall() == [(1,), (3,)]


def test_a_held_cursor_outlives_its_transaction_and_later_changes(db, block, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY)")
    db.execute(f"INSERT INTO {name} SELECT x FROM generate_series(1, 5) AS s(x)")
    with block.cursor("kept", withhold=True) as cursor:
        cursor.execute(f"SELECT id FROM {name} ORDER BY id")
        assert cursor.fetchone() == (1,)
        block.commit()
        db.execute(f"DELETE FROM {name}")
        assert cursor.fetchmany(2) == [(2,), (3,)]
        block.rollback()
        assert cursor.fetchall() == [(4,), (5,)]
    with pytest.raises(errors.InvalidCursorName):
        block.execute("FETCH kept")


def test_cursors_end_as_their_transaction_does(block):
    for end, has_held in (("COMMIT", True), ("ROLLBACK", False)):
        block.execute("DECLARE bare CURSOR FOR SELECT 1")
        block.execute("DECLARE held CURSOR WITH HOLD FOR SELECT 2")
        block.execute(end)
        for name, there in (("bare", False), ("held", has_held)):
            if there:
                assert block.execute(f"FETCH {name}").fetchall() == [(2,)]
                block.execute(f"CLOSE {name}")
            else:
                with pytest.raises(errors.InvalidCursorName, match=f'cursor "{name}" does not exist'):
                    block.execute(f"FETCH {name}")
                block.execute("ROLLBACK")


# What PostgreSQL 15 answers, one after the other, to a NO SCROLL cursor over 1 ... 10.
STEPS = [
    ("FETCH c", [1]), ("FETCH 2 FROM c", [2, 3]), ("FETCH NEXT IN c", [4]), ("MOVE c", "MOVE 1"), ("FETCH FORWARD 1 c", [6]),
    ("MOVE RELATIVE 1 IN c", "MOVE 1"), ("FETCH ABSOLUTE 9 FROM c", [9]), ("FETCH ALL FROM c", [10]), ("FETCH c", []), ("FETCH 0 c", []),
    ("MOVE FORWARD ALL c", "MOVE 0"), ("FETCH ABSOLUTE 12 c", []),
]


def test_every_forward_fetch_gives_postgresqls_rows_and_tags(block):
    assert block.execute(f"DECLARE c NO SCROLL INSENSITIVE CURSOR WITHOUT HOLD FOR {numbers(10)}").statusmessage == "DECLARE CURSOR"
    for statement, expected in STEPS:
        done = block.execute(statement)
        if isinstance(expected, str):
            assert (done.statusmessage, done.description) == (expected, None), statement
        else:
            assert [row[0] for row in done.fetchall()] == expected, statement
            assert done.statusmessage == f"FETCH {len(expected)}", statement
    assert block.execute("CLOSE c").statusmessage == "CLOSE CURSOR"
    assert block.execute("CLOSE ALL").statusmessage == "CLOSE CURSOR ALL"


@pytest.mark.parametrize("statement", ["FETCH PRIOR c", "FETCH BACKWARD 1 c", "FETCH -1 c", "FETCH BACKWARD ALL c", "FETCH 0 c", "FETCH FIRST c",
                                       "FETCH LAST c", "FETCH ABSOLUTE 2 c", "FETCH RELATIVE -1 c", "MOVE BACKWARD c"])
def test_nothing_goes_backward(block, statement):
    block.execute(f"DECLARE c NO SCROLL CURSOR FOR {numbers(10)}")
    block.execute("FETCH 3 c")
    with pytest.raises(errors.ObjectNotInPrerequisiteState, match="cursor can only scan forward"):
        block.execute(statement)


@pytest.mark.parametrize("statements, error", [
    (["DECLARE c CURSOR FOR SELECT 1", "DECLARE c CURSOR FOR SELECT 1"], errors.DuplicateCursor),
    (["FETCH c"], errors.InvalidCursorName),
    (["MOVE c"], errors.InvalidCursorName),
    (["CLOSE c"], errors.InvalidCursorName),
    (["DECLARE c CURSOR FOR SELECT nothing"], errors.UndefinedColumn),
    (["DECLARE c CURSOR FOR SELECT 1 / (2 - x) FROM generate_series(1, 3) AS s(x)", "FETCH ALL c"], errors.DivisionByZero),
])
def test_what_cannot_be_has_postgresqls_sqlstate(block, statements, error):
    for statement in statements[:-1]:
        block.execute(statement)
    with pytest.raises(error):
        block.execute(statements[-1])
    with pytest.raises(errors.InFailedSqlTransaction):
        block.execute("SELECT 1")


def test_a_cursor_needs_a_block_unless_it_is_held(db):
    with pytest.raises(errors.NoActiveSqlTransaction, match="DECLARE CURSOR can only be used in transaction blocks"):
        db.execute("DECLARE c CURSOR FOR SELECT 1")
    db.execute(f"DECLARE c CURSOR WITH HOLD FOR {numbers(3)}")
    assert db.execute("FETCH 2 c").fetchall() == [(1,), (2,)]
    assert db.execute("FETCH 2 c").fetchall() == [(3,)]
    db.execute("CLOSE c")
    with pytest.raises(errors.FeatureNotSupported, match="SCROLL"):
        db.execute("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1")


def test_several_statements_of_one_text_share_a_cursor(db):
    results = []
    cursor = db.execute(f"DECLARE c CURSOR FOR {numbers(5)}; FETCH 2 c; MOVE 1 c; FETCH ALL c")
    while True:
        results.append((cursor.statusmessage, cursor.fetchall() if cursor.description else None))
        if not cursor.nextset():
            break
    assert results == [("DECLARE CURSOR", None), ("FETCH 2", [(1,), (2,)]), ("MOVE 1", None), ("FETCH 2", [(4,), (5,)])]


def test_a_binary_cursor_sends_binary_to_a_simple_query(block):
    block.execute("DECLARE c BINARY CURSOR FOR SELECT 258 AS n")
    result = block.pgconn.exec_(b"FETCH c")
    assert (result.fformat(0), result.get_value(0, 0)) == (1, b"\x00\x00\x01\x02")


def test_portals_and_cursors_share_their_names(block):
    block.execute("DECLARE c CURSOR FOR SELECT 1 AS one")
    described = block.pgconn.describe_portal(b"c")
    assert [described.fname(i) for i in range(described.nfields)] == [b"one"]
    gone = block.pgconn.describe_portal(b"d")
    assert gone.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"34000"


def test_the_protocol_executes_and_closes_a_cursor_as_a_portal(server):
    from e2e.hostile_clients import SYNC, Wire, bind, execute, message, parse, text
    wire = Wire(server)
    two = message(b"E", text("c") + (2).to_bytes(4, "big"))
    wire.send(parse("", f"DECLARE c CURSOR WITH HOLD FOR {numbers(5)}"), bind("", ""), execute(""), two, execute("c"), message(b"C", b"P" + text("c")),
              execute("c"), SYNC)
    kinds = []
    while not kinds or kinds[-1] != b"Z":
        kind, body = wire.read()
        kinds.append(kind)
        if kind == b"E":
            assert b"34000" in body
    # Two rows and a portal suspended, three and the end, closed; then there is no such portal.
    assert b"".join(kinds) == b"12C" + b"DDs" + b"DDDC" + b"3" + b"E" + b"Z"


def test_a_prepared_fetch_follows_the_cursor_of_its_name(block):
    for columns in ("1 AS a", "'x' AS b, 2 AS c"):
        block.execute(f"DECLARE c CURSOR FOR SELECT {columns}")
        cursor = block.execute("FETCH c", prepare=True)
        assert [column.name for column in cursor.description] == [part.split(" AS ")[1] for part in columns.split(", ")]
        block.execute("CLOSE c")


def test_a_savepoint_closes_the_cursors_declared_since(block):
    block.execute(f"DECLARE before CURSOR FOR {numbers(3)}")
    block.execute("SAVEPOINT s")
    block.execute("DECLARE since CURSOR FOR SELECT 1")
    block.execute("ROLLBACK TO s")
    assert block.execute("FETCH before").fetchall() == [(1,)]
    with pytest.raises(errors.InvalidCursorName):
        block.execute("FETCH since")


def test_a_failed_cursor_stays_failed(db):
    db.execute("DECLARE c CURSOR WITH HOLD FOR SELECT 1 / (2 - x) FROM generate_series(1, 3) AS s(x)")
    for error in (errors.DivisionByZero, errors.ObjectNotInPrerequisiteState):
        with pytest.raises(error):
            db.execute("FETCH ALL c")
    db.execute("CLOSE c")


def test_cursors_are_refused_over_http_by_name(server):
    for text, verb in (("DECLARE c CURSOR WITH HOLD FOR SELECT 1", "DECLARE CURSOR"), ("FETCH c", "FETCH"), ("MOVE c", "MOVE"), ("CLOSE ALL", "CLOSE")):
        answer = http_request(f"{server.url}/api/v1/sql", "POST", f'{{"sql": "{text}"}}', headers={"Content-Type": "application/json"})
        error = answer.json()["error"]
        assert (answer.status, error["sqlstate"]) == (400, "0A000"), error
        assert verb in error["message"]


def test_cursor_names_are_quoted_as_any_name(block):
    block.execute(sql.SQL("DECLARE {} CURSOR FOR SELECT 1").format(sql.Identifier('Odd "name"')))
    assert block.execute('FETCH "Odd ""name"""').fetchall() == [(1,)]
    block.execute("DECLARE NEXT CURSOR FOR SELECT 2")
    assert block.execute("FETCH next").fetchall() == [(2,)]


def test_a_fetch_that_is_not_read_to_its_end_counts_as_read(server):
    """As in PostgreSQL, where FETCH runs at once, however many rows its portal is asked for."""
    from e2e.hostile_clients import SYNC, Wire, bind, execute, message, parse, text
    wire = Wire(server)
    part = message(b"E", text("part") + (1).to_bytes(4, "big"))
    wire.send(parse("", "BEGIN"), bind("", ""), execute(""), parse("", f"DECLARE c CURSOR FOR {numbers(30_000)}"), bind("", ""), execute(""),
              parse("", "FETCH 20000 c"), bind("part", ""), part, message(b"C", b"P" + text("part")),
              parse("", "FETCH 1 c"), bind("", ""), execute(""), SYNC)
    rows = []
    while True:
        kind, body = wire.read()
        assert kind != b"E", body
        if kind == b"D":
            rows.append(body[6:])
        if kind == b"Z":
            break
    assert rows == [b"1", b"20001"]
