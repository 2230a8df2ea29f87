"""The inputs themselves, as features."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from ..draws import Stream
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
    if size == setting.inputs:
        return np.arange(size)
    return _choose_next(setting, size)


def _shuffled(stream: Stream, inputs: int) -> npt.NDArray[np.int64]:
    """Returns the numbers of the inputs after the shuffle of Fisher and Yates."""
    order = np.arange(inputs)
    others = np.arange(inputs) + stream.below(inputs - np.arange(inputs), inputs)
    for j, other in enumerate(others):
        order[j], order[other] = order[other], order[j]
    return order


def _choose_next(setting: Setting, size: int) -> npt.NDArray[np.int64]:
    """Returns the inputs to take after those of the stages before: see schemas/FORMAT.md."""
    queue: list[int] = []
    chosen: list[int] = []
    lists = itertools.count(int(setting.drawn[0]["stage"]) if setting.drawn else setting.stage)
    for draw in [*(int(d["size"]) for d in setting.drawn), size]:
        chosen, at = [], 0
        passed: list[int] = []
        taken = np.zeros(setting.inputs, dtype=bool)
        while len(chosen) < min(draw, setting.inputs):
            if at == len(queue):
                queue += _shuffled(Stream(setting.seed, next(lists), _COLUMNS), setting.inputs).tolist()
            (passed if taken[queue[at]] else chosen).append(queue[at])
            taken[queue[at]] = True
            at += 1
        queue = passed + queue[at:]
    return np.array(chosen)
