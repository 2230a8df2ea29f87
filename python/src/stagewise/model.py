"""Finished versions, which predict: the interface of scikit-learn's classifiers and regressors, of a process of the program.

A model has one version; a follower has the newest of a pipeline, as soon as all of it is here."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from . import arrow
from .program import BrokersError, Child, DamagedError, NoVersionError, configuration_file

# The place of a refusal.
_ROW = re.compile(r"\brow (\d+)(, counted from 0)?")

_LOGGER = logging.getLogger("stagewise")
_SILENT = 2.0  # seconds after which follow says what it waits for
_FIRST_WAIT, _LAST_WAIT = 0.02, 1.0  # seconds between questions while there is no other version
_AGAIN = 10.0  # seconds in which a process that has begun anew may read its version

# What fit and clone say.
_TRAINED = (
    "a model that stagewise has trained can't be fitted again: it would be measured on rows that it has learnt. To predict with it in scikit-learn's "
    "tools, wrap it: sklearn.frozen.FrozenEstimator(model)"
)


def load(path: str | os.PathLike[str]) -> Model:
    """Reads a model from a file that `stagewise train --model` or `stagewise weights export` wrote, and checks its digest.

    A file that is no model raises a DamagedError, which is a ValueError.
    """
    model = Model(Path(path).read_bytes())
    try:
        model.version
    except DamagedError as reason:
        raise DamagedError(f"{path}: {reason}") from None
    return model


def follow(
    brokers: str | Sequence[str],
    name: str,
    *,
    version: int | str = "latest",
    timeout: float = 60,
    max_silence: float = 60,
    max_age: float | None = None,
    security: Mapping[str, Any] | None = None,
) -> Follower:
    """Follows the versions of the pipeline of that name, and returns when there is a model.

    brokers are host:port addresses of a Kafka cluster, or of an embedded broker that listens.

    version is a number or the id of a run, to follow only that; by default it is the version that is pinned, or else the newest that is
    offered.

    If the pipeline has no topics, follow raises a ConnectionError that names the missing one. If there is no model after timeout seconds,
    it raises a TimeoutError that says why. With 0 it returns at once, even if there are no topics yet, and predictions raise a
    NoVersionError until there is a model.

    max_silence and max_age are when `Follower.stale` says so: seconds without an answer of the brokers, and since the version was
    written (None: never).

    security is that section of the configuration (docs/security.md).
    """
    addresses = [address.strip() for address in brokers.split(",")] if isinstance(brokers, str) else list(brokers)
    if not name or not all(addresses) or not addresses:
        raise ValueError("follow needs the addresses of brokers, and the name of a pipeline")
    limits = {"max_silence": f"{max_silence}s", "max_age": f"{max_age or 0}s"}
    configuration = {"name": name, "brokers": addresses, "serve": limits, **({"security": security} if security else {})}
    process = Child("--config", configuration_file(configuration), "--version", str(version))
    follower = Follower(process)
    try:
        if timeout > 0:
            follower._await(0, timeout, first=True)
        else:
            follower.status()
    except BaseException:
        process.close()
        raise
    return follower


@dataclass(frozen=True)
class Version:
    """What the program says of a version, and the process that predicts with it."""

    process: Child
    manifest: Mapping[str, Any]
    names: Sequence[str]  # the labels, or the names of the numbers
    numbers: bool  # it predicts numbers
    several: bool  # a row may have several labels
    width: int  # features
    sparse: bool  # rows are sparse
    columns: Sequence[str]  # those that a table has; none: they are not known
    text: str  # the column of texts
    vectors: bool  # a row may be the list of its features

    def rows_of(self, X: Any) -> arrow.Rows:
        """Returns rows as the program reads them."""
        kind = arrow.kind_of(X)
        if kind == "sparse":
            if not self.sparse:
                raise ValueError("rows are a sparse matrix, but the model was trained on dense rows: rows.toarray() has them")
            return arrow.sparse_rows(X)
        if self.columns == [self.text] and kind != "table":
            return arrow.text_rows(X, self.text)
        if kind != "table" or arrow.is_frame(X) and not arrow.has_names(X):
            return self._array_rows(arrow.array_of(X))
        columns = arrow.table_of(X, self.columns)
        if not columns:
            every = arrow.table_of(X)
            columns = {name: column for name, column in every.items() if str(column.type).startswith(("list", "large_list", "fixed_size_list"))}
            if len(columns) != 1:
                needed = ", ".join(self.columns or [arrow.LIST])
                raise ValueError(f"the table has none of the columns that the model needs: {needed}; it has {', '.join(every)}")
        return arrow.table_rows(columns)

    def _array_rows(self, array: Any) -> arrow.Rows:
        n, words = array.shape[1], array.dtype.kind in arrow.WORDS
        if self.sparse and not self.columns and not words:
            return arrow.sparse_rows(array)
        if self.vectors and not words and n == self.width:
            return arrow.array_rows(array, None)
        names = self.columns or arrow.names_of(self.width)
        if n != len(names):
            expected = str(self.width)
            if self.columns:
                features = f", or their {self.width} features" if self.vectors else ""
                expected = f"the {len(names)} columns of the training, {', '.join(names[:8])}{', …' if len(names) > 8 else ''}{features}"
            raise ValueError(f"rows of {n} values, expected {expected}")
        return arrow.array_rows(array, names)


@dataclass(frozen=True)
class Answers:
    """What the program predicts of rows."""

    version: Version
    values: npt.NDArray[Any]  # probabilities (float32), or numbers (float64): n × k
    given: Any  # the label of each row, or a list of its labels; None: the version predicts numbers

    @property
    def places(self) -> npt.NDArray[np.int64]:
        """The place of the label of each row (n), or 1 for each label that a row is given (n × k)."""
        known = pa.array(self.version.manifest["labels"])
        if not self.version.several:
            return pc.index_in(self.given, value_set=known).to_numpy().astype(np.int64)
        indicators = np.zeros((len(self.given), len(known)), dtype=np.int64)
        indicators[pc.list_parent_indices(self.given).to_numpy(), pc.index_in(pc.list_flatten(self.given), value_set=known).to_numpy()] = 1
        return indicators


class Classifier(ABC):
    """Predicts, and is trained already. sklearn.frozen.FrozenEstimator(model) may be a step of a Pipeline that is fitted.

    Rows are a NumPy array (n × d; NaN for a missing value), lists of numbers, or a table: of pandas, pyarrow, polars or whatever else
    has Arrow's interface. If the model knows the names of its columns, a table may have them in any order, with others beside them.
    """

    @abstractmethod
    def _current(self) -> Version:
        """Returns the version that predicts at this moment."""

    def answers(self, X: Any, path: str = "/predict") -> Answers:
        """Returns what the program predicts of rows, all by one version."""
        while True:
            of = self._current()
            parts: list[pa.Table] = []
            first = 0  # row of the part
            for part in of.rows_of(X).parts(beside=8 * len(of.names)):
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, part.schema) as stream:
                    stream.write_table(part)
                try:
                    parts.append(pa.ipc.open_stream(of.process.ask(path, sink.getvalue())).read_all())
                except ValueError as reason:
                    raise ValueError(_ROW.sub(lambda row: f"row {first + int(row[1])}", str(reason), count=1)) from None
                first += len(part)
            if {int(part.schema.metadata[b"stagewise.version"]) for part in parts} <= {of.manifest["version"]}:
                return _joined(of, parts)

    def staged(self, X: Any) -> Iterator[Answers]:
        """Yields what the model predicts after each of its stages."""
        plan = self._current().manifest["plan"]
        if (plan.get("average") or 1) > 1:
            raise ValueError("a model that averages has no answers after each stage: its members are trained side by side")
        for number in range(1, len(plan["stages"]) + 1):
            yield self.answers(X, f"/stages/{number}/predict")

    @property
    def manifest(self) -> Mapping[str, Any]:
        """The metadata of the version (schemas/FORMAT.md)."""
        return self._current().manifest

    @property
    def name(self) -> str:
        """The name of the pipeline."""
        return str(self.manifest["name"])

    @property
    def version(self) -> int:
        """The number of the version."""
        return int(self.manifest["version"])

    @property
    def classes_(self) -> npt.NDArray[np.str_] | npt.NDArray[np.int64]:
        """The labels, in the order of the probabilities: whole numbers (int64) if all of them are, otherwise texts."""
        if self._current().numbers:
            raise AttributeError("the model predicts numbers: it has targets_, and no classes")
        return np.array(self.manifest["labels"])

    @property
    def targets_(self) -> npt.NDArray[np.str_]:
        """The names of the numbers that the model predicts."""
        if not self._current().numbers:
            raise AttributeError("the model predicts labels: it has classes_, and no targets")
        return np.array(self._current().names)

    @property
    def n_features_in_(self) -> int:
        """How many columns a table has that the model predicts for."""
        return len(self._current().columns) or self._current().width

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The names of the columns. There is no such attribute if they are not known, as scikit-learn has it."""
        if not self._current().columns:
            raise AttributeError("the model does not know the names of its columns")
        return np.array(self._current().columns, dtype=object)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        """Returns the probability of each class for each row (n × k)."""
        if self._current().numbers:
            raise TypeError("the model predicts numbers, which have no probabilities: call predict")
        return self.answers(X).values

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Returns the label of each row (n), the most probable one or as a threshold of the version decides, or the numbers of each row (n × k; n if
        there is one).

        Of a model of several labels a row it returns 1 for each label that a row is given, and 0 for the others (n × k).
        """
        answers = self.answers(X)
        if answers.version.numbers:
            return answers.values[:, 0] if answers.values.shape[1] == 1 else answers.values
        return answers.places if answers.version.several else np.array(answers.version.manifest["labels"])[answers.places]

    def score(self, X: Any, y: Any) -> float:
        """Returns the fraction of rows that are predicted right, of numbers R². Of several labels a row
        is right if all are, and y is as predict returns it. A label that is a number is the same in every type: 1, 1.0 and the text "1" are."""
        predicted = np.asarray(self.predict(X))
        if self._current().numbers:
            from sklearn.metrics import r2_score

            return float(r2_score(y, predicted))
        if self._current().several:
            return float(np.mean((predicted == np.asarray(y)).all(axis=1)))
        known = set(self._current().names)
        return float(np.mean(predicted.astype(str) == np.array([spelt(label, known) for label in np.asarray(y).ravel().tolist()])))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Raises a TypeError: the model is trained already."""
        raise TypeError(_TRAINED)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns no parameters: all that there was to set was set in the training."""
        return {}

    def set_params(self, **params: Any) -> Self:
        """Refuses parameters."""
        if params:
            raise ValueError(f"parameters {', '.join(params)}: a trained model has none")
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        """Raises a TypeError: whoever clones an estimator fits the clone, and would measure this model on rows that it has learnt."""
        raise TypeError(_TRAINED)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        of = self._current()
        return Tags(
            estimator_type="regressor" if of.numbers else "classifier",
            target_tags=TargetTags(required=False, multi_output=of.numbers or of.several),
            classifier_tags=None if of.numbers else ClassifierTags(multi_label=of.several),
            regressor_tags=RegressorTags() if of.numbers else None,
            input_tags=InputTags(allow_nan=True, string=True, categorical=True),
        )


class Model(Classifier):
    """A finished version. It never changes, any number of threads may predict with it, and it can be pickled. `load` and `Follower.model` give
    models."""

    def __init__(self, content: bytes) -> None:
        """content is that of a model's file. It is read by the first call."""
        self.content = content
        self._process = Child("--model", content)
        self._read: Version | None = None

    def __repr__(self) -> str:
        of = self._current()
        what = f"{len(of.names)} numbers" if of.numbers else f"{'any' if of.several else 'one'} of {len(of.names)} labels"
        return f"<stagewise model {self.name}, version {self.version}: {self.n_features_in_} columns, {what}>"

    def __reduce__(self) -> tuple[Callable[[bytes], Model], tuple[bytes]]:
        return type(self), (self.content,)

    def _current(self) -> Version:
        if self._read is None:
            try:
                self._read = Version(process=self._process, **json.loads(self._process.ask("/version")))
            except ValueError as reason:
                raise DamagedError(str(reason)) from None
        return self._read


@dataclass(frozen=True)
class Status:
    """What a follower has, and how well it knows that this is what it should have."""

    version: int = 0  # its number; 0: there is none
    run: str = ""  # id of the run that made it
    kind: str = ""  # "full", or "update" if it goes on from its parent
    parent: str = ""  # id of the run of the version before it in its chain; "": there is none
    written: datetime | None = None  # when, by the clock of who wrote it; None: it is not known
    age: float = 0.0  # seconds since it was written
    silence: float = math.inf  # seconds since the brokers last confirmed the version; infinite if they never did
    error: Exception | None = None  # the last error; None: nothing, or all went well since


class Follower(Classifier, contextlib.AbstractContextManager["Follower"]):
    """Predicts with the model of this moment. `follow` makes followers.

    A version becomes the model when all of it is here, all digests match and its random draws are made. Nobody waits for that, and
    predictions that are under way go on with the version before it. While brokers do not answer, the model stays. A version that was
    removed does not stay: the one that takes its place is the model, or none.

    Two calls may be of two versions. Take `model` once, if they must not: it never changes.
    """

    def __init__(self, process: Child) -> None:
        self._process = process
        self._starts = 0  # of the process, when it last had a version
        self._read: Version | None = None
        self._model: Model | None = None
        self._closed = False

    def close(self) -> None:
        """Stops following. The model stays. A second close does nothing."""
        if not self._closed:
            try:
                self._model = self.model
            except (NoVersionError, BrokersError):
                self._model = None
            self._closed = True
            self._process.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _current(self) -> Version:
        if self._closed:
            return self.model._current()
        status = json.loads(self._process.ask("/status"))
        if not status["version"] and 0 < self._starts < self._process.starts:  # after a fork, Ctrl-C or a kill
            self._starts = self._process.starts
            with contextlib.suppress(TimeoutError):
                self._await(0, _AGAIN)
            status = self._asked()
        if not status["version"]:
            raise NoVersionError(f"there is no version to predict with: {status.get('error') or 'none was read yet'}")
        self._starts = self._process.starts
        if self._read is None or self._read.manifest["run"] != status["run"]:
            self._read = Version(process=self._process, **json.loads(self._process.ask("/version")))
        return self._read

    @property
    def model(self) -> Model:
        """The model of this moment. It is a NoVersionError if there is none."""
        if not self._closed:
            run = self._current().manifest["run"]
            if self._model is None or self._model.manifest["run"] != run:
                self._model = Model(bytes(self._process.ask("/file")))
        if self._model is None:
            raise NoVersionError("there was no version to predict with when the follower was closed")
        return self._model

    def wait(self, other_than: int = 0, timeout: float | None = None) -> int:
        """Waits until there is a version with another number than this, and returns its number.

        After timeout seconds it raises a TimeoutError that says what went wrong last.
        """
        return self._await(other_than, timeout)

    def _await(self, other_than: int, timeout: float | None, first: bool = False) -> int:
        """As wait. At first, it raises a BrokersError at once if the pipeline has no topics, and says what it waits for."""
        began, pause, told = time.monotonic(), _FIRST_WAIT, not first
        while True:
            status = self._asked()
            if status["version"] not in (0, other_than):
                return int(status["version"])
            waited, why = time.monotonic() - began, status.get("error", "none was read yet")
            if first and status.get("no_pipeline"):
                raise BrokersError(why)
            if timeout is not None and waited >= timeout:
                raise TimeoutError(f"no version after {timeout:g} seconds: {why}")
            if not told and waited > _SILENT:
                _LOGGER.warning("there is no version to predict with yet: %s; waiting up to %g seconds", why, timeout)
                told = True
            time.sleep(pause if timeout is None else min(pause, timeout - waited))
            pause = min(2 * pause, _LAST_WAIT if "error" in status else 10 * _FIRST_WAIT)

    def _asked(self) -> dict[str, Any]:
        """Returns the status that the program has, or that of one that can't reach the brokers."""
        try:
            return dict(json.loads(self._process.ask("/status")))
        except BrokersError as reason:
            return {"version": 0, "error": str(reason), "stale": f"there is no version: {reason}", "unreachable": True}

    def status(self) -> Status:
        """Returns the status of this moment."""
        s = self._asked()
        told = {key: s[key] for key in ("version", "run", "kind", "parent", "age", "silence") if s.get(key) is not None}
        if s.get("written"):
            told["written"] = datetime.fromtimestamp(s["written"], UTC)
        if "error" in s:
            told["error"] = (BrokersError if s["version"] or s.get("no_pipeline") or "unreachable" in s else NoVersionError)(s["error"])
        return Status(**told)

    def stale(self) -> str | None:
        """Returns why the model should not be relied on; None if all is well. What to do about it is the caller's business."""
        return self._asked().get("stale")


def spelt(label: Any, known: Container[str] = ()) -> str:
    """Returns a label as text: the known one that it is, as a number is the same in every type, otherwise as the program spells it."""
    if isinstance(label, bool | int | float | np.bool_ | np.integer | np.floating) and float(label).is_integer():
        whole = str(label).lower() if isinstance(label, bool | np.bool_) else str(int(label))
        return next((text for text in (whole, str(label), str(int(label)), str(float(label))) if text in known), whole)
    return label.decode(errors="replace") if isinstance(label, bytes) else str(label)


def _joined(of: Version, parts: Sequence[pa.Table]) -> Answers:
    """Returns the answers to all parts of the rows."""
    k = len(of.names)
    if not parts:
        label = pa.array(of.manifest["labels"]).type
        return Answers(of, np.zeros((0, k), np.float64 if of.numbers else np.float32), pa.array([], pa.list_(label) if of.several else label))
    table = pa.concat_tables(parts)
    lists = table.column(table.num_columns - 1).combine_chunks()
    values = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, k)
    return Answers(of, values, None if of.numbers else table.column(0).combine_chunks())
