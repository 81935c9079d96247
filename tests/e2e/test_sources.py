"""CREATE SOURCE: rows that are passed on and not kept, for as many views as one likes, whenever they come."""
import json

import psycopg
import pytest
from harness import cenote

COLUMNS = "id BIGINT, w TEXT"


def lines(ids):
    return "".join(json.dumps({"id": i, "w": f"w{i % 3}"}) + "\n" for i in ids)


def append(path, ids):
    with open(path, "a") as file:
        file.write(lines(ids))


def groups(name):
    return lambda db: db.execute(f"SELECT * FROM {name} ORDER BY w").fetchall()


def expected(ids):
    return [(w, len(of), sum(of)) for w in ("w0", "w1", "w2") if (of := [i for i in ids if f"w{i % 3}" == w])]


def test_a_later_view_over_a_source_has_what_passed_before_it(fresh):
    server = fresh(workers=4)
    folder = server.cwd / "in"
    folder.mkdir()
    append(folder / "1.json", range(1000))
    view = "CREATE MATERIALIZED VIEW {} AS SELECT w, count(*) AS n, sum(id)::BIGINT AS s FROM src GROUP BY w"
    with server.connect() as db:
        db.execute(f"CREATE SOURCE src ({COLUMNS}) WITH (connector = 'file', format = 'json', path = 'in', follow = 'true')")
        db.execute(view.format("first"))
        server.wait_until("first", lambda c: groups("first")(c) == expected(range(1000)))
        append(folder / "1.json", range(1000, 1500))
        append(folder / "2.json", range(1500, 2000))
        db.execute(view.format("second"))
        db.execute("CREATE MATERIALIZED VIEW pairs AS SELECT count(*) AS n FROM src a JOIN src b ON a.id = b.id")
        append(folder / "2.json", range(2000, 2500))
        for name in ("first", "second"):
            server.wait_until(name, lambda c: groups(name)(c) == expected(range(2500)))
        server.wait_until("pairs", lambda c: c.execute("SELECT n FROM pairs").fetchone() == (2500,))
    server.kill()
    append(folder / "3.json", range(2500, 2600))
    server.start()
    for name in ("first", "second"):
        server.wait_until(name, lambda c: groups(name)(c) == expected(range(2600)))


def test_a_source_whose_file_is_gone_refuses_a_later_view_and_keeps_the_first(server, db, name):
    path = server.cwd / f"{name}.json"
    append(path, range(10))
    db.execute(f"CREATE SOURCE {name} ({COLUMNS}) WITH (connector = 'file', format = 'json', path = '{name}.json')")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_1 AS SELECT count(*) AS n FROM {name}")
    server.wait_until(f"{name}_1", lambda c: c.execute(f"SELECT n FROM {name}_1").fetchone() == (10,))
    path.unlink()
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"CREATE MATERIALIZED VIEW {name}_2 AS SELECT sum(id) AS n FROM {name}")
    assert raised.value.sqlstate == "58P01" and f"{name}.json" in str(raised.value)
    assert db.execute(f"SELECT n FROM {name}_1").fetchone() == (10,)
    with pytest.raises(psycopg.errors.UndefinedTable):
        db.execute(f"SELECT * FROM {name}_2")


def test_a_source_whose_file_is_gone_at_a_restart_loses_no_rows_in_silence(fresh):
    server = fresh()
    (server.cwd / "in").mkdir()
    append(server.cwd / "in/1.json", range(10))
    append(server.cwd / "in/2.json", range(10, 15))
    with server.connect() as db:
        db.execute(f"CREATE SOURCE src ({COLUMNS}) WITH (connector = 'file', format = 'json', path = 'in')")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM src")
    server.wait_until("v", lambda c: c.execute("SELECT n FROM v").fetchone() == (15,))
    server.kill()
    (server.cwd / "in/2.json").rename(server.cwd / "2.json")
    server.start()
    with server.connect() as db, pytest.raises(psycopg.Error) as raised:
        db.execute("SELECT n FROM v")
    assert "in/2.json" in str(raised.value)
    server.kill()
    (server.cwd / "2.json").rename(server.cwd / "in/2.json")
    server.start()
    assert server.sql("SELECT n FROM v") == [(15,)]


def test_bad_rows_of_a_source_are_told_once_however_often_it_is_read(fresh):
    server = fresh()
    (server.cwd / "in.json").write_text(lines(range(5)) + "{no\n")
    with server.connect() as db:
        db.execute(f"CREATE SOURCE src ({COLUMNS}) WITH (connector = 'file', format = 'json', path = 'in.json')")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM src")
    for _ in range(2):
        server.wait_until("v", lambda c: c.execute("SELECT n FROM v").fetchone() == (5,))
        assert server.sql("SELECT count(*) FROM cenote_catalog.errors") == [(1,)]
        server.kill()
        server.start()


def test_a_script_asks_one_file_several_questions(tmp_path):
    (tmp_path / "in.json").write_text(lines(range(100)))
    script = f"""CREATE TABLE t ({COLUMNS}) WITH (connector = 'file', format = 'json', path = 'in.json');
        SELECT count(*) AS n FROM t; CREATE MATERIALIZED VIEW v AS SELECT w, sum(id) AS s FROM t GROUP BY w;
        SELECT sum(id) AS s FROM t; SELECT * FROM v ORDER BY w"""
    done = cenote("run", "-e", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ['{"n":100}', '{"s":4950}', '{"w":"w0","s":1683}', '{"w":"w1","s":1617}', '{"w":"w2","s":1650}']


def test_all_rows_of_a_source_are_there_once_it_is_told_as_finished(fresh):
    """Also where views take their time: the status is read at an epoch, as the rows are."""
    server = fresh(workers=2)
    (server.cwd / "many.ndjson").write_text("".join(f'{{"n": {n}}}\n' for n in range(200_000)))
    with server.connect() as db:
        for turn in range(10):
            db.execute(f"CREATE TABLE t{turn} (n BIGINT) WITH (connector = 'file', format = 'json', path = 'many.ndjson')")
            db.execute(f"CREATE MATERIALIZED VIEW v{turn} AS SELECT n % 50000 AS g, count(*) AS n, array_agg(n) AS ns FROM t{turn} GROUP BY 1")
            server.ask_until(lambda c: c.execute("SELECT 1 FROM cenote_catalog.sources WHERE name = %s AND status = 'finished'", (f"t{turn}",)).fetchone())
            assert db.execute(f"SELECT (SELECT count(*) FROM t{turn}), (SELECT sum(n)::bigint FROM v{turn})").fetchone() == (200_000, 200_000)
