-- (error): a subquery takes a column from outside with the cast that an equality needs, and without it elsewhere.
CREATE TABLE t0(id INTEGER PRIMARY KEY, c1 INTEGER);
CREATE TABLE t1(id BIGINT NOT NULL, c2 INTEGER NOT NULL);
CREATE TABLE t2(id BIGINT PRIMARY KEY);
INSERT INTO t0 VALUES (1, 5); -- c
INSERT INTO t1 VALUES (1, 42), (1, 43); -- c
INSERT INTO t2 VALUES (7); -- c
SELECT (SELECT t1.c2 FROM t0 LEFT JOIN t1 ON a.n = t1.id WHERE b.id = t1.id AND b.id < 9 ORDER BY t1.c2 LIMIT 1) AS x
  FROM (SELECT count(c1) AS n FROM t0) AS a INNER JOIN t0 AS b ON a.n = b.id FULL JOIN t2 ON a.n = t2.id ORDER BY x;
--> 42
--> NULL
