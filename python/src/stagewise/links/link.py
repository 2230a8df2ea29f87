"""What all links have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]


class Link(ABC):
    """How the score of a stage (n × k) becomes a prediction."""

    name: ClassVar[str]
    unit: ClassVar[str]  # of its scores: links of the same unit read each other's scores as they are
    outside: ClassVar[bool] = False  # predictions may lie where no probabilities are: they are projected
    learnt: ClassVar[bool] = False  # Algorithm 2 learns it: a stage has several passes, each with a calibration

    @abstractmethod
    def predict(self, score: Matrix) -> Matrix:
        """Returns the predictions g(score)."""

    @abstractmethod
    def invert(self, prediction: Matrix) -> Matrix:
        """Returns scores that predict this."""

    def convert(self, score: Matrix, to: Link) -> Matrix:
        """Returns scores of this link in the unit of another one."""
        return score if self.unit == to.unit else to.invert(self.predict(score))
