"""What callers have, as raw features (n × d)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .rows import Table, array_of, columns_of, is_list, lists_of, table_of
from .tensors import Matrix
from .times import PARTS, Times, times_of
from .values import Missing, number_of, spellings


@dataclass(frozen=True)
class Column:
    """A column of a table. One of words becomes a feature for each category, and one more for all other words; a part of times becomes one."""

    name: str
    categories: tuple[str, ...] = ()  # none: the column has numbers
    offset: float = 0  # what the numbers are less before they become float32
    time: str = ""  # the part of times that the numbers are; empty: they are none
    unit: str = ""  # of times that are numbers

    @property
    def source(self) -> str:
        """The name of the column that a table has the values in."""
        return self.name.removesuffix(f".{self.time}") if self.time else self.name

    @property
    def features(self) -> int:
        return len(self.categories) + 1 if self.categories else 1


class Layout:
    """Which columns of a table become which features."""

    def __init__(self, manifest: Mapping[str, Any], width: int) -> None:
        plan = manifest["plan"]
        self.columns = [_column(c) for c in manifest.get("columns") or []]  # empty: not known
        self.sources = list(dict.fromkeys(c.source for c in self.columns))  # the columns that a table has
        self._width = width  # d
        offsets = [offset for c in self.columns for offset in [c.offset, *[0.0] * (c.features - 1)]]
        self._offsets = np.array(offsets) if any(offsets) else None
        self._may_miss = plan["missing"] != "error"
        self._missing = Missing(plan["input"].get("missing_values"))

    def features(self, rows: Any) -> Matrix:
        """Returns the features of rows (n × d). A missing value is NaN."""
        table = table_of(rows, self.sources)
        if table is not None and not table.columns:
            table = lists_of(rows) or table
        array = array_of(rows) if table is None else self._of_table(table)
        given = array.dtype.kind in "OU" or array.shape[1] != self._width or any(c.time for c in self.columns)
        if table is None and array.shape[1] == len(self.sources) and given:
            array = self._of_table(columns_of(array, self.sources))
        if array.shape[1] != self._width:
            raise ValueError(f"rows of {array.shape[1]} values, expected {self._expected()}")
        if array.dtype.kind in "OU":
            array = _numbers_of(array, self._number, bool(self._missing.numbers.size))
        elif table is None and array.dtype.kind != "b" and not any(c.features > 1 or c.time for c in self.columns):
            array = self._missing.leave_out(array)
        if self._offsets is not None:
            array = array.astype(np.float64) - self._offsets
        return self._checked(array, table is not None or given)

    def _expected(self) -> str:
        if len(self.sources) in (0, self._width):
            return f"{self._width}"
        names = [*self.sources[:8], *(["…"] if len(self.sources) > 8 else [])]
        return f"the {len(self.sources)} columns of the training, {', '.join(names)}, or their {self._width} features"

    def _place(self, feature: int, named: bool) -> str:
        """Returns which feature it is, by the name of its column if the caller has that."""
        sources = [c.source for c in self.columns for _ in range(c.features)]
        return f"column {sources[feature]!r}" if named and len(sources) == self._width else f"feature {feature}"

    def _checked(self, array: Any, named: bool) -> Matrix:
        with np.errstate(over="ignore"):
            features: Matrix = array.astype(np.float32)
        if np.isinf(features).any():
            row, feature = np.argwhere(np.isinf(features))[0]
            raise ValueError(f"row {row}, {self._place(feature, named)}: {array[row, feature]} is not a finite float32")
        if not self._may_miss and np.isnan(features).any():
            row, feature = np.argwhere(np.isnan(features))[0]
            raise ValueError(f"row {row}, {self._place(feature, named)}: a missing value, but the model was trained with examples.missing: error")
        return features

    def _of_table(self, table: Table) -> Any:
        columns = table.columns
        absent = [name for name in self.sources if name not in columns]
        lists = [name for name, column in columns.items() if is_list(column.type)]
        if len(lists) == 1 and (absent or not self.columns):
            return self._of_lists(lists[0], columns[lists[0]])
        if not self.columns:
            return np.column_stack([self._numbers(name, column) for name, column in columns.items()])
        if absent:
            raise ValueError(f"the table lacks columns that the model needs: {', '.join(absent)}; it has {', '.join(table.names)}")
        features = np.empty((table.rows, self._width))
        at, times = 0, {c.source: self._times(c, columns[c.source]) for c in {c.source: c for c in self.columns if c.time}.values()}
        for column in self.columns:
            own = features[:, at : at + column.features]
            if column.time:
                own[:, 0] = times[column.source].part(column.time)
            elif column.categories:
                self._categories(column, columns[column.name], own)
            else:
                own[:, 0] = self._numbers(column.name, columns[column.name])
            at += column.features
        return features

    def _of_lists(self, name: str, column: pa.ChunkedArray) -> Any:
        lengths = pc.list_value_length(column).to_pylist()
        for row, length in enumerate(lengths):
            if length != self._width:
                has = "no list" if length is None else f"a list of length {length}"
                raise ValueError(f"row {row}, column {name!r}: {has}, expected {self._width} features")
        return self._numbers(name, pc.list_flatten(column)).reshape(-1, self._width)

    def _numbers(self, name: str, column: pa.ChunkedArray) -> Any:
        kind = _type_of(column)
        if _is_text(kind) or pa.types.is_dictionary(column.type):
            return _each(name, column, self._number)
        try:
            numbers = column.cast(pa.float64(), safe=False).to_numpy()
            return numbers if pa.types.is_boolean(kind) else self._missing.leave_out(numbers)
        except pa.ArrowException as reason:
            seconds = ", such as seconds" if pa.types.is_temporal(kind) else ""
            raise ValueError(f"column {name!r} of type {kind}: expected numbers{seconds}") from reason

    def _times(self, of: Column, column: pa.ChunkedArray) -> Times:
        name = of.source
        kind = _type_of(column)
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not numeric and not _is_text(kind) and not pa.types.is_null(kind) and not pa.types.is_date(kind) and not pa.types.is_timestamp(kind):
            raise ValueError(f"column {name!r} of type {kind}: expected dates, times, text or numbers")
        return times_of(column, lambda number: _each(name, column, number), self._missing, of.unit)

    def _number(self, value: Any) -> float:
        if value is None or self._missing.has_number(value):
            return np.nan
        return number_of(value) if isinstance(value, str) else float(value)

    def _categories(self, column: Column, values: pa.ChunkedArray, features: Any) -> None:
        """Writes 1 at the feature of a word, 0 at the others, and NaN at all of them if it is missing."""
        kind = _type_of(values)
        numeric = pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not numeric and not _is_text(kind) and not pa.types.is_null(kind):
            raise ValueError(f"column {column.name!r} of type {kind}: expected words, numbers or booleans")
        places = {word: place for place, word in enumerate(column.categories)}

        def place_of(value: Any) -> float:
            if self._missing.has(value):
                return np.nan
            return next((places[word] for word in spellings(value) if word in places), len(column.categories))

        at = _each(column.name, values, place_of)
        missing = np.isnan(at)
        features[:] = 0
        features[np.arange(len(at)), np.where(missing, 0, at).astype(np.int64)] = 1
        features[missing] = np.nan


def _each(name: str, column: pa.ChunkedArray, number: Callable[[Any], float]) -> Any:
    """Returns the number of each value of a column, NaN for a null. It asks once for each value that occurs."""
    if pa.types.is_null(column.type):
        return np.full(len(column), np.nan)
    encoded = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if not isinstance(encoded, pa.DictionaryArray):
        encoded = encoded.dictionary_encode()
    places = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    numbers = np.full(len(encoded.dictionary) + 1, np.nan)
    used = np.zeros(len(numbers), dtype=bool)  # a dictionary may have words that no row has
    used[places] = True
    for place in np.flatnonzero(used[:-1]):
        value = encoded.dictionary[int(place)].as_py()
        try:
            if value is not None:
                numbers[place] = number(value.decode() if isinstance(value, bytes) else value)
        except (TypeError, ValueError) as reason:
            row = int(np.flatnonzero(places == place)[0])
            raise ValueError(f"row {row}, column {name!r}: {reason}") from reason
    return numbers[places]


def _numbers_of(array: Any, number: Callable[[Any], float], one_by_one: bool) -> Any:
    """Returns an array of objects or texts as numbers."""
    if not one_by_one and array.dtype.kind == "O" and not np.frompyfunc(lambda value: isinstance(value, str), 1, 1)(array).any():
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError):
            pass  # the loop finds where
    numbers = np.empty(array.shape)
    for row, column in np.ndindex(array.shape):
        value = array[row, column]
        try:
            numbers[row, column] = number(value)
        except (TypeError, ValueError) as reason:
            raise ValueError(f"row {row}, feature {column}: {reason}") from reason
    return numbers


def _column(content: Any) -> Column:
    if isinstance(content, str):
        return Column(content)
    column = Column(content["name"], tuple(content.get("categories") or ()), content.get("offset", 0), content.get("time", ""), content.get("unit", ""))
    if column.time and column.time not in PARTS:
        raise ValueError(f"times of column {column.name!r} have no part {column.time!r}: the package is older than the model")
    return column


def _is_text(kind: pa.DataType) -> bool:
    views = getattr(pa.types, "is_string_view", None), getattr(pa.types, "is_binary_view", None)  # not of each release of pyarrow
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary, *(v for v in views if v))
    return any(is_one(kind) for is_one in texts)


def _type_of(column: pa.ChunkedArray) -> pa.DataType:
    """Returns the type of the values of a column, whether they have a dictionary or not."""
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type
