-- (error): a subquery that takes a difference of dates, which is INTEGER, from the query around it.
CREATE TABLE t0 (id INTEGER PRIMARY KEY, c1 INTEGER, c2 BIGINT, c3 DATE, c6 INTEGER NOT NULL);
CREATE TABLE t1 (id INTEGER PRIMARY KEY, c1 INTEGER NOT NULL, c2 NUMERIC(5,0), c3 DOUBLE PRECISION NOT NULL);
CREATE MATERIALIZED VIEW v3 AS SELECT (SELECT count(*) FROM (SELECT (r10.c1 + r10.id) AS c2 FROM t0 AS r10) AS r54 WHERE r53.c0 = r54.c2) AS c1 FROM t1 AS r52 LEFT JOIN (SELECT (r49.c3 - r50.c3) AS c0, (r49.id / nullif(c1, 0)) AS c1 FROM t0 AS r49 FULL JOIN t0 AS r50 USING (c1, c6) GROUP BY (r49.c3 - r50.c3), (r49.id / nullif(c1, 0))) AS r53 USING (c1);
INSERT INTO t1 (id, c1, c2, c3) VALUES (12, 2, 9, -17.75);
INSERT INTO t0 (id, c1, c2, c3, c6) VALUES (38, 1, -9007199254740993, DATE '9999-12-31', 1); -- c
SELECT * FROM v3;
--> 0
