"""What all kinds of features have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..draws import Stream
from ..tensors import Tensor, shaped

Matrix = npt.NDArray[np.float32]

# Purposes of draws that several kinds share.
DIRECTIONS = 1  # + 16·l for factor l of a monomial
OFFSETS = 2


@dataclass(frozen=True)
class Setting:
    """What the draws of a stage's features depend on."""

    options: Mapping[str, Any]  # `features` of the plan's stage
    seed: int  # of the plan
    stage: int  # its number, from 0
    inputs: int  # m
    spread: float  # the median squared distance between the inputs of two rows
    center: Matrix  # of the raw features (d), as the preparation has it
    scale: Matrix  # of the raw features (d)
    image: tuple[int, ...]  # height, width and channels of examples that are images; none: they are none
    tensors: Mapping[str, Tensor]  # of the survey's result
    drawn: Sequence[Mapping[str, Any]] = ()  # columns that the stages before have drawn

    def stream(self, purpose: int) -> Stream:
        return Stream(self.seed, self.stage, purpose)

    def learnt(self, name: str, *shape: int) -> Matrix:
        """Returns a tensor of the survey's result that belongs to the stage."""
        return shaped(self.tensors, f"{name}/{self.stage}", *shape)

    def deviation(self) -> float:
        """Returns σ = √(2/s), the standard deviation of a direction's components."""
        return math.sqrt(2 / (self.spread * float(self.options["bandwidth_scale"])))

    def directions(self, size: int, factor: int = 0) -> Matrix:
        """Returns the directions w (m × size) of one factor of each feature."""
        draws = self.stream(DIRECTIONS + 16 * factor).normal(size * self.inputs)
        return np.ascontiguousarray((self.deviation() * draws).astype(np.float32).reshape(size, self.inputs).T)

    def phases(self, size: int) -> Matrix:
        """Returns the offsets of cosines, uniform on (0, 2π)."""
        return (2 * np.pi * self.stream(OFFSETS).uniform(size)).astype(np.float32)


class Kind(ABC):
    """One kind of features. To make one is to make all its draws. It never changes."""

    name: ClassVar[str]
    size: int  # the number of features

    @abstractmethod
    def __init__(self, setting: Setting) -> None: ...

    @abstractmethod
    def expand(self, inputs: Matrix, features: Matrix) -> None:
        """Writes the features (n × size) of the inputs (n × m)."""


def wave(angles: Matrix, phases: Matrix) -> None:
    """Turns angles (n × p) in place into √(2/p)·cos(angle + phase)."""
    angles += phases
    np.cos(angles, out=angles)
    angles *= np.float32(math.sqrt(2 / angles.shape[1]))
