"""The members of a version: models whose predictions it averages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import DamagedError
from .tensors import Matrix


class Members:
    """Which stages of a plan belong to which member. A version that averages none has one member."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.count = int(plan.get("average") or 1)
        stages = len(plan["stages"])
        if self.count < 1 or stages % self.count or not stages:
            raise DamagedError(f"average is {self.count}, of {stages} stages: expected as many stages of each member")
        self._each = stages // self.count
        self._temperatures = [float(stage.get("temperature") or 1) for stage in plan["stages"]]
        if not all(t > 0 for t in self._temperatures):
            raise DamagedError(f"temperatures {self._temperatures}, expected numbers above 0")

    def begins(self, stage: int) -> bool:
        """Whether a stage, counted from 0, is the first of its member."""
        return stage % self._each == 0

    def ends(self, stage: int) -> bool:
        """Whether a stage, counted from 0, is the last of its member."""
        return self.begins(stage + 1)

    def tempered(self, stage: int, score: Matrix) -> Matrix:
        """Returns the scores that predictions are made of: those after the last stage of a member are divided by its temperature."""
        temperature = self._temperatures[stage] if self.ends(stage) else 1
        return score if temperature == 1 else score * np.float32(1 / temperature)
