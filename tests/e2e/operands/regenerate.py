"""Writes PostgreSQL's answers to the queries of `cases` into `answers.txt`, one line for a query at each stage.

    python regenerate.py "host=/tmp port=5432 user=postgres"       # any PostgreSQL 15 or later
"""
import sys
from pathlib import Path

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cases  # noqa: E402


def main(dsn):
    lines = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS ex_a, ex_n, ex_m")
        connection.execute(cases.SETUP)
        for stage, changes in enumerate(cases.STAGES):
            connection.execute(changes)
            lines += [f"{name} {stage} ==> {cases.answer(connection, text, name)}" for name, text, _ in cases.queries()]
    (Path(__file__).parent / "answers.txt").write_text("\n".join(lines) + "\n")
    print(len(lines), "answers;", sum("==> !" in line for line in lines), "errors")


if __name__ == "__main__":
    main(sys.argv[1])
