"""Command line of the oracle. Exit 0 when every case passes; the last line is a summary."""
import argparse
import collections
import sys
import time

from .cases import make_case
from .judge import judge
from .shrink import shrink
from .targets import CenoteTarget, PostgresTarget


def arguments():
    p = argparse.ArgumentParser(prog="python -m oracle", description="Random views over changing tables, judged by DuckDB.")
    p.add_argument("--seed", type=int, help="the first case's seed (default: from the clock, printed)")
    p.add_argument("--cases", type=int, default=None, help="how many cases, seeds counting up (default 1 with --seed, else 40)")
    p.add_argument("--views", type=int, default=6, help="views per case")
    p.add_argument("--commits", type=int, default=10, help="commits per case")
    p.add_argument("--seconds", type=float, help="stop starting cases after so long")
    p.add_argument("--group", type=int, default=10, help="cases that share one restart")
    p.add_argument("--shrink-seconds", type=float, default=60)
    p.add_argument("--failures", type=int, default=3, help="stop after so many failing cases")
    p.add_argument("--allow-refused", action="store_true", help="count views that are refused as not supported, do not fail")
    p.add_argument("--dsn", help="judge a PostgreSQL server with plain views instead: checks the oracle itself")
    p.add_argument("--show", action="store_true", help="print the cases' SQL and run nothing")
    return p.parse_args()


def targets(a):
    if a.dsn:
        return PostgresTarget(a.dsn), None
    return CenoteTarget(1), CenoteTarget(4)


def failing_alike(error, pair):
    """For shrinking: whether a case fails in the way that `error` tells of."""
    def check(case):
        other = judge([case], *pair)[0].error
        return other is not None and kind_of(other) == kind_of(error)
    return check


def kind_of(error):
    return getattr(error, "kind", type(error).__name__)


def report(a, verdict, pair):
    """Prints a failing case, made small, with the command that replays it."""
    sizes = f"{'' if a.views == 6 else f' --views {a.views}'}{'' if a.commits == 10 else f' --commits {a.commits}'}"
    print(f"FAIL case {verdict.case.seed}: {verdict.error}")
    print(f"  replay: make oracle ARGS='--seed {verdict.case.seed}{sizes}'", flush=True)
    check = failing_alike(verdict.error, pair)
    if a.shrink_seconds and check(verdict.case):
        small = shrink(verdict.case, check, a.shrink_seconds)
        print(f"  shrunk: {judge([small], *pair)[0].error}")
        print("\n".join(f"    {line}" for line in small.script().splitlines()), flush=True)


def main():
    a = arguments()
    start = time.monotonic()
    if a.seed is None:
        a.seed = int(time.time()) % 10_000_000
        print(f"oracle: first seed {a.seed}")
        count = a.cases or 40
    else:
        count = a.cases or 1
    if a.show:
        for seed in range(a.seed, a.seed + count):
            print(f"-- case {seed}\n{make_case(seed, a.views, a.commits).script()}\n")
        return 0
    pair = targets(a)
    passed = failed = checks = 0
    refusals = collections.Counter()
    try:
        for first in range(a.seed, a.seed + count, a.group):
            if failed >= a.failures or (a.seconds and time.monotonic() - start > a.seconds):
                break
            cases = [make_case(s, a.views, a.commits) for s in range(first, min(first + a.group, a.seed + count))]
            for verdict in judge(cases, *pair):
                checks += verdict.checks
                refusals.update(verdict.refused.values())
                bad = verdict.error is not None or bool(verdict.refused and not a.allow_refused)
                failed, passed = failed + bad, passed + (not bad)
                if verdict.error is not None and failed <= a.failures:
                    report(a, verdict, pair)
                elif verdict.refused and not a.allow_refused:
                    name, why = next(iter(verdict.refused.items()))
                    print(f"FAIL case {verdict.case.seed}: {name} was refused: {why}")
    finally:
        for target in pair:
            if target:
                target.close()
    for why, times in refusals.most_common(10):
        print(f"refused {times} times: {why}")
    print(f"oracle: {checks} comparisons in {time.monotonic() - start:.0f} s, seeds {a.seed} to {a.seed + count - 1}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
