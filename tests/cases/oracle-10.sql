-- (wrong result): a condition on the value of NOT IN is no condition on the subquery's rows, of which one is NULL.
CREATE TABLE a(id BIGINT PRIMARY KEY, k BIGINT);
CREATE TABLE b(k BIGINT);
CREATE MATERIALIZED VIEW v AS SELECT k FROM a WHERE k <> -1 AND k NOT IN (SELECT k FROM b);
INSERT INTO a VALUES (1, 1), (2, 2); -- c
INSERT INTO b VALUES (2); -- c
SELECT * FROM v;
--> 1
INSERT INTO b VALUES (NULL); -- c
SELECT count(*) FROM v;
--> 0
SELECT count(*) FROM a WHERE k <> -1 AND k NOT IN (SELECT k FROM b);
--> 0
