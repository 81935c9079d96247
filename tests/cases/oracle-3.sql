-- (wrong result): IN (subquery) under IS NULL, IS FALSE or OR has three values: NULL where no row is equal and one is NULL.
CREATE TABLE o(k INT, n INT);
CREATE TABLE s(k INT);
CREATE MATERIALIZED VIEW v AS SELECT k FROM o WHERE (k IN (SELECT k FROM s)) IS NULL;
INSERT INTO o VALUES (1, 1), (3, 1), (NULL, 1); -- c
INSERT INTO s VALUES (2), (NULL); -- c
SELECT * FROM v;
--> 1
--> 3
--> NULL
SELECT count(*) FROM o WHERE (k IN (SELECT k FROM s)) IS NOT NULL;
--> 0
SELECT count(*) FROM o WHERE k NOT IN (SELECT k FROM s) OR n = 2;
--> 0
