"""Figures of a server that has nothing to do: `idle_rss`, `idle_views`, `idle_views_rss`."""
import time

from harness import Server

from .outcome import figure, middle

SETTLE_SECONDS = 1


def idle_rss(a):
    sizes = []
    for _ in range(a.reps):
        with Server() as server:
            time.sleep(SETTLE_SECONDS)
            sizes.append(server.resident_bytes() / 1e6)
    return [figure("idle_rss", middle(sizes, 1), runs=len(sizes))]


def idle_views(a):
    with Server(workers=1) as server:
        server.psql("CREATE TABLE base (id INT PRIMARY KEY, g INT, n BIGINT);"
                    f"INSERT INTO base SELECT x, x % {a.views}, x FROM generate_series(1, 5000) AS s(x);")
        start = server.cpu_seconds()
        server.psql("".join(f"CREATE MATERIALIZED VIEW v{view} AS SELECT g, count(*) AS c, sum(n) AS s FROM base WHERE g = {view} GROUP BY g;"
                            for view in range(a.views)), timeout=600)
        created = server.cpu_seconds() - start
        # What was just created goes into the next checkpoint; with nothing new since one, none is written.
        server.psql("CHECKPOINT", timeout=600)
        time.sleep(SETTLE_SECONDS)
        before = server.cpu_seconds()
        time.sleep(a.idle_seconds)
        spent = server.cpu_seconds() - before
        resident = server.resident_bytes() / 1e6
    return [figure("idle_views", 100 * spent / a.idle_seconds, views=a.views, seconds=a.idle_seconds, cpu_s=round(spent, 2),
                   create_cpu_ms_per_view=round(created / a.views * 1000, 2)),
            figure("idle_views_rss", resident, views=a.views)]
