"""The table of scalar expressions with PostgreSQL's answers, `e2e/expressions/*.txt`.

A line is `expression ==> answer`. An answer is the value's text, `NULL`, or `!` and a SQLSTATE. A part in braces,
`{5::int}`, is a constant that is a column of a table of one row in two of the three ways to run the expression.
"""
import decimal
import re
from pathlib import Path

import psycopg

FOLDER = Path(__file__).resolve().parents[1] / "e2e" / "expressions"
ARROW = " ==> "
NUMERIC = 1700
# A quotient has at least this many digits behind its first.
DIGITS_MIN = 15


def lists():
    """The names of the lists."""
    return sorted(path.stem for path in FOLDER.glob("*.txt") if path.stem != "differences")


def read(name):
    """The lines of a list, as `(expression, answer or None)`; comments are left out."""
    lines = (FOLDER / f"{name}.txt").read_text().splitlines()
    parts = [line.partition(ARROW) for line in lines if line and not line.startswith("# ")]
    return [(before, after if arrow else None) for before, arrow, after in parts]


def differences():
    """What Cenote answers otherwise: `expression -> answer`."""
    found, reason = {}, None
    for line in (FOLDER / "differences.txt").read_text().splitlines():
        if line.startswith("# "):
            reason = line
        elif line:
            assert reason, f"no reason is given for {line}"
            before, _, after = line.partition(ARROW)
            found[before] = after
    return found


def split(expression):
    """The expression with `{}` in the place of its parts in braces, and those parts."""
    text, parts, depth, quoted = "", [], 0, False
    for char in expression:
        quoted ^= char == "'"
        if char == "{" and not quoted:
            depth, text = 1, text + "\0"
            parts.append("")
        elif char == "}" and not quoted:
            depth = 0
        elif depth:
            parts[-1] += char
        else:
            text += char
    return text, parts


def type_of(part):
    """The type of a part in braces."""
    found = re.search(r"::([a-z0-9 \"]+(\(\d+(,\d+)?\))?)$", part)
    if found:
        return found[1]
    if part in ("true", "false"):
        return "boolean"
    digits = part.lstrip("-")
    if digits.isdigit():
        return "int"
    if re.fullmatch(r"\d+\.\d+", digits):
        return f"numeric({len(digits) - 1},{len(digits.split('.')[1])})"
    raise ValueError(f"the type of {part} is not told")


def constant(expression):
    """The query of constants."""
    text, parts = split(expression)
    for part in parts:
        negative = f"({part})" if part.startswith("-") else part
        text = text.replace("\0", negative, 1)
    return f"SELECT {text}"


def over_columns(expression, table):
    """Statements that make a table of one row, and the query over it; None where there is no column."""
    text, parts = split(expression)
    if not parts:
        return None
    columns = ", ".join(f"c{number} {type_of(part)}" for number, part in enumerate(parts))
    for number in range(len(parts)):
        text = text.replace("\0", f"c{number}", 1)
    values = ", ".join(re.sub(r"^(-[0-9.e]+)::", r"(\1)::", part) for part in parts)
    # A value is given without its type where a table's column has it.
    return [f"CREATE TABLE {table} ({columns})", f"INSERT INTO {table} VALUES ({values})"], f"SELECT {text} FROM {table}"


def answer(connection, query):
    """The text, NULL or the SQLSTATE that a query of one value gives, and the value's type."""
    try:
        result = connection.execute(query).pgresult
    except psycopg.Error as error:
        return f"!{error.sqlstate}", None
    rows = result.ntuples
    if rows != 1 or result.nfields != 1:
        return f"{rows} rows", None
    value = result.get_value(0, 0)
    return ("NULL" if value is None else repr(value.decode())[1:-1]), result.ftype(0)


def is_same(wanted, found, type_oid):
    """Whether two answers are one; NUMERIC may have zeros at its end, or other digits behind its 16th."""
    if wanted == found:
        return True
    if type_oid != NUMERIC or "!" in wanted + found or "NULL" in (wanted, found):
        return False
    wanted, found = decimal.Decimal(wanted), decimal.Decimal(found)
    if wanted == found:
        return True
    with decimal.localcontext(prec=60):
        scale = max(wanted.as_tuple().exponent, found.as_tuple().exponent)
        digits = min(len(wanted.as_tuple().digits), len(found.as_tuple().digits))
        close = abs(wanted - found) <= decimal.Decimal(1).scaleb(scale)
        return digits >= DIGITS_MIN and close


def run(connection, name, number, expression):
    """The answers of constants, of columns, and of a view over columns: `way -> (answer, type)`."""
    answers = {"constants": answer(connection, constant(expression))}
    table = f"{name}_{number}"
    made = over_columns(expression, table)
    if made is None:
        return answers
    statements, query = made
    for statement in statements:
        try:
            connection.execute(statement)
        except psycopg.Error as error:
            return {**answers, "columns": (f"!{error.sqlstate}", None)}
    answers["columns"] = answer(connection, query)
    answers["view"] = of_view(connection, table, query)
    return answers


def of_view(connection, table, query):
    """What a materialized view answers; its own column is named, as a view must not have two of one name."""
    try:
        connection.execute(f"CREATE MATERIALIZED VIEW {table}_v (x) AS {query}")
    except psycopg.Error as error:
        return f"!{error.sqlstate}", None
    found = answer(connection, f"SELECT x FROM {table}_v")
    if found[0] != "0 rows":
        return found
    # The row is left out where the expression fails on it.
    return answer(connection, f"SELECT '!' || sqlstate FROM cenote_catalog.errors WHERE source = '{table}_v'")
