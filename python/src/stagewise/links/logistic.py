"""The link of logistic regression for each label by itself."""

from __future__ import annotations

import numpy as np

from .link import Link, Matrix


class Logistic(Link):
    """Predicts the logistic function of each score."""

    name = "logistic"
    unit = "logarithms of odds"
    outside = True

    def predict(self, score: Matrix) -> Matrix:
        return (1 / (1 + np.exp(-np.clip(score, -80, 80)))).astype(np.float32)

    def invert(self, prediction: Matrix) -> Matrix:
        least = min(1e-3, 0.1 / prediction.shape[1])
        p = np.clip(prediction.astype(np.float64), least, 1 - least)
        return np.log(p / (1 - p)).astype(np.float32)
