"""Compares what the package predicts with what `stagewise predict` wrote, for each model in a folder. predict_test.go runs it."""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import pandas

import stagewise
from stagewise.task import Task


def _labels(model: stagewise.Model, predicted: np.ndarray) -> np.ndarray:
    """Returns the labels of rows as `stagewise predict` writes them."""
    if model.task is not Task.LABELS:
        return predicted.astype(str)
    return np.array([";".join(model.classes_[row > 0].astype(str)) for row in predicted], dtype=object)


def compare(model_file: pathlib.Path, rows: pandas.DataFrame) -> dict[str, object]:
    model = stagewise.load(model_file)
    written = pandas.read_csv(model_file.with_suffix(".csv"))
    numbers = model.task is Task.NUMBERS
    names = [str(name) for name in (model.targets_ if numbers else model.classes_)]
    first = {Task.NUMBERS: [], Task.LABEL: ["label"], Task.LABELS: ["labels"]}[model.task]
    if list(written.columns) != [*first, *names]:
        raise SystemExit(f"{model_file}: {names}, expected {list(written.columns)}")
    predicted = model.predict(rows)
    answers = predicted.reshape(len(rows), -1) if numbers else model.predict_proba(rows)
    wanted = written[names].to_numpy()
    return {
        "case": model_file.stem,
        "version": model.version,
        "rows": len(answers),
        "difference": float((np.abs(answers - wanted) / (wanted.std(axis=0) if numbers else 1)).max()),
        "same_labels": numbers or bool((_labels(model, predicted) == written[first[0]].fillna("").astype(str).to_numpy()).all()),
    }


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    table = pandas.read_csv(folder / "rows.csv")
    # The columns have names, so their order does not matter.
    table = table[table.columns[::-1]]
    print(json.dumps([compare(file, table) for file in sorted(folder.glob("*.model"))]))
