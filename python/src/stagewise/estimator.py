"""What the estimators share: parameters, the configuration that these make, and runs of the program."""

from __future__ import annotations

import copy
import functools
import json
import math
import os
import re
import shutil
import tempfile
import warnings
import weakref
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from . import arrow, handover, program
from .model import Answers, Model
from .report import Report, needs

# Parameters that are keys of the section examples, and those that are keys of their own.
_OF_EXAMPLES = ("holdout", "missing", "words", "image", "augment", "partitions", "batch_rows")
_OF_ALL = ("stages", "prepare", "threshold", "average", "intercept", "seed", "memory", "arithmetic", "retrain", "brokers", "security")

# Parameters of scikit-learn's estimators that have another name here.
_ELSEWHERE = {
    **dict.fromkeys(("random_state", "random_seed"), "set seed"),
    "n_jobs": "the program uses all cores; the environment variable GOMAXPROCS limits them",
    **dict.fromkeys(("n_estimators", "max_iter"), 'set repeat in stages, as in stages=[{"features": {"kind": "trees"}, "repeat": 22}]'),
    **dict.fromkeys(("max_leaf_nodes", "num_leaves"), 'set leaves in stages, as in stages=[{"features": {"kind": "trees", "leaves": 32}}]'),
    "learning_rate": 'set rate in stages, as in stages=[{"features": {"kind": "trees"}, "rate": 0.5, "repeat": 22}]',
    "categorical_features": "set categorical",
}

_NAME = "model"  # of the pipeline, if the caller gives none

# The folder in memory that Linux has, if so many bytes are free. The log of a run is there too if the rows are few: a run makes sixty files, which
# takes a disk longer than 150 rows take the program.
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


_Init = TypeVar("_Init", bound=Callable[..., None])


def names_elsewhere(init: _Init) -> _Init:
    """Makes an __init__ say what to set for a parameter that only scikit-learn's estimators have."""

    @functools.wraps(init)
    def checked(self: Any, *others: Any, **given: Any) -> None:
        for name in _ELSEWHERE.keys() & given:
            raise TypeError(f"{type(self).__name__} has no parameter {name}: {_ELSEWHERE[name]}")
        init(self, *others, **given)

    return cast(_Init, checked)


@dataclass
class Target:
    """What is to be predicted, as columns of the rows that are handed over."""

    columns: list[tuple[str, Any]]
    examples: dict[str, Any]  # keys of the section examples


class Estimator(BaseEstimator):  # type: ignore[misc]
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

    model_: Model
    report_: Report
    _held_out: bytes | None = None  # rows that are not learnt from, as an Arrow file
    _log: dict[str, Any] | None = None  # the configuration of a log that has such rows

    @names_elsewhere
    def __init__(
        self,
        *,
        stages: Sequence[Mapping[str, Any]] | None = None,
        prepare: Mapping[str, Any] | None = None,
        holdout: float | None = None,
        class_weight: Any = None,
        threshold: Any = None,
        average: int | None = None,
        intercept: bool | None = None,
        seed: int | None = None,
        memory: str | int | None = None,
        arithmetic: str | None = None,
        categorical: handover.Categorical = None,
        missing: str | None = None,
        words: Mapping[str, Any] | None = None,
        image: Sequence[int] | None = None,
        augment: Mapping[str, Any] | None = None,
        retrain: Mapping[str, Any] | None = None,
        partitions: int | None = None,
        batch_rows: int | None = None,
        settings: Mapping[str, Any] | None = None,
        name: str | None = None,
        brokers: Sequence[str] | None = None,
        security: Mapping[str, Any] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        verbose: int | None = None,
    ) -> None:
        self.stages = stages
        self.prepare = prepare
        self.holdout = holdout
        self.class_weight = class_weight
        self.threshold = threshold
        self.average = average
        self.intercept = intercept
        self.seed = seed
        self.memory = memory
        self.arithmetic = arithmetic
        self.categorical = categorical
        self.missing = missing
        self.words = words
        self.image = image
        self.augment = augment
        self.retrain = retrain
        self.partitions = partitions
        self.batch_rows = batch_rows
        self.settings = settings
        self.name = name
        self.brokers = brokers
        self.security = security
        self.data_dir = data_dir
        self.verbose = verbose

    # What a subclass says of its task.

    @abstractmethod
    def _target(self, y: Any, taken: Sequence[str], chain: bool) -> Target:
        """Checks y, keeps what predictions need of it, and returns what to hand over. taken are the names of other columns."""

    def _of_classes(self, chain: bool) -> dict[str, Any]:
        """Returns keys of the section examples that name labels."""
        return {} if self.class_weight is None else {"class_weight": _plain(self.class_weight)}

    def _learnt(self) -> None:
        """Reads from the model what a chain may have changed."""

    # Training

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, X_val: Any = None, y_val: Any = None, sample_weight_val: Any = None
    ) -> Self:
        """Trains a model.

        Parameters
        ----------
        X : data frame, array, sparse matrix, list of dict, or list of str
            The rows. A list of texts is counted by words.
        y : array-like
            A label or numbers for each row.
        sample_weight : array-like, optional
            The weight of each row.
        X_val, y_val, sample_weight_val : optional
            Rows that are not learnt from: the report has their errors, and `feature_importances_` is of them.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            The program refuses the rows or a parameter.
        BrokersError
            The brokers do not answer. It is a ConnectionError.
        """
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val: expected both, or none")
        given, columns, examples = self._handed(X, y, sample_weight, chain=False)
        self._leave()
        self._held_out = None
        place = _place(given.rows.size)
        with (
            tempfile.TemporaryDirectory(prefix="stagewise-", dir=place) as folder,
            tempfile.TemporaryDirectory(prefix="stagewise-", dir=place if given.rows.size <= _FEW else None) as log,
        ):
            data, path = os.fspath(self.data_dir) if self.data_dir is not None else log, Path(folder, "rows.arrow")
            handover.write(path, given.rows, columns)
            examples["train"] = [str(path)]
            if X_val is not None:
                others = handover.given(self._checked(X_val, reset=False), self.categorical)
                beside = self._beside(y_val, others)
                if "weight" in examples:
                    weights = np.ones(others.rows.count) if sample_weight_val is None else np.asarray(sample_weight_val, dtype=np.float64)
                    beside.append((examples["weight"], pa.array(weights)))
                held_out = Path(folder, "held-out.arrow")
                handover.write(held_out, others.rows, beside)
                examples["test"] = [str(held_out)]
                self._held_out = _first_rows(held_out, _ROWS_TO_EXPLAIN)
            self._run("train", folder, data, examples, {})
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continues a chain of versions, or begins one: see update. classes is for scikit-learn's tools: a chain learns classes as they come."""
        self._update(X, y, sample_weight)
        return self

    def update(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Adds rows to a chain of versions, as `stagewise run --until end` does, and returns how well the chain predicted them before it learnt them.

        A chain continues from the rows of `fit` if data_dir keeps them; otherwise it begins with the first update. Its rows stay in data_dir, or in
        a folder that is removed with the estimator.

        Parameters
        ----------
        X, y, sample_weight
            As of `fit`.

        Returns
        -------
        score : float
            That of `score`: the fraction of the rows that were predicted right, or R². NaN for the rows of the first version.
        """
        return self._update(X, y, sample_weight)

    def _update(self, X: Any, y: Any, sample_weight: Any) -> float:
        if hasattr(self, "model_") and not hasattr(self, "_chain") and self.data_dir is None and not self.brokers:
            warnings.warn(_FORGOT, stacklevel=3)
            del self.model_
        given, columns, examples = self._handed(X, y, sample_weight, chain=True)
        with tempfile.TemporaryDirectory(prefix="stagewise-", dir=_place(given.rows.size)) as folder:
            path = Path(folder, "rows.arrow")
            handover.write(path, given.rows, columns)
            self._run("run", folder, self._chain_dir(), {**examples, "train": [str(path)]}, self._kept())
        self._learnt()
        error = self.report_.get("prequential_error")
        return math.nan if error is None else 1 - error / 100

    def _handed(self, X: Any, y: Any, sample_weight: Any, chain: bool) -> tuple[handover.Given, list[tuple[str, Any]], dict[str, Any]]:
        """Returns the rows to hand over, the columns beside them, and the section examples."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        goes_on = chain and hasattr(self, "model_")
        given = handover.given(self._checked(X, reset=not goes_on), self.categorical)
        target = self._target(y, given.names, chain)
        _check_lengths(given.rows.count, target)
        columns = list(target.columns)
        examples: dict[str, Any] = {"missing": "mean", **given.examples, **target.examples}
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, np.empty((given.rows.count, 1)), dtype=np.float64)
            if not weights.any():
                raise ValueError("sample_weight is 0 for all rows")
            name = handover.free("weight", [*given.names, *(name for name, _ in columns)])
            columns.append((name, pa.array(weights)))
            examples["weight"] = name
        for key in _OF_EXAMPLES:
            if getattr(self, key, None) is not None:
                examples[key] = _plain(getattr(self, key))
        return given, columns, {**examples, **self._of_classes(chain)}

    def _checked(self, X: Any, reset: bool) -> Any:
        """Checks rows, remembers their columns or compares them with those of the training, and returns a table, an array, a sparse matrix or texts."""
        if arrow.is_texts(X):
            self._same_kind("texts", reset)
            self.n_features_in_ = 1
            return X
        if arrow.is_table(X):
            arrow.refuse(X)
            _check_feature_names(self, X, reset=reset)
            if reset:
                self._same_kind("table", reset)
            if isinstance(X, list | tuple):
                self.n_features_in_ = len(dict.fromkeys(name for row in X for name in row)) if reset else self.n_features_in_
            elif hasattr(X, "shape") or hasattr(X, "num_columns"):
                width = X.shape[1] if hasattr(X, "shape") else X.num_columns
                if reset:
                    self.n_features_in_ = width
                elif not hasattr(self, "feature_names_in_"):
                    _check_n_features(self, X, reset=False)
            if len(X) == 0 if hasattr(X, "__len__") else False:
                raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
            return X
        dtype: Any = None
        if not hasattr(X, "tocsr"):
            if isinstance(X, list | tuple) and any(isinstance(v, str) for row in X if isinstance(row, list | tuple) for v in row):
                dtype = object
            elif getattr(X, "dtype", None) == object and not _has_texts(X):
                dtype = "numeric"
        checked = validate_data(
            self, X, reset=reset, accept_sparse="csr", dtype=dtype, ensure_all_finite="allow-nan", estimator=self, skip_check_array=False
        )
        if hasattr(checked, "tocsr"):
            if checked.shape[1] <= handover.MOST_COLUMNS:
                checked = checked.toarray()
            else:
                self._same_kind("sparse", reset)
                return checked
        elif not reset and self._kind == "sparse":
            from scipy.sparse import csr_matrix

            return csr_matrix(checked)
        if checked.dtype.kind == "c":
            raise ValueError("Complex data not supported")
        if reset:
            self._same_kind("array", reset)
        return checked

    def _same_kind(self, kind: str, reset: bool) -> None:
        if reset:
            self._kind = kind
        elif kind != self._kind:
            raise ValueError(f"X has {kind}, but {type(self).__name__} was fitted with {self._kind}")

    def _chain_dir(self) -> str:
        """Returns the folder of a chain's log. Without data_dir it is removed with the estimator."""
        if self.data_dir is not None:
            self._chain = os.fspath(self.data_dir)
        elif not hasattr(self, "_chain"):
            self._chain = tempfile.mkdtemp(prefix="stagewise-")
            self._remove_chain = weakref.finalize(self, shutil.rmtree, self._chain, ignore_errors=True)
        return self._chain

    def _leave(self) -> None:
        """Ends the chain, as fit begins anew."""
        if hasattr(self, "_remove_chain"):
            self._remove_chain()
            del self._remove_chain
        if hasattr(self, "_chain"):
            del self._chain

    def _kept(self) -> dict[str, Any]:
        """Returns the stages of the model, with which a chain goes on unless others are listed."""
        if self.stages is not None or not hasattr(self, "model_"):
            return {}
        plan = self.model_.manifest["plan"]
        return {"stages": plan["stages"], "prepare": plan["prepare"]}

    def _run(self, command: str, folder: str, data: str, examples: Mapping[str, Any], chosen: Mapping[str, Any]) -> None:
        """Runs the program, and reads its model and its report. chosen are keys that the parameters may leave open."""
        configuration: dict[str, Any] = {"name": self.name or _NAME, "data_dir": data, "examples": dict(examples), **chosen}
        for key in _OF_ALL:
            if getattr(self, key, None) is not None:
                configuration[key] = _plain(getattr(self, key))
        for key, value in (self.settings or {}).items():
            _put(configuration, key, _plain(value))
        file, report, model = (str(Path(folder, name)) for name in (_CONFIGURATION, "report.json", "model"))
        _write_configuration(file, configuration)
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
        self._log = {**configuration, "examples": {k: v for k, v in configuration["examples"].items() if k not in ("train", "test")}} if kept else None
        self.report_ = Report(json.loads(Path(report).read_text()))
        # A later full version counts the rows of its window again.
        counted = [u for u in self.report_.get("updates", []) if u["kind"] == "update" or u["version"] == 1]
        if without := sum(update.get("no_label", 0) for update in counted):
            warnings.warn(f"{without} rows have no label (null, empty or one of examples.missing_values), and are not learnt", stacklevel=4)
        self._content = Path(model).read_bytes()
        self.model_ = Model(self._content)

    # What there is once the model is trained

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if state.pop("_remove_chain", None) is not None:
            state.pop("_chain", None)  # the folder goes with the estimator
        state.pop("model_", None)  # the file of the model is smaller
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "_content"):
            self.model_ = Model(self._content)

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
        Path(path).write_bytes(self._content)

    def to_onnx(self, path: str | os.PathLike[str] | None = None) -> bytes:
        """Returns the model as an ONNX graph, and writes it to a file if there is a path: see docs/exports.md."""
        check_is_fitted(self)
        with tempfile.TemporaryDirectory(prefix="stagewise-") as folder:
            self.save(Path(folder, "model"))
            out = Path(folder, "model.onnx")
            program.run(
                ["weights", "export", "--model", str(Path(folder, "model")), "--format", "onnx", "-o", str(out)], shown=False, folder=folder
            )
            content = out.read_bytes()
        if path is not None:
            Path(path).write_bytes(content)
        return content

    def importances(self, X: Any, y: Any, *, repeats: int = 5) -> Any:
        """Returns by how much error and loss rise if a column of rows that the model has not learnt is permuted, as `stagewise explain` measures it: a data
        frame with a row for each column, the most important first."""
        pandas = needs("pandas")
        check_is_fitted(self)
        given = handover.given(self._checked(X, reset=False), self.categorical)
        with tempfile.TemporaryDirectory(prefix="stagewise-") as folder:
            path = Path(folder, "held-out.arrow")
            handover.write(path, given.rows, self._beside(y, given))
            return pandas.DataFrame(self._explained(folder, path, repeats)).set_index("column")

    @property
    def feature_importances_(self) -> npt.NDArray[np.float64]:
        """By how much the loss of X_val rises if a column is permuted, in parts of the sum; 0 where it falls."""
        check_is_fitted(self)
        if not hasattr(self, "_importances"):
            with tempfile.TemporaryDirectory(prefix="stagewise-") as folder:
                if self._held_out is not None:
                    path = Path(folder, "held-out.arrow")
                    path.write_bytes(self._held_out)
                    explained = self._explained(folder, path, 5)
                elif self._log is not None:
                    file = Path(folder, _CONFIGURATION)
                    _write_configuration(file, self._log)
                    explained = _explain(folder, ["-c", str(file), "--version", str(self.version_), "--rows", str(_ROWS_TO_EXPLAIN)])
                else:
                    raise AttributeError(f"feature_importances_ needs rows that the model has not learnt: {_HELD_OUT}")
            rises = {column["column"]: max(column["loss"], 0.0) for column in explained}
            names = getattr(self, "feature_names_in_", None)
            ordered = np.array([rises.get(str(name), 0.0) for name in (arrow.names_of(self.n_features_in_) if names is None else names)])
            self._importances: npt.NDArray[np.float64] = ordered / (ordered.sum() or 1)
        return self._importances

    def _explained(self, folder: str, rows: Path, repeats: int) -> list[dict[str, Any]]:
        model = Path(folder, "model")
        self.save(model)
        return _explain(folder, ["--model", str(model), "-i", str(rows), "--permutations", str(repeats)])

    def _beside(self, y: Any, given: handover.Given) -> list[tuple[str, Any]]:
        """Returns the columns of what is to be predicted for rows that are not learnt from."""
        target = copy.copy(self)._target(y, given.names, True)
        _check_lengths(given.rows.count, target)
        return target.columns

    def plot(self, kind: str = "stages", split: str | None = None, ax: Any = None) -> Any:
        """Draws a figure of the report with matplotlib, and returns its axes.

        kind: `stages` (error and loss by stage), `reliability` or `confusion`. split: train, holdout or test; by default the rows that the model
        has not learnt, if there are any.
        """
        check_is_fitted(self)
        return self.report_.plot(kind, split, ax)

    def _answers(self, X: Any) -> Answers:
        check_is_fitted(self)
        return self.model_.answers(self._known(X))

    def _staged(self, X: Any) -> Iterator[Answers]:
        check_is_fitted(self)
        return self.model_.staged(self._known(X))

    def _known(self, X: Any) -> Any:
        """Checks rows to predict for, and returns them as the model reads them."""
        checked = self._checked(X, reset=False)
        if self._kind == "array" and arrow.is_table(checked):
            columns, _ = handover.named(checked)
            return np.column_stack([column.to_numpy() for column in columns.values()])
        return checked

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = (self.missing or "mean") != "error"
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags


def _place(size: int) -> str | None:
    """Returns the folder for files of so many bytes: one in memory, if that has room for four times as many. A disk may take longer to write rows
    than the program takes to learn from them. None is the folder for temporary files."""
    if tempfile.gettempdir() != "/tmp" or not os.access(_MEMORY, os.W_OK):
        return None
    folder = os.statvfs(_MEMORY)
    return _MEMORY if min(folder.f_bavail * folder.f_frsize, _free_memory()) >= max(4 * size, _LEAST_FREE) else None


def _free_memory() -> int:
    """Returns how many bytes of memory are free, within the limit of a container (cgroup); 0 if that is not known."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return 0
    for limit, used in (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")):
        try:
            free = min(free, int(Path("/sys/fs/cgroup", limit).read_text()) - int(Path("/sys/fs/cgroup", used).read_text()))
        except (OSError, ValueError):
            continue  # no limit, or none of this kind
    return free


def _explain(folder: str, arguments: Sequence[str]) -> list[dict[str, Any]]:
    """Returns by how much error and loss rise, and the deviations of both, for each column."""
    out = Path(folder, "explained.json")
    program.run(["explain", *arguments, "--json", str(out)], shown=False, folder=folder)
    return [
        {"column": c["name"], **c["rise"], **{f"{key}_deviation": value for key, value in c["deviation"].items()}}
        for c in json.loads(out.read_text())["importance"]
    ]


def _first_rows(path: Path, n: int) -> bytes:
    """Returns a file of the first rows of another."""
    with pa.memory_map(str(path)) as file:
        table = pa.ipc.open_file(file).read_all().slice(0, n)
        out = pa.BufferOutputStream()
        with pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
        content: bytes = out.getvalue().to_pybytes()
        return content


def _check_lengths(rows: int, target: Target) -> None:
    if (n := len(target.columns[0][1])) != rows:
        raise ValueError(f"Found input variables with inconsistent numbers of samples: {[rows, n]}")


def _has_texts(array: Any) -> bool:
    return bool(np.frompyfunc(lambda value: isinstance(value, str), 1, 1)(np.asarray(array)).any())


def _write_configuration(path: str | Path, configuration: Mapping[str, Any]) -> None:
    """Writes a configuration as JSON that is YAML too: of a character beyond U+FFFF, YAML has no two surrogates but one escape."""
    text = json.dumps(configuration, indent=1)
    text = re.sub(
        r"\\u(d[89ab]..)\\u(d[c-f]..)", lambda pair: f"\\U{0x10000 + (int(pair[1], 16) - 0xD800 << 10) + int(pair[2], 16) - 0xDC00:08x}", text
    )
    Path(path).write_text(text, encoding="ascii")


def _put(configuration: dict[str, Any], key: str, value: Any) -> None:
    """Sets a key by its full name, such as examples.columns.drop."""
    *sections, last = key.split(".")
    for section in sections:
        configuration = configuration.setdefault(section, {})
    configuration[last] = value


def _plain(value: Any) -> Any:
    """Returns a value of numpy or of Python as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
