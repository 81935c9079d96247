"""Random changes of columns and rows, with kills, views and checkpoints, judged by DuckDB after each."""
import random

import duckdb
import pytest

SPILLED = ["--state-backend", "rocksdb", "--state-memory", "0"]


class Run:
    """A server and DuckDB that are told the same. Views see a column by its number, whatever it is called later."""

    def __init__(self, server, seed):
        self.server, self.duck, self.random = server, duckdb.connect(), random.Random(seed)
        self.columns, self.views, self.rows = ["a"], {}, 0

    def both(self, statement):
        with self.server.connect() as db:
            db.execute(statement)
        self.duck.execute(statement)

    def insert(self):
        ids = range(self.rows, self.rows + self.random.randint(1, 50))
        self.rows = ids.stop
        values = (f"({', '.join(map(str, [key, *(self.random.randint(0, 5) for _ in self.columns)]))})" for key in ids)
        self.both(f"INSERT INTO t (id, {', '.join(self.columns)}) VALUES {', '.join(values)}")

    def update(self):
        self.both(f"UPDATE t SET {self.random.choice(self.columns)} = {self.random.randint(0, 9)} WHERE id % 7 = {self.random.randint(0, 6)}")

    def delete(self):
        self.both(f"DELETE FROM t WHERE id % 11 = {self.random.randint(0, 10)}")

    def add(self, name):
        self.both(f"ALTER TABLE t ADD COLUMN {name} INTEGER DEFAULT {self.random.randint(0, 9)}")
        self.columns.append(name)

    def rename(self, name):
        number = self.random.randrange(len(self.columns))
        self.both(f"ALTER TABLE t RENAME COLUMN {self.columns[number]} TO {name}")
        self.columns[number] = name

    def drop(self):
        if len(self.columns) > 1 and not self.views:
            self.both(f"ALTER TABLE t DROP COLUMN {self.columns.pop()}")

    def view(self, name):
        number = self.random.randrange(len(self.columns))
        with self.server.connect() as db:
            db.execute(f"CREATE MATERIALIZED VIEW {name} AS SELECT {self.columns[number]} x, count(*) n, sum(id) s FROM t GROUP BY 1")
        self.views[name] = number

    def kill(self):
        self.server.kill()
        assert "made anew" not in self.server.log_text()
        self.server.start()

    def step(self, number):
        work = self.random.choices(
            [self.insert, self.update, self.delete, lambda: self.add(f"c{number}"), lambda: self.rename(f"r{number}"),
             self.drop, lambda: self.view(f"v{number}"), self.kill],
            [9, 3, 1, 2, 2, 1, 1, 1.5],
        )[0]
        work()

    def judge(self):
        def same(ours, theirs):
            plain = lambda rows: sorted(str([None if value is None else int(value) for value in row]) for row in rows)
            with self.server.connect() as db:
                assert plain(db.execute(ours).fetchall()) == plain(self.duck.execute(theirs).fetchall()), ours
        rows = f"SELECT id, {', '.join(self.columns)} FROM t"
        same(rows, rows)
        for view, number in self.views.items():
            same(f"SELECT x, n, s FROM {view}", f"SELECT {self.columns[number]}, count(*), sum(id) FROM t GROUP BY 1")


@pytest.mark.parametrize("args", [[], SPILLED], ids=["memory", "rocksdb"])
@pytest.mark.parametrize("key", ["", " PRIMARY KEY"], ids=["bag", "keyed"])
def test_random_changes_of_columns_keep_every_row_and_view(fresh, args, key):
    run = Run(fresh(workers=2, args=["--checkpoint-interval", "200ms", *args]), seed=len(key) + len(args))
    run.both(f"CREATE TABLE t (id BIGINT{key}, a INTEGER)")
    for number in range(100):
        run.step(number)
        run.judge()
