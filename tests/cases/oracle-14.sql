-- A subquery of EXISTS that can fail, without outer columns, behind a condition: its planning never ended.
CREATE TABLE or14_a (n INTEGER, m INTEGER);
CREATE TABLE or14_b (id INTEGER NOT NULL);
INSERT INTO or14_a VALUES (1, 1), (2, 1), (1, 2), (NULL, 1); -- c
CREATE MATERIALIZED VIEW or14_v AS SELECT q.c AS c FROM (SELECT (n >= m) AS b, count(*) AS c FROM or14_a GROUP BY (n >= m)) AS q WHERE q.b AND (EXISTS (SELECT 1 FROM (SELECT (id + 3) AS k FROM or14_b) AS r WHERE r.k >= 3));
SELECT * FROM or14_v;
-- no rows
INSERT INTO or14_b VALUES (0); -- c
SELECT * FROM or14_v;
--> 2
SELECT q.c AS c FROM (SELECT (n >= m) AS b, count(*) AS c FROM or14_a GROUP BY (n >= m)) AS q WHERE q.b AND (EXISTS (SELECT 1 FROM (SELECT (id + 3) AS k FROM or14_b) AS r WHERE r.k >= 3));
--> 2
UPDATE or14_b SET id = -1; -- c
SELECT * FROM or14_v;
-- no rows
