"""Two bags of typed rows: what DuckDB says, decoded, against what came back.

Values are compared exactly: numbers by value, decimals with their scale, doubles bit for bit (NaN equals NaN, `-0.0`
equals `0.0`), instants to the microsecond, arrays and structs part by part. Some kinds of columns need a rule of their own, because DuckDB's own
result depends on the order of rows:

- a **float sum** must be the exact sum of the values, rounded once to the nearest double;
- a **variance** or **deviation** must agree with the one computed exactly from the list of values, as an average does;
- an **average** must agree to 1 in 10^12 (or to 10^-6, whichever is more) and, where it is a decimal, to one unit of
  the last digit that it shows.
"""
import datetime
import math
import struct
from collections import Counter, defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction

RELATIVE = Fraction(1, 10**12)
_EPOCH = datetime.datetime(1970, 1, 1)


class Approximate:
    """A number known better than the other side shows it."""

    def __init__(self, exact, floor=Fraction(0)):
        self.exact, self.floor = exact, floor

    def agrees(self, got):
        if got is None or isinstance(got, str):
            return False
        if not math.isfinite(got):
            return False
        off = abs(Fraction(got) - self.exact)
        if isinstance(got, Decimal) and off > Fraction(10) ** got.as_tuple().exponent:
            return False
        return off <= max(abs(self.exact) * RELATIVE, self.floor)

    def __repr__(self):
        return f"about {float(self.exact)!r}"

    def __lt__(self, other):
        return float(self.exact) < float(getattr(other, "exact", other))


def exact_float_sum(values):
    """The sum of doubles, rounded once; the rules of IEEE 754 for NaN and infinities."""
    special = [v for v in values if not math.isfinite(v)]
    if special:
        return sum(special)
    total = sum((Fraction(v) for v in values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _float_sum(value, kind):
    return None if value is None else canonical(exact_float_sum(value), kind)


def _float_average(value, _kind):
    if value is None:
        return None
    total = exact_float_sum(value)
    if not math.isfinite(total):
        return canonical(total, None)
    return Approximate(sum((Fraction(v) for v in value), Fraction(0)) / len(value))


def _average(value, _kind):
    return None if value is None else Approximate(Fraction(Decimal(value["sum"])) / value["count"], Fraction(1, 10**6))


def _spread(sample, root):
    """A variance or deviation of the values of a list; few values have none."""
    def decode(values, kind):
        count = len(values or [])
        if count < (2 if sample else 1):
            return None
        exact = [Fraction(v) for v in values]
        floor = Fraction(1, 10**6) if kind.family == "numeric" else Fraction(0)
        variance = (count * sum(v * v for v in exact) - sum(exact) ** 2) / (count * (count - sample))
        if not root:
            return Approximate(variance, floor)
        with localcontext() as context:
            context.prec = 60
            return Approximate(Fraction((Decimal(variance.numerator) / Decimal(variance.denominator)).sqrt()), floor)
    return decode


SPREADS = {"stddev_samp": (True, True), "stddev_pop": (False, True), "var_samp": (True, False), "var_pop": (False, False)}
DECODERS = {"float_sum": _float_sum, "float_average": _float_average, "average": _average, "array": lambda value, kind: canonical(value, kind),
            **{name: _spread(*what) for name, what in SPREADS.items()}}


_AS_THEY_ARE = (int, str, bool, bytes)


def canonical(value, kind):
    """A hashable form in which equal values are equal: what both sides are turned into."""
    if value is None:
        return None
    if kind is not None and kind.family == "array":
        return tuple(canonical(element, kind.element) for element in value)
    if kind is not None and kind.family == "struct":
        parts = value.values() if isinstance(value, dict) else [_from_text(part, of) for part, (_, of) in zip(value, kind.fields)]
        return tuple(canonical(part, of) for part, (_, of) in zip(parts, kind.fields))
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if kind is not None and kind.bits == 32 and math.isfinite(value):
            value = struct.unpack("f", struct.pack("f", value))[0]
        return value + 0.0 if value else 0.0
    if isinstance(value, datetime.datetime):
        return (value.replace(tzinfo=None) - (value.utcoffset() or datetime.timedelta()) - _EPOCH) // datetime.timedelta(microseconds=1)
    if kind is not None and kind.family == "numeric" and not isinstance(value, Approximate):
        value = Decimal(value)
        return value if kind.scale is None else (value, -value.as_tuple().exponent)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return value


def _from_text(text, kind):
    """A field of a record, which clients get as text."""
    return _READERS.get(kind.family, str)(text) if isinstance(text, str) else text


_READERS = {"int": int, "bool": lambda text: text == "t", "date": datetime.date.fromisoformat}


def expected_rows(rows, columns):
    """Rows of DuckDB's, decoded."""
    makers = [DECODERS[c.opaque] if c.opaque else canonical for c in columns]
    kinds = [c.type for c in columns]
    return [tuple([m(v, k) for m, v, k in zip(makers, row, kinds)]) for row in rows]


def got_rows(rows, columns):
    """Rows that came back from what is judged."""
    kinds = [c.type for c in columns]
    return [tuple([v if v is None or type(v) in _AS_THEY_ARE else canonical(v, k) for v, k in zip(row, kinds)]) for row in rows]


def expected_row(row, columns):
    """A row of DuckDB's, decoded."""
    return expected_rows([row], columns)[0]


def got_row(row, columns):
    """A row that came back from what is judged."""
    return got_rows([row], columns)[0]


def differences(want, got, columns):
    """Compares two bags of canonical rows.

    # Returns
    `(missing, extra)`: rows that are wanted and not there, and rows that are there and not wanted. Both empty: equal.
    """
    if Counter(want) == Counter(got):
        return [], []
    loose = [i for i, c in enumerate(columns) if c.opaque]
    strict = [i for i, c in enumerate(columns) if not c.opaque]
    groups = defaultdict(lambda: ([], []))
    for side, rows in enumerate((want, got)):
        for row in rows:
            groups[tuple(row[i] for i in strict)][side].append(row)
    missing, extra = [], []
    for wanted, found in groups.values():
        for row in wanted:
            match = next((i for i, other in enumerate(found) if all(_same(row[i], other[i]) for i in loose)), None)
            if match is None:
                missing.append(row)
            else:
                found.pop(match)
        extra += found
    return missing, extra


def _same(want, got):
    return want.agrees(got) if isinstance(want, Approximate) else want == got


def shown(row):
    return tuple(str(v[0]) if isinstance(v, tuple) else v for v in row)


def pg_text(value, kind):
    """A canonical value as PostgreSQL writes it; None for what is known only approximately."""
    if isinstance(value, Approximate) or kind.family in ("array", "struct"):
        return None
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        return format(value[0], "f")
    writer = _WRITERS.get(kind.family, str)
    return writer(value, kind) if writer is not str else str(value)


def _float_text(value, kind):
    if isinstance(value, str) or not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    digits, exponent = f"{value:.16e}".split("e")
    for places in range(17):
        digits, exponent = f"{value:.{places}e}".split("e")
        if canonical(float(f"{digits}e{exponent}"), kind) == value:
            break
    if -5 < int(exponent) < (6 if kind.bits == 32 else 15):
        return format(Decimal(f"{digits}e{exponent}"), "f")
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits}e{exponent}"


def _instant_text(value, kind):
    moment = _EPOCH + datetime.timedelta(microseconds=value)
    text = f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}" + (f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else "")
    return text + ("+00" if kind.family == "timestamptz" else "")


_WRITERS = {
    "bool": lambda value, _: "t" if value else "f",
    "bytes": lambda value, _: f"\\x{value.hex()}",
    "date": lambda value, _: f"{value.year:04d}-{value.month:02d}-{value.day:02d}",
    "float": _float_text,
    "timestamp": _instant_text,
    "timestamptz": _instant_text,
}
