"""One stage of a version: a block of features, and its weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import features, links
from .errors import DamagedError
from .members import Members
from .preparation import Preparation
from .task import Task
from .tensors import Matrix


@dataclass(frozen=True)
class Pass:
    """What one pass of Algorithm 2 has found. A stage whose link is known has the weights of one pass, and no calibration."""

    weights: Matrix  # p × k
    calibration: Matrix | None = None  # k for each power of the basis × k


class Block:
    """Makes the columns that the weights of a stage multiply: features, previous predictions, a column of ones."""

    def __init__(self, plan: Mapping[str, Any], number: int, preparation: Preparation) -> None:
        options = plan["stages"][number]
        self.link = links.named(options["link"])
        self.project = Task.of(plan).project
        self.basis = options.get("basis") or [1, 2, 3]  # powers of predictions that a link is fitted to
        setting = features.Setting(
            options["features"], plan["seed"], number, preparation.inputs, preparation.spread,
            preparation.center, preparation.scale, preparation.image, preparation.tensors, options.get("drawn") or (),
        )
        self._features = features.draw(setting)
        self._scores = len(preparation.labels) if options["scores"] else 0
        self._intercept = bool(plan["intercept"]) and Members(plan).begins(number)
        self.size = self._features.size + self._scores + self._intercept  # p

    def expand(self, inputs: Matrix, score: Matrix) -> Matrix:
        """Returns the block (n × p) of inputs (n × m), and of the score before the stage (n × k)."""
        block = np.empty((len(inputs), self.size), dtype=np.float32)
        p = self._features.size
        self._features.expand(inputs, block[:, :p])
        if self._scores:
            block[:, p : p + self._scores] = self.link.predict(score)
        if self._intercept:
            block[:, -1] = 1
        return block


class Stage:
    """A block with its weights."""

    def __init__(self, block: Any, classes: int, passes: Sequence[Pass]) -> None:
        if not block.link.learnt and len(passes) != 1:
            raise DamagedError(f"{len(passes)} passes of a stage whose link is {block.link.name}, expected one")
        for one in passes:
            _must_have("weights", one.weights, (block.size, classes))
            if block.link.learnt:
                _must_have("calibration", one.calibration, (len(block.basis) * classes, classes))
        self.block, self.link, self.passes = block, block.link, passes

    def score(self, block: Matrix, before: Matrix) -> Matrix:
        """Returns the score after the stage (n × k), given its block and the score before it. It is never clipped."""
        score = before.copy()
        for one in self.passes:
            score += block @ one.weights
        return score

    def shown(self, block: Matrix, before: Matrix) -> Matrix:
        """Returns the score that the stage's predictions are made of: if its link is learnt, that of Algorithm 2."""
        if not self.link.learnt:
            return self.score(block, before)
        shown = before
        for one in self.passes:
            score = shown + block @ one.weights
            assert one.calibration is not None  # as __init__ has checked
            shown = self.block.project(np.hstack([score**power for power in self.block.basis]) @ one.calibration)
        return shown


def _must_have(what: str, matrix: Matrix | None, shape: tuple[int, int]) -> None:
    if matrix is None:
        raise DamagedError(f"the {what} of a stage are absent")
    if matrix.shape != shape:
        raise DamagedError(f"the {what} of a stage have shape {list(matrix.shape)}, expected {list(shape)}")
