"""What a run of the program is given: rows as an Arrow file, and what the configuration says of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from . import arrow

# Which columns have words: their names, their numbers, or a boolean for each. None: their types say it.
Categorical = Sequence[str] | Sequence[int] | Sequence[bool] | None

# Up to so many columns, rows without names are a table, with a column for each number: trees and scales are by column. Wider rows are vectors,
# such as images.
MOST_COLUMNS = 256


@dataclass
class Given:
    """Rows to learn from."""

    rows: arrow.Rows
    examples: dict[str, Any]  # keys of the section examples

    @property
    def names(self) -> list[str]:
        """The names of the columns of the file."""
        return [f.name for f in self.rows.schema]


def given(X: Any, categorical: Categorical) -> Given:
    """Returns what is to be handed over of rows: a table, an array (n × d), a sparse matrix or texts."""
    if hasattr(X, "tocsr"):
        return Given(arrow.sparse_rows(X), {"columns": {"use": [arrow.LIST]}})
    if arrow.is_texts(X):
        return Given(arrow.text_rows(X), {"text": arrow.TEXT})
    if arrow.is_table(X):
        columns, count = named(X)
    elif X.dtype.kind in "OUT":  # words, or numbers and words
        columns, count = arrow.columns_of(X, arrow.names_of(X.shape[1])), len(X)
    elif X.shape[1] > MOST_COLUMNS:
        return Given(arrow.vector_rows(X, narrow=True), {"columns": {"use": [arrow.LIST]}})
    else:
        names = arrow.names_of(X.shape[1])
        return Given(arrow.array_rows(X, names), _examples(names, [] if categorical is None else _chosen(categorical, names)))
    names = list(columns)
    words = [name for name in names if arrow.has_text(columns[name].type)] if categorical is None else _chosen(categorical, names)
    return Given(arrow.table_rows(columns, count), _examples(names, words))


def named(table: Any) -> tuple[dict[str, pa.ChunkedArray], int]:
    """Returns the columns of a table, and its number of rows. Those of a data frame without names get names."""
    if hasattr(table, "iloc") and not any(isinstance(name, str | tuple) for name in table.columns):
        table = table.set_axis(arrow.names_of(len(table.columns)), axis=1)
    found = arrow.table_of(table)
    assert found is not None
    return found


def _examples(names: list[str], words: list[str]) -> dict[str, Any]:
    return {"columns": {"use": names}, **({"categorical": words} if words else {})}


def _chosen(categorical: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Returns the names of columns that have words."""
    chosen = list(categorical)
    if len(chosen) == len(names) and all(isinstance(c, bool | np.bool_) for c in chosen):
        return [name for name, is_one in zip(names, chosen, strict=True) if is_one]
    found = []
    for c in chosen:
        if isinstance(c, int | np.integer) and not -len(names) <= c < len(names) or isinstance(c, str) and c not in names:
            raise ValueError(f"categorical: {c!r}: expected one of the columns {', '.join(names)}")
        found.append(c if isinstance(c, str) else names[int(c)])
    return found


def free(name: str, taken: Sequence[str]) -> str:
    """Returns a name for a column that no other has."""
    while name in taken:
        name += "_"
    return name


def write(path: str | os.PathLike[str], rows: arrow.Rows, others: Sequence[tuple[str, Any]]) -> None:
    """Writes rows, and the columns beside them: labels and weights."""
    columns = [(name, pa.chunked_array([column]) if isinstance(column, pa.Array) else column) for name, column in others]
    schema = pa.schema([*rows.schema, *(pa.field(name, column.type) for name, column in columns)])
    with pa.OSFile(os.fspath(path), "wb") as file, pa.ipc.new_file(file, schema) as writer:
        at = 0
        for batch in rows.batches():
            n = len(batch[0]) if batch else rows.count
            beside = [column.slice(at, n).combine_chunks() for _, column in columns]
            beside = [column.chunk(0) if isinstance(column, pa.ChunkedArray) else column for column in beside]
            writer.write_batch(pa.record_batch([*batch, *beside], schema=schema))
            at += n
