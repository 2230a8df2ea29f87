"""Sigmoids of random projections."""

from __future__ import annotations

import numpy as np

from .kind import OFFSETS, Kind, Matrix, Setting


class Logits(Kind):
    """Feature j is 1/(1 + exp(−w·x − b)), with w from N(0, 2/s·I) and b standard normal."""

    name = "logits"

    def __init__(self, setting: Setting) -> None:
        self.size = int(setting.options["size"])
        self._directions = setting.directions(self.size)
        self._offsets = setting.stream(OFFSETS).normal(self.size).astype(np.float32)

    def expand(self, inputs: Matrix, features: Matrix) -> None:
        np.matmul(inputs, self._directions, out=features)
        features += self._offsets
        # 1/(1 + exp(−z)) is (1 + tanh(z/2))/2, which does not overflow.
        features *= np.float32(0.5)
        np.tanh(features, out=features)
        features += np.float32(1)
        features *= np.float32(0.5)
