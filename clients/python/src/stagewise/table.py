"""What callers have, as raw features (n × d)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .tensors import Matrix

# The words that data frames and spreadsheets write for a missing value, if the plan names no others.
_MISSING = ("NA", "N/A", "NaN", "nan", "null", "NULL")


@dataclass(frozen=True)
class Column:
    """A column of a table. One of words becomes a feature for each category, and one more for all other words."""

    name: str
    categories: tuple[str, ...] = ()  # none: the column has numbers

    @property
    def features(self) -> int:
        return len(self.categories) + 1 if self.categories else 1


class Layout:
    """Which columns of a table become which features."""

    def __init__(self, manifest: Mapping[str, Any], width: int) -> None:
        plan = manifest["plan"]
        self.columns = [_column(c) for c in manifest.get("columns") or []]  # empty: not known
        self._width = width  # d
        self._may_miss = plan["missing"] != "error"
        self._missing = pa.array(["", *(plan["input"].get("missing_values") or _MISSING)])

    def features(self, rows: Any) -> Matrix:
        """Returns the features of rows (n × d). A missing value is NaN."""
        table = _table(rows)
        array = rows if table is None else self._of_table(table)
        if not isinstance(array, np.ndarray):
            array = np.asarray(array)
        if array.ndim != 2:
            raise ValueError(f"rows of shape {array.shape}, expected two dimensions: rows.reshape(1, -1) is a table of one row")
        if self.columns and array.dtype.kind in "OUS" and array.shape[1] == len(self.columns):
            names = [c.name for c in self.columns]
            array = self._of_table(pa.table([_words_or_numbers(array[:, i]) for i in range(len(names))], names=names))
        if array.shape[1] != self._width:
            raise ValueError(f"rows of {array.shape[1]} features, expected {self._expected()}")
        return self._checked(array)

    def _expected(self) -> str:
        if len(self.columns) in (0, self._width):
            return f"{self._width}"
        return f"{self._width}, or a table of the {len(self.columns)} columns of the training"

    def _checked(self, array: Any) -> Matrix:
        with np.errstate(over="ignore"):
            features: Matrix = array.astype(np.float32)
        if np.isinf(features).any():
            row, feature = np.argwhere(np.isinf(features))[0]
            raise ValueError(f"row {row}, feature {feature}: {array[row, feature]} is not a finite float32")
        if not self._may_miss and np.isnan(features).any():
            row, feature = np.argwhere(np.isnan(features))[0]
            raise ValueError(f"row {row}, feature {feature}: a missing value, but the model was trained with examples.missing: error")
        return features

    def _of_table(self, table: pa.Table) -> Any:
        absent = [c.name for c in self.columns if c.name not in table.column_names]
        lists = [name for name in table.column_names if _is_list(table.schema.field(name).type)]
        if len(lists) == 1 and (absent or not self.columns):
            return self._of_lists(lists[0], table[lists[0]])
        if not self.columns:
            return np.column_stack([self._numbers(name, table[name]) for name in table.column_names])
        if absent:
            raise ValueError(f"the table lacks columns that the model needs: {', '.join(absent)}; it has {', '.join(table.column_names)}")
        features = np.empty((table.num_rows, self._width))
        at = 0
        for column in self.columns:
            own = features[:, at : at + column.features]
            if column.categories:
                self._categories(column, table[column.name], own)
            else:
                own[:, 0] = self._numbers(column.name, table[column.name])
            at += column.features
        return features

    def _of_lists(self, name: str, column: pa.ChunkedArray) -> Any:
        lengths = pc.unique(pc.list_value_length(column)).to_pylist()
        if lengths not in ([], [self._width]):
            raise ValueError(f"column {name!r} has lists of length {lengths[0]}, expected {self._width} features")
        return self._numbers(name, pc.list_flatten(column)).reshape(-1, self._width)

    def _numbers(self, name: str, column: pa.ChunkedArray) -> Any:
        try:
            column = _decoded(column)
            if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
                column = self._words(column)
            return column.cast(pa.float64(), safe=False).to_numpy()
        except pa.ArrowException as reason:
            raise ValueError(f"column {name!r}: expected numbers: {reason}") from reason

    def _categories(self, column: Column, values: pa.ChunkedArray, features: Any) -> None:
        """Writes 1 at the feature of a word, 0 at the others, and NaN at all of them if it is missing."""
        words = self._words(_text(column.name, _decoded(values)))
        at = pc.fill_null(pc.index_in(words, value_set=pa.array(column.categories)), len(column.categories)).to_numpy()
        features[:] = 0
        features[np.arange(len(at)), at] = 1
        features[words.is_null().to_numpy()] = np.nan

    def _words(self, text: pa.ChunkedArray) -> pa.ChunkedArray:
        """Returns words without the space around them, and null for those that say that a value is missing."""
        words = pc.utf8_trim_whitespace(text.cast(pa.utf8()))
        return pc.if_else(pc.is_in(words, value_set=self._missing), pa.scalar(None, pa.utf8()), words)


def _column(content: Any) -> Column:
    if isinstance(content, str):
        return Column(content)
    return Column(content["name"], tuple(content["categories"]))


def _table(rows: Any) -> pa.Table | None:
    """Returns a table with names; None for what has none."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if hasattr(rows, "iloc") and hasattr(rows, "columns"):  # a data frame of pandas
        if not all(isinstance(name, str) for name in rows.columns):
            return None
        return pa.Table.from_pandas(rows, preserve_index=False)
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    return None


def _words_or_numbers(column: Any) -> pa.Array:
    """Returns a column of an array of objects, in which numbers and words are mixed."""
    try:
        return pa.array(column, from_pandas=True)
    except pa.ArrowException:
        return pa.array([None if value is None or value != value else str(value) for value in column], pa.utf8())


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _text(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns a column of words. Whole numbers are words too, also if a data frame has made them float because some are missing."""
    try:
        if pa.types.is_floating(column.type):
            column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column).cast(pa.int64())
        return column.cast(pa.utf8())
    except pa.ArrowException as reason:
        raise ValueError(f"column {name!r}: expected words or whole numbers: {reason}") from reason
