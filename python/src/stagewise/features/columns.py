"""The inputs themselves, as features."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import DamagedError
from .kind import Kind, Matrix, Setting

_COLUMNS = 3  # the purpose of the draws of inputs


class Columns(Kind):
    """All inputs in their order, or some that are drawn at random."""

    name = "columns"

    def __init__(self, setting: Setting) -> None:
        self.size = int(setting.options["size"]) or setting.inputs
        replacement = bool(setting.options["replacement"])
        if self.size > setting.inputs and not replacement:
            raise DamagedError(f"features of kind columns: {self.size} of {setting.inputs} inputs without replacement")
        self._chosen = _choose(setting, self.size, replacement)

    def expand(self, inputs: Matrix, features: Matrix) -> None:
        np.take(inputs, self._chosen, axis=1, out=features)


def _choose(setting: Setting, size: int, replacement: bool) -> npt.NDArray[np.int64]:
    """Returns the numbers of the inputs to take."""
    if replacement:
        return setting.stream(_COLUMNS).below(setting.inputs, size)
    chosen = np.arange(setting.inputs)
    if size == setting.inputs:
        return chosen
    # The shuffle of Fisher and Yates, stopped after as many draws as there are features.
    others = np.arange(size) + setting.stream(_COLUMNS).below(setting.inputs - np.arange(size), size)
    for j, other in enumerate(others):
        chosen[j], chosen[other] = chosen[other], chosen[j]
    return chosen[:size]
