"""The whole text of every error, once: `errors/*.txt` hold what is done and what is told.

    pytest e2e/test_errors.py              compares
    ERRORS=write pytest e2e/test_errors.py writes the texts anew, to be reviewed as a diff

A case is a heading `## CODE [what]`, lines `> ` of what is done, and the text that must come. The first `> ` line says how:

    > sql                  statements over pgwire, one a line, each in a transaction of its own; the last one fails
    > script               as `sql`, but all lines as one text
    > http METHOD PATH [Content-Type]    the other lines are the body
    > cli ARGUMENTS        the command line; the other lines are its standard input
    > file NAME            before one of the others: the lines up to the next `> ` of that kind are a file's
    > play NAME            a function of `hostile_clients.py`
"""
import os
import re
import shlex
import subprocess
from pathlib import Path

import psycopg
import pytest
from e2e import hostile_clients
from harness import Server, binary, http_request, keeps_buckets
from harness.errors import cases, registry

ROOT = Path(__file__).resolve().parents[2]
CHECKPOINTS = ROOT / "tests" / "golden" / "checkpoints" / "v1"
WAYS = ("sql", "script", "http", "cli", "file", "play")


def told(code, state, message, detail, hint, position, text):
    """An error as one text; `text` is the statement that `position` is in."""
    lines = [f"error[{code}] {state}: {message}"]
    if position:
        before = text[:position - 1]
        row = before.count("\n")
        shown = text.split("\n")[row]
        column = len(before) - (before.rfind("\n") + 1)
        lines += [f"  line {row + 1}: {shown}", " " * (len(f"  line {row + 1}: ") + column) + "^"]
    lines += [f"  {line}" for line in (detail or "").split("\n") if line]
    lines += [f"  try: {hint}"] if hint else []
    return "\n".join(lines)


def of_pg(error, text):
    diag = error.diag
    position = int(diag.statement_position) if diag.statement_position else None
    return told(diag.source_function, diag.sqlstate, diag.message_primary, diag.message_detail, diag.message_hint, position, text)


def of_http(answer, text=""):
    error = answer.json()["error"]
    body = told(error["code"], error["sqlstate"], error["message"], error["detail"], error["hint"], error["position"], text)
    return f"HTTP {answer.status}\n{body}"


class Stage:
    """The server that the cases of a run play on, and what they leave behind."""

    def __init__(self, server):
        self.server = server

    def sweep(self):
        """Drops whatever a case has made."""
        with self.server.connect() as db:
            for kind, query in (("TABLE", "SHOW TABLES"), ("SOURCE", "SHOW SOURCES"), ("VIEW", "SHOW VIEWS"),
                                ("MATERIALIZED VIEW", "SHOW MATERIALIZED VIEWS")):
                for name in [row[0] for row in db.execute(query).fetchall()]:
                    try:
                        db.execute(f'DROP {kind} IF EXISTS "{name}" CASCADE')
                    except psycopg.Error:
                        pass

    def masked(self, text):
        """Without what differs from run to run: folders, addresses, epochs, processes."""
        for path, name in ((self.server.data, "<data>"), (self.server.cwd, "<folder>"), (CHECKPOINTS, "<checkpoints>")):
            text = text.replace(str(path.resolve()), name).replace(str(path), name)
        text = re.sub(r"127\.0\.0\.1:\d+", "<address>", text)
        text = re.sub(r"\b((?:first )?epochs?:? |newest: (?:epoch )?|kept: epoch )\d+", r"\1<n>", text)
        text = re.sub(r"(process: )\d+", r"\1<n>", text)
        return re.sub(r"\b(table|view) c?\d+\b", r"\1 <n>", text)

    def play(self, done):
        how = [(index, line) for index, line in enumerate(done) if line.split(" ")[0] in WAYS]
        ends = [index for index, _ in how[1:]] + [len(done)]
        said = None
        for (start, line), end in zip(how, ends):
            way, _, rest = line.partition(" ")
            said = getattr(self, way)(rest, done[start + 1:end])
            assert end == len(done) or said is None, f"an earlier step fails: {said}"
        return self.masked(said if said is not None else "nothing was told").rstrip()

    def file(self, name, lines):
        path = self.server.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")

    def sql(self, _, lines):
        with self.server.connect() as db:
            for line in lines:
                try:
                    cursor = db.cursor()
                    if re.match(r"COPY .* FROM STDIN", line):
                        statement, *rows = line.split(" ;; ")
                        with cursor.copy(statement) as copy:
                            copy.write("\n".join(rows).encode().decode("unicode_escape").encode("latin-1"))
                    else:
                        cursor.execute(line)
                        if cursor.description:
                            cursor.fetchall()
                except psycopg.Error as error:
                    assert line is lines[-1], f"an earlier line fails: {line}: {error}"
                    return of_pg(error, line)
        return None

    def script(self, _, lines):
        text = "\n".join(lines)
        with self.server.connect() as db:
            try:
                db.execute(text)
            except psycopg.Error as error:
                return of_pg(error, text)
        return None

    def http(self, rest, lines):
        method, path, *kind = rest.split(" ", 2)
        headers = {"Content-Type": kind[0]} if kind and kind[0] else {}
        if ": " in headers.get("Content-Type", ""):
            name, value = headers.pop("Content-Type").split(": ")
            headers[name] = value
        body = "\n".join(lines) if lines else None
        answer = http_request(self.server.url + path, method, body, headers=headers)
        return of_http(answer) if answer.status >= 400 else None

    def cli(self, rest, lines):
        args = [arg.replace("<url>", self.server.url).replace("<data>", str(self.server.data)).replace("<address>", self.server.url[7:])
                .replace("<checkpoints>", str(CHECKPOINTS))
                for arg in shlex.split(rest)]
        done = subprocess.run([binary(), *args], cwd=self.server.cwd, input="\n".join(lines).encode(), capture_output=True, timeout=60)
        return f"exit {done.returncode}\n{done.stderr.decode().rstrip()}" if done.returncode else None

    def play_(self, name):
        return getattr(hostile_clients, name)(self.server)


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    arguments = ["--max-body", "100kB", "--max-statement", "50kB", "--max-result", "50kB", "--retain-epochs", "2", "--retain-time", "0s"]
    with Server(workers=2, cwd=tmp_path_factory.mktemp("errors"), args=arguments) as server:
        made = Stage(server)
        yield made


CASES = list(cases())


@pytest.mark.parametrize("index", range(len(CASES)), ids=[re.sub(r"\W+", "-", case[1]) for case in CASES])
def test_text(stage, index):
    path, heading, done, expected = CASES[index]
    if done[-1].endswith("_bucket") and not keeps_buckets():
        pytest.skip("the binary has no buckets: it was built without the feature object-store")
    way, _, name = done[-1].partition(" ") if done[-1].startswith("play ") else ("", "", "")
    seen = stage.masked(stage.play_(name)).rstrip() if way else stage.play(done)
    stage.sweep()
    code = heading.split(" ")[0]
    found = re.search(rf"error\[{code}\](?: (\w{{5}}))?: ", seen) or (code.startswith("CLI") and re.search(rf"error\[{code}\]", seen))
    assert found, f"{heading} tells something else:\n{seen}"
    kinds, states, _, _ = registry()[code]
    assert found.lastindex is None or found[1] in states, f"{heading}: SQLSTATE {found[1]} is not among {states} in codes.txt"
    if os.environ.get("ERRORS") == "write":
        rewrite(path, heading, seen)
    else:
        assert seen == expected


def rewrite(path, heading, seen):
    parts = re.split(r"^(?=## )", path.read_text(), flags=re.M)
    for index, part in enumerate(parts):
        if part.startswith(f"## {heading}\n"):
            done = [line for line in part.split("\n")[1:] if line.startswith(">")]
            parts[index] = "\n".join([f"## {heading}", *done, seen, "", ""])
    path.write_text("".join(parts).rstrip("\n") + "\n")


def sources():
    """The codes that the sources give, with what else stands in the call: `{code: {kind}}`."""
    found = {}
    for path in ROOT.glob("*/src/**/*.rs"):
        if "tests" in path.parts or path.name == "tests.rs" or "fuzz" in path.parts:
            continue
        text = path.read_text().split("#[cfg(test)]\nmod tests {")[0]
        for match in re.finditer(r'"([A-Z]+-\d{4})"', text):
            direct = re.search(r"ErrorKind::(\w+),\s*$", text[:match.start()])
            found.setdefault(match[1], set()).update([direct[1]] if direct else [])
    return found


def test_the_list_of_codes_is_that_of_the_sources():
    listed, given = registry(), sources()
    assert given.keys() - listed.keys() == set(), "codes without a line in errors/codes.txt"
    assert listed.keys() - given.keys() == set(), "lines in errors/codes.txt of codes that nothing gives"
    wrong = {code: (kinds, listed[code][0]) for code, kinds in given.items() if kinds - set(listed[code][0])}
    assert not wrong, f"kinds of the sources and of the list: {wrong}"


def test_every_code_has_its_text():
    shown = {heading.split(" ")[0] for _, heading, _, _ in CASES}
    listed = registry()
    assert shown - listed.keys() == set()
    without = {code: why for code, (_, _, _, why) in listed.items() if code not in shown}
    assert [code for code, why in without.items() if not why] == [], "codes without a case or a reason"
    assert [code for code in shown if listed[code][3]] == [], "codes with a case and a reason for having none"
    for code, why in without.items():
        if unit := re.match(r"unit (\S+): ", why):
            assert code in (ROOT / unit[1]).read_text(), f"{unit[1]} does not test {code}"
