"""A whole case from one seed: tables, the commits that change them, and views over them."""
import itertools
import random
import zlib
from dataclasses import dataclass, replace

import duckdb

from . import types as t
from .dialect import Sql, bare_literal, join, literal, sql
from .expressions import Expr
from .relations import From, Generator, failing, from_item, named, reached, select


@dataclass(frozen=True)
class Column:
    name: str
    type: t.Type
    wide: bool
    nullable: bool


@dataclass(frozen=True)
class Table:
    """`key`: the first column, `id`, is a primary key."""

    name: str
    columns: tuple
    key: bool

    def create(self):
        """CREATE TABLE; DuckDB gets no constraints (see `dialect`)."""
        listed = join(sql(f"{c.name} {{pg}}{{rest}}", f"{c.name} {{duck}}", pg=c.type.name, duck=c.type.duck,
                          rest=" PRIMARY KEY" if self.key and c.name == "id" else "" if c.nullable else " NOT NULL")
                      for c in self.columns)
        return sql("CREATE TABLE {n} ({c})", n=self.name, c=listed)

    def relation(self):
        return named(self.name, [Expr(c.name, c.name, c.type, t.bound_of(c.type, c.wide)) for c in self.columns])


@dataclass(frozen=True)
class Insert:
    table: str
    columns: tuple
    rows: tuple

    def sql(self):
        rows = join(sql("({v})", v=join(bare_literal(v, c.type) for v, c in zip(row, self.columns))) for row in self.rows)
        return sql("INSERT INTO {t} ({n}) VALUES {r}", t=self.table, n=", ".join(c.name for c in self.columns), r=rows)


@dataclass(frozen=True)
class Change:
    """An UPDATE, DELETE or TRUNCATE: `text` reads `UPDATE t SET ...` or `DELETE FROM t`; `reads` are the columns it names."""

    table: str
    text: Sql
    where: Sql | None
    reads: frozenset

    def sql(self):
        return sql("{x} WHERE {p}", x=self.text, p=self.where) if self.where else self.text


def created(name, query):
    """Statements that create a view. One in three first shows a part of its query's rows and then takes its place, with what state they share."""
    if zlib.crc32(name.encode()) % 3:
        return [f"CREATE MATERIALIZED VIEW {name} AS {query}"]
    return [f"CREATE MATERIALIZED VIEW {name} AS SELECT * FROM ({query}) AS part LIMIT 2", f"CREATE OR REPLACE MATERIALIZED VIEW {name} AS {query}"]


@dataclass(frozen=True)
class View:
    """A materialized view; `created_after`: the number of commits before it is made."""

    name: str
    relation: object
    created_after: int

    @property
    def uses(self):
        return self.relation.uses


@dataclass(frozen=True)
class Case:
    """Everything that a run needs, from one seed. `commits` are tuples of statements.

    `unrunnable`: how many queries were thrown away because DuckDB could not run them.
    """

    seed: int
    tables: tuple
    commits: tuple
    views: tuple
    unrunnable: int = 0

    def script(self, answers=lambda step, view: []):
        """The case as SQL for Cenote, to paste into psql; `answers(step, view)` are lines to put behind a SELECT of a view."""
        lines = [f"{table.create().pg};" for table in self.tables]
        last, short = len(self.commits), len(self.commits) <= 6
        for step in range(last + 1):
            if step:
                body = [f"{s.sql().pg};" for s in self.commits[step - 1]]
                lines += body if len(body) == 1 else ["BEGIN;", *body, "COMMIT;"]
                lines[-1] += " -- c"
            lines += [f"{statement};" for v in self.views if v.created_after == step for statement in created(v.name, v.relation.pg)]
            for view in self.views if step == last or short and step else ():
                if view.created_after <= step:
                    lines += [f"SELECT * FROM {view.name};", *answers(step, view)]
        return "\n".join(lines)


def make_case(seed, views=10, commits=20):
    """The case of a seed: the same seed, sizes and code give the same case."""
    rng = random.Random(seed)
    prefix = f"o{seed}_"
    tables = tuple(_table(rng, f"{prefix}t{i}") for i in range(rng.randint(2, 3)))
    g = Generator(rng, [table.relation() for table in tables])
    made = []
    with Duck() as ledger:
        history, half = _history(rng, tables, commits, ledger)
        rehearsal = _Rehearsal(half, ledger)
        for i in range(views):
            relation = _telling_relation(g, rehearsal)
            view = View(f"{prefix}v{i}", relation, 0 if rng.random() < 0.6 else rng.randint(1, commits))
            made.append(view)
            rehearsal.keep(view)
            g.catalog.append(named(view.name, relation.columns))
        half.close()
    return Case(seed, tables, history, _in_order(made), rehearsal.unrunnable)


def _telling_relation(g, rehearsal):
    """A query that shows something: the best of a few tries that DuckDB can run and that is not too large."""
    best = None
    fails = g.chance(0.12)
    for _ in range(6):
        relation = fails and failing(g) or g.relation(2)
        telling = rehearsal.tells(relation)
        if telling:
            return relation
        best = best or (relation if telling is False else None)
    return best or _plain(g)


def _plain(g):
    table = g.catalog[0]
    return select(From(from_item(table, "r0"), []), reached(table, "r0"))


class _Rehearsal:
    """The tables as they stand half way and at the end, to see which queries are worth judging."""

    ROWS_MAX = 400

    def __init__(self, half, end):
        self.stages, self.unrunnable = (end, half), 0

    def tells(self, relation):
        """Whether the query has some rows and changes; None when it cannot be run or has too many rows."""
        try:
            end = self._rows(self.stages[0], relation)
            if not 0 < len(end) <= self.ROWS_MAX:
                return None if end else False
            half = self._rows(self.stages[1], relation)
        except duckdb.Error:
            self.unrunnable += 1
            return None
        return None if len(half) > self.ROWS_MAX else half != end

    def _rows(self, duck, relation):
        return sorted(map(repr, duck.run(f"SELECT * FROM ({relation.duck}) LIMIT {self.ROWS_MAX + 1}")))

    def keep(self, view):
        for duck in self.stages:
            duck.run(f"CREATE TABLE {view.name} AS {view.relation.duck}")


class Duck:
    """A database of its own in this process's DuckDB, which has one thread and the settings that make it agree with PostgreSQL."""

    _process = None
    _numbers = itertools.count()

    def __init__(self):
        if Duck._process is None:
            Duck._process = duckdb.connect(config={"threads": 1})
            Duck._process.execute("SET GLOBAL TimeZone = 'UTC'")
        self.name = f"case{next(Duck._numbers)}"
        self.connection = Duck._process.cursor()
        self.connection.execute(f"ATTACH ':memory:' AS {self.name}")
        self.connection.execute(f"USE {self.name}")

    def run(self, text):
        return self.connection.execute(text).fetchall()

    def copy(self, tables):
        """Another database with these tables as they stand."""
        other = Duck()
        for table in tables:
            other.run(f"CREATE TABLE {table.name} AS SELECT * FROM {self.name}.{table.name}")
        return other

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.connection.execute("USE memory")
        self.connection.execute(f"DETACH {self.name}")
        self.connection.close()


def _in_order(views):
    """Lets a view be made no earlier than the views under it."""
    made = {}
    for view in views:
        lowest = max([made[u].created_after for u in view.uses if u in made], default=0)
        made[view.name] = replace(view, created_after=max(view.created_after, lowest))
    return tuple(made.values())


def _table(rng, name):
    columns = [Column("id", rng.choice([t.INTEGER, t.BIGINT]), False, False)]
    for i in range(rng.randint(2, 6)):
        kind = t.INTEGER if i == 0 else t.column_type(rng)  # the tables can be joined on their c1
        columns.append(Column(f"c{i + 1}", kind, i > 0 and rng.random() < 0.25, rng.random() < 0.75))
    return Table(name, tuple(columns), rng.random() < 0.6)


class _Contents:
    """Makes the statements of a table, and keeps its rows in DuckDB so as to know which keys are free."""

    def __init__(self, table, ledger):
        self.table, self.ledger, self._ids = table, ledger, []

    def ids(self):
        if self._ids is None:
            self._ids = [r[0] for r in self.ledger.run(f"SELECT id FROM {self.table.name} ORDER BY id")]
        return self._ids

    def done(self, statement):
        self.ledger.run(statement.sql().duck)
        self._ids = None
        return statement

    def insert(self, rng):
        rows = [self._row(rng, i) for i in self._new_ids(rng, rng.choice([1, 1, 2, 3, 5, 8]))]
        if not self.table.key and rng.random() < 0.4:
            rows += [rng.choice(rows) for _ in range(rng.randint(1, 3))]  # duplicates
        return [self._insert(rows)]

    def _insert(self, rows):
        return self.done(Insert(self.table.name, self.table.columns, tuple(rows)))

    def _new_ids(self, rng, count):
        if not self.table.key:
            return [rng.randint(0, 6) for _ in range(count)]
        taken = set(self.ids())
        return rng.sample([i for i in range(1, len(taken) + 12) if i not in taken], count)

    def _row(self, rng, ident):
        return (ident, *[_value(rng, c) for c in self.table.columns[1:]])

    def delete(self, rng):
        if self.table.key and rng.random() < 0.6:
            return [self._delete(rng, self._some(rng))]
        where, reads = _condition(rng, self.table)
        return [self._change("DELETE FROM {t}", where, reads)]

    def _some(self, rng):
        ids = self.ids()
        return rng.sample(ids, min(len(ids), rng.choice([1, 1, 2, 4]))) or [1]

    def _delete(self, rng, ids):
        if len(ids) == 1:
            return self._change("DELETE FROM {t}", sql(f"id = {ids[0]}"), {"id"})
        return self._change("DELETE FROM {t}", sql("id IN ({l})", l=join(sql(str(i)) for i in ids)), {"id"})

    def _change(self, text, where, reads, **parts):
        return self.done(Change(self.table.name, sql(text, t=self.table.name, **parts), where, frozenset(reads)))

    def update(self, rng):
        if rng.random() < 0.15:
            return self._move(rng)
        where, reads = _condition(rng, self.table, keyed=self.table.key and rng.random() < 0.7)
        columns = rng.sample(self.table.columns[1:], 2 if rng.random() < 0.25 else 1)
        sets = join(sql("{c} = {v}", c=c.name, v=self._new_value(rng, c)) for c in columns)
        return [self._change("UPDATE {t} SET {s}", where, reads | {c.name for c in columns}, s=sets)]

    def _new_value(self, rng, column):
        if column.type.family == "int" and not column.wide and rng.random() < 0.4:
            return sql(f"- {column.name}")
        return literal(_value(rng, column), column.type)

    def _move(self, rng):
        """A row gets another key."""
        old, new = rng.choice(self.ids() or [1]), self._new_ids(rng, 1)[0]
        return [self._change("UPDATE {t} SET id = {n}", sql(f"id = {old}"), {"id"}, n=new)]

    def upsert(self, rng):
        """Rows are deleted and inserted again under their keys, at times more than once in the transaction."""
        ids = sorted(set(self._some(rng)))
        rows = [self._row(rng, i) for i in ids]
        made = [self._delete(rng, ids), self._insert(rows)]
        if rng.random() < 0.3:
            made += [self._delete(rng, ids), self._insert(rows if rng.random() < 0.5 else [self._row(rng, i) for i in ids])]
        return made

    def truncate(self, rng):
        return [self._change("TRUNCATE {t}", None, ())]

    def clear(self, rng):
        return [self._change("DELETE FROM {t}", None, ())]


def _value(rng, column):
    if column.nullable and rng.random() < 0.2:
        return None
    return t.random_value(rng, column.type, column.wide)


def _condition(rng, table, keyed=False):
    """A WHERE clause that meets some rows."""
    if keyed or rng.random() < 0.3:
        text = rng.choice([f"id % 3 = {rng.randint(0, 2)}", f"id <= {rng.randint(1, 5)}", f"id = {rng.randint(1, 9)}"])
        return Sql(text, text), {"id"}
    column = rng.choice(table.columns[1:])
    if column.nullable and column.type.family != "struct" and rng.random() < 0.3:
        return sql(f"{column.name} IS NULL"), {column.name}
    value = t.random_value(rng, column.type, column.wide)
    return sql("{c} {op} {v}", c=column.name, op=rng.choice(["=", "=", ">", "<="]), v=literal(value, column.type)), {column.name}


ACTS = {"insert": 6, "delete": 2, "update": 2.5, "upsert": 1.5, "truncate": 0.15, "clear": 0.1}


def _history(rng, tables, commits, ledger):
    """The statements of every commit, the first of which loads each table; and the tables as they stood half way."""
    for table in tables:
        ledger.run(table.create().duck)
    contents = [_Contents(table, ledger) for table in tables]
    made, half = [tuple(s for of in contents for _ in range(2) for s in of.insert(rng))], None
    while len(made) < commits:
        if len(made) >= commits // 2 and half is None:
            half = ledger.copy(tables)
        statements = []
        for _ in range(rng.choice([1, 1, 1, 2, 3, 5])):
            of = rng.choice(contents)
            act = rng.choices(list(ACTS), ACTS.values())[0]
            statements += getattr(of, act if len(of.ids()) < 60 else "delete")(rng)
        made.append(tuple(statements))
    return tuple(made), half or ledger.copy(tables)
