"""The estimators: a class for each task. They train by running the program, and predict as models do."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_array, column_or_1d

from .estimator import Estimator, Target, free
from .model import Answers, spelt

# Probabilities of several labels are at least this, as scikit-learn expects them to be between 0 and 1: links that project make some 0.
_LEAST = 1e-7


class StagewiseClassifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """A classifier. y has a label for each row, or n × k of 0 and 1 for several labels a row."""

    __doc__ += f"\n\n    {Estimator.__doc__}"

    classes_: npt.NDArray[Any]
    _coded = False  # the program has the places of labels in classes_, not their texts

    def _target(self, y: Any, taken: Sequence[str], chain: bool) -> Target:
        if _is_indicator(y):
            matrix = y.tocsr() if hasattr(y, "tocsr") else np.asarray(y)  # its rows are in order
            if hasattr(y, "columns"):
                names = [str(c) for c in y.columns]
                return self._several(matrix, names, np.array(names), taken)
            numbers = np.arange(matrix.shape[1])
            return self._several(matrix, [str(i) for i in numbers], numbers, taken)
        self._indicator = False
        name = free(_name(y, "label"), taken)
        y = column_or_1d(_plain_array(y), warn=True)
        if y.dtype.kind in "fc" or y.dtype == object:
            check_array(y, ensure_2d=False, dtype=None, ensure_all_finite=True, input_name="y")
        y = _of_one_type(y)
        check_classification_targets(y)
        labels, codes = np.unique(y, return_inverse=True)
        if len(labels) < 2 and not chain:
            raise ValueError(f"y has 1 class, {labels.tolist()[0]!r}: a classifier needs at least two")
        words = None if chain and self._coded else _words_of(labels)
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
        return Target({name: column}, {"label": name} if chain else {"label": name, "classes": words})

    def _several(self, matrix: Any, words: list[str], classes: npt.NDArray[Any], taken: Sequence[str]) -> Target:
        """Returns the column of the labels that each row has: the matrix has 1 for each of them (n × k)."""
        self._indicator, self._coded, self._words, self.classes_ = True, False, words, classes
        name = free("labels", taken)
        rows, columns = matrix.nonzero()
        ends = np.searchsorted(rows, np.arange(matrix.shape[0] + 1)).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(ends), pa.array(np.array(words, dtype=object)[columns], pa.utf8()))
        return Target({name: lists}, {"label": name, "labels": "several", "classes": words})

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
        if self._coded:
            return
        self._words = texts.tolist()
        if self._indicator:
            return
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
        places = {word: place for place, word in enumerate(self._words)}
        return np.array([places[label] for label in self.model_.classes_.astype(str)], dtype=np.int64)

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

    def _target(self, y: Any, taken: Sequence[str], chain: bool) -> Target:
        if not _is_lists(y):
            return super()._target(y, taken, chain)
        from sklearn.preprocessing import MultiLabelBinarizer

        binarizer = MultiLabelBinarizer(sparse_output=True)
        matrix = binarizer.fit_transform([list(labels) for labels in y])
        words = _words_of(binarizer.classes_)
        if words is None:
            raise ValueError("labels: expected whole numbers or texts without space around them")
        return self._several(matrix, words, binarizer.classes_, taken)

    def labels_of(self, X: Any) -> list[list[Any]]:
        """Returns the labels that each row is given."""
        return [self.classes_[row.astype(bool)].tolist() for row in self.predict(X)]


class StagewiseRegressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """A regressor. y has a number for each row, or several (n × k)."""

    __doc__ += f"\n\n    {Estimator.__doc__}"

    def _target(self, y: Any, taken: Sequence[str], chain: bool) -> Target:
        names = [str(c) for c in y.columns] if hasattr(y, "columns") else None
        numbers = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if numbers.ndim == 2 and numbers.shape[1] == 1 and not hasattr(y, "columns"):
            numbers = column_or_1d(numbers, warn=True)
        self._flat = numbers.ndim == 1
        if self._flat:
            numbers = numbers[:, None]
        names = names or ([_name(y, "target")] if self._flat else [f"target{i}" for i in range(numbers.shape[1])])
        columns: dict[str, Any] = {}
        for j, name in enumerate(names):
            columns[free(name, [*taken, *columns])] = numbers[:, j]
        return Target(columns, {"targets": list(columns)})

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


def _name(y: Any, otherwise: str) -> str:
    """Returns the name of a column that has one."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else otherwise


def _plain_array(y: Any) -> Any:
    """Returns y with the type that it has in numpy, of the nullable types of pandas too, which numpy makes floats or objects."""
    plain = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if plain is not None and getattr(plain, "kind", "O") in "iub" and not y.isna().any():
        return y.to_numpy(dtype=plain)
    return y if hasattr(y, "__array__") else np.asarray(y)


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
    if isinstance(y, np.ndarray) and y.dtype != object:
        return False
    rows = list(y)
    return len(rows) > 0 and all(isinstance(labels, list | tuple | set | frozenset) for labels in rows) and not _is_matrix(rows)


def _is_matrix(rows: Sequence[Any]) -> bool:
    return len({len(row) for row in rows}) == 1 and len(rows[0]) > 1 and all(value in (0, 1) for row in rows for value in row)


def _is_indicator(y: Any) -> bool:
    if hasattr(y, "tocsr"):
        return True
    try:
        array = np.asarray(y)
    except ValueError:  # lists of different lengths
        return False
    return array.ndim == 2 and array.shape[1] > 1 and bool(type_of_target(array) == "multilabel-indicator")


def _words_of(labels: npt.NDArray[Any]) -> list[str] | None:
    """Returns labels as the program spells them; None if it would not tell them apart, or would not take them for labels."""
    words: list[str] = []
    for label in labels.tolist():
        if isinstance(label, str):
            if label != label.strip() or not label or any(unicodedata.category(c) in ("Cc", "Cs") for c in label):
                return None
            words.append(label)
        elif isinstance(label, bool | int) or isinstance(label, float) and label.is_integer():
            words.append(spelt(label))
        else:
            return None
    return words if len(set(words)) == len(words) and len({type(label) for label in labels.tolist()}) <= 1 else None
