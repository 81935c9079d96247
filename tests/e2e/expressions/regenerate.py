"""Writes PostgreSQL's answers into the lists beside this file.

    python regenerate.py "host=/tmp port=5432 user=postgres"       # any PostgreSQL 15 or later, in UTF-8

A line needs its expression only; what stood behind ` ==> ` is replaced.
"""
import sys
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from harness import expressions  # noqa: E402


def main(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'; SET bytea_output = 'hex'; SET intervalstyle = 'postgres'")
        for name in expressions.lists():
            path = expressions.FOLDER / f"{name}.txt"
            lines = [answered(connection, line) for line in path.read_text().splitlines()]
            path.write_text("\n".join(lines) + "\n")


def answered(connection, line):
    if not line or line.startswith("# "):
        return line
    expression = line.partition(expressions.ARROW)[0]
    value, _ = expressions.answer(connection, expressions.constant(expression))
    with connection.transaction(force_rollback=True):
        made = expressions.over_columns(expression, "pg_temp.one")
        if made:
            for statement in made[0]:
                connection.execute(statement)
            over = expressions.answer(connection, made[1])[0]
            if over != value:
                print(f"columns answer otherwise: {expression}: {value} / {over}")
    return expression + expressions.ARROW + value


if __name__ == "__main__":
    main(sys.argv[1])
