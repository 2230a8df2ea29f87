"""Computes what scikit-learn says of the test rows of each model in a folder, beside what the report says. measures_test.go runs it."""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import numpy as np
import pandas
from sklearn import metrics
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, cross_val_score
from sklearn.preprocessing import label_binarize

import stagewise

LABEL, LABELS, NUMBERS = "a label", "labels", "numbers"


def task(model: stagewise.Model) -> str:
    """Returns what a model predicts for a row."""
    plan = model.manifest["plan"]
    return NUMBERS if plan.get("targets") else LABELS if plan.get("labels") else LABEL


def rows_types(model: stagewise.Model) -> dict[str, type] | None:
    """Returns how pandas reads labels that are texts: it would make 007 the number 7."""
    return {"label": str} if task(model) == LABEL and model.classes_.dtype.kind == "U" else None


def decided(model: stagewise.Model, rows: pandas.DataFrame, labels: Any, threshold: float) -> dict[str, Any]:
    """Returns what the report says of the threshold of a version, which predict and score obey."""
    predicted = model.predict(rows)
    expected = np.where(model.predict_proba(rows)[:, 1].astype(np.float64) >= threshold, model.classes_[1], model.classes_[0])
    np.testing.assert_array_equal(predicted, expected)
    if abs(model.score(rows, labels) - metrics.accuracy_score(labels, predicted)) > 1e-9:
        raise SystemExit(f"the score is {model.score(rows, labels)}")
    second = {"pos_label": model.classes_[1], "zero_division": 0}
    return {
        "decided": {
            "threshold": threshold,
            "confusion": metrics.confusion_matrix(labels, predicted, labels=model.classes_).tolist(),
            "error": 100 * (1 - metrics.accuracy_score(labels, predicted)),
            "balanced_error": 100 * (1 - metrics.balanced_accuracy_score(labels, predicted)),
            "precision": metrics.precision_score(labels, predicted, **second),
            "recall": metrics.recall_score(labels, predicted, **second),
            "f1": metrics.f1_score(labels, predicted, **second),
        }
    }


def measures(model: stagewise.Model, rows: pandas.DataFrame, labels: Any, thresholds: dict[str, float], file: pathlib.Path) -> dict[str, Any]:
    """Returns the measures of a split as the report names them. Of several labels a row each has a threshold of its own."""
    predicted = model.predict(rows)
    if task(model) == NUMBERS:
        return {
            "rmse": metrics.root_mean_squared_error(labels, predicted),
            "mae": metrics.mean_absolute_error(labels, predicted),
            "r2": metrics.r2_score(labels, predicted),
        }
    probabilities = np.maximum(model.predict_proba(rows).astype(np.float64), 1e-6)
    if task(model) == LABELS:
        given = {name: (model.predict_proba(rows).astype(np.float64) >= t).astype(int) for name, t in thresholds.items()}
        np.testing.assert_array_equal(given["micro_f1"], predicted)
        return {
            "hamming": metrics.hamming_loss(labels, given["hamming"]),
            "micro_f1": metrics.f1_score(labels, given["micro_f1"], average="micro"),
            "macro_f1": metrics.f1_score(labels, given["macro_f1"], average="macro", zero_division=0),
            "subset_accuracy": metrics.accuracy_score(labels, given["subset_accuracy"]),
            "brier": float(np.mean([metrics.brier_score_loss(y, p) for y, p in zip(labels.T, probabilities.T, strict=True)])),
        }
    if threshold := model.manifest.get("threshold"):
        return decided(model, rows, labels, threshold)
    last = probabilities[:, 1] if len(model.classes_) == 2 else probabilities
    truth = label_binarize(labels, classes=model.classes_)
    exact = model.predict_proba(rows).astype(np.float64)
    second, by_class = exact[:, 1], {"average": None, "labels": model.classes_, "zero_division": 0}
    train = pandas.read_csv(file.with_suffix(".train.csv"), dtype=rows_types(model))["label"]
    dummy = DummyClassifier(strategy="most_frequent").fit(np.zeros((len(train), 1)), train)
    frozen = FrozenEstimator(model)
    scores = {scoring: cross_val_score(frozen, rows, labels, cv=KFold(4), scoring=scoring).mean() for scoring in ("accuracy", "neg_log_loss", "roc_auc_ovr")}
    if not np.isfinite(list(scores.values())).all() or abs(scores["accuracy"] - model.score(rows, labels)) > 1e-9:
        raise SystemExit(f"the scores are {scores}, the model says {model.score(rows, labels)}")
    return {
        "error": 100 * (1 - metrics.accuracy_score(labels, predicted)),
        "log_loss": float(-np.log(probabilities[np.arange(len(labels)), np.searchsorted(model.classes_, labels)]).mean()),
        "brier": metrics.brier_score_loss(labels, last, pos_label=model.classes_[1]) if len(model.classes_) == 2 else metrics.brier_score_loss(labels, last),
        "confusion": metrics.confusion_matrix(labels, predicted, labels=model.classes_).tolist(),
        "rows": len(truth),
        "auc": metrics.roc_auc_score(labels, second)
        if truth.shape[1] == 1
        else metrics.roc_auc_score(labels, exact / exact.sum(axis=1, keepdims=True), multi_class="ovr", average="weighted", labels=model.classes_),
        "average_precision": metrics.average_precision_score(truth, second if truth.shape[1] == 1 else exact, average="weighted"),
        "balanced_error": 100 * (1 - metrics.balanced_accuracy_score(labels, predicted)),
        "majority_error": 100 * (1 - dummy.score(np.zeros((len(labels), 1)), labels)),
        "precision": metrics.precision_score(labels, predicted, **by_class).tolist(),
        "recall": metrics.recall_score(labels, predicted, **by_class).tolist(),
        "f1": metrics.f1_score(labels, predicted, **by_class).tolist(),
    }


def case(file: pathlib.Path) -> dict[str, Any]:
    model = stagewise.load(file)
    rows = pandas.read_csv(file.with_suffix(".test.csv"), dtype=rows_types(model))
    report = json.loads(file.with_suffix(".json").read_text())
    labels = rows.pop("label") if task(model) != LABELS else None
    if task(model) == LABELS:
        names = [str(name) for name in model.classes_]
        labels = rows[names].to_numpy()
        rows = rows.drop(columns=names)
    named = [int(c) if model.classes_.dtype == np.int64 else str(c) for c in model.classes_] if task(model) != NUMBERS else ["label"]
    if report["labels"] != named:
        raise SystemExit(f"{file}: the report has labels {report['labels']}, the model {named}")
    return {"case": file.stem, "report": report["splits"]["test"], "scikit-learn": measures(model, rows, labels, report.get("thresholds") or {}, file)}


if __name__ == "__main__":
    print(json.dumps([case(file) for file in sorted(pathlib.Path(sys.argv[1]).glob("*.model"))]))
