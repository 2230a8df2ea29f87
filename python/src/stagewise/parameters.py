"""The parameters of the estimators, and the configuration that they make."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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
    """All parameters are keys of the configuration (docs/configuration.md), by their own names, and docs/python.md describes them. None is the
    program's default.

    Attributes: model_ is the model, with its manifest and version, and report_ what the run reports, as a mapping and as data frames.
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
            place[last] = plain(value)
        return configuration


def _set(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def write_configuration(path: str | Path, configuration: Mapping[str, Any]) -> None:
    """Writes a configuration as YAML: JSON, but with an escape that YAML has for each character beyond ASCII."""
    Path(path).write_bytes(json.dumps(configuration, indent=1, ensure_ascii=False).encode("ascii", "backslashreplace"))


def plain(value: Any) -> Any:
    """Returns a value of numpy or of Python as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): plain(v) for key, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value
