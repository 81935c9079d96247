-- (wrong result): DISTINCT was dropped over a join of a grouped subquery, whose key the join repeats.
CREATE TABLE a(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE TABLE b(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE MATERIALIZED VIEW v AS SELECT DISTINCT q.k AS z FROM (SELECT k FROM a GROUP BY k) q CROSS JOIN b;
INSERT INTO a VALUES (1, 5, -2, 1.5, '\x6162'), (2, 6, 7, NULL, NULL); -- c
INSERT INTO b VALUES (1, 7, 0, 2.5, '\x6162'), (3, 8, 0, 3.5, ''); -- c
SELECT * FROM v;
--> 5
--> 6
SELECT DISTINCT q.k AS z FROM (SELECT k FROM a GROUP BY k) q JOIN b ON b.id > 0;
--> 5
--> 6
