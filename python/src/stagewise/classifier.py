"""The interface of scikit-learn's classifiers and regressors, without scikit-learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .task import Task, mean_r2
from .values import word_of

Labels = npt.NDArray[np.str_] | npt.NDArray[np.int64]
Given = npt.NDArray[np.int64]
Predictions = Labels | Given | npt.NDArray[np.float64]


# What fit and clone say.
_TRAINED = (
    "a model that stagewise has trained can't be fitted again: it would be measured on rows that it has learnt. To predict with it in scikit-learn's "
    "tools, wrap it: sklearn.frozen.FrozenEstimator(model)"
)


class Classifier(ABC):
    """Predicts, and is trained already. sklearn.frozen.FrozenEstimator(model) may be a step of a Pipeline that is fitted.

    Rows are a NumPy array (n × d; NaN for a missing value), lists of numbers, or a table: of pandas, pyarrow, polars or whatever else
    has Arrow's interface. If the model knows the names of its columns, a table may have them in any order, with others beside them.
    """

    @property
    def _estimator_type(self) -> str:
        return "regressor" if self.task is Task.NUMBERS else "classifier"

    @property
    @abstractmethod
    def task(self) -> Task:
        """What the model predicts. A model of numbers has no classes and no probabilities: it is a regressor."""

    @property
    @abstractmethod
    def targets_(self) -> npt.NDArray[np.str_]:
        """The names of the numbers that the model predicts."""

    @property
    @abstractmethod
    def classes_(self) -> Labels:
        """The labels, in the order of the probabilities: whole numbers (int64) if all of them are, otherwise texts.

        Versions of earlier releases, which did not say what their labels are, have texts.
        """

    @property
    @abstractmethod
    def n_features_in_(self) -> int:
        """How many columns a table has that the model predicts for."""

    @property
    @abstractmethod
    def version(self) -> int:
        """The number of the version."""

    @abstractmethod
    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        """Returns the probability of each class for each row (n × k)."""

    @abstractmethod
    def predict(self, X: Any) -> Predictions:
        """Returns the label of each row (n), the most probable one or as a threshold of the version decides, or the numbers of each row (n × k; n if there is one).

        Of a model of several labels a row it returns 1 for each label that a row is given, and 0 for the others (n × k).
        """

    def score(self, X: Any, y: Any) -> float:
        """Returns the fraction of rows that are predicted right, of numbers R². Of several labels a row
        is right if all are, and y is as predict returns it. A label that is a number is the same in every type: 1, 1.0 and the text "1" are."""
        if self.task is Task.NUMBERS:
            return mean_r2(y, np.asarray(self.predict(X), dtype=np.float64))
        if self.task is Task.LABELS:
            return float(np.mean((np.asarray(self.predict(X)) == np.asarray(y)).all(axis=1)))
        return float(np.mean(labels_as(self.classes_, self.predict(X)) == labels_as(self.classes_, y)))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Raises a TypeError: stagewise trains models, this package predicts with them."""
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

        if self.task is Task.NUMBERS:
            return Tags(
                estimator_type="regressor",
                target_tags=TargetTags(required=False, multi_output=True),
                regressor_tags=RegressorTags(),
                input_tags=InputTags(allow_nan=True, string=True, categorical=True),
            )
        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=False, multi_output=self.task is Task.LABELS),
            classifier_tags=ClassifierTags(multi_label=self.task is Task.LABELS),
            input_tags=InputTags(allow_nan=True, string=True, categorical=True),
        )


def labels_as(classes: Labels, labels: Any) -> npt.NDArray[np.str_]:
    """Returns labels as texts, those that are numbers or booleans in the form that classes have."""
    array = np.asarray(labels)
    known, texts = {str(c) for c in classes}, {}
    found = []
    for label in array.ravel().tolist():
        of = type(label), label  # True and 1 are equal
        if of not in texts:
            texts[of] = _label(label, known)
        found.append(texts[of])
    return np.array(found, dtype=str).reshape(array.shape)


def _label(label: Any, known: set[str]) -> str:
    text = label.decode(errors="replace") if isinstance(label, bytes) else str(label)
    spellings = [text]
    if isinstance(label, str | int | float):
        spellings.append(word_of(label))
    if isinstance(label, bool):
        spellings.append(str(int(label)))
    elif isinstance(label, int | float) and float(label).is_integer():
        spellings.append(f"{label:.1f}")
    return next((s for s in spellings if s in known), text)
