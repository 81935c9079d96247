"""Changes as they happen: server-sent events, SUBSCRIBE, and how both resume."""
import itertools
import json

import psycopg
import pytest
from harness.http import changes_of


@pytest.fixture
def totals(server, name):
    """A table and its grouped view: `(connection, table, view)`."""
    with server.connect() as db:
        db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, usr TEXT, n BIGINT)")
        db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT usr, sum(n)::bigint AS s FROM {name} GROUP BY usr")
        yield db, name, f"{name}_v"


def epoch(db):
    return db.execute("SELECT cenote_epoch()").fetchone()[0]


def take(events, count):
    """The first `count` changes of a stream."""
    return list(itertools.islice((c for event in events for c in changes_of(event)), count))


def bag(changes):
    return sorted((weight, json.dumps(row, sort_keys=True)) for _, weight, row in changes)


def test_events_carry_epoch_weight_and_row(server, totals):
    db, table, view = totals
    start = epoch(db)
    db.execute(f"INSERT INTO {table} VALUES (1, 'ann', 5)")
    first = epoch(db)
    db.execute(f"UPDATE {table} SET n = 7 WHERE id = 1")
    changes = take(server.events(view, f"?from_epoch={start}"), 3)
    assert [c[0] for c in changes] == [first, first + 1, first + 1]
    assert bag(changes) == bag([(0, 1, {"usr": "ann", "s": 5}), (0, -1, {"usr": "ann", "s": 5}), (0, 1, {"usr": "ann", "s": 7})])


def test_a_stream_resumes_after_the_epoch_that_was_seen(server, totals):
    db, table, view = totals
    start = epoch(db)
    for i in range(1, 6):
        db.execute(f"INSERT INTO {table} VALUES ({i}, 'u{i}', {i})")
    whole = take(server.events(view, f"?from_epoch={start}"), 5)
    seen = whole[1][0]
    assert take(server.events(view, f"?from_epoch={seen}"), 3) == whole[2:]
    stream = server.events(view, f"?from_epoch={start}")
    event = next(e for e in stream if changes_of(e))
    stream.close()
    again = server.events(view, headers={"Last-Event-ID": event.id})
    assert take(again, 4) == whole[1:], "the event's id is enough to resume"


def test_a_stream_without_start_tells_what_comes(server, totals):
    db, table, view = totals
    db.execute(f"INSERT INTO {table} VALUES (1, 'before', 1)")
    stream = server.events(f"{view}", f"?from_epoch={epoch(db)}")
    db.execute(f"INSERT INTO {table} VALUES (2, 'after', 1)")
    assert take(stream, 1)[0][2] == {"usr": "after", "s": 1}


def test_changes_add_up_to_the_contents(server, totals):
    db, table, view = totals
    start = epoch(db)
    for i in range(30):
        db.execute(f"INSERT INTO {table} VALUES ({i}, 'u{i % 4}', {i})")
        if i % 3 == 0:
            db.execute(f"DELETE FROM {table} WHERE id = {i // 2}")
    db.execute(f"INSERT INTO {table} VALUES (1000, 'last', 1)")
    sums = {}
    for _, weight, row in (c for e in server.events(view, f"?from_epoch={start}") for c in changes_of(e)):
        key = (row["usr"], row["s"])
        sums[key] = sums.get(key, 0) + weight
        if row["usr"] == "last":
            break
    assert sorted(k for k, w in sums.items() if w) == sorted(db.execute(f"SELECT * FROM {view}").fetchall())
    assert set(sums.values()) <= {0, 1}


def test_an_epoch_outside_retention_is_refused_with_the_one_to_resume_from(fresh):
    server = fresh(args=["--retain-epochs", "3", "--retain-time", "0s"])
    with server.connect() as db:
        db.execute("CREATE TABLE t (n INT)")
        start = epoch(db)
        for i in range(30):
            db.execute(f"INSERT INTO t VALUES ({i})")
        answer = server.get(f"/api/v1/queryable_state/t/changes?from_epoch={start}")
        assert answer.status in (400, 410)
        assert str(epoch(db) - 3) in json.dumps(answer.json()["error"]) or "resume" in answer.text
        with pytest.raises(psycopg.Error) as raised:
            next(db.cursor().stream(f"SUBSCRIBE TO t AS OF EPOCH {start}"))
        assert raised.value.sqlstate == "72000"


def test_subscribe_gives_epoch_weight_and_columns(server, totals):
    db, table, view = totals
    db.execute(f"INSERT INTO {table} VALUES (1, 'ann', 5)")
    with server.subscription(f"SUBSCRIBE TO {view} WITH (snapshot = true)") as (cursor, rows):
        first = next(rows)
        assert [c.name for c in cursor.description] == ["epoch", "weight", "usr", "s"]
        assert first[1:] == (1, "ann", 5)
        db.execute(f"INSERT INTO {table} VALUES (2, 'ann', 1), (3, 'bob', 2)")
        seen = [next(rows) for _ in range(3)]
        assert len({r[0] for r in seen}) == 1 and seen[0][0] > first[0]
        assert sorted(r[1:] for r in seen) == [(-1, "ann", 5), (1, "ann", 6), (1, "bob", 2)]


def test_subscribe_from_an_epoch_gives_what_came_after_it(server, totals):
    db, table, view = totals
    db.execute(f"INSERT INTO {table} VALUES (1, 'ann', 5)")
    start = epoch(db)
    db.execute(f"INSERT INTO {table} VALUES (2, 'bob', 5)")
    with server.subscription(f"SUBSCRIBE TO {view} AS OF EPOCH {start}") as (_, rows):
        assert next(rows)[1:] == (1, "bob", 5)


def test_a_transaction_that_nets_out_emits_nothing(server, totals):
    db, table, view = totals
    start = epoch(db)
    with db.transaction():
        db.execute(f"INSERT INTO {table} VALUES (1, 'ann', 5)")
        db.execute(f"DELETE FROM {table} WHERE id = 1")
    db.execute(f"INSERT INTO {table} VALUES (2, 'bob', 1)")
    assert take(server.events(view, f"?from_epoch={start}"), 1)[0][2] == {"usr": "bob", "s": 1}


def test_equal_rows_of_a_table_without_a_key_net_out(fresh):
    server = fresh()
    with server.connect() as db:
        db.execute("CREATE TABLE b (x INT)")
        db.execute("INSERT INTO b VALUES (2), (2), (3)")
        start = epoch(db)
        with db.transaction():
            db.execute("DELETE FROM b WHERE x IN (2, 3)")
            db.execute("INSERT INTO b VALUES (2), (3)")
        db.execute("INSERT INTO b VALUES (4)")
        with server.subscription(f"SUBSCRIBE TO b AS OF EPOCH {start}") as (_, rows):
            assert [next(rows)[1:] for _ in range(2)] == [(-1, 2), (1, 4)]


def test_many_subscribers_see_the_same(server, totals):
    db, table, view = totals
    start = epoch(db)
    streams = [server.events(view, f"?from_epoch={start}") for _ in range(20)]
    for i in range(5):
        db.execute(f"INSERT INTO {table} VALUES ({i}, 'u{i}', 1)")
    first = take(streams[0], 5)
    assert all(take(stream, 5) == first for stream in streams[1:])


def test_a_subscriber_that_goes_away_costs_nothing_more(server, totals):
    db, table, view = totals
    before = server.threads()
    for _ in range(30):
        with server.connect() as watcher:
            rows = watcher.cursor().stream(f"SUBSCRIBE TO {table} WITH (snapshot = true)")
            db.execute(f"INSERT INTO {table} VALUES ((SELECT coalesce(max(id), 0) + 1 FROM {table}), 'x', 1)")
            next(rows)
            watcher.pgconn.finish()
    assert server.threads() <= before + 4


def test_a_subscriber_of_what_is_dropped_is_told(server, totals):
    db, table, view = totals
    with server.connect() as reader:
        rows = reader.cursor().stream(f"SUBSCRIBE TO {view} WITH (snapshot = true)")
        db.execute(f"INSERT INTO {table} VALUES (1, 'ann', 5)")
        assert next(rows)[1:] == (1, "ann", 5)
        db.execute(f"DROP TABLE {table} CASCADE")
        with pytest.raises(psycopg.errors.UndefinedTable, match="dropped"):
            next(row for row in rows if row[1] == 0)


def test_a_subscriber_of_a_view_that_fails_is_told(server, name):
    with server.connect() as db, server.connect() as reader:
        db.execute(f"CREATE TABLE {name} (n INT)")
        # Pairs of a join with more than 2 GiB of text stop a view.
        times = "(VALUES " + ", ".join(f"('{i}')" for i in "abcdefghijklmnopqrstuv") + ") b(i)"
        db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT n, max(octet_length(x || i)) - 1 AS q FROM (SELECT n, repeat('x', n) AS x FROM {name}) a, {times} GROUP BY n")
        db.execute(f"CREATE MATERIALIZED VIEW {name}_w AS SELECT count(*) AS c FROM {name}_v")
        rows = reader.cursor().stream(f"SUBSCRIBE TO {name}_w")
        db.execute(f"INSERT INTO {name} VALUES (5)")
        assert next(rows)[1:] in [(1, 1), (-1, 0)]
        db.execute(f"INSERT INTO {name} VALUES (100000000)")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            next(row for row in rows if row[1] == 0)
        db.execute(f"DROP TABLE {name} CASCADE")
