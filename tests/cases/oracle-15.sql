-- A window over rows of which a condition, put in order, says that a column has one value: it took them for unsorted.
CREATE TABLE or15_t (id INTEGER PRIMARY KEY, c1 INTEGER, c2 SMALLINT, c3 STRUCT<p INTEGER, q TEXT>);
INSERT INTO or15_t VALUES (1, 1, 2, ROW(1, 'a')), (2, 1, 3, ROW(2, 'a')), (3, 1, 2, NULL); -- c
SELECT r40.c2 AS c0, r40.c4 AS c1 FROM (SELECT r30.c2 AS c2, (SELECT r31.id FROM or15_t AS r31 WHERE (r29.c2 BETWEEN CAST(2 AS SMALLINT) AND CAST(2 AS SMALLINT)) ORDER BY r31.id DESC NULLS LAST LIMIT 1) AS c4 FROM or15_t AS r29 RIGHT JOIN or15_t AS r30 ON r29.c1 = r30.c1 WHERE (r30.c3 <> r29.c3)) AS r40 ORDER BY r40.c2;
--> 2|NULL
--> 3|3
