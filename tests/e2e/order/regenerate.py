"""Writes PostgreSQL's answers to the queries of `cases` into `answers.txt`.

    python regenerate.py "host=/tmp port=5432 user=postgres"       # any PostgreSQL 15 or later
"""
import sys
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cases  # noqa: E402


def main(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS ord_t, ord_s, ord_u")
        for statement in (cases.SETUP + ";" + cases.ROWS).split(";"):
            connection.execute(statement)
        lines = [f"{name} ==> {answer(connection, text)}" for name, text, _ in cases.queries()]
    (Path(__file__).parent / "answers.txt").write_text("\n".join(lines) + "\n")
    print(len(lines), "queries;", sum("!" in line for line in lines), "errors")


def answer(connection, text):
    """The rows of a query in order of their text, or `!` and an SQLSTATE."""
    try:
        rows = connection.execute(text).fetchall()
    except psycopg.Error as error:
        return f"!{error.sqlstate}"
    return "; ".join(sorted(", ".join(cell(value) for value in row) for row in rows))


def cell(value):
    return "NULL" if value is None else str(int(value)) if isinstance(value, bool) else str(float(value)) if type(value).__name__ == "Decimal" else str(value)


if __name__ == "__main__":
    main(sys.argv[1])
