-- (silent wrong number): GROUP BY drops a column whose input's key was taken for another column.
CREATE TABLE t0 (id INTEGER NOT NULL, c3 TEXT, c4 NUMERIC(10,2));
CREATE MATERIALIZED VIEW v5 AS SELECT CAST(r47.id AS TEXT) AS c4 FROM (SELECT DISTINCT upper(r45.c0) AS c0, r45.c0 AS c1 FROM (SELECT DISTINCT r44.c3 AS c0 FROM t0 AS r40 RIGHT JOIN t0 AS r44 ON r40.c4 = r44.id) AS r45) AS r46 RIGHT JOIN t0 AS r47 ON r46.c0 = r47.c3;
INSERT INTO t0 (id, c3, c4) VALUES (1, 'b', 51.50), (4, 'a', 49.50); -- c
SELECT * FROM v5;
--> 1
--> 4
UPDATE t0 SET c3 = 'A' WHERE id <= 1; -- c
SELECT * FROM v5;
--> 1
--> 1
--> 4
SELECT u, count(*) FROM (SELECT upper(c3) AS u, c3, count(*) FROM t0 GROUP BY c3) a GROUP BY u, c3;
--> A|1
--> A|1
SELECT u, count(*) FROM (SELECT upper(c3) AS u, c3, count(*) FROM t0 GROUP BY c3) a GROUP BY u;
--> A|2
