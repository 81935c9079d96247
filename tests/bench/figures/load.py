"""Rows appended over HTTP at a steady rate, from a few connections, until told to stop."""
import http.client
import threading
import time
from urllib.parse import urlsplit

NDJSON = {"Content-Type": "application/x-ndjson"}


def connect(url):
    """A connection that is kept open, without delays for small requests."""
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=60)


def append(connection, table, body):
    """Appends a body of rows and waits until it is durable and visible."""
    connection.request("POST", f"/api/v1/tables/{table}/rows", body, NDJSON)
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"append: {answer.status} {text.decode()}")


class Ingest:
    """A context in which `rate` rows a second are appended to `table`, `body_rows` at a time.

    A body whose time has passed is sent at once, so that a pause of the server is made up for and not left out.
    """

    def __init__(self, url, table, rate, body_rows, users=100_000, connections=4):
        self.url, self.table, self.rate, self.body_rows, self.users = url, table, rate, body_rows, users
        self.stop = threading.Event()
        self.sent = [0] * connections
        self.failure = None
        self.threads = [threading.Thread(target=self._run, args=(number, connections), daemon=True) for number in range(connections)]

    def _bodies(self, number):
        """A few bodies that are sent in turn: making rows must not cost what sending them does."""
        rows = range(number * self.body_rows, (number + 1) * self.body_rows)
        for shift in range(16):
            yield "".join(f'{{"usr":{(row + 1) * 7919 * (shift + 1) % self.users},"amount":{row % 1000}}}\n' for row in rows).encode()

    def _run(self, number, connections):
        try:
            connection, bodies = connect(self.url), list(self._bodies(number))
            every = self.body_rows * connections / self.rate
            due, turn = time.perf_counter() + every * number / connections, 0
            while not self.stop.wait(max(0.0, due - time.perf_counter())):
                append(connection, self.table, bodies[turn % len(bodies)])
                self.sent[number] += self.body_rows
                due, turn = due + every, turn + 1
        except Exception as error:  # told by whoever measures
            self.failure = error

    def __enter__(self):
        self.start = time.perf_counter()
        for thread in self.threads if self.rate else []:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads if self.rate else []:
            thread.join()
        self.seconds = time.perf_counter() - self.start
        if self.failure:
            raise self.failure

    @property
    def rows_per_s(self):
        """What was reached."""
        return round(sum(self.sent) / self.seconds)
