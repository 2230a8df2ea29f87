"""A finished version, which predicts: the interface of scikit-learn's classifiers and regressors, of a process of the program."""

from __future__ import annotations

import functools
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from . import arrow, child
from .errors import DamagedError

Labels = npt.NDArray[np.str_] | npt.NDArray[np.int64]
Given = npt.NDArray[np.int64]
Predictions = Labels | Given | npt.NDArray[np.float64]

# So many bytes of rows and their predictions are sent at a time, about.
_LARGEST = 8 << 20

# How the reason of a refusal begins if it is a column's.
_COLUMN = re.compile(r'the request, column \d+ \((".*?")\): ')

# What fit and clone say.
_TRAINED = (
    "a model that stagewise has trained can't be fitted again: it would be measured on rows that it has learnt. To predict with it in scikit-learn's "
    "tools, wrap it: sklearn.frozen.FrozenEstimator(model)"
)


def load(path: str | os.PathLike[str]) -> Model:
    """Reads a model from a file that `stagewise train --model` or `stagewise weights export` wrote, and checks its digest.

    A file that is no model raises a DamagedError, which is a ValueError.
    """
    path = os.fspath(path)  # a number would be a file that is open
    with open(path, "rb") as file:
        model = Model(file.read())
    try:
        model.version
    except DamagedError as reason:
        raise DamagedError(f"{path}: {reason}") from None
    return model


@dataclass(frozen=True)
class Version:
    """What there is to know of a version."""

    manifest: Mapping[str, Any]
    width: int  # raw features
    sparse: bool  # rows are sparse

    @functools.cached_property
    def labels(self) -> list[str]:
        """The labels, or the names of the numbers, as texts."""
        return [str(label) for label in self.manifest["plan"].get("targets") or self.manifest["labels"]]

    @functools.cached_property
    def numbers(self) -> bool:
        """Whether the version predicts numbers."""
        return bool(self.manifest["plan"].get("targets"))

    @functools.cached_property
    def several(self) -> bool:
        """Whether a row may have several labels."""
        return bool(self.manifest["plan"].get("labels") == "several")

    @functools.cached_property
    def sources(self) -> list[str]:
        """The columns that a table has; none if they are not known."""
        given = self.manifest["plan"]["input"]
        columns = [{"name": c} if isinstance(c, str) else c for c in self.manifest.get("columns") or []]
        names = [c["name"].removesuffix(f".{c['time']}") if c.get("time") else c["name"] for c in columns]
        hashed = given.get("categorical") or [] if given.get("hash") else []
        return list(dict.fromkeys([*names, *hashed, *([given["text"]] if given.get("text") else [])]))

    @functools.cached_property
    def numeric(self) -> set[str]:
        """The columns of a table that are numbers."""
        columns = self.manifest.get("columns") or []
        return {c if isinstance(c, str) else c["name"] for c in columns if isinstance(c, str) or not c.get("categories") and not c.get("time")}

    def rows_of(self, X: Any) -> arrow.Rows:
        """Returns rows as the program reads them."""
        sources, text = self.sources, self.manifest["plan"]["input"].get("text")
        if hasattr(X, "tocsr") and self.sparse:
            return arrow.sparse_rows(X)
        if sources == [text]:
            if isinstance(X, str):
                raise TypeError("a text by itself: expected a list of texts")
            if hasattr(X, "to_frame") or (table := arrow.table_of(X, sources)) is None:
                texts = X.to_pylist() if hasattr(X, "to_pylist") else list(X)
                for row, one in enumerate(texts):
                    if not isinstance(one, str):
                        raise ValueError(f"row {row}: {one!r} is no text: the model was trained on texts")
                return arrow.text_rows(texts, text)
        else:
            table = arrow.table_of(X, sources)
        if table is None:
            return self._array_rows(arrow.array_of(X))
        columns, count = table
        if sources and not columns:
            every, _ = arrow.table_of(X) or ({}, 0)
            columns = {name: column for name, column in every.items() if arrow.is_list(column.type)}
            if len(columns) != 1:
                raise ValueError(f"the table has none of the columns that the model needs: {', '.join(sources)}; it has {', '.join(every)}")
        return arrow.table_rows(columns, count)

    def _array_rows(self, array: Any) -> arrow.Rows:
        sources, n = self.sources, array.shape[1]
        words = array.dtype.kind in "OU"
        if self.sparse and not sources and not words:
            from scipy.sparse import csr_matrix

            return arrow.sparse_rows(csr_matrix(array))
        if not words and not self.sparse and n == self.width and (n != len(sources) or n == len(self.numeric)):
            return arrow.vector_rows(array)
        names = sources or arrow.names_of(n)
        if n != len(names) or not sources and n != self.width:
            expected = str(self.width)
            if sources:
                features = "" if self.sparse or self.width == len(sources) else f", or their {self.width} features"
                expected = f"the {len(sources)} columns of the training, {', '.join(sources[:8])}{', …' if len(sources) > 8 else ''}{features}"
            raise ValueError(f"rows of {n} values, expected {expected}")
        return arrow.table_rows(arrow.columns_of(array, names), len(array)) if words else arrow.array_rows(array, names)


@dataclass(frozen=True)
class Answers:
    """What the program predicts of rows."""

    version: Version
    values: npt.NDArray[Any]  # probabilities (float32), or numbers (float64): n × k
    given: Any  # the label of each row, or a list of its labels; None: the version predicts numbers

    @property
    def places(self) -> Given:
        """The place of the label of each row (n), or 1 for each label that a row is given (n × k)."""
        labels = self.version.labels
        whole = pa.types.is_integer(self.given.type) or arrow.is_list(self.given.type) and pa.types.is_integer(self.given.type.value_type)
        known = pa.array([int(label) for label in labels] if whole else labels)
        if not self.version.several:
            return pc.index_in(self.given, value_set=known).to_numpy().astype(np.int64)  # type: ignore[no-any-return]
        indicators: Given = np.zeros((len(self.given), len(labels)), dtype=np.int64)
        row = pc.list_parent_indices(self.given).to_numpy()
        indicators[row, pc.index_in(pc.list_flatten(self.given), value_set=known).to_numpy()] = 1
        return indicators


class Classifier(ABC):
    """Predicts, and is trained already. sklearn.frozen.FrozenEstimator(model) may be a step of a Pipeline that is fitted.

    Rows are a NumPy array (n × d; NaN for a missing value), lists of numbers, or a table: of pandas, pyarrow, polars or whatever else
    has Arrow's interface. If the model knows the names of its columns, a table may have them in any order, with others beside them.
    """

    @abstractmethod
    def _current(self) -> Version:
        """Returns the version that predicts at this moment."""

    @property
    @abstractmethod
    def _child(self) -> child.Child:
        """The process that predicts."""

    def answers(self, X: Any, path: str = "/predict") -> Answers:
        """Returns what the program predicts of rows, all by one version."""
        while True:
            of = self._current()
            given = of.rows_of(X)
            parts: list[pa.Table | None] = []
            first = 0  # row of the batch
            for columns in _parts(given, len(of.labels)):
                try:
                    parts.append(self._part(of, given.schema, columns, path))
                except ValueError as reason:
                    raise ValueError(_placed(str(reason), first)) from None
                first += len(columns[0])
            if None not in parts:
                return _joined(of, [part for part in parts if part is not None])

    def _part(self, of: Version, schema: Sequence[pa.Field], columns: Sequence[Any], path: str) -> pa.Table | None:
        """Returns what the program predicts of some rows; None if that is of another version."""
        batch = pa.record_batch(columns, schema=pa.schema(schema))
        if any(arrow.has_text(f.type) and f.name in of.numeric for f in schema):  # numbers as text, which JSON may have
            objects = [{name: None if v != v else v for name, v in row.items()} for row in batch.to_pylist()]
            content = self._child.ask(path, json.dumps({"rows": objects}, default=str).encode(), child.JSON)
        else:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            content = self._child.ask(path, sink.getvalue())
        table = pa.ipc.open_stream(content).read_all()
        return table if int(table.schema.metadata[b"stagewise.version"]) == of.manifest["version"] else None

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
    def classes_(self) -> Labels:
        """The labels, in the order of the probabilities: whole numbers (int64) if all of them are, otherwise texts."""
        if self._current().numbers:
            raise AttributeError("the model predicts numbers: it has targets_, and no classes")
        return np.array(self.manifest["labels"])

    @property
    def targets_(self) -> npt.NDArray[np.str_]:
        """The names of the numbers that the model predicts."""
        if not self._current().numbers:
            raise AttributeError("the model predicts labels: it has classes_, and no targets")
        return np.array(self._current().labels)

    @property
    def n_features_in_(self) -> int:
        """How many columns a table has that the model predicts for."""
        return len(self._current().sources) or self._current().width

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The names of the columns. There is no such attribute if they are not known, as scikit-learn has it."""
        if not self._current().sources:
            raise AttributeError("the model does not know the names of its columns")
        return np.array(self._current().sources, dtype=object)

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        """Returns the probability of each class for each row (n × k)."""
        if self._current().numbers:
            raise TypeError("the model predicts numbers, which have no probabilities: call predict")
        return self.answers(X).values

    def predict(self, X: Any) -> Predictions:
        """Returns the label of each row (n), the most probable one or as a threshold of the version decides, or the numbers of each row (n × k; n if there is one).

        Of a model of several labels a row it returns 1 for each label that a row is given, and 0 for the others (n × k).
        """
        answers = self.answers(X)
        if answers.version.numbers:
            return answers.values[:, 0] if answers.values.shape[1] == 1 else answers.values
        labels: Labels = np.array(answers.version.manifest["labels"])
        return answers.places if answers.version.several else labels[answers.places]

    def score(self, X: Any, y: Any) -> float:
        """Returns the fraction of rows that are predicted right, of numbers R². Of several labels a row
        is right if all are, and y is as predict returns it. A label that is a number is the same in every type: 1, 1.0 and the text "1" are."""
        predicted = np.asarray(self.predict(X))
        if self._current().numbers:
            from sklearn.metrics import r2_score

            return float(r2_score(y, predicted))
        if self._current().several:
            return float(np.mean((predicted == np.asarray(y)).all(axis=1)))
        return float(np.mean(predicted.astype(str) == self._spelt(y)))

    def _spelt(self, y: Any) -> npt.NDArray[np.str_]:
        """Returns labels as texts, those that are numbers or booleans in the form that classes have."""
        known = set(self._current().labels)

        def spelt(label: Any) -> str:
            spellings = [label.decode(errors="replace") if isinstance(label, bytes) else str(label)]
            if isinstance(label, int | float) and float(label).is_integer():
                spellings += [str(label).lower(), str(int(label)), str(float(label))]
            return next((s for s in spellings if s in known), spellings[0])

        return np.array([spelt(label) for label in np.asarray(y).ravel().tolist()], dtype=str)

    @property
    def _estimator_type(self) -> str:
        return "regressor" if self._current().numbers else "classifier"

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
            estimator_type=self._estimator_type,
            target_tags=TargetTags(required=False, multi_output=of.numbers or of.several),
            classifier_tags=None if of.numbers else ClassifierTags(multi_label=of.several),
            regressor_tags=RegressorTags() if of.numbers else None,
            input_tags=InputTags(allow_nan=True, string=True, categorical=True),
        )


class Model(Classifier):
    """A finished version. It never changes, any number of threads may predict with it, and it can be pickled. `load` and `Follower.model` give models."""

    def __init__(self, content: bytes) -> None:
        """content is that of a model's file. It is read by the first call."""
        self._content = content
        self._process = child.Child("--model", content)
        self._read: Version | None = None

    def __repr__(self) -> str:
        of = self._current()
        what = f"{len(of.labels)} numbers" if of.numbers else f"{'any' if of.several else 'one'} of {len(of.labels)} labels"
        return f"<stagewise model {self.name}, version {self.version}: {self.n_features_in_} columns, {what}>"

    def __reduce__(self) -> tuple[Callable[[bytes], Model], tuple[bytes]]:
        return type(self), (self._content,)

    @property
    def _child(self) -> child.Child:
        return self._process

    def _current(self) -> Version:
        if self._read is None:
            try:
                self._read = version_of(self._process)
            except ValueError as reason:
                raise DamagedError(str(reason)) from None
        return self._read


def version_of(of: child.Child, status: Mapping[str, Any] | None = None) -> Version:
    """Returns the version that a process has. It has a status."""
    status = status or json.loads(of.ask("/status"))
    return Version(json.loads(of.ask("/model")), status["width"], status["sparse"])


def _parts(given: arrow.Rows, k: int) -> Iterator[list[Any]]:
    """Yields the columns of rows, of so few at a time that neither a request nor its response is large."""
    for batch in given.batches():
        size = sum(column.nbytes for column in batch) // max(1, len(batch[0])) + 8 * k  # of a row
        step = max(1, _LARGEST // size)
        for first in range(0, len(batch[0]), step):
            yield [column.slice(first, step) for column in batch]


def _placed(reason: str, first: int) -> str:
    """Returns the reason of a refusal with the place in all rows, of which some that begin with the first one were sent."""
    column = _COLUMN.match(reason)
    reason = f"column {column[1]}: {reason[column.end() :]}" if column else reason
    return re.sub(r"\brow (\d+)(, counted from 0)?", lambda row: f"row {first + int(row[1])}", reason.removeprefix("the request: "), count=1)


def _joined(of: Version, parts: Sequence[pa.Table]) -> Answers:
    k = len(of.labels)
    if not parts:
        empty = np.zeros((0, k), np.float64 if of.numbers else np.float32)
        kind = pa.int64() if of.manifest["labels"] and isinstance(of.manifest["labels"][0], int) else pa.utf8()
        return Answers(of, empty, pa.array([], pa.list_(kind) if of.several else kind))
    table = pa.concat_tables(parts)
    lists = table.column(table.num_columns - 1).combine_chunks()
    values = lists.flatten().to_numpy(zero_copy_only=False).reshape(-1, k)
    return Answers(of, values, None if of.numbers else table.column(0).combine_chunks())
