"""The estimators: their parameters, what they hand over to the program and runs of it, and a class for each task."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import re
import shutil
import tempfile
import unicodedata
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import validation
from sklearn.utils.multiclass import check_classification_targets, is_multilabel
from sklearn.utils.validation import check_is_fitted

from . import arrow, program
from .model import Answers, Model, spelt
from .report import Report

# Parameters that are keys of the section examples, and those that are keys of their own.
_OF_EXAMPLES = ("holdout", "missing", "words", "image", "augment", "partitions", "batch_rows")
_OF_ALL = ("stages", "prepare", "threshold", "average", "intercept", "seed", "memory", "arithmetic", "retrain", "brokers", "security", "data_dir")

# A key that is no parameter, in the program's sentences.
_SETTING = re.compile(rf"(?<=\s)examples\.(?!({'|'.join((*_OF_EXAMPLES, 'class_weight', 'categorical'))})\b(?![._]))[a-z_.]*[a-z_]")

# Parameters of scikit-learn's estimators that have another name here.
_ELSEWHERE = {
    **dict.fromkeys(("random_state", "random_seed"), "set seed"),
    "n_jobs": "the program uses all cores; the environment variable GOMAXPROCS limits them",
    **dict.fromkeys(("n_estimators", "max_iter"), 'set repeat in stages, as in stages=[{"features": {"kind": "trees"}, "repeat": 22}]'),
    **dict.fromkeys(("max_leaf_nodes", "num_leaves"), 'set leaves in stages, as in stages=[{"features": {"kind": "trees", "leaves": 32}}]'),
    "learning_rate": 'set rate in stages, as in stages=[{"features": {"kind": "trees"}, "rate": 0.5, "repeat": 22}]',
    "categorical_features": "set categorical",
}

# Up to so many columns, rows without names are a table, with a column for each number: trees and scales are by column. Wider rows are vectors,
# such as images.
_MOST_COLUMNS = 256

# The folder in memory that Linux has, which a run of few rows uses if so many bytes are free.
_MEMORY = "/dev/shm"
_LEAST_FREE = 1 << 30
_FEW = 8 << 20

# How many of the rows that are not learnt from are kept for feature_importances_.
_ROWS_TO_EXPLAIN = 1000

# what the report counts of rows that are passed over, in words
_NOT_LEARNT = {
    "no_label": "no label (null, empty or one of examples.missing_values)",
    "overflow": "values that are too large for sums of squares: divide these columns, or take their logarithms",
}

# Probabilities of several labels are at least this, as scikit-learn expects them to be between 0 and 1: links that project make some 0.
_LEAST = 1e-7


class _Named:
    """Says what to set for a parameter that only scikit-learn's estimators have. The signature of an estimator is that of its __init__ below."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        for name in _ELSEWHERE.keys() & given:
            raise TypeError(f"{cls.__name__} has no parameter {name}: {_ELSEWHERE[name]}")
        return super().__new__(cls)


@dataclass(kw_only=True, eq=False, repr=False)
class Parameters(_Named):
    """All parameters are keys of the configuration (docs/configuration.md), by their own names. None is the program's default.

    Parameters
    ----------
    stages : list of dict, optional
        The blocks of the model, such as ``[{"features": {"kind": "trees"}, "repeat": 22}]``. None: the program tries several on held-out rows,
        which takes 4 to 9 times as long as these.
    prepare, words, image, augment, retrain, security : optional
        As in the configuration.
    holdout, partitions, batch_rows : optional
        Those of the section ``examples``.
    missing : str, optional
        ``examples.missing``; None: "mean", so rows may lack values.
    categorical : list of str, int or bool, optional
        The columns of words: their names, their numbers, or a boolean for each. None: those whose dtype is a category or text.
    class_weight : "balanced" or dict, optional
        Of a classifier, the factor of the weights of each label's rows.
    threshold : float, "best_f1" or dict, optional
        Of a classifier of two classes, the minimum probability of the second one for a row to get it, or how to choose it.
    average, intercept, seed, memory, arithmetic : optional
        As in the configuration. seed is scikit-learn's random_state.
    settings : dict, optional
        Any other keys, by their full names, such as ``{"examples.columns.drop": ["id"]}``.
    name : str, optional
        The name of the pipeline.
    brokers : list of str, optional
        The addresses of a Kafka cluster. The rows go to its topics, so a cluster can serve the model.
    data_dir : path, optional
        The folder of the embedded broker's log, which is kept. None: a folder that is removed.
    verbose : int, optional
        1: show all that the program says; 0: nothing. None: on a terminal and in a notebook, show the current step if it takes more than two seconds.

    Attributes
    ----------
    model_ : Model
        The model, with its manifest and version.
    report_ : Report
        What the run reports, as a mapping and as data frames.
    """

    stages: Sequence[Mapping[str, Any]] | None = None
    prepare: Mapping[str, Any] | None = None
    holdout: float | None = None
    class_weight: Any = None
    threshold: Any = None
    average: int | None = None
    intercept: bool | None = None
    seed: int | None = None
    memory: str | int | None = None
    arithmetic: str | None = None
    categorical: Sequence[str] | Sequence[int] | Sequence[bool] | None = None
    missing: str | None = None
    words: Mapping[str, Any] | None = None
    image: Sequence[int] | None = None
    augment: Mapping[str, Any] | None = None
    retrain: Mapping[str, Any] | None = None
    partitions: int | None = None
    batch_rows: int | None = None
    settings: Mapping[str, Any] | None = None
    name: str | None = None
    brokers: Sequence[str] | None = None
    security: Mapping[str, Any] | None = None
    data_dir: str | os.PathLike[str] | None = None
    verbose: int | None = None

    def _configuration(self, data_dir: str, examples: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the configuration of a run. examples are keys of this section, data_dir and chosen what the parameters may leave open."""
        os.fspath("" if self.data_dir is None else self.data_dir)  # raises for a number
        of_all, of_examples = ({key: value for key in keys if (value := getattr(self, key)) is not None} for keys in (_OF_ALL, _OF_EXAMPLES))
        examples = {"missing": "mean", **examples, **of_examples}
        configuration = copy.deepcopy({"name": self.name or "model", "data_dir": data_dir, "examples": examples, **chosen, **of_all})
        for name, value in (self.settings or {}).items():
            *sections, last = name.split(".")
            place = configuration
            for section in sections:
                place = place.setdefault(section, {})
            place[last] = value
        return configuration


class Estimator(Parameters, BaseEstimator):  # type: ignore[misc]
    __doc__ = Parameters.__doc__

    model_: Model
    report_: Report
    _kind: str  # what the rows of fit were: "table", "array", "sparse" or "texts"
    _chain: tempfile.TemporaryDirectory[str] | None = None  # of the log of a chain, without data_dir
    _held_out: bytes | None = None  # rows that are not learnt from, as an Arrow file
    _log: dict[str, Any] | None = None  # the configuration of a log that has such rows

    def _target(self, y: Any, taken: Sequence[str], chain: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """Checks y, keeps what predictions need of it, and returns the columns to hand over, and keys of the section examples. taken are the names of
        other columns."""
        raise NotImplementedError

    def _of_classes(self, chain: bool) -> dict[str, Any]:
        """Returns keys of the section examples that name labels."""
        return {} if self.class_weight is None else {"class_weight": self.class_weight}

    def _learnt(self) -> None:
        """Reads from the model what a chain may have changed."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, X_val: Any = None, y_val: Any = None, sample_weight_val: Any = None) -> Self:
        """Trains a model, and returns the estimator.

        X are the rows: a data frame, an array, a sparse matrix, a list of dict, or a list of texts, whose words are counted. y has a label or numbers
        for each row, and sample_weight its weight. Rows of X_val are not learnt from: the report has their errors, and `feature_importances_` is
        of them.

        It raises a ValueError if the program refuses the rows or a parameter, and a BrokersError, a ConnectionError, if brokers do not answer.
        """
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val: expected both, or none")
        rows, examples = self._handed(X, y, sample_weight, chain=False)
        if self._chain is not None:
            self._chain.cleanup()
        self._chain = self._held_out = None
        others = None if X_val is None else self._held(X_val, y_val)
        if others is not None:
            if "weight" in examples:
                weights = np.ones(others.of.shape[0]) if sample_weight_val is None else sample_weight_val
                others.beside[examples["weight"]] = np.asarray(weights, dtype=np.float64)
            sink = pa.BufferOutputStream()
            dataclasses.replace(others, of=others.of[:_ROWS_TO_EXPLAIN]).write(sink)
            self._held_out = sink.getvalue().to_pybytes()
        with _folder_for(rows, others) as folder:
            if others is not None:
                examples["test"] = [f"{folder}/held-out.arrow"]
                others.write(examples["test"][0])
            self._run("train", folder, rows, examples, {})
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
            forgot = "the chain begins with these rows, and without those that the model has learnt so far: they were not kept"
            warnings.warn(f"{forgot}. To continue from the rows of fit, set data_dir before it", stacklevel=3)
            del self.model_
        rows, examples = self._handed(X, y, sample_weight, chain=True)
        kept = {}
        if self.stages is None and hasattr(self, "model_"):  # a chain goes on with the stages of the model
            plan = self.model_.manifest["plan"]
            kept = {"stages": plan["stages"], "prepare": plan["prepare"]}
        if self.data_dir is None and self._chain is None:
            self._chain = tempfile.TemporaryDirectory(prefix="stagewise-")
            weakref.finalize(self, self._chain.cleanup)
        with _folder_for(rows) as folder:
            self._run("run", folder, rows, examples, kept)
        self._learnt()
        error = self.report_.get("prequential_error")
        return math.nan if error is None else 1 - error / 100

    def _handed(self, X: Any, y: Any, sample_weight: Any, chain: bool) -> tuple[arrow.Rows, dict[str, Any]]:
        """Returns the rows to hand over, with their labels and weights, and the section examples."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        rows, examples = self._rows(self._checked(X, reset=not (chain and hasattr(self, "model_"))))
        examples |= self._target_of(y, rows, chain)
        if sample_weight is not None:
            weights = validation._check_sample_weight(sample_weight, np.empty((rows.of.shape[0], 1)), dtype=np.float64)
            if not weights.any():
                raise ValueError("sample_weight is 0 for all rows")
            examples["weight"] = free("weight", [*rows.schema.names, *rows.beside])
            rows.beside[examples["weight"]] = weights
        return rows, examples | self._of_classes(chain)

    def _held(self, X: Any, y: Any) -> arrow.Rows:
        """Returns rows that are not learnt from, with their labels."""
        rows, _ = self._rows(self._checked(X, reset=False))
        copy.copy(self)._target_of(y, rows, chain=True)
        return rows

    def _target_of(self, y: Any, rows: arrow.Rows, chain: bool) -> dict[str, Any]:
        """Puts what is to be predicted beside the rows, and returns keys of the section examples."""
        rows.beside, examples = self._target(y, rows.schema.names, chain)
        validation.check_consistent_length(range(rows.of.shape[0]), *rows.beside.values())
        return examples

    def _rows(self, X: Any) -> tuple[arrow.Rows, dict[str, Any]]:
        """Returns the rows to hand over of a table, an array, a sparse matrix or texts, and what the section examples says of them."""
        kind = arrow.kind_of(X)
        if kind == "texts":
            return arrow.text_rows(X), {"text": arrow.TEXT}
        if kind == "sparse" or kind == "array" and self._kind == "sparse":
            return arrow.sparse_rows(X), {"columns": {"use": [arrow.LIST]}}
        if kind == "table":
            rows = arrow.table_rows(arrow.table_of(X))
        elif X.shape[1] > _MOST_COLUMNS and X.dtype.kind not in arrow.WORDS:
            return arrow.array_rows(X, None, narrow=True), {"columns": {"use": [arrow.LIST]}}
        else:
            rows = arrow.array_rows(X, arrow.names_of(X.shape[1]))
        if self.categorical is None:
            words = [f.name for f in rows.schema if f.type in (pa.utf8(), pa.large_utf8()) or pa.types.is_dictionary(f.type)]
        else:
            words = _chosen(self.categorical, rows.schema.names)
        return rows, {"columns": {"use": rows.schema.names}, **({"categorical": words} if words else {})}

    def _checked(self, X: Any, reset: bool) -> Any:
        """Checks rows, remembers their columns or compares them with those of the training, and returns a table, an array, a sparse matrix or
        texts."""
        kind = arrow.kind_of(X)
        if kind == "table" and not reset and self._kind == "array":
            validation._check_feature_names(self, X, reset=False)
            X, kind = np.column_stack([np.asarray(column) for column in arrow.table_of(X).values()]), "array"
        if kind == "table":
            validation._check_feature_names(self, X, reset=reset)
            if isinstance(X, list | tuple):
                if reset:
                    self.n_features_in_ = len({name for row in X for name in row})
            else:
                X = X if hasattr(X, "shape") else pa.table(X)
                if reset or not hasattr(self, "feature_names_in_"):
                    validation._check_n_features(self, X, reset=reset)
                if 0 in X.shape:
                    raise ValueError(f"Found array with 0 {'feature' if len(X) else 'sample'}(s) while a minimum of 1 is required.")
                if arrow.is_frame(X) and not arrow.has_names(X):
                    X = X.set_axis(arrow.names_of(X.shape[1]), axis=1)
        elif kind == "texts":
            if reset:
                self.n_features_in_ = 1
        else:
            dtype: Any = None
            if isinstance(X, list | tuple) and any(isinstance(v, str) for row in X if isinstance(row, list | tuple) for v in row):
                dtype = object
            elif getattr(X, "dtype", None) == object and not any(isinstance(v, str) for v in np.asarray(X).flat):
                dtype = "numeric"
            X = validation.validate_data(self, arrow.unmasked(X), reset=reset, accept_sparse="csr", dtype=dtype, ensure_all_finite="allow-nan")
            if kind == "sparse" and X.shape[1] <= _MOST_COLUMNS:
                X, kind = X.toarray(), "array"
        if reset:
            self._kind = kind
        elif kind in ("texts", "sparse") and kind != self._kind:
            raise ValueError(f"X has {kind}, but {type(self).__name__} was fitted with {self._kind}")
        return X

    def _run(self, command: str, folder: str, rows: arrow.Rows, examples: dict[str, Any], chosen: Mapping[str, Any]) -> None:
        """Runs the program, and reads its model and its report. chosen are keys that the parameters may leave open."""
        examples["train"] = [f"{folder}/rows.arrow"]
        rows.write(examples["train"][0])
        configuration = self._configuration(f"{folder}/log" if self._chain is None else self._chain.name, examples, chosen)
        file, report, model = (f"{folder}/{name}" for name in ("configuration.yaml", "report.json", "model"))
        Path(file).write_bytes(program.configuration_file(configuration))
        shown = None if self.verbose is None else bool(self.verbose)
        quiet = [] if shown or shown is None and program.is_watched() else ["--quiet"]
        so = ["--model", model] if command == "train" else ["--until", "end"]
        try:
            program.run([command, "-c", file, *so, "--report", report, *quiet], shown=shown, folder=folder)
        except ValueError as refusal:
            raise ValueError(_SETTING.sub(lambda key: f'settings["{key[0]}"]', str(refusal))) from None
        if command == "run":
            program.run(["weights", "export", "-c", file, "-o", model], shown=False, folder=folder)
        self.__dict__.pop("_importances", None)
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
        return pandas.DataFrame(self._explained(self._held(X, y).write, repeats)).set_index("column")

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """By how much the loss of X_val rises if a column is permuted, in parts of the sum; 0 where it falls."""
        check_is_fitted(self)
        if not hasattr(self, "_importances"):
            if self._held_out is None and self._log is None:
                rows = "fit(X, y, X_val=…, y_val=…), or set holdout and data_dir; importances(X, y) takes any rows"
                raise AttributeError(f"feature_importances_ needs rows that the model has not learnt: {rows}")
            held_out = self._held_out
            explained = self._explained(None if held_out is None else lambda path: Path(path).write_bytes(held_out))
            rises = {column["column"]: max(column["loss"], 0.0) for column in explained}
            names = getattr(self, "feature_names_in_", arrow.names_of(self.n_features_in_))
            ordered = np.array([rises.get(str(name), 0.0) for name in names])
            self._importances: npt.NDArray[np.float64] = ordered / (ordered.sum() or 1)
        return self._importances

    def _explained(self, write: Callable[[str], Any] | None, repeats: int = 5) -> list[dict[str, Any]]:
        """Returns by how much error and loss rise, and the deviations of both, for each column. write writes the rows; None: they are in the log."""
        with tempfile.TemporaryDirectory(prefix="stagewise-") as folder:
            if write is None:
                Path(folder, "configuration.yaml").write_bytes(program.configuration_file(self._log or {}))
                of = ["-c", f"{folder}/configuration.yaml", "--version", str(self.version_), "--rows", str(_ROWS_TO_EXPLAIN)]
            else:
                write(f"{folder}/held-out.arrow")
                self.save(f"{folder}/model")
                of = ["--model", f"{folder}/model", "-i", f"{folder}/held-out.arrow", "--permutations", str(repeats)]
            program.run(["explain", *of, "--json", f"{folder}/explained.json"], shown=False, folder=folder)
            columns = json.loads(Path(folder, "explained.json").read_text())["importance"]
        return [{"column": c["name"], **c["rise"], **{f"{key}_deviation": value for key, value in c["deviation"].items()}} for c in columns]

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
        nan = (self.missing or "mean") != "error"
        tags.input_tags = dataclasses.replace(tags.input_tags, allow_nan=nan, sparse=True, categorical=True, string=True)
        tags.target_tags.required = True
        return tags


class StagewiseClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """A classifier. y has a label for each row, or n × k of 0 and 1 for several labels a row."""

    __doc__ += f"\n\n    {Estimator.__doc__}"

    classes_: npt.NDArray[Any]
    _coded = False  # the program has the places of labels in classes_, not their texts

    def _target(self, y: Any, taken: Sequence[str], chain: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        if hasattr(y, "tocsr") or is_multilabel(y):
            matrix = y.tocsr() if hasattr(y, "tocsr") else np.asarray(y)  # its rows are in order
            classes = np.array([str(c) for c in y.columns]) if hasattr(y, "columns") else np.arange(matrix.shape[1])
            return self._several(matrix, [str(c) for c in classes], classes, taken)
        self._indicator = False
        name = free(_name(y, "label"), taken)
        y = validation.column_or_1d(np.asarray(y), warn=True)
        validation.assert_all_finite(y, input_name="y")
        y = _of_one_type(y)
        check_classification_targets(y)
        labels, codes = np.unique(y, return_inverse=True)
        if len(labels) < 2 and not chain:
            raise ValueError(f"y has 1 class, {labels.tolist()[0]!r}: a classifier needs at least two")
        words = None if chain and self._coded else _words_of(labels.tolist())
        if chain and words is None:
            if not (self._coded and np.isin(labels, self.classes_).all()):
                raise ValueError("labels of a chain: expected whole numbers, booleans or texts without space around them")
            words = [str(place) for place in np.searchsorted(self.classes_, labels)]
        elif chain:
            before = self.classes_ if hasattr(self, "model_") else labels
            if len({of.dtype.kind if of.dtype.kind == "b" else of.dtype.kind in "iuf" for of in (before, labels)}) > 1:
                raise ValueError(f"y has labels of type {labels.dtype}, and the model of type {before.dtype}: y.astype changes them")
            self._label_type = np.result_type(before, labels)
        else:
            self._coded, words = words is None, words or [str(i) for i in range(len(labels))]
            self.classes_, self._words = labels, words
        column = pa.array(words, pa.utf8()).take(pa.array(codes))
        return {name: column}, {"label": name} if chain else {"label": name, "classes": words}

    def _several(self, matrix: Any, words: list[str], classes: npt.NDArray[Any], taken: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Returns the column of the labels that each row has: the matrix has 1 for each of them (n × k)."""
        self._indicator, self._coded, self._words, self.classes_ = True, False, words, classes
        name = free("labels", taken)
        rows, columns = matrix.nonzero()
        ends = np.searchsorted(rows, np.arange(matrix.shape[0] + 1)).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(np.array(words, dtype=object)[columns], pa.utf8()))
        return {name: lists}, {"label": name, "labels": "several", "classes": words}

    def _of_classes(self, chain: bool) -> dict[str, Any]:
        """Returns class_weight with labels as the program spells them. A chain may meet others later."""
        if not isinstance(self.class_weight, Mapping):
            return super()._of_classes(chain)
        known = dict(zip(self.classes_.tolist(), self._words, strict=True)) if hasattr(self, "classes_") else {}
        words = {spelt(label): word for label, word in known.items()}
        weights = {}
        for label, weight in self.class_weight.items():
            word = known.get(label, words.get(spelt(label), spelt(label) if chain else None))
            if word is None:
                raise ValueError(f"class_weight: {label!r}: expected one of the labels {', '.join(map(repr, known))}")
            weights[word] = weight
        return {"class_weight": weights}

    def _learnt(self) -> None:
        texts = self.model_.classes_.astype(str)
        if not self._coded:
            self._words = texts.tolist()
            if not self._indicator:
                kind = getattr(self, "_label_type", texts.dtype)
                self.classes_ = texts == "true" if kind.kind == "b" else texts.astype(kind if kind.kind in "iufO" else str)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Returns the label of each row, or 1 for each label that a row is given and 0 for the others (n × k)."""
        return self._labels(self._answers(X))

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Returns the probability of each of classes_ for each row (n × k)."""
        return self._probabilities(self._answers(X))

    def predict_log_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Returns the logarithm of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def decision_function(self, X: Any) -> npt.NDArray[np.float64]:
        """Returns the logarithm of each probability, for two classes and for several labels a row that of the odds."""
        return self._decisions(self.predict_proba(X))

    def staged_predict(self, X: Any) -> Iterator[npt.NDArray[Any]]:
        """Yields what predict returns if the model has only its first stage, its first two, and so on."""
        yield from map(self._labels, self._staged(X))

    def staged_predict_proba(self, X: Any) -> Iterator[npt.NDArray[np.float64]]:
        """Yields the probabilities after each stage."""
        yield from map(self._probabilities, self._staged(X))

    def staged_decision_function(self, X: Any) -> Iterator[npt.NDArray[np.float64]]:
        """Yields what decision_function returns after each stage."""
        yield from map(self._decisions, self.staged_predict_proba(X))

    def _labels(self, answers: Answers) -> npt.NDArray[Any]:
        if self._indicator:
            return answers.places
        return self.classes_[self._places()[answers.places]]

    def _probabilities(self, answers: Answers) -> npt.NDArray[np.float64]:
        wide = answers.values.astype(np.float64)
        if self._indicator:
            return wide.clip(_LEAST, 1 - _LEAST)
        ordered = np.zeros((len(wide), len(self.classes_)))
        ordered[:, self._places()] = wide / wide.sum(axis=1, keepdims=True)
        return ordered

    def _decisions(self, p: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        logarithms = np.log(np.clip(p, 1e-30, 1))
        if self._indicator:
            return logarithms - np.log(np.clip(1 - p, 1e-30, 1))
        return logarithms[:, 1] - logarithms[:, 0] if len(self.classes_) == 2 else logarithms

    def _places(self) -> npt.NDArray[np.int64]:
        """Returns where each class of the model is in classes_."""
        known = self.model_.classes_
        return known.astype(np.int64) if self._coded else np.arange(len(known))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = False
        return tags


class StagewiseMultiLabelClassifier(StagewiseClassifier):
    """A classifier of several labels a row: y is n × k of 0 and 1, or a list with the labels of each row, such as [["red", "blue"], []].

    y with one label for each row makes it a StagewiseClassifier.
    """

    __doc__ += f"\n    {Estimator.__doc__}"

    def _target(self, y: Any, taken: Sequence[str], chain: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        if not _is_lists(y):
            return super()._target(y, taken, chain)
        from sklearn.preprocessing import MultiLabelBinarizer

        binarizer = MultiLabelBinarizer(sparse_output=True)
        matrix = binarizer.fit_transform([list(labels) for labels in y])
        words = _words_of(binarizer.classes_.tolist())
        if words is None:
            raise ValueError("labels: expected whole numbers or texts without space around them")
        return self._several(matrix, words, binarizer.classes_, taken)

    def labels_of(self, X: Any) -> list[list[Any]]:
        """Returns the labels that each row is given."""
        return [self.classes_[row.astype(bool)].tolist() for row in self.predict(X)]


class StagewiseRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """A regressor. y has a number for each row, or several (n × k)."""

    __doc__ += f"\n\n    {Estimator.__doc__}"

    def _target(self, y: Any, taken: Sequence[str], chain: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        names = [str(c) for c in y.columns] if hasattr(y, "columns") else None
        numbers = validation.check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if numbers.ndim == 2 and numbers.shape[1] == 1 and not hasattr(y, "columns"):
            numbers = validation.column_or_1d(numbers, warn=True)
        self._flat = numbers.ndim == 1
        numbers = numbers.reshape(len(numbers), -1)
        names = names or ([_name(y, "target")] if self._flat else [f"target{i}" for i in range(numbers.shape[1])])
        columns: dict[str, Any] = {}
        for j, name in enumerate(names):
            columns[free(name, [*taken, *columns])] = numbers[:, j]
        return columns, {"targets": list(columns)}

    def predict(self, X: Any) -> npt.NDArray[np.float64]:
        """Returns the numbers of each row: n, or n × k if y had k columns."""
        return self._numbers(self._answers(X))

    def staged_predict(self, X: Any) -> Iterator[npt.NDArray[np.float64]]:
        """Yields what predict returns if the model has only its first stage, its first two, and so on."""
        yield from map(self._numbers, self._staged(X))

    def _numbers(self, answers: Answers) -> npt.NDArray[np.float64]:
        return answers.values[:, 0] if self._flat else answers.values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _folder_for(*rows: arrow.Rows | None) -> tempfile.TemporaryDirectory[str]:
    """Returns the folder of a run. For few rows it is in memory: a run makes sixty files, which takes a disk longer than 150 rows
    take the program."""
    few = sum(some.size for some in rows if some is not None) <= _FEW and tempfile.gettempdir() == "/tmp"
    room = few and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _LEAST_FREE
    return tempfile.TemporaryDirectory(prefix="stagewise-", dir=_MEMORY if room else None)


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


def _name(y: Any, otherwise: str) -> str:
    """Returns the name of a column that has one."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else otherwise


def _of_one_type(y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Returns labels as an array of texts, or of numbers that int64 has."""
    if y.dtype == object and not all(isinstance(label, str) for label in y):
        kinds = sorted({type(label).__name__ for label in y})
        if any(kind in ("NAType", "NoneType") for kind in kinds):
            raise ValueError("y has missing labels: leave their rows out")
        if len(kinds) > 1 or not isinstance(y[0], bool | int | float | np.bool_ | np.number):
            raise ValueError(f"y has labels of type {', '.join(kinds)}: y.astype(str) makes texts of them")
        y = np.array(y.tolist())
    if y.dtype.kind in "Ou" and any(not isinstance(label, str) and label > np.iinfo(np.int64).max for label in np.unique(y)):
        raise ValueError("y has labels that int64 does not hold: y.astype(str) makes texts of them")
    return y


def _is_lists(y: Any) -> bool:
    """Reports whether y has a list of labels for each row. Lists that are the rows of a matrix of 0 and 1 are none."""
    if not isinstance(y, Iterable) or isinstance(y, str | bytes) or hasattr(y, "tocsr") or hasattr(y, "columns"):
        return False
    rows = list(y)
    if not rows or not all(isinstance(labels, list | tuple | set | frozenset) for labels in rows):
        return False
    return len({len(row) for row in rows}) > 1 or len(rows[0]) < 2 or any(label not in (0, 1) for row in rows for label in row)


def _words_of(labels: Sequence[Any]) -> list[str] | None:
    """Returns labels of one type as the program spells them; None if it would not tell them apart, or would not take them for labels."""
    if all(isinstance(label, str) for label in labels):
        cut = any(label != label.strip() or not label or any(unicodedata.category(c) in ("Cc", "Cs") for c in label) for label in labels)
        return None if cut else list(labels)
    whole = all(isinstance(label, bool | int | float) and float(label).is_integer() for label in labels)
    return [spelt(label) for label in labels] if whole else None
