-- (wrong result): the column of a RIGHT, FULL or INNER JOIN USING is whichever side is there, not the left one's.
CREATE TABLE a(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE TABLE b(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE MATERIALIZED VIEW v AS SELECT id, count(*) AS n FROM a RIGHT JOIN b USING (id) GROUP BY id;
INSERT INTO a VALUES (1, 5, -2, 1.5, '\x6162'), (2, 6, 7, NULL, NULL); -- c
INSERT INTO b VALUES (1, 7, 0, 2.5, '\x6162'), (3, 8, 0, 3.5, ''); -- c
SELECT * FROM v;
--> 1|1
--> 3|1
SELECT id + 1 AS z FROM a FULL JOIN b USING (id);
--> 2
--> 3
--> 4
SELECT id FROM a INNER JOIN b USING (id) WHERE id > 0;
--> 1
SELECT count(id) FROM a FULL JOIN b USING (id);
--> 3
SELECT id FROM a FULL JOIN b USING (id, k) WHERE id IS NOT NULL;
--> 1
--> 1
--> 2
--> 3
