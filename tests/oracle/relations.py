"""Queries: what stands in FROM, what is done with it, and what wraps the result. One small function per feature.

- `@source` functions give a `From`: SQL for the FROM clause, the columns in reach, and the relations in it.
- `@finish` functions turn a `From` (with its WHERE) into a `Relation`: projection, grouping, distinct.
- `@wrapper` functions make a `Relation` of others: UNION ALL, Top-N, nesting.
"""
import random
from dataclasses import dataclass, field

from . import expressions as e
from . import types as t
from .dialect import Sql, join, order_item, sql


@dataclass(frozen=True)
class Relation:
    """A SELECT in both dialects, or a name. `columns` are `Expr`s whose text is the column's name."""

    pg: str
    duck: str
    columns: tuple
    name: str | None = None
    parts: tuple = ()
    uses: frozenset = frozenset()

    @property
    def item(self):
        """As it stands in FROM."""
        return Sql(self.name, self.name) if self.name else Sql(f"({self.pg})", f"({self.duck})")


@dataclass(frozen=True)
class From:
    """A FROM clause: text, columns in reach, relations in it."""

    text: Sql
    scope: list
    parts: tuple
    where: object = None


def named(name, columns):
    """A table or a view as a relation."""
    text = f"SELECT * FROM {name}"
    return Relation(text, text, tuple(columns), name=name, uses=frozenset([name]))


SOURCES, FINISHES, WRAPPERS = [], [], []


def source(weight=1):
    return lambda function: SOURCES.append((weight, function)) or function


def finish(weight=1):
    return lambda function: FINISHES.append((weight, function)) or function


def wrapper(weight=1):
    return lambda function: WRAPPERS.append((weight, function)) or function


@dataclass
class Generator:
    """Random choices over a catalog of tables and, behind them, views, all from one seed."""

    rng: random.Random
    catalog: list = field(default_factory=list)
    tables: int = 0
    aliases: int = 0

    def __post_init__(self):
        self.tables = len(self.catalog)

    def chance(self, probability):
        return self.rng.random() < probability

    def pick(self, items):
        return self.rng.choice(items)

    def pick_weighted(self, registered):
        return self.rng.choices([r[1] for r in registered], [r[0] for r in registered])[0]

    def alias(self):
        self.aliases += 1
        return f"r{self.aliases}"

    # -- scalars

    def column(self, scope, *families, small=None, opaque=False, where=lambda column: True):
        """A random column (of the families, if any are named), or None."""
        found = [c for c in scope if (not families or c.type.family in families) and (opaque or not c.opaque)
                 and (small is None or (c.bound is not None) == small) and where(c)]
        return self.pick(found) if found else None

    def number(self, scope, *families):
        return self.column(scope, *families, small=True)

    def literal(self, kind, near=None):
        wide = near is not None and near.bound is None and self.chance(0.3)
        if kind.family == "numeric" and kind.scale is None:
            kind = t.numeric(38, 4)
        return e.constant(t.random_value(self.rng, kind, wide), kind, t.bound_of(kind, wide))

    def bound(self, a, b):
        return None if a.bound is None or b.bound is None else max(a.bound, b.bound)

    def scalar(self, scope):
        """A column or an expression over the scope."""
        for _ in range(4):
            if self.chance(0.4):
                found = self.column(scope, opaque=True)
            elif self.chance(0.15):
                found = self.predicate(scope, 1)
            else:
                found = self.pick_weighted(e.SCALARS)(self, scope)
            if found:
                return found
        return self.column(scope, opaque=True) or self.literal(t.INTEGER)

    def predicate(self, scope, depth=2):
        if depth > 1 and self.chance(0.4):
            parts = [self.predicate(scope, depth - 1), self.predicate(scope, depth - 1)]
            text = sql(f"({{a}} {self.pick(['AND', 'OR'])} {{b}})", a=parts[0], b=parts[1])
            return e.expr(sql("(NOT {x})", x=text) if self.chance(0.15) else text, t.BOOLEAN)
        for _ in range(6):
            if found := self.pick_weighted(e.PREDICATES)(self, scope):
                return found
        return e.constant(True, t.BOOLEAN)

    def aggregate(self, scope):
        for _ in range(6):
            if found := self.pick_weighted(e.AGGREGATES)(self, scope):
                return found
        return e.count_rows(self, scope)

    # -- relations

    def base(self, depth):
        """A table, a view, or (while depth lasts) a subquery."""
        if depth > 0 and self.chance(0.3):
            return self.relation(depth - 1)
        tables, views = self.catalog[: self.tables], self.catalog[self.tables :]
        return self.pick(views if views and self.chance(0.3) else tables)

    def relation(self, depth):
        """A random query."""
        if depth > 0 and self.chance(0.3):
            if made := self.pick_weighted(WRAPPERS)(self, depth - 1):
                return made
        origin = self.pick_weighted(SOURCES)(self, depth) or one_table(self, depth)
        if self.chance(0.5):
            more = self.predicate(origin.scope)
            where = sql("{a} AND {b}", a=origin.where, b=more) if origin.where else more
            origin = From(origin.text, origin.scope, origin.parts, where)
        return self.pick_weighted(FINISHES)(self, origin) or projection(self, origin)


def reached(relation, alias):
    """The relation's columns seen through an alias."""
    return [e.renamed(c, f"{alias}.{c.pg}") for c in relation.columns]


def select(origin, outputs, tail=None, distinct=False, scope_names=None):
    """Builds `SELECT outputs FROM origin WHERE ... tail`; outputs are named `c0`, `c1` ..."""
    listed = join(sql(f"{{x}} AS c{i}", x=x) for i, x in enumerate(outputs))
    where = sql(" WHERE {p}", p=origin.where) if origin.where else Sql("", "")
    text = sql("SELECT {d}{listed} FROM {f}{where}{tail}", d="DISTINCT " if distinct else "", listed=listed,
               f=origin.text, where=where, tail=tail or Sql("", ""))
    columns = tuple(e.renamed(x, f"c{i}") for i, x in enumerate(outputs))
    uses = frozenset().union(*[p.uses for p in origin.parts])
    return Relation(text.pg, text.duck, columns, parts=origin.parts, uses=uses)


# ---- FROM -----------------------------------------------------------------------------------------------------


@source(3)
def one_table(g, depth):
    relation, alias = g.base(depth), g.alias()
    return From(sql("{x} AS {a}", x=relation.item, a=alias), reached(relation, alias), (relation,))


def matching(g, left, right):
    """A pair of columns, one of each side, that can be equal."""
    pairs = [(a, b) for a in left for b in right if not a.opaque and not b.opaque
             and a.type.family == b.type.family and a.type.family != "float"
             and (a.type.family == "int" or a.type == b.type) and (a.bound is None) == (b.bound is None)]
    return g.pick(pairs) if pairs else None


def joined(g, origin, relation, kind):
    """Joins one more relation to a FROM on one or two equalities and, at times, a residual predicate."""
    alias = g.alias()
    right = reached(relation, alias)
    pair = matching(g, origin.scope, right)
    if pair is None:
        return None
    conditions = [sql("{a} = {b}", a=pair[0], b=pair[1])]
    if g.chance(0.2) and (second := matching(g, origin.scope, right)):
        conditions.append(sql("{a} = {b}", a=second[0], b=second[1]))
    if g.chance(0.3):
        conditions.append(g.predicate(origin.scope + right))
    text = sql("{l} {k} JOIN {r} AS {a} ON {on}", l=origin.text, k=kind, r=relation.item, a=alias, on=join(conditions, " AND "))
    return From(text, origin.scope + right, origin.parts + (relation,))


@source(3)
def inner_join(g, depth):
    return joined(g, one_table(g, depth), g.base(depth), "INNER")


@source(3)
def left_join(g, depth):
    return joined(g, one_table(g, depth), g.base(depth), "LEFT")


@source()
def self_join(g, depth):
    relation, alias = g.base(depth), g.alias()
    first = From(sql("{x} AS {a}", x=relation.item, a=alias), reached(relation, alias), (relation,))
    return joined(g, first, relation, g.pick(["INNER", "LEFT"]))


@source(2)
def many_way_join(g, depth):
    origin = one_table(g, 0)
    for _ in range(g.rng.randint(2, 3)):
        origin = joined(g, origin, g.base(0), g.pick(["INNER", "INNER", "LEFT"])) or origin
    return origin


@source()
def comma_join(g, depth):
    """Tables listed with commas, joined in WHERE."""
    a, b = g.base(0), g.base(0)
    x, y = g.alias(), g.alias()
    left, right = reached(a, x), reached(b, y)
    pair = matching(g, left, right)
    if pair is None:
        return None
    text = sql("{a} AS {x}, {b} AS {y}", a=a.item, b=b.item, x=x, y=y)
    return From(text, left + right, (a, b), e.expr(sql("{p} = {q}", p=pair[0], q=pair[1]), t.BOOLEAN))


# ---- SELECT ---------------------------------------------------------------------------------------------------


@finish(4)
def projection(g, origin):
    return select(origin, [g.scalar(origin.scope) for _ in range(g.rng.randint(1, 5))])


def groupable(g, scope):
    key = g.scalar(scope)
    return key if key.opaque is None and (key.type.family != "float" or key.bound is not None) and "CAST(NULL" not in key.pg else None


@finish(5)
def group_by(g, origin):
    keys = [k for k in (groupable(g, origin.scope) for _ in range(g.rng.randint(1, 2))) if k]
    keys = [k for k in keys if any(c.pg in k.pg for c in origin.scope)]  # a bare constant would be a position
    if not keys:
        return None
    outputs = keys + [g.aggregate(origin.scope) for _ in range(g.rng.randint(1, 3))]
    tail = sql(" GROUP BY {k}", k=join(keys))
    if g.chance(0.3):
        tail = sql("{t} HAVING {p}", t=tail, p=having(g, origin))
    return select(origin, outputs, tail)


def having(g, origin):
    aggregates = [a for a in (g.aggregate(origin.scope) for _ in range(3)) if not a.opaque and a.type.family != "float"]
    chosen = aggregates[0] if aggregates else e.count_rows(g, origin.scope)
    return e.comparison(g, [chosen]) or e.null_test(g, [chosen])


@finish(2)
def global_aggregate(g, origin):
    tail = sql(" HAVING {p}", p=having(g, origin)) if g.chance(0.15) else None
    return select(origin, [g.aggregate(origin.scope) for _ in range(g.rng.randint(1, 3))], tail)


@finish(2)
def distinct(g, origin):
    outputs = [x for x in (groupable(g, origin.scope) for _ in range(g.rng.randint(1, 3))) if x]
    return select(origin, outputs, distinct=True) if outputs else None


# ---- around it ------------------------------------------------------------------------------------------------


@wrapper(2)
def union_all(g, depth):
    """Branches with the columns that they can agree on."""
    branches = [g.relation(depth) for _ in range(g.rng.randint(2, 3))]
    shape = [c for c in branches[0].columns if not c.opaque]
    for branch in branches[1:]:
        shape = [c for c in shape if any(d.type == c.type and not d.opaque for d in branch.columns)]
    if not shape:
        return None
    made, outputs = [], []
    for branch in branches:
        alias = g.alias()
        columns = [g.pick([d for d in reached(branch, alias) if d.type == c.type and not d.opaque]) for c in shape]
        made.append(select(From(sql("{x} AS {a}", x=branch.item, a=alias), [], (branch,)), columns))
        outputs.append(made[-1].columns)
    text = join(made, " UNION ALL ")
    columns = tuple(e.expr(first, first.type, None if any(c.bound is None for c in same) else max(c.bound for c in same))
                    for first, same in zip(outputs[0], zip(*outputs)))
    return Relation(text.pg, text.duck, columns, parts=tuple(made), uses=frozenset().union(*[m.uses for m in made]))


@wrapper(2)
def top_n(g, depth):
    """ORDER BY every column, so that only rows equal in all of them tie, then LIMIT and at times OFFSET."""
    inner = g.relation(depth)
    if any(c.opaque for c in inner.columns):
        return None
    order = list(inner.columns)
    g.rng.shuffle(order)
    alias = g.alias()
    items = join(order_item(f"{alias}.{c.pg}", g.chance(0.4), g.pick([None, None, True, False])) for c in order)
    tail = sql(f" ORDER BY {{o}} LIMIT {g.rng.randint(1, 6)}", o=items)
    if g.chance(0.4):
        tail = sql(f"{{t}} OFFSET {g.rng.randint(1, 3)}", t=tail)
    return select(From(sql("{x} AS {a}", x=inner.item, a=alias), [], (inner,)), reached(inner, alias), tail)


@wrapper()
def nested(g, depth):
    """A filter and a projection around a subquery."""
    inner, alias = g.relation(depth), g.alias()
    scope = reached(inner, alias)
    origin = From(sql("{x} AS {a}", x=inner.item, a=alias), scope, (inner,), g.predicate(scope))
    return projection(g, origin)
