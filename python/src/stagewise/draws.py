"""The random draws of feature maps, as "The generator" of schemas/FORMAT.md defines them.

Draw i of a stream depends on i alone, so all draws of a map are made at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Doubles = npt.NDArray[np.float64]

_STEP = np.uint64(0x9E3779B97F4A7C15)

# Normal draws take a few arrays of this many values at a time, however large the map is.
_AT_ONCE = 1 << 20


def mix(z: Words) -> Words:
    """Returns one step of SplitMix64 (Steele, Lea and Flood 2014) from each of the numbers."""
    z = z + _STEP
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def hash_of(*values: int) -> int:
    """Returns the hash of some numbers below 2^64, in their order."""
    h = 0
    for value in values:
        h = int(mix(np.array([h ^ value], dtype=np.uint64))[0])
    return h


class Stream:
    """The draws of one stage of a plan for one purpose."""

    def __init__(self, seed: int, stage: int, purpose: int) -> None:
        self._key = np.array([hash_of(seed, stage, purpose)], dtype=np.uint64)

    def words(self, first: int, count: int) -> Words:
        """Returns the 64 random bits of draws first, first + 1, …"""
        return mix(self._key + np.arange(first, first + count, dtype=np.uint64) * _STEP)

    def uniform(self, count: int, first: int = 0) -> Doubles:
        """Returns draws from the uniform distribution on (0, 1)."""
        bits: Doubles = (self.words(first, count) >> np.uint64(12)).astype(np.float64)
        return (bits + 0.5) / 2.0**52

    def below(self, limit: int | npt.NDArray[np.int64], count: int) -> npt.NDArray[np.int64]:
        """Returns draws from 0, …, limit − 1. There may be a limit for each draw."""
        return (self.uniform(count) * limit).astype(np.int64)

    def normal(self, count: int) -> npt.NDArray[np.float64]:
        """Returns draws from the standard normal distribution (Box and Muller 1958)."""
        draws = np.empty(count + count % 2)
        for first in range(0, len(draws), _AT_ONCE):
            pairs = self.uniform(min(_AT_ONCE, len(draws) - first), first).reshape(-1, 2)
            radius, angle = np.sqrt(-2 * np.log(pairs[:, 0])), 2 * np.pi * pairs[:, 1]
            drawn = draws[first : first + _AT_ONCE].reshape(-1, 2)
            drawn[:, 0], drawn[:, 1] = radius * np.cos(angle), radius * np.sin(angle)
        return draws[:count]
