"""Structured orthogonal random features (Yu et al. 2016, "Orthogonal Random Features", section 4)."""

from __future__ import annotations

import numpy as np

from .kind import Kind, Matrix, Setting, wave

_SIGNS = 5  # the purpose of the draws of signs
_SHORTEST = 64  # of a transform


class SORF(Kind):
    """Every N features are √(2/p)·cos(u + b), u = H·D₁·H·D₂·H·D₃·x, with x padded by zeros to a power of two, N."""

    name = "sorf"

    def __init__(self, setting: Setting) -> None:
        self.size = int(setting.options["size"])
        n = max(_SHORTEST, 1 << (setting.inputs - 1).bit_length())
        self._transforms = -(-self.size // n)
        words = setting.stream(_SIGNS).words(0, 3 * self._transforms * n)
        signs = np.where(words >> np.uint64(63), np.float32(-1), np.float32(1)).reshape(self._transforms, 3, n)
        signs[:, 0] *= np.float32(setting.deviation() / n)
        self._diagonals = signs.transpose(1, 0, 2)  # round, transform, entry
        self._phases = setting.phases(self.size)
        # H of length a·b is the Kronecker product of those of lengths a and b: two small products do the transform.
        bits = n.bit_length() - 1
        self._left, self._right = _hadamard(bits // 2), _hadamard(bits - bits // 2)

    def expand(self, inputs: Matrix, features: Matrix) -> None:
        rows, n = len(inputs), self._diagonals.shape[2]
        a, b = len(self._left), len(self._right)
        angles = np.zeros((rows, self._transforms, n), dtype=np.float32)
        angles[:, :, : inputs.shape[1]] = inputs[:, np.newaxis]
        for diagonal in self._diagonals:
            angles *= diagonal
            angles = (self._left @ (angles.reshape(-1, b) @ self._right).reshape(-1, a, b)).reshape(angles.shape)
        features[:] = angles.reshape(rows, -1)[:, : self.size]
        wave(features, self._phases)


def _hadamard(bits: int) -> Matrix:
    """Returns the Walsh–Hadamard matrix of 2^bits rows, of 1 and −1."""
    h = np.ones((1, 1), dtype=np.float32)
    for _ in range(bits):
        h = np.block([[h, h], [h, -h]])
    return h
