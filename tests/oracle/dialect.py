"""Every difference between PostgreSQL's SQL, which Cenote speaks, and DuckDB's, in one place.

A piece of SQL is a pair of texts, one per dialect. `sql("a + {x}", x=piece)` fills both. What differs and how it
is brought together:

| Subject | PostgreSQL | DuckDB | Here |
|---|---|---|---|
| `int / int` | truncates | is a double | `//` in DuckDB |
| arithmetic of small integer types | type of the wider operand | literals adapt | operands are cast in DuckDB |
| `sum(bigint)` | numeric | hugeint | expected as numeric of scale 0 |
| `sum(int)` | bigint | hugeint | expected as bigint |
| `avg(int or numeric)` | numeric | double | DuckDB gives sum and count; compared to the digits that came back |
| `sum`, `avg` of doubles | depends on order; too large is an error | depends on order | Cenote's rule: the exact sum, rounded once; none is generated that is too large; DuckDB gives the list |
| variances and deviations | numeric of exact numbers; of doubles they depend on order | double | DuckDB gives the list; computed exactly, compared as averages are |
| order inside `array_agg`, `string_agg` | open where ORDER BY leaves it so | open | Cenote's rule: by value, NULLs last; DuckDB is told (PostgreSQL is not) |
| order of NULLs | last, first when DESC | last | always written out in DuckDB |
| order of text | collation | bytes | bytes: PostgreSQL must run with the C collation |
| order of NaN | above all numbers | the same | |
| `-0.0` | equal to `0.0` | the same | equal when compared |
| `sum` of large BIGINTs | exact | wraps around at times (2.0.1, behind a join) | summed as DECIMAL(38,0) in DuckDB |
| `reverse` | by code point | by grapheme | by code point, with a list in DuckDB |
| upper and lower case | locale | Unicode | Unicode: PostgreSQL must run with the character type C.UTF-8 |
| `encode(bytes, 'hex')` | lower case | `hex` is upper case | `lower(hex(...))` in DuckDB |
| `extract` | numeric | bigint | cast to INT in both |
| `date - date` | integer | bigint | cast in DuckDB |
| bytea literals | `'\\x00ff'` | `'\\x00\\xff'` | written per dialect |
| numeric products | unbounded | 38 digits | cast to 38 digits in DuckDB; operands are kept small |
| `struct IS NULL` | also when every field is NULL; IS NOT NULL when none is | only the struct itself | written out in DuckDB |
| primary keys | checked at the statement's end | checked eagerly | not declared in DuckDB; cases never violate them |
"""
import datetime
import math
from dataclasses import dataclass, field, replace
from decimal import Decimal


@dataclass(frozen=True)
class Sql:
    """One piece of SQL in both dialects. `tree` is what it was made of (a `Fill` or a `Listed`), for the shrinker."""

    pg: str
    duck: str
    tree: object = field(default=None, compare=False, repr=False)
    kind: str = field(default="", compare=False, repr=False)


@dataclass(frozen=True)
class Fill:
    """A template with its parts."""

    template: str
    duck_template: str | None
    parts: dict


@dataclass(frozen=True)
class Listed:
    """Pieces strung together, each of which could go."""

    pieces: tuple
    separator: str


NOTHING = Sql("", "")


def sql(template, duck_template=None, **parts):
    """Fills a template in both dialects. A part with `.pg` and `.duck` is filled in by dialect, others as they are."""
    def fill(text, side):
        return text.format(**{k: getattr(v, side) if hasattr(v, side) else v for k, v in parts.items()})
    return Sql(fill(template, "pg"), fill(duck_template or template, "duck"), Fill(template, duck_template, parts))


def join(pieces, separator=", "):
    """Strings pieces together."""
    pieces = tuple(pieces)
    return Sql(separator.join(p.pg for p in pieces), separator.join(p.duck for p in pieces), Listed(pieces, separator))


def optional(piece):
    """A piece that the shrinker may leave out."""
    return replace(piece, kind="optional")


def of_kind(piece, kind):
    """A piece that the shrinker may put in the place of another of the same kind that holds it."""
    return replace(piece, kind=kind)


def duck_cast(piece, kind):
    """The piece, with a cast on DuckDB's side only."""
    return sql("{x}", "CAST({x} AS {t})", x=piece, t=kind.duck)


def order_item(column, descending, nulls_first):
    """An ORDER BY item. `nulls_first` None leaves it to PostgreSQL's default, which DuckDB is told."""
    direction = "DESC" if descending else "ASC"
    default_first = descending
    first = default_first if nulls_first is None else nulls_first
    said = f" NULLS {'FIRST' if first else 'LAST'}"
    return sql(f"{{c}} {direction}{'' if nulls_first is None else said}", f"{{c}} {direction}{said}", c=column)


def quoted(text):
    return "'" + text.replace("'", "''") + "'"


def literal(value, kind):
    """A value as SQL text that keeps its type where an expression needs it."""
    if value is None:
        return sql("CAST(NULL AS {pg})", "CAST(NULL AS {duck})", pg=kind.name, duck=kind.duck)
    if kind.family == "bool":
        return sql(str(value).upper())
    if kind.family == "int":
        return sql(str(value) if kind.name == "INTEGER" else f"CAST({value} AS {kind.name})")
    if kind.family == "numeric":
        return sql(f"CAST({format(value, 'f')} AS {kind.name})", f"CAST('{format(value, 'f')}' AS {kind.duck})")
    if kind.family == "float":
        said = float_text(value)
        return sql(f"CAST('{said}' AS {kind.name})", f"CAST('{said}' AS {kind.duck})")
    if kind.family == "bytes":
        escaped = "".join(f"\\x{b:02x}" for b in value)
        return Sql(f"'\\x{value.hex()}'::bytea", f"'{escaped}'::BLOB")
    if kind.family == "text":
        return Sql(quoted(value), quoted(value))
    if kind.family == "struct":
        return struct([literal(part, of) for part, (_, of) in zip(value, kind.fields)], kind)
    return Sql(*[f"{kind.word} '{time_text(value)}'"] * 2)


def struct(parts, kind):
    """A STRUCT of its fields' pieces."""
    named = join(sql(f"'{name}': {{v}}", v=Sql("", part.duck)) for part, (name, _) in zip(parts, kind.fields)).duck
    pg = sql(f"CAST(ROW({{parts}}) AS {kind.name})", parts=join(parts))
    return Sql(pg.pg, f"CAST({{{named}}} AS {kind.duck})", pg.tree)


def bare_literal(value, kind):
    """A value as people write it in VALUES, leaving its type to the column."""
    if value is None:
        return Sql("NULL", "NULL")
    if kind.family == "int":
        return Sql(str(value), str(value))
    if kind.family == "numeric":
        return Sql(format(value, "f"), f"'{format(value, 'f')}'")
    if kind.family == "float" and math.isfinite(value):
        return Sql(float_text(value), f"'{float_text(value)}'")
    return literal(value, kind)


def float_text(value):
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(value)


def time_text(value):
    if isinstance(value, datetime.datetime):
        zone = "+00" if value.tzinfo else ""
        return value.strftime(f"{value.year:04d}-%m-%d %H:%M:%S.%f") + zone
    return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"


def fetched(expression, kind):
    """How DuckDB's side selects an output column, so that Python gets it without loss."""
    return f"epoch_us({expression})" if kind.family == "timestamptz" else expression


def decimal_of(value):
    return value if isinstance(value, Decimal) else Decimal(value)
