"""What the predictions of a model stand for: labels, or numbers as they were before they were standardised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from .errors import DamagedError
from .tensors import Matrix, Tensor, shaped


class Answers:
    """What the survey of a run has found of the labels, or of the numbers to predict."""

    def __init__(self, plan: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        labels = tensors.get("labels")
        if not isinstance(labels, list) or not labels:
            raise DamagedError("the labels are absent")
        self.labels = labels  # texts
        self._targets = None
        if plan.get("targets"):
            center, scale = (shaped(tensors, name, len(labels)).astype(np.float64) for name in ("target_center", "target_scale"))
            if "target_rest" in tensors:  # what float32 leaves of the means
                center += shaped(tensors, "target_rest", len(labels))
            self._targets = center, scale

    def restore(self, predictions: Matrix) -> npt.NDArray[np.float64]:
        """Returns the numbers that predictions of standardised numbers stand for: as float64, as float32 has steps of 128 at the seconds since 1970."""
        if self._targets is None:
            raise TypeError("the model predicts labels, which are not standardised")
        center, scale = self._targets
        restored: npt.NDArray[np.float64] = predictions.astype(np.float64) * scale + center
        return restored
