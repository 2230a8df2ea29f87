"""Trains models with stagewise, and predicts with them, with scikit-learn's interface: see docs/python.md and python/README.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import BrokersError, DamagedError, NoVersionError, ProgramError
from .follow import Follower, Status, follow
from .model import Model, load

if TYPE_CHECKING:
    from .estimators import StagewiseClassifier, StagewiseMultiLabelClassifier, StagewiseRegressor

__all__ = [
    "BrokersError",
    "DamagedError",
    "Follower",
    "Model",
    "NoVersionError",
    "ProgramError",
    "StagewiseClassifier",
    "StagewiseMultiLabelClassifier",
    "StagewiseRegressor",
    "Status",
    "follow",
    "load",
]


def __getattr__(name: str) -> Any:
    """Imports the estimators when they are asked for: a service that only predicts needs no scikit-learn."""
    if name in __all__:
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
