"""Compares what the package predicts with what `stagewise predict` wrote, for each model in a folder. predict_test.go runs it."""

from __future__ import annotations

import json
import pathlib
import sys

import numpy as np
import pandas

import stagewise


def compare(model_file: pathlib.Path, rows: pandas.DataFrame) -> dict[str, object]:
    model = stagewise.load(model_file)
    written = pandas.read_csv(model_file.with_suffix(".csv"))
    if list(written.columns) != ["label", *model.classes_]:
        raise SystemExit(f"{model_file}: classes {model.classes_}, expected {list(written.columns)}")
    probabilities = model.predict_proba(rows)
    return {
        "case": model_file.stem,
        "version": model.version,
        "difference": float(np.abs(probabilities - written[model.classes_].to_numpy()).max()),
        "same_labels": bool((model.predict(rows) == written["label"].to_numpy()).all()),
    }


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    table = pandas.read_csv(folder / "rows.csv")
    # The columns have names, so their order does not matter.
    table = table[table.columns[::-1]]
    print(json.dumps([compare(file, table) for file in sorted(folder.glob("*.model"))]))
