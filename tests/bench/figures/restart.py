"""The figure of a start from a checkpoint: `restart`."""
import json
import os
import time

from harness import Server

from .outcome import figure, middle

#: Rows of one INSERT.
STEP = 500_000


def restart(a):
    groups = a.groups * 10
    with Server(workers=os.cpu_count(), args=["--checkpoint-interval", "0s"], ready_timeout=600) as server:
        with server.connect() as db:
            db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, k BIGINT)")
            db.execute("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n, sum(id) AS s FROM t GROUP BY k")
            for first in range(1, groups + 1, STEP):
                db.execute(f"INSERT INTO t SELECT x, x FROM generate_series({first}, {min(groups, first + STEP - 1)}) AS s(x)")
            db.execute("CHECKPOINT")
            # One commit behind it, which the first answer must have.
            db.execute("INSERT INTO t VALUES (0, 7)")
        manifest, = (json.loads(path.read_text()) for path in (server.data / "checkpoints").glob("*/manifest.json"))
        walls, cpus = [], []
        for _ in range(a.reps):
            server.kill()
            began = time.monotonic()
            server.start()
            found = server.api("queryable_state/v?key=7")["value"]
            walls.append(time.monotonic() - began)
            cpus.append(server.cpu_seconds())
            assert (found["n"], int(found["s"])) == (2, 7), found
        resident = server.resident_bytes() / 1e6
    gigabytes = manifest["bytes"] / 1e9
    return [figure("restart", middle(walls) / gigabytes, groups=groups, checkpoint_mb=round(manifest["bytes"] / 1e6, 1), wall_s=middle(walls),
                   cpu_s=middle(cpus), workers=os.cpu_count(), resident_mb=round(resident, 1), runs=len(walls))]
