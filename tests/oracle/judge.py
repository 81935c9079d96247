"""Runs a case in each mode and compares every view with DuckDB's answer after every commit.

| Mode | Workers | Commits | Views are made | Restart |
|---|---|---|---|---|
| `commits` | 1 | as they are | where the case says | none |
| `batched` | 4 | merged into transactions at random | at random | SIGKILL in the middle |

After the last commit both modes must also give the same digest for every table, view and operator state. The query of
each view must give the same rows when asked ad hoc, half way and at the end; a view that is refused as not supported in
a materialized view is made a plain one, so that its query is still asked.
"""
import random
import re
from dataclasses import dataclass, field

import psycopg

from . import compare
from .cases import Duck
from .dialect import fetched
from .targets import Refused


class Mismatch(Exception):
    """A wrong answer: which view, where, and how it differs."""

    def __init__(self, kind, target, step, subject, text, query=""):
        super().__init__(f"{subject} on {target} after commit {step}: {text}")
        self.kind, self.query, self.target = kind, query, target
        self.state = text.splitlines()[0][:40] if kind in ("create", "read") else None


@dataclass
class Truth:
    """DuckDB's answers for a case: the decoded rows of every view after every number of commits."""

    case: object
    rows: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)

    @classmethod
    def of(cls, case):
        truth = cls(case)
        with Duck() as duck:
            for table in case.tables:
                duck.run(table.create().duck)
            stale = {view.name for view in case.views}
            for step in range(len(case.commits) + 1):
                for statement in case.commits[step - 1] if step else ():
                    duck.run(statement.sql().duck)
                    stale.add(statement.table)
                for view in case.views:
                    truth._ask(duck, view, step, stale)
                stale = set()
        return truth

    def _ask(self, duck, view, step, stale):
        """Asks again when something that the view reads may have changed."""
        if view.name not in stale and not view.uses & stale:
            self.rows[step, view.name] = self.rows[step - 1, view.name]
            self.failures[step, view.name] = self.failures[step - 1, view.name]
            return
        stale.add(view.name)
        query, failures = view.relation.duck, view.relation.failures
        self.failures[step, view.name] = duck.run(failures)[0][0] if failures else 0
        if any(view.name in other.uses for other in self.case.views):
            duck.run(f"CREATE OR REPLACE TABLE {view.name} AS {query}")
            query = f"SELECT * FROM {view.name}"
        self.rows[step, view.name] = decoded(duck, query, view.relation.columns)


    def lines(self, step, view):
        """The rows of a view as the lines of a case file (see `cases/run_cases.py`)."""
        columns = view.relation.columns
        rows = [[compare.pg_text(v, c.type) for v, c in zip(row, columns)] for row in self.rows[step, view.name]]
        if any(v is None or "\n" in v for row in rows for v in row):
            return [f"-- {compare.shown(row)}" for row in self.rows[step, view.name]]
        return sorted(f"--> {'|'.join(row)}" for row in rows) or ["-- no rows"]


def decoded(duck, query, columns):
    """The rows of a query of DuckDB's, in canonical form."""
    return compare.expected_rows(undecoded(duck, query, columns), columns)


def undecoded(duck, query, columns):
    """The rows of a query as DuckDB gives them."""
    inner = ", ".join(f"x{i}" for i in range(len(columns)))
    listed = ", ".join(fetched(f"x{i}", c.type) for i, c in enumerate(columns))
    return duck.run(f"SELECT {listed} FROM ({query}) AS q({inner})")


@dataclass
class Run:
    """One case on one target in one mode, in two halves so that a restart can serve many cases."""

    case: object
    target: object
    truth: Truth
    mode: str
    adhoc: bool = True
    refused: dict = field(default_factory=dict)
    refused_adhoc: dict = field(default_factory=dict)
    absent: set = field(default_factory=set)
    errors: list = field(default_factory=list)
    wrong: set = field(default_factory=set)
    checks: int = 0

    def __post_init__(self):
        self.step, self.broken, self.digests_compared = 0, False, 0
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
            if self.created.get(view.name, -1) <= self.step and view.name in self.created:
                self._create(view)

    def _create(self, view):
        """Makes a view; one that is refused as a materialized view becomes a plain one, to be asked ad hoc."""
        self.created.pop(view.name)
        if below := view.uses & self.absent:
            self.refused[view.name] = f"over {min(below)}, which was refused altogether"
            self.absent.add(view.name)
            return
        try:
            self.target.create_view(view.name, view.relation)
        except Refused as error:
            self.refused[view.name] = str(error).splitlines()[0]
            self._create_plain(view)
        except psycopg.Error as error:
            self._wrong(view, "create", view.name, f"cannot be created: {error}")

    def _wrong(self, view, kind, subject, text):
        """Keeps a wrong answer, and looks no more at the view nor at those over it."""
        if not view.uses & self.wrong and view.name not in self.wrong:
            self.errors.append(Mismatch(kind, self.target, self.step, subject, text, view.relation.pg))
        self.wrong.add(view.name)
        if kind == "create":
            self.absent.add(view.name)

    def _create_plain(self, view):
        try:
            self.target.create_plain_view(view.name, view.relation)
        except Refused:
            self.absent.add(view.name)
        except psycopg.Error as error:
            self._wrong(view, "create", view.name, f"cannot be created as a plain view: {error}")

    @property
    def there(self):
        made = [v for v in self.case.views if v.name not in self.created and v.name not in self.absent]
        for view in made:
            if view.uses & self.wrong:
                self.wrong.add(view.name)
        return [v for v in made if v.name not in self.wrong]

    def check(self):
        """Compares all materialized views as they stand."""
        for view in self.there:
            if view.name not in self.refused:
                self._compare(view, f"SELECT * FROM {view.name}", view.name)

    def check_adhoc(self):
        """Asks the query of every view, those too that were refused as materialized views."""
        for view in self.there:
            if self.adhoc:
                self._compare(view, view.relation.pg, f"the ad-hoc query of {view.name}", adhoc=True)

    def _compare(self, view, query, subject, adhoc=False):
        failures = self.truth.failures[self.step, view.name]
        must_fail = failures > 0 and self.target.fails and (adhoc or not self.target.row_errors)
        try:
            oids, rows = self.target.read(query)
            told = failures if adhoc or not self.target.row_errors else self.target.failures(view.name)
        except Refused as error:
            self.refused_adhoc[view.name] = str(error).splitlines()[0]
            return
        except psycopg.errors.DataError as error:
            if not must_fail:
                self._wrong(view, "read", subject, f"cannot be read: {error}")
            return
        except psycopg.Error as error:
            if self.target.gone():
                raise
            self._wrong(view, "read", subject, f"cannot be read: {error}")
            return
        if rows is None:
            return
        self.checks += 1
        if must_fail or told != failures:
            self._wrong(view, "failures", subject, f"{failures} rows fail, {'and there is no error' if must_fail else f'{told} are told of'}")
            return
        columns = view.relation.columns
        if oids is not None and (wrong := wrong_types(oids, columns)):
            self._wrong(view, "types", subject, wrong)
            return
        want = self.truth.rows[self.step, view.name] if self.target.exact_float_sums else self._loosened(view)
        missing, extra = compare.differences(want, compare.got_rows(rows, columns), columns)
        if missing or extra:
            self._wrong(view, "adhoc" if adhoc else "rows", subject, difference_text(missing, extra))

    def _loosened(self, view):
        """For PostgreSQL, whose float sums depend on row order: any finite sum is accepted."""
        floats = [i for i, c in enumerate(view.relation.columns) if c.opaque and c.type.family == "float"]
        return [tuple(_Anything() if i in floats else v for i, v in enumerate(row)) for row in self.truth.rows[self.step, view.name]]

    def end(self):
        """Drops what the case made."""
        for view in reversed(self.case.views):
            self.target.drop("VIEW" if view.name in self.refused else "MATERIALIZED VIEW", view.name)
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
    """What came of one case. `error`: the first of its `errors`."""

    case: object
    errors: list = field(default_factory=list)
    checks: int = 0
    digests: int = 0
    refused: dict = field(default_factory=dict)
    refused_adhoc: dict = field(default_factory=dict)

    @property
    def error(self):
        return self.errors[0] if self.errors else None


def judge(cases, commits_target, batched_target, adhoc=True):
    """Runs cases in both modes; the second mode restarts once for all of them.

    # Returns
    One `Verdict` per case, in order. A case that broke off in the first mode is not run in the second.
    """
    verdicts = [Verdict(case) for case in cases]
    truths, digests, wrong = {}, {}, {}
    for verdict in verdicts:
        with _Watched(verdict, commits_target) as watched:
            truths[verdict.case.seed] = Truth.of(verdict.case)
            run = watched.run = Run(verdict.case, commits_target, truths[verdict.case.seed], "commits", adhoc)
            run.begin()
            run.check()
            run.advance(0.6)
            run.check_adhoc()
            run.advance(1)
            run.check_adhoc()
            digests[verdict.case.seed] = commits_target.digests(f"o{verdict.case.seed}_")
            wrong[verdict.case.seed] = run.wrong
    if batched_target is not None:
        _batched([v for v in verdicts if v.case.seed in digests], batched_target, truths, digests, wrong, adhoc)
    return verdicts


def _batched(verdicts, target, truths, digests, wrong, adhoc):
    runs = {v.case.seed: Run(v.case, target, truths[v.case.seed], "batched", adhoc, wrong=set(wrong[v.case.seed])) for v in verdicts}
    for verdict in verdicts:
        with _Watched(verdict, target, runs[verdict.case.seed], keep=True) as watched:
            watched.run.begin()
            watched.run.advance(0.5)
    target.restart()
    for verdict in verdicts:
        if verdict.case.seed not in runs or runs[verdict.case.seed].broken:
            continue
        with _Watched(verdict, target, runs[verdict.case.seed]) as watched:
            watched.run.check()
            watched.run.advance(1)
            watched.run.check_adhoc()
            watched.run.digests_compared = len(digests[verdict.case.seed])
            _same_digests(watched.run, digests[verdict.case.seed], target.digests(f"o{verdict.case.seed}_"))


OWNER = re.compile(r"o\d+_[tv]\d+")  # state tables are named `cenote_state.<view>_<operator>_...`


def _same_digests(run, first, second):
    """Compares the digests of tables, views and operator state; what belongs to a view that is wrong already or refused is left out."""
    views = {view.name: view for view in run.case.views}
    for name in sorted(first.keys() | second.keys()):
        owner = OWNER.search(name)[0]
        if first.get(name) == second.get(name) or owner in run.wrong or owner in run.refused:
            continue
        text = f"digest {second.get(name)}, in mode `commits` {first.get(name)}"
        if owner in views:
            run._wrong(views[owner], "digest", name, text)
        else:
            run.errors.append(Mismatch("digest", run.target, run.step, name, text))


class _Watched:
    """Turns whatever goes wrong in a case into its verdict, cleans up, and brings a dead server back."""

    def __init__(self, verdict, target, run=None, keep=False):
        self.verdict, self.target, self.run, self.keep = verdict, target, run, keep

    def __enter__(self):
        return self

    def __exit__(self, kind, error, _):
        if error is not None and not isinstance(error, Exception):
            return False
        if self.run:
            self.verdict.errors += self.run.errors
            self.run.errors = []
            self.run.broken = error is not None
        if self.target.revive():
            error = Mismatch("died", self.target, getattr(self.run, "step", 0), "the server", f"died or hung up: {error}")
        elif self.run and (error is not None or not self.keep):
            self._clean()
        if error is not None:
            self.verdict.errors.append(error)
        if self.run:
            self.verdict.checks += self.run.checks
            self.verdict.digests += self.run.digests_compared
            self.run.checks = 0
            self.verdict.refused.update(self.run.refused)
            self.verdict.refused_adhoc.update(self.run.refused_adhoc)
        return True

    def _clean(self):
        try:
            self.target.abandon()
            self.run.end()
        except Exception as error:  # noqa: BLE001 - a second failure must not hide the first
            self.verdict.errors.append(error)
