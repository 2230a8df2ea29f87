"""The rows that callers have, as Arrow has them: tables of named columns, arrays, sparse matrices and texts. What a value means is up to the program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

# The columns of texts, and of vectors.
TEXT = "text"
LIST = "features"

# How many values are converted at a time, so that memory has no second copy of the rows.
_AT_ONCE = 1 << 20

_EXPECTED = "expected a table, or a list of rows"


@dataclass
class Rows:
    """Rows as columns of Arrow, a batch at a time."""

    count: int
    schema: list[pa.Field]
    batches: Callable[[], Iterator[list[Any]]] = field(repr=False)
    size: int  # how many bytes they have, about


def table_rows(columns: Mapping[str, pa.ChunkedArray], count: int) -> Rows:
    """Returns the rows of a table."""
    readable = {name: _readable(column) for name, column in columns.items()}
    whole = pa.table(readable).unify_dictionaries() if readable else pa.table({})
    step = max(1, _AT_ONCE // max(1, len(readable)))

    def batches() -> Iterator[list[Any]]:
        for batch in whole.to_batches(max_chunksize=step):
            yield batch.columns

    return Rows(count, [pa.field(name, column.type) for name, column in readable.items()], batches, whole.nbytes)


def array_rows(array: npt.NDArray[Any], names: Sequence[str]) -> Rows:
    """Returns the rows of an array of numbers (n × d), as columns with these names."""
    array = native(array)
    n, width = array.shape
    step = max(1, _AT_ONCE // max(1, width))
    small = array.dtype == np.float16 or array.dtype.itemsize == 1
    number = pa.float32() if small else pa.from_numpy_dtype(array.dtype)

    def columns() -> Iterator[list[Any]]:
        for i in range(0, n, step):
            part = array[i : i + step]
            yield [pa.array(np.ascontiguousarray(part[:, j]), number, from_pandas=True, safe=False) for j in range(width)]

    return Rows(n, [pa.field(name, number) for name in names], columns, 8 * n * width)


def vector_rows(array: npt.NDArray[Any], narrow: bool = False) -> Rows:
    """Returns the rows of an array of numbers (n × d) as one column of vectors, whose numbers keep their type or are float32 if it is narrow."""
    array = native(array)
    n, width = array.shape
    dtype = np.dtype(np.float32) if narrow or array.dtype == np.float16 or array.dtype.kind == "b" else array.dtype
    step = max(1, _AT_ONCE // max(1, width))

    def vectors() -> Iterator[list[Any]]:
        for i in range(0, n, step):
            with np.errstate(over="ignore"):
                values = np.ascontiguousarray(array[i : i + step], dtype=dtype)
            yield [pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), width)]

    return Rows(n, [pa.field(LIST, pa.list_(pa.from_numpy_dtype(dtype), width))], vectors, dtype.itemsize * n * width)


def sparse_rows(matrix: Any) -> Rows:
    """Returns the rows of a sparse matrix of scipy, as lists of index and value."""
    matrix = matrix.tocsr()
    if not matrix.has_sorted_indices or not matrix.has_canonical_format:
        matrix = matrix.copy()  # that of the caller stays as it is
        matrix.sum_duplicates()
    n = matrix.shape[0]
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

    return Rows(n, [pa.field(LIST, kind)], lists, 8 * matrix.nnz + 4 * n)


def text_rows(texts: Any, name: str = TEXT) -> Rows:
    """Returns rows of one text each."""
    array = pa.array(texts, pa.utf8(), from_pandas=True)
    return table_rows({name: array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])}, len(array))


def table_of(rows: Any, wanted: Sequence[str] = ()) -> tuple[dict[str, pa.ChunkedArray], int] | None:
    """Returns the columns of a table, and its number of rows; None for rows whose columns have no names. If some columns are wanted, others may
    have whatever they have. A name that is a path may be within a column."""
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return _chosen(rows.column_names, wanted, lambda name: rows.column(rows.column_names.index(name))), rows.num_rows
    refuse(rows)
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):  # a data frame of pandas
        names = list(rows.columns)
        texts = [isinstance(name, str) for name in names]
        if not all(texts):
            if any(texts) or any(isinstance(name, tuple) for name in names):
                raise ValueError(f"the table has a column named {names[texts.index(False)]!r}: expected texts as names")
            return None
        return _chosen(names, wanted, lambda name: _column(name, rows[name])), len(rows)
    if hasattr(rows, "__arrow_c_stream__"):
        if hasattr(rows, "select") and hasattr(rows, "columns"):  # a data frame of polars, of whose columns some have no Arrow type
            return _chosen(list(rows.columns), wanted, lambda name: pa.table(rows.select(name)).column(0)), len(rows)
        return table_of(pa.table(rows), wanted)
    if isinstance(rows, list | tuple) and rows and all(isinstance(row, Mapping) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        chosen = _chosen(names, wanted, lambda name: _column(name, [row.get(name) for row in rows]))
        if chosen:  # a key that no row has is missing in each
            chosen.update({name: _column(name, [None] * len(rows)) for name in wanted if _top(name, names) not in chosen})
        return chosen, len(rows)
    return None


def _chosen(names: Sequence[str], wanted: Sequence[str], column: Callable[[str], Any]) -> dict[str, pa.ChunkedArray]:
    columns: dict[str, Any] = {}
    for name in [_top(name, names) for name in wanted] or names:
        if names.count(name) > 1:
            raise ValueError(f"the table has {names.count(name)} columns {name!r}")
        if name in names and name not in columns:
            values = column(name)
            columns[name] = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    return columns


def _top(name: str, names: Sequence[str]) -> str:
    """Returns the column of a table that has the values of a name."""
    return name if name in names or name.partition(".")[0] not in names else name.partition(".")[0]


def refuse(rows: Any) -> None:
    """Raises an error for what is no table and no rows."""
    if rows is None or isinstance(rows, str | bytes | int | float | np.number):
        raise ValueError(f"rows are {rows!r}: {_EXPECTED}")
    if isinstance(rows, Mapping):
        raise ValueError(f"rows are a {type(rows).__name__}: {_EXPECTED}. [row] is a list of one row")
    if type(rows).__name__ == "LazyFrame":
        raise ValueError("rows are a LazyFrame: rows.collect() is a table")
    if hasattr(rows, "name") and hasattr(rows, "to_frame"):  # a Series of pandas or polars
        one = "rows.to_frame().T" if hasattr(rows, "iloc") else "rows.to_frame().transpose()"
        raise ValueError(f"rows are a Series: {_EXPECTED}. {one} is a table of one row, and rows.to_frame() of one column")
    if hasattr(rows, "tocsr"):
        raise ValueError("rows are a sparse matrix, but the model was trained on dense rows: rows.toarray() has them")
    if not hasattr(rows, "__array__") and not isinstance(rows, Sequence) and not hasattr(rows, "__arrow_c_stream__"):
        raise ValueError(f"rows are of type {type(rows).__name__}: {_EXPECTED}")


def array_of(rows: Any) -> Any:
    """Returns rows without names as an array (n × d)."""
    if isinstance(rows, np.ma.MaskedArray):  # a value that is masked is missing
        rows = np.ma.filled(rows.astype(np.float64), np.nan)
    if isinstance(rows, list | tuple) and len(lengths := {len(r) for r in rows if hasattr(r, "__len__")}) > 1:
        raise ValueError(f"rows of {', '.join(map(str, sorted(lengths)))} values: expected as many in each row")
    array = rows if isinstance(rows, np.ndarray) else np.asarray(rows)
    if array.dtype.kind == "U" and array is not rows:  # numbers among texts stay numbers
        array = np.asarray(rows, dtype=object)
    if array.ndim != 2 or array.dtype.names:
        hint = "rows.reshape(len(rows), -1) has a row for each" if array.ndim > 2 else "[rows] is a list of one row"
        if array.dtype.names:
            hint = "pandas.DataFrame(rows) is a table with the names of the fields"
        raise ValueError(f"rows of shape {array.shape}, expected two dimensions: {hint}")
    if array.dtype.kind not in "biufOU":
        raise ValueError(f"rows of type {array.dtype}: expected {'numbers, such as seconds' if array.dtype.kind in 'mM' else 'numbers or texts'}")
    return array


def columns_of(array: Any, names: Sequence[str]) -> dict[str, pa.ChunkedArray]:
    """Returns the columns of an array of objects or texts, with these names."""
    return {name: pa.chunked_array([_column(name, array[:, i])]) for i, name in enumerate(names)}


def _column(name: str, values: Any) -> Any:
    """Returns a column of whatever objects. Numbers and words side by side are texts, and so the program reads them."""
    values = _known(values)
    try:
        return pa.array(values, from_pandas=True)
    except (OverflowError, pa.ArrowException, UnicodeError):
        pass
    there = [value for value in values if not _is_missing(value)]
    if all(isinstance(value, Number) and not isinstance(value, bool | complex) for value in there):
        if any(isinstance(value, int) and not -(1 << 63) <= value < 1 << 64 for value in there):
            raise ValueError(f"column {name!r} has integers of more than 64 bits: astype(float) makes them numbers, astype(str) makes them words")
        return pa.array([None if _is_missing(value) else float(value) for value in values], pa.float64())
    texts: list[str | None] = []
    for row, value in enumerate(values):
        if not _is_missing(value) and not isinstance(value, str | bytes | bool | int | float | np.generic):
            kind = type(value).__name__
            raise ValueError(f"row {row}, column {name!r}: {value!r} is a {kind}, expected a text, a number or a boolean; astype(str) makes words of a column")
        try:
            texts.append(None if _is_missing(value) else value.decode() if isinstance(value, bytes) else str(value))
            (texts[-1] or "").encode()
        except UnicodeError as reason:
            raise ValueError(f"row {row}, column {name!r}: {reason}; astype(str) makes words of a column") from reason
    return pa.array(texts, pa.utf8())


def _known(values: Any) -> Any:
    """Returns a column of pandas or numpy as one of types that Arrow has. Of intervals, and of categories that are no words or numbers, the words are
    their texts."""
    if isinstance(getattr(values, "dtype", None), np.dtype):
        return native(np.asarray(values)) if values.dtype.kind in "iufmM" else values
    if hasattr(values, "cat") and values.cat.categories.dtype.name.startswith(("datetime", "interval", "period", "timedelta")):
        return values.cat.rename_categories(str)
    if str(getattr(values, "dtype", "")).startswith("interval"):
        return values.astype(object).map(str, na_action="ignore")
    return values


def native(array: Any) -> Any:
    """Returns an array of numbers as Arrow and the program read them: in the order of bytes of this machine, and at most 64 bits wide."""
    wide = array.dtype.kind == "f" and array.dtype.itemsize > 8
    return array.astype(np.float64 if wide else array.dtype.newbyteorder("="), copy=False)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return type(value).__name__ == "NAType"  # of pandas, whose comparisons are neither true nor false


def _readable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column as a type that the program reads."""
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
        return column.cast(pa.dictionary(pa.int32(), pa.large_utf8()))
    if pa.types.is_string_view(kind):
        return column.cast(pa.large_utf8())
    return column.cast(pa.float64()) if pa.types.is_null(kind) else column


def has_text(kind: pa.DataType) -> bool:
    """Reports whether a column has texts, or a category of whatever type."""
    return bool(pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_list(kind: pa.DataType) -> bool:
    """Reports whether a column has lists."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


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
