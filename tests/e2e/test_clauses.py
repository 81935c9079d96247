"""Every clause works as in PostgreSQL or is refused by its name; none is read and forgotten.

The parser knows the clauses of many dialects. A statement here either fails with 0A000 (or 42601, where PostgreSQL has no such
clause) and names the clause, or it gives what PostgreSQL gives: the rows are PostgreSQL's, asked once.
"""
import psycopg
import pytest

SETUP = ("CREATE TABLE {t} (k INT PRIMARY KEY, n INT, w TEXT)", "INSERT INTO {t} VALUES (1, 10, 'a'), (2, 20, 'b'), (3, NULL, 'c'), (4, 20, 'B')")

#: Statement, and a word that the refusal must have.
REFUSED = [
    ("CREATE TABLE {u} (a INT) INHERITS ({t})", "INHERITS"),
    ("CREATE TABLE {u} (a INT) TABLESPACE pg_default", "TABLESPACE"),
    ("CREATE TABLE {u} (a INT) WITH (fillfactor = 70)", "connector"),
    ("CREATE TABLE {u} (a INT) ON COMMIT DROP", "ON COMMIT"),
    ("CREATE TEMP TABLE {u} (a INT)", "TEMPORARY"),
    ("CREATE GLOBAL TEMPORARY TABLE {u} (a INT)", "TEMPORARY"),
    ("CREATE UNLOGGED TABLE {u} (a INT)", "UNLOGGED"),
    ("CREATE TABLE {u} (a INT) PARTITION BY RANGE (a)", "PARTITION"),
    ("CREATE TABLE {u} PARTITION OF {t} FOR VALUES FROM (1) TO (2)", "PARTITION"),
    ("CREATE TABLE {u} (LIKE {t} INCLUDING ALL)", "LIKE"),
    ("CREATE TABLE {u} (a INT) USING heap", "USING"),
    ("CREATE TABLE {u} AS SELECT 1 AS a", "CREATE TABLE AS"),
    ("CREATE TABLE {u} (a INT GENERATED ALWAYS AS IDENTITY, b INT)", "IDENTITY"),
    ("CREATE TABLE {u} (a INT, b INT GENERATED ALWAYS AS (a * 2) STORED)", "GENERATED"),
    ("CREATE TABLE {u} (a SERIAL)", "SERIAL"),
    ("CREATE TABLE {u} (a TEXT COLLATE \"de_DE\")", "COLLATE"),
    ("CREATE TABLE {u} (a INT REFERENCES {t} (k))", "REFERENCES"),
    ("CREATE TABLE {u} (a INT, FOREIGN KEY (a) REFERENCES {t} (k))", "REFERENCES"),
    ("CREATE TABLE {u} (a INT PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)", "DEFERRABLE"),
    ("CREATE TABLE {u} (a INT, UNIQUE (a) DEFERRABLE)", "DEFERRABLE"),
    ("CREATE TABLE {u} (a INT, UNIQUE NULLS NOT DISTINCT (a))", "NULLS NOT DISTINCT"),
    ("CREATE TABLE {u} (a INT, EXCLUDE USING gist (a WITH =))", "EXCLUDE"),
    ("CREATE TABLE {u} (a INT, CHECK (a > 0) NOT VALID)", "NOT"),
    ("CREATE TABLE {u} (a INT CHECK (a > 0) NOT ENFORCED)", "ENFORCED"),
    ("CREATE TABLE {u} (a TEXT STORAGE EXTERNAL)", "STORAGE"),
    ("CREATE TABLE {u} (a TEXT COMPRESSION pglz)", "COMPRESSION"),
    ("CREATE TABLE {u} (a INT COMMENT 'x')", "COMMENT"),
    ("CREATE TABLE {u} (a INT AUTO_INCREMENT)", "AUTO_INCREMENT"),
    ("CREATE TABLE {u} (a INT AUTOINCREMENT)", "AUTOINCREMENT"),
    ("CREATE TABLE {u} (a INT IDENTITY)", "IDENTITY"),
    ("CREATE TABLE {u} (a INT DESC, b INT)", "DESC"),
    ("CREATE TABLE {u} (a INT) ENGINE = InnoDB", "ENGINE"),
    ("CREATE TABLE {u} (a INT) ORDER BY a", "ORDER BY"),
    ("CREATE TABLE {u} (a INT) CLUSTER BY (a)", "CLUSTER"),
    ("CREATE OR REPLACE TABLE {u} (a INT)", "REPLACE"),
    ("CREATE TRANSIENT TABLE {u} (a INT)", "TRANSIENT"),
    ("CREATE EXTERNAL TABLE {u} (a INT) STORED AS PARQUET LOCATION '/tmp/x'", "EXTERNAL"),
    ("CREATE INDEX {u} ON {t} (n DESC)", "DESC"),
    ("CREATE INDEX {u} ON {t} (n NULLS FIRST)", "NULLS FIRST"),
    ("CREATE INDEX {u} ON {t} (n) INCLUDE (w)", "INCLUDE"),
    ("CREATE INDEX {u} ON {t} (n) WHERE n > 0", "WHERE"),
    ("CREATE INDEX {u} ON {t} (lower(w))", "lower"),
    ("CREATE INDEX {u} ON {t} (w COLLATE \"C\")", "COLLATE"),
    ("CREATE INDEX CONCURRENTLY {u} ON {t} (n)", "CONCURRENTLY"),
    ("CREATE INDEX {u} ON {t} USING gin (n)", "GIN"),
    ("CREATE INDEX {u} ON {t} (n) WITH (fillfactor = 70)", "WITH"),
    ("CREATE INDEX {u} ON {t} (n) TABLESPACE pg_default", "TABLESPACE"),
    ("CREATE UNIQUE INDEX {u} ON {t} (n)", "UNIQUE"),
    ("SELECT k FROM {t} FOR UPDATE", "FOR UPDATE"),
    ("SELECT k FROM {t} FOR SHARE SKIP LOCKED", "FOR SHARE"),
    ("SELECT k FROM {t} FOR NO KEY UPDATE", "KEY"),
    ("SELECT k FROM {t} TABLESAMPLE BERNOULLI (50)", "SAMPLE"),
    ("SELECT k FROM {t} ORDER BY n FETCH FIRST 2 ROWS WITH TIES", "WITH TIES"),
    ("SELECT k FROM {t} FETCH FIRST 50 PERCENT ROWS ONLY", "PERCENT"),
    ("SELECT k FROM {t} LIMIT 1 BY n", "BY"),
    ("SELECT TOP 2 k FROM {t}", "TOP"),
    ("SELECT sum(n) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW) FROM {t}", "EXCLUDE"),
    ("SELECT * FROM ROWS FROM (generate_series(1, 2), generate_series(1, 3)) AS r", "ROWS"),
    ("SELECT w FROM {t} ORDER BY w COLLATE \"de_DE\"", "de_DE"),
    ("SELECT w COLLATE \"en_US\" FROM {t}", "en_US"),
    ("CREATE VIEW {u} AS SELECT w FROM {t} WHERE w COLLATE \"en_US\" > 'a'", "en_US"),
    ("SELECT k FROM {t} ORDER BY n USING >", "USING"),
    ("SELECT k, n FROM {t} GROUP BY DISTINCT ROLLUP (k, n), ROLLUP (k)", "DISTINCT"),
    ("WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM r WHERE a < 3) SEARCH DEPTH FIRST BY a SET o SELECT a FROM r", "SEARCH"),
    ("WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM r WHERE a < 3) CYCLE a SET c USING p SELECT a FROM r", "CYCLE"),
    ("WITH x AS (INSERT INTO {t} VALUES (9, 9, 'z') RETURNING k) SELECT k FROM x", "INSERT"),
    ("WITH x AS (DELETE FROM {t} RETURNING k) SELECT count(*) FROM x", "DELETE"),
    ("INSERT INTO {t} (k, n) OVERRIDING SYSTEM VALUE VALUES (9, 9)", "OVERRIDING"),
    ("INSERT OVERWRITE {t} VALUES (9, 9, 'z')", "OVERWRITE"),
    ("INSERT OR REPLACE INTO {t} VALUES (1, 9, 'z')", "OR"),
    ("INSERT INTO {t} VALUES (1, 9, 'z') ON DUPLICATE KEY UPDATE n = 9", "DUPLICATE"),
    ("INSERT INTO {t} VALUES (1, 9, 'z') ON CONFLICT (k) WHERE k > 0 DO NOTHING", "WHERE"),
    ("REPLACE INTO {t} VALUES (1, 9, 'z')", "REPLACE"),
    ("UPDATE {t} SET n = 0 WHERE CURRENT OF c", "CURRENT"),
    ("UPDATE {t} SET n = 0 LIMIT 1", "LIMIT"),
    ("DELETE FROM {t} ORDER BY k LIMIT 1", "ORDER BY"),
    ("DELETE FROM {t} LIMIT 1", "LIMIT"),
    ("DELETE FROM {t} WHERE CURRENT OF c", "CURRENT"),
    ("DROP TABLE {t} PURGE", "PURGE"),
    ("DROP TEMPORARY TABLE {t}", "TEMP"),
    ("DROP INDEX CONCURRENTLY {t}_pkey", "CONCURRENTLY"),
    ("CREATE VIEW {u} AS SELECT k FROM {t} WITH CHECK OPTION", "CHECK"),
    ("CREATE VIEW {u} WITH (security_barrier) AS SELECT k FROM {t}", "security_barrier"),
    ("CREATE TEMP VIEW {u} AS SELECT k FROM {t}", "TEMP"),
    ("CREATE MATERIALIZED VIEW {u} AS SELECT k FROM {t} WITH NO DATA", "WITH"),
    ("REFRESH MATERIALIZED VIEW {t}", "REFRESH"),
    ("COPY {t} FROM '/etc/passwd'", "COPY"),
    ("COPY {t} FROM PROGRAM 'id'", "COPY"),
    ("COPY {t} TO '/tmp/cenote_x'", "COPY"),
    ("COPY {t} FROM STDIN WITH (FREEZE)", "FREEZE"),
    ("COPY {t} FROM STDIN WITH (FORCE_NULL (n))", "FORCE_NULL"),
    ("COPY {t} FROM STDIN WITH (FORCE_NOT_NULL (n))", "FORCE_NOT_NULL"),
    ("COPY {t} FROM STDIN WITH (FORMAT binary)", "binary"),
    ("COPY {t} FROM STDIN WITH (ENCODING 'latin1')", "ENCODING"),
    ("COPY {t} FROM STDIN WITH (ON_ERROR ignore)", "ON_ERROR"),
    ("COPY {t} FROM STDIN WITH (HEADER MATCH)", "MATCH"),
    ("COPY {t} FROM STDIN WHERE n > 1", "WHERE"),
    ("ALTER TABLE {t} RENAME TO {u}", "RENAME TO"),
    ("ALTER TABLE {t} SET SCHEMA s", "SET SCHEMA"),
    ("ALTER TABLE {t} ADD CHECK (k > 0)", "CHECK"),
    ("ALTER TABLE {t} ADD COLUMN z INT UNIQUE", "UNIQUE"),
    ("ALTER TABLE {t} ALTER COLUMN n SET NOT NULL", "SET NOT NULL"),
    ("ALTER TABLE {t} ALTER COLUMN n TYPE TEXT USING n::TEXT", "USING"),
    ("ALTER TABLE {t} DROP COLUMN n CASCADE", "CASCADE"),
    ("ALTER TABLE ONLY {t} ADD COLUMN z INT", "ONLY"),
    ("GRANT SELECT ON {t} TO PUBLIC", "GRANT"),
    ("LOCK TABLE {t} IN EXCLUSIVE MODE", "LOCK"),
    ("MERGE INTO {t} USING (SELECT 1 AS j) x ON k = j WHEN MATCHED THEN DELETE", "MERGE"),
    ("CREATE SEQUENCE {u}", "SEQUENCE"),
    ("CREATE SCHEMA {u}", "SCHEMA"),
    ("BEGIN ISOLATION LEVEL SERIALIZABLE", "SERIALIZABLE"),
    ("SELECT * FROM {t} PIVOT (sum(n) FOR w IN ('a', 'b'))", "PIVOT"),
    ("SELECT k FROM {t} PREWHERE k = 1", "PREWHERE"),
    ("SELECT k FROM {t} SETTINGS max_threads = 1", "SETTINGS"),
    ("SELECT k FROM {t} WITH (NOLOCK)", "hint"),
]

#: Statement, and what PostgreSQL answers: rows of itself, or of the query behind it.
ANSWERED = [
    ("SELECT k FROM {t} ORDER BY k FETCH FIRST 2 ROWS ONLY", None, [(1,), (2,)]),
    ("SELECT k FROM {t} ORDER BY k OFFSET 2 ROWS FETCH NEXT 1 ROW ONLY", None, [(3,)]),
    ("SELECT k FROM {t} ORDER BY k DESC FETCH FIRST ROW ONLY", None, [(4,)]),
    ("SELECT k FROM (SELECT k FROM {t} ORDER BY k FETCH FIRST 2 ROWS ONLY) x ORDER BY k DESC", None, [(2,), (1,)]),
    ("SELECT w FROM {t} WHERE w COLLATE \"C\" > 'a' ORDER BY w COLLATE pg_catalog.\"default\" DESC", None, [("c",), ("b",)]),
    ("SELECT k FROM {t} ORDER BY k LIMIT ALL", None, [(1,), (2,), (3,), (4,)]),
    ("SELECT DISTINCT ON (n) n, k FROM {t} ORDER BY n, k", None, [(10, 1), (20, 2), (None, 3)]),
    ("SELECT sum(n) FILTER (WHERE n > 10) FROM {t}", None, [(40,)]),
    ("SELECT string_agg(w, ',' ORDER BY k DESC) FROM {t}", None, [("B,c,b,a",)]),
    ("SELECT count(DISTINCT n) FROM {t}", None, [(2,)]),
    ("SELECT w FROM {t} ORDER BY w COLLATE \"C\"", None, [("B",), ("a",), ("b",), ("c",)]),
    ("SELECT k FROM {t} ORDER BY n NULLS FIRST, k", None, [(3,), (1,), (2,), (4,)]),
    ("WITH x AS MATERIALIZED (SELECT 1 AS a) SELECT a FROM x", None, [(1,)]),
    ("INSERT INTO {t} AS x (k) VALUES (9)", "SELECT count(*) FROM {t}", [(5,)]),
    ("INSERT INTO {t} VALUES (1, 9, 'z') ON CONFLICT DO NOTHING", "SELECT sum(n) FROM {t}", [(50,)]),
    ("UPDATE {t} AS x SET n = 1 WHERE x.k = 1", "SELECT sum(n) FROM {t}", [(41,)]),
    ("TRUNCATE {t}", "SELECT count(*) FROM {t}", [(0,)]),
    ("DROP TABLE {t} RESTRICT", "SELECT count(*) FROM pg_tables WHERE tablename = '{t}'", [(0,)]),
    ("SELECT w FROM {t} WHERE w ILIKE 'A%'", None, [("a",)]),
    ("SELECT k FROM {t} NATURAL JOIN (SELECT 1 AS k) x", None, [(1,)]),
    ("VALUES (1), (2)", None, [(1,), (2,)]),
]


@pytest.fixture
def table(db, name):
    for sql in SETUP:
        db.execute(sql.format(t=name))
    yield {"t": name, "u": f"{name}_u"}
    with_nothing_left = db.execute("SELECT count(*) FROM pg_tables WHERE tablename = %s", (f"{name}_u",)).fetchone()
    assert with_nothing_left == (0,)


def run(db, sql):
    cursor = db.cursor()
    if sql.startswith("COPY") and "STDIN" in sql:
        with cursor.copy(sql) as copy:
            copy.write("")
        return None
    cursor.execute(sql)
    return cursor.fetchall() if cursor.description else None


@pytest.mark.parametrize("sql, word", REFUSED, ids=[sql.format(t="t", u="u")[:60] for sql, _ in REFUSED])
def test_a_clause_that_is_not_kept_to_is_refused_by_name(db, table, sql, word):
    with pytest.raises(psycopg.Error) as raised:
        run(db, sql.format(**table))
    assert raised.value.sqlstate in ("0A000", "42601", "22023", "42704"), str(raised.value)
    assert word.lower() in str(raised.value).lower(), f"{word} is not named: {raised.value}"
    assert db.execute("SELECT count(*), sum(n) FROM " + table["t"]).fetchone() == (4, 50), "and nothing was done"


@pytest.mark.parametrize("sql, then, rows", ANSWERED, ids=[sql.format(t="t", u="u")[:60] for sql, _, _ in ANSWERED])
def test_a_clause_that_is_kept_to_answers_as_postgres(db, table, sql, then, rows):
    seen = run(db, sql.format(**table))
    assert (run(db, then.format(**table)) if then else seen) == rows
