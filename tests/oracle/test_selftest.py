"""Shows that the oracle can fail: wrong answers put in on purpose are found, shrunk, and replayed by their seed."""
import argparse
import math
from decimal import Decimal
from fractions import Fraction

import pytest

from . import compare, expressions, relations
from . import types as t
from .__main__ import failing_alike, report
from .cases import make_case
from .expressions import Expr
from .judge import judge
from .shrink import shrink
from .targets import DuckTarget

SEED = 4242
INTEGER = (Expr("a", "a", t.INTEGER),)


def verdict(case, spoil=lambda query, rows: rows):
    """Judges a case on DuckDB with the fault in the second mode only."""
    first, second = DuckTarget(), DuckTarget(spoil)
    try:
        return judge([case], first, second)[0]
    finally:
        first.close()
        second.close()


def lose_a_row(_query, rows):
    return rows[1:]


def double_a_row(_query, rows):
    return rows + rows[:1]


def change_a_value(_query, rows):
    return [(("changed",) + rows[0][1:])] + rows[1:] if rows else rows


def test_right_answers_pass_and_are_many():
    done = verdict(make_case(SEED))
    assert done.error is None
    assert done.checks > 60


@pytest.mark.parametrize("fault", [lose_a_row, double_a_row, change_a_value])
def test_a_wrong_row_is_caught(fault):
    assert "missing" in str(verdict(make_case(SEED), fault).error) or "extra" in str(verdict(make_case(SEED), fault).error)


def test_a_fault_at_one_late_commit_of_one_view_is_caught():
    reads = []

    def once(query, rows):
        reads.append(query)
        return rows[1:] if rows and len(reads) == 25 else rows

    assert verdict(make_case(SEED), once).error is not None


def test_a_failing_case_shrinks_to_one_view_and_one_commit():
    def wrong_maximum(query, rows):
        return lose_a_row(query, rows) if query.endswith("_v2") else rows

    case = make_case(SEED)
    pair = DuckTarget(), DuckTarget(wrong_maximum)
    error = judge([case], *pair)[0].error
    small = shrink(case, failing_alike(error, pair), seconds=20)
    assert [v.name for v in small.views] == [f"o{SEED}_v2"]
    assert len(small.commits) == 1
    assert failing_alike(error, pair)(small)


def test_the_report_names_the_command_that_replays_the_case(capsys):
    case = make_case(SEED)
    pair = DuckTarget(), DuckTarget(lose_a_row)
    arguments = argparse.Namespace(views=6, commits=10, shrink_seconds=0)
    report(arguments, judge([case], *pair)[0], pair)
    assert f"make oracle ARGS='--seed {SEED}'" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_case():
    assert make_case(SEED).script() == make_case(SEED).script()
    assert make_case(SEED).script() != make_case(SEED + 1).script().replace(str(SEED + 1), str(SEED))


def test_every_registered_feature_is_reached(monkeypatch):
    reached = set()

    def counted(function):
        def run(*arguments):
            made = function(*arguments)
            if made:
                reached.add(function.__name__)
            return made
        return run

    names = set()
    for module, registry in ((expressions, "SCALARS"), (expressions, "PREDICATES"), (expressions, "AGGREGATES"),
                             (relations, "SOURCES"), (relations, "FINISHES"), (relations, "WRAPPERS")):
        features = getattr(module, registry)
        names |= {function.__name__ for _, function in features}
        monkeypatch.setattr(module, registry, [(weight, counted(function)) for weight, function in features])
    for seed in range(25):
        make_case(seed)
    assert names - reached == set()


def test_bags_count_duplicates_and_tell_nan_from_null():
    assert compare.differences([(1,), (1,)], [(1,)], INTEGER) == ([(1,)], [])
    assert compare.differences([(1,)], [(1,), (2,)], INTEGER) == ([], [(2,)])
    double = (Expr("a", "a", t.DOUBLE),)
    nan = compare.got_row((math.nan,), double)
    assert compare.differences([nan], [nan], double) == ([], [])
    assert compare.differences([nan], [(None,)], double) != ([], [])


def test_a_decimal_of_another_scale_is_another_value():
    column = (Expr("a", "a", t.numeric(10, 2)),)
    want, got = compare.expected_row((Decimal("1.10"),), column), compare.got_row((Decimal("1.1"),), column)
    assert compare.differences([want], [got], column) != ([], [])


def test_doubles_are_compared_bit_for_bit():
    column = (Expr("a", "a", t.DOUBLE),)
    near = (compare.canonical(0.1 + 0.2, t.DOUBLE),)
    assert compare.differences([(0.3,)], [near], column) != ([], [])


@pytest.mark.parametrize("values, total", [
    ([1e16, 1.0, -1e16], 1.0),
    ([0.1] * 10, 1.0),
    ([math.inf, 1.0], math.inf),
    ([1e300, 1e300, -1e300], 1e300),
])
def test_a_float_sum_is_the_exact_sum_rounded_once(values, total):
    assert compare.exact_float_sum(values) == total


def test_a_float_sum_of_both_infinities_is_nan():
    assert math.isnan(compare.exact_float_sum([math.inf, -math.inf]))


def test_an_average_must_agree_to_the_digits_that_it_shows():
    third = compare.Approximate(Fraction(1, 3), Fraction(1, 10**6))
    assert third.agrees(Decimal("0.3333333333333333"))
    assert not third.agrees(Decimal("0.3333333333333353"))
    assert not third.agrees(Decimal("0.33"))
    assert not third.agrees(None)
