"""The parameters of the estimators, and the configuration that they make."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

# Parameters that are keys of the section examples, and those that are keys of their own.
OF_EXAMPLES = ("holdout", "missing", "words", "image", "augment", "partitions", "batch_rows")
_OF_ALL = ("stages", "prepare", "threshold", "average", "intercept", "seed", "memory", "arithmetic", "retrain", "brokers", "security")

# Parameters of scikit-learn's estimators that have another name here.
_ELSEWHERE = {
    **dict.fromkeys(("random_state", "random_seed"), "set seed"),
    "n_jobs": "the program uses all cores; the environment variable GOMAXPROCS limits them",
    **dict.fromkeys(("n_estimators", "max_iter"), 'set repeat in stages, as in stages=[{"features": {"kind": "trees"}, "repeat": 22}]'),
    **dict.fromkeys(("max_leaf_nodes", "num_leaves"), 'set leaves in stages, as in stages=[{"features": {"kind": "trees", "leaves": 32}}]'),
    "learning_rate": 'set rate in stages, as in stages=[{"features": {"kind": "trees"}, "rate": 0.5, "repeat": 22}]',
    "categorical_features": "set categorical",
}

_NAME = "model"  # of the pipeline, if the caller gives none


class _Named:
    """Says what to set for a parameter that only scikit-learn's estimators have."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        for name in _ELSEWHERE.keys() & given:
            raise TypeError(f"{cls.__name__} has no parameter {name}: {_ELSEWHERE[name]}")
        return super().__new__(cls)


@dataclass(kw_only=True, eq=False, repr=False)
class Parameters(_Named):
    """All parameters are keys of the configuration (docs/configuration.md), by their own names. None is the program's default.

    Parameters
    ----------
    stages : list of dict, optional
        The blocks of the model, such as ``[{"features": {"kind": "trees"}, "repeat": 22}]``. None: the program tries several on held-out rows,
        which takes 4 to 9 times as long as these.
    prepare, words, image, augment, retrain, security : optional
        As in the configuration.
    holdout, partitions, batch_rows : optional
        Those of the section ``examples``.
    missing : str, optional
        ``examples.missing``; None: "mean", so rows may lack values.
    categorical : list of str, int or bool, optional
        The columns of words: their names, their numbers, or a boolean for each. None: those whose dtype is a category or text.
    class_weight : "balanced" or dict, optional
        Of a classifier, the factor of the weights of each label's rows.
    threshold : float, "best_f1" or dict, optional
        Of a classifier of two classes, the minimum probability of the second one for a row to get it, or how to choose it.
    average, intercept, seed, memory, arithmetic : optional
        As in the configuration. seed is scikit-learn's random_state.
    settings : dict, optional
        Any other keys, by their full names, such as ``{"examples.columns.drop": ["id"]}``.
    name : str, optional
        The name of the pipeline.
    brokers : list of str, optional
        The addresses of a Kafka cluster. The rows go to its topics, so a cluster can serve the model.
    data_dir : path, optional
        The folder of the embedded broker's log, which is kept. None: a folder that is removed.
    verbose : int, optional
        1: show all that the program says; 0: nothing. None: on a terminal and in a notebook, show the current step if it takes more than two seconds.

    Attributes
    ----------
    model_ : Model
        The model, with its manifest and version.
    report_ : Report
        What the run reports, as a mapping and as data frames.
    """

    stages: Sequence[Mapping[str, Any]] | None = None
    prepare: Mapping[str, Any] | None = None
    holdout: float | None = None
    class_weight: Any = None
    threshold: Any = None
    average: int | None = None
    intercept: bool | None = None
    seed: int | None = None
    memory: str | int | None = None
    arithmetic: str | None = None
    categorical: Sequence[str] | Sequence[int] | Sequence[bool] | None = None
    missing: str | None = None
    words: Mapping[str, Any] | None = None
    image: Sequence[int] | None = None
    augment: Mapping[str, Any] | None = None
    retrain: Mapping[str, Any] | None = None
    partitions: int | None = None
    batch_rows: int | None = None
    settings: Mapping[str, Any] | None = None
    name: str | None = None
    brokers: Sequence[str] | None = None
    security: Mapping[str, Any] | None = None
    data_dir: str | os.PathLike[str] | None = None
    verbose: int | None = None

    def _configuration(self, data: str, examples: Mapping[str, Any], chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the configuration of a run. examples are keys of this section, and chosen those that the parameters may leave open."""
        own = {key: getattr(self, key) for key in OF_EXAMPLES}
        configuration: dict[str, Any] = {"name": self.name or _NAME, "data_dir": data, "examples": {"missing": "mean", **examples, **_set(own)}}
        configuration = plain({**configuration, **chosen, **_set({key: getattr(self, key) for key in _OF_ALL})})
        for name, value in (self.settings or {}).items():
            *sections, last = name.split(".")
            place = configuration
            for section in sections:
                place = place.setdefault(section, {})
            place[last] = value
        return configuration


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def configuration_file(configuration: Mapping[str, Any]) -> bytes:
    """Returns a configuration as YAML: JSON, but with an escape that YAML has for each character beyond ASCII."""
    return json.dumps(plain(configuration), indent=1, ensure_ascii=False).encode("ascii", "backslashreplace")


def plain(value: Any) -> Any:
    """Returns a value of numpy or of Python as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): plain(v) for key, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
