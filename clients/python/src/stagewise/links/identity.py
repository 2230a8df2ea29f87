"""The link that predicts the score itself."""

from __future__ import annotations

from .link import Link, Matrix
from .simplex import simplex


class Identity(Link):
    """Predicts the score itself."""

    name = "identity"
    unit = "predictions"

    def predict(self, score: Matrix) -> Matrix:
        return score

    def invert(self, prediction: Matrix) -> Matrix:
        return prediction

    def probabilities(self, prediction: Matrix) -> Matrix:
        return simplex(prediction)
