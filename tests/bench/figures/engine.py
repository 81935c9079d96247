"""Figures of the engine alone, on ready-made Arrow batches: `aggregate`, `join`, `memory`, each a `cenote bench`."""
import json
import subprocess

from harness import binary

from .outcome import figure, middle


def bench(*arguments):
    """The line of one `cenote bench`; it fails where the two sides of a figure give different answers."""
    done = subprocess.run([binary(), "bench", *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"cenote bench {' '.join(map(str, arguments))} failed")
    return json.loads(done.stdout)


def pair(name, line, **more):
    """A figure of two sides."""
    def sides(field):
        return {f"{side}_{field}": middle([run[field] for run in line[side]]) for side in ("cenote", "datafusion")}
    return [figure(name, line["ratio_cpu"], ratio_wall=line["ratio_wall"], cenote_cpu_us_per_row=line["cenote_cpu_us_per_row"],
                   datafusion_cpu_us_per_row=line["datafusion_cpu_us_per_row"], **sides("cpu_s"), **sides("wall_s"),
                   runs=len(line["cenote"]), **more)]


def aggregate(a):
    line = bench("aggregate", "--rows", a.rows, "--keys", a.groups, "--reps", a.reps)
    return pair("aggregate", line, rows=line["rows"], keys=line["keys"])


def join(a):
    line = bench("join", "--left", a.left, "--right", a.right, "--reps", a.reps)
    return pair("join", line, left=line["left"], right=line["right"])


def memory(a):
    lines = [bench("memory", "--small", a.groups, "--large", 10 * a.groups) for _ in range(a.reps)]
    return [figure("memory", middle([line["bytes_per_group"] for line in lines], 1), small_groups=lines[0]["small"],
                   large_groups=lines[0]["large"], large_resident_mb=middle([line["large_resident_bytes"] / 1e6 for line in lines], 1),
                   runs=len(lines))]
