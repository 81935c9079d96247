"""Runs every command, SQL block and Python block of README and guide, and compares what they print.

A page's blocks run in order, in one empty folder, with `cenote` on the path. What a fenced block's tag means:

| Tag | Runs as | Compared with |
|---|---|---|
| `sh` | bash | the `text` block right after it, if there is one |
| `sh background` | bash, left running until it has opened its doors; stopped at the page's end | |
| `sh dry` | each line with `make -n`: the target exists (it would run the tests from within the tests) | |
| `sql` | psql -q on the page's server | the `text` block right after it |
| `python` | python3 | the `text` block right after it |
| `console` | each line after `$ ` as bash | the lines up to the next `$ ` |
| `text`, `json`, `toml`, `mermaid` | nothing by itself | |

`...` in expected text stands for anything. The pages use the default ports; here they are exchanged for free ones.
"""
import os
import re
import signal
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from harness import binary, python_cache

ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "docs/guide.md"]
FENCE = re.compile(r"^```(\S+)?([^\n]*)\n(.*?)^```$", re.M | re.S)
SILENT = {"text", "json", "toml", "mermaid"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Page:
    """One page being run."""

    def __init__(self, text, folder):
        self.text, self.folder, self.background = text, folder, []
        self.ports = {"8080": str(free_port()), "5433": str(free_port()), "32010": str(free_port())}
        tools = folder / ".bin"
        tools.mkdir()
        (tools / "cenote").symlink_to(binary())
        self.env = {**os.environ, "PATH": f"{tools}:{python_cache()}/venv/bin:{os.environ['PATH']}", "CENOTE_HTTP": self.port("8080"),
                    "CENOTE_PG": self.port("5433"), "CENOTE_FLIGHT": self.port("32010"), "PSQLRC": os.devnull, "PAGER": "", "COLUMNS": "200"}

    def port(self, default):
        return f"127.0.0.1:{self.ports[default]}"

    def ours(self, text):
        return re.sub(r"\b(8080|5433|32010)\b", lambda m: self.ports[m[1]], text)

    def run(self):
        blocks = [(m[1] or "", m[2].strip(), m[3], self.text[: m.start()].count("\n") + 1) for m in FENCE.finditer(self.text)]
        for i, (tag, more, body, line) in enumerate(blocks):
            following = blocks[i + 1] if i + 1 < len(blocks) else ("",) * 4
            expected = following[2] if following[0] == "text" else None
            if tag not in SILENT:
                self.block(tag, more, body, line, expected)
        return len([b for b in blocks if b[0] not in SILENT])

    def block(self, tag, more, body, line, expected):
        body = self.ours(body)
        if tag == "sh" and more == "background":
            self.start(body)
        elif tag == "sh" and more == "dry":
            for command in filter(None, body.splitlines()):
                self.same(line, self.execute(["make", "-n", "-C", str(ROOT), *command.split()[1:]]), None)
        elif tag == "sh":
            self.same(line, self.execute(["bash", "-e", "-o", "pipefail", "-c", body]), expected)
        elif tag == "sql":
            psql = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", self.ports["5433"], "-U", "cenote", "cenote"]
            self.same(line, self.execute(psql, body), expected)
        elif tag == "python":
            self.same(line, self.execute(["python3", "-c", body]), expected)
        elif tag == "console":
            for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
                command, _, wanted = part.partition("\n")
                self.same(line, self.execute(["bash", "-c", command]), wanted)
        else:
            raise AssertionError(f"line {line}: a block tagged {tag!r} is never run")

    def execute(self, command, stdin=None):
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, cwd=self.folder, env=self.env, timeout=120)
        assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def same(self, line, got, expected):
        if expected is None:
            return
        pattern = re.escape(clean(self.ours(expected))).replace(r"\.\.\.", ".*")
        assert re.fullmatch(pattern, clean(got), re.S), f"block at line {line} printed\n{got}\ninstead of\n{expected}"

    def start(self, body):
        process = subprocess.Popen(["bash", "-c", f"exec {body.strip()}"], cwd=self.folder, env=self.env, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.background.append(process)
        said, doors = [], set()
        timer = threading.Timer(60, process.kill)
        timer.start()
        for text in process.stdout:
            said.append(text)
            doors |= {p for p in self.ports.values() if f":{p}" in text}
            if {self.ports["8080"], self.ports["5433"]} <= doors:
                break
        timer.cancel()
        assert process.poll() is None and doors, f"{body}: {''.join(said)}"
        threading.Thread(target=process.stdout.read, daemon=True).start()

    def stop(self):
        for process in self.background:
            process.send_signal(signal.SIGTERM)
            try:
                assert process.wait(30) == 0
            finally:
                process.kill()


def clean(text):
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_the_page_prints_what_it_says(page, tmp_path):
    running = Page((ROOT / page).read_text(), tmp_path)
    try:
        assert running.run() > 3
    finally:
        running.stop()


def test_a_wrong_expectation_is_caught(tmp_path):
    with pytest.raises(AssertionError):
        Page("```sh\necho right\n```\n\n```text\nwrong\n```\n", tmp_path).run()


def test_an_unknown_tag_is_caught(tmp_path):
    with pytest.raises(AssertionError):
        Page("```bash\necho never run\n```\n", tmp_path).run()


def test_dots_stand_for_anything(tmp_path):
    assert Page("```sh\necho 'epoch 17 of 20'\n```\n\n```text\nepoch ... of 20\n```\n", tmp_path).run() == 1


@pytest.mark.parametrize("page", sorted(str(p.relative_to(ROOT)) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]))
def test_links_between_pages_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.S)
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def test_the_demo_runs(tmp_path):
    done = subprocess.run([f"{python_cache()}/venv/bin/python", str(ROOT / "tests" / "demo")], capture_output=True, text=True, timeout=180,
                          env={**os.environ, "CENOTE_BIN": binary(), "CENOTE_DEMO_FILES": "5000"})
    assert done.returncode == 0, done.stdout + done.stderr
    for sign in ("lookup", "Changes", "Arrow", "kill -9"):
        assert sign in done.stdout
