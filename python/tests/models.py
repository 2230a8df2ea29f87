"""Small models for tests, made of nothing but a manifest and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from stagewise.model import Model
from stagewise.stage import Pass
from stagewise.tensors import Tensor, digest_of

LABELS = ["a", "b", "c"]


def plan_of(links: list[str], missing: str = "mean") -> dict[str, Any]:
    """Returns a plan with a stage for each link, whose features are the raw features themselves."""
    features = {"kind": "columns", "size": 0, "replacement": False, "bandwidth_scale": 1, "degree": 2}
    return {
        "missing": missing,
        "input": {},
        "prepare": {"scale": "none", "pca": 0},
        "intercept": False,
        "seed": 1,
        "stages": [{"features": features, "link": link, "scores": False} for link in links],
    }


def preparation_of(width: int = 3) -> dict[str, Tensor]:
    """Returns the survey's tensors for inputs that are the raw features themselves."""
    return {
        "center": np.zeros(width, dtype=np.float32),
        "scale": np.ones(width, dtype=np.float32),
        "spread": np.ones(1, dtype=np.float32),
        "labels": [chr(ord("a") + c) for c in range(width)],
    }


def linear(
    columns: list[Any] | None = None, missing: str = "mean", width: int = 3, scale: float = 1, labels: list[str] | None = None, label_type: str | None = None
) -> Model:
    """Returns a model whose score of class c is scale times feature c, of as many classes as features."""
    preparation, weights = preparation_of(width), scale * np.eye(width, dtype=np.float32)
    if labels is not None:
        preparation["labels"] = labels
    manifest: dict[str, Any] = {"name": "linear", "version": 1, "run": "run", "plan": plan_of(["softmax"], missing), "columns": columns}
    if label_type is not None:
        manifest["label_type"] = label_type
    manifest["weights_digest"] = digest_of([weights, *preparation.values()])
    return Model(manifest, preparation, [[Pass(weights)]])
