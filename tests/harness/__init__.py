"""What every test outside the crates stands on: the server as a process, HTTP, and waiting for changes."""
from .http import Response, http_request, sse_events
from .server import Server, backends, binary, cenote, keeps_buckets, python_cache

__all__ = ["Response", "Server", "backends", "binary", "cenote", "http_request", "keeps_buckets", "python_cache", "sse_events"]
