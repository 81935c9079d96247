"""Command line of the oracle. Exit 0 when every case passes; the last line is a summary."""
import argparse
import collections
import re
import signal
import sys
import time
from pathlib import Path

from harness import python_cache

from .cases import make_case
from .judge import Truth, judge
from .shrink import shrink
from .targets import CenoteTarget, PostgresTarget

VIEWS, COMMITS = 10, 20
REFUSED_MOST = 0.25


def arguments():
    p = argparse.ArgumentParser(prog="python -m oracle", description="Random views over changing tables, judged by DuckDB.")
    p.add_argument("--seed", type=int, help="the first case's seed (default: from the clock, printed)")
    p.add_argument("--cases", type=int, default=None, help="how many cases, seeds counting up (default 1 with --seed, else 50)")
    p.add_argument("--views", type=int, default=VIEWS, help="views per case")
    p.add_argument("--commits", type=int, default=COMMITS, help="commits per case")
    p.add_argument("--seconds", type=float, help="stop starting cases after so long")
    p.add_argument("--group", type=int, default=10, help="cases that share one restart")
    p.add_argument("--shrink-seconds", type=float, default=60)
    p.add_argument("--failures", type=int, default=3, help="stop after so many failing cases")
    p.add_argument("--each", type=int, default=1, help="how many failures of one kind to report in full")
    p.add_argument("--ignore", action="append", default=[], metavar="REGEX", help="count failures whose text or query matches, do not report")
    p.add_argument("--dsn", help="judge a PostgreSQL server with plain views instead: checks the oracle itself")
    p.add_argument("--out", type=Path, default=python_cache() / "oracle", help="folder for the case files of failures")
    p.add_argument("--show", action="store_true", help="print the cases' SQL and run nothing")
    return p.parse_args()


def targets(a):
    if a.dsn:
        return PostgresTarget(a.dsn), None
    return CenoteTarget(1), CenoteTarget(4)


def failing_alike(error, pair):
    """For shrinking: whether a case fails in the way that `error` tells of; in the first mode alone when it was that."""
    if getattr(error, "target", None) is pair[0]:
        pair = pair[0], None

    def check(case):
        return any(kind_of(other) == kind_of(error) for other in judge([case], *pair)[0].errors)
    return check


def kind_of(error):
    return getattr(error, "kind", type(error).__name__), getattr(error, "state", None)


def new_errors(a, verdict, seen):
    """The errors of a verdict that are not ignored and of a kind not seen before; counts all of them."""
    for error in verdict.errors:
        told = f"{error} {getattr(error, 'query', '')}"
        if ignored := next((i for i in a.ignore if re.search(i, told, re.S)), None):
            seen[f"ignored: {ignored}"] += 1
            continue
        signature = " ".join(filter(None, map(str, kind_of(error))))
        seen[signature] += 1
        if seen[signature] <= a.each:
            yield error


def report(a, verdict, error, pair):
    """Prints a failing case with the command that replays it, makes it small, and writes that as a case file."""
    sizes = f"{'' if a.views == VIEWS else f' --views {a.views}'}{'' if a.commits == COMMITS else f' --commits {a.commits}'}"
    print(f"FAIL case {verdict.case.seed}: {error}")
    print(f"  replay: make oracle ARGS='--seed {verdict.case.seed}{sizes}'", flush=True)
    check = failing_alike(error, pair)
    if not a.shrink_seconds:
        return
    if not check(verdict.case):
        print("  which did not happen again at once: it may depend on timing, or on the cases before it")
        return
    small = shrink(verdict.case, check, a.shrink_seconds)
    found = next((e for e in judge([small], *pair)[0].errors if kind_of(e) == kind_of(error)), error)
    print(f"  shrunk: {found}")
    text = f"-- oracle, seed {small.seed}: {' '.join(str(found).split())[:150]}\n{small.script(Truth.of(small).lines)}\n"
    a.out.mkdir(parents=True, exist_ok=True)
    written = a.out / f"seed-{small.seed}-{getattr(error, 'kind', 'error')}.sql"
    written.write_text(text)
    print("\n".join(f"    {line}" for line in text.splitlines()))
    print(f"  written to {written}; rows by DuckDB; run: tests/cases/run_cases.py --cenote BIN {written}", flush=True)


class Tally:
    """What came of all cases."""

    def __init__(self):
        self.passed = self.failed = self.checks = self.digests = self.queries = self.commits = self.unrunnable = 0
        self.seen = collections.Counter()
        self.refused, self.refused_adhoc = collections.Counter(), collections.Counter()

    def add(self, verdict):
        self.checks += verdict.checks
        self.digests += verdict.digests
        self.queries += len(verdict.case.views)
        self.commits += len(verdict.case.commits)
        self.unrunnable += verdict.case.unrunnable
        self.refused.update(map(reason, verdict.refused.values()))
        self.refused_adhoc.update(map(reason, verdict.refused_adhoc.values()))

    def count(self, a, verdict, pair):
        """Whether the case passed; its failures are reported, until there were enough."""
        before = sum(n for what, n in self.seen.items() if not what.startswith("ignored"))
        for error in new_errors(a, verdict, self.seen):
            if self.failed < a.failures:
                report(a, verdict, error, pair)
        bad = sum(n for what, n in self.seen.items() if not what.startswith("ignored")) > before
        self.failed, self.passed = self.failed + bad, self.passed + (not bad)

    def tell(self, seconds):
        if self.seen:
            print("failures by kind:")
            print("\n".join(f"  {times:5} {what}" for what, times in self.seen.most_common()))
        for title, table in (("as a materialized view", self.refused), ("ad hoc", self.refused_adhoc)):
            if table:
                print(f"{sum(table.values())} of {self.queries} queries refused {title}:")
                print("\n".join(f"  {times:5} {why}" for why, times in table.most_common()))
        if self.unrunnable:
            print(f"{self.unrunnable} queries thrown away: DuckDB could not run them")
        each = self.queries and seconds / self.queries
        print(f"oracle: {self.queries} queries, {self.commits} commits in two modes, {self.checks} comparisons,"
              f" {self.digests} digests in {seconds:.0f} s"
              f" ({each:.2f} s per query)")


def reason(text):
    """A refusal without the names of this case, so that like ones are counted together."""
    text = re.sub(r"over o\d+_v\d+, which", "over a view that", text)
    return re.sub(r"\bo\d+_[tv]\d+\b|\bw?r\d+\b", "_", text)[:150]


def main():
    a = arguments()
    start = time.monotonic()
    if a.seed is None:
        a.seed = int(time.time()) % 10_000_000
        print(f"oracle: first seed {a.seed}")
        count = a.cases or 50
    else:
        count = a.cases or 1
    if a.show:
        for seed in range(a.seed, a.seed + count):
            print(f"-- case {seed}\n{make_case(seed, a.views, a.commits).script()}\n")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped too
    pair, tally = targets(a), Tally()
    try:
        for first in range(a.seed, a.seed + count, a.group):
            if tally.failed >= a.failures or (a.seconds and time.monotonic() - start > a.seconds):
                break
            cases = [make_case(s, a.views, a.commits) for s in range(first, min(first + a.group, a.seed + count))]
            for verdict in judge(cases, *pair):
                tally.add(verdict)
                tally.count(a, verdict, pair)
    finally:
        for target in pair:
            if target:
                target.close()
    tally.tell(time.monotonic() - start)
    refused = sum(tally.refused.values())
    if refused > REFUSED_MOST * tally.queries and tally.queries >= 50:
        print(f"FAIL: {refused} of {tally.queries} queries refused, more than {REFUSED_MOST:.0%}")
        tally.failed += 1
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
