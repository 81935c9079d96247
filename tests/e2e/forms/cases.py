"""Queries in forms of PostgreSQL's grammar that DataFusion's planner does not have: rows against subqueries, LATERAL in
LATERAL, GROUP BY of a key, TABLE, `(s).*`, continued texts, constants that fail."""
import psycopg

# STRUCT is PostgreSQL's composite type; `regenerate.py` makes one of that name.
SETUP = """CREATE TABLE fo_o (id INT PRIMARY KEY, tag INT, name TEXT);
CREATE TABLE fo_p (id INT, tag INT, n BIGINT);
CREATE TABLE fo_q (id BIGINT, tag INT);
CREATE TABLE fo_k (a INT, b INT, c TEXT, d INT, PRIMARY KEY (a, b));
CREATE TABLE fo_n (x INT NOT NULL, y INT NOT NULL);
CREATE TABLE fo_s (id INT PRIMARY KEY, s {struct})"""

STAGES = [
    """INSERT INTO fo_o VALUES (1, NULL, 'a'), (2, 9, 'b'), (3, 3, NULL), (4, 7, 'd'), (5, 5, 'e');
INSERT INTO fo_p VALUES (1, 5, 10), (1, 5, 10), (3, 3, 7), (3, NULL, NULL), (NULL, 9, 4), (5, 7, 1);
INSERT INTO fo_q VALUES (1, 5), (3, 3), (3, NULL), (4, 9);
INSERT INTO fo_k VALUES (1, 1, 'x', 5), (1, 2, 'y', NULL), (3, 1, NULL, 7);
INSERT INTO fo_n VALUES (1, 5), (3, 3), (2, 9);
INSERT INTO fo_s VALUES (1, ROW(1, 'x')), (2, NULL), (3, ROW(NULL, 'y'))""",
    """DELETE FROM fo_p WHERE id = 1;
INSERT INTO fo_p VALUES (2, 9, 3), (4, NULL, 8), (4, 7, 2), (NULL, NULL, 1);
UPDATE fo_p SET n = 6 WHERE n IS NULL;
DELETE FROM fo_q WHERE tag IS NULL;
UPDATE fo_o SET tag = 5, name = 'z' WHERE id = 1;
UPDATE fo_k SET c = 'w' WHERE a = 3;
INSERT INTO fo_k VALUES (2, 1, 'v', 1);
DELETE FROM fo_n WHERE x = 1;
INSERT INTO fo_n VALUES (3, 3), (4, 7);
UPDATE fo_s SET s = ROW(2, 'q') WHERE id = 2""",
    """DELETE FROM fo_p;
DELETE FROM fo_q WHERE id < 4;
DELETE FROM fo_n;
DELETE FROM fo_k WHERE a = 1;
DELETE FROM fo_s WHERE id = 1""",
]

P, Q, N = "SELECT id, tag FROM fo_p", "SELECT id, tag FROM fo_q", "SELECT x, y FROM fo_n"
CORRELATED = "SELECT p.id, p.tag FROM fo_p p WHERE p.n > o.id"

# Conditions on a row of `fo_o o`.
TESTS = [
    *(f"(id, tag) {test} ({rows})" for test in ("IN", "NOT IN", "= ANY", "<> ALL", "<> ANY", "= ALL", "< ANY", ">= ALL")
      for rows in (P, Q, N, CORRELATED)),
    "(id, tag) IN (SELECT id, NULL::int FROM fo_p)",
    "(id, tag) NOT IN (SELECT id, NULL::int FROM fo_p WHERE id IS NOT NULL)",
    "(id, NULL::int) NOT IN (SELECT x, y FROM fo_n)",
    "(id, tag, name) IN (SELECT p.id, p.tag, 'b' FROM fo_p p)",
    "(id, tag) IN (VALUES (1, 5), (2, 9), (3, NULL))",
    "(id, tag) IN (TABLE fo_n)",
    "(id, tag) IN (SELECT * FROM fo_n)",
    "(id, tag) IN (SELECT id, tag FROM fo_p UNION ALL SELECT x, y FROM fo_n)",
    "(id, tag) IN (WITH w AS (SELECT id, tag FROM fo_p) SELECT * FROM w)",
    "(id, tag) IN (SELECT id, max(tag) FROM fo_p GROUP BY id)",
    "(id, tag) IN (SELECT id, tag FROM fo_p ORDER BY id, tag LIMIT 2)",
    "(id, tag + 0) = (SELECT max(x), max(y) FROM fo_n WHERE x = 3)",
    "(id, tag) = (SELECT max(p.id), max(p.tag) FROM fo_p p WHERE p.id = o.id)",
    "(id, tag) <> (SELECT max(p.id), max(p.tag) FROM fo_p p WHERE p.id = o.id)",
    "(id, tag) < (SELECT max(id), max(tag) FROM fo_p)",
    "ROW(id, tag) = (SELECT 2, 9)",
    "(id, (SELECT max(tag) FROM fo_q q WHERE q.id = o.id)) IN (SELECT id, tag FROM fo_p)",
    "(id, tag) IN (SELECT p.id, p.tag FROM fo_p p WHERE (p.id, p.tag) NOT IN (SELECT id, tag FROM fo_q))",
    "(tag, id) IN (SELECT q.tag, p.id FROM fo_p p JOIN fo_q q ON p.id = q.id AND (p.id, q.tag) IN (SELECT x, y FROM fo_n))",
]

PLACES = {
    "where": "SELECT id FROM fo_o o WHERE {test}",
    "not": "SELECT id FROM fo_o o WHERE NOT ({test})",
    "or": "SELECT id FROM fo_o o WHERE name = 'a' OR {test}",
    "and": "SELECT id FROM fo_o o WHERE id > 1 AND ({test} OR NOT (name <> 'd' AND {test}))",
    "select": "SELECT id, {test} AS x FROM fo_o o",
    "case": "SELECT id, CASE WHEN {test} THEN 1 WHEN NOT {test} THEN 2 ELSE 3 END AS x FROM fo_o o",
    "null": "SELECT id FROM fo_o o WHERE ({test}) IS NULL",
}

# Views cost time: the other places are asked ad hoc.
IN_VIEWS = ("where", "not", "select")

OTHERS = """\
SELECT o.id, p.n FROM fo_o o LEFT JOIN fo_p p ON o.id = p.id AND (p.id, p.tag) IN (SELECT x, y FROM fo_n)
SELECT o.id, p.n FROM fo_o o LEFT JOIN fo_p p ON o.id = p.id AND (p.id, p.tag) NOT IN (SELECT x, y FROM fo_n)
SELECT o.id, p.n FROM fo_o o JOIN fo_p p ON (o.id, p.tag) IN (SELECT x, y FROM fo_n)
SELECT id, n FROM (SELECT id, count(*) AS n, max(tag) AS m FROM fo_p GROUP BY id) g WHERE (id, n) IN (SELECT id, tag FROM fo_q) OR (id, m) IN (SELECT x, y FROM fo_n)
SELECT id, count(*) AS n FROM fo_p GROUP BY id HAVING (id, 5) IN (SELECT x, y FROM fo_n)
SELECT (1, 2) IN (SELECT 1, 2) AS a, (1, NULL) IN (SELECT 1, 2) AS b, (1, 2) NOT IN (SELECT 3, NULL::int) AS c, (1, 2) = ANY (SELECT 1, 3) AS d
SELECT (1, 2) <> ALL (SELECT 1, 3) AS a, (1, 2) < ALL (SELECT 1, NULL::int) AS b, (1, 2) = (SELECT 1, 2) AS c, (1, 2) = (SELECT 1, 2 WHERE false) AS d
SELECT (1, 2) = (SELECT 1, 2 UNION ALL SELECT 1, 3) AS a
SELECT (1, 2) IN (SELECT 1) AS a
SELECT (1, 2) IN (SELECT 1, 2, 3) AS a
SELECT (1, 2) = (SELECT 1) AS a
SELECT (1, 2) = ANY (SELECT x FROM fo_n) AS a
SELECT o.id, l.m FROM fo_o o, LATERAL (SELECT (SELECT max(n) FROM fo_p p WHERE p.id = o.id) AS m) l
SELECT o.id, l.m FROM fo_o o, LATERAL (SELECT tag, (SELECT max(n) FROM fo_p p WHERE p.id = o.id AND p.tag = q.tag) AS m FROM fo_q q WHERE q.id = o.id) l
SELECT o.id, l.x FROM fo_o o, LATERAL (SELECT m.x FROM fo_p p, LATERAL (SELECT q.tag + o.id AS x FROM fo_q q WHERE q.id = p.id AND q.id = o.id) m) l
SELECT o.id, l.x FROM fo_o o, LATERAL (SELECT p.n AS x FROM fo_p p WHERE EXISTS (SELECT 1 FROM fo_q q WHERE q.id = o.id AND q.id = p.id)) l
SELECT o.id, l.x FROM fo_o o LEFT JOIN LATERAL (SELECT p.n AS x FROM fo_p p WHERE p.id IN (SELECT q.id FROM fo_q q WHERE q.id = o.id) AND p.tag NOT IN (SELECT q.tag FROM fo_q q WHERE q.id = o.id AND q.tag > p.tag)) l ON true
SELECT o.id, (SELECT max(l.x) FROM fo_p p, LATERAL (SELECT q.tag AS x FROM fo_q q WHERE q.id = p.id AND EXISTS (SELECT 1 FROM fo_o o2 WHERE o2.id = o.id AND o2.tag = q.tag)) l) AS m FROM fo_o o
SELECT o.id, l.x, k.y FROM fo_o o, LATERAL (SELECT p.tag AS x FROM fo_p p WHERE p.id = o.id) l, LATERAL (SELECT count(*) AS y FROM fo_q q WHERE q.tag = l.x OR EXISTS (SELECT 1 FROM fo_n n WHERE n.x = o.id AND n.y = q.tag)) k
SELECT o.id, l.x FROM fo_o o, LATERAL (SELECT m.x FROM (SELECT 1 AS one) z, LATERAL (SELECT max((SELECT max(q.tag) FROM fo_q q WHERE q.id = o.id AND q.tag = p.tag)) AS x FROM fo_p p WHERE p.id = o.id) m) l
SELECT o.id, (SELECT x FROM LATERAL (SELECT (SELECT max(n) FROM fo_p p WHERE p.id = o.id) AS x) l) AS x FROM fo_o o
SELECT o.id FROM fo_o o WHERE EXISTS (SELECT 1 FROM fo_p p, LATERAL (SELECT q.tag AS x FROM fo_q q WHERE q.id = p.id AND q.tag = o.tag) l WHERE l.x > 1)
SELECT o.id, o.name, o.tag, count(*) AS n FROM fo_o o JOIN fo_p p ON p.id = o.id GROUP BY o.id
SELECT o.id, upper(o.name) || 'x' AS u, sum(p.n) AS n FROM fo_o o LEFT JOIN fo_p p ON p.id = o.id GROUP BY o.id HAVING o.tag > 3 OR o.tag IS NULL
SELECT o.name, max(p.n) AS n FROM fo_p p LEFT JOIN fo_o o ON p.id = o.id GROUP BY o.id
SELECT * FROM fo_o GROUP BY id
SELECT fo_o.*, count(*) AS n FROM fo_o, fo_p GROUP BY fo_o.id
SELECT name, count(*) AS n FROM fo_o GROUP BY 1, id
SELECT id, name, count(*) AS n FROM fo_o GROUP BY 1
SELECT k.a, k.c, k.d, count(*) AS n FROM fo_k k GROUP BY k.b, k.a
SELECT name, count(p.n) AS n FROM fo_o LEFT JOIN fo_p p USING (id) GROUP BY id
SELECT o.name, k.c, count(*) AS n FROM fo_o o JOIN fo_k k ON k.a = o.id GROUP BY o.id, k.a, k.b
SELECT o.name, (SELECT count(*) FROM fo_p p WHERE p.tag = o.tag) AS n FROM fo_o o GROUP BY o.id
SELECT k.c, count(*) AS n FROM fo_k k GROUP BY k.a
SELECT o.name, count(*) AS n FROM fo_o o GROUP BY o.tag
SELECT x.name, count(*) AS n FROM (SELECT * FROM fo_o) x GROUP BY x.id
WITH fo_o AS (SELECT 1 AS id, 'a' AS name) SELECT name FROM fo_o GROUP BY id
SELECT name, count(*) AS n FROM fo_o GROUP BY GROUPING SETS ((id), ())
SELECT name, id FROM fo_o GROUP BY id UNION ALL SELECT c, a FROM fo_k GROUP BY a, b
SELECT count(*) AS n FROM fo_o GROUP BY ()
SELECT 1 AS n FROM fo_p GROUP BY ()
SELECT max(n) AS n FROM fo_p GROUP BY (), tag
SELECT id, tag, count(*) AS n FROM fo_p GROUP BY (id, tag)
SELECT 1 AS n FROM fo_p HAVING true
SELECT 1 AS n FROM fo_p HAVING 1 > 2
SELECT id FROM fo_p HAVING true
TABLE fo_o
TABLE fo_n UNION TABLE fo_n
SELECT x FROM (TABLE fo_n) n WHERE y > 3
WITH w AS (TABLE fo_p) TABLE w
SELECT count(*) AS n FROM fo_o WHERE EXISTS (TABLE fo_p)
TABLE fo_n WHERE x > 1
TABLE fo_n, fo_o
SELECT (s).* FROM fo_s
SELECT id, (s).*, (s).a + 1 AS c FROM fo_s
SELECT (fo_s.s).* FROM fo_s WHERE id > 1
SELECT x.b, x.a FROM (SELECT id, (s).* FROM fo_s) x WHERE x.a IS NOT NULL
SELECT (x.t).* FROM (SELECT s AS t, id FROM fo_s) x
WITH w AS (SELECT s AS t FROM fo_s) SELECT (t).* FROM w
SELECT (s).* FROM fo_s UNION ALL SELECT x, 'n' FROM fo_n
SELECT 0 AS a, 'z' AS b UNION ALL SELECT (s).* FROM fo_s
SELECT (id).* FROM fo_s
SELECT count((s).*) FROM fo_s
SELECT fo_s.id, (s).* FROM fo_s JOIN fo_o USING (id)
SELECT 'a'\\n'b' AS x
SELECT 'a'  \\n  'b'\\n'c''d' || 'e' AS x
SELECT 'a' -- to be continued\\n'b' AS x
SELECT E'a\\\\'\\n'b' AS x
SELECT 'a' 'b' AS x
SELECT 'a' 'b'
SELECT 1 AS 'b'
SELECT 'a' /* no line */ 'b' AS x
SELECT name FROM fo_o WHERE name = 'a'\\n'' OR name = ''\\n'b'
SELECT -2147483648 AS a, pg_typeof(-2147483648)::text AS b, pg_typeof(1 + 1)::text AS c, pg_typeof(2147483648)::text AS d, pg_typeof(-9223372036854775808)::text AS e
SELECT pg_typeof(7 / 2)::text AS a, pg_typeof(-(3))::text AS b, pg_typeof(3 * 4 - 1)::text AS c, pg_typeof(CASE WHEN true THEN 1 ELSE 2 END + 1)::text AS d""".replace("\\n", "\n").splitlines()


# Constants that fail, and what may keep them from being computed.
CONSTANTS = """\
SELECT 1/0 = 1 OR true
SELECT true OR 1/0 = 1
SELECT 1/0 = 1 AND false
SELECT false AND 1/0 = 1
SELECT NULL AND 1/0 = 1
SELECT id < 0 OR true OR 1/0 = 1 FROM fo_o
SELECT (id < 0 AND false) AND 1/0 = 1 FROM fo_o
SELECT CASE WHEN true THEN 1 ELSE 1/0 END
SELECT CASE WHEN false THEN 1/0 ELSE 1 END
SELECT CASE WHEN id > 0 THEN 1 ELSE 1/0 END FROM fo_o
SELECT CASE WHEN id > 0 THEN 1 WHEN true THEN 2 ELSE 1/0 END FROM fo_o
SELECT CASE 1 WHEN 1 THEN 5 WHEN 1/0 THEN 6 END
SELECT CASE 2 WHEN 1 THEN 1/0 ELSE 6 END
SELECT coalesce(1, 1/0)
SELECT coalesce(NULL, 1, 1/0)
SELECT coalesce(id, 1/0) FROM fo_o
SELECT id FROM fo_o WHERE id > 0 OR 1/0 = 1
SELECT id FROM fo_o WHERE 1/0 = 1 OR id > 0
SELECT id FROM fo_o WHERE id < 0 AND 1/0 = 1
SELECT id FROM fo_o WHERE 1/0 = 1 AND id < 0
SELECT id FROM fo_o WHERE true OR 1/0 = 1
SELECT nullif(1, 1/0)
SELECT 1 IN (1, 1/0)
SELECT (1/0 = 1) IS NULL
SELECT 1/0 FROM fo_o WHERE false
SELECT 1/0 FROM fo_o LIMIT 0
SELECT sum(1/0) FROM fo_o WHERE id < 0
SELECT count(*) FROM fo_o GROUP BY 1/0 > 1
SELECT EXISTS (SELECT 1/0 FROM fo_o)
SELECT id FROM fo_o ORDER BY 1/0 LIMIT 0
SELECT a FROM (SELECT 1 AS a, 1/0 AS b FROM fo_o) x
SELECT count(*) FROM (SELECT 1/0 FROM fo_o) x
SELECT count(*) FROM (SELECT 1 FROM fo_o WHERE 1/0 = 1) x
WITH w AS (SELECT 1/0 AS x) SELECT 1
SELECT CASE WHEN false THEN (SELECT max(id) FROM fo_o WHERE 1/0 = 1) END
SELECT CASE WHEN true THEN 1 ELSE (SELECT 1/0) END
SELECT id FROM fo_o WHERE id < 0 AND (SELECT max(n) FROM fo_p WHERE 1/0 = 1) > 1
SELECT id FROM fo_o WHERE id IN (SELECT 1/0 FROM fo_p WHERE false)
SELECT count(*) FROM fo_o o JOIN fo_p p ON p.id = o.id OR 1/0 = 1
SELECT 'x'::int = 1 OR true
SELECT 2147483647 + 1 = 1 OR true
SELECT sqrt(-1) > 0 OR true
SELECT 0 * (1/0)
SELECT 1 UNION ALL SELECT 1/0 FROM fo_o WHERE false""".splitlines()


def queries():
    """(name, text, whether a materialized view is made of it)."""
    for place, text in PLACES.items():
        for number, test in enumerate(TESTS):
            yield f"{place}-{number}", text.format(test=test), place in IN_VIEWS
    lines = []
    for line in OTHERS:
        is_new = line.split()[0] in ("SELECT", "WITH", "TABLE") and not line.startswith("'")
        lines.append(line) if is_new else lines.__setitem__(-1, lines[-1] + "\n" + line)
    for number, text in enumerate(lines):
        yield f"other-{number}", text, "fo_" in text
    for number, text in enumerate(CONSTANTS):
        yield f"constant-{number}", text, False


def answer(connection, text):
    """The rows of a query in order of their text, or `!` and an SQLSTATE."""
    try:
        rows = connection.execute(text).fetchall()
    except psycopg.Error as error:
        return f"!{error.sqlstate}"
    return "; ".join(sorted(", ".join("NULL" if value is None else str(value) for value in row) for row in rows))
