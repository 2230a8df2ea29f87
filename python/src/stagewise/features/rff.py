"""Random Fourier features (Rahimi and Recht 2007)."""

from __future__ import annotations

import numpy as np

from .kind import Kind, Matrix, Setting, wave


class RFF(Kind):
    """Feature j is √(2/p)·cos(w·x + b), with w from N(0, 2/s·I) and b uniform on (0, 2π)."""

    name = "rff"

    def __init__(self, setting: Setting) -> None:
        self.size = int(setting.options["size"])
        self._directions, self._phases = setting.directions(self.size), setting.phases(self.size)

    def expand(self, inputs: Matrix, features: Matrix) -> None:
        np.matmul(inputs, self._directions, out=features)
        wave(features, self._phases)
