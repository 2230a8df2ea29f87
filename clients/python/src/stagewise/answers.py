"""What the predictions of a model stand for: labels, or numbers as they were before they were standardised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import DamagedError
from .tensors import Matrix, Tensor, shaped


class Answers:
    """What the survey of a run has found of the labels, or of the numbers to predict."""

    def __init__(self, plan: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        labels = tensors.get("labels")
        if not isinstance(labels, list) or not labels:
            raise DamagedError("the labels are absent")
        self.labels = labels
        self._targets = None
        if plan.get("targets"):
            self._targets = shaped(tensors, "target_center", len(labels)), shaped(tensors, "target_scale", len(labels))

    def restore(self, predictions: Matrix) -> Matrix:
        """Returns the numbers that predictions of standardised numbers stand for. Other predictions stay as they are."""
        if self._targets is None:
            return predictions
        center, scale = self._targets
        restored: Matrix = (predictions.astype(np.float64) * scale + center).astype(np.float32)
        return restored
