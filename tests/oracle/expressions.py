"""Scalar expressions, predicates and aggregates: one small function per SQL feature.

A function takes the generator `g` and the `scope` (the columns in reach) and gives an `Expr`, or None where it has
nothing to work on. Its decorator says what it makes and how often it is tried.
"""
from dataclasses import dataclass, field, replace

from . import types as t
from .dialect import NOTHING, Sql, duck_cast, literal, optional, order_item, sql, struct


@dataclass(frozen=True)
class Expr:
    """An expression in both dialects.

    `bound` is the largest magnitude its numbers can have (None: do not compute with it). `opaque` names how the
    judge decodes what DuckDB gives for it (see `compare.DECODERS`); such a column is only carried along.
    """

    pg: str
    duck: str
    type: t.Type
    bound: float | None = None
    opaque: str | None = None
    tree: object = field(default=None, compare=False, repr=False)

    @property
    def kind(self):
        """What the shrinker may put in its place: another expression of the type."""
        return f"{self.type} {self.opaque or ''}"


def expr(piece, kind, bound=None, opaque=None):
    return Expr(piece.pg, piece.duck, kind, bound, opaque, piece.tree)


SCALARS = []      # (weight, function)
PREDICATES = []   # (weight, function)
AGGREGATES = []   # (weight, function)


def scalar(weight=1):
    return lambda function: SCALARS.append((weight, function)) or function


def predicate(weight=1):
    return lambda function: PREDICATES.append((weight, function)) or function


def aggregate(weight=1):
    return lambda function: AGGREGATES.append((weight, function)) or function


def wider(a, b):
    return a if a.bits >= b.bits else b


# ---- integers -------------------------------------------------------------------------------------------------


def two_ints(g, scope):
    a = g.number(scope, "int")
    b = g.number(scope, "int") if g.chance(0.5) else None
    b = b or g.literal(t.INTEGER)
    return (a, b, wider(a.type, b.type)) if a else (None, None, None)


def int_result(pg, duck, a, b, kind, bound):
    if bound >= 2 ** (kind.bits - 1):
        return None
    piece = sql(pg, duck, a=Sql(a.pg, duck_cast(a, kind).duck), b=Sql(b.pg, duck_cast(b, kind).duck))
    return expr(duck_cast(piece, kind), kind, bound)


@scalar(4)
def integer_arithmetic(g, scope):
    a, b, kind = two_ints(g, scope)
    if a is None:
        return None
    sign = g.pick("+-*")
    bound = a.bound * b.bound if sign == "*" else a.bound + b.bound
    return int_result(f"({{a}} {sign} {{b}})", None, a, b, kind, bound)


@scalar(2)
def integer_division(g, scope):
    a, b, kind = two_ints(g, scope)
    if a is None:
        return None
    sign, duck = g.pick([("/", "//"), ("%", "%")])
    return int_result(f"({{a}} {sign} nullif({{b}}, 0))", f"({{a}} {duck} nullif({{b}}, 0))", a, b, kind, a.bound)


@scalar()
def integer_sign(g, scope):
    a = g.number(scope, "int")
    return a and expr(sql(g.pick(["abs({a})", "(- {a})"]), a=a), a.type, a.bound)


@scalar()
def integer_widths(g, scope):
    """A cast to another integer type that the value fits."""
    a = g.number(scope, "int")
    kind = g.pick([t.SMALLINT, t.INTEGER, t.BIGINT])
    return a and a.bound < 2 ** (kind.bits - 1) and expr(sql(f"CAST({{a}} AS {kind.name})", a=a), kind, a.bound)


@scalar()
def bytes_measures(g, scope):
    a = g.column(scope, "bytes")
    return a and expr(duck_cast(sql("octet_length({a})", a=a), t.INTEGER), t.INTEGER, 1000)


@scalar()
def text_measures(g, scope):
    a = g.column(scope, "text")
    call = g.pick(["char_length({a})", "octet_length({a})", "strpos({a}, 'a')"])
    return a and expr(duck_cast(sql(call, call.replace("octet_length({a})", "octet_length(encode({a}))"), a=a), t.INTEGER), t.INTEGER, 1000)


@scalar()
def time_parts(g, scope):
    a = g.column(scope, "date", "timestamp")
    if a is None:
        return None
    parts = ["year", "month", "day", "doy", "isodow"] + (["hour", "minute"] if a.type.family == "timestamp" else [])
    return expr(sql(f"CAST(extract({g.pick(parts)} FROM {{a}}) AS INTEGER)", a=a), t.INTEGER, 10_000)


@scalar()
def days_between(g, scope):
    a, b = g.column(scope, "date"), g.column(scope, "date")
    return a and expr(duck_cast(sql("({a} - {b})", a=a, b=b), t.INTEGER), t.INTEGER, 4_000_000)


@scalar()
def cast_to_integer(g, scope):
    a = g.number(scope, "int", "numeric") or g.column(scope, "bool")
    if a is None:
        return None
    bound = a.bound or 1
    return expr(sql("CAST({a} AS INTEGER)", a=a), t.INTEGER, bound + 1) if bound < 2**31 - 1 else None


# ---- decimals and doubles -------------------------------------------------------------------------------------


@scalar(2)
def decimal_arithmetic(g, scope):
    a, b = g.number(scope, "numeric"), g.number(scope, "numeric")
    if a is None or a.bound + b.bound > 1e12:
        return None
    scale = max(a.type.scale, b.type.scale)
    kind = t.numeric(38, scale)
    piece = sql(f"({{a}} {g.pick('+-')} {{b}})", a=duck_cast(a, kind), b=duck_cast(b, kind))
    return expr(duck_cast(piece, kind), kind, a.bound + b.bound)


@scalar(2)
def decimal_product(g, scope):
    a, b = g.number(scope, "numeric"), g.number(scope, "numeric") if g.chance(0.5) else g.number(scope, "int")
    if a is None or b is None or a.bound * b.bound > 1e9:
        return None
    left, right = t.numeric(19, a.type.scale), t.numeric(19, b.type.scale or 0)
    if left.scale + right.scale > 12:
        return None
    kind = t.numeric(38, left.scale + right.scale)
    return expr(sql("({a} * {b})", a=duck_cast(a, left), b=duck_cast(b, right)), kind, a.bound * b.bound)


@scalar()
def decimal_rounding(g, scope):
    a = g.number(scope, "numeric")
    digits = g.rng.randint(0, 1)
    return a and a.type.scale >= digits and expr(sql(f"round({{a}}, {digits})", a=a), t.numeric(38, digits), a.bound + 1)


@scalar(2)
def double_arithmetic(g, scope):
    a = g.column(scope, "float", small=True, where=lambda c: c.type is t.DOUBLE)
    if a is None or a.bound > 1e6:
        return None
    return expr(sql(g.pick(["({a} + {b})", "({a} - {b})", "({a} * {b})", "abs({a})", "floor({a})", "({a} / 4)"]), a=a,
                    b=g.literal(t.DOUBLE)), t.DOUBLE)


@scalar()
def cast_to_double(g, scope):
    a = g.column(scope, "int", "numeric")
    return a and expr(sql("CAST({a} AS {pg})", "CAST({a} AS {duck})", a=a, pg=t.DOUBLE.name, duck=t.DOUBLE.duck), t.DOUBLE)


@scalar()
def cast_to_numeric(g, scope):
    """A cast to another scale; what is cut off is rounded half away from zero in both dialects."""
    a = g.number(scope, "int", "numeric")
    kind = g.pick([t.numeric(18, 1), t.numeric(20, 3)])
    return a and a.bound < 1e12 and expr(sql(f"CAST({{a}} AS {kind.name})", f"CAST({{a}} AS {kind.duck})", a=a), kind, a.bound + 1)


@scalar()
def decimal_sign(g, scope):
    a = g.number(scope, "numeric")
    return a and expr(sql(g.pick(["abs({a})", "(- {a})"]), a=a), a.type, a.bound)


@scalar()
def real_sign(g, scope):
    a = g.column(scope, "float")
    return a and expr(sql(g.pick(["abs({a})", "(- {a})"]), a=a), a.type, a.bound)


@scalar()
def real_to_double(g, scope):
    a = g.column(scope, "float", where=lambda c: c.type is t.REAL)
    return a and expr(sql("CAST({a} AS DOUBLE PRECISION)", "CAST({a} AS DOUBLE)", a=a), t.DOUBLE, a.bound)


# ---- text, time -----------------------------------------------------------------------------------------------


@scalar(3)
def text_functions(g, scope):
    a = g.column(scope, "text")
    calls = ["upper({a})", "lower({a})", "trim({a})", "substr({a}, 2, 3)", "left({a}, 2)", "right({a}, 1)", "reverse({a})",
             "replace({a}, 'a', 'xy')", "({a} || '-')", "({a} || {b})", "concat({a}, {b})", "lpad({a}, 4, '*')", "rpad({a}, 3, 'é')",
             "ltrim({a}, 'a')", "rtrim({a}, 'b ')", "repeat({a}, 2)", "split_part({a}, 'b', 1)", "translate({a}, 'ab', 'éx')", "md5({a})",
             "concat_ws('/', {a}, {b})", "substr({a}, 2)"]
    call = g.pick(calls)
    duck = "array_to_string(list_reverse(regexp_extract_all({a}, '(?s).')), '')" if call == "reverse({a})" else call
    return a and expr(sql(call, duck, a=a, b=g.column(scope, "text")), t.TEXT)


@scalar()
def cast_to_text(g, scope):
    a = g.column(scope, "int", "bool", "date")
    return a and expr(sql("CAST({a} AS {pg})", "CAST({a} AS {duck})", a=a, pg="TEXT", duck="VARCHAR"), t.TEXT)


@scalar()
def bytes_to_text(g, scope):
    a = g.column(scope, "bytes")
    return a and expr(sql("encode({a}, 'hex')", "lower(hex({a}))", a=a), t.TEXT)


@scalar()
def bytes_joined(g, scope):
    a, b = g.column(scope, "bytes"), g.column(scope, "bytes")
    return a and expr(sql("({a} || {b})", a=a, b=b), t.BYTEA)


@scalar()
def date_steps(g, scope):
    a = g.column(scope, "date", small=None, where=lambda c: c.bound == 0)
    return a and expr(sql(f"({{a}} + {g.rng.randint(-40, 40)})", a=a), t.DATE, 0)


@scalar()
def timestamp_to_date(g, scope):
    a = g.column(scope, "timestamp")
    return a and expr(sql("CAST({a} AS DATE)", a=a), t.DATE)


@scalar(2)
def timestamp_steps(g, scope):
    a = g.column(scope, "timestamp", small=None, where=lambda c: c.bound == 0)
    calls = ["date_trunc('hour', {a})", "CAST(date_trunc('day', {a}) AS TIMESTAMP)", "({a} + INTERVAL '90 minutes')",
             "({a} - INTERVAL '1 day')"]
    return a and expr(sql(g.pick(calls), a=a), t.TIMESTAMP, 0)


@scalar(2)
def instant_steps(g, scope):
    """Arithmetic of TIMESTAMPTZ that no time zone can change."""
    a = g.column(scope, "timestamptz", small=None, where=lambda c: c.bound == 0)
    calls = ["({a} + INTERVAL '90 minutes')", "({a} - INTERVAL '3 hours')", "date_trunc('minute', {a})"]
    return a and expr(sql(g.pick(calls), a=a), t.TIMESTAMPTZ, 0)


@scalar()
def date_to_timestamp(g, scope):
    a = g.column(scope, "date", small=None, where=lambda c: c.bound == 0)
    return a and expr(sql("CAST({a} AS TIMESTAMP)", a=a), t.TIMESTAMP, 0)


# ---- any type -------------------------------------------------------------------------------------------------


def same_type(g, scope, a):
    return g.column(scope, a.type.family, where=lambda c: c.type == a.type and c is not a) or g.literal(a.type)


@scalar(2)
def null_functions(g, scope):
    a = g.column(scope)
    if a is None:
        return None
    b = same_type(g, scope, a)
    calls = ["coalesce({a}, {b})"] + (["nullif({a}, {b})"] if a.type.family != "struct" else [])
    if a.type.family not in ("bool", "bytes", "struct"):
        calls += ["greatest({a}, {b})", "least({a}, {b})"]
    return expr(sql(g.pick(calls), a=a, b=b), a.type, g.bound(a, b))


@scalar(2)
def case_when(g, scope):
    a = g.column(scope)
    if a is None:
        return None
    b = same_type(g, scope, a)
    other = g.pick(["ELSE {b} ", ""])
    return expr(sql(f"CASE WHEN {{p}} THEN {{a}} {other}END", a=a, b=b, p=g.predicate(scope, 1)), a.type, g.bound(a, b))


@scalar(2)
def struct_field(g, scope):
    a = g.column(scope, "struct")
    if a is None:
        return None
    name, kind = g.pick(a.type.fields)
    return expr(sql(f"({{a}}).{name}", a=a), kind, t.bound_of(kind, a.bound is None))


@scalar()
def struct_made(g, scope):
    a, b = g.column(scope, "int", where=lambda c: c.type is t.INTEGER), g.column(scope, "text")
    return a and b and expr(struct([a, b], t.PAIR), t.PAIR)


@scalar()
def simple_case(g, scope):
    a = g.number(scope, "int")
    return a and expr(sql("CASE {a} WHEN 0 THEN 'zero' WHEN 1 THEN 'one' ELSE 'many' END", a=a), t.TEXT)


# ---- predicates -----------------------------------------------------------------------------------------------


@predicate(5)
def comparison(g, scope):
    a = g.column(scope, where=lambda c: c.type.family != "bool")
    if a is None:
        return None
    b = g.column(scope, a.type.family, where=lambda c: c.type == a.type and c is not a) if g.chance(0.4) else None
    return expr(sql("({a} {op} {b})", a=a, b=b or g.literal(a.type, near=a), op=g.pick(["=", "<>", "<", "<=", ">", ">="])), t.BOOLEAN)


@predicate(2)
def null_test(g, scope):
    a = g.column(scope, opaque=True)
    if a is None:
        return None
    said = g.pick(["", "NOT "])
    fields = " AND ".join(f"({{a}}).{name} IS {said}NULL" for name, _ in a.type.fields)
    duck = f"({{a}} IS {said}NULL {'AND' if said else 'OR'} ({fields}))" if fields else "({a} IS {n}NULL)"
    return expr(sql("({a} IS {n}NULL)", duck, a=a, n=said), t.BOOLEAN)


@predicate()
def distinct_test(g, scope):
    a = g.column(scope)
    return a and expr(sql("({a} IS {n}DISTINCT FROM {b})", a=a, b=same_type(g, scope, a), n=g.pick(["", "NOT "])), t.BOOLEAN)


@predicate()
def membership(g, scope):
    a = g.column(scope, "int", "text", "date")
    if a is None:
        return None
    items = [g.literal(a.type, near=a) for _ in range(3)] + ([Sql("NULL", "NULL")] if g.chance(0.2) else [])
    listed = Sql(", ".join(i.pg for i in items), ", ".join(i.duck for i in items))
    return expr(sql("({a} {n}IN ({b}))", a=a, b=listed, n=g.pick(["", "NOT "])), t.BOOLEAN)


@predicate()
def between(g, scope):
    a = g.column(scope, "int", "numeric", "date", "timestamp", "text")
    return a and expr(sql("({a} BETWEEN {b} AND {c})", a=a, b=g.literal(a.type, near=a), c=g.literal(a.type, near=a)), t.BOOLEAN)


@predicate()
def like(g, scope):
    a = g.column(scope, "text")
    return a and expr(sql("({a} {n}LIKE '{p}')", a=a, n=g.pick(["", "NOT "]), p=g.pick(["a%", "%b%", "_", "%", "a_"])), t.BOOLEAN)


@predicate()
def boolean_column(g, scope):
    a = g.column(scope, "bool")
    return a and expr(sql(g.pick(["{a}", "(NOT {a})", "({a} IS TRUE)", "({a} IS NOT FALSE)"]), a=a), t.BOOLEAN)


# ---- aggregates -----------------------------------------------------------------------------------------------

ROWS_MAX = 10_000
NO_EXTREMES = ("bool", "bytes", "struct")  # types that MIN and MAX do not take


def modifiers(g, scope):
    """DISTINCT and FILTER for an aggregate, each at times: `(distinct, filter, the filter's condition)`."""
    said = optional(Sql("DISTINCT ", "DISTINCT ")) if g.chance(0.2) else NOTHING
    condition = g.predicate(scope, 1) if g.chance(0.2) else None
    return said, optional(sql(" FILTER (WHERE {p})", p=condition)) if condition else NOTHING, condition


@aggregate(4)
def count_rows(g, scope):
    _, f, _ = modifiers(g, scope)
    return expr(sql("count(*){f}", f=f), t.BIGINT, ROWS_MAX)


@aggregate(3)
def count_values(g, scope):
    a = g.column(scope)
    d, f, _ = modifiers(g, scope)
    return a and expr(sql("count({d}{a}){f}", a=a, d=d, f=f), t.BIGINT, ROWS_MAX)


@aggregate(4)
def sum_integers(g, scope):
    a = g.column(scope, "int")
    if a is None:
        return None
    d, f, _ = modifiers(g, scope)
    kind = t.numeric(38, 0) if a.type is t.BIGINT else t.BIGINT
    return expr(duck_cast(sql("sum({d}{a}){f}", "sum({d}CAST({a} AS DECIMAL(38,0))){f}", a=a, d=d, f=f), kind), kind, a.bound and a.bound * ROWS_MAX)


@aggregate(2)
def sum_decimals(g, scope):
    a = g.column(scope, "numeric")
    d, f, _ = modifiers(g, scope)
    kind = a and t.numeric(38, a.type.scale)
    return a and expr(duck_cast(sql("sum({d}{a}){f}", a=a, d=d, f=f), kind), kind, a.bound and a.bound * ROWS_MAX)


@aggregate(2)
def sum_floats(g, scope):
    a = g.column(scope, "float")
    if a is None or (a.type is t.REAL and (a.bound or 1e9) > 100):
        return None
    d, f, condition = modifiers(g, scope)
    if a.bound is not None and a.bound < 1e6:
        return expr(duck_cast(sql("sum({d}{a}){f}", a=a, d=d, f=f), a.type), a.type, a.bound * ROWS_MAX)
    return listed_float(a, d, condition, "sum", a.type)


def listed_float(a, d, condition, call, kind):
    """A sum or average of doubles; on DuckDB's side the list of values, which Python adds up."""
    f = optional(sql(" FILTER (WHERE {p})", " AND {p}", p=condition)) if condition else NOTHING
    piece = sql(f"{call}({{d}}{{a}}){{f}}", "list({d}{a}) FILTER (WHERE {a} IS NOT NULL{f})", a=a, d=d, f=f)
    return expr(piece, kind, opaque={"sum": "float_sum", "avg": "float_average"}[call])


@aggregate(3)
def average(g, scope):
    a = g.column(scope, "int", "numeric", "float")
    if a is None:
        return None
    d, f, condition = modifiers(g, scope)
    if a.type.family == "float":
        return listed_float(a, d, condition, "avg", t.DOUBLE)
    term = "CAST({a} AS DECIMAL(38,0))" if a.type.family == "int" else "{a}"
    duck = "CASE WHEN count({d}{a}){f} > 0 THEN {{'sum': CAST(sum({d}" + term + "){f} AS VARCHAR), 'count': count({d}{a}){f}}} END"
    return expr(sql("avg({d}{a}){f}", duck, a=a, d=d, f=f), t.numeric(38, None), opaque="average")


@aggregate(2)
def spreads(g, scope):
    """A variance or deviation; on DuckDB's side the list of values, of which Python computes it."""
    a = g.column(scope, "int", "numeric", "float")
    if a is None or a.bound is None or a.bound > 1e6:
        return None
    name = g.pick(["stddev_samp", "stddev_pop", "var_samp", "var_pop"])
    said = {"stddev_samp": g.pick(["stddev", name]), "var_samp": g.pick(["variance", name])}.get(name, name)
    d, f, condition = modifiers(g, scope)
    extra = optional(sql(" FILTER (WHERE {p})", " AND {p}", p=condition)) if condition else NOTHING
    piece = sql(f"{said}({{d}}{{a}}){{f}}", "list({d}{a}) FILTER (WHERE {a} IS NOT NULL{f})", a=a, d=d, f=extra)
    return expr(piece, t.DOUBLE if a.type.family == "float" else t.numeric(38, None), opaque=name)


def element_order(g, scope, a, distinct):
    """ORDER BY inside a call, at times; DuckDB is told that ties and the rest go by value."""
    by_value = order_item(a, False, None)
    key = a if distinct else g.column(scope)
    if key is None or g.chance(0.4):
        return sql("", " ORDER BY {v}", v=by_value)
    item = order_item(key, g.chance(0.5), g.pick([None, None, True, False]))
    return sql(" ORDER BY {k}", " ORDER BY {k}" if distinct else " ORDER BY {k}, {v}", k=item, v=by_value)


@aggregate(3)
def arrays_of(g, scope):
    a = g.column(scope)
    if a is None or (a.type.family == "numeric" and a.type.scale is None):
        return None
    d, f, _ = modifiers(g, scope)
    piece = sql("array_agg({d}{a}{o}){f}", "list({d}{a}{o}){f}", a=a, d=d, f=f, o=element_order(g, scope, a, bool(d.pg)))
    return expr(piece, t.array_of(a.type), opaque="array")


@aggregate(2)
def texts_of(g, scope):
    a = g.column(scope, "text")
    if a is None:
        return None
    d, f, _ = modifiers(g, scope)
    between = literal(g.pick([",", "", "; "]), t.TEXT)
    order = element_order(g, scope, a, bool(d.pg))
    return expr(sql("string_agg({d}{a}, {b}{o}){f}", a=a, d=d, f=f, b=between, o=order), t.TEXT)


@aggregate(1)
def count_pairs(g, scope):
    a, b = g.column(scope), g.column(scope)
    if a is None or b is None:
        return None
    _, f, _ = modifiers(g, scope)
    return expr(sql("count(DISTINCT ({a}, {b})){f}", a=a, b=b, f=f), t.BIGINT, ROWS_MAX)


@aggregate(4)
def extremes(g, scope):
    a = g.column(scope, where=lambda c: c.type.family not in NO_EXTREMES)
    d, f, _ = modifiers(g, scope)
    return a and expr(sql("{x}({d}{a}){f}", a=a, x=g.pick(["min", "max"]), d=d, f=f), a.type, a.bound)


def renamed(column, reference):
    """The column as seen through a reference such as `a.c1`."""
    return replace(column, pg=reference, duck=reference, tree=None)


def constant(value, kind, bound=None):
    return expr(literal(value, kind), kind, bound)
