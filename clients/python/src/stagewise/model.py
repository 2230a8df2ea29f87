"""A finished version, which predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import links
from .classifier import Classifier, Given, Labels, Predictions
from .errors import DamagedError
from .members import Members
from .preparation import Preparation
from .sparse import SparseBlock, SparseLayout, SparsePreparation
from .stage import Block, Pass, Stage
from .table import Layout
from .task import Task
from .tensors import Matrix, Tensor, digest_of

# How many rows are predicted at a time. So a block is in memory for so many rows, however many there are.
_AT_ONCE = 512


class Model(Classifier):
    """A finished version. It never changes, and any number of threads may predict with it. `load` and `Follower.model` give models."""

    def __init__(
        self,
        manifest: Mapping[str, Any],
        preparation: Mapping[str, Tensor],
        passes: Sequence[Sequence[Pass]],
        before: Model | None = None,
    ) -> None:
        """Makes the model of a manifest, of the survey's tensors, and of the passes of each stage.

        before is a model whose random draws it may share, if they are the same.
        """
        plan = manifest["plan"]
        self._task, self._members = Task.of(plan), Members(plan)
        tensors = [t for stage in passes for one in stage for t in (one.weights, one.calibration) if t is not None]
        if (digest := digest_of([*tensors, *preparation.values()])) != manifest["weights_digest"]:
            raise DamagedError(f"the weights have digest {digest[:12]}, the manifest says {manifest['weights_digest'][:12]}")
        self.manifest = manifest
        self._drawn: Any = (_maps(plan), digest_of(preparation.values()))
        if before is not None and before._drawn == self._drawn:
            self._preparation: Preparation | SparsePreparation = before._preparation
            blocks = [stage.block for stage in before._stages]
        elif "factors" in preparation:
            self._preparation = sparse = SparsePreparation(plan, preparation)
            blocks = [SparseBlock(plan, number, sparse, links.named(stage["link"])) for number, stage in enumerate(plan["stages"])]
        else:
            self._preparation = dense = Preparation(plan, preparation)
            blocks = [Block(plan, number, dense) for number in range(len(plan["stages"]))]
        if not blocks or len(passes) != len(blocks):
            raise DamagedError(f"weights of {len(passes)} stages, the plan has {len(blocks)}")
        classes = len(self._preparation.labels)
        self._stages: list[Stage] = [Stage(block, classes, stage) for block, stage in zip(blocks, passes, strict=True)]
        self._layout: Any = SparseLayout(manifest) if "factors" in preparation else Layout(manifest, self._preparation.width)
        if self._layout.columns and sum(c.features for c in self._layout.columns) != self._preparation.width:
            raise DamagedError(f"{self._preparation.width} features, the columns of the manifest have another number")
        self._classes = np.array(self._preparation.labels)

    def __repr__(self) -> str:
        return f"<stagewise model {self.name}, version {self.version}: {self.n_features_in_} columns, {self._task.value.replace('k', str(len(self._classes)))}>"

    @property
    def name(self) -> str:
        """The name of the pipeline."""
        return str(self.manifest["name"])

    @property
    def version(self) -> int:
        return int(self.manifest["version"])

    @property
    def run(self) -> str:
        """The id of the run that made the version."""
        return str(self.manifest["run"])

    @property
    def task(self) -> Task:
        return self._task

    @property
    def classes_(self) -> Labels:
        if self._task is Task.NUMBERS:
            raise AttributeError("the model predicts numbers: it has targets_, and no classes")
        return self._classes

    @property
    def threshold(self) -> float:
        """The least probability of the labels that rows are given, of a model of several labels a row."""
        return float((self.manifest.get("thresholds") or {}).get("micro_f1", 0.5))

    @property
    def targets_(self) -> Labels:
        if self._task is not Task.NUMBERS:
            raise AttributeError("the model predicts labels: it has classes_, and no targets")
        return self._classes

    @property
    def n_features_in_(self) -> int:
        return len(self._layout.columns) or self._preparation.width

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The names of the columns. There is no such attribute if they are not known, as scikit-learn has it."""
        if not self._layout.columns:
            raise AttributeError("the model does not know the names of its columns")
        return np.array([c.name for c in self._layout.columns], dtype=object)

    def predict(self, X: Any) -> Predictions:
        answers = self._answers(X)
        if self._task is Task.NUMBERS:
            return answers[:, 0] if answers.shape[1] == 1 else answers
        if self._task is Task.LABELS:
            given: Given = (answers.astype(np.float64) >= self.threshold).astype(np.int64)
            return given
        labels: Labels = self._classes[np.argmax(answers, axis=1)]
        return labels

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        if self._task is Task.NUMBERS:
            raise TypeError("the model predicts numbers, which have no probabilities: call predict")
        return self._answers(X)

    def _answers(self, X: Any) -> Matrix:
        raw = self._layout.features(X)
        answers = np.empty((len(raw), len(self._classes)), dtype=np.float32)
        for first in range(0, len(raw), _AT_ONCE):
            answers[first : first + _AT_ONCE] = self._probabilities(raw[first : first + _AT_ONCE])
        return answers

    def _probabilities(self, raw: Any) -> Matrix:
        inputs = self._preparation.apply(raw)
        nothing = np.zeros((len(raw), len(self._classes)), dtype=np.float32)
        score, link, votes = nothing, self._stages[0].link, nothing
        for number, stage in enumerate(self._stages):
            score = nothing if self._members.begins(number) else link.convert(score, stage.link)
            link, block = stage.link, stage.block.expand(inputs, score)
            if not self._members.ends(number):
                score = stage.score(block, score)
                continue
            prediction = link.predict(stage.shown(block, score))
            votes = votes + (self._task.project(prediction) if link.outside else prediction)
        return self._preparation.restore(votes / np.float32(self._members.count))


def _maps(plan: Mapping[str, Any]) -> Any:
    """Returns what the blocks of a plan depend on, beside the survey's result."""
    stages = [(s["features"], s["link"], s["scores"]) for s in plan["stages"]]
    return Task.of(plan), plan["seed"], plan["intercept"], plan.get("average"), plan["prepare"], stages
