"""What is judged: a Cenote server, another PostgreSQL server (which checks the oracle), or DuckDB (its self-test)."""
from decimal import Decimal

import psycopg
from psycopg.types.composite import CompositeInfo, register_composite
from harness import Server

from .cases import Duck, created
from .compare import DECODERS, Approximate
from .relations import NAMES
from .types import PAIR, TRIPLE


class Refused(Exception):
    """The statement was refused as not supported (SQLSTATE 0A000)."""


class CenoteTarget:
    """A `cenote serve` process of its own, reached by pgwire and HTTP."""

    exact_float_sums = True
    row_errors = True  # a view leaves out the rows that fail, and counts them
    fails = True       # a query of rows that fail is an error

    def __init__(self, workers):
        self.workers = workers
        self.server = Server(workers=workers)
        self.connection = self._connect()

    def __str__(self):
        return f"cenote serve --workers {self.workers}"

    def _connect(self):
        # Views of one name come and go with other columns while a case shrinks, so nothing is prepared.
        return self.server.connect(prepare_threshold=None)

    def run(self, statements):
        """Runs statements as one commit."""
        texts = [s.pg for s in statements]
        if len(texts) > 1:
            texts = ["BEGIN", *texts, "COMMIT"]
        try:
            for text in texts:
                self.connection.execute(text)
        except psycopg.errors.FeatureNotSupported as error:
            raise Refused(str(error)) from error

    def abandon(self):
        """Rolls back what a failed commit left open."""
        if self.connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            self.connection.execute("ROLLBACK")

    def create_view(self, name, relation):
        *first, last = created(name, relation.pg)
        try:
            for statement in first:
                self.connection.execute(statement)
        except psycopg.errors.FeatureNotSupported:
            pass  # the part is refused, the whole may not be
        try:
            self.connection.execute(last)
        except psycopg.errors.FeatureNotSupported as error:
            self.drop("MATERIALIZED VIEW", name)
            raise Refused(str(error)) from error

    def create_plain_view(self, name, relation):
        try:
            self.connection.execute(f"CREATE VIEW {name} AS {relation.pg}")
        except psycopg.errors.FeatureNotSupported as error:
            raise Refused(str(error)) from error

    def drop(self, kind, name):
        self.connection.execute(f"DROP {kind} IF EXISTS {name}")

    def read(self, query):
        """The rows of a query, with the type OIDs of its columns."""
        try:
            cursor = self.connection.execute(query)
        except psycopg.errors.FeatureNotSupported as error:
            raise Refused(str(error)) from error
        return [c.type_code for c in cursor.description], cursor.fetchall()

    def failures(self, view):
        """How many rows a view leaves out because they fail."""
        return self.connection.execute("SELECT count(*) FROM cenote_catalog.errors WHERE source = %s", [view]).fetchone()[0]

    def digests(self, prefix):
        """Digests of everything that a case made, operator state included."""
        return self.server.digests(prefix)

    def restart(self):
        self.connection.close()
        self.server.restart()
        self.connection = self._connect()

    def gone(self):
        """Whether the process died or the connection broke."""
        return self.server.process.poll() is not None or self.connection.closed

    def revive(self):
        """Starts again on nothing when the process died or the connection broke; says whether it had to."""
        if not self.gone():
            return False
        self.server.close()
        self.server = Server(workers=self.workers)
        self.connection = self._connect()
        return True

    def close(self):
        self.connection.close()
        self.server.close()


class _Standing:
    """What is not started, restarted or digested by the oracle, and has no errors of rows."""

    row_errors = False

    def digests(self, prefix):
        return {}

    def restart(self):
        pass

    def revive(self):
        return False

    def gone(self):
        return False

    def close(self):
        self.connection.close()


class _Composites:
    """A connection to PostgreSQL that has a composite type for each STRUCT. `records`: the OIDs of records for those of the types."""

    NAMES = {PAIR: "oracle_pair", TRIPLE: "oracle_triple"}

    def __init__(self, connection):
        self.connection, self.records = connection, {}
        for kind, name in self.NAMES.items():
            connection.execute(f"DROP TYPE IF EXISTS {name} CASCADE")
            connection.execute(f"CREATE TYPE {name} AS ({', '.join(f'{field} {of.name}' for field, of in kind.fields)})")
            info = CompositeInfo.fetch(connection, name)
            register_composite(info, connection)
            self.records |= {info.oid: 2249, info.array_oid: 2287}

    def execute(self, text, *more):
        for kind, name in self.NAMES.items():
            text = text.replace(kind.name, name)
        return self.connection.execute(text, *more)

    def __getattr__(self, name):
        return getattr(self.connection, name)


class PostgresTarget(_Standing, CenoteTarget):
    """A running PostgreSQL server with plain views: shows that the oracle's expectations are PostgreSQL's.

    It must use the C collation. Its sums of doubles depend on the order of rows, so they are compared loosely.
    """

    exact_float_sums = False

    def __init__(self, dsn):
        self.dsn = dsn
        self.connection = _Composites(psycopg.connect(dsn, autocommit=True, prepare_threshold=None))
        self.connection.execute("SET client_min_messages = error")
        self.connection.execute("SET timezone = 'UTC'")

    def __str__(self):
        return "PostgreSQL"

    def create_view(self, name, relation):
        self.connection.execute(f"CREATE VIEW {name} AS {relation.pg}")

    def read(self, query):
        """A sum of doubles that overflows is an error of PostgreSQL's, an infinity of Cenote's."""
        try:
            oids, rows = super().read(query)
        except psycopg.errors.NumericValueOutOfRange as error:
            raise Refused(str(error)) from error
        return [self.connection.records.get(oid, oid) for oid in oids], rows

    def drop(self, kind, name):
        self.connection.execute(f"DROP {kind.replace('MATERIALIZED ', '')} IF EXISTS {name}")


def _shown(value, column):
    """A value as a server would send it."""
    if not column.opaque or (known := DECODERS[column.opaque](value, column.type)) is None:
        return value if not column.opaque else None
    if isinstance(known, tuple):
        return value
    if not isinstance(known, Approximate):
        return float(known)
    if column.type.family == "float":
        return float(known.exact)
    return Decimal(known.exact.numerator) / Decimal(known.exact.denominator)


class DuckTarget(_Standing):
    """DuckDB as what is judged, with faults to inject.

    # Arguments
    - `spoil(query, rows)`: may change what a read gives.
    - `mutate(text)`: may change the SQL of a view: DuckDB then answers another query.
    - `refuse(text)`: whether a view is refused as not supported.
    - `forget`: whether a restart loses the last commit.
    - `miscount(failures)`: may change how many rows of a view are said to fail.
    """

    exact_float_sums, row_errors, fails = True, True, False

    def __init__(self, spoil=lambda query, rows: rows, mutate=lambda text: text, refuse=lambda text: False, forget=False,
                 miscount=lambda failures: failures):
        self.spoil, self.mutate, self.refuse, self.forget, self.miscount = spoil, mutate, refuse, forget, miscount
        self.shapes, self.queries, self.last, self.duck = {}, {}, [], Duck()

    def __str__(self):
        return "DuckDB"

    def run(self, statements):
        self.last = []
        for statement in statements:
            if self.forget and "CREATE" not in statement.duck:
                table = NAMES.search(statement.duck)[0]
                self.last.append((table, self.duck.run(f"SELECT * FROM {table}")))
            self.duck.run(statement.duck)

    def restart(self):
        for table, rows in reversed(self.last):
            self.duck.run(f"DELETE FROM {table}")
            for row in rows:
                self.duck.connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' for _ in row)})", row)

    def abandon(self):
        pass

    def create_view(self, name, relation):
        if self.refuse(relation.duck):
            raise Refused("not supported in a materialized view yet: that")
        self.create_plain_view(name, relation)
        self.shapes[f"SELECT * FROM {name}"] = relation.columns
        self.queries[name] = relation.failures

    def failures(self, view):
        query = self.queries[view]
        return self.miscount(self.duck.run(query)[0][0] if query else 0)

    def create_plain_view(self, name, relation):
        self.duck.run(f"CREATE VIEW {name} AS {self.mutate(relation.duck)}")
        self.shapes[relation.pg] = relation.columns, relation.duck

    def drop(self, kind, name):
        self.duck.run(f"DROP {kind.replace('MATERIALIZED ', '')} IF EXISTS {name}")
        self.shapes.pop(f"SELECT * FROM {name}", None)

    def read(self, query):
        columns, text = self.shapes[query] if isinstance(self.shapes[query][0], tuple) else (self.shapes[query], query)
        return None, self.spoil(query, self.sent(self.duck, text, columns))

    @staticmethod
    def sent(duck, text, columns):
        """The rows of a query as a server would send them."""
        from .judge import undecoded
        return [tuple(_shown(v, c) for v, c in zip(row, columns)) for row in undecoded(duck, text, columns)]

    def digests(self, prefix):
        """A stand-in for state: the bag of rows of every view."""
        views = {q.split()[-1]: sorted(map(repr, self.read(q)[1])) for q in self.shapes if q.startswith(f"SELECT * FROM {prefix}")}
        return {name: (hash(tuple(rows)), len(rows)) for name, rows in views.items()}

    def close(self):
        self.duck.close()
