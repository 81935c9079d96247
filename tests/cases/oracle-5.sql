-- (error): SUM beside COUNT(DISTINCT) has one type before and after planning.
CREATE TABLE a(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE TABLE b(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE MATERIALIZED VIEW v AS SELECT k, sum(n) AS s, count(DISTINCT n) AS d FROM a GROUP BY k;
INSERT INTO a VALUES (1, 5, -2, 1.5, '\x6162'), (2, 6, 7, NULL, NULL); -- c
INSERT INTO b VALUES (1, 7, 0, 2.5, '\x6162'), (3, 8, 0, 3.5, ''); -- c
SELECT * FROM v;
--> 5|-2|1
--> 6|7|1
SELECT k, sum(n) AS s, count(DISTINCT n) AS d FROM a GROUP BY k;
--> 5|-2|1
--> 6|7|1
SELECT sum(DISTINCT n) AS s, sum(k) AS t FROM a;
--> 5|11
SELECT count(DISTINCT n) AS d FROM a GROUP BY k HAVING sum(n) <= 3;
--> 1
