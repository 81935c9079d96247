"""The streaming oracle: random tables, changes and views, judged by DuckDB after every commit.

`python -m oracle --help` (from `tests/`) runs it. The parts, in the order in which a case passes through them:

| Module | Owns |
|---|---|
| `types` | the column types and their random values |
| `dialect` | every difference between PostgreSQL's SQL (which Cenote speaks) and DuckDB's |
| `expressions`, `relations` | the SQL features: one small function each, registered by a decorator |
| `cases` | a whole case from one seed: tables, commits, views |
| `targets` | what is judged: a Cenote server, another PostgreSQL server, or DuckDB itself for the self-test |
| `compare` | two bags of typed rows |
| `judge` | runs a case in each mode and compares |
| `shrink` | makes a failing case small |

# To add a SQL feature
Write one function in `expressions` or `relations` and decorate it. Nothing else needs to change.
"""
