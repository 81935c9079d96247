"""Subqueries in every place, in views and ad hoc, before and after changes. The rows are PostgreSQL 15's.

A line of `CASES` is a query and, for each stage of the data, its rows in order of their text.
"""
import psycopg
import pytest

SETUP = """CREATE TABLE sq_o (id INT, tag INT, name TEXT);
CREATE TABLE sq_p (id INT, tag INT, n BIGINT);
CREATE TABLE sq_q (id INT, tag INT);
CREATE TABLE sq_k (id INT PRIMARY KEY, name TEXT, up INT);"""

# What is loaded before the views are made, and the changes after it.
STAGES = [
    """INSERT INTO sq_o VALUES (1, NULL, 'a'), (2, 9, 'b'), (NULL, 5, 'c'), (3, 3, NULL), (3, 3, NULL), (4, 7, 'd'), (NULL, NULL, 'e');
INSERT INTO sq_p VALUES (1, 5, 10), (1, 5, 10), (3, 3, 7), (3, NULL, NULL), (NULL, 9, 4), (5, 7, 1);
INSERT INTO sq_q VALUES (1, 5), (3, 3), (3, NULL), (4, 9);
INSERT INTO sq_k VALUES (1, 'one', NULL), (2, 'two', 1), (3, 'three', 1), (9, 'nine', 3);""",
    """DELETE FROM sq_p WHERE id = 1;
INSERT INTO sq_p VALUES (2, 9, 3), (4, NULL, 8), (4, 7, 2);
UPDATE sq_p SET n = 6 WHERE n IS NULL;
DELETE FROM sq_q WHERE tag IS NULL;
UPDATE sq_o SET tag = 5 WHERE id = 1;
INSERT INTO sq_o VALUES (5, NULL, 'f'), (2, 9, 'b');
UPDATE sq_k SET up = 2 WHERE id = 3;
DELETE FROM sq_k WHERE id = 9;""",
    """DELETE FROM sq_p;
DELETE FROM sq_q WHERE id < 4;""",
]

CASES = [
    ('SELECT id, tag FROM sq_o o WHERE EXISTS (SELECT 1 FROM sq_p p LEFT JOIN sq_q q ON p.id = q.id AND q.tag = o.tag WHERE p.id = o.id)',
     '1, NULL; 3, 3; 3, 3',
     '2, 9; 2, 9; 3, 3; 3, 3; 4, 7; 5, NULL',
     ''),
    ('SELECT id, tag FROM sq_o o WHERE NOT EXISTS (SELECT 1 FROM sq_p p WHERE p.id = o.id AND p.tag <> o.tag)',
     '1, NULL; 2, 9; 3, 3; 3, 3; 4, 7; NULL, 5; NULL, NULL',
     '1, 5; 2, 9; 2, 9; 3, 3; 3, 3; 4, 7; 5, NULL; NULL, 5; NULL, NULL',
     '1, 5; 2, 9; 2, 9; 3, 3; 3, 3; 4, 7; 5, NULL; NULL, 5; NULL, NULL'),
    ('SELECT id, tag FROM sq_o o WHERE EXISTS (SELECT 1 FROM sq_p p LEFT JOIN sq_q q ON p.id = q.id AND q.tag = o.tag WHERE q.id IS NULL)',
     '1, NULL; 2, 9; 3, 3; 3, 3; 4, 7; NULL, 5; NULL, NULL',
     '1, 5; 2, 9; 2, 9; 3, 3; 3, 3; 4, 7; 5, NULL; NULL, 5; NULL, NULL',
     ''),
    ('SELECT id FROM sq_o o WHERE EXISTS (SELECT 1 FROM sq_p p FULL JOIN sq_q q ON p.id = q.id AND p.tag = o.tag WHERE p.id IS NULL AND q.id = o.id)',
     '1; 4',
     '1',
     '4'),
    ('SELECT id FROM sq_o o WHERE EXISTS (SELECT id FROM sq_p p WHERE p.id = o.id UNION ALL SELECT id FROM sq_q q WHERE q.tag = o.tag)',
     '1; 2; 3; 3; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL',
     '2; 2'),
    ('SELECT id FROM sq_o o WHERE NOT EXISTS (SELECT 1 FROM sq_p p WHERE p.tag < o.tag GROUP BY p.id HAVING count(*) > 1 OR sum(p.n) > o.tag)',
     '1; 3; 3; NULL',
     '2; 2; 3; 3; 4; 5; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL'),
    ('SELECT id FROM sq_o o WHERE EXISTS (SELECT count(*) FROM sq_p p WHERE p.id = o.id)',
     '1; 2; 3; 3; 4; NULL; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL'),
    ('SELECT id FROM sq_o o WHERE EXISTS (SELECT count(*) FROM sq_p p WHERE p.id = o.id HAVING count(*) = 0)',
     '2; 4; NULL; NULL',
     '1; NULL; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL'),
    ('SELECT id FROM sq_o o WHERE EXISTS (SELECT DISTINCT p.tag FROM sq_p p WHERE p.id = o.id LIMIT 1)',
     '1; 3; 3',
     '2; 2; 3; 3; 4; 5',
     ''),
    ('SELECT id FROM sq_o o WHERE EXISTS (SELECT p.tag FROM sq_p p WHERE p.id = o.id ORDER BY p.tag OFFSET 1)',
     '1; 3; 3',
     '3; 3; 4',
     ''),
    ('SELECT id FROM sq_o o WHERE EXISTS (SELECT 1 FROM sq_p p WHERE p.id = o.id AND EXISTS (SELECT 1 FROM sq_q q WHERE q.tag = o.tag AND q.id = p.id))',
     '3; 3',
     '3; 3',
     ''),
    ('SELECT id FROM sq_o o WHERE EXISTS (SELECT 1 FROM sq_p p WHERE NOT EXISTS (SELECT 1 FROM sq_q q WHERE q.id = o.id AND EXISTS (SELECT 1 FROM sq_k k WHERE k.id = p.id AND k.name <> o.name)))',
     '1; 2; 3; 3; 4; NULL; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL',
     ''),
    ('SELECT id FROM sq_o WHERE EXISTS (SELECT 1 FROM sq_p WHERE sq_p.id = sq_o.id AND EXISTS (SELECT 1 FROM sq_o WHERE sq_o.id = sq_p.id AND sq_o.tag IS NULL))',
     '1',
     '5',
     ''),
    ('SELECT id, EXISTS (SELECT 1 FROM sq_p p WHERE p.id = o.id) AS there, NOT EXISTS (SELECT 1 FROM sq_p p WHERE p.tag > o.tag) AS none FROM sq_o o',
     '1, True, True; 2, False, True; 3, True, False; 3, True, False; 4, False, False; NULL, False, False; NULL, False, True',
     '1, False, False; 2, True, True; 2, True, True; 3, True, False; 3, True, False; 4, True, False; 5, True, True; NULL, False, False; NULL, False, True',
     '1, False, True; 2, False, True; 2, False, True; 3, False, True; 3, False, True; 4, False, True; 5, False, True; NULL, False, True; NULL, False, True'),
    ('SELECT id FROM sq_o o WHERE tag = 9 OR EXISTS (SELECT 1 FROM sq_p p WHERE p.id = o.id)',
     '1; 2; 3; 3',
     '2; 2; 3; 3; 4; 5',
     '2; 2'),
    ("SELECT id FROM sq_o o WHERE name = 'a' OR NOT EXISTS (SELECT 1 FROM sq_p p WHERE p.id = o.id AND p.n > o.tag)",
     '1; 2; 4; NULL; NULL',
     '1; 2; 2; 5; NULL; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL'),
    ('SELECT id FROM sq_o o WHERE EXISTS (SELECT 1 FROM sq_p) AND NOT EXISTS (SELECT 1 FROM sq_q WHERE id = 1)',
     '',
     '',
     ''),
    ('SELECT id FROM sq_o WHERE id IN (SELECT id FROM sq_p)',
     '1; 3; 3',
     '2; 2; 3; 3; 4; 5',
     ''),
    ('SELECT id FROM sq_o WHERE id NOT IN (SELECT id FROM sq_p)',
     '',
     '',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL'),
    ('SELECT id FROM sq_o WHERE id NOT IN (SELECT id FROM sq_q)',
     '2',
     '2; 2; 5',
     '1; 2; 2; 3; 3; 5'),
    ('SELECT id FROM sq_o WHERE id NOT IN (SELECT id FROM sq_p WHERE id IS NOT NULL)',
     '2; 4',
     '1',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL'),
    ('SELECT id FROM sq_o WHERE id NOT IN (SELECT id FROM sq_p WHERE n > 100)',
     '1; 2; 3; 3; 4; NULL; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL'),
    ('SELECT id, tag FROM sq_o o WHERE tag IN (SELECT p.tag FROM sq_p p WHERE p.id = o.id)',
     '3, 3; 3, 3',
     '2, 9; 2, 9; 3, 3; 3, 3; 4, 7',
     ''),
    ('SELECT id, tag FROM sq_o o WHERE tag NOT IN (SELECT p.tag FROM sq_p p WHERE p.id = o.id)',
     '2, 9; 4, 7; NULL, 5; NULL, NULL',
     '1, 5; NULL, 5; NULL, NULL',
     '1, 5; 2, 9; 2, 9; 3, 3; 3, 3; 4, 7; 5, NULL; NULL, 5; NULL, NULL'),
    ('SELECT id, tag FROM sq_o o WHERE tag NOT IN (SELECT q.tag FROM sq_q q WHERE q.id < o.id)',
     '1, NULL; 2, 9; 3, 3; 3, 3; NULL, 5; NULL, NULL',
     '1, 5; 2, 9; 2, 9; 3, 3; 3, 3; 4, 7; NULL, 5; NULL, NULL',
     '1, 5; 2, 9; 2, 9; 3, 3; 3, 3; 4, 7; NULL, 5; NULL, NULL'),
    ('SELECT id, tag, tag IN (SELECT p.tag FROM sq_p p WHERE p.id = o.id) AS x, id NOT IN (SELECT id FROM sq_p) AS y FROM sq_o o',
     '1, NULL, NULL, False; 2, 9, False, NULL; 3, 3, True, False; 3, 3, True, False; 4, 7, False, NULL; NULL, 5, False, NULL; NULL, NULL, False, NULL',
     '1, 5, False, NULL; 2, 9, True, False; 2, 9, True, False; 3, 3, True, False; 3, 3, True, False; 4, 7, True, False; 5, NULL, NULL, False; NULL, 5, False, NULL; NULL, NULL, False, NULL',
     '1, 5, False, True; 2, 9, False, True; 2, 9, False, True; 3, 3, False, True; 3, 3, False, True; 4, 7, False, True; 5, NULL, False, True; NULL, 5, False, True; NULL, NULL, False, True'),
    ('SELECT id FROM sq_o o WHERE (tag IN (SELECT p.tag FROM sq_p p WHERE p.id = o.id)) IS NULL',
     '1',
     '5',
     ''),
    ("SELECT id FROM sq_o o WHERE name = 'c' OR tag IN (SELECT tag FROM sq_q)",
     '2; 3; 3; NULL',
     '1; 2; 2; 3; 3; NULL',
     '2; 2; NULL'),
    ("SELECT id FROM sq_o o WHERE name = 'c' OR tag NOT IN (SELECT tag FROM sq_q WHERE id = o.id)",
     '2; 4; NULL; NULL',
     '2; 2; 4; 5; NULL; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL'),
    ("SELECT id, CASE WHEN id IN (SELECT id FROM sq_q) THEN 'q' WHEN NOT (tag IN (SELECT tag FROM sq_p)) THEN 'not p' ELSE '?' END AS c FROM sq_o",
     '1, q; 2, ?; 3, q; 3, q; 4, q; NULL, ?; NULL, ?',
     '1, q; 2, ?; 2, ?; 3, q; 3, q; 4, q; 5, ?; NULL, ?; NULL, ?',
     '1, not p; 2, not p; 2, not p; 3, not p; 3, not p; 4, q; 5, not p; NULL, not p; NULL, not p'),
    ('SELECT o.id, p.n FROM sq_o o JOIN sq_p p ON o.id = p.id AND EXISTS (SELECT 1 FROM sq_q q WHERE q.id = o.id AND q.tag = p.tag)',
     '1, 10; 1, 10; 3, 7; 3, 7',
     '3, 7; 3, 7',
     ''),
    ('SELECT o.id, p.n FROM sq_o o LEFT JOIN sq_p p ON o.id = p.id AND p.tag IN (SELECT q.tag FROM sq_q q WHERE q.id = p.id)',
     '1, 10; 1, 10; 2, NULL; 3, 7; 3, 7; 4, NULL; NULL, NULL; NULL, NULL',
     '1, NULL; 2, NULL; 2, NULL; 3, 7; 3, 7; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL',
     '1, NULL; 2, NULL; 2, NULL; 3, NULL; 3, NULL; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL'),
    ('SELECT o.id, q.tag FROM sq_o o LEFT JOIN sq_q q ON o.id = q.id AND EXISTS (SELECT 1 FROM sq_p p WHERE p.tag = q.tag AND p.id = o.id)',
     '1, 5; 2, NULL; 3, 3; 3, 3; 4, NULL; NULL, NULL; NULL, NULL',
     '1, NULL; 2, NULL; 2, NULL; 3, 3; 3, 3; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL',
     '1, NULL; 2, NULL; 2, NULL; 3, NULL; 3, NULL; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL'),
    ('SELECT o.id, o.tag, q.id AS q FROM sq_o o RIGHT JOIN sq_q q ON o.tag <= q.tag AND o.id NOT IN (SELECT p.id FROM sq_p p WHERE p.tag = q.tag)',
     '3, 3, 1; 3, 3, 1; NULL, NULL, 3; NULL, NULL, 3; NULL, NULL, 4',
     '1, 5, 1; 3, 3, 1; 3, 3, 1; NULL, 5, 1; NULL, NULL, 3; NULL, NULL, 4',
     '1, 5, 4; 2, 9, 4; 2, 9, 4; 3, 3, 4; 3, 3, 4; 4, 7, 4; NULL, 5, 4'),
    ('SELECT id, count(*) AS n FROM sq_o GROUP BY id HAVING count(*) > (SELECT count(*) FROM sq_p p WHERE p.id = sq_o.id)',
     '2, 1; 4, 1; NULL, 2',
     '1, 1; 2, 2; NULL, 2',
     '1, 1; 2, 2; 3, 2; 4, 1; 5, 1; NULL, 2'),
    ('SELECT id, count(*) AS n FROM sq_o o GROUP BY id HAVING id IN (SELECT id FROM sq_p) OR EXISTS (SELECT 1 FROM sq_q q WHERE q.id = o.id)',
     '1, 1; 3, 2; 4, 1',
     '1, 1; 2, 2; 3, 2; 4, 1; 5, 1',
     '4, 1'),
    ('SELECT id, (SELECT count(*) FROM sq_p p WHERE p.id = o.id) AS n, (SELECT sum(p.n) FROM sq_p p WHERE p.id = o.id) AS s FROM sq_o o',
     '1, 2, 20; 2, 0, NULL; 3, 2, 7; 3, 2, 7; 4, 0, NULL; NULL, 0, NULL; NULL, 0, NULL',
     '1, 0, NULL; 2, 1, 3; 2, 1, 3; 3, 2, 13; 3, 2, 13; 4, 2, 10; 5, 1, 1; NULL, 0, NULL; NULL, 0, NULL',
     '1, 0, NULL; 2, 0, NULL; 2, 0, NULL; 3, 0, NULL; 3, 0, NULL; 4, 0, NULL; 5, 0, NULL; NULL, 0, NULL; NULL, 0, NULL'),
    ('SELECT id, (SELECT count(*) + 1 FROM sq_p p WHERE p.tag < o.tag) AS n, (SELECT max(p.n) FROM sq_p p WHERE p.tag <= o.tag AND p.id <> o.id) AS m FROM sq_o o',
     '1, 1, NULL; 2, 5, 10; 3, 1, NULL; 3, 1, NULL; 4, 4, 10; NULL, 1, NULL; NULL, 2, NULL',
     '1, 2, 7; 2, 4, 7; 2, 4, 7; 3, 1, NULL; 3, 1, NULL; 4, 2, 7; 5, 1, NULL; NULL, 1, NULL; NULL, 2, NULL',
     '1, 1, NULL; 2, 1, NULL; 2, 1, NULL; 3, 1, NULL; 3, 1, NULL; 4, 1, NULL; 5, 1, NULL; NULL, 1, NULL; NULL, 1, NULL'),
    ('SELECT id, (SELECT count(*) FROM sq_p p LEFT JOIN sq_q q ON q.id = p.id AND q.tag = o.tag WHERE q.id IS NULL) AS n FROM sq_o o',
     '1, 6; 2, 6; 3, 4; 3, 4; 4, 6; NULL, 4; NULL, 6',
     '1, 7; 2, 5; 2, 5; 3, 5; 3, 5; 4, 7; 5, 7; NULL, 7; NULL, 7',
     '1, 0; 2, 0; 2, 0; 3, 0; 3, 0; 4, 0; 5, 0; NULL, 0; NULL, 0'),
    ('SELECT id, (SELECT p.n FROM sq_p p WHERE p.id = o.id ORDER BY p.n DESC NULLS LAST LIMIT 1) AS first FROM sq_o o',
     '1, 10; 2, NULL; 3, 7; 3, 7; 4, NULL; NULL, NULL; NULL, NULL',
     '1, NULL; 2, 3; 2, 3; 3, 7; 3, 7; 4, 8; 5, 1; NULL, NULL; NULL, NULL',
     '1, NULL; 2, NULL; 2, NULL; 3, NULL; 3, NULL; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL'),
    ('SELECT id, (SELECT p.n FROM sq_p p WHERE p.tag <= o.tag ORDER BY p.n, p.id LIMIT 1 OFFSET 1) AS second FROM sq_o o',
     '1, NULL; 2, 4; 3, NULL; 3, NULL; 4, 7; NULL, 10; NULL, NULL',
     '1, NULL; 2, 2; 2, 2; 3, NULL; 3, NULL; 4, 2; 5, NULL; NULL, NULL; NULL, NULL',
     '1, NULL; 2, NULL; 2, NULL; 3, NULL; 3, NULL; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL'),
    ('SELECT id, (SELECT k.name FROM sq_k k WHERE k.id = o.id) AS name FROM sq_o o',
     '1, one; 2, two; 3, three; 3, three; 4, NULL; NULL, NULL; NULL, NULL',
     '1, one; 2, two; 2, two; 3, three; 3, three; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL',
     '1, one; 2, two; 2, two; 3, three; 3, three; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL'),
    ('SELECT id, (SELECT k.name FROM sq_k k WHERE k.id = o.tag AND k.up IS NOT NULL) AS name FROM sq_o o',
     '1, NULL; 2, nine; 3, three; 3, three; 4, NULL; NULL, NULL; NULL, NULL',
     '1, NULL; 2, NULL; 2, NULL; 3, three; 3, three; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL',
     '1, NULL; 2, NULL; 2, NULL; 3, three; 3, three; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL'),
    ('SELECT id, (SELECT (SELECT u.name FROM sq_k u WHERE u.id = k.up) FROM sq_k k WHERE k.id = o.id) AS up FROM sq_o o',
     '1, NULL; 2, one; 3, one; 3, one; 4, NULL; NULL, NULL; NULL, NULL',
     '1, NULL; 2, one; 2, one; 3, two; 3, two; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL',
     '1, NULL; 2, one; 2, one; 3, two; 3, two; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL'),
    ('SELECT id, (SELECT o.tag + 1) AS t, (SELECT max(x) FROM (SELECT p.n AS x FROM sq_p p WHERE p.id = o.id UNION ALL SELECT o.tag) u) AS m FROM sq_o o',
     '1, NULL, 10; 2, 10, 9; 3, 4, 7; 3, 4, 7; 4, 8, 7; NULL, 6, 5; NULL, NULL, NULL',
     '1, 6, 5; 2, 10, 9; 2, 10, 9; 3, 4, 7; 3, 4, 7; 4, 8, 8; 5, NULL, 1; NULL, 6, 5; NULL, NULL, NULL',
     '1, 6, 5; 2, 10, 9; 2, 10, 9; 3, 4, 3; 3, 4, 3; 4, 8, 7; 5, NULL, NULL; NULL, 6, 5; NULL, NULL, NULL'),
    ('SELECT id FROM sq_o o WHERE tag > (SELECT avg(p.tag) FROM sq_p p WHERE p.id = o.id) OR (SELECT count(*) FROM sq_q q WHERE q.id = o.id) = 2',
     '3; 3',
     '',
     ''),
    ('SELECT id, (SELECT count(*) FROM sq_p) AS n, (SELECT min(name) FROM sq_k) AS m FROM sq_o WHERE tag > (SELECT min(tag) FROM sq_q)',
     '2, 6, nine; 4, 6, nine; NULL, 6, nine',
     '1, 7, one; 2, 7, one; 2, 7, one; 4, 7, one; NULL, 7, one',
     ''),
    ('SELECT sum((SELECT count(*) FROM sq_p p WHERE p.id = o.id)) AS n, count(*) FILTER (WHERE EXISTS (SELECT 1 FROM sq_q q WHERE q.id = o.id)) AS m FROM sq_o o',
     '6, 4',
     '9, 4',
     '0, 1'),
    ('SELECT EXISTS (SELECT 1 FROM sq_p p WHERE p.id = o.id) AS there, count(*) AS n FROM sq_o o GROUP BY EXISTS (SELECT 1 FROM sq_p p WHERE p.id = o.id)',
     'False, 4; True, 3',
     'False, 3; True, 6',
     'False, 9'),
    ('SELECT id FROM sq_o WHERE tag = ANY (SELECT tag FROM sq_p)',
     '2; 3; 3; 4; NULL',
     '2; 2; 3; 3; 4',
     ''),
    ('SELECT id FROM sq_o o WHERE tag <> ALL (SELECT q.tag FROM sq_q q WHERE q.id = o.id)',
     '2; 4; NULL; NULL',
     '2; 2; 4; 5; NULL; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL'),
    ('SELECT id FROM sq_o o WHERE tag >= ALL (SELECT p.tag FROM sq_p p WHERE p.id = o.id)',
     '2; 4; NULL; NULL',
     '1; 2; 2; NULL; NULL',
     '1; 2; 2; 3; 3; 4; 5; NULL; NULL'),
    ('SELECT id, tag < ANY (SELECT p.tag FROM sq_p p WHERE p.id = o.id) AS a, tag > ALL (SELECT q.tag FROM sq_q q) AS b FROM sq_o o',
     '1, NULL, NULL; 2, False, False; 3, NULL, False; 3, NULL, False; 4, False, False; NULL, False, False; NULL, False, NULL',
     '1, False, False; 2, False, False; 2, False, False; 3, NULL, False; 3, NULL, False; 4, NULL, False; 5, NULL, NULL; NULL, False, False; NULL, False, NULL',
     '1, False, False; 2, False, False; 2, False, False; 3, False, False; 3, False, False; 4, False, False; 5, False, NULL; NULL, False, False; NULL, False, NULL'),
    ('SELECT o.id, l.n FROM sq_o o, LATERAL (SELECT count(*) AS n FROM sq_p p WHERE p.id = o.id) l',
     '1, 2; 2, 0; 3, 2; 3, 2; 4, 0; NULL, 0; NULL, 0',
     '1, 0; 2, 1; 2, 1; 3, 2; 3, 2; 4, 2; 5, 1; NULL, 0; NULL, 0',
     '1, 0; 2, 0; 2, 0; 3, 0; 3, 0; 4, 0; 5, 0; NULL, 0; NULL, 0'),
    ('SELECT o.id, l.n FROM sq_o o LEFT JOIN LATERAL (SELECT p.n FROM sq_p p WHERE p.tag <= o.tag ORDER BY p.n, p.id LIMIT 2) l ON true',
     '1, NULL; 2, 1; 2, 4; 3, 7; 3, 7; 4, 1; 4, 7; NULL, 10; NULL, 7; NULL, NULL',
     '1, 7; 2, 1; 2, 1; 2, 2; 2, 2; 3, 7; 3, 7; 4, 1; 4, 2; 5, NULL; NULL, 7; NULL, NULL',
     '1, NULL; 2, NULL; 2, NULL; 3, NULL; 3, NULL; 4, NULL; 5, NULL; NULL, NULL; NULL, NULL'),
    ('SELECT o.id, r.x FROM sq_o o JOIN (SELECT p.id, (SELECT count(*) FROM sq_q q WHERE q.id = p.id) AS x FROM sq_p p) r ON r.id = o.id WHERE EXISTS (SELECT 1 FROM sq_k k WHERE k.id = r.x)',
     '1, 1; 1, 1; 3, 2; 3, 2; 3, 2; 3, 2',
     '3, 1; 3, 1; 3, 1; 3, 1; 4, 1; 4, 1',
     ''),
    ('SELECT id, (SELECT x FROM (SELECT p.n AS x, row_number() OVER (ORDER BY p.n, p.id) AS r FROM sq_p p WHERE p.tag >= o.tag) w WHERE r = 1) AS x FROM sq_o o WHERE id IS NOT NULL',
     '1, NULL; 2, 4; 3, 1; 3, 1; 4, 1',
     '1, 1; 2, 3; 2, 3; 3, 1; 3, 1; 4, 1; 5, NULL',
     '1, NULL; 2, NULL; 2, NULL; 3, NULL; 3, NULL; 4, NULL; 5, NULL'),
]


def shown(rows):
    """Rows as they stand in `CASES`."""
    cells = [["NULL" if value is None else str(value) for value in row] for row in rows]
    texts = sorted(cells, key=lambda row: [(cell == "NULL", cell) for cell in row])
    return "; ".join(", ".join(row) for row in texts)


def answer(db, sql):
    try:
        return shown(db.execute(sql).fetchall())
    except psycopg.Error as error:
        return f"{error.sqlstate} {error}".splitlines()[0]


@pytest.fixture(scope="module", params=[1, 4], ids=["1 worker", "4 workers"])
def answers(request, tmp_path_factory):
    """For each query: what the view and the ad-hoc query say at each stage."""
    from harness import Server

    found = {query: {"view": [], "ad hoc": []} for query, *_ in CASES}
    with Server(workers=request.param, cwd=tmp_path_factory.mktemp("files")) as server, server.connect() as db:
        db.execute(SETUP)
        refused = {}
        for number, stage in enumerate(STAGES):
            for statement in filter(str.strip, stage.split(";")):
                db.execute(statement)
            for place, query in enumerate(found):
                if number == 0:
                    try:
                        db.execute(f"CREATE MATERIALIZED VIEW sq_{place} AS {query}")
                    except psycopg.Error as error:
                        refused[query] = f"{error.sqlstate} {error}".splitlines()[0]
                view = refused.get(query) or answer(db, f"SELECT * FROM sq_{place}")
                found[query]["view"].append(view)
                found[query]["ad hoc"].append(answer(db, query))
    return found


@pytest.mark.parametrize("way", ["view", "ad hoc"])
@pytest.mark.parametrize("query, stages", [(query, list(stages)) for query, *stages in CASES], ids=range(1, len(CASES) + 1))
def test_rows(answers, query, stages, way):
    assert answers[query][way] == stages, query


def test_a_value_of_two_rows_is_an_error(server, db, name):
    db.execute(f"CREATE TABLE {name}_o (id INT)")
    db.execute(f"CREATE TABLE {name}_p (id INT, n INT)")
    db.execute(f"INSERT INTO {name}_o VALUES (1), (2)")
    db.execute(f"INSERT INTO {name}_p VALUES (1, 5), (3, 7), (3, 7)")
    correlated = f"SELECT id, (SELECT n FROM {name}_p p WHERE p.id = o.id) AS n FROM {name}_o o"
    assert sorted(db.execute(correlated).fetchall()) == [(1, 5), (2, None)]
    for query in (correlated.replace("SELECT id", "SELECT id AS x").replace("= o.id", "= o.id + 2"), f"SELECT (SELECT n FROM {name}_p) AS n"):
        with pytest.raises(psycopg.Error) as raised:
            db.execute(query)
        assert raised.value.sqlstate == "21000", raised.value
        assert "more than one row returned by a subquery used as an expression" in str(raised.value)
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS {correlated}")
    assert sorted(db.execute(f"SELECT * FROM {name}_v").fetchall()) == [(1, 5), (2, None)]
    db.execute(f"CREATE MATERIALIZED VIEW {name}_w AS SELECT (SELECT n FROM {name}_p) AS n")
    assert db.execute(f"SELECT * FROM {name}_w").fetchall() == []
    told = "SELECT sqlstate, reason FROM cenote_catalog.errors WHERE source = %s"
    error = ("21000", "more than one row returned by a subquery used as an expression")
    assert db.execute(told, (f"{name}_w",)).fetchall() == [error]
    db.execute(f"INSERT INTO {name}_p VALUES (2, NULL), (2, NULL)")
    assert db.execute(f"SELECT * FROM {name}_v").fetchall() == [(1, 5)]
    assert db.execute(told, (f"{name}_v",)).fetchall() == [error]
    db.execute(f"DELETE FROM {name}_p WHERE id <> 1")
    assert sorted(db.execute(f"SELECT * FROM {name}_v").fetchall()) == [(1, 5), (2, None)]
    assert db.execute(told, (f"{name}_v",)).fetchall() == []
    assert db.execute(f"SELECT * FROM {name}_w").fetchall() == [(5,)]
    assert db.execute(told, (f"{name}_w",)).fetchall() == []


def dataflow(db, query):
    lines = [line for line, in db.execute(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}").fetchall()]
    return [line.split()[1] for line in lines[lines.index("dataflow:"):] if line.startswith("  #")]


def test_usual_subqueries_are_plain_joins(db, name):
    db.execute(f"CREATE TABLE {name}_o (id INT NOT NULL, n INT)")
    db.execute(f"CREATE TABLE {name}_p (id BIGINT PRIMARY KEY, n INT)")
    rows, other = f"SELECT id FROM {name}_o o", f"FROM {name}_p p WHERE p.id = o.id"
    assert dataflow(db, f"{rows} WHERE EXISTS (SELECT 1 {other} AND p.n > o.n)").count("join") == 1
    assert dataflow(db, f"{rows} WHERE id NOT IN (SELECT id FROM {name}_p)").count("join") == 1
    assert "aggregate" not in dataflow(db, f"SELECT id, (SELECT p.n {other}) AS n FROM {name}_o o")
    counted = dataflow(db, f"SELECT id, (SELECT count(*) FROM {name}_p p WHERE p.n = o.n) AS n FROM {name}_o o")
    assert (counted.count("join"), counted.count("aggregate")) == (1, 1)


def test_a_subquery_whose_rows_change_from_call_to_call_is_refused(db, name):
    db.execute(f"CREATE TABLE {name} (id INT)")
    with pytest.raises(psycopg.Error) as raised:
        db.execute(f"SELECT * FROM (SELECT random() AS r FROM {name}) o WHERE EXISTS (SELECT 1 FROM {name} WHERE id > o.r GROUP BY id HAVING count(*) > o.r)")
    assert raised.value.sqlstate == "0A000"


@pytest.mark.parametrize("query, rows", [
    ("SELECT id FROM {t} t WHERE EXISTS (SELECT v FROM {a} a WHERE a.id = t.id INTERSECT SELECT v FROM {b} b WHERE b.id = t.id)", [(1,)]),
    ("SELECT id FROM {t} t WHERE NOT EXISTS (SELECT v FROM {a} a WHERE a.id = t.id EXCEPT SELECT v FROM {b} b WHERE b.id = t.id)", [(1,), (3,)]),
])
def test_null_is_null_in_correlated_set_operations(db, name, query, rows):
    t, a, b = f"{name}_t", f"{name}_a", f"{name}_b"
    db.execute(f"CREATE TABLE {t} (id INT); CREATE TABLE {a} (id INT, v INT); CREATE TABLE {b} (id INT, v INT)")
    db.execute(f"INSERT INTO {t} VALUES (1), (2), (3)")
    db.execute(f"INSERT INTO {a} VALUES (1, NULL), (2, 5)")
    db.execute(f"INSERT INTO {b} VALUES (1, NULL), (2, 6)")
    assert sorted(db.execute(query.format(t=t, a=a, b=b)).fetchall()) == rows


@pytest.mark.parametrize("query, rows", [
    ("SELECT x.b FROM {x} x WHERE (SELECT sum(y.c) FROM {u} y WHERE y.a >= x.a HAVING count(*) > 0) = x.c", []),
    ("SELECT x.b FROM {x} x WHERE (SELECT max(y.c) FROM {u} y WHERE y.a = x.a HAVING count(*) > 0) = x.c", []),
    ("SELECT x.b FROM {x} x, LATERAL (SELECT y.c AS e FROM {u} y WHERE y.a >= x.a) z WHERE z.e = x.c", []),
    ("SELECT x.b, z.f FROM {x} x LEFT JOIN LATERAL (SELECT x.c AS e, 7 AS f) z ON z.e = x.c", [(5, None), (6, 7)]),
    ("SELECT x.b FROM {x} x WHERE 1 NOT IN (SELECT (SELECT 7 FROM {u} u WHERE u.a = 99) FROM {x} y)", []),
    ("SELECT w.b FROM (SELECT b, (SELECT 7 FROM {u} u WHERE u.a = 99) AS e FROM {x}) w WHERE w.e IS NULL", [(5,), (6,)]),
    ("SELECT w.b FROM (SELECT b, (SELECT 7 FROM {u} u WHERE u.a = 99) AS e FROM {x}) w WHERE w.e NOT IN (SELECT 1)", []),
])
def test_a_null_is_no_value(db, name, query, rows):
    x, u = f"{name}_x", f"{name}_u"
    db.execute(f"CREATE TABLE {x} (a INT, b INT, c INT); CREATE TABLE {u} (a INT, c INT)")
    db.execute(f"INSERT INTO {x} VALUES (1, 5, NULL), (3, 6, 2)")
    db.execute(f"INSERT INTO {u} VALUES (1, NULL)")
    query = query.format(x=x, u=u)
    assert sorted(db.execute(query).fetchall()) == rows
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS {query}")
    assert sorted(db.execute(f"SELECT * FROM {name}_v").fetchall()) == rows


def test_distinct_values_of_no_rows_are_none(db, name):
    db.execute(f"CREATE TABLE {name} (a INT, b INT)")
    db.execute(f"INSERT INTO {name} VALUES (1, 1), (2, NULL)")
    assert db.execute(f"SELECT count(DISTINCT b) FROM {name} WHERE b = 3").fetchall() == [(0,)]
    db.execute(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT count(DISTINCT b) AS n FROM {name} WHERE b = 3")
    assert db.execute(f"VERIFY MATERIALIZED VIEW {name}_v").fetchall() == []
