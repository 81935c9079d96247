-- (error): octet_length takes BYTEA.
CREATE TABLE a(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE TABLE b(id BIGINT, k INT, n INT, x DOUBLE PRECISION, b BYTEA);
CREATE MATERIALIZED VIEW v AS SELECT octet_length(b) AS o FROM a;
INSERT INTO a VALUES (1, 5, -2, 1.5, '\x6162'), (2, 6, 7, NULL, NULL); -- c
INSERT INTO b VALUES (1, 7, 0, 2.5, '\x6162'), (3, 8, 0, 3.5, ''); -- c
SELECT * FROM v;
--> 2
--> NULL
