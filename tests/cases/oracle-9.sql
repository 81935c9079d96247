-- (error): ROW_NUMBER ordered by BYTEA.
CREATE TABLE a(id INT PRIMARY KEY, b BYTEA);
CREATE MATERIALIZED VIEW v AS SELECT id, row_number() OVER (ORDER BY b) AS r FROM a;
INSERT INTO a VALUES (1, '\x6162'), (2, ''); -- c
SELECT * FROM v;
--> 1|2
--> 2|1
