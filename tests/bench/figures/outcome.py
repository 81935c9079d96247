"""One figure as a line, and the table of all of them."""
import json
import statistics

# What each figure is, in which unit, and what it must reach: `at most` or `at least`.
REACH = {
    "w1": ("at most", 1.5, "x DuckDB's CPU", "5 million NDJSON orders, sum and count per user, `cenote run`, 1 worker, whole process"),
    "w1_2workers": ("at least", 1.7, "x the wall time", "the same with 2 workers, against 1 worker"),
    "w1_2cores": ("at least", 1.7, "x the wall time", "the same, each held to as many cores as it has workers"),
    "aggregate": ("at least", 0.5, "x DataFusion's rows per CPU second", "COUNT and SUM by key, Arrow batches in memory, a view sealed at their end (`as_server`: kept in epochs)"),
    "join": ("at least", 0.3, "x DataFusion's rows per CPU second", "equi-join of two streams that arrive interleaved, sums of it by a thousand keys (`as_server`: kept in epochs)"),
    "memory": ("at most", 160, "bytes per group", "(BIGINT key, COUNT): operator state and published view, slope of resident memory"),
    "lookups": ("at least", 0.6, "x /healthz", "HTTP point lookups, 64 connections, nothing else to do"),
    "lookups_ingest": ("at least", 0.6, "x /healthz", "the same while rows are appended over HTTP to the table below the view"),
    "scan_arrow": ("at least", 0.5, "x a plain handler", "`scan.arrow` of a whole table, bytes per second, against a handler that streams the same bytes from memory"),
    "first_row": ("at most", 40, "ms", "the README's first example, from process start to the first row"),
    "idle_rss": ("at most", 60, "MB", "resident memory of a server that was just started"),
    "freshness": ("at most", 50, "ms, p99", "HTTP append until the row's group is seen in a lookup, while other rows are appended"),
    "restart": ("at most", 2, "s per GB of checkpoint", "start behind `kill -9` until a lookup answers rightly: a table, and COUNT and SUM of it by key"),
    "idle_views": ("at most", 1, "% of a core", "CPU of idle views"),
    "idle_views_rss": ("at most", 500, "MB", "resident memory of the server with those views"),
    "checkpoint_bytes": ("at most", 0.05, "x a full one", "bytes of a checkpoint after one row in a hundred has changed"),
    "checkpoint_time": ("at most", 0.05, "x a full one", "seconds of the same"),
    "checkpoint_ingest": ("at least", 0.9, "x without", "updates of every row below a view, a checkpoint each second"),
    "checkpoint_lookups": ("at most", 2, "x without, p99", "HTTP point lookups while one checkpoint is taken after the other"),
    "export": ("at least", 0.7, "x pyarrow's rows per CPU second", "`cenote state export` of a checkpoint's view to Parquet, against pyarrow writing the same columns from memory"),
}


def figure(name, value, **more):
    """One line of the outcome, printed as it is measured."""
    rule, reach, unit, _ = REACH[name]
    ok = value <= reach if rule == "at most" else value >= reach
    line = {"figure": name, "value": round(value, 3), "rule": rule, "reach": reach, "ok": ok, "unit": unit, **more}
    print(json.dumps(line), flush=True)
    return line


def middle(values, digits=3):
    """The median, rounded."""
    return round(statistics.median(values), digits)


def percentile(values, part):
    """The value below which that part of them is."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)]


def rows_of(lines):
    """The table's rows: figure, value, reach, verdict, unit."""
    for line in lines:
        yield line["figure"], f"{line['value']:g}", f"{line['rule']} {line['reach']:g}", "ok" if line["ok"] else "MISS", line["unit"]


def as_text(rows):
    """Rows of texts in columns; those of numbers to the right."""
    rows = [list(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    numeric = [all(is_number(cell) for cell in column[1:]) for column in zip(*rows)]
    return "\n".join("  ".join(cell.rjust(width) if right else cell.ljust(width)
                               for cell, width, right in zip(row, widths, numeric)).rstrip() for row in rows)


def is_number(text):
    return text.replace(",", "").replace(".", "", 1).lstrip("-").isdigit() or text == ""


def table(lines):
    return as_text([("figure", "value", "reach", "", "unit"), *rows_of(lines)])
