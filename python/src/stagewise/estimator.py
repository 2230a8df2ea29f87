"""What the estimators share: what they hand over to the program, and runs of it."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import tempfile
import warnings
import weakref
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from . import arrow, program
from .model import Answers, Model
from .parameters import Parameters, configuration_file
from .report import Report

# Up to so many columns, rows without names are a table, with a column for each number: trees and scales are by column. Wider rows are vectors,
# such as images.
_MOST_COLUMNS = 256

# The folder in memory that Linux has, which a run of few rows uses if so many bytes are free.
_MEMORY = "/dev/shm"
_LEAST_FREE = 1 << 30
_FEW = 8 << 20

# How many of the rows that are not learnt from are kept for feature_importances_.
_ROWS_TO_EXPLAIN = 1000

_CONFIGURATION = "configuration.yaml"

_HELD_OUT = "fit(X, y, X_val=…, y_val=…), or set holdout and data_dir; importances(X, y) takes any rows"

_FORGOT = (
    "the chain begins with these rows, and without those that the model has learnt so far: they were not kept. To continue from the rows of fit, set "
    "data_dir before it"
)

# what the report counts of rows that are passed over, in words
_NOT_LEARNT = {
    "no_label": "no label (null, empty or one of examples.missing_values)",
    "overflow": "values that are too large for sums of squares: divide these columns, or take their logarithms",
}


@dataclass
class Target:
    """What is to be predicted, as columns of the rows that are handed over."""

    columns: dict[str, Any]
    examples: dict[str, Any]  # keys of the section examples


class Estimator(Parameters, BaseEstimator):  # type: ignore[misc]
    __doc__ = Parameters.__doc__

    model_: Model
    report_: Report
    _kind: str  # what the rows of fit were: "table", "array", "sparse" or "texts"
    _chain: tempfile.TemporaryDirectory[str] | None = None  # of the log of a chain, without data_dir
    _held_out: bytes | None = None  # rows that are not learnt from, as an Arrow file
    _log: dict[str, Any] | None = None  # the configuration of a log that has such rows

    # What a subclass says of its task.

    @abstractmethod
    def _target(self, y: Any, taken: Sequence[str], chain: bool) -> Target:
        """Checks y, keeps what predictions need of it, and returns what to hand over. taken are the names of other columns."""

    def _of_classes(self, chain: bool) -> dict[str, Any]:
        """Returns keys of the section examples that name labels."""
        return {} if self.class_weight is None else {"class_weight": self.class_weight}

    def _learnt(self) -> None:
        """Reads from the model what a chain may have changed."""

    # Training

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, X_val: Any = None, y_val: Any = None, sample_weight_val: Any = None
    ) -> Self:
        """Trains a model, and returns the estimator.

        X are the rows: a data frame, an array, a sparse matrix, a list of dict, or a list of texts, whose words are counted. y has a label or numbers
        for each row, and sample_weight its weight. Rows of X_val are not learnt from: the report has their errors, and `feature_importances_` is
        of them.

        It raises a ValueError if the program refuses the rows or a parameter, and a BrokersError, a ConnectionError, if brokers do not answer.
        """
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val: expected both, or none")
        rows, beside, examples = self._handed(X, y, sample_weight, chain=False)
        if self._chain is not None:
            self._chain.cleanup()
        self._chain = self._held_out = None
        others, others_beside = (None, {}) if X_val is None else self._held(X_val, y_val)
        with _folder_for(rows, others) as folder:
            examples["train"] = [f"{folder}/rows.arrow"]
            rows.write(examples["train"][0], beside)
            if others is not None:
                if "weight" in examples:
                    weights = np.ones(others.count) if sample_weight_val is None else sample_weight_val
                    others_beside[examples["weight"]] = np.asarray(weights, dtype=np.float64)
                examples["test"] = [f"{folder}/held-out.arrow"]
                others.write(examples["test"][0], others_beside)
                self._held_out = _first(others, folder, others_beside)
            self._run("train", folder, f"{folder}/log" if self.data_dir is None else os.fspath(self.data_dir), examples, {})
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continues a chain of versions, or begins one: see update. classes is for scikit-learn's tools: a chain learns classes as they come."""
        self._update(X, y, sample_weight)
        return self

    def update(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Adds rows to a chain of versions, as `stagewise run --until end` does. It returns the `score` of the chain on these rows before it learnt
        them: the fraction that was predicted right, or R². NaN for the rows of the first version.

        A chain continues from the rows of `fit` if data_dir keeps them; otherwise it begins with the first update. Its rows stay in data_dir, or in
        a folder that is removed with the estimator.
        """
        return self._update(X, y, sample_weight)

    def _update(self, X: Any, y: Any, sample_weight: Any) -> float:
        if hasattr(self, "model_") and self._chain is None and self.data_dir is None and not self.brokers:
            warnings.warn(_FORGOT, stacklevel=3)
            del self.model_
        rows, beside, examples = self._handed(X, y, sample_weight, chain=True)
        with _folder_for(rows) as folder:
            examples["train"] = [f"{folder}/rows.arrow"]
            rows.write(examples["train"][0], beside)
            self._run("run", folder, self._chain_dir(), examples, self._kept())
        self._learnt()
        error = self.report_.get("prequential_error")
        return math.nan if error is None else 1 - error / 100

    def _handed(self, X: Any, y: Any, sample_weight: Any, chain: bool) -> tuple[arrow.Rows, dict[str, Any], dict[str, Any]]:
        """Returns the rows to hand over, the columns beside them, and the section examples."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        rows, examples = self._rows(self._checked(X, reset=not (chain and hasattr(self, "model_"))))
        target = self._target_of(y, rows, chain)
        columns = target.columns
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, np.empty((rows.count, 1)), dtype=np.float64)
            if not weights.any():
                raise ValueError("sample_weight is 0 for all rows")
            name = free("weight", [*rows.schema.names, *columns])
            columns = {**columns, name: weights}
            examples["weight"] = name
        return rows, columns, {**examples, **target.examples, **self._of_classes(chain)}

    def _held(self, X: Any, y: Any) -> tuple[arrow.Rows, dict[str, Any]]:
        """Returns rows that are not learnt from, and the columns beside them."""
        rows, _ = self._rows(self._checked(X, reset=False))
        return rows, copy.copy(self)._target_of(y, rows, chain=True).columns

    def _target_of(self, y: Any, rows: arrow.Rows, chain: bool) -> Target:
        target = self._target(y, rows.schema.names, chain)
        check_consistent_length(range(rows.count), *target.columns.values())
        return target

    def _rows(self, X: Any) -> tuple[arrow.Rows, dict[str, Any]]:
        """Returns the rows to hand over of a table, an array, a sparse matrix or texts, and what the section examples says of them."""
        kind = arrow.kind_of(X)
        if kind == "texts":
            return arrow.text_rows(X), {"text": arrow.TEXT}
        if kind == "sparse":
            return arrow.sparse_rows(X), {"columns": {"use": [arrow.LIST]}}
        if kind == "table":
            rows = arrow.table_rows(*arrow.table_of(X))
        elif X.shape[1] > _MOST_COLUMNS and X.dtype.kind not in arrow.WORDS:
            return arrow.array_rows(X, None, narrow=True), {"columns": {"use": [arrow.LIST]}}
        else:
            rows = arrow.array_rows(X, arrow.names_of(X.shape[1]))
        words = [f.name for f in rows.schema if arrow.has_text(f.type)] if self.categorical is None else _chosen(self.categorical, rows.schema.names)
        return rows, {"columns": {"use": rows.schema.names}, **({"categorical": words} if words else {})}

    def _checked(self, X: Any, reset: bool) -> Any:
        """Checks rows, remembers their columns or compares them with those of the training, and returns a table, an array, a sparse matrix or
        texts."""
        kind = arrow.kind_of(X)
        if kind == "table" and not reset and self._kind == "array":
            _check_feature_names(self, X, reset=False)
            columns, _ = arrow.table_of(X)
            X, kind = np.column_stack([np.asarray(column) for column in columns.values()]), "array"
        if kind == "table":
            X = self._checked_table(X, reset)
        elif kind == "texts":
            self.n_features_in_ = 1
        else:
            dtype: Any = None
            if isinstance(X, list | tuple) and any(isinstance(v, str) for row in X if isinstance(row, list | tuple) for v in row):
                dtype = object
            elif getattr(X, "dtype", None) == object and not any(isinstance(v, str) for v in np.asarray(X).flat):
                dtype = "numeric"
            X = validate_data(self, arrow.unmasked(X), reset=reset, accept_sparse="csr", dtype=dtype, ensure_all_finite="allow-nan")
            if kind == "sparse" and X.shape[1] <= _MOST_COLUMNS:
                X, kind = X.toarray(), "array"
            elif kind == "array" and not reset and self._kind == "sparse":
                from scipy.sparse import csr_matrix

                X, kind = csr_matrix(X), "sparse"
            if X.dtype.kind == "c":
                raise ValueError("Complex data not supported")
        if reset:
            self._kind = kind
        elif kind in ("texts", "sparse") and kind != self._kind:
            raise ValueError(f"X has {kind}, but {type(self).__name__} was fitted with {self._kind}")
        return X

    def _checked_table(self, X: Any, reset: bool) -> Any:
        """Checks a table, and names its columns if they have no names."""
        _check_feature_names(self, X, reset=reset)
        if isinstance(X, list | tuple):
            if reset:
                self.n_features_in_ = len({name for row in X for name in row})
            return X
        X = X if hasattr(X, "shape") else pa.table(X)
        if reset:
            self.n_features_in_ = X.shape[1]
        elif not hasattr(self, "feature_names_in_"):
            _check_n_features(self, X, reset=False)
        if 0 in X.shape:
            raise ValueError(f"Found array with 0 {'feature' if len(X) else 'sample'}(s) while a minimum of 1 is required.")
        return X.set_axis(arrow.names_of(X.shape[1]), axis=1) if arrow.is_frame(X) and not arrow.has_names(X) else X

    def _chain_dir(self) -> str:
        """Returns the folder of a chain's log. Without data_dir it is removed with the estimator."""
        if self.data_dir is not None:
            return os.fspath(self.data_dir)
        if self._chain is None:
            self._chain = tempfile.TemporaryDirectory(prefix="stagewise-")
            weakref.finalize(self, self._chain.cleanup)
        return self._chain.name

    def _kept(self) -> dict[str, Any]:
        """Returns the stages of the model, with which a chain goes on unless others are listed."""
        if self.stages is not None or not hasattr(self, "model_"):
            return {}
        plan = self.model_.manifest["plan"]
        return {"stages": plan["stages"], "prepare": plan["prepare"]}

    def _run(self, command: str, folder: str, data: str, examples: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
        """Runs the program, and reads its model and its report. chosen are keys that the parameters may leave open."""
        configuration = self._configuration(data, examples, chosen)
        file, report, model = (f"{folder}/{name}" for name in (_CONFIGURATION, "report.json", "model"))
        Path(file).write_bytes(configuration_file(configuration))
        shown = None if self.verbose is None else bool(self.verbose)
        quiet = [] if shown or shown is None and program.is_watched() else ["--quiet"]
        if command == "train":
            program.run(["train", "-c", file, "--model", model, "--report", report, *quiet], shown=shown, folder=folder)
        else:
            program.run(["run", "-c", file, "--until", "end", "--report", report, *quiet], shown=shown, folder=folder)
            program.run(["weights", "export", "-c", file, "-o", model], shown=False, folder=folder)
        if hasattr(self, "_importances"):
            del self._importances
        kept = self.holdout and (self.data_dir is not None or self.brokers)
        examples = {key: value for key, value in configuration["examples"].items() if key not in ("train", "test")}
        self._log = {**configuration, "examples": examples} if kept else None
        self.report_ = Report(json.loads(Path(report).read_text()))
        # A later full version counts the rows of its window again.
        counted = [u for u in self.report_.get("updates", []) if u["kind"] == "update" or u["version"] == 1]
        counted.append(self.report_.get("passed_over", {}))
        for reason, of_rows in _NOT_LEARNT.items():
            if without := sum(part.get(reason, 0) for part in counted):
                warnings.warn(f"{without} rows are not learnt, because they have {of_rows}", stacklevel=3 if command == "train" else 4)
        self.model_ = Model(Path(model).read_bytes())

    # What there is once the model is trained

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        state.pop("_chain", None)  # the folder goes with the estimator
        return state

    @property
    def n_iter_(self) -> int:
        """The number of stages."""
        check_is_fitted(self)
        return len(self.model_.manifest["plan"]["stages"])

    @property
    def version_(self) -> int:
        """The number of the version in its pipeline."""
        check_is_fitted(self)
        return self.model_.version

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model file that `stagewise predict`, `stagewise serve` and `stagewise.load` read."""
        check_is_fitted(self)
        Path(path).write_bytes(self.model_.content)

    def to_onnx(self, path: str | os.PathLike[str] | None = None) -> bytes:
        """Returns the model as an ONNX graph, and writes it to a file if there is a path: see docs/exports.md."""
        check_is_fitted(self)
        with tempfile.TemporaryDirectory(prefix="stagewise-") as folder:
            model, out = f"{folder}/model", f"{folder}/model.onnx"
            self.save(model)
            program.run(["weights", "export", "--model", model, "--format", "onnx", "-o", out], shown=False, folder=folder)
            content = Path(out).read_bytes()
        if path is not None:
            Path(path).write_bytes(content)
        return content

    def importances(self, X: Any, y: Any, *, repeats: int = 5) -> Any:
        """Returns by how much error and loss rise if a column of rows that the model has not learnt is permuted, as `stagewise explain` measures it:
        a data frame with a row for each column, the most important first."""
        pandas = program.needs("pandas")
        check_is_fitted(self)
        rows, beside = self._held(X, y)
        with tempfile.TemporaryDirectory(prefix="stagewise-") as folder:
            rows.write(f"{folder}/held-out.arrow", beside)
            return pandas.DataFrame(self._explained(folder, repeats)).set_index("column")

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """By how much the loss of X_val rises if a column is permuted, in parts of the sum; 0 where it falls."""
        check_is_fitted(self)
        if not hasattr(self, "_importances"):
            with tempfile.TemporaryDirectory(prefix="stagewise-") as folder:
                if self._held_out is not None:
                    Path(folder, "held-out.arrow").write_bytes(self._held_out)
                    explained = self._explained(folder, 5)
                elif self._log is not None:
                    Path(folder, _CONFIGURATION).write_bytes(configuration_file(self._log))
                    of = ["-c", f"{folder}/{_CONFIGURATION}", "--version", str(self.version_), "--rows", str(_ROWS_TO_EXPLAIN)]
                    explained = _explain(folder, of)
                else:
                    raise AttributeError(f"feature_importances_ needs rows that the model has not learnt: {_HELD_OUT}")
            rises = {column["column"]: max(column["loss"], 0.0) for column in explained}
            names = getattr(self, "feature_names_in_", arrow.names_of(self.n_features_in_))
            ordered = np.array([rises.get(str(name), 0.0) for name in names])
            self._importances: npt.NDArray[np.float64] = ordered / (ordered.sum() or 1)
        return self._importances

    def _explained(self, folder: str, repeats: int) -> list[dict[str, Any]]:
        """Explains the held-out rows in a folder."""
        self.save(f"{folder}/model")
        return _explain(folder, ["--model", f"{folder}/model", "-i", f"{folder}/held-out.arrow", "--permutations", str(repeats)])

    def plot(self, kind: str = "stages", split: str | None = None, ax: Any = None) -> Any:
        """Draws a figure of the report with matplotlib, and returns its axes.

        kind: `stages` (error and loss by stage), `reliability` or `confusion`. split: train, holdout or test; by default the rows that the model
        has not learnt, if there are any.
        """
        check_is_fitted(self)
        return self.report_.plot(kind, split, ax)

    def _answers(self, X: Any) -> Answers:
        check_is_fitted(self)
        return self.model_.answers(self._checked(X, reset=False))

    def _staged(self, X: Any) -> Iterator[Answers]:
        check_is_fitted(self)
        return self.model_.staged(self._checked(X, reset=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = (self.missing or "mean") != "error"
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


def _folder_for(*rows: arrow.Rows | None) -> tempfile.TemporaryDirectory[str]:
    """Returns the folder of a run. For few rows it is in memory: a run makes sixty files, which takes a disk longer than 150 rows
    take the program."""
    place = None
    if sum(some.size for some in rows if some is not None) <= _FEW and tempfile.gettempdir() == "/tmp" and os.access(_MEMORY, os.W_OK):
        of = os.statvfs(_MEMORY)
        place = _MEMORY if of.f_bavail * of.f_frsize >= _LEAST_FREE else None
    return tempfile.TemporaryDirectory(prefix="stagewise-", dir=place)


def _first(rows: arrow.Rows, folder: str, beside: Mapping[str, Any]) -> bytes:
    """Returns a file of the first rows."""
    dataclasses.replace(rows, count=min(rows.count, _ROWS_TO_EXPLAIN)).write(f"{folder}/first.arrow", beside)
    return Path(folder, "first.arrow").read_bytes()


def _explain(folder: str, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Returns by how much error and loss rise, and the deviations of both, for each column."""
    program.run(["explain", *arguments, "--json", f"{folder}/explained.json"], shown=False, folder=folder)
    return [
        {"column": c["name"], **c["rise"], **{f"{key}_deviation": value for key, value in c["deviation"].items()}}
        for c in json.loads(Path(folder, "explained.json").read_text())["importance"]
    ]


def _chosen(categorical: Sequence[Any], names: Sequence[str]) -> list[str]:
    """Returns the names of columns that have words."""
    chosen = list(categorical)
    if len(chosen) == len(names) and all(isinstance(c, bool | np.bool_) for c in chosen):
        return [name for name, is_one in zip(names, chosen, strict=True) if is_one]
    for c in chosen:
        if isinstance(c, int | np.integer) and not -len(names) <= c < len(names) or isinstance(c, str) and c not in names:
            raise ValueError(f"categorical: {c!r}: expected one of the columns {', '.join(names)}")
    return [c if isinstance(c, str) else names[int(c)] for c in chosen]


def free(name: str, taken: Sequence[str]) -> str:
    """Returns a name for a column that no other has."""
    while name in taken:
        name += "_"
    return name
