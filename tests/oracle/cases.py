"""A whole case from one seed: tables, the commits that change them, and views over them."""
import random
from dataclasses import dataclass, replace

import duckdb

from . import types as t
from .dialect import Sql, bare_literal, join, literal, sql
from .expressions import Expr
from .relations import Generator, named


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
    """An UPDATE or DELETE: `text` reads `UPDATE t SET ...` or `DELETE FROM t`; `reads` are the columns it names."""

    table: str
    text: Sql
    where: Sql
    reads: frozenset

    def sql(self):
        return sql("{x} WHERE {p}", x=self.text, p=self.where)


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
    """Everything that a run needs, from one seed. `commits` are tuples of statements."""

    seed: int
    tables: tuple
    commits: tuple
    views: tuple

    def script(self):
        """The case as SQL for Cenote, to paste into psql."""
        lines = [f"{table.create().pg};" for table in self.tables]
        for step in range(len(self.commits) + 1):
            lines += [f"CREATE MATERIALIZED VIEW {v.name} AS {v.relation.pg};" for v in self.views if v.created_after == step]
            if step < len(self.commits):
                body = [f"{s.sql().pg};" for s in self.commits[step]]
                lines += body if len(body) == 1 else ["BEGIN;", *body, "COMMIT;"]
        return "\n".join(lines + [f"SELECT * FROM {v.name};" for v in self.views])


def make_case(seed, views=6, commits=10):
    """The case of a seed: the same seed, sizes and code give the same case."""
    rng = random.Random(seed)
    prefix = f"o{seed}_"
    tables = tuple(_table(rng, f"{prefix}t{i}") for i in range(rng.randint(2, 3)))
    contents = {table.name: _Contents(table) for table in tables}
    history = (_first_load(rng, contents), *[_commit(rng, contents) for _ in range(commits - 1)])
    g = Generator(rng, [table.relation() for table in tables])
    made = []
    with _Rehearsal(tables, history) as rehearsal:
        for i in range(views):
            relation = _telling_relation(g, rehearsal)
            view = View(f"{prefix}v{i}", relation, 0 if rng.random() < 0.6 else rng.randint(1, commits))
            made.append(view)
            rehearsal.keep(view)
            g.catalog.append(named(view.name, relation.columns))
    return Case(seed, tables, history, _in_order(made))


def _telling_relation(g, rehearsal):
    """A query that shows something: the best of a few tries."""
    for _ in range(6):
        relation = g.relation(2)
        if rehearsal.tells(relation):
            break
    return relation


class _Rehearsal:
    """DuckDB with the tables as they stand half way and at the end, to see which queries are worth judging."""

    ROWS_MAX = 2000

    def __init__(self, tables, history):
        self.stages = []
        for until in (len(history) // 2, len(history)):
            connection = duckdb.connect(config={"threads": 1})
            for table in tables:
                connection.execute(table.create().duck)
            for statement in (s for commit in history[:until] for s in commit):
                connection.execute(statement.sql().duck)
            self.stages.append(connection)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for connection in self.stages:
            connection.close()

    def tells(self, relation):
        """Whether the query has some rows, not too many, and changes."""
        half, end = (self._rows(connection, relation) for connection in self.stages)
        return half != end and 0 < len(end) <= self.ROWS_MAX

    def _rows(self, connection, relation):
        return sorted(map(repr, connection.execute(f"SELECT * FROM ({relation.duck}) LIMIT {self.ROWS_MAX + 1}").fetchall()))

    def keep(self, view):
        for connection in self.stages:
            connection.execute(f"CREATE VIEW {view.name} AS {view.relation.duck}")


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
    """What the generator must know of a table's rows: which keys are free."""

    def __init__(self, table):
        self.table, self.next_id, self.free = table, 1, []

    def insert(self, rng):
        rows = [self._row(rng) for _ in range(rng.choice([1, 1, 2, 3, 5, 8]))]
        if not self.table.key and rng.random() < 0.4:
            rows += [rng.choice(rows) for _ in range(rng.randint(1, 3))]  # duplicates
        return Insert(self.table.name, self.table.columns, tuple(rows))

    def _row(self, rng):
        if self.table.key:
            ident = self.free.pop() if self.free and rng.random() < 0.5 else self.next_id
            self.next_id = max(self.next_id, ident + 1)
        else:
            ident = rng.randint(0, 6)
        return (ident, *[_value(rng, c) for c in self.table.columns[1:]])

    def delete(self, rng):
        name = self.table.name
        if self.table.key and self.next_id > 1:
            gone = rng.sample(range(1, self.next_id), min(self.next_id - 1, rng.choice([1, 1, 2, 4])))
            self.free += [i for i in gone if i not in self.free]
            where, reads = Sql(*[f"id IN ({', '.join(map(str, gone))})"] * 2), {"id"}
        else:
            where, reads = _condition(rng, self.table)
        return Change(name, Sql(*[f"DELETE FROM {name}"] * 2), where, frozenset(reads))

    def update(self, rng):
        column = rng.choice(self.table.columns[1:])
        where, reads = _condition(rng, self.table, keyed=self.table.key)
        if column.type.family == "int" and not column.wide and rng.random() < 0.4:
            value = sql(f"- {column.name}")
        else:
            value = literal(_value(rng, column), column.type)
        text = sql("UPDATE {t} SET {c} = {v}", t=self.table.name, c=column.name, v=value)
        return Change(self.table.name, text, where, frozenset(reads | {column.name}))


def _value(rng, column):
    if column.nullable and rng.random() < 0.2:
        return None
    return t.random_value(rng, column.type, column.wide)


def _condition(rng, table, keyed=False):
    """A WHERE clause that meets some rows; never one that frees a key without its being known."""
    if keyed or rng.random() < 0.3:
        text = rng.choice([f"id % 3 = {rng.randint(0, 2)}", f"id <= {rng.randint(1, 5)}", f"id = {rng.randint(1, 9)}"])
        return Sql(text, text), {"id"}
    column = rng.choice(table.columns[1:])
    if column.nullable and rng.random() < 0.3:
        return sql(f"{column.name} IS NULL"), {column.name}
    value = t.random_value(rng, column.type, column.wide)
    return sql("{c} {op} {v}", c=column.name, op=rng.choice(["=", "=", ">", "<="]), v=literal(value, column.type)), {column.name}


def _first_load(rng, contents):
    return tuple(of.insert(rng) for of in contents.values() for _ in range(2))


def _commit(rng, contents):
    statements = []
    for _ in range(rng.choice([1, 1, 1, 2, 3, 5])):
        of = rng.choice(list(contents.values()))
        act = rng.choices([of.insert, of.delete, of.update], [5, 2, 2])[0]
        statements.append(act(rng))
    return tuple(statements)
