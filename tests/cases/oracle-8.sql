-- (error): ORDER BY two columns over UNION ALL whose branches hold one column twice.
CREATE TABLE a(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE TABLE b(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
INSERT INTO a VALUES (1, 5, -2, 1.5, '\x6162'), (2, 6, 7, NULL, NULL); -- c
INSERT INTO b VALUES (1, 7, 0, 2.5, '\x6162'), (3, 8, 0, 3.5, ''); -- c
SELECT c0, c1 FROM (SELECT k AS c0, k AS c1 FROM a UNION ALL SELECT n AS c0, n AS c1 FROM b) q ORDER BY c1, c0;
--> 0|0
--> 0|0
--> 5|5
--> 6|6
