"""The rows that callers have, as Arrow has them: tables of named columns, arrays, sparse matrices and texts. The program says what a value means."""

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

# The kinds of arrays of words, or of numbers and words.
WORDS = "OUT"

# So many bytes of rows are converted at a time, so that memory has no second copy of the rows.
_AT_ONCE = 8 << 20

_EXPECTED = "expected a table, or a list of rows"


@dataclass
class Rows:
    """Rows that become columns of Arrow a part at a time, so that memory has no second copy of them."""

    of: Any  # a table of Arrow, an array or a sparse matrix
    size: int  # how many bytes they have, about
    table: Callable[[Any], pa.Table]  # returns a part of them as a table
    beside: dict[str, Any] = field(default_factory=dict)  # other columns: labels and weights

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self.table(self.of[:0]).schema

    def parts(self, beside: int = 0) -> Iterator[pa.Table]:
        """Yields the rows, some megabytes at a time. beside are the bytes that a row has elsewhere."""
        count = self.of.shape[0]
        step = max(1, _AT_ONCE // max(1, self.size // max(1, count) + beside))
        for first in range(0, count, step):
            yield self.table(self.of[first : first + step]).combine_chunks()

    def write(self, file: Any) -> None:
        """Writes the rows to a file, and the columns beside them."""
        beside, first = pa.table(self.beside), 0
        schema = pa.schema([*self.schema, *beside.schema])
        with pa.ipc.new_file(file, schema) as writer:
            for part in self.parts():
                writer.write_table(pa.table([*part.columns, *beside.slice(first, len(part)).columns], schema=schema))
                first += len(part)


def kind_of(rows: Any) -> str:
    """Returns what rows are: "sparse", "texts", "table" or "array". It raises an error for what is no rows."""
    if type(rows).__name__ == "LazyFrame":
        raise ValueError("rows are a LazyFrame: rows.collect() is a table")
    if hasattr(rows, "tocsr"):
        return "sparse"
    if _is_texts(rows):
        return "texts"
    if rows is None or isinstance(rows, str | bytes | int | float | np.number):
        raise ValueError(f"rows are {rows!r}: {_EXPECTED}")
    if isinstance(rows, Mapping):
        raise ValueError(f"rows are a {type(rows).__name__}: {_EXPECTED}. [row] is a list of one row")
    if hasattr(rows, "name") and hasattr(rows, "to_frame"):  # a Series of pandas or polars
        one = "rows.to_frame().T" if hasattr(rows, "iloc") else "rows.to_frame().transpose()"
        raise ValueError(f"rows are a Series: {_EXPECTED}. {one} is a table of one row, and rows.to_frame() of one column")
    if isinstance(rows, list | tuple):
        return "table" if rows and all(isinstance(row, Mapping) for row in rows) else "array"
    if not isinstance(rows, np.ndarray) and (is_frame(rows) or isinstance(rows, pa.RecordBatch) or hasattr(rows, "__arrow_c_stream__")):
        return "table"
    if not hasattr(rows, "__array__") and not isinstance(rows, Sequence):
        raise ValueError(f"rows are of type {type(rows).__name__}: {_EXPECTED}")
    return "array"


def _is_texts(rows: Any) -> bool:
    """Reports whether rows are a list, an array or a column of texts."""
    if isinstance(rows, list | tuple):
        return len(rows) > 0 and all(isinstance(row, str) for row in rows)
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        return bool(pa.types.is_string(rows.type) or pa.types.is_large_string(rows.type))
    if hasattr(rows, "columns") or not hasattr(rows, "__array__") or len(getattr(rows, "shape", ())) != 1:
        return False
    array = np.asarray(rows)
    return array.size > 0 and (array.dtype.kind == "U" or array.dtype.kind == "O" and all(isinstance(value, str) for value in array))


def is_frame(rows: Any) -> bool:
    """Reports whether rows are a data frame of pandas."""
    return hasattr(rows, "iloc") and hasattr(rows, "columns")


def has_names(frame: Any) -> bool:
    """Reports whether the columns of a data frame of pandas have names. Names that are no texts, but for numbers of all columns, are refused."""
    texts = [isinstance(name, str) for name in frame.columns]
    if not all(texts) and (any(texts) or any(isinstance(name, tuple) for name in frame.columns)):
        raise ValueError(f"the table has a column named {frame.columns[texts.index(False)]!r}: expected texts as names")
    return all(texts)


def names_of(width: int) -> list[str]:
    """Returns the names of columns that have none."""
    return [f"x{i}" for i in range(width)]


def table_rows(columns: Mapping[str, Any]) -> Rows:
    """Returns the rows of a table."""
    table = pa.table(dict(columns))
    for i, one in enumerate(table.schema):  # the program does not read views
        if pa.types.is_string_view(one.type):
            table = table.set_column(i, one.name, table.column(i).cast(pa.large_utf8()))
        elif pa.types.is_dictionary(one.type) and pa.types.is_string_view(one.type.value_type):
            table = table.set_column(i, one.name, table.column(i).cast(pa.dictionary(pa.int32(), pa.large_utf8())))
    table = table.unify_dictionaries() if columns else table
    return Rows(table, table.nbytes, lambda part: part)


def array_rows(array: npt.NDArray[Any], names: Sequence[str] | None, narrow: bool = False) -> Rows:
    """Returns the rows of an array (n × d), as columns with these names. None: numbers as one column of vectors, which are float32 if they are
    narrow."""
    if names is not None and array.dtype.kind in WORDS:
        return table_rows({name: _column(name, array[:, i]) for i, name in enumerate(names)})
    array = native(array)

    def table(part: npt.NDArray[Any]) -> pa.Table:
        with np.errstate(over="ignore"):
            part = part.astype(np.float32) if narrow or part.dtype.kind == "b" else part
        if names is None:
            return pa.table({LIST: pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), part.shape[1])})
        return pa.table({name: pa.array(np.ascontiguousarray(part[:, j]), from_pandas=True) for j, name in enumerate(names)})

    return Rows(array, array.nbytes, table)


def sparse_rows(matrix: Any) -> Rows:
    """Returns the rows of a sparse matrix of scipy, or of an array of many zeros, as lists of index and value."""
    from scipy.sparse import csr_matrix

    matrix = csr_matrix(matrix)
    if not matrix.has_sorted_indices or not matrix.has_canonical_format:
        matrix = matrix.copy()  # that of the caller stays as it is
        matrix.sum_duplicates()

    def table(part: Any) -> pa.Table:
        with np.errstate(over="ignore"):
            pairs = [pa.array(part.indices.astype(np.int32)), pa.array(part.data.astype(np.float32))]
        lists = pa.ListArray.from_arrays(pa.array(part.indptr.astype(np.int32)), pa.StructArray.from_arrays(pairs, ["index", "value"]))
        return pa.table({LIST: lists})

    return Rows(matrix, 8 * matrix.nnz + 4 * matrix.shape[0], table)


def text_rows(texts: Any, name: str = TEXT) -> Rows:
    """Returns rows of one text each."""
    texts = texts.to_pylist() if hasattr(texts, "to_pylist") else list(texts)
    for row, one in enumerate(texts):
        if not isinstance(one, str):
            raise ValueError(f"row {row}: {one!r} is no text: the model was trained on texts")
    return table_rows({name: pa.array(texts, pa.utf8())})


def table_of(rows: Any, wanted: Sequence[str] = ()) -> dict[str, Any]:
    """Returns the columns of a table. Beside those that are wanted, if any, it may have others of whatever. A path may be within a column."""
    column: Callable[[str], Any]
    if isinstance(rows, list | tuple):
        names = list(dict.fromkeys(name for row in rows for name in row))
        if any(_top(name, names) in names for name in wanted):  # a key that no row has is missing in each
            names += [name for name in wanted if _top(name, names) not in names]
        column = lambda name: _column(name, [row.get(name) for row in rows])
    elif is_frame(rows):
        names, column = list(rows.columns), lambda name: _column(name, rows[name])
    elif type(rows).__module__.startswith("polars"):  # some columns of polars have no Arrow type
        names, column = rows.columns, lambda name: pa.table(rows.select(name)).column(0)
    else:
        table = pa.table(rows)
        names, column = table.column_names, table.column
    columns: dict[str, Any] = {}
    for name in [_top(name, names) for name in wanted] or names:
        if names.count(name) > 1:
            raise ValueError(f"the table has {names.count(name)} columns {name!r}")
        if name in names and name not in columns:
            columns[name] = column(name)
    return columns


def _top(name: str, names: Sequence[str]) -> str:
    """Returns the column of a table that has the values of a name."""
    return name if name in names or name.partition(".")[0] not in names else name.partition(".")[0]


def unmasked(rows: Any) -> Any:
    """Returns rows in which masked values are missing."""
    return np.ma.filled(rows.astype(np.float64), np.nan) if isinstance(rows, np.ma.MaskedArray) else rows


def array_of(rows: Any) -> Any:
    """Returns rows without names as an array (n × d)."""
    rows = unmasked(rows)
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


def _column(name: str, values: Any) -> Any:
    """Returns a column of whatever objects. Numbers and words side by side are texts, and so the program reads them."""
    values = _known(values)
    try:
        return pa.array(values, from_pandas=True)
    except (OverflowError, pa.ArrowException, UnicodeError):
        pass
    values = [None if _is_missing(value) else value for value in values]
    if all(value is None or isinstance(value, Number) and not isinstance(value, bool | complex) for value in values):
        if any(isinstance(value, int) and not -(1 << 63) <= value < 1 << 64 for value in values):
            raise ValueError(f"column {name!r} has integers of more than 64 bits: astype(float) makes them numbers, astype(str) makes them words")
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    for row, value in enumerate(values):
        if not isinstance(value, str | bytes | bool | int | float | np.generic | None):
            found = f"{value!r} is a {type(value).__name__}, expected a text, a number or a boolean"
            raise ValueError(f"row {row}, column {name!r}: {found}; astype(str) makes words of a column")
    texts = (value.decode() if isinstance(value, bytes) else None if value is None else str(value) for value in values)
    try:
        return pa.array(texts, pa.utf8())
    except UnicodeError as reason:
        raise ValueError(f"column {name!r}: {reason}; astype(str) makes words of a column") from reason


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
