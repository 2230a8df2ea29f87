"""A finished version, which predicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from . import links
from .classifier import Classifier, Given, Labels, Predictions
from .errors import DamagedError
from .members import Members
from .preparation import Preparation
from .mixed import MixedLayout
from .sparse import SparseBlock, SparseLayout, SparsePreparation, is_sparse
from .stage import Block, Pass, Stage
from .table import Layout
from .task import Task
from .tensors import Matrix, Tensor, digest_of, shaped
from .trees import KIND, STRUCTURE, Coder, TreeBlock

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
        structures: Sequence[Mapping[str, Tensor]] = (),
    ) -> None:
        """Makes the model of a manifest, of the survey's tensors, and of the passes of each stage.

        before is a model whose random draws it may share, if they are the same. structures are the tensors of the trees of each stage:
        none of a stage of another kind, and of a model without trees none at all.
        """
        plan = manifest["plan"]
        self._task, self._members = Task.of(plan), Members(plan)
        tensors = [t for stage in passes for t in _tensors(stage)]
        trees = [dict(structure) for structure in structures] or [{} for _ in passes]
        content = [
            t for structure, stage in zip(trees, passes, strict=True) for t in (*_ordered(structure), *_tensors(stage))
        ]
        if (digest := digest_of([*content, *preparation.values()])) != manifest["weights_digest"]:
            raise DamagedError(f"the weights have digest {digest[:12]}, the manifest says {manifest['weights_digest'][:12]}")
        if not all(np.isfinite(tensor).all() for tensor in tensors):
            raise DamagedError("weights that are no finite numbers")
        int(manifest["version"]), str(manifest["name"]), str(manifest["run"])  # which properties return
        self.manifest = manifest
        self._drawn: Any = (_maps(plan), digest_of(preparation.values()), digest_of(t for structure in trees for t in _ordered(structure)))
        self._coder: Coder | None = None  # of a model with trees
        if before is not None and before._drawn == self._drawn:
            self._preparation: Preparation | SparsePreparation = before._preparation
            self._coder = before._coder
            blocks = [stage.block for stage in before._stages]
        elif is_sparse(preparation):
            self._preparation = sparse = SparsePreparation(plan, preparation)
            blocks = [SparseBlock(plan, number, sparse, links.named(stage["link"])) for number, stage in enumerate(plan["stages"])]
        else:
            self._preparation = dense = Preparation(plan, preparation)
            if "bins" in preparation:
                self._coder = Coder(preparation, dense.width)
            blocks = [
                TreeBlock(plan, number, self._coder, trees[number] if number < len(trees) else {})
                if stage["features"]["kind"] == KIND
                else Block(plan, number, dense)
                for number, stage in enumerate(plan["stages"])
            ]
        if not blocks or len(passes) != len(blocks):
            raise DamagedError(f"weights of {len(passes)} stages, the plan has {len(blocks)}")
        classes = len(self._preparation.labels)
        self._stages: list[Stage] = [Stage(block, classes, stage) for block, stage in zip(blocks, passes, strict=True)]
        mixed = "center" in preparation or "hash" in plan["input"]
        if not is_sparse(preparation):
            self._layout: Any = Layout(manifest, self._preparation.width)
        else:
            self._layout = MixedLayout(manifest) if mixed else SparseLayout(manifest)
        table = len(preparation.get("center", ())) if mixed else self._preparation.width
        if self._layout.columns and sum(c.features for c in self._layout.columns) != table:
            raise DamagedError(f"{self._preparation.width} features, the columns of the manifest have another number")
        self._labels = np.array(self._preparation.labels)
        self._classes = _classes(manifest.get("label_type"), self._preparation.labels)

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
        """The least probability of the labels that rows are given, of a model of several labels a row; of two classes, of the second one."""
        if self._task is Task.LABEL:
            return float(self.manifest.get("threshold") or 0.5)
        return float((self.manifest.get("thresholds") or {}).get("micro_f1", 0.5))

    @property
    def targets_(self) -> npt.NDArray[np.str_]:
        if self._task is not Task.NUMBERS:
            raise AttributeError("the model predicts labels: it has classes_, and no targets")
        return self._labels

    @property
    def n_features_in_(self) -> int:
        return len(self._layout.sources) or self._preparation.width

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The names of the columns. There is no such attribute if they are not known, as scikit-learn has it."""
        if not self._layout.columns:
            raise AttributeError("the model does not know the names of its columns")
        return np.array(self._layout.sources, dtype=object)

    @property
    def labels(self) -> npt.NDArray[np.str_]:
        """The labels, or the names of the numbers, as texts."""
        return self._labels

    def predict(self, X: Any) -> Predictions:
        answers = self.answers(X)
        if self._task is Task.NUMBERS:
            numbers = self.restore(answers)
            return numbers[:, 0] if numbers.shape[1] == 1 else numbers
        decided = self.decide(answers)
        if self._task is Task.LABELS:
            return decided
        labels: Labels = self._classes[decided]
        return labels

    def predict_proba(self, X: Any) -> npt.NDArray[np.float32]:
        if self._task is Task.NUMBERS:
            raise TypeError("the model predicts numbers, which have no probabilities: call predict")
        return self.answers(X)

    def decide(self, answers: Matrix) -> Given:
        """Returns the place of the label that each row of probabilities is given (n), or 1 for each label that it is given (n × k)."""
        if self._task is Task.LABELS:
            given: Given = (answers.astype(np.float64) >= self.threshold).astype(np.int64)
            return given
        threshold = self.manifest.get("threshold") if len(self._classes) == 2 else None
        decided: Given = (answers[:, 1].astype(np.float64) >= threshold).astype(np.int64) if threshold else np.argmax(answers, axis=1)
        return decided

    def restore(self, answers: Matrix) -> npt.NDArray[np.float64]:
        """Returns the numbers that standardised answers stand for (n × k)."""
        numbers: npt.NDArray[np.float64] = self._preparation.restore(answers)
        return numbers

    def answers(self, X: Any) -> Matrix:
        """Returns the probabilities of rows, or their numbers, standardised (n × k)."""
        raw = self._layout.features(X)
        answers = np.empty((len(raw), len(self._classes)), dtype=np.float32)
        for first in range(0, len(raw), _AT_ONCE):
            answers[first : first + _AT_ONCE] = self._probabilities(raw[first : first + _AT_ONCE])
        return answers

    def staged(self, X: Any) -> Iterator[Matrix]:
        """Yields the answers that the model has after each of its stages (n × k)."""
        if self._members.count > 1:
            raise ValueError("a model that averages has no answers after each stage: its members are trained side by side")
        raw = self._layout.features(X)
        parts = [raw[first : first + _AT_ONCE] for first in range(0, len(raw), _AT_ONCE)]
        inputs = [self._preparation.apply(part) for part in parts]
        scores: list[Matrix] = [np.zeros((len(part), len(self._classes)), dtype=np.float32) for part in parts]
        link = self._stages[0].link
        for number, stage in enumerate(self._stages):
            answers = []
            for i, part in enumerate(parts):
                score = link.convert(scores[i], stage.link)
                codes = self._coder.codes(part) if self._coder and isinstance(stage.block, TreeBlock) else inputs[i]
                block = stage.block.expand(codes, score)
                prediction = stage.link.predict(self._members.tempered(number, stage.shown(block, score)))
                answers.append(self._task.project(prediction) if stage.link.outside else prediction)
                scores[i] = stage.score(block, score)
            link = stage.link
            yield np.concatenate(answers) if answers else np.zeros((0, len(self._classes)), dtype=np.float32)

    def _probabilities(self, raw: Any) -> Matrix:
        inputs = self._preparation.apply(raw)
        codes = self._coder.codes(raw) if self._coder else None
        nothing = np.zeros((len(raw), len(self._classes)), dtype=np.float32)
        score, link, votes = nothing, self._stages[0].link, nothing
        for number, stage in enumerate(self._stages):
            score = nothing if self._members.begins(number) else link.convert(score, stage.link)
            link, block = stage.link, stage.block.expand(codes if isinstance(stage.block, TreeBlock) else inputs, score)
            if not self._members.ends(number):
                score = stage.score(block, score)
                continue
            prediction = link.predict(self._members.tempered(number, stage.shown(block, score)))
            votes = votes + (self._task.project(prediction) if link.outside else prediction)
        answers: Matrix = votes / np.float32(self._members.count)
        return answers


def _tensors(passes: Sequence[Pass]) -> list[Matrix]:
    """Returns the weights and calibrations of a stage, in the order of its file."""
    return [t for one in passes for t in (one.weights, one.calibration) if t is not None]


def _ordered(structure: Mapping[str, Tensor]) -> list[Matrix]:
    """Returns the tensors of a stage's trees, in the order of its file."""
    return [shaped(structure, name, -1) for name in STRUCTURE] if structure else []


def _classes(label_type: Any, labels: Sequence[str]) -> Labels:
    """Returns labels as what the manifest says that they are."""
    if label_type in (None, ""):
        return np.array(labels)
    if label_type != "int64":
        raise DamagedError(f"labels of type {label_type!r}: install the stagewise package of the release that trained the model")
    try:
        classes = np.array([int(label) for label in labels], dtype=np.int64)
    except (OverflowError, ValueError) as reason:
        raise DamagedError(f"labels that are no whole numbers, as the manifest says: {reason}") from reason
    return classes


def _maps(plan: Mapping[str, Any]) -> Any:
    """Returns what the blocks of a plan depend on, beside the survey's result."""
    stages = [(s["features"], s["link"], s["scores"]) for s in plan["stages"]]
    return Task.of(plan), plan["seed"], plan["intercept"], plan.get("average"), plan["prepare"], stages
