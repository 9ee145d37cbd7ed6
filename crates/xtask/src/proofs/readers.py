"""Reads all.jsonl, all.csv and all.parquet of a folder with DuckDB and pandas and compares them row by row."""
import json
import sys

import duckdb
import pandas

folder = sys.argv[1]
with open(f"{folder}/all.jsonl", encoding="utf-8") as lines:
    wanted = [json.loads(line) for line in lines]
wrong = []


def same(what, found, expected):
    if found != expected:
        wrong.append(f"{what}: {found!r} instead of {expected!r}")


def time(value):
    return None if value is None else pandas.Timestamp(value)


table = pandas.read_parquet(f"{folder}/all.parquet")
same("rows in pandas", len(table), len(wanted))
for column, kind in [("version", "int64"), ("deleted", "bool"), ("changed_at", "datetime64[us, UTC]")]:
    same(f"type of {column}", str(table[column].dtype), kind)
for row, line in zip(table.to_dict("records"), wanted):
    for name in ["source", "entity", "id", "version", "deleted", "content_hash", "batch_id"]:
        same(f"{name} in pandas", row[name], line[name])
    same("changed_at in pandas", row["changed_at"], time(line["changed_at"]))
    updated = None if pandas.isna(row["updated_at"]) else row["updated_at"]
    same("updated_at in pandas", updated, time(line["updated_at"]))
    same("fields in pandas", json.loads(row["fields"]), line["fields"])
    title = line["fields"].get("title")
    same("title in pandas", None if pandas.isna(row["title"]) else row["title"], title)

database = duckdb.connect()
database.execute(f"CREATE VIEW records AS SELECT * FROM read_parquet('{folder}/all.parquet')")
same("rows in DuckDB", database.execute("SELECT COUNT(*) FROM records").fetchone()[0], len(wanted))
ids = [row[0] for row in database.execute("SELECT id FROM records").fetchall()]
same("ids in DuckDB", ids, [line["id"] for line in wanted])
titled = database.execute("SELECT COUNT(*) FROM records WHERE title IS NOT NULL AND NOT deleted").fetchone()[0]
same("titles in DuckDB", titled, sum(1 for line in wanted if line["fields"].get("title") and not line["deleted"]))
kinds = dict(database.execute("SELECT column_name, column_type FROM (DESCRIBE records)").fetchall())
same("type of changed_at in DuckDB", kinds["changed_at"], "TIMESTAMP WITH TIME ZONE")

cells = pandas.read_csv(f"{folder}/all.csv", keep_default_na=False, dtype=str)
same("rows of the CSV", len(cells), len(wanted))
for row, line in zip(cells.to_dict("records"), wanted):
    plain = {name: cell[1:] if cell.startswith("'") else cell for name, cell in row.items()}
    same("id in the CSV", plain["id"], line["id"])
    same("fields in the CSV", json.loads(plain["fields"]), line["fields"])
    for name, cell in row.items():
        if cell[:1] in "=+-@\t\r" and cell:
            wrong.append(f"{name} of {line['id']} would be computed: {cell!r}")

for line in wrong[:20]:
    print(line)
groups = database.execute(
    f"SELECT COUNT(DISTINCT row_group_id) FROM parquet_metadata('{folder}/all.parquet')"
).fetchone()[0]
print(f"{len(wanted)} records in {groups} row groups: DuckDB {duckdb.__version__}, pandas {pandas.__version__}, {len(wrong)} differences")
sys.exit(1 if wrong or not wanted else 0)
