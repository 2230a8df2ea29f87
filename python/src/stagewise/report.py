"""The report of a run, as data frames and figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.metrics import ConfusionMatrixDisplay

from .program import needs

_SHOWN = ("rows", "error", "loss", "auc", "micro_f1", "rmse", "r2")  # by repr
_SPLITS = ("train", "holdout", "test")


class Report(dict[str, Any]):
    """What the program reports about a run (schemas/report.schema.json), a mapping. Its attributes are data frames of pandas."""

    def __repr__(self) -> str:
        splits = self.get("splits", {})
        measures = [m for m in _SHOWN if any(of.get(m) is not None for of in splits.values())]
        table = [["", *measures], *([split, *(_number(of.get(m)) for m in measures)] for split, of in splits.items())]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in table if splits]
        trained = f"{len(self['stages'])} stages" if "stages" in self else f"prequential error {_number(self.get('prequential_error'))} %"
        head = f"report of {self.get('name')}: {self.get('rows', 0):,} rows, {trained}, {self.get('seconds', 0):.1f} s; keys: {', '.join(self)}"
        return "\n".join([head, *lines])

    @property
    def errors(self) -> Any:
        """The measures of the final predictions: a row for each split. Errors are in percent."""
        splits = self.get("splits", {}).items()
        return _frame([{"split": split, **{k: v for k, v in of.items() if isinstance(v, int | float)}} for split, of in splits], "split")

    @property
    def losses(self) -> Any:
        """Errors and losses of each stage's final weights: a row for each stage, from 1."""
        return _by_stage(((s["stage"], s) for s in self.get("stages", [])), ("link", "passes", "ridge", "seconds"))

    @property
    def curves(self) -> Any:
        """The objective, errors and losses of each pass of each stage. Of a chain, the prequential error along its rows."""
        if "curve" in self:
            return _frame(self["curve"], "offset")
        passes = ((s["stage"], p) for s in self.get("stages", []) for p in s.get("by_pass", []))
        return _by_stage(passes, ("pass", "objective", "accepted"))

    @property
    def confusion(self) -> Any:
        """The confusion matrix of the rows that the model has not learnt, if there are any: a row for each true class."""
        pandas = needs("pandas")
        matrix = self["splits"][self._split(None)]["confusion"]
        return None if matrix is None else pandas.DataFrame(matrix, index=self["labels"], columns=self["labels"])

    def _split(self, split: str | None) -> str:
        splits = self.get("splits", {})
        if split is None:
            split = next(s for s in reversed(_SPLITS) if s in splits)
        if split not in splits:
            raise ValueError(f"split {split!r}: the report has {', '.join(splits)}")
        return split

    def plot(self, kind: str = "stages", split: str | None = None, ax: Any = None) -> Any:
        """Draws a figure with matplotlib, and returns its axes: see `plot` of the estimators."""
        figures = {"stages": self._plot_stages, "reliability": self._plot_reliability, "confusion": self._plot_confusion}
        if kind not in figures:
            raise ValueError(f"kind {kind!r}: expected {', '.join(figures)}")
        if ax is None:
            _, ax = needs("matplotlib.pyplot").subplots()
        figures[kind](self._split(split), ax)
        return ax

    def _plot_stages(self, _: str, ax: Any) -> None:
        named = self.losses.rename(columns=lambda name: ", ".join(reversed(name.split("_"))))
        errors, losses = named.filter(like="error, "), named.filter(like="loss, ")
        errors.plot(ax=ax, marker="o", ylabel="error, %", ylim=(0, None))
        losses.plot(ax=ax, secondary_y=True, linestyle="--", color=[line.get_color() for line in ax.get_lines()], ylabel="loss", ylim=(0, None))

    def _plot_reliability(self, split: str, ax: Any) -> None:
        bins = self["splits"][split].get("reliability")
        if not bins:
            raise ValueError("the report has no reliability: the model predicts numbers")
        CalibrationDisplay([b["accuracy"] for b in bins], [b["confidence"] for b in bins], None).plot(ax=ax, name=split)
        ax.set(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1))

    def _plot_confusion(self, split: str, ax: Any) -> None:
        matrix = self["splits"][split]["confusion"]
        if matrix is None:
            raise ValueError("the report has no confusion matrix: it has one of up to 724 classes, a label a row")
        labels = [str(label) for label in self["labels"]]
        display = ConfusionMatrixDisplay(np.array(matrix), display_labels=labels)
        turned = "vertical" if max(map(len, labels)) > 3 else "horizontal"
        display.plot(ax=ax, cmap="Blues", colorbar=False, include_values=len(labels) <= 20, values_format="d", xticks_rotation=turned)
        ax.set(xlabel="predicted", ylabel=f"true, {split}")


def _number(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _by_stage(parts: Iterable[tuple[int, dict[str, Any]]], keys: Sequence[str]) -> Any:
    """Returns a row for each part of a stage: what it has of some keys, and its errors and losses."""
    keys = [*keys, *(f"{split}_{what}" for split in _SPLITS for what in ("error", "loss"))]
    return _frame([{"stage": stage + 1, **{key: of[key] for key in keys if of.get(key) is not None}} for stage, of in parts], "stage")


def _frame(rows: list[dict[str, Any]], index: str) -> Any:
    frame = needs("pandas").DataFrame(rows)
    return frame.set_index(index) if index in frame else frame
