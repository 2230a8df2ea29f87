"""Random monomials of random projections."""

from __future__ import annotations

import numpy as np

from .kind import Kind, Matrix, Setting

_DEGREES = 4  # the purpose of the draws of how many factors a monomial has


class Polynomial(Kind):
    """Feature j is a product of 1 … degree projections w·x, with each w from N(0, 2/s·I), and their number uniform."""

    name = "polynomial"

    def __init__(self, setting: Setting) -> None:
        self.size = int(setting.options["size"])
        most = int(setting.options["degree"])
        degrees = 1 + setting.stream(_DEGREES).below(most, self.size)
        self._factors = []  # of each: the features that have it, and its directions
        for factor in range(most):
            having = np.flatnonzero(degrees > factor)
            self._factors.append((having, np.ascontiguousarray(setting.directions(self.size, factor)[:, having])))

    def expand(self, inputs: Matrix, features: Matrix) -> None:
        features[:] = 1
        for having, directions in self._factors:
            features[:, having] *= inputs @ directions
