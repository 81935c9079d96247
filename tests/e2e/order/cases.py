"""Guards x places: every query of the order of evaluation, made from lists. No expected values here: those are PostgreSQL's."""

SETUP = """CREATE TABLE ord_t (id INT PRIMARY KEY, b INT, w TEXT);
CREATE TABLE ord_s (id INT, x INT);
CREATE TABLE ord_u (id INT PRIMARY KEY, y INT)"""
ROWS = """INSERT INTO ord_t VALUES (1, 0, 'one'), (2, 1, '1'), (3, 2, '2'), (4, NULL, '4'), (5, 7, '7');
INSERT INTO ord_s VALUES (1, 0), (2, 5), (2, 6), (3, 10), (9, 0);
INSERT INTO ord_u VALUES (1, 0), (2, 1), (3, 3), (4, NULL)"""

# Values that fail for the row with b = 0 (or for all), to be guarded.
VALUES = {
    "quotient": "12 / b",
    "cast": "(w::int + 1)",
    "outer_in_subquery": "(SELECT 12 / t.b)",
    "over_rows": "(SELECT sum(s.x / t.b) FROM ord_s s)::int",
    "outer_in_where": "(SELECT count(*) FROM ord_s s WHERE s.x / t.b > 1)::int",
    "of_its_rows": "(SELECT max(12 / s.x) FROM ord_s s WHERE s.id = t.id)",
    "of_its_where": "(SELECT count(*) FROM ord_s s WHERE s.id = t.id AND 12 / s.x > 0)::int",
    "limited": "(SELECT 12 / s.x FROM ord_s s WHERE s.id = t.id ORDER BY s.x LIMIT 1)",
    "rows_many": "(SELECT s.x FROM ord_s s WHERE s.id >= t.b AND t.b > 2 OR t.b = 0)",
    "nested": "(SELECT (SELECT max(u.y / t.b) FROM ord_u u WHERE u.id = s.id) FROM ord_s s WHERE s.id = t.id LIMIT 1)",
    "union": "(SELECT max(q) FROM (SELECT s.x / t.b AS q FROM ord_s s UNION ALL SELECT u.y / t.b FROM ord_u u) v)",
    "windowed": "(SELECT max(q) FROM (SELECT sum(12 / s.x) OVER (PARTITION BY s.id) AS q FROM ord_s s WHERE s.id = t.id) v)::int",
    "grouped": "(SELECT max(q) FROM (SELECT s.id, sum(12 / s.x) AS q FROM ord_s s WHERE s.id = t.id GROUP BY s.id HAVING sum(12 / s.x) > 0) v)::int",
    "joined": "(SELECT max(u.y / s.x) FROM ord_s s JOIN ord_u u ON u.id = s.id AND 12 / s.x > 0 WHERE s.id = t.id)",
    "exists": "(EXISTS (SELECT FROM ord_s s WHERE s.x / t.b > 1))::int",
    "is_in": "(12 IN (SELECT s.x / t.b FROM ord_s s))::int",
    "any": "(3 < ANY (SELECT s.x / t.b FROM ord_s s))::int",
    "of_its_function": "ln(b)::int",
}
# Values that fail for every row: what stands before them must never let one through.
NEVER = {
    "free": "(SELECT max(12 / s.x) FROM ord_s s)",
    "free_where": "(SELECT count(*) FROM ord_s s WHERE 12 / s.x > 0)::int",
    "free_many": "(SELECT s.x FROM ord_s s)",
    "free_nested": "(SELECT max((SELECT max(12 / u.y) FROM ord_u u)) FROM ord_s s)",
    "free_in": "(1 IN (SELECT 12 / s.x FROM ord_s s))::int",
    "free_exists": "(EXISTS (SELECT FROM ord_s s WHERE 12 / s.x > 100))::int",
}
# What guards a value {v}: true for rows that must not see it.
SAFE = "b <> 0"
GUARDS = {
    "and": "({safe} AND {v} > 1)",
    "or": "(NOT {safe} OR {v} > 1)",
    "not": "(NOT ({safe} AND NOT {v} > 1))",
    "chain": "({safe} AND id > 0 AND {v} > 1 AND {v} < 100)",
    "in_or": "(id = 99 OR ({safe} AND (id = 98 OR {v} > 1)))",
    "case": "(CASE WHEN {safe} THEN {v} END > 1)",
    "else": "(CASE WHEN {safe} THEN false WHEN b IS NULL THEN NULL WHEN b = 0 THEN true ELSE {v} > 1 END)",
    "simple_case": "(CASE b WHEN 0 THEN 0 ELSE CASE WHEN {safe} THEN {v} END END > 1)",
    "when": "(CASE WHEN NOT {safe} THEN false WHEN b IS NULL THEN false WHEN {v} > 1 THEN true END)",
    "coalesce": "(coalesce(CASE WHEN ({safe}) IS NOT TRUE THEN 0 END, {v}) > 1)",
    "nested": "(coalesce(CASE WHEN b IS NULL OR NOT {safe} THEN 0 END, CASE WHEN id > 0 AND {safe} THEN {v} ELSE {v} END) > 1)",
}
# Places for a condition {c}.
PLACES = {
    "select": "SELECT id, {c} AS c FROM ord_t t",
    "where": "SELECT id FROM ord_t t WHERE {c}",
    "group": "SELECT {c} AS c, count(*) AS n FROM ord_t t GROUP BY 1",
    "argument": "SELECT bool_or({c}) AS c, count(CASE WHEN {c} THEN 1 END) AS n FROM ord_t t",
    "filter": "SELECT count(*) FILTER (WHERE {c}) AS n FROM ord_t t",
    "having": "SELECT id, b FROM ord_t t GROUP BY id, b, w HAVING {c}",
    "inner": "SELECT t.id, o.id AS other FROM (SELECT id AS tid, * FROM ord_t) t JOIN ord_u o ON t.id = o.id AND {c}".replace("{c}", "{c:t}"),
    "left": "SELECT t.id, o.id AS other FROM ord_t t LEFT JOIN ord_u o ON t.id = o.id AND {c}".replace("{c}", "{c:t}"),
    "full": "SELECT t.id, o.id AS other FROM ord_t t FULL JOIN ord_u o ON t.id = o.id AND {c}".replace("{c}", "{c:t}"),
    "pairs": "SELECT t.id, o.id AS other FROM ord_t t LEFT JOIN ord_u o ON t.id < o.id AND {c}".replace("{c}", "{c:t}"),
    "sort": "SELECT id FROM ord_t t ORDER BY {c}, id LIMIT 3",
}
# Ad hoc alone: views have no windows of this kind.
AD_HOC = {
    "window": "SELECT id, count(CASE WHEN {c} THEN 1 END) OVER (PARTITION BY {c}) AS n FROM ord_t t",
    "window_order": "SELECT id, row_number() OVER (ORDER BY {c}, id) AS n FROM ord_t t",
    "plain_sort": "SELECT id FROM ord_t t ORDER BY {c}, id",
}
FULL_GUARDS = ["and", "case"]

# Whole queries: FILTER before its argument, shared expressions, and the like.
WHOLE = [
    "SELECT sum(12 / b) FILTER (WHERE b <> 0) AS s FROM ord_t",
    "SELECT sum(12 / b) FILTER (WHERE b <> 0) AS s, max(12 / b) FILTER (WHERE b > 0) AS m FROM ord_t",
    "SELECT sum(12 / b) FILTER (WHERE b <> 0) AS s, sum(12 / b + 1) FILTER (WHERE b <> 0 AND id > 2) AS m, count(12 / b) FILTER (WHERE b > 1) AS n FROM ord_t",
    "SELECT id % 2 AS k, avg(w::int) FILTER (WHERE w <> 'one') AS s, min(w::int) FILTER (WHERE w <> 'one') AS m FROM ord_t GROUP BY 1",
    "SELECT count(DISTINCT 12 / b) FILTER (WHERE b <> 0) AS n FROM ord_t",
    "SELECT string_agg((12 / b)::text, ',' ORDER BY 12 / b) FILTER (WHERE b <> 0) AS l FROM ord_t",
    "SELECT array_agg(12 / b ORDER BY id) FILTER (WHERE b <> 0) AS l FROM ord_t",
    "SELECT sum((SELECT max(12 / s.x) FROM ord_s s WHERE s.id = t.id)) FILTER (WHERE b <> 0) AS s FROM ord_t t",
    "SELECT sum((SELECT max(s.x / t.b) FROM ord_s s)) FILTER (WHERE b <> 0) AS s, count((SELECT max(s.x / t.b) FROM ord_s s)) FILTER (WHERE b > 1) AS n FROM ord_t t",
    "SELECT id, CASE WHEN b <> 0 THEN 12 / b END AS a, CASE WHEN b > 0 THEN 12 / b + 1 END AS c, b <> 0 AND 12 / b > 1 AS d FROM ord_t",
    "SELECT id, b <> 0 AND 12 / b > 1 AS a, b <> 0 AND 12 / b > 3 AS c FROM ord_t",
    "SELECT id, coalesce(CASE WHEN b = 0 THEN 0 END, 12 / b) AS a, coalesce(CASE WHEN b = 0 THEN 1 END, 12 / b) AS c FROM ord_t",
    "SELECT id FROM ord_t WHERE b <> 0 AND 12 / b > 1 AND 12 / b < 12",
    "SELECT id FROM ord_t WHERE b > 0 AND 12 / b > 1",
    "SELECT id FROM ord_t WHERE b > 0 AND w::int > 1 AND id > 1 AND 12 / b > 1",
    "SELECT id FROM ord_t WHERE b = 0 AND w = '1' AND 12 / b > 1",
    "SELECT id FROM (SELECT * FROM ord_t WHERE b <> 0) q WHERE 12 / b > 1",
    "SELECT id FROM (SELECT id, 12 / b AS q FROM ord_t WHERE b <> 0) q WHERE q > 1",
    "SELECT t.id FROM ord_t t JOIN ord_u u ON t.id = u.id WHERE t.b <> 0 AND u.y > 0 AND t.b / u.y < 5",
    "SELECT t.id FROM ord_t t WHERE b <> 0 AND EXISTS (SELECT FROM ord_s s WHERE s.x / t.b > 1) AND 12 / b > 1",
    "SELECT t.id FROM ord_t t WHERE b <> 0 AND t.id IN (SELECT s.x / t.b FROM ord_s s)",
    "SELECT t.id FROM ord_t t WHERE b <> 0 AND t.id NOT IN (SELECT s.x / t.b FROM ord_s s)",
    "SELECT t.id FROM ord_t t WHERE b <> 0 AND 12 / (SELECT max(u.y / t.b) + t.b FROM ord_u u) > 0",
    "SELECT id, (b <> 0 AND 12 / b > 1) = (b > 1 OR b IS NULL) AS c FROM ord_t",
    "SELECT id FROM ord_t WHERE (b = 0 OR 12 / b > 1) AND (b = 0 OR 12 / b < 12)",
    "SELECT id FROM ord_t t WHERE (b <> 0 AND 12 / b = 6) OR (b <> 0 AND 12 / b = 12)",
    "SELECT count(*) AS n FROM ord_t t LEFT JOIN ord_u u ON t.b <> 0 AND u.y > t.b AND u.y / t.b > 0",
    "SELECT max(CASE WHEN b <> 0 AND 12 / b > 1 THEN id END) AS m, min(CASE WHEN b = 0 OR 12 / b > 1 THEN id END) AS n FROM ord_t",
    "SELECT t.id, (SELECT sum(CASE WHEN s.x <> 0 THEN (SELECT max(u.y / s.x) FROM ord_u u) END) FROM ord_s s WHERE s.id = t.id) AS q FROM ord_t t",
    "SELECT id, CASE WHEN b = 0 THEN -1 WHEN (SELECT max(s.x / t.b) FROM ord_s s) > 3 THEN (SELECT min(s.x / t.b) FROM ord_s s) ELSE 5 END AS q FROM ord_t t",
    "SELECT id FROM ord_t t WHERE CASE WHEN (SELECT count(*) FROM ord_s s WHERE s.id = t.id) = 2 THEN (SELECT 12 / min(s.x) FROM ord_s s WHERE s.id = t.id) > 0 END",
]
WHOLE_AD_HOC = [
    "SELECT count(*) AS n FROM ord_t t WHERE " + " AND ".join(f"EXISTS (SELECT s.id FROM ord_s s WHERE s.x > t.b GROUP BY s.id HAVING count(*) > {-n})" for n in range(40)),
    "SELECT id, sum(12 / b) FILTER (WHERE b <> 0) OVER (ORDER BY id) AS s FROM ord_t",
    "SELECT id, sum(CASE WHEN b <> 0 AND 12 / b > 1 THEN 1 ELSE 0 END) OVER (ORDER BY b <> 0 AND 12 / b > 1, id) AS s FROM ord_t",
    "SELECT id FROM ord_t ORDER BY b <> 0 AND 12 / b > 1, id",
    "SELECT DISTINCT ON (b <> 0 AND 12 / b > 1) b <> 0 AND 12 / b > 1 AS c FROM ord_t ORDER BY b <> 0 AND 12 / b > 1",
    "SELECT id FROM ord_t t WHERE b <> 0 AND (SELECT s.x / t.b FROM ord_s s ORDER BY s.x DESC, s.id LIMIT 1) > 1 ORDER BY (SELECT count(*) FROM ord_s s), id",
]


def queries():
    """Every query: its name, its text, and whether views are asked too."""
    for place, text in [*PLACES.items(), *AD_HOC.items()]:
        for guard, condition in GUARDS.items():
            for kind, value in VALUES.items():
                if guard not in FULL_GUARDS and kind not in ("quotient", "over_rows", "of_its_rows", "exists"):
                    continue
                safe = "w <> 'one'" if kind == "cast" else SAFE
                if kind == "of_its_function":
                    safe = "b > 0"
                made = condition.format(safe=safe, v=value)
                yield f"{place}-{guard}-{kind}", placed(text, made), place in PLACES
        for kind, value in NEVER.items():
            for guard in ("and", "case", "coalesce"):
                made = {"and": "(id < 0 AND {v} > id)", "case": "(CASE WHEN id < 0 THEN {v} END > 1)", "coalesce": "(coalesce(id, {v}) > 1)"}[guard].format(v=value)
                yield f"{place}-{guard}-{kind}", placed(text, made), place in PLACES
    for number, text in enumerate(WHOLE):
        yield f"whole-{number}", text, True
    for number, text in enumerate(WHOLE_AD_HOC):
        yield f"ad_hoc-{number}", text, False


def placed(text, condition):
    qualified = condition.replace("(id ", "(t.id ").replace("WHEN id ", "WHEN t.id ").replace("> id)", "> t.id)").replace(" id ", " t.id ").replace("coalesce(id", "coalesce(t.id")
    return text.replace("{c:t}", qualified).replace("{c}", condition)
