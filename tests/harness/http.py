"""A small HTTP client on the standard library: one request, or a stream of server-sent events."""
import http.client
import json
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass
class Response:
    """A whole answer. `headers` has lower-case names."""

    status: int
    headers: dict
    body: bytes

    @property
    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body)

    @property
    def epoch(self):
        """The epoch the answer was read at: the header `Cenote-Epoch`."""
        return int(self.headers["cenote-epoch"])


def http_request(url, method="GET", body=None, headers=None, timeout=60):
    """Sends one request. `body`: bytes, text, or anything else to be sent as JSON."""
    parts = urlsplit(url)
    headers = dict(headers or {})
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
        headers.setdefault("Content-Type", "application/json")
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body.encode() if isinstance(body, str) else body, headers)
        answer = connection.getresponse()
        return Response(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    finally:
        connection.close()


@dataclass
class Event:
    """One server-sent event: its name, its id (the epoch to resume after) and its decoded JSON."""

    name: str
    id: str
    data: object


def sse_events(url, headers=None, timeout=30):
    """Yields the events of a stream as they come; `timeout` seconds without a byte raise `TimeoutError`."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    connection.request("GET", target, headers={"Accept": "text/event-stream", **(headers or {})})
    answer = connection.getresponse()
    assert answer.status == 200, f"{answer.status}: {answer.read().decode()}"
    try:
        name, ident, data = "message", "", []
        for raw in answer:
            line = raw.decode().rstrip("\r\n")
            if not line:
                if data:
                    yield Event(name, ident, json.loads("\n".join(data)))
                name, data = "message", []
                continue
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "id":
                ident = value
            elif field == "data":
                data.append(value)
    finally:
        connection.close()


def changes_of(event):
    """The changes that one event carries, as `(epoch, weight, row)`.

    An event holds either one change `{"epoch","weight","row"}` or one epoch `{"epoch","changes":[{"weight","row"}]}`.
    """
    data = event.data
    if isinstance(data, dict) and "changes" in data:
        return [(data["epoch"], change["weight"], change["row"]) for change in data["changes"]]
    if isinstance(data, dict) and "weight" in data:
        return [(data["epoch"], data["weight"], data["row"])]
    return []
