"""Predicts with the models that stagewise trains.

load(path) reads a model file. Both it and follow(brokers, name), which follows the versions of a pipeline on Kafka, give a model with
predict, predict_proba, classes_ and version: scikit-learn's interface.
"""

from __future__ import annotations

from .errors import BrokersError, DamagedError, NoVersionError
from .file import load
from .follow import Follower, Status, follow
from .model import Model

__all__ = ["BrokersError", "DamagedError", "Follower", "Model", "NoVersionError", "Status", "follow", "load"]
