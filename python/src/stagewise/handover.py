"""Hands rows over to the program, as an Arrow file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .rows import Table, is_list, native, table_of

# Up to so many columns, rows without names are a table, with a column for each number: trees and scales are by column. Wider rows are vectors,
# such as images.
MOST_COLUMNS = 256

# How many values of rows are converted at a time, so that memory has no second copy of them.
_AT_ONCE = 1 << 20

# The column of texts.
_TEXT = "text"
_LIST = "features"


# Which columns have words: their names, their numbers, or a boolean for each; None: it follows from their types.
Categorical = Sequence[str] | Sequence[int] | Sequence[bool] | None


@dataclass
class Rows:
    """The features of rows, and what the configuration says of them."""

    count: int
    columns: int
    names: list[str] | None  # that the caller has given to the columns
    examples: dict[str, Any]  # keys of the section examples
    schema: list[pa.Field]
    batches: Any = field(repr=False)  # a function that returns an iterator over lists of arrays
    size: int = 0  # how many bytes a file of them has, about


def _array_rows(array: npt.NDArray[Any], categorical: Categorical) -> Rows:
    """Numbers without names."""
    array = native(array)
    n, width = array.shape
    step = max(1, _AT_ONCE // max(1, width))
    if width > MOST_COLUMNS:
        kind = pa.list_(pa.float32(), width)

        def lists() -> Iterator[list[Any]]:
            for i in range(0, n, step):
                with np.errstate(over="ignore"):
                    values = np.ascontiguousarray(array[i : i + step], dtype=np.float32)
                yield [pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), width)]

        return Rows(n, width, None, {"columns": {"use": [_LIST]}}, [pa.field(_LIST, kind)], lists, 4 * n * width)
    number = pa.from_numpy_dtype(array.dtype) if array.dtype.kind in "biuf" and array.dtype.itemsize > 1 else pa.float64()
    number = pa.float32() if array.dtype in (np.float16, np.bool_) or array.dtype.itemsize == 1 else number
    if array.dtype not in (np.float32, np.float64) and not pa.types.is_integer(number) and number != pa.float32():
        number = pa.float64()
    names = names_of(width)

    def columns() -> Iterator[list[Any]]:
        for i in range(0, n, step):
            part = array[i : i + step]
            yield [pa.array(np.ascontiguousarray(part[:, j]), number, from_pandas=True, safe=False) for j in range(width)]

    examples: dict[str, Any] = {"columns": {"use": names}}
    if categorical is not None and (words := _chosen(categorical, names)):
        examples["categorical"] = words
    return Rows(n, width, None, examples, [pa.field(name, number) for name in names], columns, 8 * n * width)


def _sparse_rows(matrix: Any) -> Rows:
    """A scipy sparse matrix, as lists of index and value."""
    matrix = matrix.tocsr()
    if not matrix.has_sorted_indices or not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    n, width = matrix.shape
    kind = pa.list_(pa.struct([("index", pa.int32()), ("value", pa.float32())]))

    def lists() -> Iterator[list[Any]]:
        first = 0
        while first < n:
            last = int(np.searchsorted(matrix.indptr, matrix.indptr[first] + _AT_ONCE, side="right")) - 1
            last = min(max(last, first + 1), n)
            starts = matrix.indptr[first : last + 1]
            at = slice(starts[0], starts[-1])
            with np.errstate(over="ignore"):
                pairs = pa.StructArray.from_arrays(
                    [pa.array(matrix.indices[at].astype(np.int32)), pa.array(matrix.data[at].astype(np.float32))], ["index", "value"]
                )
            yield [pa.ListArray.from_arrays(pa.array((starts - starts[0]).astype(np.int32)), pairs)]
            first = last

    return Rows(n, width, None, {"columns": {"use": [_LIST]}}, [pa.field(_LIST, kind)], lists, 8 * matrix.nnz + 4 * n)


def _text_rows(texts: Any) -> Rows:
    array = pa.array(texts, pa.utf8(), from_pandas=True)

    def one() -> Iterator[list[Any]]:
        yield [array]

    return Rows(len(array), 1, None, {"text": _TEXT}, [pa.field(_TEXT, pa.utf8())], one, array.nbytes)


def _table_rows(table: Table, categorical: Categorical) -> Rows:
    columns = {name: _readable(column) for name, column in table.columns.items()}
    schema = [pa.field(name, column.type) for name, column in columns.items()]
    lists = [f.name for f in schema if is_list(f.type)]
    names = list(columns)
    words = [name for name, column in table.columns.items() if _has_words(column.type)] if categorical is None else _chosen(categorical, names)
    examples: dict[str, Any] = {"columns": {"use": names}, **({"categorical": words} if words else {})}
    whole = pa.table(columns).unify_dictionaries() if columns else pa.table({})

    def batches() -> Iterator[list[Any]]:
        for batch in whole.to_batches(max_chunksize=max(1, _AT_ONCE // max(1, len(names)))):
            yield batch.columns

    return Rows(table.rows, len(names), None if len(lists) == len(names) else names, examples, schema, batches, whole.nbytes)


def _has_words(kind: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind) or _is_view(kind))


def _is_view(kind: pa.DataType) -> bool:
    is_view = getattr(pa.types, "is_string_view", None)  # not of each release of pyarrow
    return bool(is_view and is_view(kind))


def _readable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column as a type that the program reads."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return pa.chunked_array(
            [
                pa.DictionaryArray.from_arrays(c.indices.cast(pa.int32()), _readable(pa.chunked_array([c.dictionary])).combine_chunks())
                for c in column.chunks
            ],
            pa.dictionary(pa.int32(), _readable(pa.chunked_array([], kind.value_type)).type),
        )
    if pa.types.is_float16(kind):
        return column.cast(pa.float32())
    if pa.types.is_decimal(kind) or pa.types.is_null(kind):
        return column.cast(pa.float64())
    if _is_view(kind):
        return column.cast(pa.large_utf8())
    return column


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


def names_of(width: int) -> list[str]:
    """Returns the names of columns that have none."""
    return [f"x{i}" for i in range(width)]


def is_texts(rows: Any) -> bool:
    """Reports whether rows are texts: a list, an array or a column of them."""
    if isinstance(rows, str | bytes) or hasattr(rows, "columns") or hasattr(rows, "column_names") or hasattr(rows, "tocsr"):
        return False
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        return bool(pa.types.is_string(rows.type) or pa.types.is_large_string(rows.type))
    if isinstance(rows, list | tuple):
        return len(rows) > 0 and all(isinstance(row, str) for row in rows)
    if isinstance(rows, np.ndarray) or hasattr(rows, "__array__") and getattr(rows, "ndim", len(getattr(rows, "shape", ()))) == 1:
        array = np.asarray(rows)
        return array.ndim == 1 and array.size > 0 and (array.dtype.kind == "U" or array.dtype.kind == "O" and all(isinstance(v, str) for v in array))
    return False


def is_table(rows: Any) -> bool:
    """Reports whether rows are a table of named columns."""
    if isinstance(rows, np.ndarray):
        return False
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):
        return True
    mappings = isinstance(rows, list | tuple) and len(rows) > 0 and all(hasattr(row, "keys") for row in rows)
    return mappings or hasattr(rows, "__arrow_c_stream__") or isinstance(rows, pa.Table | pa.RecordBatch)


def named_table(rows: Any) -> Table | None:
    """Returns the columns of a table; those of a data frame without names get names."""
    if hasattr(rows, "iloc") and not all(isinstance(name, str) for name in rows.columns):
        rows = rows.set_axis(names_of(len(rows.columns)), axis=1)
    return table_of(rows, [])


def rows_of(rows: Any, categorical: Categorical) -> Rows:
    """Returns what is to be handed over of rows: a table, an array (n × d), a sparse matrix or texts."""
    if hasattr(rows, "tocsr"):
        return _sparse_rows(rows)
    if is_texts(rows):
        return _text_rows(rows)
    if is_table(rows) and (table := named_table(rows)) is not None:
        return _table_rows(table, categorical)
    if rows.dtype.kind in "OUT":  # words, or numbers and words
        from .rows import columns_of

        return _table_rows(columns_of(rows, names_of(rows.shape[1])), categorical)
    return _array_rows(rows, categorical)


def free(name: str, taken: Sequence[str]) -> str:
    """Returns a name for a column that no other has."""
    while name in taken:
        name += "_"
    return name


def write(path: str | os.PathLike[str], rows: Rows, others: Sequence[tuple[str, Any]]) -> None:
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
