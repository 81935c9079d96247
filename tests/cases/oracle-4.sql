-- (wrong result): in a filter over a RIGHT or FULL JOIN a column of the left side is not the right side's of the same name.
CREATE TABLE a(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE TABLE b(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE MATERIALIZED VIEW v AS SELECT b.k AS z FROM a RIGHT JOIN b ON a.id = b.id WHERE coalesce(a.k, 7) = 7 AND b.k > 0;
INSERT INTO a VALUES (1, 5, -2, 1.5, '\x6162'), (2, 6, 7, NULL, NULL); -- c
INSERT INTO b VALUES (1, 7, 0, 2.5, '\x6162'), (3, 8, 0, 3.5, ''); -- c
SELECT * FROM v;
--> 8
SELECT b.k AS z FROM a RIGHT JOIN b ON a.id = b.id WHERE coalesce(a.k, 7) = 7 AND b.k > 0;
--> 8
SELECT b.x AS z FROM a RIGHT JOIN b ON a.id = b.id WHERE a.x < 2 AND b.x > 0;
--> 2.5
