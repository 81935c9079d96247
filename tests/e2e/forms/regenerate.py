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
        connection.execute("DROP TABLE IF EXISTS fo_o, fo_p, fo_q, fo_k, fo_n, fo_s; DROP TYPE IF EXISTS fo_ct; CREATE TYPE fo_ct AS (a int, b text)")
        connection.execute(cases.SETUP.format(struct="fo_ct"))
        for stage, changes in enumerate(cases.STAGES):
            connection.execute(changes)
            lines += [f"{name} {stage} ==> {cases.answer(connection, text)}" for name, text, _ in cases.queries()]
    (Path(__file__).parent / "answers.txt").write_text("\n".join(lines) + "\n")
    print(len(lines), "answers;", sum("==> !" in line for line in lines), "errors")


if __name__ == "__main__":
    main(sys.argv[1])
