"""What a model predicts for a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import DamagedError
from .links import simplex
from .links.link import Matrix


class Task(Enum):
    """What a model predicts for a row."""

    LABEL = "one of k labels"
    LABELS = "any of k labels"
    NUMBERS = "k numbers"

    @staticmethod
    def of(plan: Mapping[str, Any]) -> Task:
        """Returns the task of a plan."""
        if plan.get("targets"):
            return Task.NUMBERS
        labels = plan.get("labels")
        if labels not in (None, "", "several"):
            raise DamagedError(f"a model of {labels} labels: install the stagewise package of the release that trained the model")
        if labels:
            return Task.LABELS
        return Task.LABEL

    @property
    def project(self) -> Callable[[Matrix], Matrix]:
        """What moves predictions to the nearest ones that there may be."""
        return {Task.LABEL: simplex, Task.LABELS: _clip, Task.NUMBERS: _stay}[self]


def _clip(prediction: Matrix) -> Matrix:
    return np.clip(prediction, 0, 1)


def _stay(prediction: Matrix) -> Matrix:
    return prediction


def mean_r2(truth: Any, predicted: npt.NDArray[np.float64]) -> float:
    """Returns R², a mean over the columns, as scikit-learn's r2_score has it."""
    y = np.asarray(truth, dtype=np.float64).reshape(len(predicted), -1)
    squares = ((y - predicted.reshape(len(predicted), -1)) ** 2).sum(axis=0)
    variance = ((y - y.mean(axis=0)) ** 2).sum(axis=0)
    return float(np.mean(np.where(variance > 0, 1 - squares / np.where(variance > 0, variance, 1), squares == 0)))
