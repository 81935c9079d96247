"""Checkpoints without a server: the files open in other programs, and the tools say what is in them.

Expected values come from pyarrow, which reads the files of `golden/checkpoints` without us and merges them here, and from DuckDB.
"""
import json
import os
import shutil
from decimal import Decimal
from pathlib import Path

import duckdb
import polars
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
from harness import Server, cenote

ROOT = Path(__file__).resolve().parents[1] / "golden" / "checkpoints" / "v1"
OLD, NEW = sorted(path.name for path in ROOT.iterdir() if path.name[0] == "2")


def manifest(checkpoint, root=ROOT):
    return json.loads((root / checkpoint / "manifest.json").read_text())


def readable(table):
    return table["name"] if table["schema"] == "public" else f"{table['schema']}.{table['name']}"


def as_numbers(rows):
    """Dates and timestamps as the numbers they are: Python has none of these."""
    for index, field in enumerate(rows.schema):
        number = pa.int32() if pa.types.is_date(field.type) else pa.int64() if pa.types.is_timestamp(field.type) else None
        if number:
            rows = rows.set_column(index, field.name, rows.column(index).cast(number))
    return rows


def merged(checkpoint, name, root=ROOT):
    """Rows of a table by identity: the parts of each bucket, newest last, read by pyarrow alone. Multisets: rows to counts."""
    [table] = [table for table in manifest(checkpoint, root)["tables"] if readable(table) == name]
    found = {}
    for bucket in table["buckets"]:
        for part in bucket["parts"]:
            rows = as_numbers(pa.ipc.open_file(root / part["path"]).read_all())
            assert rows.num_rows == part["rows"] and (root / part["path"]).stat().st_size == part["length"]
            for row in rows.to_pylist():
                key = tuple(row[column] for column in table["identity"])
                gone = row.pop("cenote_deleted", False)
                found.pop(key, None) if gone else found.update({key: row})
    return found


def names(checkpoint):
    return [readable(table) for table in manifest(checkpoint)["tables"]]


def state(*args, code=0, **kwargs):
    done = cenote("state", *args, **kwargs)
    assert done.returncode == code, done.stderr
    return done.stdout


def ndjson(text):
    return [json.loads(line, parse_float=Decimal) for line in text.splitlines()]


def sql(query, checkpoint=NEW):
    return ndjson(state("query", "--from", ROOT / checkpoint, "--sql", query))


def test_parts_open_in_other_programs_with_their_types():
    [table] = [table for table in manifest(NEW)["tables"] if table["name"] == "every_type"]
    paths = [ROOT / part["path"] for bucket in table["buckets"] for part in bucket["parts"]]
    rows = pa.concat_tables(pa.ipc.open_file(path).read_all() for path in paths).sort_by("id")
    types = {field.name: str(field.type) for field in rows.schema}
    assert types == {
        "id": "int64", "bool": "bool", "i16": "int16", "i32": "int32", "i64": "int64", "u64": "uint64", "f32": "float",
        "f64": "double", "dec": "decimal128(38, 9)", "date": "date32[day]", "time": "time64[us]", "ts": "timestamp[us]",
        "tstz": "timestamp[us, tz=UTC]", "span": "month_day_nano_interval", "text": "string", "bytes": "binary",
        "uuid": "fixed_size_binary[16]", "json": "struct<json: string>", "jsonb": "struct<jsonb: string>",
        "list": types["list"], "row": "struct<a: int64, b: string>"}
    assert types["list"].startswith("list<")
    first, second, third = rows.select(["i64", "dec", "text", "bytes", "json", "list", "uuid"]).to_pylist()
    assert first == {"i64": 2**53 + 1, "dec": Decimal("99999999999999999999999999999.999999999"), "text": "", "bytes": b"",
                     "json": {"json": '{ "a" :1}'}, "list": [1, None], "uuid": bytes(16)}
    assert set(second.values()) == {None}
    assert third["i64"] == -2**63 and third["dec"] == Decimal("-0.000000001") and third["list"] == []
    assert str(rows["f64"][0].as_py()) == "-0.0" and str(rows["f64"][2].as_py()) == "nan"
    assert rows["span"][0].as_py() == (-1, 2**31 - 1, -2**63)
    assert rows["ts"][0].value == 2**63 - 1 and rows["time"][0].value == 86_399_999_999
    owners = [ROOT / part["path"] for table in manifest(OLD)["tables"] if table["name"] == "by_owner"
              for bucket in table["buckets"] for part in bucket["parts"]]
    assert sum(polars.read_ipc(path)["n"].sum() for path in owners) == 5
    arrow = pa.concat_tables(pa.ipc.open_file(path).read_all() for path in owners)
    assert duckdb.sql("SELECT total FROM arrow WHERE owner = 'ann'").fetchall() == [(Decimal("12.50"),)]


@pytest.mark.parametrize("checkpoint", [OLD, NEW])
def test_exported_rows_are_what_the_parts_say(checkpoint, tmp_path):
    state("export", "--from", ROOT / checkpoint, "--format", "arrow", "--out", tmp_path)
    for name in names(checkpoint):
        with pa.ipc.open_stream(tmp_path / f"{name}.arrow") as reader:
            rows = as_numbers(reader.read_all())
        expected = []
        for row in merged(checkpoint, name).values():
            expected += [row] * row.pop("cenote_weight", 1)
        plain = [field.name for field in rows.schema if field.name not in ("json", "jsonb", "uuid")]
        order = [(column, "ascending") for column in plain[:2]]
        told = rows.select(plain).sort_by(order)
        wanted = pa.Table.from_pylist([{c: row[c] for c in plain} for row in expected], schema=told.schema).sort_by(order)
        # Texts of both, as NaN is not itself.
        assert [str(row) for row in told.to_pylist()] == [str(row) for row in wanted.to_pylist()], name
        for column in set(rows.column_names) - set(plain) - {"uuid"}:
            by_id = {row["id"]: row[column] and row[column][column] for row in expected}
            ids = rows["id"].to_pylist()
            assert {i: v for i, v in zip(ids, rows[column].to_pylist())} == by_id


def test_queries_answer_as_duckdb_does_over_the_exported_files(tmp_path):
    state("export", "--from", ROOT, "--out", tmp_path)
    with duckdb.connect() as judge:
        for name in ("by_owner", "orders"):
            judge.execute(f"CREATE VIEW {name} AS FROM '{tmp_path}/{name}.parquet'")
        judge.execute(f"CREATE SCHEMA cenote_state; CREATE VIEW cenote_state.by_owner_aggregate AS FROM '{tmp_path}/cenote_state.by_owner_aggregate.parquet'")
        for query in (
            "SELECT owner, total, n FROM by_owner ORDER BY owner NULLS LAST",
            "SELECT count(*) AS c, sum(n) AS s, max(owner) AS m FROM by_owner WHERE n >= 1",
            "SELECT v, count(*) AS c, sum(k) AS s FROM orders GROUP BY v ORDER BY v",
            "SELECT o.k, b.total FROM orders o JOIN by_owner b ON b.owner = o.v ORDER BY o.k",
            "SELECT a.owner, a.n - b.n AS d FROM by_owner a LEFT JOIN cenote_state.by_owner_aggregate b ON a.owner = b.owner ORDER BY 1 NULLS LAST",
        ):
            cursor = judge.execute(query)
            columns = [column[0] for column in cursor.description]
            assert [list(row.values()) for row in sql(query)] == [list(row) for row in cursor.fetchall()], query
            assert sql(query) == [] or list(sql(query)[0]) == columns


def test_inventory_tells_every_key_its_group_and_its_value():
    [table] = [table for table in manifest(NEW)["tables"] if table["schema"] == "cenote_state"]
    rows = sql("SELECT * FROM cenote_catalog.state")
    assert rows == sql("SELECT * FROM state") and len(rows) == table["rows"]
    told = {row["key"]["owner"]: (row["value"]["total"] and Decimal(row["value"]["total"]), row["value"]["n"]) for row in rows}
    expected = merged(NEW, "cenote_state.by_owner_aggregate").values()
    assert told == {row["owner"]: (row["total"], row["n"]) for row in expected}
    assert {(row["view"], row["operator"], row["table"]) for row in rows} == {("by_owner", "aggregate", "by_owner_aggregate")}
    ranges = {}
    for bucket in table["buckets"]:
        for part in bucket["parts"]:
            for owner in pa.ipc.open_file(ROOT / part["path"]).read_all()["owner"].to_pylist():
                ranges[owner] = range(bucket["first_group"], bucket["last_group"] + 1)
    assert all(row["key_group"] in ranges[row["key"]["owner"]] for row in rows)
    groups = sql("SELECT key_group, count(*) AS n FROM cenote_state.by_owner_aggregate GROUP BY 1 ORDER BY 2 DESC, 1")
    assert sorted(row["key_group"] for row in rows) == [row["key_group"] for row in groups for _ in range(row["n"])]
    assert sql("SELECT cenote_epoch() AS e") == [{"e": manifest(NEW)["epoch"]}]


def test_a_checkpoint_is_of_one_epoch():
    assert sql("SELECT count(*) AS c FROM by_owner AS OF EPOCH 57") == [{"c": 4}]
    for epoch in (0, 1, 56, 58):
        for name in ("by_owner", "cenote_state.by_owner_aggregate", "state"):
            done = cenote("state", "query", "--from", ROOT, "--sql", f"SELECT count(*) FROM {name} AS OF EPOCH {epoch}")
            assert done.returncode == 1 and f"at epoch {epoch}" in done.stderr and "kept: epoch 57" in done.stderr
    for statement in ("CREATE TABLE x (n INT)", "DELETE FROM by_owner", "SELECT 1; SELECT 2", ""):
        done = cenote("state", "query", "--from", ROOT, "--sql", statement)
        assert done.returncode == 1 and "error[CLI-0018]" in done.stderr


def test_ls_lists_tables_types_rows_bytes_and_epoch():
    rows = ndjson(state("ls", "--from", ROOT / NEW, "--format", "ndjson"))
    for row, table in zip(rows, manifest(NEW)["tables"], strict=True):
        files = [part for bucket in table["buckets"] for part in bucket["parts"]]
        assert row["name"] == readable(table) and row["epoch"] == 57 and row["rows"] == table["rows"]
        assert row["bytes"] == sum(part["length"] for part in files) and row["files"] == len(files)
        assert row["rows"] == sum(row.get("cenote_weight", 1) for row in merged(NEW, readable(table)).values())
    assert rows[1]["columns"] == "owner text, total numeric(38,2), n bigint"


def test_get_and_scan_read_keys_and_rows():
    expected = merged(NEW, "by_owner")[("ann",)]
    assert ndjson(state("get", "by_owner", "ann", "--from", ROOT)) == [expected]
    assert ndjson(state("get", "by_owner", "--column", "n", "3", "--from", ROOT)) == [expected]
    assert ndjson(state("get", "by_owner", "ann", "--from", ROOT / OLD)) == [merged(OLD, "by_owner")[("ann",)]]
    bobs = ndjson(state("get", "orders", "--column", "k,v", "2", "bob", "--from", ROOT))
    assert bobs == [{"k": 2, "v": "bob"}] * 3
    state("get", "by_owner", "bob", "--from", ROOT, code=1)
    rows = ndjson(state("scan", "by_owner", "--where", "n > 1 OR owner = ''", "--columns", "owner,n", "--from", ROOT, "--epoch", "57"))
    assert sorted(rows, key=str) == sorted([{"owner": "ann", "n": 3}, {"owner": "", "n": 1}], key=str)
    assert len(ndjson(state("scan", "by_owner", "--limit", "2", "--from", ROOT))) == 2
    done = cenote("state", "scan", "by_owner", "--from", ROOT, "--epoch", "41")
    assert done.returncode == 1 and "epoch 57" in done.stderr


def test_diff_tells_each_key_that_differs_and_exits_1():
    told = ndjson(state("diff", "--from", ROOT / OLD, "--to", ROOT / NEW, "--json", code=1))
    expected = []
    for name in names(NEW):
        [table] = [table for table in manifest(NEW)["tables"] if readable(table) == name]
        before, after = merged(OLD, name), merged(NEW, name)
        for key in before.keys() | after.keys():
            a, b = before.get(key), after.get(key)
            # Rows with NaN differ from themselves in Python; their files are the same.
            if str(a) != str(b):
                change = {"table": name, "change": "changed" if a and b else "added" if b else "removed",
                          "key": {c: (a or b)[c] for c in table["identity"]}}
                for side, row in (("from", a), ("to", b)):
                    change.update({side: {c: v for c, v in row.items() if c not in table["identity"]}} if row else {})
                expected.append(change)
    assert sorted(told, key=str) == sorted(expected, key=str) and len(told) == 6
    assert state("diff", "--from", ROOT / OLD, "--to", ROOT / OLD) == ""
    assert state("diff", "--from", ROOT / OLD, "--to", ROOT / NEW, "--table", "orders") == ""
    lines = state("diff", "--from", ROOT / OLD, "--to", ROOT, "--table", "by_owner", code=1).splitlines()
    assert sorted(line[:10] for line in lines) == ["+ by_owner", "- by_owner", "~ by_owner"]


def test_digest_is_that_of_a_live_server_with_the_same_rows():
    digests = dict(reversed(line.split("  ")[::2]) for line in state("digest", "--from", ROOT / OLD).splitlines())
    assert set(digests) == set(names(OLD))
    assert digests["by_owner"] == digests["cenote_state.by_owner_aggregate"]
    assert state("digest", "by_owner", "--from", ROOT / NEW).split()[0] != digests["by_owner"]
    with Server() as server, server.connect() as db:
        db.execute("CREATE TABLE by_owner (owner TEXT PRIMARY KEY, total NUMERIC(38,2), n BIGINT NOT NULL)")
        db.execute("CREATE TABLE orders (k BIGINT, v TEXT)")
        for row in merged(OLD, "orders").values():
            for _ in range(row["cenote_weight"]):
                db.execute("INSERT INTO orders VALUES (%s, %s)", (row["k"], row["v"]))
        db.execute("CREATE TABLE raw (owner TEXT, total NUMERIC(38,2), n BIGINT)")
        db.execute("CREATE MATERIALIZED VIEW v AS SELECT owner, total, n FROM raw")
        for row in merged(OLD, "by_owner").values():
            db.execute("INSERT INTO raw VALUES (%s, %s, %s)", (row["owner"], row["total"], row["n"]))
        live = {name: state("digest", name, "--url", server.url).split()[0] for name in ("v", "orders")}
    assert live == {"v": digests["by_owner"], "orders": digests["orders"]}


def test_export_in_every_format_is_whole_or_not_there(tmp_path):
    rows = {}
    for kind, read, options in (("ndjson", "read_json", ""), ("csv", "read_csv", ", allow_quoted_nulls=false"), ("parquet", "read_parquet", "")):
        out = tmp_path / f"by_owner.{kind}"
        out.write_text("an older one")
        state("export", "--from", ROOT, "--table", "by_owner", "--format", kind, "--out", out)
        rows[kind] = duckdb.sql(f"SELECT sum(n), count(owner), count(*) FROM {read}('{out}'{options})").fetchall()
    parquet = pa.parquet.read_table(tmp_path / "by_owner.parquet")
    assert str(parquet.schema.field("total").type) == "decimal128(38, 2)"
    assert rows == {kind: [(6, 3, 4)] for kind in ("ndjson", "csv", "parquet")}
    (tmp_path / "link").symlink_to(tmp_path / "behind")
    state("export", "--from", ROOT, "--table", "orders", "--format", "csv", "--out", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "behind").read_text().count("bob") == 3
    copy = shutil.copytree(ROOT, tmp_path / "copy")
    [table] = [table for table in manifest(NEW)["tables"] if table["name"] == "by_owner"]
    (copy / table["buckets"][1]["parts"][0]["path"]).unlink()
    before = set(tmp_path.iterdir())
    done = cenote("state", "export", "--from", copy / NEW, "--table", "by_owner", "--out", tmp_path / "broken.parquet")
    assert done.returncode == 1 and "it is missing" in done.stderr and set(tmp_path.iterdir()) == before


def test_damage_is_named_and_nothing_is_answered(tmp_path):
    copy = shutil.copytree(ROOT, tmp_path / "ckpt")
    done = cenote("verify", copy)
    assert done.returncode == 0 and done.stdout.count("ok: ") == 2
    paths = {part["path"] for table in manifest(NEW)["tables"] for bucket in table["buckets"] for part in bucket["parts"]}
    for path in sorted(paths) + [f"{NEW}/manifest.json"]:
        whole = (copy / path).read_bytes()
        damages = [whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1:] for at in (0, len(whole) // 2, len(whole) - 1)]
        for damaged in damages + [whole[:-1], b"", None]:
            (copy / path).unlink()
            if damaged is not None:
                (copy / path).write_bytes(damaged)
            for target in (copy / NEW, copy):
                if path.endswith("manifest.json") and damaged is None:
                    continue  # without one it was never published
                done = cenote("verify", target)
                assert done.returncode == 1 and path in done.stdout, (path, done.stdout, done.stderr)
            done = cenote("state", "digest", "--from", copy / NEW)
            assert done.returncode == 1 and "error[CKPT-00" in done.stderr
            (copy / path).write_bytes(whole)
    assert cenote("verify", copy).returncode == 0


def test_older_checkpoint_is_not_taken_for_the_newest_unasked(tmp_path):
    copy = shutil.copytree(ROOT, tmp_path / "ckpt")
    [gone] = {part["path"] for table in manifest(NEW)["tables"] if table["name"] == "by_owner"
              for part in table["buckets"][0]["parts"] if part["kind"] == "delta"}
    os.remove(copy / gone)
    done = cenote("state", "ls", "--from", copy)
    assert done.returncode == 1 and "CLI-0017" in done.stderr and gone in done.stderr and f"--from {copy}/{OLD}" in done.stderr
    assert len(ndjson(state("ls", "--from", copy / OLD, "--format", "ndjson"))) == 4
    # The other tables of the damaged one are whole.
    assert len(ndjson(state("scan", "orders", "--from", copy / NEW))) == 5


def test_nothing_outside_the_folder_is_opened(tmp_path):
    copy = shutil.copytree(ROOT, tmp_path / "ckpt")
    part = manifest(NEW)["tables"][0]["buckets"][0]["parts"][0]["path"]
    shutil.move(copy / part, tmp_path / "outside.arrow")
    (copy / part).symlink_to(tmp_path / "outside.arrow")
    done = cenote("verify", copy / NEW)
    assert done.returncode == 1 and "leads out of the folder" in done.stdout
