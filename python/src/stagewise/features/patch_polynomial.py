"""Random monomials of random projections of pooled patches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .kind import Kind, Matrix, Setting
from .patches import Patches
from .polynomial import Polynomial


class PatchPolynomial(Kind):
    """The features of `polynomial` of those of `patches`, P of them: w is from N(0, I/(P·bandwidth_scale))."""

    name = "patch_polynomial"

    def __init__(self, setting: Setting) -> None:
        self._patches = Patches(setting)
        pooled = self._patches.size
        self._products = Polynomial(replace(setting, inputs=pooled, spread=2.0 * pooled))
        self.size = self._products.size

    def expand(self, inputs: Matrix, features: Matrix) -> None:
        pooled = np.empty((len(inputs), self._patches.size), np.float32)
        self._patches.expand(inputs, pooled)
        self._products.expand(pooled, features)
