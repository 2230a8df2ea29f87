"""The link that predicts the score itself."""

from __future__ import annotations

from .link import Link, Matrix


class Identity(Link):
    """Predicts the score itself."""

    name = "identity"
    unit = "predictions"
    outside = True

    def predict(self, score: Matrix) -> Matrix:
        return score

    def invert(self, prediction: Matrix) -> Matrix:
        return prediction
