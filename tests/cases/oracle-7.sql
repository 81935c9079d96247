-- (wrong type): ROW_NUMBER is a BIGINT: it can be negated and put together with integers.
CREATE TABLE a(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE TABLE b(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE MATERIALIZED VIEW v AS SELECT - r AS z FROM (SELECT row_number() OVER (ORDER BY id) AS r FROM a) q;
INSERT INTO a VALUES (1, 5, -2, 1.5, '\x6162'), (2, 6, 7, NULL, NULL); -- c
INSERT INTO b VALUES (1, 7, 0, 2.5, '\x6162'), (3, 8, 0, 3.5, ''); -- c
SELECT * FROM v;
--> -1
--> -2
SELECT pg_typeof(r) FROM (SELECT row_number() OVER (ORDER BY id) AS r FROM a UNION ALL SELECT 5) q LIMIT 1;
--> bigint
