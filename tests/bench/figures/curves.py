"""Curves, not points: CPU against groups, workers, views and epochs; memory against groups and kept epochs; lookups against load."""
import math

from .engine import bench
from .outcome import as_text
from .serving import lookup_curve


def measure(a):
    """Every curve as a JSON object of points, each measured by a `cenote bench` or against a server of its own."""
    groups = [max(10, a.groups * part // 100) for part in (1, 10, 100, 1000)] + ([20 * a.groups] if a.full else [])
    sizes = "1,100,1000,100000" if a.groups >= 100_000 else "1,100"
    step_rows = min(a.rows, 1_000_000)
    return {
        "growth": bench("growth", "--groups", ",".join(map(str, groups)), "--rows", a.rows // 2, "--batch", min(100_000, a.rows // 10)),
        "steps": bench("steps", "--groups", a.groups, "--sizes", sizes, "--rows", step_rows),
        "changes": bench("steps", "--groups", a.groups, "--sizes", sizes, "--rows", step_rows, "--deletes"),
        "views": bench("views", "--counts", ",".join(str(max(1, a.views // part)) for part in (1000, 100, 10, 1)), "--rows", a.rows // 10,
                       "--idle", min(10, a.idle_seconds)),
        "lookups": list(lookup_curve(a, [0, a.ingest // 10, a.ingest // 2, a.ingest])),
    }


def mb(value):
    return f"{value / 1e6:,.0f}"


def changed_per_row(groups, rows):
    """Groups that an epoch changes for each of its rows, when rows choose groups at random."""
    return groups * -math.expm1(-rows / groups) / rows


def of_groups(growth):
    rows = [("groups", "workers", "groups changed per row", "CPU us per row", "wall us per row", "CPU us per new group", "resident MB")]
    for point in growth["groups"]:
        rows.append((f"{point['groups']:,}", point["workers"], f"{changed_per_row(point['groups'], growth['epoch_rows']):.2f}",
                     f"{point['cpu_us_per_row']:.3f}", f"{point['wall_s'] * 1e6 / growth['rows']:.3f}", f"{point['load_cpu_us_per_row']:.3f}",
                     mb(point["resident_bytes"] - point["prepared_bytes"])))
    return as_text(rows)


def of_retained(growth):
    rows = [("epochs kept", "rows per epoch", "CPU us per row", "resident MB")]
    for point in growth["retained"]:
        rows.append((point["retain_epochs"], f"{point['epoch_rows']:,}", f"{point['cpu_us_per_row']:.3f}",
                     mb(point["resident_bytes"] - point["prepared_bytes"])))
    return as_text(rows)


def of_steps(inserts, changes):
    rows = [("rows per epoch", "epochs", "insert: CPU us per row", "epoch p50 us", "p99 us", "replace: CPU us per row", "epoch p50 us", "p99 us")]
    for insert, change in zip(inserts["steps"], changes["steps"]):
        cells = [(f"{step['cpu_us_per_row']:.3f}", f"{step['epoch_us_p50']:,.0f}", f"{step['epoch_us_p99']:,.0f}") for step in (insert, change)]
        rows.append((f"{insert['rows_per_epoch']:,}", f"{insert['epochs']:,}", *cells[0], *cells[1]))
    return as_text(rows)


def of_views(views):
    rows = [("views", "CPU us per row", "CPU ns per row and view", "CPU ms to create one", f"CPU s of {views['idle_s']} s idle", "resident MB")]
    for point in views["views"]:
        rows.append((f"{point['views']:,}", f"{point['cpu_us_per_row']:.3f}", f"{point['cpu_us_per_row'] * 1000 / point['views']:.1f}",
                     f"{point['create_cpu_ms_per_view']:.2f}", f"{point['idle_cpu_s']:.3f}", mb(point["resident_bytes"])))
    return as_text(rows)


def of_lookups(points):
    rows = [("rows per s asked", "reached", "lookups per s", "p50 ms", "p99 ms")]
    rows += [(f"{asked:,}", f"{reached:,}", f"{per_s:,}", f"{p50:.2f}", f"{p99:.2f}") for asked, reached, per_s, p50, p99 in points]
    return as_text(rows)


def as_sections(curves):
    """`(title, what is measured, table)` of each curve."""
    yield ("CPU and memory against groups and workers",
           f"A view of COUNT and SUM by a BIGINT key. First one row for each group, as fast as they are taken; then {curves['growth']['rows']:,} rows "
           f"on random groups in epochs of {curves['growth']['epoch_rows']:,}, each visible before the next is sent. A process for each line; "
           "the rows that were prepared are taken off the memory.", of_groups(curves["growth"]))
    yield ("Memory against kept epochs", "The same on 100,000 groups; the view keeps so many epochs readable behind the newest.", of_retained(curves["growth"]))
    yield ("CPU against rows per epoch",
           f"The same on {curves['steps']['groups']:,} groups. An epoch is sent when the one before is visible, so its time is that of one step through source, "
           "committer, worker and published view. `replace`: the input is a table with a primary key and each row takes the place of one, "
           "so that a group loses a row and another gains one.", of_steps(curves["steps"], curves["changes"]))
    yield ("CPU against views on one source",
           f"Each of N views takes the rows `WHERE g = i`, groups and sums them; {curves['views']['rows']:,} rows reach all of them.", of_views(curves["views"]))
    yield ("Lookups against rows that come in", "64 connections by `wrk`, while rows are appended over HTTP to the table below the view.", of_lookups(curves["lookups"]))
