"""Queries: what stands in FROM, what is done with it, and what wraps the result. One small function per feature.

- `@source` functions give a `From`: SQL for the FROM clause and the columns in reach.
- `@subquery` functions give a predicate that asks another relation, for WHERE and SELECT.
- `@finish` functions turn a `From` (with its WHERE) into a `Relation`: projection, grouping, distinct.
- `@wrapper` functions make a `Relation` of others: set operations, Top-N, ROW_NUMBER, common table expressions, nesting.
"""
import random
import re
from dataclasses import dataclass, field, replace

from . import expressions as e
from . import types as t
from .dialect import NOTHING, Sql, join, of_kind, optional, order_item, sql


@dataclass(frozen=True)
class Relation:
    """A SELECT in both dialects, or a name. `columns` are `Expr`s whose text is the column's name.

    `failures`: DuckDB's query for the number of input rows that PostgreSQL's text fails on, where there can be any. A view leaves
    those out and lists them in `cenote_catalog.errors`; the ad-hoc query is an error.
    """

    pg: str
    duck: str
    columns: tuple
    name: str | None = None
    tree: object = field(default=None, compare=False, repr=False)
    failures: str | None = None
    kind = "relation"

    @property
    def item(self):
        """As it stands in FROM."""
        return Sql(self.name, self.name) if self.name else sql("({x})", x=self)

    @property
    def uses(self):
        """The tables and views that it names."""
        return frozenset(NAMES.findall(self.pg))


NAMES = re.compile(r"\bo\d+_[tv]\d+\b")  # of tables and views; aliases look otherwise


def made_of(piece, columns):
    return Relation(piece.pg, piece.duck, tuple(columns), tree=piece.tree)


@dataclass(frozen=True)
class From:
    """A FROM clause, the columns in reach, and what its WHERE must say."""

    text: Sql
    scope: list
    where: object = None


def named(name, columns):
    """A table or a view as a relation."""
    text = f"SELECT * FROM {name}"
    return Relation(text, text, tuple(columns), name=name)


SOURCES, SUBQUERIES, FINISHES, WRAPPERS = [], [], [], []


def source(weight=1):
    return lambda function: SOURCES.append((weight, function)) or function


def subquery(weight=1):
    return lambda function: SUBQUERIES.append((weight, function)) or function


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
        return self.pick(views if views and self.chance(0.35) else tables)

    def relation(self, depth):
        """A random query."""
        if depth > 0 and self.chance(0.3):
            if made := self.pick_weighted(WRAPPERS)(self, depth - 1):
                return made
        origin = self.pick_weighted(SOURCES)(self, depth) or one_table(self, depth)
        wanted = [origin.where] if origin.where else []
        if self.chance(0.45):
            wanted.append(self.predicate(origin.scope))
        if self.chance(0.25) and (asked := self.pick_weighted(SUBQUERIES)(self, origin.scope, depth)):
            wanted.append(asked)
        if len(wanted) > 1 and self.chance(0.1):
            wanted = [e.expr(sql("({a} OR {b})", a=wanted[0], b=wanted[1]), t.BOOLEAN), *wanted[2:]]
        return self.pick_weighted(FINISHES)(self, replace(origin, where=join(wanted, " AND ") if wanted else None)) \
            or projection(self, replace(origin, where=None))


def reached(relation, alias):
    """The relation's columns seen through an alias."""
    return [e.renamed(c, f"{alias}.{c.pg}") for c in relation.columns]


def select(origin, outputs, tail=NOTHING, distinct=False):
    """Builds `SELECT outputs FROM origin WHERE ... tail`; outputs are named `c0`, `c1` ..."""
    listed = join(sql(f"{{x}} AS c{i}", x=x) for i, x in enumerate(outputs))
    where = optional(sql(" WHERE {p}", p=origin.where)) if origin.where else NOTHING
    text = sql("SELECT {d}{listed} FROM {f}{where}{tail}", d=optional(Sql("DISTINCT ", "DISTINCT ")) if distinct else NOTHING,
               listed=listed, f=origin.text, where=where, tail=tail)
    return made_of(text, [e.renamed(x, f"c{i}") for i, x in enumerate(outputs)])


# ---- FROM -----------------------------------------------------------------------------------------------------


def from_item(relation, alias):
    return of_kind(sql("{x} AS {a}", x=relation.item, a=alias), "from")


@source(3)
def one_table(g, depth):
    relation, alias = g.base(depth), g.alias()
    return From(from_item(relation, alias), reached(relation, alias))


def comparable(a, b):
    """Whether two columns can be compared in both dialects without rounding one of them."""
    families = {a.type.family, b.type.family}
    if a.opaque or b.opaque or (a.bound is None) != (b.bound is None):
        return False
    return a.type == b.type or families == {"int"} or (families <= {"int", "numeric"} and a.bound is not None)


def matching(g, left, right):
    """A pair of columns, one of each side, that can be equal."""
    pairs = [(a, b) for a in left for b in right if comparable(a, b)]
    common = [p for p in pairs if p[0].type.family == "int"]
    return g.pick(common if common and g.chance(0.5) else pairs) if pairs else None


def conditions(g, left, right, residual):
    """One or two equalities between two sides and, at times, a residual predicate over both; or None."""
    pair = matching(g, left, right)
    if pair is None:
        return None
    found = [sql("{a} = {b}", a=pair[0], b=pair[1])]
    if g.chance(0.2) and (second := matching(g, left, right)):
        found.append(sql("{a} = {b}", a=second[0], b=second[1]))
    if g.chance(residual):
        found.append(g.predicate(left + right))
    return join(found, " AND ")


def joined(g, origin, relation, kind):
    """Joins one more relation to a FROM on equalities and, at times, a residual predicate."""
    alias = g.alias()
    right = reached(relation, alias)
    on = conditions(g, origin.scope, right, 0.3)
    return on and attached(origin, kind, relation, alias, on)


def attached(origin, kind, relation, alias, on):
    text = sql("{l} {k} JOIN {r} AS {a} ON {on}", l=origin.text, k=kind, r=relation.item, a=alias, on=on)
    return From(of_kind(text, "from"), origin.scope + reached(relation, alias))


@source(3)
def inner_join(g, depth):
    return joined(g, one_table(g, depth), g.base(depth), "INNER")


@source(3)
def left_join(g, depth):
    return joined(g, one_table(g, depth), g.base(depth), "LEFT")


@source(2)
def right_join(g, depth):
    return joined(g, one_table(g, depth), g.base(depth), "RIGHT")


@source(3)
def full_join(g, depth):
    return joined(g, one_table(g, depth), g.base(depth), "FULL")


@source()
def cross_join(g, depth):
    origin, relation, alias = one_table(g, depth), g.base(depth), g.alias()
    text = sql("{l} CROSS JOIN {r} AS {a}", l=origin.text, r=relation.item, a=alias)
    return From(of_kind(text, "from"), origin.scope + reached(relation, alias))


@source()
def join_without_equality(g, depth):
    origin, relation, alias = one_table(g, depth), g.base(depth), g.alias()
    pair = matching(g, origin.scope, reached(relation, alias))
    if pair is None or pair[0].type.family == "bool":
        return None
    on = sql("{a} {o} {b}", a=pair[0], o=g.pick(["<", "<=", "<>", ">"]), b=pair[1])
    return attached(origin, g.pick(["INNER", "LEFT"]), relation, alias, on)


@source(2)
def join_using(g, depth):
    """The joined column is named without an alias: it is the left one, the right one, or whichever is there."""
    a, b = g.base(depth), g.base(depth)
    x, y = g.alias(), g.alias()
    shared = [c for c in a.columns for d in b.columns if c.pg == d.pg and c.type == d.type and comparable(c, d)]
    if not shared:
        return None
    names = list(dict.fromkeys(c.pg for c in g.rng.sample(shared, min(len(shared), g.pick([1, 1, 2])))))
    text = sql("{a} {k} JOIN {b} AS {y} USING ({n})", a=from_item(a, x), k=g.pick(["INNER", "LEFT", "RIGHT", "FULL"]), b=b.item, y=y,
               n=", ".join(names))
    scope = [c for c in a.columns if c.pg in names] + [c for c in reached(a, x) + reached(b, y) if c.pg.partition(".")[2] not in names]
    return From(of_kind(text, "from"), scope)


@source()
def self_join(g, depth):
    relation, alias = g.base(depth), g.alias()
    first = From(from_item(relation, alias), reached(relation, alias))
    return joined(g, first, relation, g.pick(["INNER", "LEFT", "FULL"]))


@source(2)
def many_way_join(g, depth):
    origin = one_table(g, 0)
    for _ in range(g.rng.randint(2, 4)):
        origin = joined(g, origin, g.base(0), g.pick(["INNER", "INNER", "INNER", "LEFT", "LEFT", "RIGHT", "FULL"])) or origin
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
    text = join([from_item(a, x), from_item(b, y)])
    return From(text, left + right, e.expr(sql("{p} = {q}", p=pair[0], q=pair[1]), t.BOOLEAN))


# ---- subqueries -----------------------------------------------------------------------------------------------


def rows_within(g, scope, depth):
    """What a subquery reads: a relation, at times joined to a second one on columns of the rows around it too."""
    relation, alias = g.base(max(depth - 1, 0)), g.alias()
    origin = From(from_item(relation, alias), reached(relation, alias))
    if not g.chance(0.25):
        return origin
    second, alias = g.base(0), g.alias()
    right = reached(second, alias)
    on = conditions(g, origin.scope, right, 0)
    if on is None:
        return origin
    if g.chance(0.5) and (pair := matching(g, scope, right)):
        on = join([on, sql("{a} = {b}", a=pair[0], b=pair[1])], " AND ")
    return attached(origin, g.pick(["INNER", "LEFT", "LEFT"]), second, alias, on)


def tie(g, scope, inner):
    """A condition that ties a subquery's rows to the rows around it; or None."""
    pair = matching(g, scope, inner)
    if pair and pair[0].type.family != "bool" and g.chance(0.25):
        unequal = sql("{a} {o} {b}", a=pair[0], o=g.pick(["<", "<=", "<>", ">"]), b=pair[1])
        more = conditions(g, scope, inner, 0) if g.chance(0.5) else None
        return join([more, unequal], " AND ") if more else unequal
    return conditions(g, scope, inner, 0.3)


def deep_tie(g, scope, inner):
    """A subquery's condition, at times with a further subquery over its rows and those around it."""
    about = tie(g, scope, inner)
    if about and g.chance(0.15) and (deeper := exists(g, scope + inner, 0)):
        return join([about, deeper], " AND ")
    return about


@subquery(4)
def exists(g, scope, depth):
    """EXISTS or NOT EXISTS, correlated by equalities and at times by more."""
    scope = [c for c in scope if "." in c.pg]  # inside, a merged column's bare name could mean the inner relation's
    origin = rows_within(g, scope, depth)
    about = deep_tie(g, scope, origin.scope) if g.chance(0.9) else g.predicate(origin.scope)
    tail = NOTHING
    if g.chance(0.15) and (key := g.column(origin.scope)):
        tail = optional(sql(" GROUP BY {k} HAVING count(*) > 1", k=key))
    return about and e.expr(sql("({n}EXISTS (SELECT 1 FROM {f} WHERE {p}{tail}))", n=g.pick(["", "NOT "]), f=origin.text, p=about,
                                tail=tail), t.BOOLEAN)


@subquery(4)
def in_subquery(g, scope, depth):
    origin = rows_within(g, scope, depth)
    pair = matching(g, scope, origin.scope)
    if pair is None:
        return None
    about = tie(g, scope, origin.scope) if g.chance(0.4) else g.predicate(origin.scope, 1) if g.chance(0.5) else None
    where = optional(sql(" WHERE {p}", p=about)) if about else NOTHING
    found = e.expr(sql("({x} {n}IN (SELECT {y} FROM {f}{w}))", x=pair[0], n=g.pick(["", "NOT "]), y=pair[1], f=origin.text, w=where),
                   t.BOOLEAN)
    if g.chance(0.85):
        return found
    return e.expr(sql(g.pick(["({f} IS NULL)", "({f} IS NOT TRUE)", "({f} IS FALSE)", "(NOT {f})"]), f=found), t.BOOLEAN)


@subquery(2)
def any_or_all(g, scope, depth):
    origin = rows_within(g, scope, depth)
    pair = matching(g, scope, origin.scope)
    if pair is None or pair[0].type.family == "bool":
        return None
    about = tie(g, scope, origin.scope) if g.chance(0.5) else None
    where = optional(sql(" WHERE {p}", p=about)) if about else NOTHING
    return e.expr(sql("({x} {o} {q} (SELECT {y} FROM {f}{w}))", x=pair[0], o=g.pick(["=", "<>", "<", "<=", ">", ">="]),
                      q=g.pick(["ANY", "ALL"]), y=pair[1], f=origin.text, w=where), t.BOOLEAN)


@subquery(2)
def under_or(g, scope, depth):
    """A subquery beside another condition, under OR."""
    asked = g.pick([exists, in_subquery])(g, scope, depth)
    return asked and e.expr(sql("({a} OR {b})", a=asked, b=g.predicate(scope, 1)), t.BOOLEAN)


@subquery(2)
def against_own_value(g, scope, depth):
    """A comparison with a correlated scalar subquery."""
    found = own_value(g, scope)
    if found is None or found.opaque or found.type.family == "bool":
        return None
    a = g.column(scope, where=lambda c: comparable(c, found))
    return a and e.expr(sql("({a} {o} {b})", a=a, o=g.pick(["=", "<>", "<", "<=", ">", ">="]), b=found), t.BOOLEAN)


def own_value(g, scope):
    """A correlated scalar subquery: an aggregate of the rows that are tied to the row around it, or the first of them."""
    origin = rows_within(g, scope, 0)
    about = deep_tie(g, scope, origin.scope)
    if about is None:
        return None
    if g.chance(0.35):
        return e.expr(sql("(SELECT count(*) FROM {f} WHERE {p})", f=origin.text, p=about), t.BIGINT, e.ROWS_MAX)
    y = g.column(origin.scope, where=lambda c: c.type.family not in e.NO_EXTREMES)
    if y is None:
        return None
    if g.chance(0.5):
        return e.expr(sql("(SELECT {x}({y}) FROM {f} WHERE {p})", x=g.pick(["min", "max"]), y=y, f=origin.text, p=about), y.type, y.bound)
    order = order_item(y, g.chance(0.5), g.pick([None, True, False]))
    return e.expr(sql("(SELECT {y} FROM {f} WHERE {p} ORDER BY {o} LIMIT 1{s})", y=y, f=origin.text, p=about, o=order,
                      s=g.pick(["", "", " OFFSET 1"])), y.type, y.bound)


@subquery()
def against_one_value(g, scope, depth):
    """A comparison with an uncorrelated scalar subquery."""
    a = g.column(scope, where=lambda c: c.type.family not in e.NO_EXTREMES)
    if a is None:
        return None
    found = one_value(g, lambda c: comparable(a, c))
    return found and e.expr(sql("({a} {o} {b})", a=a, o=g.pick(["=", "<>", "<", "<=", ">", ">="]), b=found), t.BOOLEAN)


def one_value(g, fits=lambda c: True):
    """An uncorrelated scalar subquery: a global aggregate that gives one of the column's values."""
    relation, alias = g.base(0), g.alias()
    inner = reached(relation, alias)
    y = g.column(inner, where=lambda c: c.type.family not in e.NO_EXTREMES and fits(c))
    if y is None:
        return None
    where = optional(sql(" WHERE {p}", p=g.predicate(inner, 1))) if g.chance(0.5) else NOTHING
    return e.expr(sql("(SELECT {f}({y}) FROM {r} AS {a}{w})", f=g.pick(["min", "max"]), y=y, r=relation.item, a=alias, w=where), y.type, y.bound)


# ---- SELECT ---------------------------------------------------------------------------------------------------


@finish(4)
def projection(g, origin):
    outputs = [g.scalar(origin.scope) for _ in range(g.rng.randint(1, 5))]
    if g.chance(0.04) and (found := one_value(g)):
        outputs.append(found)
    if g.chance(0.15) and (found := own_value(g, origin.scope)):
        outputs.append(found)
    if g.chance(0.15) and (found := g.pick_weighted(SUBQUERIES)(g, origin.scope, 0)):
        outputs.append(found)
    return select(origin, outputs)


def groupable(g, scope):
    key = g.scalar(scope)
    return key if key.opaque is None and "CAST(NULL" not in key.pg else None


@finish(5)
def group_by(g, origin):
    keys = [k for k in (groupable(g, origin.scope) for _ in range(g.rng.randint(1, 2))) if k]
    keys = [k for k in keys if any(c.pg in k.pg for c in origin.scope)]  # a bare constant would be a position
    if not keys:
        return None
    outputs = keys + [g.aggregate(origin.scope) for _ in range(g.rng.randint(1, 3))]
    had = optional(sql(" HAVING {p}", p=having(g, origin))) if g.chance(0.3) else NOTHING
    return select(origin, outputs, sql(" GROUP BY {k}{h}", k=join(keys), h=had))


def having(g, origin):
    aggregates = [a for a in (g.aggregate(origin.scope) for _ in range(3)) if not a.opaque and a.type.family != "float"]
    chosen = aggregates[0] if aggregates else e.count_rows(g, origin.scope)
    return e.comparison(g, [chosen]) or e.null_test(g, [chosen])


@finish(2)
def global_aggregate(g, origin):
    tail = optional(sql(" HAVING {p}", p=having(g, origin))) if g.chance(0.15) else NOTHING
    return select(origin, [g.aggregate(origin.scope) for _ in range(g.rng.randint(1, 3))], tail)


@finish(2)
def distinct(g, origin):
    outputs = [x for x in (groupable(g, origin.scope) for _ in range(g.rng.randint(1, 3))) if x]
    return select(origin, outputs, distinct=True) if outputs else None


# ---- around it ------------------------------------------------------------------------------------------------


def branches(g, depth, count):
    """SELECTs with the columns that they can agree on, or None."""
    relations = [g.relation(depth) for _ in range(count)]
    shape = [c for c in relations[0].columns if not c.opaque]
    for relation in relations[1:]:
        shape = [c for c in shape if any(d.type == c.type and not d.opaque for d in relation.columns)]
    made = []
    for relation in relations if shape else ():
        alias = g.alias()
        columns = [g.pick([d for d in reached(relation, alias) if d.type == c.type and not d.opaque]) for c in shape]
        made.append(select(From(from_item(relation, alias), []), columns))
    return made


def combined(made, operator):
    """Branches with a set operation between them."""
    same = zip(*[m.columns for m in made])
    columns = [e.expr(like[0], like[0].type, None if any(c.bound is None for c in like) else max(c.bound for c in like)) for like in same]
    return made_of(join(made, f" {operator} "), columns)


@wrapper(3)
def union_all(g, depth):
    made = branches(g, depth, g.rng.randint(2, 3))
    return combined(made, "UNION ALL") if made else None


@wrapper(2)
def set_operation(g, depth):
    made = branches(g, depth, 2)
    return combined(made, g.pick(["UNION", "INTERSECT", "EXCEPT"])) if made else None


def in_full_order(g, columns):
    """ORDER BY every column, so that only rows equal in all of them tie."""
    order = list(columns)
    g.rng.shuffle(order)
    return join(order_item(c, g.chance(0.4), g.pick([None, None, True, False])) for c in order)


@wrapper(2)
def top_n(g, depth):
    """ORDER BY, LIMIT and at times OFFSET."""
    inner, alias = g.relation(depth), g.alias()
    if any(c.opaque for c in inner.columns):
        return None
    offset = optional(Sql(*[f" OFFSET {g.rng.randint(1, 3)}"] * 2)) if g.chance(0.4) else NOTHING
    tail = sql(f" ORDER BY {{o}} LIMIT {g.rng.randint(1, 6)}{{f}}", o=in_full_order(g, reached(inner, alias)), f=offset)
    return select(From(from_item(inner, alias), []), reached(inner, alias), tail)


@wrapper(2)
def row_number(g, depth):
    """ROW_NUMBER over all or per partition; at times only the first few."""
    inner, alias = g.relation(depth), g.alias()
    columns = reached(inner, alias)
    if any(c.opaque for c in columns):
        return None
    part = optional(sql("PARTITION BY {p} ", p=join(g.rng.sample(columns, 1)))) if g.chance(0.7) else NOTHING
    number = e.expr(sql("row_number() OVER ({p}ORDER BY {o})", p=part, o=in_full_order(g, columns)), t.BIGINT, e.ROWS_MAX)
    numbered, outer = select(From(from_item(inner, alias), []), [*columns, number]), g.alias()
    if g.chance(0.4):
        return numbered
    seen = reached(numbered, outer)
    first = e.expr(sql("{n} {o} {k}", n=seen[-1], o=g.pick(["<=", "<=", "=", ">"]), k=g.rng.randint(1, 3)), t.BOOLEAN)
    return select(From(from_item(numbered, outer), [], first), seen if g.chance(0.5) else seen[:-1])


@wrapper(2)
def cte_twice(g, depth):
    """A common table expression that is used twice."""
    inner, name = g.relation(depth), f"w{g.alias()}"
    common = named(name, inner.columns)
    x, alias = g.alias(), g.alias()
    origin = From(from_item(common, x), reached(common, x))
    right = reached(common, alias)
    if g.chance(0.7) and (on := conditions(g, origin.scope, right, 0.2)):
        body = projection(g, attached(origin, g.pick(["INNER", "LEFT", "FULL"]), common, alias, on))
    else:
        counted = select(From(from_item(common, alias), right), [e.count_values(g, right) or e.count_rows(g, right)])
        body = combined([counted, select(origin, [e.count_rows(g, origin.scope)])], "UNION ALL")
    return made_of(sql("WITH {n} AS ({q}) {b}", n=name, q=inner, b=body), body.columns)


@wrapper()
def nested(g, depth):
    """A filter and a projection around a subquery."""
    inner, alias = g.relation(depth), g.alias()
    scope = reached(inner, alias)
    return projection(g, From(from_item(inner, alias), scope, g.predicate(scope)))


# ---- rows that fail -------------------------------------------------------------------------------------------


def failing(g):
    """A query over tables that some rows make fail, by a division by zero or a number beyond its type; or None.

    Only whole views are such queries: a view over them reads what is left.
    """
    tables = replace(g, catalog=g.catalog[: g.tables])
    origin = (inner_join if g.chance(0.3) else one_table)(tables, 0)
    found = origin and fragile(g, origin.scope)
    if not found:
        return None
    made, fault = found
    wanted = [origin.where] if origin.where else []
    if g.chance(0.3):
        wanted.append(g.predicate(origin.scope, 1))
    kept = join([*wanted, sql("TRUE", "NOT coalesce({f}, FALSE)", f=fault)], " AND ")
    failed = join([*wanted, fault], " AND ")
    if g.chance(0.6):
        others = [g.scalar(origin.scope) for _ in range(g.rng.randint(1, 3))]
        told = select(replace(origin, where=kept), [made, *others])
    else:
        key = g.column(origin.scope)
        tail = sql(" GROUP BY {k}", k=key) if key else NOTHING
        told = select(replace(origin, where=kept), [*([key] if key else []), expr_of(g, made), e.count_rows(g, origin.scope)], tail)
    return replace(told, failures=f"SELECT count(*) FROM {origin.text.duck} WHERE {failed.duck}")


def expr_of(g, made):
    return e.expr(sql(f"{g.pick(['min', 'max'])}({{x}})", x=made), made.type)


def fragile(g, scope):
    """An expression, and the condition under which it fails."""
    wide = g.column(scope, small=False, where=lambda c: c.type in (t.INTEGER, t.BIGINT))
    if wide and g.chance(0.6):
        kind, top = wide.type, 2 ** (wide.type.bits - 1) - 1
        made = sql("({a} + 1)", f"TRY_CAST(CAST({{a}} AS HUGEINT) + 1 AS {kind.duck})", a=wide)
        return e.expr(made, kind), sql(f"{{a}} = {top}", a=wide)
    a, b = g.number(scope, "int"), g.number(scope, "int")
    if a is None:
        return None
    kind = e.wider(a.type, b.type)
    made = sql("({a} / {b})", f"CAST(({{a}} // nullif({{b}}, 0)) AS {kind.duck})", a=a, b=b)
    return e.expr(made, kind, a.bound), sql("({a} IS NOT NULL AND {b} = 0)", a=a, b=b)
