"""How much memory a process takes, and control groups that kill it when it takes too much."""
import contextlib
import os
import threading
import time
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def memory_group(limit):
    """A control group whose processes are killed when they need more than `limit` bytes together, files that the system may
    drop not counted; `None` where this user may not make one."""
    first, second = GROUPS / "memory", GROUPS
    name = f"cenote-test-{os.getpid()}"
    group = None
    for root, setting in [(first, "memory.limit_in_bytes"), (second, "memory.max")]:
        try:
            (root / name).mkdir()
            (root / name / setting).write_text(str(limit))
            group = root / name
            break
        except OSError:
            with contextlib.suppress(OSError):
                (root / name).rmdir()
    try:
        yield group
    finally:
        # A process that was killed leaves it a moment later.
        until = time.monotonic() + 5
        while group and group.exists() and time.monotonic() < until:
            with contextlib.suppress(OSError):
                group.rmdir()
            time.sleep(0.05)


def private_bytes(pid):
    """The memory that a process has for itself, files not counted."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


class Peak:
    """Watches a process: `peak` is the most memory that it had for itself."""

    def __init__(self, pid, apart=0.01):
        self.pid, self.apart, self.peak, self.ends = pid, apart, 0, threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()

    def _watch(self):
        with contextlib.suppress(OSError, StopIteration):
            while not self.ends.wait(self.apart):
                self.peak = max(self.peak, private_bytes(self.pid))

    def end(self):
        self.ends.set()
        self.thread.join()
        return self.peak
