"""Responses of patches of images to filters, summed over the cells of a grid."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ..errors import DamagedError
from .kind import Kind, Matrix, Setting

_ROWS = 64  # images at a time: their responses are in memory together


class Patches(Kind):
    """What the survey has learnt of a sample of images: a whitening, filters, and the moments of their responses."""

    name = "patches"

    def __init__(self, setting: Setting) -> None:
        options = setting.options
        side, count, self._grid = int(options["patch"]), int(options["filters"]), int(options["grid"])
        if len(setting.image) != 3:
            raise DamagedError("features of kind patches: the shape of the images is absent")
        self._image = height, width, channels = setting.image
        self._side, self._rectify = side, np.float32(options.get("rectify", 0))
        self._mirror, self._root = bool(options.get("mirror", False)), bool(options.get("root", False))
        self.size = 2 * count * self._grid**2
        self._center, self._divided = setting.center, np.divide(
            np.float32(1), setting.scale, out=np.zeros_like(setting.scale), where=setting.scale != 0
        )
        q = side * side * channels
        self._whitening, self._offset = setting.learnt("whitening", q, q), setting.learnt("offset", q)
        self._filters, self._contrast = setting.learnt("filters", q, count), setting.learnt("contrast", 1)[0]
        self._mean, self._factor = setting.learnt("mean", self.size), setting.learnt("factor", self.size)
        overlap = int(options.get("overlap", 0))
        self._down, self._across = _cells(height - side + 1, self._grid, overlap), _cells(width - side + 1, self._grid, overlap)

    def expand(self, inputs: Matrix, features: Matrix) -> None:
        for first in range(0, len(inputs), _ROWS):
            pixels = inputs[first : first + _ROWS] * self._divided + self._center
            images = pixels.reshape(-1, *self._image)
            sums = self._pool(images)
            if self._mirror:
                sums += self._pool(images[:, :, ::-1])
            if self._root:
                sums = np.sqrt(1 + sums)
            features[first : first + _ROWS] = (sums - self._mean) * self._factor

    def _pool(self, images: Matrix) -> Matrix:
        """Returns the sums of the rectified responses of images."""
        windows = np.lib.stride_tricks.sliding_window_view(images, (self._side, self._side), axis=(1, 2))
        n, rows, columns = windows.shape[:3]
        # a patch has its pixels row by row, and each pixel its channels
        patches = windows.transpose(0, 1, 2, 4, 5, 3).reshape(n * rows * columns, -1)
        q = patches.shape[1]
        centred = patches - patches.mean(1, keepdims=True, dtype=np.float64).astype(np.float32)
        variance = (centred * centred).sum(1, keepdims=True) / np.float32(max(q - 1, 1))
        white = (centred / np.sqrt(variance + self._contrast)) @ self._whitening - self._offset
        length = np.maximum(np.linalg.norm(white, axis=1, keepdims=True), np.float32(1e-6))
        z = ((white / length * np.float32(math.sqrt(q))) @ self._filters).reshape(n, rows, columns, -1)
        both = np.concatenate([np.maximum(z - self._rectify, 0), np.maximum(-z - self._rectify, 0)], -1)
        down = np.stack([both[:, first:end].sum(1) for first, end in self._down], 1)
        return np.stack([down[:, :, first:end].sum(2) for first, end in self._across], 2).reshape(n, -1)


def _cells(positions: int, grid: int, overlap: int) -> list[tuple[int, int]]:
    """Returns the first position of each cell, and the one after its last."""
    if positions < grid:
        raise DamagedError(f"features of kind patches: {positions} positions are fewer than the {grid} cells of the grid")
    edges = np.round(np.arange(grid + 1) * positions / grid).astype(np.int64).tolist()
    return [(max(first - overlap, 0), min(end + overlap, positions)) for first, end in itertools.pairwise(edges)]
