"""The projection on the probability simplex."""

from __future__ import annotations

import numpy as np

from .link import Matrix


def simplex(prediction: Matrix) -> Matrix:
    """Returns the nearest point of the simplex for each row, in Euclidean distance.

    Duchi, Shalev-Shwartz, Singer, Chandra: Efficient Projections onto the ℓ1-Ball for Learning in High Dimensions,
    ICML 2008, figure 1 with z = 1.
    """
    descending = -np.sort(-prediction.astype(np.float64), axis=1)
    thresholds = (np.cumsum(descending, axis=1) - 1) / np.arange(1, prediction.shape[1] + 1)
    last = np.count_nonzero(descending > thresholds, axis=1) - 1  # the figure's ρ: it holds for all up to there
    theta = np.take_along_axis(thresholds, last[:, np.newaxis], axis=1)
    return np.maximum(prediction - theta, 0).astype(np.float32)
