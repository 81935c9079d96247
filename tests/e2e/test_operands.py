"""Operands of several types, arrays and functions in FROM: ad hoc and in views, before and after changes. The answers are
PostgreSQL 15's (`operands/regenerate.py` asks it again)."""
import importlib.util
from pathlib import Path

import psycopg
import pytest

FOLDER = Path(__file__).parent / "operands"


def module(name):
    spec = importlib.util.spec_from_file_location(f"operands_{name}", FOLDER / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


cases = module("cases")


ANSWERS = dict(part.split(" ==> ", 1) for part in (FOLDER / "answers.txt").read_text().splitlines())
KINDS = ["both", "ad_hoc", "refused"]


@pytest.fixture(scope="module")
def found(_shared):
    """For each query and stage, what the view and the ad-hoc query say; the views are made before all rows."""
    said = {}
    with _shared.connect() as db:
        for statement in cases.SETUP.split(";"):
            db.execute(statement)
        views = {}
        for number, (name, text, has_view) in enumerate(cases.queries()):
            if not has_view:
                continue
            try:
                db.execute(f"CREATE MATERIALIZED VIEW ex_v{number} AS {text}")
                views[name] = f"SELECT * FROM ex_v{number}"
            except psycopg.Error as error:
                said[name, "view"] = f"{error.sqlstate} {error.diag.message_primary}"
        for stage, changes in enumerate(cases.STAGES):
            for statement in changes.split(";"):
                db.execute(statement)
            for name, text, _ in cases.queries():
                said[name, stage, "ad hoc"] = cases.answer(db, text, name)
                if name in views:
                    said[name, stage, "view"] = cases.answer(db, views[name], name)
        yield said
        db.execute("DROP TABLE ex_a, ex_n, ex_m CASCADE")


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
                    wrong.append(f"{name} at {stage}, {way}:\n  {text}\n  wanted {wanted}\n  found  {got}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)


@pytest.mark.parametrize("text, state, said", [
    ("SELECT generate_series(1, 3)", "0A000", "generate_series() outside of FROM is not supported yet"),
    ("SELECT 1 WHERE generate_series(1, 3) = 1", "0A000", "generate_series() outside of FROM is not supported yet"),
    ("SELECT i + t FROM {t}", "42883", "operator does not exist: integer + text"),
    ("SELECT coalesce(i, t) FROM {t}", "42804", "COALESCE types text and integer cannot be matched"),
    ("SELECT i FROM {t} UNION ALL SELECT t FROM {t}", "42804", "UNION types text and integer cannot be matched"),
])
def test_what_is_refused_is_named(db, name, text, state, said):
    db.execute(f"CREATE TABLE {name} (i INT, t TEXT)")
    for statement in (text, f"CREATE MATERIALIZED VIEW {name}_v AS {text}"):
        with pytest.raises(psycopg.Error) as raised:
            db.execute(statement.format(t=name))
        assert raised.value.sqlstate == state, raised.value
        assert said in str(raised.value)


def test_a_struct_that_is_too_deep_is_told_as_such(db, name):
    def nested(depth):
        return "STRUCT<a INT, b " * depth + "INT" + ">" * depth

    db.execute(f"CREATE TABLE {name} (s {nested(8)})")
    for depth in (9, 10, 40):
        with pytest.raises(psycopg.Error) as raised:
            db.execute(f"CREATE TABLE {name}_{depth} (s {nested(depth)})")
        assert raised.value.sqlstate == "54001", raised.value
        assert "8 levels of STRUCT" in str(raised.value.diag.message_detail) + str(raised.value)


def test_defaults_that_fit_are_taken(db, name):
    db.execute(f"CREATE TABLE {name} (id INT, a INT DEFAULT '5', b DATE DEFAULT '2024-01-01', c INT[] DEFAULT '{{1,NULL}}', d NUMERIC(4,1) DEFAULT 2, e TEXT DEFAULT 7, f TIMESTAMP DEFAULT '2024-01-01 10:00', g BIGINT DEFAULT -1, h BOOLEAN DEFAULT NULL, i INTERVAL DEFAULT '1 day', j DOUBLE PRECISION DEFAULT '1.5')")
    db.execute(f"INSERT INTO {name} (id) VALUES (1)")
    found = [str(value) for value in db.execute(f"SELECT * FROM {name}").fetchone()]
    assert found == ["1", "5", "2024-01-01", "[1, None]", "2.0", "7", "2024-01-01 10:00:00", "-1", "None", "1 day, 0:00:00", "1.5"]
