"""Runs a case in each mode and compares every view with DuckDB's answer after every commit.

| Mode | Workers | Commits | Views are made | Restart |
|---|---|---|---|---|
| `commits` | 1 | as they are | where the case says | none |
| `batched` | 4 | merged into transactions at random | at random | SIGKILL in the middle |

After the last commit both modes must also give the same digest for every table, view and operator state, and the
query of each view must give the same rows when asked ad hoc.
"""
import random
from collections import defaultdict
from dataclasses import dataclass, field

import duckdb
import psycopg

from . import compare
from .dialect import fetched
from .targets import Refused


class Mismatch(Exception):
    """A wrong answer: which view, where, and how it differs."""

    def __init__(self, kind, target, step, subject, text):
        super().__init__(f"{subject} on {target} after commit {step}: {text}")
        self.kind = kind


@dataclass
class Truth:
    """DuckDB's answers for a case: the decoded rows of every view after every number of commits."""

    case: object
    rows: dict = field(default_factory=dict)

    @classmethod
    def of(cls, case):
        truth = cls(case)
        connection = duckdb.connect(config={"threads": 1})
        connection.execute("SET TimeZone = 'UTC'")
        try:
            for table in case.tables:
                connection.execute(table.create().duck)
            for view in case.views:
                connection.execute(f"CREATE VIEW {view.name} AS {view.relation.duck}")
            for step in range(len(case.commits) + 1):
                for statement in case.commits[step - 1] if step else ():
                    connection.execute(statement.sql().duck)
                for view in case.views:
                    truth.rows[step, view.name] = decoded(connection, f"SELECT * FROM {view.name}", view.relation.columns)
        finally:
            connection.close()
        return truth


def decoded(connection, query, columns):
    """The rows of a query of DuckDB's, in canonical form."""
    inner = ", ".join(f"x{i}" for i in range(len(columns)))
    listed = ", ".join(fetched(f"x{i}", c.type) for i, c in enumerate(columns))
    rows = connection.execute(f"SELECT {listed} FROM ({query}) AS q({inner})").fetchall()
    return [compare.expected_row(row, columns) for row in rows]


@dataclass
class Run:
    """One case on one target in one mode, in two halves so that a restart can serve many cases."""

    case: object
    target: object
    truth: Truth
    mode: str
    adhoc: bool = True
    refused: dict = field(default_factory=dict)
    checks: int = 0

    def __post_init__(self):
        self.step = 0
        rng = random.Random(f"{self.case.seed} {self.mode}")
        self.created = {v.name: v.created_after for v in self.case.views}
        self.cuts = list(range(1, len(self.case.commits) + 1))
        if self.mode == "batched":
            self.cuts = [c for c in self.cuts if rng.random() < 0.4 or c == len(self.case.commits)]
            self._create_elsewhere(rng)

    def _create_elsewhere(self, rng):
        for view in self.case.views:
            lowest = max([self.created[u] for u in view.uses if u in self.created], default=0)
            self.created[view.name] = max(lowest, rng.choice([0, *self.cuts]))

    def begin(self):
        for table in self.case.tables:
            self.target.run([table.create()])
        self._create_views()

    def advance(self, share):
        """Commits and compares until `share` (0 to 1) of the commits are done."""
        until = round(len(self.case.commits) * share)
        while self.step < until:
            cut = next(c for c in self.cuts if c > self.step)
            self.target.run([s.sql() for commit in self.case.commits[self.step:cut] for s in commit])
            self.step = cut
            self._create_views()
            self.check()

    def _create_views(self):
        for view in self.case.views:
            if self.created.get(view.name, -1) <= self.step and not view.uses & self.refused.keys():
                if view.name in self.created:
                    self._create(view)

    def _create(self, view):
        self.created.pop(view.name)
        try:
            self.target.create_view(view.name, view.relation)
        except Refused as error:
            self.refused[view.name] = str(error).splitlines()[0]
        except psycopg.Error as error:
            raise Mismatch("create", self.target, self.step, view.name, f"cannot be created: {error}") from error

    @property
    def live(self):
        return [v for v in self.case.views if v.name not in self.created and v.name not in self.refused]

    def check(self):
        """Compares all views as they stand."""
        for view in self.live:
            self._compare(view, f"SELECT * FROM {view.name}", view.name)

    def check_adhoc(self):
        for view in self.live:
            if self.adhoc:
                self._compare(view, view.relation.pg, f"the ad-hoc query of {view.name}")

    def _compare(self, view, query, subject):
        try:
            oids, rows = self.target.read(query)
        except psycopg.Error as error:
            raise Mismatch("read", self.target, self.step, subject, f"cannot be read: {error}") from error
        if rows is None:
            return
        self.checks += 1
        columns = view.relation.columns
        if oids is not None and (wrong := wrong_types(oids, columns)):
            raise Mismatch("types", self.target, self.step, subject, wrong)
        if not self.target.exact_float_sums:
            loosened = self._loosened(view)
        else:
            loosened = self.truth.rows[self.step, view.name]
        missing, extra = compare.differences(loosened, [compare.got_row(r, columns) for r in rows], columns)
        if missing or extra:
            raise Mismatch("rows", self.target, self.step, subject, difference_text(missing, extra))

    def _loosened(self, view):
        """For PostgreSQL, whose float sums depend on row order: any finite sum is accepted."""
        floats = [i for i, c in enumerate(view.relation.columns) if c.opaque and c.type.family == "float"]
        return [tuple(_Anything() if i in floats else v for i, v in enumerate(row)) for row in self.truth.rows[self.step, view.name]]

    def end(self):
        """Drops what the case made."""
        for view in reversed(self.case.views):
            self.target.drop("MATERIALIZED VIEW", view.name)
        for table in self.case.tables:
            self.target.drop("TABLE", table.name)


class _Anything(compare.Approximate):
    def __init__(self):
        super().__init__(0)

    def agrees(self, got):
        return True


def wrong_types(oids, columns):
    """Says which column has another type than PostgreSQL would give it, or nothing."""
    same = {1043: 25, 19: 25}
    for i, (oid, column) in enumerate(zip(oids, columns)):
        if same.get(oid, oid) != column.type.oid:
            return f"column {i + 1} has the type of OID {oid}, PostgreSQL gives {column.type} (OID {column.type.oid})"
    return None if len(oids) == len(columns) else f"{len(oids)} columns instead of {len(columns)}"


def difference_text(missing, extra, most=5):
    lines = []
    for title, rows in (("missing", missing), ("extra", extra)):
        lines += [f"  {title:>7}: {compare.shown(row)}" for row in rows[:most]]
        if len(rows) > most:
            lines.append(f"  {title:>7}: ... {len(rows)} in all")
    return "\n" + "\n".join(lines)


@dataclass
class Verdict:
    """What came of one case."""

    case: object
    error: Exception | None = None
    checks: int = 0
    refused: dict = field(default_factory=dict)


def judge(cases, commits_target, batched_target, adhoc=True):
    """Runs cases in both modes; the second mode restarts once for all of them.

    # Returns
    One `Verdict` per case, in order. A case that failed in the first mode is not run in the second.
    """
    verdicts = [Verdict(case) for case in cases]
    truths, digests = {}, defaultdict(dict)
    for verdict in verdicts:
        with _Watched(verdict, commits_target) as watched:
            truths[verdict.case.seed] = Truth.of(verdict.case)
            run = watched.run = Run(verdict.case, commits_target, truths[verdict.case.seed], "commits", adhoc)
            run.begin()
            run.check()
            run.advance(1)
            run.check_adhoc()
            digests[verdict.case.seed] = commits_target.digests(f"o{verdict.case.seed}_")
    if batched_target is not None:
        _batched([v for v in verdicts if v.error is None], batched_target, truths, digests, adhoc)
    return verdicts


def _batched(verdicts, target, truths, digests, adhoc):
    runs = {v.case.seed: Run(v.case, target, truths[v.case.seed], "batched", adhoc) for v in verdicts}
    for verdict in verdicts:
        with _Watched(verdict, target, runs[verdict.case.seed], keep=True) as watched:
            watched.run.begin()
            watched.run.advance(0.5)
    target.restart()
    for verdict in verdicts:
        if verdict.error is not None:
            continue
        with _Watched(verdict, target, runs[verdict.case.seed]) as watched:
            watched.run.check()
            watched.run.advance(1)
            watched.run.check_adhoc()
            _same_digests(watched.run, digests[verdict.case.seed], target.digests(f"o{verdict.case.seed}_"))


def _same_digests(run, first, second):
    for name in sorted(first.keys() | second.keys()):
        if first.get(name) != second.get(name):
            raise Mismatch("digest", run.target, run.step, name,
                           f"digest {second.get(name)}, in mode `commits` {first.get(name)}")


class _Watched:
    """Turns whatever goes wrong in a case into its verdict, cleans up, and brings a dead server back."""

    def __init__(self, verdict, target, run=None, keep=False):
        self.verdict, self.target, self.run, self.keep = verdict, target, run, keep

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        if error is not None and not isinstance(error, Exception):
            return False
        if isinstance(error, Exception):
            self.verdict.error = error
        if self.target.revive() and error is not None:
            self.verdict.error = Mismatch("died", self.target, getattr(self.run, "step", 0), "the server", f"died or hung up: {error}")
        elif self.run and (error is not None or not self.keep):
            self._clean()
        if self.run:
            self.verdict.checks += self.run.checks
            self.run.checks = 0
            self.verdict.refused.update(self.run.refused)
        return True

    def _clean(self):
        try:
            self.target.abandon()
            self.run.end()
        except Exception as error:  # noqa: BLE001 - a second failure must not hide the first
            self.verdict.error = self.verdict.error or error
