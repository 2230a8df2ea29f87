"""Normal scores of the ranks of numbers: `prepare.scale: ranks`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .errors import DamagedError
from .tensors import Matrix, Tensor, shaped


class Ranks:
    """Turns the numbers of columns into the scores that the survey has found for them."""

    def __init__(self, tensors: Mapping[str, Tensor], width: int) -> None:
        counts = shaped(tensors, "knot_counts", width)
        knots, self._missing = shaped(tensors, "knots", -1, 2), shaped(tensors, "missing", -1, 3)
        if not ((counts >= 0) & (counts == np.trunc(counts))).all() or counts.sum(dtype=np.float64) != len(knots):
            raise DamagedError(f"{len(knots)} knots, of which features have {counts.sum()}")
        features = self._missing[:, 0]
        if not ((features >= 0) & (features < width) & (features == np.trunc(features))).all():
            raise DamagedError("features that may be missing, which do not exist")
        ends = np.cumsum(counts.astype(np.int64))
        self._knots = {j: knots[ends[j] - int(n) : ends[j]] for j, n in enumerate(counts) if n}
        for j, of in self._knots.items():
            if not np.isfinite(of).all() or (np.diff(of[:, 0]) <= 0).any():
                raise DamagedError(f"knots of feature {j} that do not ascend")

    @property
    def further(self) -> int:
        """How many inputs say whether a value is missing."""
        return len(self._missing)

    def scores(self, raw: Matrix) -> Matrix:
        """Returns rows with the scores of their numbers (n × d). A missing value stays NaN."""
        scores = raw.copy()
        for j, of in self._knots.items():
            scores[:, j] = np.interp(raw[:, j].astype(np.float64), of[:, 0].astype(np.float64), of[:, 1].astype(np.float64))
        return scores

    def indicators(self, raw: Matrix) -> Matrix:
        """Returns the inputs that say whether values are missing (n × q)."""
        lacks = np.isnan(raw[:, self._missing[:, 0].astype(np.int64)]).astype(np.float32)
        indicators: Matrix = (lacks - self._missing[:, 1]) * self._missing[:, 2]
        return indicators
