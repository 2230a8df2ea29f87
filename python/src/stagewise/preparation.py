"""How raw features (n × d) become the inputs of feature maps (n × m)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .answers import Answers
from .errors import DamagedError
from .ranks import Ranks
from .tensors import Matrix, Tensor, shaped

NAMES = (
    *("factors", "factor_columns", "factor_values", "center", "scale", "basis", "spread", "class_weight"),
    *("target_center", "target_rest", "target_scale"),
    *("image", "labels", "bins", "edges", "knot_counts", "knots", "missing"),
    *("whitening", "offset", "filters", "contrast", "mean", "factor"),  # of a stage of patches: followed by its number
)


class Preparation(Answers):
    """What the survey of a run has found."""

    def __init__(self, plan: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        super().__init__(plan, tensors)
        options = plan["prepare"]
        if options["scale"] not in ("none", "standard", "unit", "ranks"):
            raise DamagedError(f"prepare.scale is {options['scale']!r}, expected none, standard, unit or ranks")
        self._unit = options["scale"] == "unit"
        self._center = shaped(tensors, "center", -1)
        self.width = len(self._center)  # d
        self._scale = shaped(tensors, "scale", self.width)
        self._ranks = Ranks(tensors, self.width) if options["scale"] == "ranks" else None
        wide = self.width + (self._ranks.further if self._ranks else 0)
        self._basis = shaped(tensors, "basis", wide, options["pca"]) if options["pca"] else None
        self.inputs = wide if self._basis is None else self._basis.shape[1]  # m
        self.spread = float(shaped(tensors, "spread", 1)[0])
        self.center, self.scale, self.tensors = self._center, self._scale, tensors
        self.image: tuple[int, ...] = ()
        if "image" in tensors:
            self.image = tuple(int(n) for n in shaped(tensors, "image", 3))
            if min(self.image) < 1 or np.prod(self.image, dtype=object) != self.width:
                raise DamagedError(f"images of {self.image} for {self.width} features")

    def apply(self, raw: Matrix) -> Matrix:
        """Returns the inputs of rows. A missing value is NaN."""
        if self._unit:
            wide = raw.astype(np.float64)
            lengths = np.sqrt(np.nansum(wide * wide, axis=1, keepdims=True))
            raw = (wide / np.where(lengths == 0, 1, lengths)).astype(np.float32)
        inputs: Matrix = ((self._ranks.scores(raw) if self._ranks else raw) - self._center) * self._scale
        inputs[np.isnan(raw)] = 0  # the mean of a centred feature
        if self._ranks:
            inputs = np.concatenate([inputs, self._ranks.indicators(raw)], axis=1)
        return inputs if self._basis is None else inputs @ self._basis
