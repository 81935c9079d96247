"""The order of evaluation: guards x places, ad hoc and in views, before and after changes. The answers are PostgreSQL 15's
(`order/regenerate.py` asks it again)."""
import sys
from pathlib import Path

import psycopg
import pytest

FOLDER = Path(__file__).parent / "order"
sys.path.insert(0, str(FOLDER))
import cases  # noqa: E402
from regenerate import answer  # noqa: E402

ANSWERS = dict(line.split(" ==> ") for line in (FOLDER / "answers.txt").read_text().splitlines())
# PostgreSQL takes a subquery without outer columns out of an AND of conditions, and computes it first.
ANSWERS.update({name: "" for name in ANSWERS if name.split("-")[0] in ("where", "having", "inner") and "-and-free" in name})


@pytest.fixture(scope="module")
def loaded(_shared):
    with _shared.connect() as connection:
        connection.execute(cases.SETUP)
        yield connection
        connection.execute("DROP TABLE ord_t, ord_s, ord_u CASCADE")


def of_place(place):
    return [(name, text, views) for name, text, views in cases.queries() if name.split("-")[0] == place]


@pytest.mark.parametrize("place", [*cases.PLACES, *cases.AD_HOC, "whole", "ad_hoc"])
def test_guards_hold(loaded, place):
    loaded.execute("DELETE FROM ord_t; DELETE FROM ord_s; DELETE FROM ord_u")
    wrong, views = [], {}
    for number, (name, text, has_view) in enumerate(of_place(place)):
        if has_view and ANSWERS[name][:1] != "!":
            try:
                loaded.execute(f"CREATE MATERIALIZED VIEW ord_v{number} AS {text}")
                views[name] = f"ord_v{number}"
            except psycopg.errors.FeatureNotSupported as error:
                assert "windowed" in name, f"{name}: {error}"
            except psycopg.Error as error:
                wrong.append(f"{name}: view: {error.sqlstate} {error.diag.message_primary}: {text}")
    for statement in cases.ROWS.split(";"):
        loaded.execute(statement)
    for name, text, _ in of_place(place):
        found = answer(loaded, text)
        if found != ANSWERS[name]:
            wrong.append(f"{name}: ad hoc: wanted {ANSWERS[name]}, found {found}: {text}")
    for name, view in views.items():
        found = answer(loaded, f"SELECT * FROM {view}")
        errors = loaded.execute("SELECT reason, text FROM cenote_catalog.errors WHERE source = %s", (view,)).fetchall()
        if found != ANSWERS[name] or errors:
            wrong.append(f"{name}: view: wanted {ANSWERS[name]}, found {found}, errors {errors}")
        loaded.execute(f"DROP MATERIALIZED VIEW {view}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)
