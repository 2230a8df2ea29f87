"""Writes tables of Iceberg and Delta Lake to a folder, and prints for each state the layout, the folder, the state and its offsets as JSON."""

import json
import sys
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

folder = Path(sys.argv[1])


def rows(first: int, last: int, name: str = "x") -> pa.Table:
    """Returns rows with offsets, in three groups."""
    offsets = range(first, last)
    return pa.table({
        "group": pa.array([i % 3 for i in offsets], pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
        name: pa.array([float(i) for i in offsets]),
    })


def show(layout: str, path: str, state: object, data: pa.Table) -> None:
    """Prints a state of a table."""
    print(json.dumps({"layout": layout, "path": path, "state": str(state), "offsets": sorted(data["offset"].to_pylist())}))


catalog = SqlCatalog("test", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
catalog.create_namespace("db")
for name, partitioned in ("plain", False), ("partitioned", True):
    table = catalog.create_table(f"db.{name}", schema=rows(0, 1).schema)
    if partitioned:
        with table.update_spec() as spec:
            spec.add_field("group", IdentityTransform(), "group")
    table.append(rows(0, 100))
    table.append(rows(100, 200))
    table.delete("offset >= 50 and offset < 60")
    table.overwrite(rows(150, 300), overwrite_filter="offset >= 150")
    with table.update_schema() as schema:
        schema.rename_column("x", "amount")
    table.append(rows(300, 400, "amount"))
    for snapshot in table.snapshots():
        show("iceberg", f"{folder}/db/{name}", snapshot.snapshot_id, table.scan(snapshot_id=snapshot.snapshot_id).to_arrow())
    show("iceberg", f"{folder}/db/{name}", "", table.scan().to_arrow())

for name, partitions in ("delta", None), ("partitioned-delta", ["group"]):
    path = f"{folder}/{name}"
    write_deltalake(path, rows(0, 100), partition_by=partitions)
    write_deltalake(path, rows(100, 200), mode="append")
    DeltaTable(path).delete('"offset" >= 50 and "offset" < 60')
    DeltaTable(path).create_checkpoint()
    write_deltalake(path, rows(200, 210), mode="append")
    DeltaTable(path).optimize.compact()
    for version in range(DeltaTable(path).version() + 1):
        show("delta", path, version, DeltaTable(path, version=version).to_pyarrow_table())
    show("delta", path, "", DeltaTable(path).to_pyarrow_table())
