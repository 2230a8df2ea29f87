"""The link of logistic regression."""

from __future__ import annotations

import numpy as np

from .link import Link, Matrix
from .simplex import simplex


class Softmax(Link):
    """Predicts the softmax of the score."""

    name = "softmax"
    unit = "logits"

    def predict(self, score: Matrix) -> Matrix:
        exponentials: Matrix = np.exp(score - score.max(axis=1, keepdims=True))
        exponentials /= exponentials.sum(axis=1, keepdims=True)
        return exponentials

    def invert(self, prediction: Matrix) -> Matrix:
        # A prediction of 0 must not become a score that no later stage can undo. With many classes the largest may be near 1/k.
        least = min(1e-3, 0.1 / prediction.shape[1])
        logarithms: Matrix = np.log(np.maximum(simplex(prediction), least)).astype(np.float32)
        return logarithms
