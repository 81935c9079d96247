"""What is judged: a Cenote server, another PostgreSQL server (which checks the oracle), or DuckDB (its self-test)."""
import duckdb
import psycopg
from harness import Server


class Refused(Exception):
    """The statement was refused as not supported (SQLSTATE 0A000)."""


class CenoteTarget:
    """A `cenote serve` process of its own, reached by pgwire and HTTP."""

    exact_float_sums = True

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
        try:
            self.connection.execute(f"CREATE MATERIALIZED VIEW {name} AS {relation.pg}")
        except psycopg.errors.FeatureNotSupported as error:
            raise Refused(str(error)) from error

    def drop(self, kind, name):
        self.connection.execute(f"DROP {kind} IF EXISTS {name}")

    def read(self, query):
        """The rows of a query, with the type OIDs of its columns."""
        cursor = self.connection.execute(query)
        return [c.type_code for c in cursor.description], cursor.fetchall()

    def digests(self, prefix):
        """Digests of everything that a case made, operator state included."""
        return self.server.digests(prefix)

    def restart(self):
        self.connection.close()
        self.server.restart()
        self.connection = self._connect()

    def revive(self):
        """Starts again on nothing when the process died or the connection broke; says whether it had to."""
        if self.server.process.poll() is None and not self.connection.closed:
            return False
        self.server.close()
        self.server = Server(workers=self.workers)
        self.connection = self._connect()
        return True

    def close(self):
        self.connection.close()
        self.server.close()


class _Standing:
    """What is not started, restarted or digested by the oracle."""

    def digests(self, prefix):
        return {}

    def restart(self):
        pass

    def revive(self):
        return False

    def close(self):
        self.connection.close()


class PostgresTarget(_Standing, CenoteTarget):
    """A running PostgreSQL server with plain views: shows that the oracle's expectations are PostgreSQL's.

    It must use the C collation. Its sums of doubles depend on the order of rows, so they are compared loosely.
    """

    exact_float_sums = False

    def __init__(self, dsn):
        self.dsn = dsn
        self.connection = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
        self.connection.execute("SET client_min_messages = error")
        self.connection.execute("SET timezone = 'UTC'")

    def __str__(self):
        return "PostgreSQL"

    def create_view(self, name, relation):
        self.connection.execute(f"CREATE VIEW {name} AS {relation.pg}")

    def drop(self, kind, name):
        self.connection.execute(f"DROP {kind.replace('MATERIALIZED ', '')} IF EXISTS {name}")


class DuckTarget(_Standing):
    """DuckDB as what is judged, with a fault to inject: `spoil(query, rows)` may change what a read gives."""

    exact_float_sums = True

    def __init__(self, spoil=lambda query, rows: rows):
        self.connection = duckdb.connect()
        self.connection.execute("SET TimeZone = 'UTC'")
        self.spoil, self.shapes = spoil, {}

    def __str__(self):
        return "DuckDB"

    def run(self, statements):
        for statement in statements:
            self.connection.execute(statement.duck)

    def abandon(self):
        pass

    def create_view(self, name, relation):
        self.connection.execute(f"CREATE VIEW {name} AS {relation.duck}")
        self.shapes[f"SELECT * FROM {name}"] = relation.columns

    def drop(self, kind, name):
        self.connection.execute(f"DROP {kind.replace('MATERIALIZED ', '')} IF EXISTS {name}")

    def read(self, query):
        from .judge import decoded
        columns = self.shapes.get(query)
        if columns is None:  # the query itself, not a view: nothing of its own to say
            return None, None
        rows = [tuple(getattr(v, "exact", v) for v in row) for row in decoded(self.connection, query, columns)]
        return None, self.spoil(query, rows)
