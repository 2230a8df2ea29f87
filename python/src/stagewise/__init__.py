"""Trains models with stagewise, and predicts with them.

StagewiseClassifier, StagewiseMultiLabelClassifier and StagewiseRegressor are scikit-learn's estimators, whose fit runs the program.
load(path) reads a model file. Both it and follow(brokers, name), which follows the versions of a pipeline on Kafka, give a model with
predict, predict_proba, classes_ and version: scikit-learn's interface. A process of the program predicts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .model import Follower, Model, Status, follow, load
from .program import BrokersError, DamagedError, NoVersionError, ProgramError

if TYPE_CHECKING:
    from .estimators import StagewiseClassifier, StagewiseMultiLabelClassifier, StagewiseRegressor

__all__ = ["BrokersError", "DamagedError", "Follower", "Model", "NoVersionError", "ProgramError", "Status", "follow", "load"]
__all__ += ["StagewiseClassifier", "StagewiseMultiLabelClassifier", "StagewiseRegressor"]


def __getattr__(name: str) -> Any:
    """Imports the estimators when they are asked for: a service that only predicts needs no scikit-learn."""
    if name in __all__:
        from . import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
