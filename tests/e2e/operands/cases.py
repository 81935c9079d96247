"""Queries over operands of several types, arrays and functions in FROM. No expected values here: those are PostgreSQL's."""
import psycopg

SETUP = """CREATE TABLE ex_a (id INT PRIMARY KEY, ar INT[], tx TEXT[]);
CREATE TABLE ex_n (id INT PRIMARY KEY, a NUMERIC(12,4), d DOUBLE PRECISION, i INT, b BIGINT, t TEXT, iv INTERVAL, dt DATE, tm TIME, u UUID, ts TIMESTAMP, bo BOOLEAN);
CREATE TABLE ex_m (id INT PRIMARY KEY, v INT)"""

STAGES = [
    """INSERT INTO ex_a VALUES (1, '{NULL}', '{NULL}'), (2, '{2,1}', '{b,a}'), (3, '{1,NULL}', '{a,NULL}'), (4, '{}', '{}'), (5, NULL, NULL), (6, '{1}', '{a}'), (7, '{1,5}', '{a,e}');
INSERT INTO ex_n VALUES (1, 12.3456, 1.5, 5, 50, '7', '2 days', '2024-02-03', '10:11:12', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '2024-02-03 01:02:03', true),
(2, -12.3456, -2.5, -5, -50, '8', NULL, NULL, NULL, NULL, NULL, NULL), (3, 12345678.9999, 'NaN', 7, 9007199254740993, NULL, '1 hour', '2020-01-01', '00:00', NULL, '2020-01-01', false),
(4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO ex_m VALUES (1, 10), (2, 20), (9, 20)""",
    """UPDATE ex_a SET ar = '{NULL,1}', tx = '{NULL,b}' WHERE id = 4;
UPDATE ex_a SET ar = '{}', tx = '{}' WHERE id = 1;
INSERT INTO ex_a VALUES (8, '{NULL,NULL}', '{}'), (9, '{5}', '{NULL}');
UPDATE ex_n SET a = 99999999.5, d = 'NaN', iv = '-1 month', bo = true WHERE id = 4;
DELETE FROM ex_n WHERE id = 1;
INSERT INTO ex_m VALUES (3, NULL), (4, 10)""",
    """DELETE FROM ex_a WHERE id IN (3, 5, 8);
DELETE FROM ex_n WHERE id > 2;
DELETE FROM ex_m WHERE v = 20""",
]

# In the order of their rows, ad hoc and in views.
ORDERS = ["ar", "ar NULLS FIRST", "ar DESC", "ar DESC NULLS LAST", "tx DESC NULLS LAST", "tx NULLS FIRST"]
BOTH = [
    *[f"SELECT id, row_number() OVER (ORDER BY {order}, id) AS n FROM ex_a" for order in ORDERS],
    *[f"SELECT id FROM ex_a ORDER BY {order}, id LIMIT 3" for order in ORDERS],
    *[f"SELECT array_agg(id ORDER BY {order}, id) AS l FROM ex_a" for order in ORDERS],
    "SELECT id % 2 AS k, string_agg(id::text, ',' ORDER BY ar DESC NULLS LAST, id) AS l FROM ex_a GROUP BY 1",
    # NUMERIC stays exact.
    "SELECT id, trunc(a) AS x, trunc(a, 2) AS y, trunc(a, -2) AS z, trunc(b, -1) AS w FROM ex_n",
    "SELECT id, trunc(a + 12345678901234567890) AS x, ceil(a) AS c, floor(a) AS f, round(a, 1) AS r, abs(a) AS p, mod(a, 5) AS m, sign(a) AS s FROM ex_n",
    "SELECT id, trunc(d) AS x, trunc(i) AS y, round(i, -1) AS r, round(b, -2) AS s, ceil(i) AS c FROM ex_n",
    "SELECT sum(trunc(a, 1)) AS s, max(ceil(a)) AS c, min(floor(a)) AS f FROM ex_n",
    "SELECT id, trunc(12345678901234567890.987) AS a, trunc(1.999, 2) AS b, trunc(-2.5) AS c, trunc(0.05) AS d, ceil(-0.5) AS e, floor(0.99) AS f FROM ex_m",
    "SELECT id, sign(d) AS s FROM ex_n",
    # Signs of NULL, and of what has no literal.
    "SELECT id, -NULL::numeric(12,2) AS a, -NULL::interval AS b, -NULL::int AS c, -NULL::float8 AS d FROM ex_m",
    "SELECT id, -a AS a, -iv AS b, -(i + 1) AS c, -(-a) AS d, - (-1.50) AS e FROM ex_n",
    # Quoted texts beside values.
    *[f"SELECT id, coalesce({column}, '{text}') AS x, CASE WHEN id = 2 THEN '{text}' ELSE {column} END AS y, nullif({column}, '{text}') AS z, "
      f"{column} IN ('{text}') AS p, {column} BETWEEN '{text}' AND '{text}' AS q, greatest({column}, '{text}') AS r, least('{text}', {column}) AS s FROM ex_n"
      for column, text in [("dt", "2024-02-03"), ("tm", "10:11:12"), ("ts", "2024-02-03 01:02:03"), ("i", "5"), ("b", "9007199254740993"), ("t", "7")]],
    "SELECT id, coalesce(iv, '2 days') AS x, coalesce('2 days', iv) AS y, CASE id WHEN 1 THEN '3 days' WHEN 2 THEN iv END AS z FROM ex_n",
    "SELECT id, coalesce(u, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12') AS x, CASE WHEN u IS NULL THEN 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a13' ELSE u END AS y FROM ex_n",
    "SELECT id, coalesce(bo, 'true') AS x, coalesce(NULL, 'no', bo) AS y FROM ex_n",
    "SELECT id, coalesce(a, '5.12345') > 5.1234 AS x, a = '12.34560001' AS y, coalesce(d, '1.5') AS z FROM ex_n",
    "SELECT id, '5' + i AS a, i - '5' AS b, i * '2' AS c, '70' / i AS e, i % '3' AS f, b + '1' AS g, d * '2' AS h FROM ex_n",
    "SELECT id, a + '0.00001' AS x, a * '2' AS y, a - '1' AS z FROM ex_n",
    "SELECT id, ts + '1 day' AS a, ts - '2024-01-01' AS b, dt - '2024-01-01' AS c, '2024-03-01' - dt AS d, iv + '1 day' AS e, iv * '2' AS f FROM ex_n",
    "SELECT id, ar || NULL AS a, NULL || ar AS b, ar || '{7}' AS c, '{7,NULL}' || ar AS d, ar || 5 AS e, ar || NULL::int AS f, ar || ar AS g FROM ex_a",
    # Branches of UNION.
    "SELECT id FROM ex_m UNION ALL SELECT '7'",
    "SELECT '2024-05-01' AS a, 'x' AS b UNION ALL SELECT dt, t FROM ex_n",
    "SELECT iv FROM ex_n UNION ALL SELECT '36 hours' UNION ALL SELECT '1 hour'",
    "SELECT a FROM ex_n UNION SELECT '12.3456'",
    # Aggregates of constants of several types, and of a name twice.
    "SELECT sum(1) AS a, sum(1::bigint) AS b, count(1) AS c, count(1::bigint) AS d, max(1) AS e, max(1::bigint) AS f FROM ex_m",
    "SELECT max('2024-01-01'::date) AS a, max('2024-01-01'::timestamp) AS b, min('a') AS c, min('a'::text) AS d, max(DATE '2024-01-02') AS e, max(TIMESTAMP '2024-01-02') AS f FROM ex_m",
    "SELECT v, sum(1) AS a, sum(1::bigint) AS b, sum(1::smallint + id) AS c FROM ex_m GROUP BY v HAVING sum(1::bigint) > 0",
    "SELECT v, count(*) AS n FROM ex_m GROUP BY ROLLUP (v, v)",
    "SELECT v, count(*) AS n FROM ex_m m GROUP BY ROLLUP (v, m.v, id % 2)",
    "SELECT v, sum(id) AS n FROM ex_m GROUP BY CUBE (v, v)",
    "SELECT v, grouping(v) AS g, count(*) AS n FROM ex_m GROUP BY GROUPING SETS ((v, v), (v), (), ())",
    "SELECT id % 2 AS c, count(*) AS n FROM ex_m GROUP BY ROLLUP (id % 2, id % 2)",
    "SELECT every(bo) AS a, every(id > 0) AS b, bool_and(id > 2) AS c, every(id > 2) FILTER (WHERE id > 3) AS d FROM ex_n",
    "SELECT id % 2 AS k, every(bo) AS e FROM ex_n GROUP BY 1 HAVING every(id > 1)",
    "SELECT count(*) AS n FROM ex_m HAVING true",
    "SELECT 1 AS n FROM ex_m HAVING count(*) > 2 AND true",
    # Joins inside joins.
    "SELECT n.id, m.v, x.id AS x FROM ex_n n LEFT JOIN ex_m m CROSS JOIN ex_a x ON n.id = m.id AND x.id = n.id",
    "SELECT n.id, m.v, x.id AS x FROM ex_n n LEFT JOIN ex_m m JOIN ex_a x ON x.id = m.id ON n.id = m.id",
    "SELECT n.id, m.v, x.id AS x FROM ex_n n LEFT JOIN ex_m m LEFT JOIN ex_a x USING (id) ON n.id = m.id",
    "SELECT n.id, q.v FROM ex_n n FULL JOIN ex_m q CROSS JOIN (SELECT 1 AS one) o ON n.id = q.id",
]

# In the order of their rows, ad hoc alone: views have no UNNEST, no functions in FROM and no order of their own.
AD_HOC = [
    *[f"SELECT id FROM ex_a ORDER BY {order}, id" for order in ORDERS],
    *[f"SELECT id, rank() OVER (ORDER BY {order}) AS n FROM ex_a ORDER BY id" for order in ORDERS],
    "SELECT DISTINCT ON (id % 2) id FROM ex_a ORDER BY id % 2, ar DESC NULLS LAST",
    "SELECT id, ROW(ar, id) AS r FROM ex_a ORDER BY (ar, id) DESC NULLS LAST",
    "SELECT id, unnest(ar) AS x FROM ex_a ORDER BY 1, 2",
    "SELECT unnest(ARRAY[1, 2]) AS a, unnest(ARRAY[1, 2, 3]) AS b",
    "SELECT 1 + unnest(ar) AS x, count(*) AS n FROM ex_a GROUP BY 1 ORDER BY 1",
    "SELECT * FROM generate_series(1, 3) x",
    "SELECT x, x.x AS y FROM generate_series(1, 3) AS x ORDER BY x DESC",
    "SELECT * FROM generate_series(1, 3)",
    "SELECT generate_series + 1 AS y FROM generate_series(1, 3)",
    "SELECT g.v FROM generate_series(1, 3) g(v)",
    "SELECT * FROM unnest(ARRAY[3, NULL, 1]) x",
    "SELECT x FROM unnest(ARRAY['a', 'b']) AS x",
    "SELECT unnest FROM unnest(ARRAY[1, 2])",
    "SELECT id, x FROM ex_a, unnest(ar) x ORDER BY 1, 2",
    "SELECT id, x.x, y FROM ex_a CROSS JOIN LATERAL unnest(ar) AS x, unnest(tx) u(y) ORDER BY 1, 2, 3",
    "SELECT id, x FROM ex_a LEFT JOIN LATERAL unnest(ar) x ON true ORDER BY 1, 2",
    "SELECT id, u.y FROM ex_a LEFT JOIN unnest(tx) AS u(y) ON true ORDER BY 1, 2",
    "SELECT id, x FROM ex_a LEFT JOIN LATERAL unnest(ar) x ON x > 1 ORDER BY 1, 2",
    "SELECT id, x FROM ex_a JOIN LATERAL unnest(ar) x ON x = id - 5 ORDER BY 1, 2",
    "SELECT id, y, c FROM ex_a LEFT JOIN LATERAL (SELECT unnest(ar) + 1 AS y, 5 AS c) q ON true ORDER BY 1, 2",
    "SELECT id, (SELECT sum(x) FROM unnest(ar) x) AS s, (SELECT count(*) FROM unnest(tx) x WHERE x > 'a') AS c FROM ex_a ORDER BY 1",
    "SELECT id FROM ex_a WHERE EXISTS (SELECT FROM unnest(ar) x WHERE x = ex_a.id - 5) ORDER BY 1",
    "SELECT id FROM ex_a WHERE 1 IN (SELECT unnest(ar)) ORDER BY 1",
    "SELECT x, count(*) AS n FROM ex_a LEFT JOIN unnest(ar || id) x ON true GROUP BY x ORDER BY 1",
    "SELECT tm + '1 hour' AS a, bo = 'true' AS b, nullif(d, 1.5) AS c FROM ex_n ORDER BY id",
    "SELECT sign('NaN'::float8) AS s",
    "SELECT '5' + 1 AS a, 1 + '5' AS b, 7 % '4' AS c, '7' / 2 AS d, ARRAY[1] || NULL AS e, NULL || ARRAY[1] AS f",
    "SELECT to_date('20240229', 'YYYYMMDD') AS d",
    "SELECT count(*) OVER () AS a, sum(1) OVER () AS b, sum(1::bigint) OVER () AS c FROM ex_m",
]

# Refused, with PostgreSQL's SQLSTATE.
REFUSED = [
    "SELECT 'a' UNION ALL SELECT 1",
    "SELECT 1 UNION ALL SELECT 'a'",
    "SELECT t FROM ex_n UNION ALL SELECT 1",
    "SELECT dt FROM ex_n UNION ALL SELECT 'x'",
    "SELECT coalesce(i, 'x') FROM ex_n",
    "SELECT coalesce(i, t) FROM ex_n",
    "SELECT CASE WHEN id = 1 THEN i ELSE 'z' END FROM ex_n",
    "SELECT CASE WHEN id = 1 THEN i ELSE t END FROM ex_n",
    "SELECT coalesce(iv, 'soon') FROM ex_n",
    "SELECT i + 'x' FROM ex_n",
    "SELECT i + '1.5' FROM ex_n",
    "SELECT t + 1 FROM ex_n",
    "SELECT ts - '1 day' FROM ex_n",
    "SELECT ar || 'x' FROM ex_a",
    "SELECT CASE WHEN true THEN unnest(ar) END FROM ex_a",
    "SELECT coalesce(unnest(ar), 0) FROM ex_a",
    "SELECT to_date('20240230', 'YYYYMMDD')",
    "SELECT to_date('2024-13-01', 'YYYY-MM-DD')",
    "SELECT to_timestamp('2024-02-28 25:00', 'YYYY-MM-DD HH24:MI')",
    "CREATE TABLE ex_q (a INT DEFAULT 'x')",
    "CREATE TABLE ex_q (a DATE DEFAULT 'x')",
    "CREATE TABLE ex_q (a DATE DEFAULT '2024-01-01', b INT[] DEFAULT '{1}', c BOOLEAN DEFAULT 'maybe')",
    "CREATE TABLE ex_q (a INT[] DEFAULT '{x}')",
    "CREATE TABLE ex_q (a DATE DEFAULT 5)",
    "CREATE TABLE ex_q (a INT DEFAULT 'x' || 'y')",
    "CREATE TABLE ex_q (a INT DEFAULT true)",
]


def queries():
    """Every query at every stage: its name, its text, and whether views are asked too."""
    for kind, texts in [("both", BOTH), ("ad_hoc", AD_HOC), ("refused", REFUSED)]:
        for number, text in enumerate(texts):
            yield f"{kind}-{number}", text, kind == "both"


def answer(connection, text, name):
    """The rows of a query, ad hoc in their own order, or `!` and an SQLSTATE."""
    try:
        cursor = connection.execute(text)
        columns = ", ".join(column.name for column in cursor.description or [])
        rows = [", ".join(map(cell, row)) for row in cursor.fetchall()] if cursor.description else []
    except psycopg.Error as error:
        return f"!{error.sqlstate}"
    return f"({columns}) " + "; ".join(rows if name.startswith("ad_hoc") else sorted(rows))


def cell(value):
    return "NULL" if value is None else format(value, "f") if type(value).__name__ == "Decimal" else str(value)
