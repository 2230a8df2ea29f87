"""The rows that callers have: a table of named columns, or an array."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa

from .values import word_of

_EXPECTED = "expected a table, or a list of rows"


@dataclass(frozen=True)
class Table:
    """Columns by their names."""

    columns: Mapping[str, pa.ChunkedArray]  # those that are of use
    names: Sequence[str]  # of all columns that there are
    rows: int


def table_of(rows: Any, wanted: Sequence[str]) -> Table | None:
    """Returns the columns of a table that are wanted, all if none is; None for rows whose columns have no names.

    Columns that nobody wants may have whatever they have.
    """
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    if isinstance(rows, pa.Table):
        return _chosen(rows.column_names, wanted, rows.num_rows, lambda name: rows.column(rows.column_names.index(name)))
    refuse(rows)
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):  # a data frame of pandas
        names = list(rows.columns)
        texts = [isinstance(name, str) for name in names]
        if not all(texts):
            if any(texts) or any(isinstance(name, tuple) for name in names):
                raise ValueError(f"the table has a column named {names[texts.index(False)]!r}: expected texts as names")
            return None
        return _chosen(names, wanted, len(rows), lambda name: _column(name, rows[name]))
    if hasattr(rows, "__arrow_c_stream__"):
        if hasattr(rows, "select") and hasattr(rows, "columns"):  # a data frame of polars, of whose columns some have no Arrow type
            names = list(rows.columns)
            return _chosen(names, wanted, len(rows), lambda name: pa.table(rows.select(name)).column(0))
        return table_of(pa.table(rows), wanted)
    if isinstance(rows, list | tuple) and rows and all(isinstance(row, Mapping) for row in rows):
        names = list(dict.fromkeys(name for row in rows for name in row))
        return _chosen(names, wanted, len(rows), lambda name: _column(name, [row.get(name) for row in rows]), absent=True)
    return None


def lists_of(rows: Any) -> Table | None:
    """Returns all columns of a table of which one has lists, such as a column `features`; None if there is none."""
    try:
        table = table_of(rows, [])
    except ValueError:
        return None
    return table if table and any(is_list(column.type) for column in table.columns.values()) else None


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _chosen(names: Sequence[str], wanted: Sequence[str], rows: int, column: Any, absent: bool = False) -> Table:
    """absent says that a column that is not there is missing in each row."""
    columns: dict[str, Any] = {}
    for name in wanted or names:
        if names.count(name) > 1:
            raise ValueError(f"the table has {names.count(name)} columns {name!r}")
        if name in names or absent and any(other in names for other in wanted):
            values = column(name)
            columns[name] = values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
    return Table(columns, names, rows)


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
    if isinstance(rows, list | tuple):
        if not rows:
            raise ValueError(f"rows are an empty {type(rows).__name__}: {_EXPECTED}")
        lengths = [len(row) if hasattr(row, "__len__") and not isinstance(row, str | bytes | Mapping) else -1 for row in rows]
        if -1 in lengths and any(n != -1 for n in lengths):
            at = lengths.index(-1)
            raise ValueError(f"row {at} is a {type(rows[at]).__name__}, others are lists of values")
        if -1 in lengths and not all(isinstance(row, str | bytes | int | float | np.number | None) for row in rows):
            at = next(at for at, row in enumerate(rows) if not isinstance(row, str | bytes | int | float | np.number | None))
            raise ValueError(f"row {at} is of type {type(rows[at]).__name__}: expected a dict, or a list of values")
        if -1 in lengths:
            raise ValueError(f"rows are a list of {len(rows)} values, and not of rows; [rows] is a list of one row")
        for at, n in enumerate(lengths):
            if n != lengths[0]:
                raise ValueError(f"row {at} has {n} values, row 0 has {lengths[0]}")
    array = rows if isinstance(rows, np.ndarray) else np.asarray(rows)
    if array.dtype.kind == "U" and array is not rows:  # numbers among texts stay numbers
        array = np.asarray(rows, dtype=object)
    if array.ndim != 2 or array.dtype.names:
        raise ValueError(f"rows of shape {array.shape}, expected two dimensions{_hint(array)}")
    if array.dtype.kind not in "biufOU":
        raise ValueError(f"rows of type {array.dtype}: expected {'numbers, such as seconds' if array.dtype.kind in 'mM' else 'numbers or texts'}")
    return array


def _hint(array: Any) -> str:
    if array.dtype.names:
        return ": pandas.DataFrame(rows) is a table with the names of the fields"
    if array.ndim == 1 and len(array):
        return ": rows.reshape(1, -1) is a table of one row"
    if array.ndim > 2:
        return ": rows.reshape(len(rows), -1) has a row for each"
    return ""


def columns_of(array: Any, names: Sequence[str]) -> Table:
    """Returns the columns of an array with texts, which have these names."""
    return Table({name: pa.chunked_array([_column(name, array[:, i])]) for i, name in enumerate(names)}, names, len(array))


def _column(name: str, values: Any) -> Any:
    """Returns a column of whatever objects, in which numbers and words may be mixed."""
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
        try:
            text = None if _is_missing(value) else value if isinstance(value, str) else word_of(value)
            (text or "").encode()
        except (TypeError, ValueError) as reason:
            raise ValueError(f"row {row}, column {name!r}: {reason}; astype(str) makes words of a column") from reason
        texts.append(text)
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
