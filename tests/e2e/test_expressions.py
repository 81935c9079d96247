"""Scalar expressions answer as PostgreSQL does: as constants, over columns, and in a materialized view."""
import pytest
from harness import expressions


@pytest.mark.parametrize("name", expressions.lists())
def test_expressions_answer_as_postgresql(db, name):
    differences, wrong = expressions.differences(), []
    for number, (expression, wanted) in enumerate(expressions.read(name)):
        wanted = differences.get(expression, wanted)
        for way, (found, type_oid) in expressions.run(db, f"expr_{name}", number, expression).items():
            if not expressions.is_same(wanted, found, type_oid):
                wrong.append(f"{expression}: {way}: wanted {wanted}, found {found}")
    assert not wrong, f"{len(wrong)} differ:\n" + "\n".join(wrong)


def test_differences_name_expressions_of_the_lists():
    known = {expression for name in expressions.lists() for expression, _ in expressions.read(name)}
    assert set(expressions.differences()) <= known
