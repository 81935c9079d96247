"""Forms of PostgreSQL's grammar that the planner does not have: ad hoc and in views, before and after changes. The answers
are PostgreSQL 15's (`forms/regenerate.py` asks it again)."""
import importlib.util
from pathlib import Path

import psycopg
import pytest

FOLDER = Path(__file__).parent / "forms"


def module(name):
    spec = importlib.util.spec_from_file_location(f"forms_{name}", FOLDER / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


cases = module("cases")
ANSWERS = dict(part.split(" ==> ") for part in (FOLDER / "answers.txt").read_text().splitlines())
KINDS = [*cases.PLACES, "other", "constant"]


@pytest.fixture(scope="module")
def found(_shared):
    """For each query and stage, what the view and the ad-hoc query say; the views are made before all rows."""
    said = {}
    with _shared.connect() as db:
        for statement in cases.SETUP.format(struct="STRUCT<a INT, b TEXT>").split(";"):
            db.execute(statement)
        views = {}
        for number, (name, text, has_view) in enumerate(cases.queries()):
            if not has_view or ANSWERS[f"{name} 0"][:1] == "!":
                continue
            try:
                db.execute(f"CREATE MATERIALIZED VIEW fo_v{number} AS SELECT * FROM (\n{text}\n) whole")
                views[name] = f"SELECT * FROM fo_v{number}"
            except psycopg.Error as error:
                said[name, "view"] = f"{error.sqlstate} {error.diag.message_primary}"
        for stage, changes in enumerate(cases.STAGES):
            for statement in changes.split(";"):
                db.execute(statement)
            for name, text, _ in cases.queries():
                said[name, stage, "ad hoc"] = cases.answer(db, text)
                if name in views:
                    said[name, stage, "view"] = cases.answer(db, views[name])
        yield said
        db.execute("DROP TABLE fo_o, fo_p, fo_q, fo_k, fo_n, fo_s CASCADE")


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_postgresqls(found, kind):
    wrong = []
    for name, text, _ in cases.queries():
        if name.split("-")[0] != kind:
            continue
        if (name, "view") in found:
            wrong.append(f"{name}: no view: {found[name, 'view']}: {text}")
        for stage in range(len(cases.STAGES)):
            for way in ("ad hoc", "view"):
                got, wanted = found.get((name, stage, way)), ANSWERS[f"{name} {stage}"]
                if got is not None and got != wanted:
                    wrong.append(f"{name} at {stage}, {way}: wanted {wanted}, found {got}: {text}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)


def dataflow(db, query):
    lines = [line for line, in db.execute(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}").fetchall()]
    return [line.split()[1] for line in lines[lines.index("dataflow:"):] if line.startswith("  #")]


def test_rows_against_subqueries_are_joins(db, name):
    db.execute(f"CREATE TABLE {name}_o (a INT NOT NULL, b INT NOT NULL, c INT)")
    db.execute(f"CREATE TABLE {name}_p (a INT NOT NULL, b INT NOT NULL)")
    rows = f"SELECT * FROM {name}_o WHERE"
    assert dataflow(db, f"{rows} (a, c) IN (SELECT a, b FROM {name}_p)").count("join") == 1
    assert dataflow(db, f"{rows} (a, b) NOT IN (SELECT a, b FROM {name}_p)").count("join") == 1
    assert dataflow(db, f"{rows} NOT ((a, b) IN (SELECT a, b FROM {name}_p))").count("join") == 1
    assert dataflow(db, f"{rows} (a, c) NOT IN (SELECT a, b FROM {name}_p)").count("join") == 2


@pytest.mark.parametrize("query, state, said", [
    ("SELECT name, count(*) FROM {t} GROUP BY tag", "42803", 'column "{t}.name" must appear in the GROUP BY clause or be used in an aggregate function'),
    ("SELECT (id, tag) IN (SELECT 1) FROM {t}", "42601", "subquery has too few columns"),
    ("SELECT (id, tag) IN (SELECT 1, 2, 3) FROM {t}", "42601", "subquery has too many columns"),
    ("SELECT tag FROM {t} GROUP BY tag HAVING (tag, count(*)) IN (SELECT 1, 2)", "0A000", "an aggregate or a window function in a row that is compared with a subquery is not supported yet"),
    ("SELECT 'a' 'b' FROM {t}", "42601", "syntax error at or near 'b'"),
    ("SELECT count(*) FROM {t} WHERE (name).* = 1", "0A000", 'row expansion via "*" is not supported here'),
    ("SELECT (name).* FROM {t}", "42809", "column notation .* applied to type text, which is not a composite type"),
    ("SELECT id FROM {t} GROUP BY (tag)", "42803", 'column "{t}.id" must appear in the GROUP BY clause or be used in an aggregate function'),
])
def test_what_is_refused_is_named(db, name, query, state, said):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, tag INT, name TEXT)")
    for text in (query, f"CREATE MATERIALIZED VIEW {name}_v AS {query}"):
        with pytest.raises(psycopg.Error) as raised:
            db.execute(text.format(t=name))
        assert raised.value.sqlstate == state, raised.value
        assert said.format(t=name) in str(raised.value)


def test_a_row_inside_rows_inside_rows_is_refused_in_time(db, name):
    db.execute(f"CREATE TABLE {name} (a INT, b INT)")
    query = f"SELECT a, b FROM {name}"
    for _ in range(40):
        query = f"SELECT a, b FROM {name} WHERE (a, b) NOT IN ({query}) IS NULL"
    with pytest.raises(psycopg.Error) as raised:
        db.execute(query)
    assert raised.value.sqlstate == "54001", raised.value


def test_the_state_of_a_grouping_by_key_has_no_columns_of_aggregates(db, name):
    db.execute(f"CREATE TABLE {name} (id INT PRIMARY KEY, name TEXT, n INT, other TEXT)")
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT id, name, sum(n) AS n FROM {name} GROUP BY id")
    lines = "\n".join(line for line, in db.execute(f"EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT id, name, sum(n) AS n FROM {name} GROUP BY id").fetchall())
    assert "other" not in lines[lines.index("dataflow:"):]
    db.execute(f"INSERT INTO {name} VALUES (1, 'a', 5, 'x'), (2, NULL, 6, 'y')")
    db.execute(f"UPDATE {name} SET name = 'b', n = 7 WHERE id = 1")
    assert sorted(db.execute(f"SELECT * FROM {name}_v").fetchall()) == [(1, "b", 7), (2, None, 6)]
