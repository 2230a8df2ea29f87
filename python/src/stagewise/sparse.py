"""Sparse rows: of each only the features that are not 0. Models of texts, and of LIBSVM files, are of such rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .answers import Answers
from .errors import DamagedError
from .members import Members
from .rows import array_of, refuse, table_of
from .tensors import Matrix, Tensor, shaped
from .words import Words

_EXPECTED = "expected a sparse matrix of scipy, or rows of numbers, as the model was trained on sparse rows"

_MAX_COLUMNS = 1 << 26

# Kinds of features that are all inputs in their order.
_KINDS = ("columns", "gradient", "class_counts")


@dataclass(frozen=True)
class SparseRows:
    """Rows of which only the values that are not 0 are kept, row after row (compressed sparse rows)."""

    starts: npt.NDArray[np.int64]  # where the values of each row begin, and where those of the last end: n + 1
    columns: npt.NDArray[np.int64]  # of each value
    values: npt.NDArray[np.float32]
    ones: bool = False  # one more column follows, which is 1 in every row

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, rows: slice) -> SparseRows:
        first, last, _ = rows.indices(len(self))
        starts = self.starts[first : last + 1]
        values = slice(starts[0], starts[-1])
        return SparseRows(starts - starts[0], self.columns[values], self.values[values], self.ones)

    def __matmul__(self, weights: Matrix) -> Matrix:
        product = self.sums(self.values[:, None] * weights[self.columns])
        if self.ones:
            product += weights[-1]
        return product

    def sums(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns the sums over each row of what its values have become."""
        sums = np.zeros((len(self), *values.shape[1:]), dtype=values.dtype)
        some = np.flatnonzero(np.diff(self.starts))  # reduceat has no empty rows
        if len(some):
            sums[some] = np.add.reduceat(values, self.starts[some], axis=0)
        return sums

    def keep(self, which: npt.NDArray[np.bool_]) -> SparseRows:
        """Returns the rows with some of their values."""
        kept = np.concatenate([[0], np.cumsum(which)])
        return SparseRows(kept[self.starts], self.columns[which], self.values[which], self.ones)


def is_sparse(tensors: Mapping[str, Tensor]) -> bool:
    """Tells whether a survey found sparse rows."""
    return "factors" in tensors or "factor_columns" in tensors


def _factors(tensors: Mapping[str, Tensor], numbers: int) -> npt.NDArray[np.float32]:
    """Returns the factor of each column (d); 0: it is left out, or one of the numbers, which come first."""
    if "factors" in tensors:
        return shaped(tensors, "factors", -1)
    digits = shaped(tensors, "factor_columns", -1, 2).astype(np.int64)
    columns = 4096 * digits[:, 0] + digits[:, 1]
    if len(columns) and (columns[0] < 0 or (np.diff(columns) <= 0).any() or columns[-1] >= _MAX_COLUMNS):
        raise DamagedError("the columns that have factors are not in ascending order")
    factors = np.zeros(max([numbers, *(columns[-1:] + 1)]), np.float32)
    factors[columns] = shaped(tensors, "factor_values", len(columns))
    return factors


class SparsePreparation(Answers):
    """What the survey of a run over sparse rows has found."""

    def __init__(self, plan: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        super().__init__(plan, tensors)
        options = plan["prepare"]
        self._change = options.get("values") or "none"
        if self._change not in ("none", "log1p", "sqrt", "binary") or options["scale"] not in ("none", "unit"):
            raise DamagedError(f"prepare has values {self._change!r} and scale {options['scale']!r} for sparse rows")
        self._unit = options["scale"] == "unit"
        self._center = shaped(tensors, "center", -1) if "center" in tensors else np.zeros(0, np.float32)  # of numbers, which come first
        self._scale = shaped(tensors, "scale", len(self._center)) if len(self._center) else self._center
        self._factors = _factors(tensors, len(self._center))
        self.width = len(self._factors)  # d
        kept = (self._factors != 0) | (np.arange(self.width) < len(self._center))
        self._inputs = np.cumsum(kept, dtype=np.int32) - 1
        self.inputs = int(np.count_nonzero(kept))  # m
        if not self.inputs:
            raise DamagedError("the columns are absent")

    def apply(self, raw: SparseRows) -> SparseRows:
        """Returns the inputs of rows. Columns that the survey has not found, or left out, are left out."""
        if not len(self._center):
            return self._rest(raw)
        first = raw.columns < len(self._center)
        numbers = np.zeros((len(raw), len(self._center)), np.float32)
        numbers[np.repeat(np.arange(len(raw)), np.diff(raw.starts))[first], raw.columns[first]] = raw.values[first]
        numbers = (numbers - self._center) * self._scale
        numbers[np.isnan(numbers)] = 0  # the mean
        return _beside(numbers, self._rest(raw.keep(~first)))

    def _rest(self, raw: SparseRows) -> SparseRows:
        """Returns the inputs of the columns after numbers."""
        known = (raw.columns < self.width) & (raw.values != 0)
        known[known] = self._factors[raw.columns[known]] != 0
        rows = raw.keep(known)
        wide = rows.values.astype(np.float64)
        if self._change == "log1p":
            wide = np.copysign(np.log1p(np.abs(wide)), wide)
        elif self._change == "sqrt":
            wide = np.copysign(np.sqrt(np.abs(wide)), wide)
        elif self._change == "binary":
            wide = np.ones_like(wide)
        values = wide.astype(np.float32) * self._factors[rows.columns]
        if self._unit:
            wide = values.astype(np.float64)
            lengths = np.sqrt(rows.sums(wide * wide))
            scales = 1 / np.where(lengths == 0, 1, lengths)
            values = (wide * np.repeat(scales, np.diff(rows.starts))).astype(np.float32)
        return SparseRows(rows.starts, self._inputs[rows.columns].astype(np.int64), values)


def _beside(numbers: Matrix, rest: SparseRows) -> SparseRows:
    """Returns rows that begin with numbers (n × d)."""
    n, d = numbers.shape
    lengths = np.diff(rest.starts)
    starts = np.concatenate([[0], np.cumsum(lengths + d)])
    columns, values = np.empty(starts[-1], np.int64), np.empty(starts[-1], np.float32)
    own = (starts[:-1, None] + np.arange(d)).ravel()
    columns[own], values[own] = np.tile(np.arange(d), n), numbers.ravel()
    others = np.ones(starts[-1], bool)
    others[own] = False
    columns[others], values[others] = rest.columns, rest.values
    return SparseRows(starts.astype(np.int64), columns, values)


class SparseBlock:
    """Makes the columns that the weights of a stage multiply: the inputs, and a column of ones."""

    def __init__(self, plan: Mapping[str, Any], number: int, preparation: SparsePreparation, link: Any) -> None:
        kind = plan["stages"][number]["features"]["kind"]
        if kind not in _KINDS:
            raise DamagedError(
                f"stage {number}: features of kind {kind!r} of sparse rows, expected one of {', '.join(_KINDS)}: install the stagewise package "
                "of the release that trained the model"
            )
        self.link = link
        self._intercept = bool(plan["intercept"]) and Members(plan).begins(number)
        self.size = preparation.inputs + self._intercept  # p

    def expand(self, inputs: SparseRows, _: Matrix) -> SparseRows:
        return SparseRows(inputs.starts, inputs.columns, inputs.values, ones=self._intercept)


class SparseLayout:
    """Which sparse rows, texts or tables become which features."""

    columns: tuple[Any, ...] = ()  # a column of sparse rows has a number

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        options = manifest["plan"]["input"]
        self._text = options.get("text")
        self._words = Words(options) if self._text else None

    def features(self, rows: Any) -> SparseRows:
        """Returns the features of rows: a matrix of scipy, texts if the model was trained on texts, or rows with their zeros."""
        if hasattr(rows, "tocsr"):
            return from_csr(rows.tocsr())
        if self._words is not None:
            return self._of_texts(self._words, rows)
        refuse(rows)
        try:
            dense = array_of(rows)
        except ValueError as reason:
            raise ValueError(f"{reason}: {_EXPECTED}") from reason
        if dense.dtype.kind not in "bifu":
            raise ValueError(f"rows of type {dense.dtype}: {_EXPECTED}")
        row, column = np.nonzero(dense)
        starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(dense)))])
        return _checked(SparseRows(starts.astype(np.int64), column, dense[row, column].astype(np.float32)))

    def _of_texts(self, words: Words, rows: Any) -> SparseRows:
        if isinstance(rows, str):
            raise TypeError("a text by itself: expected a list of texts")
        texts = rows
        if not hasattr(rows, "to_frame"):  # a Series is a list of texts
            refuse(rows)
            if (table := table_of(rows, [self._text or ""])) is not None:
                if self._text not in table.columns:
                    raise ValueError(f"the table lacks the column of texts {self._text!r}; it has {', '.join(map(str, table.names))}")
                texts = table.columns[self._text].to_pylist()
        starts, columns, values = [0], [], []
        for number, text in enumerate(texts.to_pylist() if hasattr(texts, "to_pylist") else texts):
            if not isinstance(text, str):
                raise ValueError(f"row {number}: {text!r} is no text: the model was trained on texts")
            try:
                text.encode()
            except UnicodeEncodeError as reason:
                raise ValueError(f"row {number}: {reason}") from reason
            counts = words.count(text)
            columns += sorted(counts)
            values += [counts[c] for c in sorted(counts)]
            starts.append(len(columns))
        return SparseRows(np.array(starts, np.int64), np.array(columns, np.int64), np.array(values, np.float32))


def from_csr(matrix: Any) -> SparseRows:
    """Returns the rows of a matrix of scipy."""
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # that of the caller stays as it is
        matrix.sum_duplicates()  # which sorts the columns of each row too
    with np.errstate(over="ignore"):
        values = matrix.data.astype(np.float32)
    return _checked(SparseRows(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), values))


def _checked(rows: SparseRows) -> SparseRows:
    bad = np.flatnonzero(~np.isfinite(rows.values))
    if len(bad):
        row = int(np.searchsorted(rows.starts, bad[0], side="right")) - 1
        raise ValueError(f"row {row}, feature {rows.columns[bad[0]]}: {rows.values[bad[0]]} is not a finite float32")
    return rows
