"""A limit of memory holds: what is four times as large is taken, kept, changed, served, checkpointed and started from."""
import random

from harness.memory import Peak, memory_group

MB = 1_000_000
LIMIT = 256 * MB
# A statement, a checkpoint and the system take some beside the state that gives way: with so small a limit a good part of it.
KILLED_FROM = LIMIT * 3 // 2
ROW = 2_000
ROWS = 4 * LIMIT // ROW
GROUPS = ROWS // 4
ROWS_PER_STATEMENT = 2_000

ARGS = ["--state-backend", "rocksdb", "--memory-limit", str(LIMIT), "--checkpoint-interval", "3s"]


def note(key):
    return f"{key} " + chr(ord("a") + key % 26) * (ROW - 20)


def load(db):
    for start in range(0, ROWS, ROWS_PER_STATEMENT):
        db.execute(
            f"INSERT INTO t SELECT k, k % {GROUPS}, 0, k || ' ' || repeat(chr(97 + (k % 26)::INT), {ROW - 20}) "
            f"FROM generate_series({start}, {start + ROWS_PER_STATEMENT - 1}) AS s(k)"
        )


def change(db, chosen, changes):
    """Changes random rows; notes how often each was changed."""
    for _ in range(3):
        keys = chosen.sample(range(ROWS), 200)
        db.execute(f"UPDATE t SET c = c + 1 WHERE k IN ({', '.join(map(str, keys))})")
        for key in keys:
            changes[key] = changes.get(key, 0) + 1


def judge(db, chosen, changes):
    changed = sum(changes.values())
    keys = ROWS * (ROWS - 1) // 2
    assert db.execute("SELECT count(*), sum(k), sum(c) FROM t").fetchone() == (ROWS, keys, changed)
    assert db.execute("SELECT count(*), sum(n), sum(s), sum(c) FROM by_group").fetchone() == (GROUPS, ROWS, keys, changed)
    for key in [*chosen.sample(range(ROWS), 200), *chosen.sample(sorted(changes), 100)]:
        wanted = (key % GROUPS, changes.get(key, 0), note(key))
        assert db.execute("SELECT grp, c, note FROM t WHERE k = %s", [key]).fetchone() == wanted
    for group in chosen.sample(range(GROUPS), 200):
        members = range(group, ROWS, GROUPS)
        of = [changes.get(key, 0) for key in members]
        wanted = (len(members), sum(members), sum(of), max(of))
        assert db.execute("SELECT n, s, c, high FROM by_group WHERE grp = %s", [group]).fetchone() == wanted


def make(db):
    db.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, grp BIGINT, c BIGINT, note TEXT)")
    db.execute("CREATE MATERIALIZED VIEW by_group AS SELECT grp, count(*) n, sum(k) s, sum(c) c, max(c) high FROM t GROUP BY grp")


def watched(server, *work):
    """Does some work with a connection; gives the most memory that the server had meanwhile."""
    watch = Peak(server.process.pid)
    with server.connect() as db:
        for part in work:
            part(db)
    return watch.end()


def test_four_times_the_limit_is_served_within_it(fresh):
    chosen, changes = random.Random(1), {}
    changed, judged = (lambda db: change(db, chosen, changes)), (lambda db: judge(db, chosen, changes))
    checkpoint = lambda db: db.execute("CHECKPOINT")
    with memory_group(KILLED_FROM) as group:
        server = fresh(workers=2, args=ARGS, group=group, ready_timeout=120)
        try:
            peaks = [watched(server, make, load), watched(server, changed, checkpoint), watched(server, judged)]
            server.kill()
            server.start()
            peaks += [watched(server, judged), watched(server, changed, judged, checkpoint)]
        finally:
            server.kill()
    print("at most", [peak // MB for peak in peaks], "MB of", LIMIT // MB)
    assert max(peaks) < KILLED_FROM
