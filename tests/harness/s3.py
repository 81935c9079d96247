"""An S3 server as a process (moto's), and what stands between it and its clients to watch requests and to make them fail."""
import http.client
import http.server
import os
import re
import subprocess
import sys
import threading
from urllib.parse import urlsplit

SECRET = "wJalrXUtnFEMI+K7MDENG+bPxRfiCYEXAMPLEKEY"


def aws(endpoint, **more):
    """The environment of a client of the store at `endpoint`."""
    return {"AWS_ENDPOINT": endpoint, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": SECRET, **more}


class ObjectStore:
    """The server. `env` is what its clients need; `bucket` makes a bucket, to be looked into by another client than ours."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"})
        said = ""
        for line in self.process.stderr:
            said += line
            if found := re.search(r"Running on (http://127\.0\.0\.1:\d+)", line):
                self.endpoint = found[1]
                break
        else:
            raise RuntimeError(f"the store did not start: {said}")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        self.env = aws(self.endpoint)

    def bucket(self, name):
        return Bucket(self.endpoint, name)

    def close(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Bucket:
    """A bucket as boto3 sees it."""

    def __init__(self, endpoint, name):
        import boto3
        self.client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id="other", aws_secret_access_key="other")
        self.client.create_bucket(Bucket=name)
        self.name = name

    def keys(self, prefix=""):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

    def read(self, key):
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def write(self, key, body):
        self.client.put_object(Bucket=self.name, Key=key, Body=body)

    def delete(self, *keys):
        for key in keys:
            self.client.delete_object(Bucket=self.name, Key=key)

    def uploads(self):
        """Uploads in parts that are neither finished nor taken back."""
        return self.client.list_multipart_uploads(Bucket=self.name).get("Uploads", [])


class Listener:
    """An HTTP server on a thread: `answer(method, path, headers, body)` gives status, headers and body, or None to hang up."""

    def __init__(self, answer):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self):
                try:
                    super().handle_one_request()
                except (ConnectionError, TimeoutError):
                    self.close_connection = True

            def serve(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                said = answer(self.command, self.path, self.headers, body)
                if said is None:
                    self.close_connection = True
                    return
                status, headers, content = said
                self.send_response_only(status)
                for name, value in headers.items():
                    if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                        self.send_header(name, value)
                length = headers.get("Content-Length", len(content)) if self.command == "HEAD" else len(content)
                self.send_header("Content-Length", length)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        self.env = aws(self.endpoint)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def refusal(status, code, message):
    """An answer as S3 words it, with what nobody may be told behind it."""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message><StringToSign>hidden</StringToSign></Error>"
    return status, {"Content-Type": "application/xml"}, body.encode()


class Proxy(Listener):
    """Hands requests on to a store, and keeps them. `rule(method, path, headers, body, forward)` may answer in its place."""

    def __init__(self, store):
        self.requests, self.rule, self.store = [], None, urlsplit(store.endpoint).netloc
        super().__init__(self.answer)

    def answer(self, method, path, headers, body):
        self.requests.append((method, path, dict(headers), len(body)))
        def forward(without=()):
            return self.forward(method, path, {name: value for name, value in headers.items() if name.lower() not in without}, body)
        return self.rule(method, path, headers, body, forward) if self.rule else forward()

    def forward(self, method, path, headers, body):
        line = http.client.HTTPConnection(self.store, timeout=30)
        try:
            line.request(method, path, body, headers)
            answer = line.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            line.close()
