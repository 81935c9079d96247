"""The column types: their names in both dialects, and random values of them.

A column is *small* (few distinct values, arithmetic cannot overflow, sums of floats are exact in any order) or
*wide* (the extremes of its type). Expressions compute with small columns; wide ones are carried, compared,
grouped and counted.
"""
import datetime
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True)
class Type:
    """A SQL type. `oid` is PostgreSQL's; `scale` the digits after the point, None where it does not apply."""

    name: str
    duck: str
    family: str
    oid: int
    bits: int = 0
    precision: int = 0
    scale: int | None = None
    word: str = ""
    element: "Type | None" = None
    fields: tuple = ()

    def __str__(self):
        return self.name


BOOLEAN = Type("BOOLEAN", "BOOLEAN", "bool", 16)
SMALLINT = Type("SMALLINT", "SMALLINT", "int", 21, bits=16)
INTEGER = Type("INTEGER", "INTEGER", "int", 23, bits=32)
BIGINT = Type("BIGINT", "BIGINT", "int", 20, bits=64)
REAL = Type("REAL", "REAL", "float", 700, bits=32)
DOUBLE = Type("DOUBLE PRECISION", "DOUBLE", "float", 701, bits=64)
TEXT = Type("TEXT", "VARCHAR", "text", 25)
BYTEA = Type("BYTEA", "BLOB", "bytes", 17)
DATE = Type("DATE", "DATE", "date", 1082, word="DATE")
TIMESTAMP = Type("TIMESTAMP", "TIMESTAMP", "timestamp", 1114, word="TIMESTAMP")
TIMESTAMPTZ = Type("TIMESTAMPTZ", "TIMESTAMPTZ", "timestamptz", 1184, word="TIMESTAMPTZ")


def numeric(precision, scale):
    name = f"NUMERIC({precision},{scale})"
    return Type(name, f"DECIMAL({precision},{scale})", "numeric", 1700, precision=precision, scale=scale)


_ARRAY_OIDS = {16: 1000, 17: 1001, 20: 1016, 21: 1005, 23: 1007, 25: 1009, 700: 1021, 701: 1022, 1082: 1182, 1114: 1115, 1184: 1185, 1700: 1231, 2249: 2287}


def array_of(kind):
    return Type(f"{kind.name}[]", f"{kind.duck}[]", "array", _ARRAY_OIDS[kind.oid], element=kind)


def struct_of(**fields):
    """A STRUCT; PostgreSQL's clients see an anonymous record."""
    listed = [", ".join(f"{name} {getattr(kind, side)}" for name, kind in fields.items()) for side in ("name", "duck")]
    return Type(f"STRUCT<{listed[0]}>", f"STRUCT({listed[1]})", "struct", 2249, fields=tuple(fields.items()))


PAIR = struct_of(p=INTEGER, q=TEXT)
TRIPLE = struct_of(x=DATE, y=BOOLEAN, z=BIGINT)

WORDS = ["", "a", "A", "ab", "b", "é", "b ", " c", "it's", "e\u0301", "Жук", "🚲x", "日本", "ñ", "NULL", "back\\slash", "a%b", "a_b", "line\nbreak",
         "x" * 200]
UTC = datetime.timezone.utc


def column_type(rng):
    """A random type for a table's column."""
    kinds = [BOOLEAN, SMALLINT, INTEGER, INTEGER, BIGINT, BIGINT, REAL, DOUBLE, DOUBLE, TEXT, TEXT, TEXT, BYTEA, DATE,
             TIMESTAMP, TIMESTAMPTZ, PAIR, PAIR, TRIPLE, numeric(5, 0), numeric(10, 2), numeric(18, 4), numeric(38, 9)]
    return rng.choice(kinds)


def bound_of(kind, wide):
    """The largest magnitude that a column's numbers have, for overflow-free arithmetic; None: no arithmetic."""
    return None if wide else {"int": 9, "numeric": 100, "float": 100, "date": 0, "timestamp": 0, "timestamptz": 0}.get(kind.family)


def random_value(rng, kind, wide):
    """A random value of a type; never NULL."""
    return _MAKERS[kind.family](rng, kind, wide)


def _int(rng, kind, wide):
    if not wide:
        return rng.randint(-9, 9) if rng.random() < 0.5 else rng.randint(0, 4)
    top = 2 ** (kind.bits - 1)
    pool = [top - 1, -top, -top + 1, 0, 1, -1, rng.randint(-top, top - 1)]
    return rng.choice(pool + ([2**53 + 1, -(2**53) - 1] if kind.bits == 64 else []))


def _numeric(rng, kind, wide):
    step = Decimal(1).scaleb(-kind.scale)
    if not wide:
        return rng.randint(-100 * 4, 100 * 4) * Decimal("0.25") if kind.scale >= 2 else Decimal(rng.randint(-9, 9))
    digits = min(kind.precision, 35)  # so that a thousand of the largest still sum within 38 digits
    top = Decimal(10**digits - 1) * step
    return rng.choice([top, -top, step, -step, Decimal(0), rng.randint(-(10**digits) + 1, 10**digits - 1) * step])


def _float(rng, kind, wide):
    if not wide:
        return rng.choice([-0.0, 0.0]) if rng.random() < 0.1 else rng.randint(-400, 400) / 4 if rng.random() < 0.6 else rng.randint(-3, 3) / 2
    # The largest are such that a thousand of them still sum within the type: a sum beyond it is an error.
    if kind.bits == 32:
        return rng.choice([-0.0, 0.0, 1e-45, 1e35, -1e35, 1e-37, 0.1, float("nan"), float("inf"),
                           -float("inf"), 16777217.0])
    return rng.choice([-0.0, 0.0, 1e305, 1e16, -1e16, 0.1, 0.2, 1e-300, 1e300, 5e-324, float("nan"), float("inf"),
                       -float("inf"), 1.0, rng.uniform(-1e6, 1e6), 2.0**53])


def _date(rng, _kind, wide):
    if wide:
        return rng.choice([datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(1969, 12, 31), datetime.date(2024, 2, 29)])
    return datetime.date(2024, 2, 25) + datetime.timedelta(days=rng.randint(0, 9))


def _timestamp(rng, kind, wide):
    zone = UTC if kind.family == "timestamptz" else None
    if wide:
        value = rng.choice([datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30, 23, 59, 59, 999999),
                            datetime.datetime(1969, 12, 31, 23, 59, 59, 999999), datetime.datetime(2024, 10, 27, 0, 30, 0, 1)])
    else:
        value = datetime.datetime(2024, 2, 28, 22) + datetime.timedelta(minutes=30 * rng.randint(0, 8), microseconds=rng.choice([0, 0, 1, 999999]))
    return value.replace(tzinfo=zone)


def _struct(rng, kind, wide):
    """A value of each field, at times NULL."""
    return tuple(None if rng.random() < 0.15 else random_value(rng, of, wide) for _, of in kind.fields)


_MAKERS = {
    "struct": _struct,
    "bool": lambda rng, kind, wide: rng.random() < 0.5,
    "int": _int,
    "numeric": _numeric,
    "float": _float,
    "text": lambda rng, kind, wide: rng.choice(WORDS if wide else WORDS[:6]),
    "bytes": lambda rng, kind, wide: rng.choice([b"", b"\x00", b"\x00\xff", b"ab", bytes(range(256)) if wide else b"'\\"]),
    "date": _date,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
}
