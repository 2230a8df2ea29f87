"""Writes archives of a topic with pyarrow and fastavro to a folder, and prints their layouts and their rows as JSON."""

import datetime
import json
import sys
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

folder = Path(sys.argv[1])
at = datetime.datetime(2026, 11, 1, tzinfo=datetime.timezone.utc)
rows = [
    {
        "label": "ab"[i % 2],
        "x": i / 4,
        "place": {"y": float(i)} if i % 5 else None,
        "items": [{"price": i + 0.5}, {"price": 2.0}][: 1 + i % 2],
        "at": at + datetime.timedelta(seconds=i),
    }
    for i in range(600)
]
values = [[r["x"], r["place"] and r["place"]["y"], r["items"][0]["price"], r["at"].timestamp()] for r in rows]
schema = pa.schema([
    ("label", pa.dictionary(pa.int32(), pa.string())),
    ("x", pa.float32()),
    ("place", pa.struct([("y", pa.float64())])),
    ("items", pa.list_(pa.struct([("price", pa.decimal128(9, 1))]))),
    ("at", pa.timestamp("us", "UTC")),
])
avro_schema = fastavro.parse_schema({
    "type": "record", "name": "row", "fields": [
        {"name": "label", "type": "string"},
        {"name": "x", "type": "float"},
        {"name": "place", "type": ["null", {"type": "record", "name": "place", "fields": [{"name": "y", "type": "double"}]}]},
        {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "item", "fields": [{"name": "price", "type": "double"}]}}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
})


def table(some: list[dict]) -> pa.Table:
    """Returns rows in the schema, with exact prices."""
    decimals = [{**r, "items": [{"price": pa.scalar(str(i["price"])).cast(pa.decimal128(9, 1)).as_py()} for i in r["items"]]} for r in some]
    return pa.Table.from_pylist(decimals, schema)


confluent = folder / "confluent"
confluent.mkdir()
for first, version, compression in (0, "1.0", "snappy"), (200, "2.6", "zstd"):
    pq.write_table(table(rows[first : first + 200]), confluent / f"clicks+0+{first}.parquet", version=version, compression=compression,
                   row_group_size=64, data_page_version=version[0] + ".0")
with open(confluent / "clicks+0+400.avro", "wb") as file:
    fastavro.writer(file, avro_schema, rows[400:], codec="deflate")
print(json.dumps({"layout": "confluent", "files": f"{confluent}/**", "rows": values}))

columns = folder / "columns"
columns.mkdir()
whole = table(rows).append_column("partition", pa.array([0] * len(rows), pa.int32())).append_column("offset", pa.array(range(len(rows))))
pq.write_table(whole.append_column("timestamp", whole["at"]), columns / "part.parquet", data_page_size=512)
print(json.dumps({"layout": "columns", "files": f"{columns}/*.parquet", "rows": values}))
